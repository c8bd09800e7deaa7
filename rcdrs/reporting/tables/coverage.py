"""The tables over every synthetic setting: summary, and the row-level table behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from rcdrs.artifact.config import Config
from rcdrs.reporting import coverage
from rcdrs.reporting.coverage import RCDRS, Comparison
from rcdrs.reporting.formatting import FAMILIES, SCIENTIFIC, Amount
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import (
    Cell,
    Table,
    bold_best,
    layout,
    measured,
    require,
    require_compared,
)


@dataclass(frozen=True)
class _EverySetting(Table):
    """A table over all families, scales and depths; `recipe` is that of RCDRS."""

    recipe: str

    def comparisons(self, config: Config, results: Results) -> list[list[Comparison]]:
        """By Gap, and by Dist."""
        require_compared(self.name, config, self.recipe)
        return [
            coverage.compare(config, results, metric, self.recipe) for metric in ("Gap", "Dist")
        ]

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config.synthetic
        count = len(part.families) * len(part.scales) * len(part.depths)
        return {"count": count, "recipe": self.recipe}


class Coverage(_EverySetting):
    """Table 9, beside the paper's values."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        require(self.name, config, families=["qp", "socp", "mixed"], scales=["hard"])
        paper = paper_coverage()
        cells = []
        for item in coverage.summary(*self.comparisons(config, results)):
            cells += [
                Cell(item.label, "Ours", item.amount, metric=item.metric, keys=item.keys),
                Cell(item.label, "Paper", paper.get(item.name)),  # it may not have the depth
                Cell(item.label, "Meaning", item.meaning),
            ]
        return cells


class Settings(_EverySetting):
    """The row-level table behind `Coverage`, which the paper leaves out."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        pairs = zip(*self.comparisons(config, results), strict=True)
        return [cell for pair in pairs for comparison in pair for cell in _line(comparison)]

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        groups = [
            [(FAMILIES[line[0].keys[0].family], line[0].keys[0], line) for _, line in rows]
            for _, rows in layout(cells)
        ]
        return super().context(config, results, cells) | {"groups": groups}

    def csv(self, cells: list[Cell]) -> str:
        """A line per metric and setting, with six significant digits."""
        lines = [_record(line) for _, line in groupby(cells, lambda cell: (cell.block, cell.row))]
        return pd.DataFrame(lines).to_csv(index=False)


def _line(comparison: Comparison) -> list[Cell]:
    """The cells of one metric in one setting."""
    block = f"{FAMILIES[comparison.family]} {comparison.scale}"
    row, metric = f"K={comparison.K} {comparison.metric}", comparison.metric
    strongest, better, winner = comparison.strongest, comparison.better, comparison.winner
    numbers = {"Strongest value": strongest} | comparison.rcdrs
    cells = [measured(row, column, found, SCIENTIFIC, block) for column, found in numbers.items()]
    first, last = (
        Cell(row, column, found.method, block, metric=metric, keys=found.keys)
        for column, found in {"Strongest": strongest, "Winner": winner}.items()
    )
    value, both = Amount(100 * comparison.ratio, "percent"), better.keys + strongest.keys
    ratio = Cell(row, "Ratio", value, block, metric=metric, keys=both)
    return [first, *bold_best(cells, along="row"), ratio, last]


def _record(line: Iterable[Cell]) -> dict[str, Any]:
    """One line of the CSV; with one seed there are no columns of deviations."""
    cells = {cell.column: cell for cell in line}
    strongest = cells["Strongest"]
    record = {name: getattr(strongest.keys[0], name) for name in ("family", "scale", "K")}
    record |= {"metric": strongest.metric, "strongest": strongest.value}
    for name, column in (("strongest", "Strongest value"), *zip(RCDRS, RCDRS, strict=True)):
        record[f"{name}_mean"] = f"{cells[column].mean:.6g}"
        if cells[column].std is not None:
            record[f"{name}_std"] = f"{cells[column].std:.6g}"
    return record | {
        "ratio_percent": f"{cells['Ratio'].mean:.6g}",
        "winner": cells["Winner"].value,
    }
