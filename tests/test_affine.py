"""The projection on {x : A x = b}, its coordinates and its derivative in A."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import random_tensor, times

from rcdrs.cones import Nonneg
from rcdrs.solver.affine import AffineSet, down
from rcdrs.solver.fused import Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import equality

M, N, BATCH = 4, 7, 3


def matrices():
    """Full-rank and rank-deficient A, shared and per instance."""
    full, several = random_tensor(M, N), random_tensor(BATCH, M, N, seed=1)
    duplicated, dependent = full.clone(), full.clone()
    duplicated[3] = duplicated[0]
    dependent[2:] = random_tensor(2, 2, seed=2) @ full[:2]
    ranks = several.clone()
    ranks[1, 3] = ranks[1, 0]
    ranks[2, 1:] = random_tensor(3, 1, seed=3) * ranks[2, :1]
    return {
        "full rank": full,
        "duplicated rows": duplicated,
        "dependent rows": dependent,
        "square": random_tensor(N, N, seed=4),
        "zero": torch.zeros(M, N, dtype=torch.float64),
        "per instance": several,
        "per instance, ranks 4 3 1": ranks,
    }


MATRICES = matrices()
each_matrix = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES.keys())
full_rank = pytest.mark.parametrize("A", [MATRICES["full rank"], MATRICES["per instance"]])
# Condition numbers below 100 leave some 1e-13 of float64; zero singular values are cut exactly.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


def pinv(A):
    return torch.from_numpy(np.linalg.pinv(A.numpy(), rcond=1e-10))


def project(A, b, w):
    """Through the class, in the layout (batch, n) of everything else."""
    affine = AffineSet(A)
    return affine.project(w.mT, affine.target(b.mT)).mT


def consistent(A, seed=5):
    return times(A, random_tensor(BATCH, N, seed=seed))


def inconsistent(A, seed=6):
    return random_tensor(BATCH, A.shape[-2], seed=seed)


@each_matrix
def test_projection_is_exact(A):
    """A x = b, and x - w is orthogonal to the null space of A."""
    b, w = consistent(A), random_tensor(BATCH, N, seed=7)
    x = project(A, b, w)
    assert (times(A, x) - b).abs().max() <= 1e-10
    null = torch.eye(N, dtype=A.dtype) - pinv(A) @ A
    assert times(null, x - w).abs().max() <= 1e-10


@each_matrix
@pytest.mark.parametrize("right", [consistent, inconsistent])
def test_projection_equals_the_pseudo_inverse_formula(A, right):
    """Proj_A(w) = w - A'(AA')^+ (A w - b), on the least-squares set where A x = b has no x."""
    b, w = right(A), random_tensor(BATCH, N, seed=7)
    expected = w - times(A.mT @ pinv(A @ A.mT), times(A, w) - b)
    found = project(A, b, w)
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(
        times(A.mT @ A, found), times(A.mT, b), rtol=0, atol=1e-10
    )  # fmt: skip


@each_matrix
@pytest.mark.parametrize("right", [consistent, inconsistent])
def test_distance_through_the_coordinates(A, right):
    """|A z - b| = hypot(|S (V'z - d)|, |b - U U'b|)."""
    b, z = right(A), random_tensor(BATCH, N, seed=8)
    affine = AffineSet(A)
    residual = (affine.scale * (down(affine.V, z.mT) - affine.target(b.mT))).norm(dim=0)
    unreachable = affine.unreachable(b.mT)
    distance = residual if unreachable is None else torch.hypot(residual, unreachable)
    torch.testing.assert_close(distance, (times(A, z) - b).norm(dim=-1), **CLOSE)


@each_matrix
def test_unreachable_is_the_least_squares_residual(A):
    b = inconsistent(A)
    expected = (b - times(A @ pinv(A), b)).norm(dim=-1)
    found = AffineSet(A).unreachable(b.mT)
    if found is None:
        assert expected.max() <= 1e-12  # rounding
    else:
        torch.testing.assert_close(found, expected, **CLOSE)


@full_rank
def test_full_rank_reaches_everything(A):
    assert AffineSet(A).unreachable(inconsistent(A).mT) is None


@each_matrix
def test_multiplier_is_the_least_squares_solution(A):
    y = random_tensor(BATCH, N, seed=9)
    found = AffineSet(A).multiplier(y.mT).mT
    for i in range(BATCH):
        one = A[i] if A.ndim == 3 else A
        expected, *_ = np.linalg.lstsq(one.numpy().T, y[i].numpy(), rcond=1e-10)
        np.testing.assert_allclose(found[i].numpy(), expected, **CLOSE)


@each_matrix
def test_float32_matches_float64(A):
    b, w = consistent(A), random_tensor(BATCH, N, seed=7)
    found = project(A.float(), b.float(), w.float())
    assert found.dtype == torch.float32
    # Rounding of the data, 6e-8, times condition numbers below 100.
    torch.testing.assert_close(found.double(), project(A, b, w), rtol=0, atol=2e-5)


@full_rank
def test_gradient_tracking_does_not_change_values(A):
    b, w = inconsistent(A), random_tensor(BATCH, N, seed=7)
    tracked = project(A.clone().requires_grad_(), b, w)
    torch.testing.assert_close(tracked.detach(), project(A, b, w), **CLOSE)


def everything(A, b, w, y):
    """Projection and multiplier side by side."""
    affine = AffineSet(A)
    projected = affine.project(w.mT, affine.target(b.mT))
    return torch.cat([projected, affine.multiplier(y.mT)]).mT


def everything_by_pinv(A, b, w, y):
    inverse = torch.linalg.pinv(A)
    return torch.cat([w - times(inverse, times(A, w) - b), times(inverse.mT, y)], -1)


@full_rank
def test_gradient_agrees_with_finite_differences(A):
    inputs = [A, inconsistent(A), random_tensor(BATCH, N, seed=7), random_tensor(BATCH, N, seed=9)]
    assert torch.autograd.gradcheck(everything, [x.clone().requires_grad_() for x in inputs])


@full_rank
def test_gradient_agrees_with_that_of_pinv(A):
    inputs = [A, inconsistent(A), random_tensor(BATCH, N, seed=7), random_tensor(BATCH, N, seed=9)]
    inputs = [x.clone().requires_grad_() for x in inputs]
    weight = random_tensor(BATCH, N + M, seed=10)
    ours = torch.autograd.grad((everything(*inputs) * weight).sum(), inputs)
    theirs = torch.autograd.grad((everything_by_pinv(*inputs) * weight).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)  # 1e-13 times condition^2


def test_gradient_at_equal_singular_values():
    """The singular vectors have no derivative there; the projection has one."""
    A = torch.eye(M, N, dtype=torch.float64).requires_grad_()
    b, w = inconsistent(A.detach()), random_tensor(BATCH, N, seed=7)
    assert torch.autograd.gradcheck(lambda A: project(A, b, w), A)


def test_gradient_of_dependent_rows_is_refused():
    """Their projection has no derivative: the rank jumps.  The error says what to do."""
    A = MATRICES["duplicated rows"].clone().requires_grad_()
    with pytest.raises(ValueError, match=r"A has dependent rows .* remove those rows"):
        AffineSet(A)


def test_dependent_rows_of_one_instance_change_nothing_for_the_others():
    """It gets no gradient, and a warning says so."""
    A = random_tensor(BATCH, M, N)
    good, bad = [i for i in range(BATCH) if i != 1], [1]
    A[bad, -1] = A[bad, 0]
    b, w = random_tensor(BATCH, M, seed=1), random_tensor(BATCH, N, seed=2)
    others = A[good].requires_grad_()
    A.requires_grad_()
    with pytest.warns(UserWarning, match=rf"in 1 of {BATCH} instances, first in 1: .* no gradient"):
        found = project(A, b, w)
    expected = project(others, b[good], w[good])
    assert torch.equal(found[good], expected)
    with torch.no_grad():
        torch.testing.assert_close(found[bad], project(A.detach()[bad], b[bad], w[bad]))
    (found,) = torch.autograd.grad(found.square().sum(), A)
    (expected,) = torch.autograd.grad(expected.square().sum(), others)
    assert torch.equal(found[good], expected)
    assert not found[bad].any()


def test_factorisation_is_shared_by_parts_of_a_batch():
    A = MATRICES["full rank"]
    program = ConicProgram(A, consistent(A), random_tensor(BATCH, N), Nonneg(N))
    assert program[1:].affine is program.affine
    transition = Transition(program)
    start = transition.start(random_tensor(BATCH, N, seed=1))
    found = transition.observe_start(start).equality / (1 + program.b.norm(dim=-1))
    torch.testing.assert_close(found, equality(program, start.z.mT), **CLOSE)
