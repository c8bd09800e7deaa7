"""The optimum of a day's program, where it has one."""

from __future__ import annotations

from torch import Tensor

from rcdrs.experiments import exact
from rcdrs.experiments.dispatch.model import DispatchProgram


def solve(program: DispatchProgram) -> Tensor:
    """The optimal schedules, (batch, n) in float64; NaN for a day that Clarabel cannot solve."""
    box = program.model.box(program.forecast)
    lower, upper = (bound.cpu().double() for bound in (box.lower, box.upper))
    return exact.solve(program)[0].clamp(lower, upper)
