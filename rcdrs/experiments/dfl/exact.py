"""Predict, then solve to optimality: what a fixed number of steps costs."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.experiments.dfl.data import Decisions
from rcdrs.experiments.dfl.methods import measure
from rcdrs.experiments.dfl.model import DecisionModel
from rcdrs.experiments.exact import solve
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import diagnose


@torch.no_grad()
def evaluate_exactly(model: DecisionModel, decisions: Decisions) -> dict[str, Tensor]:
    """`methods.evaluate` with Clarabel in place of the layer.

    A predicted problem may be unbounded, or numerically out of Clarabel's reach: its metrics are
    NaN then, and it counts as 0 in ``Solved``.
    """
    given = (model.layer.A, decisions.program.b, model.predictor(decisions.q))
    A, b, c = (tensor.to("cpu", torch.float64) for tensor in given)
    program = ConicProgram(A, b, c, model.layer.cone)
    x, y = solve(program)
    solved = torch.isfinite(x).all(-1)
    # The slack that stationarity asks for, projected onto K*: by Moreau, w + Proj_K(-w).
    w = c - y @ A
    s = w + program.cone.project(-w)
    residuals = diagnose(program, x, s, y)
    metrics = measure(decisions, x.to(decisions.x))
    metrics |= {name: getattr(residuals, name) for name in ("r_p", "r_d", "r_gap")}
    return metrics | {"Solved": solved.double()}
