"""What each experiment of a configuration runs: cases, depths, methods, settings of its stages.

Plain values only; no mathematics, no files, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rcdrs.artifact.config import Config, merge

#: A method, and for a learned one the recipe it is trained with.
Asked = tuple[str, str | None]


def experiment_of(case: str) -> str:
    """The experiment that a case such as ``socp-hard``, ``dfl`` or ``dispatch-turned`` is of."""
    family = case.partition("-")[0]
    return family if family in ("dfl", "dispatch") else "synthetic"


@dataclass(frozen=True)
class Experiment:
    """One section of the configuration; the stages that run it are functions of `module`."""

    config: Config
    name: ClassVar[str]
    module: ClassVar[str]
    #: The stages behind a row of results.
    stages: ClassVar[tuple[str, ...]] = ("instances", "tune", "train", "evaluate")
    learned: ClassVar[tuple[str, ...]]

    @property
    def section(self) -> Config:
        part: Config = self.config[self.name]
        return part

    @property
    def cases(self) -> list[str]:
        raise NotImplementedError

    def depths(self, case: str) -> list[int]:
        """Every depth at which the case runs."""
        return list(self.section["depths"]) if case in self.cases else []

    def asked(self, case: str) -> list[Asked]:
        """Every row of results in one setting."""
        found: list[Asked] = [
            (method, "paper" if method in self.learned else None)
            for method in self.section["methods"]
        ]
        return found + [(method, "log_kkt") for method in self.section["extended"]]

    def sizes(self) -> Config:
        sizes: Config = self.section["instances"]
        return sizes

    def grid(self) -> Config:
        grid: Config = self.section.get("grid") or self.config["grid"]
        return {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}

    def controller(self) -> Config:
        return merge(self.config["controller"], self.section.get("controller", {}))

    def training(self, recipe: str) -> Config:
        """The settings of one training: controller and recipe."""
        changes = self.section.get("training", {}).get(recipe, {})
        rules = merge(self.config["recipes"][recipe], changes)
        return {"controller": self.controller(), "recipe": rules}

    @property
    def recipes(self) -> list[str]:
        return list(self.config["recipes"])

    def settings(self) -> Config:
        """All that its rows depend on."""
        return {
            "instances": self.sizes(),
            "grid": self.grid(),
            "base_action": self.config["base_action"],
            "threads": self.config["threads"],
            "methods": self.section["methods"],
            "extended": self.section["extended"],
            **{recipe: self.training(recipe) for recipe in self.recipes},
        }


class Synthetic(Experiment):
    """The conic benchmarks; the ablations are trained on the same instances."""

    name = "synthetic"
    module = "rcdrs.experiments.synthetic.stages"
    learned = ("L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv")

    @property
    def cases(self) -> list[str]:
        return [f"{f}-{s}" for f in self.section["families"] for s in self.section["scales"]]

    @property
    def ablation_cases(self) -> list[str]:
        ablation = self.config["ablation"]
        return [f"{family}-{ablation['scale']}" for family in ablation["families"]]

    def depths(self, case: str) -> list[int]:
        depths = set(super().depths(case))
        if case in self.ablation_cases:
            depths.add(self.config["ablation"]["depth"])
        return sorted(depths)

    def ablated(self, variant: str) -> Config:
        """The settings of one variant: what it changes in the controller and in the loss."""
        changes: dict[str, Any] = self.config["ablation"]["variants"][variant]
        full = self.training("paper")
        return {
            "controller": full["controller"] | changes.get("controller", {}),
            "recipe": merge(full["recipe"], {"loss": changes.get("loss", {})}),
        }


class DFL(Experiment):
    """Decision-focused learning: a controller is pretrained, then the predictor in front of it."""

    name = "dfl"
    module = "rcdrs.experiments.dfl.stages"
    stages = ("instances", "tune", "train", "learn", "evaluate")

    @property
    def cases(self) -> list[str]:
        return ["dfl"]

    def asked(self, case: str) -> list[Asked]:
        """Every method has a trained predictor."""
        section = self.section
        found: list[Asked] = [(method, "paper") for method in section["methods"] + section["exact"]]
        return found + [(method, "log_kkt") for method in section["extended"]]

    def layer(self, method: str) -> str | None:
        """The method whose pretrained layer this one starts from: RCDRS-Env for RCDRS-Env-J."""
        name, _, kind = method.rpartition("-")
        return name if kind in ("F", "J") else None

    def predictor(self) -> Config:
        return {"controller": self.controller(), "recipe": self.section["predictor"]}

    def settings(self) -> Config:
        return super().settings() | {
            "predictor": self.predictor(),
            "exact": self.section["exact"],
        }


class Dispatch(Experiment):
    """Energy dispatch, in one case for each formulation of the reserve."""

    name = "dispatch"
    module = "rcdrs.experiments.dispatch.stages"
    stages = ("instances", "tune", "train", "reference", "evaluate")
    learned = ("RCDRS-Env", "RCDRS-NoEnv")

    @property
    def cases(self) -> list[str]:
        return [f"dispatch-{formulation}" for formulation in self.section["formulations"]]

    def asked(self, case: str) -> list[Asked]:
        """log_kkt is for the formulation that always has a solution."""
        found = super().asked(case)
        if case == "dispatch-inequality":
            return found
        return [(method, recipe) for method, recipe in found if recipe != "log_kkt"]

    @property
    def recipes(self) -> list[str]:
        return list(self.section["training"])

    def training(self, recipe: str) -> Config:
        """Its recipes have losses of their own."""
        return {"controller": self.controller(), "recipe": self.section["training"][recipe]}

    def settings(self) -> Config:
        return super().settings() | {"reference": self.section["reference"]}


EXPERIMENTS = {kind.name: kind for kind in (Synthetic, DFL, Dispatch)}
