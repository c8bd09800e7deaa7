r"""What peers are compared with: exact solutions, their derivatives, and instances without one.

With ``z = x - s`` the conditions of optimality are equations in (z, y), Q = q I with q 0 or 1:

    A P(z) = b,    (q - 1) P(z) + z - A'y + c = 0,    x = P(z) = Proj_K(z)

so with D the derivative of P at z, the gradients of <g, x> in b and c are u and -w, where

    D A'u + ((q - 1) D + I) w = D g,    A w = 0.

Solutions are Clarabel's to `TIGHT` tolerances.  A gradient counts as true where it agrees with
central differences of such solutions along random directions in b and in c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from rcdrs.peers.base import Problem
from rcdrs.peers.clarabel_solver import Clarabel

#: Clarabel's tolerances: the second for what stops short of the first, near rounding.
TIGHT = (1e-10, 1e-8)
#: Relative lengths of differences: the shorter for what has a kink within the longer.
STEPS = (1e-4, 1e-5, 1e-6)
#: By how much a derivative along a direction may differ, in units of what a random one gives.
AGREES = 0.02


class Exact(NamedTuple):
    x: np.ndarray  # (batch, n), NaN where none was found
    z: np.ndarray


class TrueGradient(NamedTuple):
    """Of <g, x>; `verified` says where differences agree."""

    g: np.ndarray  # (batch, n)
    b: np.ndarray  # (batch, m)
    c: np.ndarray  # (batch, n)
    verified: np.ndarray  # (batch,)


def solve(problem: Problem, b: np.ndarray, c: np.ndarray) -> Exact:
    peer, m = Clarabel(problem), len(problem.A)
    x, z = np.full_like(c, np.nan), np.full_like(c, np.nan)
    left = np.arange(len(b))
    for tolerance in TIGHT:
        batch, again = peer.take(b[left], c[left]), []
        for row, found in zip(left, peer.solutions(batch, tolerance), strict=True):
            if str(found.status) == "Solved":
                x[row] = peer.form.T @ np.array(found.x)
                z[row] = x[row] - peer.form.T @ np.array(found.z)[m:]
            else:
                again.append(row)
        left = np.array(again, int)
    return Exact(x, z)


def gradient(
    problem: Problem, b: np.ndarray, c: np.ndarray, z: np.ndarray, rng: np.random.Generator
) -> TrueGradient:
    """For a random g of each instance."""
    g = rng.standard_normal(c.shape)
    pairs = [_adjoint(problem, *one) for one in zip(z, g, strict=True)]
    db, dc = (np.array(part) for part in zip(*pairs, strict=True))
    verified = np.ones(len(b), bool)
    for place, exact in enumerate((db, dc)):
        d = rng.standard_normal(exact.shape)
        base = (b, c)[place]
        d *= np.linalg.norm(base, axis=1, keepdims=True) / np.linalg.norm(d, axis=1, keepdims=True)
        usual = np.linalg.norm(exact, axis=1) * np.linalg.norm(d, axis=1) / d.shape[1] ** 0.5
        agrees = np.zeros(len(b), bool)
        for step in STEPS:
            rows = ~agrees
            ends = []
            for sign in (step, -step):
                given = [b[rows], c[rows]]
                given[place] = (base + sign * d)[rows]
                ends.append((g[rows] * solve(problem, *given).x).sum(1))
            found, told = (ends[0] - ends[1]) / (2 * step), (exact * d)[rows].sum(1)
            agrees[rows] = np.abs(found - told) <= AGREES * usual[rows]
        verified &= agrees
    return TrueGradient(g, db, dc, verified)


def _adjoint(problem: Problem, z: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    A, (m, n) = problem.A, problem.A.shape
    if not np.isfinite(z).all():
        return np.full(m, np.nan), np.full(n, np.nan)
    points = torch.from_numpy(z).expand(n, n).clone().requires_grad_()
    rows = torch.eye(n, dtype=torch.float64)
    D = torch.autograd.grad(problem.cone.project(points), points, rows)[0].numpy()
    upper = np.concatenate([D @ A.T, (problem.quadratic - 1) * D + np.eye(n)], axis=1)
    lower = np.concatenate([np.zeros((m, m)), A], axis=1)
    right = np.concatenate([D @ g, np.zeros(m)])
    found = np.linalg.lstsq(np.concatenate([upper, lower]), right, rcond=None)[0]
    return found[:m], -found[m:]


def without_solution(
    problem: Problem, x: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str] | None:
    """(b, c, word) of an instance like the first that is infeasible, or, where no b can make one so
    (A K is everything), unbounded; None where every instance has a solution.

    A certificate of the one is s in K with ``s = A'y``, and b = -y; of the other, x in K with
    ``A x = 0``, and c = -x.  Both are the solution of a program, with ``<e, s> = 1`` for a point e
    inside of K, the mean of some solutions.
    """
    A, e = problem.A, x.mean(0)
    for word, rows in (("infeasible", _null(A)), ("unbounded", A)):
        if problem.quadratic and word == "unbounded":
            break
        asked = Problem(np.vstack([rows, e]), problem.cone)
        right = np.append(np.zeros(len(rows)), 1.0)[None]
        found = solve(asked, right, e[None] / (e @ e)).x[0]
        if not np.isfinite(found).all():
            continue
        if word == "infeasible":
            y = np.linalg.lstsq(A.T, found, rcond=None)[0]
            return -y * np.linalg.norm(b[0]) / np.linalg.norm(y), c[0], word
        return b[0], -found * np.linalg.norm(c[0]) / np.linalg.norm(found), word
    return None


def _null(A: np.ndarray) -> np.ndarray:
    """Rows that span the null space of A."""
    return np.linalg.svd(A)[2][len(A) :]
