"""Anderson-DRS: against its description, its safeguard, and the plain core; and with feedback."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import awake, grid, random_tensor, solved_program
from hypothesis import given
from hypothesis import strategies as st

from rcdrs import ConicProgram, DRSLayer, RCDRSLayer, State
from rcdrs.baselines import anderson_drs
from rcdrs.baselines.accelerated import AndersonRCDRSLayer
from rcdrs.baselines.anderson_drs import AndersonLayer, Memory, coefficients
from rcdrs.baselines.grid_drs import select_core, terminal_score
from rcdrs.cones import Nonneg
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.solver.fused import Transition
from rcdrs.solver.readout import errors
from rcdrs.solver.step import step

CORE, DEPTH = (1.6, 1.0), 20
# Tens of float64 operations in another order, through least squares with a ridge of 1e-4.
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


@pytest.fixture(scope="module")
def program():
    return solved_program().program


def solve(program, depth=DEPTH, core=CORE, layer=AndersonLayer, start=None):
    return layer(program.A, program.cone, depth, *core).solve(program, start=start)


def least_squares(G, g):
    """The coefficients of the columns of G, with the ridge as rows of its own."""
    ridge = np.sqrt(1e-4) * np.diag(np.linalg.norm(G, axis=0))
    right = np.concatenate([g, np.zeros(G.shape[1])])
    return np.linalg.lstsq(np.concatenate([G, ridge]), right, rcond=None)[0]


def reference(program, depth, tolerated):
    """Anderson-DRS one instance and one step at a time: the last state, and refused proposals."""
    F, G, refusals, proposed = [], [], 0, False
    state = plain = State.zero(program)
    for k in range(depth):
        after = step(program, state, *CORE)
        z, v = (t[0].numpy() for t in (after.z, after.z + after.u))
        g = v - (state.z + state.u)[0].numpy()
        if proposed and np.linalg.norm(g) > tolerated * np.linalg.norm(G[-1]):
            refusals, state, F, G = refusals + 1, plain, F[-1:], G[-1:]
        else:
            state, F, G = after, [*F, np.stack([z, v])][-11:], [*G, g][-11:]
        plain, proposed = state, 3 <= k + 1 < depth and len(G) > 1
        if proposed:
            gamma = least_squares(np.diff(G, axis=0).T, G[-1])
            z, v = torch.from_numpy(F[-1] - np.tensordot(gamma, np.diff(F, axis=0), 1)).unsqueeze(1)
            state = State(z, z, v - z)
    return plain, refusals


@pytest.mark.parametrize(("tolerated", "refuses"), [(1.2, False), (0.8, True)])
def test_acceleration_equals_its_description(program, tolerated, refuses, monkeypatch):
    monkeypatch.setattr(anderson_drs, "TOLERATED", tolerated)
    solution, refused = solve(program), 0
    for i in range(program.batch):
        alone = ConicProgram(program.A, program.b[i : i + 1], program.c[i : i + 1], program.cone)
        expected, refusals = reference(alone, DEPTH, tolerated)
        refused += refusals
        for found, part in zip(solution.state, expected, strict=True):
            torch.testing.assert_close(found[i], part[0], **CLOSE)
    assert not refuses or 0 < refused < 4 * (DEPTH - 4) // 2


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_affine_map_equals_numpy(seed, batch):
    """``F(v) = M v + h`` with |M| = 0.9: one memory for the batch, least squares for each."""
    M = random_tensor(batch, 6, 6, seed=seed)
    M *= 0.9 / torch.linalg.matrix_norm(M, 2)[:, None, None]
    h, memory, v = random_tensor(6, batch, seed=seed + 1), Memory(), torch.zeros(6, batch).double()
    never = torch.zeros(batch, dtype=torch.bool)
    F, G = [], []
    for k in range(14):
        F.append(torch.einsum("bij,jb->ib", M, v) + h)
        G.append(F[-1] - v)
        v = F[-1]
        if k:
            memory.add(F[-1] - F[-2], G[-1] - G[-2], never)
            v, _ = memory.propose(F[-1], G[-1])
            for i in range(batch):
                f, g = (np.stack([t[:, i].numpy() for t in kept[-11:]], 1) for kept in (F, G))
                gamma = least_squares(np.diff(g), g[:, -1])
                np.testing.assert_allclose(v[:, i], f[:, -1] - np.diff(f) @ gamma, **CLOSE)
    assert (G[-1].norm(dim=0) < 1e-3 * G[0].norm(dim=0)).all()  # plain steps leave up to 0.25


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_few_steps_are_those_of_the_fixed_core(program, depth, dtype):
    parts = (program.A, program.b, program.c)
    program = ConicProgram(*(t.to(dtype) for t in parts), program.cone)
    expected = DRSLayer(program.A, program.cone, depth, *CORE).run(program, depth, None)
    found = solve(program, depth)
    for x, y in zip(
        (*found.state, *found.readout), (*expected.state, *expected.readout), strict=True
    ):
        assert torch.equal(x, y)
    later = [solve(program, 4, layer=layer).x for layer in (AndersonLayer, DRSLayer)]
    assert not torch.allclose(*later)


def test_refused_proposals_leave_plain_steps(program, monkeypatch):
    """Each costs its one step: the plain step after it is made from the state before."""
    monkeypatch.setattr(anderson_drs, "TOLERATED", 0.0)
    expected = solve(program, 3 + (12 - 3) // 2, layer=DRSLayer)
    found = solve(program, 12)
    torch.testing.assert_close(found.x, expected.x, **CLOSE)
    torch.testing.assert_close(found.s, expected.s, **CLOSE)


@pytest.mark.parametrize("case", ["socp-small", "mixed-small"])
def test_beats_the_fixed_core_it_starts_from(case):
    validation = generate(case, 0, {"train": 1, "validation": 96, "test": 1}).validation
    core = select_core(validation, DEPTH, **grid(scored=48, betas=[0.3, 1.0, 3.0, 10.0, 30.0]))
    rest = validation[48:]
    with torch.no_grad():
        ours, plain = (
            terminal_score(errors(rest.program, solve(rest.program, DEPTH, core, layer).x, rest.x))
            for layer in (AndersonLayer, DRSLayer)
        )
    assert ours.mean() < 0.8 * plain.mean()
    assert (ours < plain).double().mean() > 0.8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bad_instances_stay_finite_and_change_no_other(dtype):
    """One without a solution and one that is huge, in the place of good ones: to the last bit."""
    A = random_tensor(3, 8, seed=1).abs().to(dtype)
    b = (A @ random_tensor(8, 6, seed=2).abs().to(dtype)).mT.contiguous()
    c = random_tensor(6, 8, seed=3).abs().to(dtype)
    layer, others = AndersonLayer(A, Nonneg(8), 200, *CORE), [0, 1, 3, 5]
    good = layer(b, c).x
    b[2] *= -1
    b[4] *= 1e12
    b.requires_grad_()
    solution = layer(b, c)
    assert torch.equal(solution.x[others], good[others])
    assert torch.isfinite(solution.x).all()
    (gradient,) = torch.autograd.grad(solution.x.sum() + solution.gap[others].sum(), b)
    assert torch.isfinite(gradient).all()


def test_coefficients_of_dependent_columns_and_of_overflow():
    gram = torch.ones(3, 3, 4)
    gram[..., 1], gram[0, 0, 2] = 0, torch.inf
    gamma = coefficients(gram, torch.tensor([[1.0, 1.0, 1.0, torch.nan]]).expand(3, 4))
    assert gamma.dtype is torch.float64
    torch.testing.assert_close(gamma[:, 0], torch.full((3,), 1 / 3).double(), rtol=1e-4, atol=0)
    assert not gamma[:, 1:].any()


def test_map_is_evaluated_once_a_step(program, monkeypatch):
    calls, plain = [], Transition.__call__
    monkeypatch.setattr(Transition, "__call__", lambda *a: calls.append(0) or plain(*a))
    solve(program)
    assert len(calls) == DEPTH


@pytest.mark.parametrize("argument", ["b", "c"])
def test_gradient_of_many_steps_agrees_with_a_difference_quotient(program, argument):
    layer, h = AndersonLayer(program.A, program.cone, 14, *CORE), 1e-6
    data, weights = {"b": program.b, "c": program.c}, random_tensor(4, 28, seed=5)

    def value(x):
        solution = layer(**data | {argument: x})
        return (solution.x * weights).sum() + solution.gap.sum()

    point = data[argument].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point), point)
    direction = random_tensor(*point.shape, seed=6)
    with torch.no_grad():
        quotient = (value(point + h * direction) - value(point - h * direction)) / (2 * h)
    torch.testing.assert_close((gradient * direction).sum(), quotient, rtol=1e-5, atol=1e-6)


def test_one_instance_and_a_warm_start(program):
    """From where plain steps ended, the residuals are lower than from zero; alone as in a batch."""
    layer = AndersonLayer(program.A, program.cone, DEPTH, *CORE)
    one = layer(program.b[1], program.c[1])
    torch.testing.assert_close(one.x, layer.solve(program).x[1], **CLOSE)
    warm = solve(program, start=solve(program, 60, layer=DRSLayer).state)
    assert (warm.primal_residual < layer.solve(program).primal_residual).all()


# RCDRS-Anderson


def controlled(program, depth=DEPTH):
    torch.manual_seed(0)
    return AndersonRCDRSLayer(program.A, program.cone, depth, CORE)


@pytest.mark.parametrize("depth", [2, DEPTH])
def test_untrained_feedback_is_the_accelerated_core(program, depth):
    found, expected = controlled(program, depth).solve(program), solve(program, depth)
    for x, y in zip(found.state, expected.state, strict=True):
        torch.testing.assert_close(x, y, **CLOSE)
    torch.testing.assert_close(found.actions[..., 1:], expected.actions[..., 1:])


def test_feedback_of_few_steps_is_that_of_plain_ones(program):
    """Before the first proposal, a controller that acts sees the same states."""
    ours, plain = (
        awake(kind(program.A, program.cone, 3, CORE)) for kind in (AndersonRCDRSLayer, RCDRSLayer)
    )
    plain.load_state_dict(ours.state_dict())
    found, expected = ours.solve(program), plain.solve(program)
    torch.testing.assert_close(found.x, expected.x, **CLOSE)
    torch.testing.assert_close(found.actions, expected.actions, **CLOSE)


def test_gradient_in_the_weights_agrees_with_a_difference_quotient(program):
    layer, h = awake(controlled(program, 12)), 1e-6
    weights = [p for p in layer.parameters() if p.requires_grad]

    def value():
        solution = layer.solve(program)
        return solution.x.square().sum() + solution.gap.sum()

    gradients = torch.autograd.grad(value(), weights)
    directions = [random_tensor(*p.shape, seed=i).to(p) for i, p in enumerate(weights)]
    ends = []
    with torch.no_grad():
        for sign in (1, -2, 1):  # forth, to the other side, and back
            for weight, direction in zip(weights, directions, strict=True):
                weight += sign * h * direction
            ends.append(value())
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    torch.testing.assert_close(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-6)


def test_trained_feedback_is_kept_by_name(program, tmp_path):
    layer = awake(controlled(program))
    layer.save(tmp_path / "layer.pt")
    again = AndersonRCDRSLayer.load(tmp_path / "layer.pt", program.A, program.cone)
    assert torch.equal(again.solve(program).x, layer.solve(program).x)
    with pytest.raises(ValueError, match="AndersonRCDRSLayer"):
        RCDRSLayer.load(tmp_path / "layer.pt", program.A, program.cone)
