"""Instances and long rollouts against Clarabel, SCS and HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
import scs
import torch
from conftest import random_tensor
from scipy.optimize import linprog

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.synthetic.instances import CASES, generate
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import readout

ROWS = 2
SMALL = [name for name in CASES if name.endswith("small")]
#: Both solvers want the columns of a triangle, Clarabel of the upper and SCS of the lower one;
#: for a symmetric matrix these are the rows of the other.
TRIANGLE = {"clarabel": np.tril_indices, "scs": np.triu_indices}
#: Clarabel's default tolerance; below it, the mixed cases end as "AlmostSolved".
GAP = 1e-8


class StandardForm(NamedTuple):
    """``min q'v  s.t.  G v + w = h``, w in (zero cone) x blocks; ``x = T v``."""

    q: np.ndarray
    G: sp.csc_matrix
    h: np.ndarray
    blocks: list[tuple[str, int]]  # l: orthant, q: second-order, s: PSD triangle; and its size
    T: sp.csc_matrix


class Answer(NamedTuple):
    x: np.ndarray
    primal: float
    dual: float


def to_standard_form(program: ConicProgram, row: int, solver: str) -> StandardForm:
    """One instance of the batch: the zero cone holds ``A T v = b``, the blocks hold ``v``."""
    parts, blocks = zip(*standard_blocks(program.cone, TRIANGLE[solver]), strict=True)
    T = sp.block_diag(parts, format="csc")
    A, b, c = program.A.numpy(), program.b[row].numpy(), program.c[row].numpy()
    G = sp.vstack([A @ T, -sp.eye(T.shape[1])], format="csc")
    return StandardForm(T.T @ c, G, np.append(b, np.zeros(T.shape[1])), list(blocks), T)


def standard_blocks(cone: Cone, triangle):
    """For each block of the cone: the matrix that takes its standard variable to x, its kind."""
    match cone:
        case Product(cones=cones):
            for part in cones:
                yield from standard_blocks(part, triangle)
        case Nonneg(dim=n):
            yield np.eye(n), ("l", n)
        case SecondOrder(block=size, count=count):
            yield from [(np.eye(size), ("q", size))] * count
        case RotatedSecondOrder(block=size, count=count):
            turn = np.eye(size)
            turn[:2, :2] = np.sqrt(0.5) * np.array([[1, 1], [1, -1]])
            yield from [(turn, ("q", size))] * count
        case PSD(order=order, count=count):
            yield from [(unpack(order, *triangle(order)), ("s", order))] * count


