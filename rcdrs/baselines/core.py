"""What the methods that a fixed core makes have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.layer import SolverLayer, check_core
from rcdrs.solver.problem import ConicProgram


class CoreLayer(SolverLayer):
    """A solver that starts from a fixed core (alpha, beta) and learns nothing."""

    def __init__(
        self, A: Tensor, cone: Cone, depth: int, alpha: float = 1.6, beta: float = 0.3
    ) -> None:
        super().__init__(A, cone, depth)
        self.alpha, self.beta = check_core(alpha, beta)

    def options(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    def constants(self, program: ConicProgram) -> tuple[Tensor, Tensor]:
        """alpha and beta of every instance."""
        alpha = program.c.new_full((program.batch,), self.alpha)
        return alpha, program.c.new_full((program.batch,), self.beta)


def action_of(alpha: Tensor, beta: Tensor) -> Tensor:
    """As a trace has it; rho does not enter the transition, and log rho = 0 fills its place."""
    return torch.stack([torch.zeros_like(alpha), alpha, beta.log()], -1)
