"""The tables of solution quality: synthetic benchmarks and ablations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from rcdrs.artifact.config import Config
from rcdrs.reporting.coverage import RCDRS, compared_methods, lowest
from rcdrs.reporting.formatting import FAMILIES, FIVE_DECIMALS, SCIENTIFIC
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, bold_best, measured, require, require_compared
from rcdrs.reporting.tables.methods import BENCHMARKS

#: What the certificate-based tables report, and the ablations.
CERTIFICATES = ("ObjErr", "r_p", "r_d", "r_gap")
ABLATED = ("ObjErr", "r_p")


class LogKKT(Table):
    """Beyond the paper: the same benchmarks at every depth, with both recipes of RCDRS.

    Which compared method is the best differs from column to column: it stands under the number.
    """

    def cells(self, config: Config, results: Results) -> list[Cell]:
        require(self.name, config, families=BENCHMARKS, scales=["hard"])
        require_compared(self.name, config, "log_kkt", "every")
        cells = []
        for family, K in product(BENCHMARKS, config.synthetic.depths):
            label = f"{FAMILIES[family]}, K={K}"
            block = []
            for metric in CERTIFICATES:
                found = (
                    results.statistic(metric, family, "hard", K, method)
                    for method in compared_methods(config, "every")
                )
                best = lowest(found)
                run = (metric, best, SCIENTIFIC, label, best.method)
                block.append(measured("Best compared", *run))
            for recipe, method, metric in product(("paper", "log_kkt"), RCDRS, CERTIFICATES):
                statistic = results.statistic(metric, family, "hard", K, method, recipe)
                block.append(measured(f"{method}, {recipe}", metric, statistic, SCIENTIFIC, label))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        return {"metrics": CERTIFICATES}


@dataclass(frozen=True)
class Ablation(Table):
    """Table 2, short or full: the rows of ablation.rows."""

    full: bool

    def cells(self, config: Config, results: Results) -> list[Cell]:
        part = config.ablation
        rows = [row for row in part.rows if self.full or row.main]
        if not rows:
            which = "" if self.full else " with main: true"
            raise ValueError(
                f"table {self.name} has no rows: ablation.rows of the configuration has none"
                f"{which}; add one there (workflow/config/), or leave the table out."
            )
        cells = []
        for row, family, metric in product(rows, part.families, ABLATED):
            run = (family, part.scale, part.depth, row.variant)
            found = results.statistic(metric, *run, experiment="ablation")
            column = f"{FAMILIES[family]} {metric}"
            cells.append(measured(row.label, column, found, FIVE_DECIMALS, row.group))
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config.ablation
        return {
            "kind": "every variant" if self.full else "the main variants",
            "depth": part.depth,
            "scale": part.scale,
            "method": part.method,
            "families": [FAMILIES[family] for family in part.families],
            "metrics": ABLATED,
        }
