from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rcdrs.cones.base import Cone, check_cone, kind_of


class Product(Cone):
    """Cartesian product of cones: each acts on its own stretch of the last axis, in order."""

    def __init__(self, cones: Sequence[Cone]) -> None:
        if not isinstance(cones, Sequence) or isinstance(cones, str):
            raise TypeError(f"cones is {kind_of(cones)}, expected a list of cones.")
        if not cones:
            raise ValueError("cones is empty, expected at least one cone.")
        for i, cone in enumerate(cones):
            check_cone(f"cones[{i}]", cone)
        self.cones = tuple(cones)
        self.dim = sum(cone.dim for cone in self.cones)
        self.saves = sum(cone.saves for cone in self.cones)

    def stretches(self) -> Iterator[tuple[Cone, slice]]:
        """Each factor with the stretch of coordinates it acts on."""
        start = 0
        for cone in self.cones:
            yield cone, slice(start, start + cone.dim)
            start += cone.dim

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        parts = [cone.forward(v[where], out[where]) for cone, where in self.stretches()]
        return tuple(tensor for part in parts for tensor in part)

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        for cone, where in self.stretches():
            own, saved = saved[: cone.saves], saved[cone.saves :]
            cone.vjp(v[where], own, g[where], out[where])

    def take(self, index: slice | Tensor) -> Product:
        return Product([cone.take(index) for cone in self.cones])

    def dual_contains(self, s: Tensor, tol: float = 1e-6) -> Tensor:
        self._check(s, "s")
        inside = [cone.dual_contains(s[..., where], tol) for cone, where in self.stretches()]
        return torch.stack(inside).all(0)

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.cones))}])"
