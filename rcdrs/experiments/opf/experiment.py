"""Optimal power flow over a year in the configuration: beyond the paper, on real data."""

from __future__ import annotations

from typing import Literal, get_args

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    Controlled,
    ExperimentSection,
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
Method = Literal["Exact", "F-DRS", "Grid-DRS", Controlled]


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

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        return super().filled(merge({"training": common.get("recipes", {})}, written), common)


class Experiment(base.Experiment):
    """One plan for each hour of a year, on forecasts."""

    name = "opf"
    Section = Section
    families = ("opf",)
    learned = get_args(Controlled)
    extra = True

    @classmethod
    def form(cls, kind: str, run: Run) -> base.Form:
        return Weeks if kind == "instances" else super().form(kind, run)

    def recipe(self, run: Run) -> Plain:
        return self._written(self.section.training, run)
