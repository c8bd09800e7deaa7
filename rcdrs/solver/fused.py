"""One controlled step and its derivative, fused: two thin products forward, two backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rcdrs.kernels import first_order
from rcdrs.solver.affine import down, outer, up
from rcdrs.solver.elementwise import advance, look, norm, pull_advance, pull_look, pull_offset
from rcdrs.solver.problem import ConicProgram

#: epsilon_c of the paper, which keeps the objective direction defined at c = 0: in steps an
#: objective counts by the share |c| / (|c| + epsilon_c).
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
    r"""The transition of eq. (4) for one batch of programs.

    In the shadow state ``v = z + u``, with the offsets ``a = V'v - d`` and ``o = V'z - d`` and the
    direction ``g = (I - VV') cbar`` along the affine set, the five lines of the paper become

        e  = x+ - z = z - v - beta g + V (a - 2 o)
        v+ = v + alpha e,                             a+ = a - alpha o      (as V'x+ = d)
        z+ = Proj_K(v+),                              o+ = V'z+ - d

    Only ``V (...)`` and ``V'z+`` are products with V; the latter also gives
    ``|A z+ - b| = |S o+|``.  Where the kernel of A is thin, with basis N, the first line is
    ``e = V d - z - beta g - N N'(v - 2 z)`` instead, and a is not needed.

    Where the program has a quadratic term, cbar is the normalised gradient at z, eq.
    dispatch_normalized_gradient, and changes at every step.  It is then not taken apart: V takes
    ``a - 2 o + beta V'cbar`` back, and V'cbar needs only the curved coordinates of z.
    """

    def __init__(self, program: ConicProgram) -> None:
        self.program = program
        self.affine = program.affine
        self.b = program.b.mT.contiguous()
        self.c = program.c.mT.contiguous()
        self.b_norm, self.c_norm = norm(self.b), norm(self.c)
        self.d = self.affine.target(self.b).contiguous()
        self.unreachable = self.affine.unreachable(self.b)
        self.Q = None if program.Q is None else program.Q.expand_as(program.c).mT.contiguous()
        self.null = self.affine.null if self.Q is None else None
        self.particular = None if self.null is None else up(self.affine.V, self.d)
        if self.Q is None:
            direction = self.affine.along(self.c / (self.c_norm + EPSILON_C))
            self.direction = direction.contiguous()
        else:
            self.curved = self.Q.any(1).nonzero().squeeze(1)
            self.V_curved = self.affine.V[..., self.curved, :]
            self.c_across = down(self.affine.V, self.c)

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
        size = norm(state.z)
        zero = torch.zeros_like(size)
        objective = (self.c * state.z).sum(0)
        residual = norm(self.affine.residual(state.z_offset))
        seen = Observation(zero, self._equality(residual), zero, size, objective)
        return self._with_quadratic(seen, state.z)

    def __call__(self, state: Columns, alpha: Tensor, beta: Tensor) -> tuple[Columns, Observation]:
        """One step with per-instance alpha and beta of shape (batch,)."""
        affine = self.affine
        direction, across = self._normalised_gradient(state.z)
        z, v, gap, z_offset, v_offset, consensus, residual, movement, size, objective = _Step.apply(
            state.z, state.v, state.z_offset, state.v_offset, alpha, beta,
            direction, across, self.c, self.d, affine.V, affine.G, self.particular, self.null,
            affine.scale, self.program.cone,
        )  # fmt: skip
        seen = Observation(consensus, self._equality(residual), movement, size, objective)
        return Columns(z, v, gap, z_offset, v_offset), self._with_quadratic(seen, z)

    def _normalised_gradient(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """Its part along the affine set; with a quadratic term the whole of it, and V' of it."""
        if self.Q is None:
            return self.direction, None
        bend = self.Q[self.curved] * z[self.curved]
        gradient = self.c.index_add(0, self.curved, bend)
        size = norm(gradient) + EPSILON_C
        return gradient / size, (self.c_across + down(self.V_curved, bend)).contiguous() / size

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
        across: Tensor | None,
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
            e, v_next = advance(z, v, up(V, _h(o, a, beta, across)), 1, direction, v, alpha, beta)
            a_next = torch.addcmul(a, alpha, o, value=-1)
        else:
            w = up(N, down(N, torch.sub(v, z, alpha=2)))
            e, v_next = advance(particular, z, w, -1, direction, v, alpha, beta)
            a_next = a.clone()
        z_next = torch.empty_like(v_next)
        saved = cone.forward(v_next, z_next)
        o_next = down(V, z_next).contiguous().sub_(d)
        gap, consensus, residual, movement, size, objective = look(z, z_next, e, c, o_next, scale)

        ctx.cone = cone
        ctx.set_materialize_grads(False)
        # `gap` and `h` are cheaper to compute again than to keep for every step; `a` belongs to
        # the gradient in V alone.
        ctx.save_for_backward(
            z, o, a if ctx.needs_input_grad[10] else None, alpha, beta, direction, across, c, V, G,
            N, scale, e, v_next, z_next, o_next, consensus, movement, size, residual, *saved,
        )  # fmt: skip
        return (
            z_next, v_next, gap, o_next, a_next,
            consensus, residual, movement, size, objective,
        )  # fmt: skip

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g_z_next, g_v_next, g_gap, g_o_next, g_a_next, *g_norms = grads
        g_consensus, g_residual, g_movement, g_size, g_objective = g_norms
        (
            z, o, a, alpha, beta, direction, across, c, V, G,
            N, scale, e, v_next, z_next, o_next, consensus, movement, size, residual, *saved,
        ) = ctx.saved_tensors  # fmt: skip
        inputs = ("direction", "across", "c", "d", "V", "G", "particular")
        needs = dict(zip(inputs, ctx.needs_input_grad[6:], strict=False))

        # residual = |S o+|; in value S o+, though G has a part in it where A has a gradient
        g_G = None
        if g_residual is not None:
            g_scaled, g_o_next = pull_offset(o_next, scale, residual, g_residual, g_o_next)
            g_G = -outer(G, g_scaled, o_next) if needs["G"] else None

        # moved = z+ - z, gap = e - moved; z+ is seen through moved, |z+|, c'z+ and o+ = V'z+ - d
        w = None if g_o_next is None else up(V, g_o_next)
        g_e, g_moved, g_z = pull_look(
            z, z_next, e, c, (consensus, movement, size), (g_consensus, g_movement, g_size),
            g_objective, g_gap, g_z_next, w,
        )  # fmt: skip

        # z+ = Proj_K(v+), v+ = v + alpha e
        g_v = torch.empty_like(v_next)
        ctx.cone.vjp(v_next, tuple(saved), g_z, g_v)
        g_alpha, g_beta = pull_advance(g_v, g_v_next, g_e, e, direction, alpha)

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
                g_z_before, g_v, None, None, g_alpha, g_beta, g_direction, None,
                g_c, g_d, None, None, g_particular, None, None, None,
            )  # fmt: skip

        # e = z - v - beta direction + V h,  h = a - 2 o + beta across
        g_V = None
        if needs["V"]:
            g_V = outer(V, g_e, _h(o, a, beta, across))
            if g_o_next is not None:
                g_V += outer(V, z_next, g_o_next)
        g_a = down(V, g_e).contiguous()
        g_o = -2 * g_a
        g_across = beta * g_a if needs["across"] else None
        if across is not None:
            g_beta += (g_a * across).sum(0)

        # a+ = a - alpha o
        if g_a_next is not None:
            g_alpha -= (g_a_next * o).sum(0)
            g_o.addcmul_(alpha, g_a_next, value=-1)
            g_a.add_(g_a_next)

        g_v.sub_(g_e)
        g_e.sub_(g_moved)  # the gradient in z
        return (
            g_e, g_v, g_o, g_a, g_alpha, g_beta, g_direction, g_across,
            g_c, g_d, g_V, g_G, None, None, None, None,
        )  # fmt: skip


def _h(o: Tensor, a: Tensor, beta: Tensor, across: Tensor | None) -> Tensor:
    """``a - 2 o + beta across``: what V takes back into the space."""
    h = torch.sub(a, o, alpha=2)
    return h if across is None else h.addcmul_(beta, across)
