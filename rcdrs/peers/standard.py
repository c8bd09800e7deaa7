r"""Programs in the form of interior-point and splitting solvers.

    min q'v (+ v'P v / 2)   s.t.   A T v = b,   v in R^l_+ x SOC x ... x triangles of PSD,   x = T v

T turns rotated cones, unpacks triangles (entries off the diagonal times sqrt(2)), and puts the
blocks in the order nonnegative, second-order, semidefinite, which some solvers insist on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.peers.base import Problem, Unsupported

#: Kinds of blocks in their order: orthant, second-order cone, triangle of a PSD matrix.
KINDS = "lqs"
#: The entries (i, j) of a triangle: of the upper one column by column are the lower one's rows.
UPPER, LOWER = np.tril_indices, np.triu_indices
Triangle = Callable[[int], tuple[np.ndarray, np.ndarray]]
#: The matrix from v to x, the kind, and the size as solvers count it.
Block = tuple[np.ndarray, str, int]


@dataclass(frozen=True)
class Standard:
    """The blocks of v in their order, each with its kind and size."""

    T: np.ndarray  # (n, length of v)
    A: np.ndarray  # A T
    blocks: list[tuple[str, int]]
    P: sp.csc_matrix

    def sizes(self, kind: str) -> list[int]:
        return [size for own, size in self.blocks if own == kind]

    @property
    def equations(self) -> sp.csc_matrix:
        """G of ``G v + w = (b, 0)``, w in {0} x K: v itself is in K."""
        return sp.vstack([self.A, -sp.eye(self.A.shape[1])], format="csc")

    def right(self, b: np.ndarray) -> np.ndarray:
        """The right side (b, 0)."""
        return np.concatenate([b, np.zeros((len(b), self.A.shape[1]))], axis=1)


def standard(problem: Problem, triangle: Triangle = UPPER) -> Standard:
    parts, start = [], 0
    for matrix, kind, size in _blocks(problem.cone, triangle):
        parts.append((kind, size, matrix, start))
        start += len(matrix)
    parts.sort(key=lambda part: KINDS.index(part[0]))
    width = sum(matrix.shape[1] for _, _, matrix, _ in parts)
    T, column = np.zeros((start, width)), 0
    for _, _, matrix, row in parts:
        T[row : row + matrix.shape[0], column : column + matrix.shape[1]] = matrix
        column += matrix.shape[1]
    # T'T is the identity: its columns are of length one.
    P = sp.eye(width, format="csc") if problem.quadratic else sp.csc_matrix((width, width))
    return Standard(T, problem.A @ T, [(kind, size) for kind, size, *_ in parts], P)


def _blocks(cone: Cone, triangle: Triangle) -> Iterator[Block]:
    match cone:
        case Product(cones=cones):
            for part in cones:
                yield from _blocks(part, triangle)
        case Nonneg(dim=n):
            yield np.eye(n), "l", n
        case RotatedSecondOrder(block=size, count=count):
            turn = np.eye(size)
            turn[:2, :2] = np.sqrt(0.5) * np.array([[1, 1], [1, -1]])
            yield from [(turn, "q", size)] * count
        case SecondOrder(block=size, count=count):
            yield from [(np.eye(size), "q", size)] * count
        case PSD(order=order, count=count):
            yield from [(_unpack(order, *triangle(order)), "s", order)] * count
        case _:
            raise Unsupported(f"no standard form of {cone!r}")


def _unpack(order: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """From a triangle to all of X, row by row."""
    matrix, entry = np.zeros((order, order, len(i))), np.arange(len(i))
    matrix[i, j, entry] = matrix[j, i, entry] = np.where(i == j, 1, np.sqrt(0.5))
    return matrix.reshape(order**2, -1)
