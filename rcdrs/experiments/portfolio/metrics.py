"""What a sequence of portfolios is worth: every metric one number per week."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.experiments.portfolio.data import Decide, Weeks, follow, optimum
from rcdrs.experiments.portfolio.model import Portfolio, realised_risk, turnover
from rcdrs.layer import SolverLayer
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import equality
from rcdrs.solver.step import State

#: Before the name of a metric: the sequence is solved from where the week before ended.
WARM = "Warm"


def by_layer(layer: SolverLayer, warm: bool) -> Decide:
    """By the steps of a layer, from zero, or from the last state of the week before."""
    state: State | None = None

    def decide(b: Tensor, c: Tensor) -> Tensor:
        nonlocal state
        solution = layer(b, c, start=state)
        state = solution.state if warm else None
        return solution.x

    return decide


@torch.no_grad()
def measure(
    portfolio: Portfolio, A: Tensor, weeks: Weeks, mu: Tensor, decide: Decide
) -> dict[str, Tensor]:
    """Of the sequence that begins with cash in the first week.

    Utility: the objective with the returns and the risk that came, in basis points.
    Return, Risk, Turnover: its parts; Turnover is the sum of all |trades|, in percent.
    Expected: the optimum of the predicted problem, with what is held.
    Regret: what the portfolio lacks to that.
    Missed: how much more Utility the optimal decision would have had.
    r_p: of the decision, before it is made a portfolio.
    """
    path = follow(portfolio, mu, weeks.sigma, weeks.returns, decide)
    held = portfolio.held(path.b)
    best = portfolio.weights(optimum(portfolio, A, path.b, path.c)[0], path.b)

    def expected(w: Tensor) -> Tensor:
        return portfolio.value(w, held, mu, weeks.sigma * portfolio.sigmas(w))

    def utility(w: Tensor) -> Tensor:
        return portfolio.value(w, held, weeks.returns, realised_risk(w, weeks.daily))

    return {
        "Utility": utility(path.w),
        "Return": (path.w * weeks.returns).sum(-1),
        "Risk": realised_risk(path.w, weeks.daily),
        "Turnover": 100 * turnover(path.w, held),
        "Expected": expected(best),
        "Regret": expected(best) - expected(path.w),
        "Missed": utility(best) - utility(path.w),
        "r_p": equality(ConicProgram(A, path.b, path.c, portfolio.cone), path.x),
    }
