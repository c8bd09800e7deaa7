from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones.base import Cone, positive_int
from rcdrs.kernels import arrays, compiled, inlined


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
        if self.order <= LARGEST and (found := arrays(v, out)) is not None:
            values, vectors = v.new_empty(self.count * self.order, v.shape[1]), torch.empty_like(v)
            project_lanes(*found, values.numpy(), vectors.numpy(), self.order)
            return values, vectors
        values, vectors = self._eigh(v)
        positive = values.clamp(min=0)
        out.copy_(self._flatten((vectors * positive.unsqueeze(-2)) @ vectors.mT))
        return values, vectors

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        if self.order <= LARGEST and (found := arrays(*saved, g, out)) is not None:
            vjp_lanes(*found, self.order)
            return
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


#: Instances worked on at a time, whose matrices stay in the cache.  Loops over this constant
#: become vector code, while over 32 the compiler unrolls them into slower scalar code.
LANES = 64
#: Beyond this order a tridiagonal method takes fewer operations than Jacobi's.
LARGEST = 32
#: Sweeps at most; order 10 takes six in float32 and seven in float64.
SWEEPS = 20


@compiled
def project_lanes(
    v: np.ndarray, out: np.ndarray, values: np.ndarray, vectors: np.ndarray, order: int
) -> None:
    """The projection on (count * order**2, batch), compiled, with the eigenvalues and vectors.

    Eigenvector k is row k of its block in `vectors`.
    """
    batch, square = v.shape[1], order * order
    zero = v.dtype.type(0)
    lanes = max(1, min(LANES, batch))
    shape = (order, order, lanes)
    # Parts of one array would keep the compiler from telling them apart, hence from vector code.
    a, q, part = np.empty(shape, v.dtype), np.empty(shape, v.dtype), np.empty(shape, v.dtype)
    size = np.empty(lanes, v.dtype)
    for block in range(values.shape[0] // order):
        for start in range(0, batch, lanes):
            width = min(lanes, batch - start)
            _load_symmetric(v, block * square, start, width, a)
            _eigh(a, q, size)
            for k in range(order):
                for j in range(lanes):
                    a[k, k, j] *= size[j]
                for i in range(order):
                    for j in range(lanes):
                        value = a[k, k, j]
                        part[k, i, j] = (zero if value < zero else value) * q[k, i, j]
            for k in range(order):
                for j in range(width):
                    values[block * order + k, start + j] = a[k, k, j]
                for i in range(order):
                    for j in range(width):
                        vectors[block * square + k * order + i, start + j] = q[k, i, j]
            _product(part, q, a, True)
            _store_symmetric(a, out, block * square, start, width)


@compiled
def vjp_lanes(
    values: np.ndarray, vectors: np.ndarray, g: np.ndarray, out: np.ndarray, order: int
) -> None:
    """``Q (B o (Q' G Q)) Q'`` on (count * order**2, batch), compiled."""
    batch, square = g.shape[1], order * order
    zero, tiny = g.dtype.type(0), np.finfo(g.dtype).tiny
    lanes = max(1, min(LANES, batch))
    shape = (order, order, lanes)
    rows, columns = np.zeros(shape, g.dtype), np.zeros(shape, g.dtype)
    inner, part = np.empty(shape, g.dtype), np.empty(shape, g.dtype)
    value = np.zeros((order, lanes), g.dtype)
    for block in range(values.shape[0] // order):
        for start in range(0, batch, lanes):
            width = min(lanes, batch - start)
            for k in range(order):
                for j in range(width):
                    value[k, j] = values[block * order + k, start + j]
                for i in range(order):
                    for j in range(width):
                        rows[k, i, j] = vectors[block * square + k * order + i, start + j]
                    columns[i, k] = rows[k, i]
            _load_symmetric(g, block * square, start, width, inner)
            _product(inner, columns, part, False)
            _product(columns, part, inner, True)
            for i in range(order):
                for k in range(i, order):
                    # B_ik = (l_i^+ + l_k^+) / (|l_i| + |l_k|); the floor makes (0, 0) give 0.
                    for j in range(lanes):
                        x, y = value[i, j], value[k, j]
                        total = (zero if x < zero else x) + (zero if y < zero else y)
                        bound = abs(x) + abs(y)
                        inner[i, k, j] *= total / (tiny if bound < tiny else bound)
                    inner[k, i] = inner[i, k]
            _product(inner, rows, part, False)
            _product(rows, part, inner, True)
            _store_symmetric(inner, out, block * square, start, width)


@inlined
def _eigh(a: np.ndarray, q: np.ndarray, size: np.ndarray) -> None:
    """Eigenvalues over `size` on the diagonal of `a`, eigenvectors in the rows of `q`.

    Cyclic Jacobi on the upper triangles of (order, order, lanes).  Each lane is scaled by its
    largest entry and rotates away what is more than a rounding of that, whatever the other lanes
    do: its result depends on no other.  One that is not finite becomes zero with size NaN.
    """
    real, order = a.dtype.type, len(a)
    zero, one, two = real(0), real(1), real(2)
    negligible, tiny = real(np.finfo(a.dtype).eps / order), np.finfo(a.dtype).tiny
    lanes = a.shape[2]
    spoilt, t = np.zeros(lanes, a.dtype), np.empty(lanes, a.dtype)
    c, s = np.empty(lanes, a.dtype), np.empty(lanes, a.dtype)

    size[:] = zero
    for i in range(order):
        for k in range(i, order):
            for j in range(lanes):
                entry = abs(a[i, k, j])
                size[j] = entry if entry > size[j] else size[j]
            for j in range(lanes):
                spoilt[j] += zero * a[i, k, j]  # NaN from the first NaN or infinity on
    for i in range(order):
        for k in range(i, order):
            for j in range(lanes):
                scaled = a[i, k, j] / (size[j] if size[j] > zero else one)
                a[i, k, j] = scaled if spoilt[j] == zero else zero
            q[i, k] = zero
            q[k, i] = zero
        q[i, i] = one
    for j in range(lanes):
        size[j] += spoilt[j]

    if lanes == 1:  # a matrix alone has nothing to share: LAPACK is three times as fast
        for i in range(order):
            for k in range(i):
                a[i, k] = a[k, i]
        values, vectors = np.linalg.eigh(a[:, :, 0].copy())
        for k in range(order):
            a[k, k, 0] = values[k]
            for i in range(order):
                q[k, i, 0] = vectors[i, k]
        return

    for _ in range(SWEEPS):
        rotated = False
        for i in range(order):
            for k in range(i + 1, order):
                moving = 0
                for j in range(lanes):
                    moving += abs(a[i, k, j]) > negligible
                if moving == 0:
                    continue
                rotated = True
                # t, c, s: tan, cos, sin of the angle that annihilates a_ik
                for j in range(lanes):
                    d = a[k, k, j] - a[i, i, j]
                    b = two * a[i, k, j] if abs(a[i, k, j]) > negligible else zero
                    b *= math.copysign(one, d)
                    t[j] = b / (abs(d) + math.sqrt(d * d + b * b) + tiny)
                for j in range(lanes):
                    c[j] = one / math.sqrt(one + t[j] * t[j])
                    s[j] = t[j] * c[j]
                for j in range(lanes):
                    change = t[j] * a[i, k, j]
                    a[i, i, j] -= change
                    a[k, k, j] += change
                for j in range(lanes):
                    a[i, k, j] = zero if abs(a[i, k, j]) > negligible else a[i, k, j]
                for r in range(i):
                    for j in range(lanes):
                        x, y = a[r, i, j], a[r, k, j]
                        a[r, i, j] = c[j] * x - s[j] * y
                        a[r, k, j] = s[j] * x + c[j] * y
                for r in range(i + 1, k):
                    for j in range(lanes):
                        x, y = a[i, r, j], a[r, k, j]
                        a[i, r, j] = c[j] * x - s[j] * y
                        a[r, k, j] = s[j] * x + c[j] * y
                for r in range(k + 1, order):
                    for j in range(lanes):
                        x, y = a[i, r, j], a[k, r, j]
                        a[i, r, j] = c[j] * x - s[j] * y
                        a[k, r, j] = s[j] * x + c[j] * y
                for r in range(order):
                    for j in range(lanes):
                        x, y = q[i, r, j], q[k, r, j]
                        q[i, r, j] = c[j] * x - s[j] * y
                        q[k, r, j] = s[j] * x + c[j] * y
        if not rotated:
            break


@inlined
def _product(x: np.ndarray, y: np.ndarray, out: np.ndarray, symmetric: bool) -> None:
    """``X' Y`` in every lane; of a symmetric result the upper triangle alone."""
    order, lanes = len(x), x.shape[2]
    for i in range(order):
        for k in range(i if symmetric else 0, order):
            for j in range(lanes):
                out[i, k, j] = x[0, i, j] * y[0, k, j]
            for r in range(1, order):
                for j in range(lanes):
                    out[i, k, j] += x[r, i, j] * y[r, k, j]


@inlined
def _load_symmetric(v: np.ndarray, first: int, start: int, width: int, a: np.ndarray) -> None:
    """``(V + V')/2`` of `width` instances; the lanes beyond are zero."""
    order, half, zero = len(a), a.dtype.type(0.5), a.dtype.type(0)
    for i in range(order):
        for k in range(i, order):
            above, below = v[first + i * order + k], v[first + k * order + i]
            for j in range(width):
                a[i, k, j] = half * (above[start + j] + below[start + j])
            a[i, k, width:] = zero
            a[k, i] = a[i, k]


@inlined
def _store_symmetric(a: np.ndarray, out: np.ndarray, first: int, start: int, width: int) -> None:
    """Write the upper triangles of `a` as full matrices."""
    order = len(a)
    for i in range(order):
        for k in range(i, order):
            above, below = out[first + i * order + k], out[first + k * order + i]
            for j in range(width):
                above[start + j] = a[i, k, j]
                below[start + j] = a[i, k, j]
