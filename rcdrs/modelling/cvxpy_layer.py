"""A layer for a CVXPY problem: parameter values in, values of variables out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rcdrs.baselines import light
from rcdrs.controller import ControllerConfig
from rcdrs.files import check_contents, read_checkpoint
from rcdrs.layer import RCDRSLayer
from rcdrs.modelling.canonical import Canonical, canonicalise
from rcdrs.modelling.scaling import equilibrate
from rcdrs.solution import Solution
from rcdrs.solver.fused import Observation
from rcdrs.solver.problem import ConicProgram, as_numbers, check_numbers
from rcdrs.solver.readout import Readout, diagnose, observe
from rcdrs.solver.sparse import Factor, as_sparse, gram
from rcdrs.solver.step import State, check_state
from rcdrs.training.fit import FitReport, fit

#: Alpha and beta until they are tuned; beta is in lengths of the shortest x with A x = b.
CORE = (1.6, 1.0)
#: Entries of a matrix up to which a dense step is the faster one, and beyond which it is too large
#: to factor; between, how many of them cost as much as a nonzero (measured with 32 instances).
DENSE, LARGE, WORTH = 500_000, 50_000_000, 25


def from_cvxpy(
    problem: Any,
    parameters: Sequence[Any],
    variables: Sequence[Any],
    depth: int = 20,
    *,
    core: tuple[float, float] = CORE,
    controller: ControllerConfig | None = None,
    dtype: torch.dtype | None = None,
    sparse: bool | None = None,
) -> CvxpyLayer:
    """A layer of `depth` steps for a problem that follows CVXPY's DPP rules.

    Arguments
        parameters: every parameter of the problem, in the order in which the layer takes values.
        variables: those whose values it returns.
        core: (alpha, beta) of the untrained layer; `fit` chooses them.
        controller: RCDRS-Light by default.
        dtype: of the layer, torch's default dtype by default.
        sparse: keep the matrix sparse; by default where it is large and mostly zero.

    Example
        >>> layer = rcdrs.from_cvxpy(problem, parameters=[mu, risk], variables=[w], depth=20)
        >>> (weights,) = layer(mu_values, risk_values)  # with or without a batch axis
    """
    canonical = canonicalise(problem, parameters, variables)
    dtype = dtype or torch.get_default_dtype()
    return CvxpyLayer(canonical, depth, core, controller, dtype, sparse)


def pays(matrix: sp.coo_array) -> bool:
    """Is a sparse step faster than a dense one?  Its cost grows with the nonzeros of A and of the
    factor of AA', which are not known before that is made."""
    entries = math.prod(matrix.shape)
    if entries < max(DENSE, WORTH * matrix.nnz):
        return False
    if entries > LARGE:
        return True
    try:
        return entries > WORTH * (matrix.nnz + Factor(gram(matrix)).nonzeros)
    except ValueError:  # dependent rows, which a dense layer may have
        return False


@dataclass(frozen=True)
class _Samples:
    """Parameter values as rows, of which parts can be taken."""

    theta: Tensor

    @property
    def batch(self) -> int:
        return len(self.theta)

    def __getitem__(self, index: Tensor) -> _Samples:
        return _Samples(self.theta[index])


class _Trainee(nn.Module):
    """A layer as `fit` trains it: on parameter values, by residuals in the user's units."""

    def __init__(self, owner: CvxpyLayer) -> None:
        super().__init__()
        self.layer = owner.layer
        self._solve, self.depth = owner._solve, owner.depth
        self.recentre, self.options = owner.layer.recentre, owner.layer.options

    @property
    def core(self) -> tuple[float, float]:
        return self.layer.core

    def solve(self, samples: _Samples) -> Solution:
        return self._solve(samples.theta, False, None, None)


