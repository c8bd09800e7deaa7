"""Recall-DRS: a fixed core that begins where the most similar hour of training ended."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rcdrs.experiments.opf.data import Hours
from rcdrs.experiments.opf.model import HourProgram
from rcdrs.layer import DRSLayer
from rcdrs.solution import Solution
from rcdrs.solver.step import State


class RecallDRS(DRSLayer):
    r"""Fixed-core DRS from the fixed point of a program that was solved before.

        y = (x*, x*, -beta s* / |c|),    of the solution x* and the dual slack s*,

    is what eq. (4) of that program leaves as it is.  It is the program of the hour whose forecast
    is nearest, with load and renewable power in units of how much they differ between hours.
    """

    seen: Tensor
    unit: Tensor
    points: Tensor
    normals: Tensor

    def __init__(self, hours: Hours, depth: int, alpha: float, beta: float) -> None:
        program = hours.program
        super().__init__(program.A, program.cone, depth, alpha, beta)
        forecast = _numbers(program)
        length = torch.linalg.vector_norm(program.c, dim=-1, keepdim=True)
        parts = {
            # At least a MW: of a bus without load it is nothing.
            "unit": forecast.std(0).clamp(min=1),
            "points": hours.x,
            "normals": -beta * hours.s / length,
        }
        for name, part in (parts | {"seen": forecast / parts["unit"]}).items():
            self.register_buffer(name, part, persistent=False)

    def solve(
        self,
        program: Any,
        depth: int | None = None,
        start: State | None = None,
        single: bool = False,
    ) -> Solution:
        return super().solve(program, depth, start or self.recall(program), single)

    def recall(self, program: HourProgram) -> State:
        """The fixed point of the most similar hour, for each hour."""
        nearest = torch.cdist(_numbers(program) / self.unit, self.seen).argmin(1)
        x = self.points[nearest]
        return State(x, x, self.normals[nearest])


def _numbers(program: HourProgram) -> Tensor:
    """What is forecast of an hour, in MW."""
    return torch.cat(program.forecast, dim=-1)
