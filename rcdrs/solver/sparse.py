r"""Equations whose matrix is sparse: never made dense, and factored once.

    Proj_A(w) = w - A'M^-1 (A w - b),   M = AA'

A singular value decomposition, as `affine` has it, would fill A.  Here M is factored by SuperLU,
and a step is two sparse products and one pair of triangular solves for the whole batch, whose cost
grows with the nonzeros of the factor.  SuperLU's own solves are faster for one instance, and take
up to fifteen times as long for a batch.  On a CPU, for an A that all instances share and that has
no gradient; b and c have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from rcdrs.kernels import compiled, first_order, inlined
from rcdrs.solver.elementwise import norm

#: Below this ratio of pivots rows count as dependent.
DEPENDENT = 1e-13


def as_sparse(A: Any) -> Tensor:
    """As torch's coordinates, on a CPU, without a gradient; an error where that cannot be."""
    if sp.issparse(A):
        found = sp.coo_array(A)
        dtypes = {"float32": torch.float32, "float64": torch.float64}
        dtype = dtypes.get(found.dtype.name, torch.get_default_dtype())
        where = torch.from_numpy(np.stack([found.row, found.col]).astype(np.int64))
        values = torch.from_numpy(found.data.astype(np.float64)).to(dtype)
        matrix = torch.sparse_coo_tensor(where, values, found.shape, check_invariants=True)
        return matrix.coalesce()
    if A.requires_grad:
        raise ValueError(
            "A is sparse and requires a gradient, which only a dense A has: detach it."
        )
    if A.device.type != "cpu":
        raise ValueError(
            f"A is sparse and on {A.device}, expected a CPU: move it, or make it dense."
        )
    if A.ndim != 2:
        raise ValueError(f"A is sparse and has shape {tuple(A.shape)}, expected (m, n).")
    return A.detach().to_sparse_coo().coalesce()


class SparseSet:
    """``{x : A x = b}`` of a sparse A; the methods are those of `AffineSet`.

    Vectors are batch-last, (n, batch).
    """

    def __init__(self, A: Tensor) -> None:
        self.A, self._changes = A, A._version
        entries = A.coalesce()
        row, col = entries.indices().numpy()
        matrix = sp.csr_array((entries.values().numpy(), (row, col)), shape=tuple(A.shape))
        self._forward, self._back = matrix, sp.csr_array(matrix.T)
        self.rank = A.shape[0]

    @cached_property
    def factor(self) -> Factor:
        """Of AA', made when first needed: products alone do not."""
        return Factor(gram(self._forward))

    def is_of(self, A: Tensor) -> bool:
        return self.A is A and self._changes == A._version

    def times(self, x: Tensor) -> Tensor:
        """``A x``."""
        return _linear(x, self._times, self._transposed)

    def transposed(self, y: Tensor) -> Tensor:
        """``A'y``."""
        return _linear(y, self._transposed, self._times)

    def solve(self, r: Tensor) -> Tensor:
        """``(AA')^-1 r``."""
        return _linear(r, self._solve, self._solve)

    def project(self, w: Tensor, b: Tensor) -> Tensor:
        return w - self.transposed(self.solve(self.times(w) - b))

    def multiplier(self, y: Tensor) -> Tensor:
        """``argmin_l |A'l - y|``."""
        return self.solve(self.times(y))

    def shortest(self, b: Tensor) -> Tensor:
        """The length of the shortest x with A x = b, (batch,)."""
        return norm(self.transposed(self.solve(b)))

    def _times(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._forward @ x
        return found

    def _transposed(self, y: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._back @ y
        return found

    def _solve(self, r: np.ndarray) -> np.ndarray:
        return self.factor.solve(r) if r.size else r


def gram(A: sp.sparray) -> sp.csc_array:
    """``AA'`` in float64."""
    exact = sp.csr_array(A, dtype=np.float64)
    return sp.csc_array(exact @ exact.T)


class Factor:
    """``P M Q = L U`` with permutations P and Q, by SuperLU, in float64."""

    def __init__(self, M: sp.csc_array) -> None:
        self.nonzeros = 0
        if not M.shape[0]:
            return
        found = _factored(M)
        L, U = sp.csc_array(found.L), sp.csc_array(found.U)
        self.nonzeros = int(L.nnz + U.nnz)
        self.diagonal = U.diagonal()
        #: Both by columns, without their diagonals.
        self.parts = [
            (part.indptr, part.indices, part.data)
            for part in (sp.tril(L, -1, "csc"), sp.triu(U, 1, "csc"))
        ]
        self.rows, self.columns, self.single = found.perm_r, found.perm_c, found.solve

    def solve(self, r: np.ndarray) -> np.ndarray:
        """``M^-1 r`` of (m, batch)."""
        if r.shape[1] == 1:
            return self.single(r.astype(np.float64)).astype(r.dtype)
        x = np.empty(r.shape)
        x[self.rows] = r
        solve_lower(*self.parts[0], x)
        solve_upper(*self.parts[1], self.diagonal, x)
        return x[self.columns].astype(r.dtype)


@inlined
def eliminate(j, start, row, value, x):  # type: ignore[no-untyped-def]
    """Take x[j], which is found, times column j of a triangle from the rows that it reaches."""
    for p in range(start[j], start[j + 1]):
        for k in range(x.shape[1]):
            x[row[p], k] -= value[p] * x[j, k]


@compiled
def solve_lower(start: np.ndarray, row: np.ndarray, value: np.ndarray, x: np.ndarray) -> None:
    """``L^-1 x`` in the place of x; L has ones on its diagonal."""
    for j in range(len(x)):
        eliminate(j, start, row, value, x)


@compiled
def solve_upper(
    start: np.ndarray, row: np.ndarray, value: np.ndarray, diagonal: np.ndarray, x: np.ndarray
) -> None:
    """``U^-1 x`` in the place of x."""
    for j in range(len(x) - 1, -1, -1):
        for k in range(x.shape[1]):
            x[j, k] /= diagonal[j]
        eliminate(j, start, row, value, x)


def _factored(M: sp.csc_array) -> Any:
    options = {"SymmetricMode": True}
    order = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
    try:
        found = splu(M, options=options, **order)
        pivots = np.abs(found.U.diagonal())
        sound = bool(pivots.min() > DEPENDENT * pivots.max())
    except RuntimeError:  # a pivot is zero
        sound = False
    if not sound:
        raise ValueError(
            "A is sparse and has dependent rows, expected independent ones: remove those that "
            "follow from others, or give A as a dense matrix."
        )
    return found


def _linear(
    x: Tensor,
    apply: Callable[[np.ndarray], np.ndarray],
    adjoint: Callable[[np.ndarray], np.ndarray],
) -> Tensor:
    found: Tensor = _Linear.apply(x, apply, adjoint)
    return found


class _Linear(torch.autograd.Function):
    """A linear map of columns by numpy, with its adjoint as derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, apply: Any, adjoint: Any) -> Tensor:
        ctx.adjoint = adjoint
        return _by_numpy(apply, x)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        return _by_numpy(ctx.adjoint, g), None, None


def _by_numpy(apply: Callable[[np.ndarray], np.ndarray], x: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(apply(x.detach().contiguous().numpy())))
