"""Checks of numbers: near the paper's, within bounds, or close to each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rcdrs.reporting.claims.checks import Check, OfTable, Outcome, Source, as_list, some, worst
from rcdrs.reporting.claims.sources import (
    FAILS,
    HOLDS,
    NOISE,
    Address,
    Paper,
    unknown,
)
from rcdrs.reporting.coverage import RCDRS
from rcdrs.reporting.statistics import AHEAD, BEHIND, paired

#: A cell in the ledger: method and metric, and what differs from the check's own table.
Cell = dict[str, Any]


def by_seeds(fulfils: Sequence[bool]) -> str:
    """`fulfils`: the mean first, then every seed.  All: holds; some: by seed noise; none: not."""
    return HOLDS if all(fulfils) else NOISE if any(fulfils) else FAILS


@dataclass(frozen=True, kw_only=True)
class Close(OfTable):
    """The numbers of `rows` differ by at most the share `within`; 0 means equal."""

    rows: Sequence[str]
    within: float

    def methods(self, paper: Paper) -> list[str]:
        return list(self.rows)

    def judge(self, source: Source, paper: Paper) -> Outcome:
        found = []
        for benchmark, K, metric in self.columns(paper):
            first, *others = (
                source.measure(Address(self.table, benchmark, K, row, metric)) for row in self.rows
            )
            for row, values in zip(self.rows[1:], others, strict=True):
                pair = paired(values, first)
                off = abs(pair.ratio - 1)
                clear = isinstance(source, Paper) or pair.call in (AHEAD, BEHIND)
                status = HOLDS if off <= self.within else FAILS if clear else NOISE
                name = f"{row} / {self.rows[0]}, {metric}, {benchmark}"
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
        cells = self._numbers("")
        return list(dict.fromkeys(cell.get("table", self.table) for cell in cells))

    def validate(self, paper: Paper) -> None:
        if all(bound is None for bound in (self.above, self.below, self.factor)):
            raise ValueError("it needs above, below or factor")
        for method in as_list(self.of["method"]):
            for cell in self._numbers(method):
                paper.check(self._address(cell, paper))

    def judge(self, source: Source, paper: Paper) -> Outcome:
        methods = as_list(self.of["method"])
        found = [self._one(method, source, paper) for method in methods]
        values = [value for value, _ in found]
        shown = " to ".join(f"{v:.3g}" for v in dict.fromkeys((min(values), max(values))))
        failed = [m for m, (_, status) in zip(methods, found, strict=True) if status != HOLDS]
        named = f" ({len(methods)} methods)" if len(methods) > 1 else ""
        told = some("not: ", failed) if len(methods) > 1 else ""
        return Outcome(
            worst(s for _, s in found), shown + named + self._wanted(source, paper), told
        )

    def _wanted(self, source: Source, paper: Paper) -> str:
        """The bounds, as text; a factor stands in the tolerance."""
        if self.factor is not None:
            return ""
        low, high = self._bounds("", source, paper)
        if math.isfinite(low) and math.isfinite(high):
            return f", wanted {low:.3g} to {high:.3g}"
        return f", wanted > {low:.3g}" if math.isfinite(low) else f", wanted < {high:.3g}"

    def _one(self, method: str, source: Source, paper: Paper) -> tuple[float, str]:
        values = self._value(method, source, paper)
        low, high = self._bounds(method, source, paper)
        return values[0], by_seeds([low <= value <= high for value in values])

    def _numbers(self, method: str) -> list[Cell]:
        """The cells behind: numerator, denominator, bounds."""
        of = {**self.of, "method": method}
        to = [{**of, **self.to}] if self.to else []
        return [of, *to, *(b for b in (self.above, self.below) if isinstance(b, dict))]

    def _value(self, method: str, source: Source, paper: Paper) -> list[float]:
        """Over all seeds, then of each seed."""
        of = {**self.of, "method": method}
        above = _means(source.measure(self._address(of, paper)))
        if not self.to:
            return above
        below = _means(source.measure(self._address({**of, **self.to}, paper)))
        return [a / b if b else math.inf for a, b in zip(above, below, strict=True)]

    def _bounds(self, method: str, source: Source, paper: Paper) -> tuple[float, float]:
        def number(bound: float | Cell | None, default: float) -> float:
            if isinstance(bound, dict):
                return _means(source.measure(self._address(bound, paper)))[0]
            return default if bound is None else bound

        low, high = number(self.above, -math.inf), number(self.below, math.inf)
        if self.factor is not None:
            printed = self._value(method, paper, paper)[0]
            low, high = max(low, printed / self.factor), min(high, printed * self.factor)
        return low, high

    def _address(self, cell: Cell, paper: Paper) -> Address:
        """A benchmark or depth that is the only one of its table need not be named."""
        parts = {"table": self.table, **cell}
        for part in ("benchmark", "K"):
            known = paper.names(part, parts["table"])
            if part not in parts and len(known) != 1:
                raise ValueError(f"{cell} needs {part}, {parts['table']} has {known}")
            parts.setdefault(part, known[0])
        return Address(**parts)


@dataclass(frozen=True, kw_only=True)
class Cells(OfTable):
    """Cells within `factor` of the paper's, or `within` in absolute terms."""

    rows: str | Sequence[str] = "all"
    factor: float | None = None
    within: float | None = None

    def methods(self, paper: Paper) -> list[str]:
        return self.named(self.rows, paper)

    def judge(self, source: Source, paper: Paper) -> Outcome:
        found, logs, shown = [], [], []
        for benchmark, K, metric in self.columns(paper):
            for method in self.methods(paper):
                cell = Address(self.table, benchmark, K, method, metric)
                ours, printed = _means(source.measure(cell)), paper.cells[cell]
                shown.append(f"{method} {ours[0]:.3g}")
                off = max(ours[0], 1e-300) / max(printed["mean"], 1e-300)
                logs.append(math.log(off))
                name = f"{cell}: {ours[0]:.3g} for {printed['mean']:.3g}"
                found.append((abs(logs[-1]), name, self._status(ours, printed)))
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

    def methods(self, paper: Paper) -> list[str]:
        return [self.start, self.part, self.whole]

    def judge(self, source: Source, paper: Paper) -> Outcome:
        found = []
        for benchmark, K, metric in self.columns(paper):
            start, part, whole = (
                np.array(_means(source.measure(Address(self.table, benchmark, K, row, metric))))
                for row in self.methods(paper)
            )
            shares = np.divide(start - part, start - whole, where=start != whole, out=start * 0)
            status = by_seeds(list(shares >= self.above))
            found.append((f"{100 * shares[0]:.0f} % ({metric}, {benchmark})", status))
        return Outcome(worst(s for _, s in found), ", ".join(name for name, _ in found))


