"""The nine methods of the decision-focused tables: what is solved, what is trained, for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines import grid_drs
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.dfl.data import CONE, Decisions
from rcdrs.experiments.dfl.model import (
    CostPredictor,
    DecisionLoss,
    DecisionModel,
    PredictionLoss,
)
from rcdrs.layer import SolverLayer
from rcdrs.solver.readout import Errors, errors
from rcdrs.training.loop import Recipe, find_recipe
from rcdrs.training.losses import Loss

#: The pair of F-DRS, which the paper does not give here.
FIXED_CORE = (1.6, 1.0)
#: The grid of the fixed core.
ALPHAS = (0.8, 1.0, 1.3, 1.6, 1.8)
BETAS = (0.1, 0.3, 1.0, 3.0, 6.0)
#: Changes to the common controller: its ranges.
CONTROLLER: dict[str, Any] = {
    "ranges": {"rho": (1e-3, 1e3), "alpha": (0.2, 1.8), "beta": (1e-3, 10.0)}
}
#: Changes to the recipes that pretrain the controller; as many steps of log_kkt as elsewhere.
PRETRAINING: dict[str, dict[str, Any]] = {
    "paper": {"epochs": 80, "batch": 2500},
    "log_kkt": {"epochs": 12},
}
#: After a method's name: its predictor, with every problem solved to optimality.
EXACT = "-Exact"


@dataclass(frozen=True)
class DecisionMethod:
    """How a predictor is trained and its problems are solved.

    Arguments
        layer: the method of `rcdrs.baselines.registry` that solves.
        core: its pair (alpha, beta), by default the validation-selected one.
        loss: what the predictor is trained for.
        controlled: the layer's controller comes from a pretraining.
        frozen: the layer keeps its weights.
    """

    name: str
    layer: str
    core: tuple[float, float] | None = None
    loss: Loss = field(default_factory=DecisionLoss)
    controlled: bool = False
    frozen: bool = False

    def build_layer(
        self, A: Tensor, depth: int, core: tuple[float, float], controller: Mapping[str, Any]
    ) -> SolverLayer:
        """The layer, untrained."""
        build = find_method(self.layer).build
        return build(A, CONE, depth, self.core or core, CONTROLLER | dict(controller))

    def model(self, layer: SolverLayer) -> DecisionModel:
        """The model around the layer, its predictor untrained."""
        return DecisionModel(CostPredictor().to(layer.A), layer, self.frozen)

    def recipe(self, changes: Mapping[str, Any]) -> Recipe:
        """The paper's settings of the predictor's training, with changes."""
        standard = Recipe(self.loss, epochs=50, batch=2500)
        return replace(standard, **changes)


def _controlled(layer: str) -> tuple[DecisionMethod, DecisionMethod]:
    return (
        DecisionMethod(f"{layer}-F", layer, controlled=True, frozen=True),
        DecisionMethod(f"{layer}-J", layer, controlled=True),
    )


DECISION_METHODS = {
    method.name: method
    for method in (
        DecisionMethod("PTO", "Grid-DRS", loss=PredictionLoss()),
        DecisionMethod("F-DRS", "Grid-DRS", core=FIXED_CORE),
        DecisionMethod("Grid-DRS", "Grid-DRS"),
        DecisionMethod("AA-DRS", "AA-DRS"),
        DecisionMethod("L-PDHG", "L-PDHG"),
        *_controlled("RCDRS-Env"),
        *_controlled("RCDRS-NoEnv"),
    )
}


def find_decision_method(name: str) -> DecisionMethod:
    if name not in DECISION_METHODS:
        raise ValueError(f"unknown method {name!r}, expected one of {', '.join(DECISION_METHODS)}.")
    return DECISION_METHODS[name]


@dataclass(frozen=True)
class Run:
    """What to evaluate: a method, the recipe behind it, and its checkpoint."""

    method: DecisionMethod
    recipe: str
    checkpoint: Path
    exact: bool = False

    @property
    def name(self) -> str:
        return self.method.name + (EXACT if self.exact else "")

    @staticmethod
    def parse(text: str) -> Run:
        """``METHOD@RECIPE=CHECKPOINT``, or ``METHOD-Exact@RECIPE=CHECKPOINT``."""
        name, _, rest = text.partition("@")
        recipe, _, checkpoint = rest.partition("=")
        if not checkpoint:
            raise ValueError(f"{text!r}, expected METHOD@RECIPE=CHECKPOINT.")
        method = find_decision_method(name.removesuffix(EXACT))
        check_recipe(method, recipe)
        return Run(method, recipe, Path(checkpoint), name.endswith(EXACT))


def check_recipe(method: DecisionMethod, recipe: str) -> None:
    find_recipe(recipe)
    if recipe != "paper" and not method.controlled:
        raise ValueError(f"{method.name} has no controller: its recipe is paper, not {recipe}.")


def select_core(
    validation: Decisions,
    depth: int,
    alphas: tuple[float, ...] = ALPHAS,
    betas: tuple[float, ...] = BETAS,
    scored: int | None = None,
) -> tuple[float, float]:
    """The pair of lowest mean ``[regret]_+ + 0.1 Eq`` under the true cost, after `depth` steps."""

    def score(error: Errors) -> Tensor:
        return error.Gap + 0.1 * error.Eq

    return grid_drs.select_core(
        validation, depth, alphas, betas, validation.batch if scored is None else scored, score
    )


@torch.no_grad()
def evaluate(model: DecisionModel, decisions: Decisions) -> dict[str, Tensor]:
    """Every metric of the tables, one value per instance.

    Regret and Dist are those of the decision under the true cost, r_p = Eq, r_d and r_gap those
    of the predicted problem.
    """
    solution = model.solve(decisions).solution
    return measure(decisions, solution.x) | {
        name: getattr(solution.readout, name) for name in ("r_p", "r_d", "r_gap")
    }


def measure(decisions: Decisions, z: Tensor) -> dict[str, Tensor]:
    """The metrics of decisions z (batch, n) under the true cost."""
    error = errors(decisions.program, z, decisions.x)
    return {"Regret": error.Gap, "Eq": error.Eq, "Dist": error.Dist}
