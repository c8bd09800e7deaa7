"""The statements of "Theoretical Analysis" and of the supplement, checked on rollouts.

The operator T_{alpha,beta} is written here from its resolvents, independently of the package's
step.  Checks whose success might be an accident also run on a broken variant, and must fail.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from conftest import random_tensor, solved_program, times
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rcdrs.rollout.fixed import rollout
from rcdrs.solver.fused import EPSILON_C
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import readout
from rcdrs.solver.step import State, step

seeds = st.integers(0, 10**6)
alphas = st.floats(0.05, 1.95)
betas = st.floats(-2, 2).map(lambda x: 10**x)
# Of float64: some hundred roundings of numbers of size 1.
ROUNDING = 1e-12


class Operator:
    """T_{alpha,beta} = (1 - alpha) I + alpha (I + R_f R_g) / 2 from the resolvents of f and g."""

    def __init__(self, program: ConicProgram, project=None) -> None:
        self.A, self.b = program.A, program.b
        self.inverse = torch.linalg.pinv(program.A)
        self.direction = program.c / (norm(program.c).unsqueeze(-1) + EPSILON_C)
        self.J_g = project or program.cone.project

    def J_f(self, v, beta):
        """Lemma beta_resolvent: Proj_A(v - beta cbar)."""
        w = v - beta * self.direction
        return w - times(self.inverse, times(self.A, w) - self.b)

    def R_g(self, v):
        return 2 * self.J_g(v) - v

    def R_f(self, v, beta):
        return 2 * self.J_f(v, beta) - v

    def N(self, v, beta):
        return self.R_f(self.R_g(v), beta)

    def __call__(self, v, alpha, beta):
        return (1 - alpha) * v + alpha * (v + self.N(v, beta)) / 2


def norm(x):
    return torch.linalg.vector_norm(x, dim=-1)


def kappa(program, beta):
    return beta / (norm(program.c).unsqueeze(-1) + EPSILON_C)


def fixed_point(solved, beta):
    """v* = x* - kappa s*, the fixed point that belongs to the known solution."""
    return solved.x - kappa(solved.program, beta) * solved.s


def stretched(program):
    """No projection: the nearest point of the cone, stretched."""
    return lambda v: 1.5 * program.cone.project(v)


def infeasible(solved):
    """The same with a row that asks a nonnegative coordinate for -1: T has no fixed point."""
    A, b = solved.program.A.clone(), solved.program.b.clone()
    A[0], b[:, 0] = 0, -1
    A[0, 0] = 1
    return solved._replace(program=ConicProgram(A, b, solved.program.c, solved.program.cone))


def trajectory(operator, v, alpha, beta, depth):
    """v^0, ..., v^depth."""
    states = [v]
    for _ in range(depth):
        states.append(operator(states[-1], alpha, beta))
    return torch.stack(states)


# Fixed blocks


def follows_operator(advance, program, alpha, beta):
    """Does `advance` of (z, u) move v = z + u by T and keep z = J_g(v), five times over?"""
    T = Operator(program)
    v = random_tensor(program.batch, program.c.shape[1], seed=5)
    z = T.J_g(v)
    state = State(z, z, v - z)
    for _ in range(5):
        v = T(v, alpha, beta)
        state = advance(program, state, alpha, beta)
        shadow = state.z + state.u
        if not norm(shadow - v).max() <= ROUNDING * (1 + norm(v).max()):
            return False
        if not norm(state.z - T.J_g(v)).max() <= ROUNDING * (1 + norm(v).max()):
            return False
    return True


@given(seeds, alphas, betas)
def test_state_form_realises_the_operator(seed, alpha, beta):
    """Lemma state_form_realization; Proposition fixed_block_interpretation, item 2."""
    program = solved_program(seed).program
    assert follows_operator(step, program, alpha, beta)
    assert follows_operator(lambda *x: rollout(*x[:1], *x[2:], 1, x[1]), program, alpha, beta)


def test_a_wrong_step_does_not_realise_the_operator():
    program = solved_program().program

    def sign_of_u(program, state, alpha, beta):
        x, z, u = step(program, state, alpha, beta)
        return State(x, z, -u)

    def sign_of_beta(program, state, alpha, beta):
        flipped = ConicProgram(program.A, program.b, -program.c, program.cone)
        return step(flipped, state, alpha, beta)

    assert not follows_operator(sign_of_u, program, 1.3, 0.5)
    assert not follows_operator(sign_of_beta, program, 1.3, 0.5)


@given(seeds, betas)
def test_resolvents_solve_their_minimisations(seed, beta):
    """Lemma beta_resolvent: J_f(v) minimises beta cbar'x + |x - v|^2/2 over A x = b."""
    program = solved_program(seed).program
    T = Operator(program)
    v = random_tensor(4, 28, seed=seed)
    x = T.J_f(v, beta)
    scale = 1 + norm(v).max() + beta
    assert norm(times(program.A, x) - program.b).max() <= 1e-10 * scale  # condition below 100
    null = torch.eye(28, dtype=torch.float64) - T.inverse @ program.A
    gradient = beta * T.direction + x - v
    assert norm(times(null, gradient)).max() <= 1e-10 * scale  # as above


