"""What an experiment is to the workflow: its cases and runs, and the settings of each stage.

An experiment is a folder of this package.  Its `experiment` module has the section of the
configuration and a subclass of `Experiment` with the name ``Experiment``: plain values, no torch.
Its `stages` module has what `engine` computes with.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from pydantic import create_model

from rcdrs.experiments.sampling import noted
from rcdrs.experiments.settings import (
    Common,
    Controller,
    Grid,
    LogKKTRecipe,
    LongRun,
    PaperRecipe,
    Plain,
    Recipes,
    Sampled,
    Section,
    Sizes,
    Timing,
)

#: What settings have to be.
Form = type[Section]


class Run(NamedTuple):
    """A method and how it was trained; one that learns nothing is as the paper has it."""

    method: str
    recipe: str = "paper"

    def __str__(self) -> str:
        return f"{self.method}@{self.recipe}"


class Experiment:
    """One section of the configuration, and what it asks for."""

    name: ClassVar[str]
    Section: ClassVar[type[Section]]
    #: Its cases are called FAMILY or FAMILY-SCALE with one of these; of any other if empty.
    families: ClassVar[tuple[str, ...]] = ()
    #: Methods that are trained.
    learned: ClassVar[tuple[str, ...]] = ()
    #: How they may be trained.
    recipes: ClassVar[tuple[str, ...]] = tuple(Recipes.model_fields)
    #: The experiment whose instances it takes; its own by default.
    instances_of: ClassVar[str] = ""
    #: What makes a solver, beside the controller.
    solver_parts: ClassVar[dict[str, Any]] = {}
    #: Its instances are drawn by an edition of the sampling.
    sampled: ClassVar[bool] = False
    #: Rows compare with a reference, which is computed once for a case and seed.
    reference: ClassVar[bool] = False
    #: Its data come with packages of their own: no other target asks for its results.
    extra: ClassVar[bool] = False

    def __init__(self, config: Common) -> None:
        self.config = config
        self.section: Any = getattr(config, self.name)

    @property
    def cases(self) -> list[str]:
        return list(self.families)

    @property
    def depths(self) -> list[int]:
        return list(self.section.depths)

    def runs(self, case: str) -> list[Run]:
        """Every row of results in one setting."""
        section = self.section
        return [Run(m) for m in section.methods] + [Run(m, "log_kkt") for m in section.extended]

    def traced(self, case: str) -> list[Run]:
        """The runs that the report shows more of: those that are trained."""
        return [run for run in self.runs(case) if self.trained(run)]

    @classmethod
    def trained(cls, run: Run) -> Run | None:
        """The run whose checkpoint this one is evaluated with."""
        return run if run.method in cls.learned else None

    @classmethod
    def start(cls, run: Run) -> Run | None:
        """The run whose checkpoint the training of this one starts from."""
        return None

    @classmethod
    def check(cls, run: Run) -> None:
        """An error for a recipe that is not one of the run's method."""
        if run.recipe not in cls.recipes:
            known = ", ".join(cls.recipes)
            raise ValueError(f"unknown recipe {run.recipe!r}, expected one of {known}.")

    @classmethod
    def form(cls, kind: str, run: Run) -> Form:
        """What the settings of the stage that computes a kind of result have to be."""
        parts: dict[str, Any] = {"controller": Controller} | cls.solver_parts
        match kind:
            case "instances":
                return Sampled if cls.sampled else Sizes
            case "cores":
                return Grid
            case "references":
                return LongRun
            case "checkpoints":
                cls.check(run)
                parts["recipe"] = cls.recipe_form(run)
        fields: dict[str, Any] = {name: (part, ...) for name, part in parts.items()}
        above: Form = Timing if kind == "times" else Section
        return create_model("Settings", __base__=above, **fields)

    @classmethod
    def recipe_form(cls, run: Run) -> Form:
        return PaperRecipe if run.recipe == "paper" else LogKKTRecipe

    # The settings of each stage: plain values, all that its numbers depend on.

    def instances(self) -> Plain:
        edition = noted(self.config.sampling) if self.sampled else {}
        return self.section.instances.plain() | edition

    def grid(self) -> Plain:
        return self.section.grid.plain()

    def recipe(self, run: Run) -> Plain:
        return self._written(self.config.recipes, run)

    def _written(self, recipes: Any, run: Run) -> Plain:
        self.check(run)
        recipe, rates = getattr(recipes, run.recipe).plain(), self.config.rates.get(run.recipe, {})
        return recipe | ({"learning_rate": rates[run.method]} if run.method in rates else {})

    def solver(self, run: Run) -> Plain:
        """What makes its solver besides instances, core and weights."""
        return {"controller": self.section.controller.plain()}

    def training(self, run: Run) -> Plain:
        return self.solver(run) | {"recipe": self.recipe(run)}

    def shifted(self, case: str) -> list[Run]:
        """The runs that are tried on other data: none, unless the experiment has such."""
        return []

    def shift_settings(self) -> Plain:
        raise ValueError(f"{self.name} has no other data.")

    def reference_settings(self) -> Plain:
        return {}


@cache
def experiments() -> dict[str, type[Experiment]]:
    """Every experiment by name: the folders of this package."""
    package = import_module(__package__ or "")
    names = [found.name for found in pkgutil.iter_modules(package.__path__) if found.ispkg]
    return {n: import_module(f"{package.__name__}.{n}.experiment").Experiment for n in names}


def experiment_of(case: str) -> str:
    """The experiment that makes the instances of a case: ``socp-hard``, ``dfl``, ..."""
    family, kinds = case.partition("-")[0], experiments().items()
    own = [name for name, kind in kinds if family in kind.families]
    return own[0] if own else next(n for n, k in kinds if not (k.families or k.instances_of))
