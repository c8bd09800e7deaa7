r"""A parametrised CVXPY problem in the layer's form, as maps that whole batches go through.

CVXPY reduces a problem that follows its DPP rules once to

    min q'x + d   subject to   s = A x + h,  s in {0} x K,

with q, d, A and h affine in the parameters.  The layer wants equations and variables in cones, so
x and the slacks s become one vector X.  A row of K that holds a single x_j with a constant factor,
``s_i = a x_j + h_i``, is a bound on x_j, or its place in a cone: there x_j = (s_i - h_i) / a is
replaced by s_i, and row and variable are gone.  What is left,

    min c'X   subject to   A X = b,   X = (free x, s) in R^f x K,

has c, A and b affine in the parameters again, and the values asked for are affine in X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
import torch
from cvxpy.reductions.cvx_attr2constr import lower_value
from torch import Tensor

from rcdrs.cones import PSD, Box, Cone, Nonneg, Product, SecondOrder
from rcdrs.cones.base import kind_of
from rcdrs.modelling.multipliers import Multipliers, multipliers
from rcdrs.solver.sparse import as_sparse


class AffineMap:
    """Numbers that are affine in the parameters: ``M theta``, with theta the entries of all
    parameters, each column by column, and a one at its end."""

    def __init__(self, matrix: sp.spmatrix) -> None:
        self.matrix = sp.coo_array(matrix)
        #: Do they depend on a parameter at all?
        self.constant = bool((self.matrix.col == self.matrix.shape[1] - 1).all())
        self._made: dict[Any, Tensor] = {}

    def __call__(self, theta: Tensor) -> Tensor:
        """(batch, parameters + 1) -> (batch, numbers), or (1, numbers) where they are constant."""
        if self.constant:
            return self._fixed(theta)
        known = ("map", theta.dtype, theta.device)
        if known not in self._made:
            self._made[known] = as_sparse(self.matrix).to(theta)
        return torch.sparse.mm(self._made[known], theta.mT).mT

    def _fixed(self, theta: Tensor) -> Tensor:
        known = ("fixed", theta.dtype, theta.device)
        if known not in self._made:
            self._made[known] = torch.from_numpy(self.at()).to(theta).unsqueeze(0)
        return self._made[known]

    def at(self, theta: np.ndarray | None = None) -> np.ndarray:
        """In float64, at one theta; by default with every parameter zero."""
        if theta is None:
            theta = np.zeros(self.matrix.shape[1])
            theta[-1] = 1
        return np.atleast_1d(self.matrix @ theta)  # a single number is none to scipy


@dataclass(frozen=True)
class Canonical:
    """The problem in the layer's form; see the top of this file."""

    parameters: tuple[Any, ...]
    variables: tuple[Any, ...]
    cone: Cone
    #: Rows and columns of the entries of A, and their values.
    where: tuple[np.ndarray, np.ndarray]
    shape: tuple[int, int]
    A: AffineMap
    b: AffineMap
    c: AffineMap
    #: Values of all variables, each column by column: `values` X plus `shift`.
    values: sp.csr_array
    shift: AffineMap
    #: The constant of the objective: `offset` plus the product of the other two.
    offset: AffineMap
    dropped: tuple[AffineMap, AffineMap]
    #: -1 where the objective is maximised.
    sense: float
    #: Of the problem's constraints, from the layer's (y, s).
    multipliers: Multipliers


def canonicalise(problem: Any, parameters: Sequence[Any], variables: Sequence[Any]) -> Canonical:
    _check(problem, parameters, variables)
    # Each variable once more, without attributes: the rows that say that they are equal hold the
    # map from what CVXPY solves for to what was asked for.
    probes = [cp.Variable(variable.shape) for variable in variables]
    equal = [probe == variable for probe, variable in zip(probes, variables, strict=True)]
    whole = cp.Problem(problem.objective, [*problem.constraints, *equal])
    options = {"use_quad_obj": False}
    data, chain, inverse = whole.get_problem_data(cp.SCS, enforce_dpp=True, solver_opts=options)
    stuffed = data[cp.settings.PARAM_PROB]
    _check_cones(stuffed.cone_dims)
    lowered = [_lowered(parameter, chain, stuffed) for parameter in parameters]
    last = sp.csr_array(([1.0], ([stuffed.total_param_size], [0])))
    places = [stuffed.var_id_to_col[probe.id] + np.arange(probe.size) for probe in probes]
    reduction = _Reduction(stuffed, np.concatenate(places), sp.hstack([*lowered, last]))
    sense = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    size = stuffed.constr_size, stuffed.x.size
    duals = multipliers(problem.constraints, chain, inverse, *size)
    return reduction.canonical(tuple(parameters), tuple(variables), sense, duals)


