"""One controlled step and its derivative, fused: two thin products forward, two backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rcdrs.affine import add_up, down, outer, up
from rcdrs.problem import ConicProgram

#: epsilon_c of the paper, which keeps the objective direction defined at c = 0.
EPSILON_C = 1e-8


class Columns(NamedTuple):
    """The splitting state between two steps, batch-last: what the fused step hands on.

    z is the cone-side variable, ``v = z + u`` the shadow state, ``gap = x - z``.  The offsets
    ``V'z - d`` and ``V'v - d`` from the affine set spare the next step two products; the latter
    is not kept up where the step goes through a thin kernel.
    """

    z: Tensor  # (n, batch)
    v: Tensor  # (n, batch)
    gap: Tensor  # (n, batch)
    z_offset: Tensor  # (rank, batch)
    v_offset: Tensor  # (rank, batch)


class Observation(NamedTuple):
    """What the controller and the losses see of a state, per instance: shape (batch,)."""

    consensus: Tensor  # |x - z|
    equality: Tensor  # |A z - b|
    movement: Tensor  # |z - z_previous|
    size: Tensor  # |z|
    objective: Tensor  # c'z


class Transition:
    r"""The transition of eq. rc_drs_block for one batch of programs.

    In the shadow state ``v = z + u``, with the offsets ``a = V'v - d`` and ``o = V'z - d`` and the
    direction ``g = (I - VV') cbar`` along the affine set, the five lines of the paper become

        e  = x+ - z = z - v - beta g + V (a - 2 o)
        v+ = v + alpha e,                             a+ = a - alpha o      (as V'x+ = d)
        z+ = Proj_K(v+),                              o+ = V'z+ - d

    Only ``V (...)`` and ``V'z+`` are products with V; the latter also gives
    ``|A z+ - b| = |S o+|``.  Where the kernel of A is thin, with basis N, the first line is
    ``e = V d - z - beta g - N N'(v - 2 z)`` instead, and a is not needed.  Where the program has
    a quadratic term, cbar is the normalised gradient at z, eq. dispatch_normalized_gradient.
    """

    def __init__(self, program: ConicProgram) -> None:
        self.program = program
        self.affine = program.affine
        self.b = program.b.mT.contiguous()
        self.c = program.c.mT.contiguous()
        self.b_norm, self.c_norm = _norm(self.b), _norm(self.c)
        self.d = self.affine.target(self.b).contiguous()
        self.unreachable = self.affine.unreachable(self.b)
        self.null = self.affine.null
        self.particular = None if self.null is None else up(self.affine.V, self.d)
        self.Q = None if program.Q is None else program.Q.expand_as(program.c).mT.contiguous()
        self.direction = self._along(self.c, self.c_norm)

    def start(self, z: Tensor | None = None, u: Tensor | None = None) -> Columns:
        """The state with the given z and u, each (batch, n), zero by default; x = z."""
        if z is None:
            z_, z_offset = torch.zeros_like(self.c), -self.d
        else:
            z_ = z.mT.contiguous()
            z_offset = (down(self.affine.V, z_) - self.d).contiguous()
        gap = torch.zeros_like(z_)
        if u is None:
            return Columns(z_, z_, gap, z_offset, z_offset)
        v = z_ + u.mT
        return Columns(z_, v, gap, z_offset, (down(self.affine.V, v) - self.d).contiguous())

    def observe_start(self, state: Columns) -> Observation:
        """The observation of a state from `start`: no gap and no movement yet."""
        size = _norm(state.z)
        zero = torch.zeros_like(size)
        objective = (self.c * state.z).sum(0)
        residual = _norm(self.affine.residual(state.z_offset))
        seen = Observation(zero, self._equality(residual), zero, size, objective)
        return self._with_quadratic(seen, state.z)

    def __call__(self, state: Columns, alpha: Tensor, beta: Tensor) -> tuple[Columns, Observation]:
        """One step with per-instance alpha and beta of shape (batch,)."""
        affine, direction = self.affine, self.direction
        if self.Q is not None:
            gradient = torch.addcmul(self.c, self.Q, state.z)
            direction = self._along(gradient, _norm(gradient))
        z, v, gap, z_offset, v_offset, consensus, residual, movement, size, objective = _Step.apply(
            state.z, state.v, state.z_offset, state.v_offset, alpha, beta,
            direction, self.c, self.d, affine.V, affine.G, self.particular, self.null,
            affine.scale, self.program.cone,
        )  # fmt: skip
        seen = Observation(consensus, self._equality(residual), movement, size, objective)
        return Columns(z, v, gap, z_offset, v_offset), self._with_quadratic(seen, z)

    def _along(self, gradient: Tensor, norm: Tensor) -> Tensor:
        """The part of the normalised gradient along the affine set."""
        return self.affine.along(gradient / (norm + EPSILON_C)).contiguous()

    def _with_quadratic(self, seen: Observation, z: Tensor) -> Observation:
        if self.Q is None:
            return seen
        return seen._replace(objective=seen.objective + (self.Q * z * z).sum(0) / 2)

    def _equality(self, residual: Tensor) -> Tensor:
        """``|A z - b|`` from its part in the range of A."""
        if self.unreachable is None:
            return residual
        return torch.linalg.vector_norm(torch.stack([residual, self.unreachable]), dim=0)


class _Step(torch.autograd.Function):
    """`Transition.__call__` with a hand-written derivative; backward mirrors forward."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        v: Tensor,
        o: Tensor,
        a: Tensor,
        alpha: Tensor,
        beta: Tensor,
        direction: Tensor,
        c: Tensor,
        d: Tensor,
        V: Tensor,
        G: Tensor | None,
        particular: Tensor | None,
        N: Tensor | None,
        scale: Tensor,
        cone: Any,
    ) -> tuple[Tensor, ...]:
        if particular is None or N is None:
            h = torch.sub(a, o, alpha=2)
            e = add_up(torch.sub(z, v).addcmul_(beta, direction, value=-1), V, h)
            a_next = torch.addcmul(a, alpha, o, value=-1)
        else:
            h = down(N, torch.sub(v, z, alpha=2))
            e = torch.sub(particular, z).addcmul_(beta, direction, value=-1)
            e, a_next = add_up(e, N, h, sign=-1), a.clone()
        v_next = torch.addcmul(v, alpha, e)
        z_next = torch.empty_like(v_next)
        saved = cone.forward(v_next, z_next)
        o_next = down(V, z_next).contiguous().sub_(d)

        moved = z_next - z
        movement = _norm(moved)
        gap = torch.sub(e, moved, out=moved)
        consensus, size, residual = _norm(gap), _norm(z_next), _norm(scale * o_next)
        objective = (c * z_next).sum(0)

        ctx.cone = cone
        ctx.set_materialize_grads(False)
        # `gap` and `h` are cheaper to compute again than to keep for every step; `a` belongs to
        # the gradient in V alone.
        ctx.save_for_backward(
            z, o, a if ctx.needs_input_grad[9] else None, alpha, beta, direction, c, V, G, N, scale,
            e, v_next, z_next, o_next, consensus, movement, size, residual, *saved,
        )  # fmt: skip
        return (
            z_next, v_next, gap, o_next, a_next,
            consensus, residual, movement, size, objective,
        )  # fmt: skip

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g_z_next, g_v_next, g_gap, g_o_next, g_a_next, *g_norms = grads
        g_consensus, g_residual, g_movement, g_size, g_objective = g_norms
        (
            z, o, a, alpha, beta, direction, c, V, G, N, scale,
            e, v_next, z_next, o_next, consensus, movement, size, residual, *saved,
        ) = ctx.saved_tensors  # fmt: skip
        inputs = ("direction", "c", "d", "V", "G", "particular")
        needs = dict(zip(inputs, ctx.needs_input_grad[6:], strict=False))

        # residual = |S o+|; in value S o+, though G has a part in it where A has a gradient
        g_G = None
        if g_residual is not None:
            g_scaled = (o_next * scale.square()).mul_(_over(g_residual, residual))
            g_G = -outer(G, g_scaled, o_next) if needs["G"] else None
            g_o_next = g_scaled if g_o_next is None else g_scaled.add_(g_o_next)

        # moved = z+ - z, gap = e - moved
        moved = z_next - z
        gap = e - moved
        g_e = gap.mul_(0 if g_consensus is None else _over(g_consensus, consensus))
        if g_gap is not None:
            g_e.add_(g_gap)
        g_moved = moved.mul_(0 if g_movement is None else _over(g_movement, movement)).sub_(g_e)

        # z+ is seen through moved, |z+|, c'z+, o+ = V'z+ - d and by whoever uses it next
        g_z = g_moved.clone() if g_z_next is None else g_moved + g_z_next
        if g_o_next is not None:
            g_z = add_up(g_z, V, g_o_next)
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

        g_beta = (g_e * direction).sum(0).neg_()
        g_direction = -beta * g_e if needs["direction"] else None
        g_c = g_objective * z_next if needs["c"] and g_objective is not None else None
        g_d = -g_o_next if needs["d"] and g_o_next is not None else None
        if N is not None:
            # e = particular - z - beta direction - N N'(v - 2 z)
            g_particular = g_e.clone() if needs["particular"] else None
            y = N @ down(N, g_e)
            g_v.sub_(y)
            g_z_before = g_e.add_(g_moved).neg_().add_(y, alpha=2)
            return (
                g_z_before, g_v, None, None, g_alpha, g_beta,
                g_direction, g_c, g_d, None, None, g_particular, None, None, None,
            )  # fmt: skip

        # e = z - v - beta direction + V h,  h = a - 2 o
        g_V = None
        if needs["V"]:
            g_V = outer(V, g_e, torch.sub(a, o, alpha=2))
            if g_o_next is not None:
                g_V += outer(V, z_next, g_o_next)
        g_a = down(V, g_e).contiguous()
        g_o = -2 * g_a

        # a+ = a - alpha o
        if g_a_next is not None:
            g_alpha -= (g_a_next * o).sum(0)
            g_o.addcmul_(alpha, g_a_next, value=-1)
            g_a.add_(g_a_next)

        g_v.sub_(g_e)
        g_e.sub_(g_moved)  # the gradient in z
        return (
            g_e, g_v, g_o, g_a, g_alpha, g_beta,
            g_direction, g_c, g_d, g_V, g_G, None, None, None, None,
        )  # fmt: skip


def _norm(x: Tensor) -> Tensor:
    """|x| over the first axis; on batch-last arrays several times faster than `vector_norm`."""
    return (x * x).sum(0).sqrt_() if not x.requires_grad else torch.linalg.vector_norm(x, dim=0)


def _over(g: Tensor, norm: Tensor) -> Tensor:
    """``g / norm``, and 0 where the norm is 0: the subgradient of |.| at the origin."""
    return g / norm.clamp(min=1e-30)  # times a vector that is zero there
