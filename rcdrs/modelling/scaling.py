r"""Equilibration that keeps cones cones: ``A -> E A D`` with one factor for each block of a cone.

A user's rows and columns may be in any units, and splitting feels them: it works best where all
have about the same length.  With ``X = D X'``, and b and c scaled to match,

    min (D c)'X'   subject to   (E A D) X' = E b,   X' in K

is the same problem as long as D maps K to itself: coordinates that are free or nonnegative have
factors of their own, second-order and semidefinite blocks one each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from rcdrs.cones import PSD, Box, Cone, Nonneg, Product, SecondOrder
from rcdrs.cones.rotated import RotatedSecondOrder

#: Rounds of Ruiz's iteration, and the least and largest factor.
ROUNDS, LEAST, LARGEST = 20, 1e-6, 1e6


class Scaling(NamedTuple):
    """E of the rows and D of the columns."""

    rows: np.ndarray
    columns: np.ndarray


def blocks(cone: Cone) -> np.ndarray:
    """The number of the block that each coordinate belongs to."""
    if isinstance(cone, Product):
        found, first = [], 0
        for part in cone.cones:
            found.append(first + blocks(part))
            first = int(found[-1][-1]) + 1
        return np.concatenate(found)
    if isinstance(cone, (Nonneg, Box)):
        return np.arange(cone.dim)
    if isinstance(cone, (SecondOrder, RotatedSecondOrder, PSD)):
        return np.repeat(np.arange(cone.count), cone.dim // cone.count)
    return np.zeros(cone.dim, dtype=np.int64)  # one of the user's own


def equilibrate(A: sp.sparray, cone: Cone) -> Scaling:
    """Ruiz's iteration on the largest entry of each row, and of each block of columns.

    A column with a single entry, such as a slack, would make any row look well scaled: it follows
    its row instead, so that its entry becomes one.  What has no entries keeps a factor of one.
    """
    size, block = sp.coo_array(abs(A)), blocks(cone)
    size.eliminate_zeros()
    row, col, value = size.row, size.col, size.data
    single = np.bincount(col, minlength=A.shape[1]) <= 1
    shared = ~single[col]
    filled = np.bincount(row[shared], minlength=A.shape[0]) > 0
    counts = shared | ~filled[row]  # of rows that have slacks only, these count
    rows, columns, total = np.ones(A.shape[0]), np.ones(A.shape[1]), int(block[-1]) + 1
    for _ in range(ROUNDS):
        now = (value * rows[row] * columns[col])[counts]
        rows *= _factor(_largest(now, row[counts], A.shape[0]))
        columns *= _factor(_largest(now, block[col[counts]], total))[block]
    # Blocks of single entries: one over their geometric mean.
    follows = np.bincount(block[col[counts]], minlength=total) == 0
    own = follows[block[col]]
    logs = np.log((value * rows[row])[own])
    number = np.bincount(block[col[own]], minlength=total)
    mean = np.bincount(block[col[own]], logs, minlength=total) / np.maximum(number, 1)
    columns = np.where(follows[block], np.exp(-mean)[block], columns)
    return Scaling(rows.clip(LEAST, LARGEST), columns.clip(LEAST, LARGEST))


def _largest(values: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count)
    np.maximum.at(found, groups, values)
    return found


def _factor(size: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.where(size > 0, size, 1))