def _check(problem: Any, parameters: Sequence[Any], variables: Sequence[Any]) -> None:
    if not isinstance(problem, cp.Problem):
        raise TypeError(f"problem is {kind_of(problem)}, expected a cvxpy.Problem.")
    for name, found, kind, known in (
        ("parameters", parameters, cp.Parameter, problem.parameters()),
        ("variables", variables, cp.Variable, problem.variables()),
    ):
        if not isinstance(found, (list, tuple)):
            raise TypeError(f"{name} is {kind_of(found)}, expected a list of cvxpy objects.")
        for i, leaf in enumerate(found):
            if not isinstance(leaf, kind):
                what = f"cvxpy.{kind.__name__}"
                raise TypeError(f"{name}[{i}] is {kind_of(leaf)}, expected a {what}.")
            if leaf.id in [other.id for other in found[:i]]:
                raise ValueError(f"{name}[{i}] is {leaf.name()} again, expected each once.")
            if leaf.id not in [other.id for other in known]:
                names = ", ".join(other.name() for other in known) or "none"
                raise ValueError(f"{name}[{i}] is {leaf.name()}, the problem has {names}.")
            if leaf.is_complex():
                raise ValueError(f"{name}[{i}], {leaf.name()}, is complex, expected a real one.")
    if not variables:
        raise ValueError("variables is empty, expected at least one variable to return.")
    given = {parameter.id for parameter in parameters}
    if missing := [p.name() for p in problem.parameters() if p.id not in given]:
        raise ValueError(
            f"parameters lacks {', '.join(missing)}, expected every parameter of the problem: "
            "write those that never change as constants."
        )
    if problem.is_mixed_integer():
        raise ValueError("problem has integer or boolean variables, which no layer solves.")


def _check_cones(dims: Any) -> None:
    others = {"exponential": dims.exp, "power": [*dims.p3d, *getattr(dims, "pnd", [])]}
    for name, found in others.items():
        if found:
            raise ValueError(
                f"problem needs {name} cones, expected linear, second-order and semidefinite "
                "ones: rewrite what has a logarithm, an exponential or a general power."
            )


def _lowered(parameter: Any, chain: Any, stuffed: Any) -> sp.csr_array:
    """What CVXPY makes of a parameter's entries, column by column: (its own theta, entries).

    Of a symmetric parameter it keeps one triangle: here, the means of both.
    """
    renamed: dict[int, list[int]] = {}
    for reduction in chain.reductions:
        renamed |= getattr(reduction, "param_id_map", None) or {}
    own = next(
        (i for i in (parameter.id, *renamed.get(parameter.id, [])) if i in _ids(stuffed)), -1
    )
    if own < 0:  # it stands in the problem, but in nothing that is solved
        return sp.csr_array((stuffed.total_param_size + 1, parameter.size))
    numbers = np.arange(parameter.size).reshape(parameter.shape, order="F")
    kept = np.asarray(lower_value(parameter, numbers)).ravel(order="F")
    turned = kept
    if parameter.ndim == 2 and len(kept) < parameter.size and parameter.is_symmetric():
        turned = np.asarray(lower_value(parameter, numbers.T)).ravel(order="F")
    rows = stuffed.param_id_to_col[own] + np.arange(len(kept))
    return sp.csr_array(
        (
            np.full(2 * len(kept), 0.5),
            (np.concatenate([rows, rows]), np.concatenate([kept, turned])),
        ),
        shape=(stuffed.total_param_size + 1, parameter.size),
    )


def _ids(stuffed: Any) -> set[int]:
    return {parameter.id for parameter in stuffed.parameters}


