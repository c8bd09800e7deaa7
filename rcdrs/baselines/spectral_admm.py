"""S-ADMM: the penalty follows a safeguarded spectral estimate (Xu, Figueiredo, Goldstein 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.baselines.core import CoreLayer
from rcdrs.cones import Cone
from rcdrs.controller import Ranges
from rcdrs.solution import Solution, begin, finish
from rcdrs.solver.fused import Columns
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import State

#: Steps between two estimates, and the correlation below which one is not trusted (Xu et al.).
PERIOD, TRUSTED = 2, 0.2
#: Largest change of the scale in one step.
LARGEST_CHANGE = 2.0


class SpectralLayer(CoreLayer):
    r"""DRS with ``beta_k = beta_0 rho_0 / rho_k``, rho the spectral estimate of the ADMM penalty.

    In the scaled form ``beta = |c| / rho``, and ``rho u`` is the multiplier of x = z, a
    subgradient of the cone's indicator at z.  With the differences of z and of ``rho u`` since the
    last estimate, the Barzilai-Borwein quotients

        SD = <du, du> / <dz, du>,   MG = <dz, du> / <dz, dz>

    give ``rho = MG`` if ``2 MG > SD`` else ``SD - MG/2``, where their correlation exceeds 0.2.
    The affine side has no estimate: its differences lie in the kernel and in the range of A',
    so their correlation is zero.  When rho changes, u is rescaled to keep the multiplier.
    """

    def __init__(
        self, A: Tensor, cone: Cone, depth: int, alpha: float = 1.6, beta: float = 0.3
    ) -> None:
        super().__init__(A, cone, depth, alpha, beta)
        self.low, self.high = Ranges().beta

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        transition, columns, seen = begin(program, start)
        alpha, beta = self.constants(program)
        actions: list[Tensor] = []
        for k in range(depth):
            columns, seen = transition(columns, alpha, beta)
            # rho = |c| / beta: up to |c| the scale is 1 / beta, and rho_0 / rho = beta / beta_0.
            actions.append(torch.stack([(self.beta / beta).log(), alpha, beta.log()], -1))
            z, multiplier = columns.z, (columns.v - columns.z) / beta
            if k == 0:  # not the zero start: z and u of one state are orthogonal, and tell nothing
                z_then, multiplier_then = z, multiplier
            if (k + 1) % PERIOD or k + 1 == depth:
                continue
            rho = estimate(z - z_then, multiplier - multiplier_then, 1 / beta)
            z_then, multiplier_then = z, multiplier
            new = torch.clamp(1 / rho, beta / LARGEST_CHANGE, beta * LARGEST_CHANGE)
            new = new.clamp(self.low, self.high)
            columns = rescale(columns, new / beta)
            beta = new
        return finish(transition, columns, seen, actions)


def estimate(dz: Tensor, du: Tensor, present: Tensor) -> Tensor:
    """The spectral penalty per instance, or the `present` one where it is not trusted."""
    zz, uu, zu = (dz * dz).sum(0), (du * du).sum(0), (dz * du).sum(0)
    trusted = zu > TRUSTED * (zz * uu).sqrt()
    # Untrusted quotients may be 0/0: they are computed from ones and thrown away.
    zz, uu, zu = (torch.where(trusted, t, 1) for t in (zz, uu, zu))
    steepest, gradient = uu / zu, zu / zz
    hybrid = torch.where(2 * gradient > steepest, gradient, steepest - gradient / 2)
    return torch.where(trusted, hybrid, present)


def rescale(columns: Columns, factor: Tensor) -> Columns:
    """The state with u times `factor`."""
    return columns._replace(
        v=torch.lerp(columns.z, columns.v, factor),
        v_offset=torch.lerp(columns.z_offset, columns.v_offset, factor),
    )


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> SpectralLayer:
    return SpectralLayer(A, cone, depth, *core)
