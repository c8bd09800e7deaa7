"""The controller: what it sees, what it may do, and what it is made of."""

from __future__ import annotations

import json
import math

import pytest
import torch
from conftest import awake, random_tensor, solved_program, times
from hypothesis import given
from hypothesis import strategies as st

from rcdrs import ConicProgram, ControllerConfig, DRSLayer, RCDRSLayer, State
from rcdrs.cones import Nonneg
from rcdrs.controller import CONTROLS, FEATURES, RESIDUAL, TIME, Envelope, Growth, Ranges
from rcdrs.solver.step import step

CORE = (1.6, 0.3)
DEPTH = 5
ENCODERS = ["gru", "lstm", "mlp", "schedule"]
# Tens of well-scaled float64 operations, in another order.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}
# A few float64 operations on numbers up to 20.
ROUNDING = 1e-13


@pytest.fixture(scope="module")
def program():
    return solved_program().program


def untrained(program, depth=DEPTH, **config):
    torch.manual_seed(0)
    return RCDRSLayer(program.A, program.cone, depth, CORE, ControllerConfig(**config))


def controlled(program, depth=DEPTH, **config):
    return awake(untrained(program, depth, **config))


# Features


def defined_features(program, actions, core):
    """The paper's ten numbers for each step, from states of the paper-form step: (K, batch, 10)."""
    b, c, K = program.b, program.c, actions.shape[1]
    states, rows = [State.zero(program)], []
    for action in actions.unbind(1):
        states.append(step(program, states[-1], action[:, 1], action[:, 2].exp()))

    def norm(x):
        return x.norm(dim=-1)

    def objective(state):
        return (c * state.z).sum(-1)

    for k, state in enumerate(states[:-1]):
        before = states[max(k - 1, 0)]
        previous = actions[:, k - 1] if k else core.expand(program.batch, 3)
        rows.append(
            [
                torch.log(1 + norm(state.x - state.z) / (1 + norm(state.z))),
                torch.log(1 + norm(times(program.A, state.z) - b) / (1 + norm(b))),
                torch.log(1 + norm(state.z - before.z) / (1 + norm(state.z))),
                torch.log(1 + objective(state).abs() / (1 + norm(c) * norm(state.z))),
                torch.asinh((objective(state) - objective(before)) / (1 + objective(before).abs())),
                previous[:, 0] - core[0],
                previous[:, 1],
                previous[:, 2] - core[2],
                torch.full_like(c[:, 0], k / K),
                torch.full_like(c[:, 0], (K - k) / K),
            ]
        )
    return torch.stack([torch.stack(row, dim=-1) for row in rows])


@pytest.mark.parametrize("kept", [FEATURES, RESIDUAL, ("left", "con", "beta")], ids=len)
@pytest.mark.parametrize("shared", [True, False], ids=["shared A", "A per instance"])
def test_features_equal_their_definitions(kept, shared):
    """Section "Controller feature construction", and any subset in its own order."""
    program = solved_program(shared=shared).program
    layer = controlled(solved_program().program, features=kept)
    fed = []
    layer.controller.encoder.register_forward_pre_hook(lambda _, given: fed.append(given[0]))
    solution = layer(program.b, program.c, A=program.A)
    core = torch.tensor([0.0, CORE[0], math.log(CORE[1])], dtype=torch.float64)
    expected = defined_features(program, solution.actions, core)
    columns = [FEATURES.index(name) for name in kept]
    torch.testing.assert_close(torch.stack(fed), expected[..., columns], **CLOSE)


# Actions


def raw_layer(raw, **config):
    """A layer whose raw coordinates at step k are `raw[k]`, on a program in three variables."""
    layer = RCDRSLayer(
        torch.ones(1, 3).double(),
        Nonneg(3),
        len(raw),
        CORE,
        ControllerConfig(encoder="schedule", **config),
    )
    with torch.no_grad():
        layer.controller.schedule.copy_(torch.tensor(raw, dtype=torch.float64))
    return layer


def solved_by(layer):
    return layer(torch.ones(1).double(), torch.ones(3).double())


def actions_of(raw, **config):
    return solved_by(raw_layer(raw, **config)).actions[0].tolist()


