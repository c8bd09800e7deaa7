from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.cones.base import Cone, positive_int


class PSD(Cone):
    r"""Positive semidefinite matrices, `count` blocks of order `order`, flattened in full.

    A block is an ``order x order`` matrix, row by row: ``dim = count * order**2``.
    The cone holds symmetric matrices only, so the projection symmetrises first and then drops
    the negative eigenvalues: ``Q max(L, 0) Q'`` for ``(V + V')/2 = Q L Q'``.

    Its derivative is ``Q (B o (Q' G Q)) Q'`` with ``B_ij = 1`` where both eigenvalues are
    positive, 0 where neither is, and ``l_i / (l_i - l_j)`` for ``l_i > 0 >= l_j``: finite at ties,
    unlike the derivative of the eigenvectors.

    The dual cone in the space of all matrices is ``{S : S + S' is PSD}``.
    """

    saves = 2

    def __init__(self, order: int, count: int = 1) -> None:
        self.order = positive_int(order, "order")
        self.count = positive_int(count, "count")
        self.dim = self.order**2 * self.count

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        values, vectors = self._eigh(v)
        positive = values.clamp(min=0)
        out.copy_(self._flatten((vectors * positive.unsqueeze(-2)) @ vectors.mT))
        return values, vectors

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        values, vectors = saved
        plus, minus = values.clamp(min=0), (-values).clamp(min=0)
        # B_ij = (l_i^+ + l_j^+) / (|l_i| + |l_j|); the floor makes the pair (0, 0) give 0.
        total = plus.unsqueeze(-1) + plus.unsqueeze(-2)
        weight = total / (total + minus.unsqueeze(-1) + minus.unsqueeze(-2)).clamp(
            min=torch.finfo(values.dtype).tiny
        )
        inner = vectors.mT @ self._symmetric(g) @ vectors
        out.copy_(self._flatten(vectors @ (weight * inner) @ vectors.mT))

    def dual_contains(self, s: Tensor, tol: float = 1e-6) -> Tensor:
        self._check(s, "s")
        values, _ = self._eigh(s.movedim(-1, 0))  # (*batch, count, order)
        violation = (-values).clamp(min=0).flatten(-2).norm(dim=-1)
        return violation <= tol * (1 + s.norm(dim=-1))

    def _eigh(self, v: Tensor) -> tuple[Tensor, Tensor]:
        matrices = self._symmetric(v)
        try:
            return torch.linalg.eigh(matrices)
        except torch.linalg.LinAlgError:
            # LAPACK refuses a whole batch for one NaN: that instance alone becomes NaN.
            finite = torch.isfinite(matrices).all(-1).all(-1)
            values, vectors = torch.linalg.eigh(torch.where(finite[..., None, None], matrices, 0))
            return torch.where(finite[..., None], values, torch.nan), vectors

    def _symmetric(self, v: Tensor) -> Tensor:
        """(dim, *batch) -> (*batch, count, order, order), symmetrised."""
        # Contiguous: on strided matrices a batched product falls back to one call a matrix.
        rows = v.movedim(0, -1).contiguous()
        matrices = rows.unflatten(-1, (self.count, self.order, self.order))
        return (matrices + matrices.mT).mul_(0.5)

    def _flatten(self, matrices: Tensor) -> Tensor:
        return matrices.flatten(-3).movedim(-1, 0)

    def __repr__(self) -> str:
        return f"PSD({self.order}, count={self.count})"
