"""L-PDHG: primal-dual hybrid gradient with learned, provably stable step sizes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rcdrs.cones import Cone
from rcdrs.layer import SolverLayer
from rcdrs.solution import Solution
from rcdrs.solver.affine import down, up
from rcdrs.solver.fused import EPSILON_C, Observation
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import diagnose
from rcdrs.solver.step import State

SAFETY = 0.95
LARGEST_THETA = 0.8
SCALES = (1e-4, 10.0)


class PDHGLayer(SolverLayer):
    r"""Unrolled PDHG for ``min cbar'x, A x = b, x in K`` with steps (tau, sigma, theta) per layer.

        x+ = Proj_K(x - tau (cbar - A'y)),   y+ = y + sigma (b - A (x+ + theta (x+ - x)))

    The learned positive scales are clipped to [1e-4, 10] and then shrunk together until
    ``tau sigma |A|^2 <= 0.95^2``; ``theta <= 0.8``.  The objective is normalised as in the DRS
    layers.  The readout takes the layer's own dual y, and as slack the residual of the last
    projection, ``(x+ - (x - tau (cbar - A'y))) / tau``, which lies in K* and is orthogonal
    to x+.
    """

    def __init__(self, A: Tensor, cone: Cone, depth: int) -> None:
        super().__init__(A, cone, depth)
        #: log tau, logit of theta/0.8, log sigma, of each layer.
        self.steps = nn.Parameter(self.A.new_zeros(depth, 3))

    def step_sizes(self, k: int, norm: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(tau, sigma, theta) of layer k; beyond the trained depth the last ones go on."""
        log_tau, raw_theta, log_sigma = self.steps[min(k, len(self.steps) - 1)]
        tau, sigma = (log.exp().clamp(*SCALES) for log in (log_tau, log_sigma))
        shrink = (SAFETY / (norm * (tau * sigma).sqrt())).clamp(max=1)
        return tau * shrink, sigma * shrink, LARGEST_THETA * torch.sigmoid(raw_theta)

    def _norm(self, program: ConicProgram) -> Tensor:
        """|A|, from the factorisation unless its gradient is wanted."""
        if program.A.requires_grad:
            return torch.linalg.matrix_norm(program.A, 2)
        return program.affine.S.amax(-1)

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        if start is not None:
            raise ValueError("start: L-PDHG has no warm start, its dual is not part of a state.")
        norm = self._norm(program)
        b, c = program.b.mT.contiguous(), program.c.mT.contiguous()
        c_norm = torch.linalg.vector_norm(c, dim=0) + EPSILON_C
        direction = c / c_norm
        A_transposed = program.A.mT
        x, y = torch.zeros_like(c), torch.zeros_like(b)
        slack, before = torch.zeros_like(c), x
        trace: list[Tensor] = []
        for k in range(depth):
            tau, sigma, theta = self.step_sizes(k, norm)
            point = x - tau * (direction - up(A_transposed, y))
            before, x = x, program.cone.project(point.mT).mT
            slack = (x - point) / tau
            ahead = x + theta * (x - before)
            y = y + sigma * (b - down(A_transposed, ahead))
            trace.append(torch.stack(torch.broadcast_tensors(sigma.log(), theta, tau.log()), -1))
        z, s, dual = x.mT, (slack * c_norm).mT, (y * c_norm).mT
        residual = down(A_transposed, x) - b
        length = [torch.linalg.vector_norm(t, dim=0) for t in (residual, x - before, x)]
        seen = Observation(
            consensus=torch.zeros_like(length[0]),  # one primal variable: nothing to agree with
            equality=length[0],
            movement=length[1],
            size=length[2],
            objective=(c * x).sum(0),
        )
        actions = torch.stack(trace, dim=-2).expand(program.batch, depth, 3)
        state = State(z, z, torch.zeros_like(z))
        return Solution(
            program, state, actions, lambda: seen, lambda: diagnose(program, z, s, dual)
        )


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> PDHGLayer:
    return PDHGLayer(A, cone, depth)
