"""From features to portfolios: the predictor, the layer behind it, and what they are chosen for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from rcdrs.baselines.registry import find_method
from rcdrs.experiments.portfolio.data import Weeks, WeekSet
from rcdrs.experiments.portfolio.experiment import FROZEN, SIMPLE
from rcdrs.experiments.portfolio.market import FEATURES
from rcdrs.experiments.portfolio.model import Portfolio, realised_risk
from rcdrs.layer import SolverLayer
from rcdrs.rollout.fixed import rollout
from rcdrs.solution import Solution
from rcdrs.solver.readout import equality
from rcdrs.training.losses import Loss

#: Basis points that r_p = 1 counts, beside what a decision earns: trades alone would not show it.
EQ = 100.0


class ReturnPredictor(nn.Module):
    """The simple prediction, corrected by one small network for every stock: at first by nothing,
    and never by more than a hundred basis points."""

    CLIP = 100.0

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        last = nn.Linear(width, 1)
        self.net = nn.Sequential(nn.Linear(FEATURES, width), nn.Tanh(), last)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, features: Tensor, simple: Tensor) -> Tensor:
        return simple + self.CLIP * torch.tanh(self.net(features).squeeze(-1))


@dataclass(frozen=True)
class Decision:
    """What a model makes of weeks: predicted returns, and its solution once asked for."""

    given: Weeks
    mu: Tensor
    model: DecisionModel

    @cached_property
    def solution(self) -> Solution:
        """Of the predicted problems, with what is held on the path of the simple prediction."""
        cost = self.model.portfolio.cost(self.mu, self.given.sigma)
        return self.model.layer(self.given.program.b, cost)


class DecisionModel(nn.Module):
    """A predictor and the layer that decides by what it predicts; the layer keeps its weights."""

    def __init__(
        self, predictor: ReturnPredictor, layer: SolverLayer, portfolio: Portfolio, method: str
    ) -> None:
        super().__init__()
        self.predictor, self.layer, self.portfolio = predictor, layer, portfolio
        self.method = method
        layer.requires_grad_(False)

    @property
    def depth(self) -> int:
        return self.layer.depth

    def solve(self, given: Weeks) -> Decision:
        simple = self.portfolio.predicted(given.program.c)
        return Decision(given, self.predictor(given.features, simple), self)

    def options(self) -> dict[str, Any]:
        """What makes this model besides its weights: plain values."""
        return {"layer": type(self.layer).__name__} | self.layer.options()

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of the model."""
        return {"method": self.method, "depth": self.depth, "options": self.options()}


@dataclass(frozen=True)
class RealisedLoss(Loss):
    """What the week that came took away: minus the objective with its returns and its risk, and
    EQ r_p."""

    def __call__(self, decision: Decision, reference: Any = None) -> Tensor:
        portfolio, given, solution = decision.model.portfolio, decision.given, decision.solution
        b = given.program.b
        w = portfolio.weights(solution.x, b)
        risk = realised_risk(w, given.daily)
        value = portfolio.value(w, portfolio.held(b), given.returns, risk)
        return EQ * solution.primal_residual - value


@dataclass(frozen=True)
class PredictionLoss(Loss):
    """The mean squared error of returns: predict-then-optimise never looks at the decision."""

    def __call__(self, decision: Decision, reference: Any = None) -> Tensor:
        return (decision.mu - decision.given.returns).square().mean(-1)


@dataclass(frozen=True)
class DecisionMethod:
    """A method of `rcdrs.baselines.registry`, and what the predictor before it is trained for."""

    name: str
    layer: str
    loss: Loss = field(default_factory=RealisedLoss)

    def build(
        self, data: WeekSet, depth: int, core: tuple[float, float], controller: dict[str, Any]
    ) -> DecisionModel:
        """The model, untrained; its predictor is drawn first, whatever the layer is."""
        predictor = ReturnPredictor().to(data.A)
        layer = find_method(self.layer).build(data.A, data.cone, depth, core, controller)
        return DecisionModel(predictor, layer, data.portfolio, self.name)


METHODS = {
    method.name: method
    for method in (
        DecisionMethod(SIMPLE, "Grid-DRS"),
        DecisionMethod("PTO", "Grid-DRS", PredictionLoss()),
        DecisionMethod("F-DRS", "F-DRS"),
        DecisionMethod("Grid-DRS", "Grid-DRS"),
        *(DecisionMethod(name, layer) for name, layer in FROZEN.items()),
    )
}


@torch.no_grad()
def select_core(
    portfolio: Portfolio,
    weeks: Weeks,
    depth: int,
    alphas: Sequence[float],
    betas: Sequence[float],
    scored: int,
) -> tuple[float, float]:
    """The pair with which the simple prediction's decisions lose least, in its own view of returns
    and risk, EQ r_p included."""
    weeks = weeks[:scored]
    program, mu = weeks.program, portfolio.predicted(weeks.program.c)

    def score(pair: tuple[float, float]) -> float:
        x = rollout(program, *pair, depth).z
        w = portfolio.weights(x, program.b)
        held, risk = portfolio.held(program.b), weeks.sigma * portfolio.sigmas(w)
        lost = EQ * equality(program, x) - portfolio.value(w, held, mu, risk)
        return float(lost.double().mean())

    return min(product(alphas, betas), key=score)
