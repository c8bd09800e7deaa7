"""The terminal primal-dual readout and the error measures, each one number per instance."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from rcdrs.solver.fused import EPSILON_C, Observation
from rcdrs.solver.problem import ConicProgram, is_sparse
from rcdrs.solver.step import Action, State


class Readout(NamedTuple):
    """Slack and multiplier of eq. (5) with the residuals of eq. (7)."""

    s: Tensor  # (batch, n)
    y: Tensor  # (batch, m), the paper's lambda
    r_p: Tensor  # (batch,), as the three below
    r_d: Tensor
    r_comp: Tensor
    r_gap: Tensor


def readout(program: ConicProgram, z: Tensor, u: Tensor, beta: Action) -> Readout:
    r"""Recover ``(s, lambda)`` from the terminal state and measure the KKT residuals.

        s = -u / kappa,  kappa = beta / (|c| + eps_c),   lambda = (AA')^+ A (c - s)

    with the gradient at z for c where the program has a quadratic term.

    Arguments
        z, u: terminal ``z^K`` and ``u^K``, (batch, n).
        beta: the drive of the last step, a number or (batch,).
    """
    beta = torch.as_tensor(beta, dtype=z.dtype, device=z.device)
    if beta.shape not in ((), (program.batch,)):
        raise ValueError(
            f"beta has shape {tuple(beta.shape)}, expected a number or (batch,) = "
            f"({program.batch},)."
        )
    gradient = program.gradient(z)
    s = -u * ((_norm(gradient) + EPSILON_C) / beta).unsqueeze(-1)
    return diagnose(program, z, s, program.affine.multiplier((gradient - s).mT).mT)


def observe(program: ConicProgram, state: State, moved: Tensor) -> Observation:
    """What a controller sees of a state that the last step moved by `moved`."""
    x, z, _ = state
    objective = _dot(program.c, z)
    if program.Q is not None:
        objective = objective + _dot(program.Q * z, z) / 2
    return Observation(_norm(x - z), residual(program, z), moved, _norm(z), objective)


def diagnose(program: ConicProgram, z: Tensor, s: Tensor, y: Tensor) -> Readout:
    """The four residuals of any primal-dual triple (z, lambda, s)."""
    b, c = program.b, program.gradient(z)
    primal, dual = _dot(c, z), _dot(b, y)
    if program.Q is not None:
        half = _dot(program.Q * z, z) / 2
        primal, dual = primal - half, dual - half
    stationarity = transposed(program, y)
    return Readout(
        s=s,
        y=y,
        r_p=equality(program, z),
        r_d=_norm(stationarity + s - c) / (1 + _norm(c)),
        r_comp=_dot(z, s).abs() / (1 + primal.abs()),
        r_gap=(primal - dual).abs() / (1 + primal.abs() + dual.abs()),
    )


class Errors(NamedTuple):
    """The metrics of "Metric Conventions" that need the exact solution, and their companions."""

    ObjErr: Tensor  # |c'z - p*| / (1 + |p*|)
    Gap: Tensor  # the positive part of the same, without the modulus
    Eq: Tensor  # |A z - b| / (1 + |b|)
    Cone: Tensor  # |z - Proj_K(z)| / (1 + |z|)
    Dist: Tensor  # |z - x*| / (1 + |x*|)


def errors(program: ConicProgram, z: Tensor, x_star: Tensor) -> Errors:
    """Compare z with the exact solution ``x_star``, both (batch, n)."""
    # p* in float64: a float32 dot product would hide errors of 1e-6.
    optimum = objective(program, x_star)
    signed = (objective(program, z) - optimum) / (1 + optimum.abs())
    return Errors(
        ObjErr=signed.abs().to(z.dtype),
        Gap=signed.clamp(min=0).to(z.dtype),
        Eq=equality(program, z),
        Cone=_norm(z - program.cone.project(z)) / (1 + _norm(z)),
        Dist=_norm(z - x_star) / (1 + _norm(x_star)),
    )


def objective(program: ConicProgram, x: Tensor) -> Tensor:
    """``c'x``, with a quadratic term also ``x'diag(Q)x / 2``, in float64."""
    linear = _dot(program.c.double(), x.double())
    if program.Q is None:
        return linear
    return linear + _dot(program.Q.double() * x.double(), x.double()) / 2


def equality(program: ConicProgram, z: Tensor) -> Tensor:
    """``|A z - b| / (1 + |b|)``: r_p and Eq of the paper."""
    return residual(program, z) / (1 + _norm(program.b))


def residual(program: ConicProgram, z: Tensor) -> Tensor:
    """``|A z - b|``."""
    return _norm(times(program, z) - program.b)


def times(program: ConicProgram, x: Tensor) -> Tensor:
    """``A x`` of each instance, (batch, n) -> (batch, m)."""
    A = program.A
    if is_sparse(A):
        return cast(Any, program.affine).times(x.mT).mT
    return (A @ x.unsqueeze(-1)).squeeze(-1) if A.ndim == 3 else x @ A.mT


def transposed(program: ConicProgram, y: Tensor) -> Tensor:
    """``A'y`` of each instance, (batch, m) -> (batch, n)."""
    A = program.A
    if is_sparse(A):
        return cast(Any, program.affine).transposed(y.mT).mT
    return (y.unsqueeze(-2) @ A).squeeze(-2) if A.ndim == 3 else y @ A


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)
