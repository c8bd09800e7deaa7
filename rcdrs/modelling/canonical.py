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
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
import torch
from cvxpy.reductions.cvx_attr2constr import lower_value
from torch import Tensor

from rcdrs.cones import PSD, Box, Cone, Nonneg, Product, SecondOrder
from rcdrs.cones.base import kind_of


class AffineMap:
    """Numbers that are affine in the parameters: ``M theta``, where theta ends with a one."""

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
            where = torch.from_numpy(np.stack([self.matrix.row, self.matrix.col]).astype(np.int64))
            values = torch.from_numpy(self.matrix.data.astype(np.float64)).to(theta.dtype)
            sparse = torch.sparse_coo_tensor(
                where, values, self.matrix.shape, check_invariants=True
            )
            self._made[known] = sparse.coalesce().to(theta.device)
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
    #: Where each parameter's entries are found in theta: weights of the entries.
    lowering: tuple[sp.csr_array, ...]


def canonicalise(problem: Any, parameters: Sequence[Any], variables: Sequence[Any]) -> Canonical:
    _check(problem, parameters, variables)
    # Each variable once more, without attributes: the rows that say that they are equal hold the
    # map from what CVXPY solves for to what was asked for.
    probes = [cp.Variable(variable.shape) for variable in variables]
    equal = [probe == variable for probe, variable in zip(probes, variables, strict=True)]
    whole = cp.Problem(problem.objective, [*problem.constraints, *equal])
    options = {"use_quad_obj": False}
    data, chain, _ = whole.get_problem_data(cp.SCS, enforce_dpp=True, solver_opts=options)
    stuffed = data[cp.settings.PARAM_PROB]
    _check_cones(stuffed.cone_dims)
    lowering = [_lowering(parameter, chain, stuffed) for parameter in parameters]
    places = [stuffed.var_id_to_col[probe.id] + np.arange(probe.size) for probe in probes]
    reduction = _Reduction(stuffed, np.concatenate(places))
    sense = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    return reduction.canonical(tuple(parameters), tuple(variables), tuple(lowering), sense)


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


