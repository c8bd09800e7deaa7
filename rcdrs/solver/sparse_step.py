"""The step of eq. (4) for a sparse A, by torch's own derivatives: see `sparse`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from rcdrs.solver.elementwise import norm
from rcdrs.solver.fused import EPSILON_C, Columns, Observation
from rcdrs.solver.problem import ConicProgram

if TYPE_CHECKING:  # with scipy, which dense layers do without
    from rcdrs.solver.sparse import SparseSet


class SparseTransition:
    """What `fused.Transition` is to a dense A; `tests/test_sparse.py` holds the two together."""

    def __init__(self, program: ConicProgram) -> None:
        self.program, self.affine = program, cast("SparseSet", program.affine)
        self.b, self.c = program.b.mT.contiguous(), program.c.mT.contiguous()
        self.b_norm, self.c_norm = norm(self.b), norm(self.c)
        self.Q = None if program.Q is None else program.Q.expand_as(program.c).mT.contiguous()

    def start(self, z: Tensor | None = None, u: Tensor | None = None) -> Columns:
        z_ = torch.zeros_like(self.c) if z is None else z.mT.contiguous()
        v = z_ if u is None else z_ + u.mT
        return self._columns(z_, v, torch.zeros_like(z_))

    def observe_start(self, state: Columns) -> Observation:
        zero = torch.zeros_like(self.c_norm)
        return self._observe(state, zero, zero)

    def __call__(self, state: Columns, alpha: Tensor, beta: Tensor) -> tuple[Columns, Observation]:
        z, v = state.z, state.v
        gradient = self.c if self.Q is None else torch.addcmul(self.c, self.Q, z)
        drive = beta / (norm(gradient) + EPSILON_C)
        x = self.affine.project(2 * z - v - drive * gradient, self.b)
        v_next = v + alpha * (x - z)
        z_next = self.program.cone.project(v_next.mT).mT.contiguous()
        after = self._columns(z_next, v_next, x - z_next)
        return after, self._observe(after, norm(x - z_next), norm(z_next - z))

    def _columns(self, z: Tensor, v: Tensor, gap: Tensor) -> Columns:
        # Nothing follows from the offset of v here.
        return Columns(z, v, gap, self.affine.times(z) - self.b, v[:0])

    def _observe(self, state: Columns, consensus: Tensor, movement: Tensor) -> Observation:
        objective = (self.c * state.z).sum(0)
        if self.Q is not None:
            objective = objective + (self.Q * state.z * state.z).sum(0) / 2
        return Observation(consensus, norm(state.z_offset), movement, norm(state.z), objective)
