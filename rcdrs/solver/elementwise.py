"""The elementwise work of a step and of its derivative, piece by piece.

Each piece has a torch formula and, for the CPU, a kernel that does the same in one pass over rows
that stay in the cache.  Arrays are batch-last, (rows, batch); per-instance values are (batch,).
A kernel's inner loops write one array each: with more, LLVM gives up proving that they do not
overlap and does not vectorise.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rcdrs.kernels import arrays, compiled, view


def advance(
    plus: Tensor,
    minus: Tensor,
    w: Tensor,
    sign: int,
    direction: Tensor,
    v: Tensor,
    alpha: Tensor,
    beta: Tensor,
) -> tuple[Tensor, Tensor]:
    """``e = plus - minus + sign w - beta direction`` and ``v + alpha e``."""
    if arrays(plus) is None:
        e = torch.sub(plus, minus).addcmul_(beta, direction, value=-1).add_(w, alpha=sign)
        return e, torch.addcmul(v, alpha, e)
    e, v_next = torch.empty_like(plus), torch.empty_like(plus)
    _advance(*map(view, (plus, minus, w, direction, v, alpha, beta, e, v_next)), sign)
    return e, v_next


@compiled
def _advance(plus, minus, w, direction, v, alpha, beta, e, v_next, sign):  # type: ignore[no-untyped-def]
    rows, batch = e.shape
    s = e.dtype.type(sign)
    for i in range(rows):
        for j in range(batch):
            e[i, j] = plus[i, j] - minus[i, j] + s * w[i, j] - beta[j] * direction[i, j]
        for j in range(batch):
            v_next[i, j] = v[i, j] + alpha[j] * e[i, j]


def look(
    z: Tensor, z_next: Tensor, e: Tensor, c: Tensor, offset: Tensor, scale: Tensor
) -> tuple[Tensor, ...]:
    """``gap = e - (z+ - z)``, then |gap|, |scale offset|, |z+ - z|, |z+| and c'z+ per instance."""
    if arrays(z) is None:
        moved = z_next - z
        movement = norm(moved)
        gap = torch.sub(e, moved, out=moved)
        residual = norm(scale * offset)
        return gap, norm(gap), residual, movement, norm(z_next), (c * z_next).sum(0)
    gap, seen = torch.empty_like(z), z.new_zeros(5, z.shape[1])
    _look(*map(view, (z, z_next, e, c, offset, scale, gap, seen)))
    return gap, *seen.unbind()


@compiled
def _look(z, z_next, e, c, offset, scale, gap, seen):  # type: ignore[no-untyped-def]
    rows, batch = z.shape
    consensus, residual, movement, size, objective = seen[0], seen[1], seen[2], seen[3], seen[4]
    for i in range(rows):
        for j in range(batch):
            gap[i, j] = e[i, j] - (z_next[i, j] - z[i, j])
        for j in range(batch):
            consensus[j] += gap[i, j] * gap[i, j]
        for j in range(batch):
            movement[j] += (z_next[i, j] - z[i, j]) * (z_next[i, j] - z[i, j])
        for j in range(batch):
            size[j] += z_next[i, j] * z_next[i, j]
        for j in range(batch):
            objective[j] += c[i, j] * z_next[i, j]
    shared = scale.shape[1] == 1
    for i in range(offset.shape[0]):
        if shared:
            square = scale[i, 0] * scale[i, 0]
            for j in range(batch):
                residual[j] += square * offset[i, j] * offset[i, j]
        else:
            for j in range(batch):
                residual[j] += (scale[i, j] * offset[i, j]) * (scale[i, j] * offset[i, j])
    for i in range(4):
        for j in range(batch):
            seen[i, j] = np.sqrt(seen[i, j])


