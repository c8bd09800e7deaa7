from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.cones.base import SelfDual, positive_int


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
        blocks = v.unflatten(0, (self.count, self.block))
        out = out.unflatten(0, (self.count, self.block))
        return project_block(blocks[:, 0], blocks[:, 1:], out[:, 0], out[:, 1:])

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
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
