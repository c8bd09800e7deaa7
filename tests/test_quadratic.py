"""Programs with a diagonal quadratic term: the gradient-driven step of the dispatch problem."""

from __future__ import annotations

import pytest
import torch
from conftest import random_tensor, small_cone, solved_program, times

from rcdrs.cones import Box, Nonneg
from rcdrs.layer import RCDRSLayer
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.fused import Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import diagnose, errors
from rcdrs.solver.step import State, step

BATCH, M, N = 3, 4, 14


def program(Q=None, cone=None, seed=3):
    linear = solved_program(seed=seed, batch=BATCH, m=M, cone=small_cone()).program
    return ConicProgram(linear.A, linear.b, linear.c, cone or linear.cone, Q)


def quadratic(*shape):
    return random_tensor(*shape, seed=9).abs()


@pytest.mark.parametrize("shape", [(N,), (BATCH, N)], ids=str)
def test_rollout_is_the_step_repeated(shape):
    with_q = program(quadratic(*shape))
    state = State.zero(with_q)
    for _ in range(30):
        state = step(with_q, state, 1.5, 0.4)
    torch.testing.assert_close(rollout(with_q, 1.5, 0.4, 30).z, state.z, rtol=1e-12, atol=1e-12)


def test_without_curvature_nothing_changes():
    flat, linear = program(torch.zeros(N).double()), program()
    torch.testing.assert_close(rollout(flat, 1.5, 0.4, 20).z, rollout(linear, 1.5, 0.4, 20).z)


def test_observed_objective_and_direction():
    with_q = program(quadratic(N))
    transition = Transition(with_q)
    columns = transition.start(random_tensor(BATCH, N, seed=1))
    alpha = torch.ones(BATCH).double()
    for seen, z in (
        (transition.observe_start(columns), columns.z.mT),
        *((s, c.z.mT) for c, s in [transition(columns, alpha, alpha)]),
    ):
        expected = (0.5 * with_q.Q * z * z + with_q.c * z).sum(-1)
        torch.testing.assert_close(seen.objective, expected)


def test_gradients():
    base = program()

    def rolled(b, c, Q, alpha, beta):
        transition = Transition(ConicProgram(base.A, b, c, base.cone, Q.abs()))
        columns, rows = transition.start(), []
        for _ in range(3):
            columns, seen = transition(columns, alpha, beta)
            rows.extend(seen)
        return torch.cat([torch.stack(rows), *(part.mT for part in State.of(columns))])

    inputs = (
        base.b + random_tensor(BATCH, M),
        base.c,
        1 + quadratic(N),
        torch.linspace(0.5, 1.7, BATCH).double(),
        torch.linspace(0.2, 2, BATCH).double(),
    )
    assert torch.autograd.gradcheck(rolled, [x.clone().requires_grad_() for x in inputs])


def test_it_converges_to_the_solution_of_the_quadratic_program():
    """c is set so that a chosen complementary pair solves it; the residuals and errors agree."""
    v, Q = random_tensor(BATCH, N, seed=4), quadratic(N) + 0.2
    x, s = v.clamp(min=0), (-v).clamp(min=0)
    A, y = random_tensor(M, N, seed=5), random_tensor(BATCH, M, seed=6)
    c = times(A.mT, y) + s - Q * x
    solved = ConicProgram(A, times(A, x), c, Nonneg(N), Q)
    exact = diagnose(solved, x, s, y)
    for name in ("r_p", "r_d", "r_comp", "r_gap"):
        assert getattr(exact, name).max() < 1e-12, name
    z = rollout(solved, 1.0, 0.05, 20000).z
    torch.testing.assert_close(z, x, rtol=0, atol=1e-5)
    found = errors(solved, z, x)
    assert found.ObjErr.max() < 1e-5
    assert errors(solved, x + 1, x).ObjErr.min() > 1e-3


def test_the_layer_and_parts_of_a_batch():
    box = Box(torch.zeros(BATCH, N).double(), quadratic(BATCH, N))
    whole = program(quadratic(BATCH, N), box)
    layer = RCDRSLayer(whole.A, box, depth=4)
    part = layer.solve(whole[1:]).x
    torch.testing.assert_close(part, layer.solve(whole).x[1:])
    assert bool((part <= box.upper[1:]).all())


@pytest.mark.parametrize(
    ("Q", "error", "message"),
    [
        (torch.ones(N - 1).double(), ValueError, "Q has shape"),
        (torch.ones(2, N).double(), ValueError, "Q has shape"),
        (torch.ones(N), TypeError, "Q has dtype"),
        (-torch.ones(N).double(), ValueError, "negative"),
        (torch.full((N,), torch.nan).double(), ValueError, "NaN"),
    ],
)
def test_a_quadratic_term_that_does_not_fit(Q, error, message):
    with pytest.raises(error, match=message):
        program(Q)
