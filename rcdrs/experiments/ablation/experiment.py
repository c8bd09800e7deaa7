"""The ablations in the configuration: variants of one method, which stand in a method's place."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.sampling import noted
from rcdrs.experiments.settings import (
    Controlled,
    Controller,
    Depth,
    Family,
    Many,
    Name,
    Plain,
    Printable,
    Scale,
    Section,
    TerminalWeights,
    merge,
)


class Variant(Section):
    """What it has in place of the common controller and of the paper's loss."""

    controller: Controller
    loss: TerminalWeights


class Row(Section):
    """A row of the table: its group, the paper's label, the variant; `main` in the short one."""

    group: Literal["Controller", "Control", "Feature", "Loss"]
    label: Printable
    variant: Name
    main: bool


class Ablations(Section):
    families: Many[Family]
    scale: Scale
    depth: Depth
    method: Controlled
    variants: dict[Name, Variant]
    rows: list[Row]

    @model_validator(mode="after")
    def _known(self) -> Self:
        for number, row in enumerate(self.rows):
            if row.variant not in self.variants:
                found = f"rows[{number}].variant is {row.variant!r}"
                raise ValueError(f"{found}, expected one of {', '.join(self.variants)}")
        return self

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        """A variant is written as what it changes."""
        loss = common.get("recipes", {}).get("paper", {}).get("loss", {})
        full = {"controller": common.get("controller", {}), "loss": loss}
        variants = written.get("variants")
        if not isinstance(variants, dict):
            return written
        changed = {n: merge(full, v) if isinstance(v, dict) else v for n, v in variants.items()}
        return written | {"variants": changed}


class Experiment(base.Experiment):
    """One method at one scale and depth, changed in one way; instances are the benchmarks'."""

    name = "ablation"
    Section = Ablations
    recipes = ("paper",)
    instances_of = "synthetic"
    sampled = True
    solver_parts: ClassVar[dict[str, Any]] = {"method": Controlled}

    def instances(self) -> Plain:
        return self.config.synthetic.instances.plain() | noted(self.config.sampling)

    def grid(self) -> Plain:
        return self.config.synthetic.grid.plain()

    @property
    def cases(self) -> list[str]:
        return [f"{family}-{self.section.scale}" for family in self.section.families]

    @property
    def depths(self) -> list[int]:
        return [self.section.depth]

    def runs(self, case: str) -> list[Run]:
        return [Run(variant) for variant in dict.fromkeys(r.variant for r in self.section.rows)]

    @classmethod
    def trained(cls, run: Run) -> Run:
        return run

    def solver(self, run: Run) -> Plain:
        controller = self._variant(run).controller.plain()
        return {"controller": controller, "method": self.section.method}

    def recipe(self, run: Run) -> Plain:
        return super().recipe(run) | {"loss": self._variant(run).loss.plain()}

    def _variant(self, run: Run) -> Variant:
        variants = self.section.variants
        if run.method not in variants:
            known = ", ".join(variants)
            raise ValueError(f"unknown variant {run.method!r}, expected one of {known}.")
        return variants[run.method]
