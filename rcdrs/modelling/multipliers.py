r"""The multipliers of a CVXPY problem's constraints, from those of its reduced form.

CVXPY takes a vector y of multipliers of the reduced rows back through each of its reductions: cuts
it into pieces, turns signs where the objective was turned, unfolds triangles to matrices.  So every
entry of a constraint's multiplier is one entry of y times a factor, and two vectors tell which:
``factor y_i`` and ``factor y_i^2`` have the ratio y_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Multipliers:
    """Of each constraint, the shapes of its multipliers, of which a second-order cone has two; and
    the entries of all, each column by column, as ``rows`` times a vector."""

    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    rows: sp.csr_array


def multipliers(
    constraints: Sequence[Any], chain: Any, inverse: Any, m: int, n: int
) -> Multipliers:
    """From the vector y of a reduced problem with m rows and n variables."""
    y = 1 + np.arange(m) / max(m, 1)
    once, twice = (_back(constraints, chain, inverse, each, n) for each in (y, y**2))
    (told,) = once.nonzero()
    place = np.rint((twice[told] / once[told] - 1) * m).astype(int)
    rows = sp.csr_array((once[told] / y[place], (told, place)), shape=(len(once), m))
    shapes = tuple(tuple(v.shape for v in each.dual_variables) for each in constraints)
    return Multipliers(shapes, rows)


def _back(
    constraints: Sequence[Any], chain: Any, inverse: Any, y: np.ndarray, n: int
) -> np.ndarray:
    """The entries of all multipliers for one y, by CVXPY; what the problem holds stays."""
    info = {"status_val": 1, "solve_time": 0, "setup_time": 0, "iter": 0, "pobj": 0.0}
    found = chain.invert({"info": info, "x": np.zeros(n), "y": y}, inverse).dual_vars
    entries = [np.zeros(0)]
    for constraint in constraints:
        before = [variable.value for variable in constraint.dual_variables]
        if constraint.id in found:
            constraint.save_dual_value(found[constraint.id])
        for variable, value in zip(constraint.dual_variables, before, strict=True):
            # One that the reductions dropped, as it holds of constants alone, has no multiplier.
            got = variable.value if constraint.id in found else np.zeros(variable.shape)
            entries.append(np.ravel(got, order="F"))
            variable.save_value(value)
    return np.concatenate(entries)