def defined_actions(raw, envelope, growth):
    """The paper's maps, number by number."""
    core = (0.0, CORE[0], math.log(CORE[1]))
    low = (math.log(1e-4), 0.2, math.log(1e-5))
    high = (math.log(1e4), 1.9, math.log(1e2))
    previous, out = core, []
    for k, row in enumerate(raw):
        action = []
        for i, r in enumerate(row):
            if envelope:
                delta = 2.0 / (1 + (k / 80) ** 1.2)
                value = core[i] + (0.25 if i == 1 else 1.0) * delta * math.tanh(r)
            else:
                # The sigmoid, without overflow at -1e6.
                value = low[i] + (high[i] - low[i]) * (1 + math.tanh(r / 2)) / 2
            if growth and i != 1:
                last = previous[i]
                value = min(max(value, last - math.log(10)), last + math.log(10))
            action.append(min(max(value, low[i]), high[i]))
        out.append(action)
        previous = action
    return out


number = st.one_of(st.floats(-3, 3, width=32), st.floats(-1e6, 1e6, width=32))
schedules = st.lists(st.tuples(number, number, number), min_size=1, max_size=4)
safeguards = st.tuples(st.booleans(), st.booleans())


def chosen(safeguards):
    envelope, growth = safeguards
    return {"envelope": Envelope() if envelope else None, "growth": Growth() if growth else None}


@given(schedules, safeguards)
def test_actions_equal_the_formulas_of_the_paper(raw, safeguards):
    """Sigmoid map, envelope, cut to the global ranges and growth filter."""
    expected = torch.tensor(defined_actions(raw, *safeguards))
    found = torch.tensor(actions_of(raw, **chosen(safeguards)))
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING)


@given(schedules, safeguards)
def test_actions_are_admissible_whatever_the_raw_numbers(raw, safeguards):
    previous = (0.0, None, math.log(CORE[1]))
    for log_rho, alpha, log_beta in actions_of(raw, **chosen(safeguards)):
        assert abs(log_rho) <= math.log(1e4) + ROUNDING
        assert 0.2 - ROUNDING <= alpha <= 1.9 + ROUNDING
        assert math.log(1e-5) - ROUNDING <= log_beta <= math.log(1e2) + ROUNDING
        if safeguards[1]:
            assert abs(log_rho - previous[0]) <= math.log(10) + ROUNDING
            assert abs(log_beta - previous[2]) <= math.log(10) + ROUNDING
        previous = (log_rho, alpha, log_beta)


def test_envelope_shrinks_to_the_core():
    radii = [Envelope().radius(k) for k in (0, 80, 10**6)]
    assert radii == [2.0, 1.0, pytest.approx(2 * (10**6 / 80) ** -1.2, rel=1e-4)]
    far = actions_of([(1e6, -1e6, 1e6)] * 200)
    for k in (1, 100, 199):
        radius = 2 / (1 + (k / 80) ** 1.2)
        expected = [radius, 1.6 - 0.25 * radius, math.log(0.3) + radius]
        assert far[k] == pytest.approx(expected, abs=ROUNDING)


def test_narrower_ranges_bind():
    ranges = Ranges(rho=(0.5, 2.0), alpha=(1.2, 1.7), beta=(0.1, 1.0))
    for sign, bounds in ((-1, (0.5, 1.2, 0.1)), (1, (2.0, 1.7, 1.0))):
        log_rho, alpha, log_beta = actions_of([(sign * 1e6,) * 3], ranges=ranges)[0]
        found = (math.exp(log_rho), alpha, math.exp(log_beta))
        assert found == pytest.approx(bounds, rel=ROUNDING)


@pytest.mark.parametrize("controls", [(), ("alpha",), ("beta",), ("alpha", "beta"), CONTROLS])
def test_variables_out_of_control_stay_at_the_core(program, controls):
    solution = controlled(program, controls=controls).solve(program)
    plain = DRSLayer(program.A, program.cone, DEPTH, *CORE).solve(program)
    for i, name in enumerate(CONTROLS):
        moved = (solution.actions[..., i] - plain.actions[..., i]).abs() > ROUNDING
        assert moved.all() if name in controls else not moved.any()
    if not controls:
        torch.testing.assert_close(solution.x, plain.x, **CLOSE)