class _Reduction:
    r"""The work of `canonicalise`, as products of sparse matrices.

    A is a constant part, and rows of it that belong to one parameter each: ``A + sum_k theta_p(k)
    e_i(k) V_k'``.  A replaced x_j is ``(s_i - h_i) / a``: with R the factors 1/a at (j, i), P the
    places of the free x, and T that of each slack in X,

        x = Z X - R h,   Z = (P, R T).
    """

    def __init__(self, stuffed: Any, probes: np.ndarray, lowered: sp.sparray) -> None:
        self.lowered = sp.csr_array(lowered)
        self.dims, self.n, self.m = stuffed.cone_dims, stuffed.x.size, stuffed.constr_size
        self.size = stuffed.total_param_size + 1  # of theta, whose last entry is one
        whole = sp.coo_array(stuffed.A)
        row, col, p = whole.row % self.m, whole.row // self.m, whole.col
        right, fixed = col == self.n, p == self.size - 1
        self.h = _csr(whole.data[right], row[right], p[right], (self.m, self.size))
        body = ~right & fixed
        self.A = _csr(whole.data[body], row[body], col[body], (self.m, self.n))
        body = ~right & ~fixed
        pairs, k = np.unique(p[body] * self.m + row[body], return_inverse=True)
        self.V_p, self.V_row = pairs // self.m, pairs % self.m
        self.V = _csr(whole.data[body], k, col[body], (len(pairs), self.n))
        q = sp.csr_array(sp.coo_array(stuffed.q).T)
        self.q, self.d = q[:, : self.n], q[:, [self.n]]
        self.kept = np.ones(self.m, dtype=bool)
        self._take_out(probes)
        self.columns, self.rows = self._replaced()
        if len(self.rows) == self.kept.sum():  # a layer has at least one equation
            self.columns, self.rows = self.columns[1:], self.rows[1:]
        free = np.ones(self.n, dtype=bool)
        free[probes] = free[self.columns] = False
        self.free = np.flatnonzero(free)

    def _take_out(self, probes: np.ndarray) -> None:
        """Each probe w_j has one row of its own, ``factor w_j + (others) x + h = 0``, with constant
        factors: what is asked for is ``asked x + given``."""
        own = sp.coo_array(self.A[:, probes])
        rows, factors = np.zeros(len(probes), dtype=np.int64), np.ones(len(probes))
        rows[own.col], factors[own.col] = own.row, own.data
        rest = np.ones(self.n)
        rest[probes] = 0
        scale = sp.diags_array(-1 / factors)
        self.asked = scale @ self.A[rows] @ sp.diags_array(rest)
        self.given = scale @ self.h[rows]
        self.kept[rows] = False
        self.A = sp.csr_array(sp.diags_array(self.kept.astype(float)) @ self.A)
        self.A.eliminate_zeros()

    def _replaced(self) -> tuple[np.ndarray, np.ndarray]:
        """Which x_j are replaced, and by the slacks of which rows, ``s_i = a x_j + h_i``."""
        alone = np.diff(self.A.indptr) == 1
        alone[: int(self.dims.zero)] = False
        alone[self.V_row] = False
        h = sp.coo_array(self.h)
        moving_rows = set(h.row[h.col < self.size - 1].tolist())
        moving_columns = set(self.V.indices.tolist())
        taken: dict[int, int] = {}
        # From behind: semidefinite and second-order blocks then become whole variables.
        for i in np.flatnonzero(alone)[::-1].tolist():
            j = int(self.A.indices[self.A.indptr[i]])
            # A product of two parameters would not be affine in them.
            if j not in taken and not (i in moving_rows and j in moving_columns):
                taken[j] = i
        return np.array(list(taken), np.int64), np.array(list(taken.values()), np.int64)

    def canonical(
        self,
        parameters: tuple[Any, ...],
        variables: tuple[Any, ...],
        sense: float,
        duals: Multipliers,
    ) -> Canonical:
        cone, T = self._cone()
        factors = self.A[self.rows].sum(axis=1)  # of their single entries
        R = _csr(1 / factors, self.columns, self.rows, (self.n, self.m))
        free = len(self.free)
        P = _csr(np.ones(free), self.free, np.arange(free), (self.n, free))
        Z = sp.hstack([P, R @ T], format="csr")
        kept = self.kept.copy()
        kept[self.rows] = False
        number, N = np.cumsum(kept) - 1, Z.shape[1]

        # s = A x + h reads A Z X - T X = A R h - h; rows of replaced variables say nothing.
        own = sp.hstack([sp.csr_array((self.m, free)), -T], format="csr")
        fixed, moving = sp.coo_array(self.A @ Z + own), sp.coo_array(self.V @ Z)
        row = np.concatenate([fixed.row, self.V_row[moving.row]])
        col = np.concatenate([fixed.col, moving.col])
        p = np.concatenate([np.full(len(fixed.row), self.size - 1), self.V_p[moving.row]])
        value = np.concatenate([fixed.data, moving.data])
        stays = kept[row] & (value != 0)
        known, at = np.unique(number[row[stays]] * N + col[stays], return_inverse=True)
        A = _csr(value[stays], at, p[stays], (len(known), self.size))

        shift = R @ self.h
        # Where a row has a parameter and R is not zero, h is constant.
        varying = (self.V @ shift[:, [self.size - 1]]).toarray().ravel()
        b = self.A @ shift - self.h + _csr(varying, self.V_row, self.V_p, (self.m, self.size))
        return Canonical(
            parameters=parameters,
            variables=variables,
            cone=cone,
            where=(known // N, known % N),
            shape=(int(kept.sum()), N),
            A=self._map(A),
            b=self._map(b[np.flatnonzero(kept)]),
            c=self._map((self.q @ Z).T),
            values=sp.csr_array(self.asked @ Z),
            shift=self._map(self.given - self.asked @ shift),
            offset=self._map(self.d.T),
            dropped=(self._map(self.q.T.tocsr()[self.columns]), self._map(-shift[self.columns])),
            sense=sense,
            multipliers=replace(duals, rows=duals.rows @ self._duals(T, kept)),
        )

    def _duals(self, T: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
        """The multipliers of the reduced rows from the layer's (y, s): of equations those of the
        equations that are left, of conic rows the dual slacks of their places in X."""
        left, zero = np.flatnonzero(kept), int(self.dims.zero)
        equations = left < zero
        y = _csr(
            np.ones(equations.sum()),
            left[equations],
            np.flatnonzero(equations),
            (self.m, len(left)),
        )
        return sp.hstack([y, sp.csr_array((self.m, len(self.free))), T], format="csr")

    def _map(self, matrix: sp.sparray) -> AffineMap:
        return AffineMap(matrix @ self.lowered)

    def _cone(self) -> tuple[Cone, sp.csr_array]:
        """R^f x K, and the slacks as ``s = T X`` of the coordinates behind the free ones.

        Of a semidefinite block SCS has the lower triangle, with sqrt(2) off the diagonal; here it
        is the whole matrix.
        """
        cones: list[Cone] = []
        if len(self.free):
            infinite = torch.full((len(self.free),), torch.inf)
            cones.append(Box(-infinite, infinite))
        linear, soc = int(self.dims.nonneg), [int(k) for k in self.dims.soc]
        if linear:
            cones.append(Nonneg(linear))
        for size, count in _runs(soc):
            cones.append(Nonneg(count) if size == 1 else SecondOrder(size, count))
        plain = linear + sum(soc)
        parts = [sp.csr_array((int(self.dims.zero), 0)), sp.eye_array(plain)]
        for order, count in _runs([int(k) for k in self.dims.psd]):
            cones.append(PSD(order, count))
            parts += [_triangle(order)] * count
        if not cones:
            raise ValueError("problem has no variables, expected at least one.")
        cone = Product(cones) if len(cones) > 1 else cones[0]
        return cone, sp.csr_array(sp.block_diag(parts, format="csr"))


def _csr(
    value: np.ndarray, row: np.ndarray, col: np.ndarray, shape: tuple[int, int]
) -> sp.csr_array:
    found = sp.csr_array((value, (row, col)), shape=shape)
    found.sum_duplicates()
    return found


def _runs(sizes: list[int]) -> list[tuple[int, int]]:
    """Equal neighbours together: [3, 3, 5] -> [(3, 2), (5, 1)]."""
    found: list[tuple[int, int]] = []
    for size in sizes:
        if found and found[-1][0] == size:
            found[-1] = (size, found[-1][1] + 1)
        else:
            found.append((size, 1))
    return found


def _triangle(order: int) -> sp.csr_array:
    """The scaled lower triangle, column by column, of a whole matrix, row by row."""
    column, line = np.triu_indices(order)
    scale = np.where(column == line, 0.5, math.sqrt(0.5))
    place = np.arange(len(column))
    both = np.concatenate([line * order + column, column * order + line])
    return _csr(np.tile(scale, 2), np.tile(place, 2), both, (len(column), order**2))
