"""The synthetic benchmarks in the configuration: families, scales and depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import model_validator

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    IF_SET,
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
Chosen = dict[Literal["paper", "log_kkt"], Learned]
Method = Literal["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS", Learned]


def is_feedback(method: str) -> bool:
    """Does it look at residuals?"""
    return method.startswith("RCDRS")


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
    #: By recipe, the feedback variant that stands for all of them given the same number of steps,
    #: and given the same time: chosen on validation data.
    chosen: Annotated[Chosen, IF_SET] = {}  # noqa: RUF012
    timely: Annotated[Chosen, IF_SET] = {}  # noqa: RUF012

    @model_validator(mode="after")
    def _chosen_is_trained(self) -> Self:
        named = {"chosen": self.chosen, "timely": self.timely}
        for name, recipe in ((name, recipe) for name, found in named.items() for recipe in found):
            method, known = named[name][recipe], [*filter(is_feedback, self.trained(recipe))]
            if method not in known:
                names = ", ".join(known) or "none, as no feedback variant is trained with it"
                raise ValueError(f"{name}.{recipe} is {method!r}, expected one of {names}")
        return self

    def trained(self, recipe: str) -> list[str]:
        """The methods that are trained with a recipe."""
        methods: Sequence[str] = self.methods if recipe == "paper" else self.extended
        return [method for method in methods if method in get_args(Learned)]


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