class CvxpyLayer(nn.Module):
    """What `from_cvxpy` makes.

    Inside, the problem is scaled: rows and columns by constants that are chosen once, and each
    instance so that the shortest x with A x = b has length one, since only its objective, not its
    length, should matter to alpha and beta.  Solutions are in the user's units.
    """

    rows: Tensor
    columns: Tensor
    flat: Tensor
    out: Tensor
    duals: Tensor
    own: Tensor | None

    def __init__(
        self,
        canonical: Canonical,
        depth: int,
        core: tuple[float, float],
        controller: ControllerConfig | None,
        dtype: torch.dtype,
        sparse: bool | None = None,
    ) -> None:
        super().__init__()
        self.canonical, self.trained = canonical, False
        typical = self._typical()
        matrix = sp.coo_array((canonical.A.at(typical), canonical.where), canonical.shape)
        scaling = equilibrate(matrix, canonical.cone)
        if sparse is None:
            sparse = canonical.A.constant and pays(matrix)
        if sparse and not canonical.A.constant:
            raise ValueError("sparse is True, but the matrix depends on parameters: leave it out.")
        E, D = (sp.diags_array(part) for part in scaling)
        nominal = E @ matrix @ D
        config = controller or ControllerConfig.from_dict(light.CHANGES)
        A = (
            as_sparse(nominal).to(dtype)
            if sparse
            else torch.from_numpy(nominal.toarray()).to(dtype)
        )
        self.layer = RCDRSLayer(A, canonical.cone, depth, core, config)
        for name, values in (("rows", scaling.rows), ("columns", scaling.columns)):
            self.register_buffer(name, torch.from_numpy(values).to(dtype), persistent=False)
        row, col = canonical.where
        flat = torch.from_numpy(row * canonical.shape[1] + col)
        self.register_buffer("flat", flat, persistent=False)
        for name, matrix_of in (("out", canonical.values), ("duals", canonical.multipliers.rows)):
            self.register_buffer(name, as_sparse(matrix_of).to(dtype), persistent=False)
        #: In the user's units, where it is the same for all instances.
        own = None if not canonical.A.constant else as_sparse(matrix).to(dtype)
        self.register_buffer("own", own if sparse or own is None else own.to_dense(), False)

    def _typical(self) -> np.ndarray:
        """Parameter values to scale by: those that the problem has, or of size one."""
        found = [
            np.ones(p.size) if p.value is None else np.asarray(p.value).ravel(order="F")
            for p in self.canonical.parameters
        ]
        return np.concatenate([*found, [1.0]])

    @property
    def depth(self) -> int:
        return self.layer.depth

    def forward(
        self, *values: Any, depth: int | None = None, start: State | None = None
    ) -> tuple[Tensor, ...]:
        """The values of the variables, for values of the parameters with or without a batch axis.

        Arguments
            values: one for each parameter, of its shape, or with a batch axis in front.
            depth: number of steps, the layer's own by default.
            start: the `state` of an earlier solution, as a warm start.
        """
        theta, single = self._theta(values)
        return self._variables(self._solve(theta, single, depth, start), theta)

    def solve(self, *values: Any, depth: int | None = None, start: State | None = None) -> Solution:
        """The same as a `Solution` of the problem in standard form: residuals, multipliers, state,
        status."""
        theta, single = self._theta(values)
        return self._solve(theta, single, depth, start)

    def fit(self, *samples: Any, **options: Any) -> FitReport:
        """Choose a core and train the controller for parameter values like these samples.

        Arguments
            samples: one tensor for each parameter, with a batch axis of some hundred values.
            options: of `rcdrs.fit`.
        """
        theta, single = self._theta(samples)
        if single:
            raise ValueError("the samples have no batch axis, expected (batch, ...) values.")
        report = fit(_Trainee(self), _Samples(theta.detach()), **options)
        self.trained = True
        return report

    def save(self, path: str | Path) -> None:
        """Write core and weights; the problem itself is the user's."""
        self.layer.save(path, self._described())

    def load(self, path: str | Path) -> Self:
        """What `save` wrote for the same problem and depth; nothing in the file is executed."""
        config, _ = read_checkpoint(path)
        check_contents(path, config.get("trained", {}), self._described())
        self.layer = RCDRSLayer.load(path, self.layer.A, self.layer.cone, self.depth)
        self.trained = True
        return self

    def _described(self) -> dict[str, Any]:
        known = self.canonical
        leaves = {"parameters": known.parameters, "variables": known.variables}
        return {name: [list(leaf.shape) for leaf in found] for name, found in leaves.items()}

    def variables(self, solution: Solution, *values: Any) -> tuple[Tensor, ...]:
        """Of a solution for these parameter values."""
        return self._variables(solution, self._theta(values)[0])

    def objective(self, solution: Solution, *values: Any) -> Tensor:
        """The problem's objective at a solution for these parameter values."""
        theta, single = self._theta(values)
        known = self.canonical
        costs, shifts = (part(theta) for part in known.dropped)
        constant = known.offset(theta).squeeze(-1) + (costs * shifts).sum(-1)
        value = known.sense * ((solution.program.c * solution.state.z).sum(-1) + constant)
        return value[0] if single else value

    def multipliers(self, solution: Solution) -> tuple[Any, ...]:
        """Of each constraint of the problem, in its order and with CVXPY's signs: a tensor of the
        shape of its dual variable, or a pair of them for a second-order cone."""
        known = self.canonical.multipliers
        flat = torch.cat([solution.readout.y, solution.readout.s], 1)
        return _fold(torch.sparse.mm(self.duals, flat.mT).mT, known.shapes, solution.single)

    def _theta(self, values: tuple[Any, ...]) -> tuple[Tensor, bool]:
        """All parameters as rows, (batch, parameters + 1), and whether there was no batch axis."""
        known = self.canonical.parameters
        if len(values) != len(known):
            names = ", ".join(f"{p.name()} {p.shape}" for p in known)
            raise TypeError(
                f"{len(values)} values were given, expected {len(known)}, of {names or 'none'}."
            )
        given = [
            self._value(parameter, value) for parameter, value in zip(known, values, strict=True)
        ]
        sizes = {
            p.name(): len(v) for p, v in zip(known, given, strict=True) if v.ndim > len(p.shape)
        }
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise ValueError(f"the batch sizes differ: {told}, expected the same.")
        batch = next(iter(sizes.values()), 1)
        parts = []
        for parameter, value in zip(known, given, strict=True):
            whole = value if value.ndim > len(parameter.shape) else value.unsqueeze(0)
            turned = whole.permute(0, *range(whole.ndim - 1, 0, -1))  # CVXPY counts by columns
            parts.append(turned.reshape(len(whole), -1).expand(batch, -1))
        parts.append(self.rows.new_ones(batch, 1))
        return torch.cat(parts, 1), not sizes

    def _value(self, parameter: Any, value: Any) -> Tensor:
        name, shape = parameter.name(), parameter.shape
        tensor = as_numbers(name, value, self.rows)
        if tuple(tensor.shape) != shape and tuple(tensor.shape[1:]) != shape:
            raise ValueError(
                f"the value of {name} has shape {tuple(tensor.shape)}, expected {shape}, or "
                f"(batch, {', '.join(map(str, shape))}): values come in the order of `parameters`."
            )
        if tensor.dtype != self.rows.dtype:
            raise TypeError(
                f"the value of {name} has dtype {tensor.dtype}, expected {self.rows.dtype}, the "
                "layer's: cast it, or the layer with layer.to()."
            )
        check_numbers(f"the value of {name}", tensor)
        return tensor

    def _programs(self, theta: Tensor) -> tuple[ConicProgram, ConicProgram, Tensor]:
        """In the user's units, scaled, and the length that each instance was divided by."""
        known, E, D = self.canonical, self.rows, self.columns
        b, c = (part(theta).expand(len(theta), -1) for part in (known.b, known.c))
        program = ConicProgram(self._matrix(theta), b, c, known.cone)
        if known.A.constant:
            scaled = ConicProgram.factored(self.layer.affine, E * b, D * c, known.cone)
        else:
            scaled = ConicProgram(E.unsqueeze(1) * program.A * D, E * b, D * c, known.cone)
        length = scaled.affine.shortest(scaled.b.mT).unsqueeze(1)
        length = torch.where(length > 0, length, 1)
        return program, scaled.with_vectors(scaled.b / length, scaled.c), length

    def _solve(
        self, theta: Tensor, single: bool, depth: int | None, start: State | None
    ) -> Solution:
        if self.trained and depth is not None and depth > self.depth:
            warnings.warn(
                f"the layer was trained for {self.depth} steps and runs for {depth}: beyond, its "
                "schedule stays at its last step, and residuals go on falling, but more slowly "
                "than those of a layer trained for that depth.",
                stacklevel=3,
            )
        program, scaled, length = self._programs(theta)
        unit = length * self.columns
        if start is not None:
            start = State(*(part / unit for part in check_state(program, start)))
        found = self.layer.solve(scaled, depth, start)
        state = State(*(unit * part for part in found.state))

        def look() -> Observation:
            # How far the last step went is known as a length only, in scaled coordinates.
            return observe(program, state, length.squeeze(1) * found.observation.movement)

        def read() -> Readout:
            s, y = found.readout.s / self.columns, self.rows * found.readout.y
            return diagnose(program, state.z, s, y)

        return Solution(program, state, found.actions, look, read, single, found)

    def _matrix(self, theta: Tensor) -> Tensor:
        """A in the user's units: one, or one for each instance."""
        if self.own is not None:
            return self.own
        entries, shape = self.canonical.A(theta), self.canonical.shape
        dense = entries.new_zeros(len(theta), shape[0] * shape[1])
        return dense.index_add(1, self.flat, entries).unflatten(1, shape)

    def _variables(self, solution: Solution, theta: Tensor) -> tuple[Tensor, ...]:
        flat = torch.sparse.mm(self.out, solution.state.z.mT).mT + self.canonical.shift(theta)
        shapes = [(variable.shape,) for variable in self.canonical.variables]
        return _fold(flat, shapes, solution.single)


def _fold(
    flat: Tensor, shapes: Sequence[Sequence[tuple[int, ...]]], single: bool
) -> tuple[Any, ...]:
    """Rows of entries, cut into arrays that CVXPY counts by columns; several of one are a tuple."""
    pieces = iter(flat.split([math.prod(shape) for each in shapes for shape in each], 1))

    def array(shape: tuple[int, ...]) -> Tensor:
        turned = next(pieces).reshape(len(flat), *shape[::-1])
        value = turned.permute(0, *range(turned.ndim - 1, 0, -1))
        return value[0] if single else value

    found = [tuple(array(shape) for shape in each) for each in shapes]
    return tuple(each[0] if len(each) == 1 else each for each in found)
