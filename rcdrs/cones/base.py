"""What every cone offers, and the autograd function that carries its own derivative."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from rcdrs.kernels import first_order


class Cone(ABC):
    r"""A closed convex set with a computable projection, acting on the last axis of its argument.

    Subclasses implement the projection and its derivative in *batch-last* layout, where the
    coordinate is the first axis and the batch axes follow: ``(dim, *batch)``.  Norms of small
    blocks are then sums of long contiguous rows, several times faster than the sum of a few
    neighbouring numbers per instance.
    """

    dim: int
    #: How many tensors `forward` saves for `vjp`.
    saves: int = 0

    @abstractmethod
    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        """Write the projection of `v` into `out`, both (dim, *batch); return what `vjp` reuses."""

    @abstractmethod
    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        """Write ``J g`` into `out`, J the (symmetric) derivative of the projection at `v`.

        Where the projection has a kink, J is one element of its generalised Jacobian.
        """

    @abstractmethod
    def dual_contains(self, s: Tensor, tol: float = 1e-6) -> Tensor:
        r"""Per instance: is `s` in the dual cone ``{s : <s, x> >= 0 for all x in K}``?

        The violation is measured by its norm, relative to ``1 + |s|``.
        """

    def project(self, v: Tensor) -> Tensor:
        r"""``argmin_{x in K} |x - v|`` for `v` of shape ``(..., dim)``; differentiable."""
        self._check(v, "v")
        out: Tensor = _Project.apply(v, self)
        return out

    def take(self, index: slice | Tensor) -> Cone:
        """The cone of a sub-batch; only sets that differ between instances have to choose."""
        return self

    def contains(self, x: Tensor, tol: float = 1e-6) -> Tensor:
        """Per instance: is ``|x - project(x)| <= tol (1 + |x|)``?  Shape ``(...)``."""
        self._check(x, "x")
        return _norm(x - self.project(x)) <= tol * (1 + _norm(x))

    def _check(self, v: Tensor, name: str) -> None:
        check_tensor(name, v)
        if v.ndim == 0 or v.shape[-1] != self.dim:
            raise ValueError(
                f"{name} has shape {tuple(v.shape)}, expected (..., {self.dim}) for {self!r}."
            )
        if not v.is_floating_point():
            raise TypeError(f"{name} has dtype {v.dtype}, expected a floating-point tensor.")

    @abstractmethod
    def __repr__(self) -> str: ...


class SelfDual(Cone):
    """A cone that is its own dual."""

    def dual_contains(self, s: Tensor, tol: float = 1e-6) -> Tensor:
        self._check(s, "s")
        return self.contains(s, tol)


class _Project(torch.autograd.Function):
    """The projection on the last axis, differentiated by the cone's own `vjp`."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, cone: Cone) -> Tensor:
        columns = v.movedim(-1, 0).contiguous()
        out = torch.empty_like(columns)
        saved = cone.forward(columns, out)
        ctx.cone = cone
        ctx.save_for_backward(columns, *saved)
        return out.movedim(0, -1)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        v, *saved = ctx.saved_tensors
        columns = g.movedim(-1, 0).contiguous()
        out = torch.empty_like(columns)
        ctx.cone.vjp(v, tuple(saved), columns, out)
        return out.movedim(0, -1), None


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)


def check_tensor(name: str, value: Any) -> None:
    """A dense tensor, or an error."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is {kind_of(value)}, expected a tensor.")
    if value.layout is not torch.strided or value.is_nested:
        raise TypeError(f"{name} is sparse or nested ({value.layout}), expected a dense tensor.")


def check_cone(name: str, value: Any) -> None:
    if not isinstance(value, Cone):
        raise TypeError(f"{name} is {kind_of(value)}, expected a cone, such as Nonneg(3).")


def kind_of(value: Any) -> str:
    """What a value is, in few words: ``None``, ``'text'``, ``a list``."""
    short = value is None or isinstance(value, (str, bytes, int, float, complex))
    return repr(value)[:50] if short else f"a {type(value).__name__}"


def positive_int(value: int, name: str) -> int:
    """Check a dimension given by the user."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a positive integer.")
    return value
