from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.cones.base import SelfDual, positive_int


class Nonneg(SelfDual):
    r"""Nonnegative orthant ``{x : x >= 0}`` of dimension `n`; the projection is ``max(v, 0)``."""

    def __init__(self, n: int) -> None:
        self.dim = positive_int(n, "n")

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        torch.clamp(v, min=0, out=out)
        return ()

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        torch.mul(g, v > 0, out=out)

    def __repr__(self) -> str:
        return f"Nonneg({self.dim})"
