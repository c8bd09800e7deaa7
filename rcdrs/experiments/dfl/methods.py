"""The nine methods of the decision-focused tables: what is solved, what is trained, for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines.registry import find_method
from rcdrs.experiments.dfl.data import CONE, Decisions
from rcdrs.experiments.dfl.model import (
    CostPredictor,
    DecisionLoss,
    DecisionModel,
    PredictionLoss,
)
from rcdrs.solver.readout import Errors
from rcdrs.training.losses import Loss

#: The pair of F-DRS, which the paper does not give here.
FIXED_CORE = (1.6, 1.0)


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

    def build(
        self, A: Tensor, depth: int, core: tuple[float, float], controller: dict[str, Any]
    ) -> DecisionModel:
        """The model, untrained; its predictor is drawn first, whatever the layer is."""
        predictor = CostPredictor().to(A)
        layer = find_method(self.layer).build(A, CONE, depth, self.core or core, controller)
        return DecisionModel(predictor, layer, self.frozen, self.name)


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
        DecisionMethod("Anderson-DRS", "Anderson-DRS"),
        DecisionMethod("L-PDHG", "L-PDHG"),
        *_controlled("RCDRS-Env"),
        *_controlled("RCDRS-NoEnv"),
    )
}


def find_decision_method(name: str) -> DecisionMethod:
    if name not in DECISION_METHODS:
        raise ValueError(f"unknown method {name!r}, expected one of {', '.join(DECISION_METHODS)}.")
    return DECISION_METHODS[name]


def score(error: Errors) -> Tensor:
    """``[regret]_+ + 0.1 Eq`` under the true cost: the core is of the lowest mean."""
    return error.Gap + 0.1 * error.Eq


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
    error = decisions.errors(z)
    return {"Regret": error.Gap, "Eq": error.Eq, "Dist": error.Dist}
