"""Checks of who is better than whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcdrs.reporting.claims.checks import WORST_FIRST, OfTable, Outcome, Source, some, worst
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, Address, Paper
from rcdrs.reporting.formatting import LARGER_IS_BETTER
from rcdrs.reporting.statistics import TIED, Paired, paired


@dataclass(frozen=True)
class _Found:
    """One comparison of an ordering."""

    name: str
    pair: Paired
    status: str


@dataclass(frozen=True, kw_only=True)
class Order(OfTable):
    """`by`: at least so many times.  `best_of`: the best of `better` counts, column by column.
    `combined`: by the geometric mean of all columns instead of one by one."""

    better: Sequence[str]
    than: str | Sequence[str] = "baselines"
    by: float = 1.0
    best_of: bool = False
    combined: bool = False

    def methods(self, paper: Paper) -> list[str]:
        return [*self.better, *self.named(self.than, paper, self.better)]

    def judge(self, source: Source, paper: Paper) -> Outcome:
        columns = list(self.columns(paper))
        groups = [columns] if self.combined else [[column] for column in columns]
        found, noisy = [], 0
        for group in groups:
            values = {m: self._measure(source, m, group) for m in self.methods(paper)}
            lowest = sorted(self.better, key=lambda m: values[m].mean())
            if group[0][2] in LARGER_IS_BETTER:
                lowest.reverse()
            for a in lowest[:1] if self.best_of else self.better:
                for b in self.named(self.than, paper, self.better):
                    found.append(self._compare(source, group, a, b, values))
                    ends = [Address(self.table, *group[0][:2], m, group[0][2]) for m in (a, b)]
                    noisy += not self.combined and paper.by_noise(*ends)
        return _summary(found, noisy if isinstance(source, Paper) else None)

    def _measure(
        self, source: Source, method: str, columns: list[tuple[str, int, str]]
    ) -> np.ndarray:
        found = [
            source.measure(Address(self.table, benchmark, K, method, metric))
            for benchmark, K, metric in columns
        ]
        if len(found) == 1:
            return found[0]
        means = [values if values.ndim == 1 else values.mean(1) for values in found]
        return np.exp(np.mean(np.log(np.maximum(means, np.finfo(float).tiny)), axis=0))

    def _compare(
        self, source: Source, group: list[Any], a: str, b: str, values: dict[str, np.ndarray]
    ) -> _Found:
        benchmark, K, metric = group[0]
        low, high = (b, a) if metric in LARGER_IS_BETTER else (a, b)
        pair = paired(values[low] * self.by, values[high])
        where = "all columns" if self.combined else f"{metric}, {benchmark}, K={K}"
        name = f"{low} / {high}, {where}"
        return _Found(f"{self.by:g} x {name}" if self.by != 1 else name, pair, source.status(pair))


@dataclass(frozen=True, kw_only=True)
class Bold(OfTable):
    """The paper's bold cells: the best of its own columns, ties included; the best here too."""

    def judge(self, source: Source, paper: Paper) -> Outcome:
        found = []
        for benchmark, K, metric in self.columns(paper):
            cells = {
                method: Address(self.table, benchmark, K, method, metric)
                for method in paper.names("method", self.table, benchmark, K)
            }
            marked = [method for method, cell in cells.items() if paper.cells[cell]["bold"]]
            if marked:
                found.append(self._column(source, paper, cells, marked))
        failed = [name for name, status in found if status == FAILS]
        count = f"{sum(status != FAILS for _, status in found)} of {len(found)} columns"
        by_noise = sum(status == NOISE for _, status in found)
        told = f", {by_noise} of them by noise" if by_noise else ""
        return Outcome(worst(s for _, s in found), count + told, some("not: ", failed))

    def _column(
        self, source: Source, paper: Paper, cells: dict[str, Address], marked: list[str]
    ) -> tuple[str, str]:
        sign = -1 if next(iter(cells.values())).metric in LARGER_IS_BETTER else 1
        values = {method: sign * source.measure(cell).mean() for method, cell in cells.items()}
        best = min(values, key=lambda method: values[method])
        name = f"{cells[best].metric}, {cells[best].benchmark}, K={cells[best].K}"
        if isinstance(source, Paper):
            lowest = [method for method in values if values[method] == values[best]]
            name += f" (lowest {', '.join(lowest)}; bold {', '.join(marked)})"
            return name, HOLDS if set(lowest) == set(marked) else FAILS
        name += f" (here {best}, in the paper {', '.join(marked)})"
        first = min(marked, key=lambda method: values[method])
        others = [method for method in cells if method not in marked]
        if not others:
            return name, HOLDS
        second = min(others, key=lambda method: values[method])
        ends = [source.measure(cells[method]) for method in (first, second)][::sign]
        pair = paired(*ends)
        return name, HOLDS if pair.call == TIED else source.status(pair)


def _summary(found: list[_Found], noisy: int | None) -> Outcome:
    """Of an ordering: the worst ratio, and what is not clear."""
    found = sorted(found, key=lambda f: (WORST_FIRST.index(f.status), -f.pair.ratio))
    first = found[0]
    lead = "worst of " + str(len(found)) + ": " if len(found) > 1 else ""
    value = f"{lead}{first.pair.ratio:.4g} ({first.name})"
    if noisy is not None:  # the paper's own numbers
        told = f"{noisy} of {len(found)} within the paper's own deviations" if noisy else ""
        return Outcome(first.status, value, told)
    unclear = [f"{f.name}: {f.pair}, {f.pair.call}" for f in found if f.status != HOLDS]
    counts = f"{sum(f.status == HOLDS for f in found)} of {len(found)} clear; " if unclear else ""
    return Outcome(first.status, value, counts + some("not: ", unclear))
