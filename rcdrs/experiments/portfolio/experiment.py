"""Portfolios in the configuration: periods, terms, and predictors before fixed-depth solvers."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from rcdrs.experiments import base, settings
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import (
    IF_SET,
    Count,
    ExperimentSection,
    Interval,
    Many,
    Name,
    Plain,
    Positive,
    Recipes,
    Schedule,
    Some,
    Weight,
    merge,
)

#: Layers that are pretrained, and then stay as they are behind a predictor: its name ends in -F.
Pretrained = Literal["Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv"]
Frozen = Literal["Layerwise-DRS-F", "RCDRS-Env-F", "RCDRS-NoEnv-F"]
#: Grid-DRS with the simple prediction, which learns nothing.
SIMPLE = "Simple"
Method = Literal["Simple", "PTO", "F-DRS", "Grid-DRS", Frozen]
LAYERS = get_args(Pretrained)
FROZEN = dict(zip(get_args(Frozen), LAYERS, strict=True))
#: After a method's name: its predictor, with every problem solved to optimality.
EXACT = "-Exact"
SOLVED = tuple(f"{method}{EXACT}" for method in get_args(Method))
Years = Interval[Count]


class Terms(settings.Section):
    """Of `model.Terms`."""

    aversion: Weight
    cost: Weight
    cap: Annotated[Positive, Field(le=1)]
    limit: Positive


class Periods(settings.Section):
    """First and last year of each; the first of the test periods is home, the others are shifts."""

    train: Years
    validation: Years
    test: Annotated[dict[Name, Years], Field(min_length=1)]
    terms: Terms

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.train[1] >= self.validation[0]:
            raise ValueError(f"train ends in {self.train[1]}, expected before validation begins")
        for name, years in self.test.items():
            if years[0] <= self.validation[1]:
                raise ValueError(f"test.{name} begins in {years[0]}, expected after validation")
        return self


class Section(ExperimentSection):
    instances: Periods  # type: ignore[assignment]
    methods: Many[Method]
    extended: Some[Frozen]
    exact: Some[Literal[SOLVED]]  # type: ignore[valid-type]
    #: How layers are pretrained, and learning rates of their own.
    training: Recipes
    rates: Annotated[dict[Pretrained, Positive], IF_SET] = {}  # noqa: RUF012
    predictor: Schedule

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        return super().filled(merge({"training": common.get("recipes", {})}, written), common)

    @model_validator(mode="after")
    def _exact_has_its_predictor(self) -> Self:
        known = [f"{method}{EXACT}" for method in (*self.methods, *self.extended)]
        if missing := [method for method in self.exact if method not in known]:
            raise ValueError(f"exact has {missing[0]}, expected some of {', '.join(known)}")
        return self


class Experiment(base.Experiment):
    """A layer is pretrained, then the predictor of returns in front of it."""

    name = "portfolio"
    Section = Section
    extra = True
    families = ("portfolio",)

    def runs(self, case: str) -> list[Run]:
        """A predictor that is also solved exactly is that of its method, in its recipe."""
        extended = self.section.extended
        return super().runs(case) + [
            Run(m, "log_kkt" if m.removesuffix(EXACT) in extended else "paper")
            for m in self.section.exact
        ]

    @classmethod
    def trained(cls, run: Run) -> Run | None:
        method = run.method.removesuffix(EXACT)
        return None if method == SIMPLE else run._replace(method=method)

    @classmethod
    def start(cls, run: Run) -> Run | None:
        """RCDRS-Env@log_kkt for RCDRS-Env-F@log_kkt."""
        layer = FROZEN.get(run.method)
        return Run(layer, run.recipe) if layer else None

    @classmethod
    def check(cls, run: Run) -> None:
        super().check(run)
        method = run.method.removesuffix(EXACT)
        if run.recipe != "paper" and method not in (*LAYERS, *FROZEN):
            raise ValueError(
                f"{run.method} has no pretrained layer: its recipe is paper, not {run.recipe}."
            )

    @classmethod
    def form(cls, kind: str, run: Run) -> base.Form:
        return Periods if kind == "instances" else super().form(kind, run)

    @classmethod
    def recipe_form(cls, run: Run) -> base.Form:
        return super().recipe_form(run) if run.method in LAYERS else Schedule

    def recipe(self, run: Run) -> Plain:
        if run.method not in LAYERS:
            self.check(run)
            return self.section.predictor.plain()
        recipe, rates = self._written(self.section.training, run), self.section.rates
        return recipe | ({"learning_rate": rates[run.method]} if run.method in rates else {})
