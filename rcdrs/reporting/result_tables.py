"""The tables of solution quality: synthetic benchmarks and ablations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

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
    time_files,
)
from rcdrs.reporting.coverage import RCDRS, compared_methods
from rcdrs.reporting.formatting import (
    FAMILIES,
    FIVE_DECIMALS,
    MILLISECONDS,
    SCIENTIFIC,
    header,
    typeset,
)
from rcdrs.reporting.results import TIME, Config, Results

#: The two benchmarks of the certificate-based tables, at hard scale, and what these report.
FAMILIES_SHOWN = ("socp", "mixed")
CERTIFICATES = ("ObjErr", "r_p", "r_d", "r_gap")
ABLATED = ("ObjErr", "r_p")


@dataclass(frozen=True)
class Synthetic(Table):
    """Tables synthetic_main_k20 and app_synthetic_k5: every method on the hard benchmarks."""

    name: str
    depth: int
    template: ClassVar[str] = "synthetic.tex.j2"

    def needs(self, config: Config) -> Needs:
        require(self.name, config, families=FAMILIES_SHOWN, scales=["hard"], depths=[self.depth])
        cases = synthetic_cases(FAMILIES_SHOWN, ["hard"])
        rows = row_files("synthetic", config, cases, [self.depth])
        return Needs(rows, time_files(config, cases))

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells = []
        for family in FAMILIES_SHOWN:
            block = []
            for method, metric in product(config["synthetic"]["methods"], (*CERTIFICATES, TIME)):
                found = results.statistic(metric, family, "hard", self.depth, method)
                style = MILLISECONDS if metric == TIME else SCIENTIFIC
                block.append(measured(method, metric, found, style, FAMILIES[family]))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        device = results.device(cell.query[0] for cell in cells if cell.metric == TIME)
        return {
            "depth": self.depth,
            "headers": [header(metric) for metric in (*CERTIFICATES, TIME)],
            "device": typeset(device),
        }


@dataclass(frozen=True)
class LogKKT(Table):
    """Beyond the paper: the same benchmarks at every depth, with both recipes of RCDRS."""

    name: str
    template: ClassVar[str] = "synthetic_log_kkt.tex.j2"

    def needs(self, config: Config) -> Needs:
        require(self.name, config, families=FAMILIES_SHOWN, scales=["hard"])
        require_compared(self.name, config, "log_kkt")
        cases = synthetic_cases(FAMILIES_SHOWN, ["hard"])
        return Needs(row_files("synthetic", config, cases, config["synthetic"]["depths"]))

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells = []
        for family, K in product(FAMILIES_SHOWN, config["synthetic"]["depths"]):
            label = f"{FAMILIES[family]}, K={K}"
            block = []
            for metric in CERTIFICATES:
                found = (
                    results.statistic(metric, family, "hard", K, method)
                    for method in compared_methods(config)
                )
                best = min(found, key=lambda statistic: statistic.mean)
                block.append(measured("Best compared", metric, best, SCIENTIFIC, label))
            for recipe, method, metric in product(("paper", "log_kkt"), RCDRS, CERTIFICATES):
                statistic = results.statistic(metric, family, "hard", K, method, recipe)
                block.append(measured(f"{method}, {recipe}", metric, statistic, SCIENTIFIC, label))
            cells += [_with_method(cell) for cell in bold_best(block)]
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        return {"headers": [header(metric) for metric in CERTIFICATES]}


def _with_method(cell: Cell) -> Cell:
    """Which method is the best differs from column to column: its name stands under the number."""
    if cell.row != "Best compared":
        return cell
    method = typeset(cell.query[0]["method"])
    return replace(cell, text=rf"\makecell{{{cell.text}\\[-1pt] {{\tiny {method}}}}}")


@dataclass(frozen=True)
class Ablation(Table):
    """Table main_ablation_summary, short or full: the rows of ablation.rows."""

    name: str
    full: bool
    template: ClassVar[str] = "ablation.tex.j2"

    def needs(self, config: Config) -> Needs:
        part = config["ablation"]
        if not self._rows(config):
            which = "" if self.full else " with main: true"
            raise ValueError(
                f"table {self.name} has no rows: ablation.rows of the configuration has none"
                f"{which}; add one there (workflow/config/), or leave the table out."
            )
        # One variant may stand in several rows; it runs once.
        variants = dict.fromkeys(row["variant"] for row in self._rows(config))
        cases = synthetic_cases(part["families"], [part["scale"]])
        folders = [f"ablation/{variant}" for variant in variants]
        return Needs([n for f in folders for n in row_files(f, config, cases, [part["depth"]])])

    def cells(self, config: Config, results: Results) -> list[Cell]:
        part = config["ablation"]
        scale, K = part["scale"], part["depth"]
        cells = []
        for row, family, metric in product(self._rows(config), part["families"], ABLATED):
            found = results.statistic(
                metric, family, scale, K, row["variant"], experiment="ablation"
            )
            column = f"{FAMILIES[family]} {metric}"
            cells.append(measured(row["label"], column, found, FIVE_DECIMALS, row["group"]))
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config["ablation"]
        spans = []
        for number, family in enumerate(part["families"]):
            first = 3 + number * len(ABLATED)  # after group and variant
            last = first + len(ABLATED) - 1
            spans.append({"label": FAMILIES[family], "first": first, "last": last})
        return {
            "kind": "every variant" if self.full else "the main variants",
            "depth": part["depth"],
            "scale": part["scale"],
            "method": typeset(part["method"]),
            "spans": spans,
            "width": len(ABLATED),
            "headers": [header(metric) for _ in spans for metric in ABLATED],
        }

    def _rows(self, config: Config) -> list[dict[str, Any]]:
        return [row for row in config["ablation"]["rows"] if self.full or row["main"]]