def test_rho_does_not_enter_the_transition():
    raw = random_tensor(4, 3).tolist()
    other = [(-r, a, b) for r, a, b in raw]
    first, second = (solved_by(raw_layer(rows)) for rows in (raw, other))
    assert (first.actions[..., 0] - second.actions[..., 0]).abs().min() > 0.1
    assert torch.equal(first.actions[..., 1:], second.actions[..., 1:])
    assert torch.equal(first.x, second.x)


# Encoders


@pytest.mark.parametrize("envelope", [Envelope(), None], ids=["Env", "NoEnv"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_starts_at_the_core(program, encoder, envelope):
    solution = untrained(program, encoder=encoder, envelope=envelope).solve(program)
    # Weights begin in float32, and without envelope the sigmoid spans 16 in log beta.
    assert (solution.alpha - CORE[0]).abs().max() < 2e-6
    assert (solution.beta - CORE[1]).abs().max() < 2e-6


@pytest.mark.parametrize("encoder", ENCODERS)
def test_actions_do_not_look_ahead(program, encoder):
    """Without the clock, the first three actions are the same whether two more follow or not."""
    features = tuple(name for name in FEATURES if name not in TIME)
    layer = controlled(program, encoder=encoder, features=features)
    three, five = (layer.solve(program, depth=depth).actions for depth in (3, 5))
    assert torch.equal(three, five[:, :3])
    assert (five[..., 2].diff(dim=1) != 0).all()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_actions_depend_on_the_instance_unless_scheduled(program, encoder):
    actions = controlled(program, encoder=encoder).solve(program).actions
    alike = (actions == actions[:1]).all()
    assert alike == (encoder == "schedule")


def test_actions_depend_on_the_own_instance_alone(program):
    layer = controlled(program)
    other = ConicProgram(program.A, program.b.clone(), program.c.clone(), program.cone)
    other.b[3], other.c[0] = 2 * program.b[3], -program.c[0]
    usual, changed = (layer.solve(p).actions for p in (program, other))
    assert torch.equal(usual[1:3], changed[1:3])
    assert not torch.equal(usual[[0, 3]], changed[[0, 3]])


def test_schedule_goes_on_with_its_last_action(program):
    layer = controlled(program, encoder="schedule", envelope=None)
    actions = layer.solve(program, depth=7).actions
    assert torch.equal(actions[:, 5], actions[:, 4])
    assert torch.equal(actions[:, 6], actions[:, 4])


def test_gru_is_that_of_torch():
    layer = controlled(solved_program().program, hidden=6)
    encoder = layer.controller.encoder
    torch.manual_seed(1)
    cell = torch.nn.GRUCell(10, 6).double()
    cell.load_state_dict(encoder.cell.state_dict())
    phi = random_tensor(3, 4, 10)
    outcomes = []
    for run in (lambda x, h: encoder(x, h)[1], cell):
        inputs, memory = phi.clone().requires_grad_(), None
        for x in inputs:
            memory = run(x, memory)
        weights = list(encoder.parameters() if run is not cell else cell.parameters())
        gradients = torch.autograd.grad((memory * random_tensor(4, 6)).sum(), [inputs, *weights])
        outcomes.append([memory, *gradients])
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


# Configuration


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": "transformer"}, "'transformer', expected gru, lstm, mlp, direct, schedule"),
        ({"features": ("con", "dual")}, "'dual', expected con, eq, dz, obj, dobj, rho, alpha"),
        ({"controls": ("gamma",)}, "'gamma', expected rho, alpha, beta"),
        ({"features": ()}, "features is empty, expected some of con, eq"),
    ],
)
def test_unknown_names_list_the_known_ones(change, message):
    with pytest.raises(ValueError, match=message):
        ControllerConfig(**change)


@pytest.mark.parametrize(
    "config",
    [
        ControllerConfig(),
        ControllerConfig(envelope=None, growth=None),
        ControllerConfig("mlp", 8, ("left", "con"), ("alpha",), Envelope(1.0), Growth(2.0, 3.0)),
        ControllerConfig(ranges=Ranges(beta=(0.1, 1.0))),
    ],
)
def test_configuration_survives_a_file(config):
    assert ControllerConfig.from_dict(config.to_dict()) == config
    assert ControllerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
