"""The tables over every synthetic setting: summary, and the row-level table behind it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from rcdrs.reporting import coverage
from rcdrs.reporting.base import (
    Cell,
    Needs,
    Table,
    bold_best,
    measured,
    require,
    require_compared,
    row_files,
    synthetic_cases,
)
from rcdrs.reporting.coverage import RCDRS, Comparison
from rcdrs.reporting.formatting import FAMILIES, METRICS, SCIENTIFIC, math_mode, percent, typeset
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.results import Config, Results


@dataclass(frozen=True)
class _EverySetting(Table):
    """A table over all families, scales and depths; `recipe` is that of RCDRS."""

    name: str
    recipe: str

    def needs(self, config: Config) -> Needs:
        require_compared(self.name, config, self.recipe)
        part = config["synthetic"]
        cases = synthetic_cases(part["families"], part["scales"])
        return Needs(row_files("synthetic", config, cases, part["depths"]))

    def comparisons(self, config: Config, results: Results) -> list[list[Comparison]]:
        """By Gap, and by Dist."""
        return [
            coverage.compare(config, results, metric, self.recipe) for metric in ("Gap", "Dist")
        ]

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config["synthetic"]
        count = len(part["families"]) * len(part["scales"]) * len(part["depths"])
        return {"count": count, "recipe": typeset(self.recipe)}


@dataclass(frozen=True)
class Coverage(_EverySetting):
    """Table app_positive_gap_summary, beside the paper's values."""

    template: ClassVar[str] = "coverage.tex.j2"

    def needs(self, config: Config) -> Needs:
        require(self.name, config, families=["qp", "socp", "mixed"], scales=["hard"])
        return super().needs(config)

    def cells(self, config: Config, results: Results) -> list[Cell]:
        paper = {line["item"]: line for line in paper_coverage().to_dict("records")}
        cells = []
        for item in coverage.summary(*self.comparisons(config, results)):
            ours, query = coverage.amount(item.value, item.unit), item.query
            cells.append(
                Cell(item.label, "Ours", ours, mean=item.value, metric=item.metric, query=query)
            )
            if item.name in paper:
                value, unit = float(paper[item.name]["value"]), paper[item.name]["unit"]
                cells.append(Cell(item.label, "Paper", coverage.amount(value, unit), mean=value))
            else:  # a depth that the paper does not have
                cells.append(Cell(item.label, "Paper", "--"))
            cells.append(Cell(item.label, "Meaning", item.meaning))
        return cells


@dataclass(frozen=True)
class Settings(_EverySetting):
    """The row-level table behind `Coverage`, which the paper leaves out."""

    template: ClassVar[str] = "settings.tex.j2"

    def cells(self, config: Config, results: Results) -> list[Cell]:
        pairs = zip(*self.comparisons(config, results), strict=True)
        return [cell for pair in pairs for comparison in pair for cell in _line(comparison)]

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        lines = [
            {
                "family": FAMILIES[line[0].query[0]["family"]],
                "scale": line[0].query[0]["scale"],
                "K": line[0].query[0]["K"],
                "metric": math_mode(METRICS[line[0].metric]),
                "texts": [cell.text for cell in line],
            }
            for line in _lines(cells)
        ]
        groups = [list(group) for _, group in groupby(lines, lambda x: (x["family"], x["scale"]))]
        return super().context(config, results, cells) | {"groups": groups}

    def extra(self, cells: list[Cell]) -> dict[str, str]:
        """The same as CSV, with six significant digits."""
        records = [_record(line) for line in _lines(cells)]
        out = io.StringIO()
        writer = csv.DictWriter(out, fieldnames=list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return {".csv": out.getvalue()}


def _line(comparison: Comparison) -> list[Cell]:
    """The cells of one metric in one setting."""
    block = f"{FAMILIES[comparison.family]} {comparison.scale}"
    row, metric = f"K={comparison.K} {comparison.metric}", comparison.metric
    strongest, better, winner = comparison.strongest, comparison.better, comparison.winner
    numbers = {"Strongest value": strongest} | comparison.rcdrs
    cells = [measured(row, column, found, SCIENTIFIC, block) for column, found in numbers.items()]
    named = {"Strongest": strongest, "Winner": winner}
    first, last = (
        Cell(row, column, typeset(found.query["method"]), block, metric=metric, query=[found.query])
        for column, found in named.items()
    )
    value, both = 100 * comparison.ratio, [better.query, strongest.query]
    ratio = Cell(row, "Ratio", percent(value), block, mean=value, metric=metric, query=both)
    return [first, *bold_best(cells, along="row"), ratio, last]


def _lines(cells: list[Cell]) -> list[list[Cell]]:
    return [list(line) for _, line in groupby(cells, key=lambda cell: (cell.block, cell.row))]


def _record(line: list[Cell]) -> dict[str, Any]:
    """One line of the CSV; with one seed there are no columns of deviations."""
    cells = {cell.column: cell for cell in line}
    strongest = cells["Strongest"].query[0]
    record = {key: strongest[key] for key in ("family", "scale", "K")}
    record |= {"metric": line[0].metric, "strongest": strongest["method"]}
    for name, column in (("strongest", "Strongest value"), *zip(RCDRS, RCDRS, strict=True)):
        record[f"{name}_mean"] = f"{cells[column].mean:.6g}"
        if cells[column].std is not None:
            record[f"{name}_std"] = f"{cells[column].std:.6g}"
    record["ratio_percent"] = f"{cells['Ratio'].mean:.6g}"
    record["winner"] = cells["Winner"].query[0]["method"]
    return record
