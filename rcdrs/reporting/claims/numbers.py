"""Checks of numbers: near the paper's, within bounds, or close to each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from rcdrs.reporting.claims.checks import Check, OfTable, Outcome, Source, as_list, some, worst
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, Address, Paper, expect, printed
from rcdrs.reporting.coverage import RCDRS, READINGS, Reading
from rcdrs.reporting.statistics import AHEAD, BEHIND, paired

#: A cell in the ledger: method and metric, and what differs from the check's own table.
Cell = dict[str, Any]


def by_seeds(fulfils: Sequence[bool]) -> str:
    """`fulfils`: the mean first, then every seed.  All: holds; some: by seed noise; none: not."""
    return HOLDS if all(fulfils) else NOISE if any(fulfils) else FAILS


def _means(values: np.ndarray) -> list[float]:
    """Over all seeds, then of each seed; the paper's single number stands for itself."""
    seeds = values if values.ndim == 1 else values.mean(1)
    return [float(seeds.mean()), *map(float, seeds)]


@dataclass(frozen=True, kw_only=True)
class Close(OfTable):
    """The numbers of `rows` differ by at most the share `within`; 0 means equal."""

    rows: Sequence[str]
    within: float

    def methods(self) -> list[str]:
        return list(self.rows)

    def judge(self, source: Source) -> Outcome:
        found = []
        for column, row in product(self.columns(), self.rows[1:]):
            pair = paired(*(source.measure(column.of(method)) for method in (row, self.rows[0])))
            off = abs(pair.ratio - 1)
            clear = isinstance(source, Paper) or pair.call in (AHEAD, BEHIND)
            status = HOLDS if off <= self.within else FAILS if clear else NOISE
            name = f"{row} / {self.rows[0]}, {column.metric}, {column.benchmark}"
            found.append((off, f"{pair.ratio:.3g} ({name})", status))
        found.sort(key=lambda line: -line[0])
        apart = [name for _, name, status in found if status != HOLDS]
        lead = f"farthest of {len(found)}: " if len(found) > 1 else ""
        return Outcome(worst(s for *_, s in found), lead + found[0][1], some("apart: ", apart[1:]))


@dataclass(frozen=True, kw_only=True)
class Value(Check):
    """The cell `of`, over the cell `to` where it is given: above and below numbers or cells, or
    within `factor` of what the paper's cells give.  Several methods must all fulfil it."""

    of: Cell
    to: Cell = field(default_factory=dict)
    table: str = ""
    above: float | Cell | None = None
    below: float | Cell | None = None
    factor: float | None = None

    def tables(self) -> list[str]:
        return list(dict.fromkeys(cell.table for cell in self._cells("").values()))

    def validate(self) -> None:
        if all(bound is None for bound in (self.above, self.below, self.factor)):
            raise ValueError("it needs above, below or factor")
        for method in as_list(self.of["method"]):
            for cell in self._cells(method).values():
                printed().check(cell)

    def judge(self, source: Source) -> Outcome:
        methods = as_list(self.of["method"])
        values, statuses = [], []
        for method in methods:
            found, (low, high) = self._value(method, source), self._bounds(method, source)
            values.append(found[0])
            statuses.append(by_seeds([low <= value <= high for value in found]))
        shown = " to ".join(f"{v:.3g}" for v in dict.fromkeys((min(values), max(values))))
        told = ""
        if len(methods) > 1:
            shown += f" ({len(methods)} methods)"
            told = some("not: ", [m for m, s in zip(methods, statuses, strict=True) if s != HOLDS])
        if self.factor is None:  # a factor stands in the tolerance
            wanted = f"{low:.3g} to {high:.3g}" if math.isfinite(low) else f"< {high:.3g}"
            shown += f", wanted {wanted if math.isfinite(high) else f'> {low:.3g}'}"
        return Outcome(worst(statuses), shown, told)

    def _value(self, method: str, source: Source) -> list[float]:
        """Over all seeds, then of each seed."""
        cells = self._cells(method)
        above = _means(source.measure(cells["of"]))
        if not self.to:
            return above
        below = _means(source.measure(cells["to"]))
        return [a / b if b else math.inf for a, b in zip(above, below, strict=True)]

    def _bounds(self, method: str, source: Source) -> tuple[float, float]:
        cells, ends = self._cells(method), {"above": -math.inf, "below": math.inf}
        for name in ends:
            bound = getattr(self, name)
            if name in cells:
                ends[name] = _means(source.measure(cells[name]))[0]
            elif bound is not None:
                ends[name] = bound
        if self.factor is None:
            return ends["above"], ends["below"]
        paper = self._value(method, printed())[0]
        return max(ends["above"], paper / self.factor), min(ends["below"], paper * self.factor)

    def _cells(self, method: str) -> dict[str, Address]:
        """Numerator, denominator and bounds, as far as they are cells.

        A benchmark or depth that is the only one of its table need not be named.
        """
        of = {**self.of, "method": method}
        to = {**of, **self.to} if self.to else None
        found = {}
        for name, cell in {"of": of, "to": to, "above": self.above, "below": self.below}.items():
            if isinstance(cell, dict):
                parts = {"table": self.table, **cell}
                for part in ("benchmark", "K"):
                    known = printed().names(part, parts["table"])
                    if part not in parts and len(known) != 1:
                        raise ValueError(f"{cell} needs {part}, {parts['table']} has {known}")
                    parts.setdefault(part, known[0])
                found[name] = Address(**parts)
        return found


