"""What a schedule is worth on the day that comes: every metric one number per instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rcdrs.experiments.dispatch.model import DispatchProgram
from rcdrs.solver.readout import equality
from rcdrs.training.losses import Loss

#: The acceptance tests of eq. (35).
ACCEPTED = {"Eq": 0.035, "Box": 1e-5, "Shed": 0.12, "Reserve": 0.08}


class Operation(NamedTuple):
    """The feasibility of a schedule for the forecast, and its fate on the realised day."""

    Eq: Tensor  # |A z - d| / (1 + |d|), eq. (33)
    Box: Tensor  # |z - Proj(z)| / (1 + |z|), eq. (34)
    Shed: Tensor  # planned and emergency shedding per load, eq. (29)
    Curt: Tensor  # curtailment and surplus per renewable power, eq. (31)
    Reserve: Tensor  # missing reserve per requirement, eq. (32)
    Emerg: Tensor  # emergency shedding alone, eq. (30)

    @property
    def Pass(self) -> Tensor:
        """1 where all acceptance tests hold, else 0."""
        tests = [getattr(self, name) <= limit for name, limit in ACCEPTED.items()]
        return torch.stack(tests).all(0).to(self.Eq.dtype)


def operate(program: DispatchProgram, z: Tensor) -> Operation:
    """Carry out the schedules z (batch, n) on the realised day."""
    model, realised = program.model, program.realised
    s = model.schedule(z)
    balance = model.balance(s, realised)
    deficit, excess = _total((-balance).clamp(min=0)), _total(balance.clamp(min=0))
    load, renewable = 1 + _total(realised.load), 1 + _total(realised.renewable)
    requirement = model.requirement(realised)
    missing = (requirement - model.headroom(s)).clamp(min=0)
    return Operation(
        Eq=equality(program, z),
        Box=_norm(z - program.cone.project(z)) / (1 + _norm(z)),
        Shed=(_total(s.shedding) + deficit) / load,
        Curt=(_total(s.curtailment) + excess) / renewable,
        Reserve=missing.sum(-1) / (1 + requirement.sum(-1)),
        Emerg=deficit / load,
    )


def cost(program: DispatchProgram, z: Tensor) -> Tensor:
    """C_disp of eq. (20): ``z'Qz / 2 + c'z``."""
    return ((program.gradient(z) + program.c) * z).sum(-1) / 2


def cost_gap(value: Tensor, reference: Tensor) -> Tensor:
    """The positive part of the relative difference, eq. (37)."""
    return ((value - reference) / (1 + reference.abs())).clamp(min=0)


@dataclass(frozen=True)
class DispatchLoss(Loss):
    r"""The merit of eq. (36), which trains controllers and selects cores.

    C_disp / (1 + sum of forecast load) + 6 Eq + Box + 12 Shed + 8 Res + 0.05 Curt
    """

    eq: float = 6.0
    box: float = 1.0
    shed: float = 12.0
    reserve: float = 8.0
    curt: float = 0.05

    def __call__(self, solution: Any, reference: Any = None) -> Tensor:
        return self.of(solution.program, solution.x)

    def of(self, program: DispatchProgram, z: Tensor) -> Tensor:
        """The merit of schedules z (batch, n)."""
        seen = operate(program, z)
        return (
            cost(program, z) / (1 + _total(program.forecast.load))
            + self.eq * seen.Eq
            + self.box * seen.Box
            + self.shed * seen.Shed
            + self.reserve * seen.Reserve
            + self.curt * seen.Curt
        )


def _total(x: Tensor) -> Tensor:
    return x.sum((-2, -1))


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)
