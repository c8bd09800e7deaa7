"""The synthetic benchmarks in the configuration: families, scales and depths."""

from __future__ import annotations

from typing import Literal, get_args

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    Controlled,
    Controller,
    Depth,
    ExperimentSection,
    Factor,
    Family,
    Grid,
    LogKKTRecipe,
    Many,
    Natural,
    Plain,
    Positive,
    Sampled,
    Scale,
    Section,
    Some,
)

Learned = Literal["L-PDHG", Controlled]
Method = Literal["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS", Learned]


class Shifts(Section):
    """How other data differ from those that a layer was trained on."""

    #: Factors to x*, s* and lambda*, one of them at a time, and to the condition number.
    magnitude: Factor
    condition: Factor


class Search(Section):
    """Candidates of the learning rate of each method and loss, and where they are compared."""

    rates: Many[Positive]
    scale: Scale
    depths: Many[Depth]


class Benchmarks(ExperimentSection):
    #: Names in `instances.CASES`; an unknown one stops its first job.
    families: Many[Family]
    scales: Many[Scale]
    methods: Many[Method]
    extended: Some[Learned]
    #: Of the extended tables of the hard scale.
    hard_seeds: Many[Natural]
    shifts: Shifts
    search: Search


class ShiftSettings(Section):
    controller: Controller
    instances: Sampled
    grid: Grid
    recipe: LogKKTRecipe
    shifts: Shifts
    depths: Many[Depth]


class Experiment(base.Experiment):
    """Every method on every family and scale."""

    name = "synthetic"
    Section = Benchmarks
    sampled = True
    learned = get_args(Learned)

    @property
    def cases(self) -> list[str]:
        return [f"{f}-{s}" for f in self.section.families for s in self.section.scales]

    def shifted(self, case: str) -> list[Run]:
        """The layers that are tried on other data: those of log_kkt."""
        return [Run(method, "log_kkt") for method in self.section.extended]

    def shift_settings(self) -> Plain:
        """A schedule is also trained for the other data, and a core selected."""
        schedule = self.recipe(Run("Layerwise-DRS", "log_kkt"))
        found = {"instances": self.instances(), "grid": self.grid(), "recipe": schedule}
        shifts = {"shifts": self.section.shifts.plain(), "depths": self.depths}
        return self.solver(Run("")) | found | shifts

    @classmethod
    def form(cls, kind: str, run: Run) -> base.Form:
        return ShiftSettings if kind == "shifts" else super().form(kind, run)
