"""Predict, then solve to optimality: what a fixed number of steps costs."""

from __future__ import annotations

from collections.abc import Iterator

import clarabel
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.dfl.data import Decisions
from rcdrs.experiments.dfl.methods import measure
from rcdrs.experiments.dfl.model import DecisionModel
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import diagnose


@torch.no_grad()
def evaluate_exactly(model: DecisionModel, decisions: Decisions) -> dict[str, Tensor]:
    """`methods.evaluate` with Clarabel in place of the layer.

    A predicted problem may be unbounded, or numerically out of Clarabel's reach: its metrics are
    NaN then, and it counts as 0 in ``Solved``.
    """
    given = (model.layer.A, decisions.program.b, model.predictor(decisions.q))
    A, b, c = (tensor.to("cpu", torch.float64) for tensor in given)
    program = ConicProgram(A, b, c, model.layer.cone)
    x, y = solve(program)
    solved = torch.isfinite(x).all(-1)
    # The slack that stationarity asks for, projected onto K*: by Moreau, w + Proj_K(-w).
    w = c - y @ A
    s = w + program.cone.project(-w)
    residuals = diagnose(program, x, s, y)
    metrics = measure(decisions, x.to(decisions.x))
    metrics |= {name: getattr(residuals, name) for name in ("r_p", "r_d", "r_gap")}
    return metrics | {"Solved": solved.double()}


def solve(program: ConicProgram) -> tuple[Tensor, Tensor]:
    """(x, lambda) of each instance by Clarabel, NaN where there is no solution.

    Clarabel takes ``min p'v  s.t.  G v + w = h`` with w in a product of its own cones.  Here
    ``x = T v`` with T orthogonal, or for a PSD block unpacking the scaled triangle; the zero cone
    holds ``A T v = b`` and the others hold v.
    """
    parts, kinds, sizes = zip(*_blocks(program.cone), strict=True)
    T = sp.block_diag(parts, format="csc")
    G = sp.vstack([program.A.numpy() @ T, -sp.eye(T.shape[1])], format="csc")
    m, n = program.A.shape
    cones = [clarabel.ZeroConeT(m)]
    cones += [getattr(clarabel, kind)(size) for kind, size in zip(kinds, sizes, strict=True)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    good = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    no_quadratic = sp.csc_matrix((T.shape[1], T.shape[1]))
    x, y = np.full((program.batch, n), np.nan), np.full((program.batch, m), np.nan)
    for row in range(program.batch):
        h = np.append(program.b[row].numpy(), np.zeros(T.shape[1]))
        p = T.T @ program.c[row].numpy()
        found = clarabel.DefaultSolver(no_quadratic, p, G, h, cones, settings).solve()
        if found.status in good:
            x[row], y[row] = T @ np.array(found.x), -np.array(found.z)[:m]
    return torch.from_numpy(x), torch.from_numpy(y)


def _blocks(cone: Cone) -> Iterator[tuple[np.ndarray, str, int]]:
    """For each block: the matrix from Clarabel's variable to x, the name of its cone, its size."""
    match cone:
        case Product(cones=cones):
            for part in cones:
                yield from _blocks(part)
        case Nonneg(dim=n):
            yield np.eye(n), "NonnegativeConeT", n
        case SecondOrder(block=size, count=count):
            yield from [(np.eye(size), "SecondOrderConeT", size)] * count
        case RotatedSecondOrder(block=size, count=count):
            turn = np.eye(size)
            turn[:2, :2] = np.sqrt(0.5) * np.array([[1, 1], [1, -1]])
            yield from [(turn, "SecondOrderConeT", size)] * count
        case PSD(order=order, count=count):
            yield from [(_unpack(order), "PSDTriangleConeT", order)] * count
        case _:
            raise ValueError(f"no form of {cone!r} for Clarabel.")


def _unpack(order: int) -> np.ndarray:
    """From the columns of the upper triangle, times sqrt(2) off the diagonal, to all of X."""
    i, j = np.tril_indices(order)  # row by row the lower triangle: column by column the upper one
    matrix, entry = np.zeros((order, order, len(i))), np.arange(len(i))
    matrix[i, j, entry] = matrix[j, i, entry] = np.where(i == j, 1, np.sqrt(0.5))
    return matrix.reshape(order**2, -1)
