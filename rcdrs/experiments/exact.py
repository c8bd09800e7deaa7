"""Exact solutions by Clarabel, to compare a fixed number of steps with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rcdrs.cones import PSD, Box, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.solver.problem import ConicProgram

#: The matrix T of a block ``x = T v``; G and h such that ``h - G v`` lies in a cone; its name and
#: size.
Block = tuple[Any, Any, np.ndarray, str, int]
GOOD = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)


def solve(program: ConicProgram) -> tuple[Tensor, Tensor]:
    """(x, lambda) of each instance in float64, NaN where Clarabel finds no solution.

    Clarabel takes ``min v'Pv / 2 + p'v  s.t.  h - G v in a product of its own cones``.  Here
    ``x = T v``, the zero cone holds ``A T v = b``, and the others hold the blocks of the cone.
    """
    A, b, c = (_numbers(t) for t in (program.A, program.b, program.c))
    Q = None if program.Q is None else _numbers(program.Q.expand_as(program.c))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    x, y = np.full_like(c, np.nan), np.full_like(b, np.nan)
    for i in range(program.batch):
        Ts, Gs, hs, kinds, sizes = zip(*_blocks(program.cone.take(slice(i, i + 1))), strict=True)
        T = sp.block_diag(Ts, format="csc")
        P = sp.csc_matrix(T.shape[1:] * 2) if Q is None else T.T @ sp.diags(Q[i]) @ T
        G = sp.vstack([A @ T, sp.block_diag(Gs)], format="csc")
        cones = [clarabel.ZeroConeT(len(A))]
        cones += [getattr(clarabel, kind)(size) for kind, size in zip(kinds, sizes, strict=True)]
        h = np.concatenate([b[i], *hs])
        found = clarabel.DefaultSolver(sp.csc_matrix(P), T.T @ c[i], G, h, cones, settings).solve()
        if found.status in GOOD:
            x[i], y[i] = T @ np.array(found.x), -np.array(found.z)[: len(A)]
    return torch.from_numpy(x), torch.from_numpy(y)


def _blocks(cone: Cone) -> Iterator[Block]:
    match cone:
        case Product(cones=cones):
            for part in cones:
                yield from _blocks(part)
        case Box(lower=lower, upper=upper):
            low, high = (_numbers(bound.reshape(-1)) for bound in (lower, upper))
            identity = sp.eye(cone.dim, format="csc")
            below, above = np.isfinite(low), np.isfinite(high)
            G, h = [identity[above], -identity[below]], np.append(high[above], -low[below])
            yield identity, sp.vstack(G), h, "NonnegativeConeT", len(h)
        case Nonneg(dim=n):
            yield _within(np.eye(n), "NonnegativeConeT", n)
        case SecondOrder(block=size, count=count):
            yield from [_within(np.eye(size), "SecondOrderConeT", size)] * count
        case RotatedSecondOrder(block=size, count=count):
            turn = np.eye(size)
            turn[:2, :2] = np.sqrt(0.5) * np.array([[1, 1], [1, -1]])
            yield from [_within(turn, "SecondOrderConeT", size)] * count
        case PSD(order=order, count=count):
            yield from [_within(_unpack(order), "PSDTriangleConeT", order)] * count
        case _:
            raise ValueError(f"no form of {cone!r} for Clarabel.")


def _within(T: np.ndarray, kind: str, size: int) -> Block:
    """``x = T v`` with v in a cone."""
    n = T.shape[1]
    return T, -sp.eye(n), np.zeros(n), kind, size


def _unpack(order: int) -> np.ndarray:
    """From the columns of the upper triangle, times sqrt(2) off the diagonal, to all of X."""
    i, j = np.tril_indices(order)  # row by row the lower triangle: column by column the upper one
    matrix, entry = np.zeros((order, order, len(i))), np.arange(len(i))
    matrix[i, j, entry] = matrix[j, i, entry] = np.where(i == j, 1, np.sqrt(0.5))
    return matrix.reshape(order**2, -1)


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().cpu().double().numpy()
