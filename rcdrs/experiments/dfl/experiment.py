"""Decision-focused learning in the configuration: controllers, and the predictors before them."""

from __future__ import annotations

from typing import Literal, get_args

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    ExperimentSection,
    Many,
    Plain,
    Recipes,
    Schedule,
    Some,
    merge,
)

Controlled = Literal["RCDRS-Env-F", "RCDRS-NoEnv-F", "RCDRS-Env-J", "RCDRS-NoEnv-J"]
Method = Literal["PTO", "F-DRS", "Grid-DRS", "AA-DRS", "Anderson-DRS", "L-PDHG", Controlled]
#: The layers whose controllers are pretrained.
LAYERS = ("RCDRS-Env", "RCDRS-NoEnv")
#: After a method's name: its predictor, with every problem solved to optimality.
EXACT = "-Exact"
SOLVED = tuple(f"{method}{EXACT}" for method in get_args(Method))


class Section(ExperimentSection):
    methods: Many[Method]
    extended: Some[Controlled]
    exact: Some[Literal[SOLVED]]  # type: ignore[valid-type]
    #: How controllers are pretrained.
    training: Recipes
    predictor: Schedule

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        return super().filled(merge({"training": common.get("recipes", {})}, written), common)


class Experiment(base.Experiment):
    """A controller is pretrained, then the predictor in front of it; frozen, or both jointly."""

    name = "dfl"
    Section = Section
    sampled = True
    families = ("dfl",)

    def runs(self, case: str) -> list[Run]:
        found, count = super().runs(case), len(self.section.methods)
        return found[:count] + [Run(method) for method in self.section.exact] + found[count:]

    @classmethod
    def trained(cls, run: Run) -> Run:
        """Every method has a trained predictor."""
        return run._replace(method=run.method.removesuffix(EXACT))

    @classmethod
    def start(cls, run: Run) -> Run | None:
        """RCDRS-Env@paper for RCDRS-Env-J@paper."""
        layer, _, kind = run.method.rpartition("-")
        return Run(layer, run.recipe) if kind in ("F", "J") else None

    @classmethod
    def check(cls, run: Run) -> None:
        super().check(run)
        controlled = run.method in LAYERS or cls.start(cls.trained(run))
        if run.recipe != "paper" and not controlled:
            raise ValueError(
                f"{run.method} has no controller: its recipe is paper, not {run.recipe}."
            )

    @classmethod
    def recipe_form(cls, run: Run) -> base.Form:
        return super().recipe_form(run) if run.method in LAYERS else Schedule

    def recipe(self, run: Run) -> Plain:
        recipe = self._written(self.section.training, run)
        return recipe if run.method in LAYERS else self.section.predictor.plain()
