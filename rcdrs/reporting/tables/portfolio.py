"""The table of portfolios: what sequences of decisions were worth, at home and in other times."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from rcdrs.artifact.config import Config
from rcdrs.experiments.base import Run
from rcdrs.experiments.portfolio.experiment import EXACT, SIMPLE, Experiment
from rcdrs.reporting.formatting import SCIENTIFIC, Style
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, measured, spread

STYLES = {"Turnover": Style(".1f"), "r_p": SCIENTIFIC}
METRICS = ("Utility", "Return", "Risk", "Turnover", "Regret", "r_p")
BASIS_POINTS = Style(".2f")
WARM = "Warm"


class Block(NamedTuple):
    """The sequences of a period, of solvers that start each week from zero or from the last one."""

    period: str
    K: int
    start: str = ""

    def __str__(self) -> str:
        return f"{self.period}, K={self.K}{', warm' if self.start else ''}"


class Sequences(Table):
    """Every period at the greatest depth, and home also at the smallest and with warm starts.

    Nothing is bold: what seeds and weeks happen to bring is more than what most rows differ by.
    """

    @property
    def sections(self) -> tuple[str, ...]:
        return (Experiment.name,)

    def blocks(self, config: Config) -> list[Block]:
        (home, *others), depths = config.portfolio.instances.test, config.portfolio.depths
        least, most = min(depths), max(depths)
        found = [Block(home, most), *(Block(other, most) for other in others)]
        found += [Block(home, K, start) for K, start in product({least, most}, ("", WARM))]
        return list(dict.fromkeys(found))

    def cells(self, config: Config, results: Results) -> list[Cell]:
        experiment, cells = Experiment(config), []
        (case,) = experiment.cases
        for block, run in product(self.blocks(config), experiment.runs(case)):
            if run.method.endswith(EXACT) and (block.start or block.K < max(experiment.depths)):
                continue  # it has no start, and but for training no depth
            for metric in METRICS:
                column = f"{block.start}{metric}_{block.period}"
                where = (case, "-", block.K, *run, experiment.name)
                found = results.statistic(column, *where)
                style = STYLES.get(metric, BASIS_POINTS)
                cells.append(measured(_label(run), metric, found, style, str(block)))
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        part = config.portfolio
        home, *others = (
            f"{name} ({first}{f' to {last}' if last > first else ''})"
            for name, (first, last) in part.instances.test.items()
        )
        told = {"home": home, "others": ", ".join(others), "columns": METRICS}
        return told | {"simple": SIMPLE, "spread": spread(config)}


def _label(run: Run) -> str:
    return run.method if run.recipe == "paper" else f"{run.method}, {run.recipe}"
