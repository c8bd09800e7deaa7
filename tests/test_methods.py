"""The compared methods: one interface, and each against its own description."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import awake, grid, random_tensor, solved_program, times
from hypothesis import given
from hypothesis import strategies as st

from rcdrs import ConicProgram, DRSLayer, Solution, State
from rcdrs.baselines import aa_drs, spectral_admm
from rcdrs.baselines.aa_drs import AcceleratedLayer
from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.learned_pdhg import PDHGLayer
from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.baselines.spectral_admm import SpectralLayer, estimate, rescale
from rcdrs.cones import Nonneg
from rcdrs.experiments.instances import Split
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.experiments.synthetic.layers import measure
from rcdrs.solution import begin
from rcdrs.solver.fused import EPSILON_C
from rcdrs.solver.readout import readout
from rcdrs.solver.step import step

CORE = (1.6, 1.0)
DEPTH = 6
# Tens of well-scaled float64 operations, in another order.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
every_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(scope="module")
def data():
    return generate("socp-small", 0, sizes={"train": 8, "validation": 16, "test": 8})


@pytest.fixture(scope="module")
def program():
    return solved_program().program


def build(name, program, depth=DEPTH):
    torch.manual_seed(0)
    return awake(METHODS[name].build(program.A, program.cone, depth, CORE))


# One interface


def test_methods_are_those_of_the_paper_and_ours():
    classical, learned = (
        [name for name, method in METHODS.items() if method.learned == kind]
        for kind in (False, True)
    )
    assert classical == ["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS"]
    assert learned[:4] == ["L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv"]
    assert learned[4:] == ["RCDRS-MLP", "RCDRS-Light", "RCDRS-Glance", "RCDRS-Anderson"]


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(ValueError, match="'DRS', expected one of F-DRS, Grid-DRS, S-ADMM"):
        find_method("DRS")


@every_method
def test_method_solves(name, data):
    program = data.test.program
    solution = build(name, program).solve(program)
    assert isinstance(solution, Solution)
    assert solution.actions.shape == (8, DEPTH, 3)
    for residual in (solution.primal_residual, solution.dual_residual, solution.gap):
        assert residual.shape == (8,)
        assert torch.isfinite(residual).all()
    assert solution.y.shape == program.b.shape
    assert program.cone.contains(solution.x).all()
    # Slacks are differences of vectors of the size of z, each rounded to float32.
    assert program.cone.dual_contains(solution.s, 1e-5).all()


@every_method
def test_learned_methods_are_those_with_parameters(name, program):
    assert bool(list(build(name, program).parameters())) == METHODS[name].learned


@every_method
def test_method_survives_a_file(name, program, tmp_path):
    layer = build(name, program)
    layer.save(tmp_path / "layer.pt")
    loaded = type(layer).load(tmp_path / "layer.pt", program.A, program.cone, DEPTH)
    assert torch.equal(loaded.solve(program).x, layer.solve(program).x)


@every_method
def test_method_solves_one_instance_and_other_depths(name, program):
    layer = build(name, program)
    one = layer(program.b[1], program.c[1], depth=8)
    torch.testing.assert_close(one.x, layer.solve(program, depth=8).x[1], **CLOSE)
    assert one.beta.shape == (8,)


@pytest.mark.parametrize("argument", ["b", "c", "A"])
@every_method
def test_gradient_agrees_with_a_difference_quotient(name, argument, program):
    layer, h = build(name, program), 1e-6
    data = {"b": program.b, "c": program.c, "A": program.A}
    weights = random_tensor(4, 28, seed=5)

    def value(x):
        solution = layer(**data | {argument: x})
        return (solution.x * weights).sum() + solution.gap.sum() + solution.dual_residual.sum()

    point = data[argument].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point), point)
    assert (gradient.flatten(1).norm(dim=1) > 0).all()
    direction = random_tensor(*point.shape, seed=6)
    with torch.no_grad():
        quotient = (value(point + h * direction) - value(point - h * direction)) / (2 * h)
    # Rounding 1e-16 and curvature times h^2 = 1e-12, both over h.
    torch.testing.assert_close((gradient * direction).sum(), quotient, rtol=1e-6, atol=1e-6)


def test_evaluation_has_every_metric_of_each_instance(data):
    layer = build("RCDRS-Env", data.test.program)
    found = measure(layer, data.test)
    solution = layer.solve(data.test.program)
    expected = data.test.errors(solution.x)._asdict() | {
        "r_p": solution.primal_residual,
        "r_d": solution.dual_residual,
        "r_comp": solution.readout.r_comp,
        "r_gap": solution.gap,
    }
    assert list(found) == ["ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"]
    for name, value in found.items():
        assert value.shape == (8,)
        assert not value.requires_grad
        assert torch.equal(value, expected[name])


# Fixed and grid


def test_fixed_drs_ignores_the_core(program):
    expected = DRSLayer(program.A, program.cone, DEPTH, 1.6, 0.3).solve(program)
    assert torch.equal(build("F-DRS", program).solve(program).x, expected.x)


def grid_score(split, alpha, beta, depth):
    program, state = split.program, State.zero(split.program)
    for _ in range(depth):
        state = step(program, state, alpha, beta)
    optimum = (program.c * split.x).sum(-1)
    gap = ((program.c * state.z).sum(-1) - optimum) / (1 + optimum.abs())
    equality = (times(program.A, state.z) - program.b).norm(dim=-1)
    # z is in the cone, so the third term of the score is zero.
    return (gap.clamp(min=0) + 10 * equality / (1 + program.b.norm(dim=-1))).mean().item()


@pytest.mark.parametrize("depth", [2, 8])
def test_grid_selects_the_pair_of_lowest_score(data, depth):
    pairs = [(alpha, beta) for alpha in grid()["alphas"] for beta in grid()["betas"]]
    best = min(pairs, key=lambda pair: grid_score(data.validation, *pair, depth))
    assert select_core(data.validation, depth, **grid()) == best
    assert build("Grid-DRS", data.test.program).options() == {"alpha": 1.6, "beta": 1.0}


def test_grid_scores_at_most_128_instances():
    validation = generate("socp-small", 0, {"train": 1, "validation": 130, "test": 1}).validation
    x = validation.x.clone()
    x[128:] = math.nan
    core = select_core(validation[:128], 4, **grid())
    assert core != (
        grid()["alphas"][0],
        grid()["betas"][0],
    )  # what scores that are all NaN would leave
    without = Split(validation.program, x, validation.s, validation.y)
    assert select_core(without, 4, **grid()) == core


# Spectral ADMM


def spectral_reference(program, alpha, beta_0, depth):
    """S-ADMM one instance and one step at a time: the last z and the drives."""
    state, betas = State.zero(program), []
    beta = beta_0
    for k in range(1, depth + 1):
        state = step(program, state, alpha, beta)
        betas.append(beta)
        z, multiplier = state.z[0], state.u[0] / beta
        if k == 1:
            z_then, multiplier_then = z, multiplier
        if k % 2 or k == depth:
            continue
        dz, du = z - z_then, multiplier - multiplier_then
        z_then, multiplier_then = z, multiplier
        if dz @ du > 0.2 * dz.norm() * du.norm():
            steepest, gradient = (du @ du / (dz @ du)).item(), (dz @ du / (dz @ dz)).item()
            rho = gradient if 2 * gradient > steepest else steepest - gradient / 2
            new = min(max(1 / rho, beta / 2), 2 * beta)
            new = min(max(new, 1e-5), 1e2)
            state = state._replace(u=state.u * new / beta)
            beta = new
    return state.z[0], betas


def test_spectral_penalty_equals_its_description(program):
    solution = SpectralLayer(program.A, program.cone, 12, *CORE).solve(program)
    assert (solution.beta.amax(1) > 1.5 * solution.beta.amin(1)).any()
    for i in range(program.batch):
        alone = ConicProgram(program.A, program.b[i : i + 1], program.c[i : i + 1], program.cone)
        z, betas = spectral_reference(alone, *CORE, 12)
        torch.testing.assert_close(solution.x[i], z, **CLOSE)
        assert solution.beta[i].tolist() == pytest.approx(betas, rel=1e-10)


@pytest.mark.parametrize("beta", [2e-5, 0.3, 90.0])
def test_spectral_drive_changes_at_most_by_two_and_stays_in_range(data, beta):
    program = data.test.program
    drive = SpectralLayer(program.A, program.cone, 30, 1.6, beta).solve(program).beta
    ratio = drive[:, 1:] / drive[:, :-1]
    rounding = 1 + 1e-5  # the trace holds log beta in float32
    assert ratio.max() <= 2 * rounding
    assert ratio.min() >= 0.5 / rounding
    assert drive.min() >= 1e-5 / rounding
    assert drive.max() <= 1e2 * rounding
    assert (ratio - 1).abs().max() > 0.1


def test_spectral_without_trust_is_fixed_drs(program, monkeypatch):
    monkeypatch.setattr(spectral_admm, "TRUSTED", 2.0)  # no correlation exceeds 1
    found = SpectralLayer(program.A, program.cone, 12, *CORE).solve(program)
    expected = DRSLayer(program.A, program.cone, 12, *CORE).solve(program)
    torch.testing.assert_close(found.x, expected.x, **CLOSE)
    torch.testing.assert_close(found.s, expected.s, **CLOSE)


def test_spectral_estimate_keeps_the_present_scale_where_it_has_no_information():
    dz = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    du = torch.tensor([[0.0, 1.0, -1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    present = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.equal(estimate(dz, du, present), present)


def test_spectral_rescaling_keeps_the_multiplier(program):
    """The slack does not jump, and the step from the rescaled state is that of the paper."""
    transition, columns, _ = begin(program, None)
    alpha, beta = (torch.full((4,), value, dtype=torch.float64) for value in CORE)
    columns, _ = transition(columns, alpha, beta)
    factor = torch.tensor([0.5, 0.9, 1.3, 2.0], dtype=torch.float64)
    before, after = State.of(columns), State.of(rescale(columns, factor))
    first = readout(program, before.z, before.u, beta)
    second = readout(program, after.z, after.u, beta * factor)
    torch.testing.assert_close(first.s, second.s, **CLOSE)
    torch.testing.assert_close(first.y, second.y, **CLOSE)
    found, _ = transition(rescale(columns, factor), alpha, beta * factor)
    expected = step(program, after, alpha, beta * factor)
    torch.testing.assert_close(State.of(found).z, expected.z, **CLOSE)


def test_affine_side_has_no_spectral_estimate(program):
    """Changes of x lie in the kernel of A, those of its multiplier in the range of A'."""
    state, seen = State.zero(program), []
    for beta, factor in ((1.0, 2.0), (2.0, 0.7), (1.4, 1.0), (1.4, 1.0)):
        after = step(program, state, 1.6, beta)
        seen.append((after.x, (after.x - state.z + state.u) / beta))
        state = after._replace(u=factor * after.u)
    for (x, multiplier), (x_then, multiplier_then) in zip(seen[1:], seen[:-1], strict=True):
        dx, du = x - x_then, multiplier - multiplier_then
        correlation = (dx * du).sum(-1) / (dx.norm(dim=-1) * du.norm(dim=-1))
        assert correlation.abs().max() < 1e-12  # rounding