def _lowering(parameter: Any, chain: Any, stuffed: Any) -> sp.csr_array:
    """The places of a parameter's entries, column by column, in theta: (theta, entries).

    Of a symmetric parameter CVXPY keeps one triangle: its entries are the means of both.
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


class _Entries:
    """Entries of a matrix that are affine in theta: value `v` of parameter `p` at (row, col)."""

    def __init__(self, row: Any, col: Any, p: Any, v: Any) -> None:
        self.row, self.col, self.p = (np.asarray(x, dtype=np.int64) for x in (row, col, p))
        self.v = np.asarray(v, dtype=np.float64)

    def __getitem__(self, mask: np.ndarray) -> _Entries:
        return _Entries(self.row[mask], self.col[mask], self.p[mask], self.v[mask])

    def __add__(self, other: _Entries) -> _Entries:
        pairs = zip(self.parts(), other.parts(), strict=True)
        return _Entries(*(np.concatenate(pair) for pair in pairs))

    def parts(self) -> tuple[np.ndarray, ...]:
        return self.row, self.col, self.p, self.v


class _Reduction:
    """The work of `canonicalise`: rows are those of s, columns those of x and, last, of h."""

    def __init__(self, stuffed: Any, probes: np.ndarray) -> None:
        dims, self.n = stuffed.cone_dims, stuffed.x.size
        self.m = stuffed.constr_size
        self.last = stuffed.total_param_size  # the column of theta that is one
        A = sp.coo_array(stuffed.A)
        self.A = _Entries(A.row % self.m, A.row // self.m, A.col, A.data)[A.data != 0]
        q = sp.coo_array(stuffed.q)
        self.q = _Entries(np.zeros(len(q.row)), q.row, q.col, q.data)[q.data != 0]
        self.zero, self.nonneg = int(dims.zero), int(dims.nonneg)
        self.soc, self.psd = [int(k) for k in dims.soc], [int(k) for k in dims.psd]
        self.probes = probes
        self._take_out_probes()
        self._eliminate()

    def _take_out_probes(self) -> None:
        """Each has one row, ``w_j = -(sum of the others) / factor``."""
        own = np.isin(self.A.col, self.probes)
        row_of = dict(zip(self.A.col[own], self.A.row[own], strict=True))
        factor = dict(zip(self.A.col[own], self.A.v[own], strict=True))
        rows = np.array([row_of[j] for j in self.probes])
        place = np.full(self.m, -1)
        place[rows] = np.arange(len(rows))
        part = self.A[(place[self.A.row] >= 0) & ~own]
        scale = -1 / np.array([factor[j] for j in self.probes])
        self.asked = _Entries(place[part.row], part.col, part.p, part.v * scale[place[part.row]])
        self.A = self.A[place[self.A.row] < 0]
        self.gone = place >= 0

    def _eliminate(self) -> None:
        """Which x_j is replaced by which s_i = a x_j + h_i."""
        body = self.A[(self.A.col < self.n) & (self.A.row >= self.zero)]
        moving = body.p != self.last
        entries = sp.coo_array((np.ones(len(body.row)), (body.row, body.col)), (self.m, self.n))
        pattern = sp.csr_array(entries)
        alone = np.diff(pattern.indptr) == 1
        alone[body.row[moving]] = False
        moving_columns = set(body.col[moving]) | set(self._moving(self.A, self.A.col))
        moving_shift = set(self._moving(self.A[self.A.col == self.n], self.A.row, self.n))
        factor = {i: v for i, p, v in zip(body.row, body.p, body.v, strict=True) if alone[i]}
        self.row_of: dict[int, int] = {}
        self.factor: dict[int, float] = {}
        # Semidefinite and second-order rows first: their blocks are then whole variables.
        for i in np.flatnonzero(alone)[::-1]:
            j = int(pattern.indices[pattern.indptr[i]])
            product = i in moving_shift and j in moving_columns  # not affine in the parameters
            if j not in self.row_of and not product:
                self.row_of[j], self.factor[j] = int(i), factor[i]

    def _moving(self, entries: _Entries, of: np.ndarray, column: int | None = None) -> np.ndarray:
        """Rows or columns with an entry that depends on a parameter."""
        if column is None:
            return np.unique(entries.col[(entries.p != self.last) & (entries.col < self.n)])
        return np.unique(entries.row[entries.p != self.last])

    def canonical(
        self,
        parameters: tuple[Any, ...],
        variables: tuple[Any, ...],
        lowering: tuple[sp.csr_array, ...],
        sense: float,
    ) -> Canonical:
        free = [j for j in range(self.n) if j not in self.row_of and j not in set(self.probes)]
        cone, slack, size = self._cone(len(free))
        used = np.zeros(self.m, dtype=bool)
        used[list(self.row_of.values())] = True
        kept = np.flatnonzero(~used & ~self.gone)
        row = np.full(self.m, -1)
        row[kept] = np.arange(len(kept))
        place = np.full(self.n + 1, -1)
        place[free] = np.arange(len(free))
        self.free_place = place

        # h of the rows that replace a variable, over their factor: x_j = (s_i - h_i) / a.
        h = self.A[self.A.col == self.n]
        rows_of_h = {i: h[h.row == i] for i in self.row_of.values()} if len(h.row) else {}
        shift = {
            j: (found.p, -found.v / self.factor[j])
            for j, i in self.row_of.items()
            if (found := rows_of_h.get(i)) is not None and len(found.row)
        }

        body = self.A[(self.A.col < self.n) & (row[self.A.row] >= 0)]
        matrix = self._in_X(_Entries(row[body.row], *body.parts()[1:]), place, slack)
        conic = kept[kept >= self.zero]
        own = _Entries(row[conic], conic, np.full(len(conic), self.last), -np.ones(len(conic)))
        matrix = matrix + self._expand(own, slack)
        right = h[row[h.row] >= 0]
        b = _Entries(row[right.row], 0 * right.row, right.p, -right.v)
        b = b + self._shifted(_Entries(row[body.row], *body.parts()[1:]), shift, -1)

        linear = self.q[self.q.col < self.n]
        c = self._in_X(linear, place, slack)
        asked = self.asked[self.asked.col < self.n]
        values = self._in_X(asked, place, slack)
        moved = self.asked[self.asked.col == self.n]
        moved = _Entries(moved.row, 0 * moved.row, moved.p, moved.v)
        moved = moved + self._shifted(asked, shift, 1)

        where, A = self._matrix_map(matrix, size)
        others = sorted(self.row_of)
        number = {j: k for k, j in enumerate(others)}
        costs = linear[np.isin(linear.col, others)]
        costs = _Entries([number[j] for j in costs.col], 0 * costs.col, costs.p, costs.v)
        shifts = _Entries([], [], [], [])
        for j, (p, v) in shift.items():
            shifts = shifts + _Entries(np.full(len(p), number[j]), 0 * p, p, v)
        constant = self.q[self.q.col == self.n]
        return Canonical(
            parameters=parameters,
            variables=variables,
            cone=cone,
            where=where,
            shape=(len(kept), size),
            A=A,
            b=self._vector(b, len(kept)),
            c=self._vector(_Entries(c.col, c.row, c.p, c.v), size),
            values=sp.csr_array((values.v, (values.row, values.col)), (len(self.probes), size)),
            shift=self._vector(moved, len(self.probes)),
            offset=self._vector(
                _Entries(constant.row, 0 * constant.row, constant.p, constant.v), 1
            ),
            dropped=(self._vector(costs, len(others)), self._vector(shifts, len(others))),
            sense=sense,
            lowering=lowering,
        )

    def _cone(self, free: int) -> tuple[Cone, np.ndarray, int]:
        """K with the free variables in front, and where each slack begins in X; -1 has none."""
        cones: list[Cone] = []
        if free:
            infinite = torch.full((free,), torch.inf)
            cones.append(Box(-infinite, infinite))
        slack, at, i = np.full(self.m, -1), free, self.zero
        if self.nonneg:
            cones.append(Nonneg(self.nonneg))
            slack[i : i + self.nonneg] = at + np.arange(self.nonneg)
            at, i = at + self.nonneg, i + self.nonneg
        for size, count in _runs(self.soc):
            cones.append(Nonneg(count) if size == 1 else SecondOrder(size, count))
            slack[i : i + size * count] = at + np.arange(size * count)
            at, i = at + size * count, i + size * count
        self.blocks: dict[int, tuple[int, int]] = {}  # of a semidefinite row: order, and number
        for order, count in _runs(self.psd):
            cones.append(PSD(order, count))
            triangle = order * (order + 1) // 2
            for _ in range(count):
                slack[i : i + triangle] = at
                self.blocks |= {i + k: (order, k) for k in range(triangle)}
                at, i = at + order**2, i + triangle
        if not cones:
            raise ValueError("problem has no variables, expected at least one.")
        return Product(cones) if len(cones) > 1 else cones[0], slack, at

    def _in_X(self, entries: _Entries, place: np.ndarray, slack: np.ndarray) -> _Entries:
        """Columns of x as columns of X."""
        stays = place[entries.col] >= 0
        kept = entries[stays]
        found = _Entries(kept.row, place[kept.col], kept.p, kept.v)
        left = entries[~stays]
        factor = np.array([self.factor[int(j)] for j in left.col])
        rows = np.array([self.row_of[int(j)] for j in left.col], dtype=np.int64)
        return found + self._expand(_Entries(left.row, rows, left.p, left.v / factor), slack)

    def _expand(self, entries: _Entries, slack: np.ndarray) -> _Entries:
        """Columns of s as columns of X; those of a scaled triangle as both halves of a matrix."""
        inside = np.array([int(i) in self.blocks for i in entries.col], dtype=bool)
        plain = entries[~inside]
        found = _Entries(plain.row, slack[plain.col], plain.p, plain.v)
        part = entries[inside]
        if not len(part.row):
            return found
        one, other, scale = [], [], []
        for i in part.col:
            order, k = self.blocks[int(i)]
            column, line = _triangle(order)[k]
            one.append(slack[i] + line * order + column)
            other.append(slack[i] + column * order + line)
            scale.append(0.5 if line == column else math.sqrt(0.5))
        value = part.v * np.array(scale)
        first = _Entries(part.row, one, part.p, value)
        return found + first + _Entries(part.row, other, part.p, value)

    def _shifted(self, entries: _Entries, shift: dict[int, Any], sign: int) -> _Entries:
        """What the replaced variables leave on the right: their factors times ``-h_i / a``."""
        found = _Entries([], [], [], [])
        for j, (p, v) in shift.items():
            part = entries[entries.col == j]
            if not len(part.row):
                continue
            # One of the two is constant, see `_eliminate`.
            row, index = np.repeat(part.row, len(p)), np.tile(np.arange(len(p)), len(part.row))
            first, second = np.repeat(part.p, len(p)), p[index]
            both = np.where(first == self.last, second, first)
            value = sign * np.repeat(part.v, len(p)) * v[index]
            found = found + _Entries(row, 0 * row, both, value)
        return found

    def _matrix_map(
        self, entries: _Entries, size: int
    ) -> tuple[tuple[np.ndarray, np.ndarray], AffineMap]:
        flat = entries.row * size + entries.col
        known, number = np.unique(flat, return_inverse=True)
        shape = (len(known), self.last + 1)
        matrix = sp.coo_array((entries.v, (number, entries.p)), shape)
        matrix.sum_duplicates()
        return (known // size, known % size), AffineMap(matrix)

    def _vector(self, entries: _Entries, size: int) -> AffineMap:
        matrix = sp.coo_array((entries.v, (entries.row, entries.p)), (size, self.last + 1))
        matrix.sum_duplicates()
        return AffineMap(matrix)


def _runs(sizes: list[int]) -> list[tuple[int, int]]:
    """Equal neighbours together: [3, 3, 5] -> [(3, 2), (5, 1)]."""
    found: list[tuple[int, int]] = []
    for size in sizes:
        if found and found[-1][0] == size:
            found[-1] = (size, found[-1][1] + 1)
        else:
            found.append((size, 1))
    return found


def _triangle(order: int) -> list[tuple[int, int]]:
    """Column and line of the entries of a lower triangle, column by column, as SCS has them."""
    return [(column, line) for column in range(order) for line in range(column, order)]
