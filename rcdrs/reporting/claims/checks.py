"""The vocabulary of the ledger: what a claim says, as a check of the paper's cells or of a run's.

    order      each of `better` is lower (Pass: higher) than each of `than`
    close      the numbers of `rows` agree within a relative difference
    value      a cell, or the quotient of two, lies above, below, or near the paper's
    cells      many cells lie near the paper's
    bold       the paper's bold cells are the best of their columns
    share      how much of the way from `start` to `whole` the row `part` goes
    coverage   an item of the summary over the 36 settings, in one of its readings
    constants  an inequality between numbers of the paper's text and of the configuration
    test       tests of this repository
    all        other claims together
    unavailable  what cannot be checked here, and why

Every check is a dataclass whose fields are the keys in the ledger, apart from `kind`.  Orderings
are in `orderings`, the rest in `numbers` and `evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from rcdrs.reporting.claims.sources import (
    FAILS,
    HOLDS,
    NOISE,
    Address,
    Ours,
    Paper,
    expect,
    printed,
)
from rcdrs.reporting.results import TIME

Source = Paper | Ours
WORST_FIRST = (FAILS, NOISE, HOLDS)


@dataclass(frozen=True)
class Outcome:
    """What a check says of one source: a status, the number behind it, and what is notable."""

    status: str
    value: str
    detail: str = ""


def worst(statuses: Iterable[str]) -> str:
    return min(statuses, key=WORST_FIRST.index)


@dataclass(frozen=True)
class Check:
    """`on_paper`: whether it is also made on the paper's own numbers."""

    on_paper: ClassVar[bool] = True

    def validate(self) -> None:
        """An error where a name does not exist."""

    def tables(self) -> list[str]:
        """The paper's tables it is about."""
        return []

    def judge(self, source: Source) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True)
class OfTable(Check):
    """A check of some columns of one table; what is not named means all there are."""

    table: str
    metrics: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    K: int | Sequence[int] = ()

    def tables(self) -> list[str]:
        return [self.table]

    def validate(self) -> None:
        expect("table", self.table, printed().tables)
        for column, method in product(self.columns(), self.methods()):
            printed().check(column.of(method))

    def methods(self) -> list[str]:
        """The rows it names."""
        return []

    def columns(self) -> list[Address]:
        """Times only where they are asked for."""
        names = {part: printed().names(part, self.table) for part in ("benchmark", "K", "metric")}
        depths = [self.K] if isinstance(self.K, int) else list(self.K)
        found = product(
            self.benchmarks or names["benchmark"],
            depths or names["K"],
            self.metrics or [metric for metric in names["metric"] if metric != TIME],
        )
        return [Address(self.table, *column) for column in found]

    def named(self, rows: str | Sequence[str], but: Sequence[str] = ()) -> list[str]:
        """Rows by name, or ``baselines`` (not RCDRS), ``rest`` (not `but`), ``all``."""
        known = [str(name) for name in printed().names("method", self.table)]
        groups = {
            "all": known,
            "rest": [name for name in known if name not in but],
            "baselines": [name for name in known if not name.startswith("RCDRS")],
        }
        return groups[rows] if isinstance(rows, str) and rows in groups else list(as_list(rows))


def as_list(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def some(lead: str, names: Sequence[str], most: int = 4) -> str:
    """``lead a; b; c; and 5 more``; nothing for none."""
    if not names:
        return ""
    rest = [f"and {len(names) - most} more"] if len(names) > most else []
    return lead + "; ".join([*names[:most], *rest])