def averaged_excess(T, v, w, alpha, beta, a):
    """|Tv - Tw|^2 + (1-a)/a |(I-T)v - (I-T)w|^2 - |v - w|^2: not positive iff a-averaged."""
    moved = T(v, alpha, beta) - T(w, alpha, beta)
    return norm(moved) ** 2 + (1 - a) / a * norm(v - w - moved) ** 2 - norm(v - w) ** 2


def random_pair(seed, spread=3):
    v = spread * random_tensor(4, 28, seed=seed)
    return v, v + 10 ** random_tensor(4, 1, seed=seed + 1) * random_tensor(4, 28, seed=seed + 2)


@given(seeds, alphas, betas)
def test_fixed_block_is_averaged(seed, alpha, beta):
    """Proposition "Averagedness": T_{alpha,beta} is alpha/2-averaged."""
    v, w = random_pair(seed)
    T = Operator(solved_program(seed).program)
    excess = averaged_excess(T, v, w, alpha, beta, alpha / 2)
    # Cancellation in squares, enlarged by 1/alpha.
    size = norm(v) ** 2 + norm(w) ** 2 + beta**2
    assert (excess <= ROUNDING * size / alpha).all()


def test_averagedness_is_sharp_and_needs_a_projection():
    program = solved_program().program
    v, w = random_pair(0, spread=0.1)
    smaller = averaged_excess(Operator(program), v, w, 1.5, 0.5, 0.9 * 1.5 / 2)
    assert smaller.max() > 1e-3
    broken = averaged_excess(Operator(program, stretched(program)), v, w, 1.5, 0.5, 1.5 / 2)
    assert broken.max() > 1e-3


@given(seeds, alphas, betas)
def test_fixed_block_is_nonexpansive(seed, alpha, beta):
    """Proposition fixed_block_interpretation, item 3."""
    v, w = random_pair(seed)
    T = Operator(solved_program(seed).program)
    change = norm(T(v, alpha, beta) - T(w, alpha, beta))
    assert (change <= norm(v - w) + ROUNDING * (norm(v) + norm(w) + beta)).all()


def test_nonexpansiveness_needs_alpha_below_two():
    T = Operator(solved_program().program)
    v, w = random_pair(0, spread=0.1)
    assert (norm(T(v, 2.3, 0.5) - T(w, 2.3, 0.5)) > norm(v - w) + 1e-3).any()