def unpack(order: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """From the scaled triangle, ``sqrt(2) X_ij`` off the diagonal, to the flat full matrix."""
    matrix = np.zeros((order, order, len(i)))
    matrix[i, j, np.arange(len(i))] = matrix[j, i, np.arange(len(i))] = np.where(
        i == j, 1, np.sqrt(0.5)
    )
    return matrix.reshape(order**2, -1)


def solve_clarabel(program: ConicProgram, row: int) -> Answer:
    form = to_standard_form(program, row, "clarabel")
    kinds = {
        "l": clarabel.NonnegativeConeT,
        "q": clarabel.SecondOrderConeT,
        "s": clarabel.PSDTriangleConeT,
    }
    cones = [clarabel.ZeroConeT(program.b.shape[1]), *(kinds[k](size) for k, size in form.blocks)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = GAP
    no_quadratic = sp.csc_matrix((len(form.q), len(form.q)))
    solver = clarabel.DefaultSolver(no_quadratic, form.q, form.G, form.h, cones, settings)
    found = solver.solve()
    assert found.status == clarabel.SolverStatus.Solved
    return Answer(form.T @ np.array(found.x), found.obj_val, -form.h @ np.array(found.z))


def solve_scs(program: ConicProgram, row: int, accuracy: float) -> Answer:
    form = to_standard_form(program, row, "scs")
    sizes = {kind: [size for k, size in form.blocks if k == kind] for kind in "lqs"}
    cones = {"z": program.b.shape[1], "l": sum(sizes["l"]), "q": sizes["q"], "s": sizes["s"]}
    data = {"A": form.G, "b": form.h, "c": form.q}
    solver = scs.SCS(data, cones, verbose=False, eps_abs=accuracy, eps_rel=accuracy)
    found = solver.solve()
    assert found["info"]["status"] == "solved"
    return Answer(form.T @ found["x"], form.q @ found["x"], -form.h @ found["y"])


def instances(name: str):
    sizes = {"train": 1, "validation": 1, "test": ROWS}
    return generate(name, seed=0, sizes=sizes, dtype=torch.float64).test


def optimum(split, row: int) -> float:
    return float(split.program.c[row] @ split.x[row])


def distance(x: np.ndarray, y: torch.Tensor) -> float:
    return np.linalg.norm(x - y.numpy()) / (1 + float(y.norm()))


def relative(value: float, reference: float) -> float:
    return abs(value - reference) / (1 + abs(reference))


def sharpness(split, row: int) -> float:
    """How far from each other null(A) and the optimal face are; zero where x* is not unique.

    Solutions are the points of ``{x in K : <x, s*> = 0}`` with A x = b.  At ``e - t s*``, with e
    inside K and t large, the projection's derivative is the orthogonal projection on the span
    of that face.
    """
    cone = split.program.cone
    inside = cone.project(random_tensor(500, cone.dim)).mean(0)
    span = torch.autograd.functional.jacobian(cone.project, inside - 1e6 * split.s[row])
    return float(torch.linalg.svdvals(torch.cat([split.program.A, torch.eye(cone.dim) - span]))[-1])


@pytest.mark.parametrize("name", CASES)
def test_generated_solution_is_clarabels(name):
    """p* to 1e-6, and x* wherever it is the only solution."""
    split = instances(name)
    assert split.program.cone.contains(split.x, tol=1e-12).all()  # rounding
    for row in range(ROWS):
        found = solve_clarabel(split.program, row)
        assert relative(found.primal, optimum(split, row)) <= 1e-6
        assert relative(found.dual, optimum(split, row)) <= 1e-6
        if sharpness(split, row) > 1e-4:
            # On a curved cone a gap moves the solution by its root; 10 for the conditioning of A.
            assert distance(found.x, split.x[row]) <= 10 * np.sqrt(GAP)


@pytest.mark.parametrize("name", CASES)
def test_generated_value_is_that_of_scs(name):
    """A first-order method: residuals of 1e-7, so values to 1e-5 at condition numbers of 100."""
    split = instances(name)
    found = solve_scs(split.program, 0, accuracy=1e-7)
    assert relative(found.primal, optimum(split, 0)) <= 1e-5
    assert relative(found.dual, optimum(split, 0)) <= 1e-5


@pytest.mark.parametrize("name", SMALL)
def test_long_rollout_converges_to_clarabels_solution(name):
    """z has the optimal value and (y, s) of the readout the dual one."""
    split = instances(name)
    alpha, beta, depth = 1.8, 10.0, 2500
    state = rollout(split.program, alpha, beta, depth)
    read = readout(split.program, state.z, state.u, beta)
    for row in range(ROWS):
        found = solve_clarabel(split.program, row)
        # Clarabel's own accuracy; the rollout has residuals below 1e-10 by then.
        assert relative(float(split.program.c[row] @ state.z[row]), found.primal) <= 1e-6
        assert relative(float(split.program.b[row] @ read.y[row]), found.dual) <= 1e-6
    assert max(read.r_p.max(), read.r_d.max(), read.r_gap.max()) <= 1e-8
    assert split.program.cone.dual_contains(read.s, tol=1e-12).all()  # rounding


def test_long_rollout_solves_a_rank_deficient_lp_as_highs_does():
    """Redundant equations leave neither value nor solution undetermined."""
    m, n, rank = 6, 12, 4
    A = random_tensor(m, rank) @ random_tensor(rank, n, seed=1)
    x = random_tensor(1, n, seed=2)
    x, s = x.clamp(min=0), (-x).clamp(min=0)
    c = random_tensor(1, m, seed=3) @ A + s
    program = ConicProgram(A, x @ A.mT, c, Nonneg(n))
    state = rollout(program, 1.6, 3.0, 2500)
    read = readout(program, state.z, state.u, 3.0)
    highs = linprog(c[0].numpy(), A_eq=A.numpy(), b_eq=program.b[0].numpy(), method="highs")
    assert highs.status == 0
    assert relative(float((c * state.z).sum()), highs.fun) <= 1e-7  # HiGHS: feasible to 1e-7
    assert relative(float((program.b * read.y).sum()), highs.fun) <= 1e-7
    assert max(read.r_p.max(), read.r_d.max()) <= 1e-9  # converged


NEGATIVE_SUM = (torch.ones(1, 4), torch.tensor([[-1.0]]))
CONTRADICTION = (torch.ones(2, 4), torch.tensor([[1.0, 2.0]]))


@pytest.mark.parametrize(
    ("equations", "nearest"),
    # The least |A z - b| for z >= 0 is 1 at z = 0, and 1/sqrt(2) at sum(z) = 3/2.
    [(NEGATIVE_SUM, 1 / 2), (CONTRADICTION, 0.5**0.5 / (1 + 5**0.5))],
    ids=["no nonnegative solution", "no solution at all"],
)
def test_infeasible_lp_rolls_out_and_shows_in_the_primal_residual(equations, nearest):
    A, b = (t.double() for t in equations)
    c = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    highs = linprog(c[0].numpy(), A_eq=A.numpy(), b_eq=b[0].numpy(), method="highs")
    assert highs.status == 2  # infeasible
    program = ConicProgram(A, b, c, Nonneg(4))
    for depth in (1, 10, 1000):
        state = rollout(program, 1.6, 1.0, depth)
        read = readout(program, state.z, state.u, 1.0)
        assert all(torch.isfinite(t).all() for t in (*state, *read))
        assert read.r_p.item() >= nearest - 1e-12  # rounding
