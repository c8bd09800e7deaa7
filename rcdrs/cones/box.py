from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones.base import Cone, check_tensor
from rcdrs.kernels import arrays, compiled


class Box(Cone):
    r"""Box ``{x : lower <= x <= upper}``; bounds ``(n,)`` or ``(*batch, n)``, may be infinite.

    A box is no cone; it stands here because the splitting needs only its projection.  Its
    `dual_contains` asks whether ``inf_{x in box} <s, x>`` is finite, which for a cone is
    membership of the dual: any sign is allowed where both bounds are finite.
    """

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        for name, bound in (("lower", lower), ("upper", upper)):
            check_tensor(name, bound)
            if bound.is_complex() or bound.dtype is torch.bool:
                raise TypeError(f"{name} has dtype {bound.dtype}, expected real numbers.")
        if lower.ndim == 0 or lower.shape != upper.shape:
            raise ValueError(
                f"lower has shape {tuple(lower.shape)} and upper {tuple(upper.shape)}, "
                "expected equal shapes (n,) or (batch, n)."
            )
        if bool(torch.isnan(lower).any() | torch.isnan(upper).any()):
            raise ValueError("lower or upper holds NaN, expected numbers or infinities.")
        empty = int(((lower > upper) | (lower == torch.inf) | (upper == -torch.inf)).sum())
        if empty:
            raise ValueError(
                f"lower and upper leave nothing between them in {empty} entries, "
                "expected lower <= upper."
            )
        # In memory the batch comes last, as in the points they are compared with.
        self.lower = lower.movedim(-1, 0).contiguous().movedim(0, -1)
        self.upper = upper.movedim(-1, 0).contiguous().movedim(0, -1)
        self.dim = lower.shape[-1]

    def forward(self, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        lower, upper = self.like(v, self.lower), self.like(v, self.upper)
        torch.maximum(v, lower, out=out)
        torch.minimum(out, upper, out=out)
        return ()

    def vjp(self, v: Tensor, saved: tuple[Tensor, ...], g: Tensor, out: Tensor) -> None:
        lower, upper = self.like(v, self.lower), self.like(v, self.upper)
        if (found := arrays(v, lower, upper, g, out)) is not None:
            vjp_rows(*found)
            return
        torch.mul(g, (v > lower) & (v < upper), out=out)

    def dual_contains(self, s: Tensor, tol: float = 1e-6) -> Tensor:
        self._check(s, "s")
        columns = s.movedim(-1, 0)
        lower, upper = self.like(columns, self.lower), self.like(columns, self.upper)
        low = torch.where(torch.isinf(upper), (-columns).clamp(min=0), 0)
        high = torch.where(torch.isinf(lower), columns.clamp(min=0), 0)
        return (low + high).norm(dim=0) <= tol * (1 + s.norm(dim=-1))

    def take(self, index: slice | Tensor) -> Box:
        return self if self.lower.ndim == 1 else Box(self.lower[index], self.upper[index])

    def like(self, v: Tensor, bound: Tensor) -> Tensor:
        """The bound in the layout, dtype and device of `v` (dim, *batch)."""
        bound = bound.to(v).movedim(-1, 0)
        if bound.ndim == 1:
            return bound.reshape(-1, *(1,) * (v.ndim - 1))
        if bound.shape != v.shape:
            raise ValueError(
                f"Box bounds are for a batch of shape {tuple(bound.shape[1:])}, "
                f"the point has batch shape {tuple(v.shape[1:])}."
            )
        return bound

    def __repr__(self) -> str:
        return f"Box({self.dim})"


@compiled
def vjp_rows(
    v: np.ndarray, lower: np.ndarray, upper: np.ndarray, g: np.ndarray, out: np.ndarray
) -> None:
    """The derivative on (n, batch), compiled; the bounds are (n, batch) or (n, 1)."""
    zero, one = v.dtype.type(0), v.dtype.type(1)
    for i in range(v.shape[0]):
        if lower.shape[1] == 1:
            low, high = lower[i, 0], upper[i, 0]
            for j in range(v.shape[1]):
                out[i, j] = g[i, j] * (one if low < v[i, j] < high else zero)
        else:
            for j in range(v.shape[1]):
                out[i, j] = g[i, j] * (one if lower[i, j] < v[i, j] < upper[i, j] else zero)


@compiled
def project_rows(v: np.ndarray, lower: np.ndarray, upper: np.ndarray, out: np.ndarray) -> None:
    """The projection on (n, batch), compiled, with bounds of the same shape; a NaN stays."""
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            raised = lower[i, j] if v[i, j] < lower[i, j] else v[i, j]
            out[i, j] = upper[i, j] if raised > upper[i, j] else raised