@dataclass(frozen=True, kw_only=True)
class Cells(OfTable):
    """Cells within `factor` of the paper's, or `within` in absolute terms."""

    rows: str | Sequence[str] = "all"
    factor: float | None = None
    within: float | None = None

    def methods(self) -> list[str]:
        return self.named(self.rows)

    def judge(self, source: Source) -> Outcome:
        found, logs, shown = [], [], []
        for column, method in product(self.columns(), self.methods()):
            cell = column.of(method)
            ours, paper = _means(source.measure(cell)), printed().cells[cell]
            shown.append(f"{method} {ours[0]:.3g}")
            logs.append(math.log(max(ours[0], 1e-300) / max(paper["mean"], 1e-300)))
            name = f"{cell}: {ours[0]:.3g} for {paper['mean']:.3g}"
            found.append((abs(logs[-1]), name, self._status(ours, paper)))
        listed = ", ".join(shown) if len(shown) <= 6 else ""  # few enough to show each
        if isinstance(source, Paper):
            return Outcome(HOLDS, listed or f"{len(found)} cells")
        far = [name for _, name, s in sorted(found, reverse=True) if s == FAILS]
        near = sum(status == HOLDS for *_, status in found)
        mean = f"ratio to the paper {math.exp(statistics.fmean(logs)):.2g} (geometric mean)"
        value = f"{near} of {len(found)} near" + (f", {mean}" if self.factor else "")
        return Outcome(worst(s for *_, s in found), listed or value, some("farthest: ", far))

    def _status(self, ours: list[float], printed: dict[str, Any]) -> str:
        """Twice the deviations of both, of ours and of the paper, count as noise."""
        mean, paper = ours[0], printed["mean"]
        if self.within is not None:
            near = abs(mean - paper) <= self.within
        else:
            assert self.factor is not None
            near = paper / self.factor <= mean <= paper * self.factor
        spread = statistics.stdev(ours[1:]) if len(ours) > 2 else 0.0
        noise = abs(mean - paper) <= 2 * math.hypot(spread, printed["std"])
        return HOLDS if near else NOISE if noise else FAILS


@dataclass(frozen=True, kw_only=True)
class Share(OfTable):
    """(start - part) / (start - whole): how much of an improvement one part brings alone."""

    start: str
    part: str
    whole: str
    above: float

    def methods(self) -> list[str]:
        return [self.start, self.part, self.whole]

    def judge(self, source: Source) -> Outcome:
        names, statuses = [], []
        for column in self.columns():
            start, part, whole = (
                np.array(_means(source.measure(column.of(row)))) for row in self.methods()
            )
            shares = np.divide(start - part, start - whole, where=start != whole, out=start * 0)
            statuses.append(by_seeds(list(shares >= self.above)))
            names.append(f"{100 * shares[0]:.0f} % ({column.metric}, {column.benchmark})")
        return Outcome(worst(statuses), ", ".join(names))


@dataclass(frozen=True, kw_only=True)
class Coverage(Check):
    """An item of the coverage summary in one reading: at least (at most) the paper's, give or take
    `within`; or below another item; or more settings won than another variant."""

    item: str
    side: str = ""
    within: float = 0.0
    below: str = ""
    against: str = ""
    reading: Reading = "classical"

    def tables(self) -> list[str]:
        return ["coverage"]

    def validate(self) -> None:
        expect("reading", self.reading, READINGS)
        for name in filter(None, (self.item, self.below)):
            expect("item of the coverage summary", name, printed().coverage[self.reading])
        if self.against:
            expect("variant", self.against, RCDRS)
        elif not self.below:
            expect("side", self.side, ("at least", "at most"))

    def judge(self, source: Source) -> Outcome:
        """The number of the other reading stands beside."""
        outcome = self.judge_in(source, self.reading)
        if isinstance(source, Paper):
            return outcome
        others = [
            f"over the strongest {label} {self.judge_in(source, reading).value}"
            for reading, label in READINGS.items()
            if reading != self.reading
        ]
        return replace(outcome, value="; ".join([outcome.value, *others]))

    def judge_in(self, source: Source, reading: Reading) -> Outcome:
        """In one reading, whatever its own is."""
        found, metric = source.coverage[reading], "Dist" if "distance" in self.item else "Gap"
        ours = found[self.item]
        if self.against:
            if isinstance(source, Paper):
                return Outcome(HOLDS, f"{ours[0]:.0f} against a number it does not give")
            theirs = source.wins(metric, self.against, reading)
            return Outcome(HOLDS if ours[0] >= theirs else FAILS, f"{ours[0]:.0f} against {theirs}")
        if self.below:
            other = found[self.below]
            fulfils = [a < b for a, b in zip(ours, other, strict=True)]
            return Outcome(by_seeds(fulfils), f"{ours[0]:.3g} against {other[0]:.3g}")
        paper, sign = (
            printed().coverage[reading][self.item][0],
            1 if self.side == "at least" else -1,
        )
        fulfils = [sign * (value - paper) >= -self.within for value in ours]
        detail = ""
        if not isinstance(source, Paper):
            detail = f"seed by seed {', '.join(f'{value:.3g}' for value in ours[1:])}"
            if self.item.endswith("_wins"):
                variants = RCDRS if "best" in self.item else ["RCDRS-Env"]
                clear = source.clear_wins(metric, variants, reading)
                detail = f"{clear} clear of noise; {detail}"
        return Outcome(by_seeds(fulfils), f"{ours[0]:.3g}", detail)