@given(seeds, alphas, betas)
def test_known_solution_gives_a_fixed_point(seed, alpha, beta):
    """v* = x* - kappa s* is fixed: the converse of Proposition fixed_points_clp."""
    solved = solved_program(seed)
    T, v = Operator(solved.program), fixed_point(solved, beta)
    scale = 1 + norm(v).max() + beta
    assert norm(T(v, alpha, beta) - v).max() <= 1e-11 * scale  # condition below 100
    wrong = solved.x + kappa(solved.program, beta) * solved.s
    assert norm(T(wrong, alpha, beta) - wrong).min() > 1e-6 * alpha * beta


def within_terminal_bound(solved, T, alpha, beta, depth=300):
    """Do residual and movement keep to their bounds at every N up to `depth`?"""
    v = trajectory(T, random_tensor(4, 28, seed=9), alpha, beta, depth + 1)
    N = torch.arange(1, depth + 1).unsqueeze(-1)
    distance = norm(v[0] - fixed_point(solved, beta))
    bound = alpha / ((2 - alpha) * N) * distance**2
    allowed = bound * (1 + ROUNDING) + ROUNDING
    residual = norm(v[1:-1] - v[2:]) ** 2
    movement = norm(T.J_g(v[1:-1]) - T.J_g(v[:-2])) ** 2
    return bool((residual <= allowed).all()), bool((movement <= allowed).all())


@pytest.mark.parametrize("alpha", [0.2, 1.0, 1.8])
@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_terminal_residual_and_movement_bounds(alpha, beta):
    """Propositions finite_step_fixed_residual and movement_residual_surrogate."""
    solved = solved_program(1)
    assert within_terminal_bound(solved, Operator(solved.program), alpha, beta) == (True, True)


def test_terminal_bounds_need_a_projection_and_a_fixed_point():
    solved = solved_program(1)
    broken = Operator(solved.program, stretched(solved.program))
    assert within_terminal_bound(solved, broken, 1.0, 1.0) == (False, False)
    no_fixed_point = Operator(infeasible(solved).program)
    residual_holds, _ = within_terminal_bound(solved, no_fixed_point, 1.0, 1.0)
    assert not residual_holds


@given(seeds, alphas, betas)
def test_movement_is_below_the_fixed_point_residual(seed, alpha, beta):
    """Proposition movement_residual_surrogate, first part; and residuals never grow."""
    T = Operator(solved_program(seed).program)
    v = trajectory(T, random_tensor(4, 28, seed=seed), alpha, beta, 20)
    residual = norm(v[1:] - v[:-1])
    movement = norm(T.J_g(v[1:]) - T.J_g(v[:-1]))
    slack = ROUNDING * (1 + norm(v).max())
    assert (movement <= residual + slack).all()
    assert (residual[1:] <= residual[:-1] + slack).all()


# Safeguarded rollouts

S_ALPHA = 0.25
HORIZON = 3000


def delta(k: Tensor) -> Tensor:
    """The envelope delta_0 / (1 + (k/k_0)^p) with the paper's 2, 80 and 1.2."""
    return 2 / (1 + (k / 80) ** 1.2)


class Safeguarded(NamedTuple):
    """A long rollout in the envelope: axes are time and instance."""

    v: Tensor
    alpha: Tensor
    beta: Tensor
    residual: Tensor  # |v^k - T_inf v^k|
    epsilon: Tensor  # |T_k v^k - T_inf v^k|
    M: Tensor  # sup |T_inf v^k - v*|
    distance: Tensor  # |v^0 - v*|


BASE_ALPHA = torch.tensor([0.6, 0.9, 1.1, 1.2, 1.4, 1.45]).double().unsqueeze(-1)
BASE_BETA = torch.tensor([0.1, 0.3, 1.0, 1.0, 2.0, 0.5]).double().unsqueeze(-1)


