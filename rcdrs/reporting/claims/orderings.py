"""Checks of who is better than whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcdrs.reporting.claims.checks import WORST_FIRST, OfTable, Outcome, Source, some, worst
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, Address, Paper, printed
from rcdrs.reporting.formatting import LARGER_IS_BETTER
from rcdrs.reporting.statistics import TIED, paired


@dataclass(frozen=True, kw_only=True)
class Order(OfTable):
    """`by`: at least so many times.  `best_of`: the best of `better` counts, column by column.
    `combined`: by the geometric mean of all columns instead of one by one."""

    better: Sequence[str]
    than: str | Sequence[str] = "baselines"
    by: float = 1.0
    best_of: bool = False
    combined: bool = False

    def methods(self) -> list[str]:
        return [*self.better, *self.named(self.than, self.better)]

    def judge(self, source: Source) -> Outcome:
        columns = self.columns()
        found, noisy = [], 0
        for group in [columns] if self.combined else [[column] for column in columns]:
            values = {method: _measure(source, method, group) for method in self.methods()}
            larger = group[0].metric in LARGER_IS_BETTER
            best = sorted(self.better, key=lambda m: values[m].mean(), reverse=larger)
            where = "all columns" if self.combined else str(group[0])
            for a in best[:1] if self.best_of else self.better:
                for b in self.named(self.than, self.better):
                    low, high = (b, a) if larger else (a, b)
                    pair = paired(values[low] * self.by, values[high])
                    factor = f"{self.by:g} x " if self.by != 1 else ""
                    name = f"{factor}{low} / {high}, {where}"
                    found.append((source.status(pair), pair, name))
                    noisy += printed().by_noise(group[0].of(a), group[0].of(b))
        found.sort(key=lambda line: (WORST_FIRST.index(line[0]), -line[1].ratio))
        status, pair, name = found[0]
        lead = f"worst of {len(found)}: " if len(found) > 1 else ""
        value = f"{lead}{pair.ratio:.4g} ({name})"
        if isinstance(source, Paper):
            told = f"{noisy} of {len(found)} within the paper's own deviations"
            return Outcome(status, value, told if noisy and not self.combined else "")
        unclear = [f"{name}: {pair}, {pair.call}" for s, pair, name in found if s != HOLDS]
        clear = f"{len(found) - len(unclear)} of {len(found)} clear; " if unclear else ""
        return Outcome(status, value, clear + some("not: ", unclear))


def _measure(source: Source, method: str, columns: list[Address]) -> np.ndarray:
    """The method in one column, or the geometric mean of its means in several."""
    found = [source.measure(column.of(method)) for column in columns]
    if len(found) == 1:
        return found[0]
    means = [values if values.ndim == 1 else values.mean(1) for values in found]
    return np.exp(np.mean(np.log(np.maximum(means, np.finfo(float).tiny)), axis=0))


@dataclass(frozen=True, kw_only=True)
class Bold(OfTable):
    """The paper's bold cells: the best of its own columns, ties included; the best here too."""

    def judge(self, source: Source) -> Outcome:
        found = [line for column in self.columns() if (line := self._column(source, column))]
        failed = [name for name, status in found if status == FAILS]
        count = f"{len(found) - len(failed)} of {len(found)} columns"
        by_noise = sum(status == NOISE for _, status in found)
        told = f", {by_noise} of them by noise" if by_noise else ""
        return Outcome(worst(s for _, s in found), count + told, some("not: ", failed))

    def _column(self, source: Source, column: Address) -> tuple[str, str] | None:
        """What is best, and the status; nothing of a column without a bold cell."""
        methods = printed().names("method", self.table, column.benchmark, column.K)
        marked = [m for m in methods if printed().cells[column.of(m)]["bold"]]
        if not marked:
            return None
        sign = -1 if column.metric in LARGER_IS_BETTER else 1
        values = {m: sign * source.measure(column.of(m)).mean() for m in methods}
        ranked = sorted(methods, key=lambda method: values[method])
        if isinstance(source, Paper):
            lowest = [method for method in methods if values[method] == values[ranked[0]]]
            name = f"{column} (lowest {', '.join(lowest)}; bold {', '.join(marked)})"
            return name, HOLDS if set(lowest) == set(marked) else FAILS
        name = f"{column} (here {ranked[0]}, in the paper {', '.join(marked)})"
        others = [method for method in ranked if method not in marked]
        if not others:
            return name, HOLDS
        first = next(method for method in ranked if method in marked)
        ends = [source.measure(column.of(method)) for method in (first, others[0])]
        pair = paired(*ends[::sign])
        return name, HOLDS if pair.call == TIED else source.status(pair)
