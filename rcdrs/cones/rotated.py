from __future__ import annotations

import math

import torch
from torch import Tensor

from rcdrs.cones.base import SelfDual, positive_int
from rcdrs.cones.second_order import project_block, vjp_block


class RotatedSecondOrder(SelfDual):
    r"""Rotated second-order cone ``{(p, q, w) : 2 p q >= |w|^2, p >= 0, q >= 0}``.

    `count` blocks of dimension `dim` each.  Turning ``(p, q)`` by 45 degrees gives
    ``t = (p + q)/sqrt(2)`` and ``w_0 = (p - q)/sqrt(2)`` with ``|(w_0, w)| <= t``: the
    second-order cone.  The turn is its own inverse, so projection and derivative are
    turn, project, turn.
    """

    saves = 3

    def __init__(self, dim: int, count: int = 1) -> None:
        self.block = positive_int(dim, "dim")
        if dim < 2:
            raise ValueError(f"dim is {dim}, expected at least 2 for a rotated second-order cone.")
        self.count = positive_int(count, "count")
        self.dim = self.block * self.count

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        t, w = self._turn(v)
        out = out.unflatten(0, (self.count, self.block))
        saved = project_block(t, w, out[:, 0], out[:, 1:])
        _turn_back(out)
        return (*saved, w)

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        g_t, g_w = self._turn(g)
        out = out.unflatten(0, (self.count, self.block))
        vjp_block(saved[2], saved[:2], g_t, g_w, out[:, 0], out[:, 1:])
        _turn_back(out)

    def _turn(self, v: Tensor) -> tuple[Tensor, Tensor]:
        turned = v.unflatten(0, (self.count, self.block)).clone()
        _turn_back(turned)
        return turned[:, 0], turned[:, 1:]

    def __repr__(self) -> str:
        return f"RotatedSecondOrder({self.block}, count={self.count})"


def _turn_back(blocks: Tensor) -> None:
    """``(p, q) <- ((p + q), (p - q)) / sqrt(2)`` in place; blocks are (count, dim, *batch)."""
    p, q = blocks[:, 0], blocks[:, 1]
    difference = torch.sub(p, q).mul_(math.sqrt(0.5))
    p.add_(q).mul_(math.sqrt(0.5))
    q.copy_(difference)
