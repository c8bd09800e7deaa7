"""The tables of portfolios: what sequences of decisions were worth, at home and in other times.

Nothing in them is bold: what weeks happen to bring is more than what most rows differ by.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from rcdrs.artifact.config import Config
from rcdrs.experiments.base import Run
from rcdrs.experiments.portfolio.experiment import EXACT, Experiment
from rcdrs.reporting.formatting import SCIENTIFIC, Style
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, measured, spread

BASIS_POINTS = Style(".2f")
STYLES = {"Turnover": Style(".1f"), "r_p": SCIENTIFIC}
METRICS = (
    *("Utility", "Missed", "Expected", "Regret"),
    *("Return", "Risk", "Turnover", "r_p"),
)
#: Before the name of a metric: of sequences with warm starts.
WARM = "Warm"


class Sequences(Table):
    """What is common to both."""

    @property
    def extra(self) -> bool:
        return Experiment.extra

    def cell(
        self, config: Config, results: Results, run: Run, metric: str, K: int, warm: bool = False
    ) -> Cell:
        """A metric with its period, as ``Utility_calm``: a cell without a place."""
        (case,) = Experiment(config).cases
        name = f"{WARM}{metric}" if warm else metric
        found = results.statistic(name, case, "-", K, *run, Experiment.name)
        row = run.method if run.recipe == "paper" else f"{run.method}, {run.recipe}"
        return measured(row, "", found, STYLES.get(metric.rpartition("_")[0], BASIS_POINTS))

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        home, *others = (
            f"{name} ({first}{f' to {last}' if last > first else ''})"
            for name, (first, last) in config.portfolio.instances.test.items()
        )
        columns = list(dict.fromkeys(cell.column for cell in cells))
        told = {"home": home, "others": ", ".join(others), "columns": columns}
        return told | {"depth": max(config.portfolio.depths), "spread": spread(config)}


class Periods(Sequences):
    """Every metric in every period, at the greatest depth."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        part, runs = config.portfolio, Experiment(config).runs("")
        return [
            replace(
                self.cell(config, results, run, f"{metric}_{period}", max(part.depths)),
                column=metric,
                block=period,
            )
            for period, run, metric in product(part.instances.test, runs, METRICS)
        ]


class Starts(Sequences):
    """Two metrics at every depth, with cold and with warm starts, of what runs in steps."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        part = config.portfolio
        runs = [run for run in Experiment(config).runs("") if not run.method.endswith(EXACT)]
        return [
            replace(
                self.cell(config, results, run, f"{metric}_{period}", K, warm),
                column=f"K={K}{' warm' if warm else ''}",
                block=f"{metric}, {period}",
            )
            for metric, period in product(("Regret", "Utility"), part.instances.test)
            for run, K, warm in product(runs, part.depths, (False, True))
        ]
