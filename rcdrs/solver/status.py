r"""What became of each instance: solved, or why it may never be.

Where a program has no solution, the shadow state ``v = z + u`` drifts: its steps tend to a vector
delta that is not zero (Banjac et al. 2019), whose parts in the cone and in its polar,

    ray = Proj_K(delta),    -s = delta - ray,    y = (AA')^+ A (-s),

tend to certificates.  No instance is judged by a limit that it has not reached; each certificate
is measured by what it proves as it is:

    b'y > 0:    every feasible x has    |x| >= b'y / |A'y + s|        so it is infeasible, or huge
    c'ray < 0:  every dual y has        |y| >= -c'ray / |A ray|       so it is unbounded, or dual
                                                                      solutions are huge

`infeasible` and `unbounded` are the inverse of these bounds, relative to the present solution: the
smaller, the surer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rcdrs.cones import Box, Cone, Product
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import times, transposed

#: Residuals up to which an instance is solved, and of certificates up to which they are believed.
TOLERANCE, BELIEVED = 1e-3, 3e-2
SOLVED, INACCURATE, INFEASIBLE, UNBOUNDED = (
    "solved",
    "inaccurate",
    "likely infeasible",
    "likely unbounded",
)


class Certificates(NamedTuple):
    """The residuals of both certificates, (batch,): infinite where there is none."""

    infeasible: Tensor
    unbounded: Tensor


@torch.no_grad()
def certify(program: ConicProgram, drift: Tensor, z: Tensor, y: Tensor) -> Certificates:
    """Arguments
    drift: a step of v beyond the terminal state, (batch, n).
    z, y: the terminal decision and multiplier, to which residuals are relative.
    """
    ray = recession(program.cone, drift)
    s = ray - drift
    multiplier = program.affine.multiplier(-s.mT).mT
    stationarity = _norm(transposed(program, multiplier) + s)
    proven = (program.b * multiplier).sum(-1) - support(program.cone, -s)
    escape = _norm(times(program, ray))
    if program.Q is not None:
        escape = escape + _norm(program.Q * ray)
    descent = -(program.c * ray).sum(-1)
    return Certificates(
        _ratio(stationarity * (1 + _norm(z)), proven, _norm(s)),
        _ratio(escape * (1 + _norm(y)), descent, _norm(ray)),
    )


def judge(
    worst: Tensor, certificates: Certificates, tolerance: float, believed: float
) -> list[str]:
    """In words, from the largest residual of each instance and its certificates."""
    found = []
    for residual, infeasible, unbounded in zip(
        worst.tolist(), *(part.tolist() for part in certificates), strict=True
    ):
        name = INACCURATE
        if residual <= tolerance:
            name = SOLVED
        elif min(infeasible, unbounded) <= believed:
            name = INFEASIBLE if infeasible <= unbounded else UNBOUNDED
        found.append(name)
    return found


def recession(cone: Cone, direction: Tensor) -> Tensor:
    """The projection on the directions in which the set goes on for ever: of a cone, the cone."""
    if isinstance(cone, Product):
        parts = [recession(part, direction[..., at]) for part, at in cone.stretches()]
        return torch.cat(parts, -1)
    if isinstance(cone, Box):
        lower, upper = (bound.to(direction) for bound in (cone.lower, cone.upper))
        low = torch.where(torch.isinf(lower), direction, direction.clamp(min=0))
        return torch.where(torch.isinf(upper), low, low.clamp(max=0))
    return cone.project(direction)


def support(cone: Cone, w: Tensor) -> Tensor:
    """``sup_{x in K} <w, x>`` for w in the polar of the recession: zero, but for bounds."""
    if isinstance(cone, Product):
        parts = [support(part, w[..., at]) for part, at in cone.stretches()]
        return torch.stack(parts).sum(0)
    if isinstance(cone, Box):
        bounds = torch.where(w > 0, cone.upper.to(w), cone.lower.to(w))
        return torch.where(w == 0, 0, w * bounds).sum(-1)
    return w.new_zeros(w.shape[:-1])


def _ratio(residual: Tensor, proven: Tensor, length: Tensor) -> Tensor:
    """Infinite where nothing is proven; a direction of rounding errors proves nothing."""
    tiny = 100 * torch.finfo(residual.dtype).eps
    sound = (proven > 0) & (length > tiny) & torch.isfinite(residual) & torch.isfinite(proven)
    return torch.where(sound, residual / torch.where(sound, proven, 1), torch.inf)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)
