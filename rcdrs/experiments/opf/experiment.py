"""Optimal power flow over a year in the configuration: beyond the paper, on real data."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    IF_SET,
    Controlled,
    ExperimentSection,
    Grid,
    Many,
    Plain,
    Positive,
    Recipes,
    Sizes,
    Some,
    merge,
)

#: Every hour's plan to optimality: what a fixed number of steps is compared with.
EXACT = "Exact"
#: A fixed core that begins where the most similar hour of training ended.
RECALL = "Recall-DRS"
Method = Literal["Exact", "F-DRS", "Grid-DRS", "Recall-DRS", Controlled]


class Weeks(Sizes):
    """Weeks in each split, those of tests in each season; renewable power, and prices."""

    #: Installed power of an area's sites over its peak load.
    wind: Positive
    solar: Positive
    #: In dollars per MWh.
    shed: Positive
    curtailment: Positive
    overload: Positive


class Section(ExperimentSection):
    instances: Weeks
    methods: Many[Method]
    extended: Some[Controlled]
    training: Recipes
    #: Learning rates of methods with another than that.
    rates: Annotated[dict[Controlled, Positive], IF_SET] = {}  # noqa: RUF012

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        return super().filled(merge({"training": common.get("recipes", {})}, written), common)


class Experiment(base.Experiment):
    """One plan for each hour of a year, on forecasts."""

    name = "opf"
    Section = Section
    families = ("opf",)
    learned = get_args(Controlled)
    solver_parts: ClassVar[dict[str, Any]] = {"grid": Grid}
    extra = True

    @classmethod
    def form(cls, kind: str, run: Run) -> base.Form:
        return Weeks if kind == "instances" else super().form(kind, run)

    def solver(self, run: Run) -> Plain:
        return super().solver(run) | {"grid": self.grid()}

    def recipe(self, run: Run) -> Plain:
        recipe, rates = self._written(self.section.training, run), self.section.rates
        return recipe | ({"learning_rate": rates[run.method]} if run.method in rates else {})