def pull_look(
    z: Tensor,
    z_next: Tensor,
    e: Tensor,
    c: Tensor,
    norms: tuple[Tensor, Tensor, Tensor],
    g_norms: tuple[Tensor | None, Tensor | None, Tensor | None],
    g_objective: Tensor | None,
    g_gap: Tensor | None,
    g_z_next: Tensor | None,
    w: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients in e, in ``moved = z+ - z`` and in z+ of what `look` returns.

    `norms` are |gap|, |moved|, |z+|; z+ is also seen by whoever uses it next, and through
    ``V'z+``, whose part is w.
    """
    k_gap, k_moved, k_size = (
        torch.zeros_like(n) if g is None else over(g, n)
        for g, n in zip(g_norms, norms, strict=True)
    )
    if arrays(z) is None:
        moved = z_next - z
        g_e = (e - moved).mul_(k_gap)
        if g_gap is not None:
            g_e.add_(g_gap)
        g_moved = moved.mul_(k_moved).sub_(g_e)
        g_z = torch.addcmul(g_moved, z_next, k_size)
        for part in (g_z_next, w):
            if part is not None:
                g_z.add_(part)
        if g_objective is not None:
            g_z.addcmul_(c, g_objective)
        return g_e, g_moved, g_z
    if g_objective is None:
        g_objective = torch.zeros_like(k_gap)
    g_e, g_moved, g_z = torch.empty_like(z), torch.empty_like(z), torch.empty_like(z)
    _pull_look(
        *map(view, (z, z_next, e, c, k_gap, k_moved, k_size, g_objective)),
        *(_or_empty(part, z) for part in (g_gap, g_z_next, w)),
        *map(view, (g_e, g_moved, g_z)),
    )
    return g_e, g_moved, g_z


@compiled
def _pull_look(  # type: ignore[no-untyped-def]
    z, z_next, e, c, k_gap, k_moved, k_size, g_objective, g_gap, g_z_next, w, g_e, g_moved, g_z
):
    rows, batch = z.shape
    for i in range(rows):
        for j in range(batch):
            g_e[i, j] = (e[i, j] - (z_next[i, j] - z[i, j])) * k_gap[j]
        if len(g_gap):
            for j in range(batch):
                g_e[i, j] += g_gap[i, j]
        for j in range(batch):
            g_moved[i, j] = (z_next[i, j] - z[i, j]) * k_moved[j] - g_e[i, j]
        for j in range(batch):
            g_z[i, j] = g_moved[i, j] + z_next[i, j] * k_size[j] + c[i, j] * g_objective[j]
        if len(g_z_next):
            for j in range(batch):
                g_z[i, j] += g_z_next[i, j]
        if len(w):
            for j in range(batch):
                g_z[i, j] += w[i, j]


def pull_advance(
    g_v: Tensor, g_v_next: Tensor | None, g_e: Tensor, e: Tensor, direction: Tensor, alpha: Tensor
) -> tuple[Tensor, Tensor]:
    """Add `g_v_next` to `g_v` and ``alpha g_v`` to `g_e`; the gradients in alpha and beta."""
    if arrays(g_v) is None:
        if g_v_next is not None:
            g_v.add_(g_v_next)
        g_e.addcmul_(alpha, g_v)
        return (g_v * e).sum(0), (g_e * direction).sum(0).neg_()
    g_alpha, g_beta = torch.zeros_like(alpha), torch.zeros_like(alpha)
    _pull_advance(
        view(g_v), _or_empty(g_v_next, g_v), *map(view, (g_e, e, direction, alpha, g_alpha, g_beta))
    )
    return g_alpha, g_beta


@compiled
def _pull_advance(g_v, g_v_next, g_e, e, direction, alpha, g_alpha, g_beta):  # type: ignore[no-untyped-def]
    rows, batch = g_v.shape
    for i in range(rows):
        if len(g_v_next):
            for j in range(batch):
                g_v[i, j] += g_v_next[i, j]
        for j in range(batch):
            g_e[i, j] += alpha[j] * g_v[i, j]
        for j in range(batch):
            g_alpha[j] += g_v[i, j] * e[i, j]
        for j in range(batch):
            g_beta[j] -= g_e[i, j] * direction[i, j]


def pull_offset(
    offset: Tensor, scale: Tensor, residual: Tensor, g_residual: Tensor, g_offset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradient of |scale offset| in the offset, alone and with what is known of it."""
    alone = (offset * scale.square()).mul_(over(g_residual, residual))
    return alone, alone if g_offset is None else alone + g_offset


def norm(x: Tensor) -> Tensor:
    """|x| over the first axis; on batch-last arrays several times faster than `vector_norm`."""
    square = (x * x).sum(0)
    # Clamped: the derivative of the root at zero would be infinite.
    return square.clamp_(min=1e-38).sqrt() if x.requires_grad else square.sqrt_()


def over(g: Tensor, norm: Tensor) -> Tensor:
    """``g / norm``, and 0 where the norm is 0: the subgradient of |.| at the origin."""
    return g / norm.clamp(min=1e-30)  # times a vector that is zero there


def _or_empty(part: Tensor | None, like: Tensor) -> np.ndarray:
    """A kernel takes an absent array as one without rows."""
    return view(like[:0] if part is None else part)
