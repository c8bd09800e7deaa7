"""The affine set {x : A x = b}, factored once in float64 and reused for every step and instance."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy as shallow
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from rcdrs.kernels import first_order


@contextmanager
def kept() -> Iterator[None]:
    """What later calls use again is made of normal tensors, also inside of inference mode."""
    if not torch.is_inference_mode_enabled():
        yield
    else:
        with torch.inference_mode(False), torch.no_grad():
            yield


def _version(A: Tensor) -> int | None:
    """Grows with every change in place; tensors of inference mode do not count theirs."""
    return None if A.is_inference() else A._version


#: What was factored, as long as somebody has it.
_KNOWN: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


class AffineSet:
    r"""``{x : A x = b}`` through the thin singular value decomposition ``A = U S V'``.

    With ``d = S^-1 U' b`` the projection of the paper reads

        Proj_A(w) = w - A'(AA')^+ (A w - b) = w - V (V'w - d),

    so a step needs two thin products, and ``|A z - b| = |S (V'z - d)|`` comes with them.
    Rank-deficient `A` drops its null directions; the part of `b` outside the range of `A`,
    which no x can reach, is kept in `unreachable`.

    Arguments
        A: ``(m, n)`` shared by all instances, or ``(batch, m, n)``.

    Vectors are batch-last here, ``(n, batch)``, as in the cones.  Where `A` requires a gradient
    its rows must be independent; of a batch, an instance whose rows are not passes none.  The
    singular vectors themselves are not differentiated (their derivative does not exist at equal
    singular values).  Instead ``M = A'U S^-1``, linear in A and equal to V, is made orthonormal by
    ``V = M G``, ``G = (3I - M'M)/2``: G is the identity in value and carries the first-order
    change of the basis.
    """

    @kept()
    def __init__(self, A: Tensor) -> None:
        self.A, self._version = A, _version(A)
        self.batched = A.ndim == 3
        exact = A.detach().double()
        U, S, Vh = torch.linalg.svd(exact, full_matrices=False)
        cutoff = S.amax(-1, keepdim=True) * max(A.shape[-2:]) * torch.finfo(A.dtype).eps
        kept = cutoff < S
        rank = int(kept.sum(-1).max()) if kept.numel() else min(A.shape[-2:])
        source = A
        if A.requires_grad and not bool(kept.all()):
            source = _without_gradient(A, kept)
        U, S, Vh, kept = U[..., :rank], S[..., :rank], Vh[..., :rank, :], kept[..., :rank]
        # Instances of lower rank than the others keep zero columns.
        inverse = torch.where(kept, 1 / S, 0)
        self.rank = rank
        self.U = (U * kept.unsqueeze(-2)).to(A.dtype)
        self.S = (S * kept).to(A.dtype)
        self.S_inverse = inverse.to(A.dtype)
        self.G: Tensor | None = None
        if A.requires_grad:
            M = _FirstOrder.apply(source).double().mT @ (U * inverse.unsqueeze(-2))
            identity = torch.eye(rank, dtype=M.dtype, device=M.device)
            G = (3 * identity - M.mT @ M) / 2
            self.V = (M @ G).to(A.dtype)
            self.G = G.to(A.dtype)
        else:
            self.V = (Vh.mT * kept.unsqueeze(-2)).to(A.dtype).contiguous()
            _KNOWN[A] = ref(self)
        #: S and its inverse as batch-last factors: (rank, 1) or (rank, batch).
        self.scale, self.inverse_scale = (
            t.mT if self.batched else t.unsqueeze(-1) for t in (self.S, self.S_inverse)
        )
        self.null = self._null()

    @classmethod
    def known(cls, A: Tensor, copy: Tensor) -> AffineSet:
        """The factorisation of `copy`, which holds the same numbers as A: that of A where there is
        one already."""
        found = _KNOWN[A]() if A in _KNOWN else None
        if found is None or not found.is_of(A):
            return cls(copy)
        mine = shallow(found)
        mine.A, mine._version = copy, _version(copy)
        return mine

    def _null(self) -> Tensor | None:
        """An orthonormal basis of the kernel of a shared A, (n, n - rank), where it is thin.

        Two products with it and one with V are then cheaper than two with V.
        """
        n = self.A.shape[-1]
        if self.batched or self.G is not None or 3 * self.rank <= 2 * n:
            return None
        _, _, Vh = torch.linalg.svd(self.A.detach().double(), full_matrices=True)
        return Vh[self.rank :].mT.to(self.A.dtype).contiguous()

    def is_of(self, A: Tensor) -> bool:
        """Is this the factorisation of A as it is now?"""
        return self.A is A and self._version == _version(A) is not None

    def target(self, b: Tensor) -> Tensor:
        """``d``, the coordinates every point of the set has: (m, batch) -> (rank, batch)."""
        d = self.inverse_scale * down(self.U, b)
        return d if self.G is None else down(self.G, d)

    def unreachable(self, b: Tensor) -> Tensor | None:
        """``|b - U U'b|`` per instance, or None where A has full row rank."""
        if self.rank == self.A.shape[-2] and bool((self.S > 0).all()):
            return None
        return (b - up(self.U, down(self.U, b))).norm(dim=0)

    def multiplier(self, y: Tensor) -> Tensor:
        """``argmin_l |A'l - y| = (AA')^+ A y``: (n, batch) -> (m, batch)."""
        coordinates = down(self.V, y)
        if self.G is not None:
            coordinates = up(self.G, coordinates)
        return up(self.U, self.inverse_scale * coordinates)

    def residual(self, offset: Tensor) -> Tensor:
        """``U'(A z - b) = S (V'z - d)`` from the offset ``V'z - d``, (rank, batch)."""
        if self.G is not None:  # the inverse of G, to first order
            offset = 2 * offset - up(self.G, offset)
        return self.scale * offset

    def shortest(self, b: Tensor) -> Tensor:
        """The length of the shortest x with A x = b, (batch,)."""
        return torch.linalg.vector_norm(self.target(b), dim=0)

    def along(self, w: Tensor) -> Tensor:
        """``(I - VV')w``: the part of w along the set, (n, batch)."""
        return w - up(self.V, down(self.V, w))

    def project(self, w: Tensor, d: Tensor) -> Tensor:
        """``w - V (V'w - d)`` for w (n, batch) and ``d = target(b)``."""
        return w - up(self.V, down(self.V, w) - d)


def _without_gradient(A: Tensor, kept: Tensor) -> Tensor:
    """A, in instances of dependent rows as a constant: the projection jumps there."""
    message = f"A has dependent rows (rank {int(kept.sum(-1).min())} of {A.shape[-2]})"
    if A.ndim == 2:
        raise ValueError(f"{message} and requires a gradient: remove those rows, or detach A.")
    full = kept.all(-1)
    warnings.warn(
        f"{message} in {int((~full).sum())} of {len(A)} instances, first in "
        f"{int((~full).nonzero()[0])}: the projection passes no gradient to A there.",
        stacklevel=2,
    )
    return torch.where(full[:, None, None], A, A.detach())


class _FirstOrder(torch.autograd.Function):
    """A itself; what is made of it has the right first derivative in A, and no second."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        return A.view_as(A)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def down(V: Tensor, x: Tensor) -> Tensor:
    """``V'x`` for batch-last x; V is (n, r) or (batch, n, r)."""
    if V.ndim == 2:
        return V.mT @ x
    return (x.mT.unsqueeze(-2) @ V).squeeze(-2).mT


def up(V: Tensor, h: Tensor) -> Tensor:
    """``V h`` for batch-last h."""
    if V.ndim == 2:
        return V @ h
    return (V @ h.mT.unsqueeze(-1)).squeeze(-1).mT


def outer(V: Tensor, x: Tensor, h: Tensor) -> Tensor:
    """The gradient of ``<x, V h>`` in V: summed over the batch where V is shared."""
    if V.ndim == 2:
        return x @ h.mT
    return x.mT.unsqueeze(-1) * h.mT.unsqueeze(-2)
