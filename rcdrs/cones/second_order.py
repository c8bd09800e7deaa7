from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones.base import SelfDual, positive_int
from rcdrs.kernels import arrays, compiled, inlined


class SecondOrder(SelfDual):
    r"""Second-order cone ``{(t, w) : |w| <= t}``, `count` blocks of dimension `dim` each.

    With ``k = clip((t + |w|) / (2 |w|), 0, 1)`` the three regions are one formula:
    ``k = 1`` inside the cone, ``k = 0`` inside its polar, and between them the nearest
    boundary point ``(k |w|, k w)``, that is ``(a, a w/|w|)`` with ``a = (t + |w|) / 2``.
    """

    saves = 2

    def __init__(self, dim: int, count: int = 1) -> None:
        self.block = positive_int(dim, "dim")
        self.count = positive_int(count, "count")
        self.dim = self.block * self.count

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        if (found := arrays(v, out)) is not None:
            k, norm = (v.new_empty(self.count, v.shape[1]) for _ in range(2))
            project_rows(*found, k.numpy(), norm.numpy())
            return k, norm
        blocks = v.unflatten(0, (self.count, self.block))
        out = out.unflatten(0, (self.count, self.block))
        return project_block(blocks[:, 0], blocks[:, 1:], out[:, 0], out[:, 1:])

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        if (found := arrays(v, *saved, g, out)) is not None:
            vjp_rows(*found)
            return
        w = v.unflatten(0, (self.count, self.block))[:, 1:]
        g = g.unflatten(0, (self.count, self.block))
        out = out.unflatten(0, (self.count, self.block))
        vjp_block(w, saved, g[:, 0], g[:, 1:], out[:, 0], out[:, 1:])

    def __repr__(self) -> str:
        return f"SecondOrder({self.block}, count={self.count})"


def project_block(t: Tensor, w: Tensor, out_t: Tensor, out_w: Tensor) -> tuple[Tensor, ...]:
    """Project blocks ``t`` (count, *batch), ``w`` (count, dim-1, *batch)."""
    norm = (w * w).sum(1).sqrt_()
    # The floor keeps 0/0 out at the apex, where k = 0 and the block is zero anyway.
    twice = (2 * norm).clamp_(min=torch.finfo(t.dtype).tiny)
    k = ((t + norm) / twice).clamp_(0, 1)
    torch.mul(w, k.unsqueeze(1), out=out_w)
    torch.maximum(k * norm, t, out=out_t)
    return k, norm


def vjp_block(
    w: Tensor, saved: tuple[Tensor, ...], g_t: Tensor, g_w: Tensor, out_t: Tensor, out_w: Tensor
) -> None:
    r"""The derivative in the same three regions: identity, zero, and on the boundary

    ``dt' = (dt + h'dw) / 2``, ``dw' = k dw + h (dt - (2k - 1) h'dw) / 2`` with ``h = w/|w|``.
    """
    k, norm = saved
    inside = (k == 1).to(k.dtype)
    half = ((k > 0) & (k < 1)).to(k.dtype).mul_(0.5)
    inverse = 1 / norm.clamp(min=torch.finfo(k.dtype).tiny)
    along = (w * g_w).sum(1).mul_(inverse).mul_(half)  # h'g / 2 on the boundary, else 0
    radial = torch.addcmul(half * g_t, 1 - 2 * k, along).mul_(inverse)
    torch.mul(g_w, k.unsqueeze(1), out=out_w)
    out_w.addcmul_(w, radial.unsqueeze(1))
    torch.addcmul(along, inside + half, g_t, out=out_t)


@compiled
def project_rows(v: np.ndarray, out: np.ndarray, k: np.ndarray, norm: np.ndarray) -> None:
    """`project_block` on (count * dim, batch), compiled; every inner loop runs along the batch."""
    count, batch = k.shape
    block = v.shape[0] // count
    for i in range(count):
        head = i * block
        norm[i] = 0
        for row in range(head + 1, head + block):
            for j in range(batch):
                norm[i, j] += v[row, j] * v[row, j]
        scale_row(v[head], norm[i], k[i], out[head])
        for row in range(head + 1, head + block):
            for j in range(batch):
                out[row, j] = k[i, j] * v[row, j]


@compiled
def vjp_rows(
    v: np.ndarray, k: np.ndarray, norm: np.ndarray, g: np.ndarray, out: np.ndarray
) -> None:
    """`vjp_block` on (count * dim, batch), compiled."""
    count, batch = k.shape
    block = v.shape[0] // count
    radial = np.empty(batch, v.dtype)
    for i in range(count):
        head = i * block
        radial[:] = 0
        for row in range(head + 1, head + block):
            for j in range(batch):
                radial[j] += v[row, j] * g[row, j]
        radial_row(k[i], norm[i], g[head], radial, out[head])
        for row in range(head + 1, head + block):
            for j in range(batch):
                out[row, j] = k[i, j] * g[row, j] + radial[j] * v[row, j]


@inlined
def scale_row(t: np.ndarray, norm: np.ndarray, k: np.ndarray, out_t: np.ndarray) -> None:
    """From `t` and the squares ``|w|^2`` in `norm`: the norm, k and the projection of t.

    A NaN fails every comparison and stays.
    """
    # In the dtype of the rows: a Python number would turn the arithmetic into float64.
    real, tiny = t.dtype.type, np.finfo(t.dtype).tiny
    zero, one, two = real(0), real(1), real(2)
    for j in range(len(t)):
        size = math.sqrt(norm[j])
        twice = two * size
        part = (t[j] + size) / (tiny if twice < tiny else twice)
        part = zero if part < zero else (one if part > one else part)
        norm[j], k[j] = size, part
        out_t[j] = t[j] if part * size < t[j] else part * size


@inlined
def radial_row(
    k: np.ndarray, norm: np.ndarray, g_t: np.ndarray, radial: np.ndarray, out_t: np.ndarray
) -> None:
    """From ``w'g_w`` in `radial`: the factor of w in the derivative, and its component in t."""
    real, tiny = k.dtype.type, np.finfo(k.dtype).tiny
    zero, one, two, half = real(0), real(1), real(2), real(0.5)
    for j in range(len(k)):
        boundary = half if zero < k[j] < one else zero
        inverse = one / (tiny if norm[j] < tiny else norm[j])
        along = boundary * inverse * radial[j]
        radial[j] = inverse * (boundary * g_t[j] + (one - two * k[j]) * along)
        out_t[j] = along + (boundary + (one if k[j] == one else zero)) * g_t[j]