def safeguarded(solved, project=None, horizon=HORIZON, spread=1.0) -> Safeguarded:
    """Random controls for five instances, and the largest admissible ones for the last."""
    T = Operator(solved.program, project)
    v, v_star = torch.zeros(6, 28, dtype=torch.float64), fixed_point(solved, BASE_BETA)
    generator = torch.Generator().manual_seed(3)
    q = 2 * torch.rand(horizon, 2, 6, 1, generator=generator, dtype=torch.float64) - 1
    q[:, :, -1] = 1
    q *= spread
    envelope = delta(torch.arange(horizon).double()).reshape(-1, 1, 1)
    alpha = BASE_ALPHA + S_ALPHA * envelope * q[:, 0]
    beta = BASE_BETA * torch.exp(envelope * q[:, 1])
    states, limits = [], []
    for k in range(horizon):
        states.append(v)
        reflected = T.R_g(v)
        limits.append(v + BASE_ALPHA / 2 * (T.R_f(reflected, BASE_BETA) - v))
        v = v + alpha[k] / 2 * (T.R_f(reflected, beta[k]) - v)
    states.append(v)
    v, limit = torch.stack(states), torch.stack(limits)
    return Safeguarded(
        v=v,
        alpha=alpha,
        beta=beta,
        residual=norm(v[:-1] - limit),
        epsilon=norm(v[1:] - limit),
        M=norm(limit - v_star).amax(0),
        distance=norm(v_star),
    )


@pytest.fixture(scope="module")
def rolled():
    return safeguarded(solved_program(2, batch=6))