# Accelerated DRS


def accelerated_reference(program, alpha, beta, depth):
    """AA-DRS in paper form, and which proposals were taken."""
    taken = []

    def monitor(state, after):
        return (after.z + after.u - state.z - state.u).norm(dim=-1)

    before = State.zero(program)
    now = step(program, before, alpha, beta)
    for _ in range(depth - 1):
        z = program.cone.project(now.z + 0.25 * (now.z - before.z))
        proposal = State(z, z, now.u + 0.25 * (now.u - before.u))
        after_plain, after_proposal = (step(program, s, alpha, beta) for s in (now, proposal))
        accept = monitor(proposal, after_proposal) <= 1.05 * monitor(now, after_plain)
        pick = accept.unsqueeze(-1)
        before = State(*(torch.where(pick, a, b) for a, b in zip(proposal, now, strict=True)))
        pairs = zip(after_proposal, after_plain, strict=True)
        now = State(*(torch.where(pick, a, b) for a, b in pairs))
        taken.append(accept)
    return now, torch.stack(taken)


def test_acceleration_equals_its_description(program):
    """Proposals are taken exactly where the monitor allows."""
    layer = AcceleratedLayer(program.A, program.cone, 12, 1.0, 0.3)
    expected, taken = accelerated_reference(program, 1.0, 0.3, 12)
    assert 0.1 < taken.double().mean() < 0.9
    solution = layer.solve(program)
    for found, plain in zip(solution.state, expected, strict=True):
        torch.testing.assert_close(found, plain, **CLOSE)


