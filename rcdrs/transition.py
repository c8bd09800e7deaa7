"""One controlled step and its derivative, fused: two thin products forward, two backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rcdrs.affine import add_up, down, outer
from rcdrs.problem import ConicProgram

#: epsilon_c of the paper, which keeps the objective direction defined at c = 0.
EPSILON_C = 1e-8


class Columns(NamedTuple):
    """The splitting state between two steps, batch-last: what the fused step hands on.

    z is the cone-side variable, ``v = z + u`` the shadow state, ``gap = x - z``;
    the coordinates ``V'z`` and ``V'v`` spare the next step two products.
    """

    z: Tensor  # (n, batch)
    v: Tensor  # (n, batch)
    gap: Tensor  # (n, batch)
    Vz: Tensor  # (rank, batch)
    Vv: Tensor  # (rank, batch)


class Observation(NamedTuple):
    """What the controller and the losses see of a state, per instance: shape (batch,)."""

    consensus: Tensor  # |x - z|
    equality: Tensor  # |A z - b|
    movement: Tensor  # |z - z_previous|
    size: Tensor  # |z|
    objective: Tensor  # c'z


class Transition:
    r"""The transition of eq. rc_drs_block for one batch of programs.

    In the shadow state ``v = z + u`` and with ``P = V V'`` the five lines of the paper become

        e   = x+ - z = z - v - beta cbar - V (V'w - d),    V'w = 2 V'z - V'v - beta V'cbar
        v+  = v + alpha e,                                 V'v+ = V'v + alpha (d - V'z)
        z+  = Proj_K(v+)                                   V'z+

    where V'x+ = d was used.  Only ``V (...)`` and ``V'z+`` are products with V; the latter
    also gives ``|A z+ - b| = |S (V'z+ - d)|``.
    """

    def __init__(self, program: ConicProgram) -> None:
        self.program = program
        self.affine = program.affine
        self.c = program.c.mT.contiguous()
        self.b = program.b.mT.contiguous()
        self.c_norm = _norm(self.c)
        self.b_norm = _norm(self.b)
        self.d = self.affine.target(self.b).contiguous()
        self.unreachable = self.affine.unreachable(self.b)
        self.direction = self.c / (self.c_norm + EPSILON_C)
        self.V_direction = down(self.affine.V, self.direction).contiguous()

    def start(self, z: Tensor | None = None, u: Tensor | None = None) -> Columns:
        """The state with the given z and u, each (batch, n), zero by default; x = z."""
        if z is None:
            z_, Vz = torch.zeros_like(self.c), torch.zeros_like(self.d)
        else:
            z_ = z.mT.contiguous()
            Vz = down(self.affine.V, z_).contiguous()
        if u is None:
            return Columns(z_, z_, torch.zeros_like(z_), Vz, Vz)
        v = z_ + u.mT
        return Columns(z_, v, torch.zeros_like(z_), Vz, down(self.affine.V, v).contiguous())

    def observe_start(self, state: Columns) -> Observation:
        """The observation of a state from `start`: no gap and no movement yet."""
        residual = _norm(self.affine.scale * (state.Vz - self.d))
        size = _norm(state.z)
        zero = torch.zeros_like(size)
        objective = (self.c * state.z).sum(0)
        return Observation(_norm(state.gap), self._equality(residual), zero, size, objective)

    def __call__(self, state: Columns, alpha: Tensor, beta: Tensor) -> tuple[Columns, Observation]:
        """One step with per-instance alpha and beta of shape (batch,)."""
        z, v, gap, Vz, Vv, consensus, residual, movement, size, objective = _Step.apply(
            state.z,
            state.v,
            state.Vz,
            state.Vv,
            alpha,
            beta,
            self.direction,
            self.V_direction,
            self.c,
            self.d,
            self.affine.V,
            self.affine.G,
            self.affine.scale,
            self.program.cone,
        )
        equality = self._equality(residual)
        return (
            Columns(z, v, gap, Vz, Vv),
            Observation(consensus, equality, movement, size, objective),
        )

    def _equality(self, residual: Tensor) -> Tensor:
        if self.unreachable is None:
            return residual
        return torch.hypot(residual, self.unreachable)


class _Step(torch.autograd.Function):
    """`Transition.__call__` with a hand-written derivative; backward mirrors forward."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        v: Tensor,
        Vz: Tensor,
        Vv: Tensor,
        alpha: Tensor,
        beta: Tensor,
        direction: Tensor,
        V_direction: Tensor,
        c: Tensor,
        d: Tensor,
        V: Tensor,
        G: Tensor | None,
        scale: Tensor,
        cone: Any,
    ) -> tuple[Tensor, ...]:
        shortfall = d - Vz
        h = torch.sub(Vz, Vv).sub_(shortfall).addcmul_(beta, V_direction, value=-1)
        e = add_up(torch.sub(z, v).addcmul_(beta, direction, value=-1), V, h, sign=-1)
        v_next = torch.addcmul(v, alpha, e)
        Vv_next = torch.addcmul(Vv, alpha, shortfall)
        z_next = torch.empty_like(v_next)
        saved = cone.forward(v_next, z_next)
        Vz_next = down(V, z_next).contiguous()

        moved = z_next - z
        movement = _norm(moved)
        gap = torch.sub(e, moved, out=moved)
        consensus, size = _norm(gap), _norm(z_next)
        residual = _norm(scale * (Vz_next - d))
        objective = (c * z_next).sum(0)

        ctx.cone = cone
        ctx.set_materialize_grads(False)
        # `gap` and `shortfall` are cheaper to compute again than to keep for every step.
        ctx.save_for_backward(
            z, Vz, alpha, beta, direction, V_direction, c, d, V, G, scale,
            e, h, v_next, z_next, Vz_next, consensus, movement, size, residual, *saved,
        )  # fmt: skip
        return (
            z_next, v_next, gap, Vz_next, Vv_next,
            consensus, residual, movement, size, objective,
        )  # fmt: skip

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g_z_next, g_v_next, g_gap, g_Vz_next, g_Vv_next, *g_norms = grads
        g_consensus, g_residual, g_movement, g_size, g_objective = g_norms
        (
            z, Vz, alpha, beta, direction, V_direction, c, d, V, G, scale,
            e, h, v_next, z_next, Vz_next, consensus, movement, size, residual, *saved,
        ) = ctx.saved_tensors  # fmt: skip
        needs = ctx.needs_input_grad

        # residual = |S (V'z+ - d)|
        g_coordinates = None
        if g_residual is not None:
            g_coordinates = (Vz_next - d).mul_(scale.square()).mul_(_over(g_residual, residual))
        g_Vz_next = _plus(g_Vz_next, g_coordinates)

        # moved = z+ - z, gap = e - moved
        moved = z_next - z
        gap = e - moved
        g_e = gap.mul_(0 if g_consensus is None else _over(g_consensus, consensus))
        if g_gap is not None:
            g_e.add_(g_gap)
        g_moved = moved.mul_(0 if g_movement is None else _over(g_movement, movement)).sub_(g_e)

        # z+ is seen through moved, |z+|, c'z+, V'z+ and by whoever uses it next.
        g_z = g_moved.clone() if g_z_next is None else g_moved + g_z_next
        if g_Vz_next is not None:
            g_z = add_up(g_z, V, g_Vz_next)
        if g_size is not None:
            g_z.addcmul_(z_next, _over(g_size, size))
        if g_objective is not None:
            g_z.addcmul_(c, g_objective)

        # z+ = Proj_K(v+), v+ = v + alpha e
        g_v = torch.empty_like(v_next)
        ctx.cone.vjp(v_next, tuple(saved), g_z, g_v)
        if g_v_next is not None:
            g_v.add_(g_v_next)
        g_alpha = (g_v * e).sum(0)
        g_e.addcmul_(alpha, g_v)

        # e = z - v - beta direction - V h,  h = 2 V'z - V'v - beta V'direction - d
        g_h = down(V, g_e).contiguous().neg_()
        g_beta = (g_e * direction).sum(0).add_((g_h * V_direction).sum(0)).neg_()
        g_direction = -beta * g_e if needs[6] else None
        g_V_direction = -beta * g_h if needs[7] else None
        g_V = g_G = None
        if needs[10]:
            g_V = -outer(V, g_e, h)
            if g_Vz_next is not None:
                g_V += outer(V, z_next, g_Vz_next)
        if needs[11] and g_coordinates is not None:
            g_G = -outer(G, g_coordinates, Vz_next - d)
        g_d = -g_h if g_coordinates is None else -(g_h + g_coordinates)
        g_Vz, g_Vv = 2 * g_h, g_h.neg_()

        # V'v+ = V'v + alpha (d - V'z)
        if g_Vv_next is not None:
            g_alpha += (g_Vv_next * (d - Vz)).sum(0)
            g_Vv.add_(g_Vv_next)
            g_Vz.addcmul_(alpha, g_Vv_next, value=-1)
            g_d.addcmul_(alpha, g_Vv_next)

        g_v.sub_(g_e)
        g_e.sub_(g_moved)  # the gradient in z
        g_c = g_objective * z_next if needs[8] and g_objective is not None else None
        return (
            g_e, g_v, g_Vz, g_Vv, g_alpha, g_beta,
            g_direction, g_V_direction, g_c, g_d if needs[9] else None, g_V, g_G, None, None,
        )  # fmt: skip


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """``a + b`` of gradients that may be absent."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _norm(x: Tensor) -> Tensor:
    """|x| over the first axis; on batch-last arrays several times faster than `vector_norm`."""
    return (x * x).sum(0).sqrt_() if not x.requires_grad else torch.linalg.vector_norm(x, dim=0)


def _over(g: Tensor, norm: Tensor) -> Tensor:
    """``g / norm``, and 0 where the norm is 0: the subgradient of |.| at the origin."""
    return torch.where(norm > 0, g / norm, 0)
