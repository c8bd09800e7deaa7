"""The tables over every synthetic setting: summary, and the row-level table behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from rcdrs.artifact.config import Config
from rcdrs.reporting import coverage
from rcdrs.reporting.coverage import RCDRS, READINGS, Comparison, Reading
from rcdrs.reporting.formatting import FAMILIES, SCIENTIFIC, SHORT, Amount, Measured
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import (
    Cell,
    Table,
    bold_best,
    measured,
    require,
    require_compared,
)


@dataclass(frozen=True)
class _EverySetting(Table):
    """A table over all families, scales and depths; `recipe` is that of RCDRS."""

    recipe: str

    def comparisons(
        self, config: Config, results: Results, reading: Reading
    ) -> list[list[Comparison]]:
        """By Gap, and by Dist."""
        require_compared(self.name, config, self.recipe, reading)
        return [
            coverage.compare(config, results, metric, self.recipe, reading)
            for metric in ("Gap", "Dist")
        ]

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config.synthetic
        count = len(part.families) * len(part.scales) * len(part.depths)
        return {"count": count, "recipe": self.recipe}


class Coverage(_EverySetting):
    """Table 9 in both readings, beside the paper's values."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        require(self.name, config, families=["qp", "socp", "mixed"], scales=["hard"])
        paper = paper_coverage()
        found = (coverage.summary(*self.comparisons(config, results, r)) for r in READINGS)
        cells = []
        for items in zip(*found, strict=True):
            item = items[0]
            cells += [
                Cell(i.label, f"Ours, {reading}", i.amount, metric=i.metric, keys=i.keys)
                for reading, i in zip(READINGS, items, strict=True)
            ]
            cells += [
                Cell(item.label, "Paper", paper.get(item.name)),  # it may not have the depth
                Cell(item.label, "Meaning", item.meaning),
            ]
        return cells


class Settings(_EverySetting):
    """The row-level table behind `Coverage`, which the paper leaves out."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        found = []
        for reading in READINGS:
            pairs = zip(*self.comparisons(config, results, reading), strict=True)
            found.append([comparison for pair in pairs for comparison in pair])
        lines = zip(*found, strict=True)
        return [cell for line in lines for cell in _line(line, results)]

    def csv(self, cells: list[Cell]) -> str:
        """A line per metric and setting, with six significant digits."""
        lines = [_record(line) for _, line in groupby(cells, lambda cell: (cell.block, cell.row))]
        return pd.DataFrame(lines).to_csv(index=False)


def _line(comparisons: Sequence[Comparison], results: Results) -> list[Cell]:
    """The cells of one metric in one setting, compared in every reading.

    r_p tells a small Gap of a point far from feasible from one that is worth something.
    """
    first = comparisons[0]
    block, row = f"{FAMILIES[first.family]} {first.scale}", f"K={first.K} {first.metric}"
    readings = dict(zip(READINGS, comparisons, strict=True))
    numbers = {f"Value, {reading}": found.strongest for reading, found in readings.items()}
    ranked = [measured(row, *one, SCIENTIFIC, block) for one in (numbers | first.rcdrs).items()]
    values = {cell.column: cell for cell in bold_best(ranked, along="row")}
    cells, ratios = [], []
    for reading, found in readings.items():
        method, keys = found.strongest.method, found.strongest.keys
        residual = Measured(results.of("r_p", keys).mean, None, SHORT)
        ratio, both = Amount(100 * found.ratio, "percent"), found.better.keys + keys
        cells += [
            Cell(row, f"Strongest, {reading}", method, block, metric=first.metric, keys=keys),
            values.pop(f"Value, {reading}"),
            Cell(row, f"{reading} r_p", residual, block, metric="r_p", keys=keys),
        ]
        ratios.append(Cell(row, f"Ratio, {reading}", ratio, block, metric=first.metric, keys=both))
    return [*cells, *values.values(), *ratios]


def _record(line: Iterable[Cell]) -> dict[str, Any]:
    """One line of the CSV; with one seed there are no columns of deviations."""
    cells = {cell.column: cell for cell in line}
    first = next(iter(cells.values()))
    record = {name: getattr(first.keys[0], name) for name in ("family", "scale", "K")}
    record["metric"] = first.metric
    for reading in READINGS:
        record[reading] = cells[f"Strongest, {reading}"].value
        record |= _numbers(reading, cells[f"Value, {reading}"])
        record[f"{reading}_r_p"] = f"{cells[f'{reading} r_p'].mean:.6g}"
    for variant in RCDRS:
        record |= _numbers(variant, cells[variant])
    for reading in READINGS:
        record[f"ratio_{reading}_percent"] = f"{cells[f'Ratio, {reading}'].mean:.6g}"
    return record


def _numbers(name: str, cell: Cell) -> dict[str, str]:
    found = {f"{name}_mean": cell.mean, f"{name}_std": cell.std}
    return {column: f"{value:.6g}" for column, value in found.items() if value is not None}