def test_acceleration_without_tolerance_is_fixed_drs(program, monkeypatch):
    monkeypatch.setattr(aa_drs, "TOLERATED", 0.0)
    found = AcceleratedLayer(program.A, program.cone, 12, 1.0, 0.3).solve(program)
    expected = DRSLayer(program.A, program.cone, 12, 1.0, 0.3).solve(program)
    torch.testing.assert_close(found.x, expected.x, **CLOSE)
    torch.testing.assert_close(found.s, expected.s, **CLOSE)


@pytest.mark.parametrize(
    "name", ["Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS", "Layerwise-DRS", "RCDRS-Env"]
)
@pytest.mark.parametrize("core", [(2.5, 1.0), (1.6, -1.0)])
def test_inadmissible_core_is_refused(name, core, program):
    with pytest.raises(ValueError, match="expected"):
        METHODS[name].build(program.A, program.cone, DEPTH, core)


# Learned PDHG


@given(st.lists(st.floats(-40, 40), min_size=3, max_size=3), st.floats(0.01, 100))
def test_pdhg_steps_are_stable_for_all_parameters(raw, scale):
    """``tau sigma |A|^2 <= 0.95^2``, ``theta <= 0.8``, scales clipped before they are shrunk."""
    A = scale * random_tensor(2, 4)
    layer = PDHGLayer(A, Nonneg(4), 1)
    with torch.no_grad():
        layer.steps.copy_(torch.tensor([raw], dtype=torch.float64))
    actions = layer(torch.ones(2).double(), torch.ones(4).double()).actions[0, 0]
    sigma, theta, tau = actions[0].exp().item(), actions[1].item(), actions[2].exp().item()
    norm = torch.linalg.matrix_norm(A, 2).item()
    clipped_tau, clipped_sigma = (min(max(math.exp(raw[i]), 1e-4), 10) for i in (0, 2))
    shrink = min(1.0, 0.95 / (norm * math.sqrt(clipped_tau * clipped_sigma)))
    # A handful of float64 operations.
    assert tau == pytest.approx(clipped_tau * shrink, rel=1e-12)
    assert sigma == pytest.approx(clipped_sigma * shrink, rel=1e-12)
    assert tau * sigma * norm**2 <= 0.95**2 * (1 + 1e-12)
    assert 0 <= theta <= 0.8


