"""Weeks hour by hour: each hour begins where the one before it ended."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.experiments.opf.model import HourProgram
from rcdrs.layer import SolverLayer


@torch.no_grad()
def follow(layer: SolverLayer, program: HourProgram, length: int) -> Tensor:
    """The plans (batch, n) of sequences of `length` hours that lie one after the other in the
    batch, and run beside each other.

    The first hour of each begins as the layer does, every other one with the state of the hour
    before.
    """
    if program.batch % length:
        raise ValueError(f"{program.batch} hours are no sequences of {length}.")
    first = torch.arange(0, program.batch, length, device=program.b.device)
    plans, start = torch.empty_like(program.c), None
    for hour in range(length):
        found = layer.solve(program[first + hour], start=start)
        plans[first + hour], start = found.x, found.state
    return plans
