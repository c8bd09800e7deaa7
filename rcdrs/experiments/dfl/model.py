"""From features to decisions: the cost predictor, the solver layer behind it, and their losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from rcdrs.experiments.dfl.data import CONE, FEATURES, Decisions, check_features
from rcdrs.layer import SolverLayer
from rcdrs.solution import Solution
from rcdrs.solver.readout import equality
from rcdrs.training.losses import Loss


class CostPredictor(nn.Module):
    """Two hidden ReLU layers, and the smooth clip ``c = 20 tanh(raw / 20)``."""

    CLIP = 20.0

    def __init__(self, features: int = FEATURES, costs: int = CONE.dim, width: int = 128) -> None:
        super().__init__()
        self.features, self.costs = features, costs
        self.net = nn.Sequential(
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, costs),
        )

    def forward(self, q: Tensor) -> Tensor:
        raw = self.net(check_features(q, self.features))
        return self.CLIP * torch.tanh(raw / self.CLIP)


@dataclass(frozen=True)
class Decision:
    """What a model makes of a batch: the predicted cost, and its solution once asked for."""

    given: Decisions
    cost: Tensor
    layer: SolverLayer

    @cached_property
    def solution(self) -> Solution:
        """The layer's answer to the predicted problem."""
        return self.layer(self.given.program.b, self.cost)


class DecisionModel(nn.Module):
    """A predictor and the layer that solves what it predicts, as one module to train.

    Arguments
        frozen: keep the layer's own weights; gradients still pass through it to the predictor.
        method: the name under which it is saved.
    """

    def __init__(
        self, predictor: CostPredictor, layer: SolverLayer, frozen: bool = False, method: str = ""
    ) -> None:
        super().__init__()
        n = layer.A.shape[-1]
        if predictor.costs != n:
            raise ValueError(
                f"the predictor gives {predictor.costs} costs, expected n = {n}, the columns of "
                "the layer's A."
            )
        self.predictor, self.layer = predictor, layer
        self.frozen, self.method = frozen, method
        layer.requires_grad_(not frozen)

    @property
    def depth(self) -> int:
        return self.layer.depth

    def solve(self, given: Decisions) -> Decision:
        return Decision(given, self.predictor(given.q), self.layer)

    def options(self) -> dict[str, Any]:
        """What makes this model besides its weights: plain values."""
        layer = {"layer": type(self.layer).__name__} | self.layer.options()
        return layer | {"frozen": self.frozen}

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of the model."""
        return {"method": self.method, "depth": self.depth, "options": self.options()}


@dataclass(frozen=True)
class DecisionLoss(Loss):
    r"""The paper's loss under the true cost c, without a term for the prediction.

    [(c'z - c'x*) / (1 + |c'x*|)]_+  +  eq |A z - b| / (1 + |b|)
    """

    eq: float = 20.0

    def __call__(self, decision: Decision, reference: Any = None) -> Tensor:
        given, z = decision.given, decision.solution.x
        c = given.program.c
        optimum = (c * given.x).sum(-1)
        regret = ((c * z).sum(-1) - optimum) / (1 + optimum.abs())
        return regret.clamp(min=0) + self.eq * equality(given.program, z)


@dataclass(frozen=True)
class PredictionLoss(Loss):
    """The mean squared error of the cost: predict-then-optimize never looks at the decision."""

    def __call__(self, decision: Decision, reference: Any = None) -> Tensor:
        return (decision.cost - decision.given.program.c).square().mean(-1)
