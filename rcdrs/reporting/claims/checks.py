"""The vocabulary of the ledger: what a claim says, as a check of the paper's cells or of a run's.

    order      each of `better` is lower (Pass: higher) than each of `than`
    close      the numbers of `rows` agree within a relative difference
    value      a cell, or the quotient of two, lies above, below, or near the paper's
    cells      many cells lie near the paper's
    bold       the paper's bold cells are the best of their columns
    share      how much of the way from `start` to `whole` the row `part` goes
    coverage   an item of the summary over the 36 settings
    constants  an inequality between numbers of the paper's text and of the configuration
    test       tests of this repository
    all        other claims together
    unavailable  what cannot be checked here, and why

Every check is a dataclass whose fields are the keys in the ledger, apart from `kind`.  Orderings
are in `orderings`, the rest in `numbers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, Address, Ours, Paper, unknown
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
    """`sources`: on whose numbers it is made."""

    sources: ClassVar[tuple[str, ...]] = ("paper", "ours")

    def validate(self, paper: Paper) -> None:
        """An error where a name does not exist."""

    def tables(self) -> list[str]:
        """The paper's tables it is about."""
        return []

    def judge(self, source: Source, paper: Paper) -> Outcome:
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

    def validate(self, paper: Paper) -> None:
        known = dict.fromkeys(address.table for address in paper.cells)
        if self.table not in known:
            unknown("table", self.table, known)
        for column in self.columns(paper):
            for method in self.methods(paper):
                paper.check(Address(self.table, *column[:2], method, column[2]))

    def methods(self, paper: Paper) -> list[str]:
        """The rows it names."""
        return []

    def columns(self, paper: Paper) -> Iterator[tuple[str, int, str]]:
        """(benchmark, K, metric); times only where they are asked for."""
        depths = [self.K] if isinstance(self.K, int) else list(self.K)
        metrics = [m for m in paper.names("metric", self.table) if m != TIME]
        yield from product(
            self.benchmarks or paper.names("benchmark", self.table),
            depths or paper.names("K", self.table),
            self.metrics or metrics,
        )

    def named(self, rows: str | Sequence[str], paper: Paper, but: Sequence[str] = ()) -> list[str]:
        """Rows by name, or ``baselines`` (not RCDRS), ``rest`` (not `but`), ``all``."""
        known = [str(name) for name in paper.names("method", self.table)]
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
