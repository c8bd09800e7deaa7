"""Conic linear programs, with every shape and number checked on the way in."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.cones.base import check_cone, check_tensor, kind_of
from rcdrs.kernels import autocasts, transformed
from rcdrs.solver.affine import AffineSet


@dataclass(frozen=True)
class ConicProgram:
    r"""A batch of conic linear programs, eq. (1): ``min c'x  s.t.  A x = b, x in K``.

    With Q the objective is ``x'diag(Q)x / 2 + c'x``, as in the dispatch problem, eq. (11).

    Arguments
        A: ``(m, n)``, shared by all instances, or ``(batch, m, n)``; m <= n.
        b: ``(batch, m)``.
        c: ``(batch, n)``.
        cone: K, of dimension n.
        Q: ``(n,)`` or ``(batch, n)``, nonnegative: the diagonal of the quadratic term, if any.
    """

    A: Tensor
    b: Tensor
    c: Tensor
    cone: Cone
    Q: Tensor | None = None

    def __post_init__(self) -> None:
        check_matrix(self.A, self.cone)
        self._check_shapes()
        self.check_numbers()

    @classmethod
    def factored(cls, affine: AffineSet, b: Tensor, c: Tensor, cone: Cone) -> Self:
        """The program of an A that was checked when it was factored.

        Its numbers are checked by whoever takes them up: the compiled pass, or `check_numbers`.
        """
        program = cls.__new__(cls)
        program.__dict__.update(A=affine.A, b=b, c=c, cone=cone, Q=None, _affine=affine)
        program._check_shapes()
        return program

    def check_numbers(self) -> None:
        """An error if b or c is not finite."""
        check_numbers("b", self.b)
        check_numbers("c", self.c)

    def _check_shapes(self) -> None:
        m, n = self.A.shape[-2:]
        check_vectors("b", self.b, m, "m", "rows of A", self.A)
        check_vectors("c", self.c, n, "n", "columns of A", self.A)
        if self.b.shape[0] != self.c.shape[0]:
            raise ValueError(
                f"b has batch size {self.b.shape[0]} and c has {self.c.shape[0]}, "
                "expected the same."
            )
        if self.A.ndim == 3 and self.A.shape[0] != self.b.shape[0]:
            raise ValueError(
                f"A has batch size {self.A.shape[0]} and b has {self.b.shape[0]}, "
                "expected the same (or A of shape (m, n), shared)."
            )
        if self.Q is not None:
            check_quadratic(self.Q, self.c)

    @property
    def batch(self) -> int:
        return self.b.shape[0]

    @property
    def affine(self) -> AffineSet:
        """The factored equality constraints, kept as long as A does not change.

        Where A requires a gradient each use is a new node of its graph.
        """
        kept: AffineSet | None = self.__dict__.get("_affine")
        if kept is not None and (torch.compiler.is_compiling() or kept.is_of(self.A)):
            return kept
        affine = affine_of(self.A)
        if not self.A.requires_grad:
            self.__dict__["_affine"] = affine
        return affine

    def gradient(self, x: Tensor) -> Tensor:
        """Of the objective at x, (batch, n)."""
        return self.c if self.Q is None else torch.addcmul(self.c, self.Q, x)

    def with_vectors(self, b: Tensor, c: Tensor) -> Self:
        """The same program for another b and c of the same shape, unchecked."""
        program = copy(self)
        program.__dict__.update(b=b, c=c)
        return program

    def with_affine(self, affine: AffineSet) -> Self:
        """The same program, reusing a factorisation of the same A."""
        self.__dict__["_affine"] = affine
        return self

    def __getitem__(self, index: slice | Tensor) -> Self:
        """A sub-batch; a shared A keeps its factorisation."""
        A = self.A[index] if self.A.ndim == 3 else self.A
        Q = self.Q[index] if self.Q is not None and self.Q.ndim == 2 else self.Q
        part = replace(self, A=A, b=self.b[index], c=self.c[index], cone=self.cone.take(index), Q=Q)
        return part if self.A.ndim == 3 else part.with_affine(self.affine)


def is_sparse(A: Any) -> bool:
    """A matrix of scipy's or torch's that holds its nonzeros alone."""
    return A.layout is not torch.strided if isinstance(A, Tensor) else hasattr(A, "tocsr")


def affine_of(A: Tensor, factored: bool = False) -> AffineSet:
    """The equations of A, dense or sparse; a sparse A may wait until it has to be factored."""
    if not is_sparse(A):
        return AffineSet(A)
    from rcdrs.solver.sparse import SparseSet  # with scipy, which nothing else here needs

    found = SparseSet(A)
    if factored:
        _ = found.factor
    # It has the same methods, but for those of singular vectors, which only dense steps use.
    return cast(AffineSet, found)


def as_matrix(A: Any) -> Tensor:
    """The A of a layer, as a tensor: dense, or coordinates of its nonzeros."""
    if not is_sparse(A):
        return as_numbers("A", A)
    from rcdrs.solver.sparse import as_sparse

    return as_sparse(A)


def as_numbers(name: str, value: Any, like: Tensor | None = None) -> Tensor:
    """What a layer is given, as a tensor.

    Plain data, an array, a list or a number, takes the dtype and device of `like`; without it,
    arrays of float32 and float64 keep theirs.  A tensor stays what it is, but that one of lower
    precision is cast where `torch.autocast` made it, and one of inference mode is copied where
    gradients need it.
    """
    if isinstance(value, Tensor):
        if torch.compiler.is_compiling():
            return value
        if like is not None and value.dtype in (torch.bfloat16, torch.float16):
            value = value.to(like.dtype) if autocasts(value.device) else value
        return (
            value
            if torch.is_inference_mode_enabled() or not value.is_inference()
            else value.clone()
        )
    if _holds_tensors(value):
        raise TypeError(
            f"{name} is {kind_of(value)} of tensors, expected one tensor: torch.stack makes it."
        )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} is {kind_of(value)} that is no array ({error}), expected rows of one length."
        ) from error
    if array.dtype.kind not in "fiu":
        what = f" of {array.dtype}" if array.ndim else ""
        raise TypeError(f"{name} is {kind_of(value)}{what}, expected a tensor or numbers.")
    if like is not None:
        return torch.tensor(array.astype(np.float64), dtype=like.dtype, device=like.device)
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    own = dtypes.get(array.dtype.name) if isinstance(value, np.ndarray) else None
    return torch.tensor(array.astype(np.float64), dtype=own or torch.get_default_dtype())


def _holds_tensors(value: Any) -> bool:
    """In lists of any depth: numpy would read their numbers and lose their gradients."""
    parts = value if isinstance(value, (list, tuple)) else ()
    return any(isinstance(part, Tensor) or _holds_tensors(part) for part in parts)


def check_matrix(A: Tensor, cone: Cone) -> None:
    sparse = isinstance(A, Tensor) and A.layout is torch.sparse_coo
    if not sparse:
        check_tensor("A", A)
    check_cone("cone", cone)
    if A.ndim not in (2, 3):
        raise ValueError(f"A has shape {tuple(A.shape)}, expected (m, n) or (batch, m, n).")
    check_numbers("A", A.coalesce().values() if sparse else A)
    m, n = A.shape[-2:]
    if m > n:
        raise ValueError(
            f"A has shape {tuple(A.shape)}: {m} rows and {n} columns, expected m <= n "
            "(remove redundant equations first)."
        )
    if cone.dim != n:
        raise ValueError(f"cone has dimension {cone.dim}, expected n = {n} columns of A: {cone!r}.")


def check_vectors(name: str, x: Tensor, size: int, symbol: str, meaning: str, A: Tensor) -> None:
    check_tensor(name, x)
    if x.ndim != 2 or x.shape[1] != size:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, expected (batch, {symbol}) with "
            f"{symbol} = {size} {meaning}."
        )
    check_dtype(name, x)
    if x.dtype != A.dtype:
        raise TypeError(f"{name} has dtype {x.dtype}, expected {A.dtype}, the dtype of A.")
    if x.device != A.device:
        raise ValueError(f"{name} is on {x.device}, expected {A.device}, the device of A.")


def check_quadratic(Q: Tensor, c: Tensor) -> None:
    check_tensor("Q", Q)
    if Q.shape not in (c.shape, c.shape[1:]):
        raise ValueError(
            f"Q has shape {tuple(Q.shape)}, expected (n,) or (batch, n) = {tuple(c.shape)}: "
            "the diagonal of the quadratic term."
        )
    check_numbers("Q", Q)
    if Q.dtype != c.dtype or Q.device != c.device:
        raise TypeError(
            f"Q has dtype {Q.dtype} on {Q.device}, expected {c.dtype} on {c.device}, as c."
        )
    if Q.device.type != "meta" and bool((Q < 0).any()):
        raise ValueError("Q has negative entries, expected a convex objective.")


def check_dtype(name: str, x: Tensor) -> None:
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} has dtype {x.dtype}, expected torch.float32 or torch.float64.")


def check_numbers(name: str, x: Tensor) -> None:
    """An error unless x is finite; inside of a trace or transform there are no numbers to see."""
    check_dtype(name, x)
    if x.device.type == "meta" or transformed():
        return
    bad = ~torch.isfinite(x.detach())
    if bool(bad.any()):
        first = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"{name} holds {int(bad.sum())} NaN or infinite entries, the first at {first}; "
            "expected finite numbers."
        )
