"""The tables that have a row for every method of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from rcdrs.artifact.config import Config, universe
from rcdrs.experiments.base import experiments
from rcdrs.reporting.care import Run, name_in
from rcdrs.reporting.formatting import (
    FAMILIES,
    FOUR_DECIMALS,
    LARGER_IS_BETTER,
    MILLISECONDS,
    SCIENTIFIC,
    THREE_DECIMALS,
    TWO_DECIMALS,
)
from rcdrs.reporting.results import TIME, Results
from rcdrs.reporting.tables.base import Cell, Table, bold_best, measured, require

#: How the paper prints what is not a residual.
STYLES = {"Regret": FOUR_DECIMALS, "Dist": FOUR_DECIMALS, "Curt": THREE_DECIMALS}
STYLES |= dict.fromkeys(("Cost", "Cost_away", "Cost_warm"), TWO_DECIMALS)
STYLES |= dict.fromkeys(LARGER_IS_BETTER, THREE_DECIMALS) | {TIME: MILLISECONDS}
#: Family, scale and number of steps.
Setting = tuple[str, str, int]
#: The families of the certificate-based tables, at hard scale.
BENCHMARKS = ("socp", "mixed")


@dataclass(frozen=True)
class Methods(Table):
    """The methods of an experiment, which is also a section of the configuration: a block for each
    setting, and in it the best of each column bold.

    depth, but: at one depth, at all but one, or at all.
    case: one of the experiment's; by default its first, which is behind the paper's tables.
    extended: with what goes beyond the paper.
    beside: a universe whose rows stand below, where the configuration has it.
    """

    experiment: str
    metrics: tuple[str, ...]
    depth: int | None = None
    but: int | None = None
    case: str = ""
    extended: bool = False
    beside: str = ""

    @property
    def extra(self) -> bool:
        return experiments()[self.experiment].extra

    def settings(self, config: Config) -> dict[str, Setting]:
        """By the label of the block."""
        experiment = experiments()[self.experiment](config)
        every = [K for K in experiment.depths if self.but != K]
        shown = every if self.depth is None else [self.depth]
        require(self.name, config, self.experiment, depths=shown)
        case = self.case or experiment.cases[0]
        if case not in experiment.cases:
            raise ValueError(
                f"table {self.name} is about {case}, but the configuration has "
                f"{', '.join(experiment.cases)}: add it there (workflow/config/, or --config), or "
                "leave the table out."
            )
        family, _, scale = case.partition("-")
        return {f"K={K}": (family, scale or "-", K) for K in shown}

    def runs(self, config: Config) -> dict[str, Run]:
        """The runs by the label of their rows."""
        part = getattr(config, self.experiment)
        rows: list[Run] = [(method, "paper", "") for method in part.methods]
        if self.extended:
            rows += [(method, "log_kkt", "") for method in part.extended]
            rows += [(method, "paper", "") for method in getattr(part, "exact", ())]
        if self.beside in config.tabled:
            part = getattr(universe(config, self.beside), self.experiment)
            rows += [(method, "paper", self.beside) for method in part.methods]
            rows += [(method, "log_kkt", self.beside) for method in part.extended]
        return {_label(*run): run for run in rows}

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells = []
        for label, setting in self.settings(config).items():
            block = []
            for (row, run), metric in product(self.runs(config).items(), self.metrics):
                method, recipe, within = run
                where = (method, recipe, self.experiment, within)
                found = results.statistic(metric, *setting, *where)
                block.append(measured(row, metric, found, STYLES.get(metric, SCIENTIFIC), label))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        timed = [key for cell in cells if cell.metric == TIME for key in cell.keys]
        _, scale, K = next(iter(self.settings(config).values()))
        device = results.device(timed) if timed else ""
        shown = {"experiment": self.experiment, "metrics": self.metrics, "device": device}
        return shown | {"scale": scale, "depth": K, "beside": self.beside in config.tabled}


def _label(method: str, recipe: str, within: str) -> str:
    """In a universe of a wider grid, a controller is centred at another core."""
    name = name_in(method, within)
    name = name if recipe == "paper" else f"{name}, {recipe}"
    return f"{name}, wide core" if within and method.startswith("RCDRS") else name


class Hard(Methods):
    """Tables 1 and 8: the hard benchmarks at one depth."""

    def settings(self, config: Config) -> dict[str, Setting]:
        assert self.depth is not None
        require(self.name, config, families=BENCHMARKS, scales=["hard"], depths=[self.depth])
        return {FAMILIES[family]: (family, "hard", self.depth) for family in BENCHMARKS}
