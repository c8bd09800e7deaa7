"""What the controllers are trained for.  Nothing here knows an optimal solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rcdrs.solution import Solution
from rcdrs.solver.fused import Observation


class Loss:
    """What a module is trained for: one value per instance."""

    def __call__(self, solution: Any, reference: Any, /) -> Tensor:
        raise NotImplementedError

    def merit(self, solution: Any, reference: Any, /) -> Tensor:
        """What the best epoch is chosen by, on validation data: by default the loss itself."""
        return self(solution, reference)


@dataclass(frozen=True)
class TerminalLoss(Loss):
    r"""The paper's self-supervised loss, section "Terminal-oriented training objective".

        M    = eq L_eq + con L_con + mov L_mov + obj L_obj
        loss = M + dom [M - M_base + margin]_+ + smooth L_smooth

    A weight of zero removes its term, as the loss ablations do.
    """

    eq: float
    con: float
    mov: float
    obj: float
    dom: float
    margin: float
    smooth: float

    def __call__(self, solution: Solution, reference: Observation) -> Tensor:
        """The loss per instance; `reference` is the fixed core's terminal observation."""
        merit = self.merit(solution, reference)
        base = self._residuals(solution, reference)
        dominance = (merit - base + self.margin).clamp(min=0)
        return merit + self.dom * dominance + self.smooth * smoothness(solution.actions)

    def merit(self, solution: Solution, reference: Observation) -> Tensor:
        """The terminal merit ``M_rc`` per instance."""
        worse = solution.observation.objective - reference.objective
        objective = (worse / (1 + reference.objective.abs())).clamp(min=0)
        return self._residuals(solution, solution.observation) + self.obj * objective

    def _residuals(self, solution: Solution, seen: Observation) -> Tensor:
        eq, con, mov = terminal_residuals(solution, seen)
        return self.eq * eq.square() + self.con * con.square() + self.mov * mov.square()


@dataclass(frozen=True)
class LogKKTLoss(Loss):
    r"""``log(eq r_p^2 + con L_con + mov L_mov + dual r_d^2 + gap r_gap^2)`` per instance.

    Beyond the paper: the layer's own dual readout enters, so the objective is driven by the
    duality gap instead of by a reference rollout, and the logarithm gives every instance and
    every order of magnitude the same weight.
    """

    eq: float
    con: float
    mov: float
    dual: float
    gap: float

    def __call__(self, solution: Solution, reference: Observation) -> Tensor:
        eq, con, mov = terminal_residuals(solution, solution.observation)
        r = solution.readout
        squares = self.eq * eq.square() + self.con * con.square() + self.mov * mov.square()
        squares = squares + self.dual * r.r_d.square() + self.gap * r.r_gap.square()
        return torch.log(squares + 1e-20)  # the floor is far below float32 residuals


def terminal_residuals(solution: Solution, seen: Observation) -> tuple[Tensor, Tensor, Tensor]:
    """``|Az-b|/(1+|b|)``, ``|x-z|/(1+|z|)`` and ``|z^K-z^{K-1}|/(1+|z|)``."""
    b_norm = torch.linalg.vector_norm(solution.program.b, dim=-1)
    size = 1 + seen.size
    return seen.equality / (1 + b_norm), seen.consensus / size, seen.movement / size


def smoothness(actions: Tensor) -> Tensor:
    """``sum_k |l_k - l_{k-1}|^2`` of the actions (batch, K, 3)."""
    return actions.diff(dim=1).square().sum((1, 2))
