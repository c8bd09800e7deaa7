"""The tables of decision-focused learning and of energy dispatch: every method, depth by depth."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from rcdrs.reporting.base import (
    Cell,
    Needs,
    Table,
    bold_best,
    measured,
    require,
    row_files,
    time_files,
)
from rcdrs.reporting.formatting import (
    FOUR_DECIMALS,
    MILLISECONDS,
    SCIENTIFIC,
    THREE_DECIMALS,
    Style,
    header,
    typeset,
)
from rcdrs.reporting.results import TIME, Config, Results

#: How the paper prints what is not a residual.
STYLES = {
    "Regret": FOUR_DECIMALS,
    "Dist": FOUR_DECIMALS,
    "Curt": THREE_DECIMALS,
    "Pass": THREE_DECIMALS,
    TIME: MILLISECONDS,
}


@dataclass(frozen=True)
class Decisions(Table):
    """Every method of one experiment, which is also a section of the configuration, in the
    paper's columns: at one depth, at all `but` one, or at all."""

    name: str
    metrics: tuple[str, ...]
    depth: int | None = None
    but: int | None = None
    template: ClassVar[str]
    experiment: ClassVar[str]

    def needs(self, config: Config) -> Needs:
        require(self.name, config, section=self.experiment, depths=self._depths(config))
        rows = row_files(self.experiment, config, [self.case(config)], self._depths(config))
        return Needs(rows, time_files(config, [self.case(config)]) if TIME in self.metrics else [])

    def case(self, config: Config) -> str:
        return self.experiment

    def methods(self, config: Config) -> list[tuple[str, str]]:
        """(method, recipe) of each row."""
        return [(method, "paper") for method in config[self.experiment]["methods"]]

    def cells(self, config: Config, results: Results) -> list[Cell]:
        family, _, scale = self.case(config).partition("-")
        scale = scale or "-"
        cells = []
        for K in self._depths(config):
            block = []
            for (method, recipe), metric in product(self.methods(config), self.metrics):
                found = results.statistic(
                    metric, family, scale, K, method, recipe, experiment=self.experiment
                )
                label = method if recipe == "paper" else f"{method}, {recipe}"
                block.append(measured(label, metric, found, style(metric), f"K={K}"))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        timed = [cell.query[0] for cell in cells if cell.metric == TIME]
        return {
            "headers": [header(metric) for metric in self.metrics],
            "device": typeset(results.device(timed)) if timed else "",
            "formulation": self.case(config).partition("-")[2],
        }

    def _depths(self, config: Config) -> list[int]:
        if self.depth is not None:
            return [self.depth]
        return [K for K in config[self.experiment]["depths"] if self.but != K]


@dataclass(frozen=True)
class DFL(Decisions):
    """Tables dfl_main_k20 and app_dfl_k5_k10_k15."""

    template: ClassVar[str] = "dfl.tex.j2"
    experiment: ClassVar[str] = "dfl"


@dataclass(frozen=True)
class DFLExtended(DFL):
    """Beyond the paper: controllers trained with log_kkt, and an exact solver behind."""

    template: ClassVar[str] = "dfl_extended.tex.j2"

    def methods(self, config: Config) -> list[tuple[str, str]]:
        part = config[self.experiment]
        exact = [(method, "paper") for method in part["exact"]]
        return super().methods(config) + [(m, "log_kkt") for m in part["extended"]] + exact


@dataclass(frozen=True)
class Dispatch(Decisions):
    """Tables energy_main_k15 and app_dispatch_k5_k10."""

    template: ClassVar[str] = "dispatch.tex.j2"
    experiment: ClassVar[str] = "dispatch"

    def case(self, config: Config) -> str:
        """The first formulation is the one behind the paper's tables."""
        return f"dispatch-{config['dispatch']['formulations'][0]}"


@dataclass(frozen=True)
class DispatchExtended(Dispatch):
    """Beyond the paper: the formulation in which reserve may exceed what is asked for."""

    def case(self, config: Config) -> str:
        require(self.name, config, section="dispatch", formulations=["inequality"])
        return "dispatch-inequality"

    def methods(self, config: Config) -> list[tuple[str, str]]:
        part = config["dispatch"]
        return super().methods(config) + [(method, "log_kkt") for method in part["extended"]]


def style(metric: str) -> Style:
    return STYLES.get(metric, SCIENTIFIC)