def envelope_bounds(run: Safeguarded) -> tuple[Tensor, Tensor]:
    """The two bounds of the theorem for N = 1, ..., horizon - 1, sums over the horizon."""
    horizon = len(run.epsilon)
    N = torch.arange(1, horizon).unsqueeze(-1)
    xi = 2 * run.M * run.epsilon + run.epsilon**2
    D = run.distance**2 + xi.sum(0)
    c = ((2 - BASE_ALPHA) / BASE_ALPHA).squeeze(-1)
    tail = run.epsilon.flip(0).cumsum(0).flip(0)
    terminal = torch.sqrt(2 * D / (c * N)) + 2 * tail[N.squeeze(-1) // 2]
    return D / (c * N), terminal


def within_envelope_bounds(run: Safeguarded) -> tuple[bool, bool]:
    best, terminal = envelope_bounds(run)
    lowest = run.residual.cummin(0).values[:-1] ** 2
    slack = ROUNDING * run.v.abs().max()
    return bool((lowest <= best + slack).all()), bool((run.residual[1:] <= terminal + slack).all())


def test_controls_are_admissible(rolled):
    """The envelope keeps alpha in (0, 2) around a base in (0.5, 1.5), and beta positive."""
    assert rolled.alpha.min() > 0
    assert rolled.alpha.max() < 2
    assert rolled.beta.min() > 0


def test_envelope_bounds(rolled):
    """Theorem finite_step_envelope with D_inf and the tails measured over the horizon."""
    assert within_envelope_bounds(rolled) == (True, True)


def test_envelope_bounds_need_a_projection_and_a_fixed_point():
    solved = solved_program(2, batch=6)
    broken = safeguarded(solved, stretched(solved.program), horizon=300)
    _, terminal_holds = within_envelope_bounds(broken)
    assert not terminal_holds
    # Without perturbations, since their sum alone would exceed a residual that stays constant.
    no_fixed_point = safeguarded(infeasible(solved), horizon=300, spread=0)
    assert within_envelope_bounds(no_fixed_point) == (False, False)


def test_perturbed_descent(rolled):
    """|v^{k+1} - v*|^2 <= |v^k - v*|^2 - c_inf |v^k - T_inf v^k|^2 + xi_k, in the proof."""
    v_star = fixed_point(solved_program(2, batch=6), BASE_BETA)
    c = ((2 - BASE_ALPHA) / BASE_ALPHA).squeeze(-1)
    square = norm(rolled.v - v_star) ** 2
    xi = 2 * rolled.M * rolled.epsilon + rolled.epsilon**2
    excess = square[1:] - square[:-1] + c * rolled.residual**2 - xi
    assert excess.max() <= ROUNDING * square.max()


def lipschitz(T, radius, alpha_max, low, high):
    """L_R of the lemma's proof: max of C_R/2 and alpha_max beta_max, with

    ``C_R = 2 R + sup_beta |N_beta 0|`` and ``|N_beta 0 - N_low 0| <= 2 (high - low)``.
    """
    zero = norm(T.N(torch.zeros_like(T.direction), low.unsqueeze(-1))) + 2 * (high - low)
    return torch.maximum((2 * radius + zero) / 2, alpha_max * high)


@given(seeds, alphas, alphas, betas, betas)
def test_operator_is_locally_lipschitz(seed, alpha, other_alpha, beta, other_beta):
    """Lemma local_lipschitz_alpha_beta with the constant of its proof."""
    T = Operator(solved_program(seed).program)
    v = 3 * random_tensor(4, 28, seed=seed)
    low, high = (torch.full((4,), f(beta, other_beta), dtype=torch.float64) for f in (min, max))
    L = lipschitz(T, norm(v), max(alpha, other_alpha), low, high)
    change = norm(T(v, alpha, beta) - T(v, other_alpha, other_beta))
    apart = abs(alpha - other_alpha) + (high.log() - low.log())
    assert (change <= L * apart + ROUNDING * (norm(v) + high)).all()


def test_perturbations_are_of_the_order_of_the_envelope(rolled):
    """Lemma summable_perturbation: epsilon_k <= L_R (s_alpha + 1) delta_k on the trajectory."""
    T = Operator(solved_program(2, batch=6).program)
    k = torch.arange(HORIZON).double().unsqueeze(-1)
    low, high = ((BASE_BETA * torch.exp(torch.tensor(x))).squeeze(-1) for x in (-2.0, 2.0))
    L = lipschitz(T, norm(rolled.v).amax(0), 2.0, low, high)
    assert (rolled.epsilon <= L * (S_ALPHA + 1) * delta(k) + ROUNDING).all()


def test_residual_vanishes_in_the_envelope(rolled):
    """Corollary envelope_residual_convergence: the residual follows delta_k to zero."""
    windows = rolled.residual.reshape(10, -1, 6).amax(1)
    # delta_k is 2 at the start, 0.2 at k = 600 and 0.03 at k = 2700, where the last one begins.
    assert (windows[-1] <= 0.05 * windows[0]).all()
    assert (windows[-1] <= 0.5 * windows[2]).all()


def test_residual_stays_without_the_envelope():
    """The corollary needs delta_k -> 0: a control that alternates for ever keeps moving v."""
    solved = solved_program(2)
    T = Operator(solved.program)
    v = torch.zeros(4, 28, dtype=torch.float64)
    for k in range(400):
        v = T(v, 1.2, (0.1, 2.0)[k % 2])
    assert norm(v - T(v, 1.2, 0.45)).min() > 0.05


# Terminal readout


def readout_properties(program, depth, change=lambda z, u: u):
    """Is the slack in the dual cone, and orthogonal to z?"""
    state = rollout(program, 1.5, 0.7, depth)
    s = readout(program, state.z, change(state.z, state.u), 0.7).s
    size = 1 + norm(state.z) * norm(s)
    orthogonal = ((state.z * s).sum(-1).abs() <= ROUNDING * size).all()
    return bool(program.cone.dual_contains(s, tol=1e-11).all()), bool(orthogonal)


@given(seeds, st.integers(1, 30))
def test_slack_is_dual_feasible_and_orthogonal(seed, depth):
    """Proposition cone_side_dual_slack, at every depth."""
    assert readout_properties(solved_program(seed).program, depth) == (True, True)


def test_slack_of_another_u_is_neither_dual_feasible_nor_orthogonal():
    """The proposition rests on u = v - Proj_K(v), with this sign."""
    program = solved_program().program
    assert readout_properties(program, 5, lambda z, u: -u) == (False, True)
    assert readout_properties(program, 5, lambda z, u: u + 0.1 * z) == (False, False)


@given(seeds, st.integers(1, 30))
def test_multiplier_is_the_least_squares_fit(seed, depth):
    """Proposition least_squares_dual_recovery: the normal equations, and no better lambda."""
    program = solved_program(seed).program
    state = rollout(program, 1.5, 0.7, depth)
    found = readout(program, state.z, state.u, 0.7)

    def misfit(y):
        return times(program.A.mT, y) + found.s - program.c

    scale = 1 + norm(found.s).max()
    assert norm(times(program.A, misfit(found.y))).max() <= 1e-10 * scale  # condition below 100
    for factor in (0.9, 1.1):
        assert (norm(misfit(factor * found.y)) > norm(misfit(found.y))).all()


def optimality(program, z, s, y):
    """The largest violation of the KKT conditions, per instance."""
    gap = (program.c * z).sum(-1) - (program.b * y).sum(-1)
    violations = (
        norm(times(program.A, z) - program.b),
        norm(times(program.A.mT, y) + s - program.c),
        norm(z - program.cone.project(z)),
        norm(program.cone.project(-s)),
        gap.abs(),
    )
    return torch.stack(violations).amax(0)


LONG = 1500


def some(reached):
    """The instances where a limit was reached; at least half, for the test to mean anything.

    The others converge more slowly, as nearly degenerate programs on curved cones may.
    """
    assert reached.double().mean() >= 0.5
    return reached


def test_fixed_points_are_optima():
    """Proposition fixed_points_clp, for fixed points reached from an arbitrary start."""
    solved = solved_program(batch=16, m=18)
    program, beta = solved.program, 1.0
    T = Operator(program)
    v = trajectory(T, random_tensor(16, 28, seed=8), 1.5, beta, LONG)[-1]
    reached = some(norm(v - T(v, 1.5, beta)) <= 1e-10)
    z = T.J_g(v)
    x = T.J_f(T.R_g(v), beta)
    s = -(v - z) / kappa(program, beta)
    y = times(T.inverse.mT, program.c - s)
    # 1e-10 times 1/kappa and the condition of A, each below 100.
    assert norm(x - z)[reached].max() <= 1e-10
    assert optimality(program, z, s, y)[reached].max() <= 1e-6
    assert optimality(program, z, -s, y)[reached].min() > 1e-2
    assert optimality(program, 1.1 * z, s, y)[reached].min() > 1e-2


def test_solution_set_does_not_depend_on_beta():
    """Proposition solution_preservation: every beta leads to the optimal value c'x*."""
    program, x, _, _ = solved_program(batch=16, m=18)
    optimum = (program.c * x).sum(-1)
    for beta in (0.5, 10.0):
        state = rollout(program, 1.5, beta, LONG)
        reached = some(norm(state.x - state.z) <= 1e-9)
        found = (program.c * state.z).sum(-1)
        # The gap of x and z times |lambda| and the distance left, each below 100.
        torch.testing.assert_close(found[reached], optimum[reached], rtol=0, atol=1e-5)
    flipped = ConicProgram(program.A, program.b, -program.c, program.cone)
    other = (program.c * rollout(flipped, 1.5, 0.5, 200).z).sum(-1)
    # A few of the feasible sets are nearly single points.
    assert (other - optimum).abs().median() > 0.1


def test_vanishing_residuals_give_an_optimum():
    """Theorem terminal_primal_dual_certificate: where r_p, r_d, r_gap -> 0 with the depth."""
    program, x, _, _ = solved_program(batch=16, m=18)
    state, found = None, []
    for depth in (10, 90, LONG - 100):
        state = rollout(program, 1.5, 1.0, depth, start=state)
        found.append(readout(program, state.z, state.u, 1.0))
    worst = torch.stack([torch.stack([r.r_p, r.r_d, r.r_gap]).amax(0) for r in found])
    vanished = some(worst[-1] <= 1e-10)
    assert (worst[1:] < worst[:-1])[:, vanished].all()
    z = state.z
    error = (program.c * z).sum(-1) - (program.c * x).sum(-1)
    # 1e-10 times the sizes of b, c and lambda that the residuals are relative to.
    assert error[vanished].abs().max() <= 1e-7
    assert optimality(program, z, found[-1].s, found[-1].y)[vanished].max() <= 1e-7


# Terminal losses

WEIGHTS = {"eq": 1.0, "con": 0.5, "mov": 0.2, "obj": 2.0}


def terminal(program, controls):
    """(x^K, z^K, z^{K-1}) of a rollout with the given (alpha_k, beta_k)."""
    state = State.zero(program)
    for alpha, beta in controls:
        previous, state = state, step(program, state, alpha, beta)
    return state.x, state.z, previous.z


def merit(program, x, z, previous):
    """lambda_eq L_eq + lambda_con L_con + lambda_mov L_mov of eq. in "Loss definitions"."""
    size = (1 + norm(z)) ** 2
    return (
        WEIGHTS["eq"] * norm(times(program.A, z) - program.b) ** 2 / (1 + norm(program.b)) ** 2
        + WEIGHTS["con"] * norm(x - z) ** 2 / size
        + WEIGHTS["mov"] * norm(z - previous) ** 2 / size
    )


def two_rollouts(seed, depth):
    """Solved programs, the terminal state under random controls and under fixed ones."""
    solved = solved_program(seed, batch=16)
    q = 2 * torch.rand(depth, 2, generator=torch.Generator().manual_seed(seed)) - 1
    controls = [(1.2 + 0.5 * a, 10**b) for a, b in q.tolist()]
    return (
        solved,
        terminal(solved.program, controls),
        terminal(solved.program, [(1.2, 1.0)] * depth),
    )


def objective_loss(program, z, base):
    reference = (program.c * base).sum(-1)
    return (((program.c * z).sum(-1) - reference) / (1 + reference.abs())).clamp(min=0)


@given(seeds, st.integers(1, 15))
def test_objective_bound_relative_to_the_baseline(seed, depth):
    """Proposition finite_step_objective_bound."""
    solved, (_, z, _), (_, base, _) = two_rollouts(seed, depth)
    program = solved.program
    optimum = (program.c * solved.x).sum(-1)
    value, reference = ((program.c * x).sum(-1) for x in (z, base))
    loss = objective_loss(program, z, base)
    bound = (reference - optimum).clamp(min=0) + (1 + reference.abs()) * loss
    assert ((value - optimum).clamp(min=0) <= bound + ROUNDING * (1 + value.abs())).all()


def test_objective_bound_fails_with_the_roles_exchanged():
    solved, (_, z, _), (_, base, _) = two_rollouts(1, 10)
    program = solved.program
    optimum = (program.c * solved.x).sum(-1)
    value, reference = ((program.c * x).sum(-1) for x in (z, base))
    wrong = objective_loss(program, base, z)
    bound = (reference - optimum).clamp(min=0) + (1 + reference.abs()) * wrong
    assert ((value - optimum).clamp(min=0) > bound + 1e-6).any()


@given(seeds, st.integers(1, 15), st.floats(0, 1))
def test_dominance_penalty_controls_the_merit(seed, depth, margin):
    """Proposition finite_depth_dominance, per instance and on average."""
    solved, controlled, base = two_rollouts(seed, depth)
    program = solved.program
    reference = merit(program, *base)
    ours = merit(program, *controlled) + WEIGHTS["obj"] * objective_loss(
        program, controlled[1], base[1]
    )
    penalty = (ours - reference + margin).clamp(min=0)
    slack = ROUNDING * (1 + ours.max())
    assert (ours <= reference - margin + penalty + slack).all()
    assert ours.mean() <= reference.mean() - margin + penalty.mean() + slack
    # The bound is attained where the penalty is active; halving the penalty breaks it there.
    active = penalty > 1e-6
    assert (ours > reference - margin + penalty / 2 + slack)[active].all()