def test_pdhg_equals_its_recursion(program):
    layer = build("L-PDHG", program)
    solution = layer.solve(program)
    A, b, c = program.A, program.b, program.c
    direction = c / (c.norm(dim=-1, keepdim=True) + EPSILON_C)
    x, y = torch.zeros_like(c), torch.zeros_like(b)
    for log_sigma, theta, log_tau in solution.actions[0].tolist():
        point = x - math.exp(log_tau) * (direction - times(A.mT, y))
        before, x = x, program.cone.project(point)
        y = y + math.exp(log_sigma) * (b - times(A, x + theta * (x - before)))
    torch.testing.assert_close(solution.x, x, **CLOSE)
    torch.testing.assert_close(solution.y, y * (c.norm(dim=-1, keepdim=True) + EPSILON_C), **CLOSE)


def test_pdhg_slack_is_dual_feasible_and_orthogonal(program):
    solution = build("L-PDHG", program).solve(program)
    assert program.cone.dual_contains(solution.s, 1e-12).all()
    products = (solution.x * solution.s).sum(-1).abs()
    sizes = solution.x.norm(dim=-1) * solution.s.norm(dim=-1)
    assert (products <= 1e-12 * (1 + sizes)).all()


def test_pdhg_converges_to_the_optimum_of_an_lp():
    solved = solved_program(cone=Nonneg(12), m=6)
    layer = PDHGLayer(solved.program.A, solved.program.cone, 1)
    with torch.no_grad():
        solution = layer.solve(solved.program, depth=4000)
    optimum = (solved.program.c * solved.x).sum(-1)
    found = (solved.program.c * solution.x).sum(-1)
    # Linear convergence leaves 3e-7 after 5000 steps.
    torch.testing.assert_close(found, optimum, rtol=1e-4, atol=1e-4)
    assert solution.primal_residual.max() < 1e-4
    assert solution.dual_residual.max() < 1e-4


# Layerwise DRS


def test_layerwise_acts_alike_on_all_instances(program):
    actions = build("Layerwise-DRS", program).solve(program).actions
    assert torch.equal(actions, actions[:1].expand_as(actions))
    assert (actions[0, 1:] - actions[0, :-1]).abs().min() > 0
