from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones.base import SelfDual, positive_int
from rcdrs.cones.second_order import project_block, radial_row, scale_row, vjp_block
from rcdrs.kernels import arrays, compiled


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
        if (found := arrays(v, out)) is not None:
            k, norm, first = (v.new_empty(self.count, v.shape[1]) for _ in range(3))
            project_rows(*found, k.numpy(), norm.numpy(), first.numpy())
            return k, norm, first
        t, w = self._turn(v)
        out = out.unflatten(0, (self.count, self.block))
        saved = project_block(t, w, out[:, 0], out[:, 1:])
        _turn_back(out)
        return (*saved, w)

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        if (found := arrays(v, *saved, g, out)) is not None:
            vjp_rows(*found)
            return
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


@compiled
def project_rows(
    v: np.ndarray, out: np.ndarray, k: np.ndarray, norm: np.ndarray, first: np.ndarray
) -> None:
    """Turn, project, turn on (count * dim, batch), compiled; keeps w_0 in `first`."""
    count, batch = k.shape
    block = v.shape[0] // count
    root = v.dtype.type(math.sqrt(0.5))
    t = np.empty(batch, v.dtype)
    for i in range(count):
        p, q = i * block, i * block + 1
        for j in range(batch):
            t[j] = root * (v[p, j] + v[q, j])
            first[i, j] = root * (v[p, j] - v[q, j])
        for j in range(batch):
            norm[i, j] = first[i, j] * first[i, j]
        for row in range(q + 1, p + block):
            for j in range(batch):
                norm[i, j] += v[row, j] * v[row, j]
        scale_row(t, norm[i], k[i], out[p])
        for j in range(batch):
            out_t, out_first = out[p, j], k[i, j] * first[i, j]
            out[p, j] = root * (out_t + out_first)
            out[q, j] = root * (out_t - out_first)
        for row in range(q + 1, p + block):
            for j in range(batch):
                out[row, j] = k[i, j] * v[row, j]


@compiled
def vjp_rows(
    v: np.ndarray,
    k: np.ndarray,
    norm: np.ndarray,
    first: np.ndarray,
    g: np.ndarray,
    out: np.ndarray,
) -> None:
    """The derivative on (count * dim, batch), compiled."""
    count, batch = k.shape
    block = v.shape[0] // count
    root = v.dtype.type(math.sqrt(0.5))
    g_t, g_first, radial = np.empty((3, batch), v.dtype)
    for i in range(count):
        p, q = i * block, i * block + 1
        for j in range(batch):
            g_t[j] = root * (g[p, j] + g[q, j])
            g_first[j] = root * (g[p, j] - g[q, j])
        for j in range(batch):
            radial[j] = first[i, j] * g_first[j]
        for row in range(q + 1, p + block):
            for j in range(batch):
                radial[j] += v[row, j] * g[row, j]
        radial_row(k[i], norm[i], g_t, radial, out[p])
        for j in range(batch):
            g_first[j] = k[i, j] * g_first[j] + radial[j] * first[i, j]
        for j in range(batch):
            out_t = out[p, j]
            out[p, j] = root * (out_t + g_first[j])
            out[q, j] = root * (out_t - g_first[j])
        for row in range(q + 1, p + block):
            for j in range(batch):
                out[row, j] = k[i, j] * g[row, j] + radial[j] * v[row, j]