@dataclass(frozen=True, kw_only=True)
class Coverage(Check):
    """An item of the coverage summary: at least (at most) the paper's, give or take `within`;
    or below another item; or more settings won than another variant."""

    item: str
    side: str = ""
    within: float = 0.0
    below: str = ""
    against: str = ""

    def validate(self, paper: Paper) -> None:
        for name in filter(None, (self.item, self.below)):
            if name not in paper.coverage:
                unknown("item of the coverage summary", name, paper.coverage)
        if self.against and self.against not in RCDRS:
            unknown("variant", self.against, RCDRS)
        if not self.below and not self.against and self.side not in ("at least", "at most"):
            unknown("side", self.side, ("at least", "at most"))

    def judge(self, source: Source, paper: Paper) -> Outcome:
        ours = source.coverage[self.item]
        if self.against:
            return self._against(source, ours[0])
        if self.below:
            other = source.coverage[self.below]
            fulfils = [a < b for a, b in zip(ours, other, strict=True)]
            return Outcome(by_seeds(fulfils), f"{ours[0]:.3g} against {other[0]:.3g}")
        printed, sign = paper.coverage[self.item][0], 1 if self.side == "at least" else -1
        fulfils = [sign * (value - printed) >= -self.within for value in ours]
        return Outcome(by_seeds(fulfils), f"{ours[0]:.3g}", self._detail(source, ours))

    def _against(self, source: Source, ours: float) -> Outcome:
        if isinstance(source, Paper):
            return Outcome(HOLDS, f"{ours:.0f} against a number it does not give")
        theirs = source.wins(self._metric, self.against)
        return Outcome(HOLDS if ours >= theirs else FAILS, f"{ours:.0f} against {theirs}")

    def _detail(self, source: Source, ours: list[float]) -> str:
        if isinstance(source, Paper):
            return ""
        seeds = f"seed by seed {', '.join(f'{value:.3g}' for value in ours[1:])}"
        if not self.item.endswith("_wins"):
            return seeds
        clear = source.clear_wins(self._metric, RCDRS if "best" in self.item else ["RCDRS-Env"])
        return f"{clear} clear of noise; {seeds}"

    @property
    def _metric(self) -> str:
        return "Dist" if "distance" in self.item else "Gap"


def _means(values: np.ndarray) -> list[float]:
    """Over all seeds, then of each seed; the paper's single number stands for itself."""
    seeds = values if values.ndim == 1 else values.mean(1)
    return [float(seeds.mean()), *map(float, seeds)]
