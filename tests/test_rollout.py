"""The compiled pass: value and gradient are those of the step-by-step form, and of the paper's."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
import torch
from conftest import awake, every_cone
from torch.autograd import gradcheck

from rcdrs import ConicProgram, ControllerConfig, DRSLayer, RCDRSLayer, State
from rcdrs.cones import PSD, Box, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.controller import CONTROLS, FEATURES
from rcdrs.kernels import compiled
from rcdrs.rollout import functions, run
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.step import step

CORE = (1.5, 0.7)
#: Of float64, where the two forms round differently along a few steps.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
#: The same of float32.
NEAR = {"rtol": 2e-3, "atol": 2e-4}
ENCODERS = ("gru", "lstm", "mlp", "direct", "schedule")
CONES = {
    "nonneg": Nonneg(9),
    "second order": SecondOrder(4, 3),
    "rotated": RotatedSecondOrder(3, 4),
    "PSD": PSD(3, 2),
    "box": Box(torch.full((8,), -0.5).double(), torch.full((8,), 1.0).double()),
    "all": every_cone(),
    "nested": Product([Product([Nonneg(3), PSD(2)]), SecondOrder(3)]),
}


def problem(cone, m, batch=5, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    A, x = torch.randn(m, cone.dim, generator=g).double(), torch.randn(batch, cone.dim, generator=g)
    b = cone.project(x.double()) @ A.mT
    c = torch.randn(batch, cone.dim, generator=g).double()
    return A.to(dtype), b.to(dtype), c.to(dtype)


def everything(layer, b, c, **options):
    """All that a solution has, and the gradient of a fixed combination of it."""
    b, c = (t.clone().requires_grad_() for t in (b, c))
    solution = layer(b, c, **options)
    readout = solution.readout
    parts = [*solution.state, solution.actions, *solution.observation, *readout]
    g = torch.Generator().manual_seed(1)
    total = sum((torch.randn(t.shape, generator=g).to(t) * t).sum() for t in parts)
    weights = [p for p in layer.parameters() if p.requires_grad]
    starts = [t for t in options.get("start") or () if t.requires_grad]
    return [t.detach() for t in parts], torch.autograd.grad(
        total, [b, c, *starts, *weights], allow_unused=True, materialize_grads=True
    )


@pytest.fixture
def stepwise(monkeypatch):
    """A function that switches the compiled pass off."""

    def switch(off=True):
        monkeypatch.setattr("rcdrs.layer.applies", lambda *_: not off and applies(*_))

    applies = run.applies
    return switch


def assert_same(stepwise, layer, b, c, close=CLOSE, **options):
    assert (
        layer.run_compiled(ConicProgram(layer.A, b, c, layer.cone), layer.depth, None) is not None
    ), "the compiled pass does not apply"
    found, gradients = everything(layer, b, c, **options)
    stepwise()
    expected, expected_gradients = everything(layer, b, c, **options)
    stepwise(off=False)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **close)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        scale = 1 + theirs.abs().max()
        torch.testing.assert_close(ours / scale, theirs / scale, **close)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("cone", CONES.values(), ids=CONES.keys())
@pytest.mark.parametrize("thin", [False, True], ids=["wide", "thin kernel"])
def test_every_encoder_and_cone(stepwise, encoder, cone, thin):
    m = cone.dim - 2 if thin else cone.dim // 2
    A, b, c = problem(cone, m)
    layer = awake(RCDRSLayer(A, cone, 4, CORE, ControllerConfig(encoder=encoder, hidden=5)))
    assert_same(stepwise, layer, b, c)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_float32(stepwise, encoder):
    A, b, c = problem(every_cone(), 10, 20, torch.float32)
    layer = awake(RCDRSLayer(A, every_cone(), 4, CORE, ControllerConfig(encoder=encoder)))
    assert_same(stepwise, layer, b, c, NEAR)


@pytest.mark.parametrize("left_out", FEATURES)
def test_without_a_feature_and_with_it_alone(stepwise, left_out):
    A, b, c = problem(every_cone(), 10)
    for kept in (tuple(f for f in FEATURES if f != left_out), (left_out,)):
        for encoder in ("gru", "direct"):
            config = ControllerConfig(encoder, 4, features=kept, scheduled=encoder == "direct")
            assert_same(stepwise, awake(RCDRSLayer(A, every_cone(), 3, CORE, config)), b, c)


@pytest.mark.parametrize(
    "controls", [(), *((c,) for c in CONTROLS), CONTROLS[1:], CONTROLS], ids=str
)
@pytest.mark.parametrize("changes", [{}, {"envelope": None}, {"growth": None}], ids=str)
def test_controls_and_safeguards(stepwise, controls, changes):
    A, b, c = problem(every_cone(), 10)
    config = ControllerConfig(hidden=4, controls=controls, **changes)
    assert_same(stepwise, awake(RCDRSLayer(A, every_cone(), 4, CORE, config)), b, c)


@pytest.mark.parametrize("period", [2, 3, 7])
@pytest.mark.parametrize("encoder", ENCODERS[:-1])
@pytest.mark.parametrize("thin", [False, True], ids=["wide", "thin kernel"])
def test_a_controller_that_looks_now_and_then(stepwise, encoder, thin, period):
    cone = every_cone()
    A, b, c = problem(cone, cone.dim - 2 if thin else cone.dim // 2)
    config = ControllerConfig(encoder, 4, scheduled=True, period=period)
    layer = awake(RCDRSLayer(A, cone, 6, CORE, config))
    assert_same(stepwise, layer, b, c)


def test_between_two_looks_a_correction_holds():
    """Without a look an untrained head has no say: then there is the schedule alone."""
    A, b, c = problem(every_cone(), 10)
    free = {"envelope": None, "growth": None}
    layer = awake(
        RCDRSLayer(
            A,
            every_cone(),
            8,
            CORE,
            ControllerConfig("direct", 4, scheduled=True, period=4, **free),
        )
    )
    raw = layer.controller.map.raw_core()
    with torch.no_grad():
        layer.controller.schedule[:] = raw
    alpha = layer(b, c).alpha.detach()
    torch.testing.assert_close(alpha[:, :3], torch.full_like(alpha[:, :3], CORE[0]))
    for first, last in ((3, 7), (7, 8)):
        held = alpha[:, first:last]
        assert bool((held == held[:, :1]).all()), "the correction changed without a look"
        assert float((held[:, 0] - CORE[0]).abs().min()) > 0


@pytest.mark.parametrize("batch", [1, 2, 16, 17, 63, 64, 65, 130])
def test_every_kind_of_tile(stepwise, batch):
    cone = Product([Nonneg(3), SecondOrder(4), PSD(3)])
    A, b, c = problem(cone, 6, batch)
    for config in (ControllerConfig(hidden=4), ControllerConfig("schedule")):
        assert_same(stepwise, awake(RCDRSLayer(A, cone, 3, CORE, config)), b, c)
    assert_same(stepwise, DRSLayer(A, cone, 3, *CORE), b, c)


@pytest.mark.parametrize("thin", [False, True], ids=["wide", "thin kernel"])
def test_warm_start_with_its_gradient(stepwise, thin):
    cone = every_cone()
    A, b, c = problem(cone, cone.dim - 2 if thin else 10)
    g = torch.Generator().manual_seed(3)
    z, u = (torch.randn(5, cone.dim, generator=g).double().requires_grad_() for _ in range(2))
    layer = awake(RCDRSLayer(A, cone, 3, CORE, ControllerConfig(hidden=4)))
    assert_same(stepwise, layer, b, c, start=State(z, z, u))


@pytest.mark.parametrize("per_instance", [False, True])
def test_quadratic_objective_and_bounds(stepwise, per_instance):
    """As in dispatch: eq. (22), with a box for each instance."""
    g = torch.Generator().manual_seed(5)
    A, b, c = problem(Nonneg(8), 4)
    shape = (5, 8) if per_instance else (8,)
    upper, Q = (torch.rand(shape, generator=g).double() for _ in range(2))
    box = Box(-upper, upper)
    layer = awake(RCDRSLayer(A, box, 4, CORE, ControllerConfig(hidden=4)))

    def all_of():
        inputs = [t.clone().requires_grad_() for t in (b, c)]
        solution = layer.solve(ConicProgram(A, *inputs, box, Q))
        parts = [*solution.state, solution.actions, *solution.observation, *solution.readout]
        total = sum(t.square().sum() for t in parts)
        return [*parts, *torch.autograd.grad(total, [*inputs, *layer.parameters()])]

    found = all_of()
    stepwise()
    for ours, theirs in zip(found, all_of(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


def test_a_rollout_is_the_papers_steps():
    """Against eq. (4) itself, with the actions that the controller chose."""
    A, b, c = problem(every_cone(), 10)
    layer = awake(RCDRSLayer(A, every_cone(), 6, CORE))
    solution = layer(b, c)
    program = ConicProgram(A, b, c, every_cone())
    state = State.zero(program)
    for k in range(6):
        state = step(program, state, solution.alpha[:, k], solution.beta[:, k])
    for ours, theirs in zip(solution.state, state, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def test_gradients_are_those_of_differences():
    A, b, c = problem(Product([Nonneg(3), SecondOrder(4)]), 4, batch=2)
    layer = awake(RCDRSLayer(A, Product([Nonneg(3), SecondOrder(4)]), 3, CORE))

    def solve(b, c, alpha, beta):
        program = ConicProgram(A, b, c, layer.cone)
        return layer(b, c).x, layer(b, c).actions, rollout(program, alpha, beta, 3).z

    inputs = [t.requires_grad_() for t in (b, c, *torch.tensor([[1.5, 1.2], [0.7, 0.4]]).double())]
    assert gradcheck(solve, inputs)


def test_bytes_are_the_same_for_any_number_of_threads():
    A, b, c = problem(every_cone(), 10, 700, torch.float32)
    layer = awake(RCDRSLayer(A, every_cone(), 4, CORE, ControllerConfig(hidden=8)))
    seen = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            solution = layer(b, c.requires_grad_())
            loss = solution.state.z.square().sum() + solution.actions.sum()
            seen.append([solution.x, *torch.autograd.grad(loss, [c, *layer.parameters()])])
        finally:
            torch.set_num_threads(1)
    for other in seen[1:]:
        assert all(torch.equal(x, y) for x, y in zip(seen[0], other, strict=True))


def test_without_gradients_memory_does_not_grow_with_depth():
    A, b, c = problem(Nonneg(40), 20, 64)
    layer = DRSLayer(A, Nonneg(40), 5, *CORE)
    peaks = []
    for depth in (5, 500):
        layer(b, c, depth=depth)
        tracemalloc.start()
        layer(b, c, depth=depth)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_frozen_controller_passes_gradients_through(stepwise):
    A, b, c = problem(every_cone(), 10)
    layer = awake(RCDRSLayer(A, every_cone(), 3, CORE)).requires_grad_(False)
    assert_same(stepwise, layer, b, c)


def test_backward_may_run_twice():
    A, b, c = problem(every_cone(), 10)
    layer = awake(RCDRSLayer(A, every_cone(), 3, CORE))
    loss = layer(b.requires_grad_(), c).x.square().sum()
    first = torch.autograd.grad(loss, [b, *layer.parameters()], retain_graph=True)
    second = torch.autograd.grad(loss, [b, *layer.parameters()])
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_an_instance_has_the_same_bytes_beside_any_other():
    A, b, c = problem(every_cone(), 10, 40, torch.float32)
    layer = awake(RCDRSLayer(A, every_cone(), 5, CORE))
    usual = layer(b, c).x
    other = b.clone()
    other[3], other[17] = 1e30, torch.randn(10)
    kept = torch.ones(40, dtype=torch.bool)
    kept[[3, 17]] = False
    assert torch.equal(layer(other, c).x[kept], usual[kept])


def test_hooks_and_modules_of_ones_own_are_called():
    A, b, c = problem(Nonneg(6), 3)
    layer = awake(RCDRSLayer(A, Nonneg(6), 3, CORE))
    calls = []
    handle = layer.controller.head.register_forward_hook(lambda *_: calls.append(1))
    with_hook = layer(b, c).x
    handle.remove()
    assert len(calls) == 3
    torch.testing.assert_close(layer(b, c).x, with_hook, **CLOSE)

    class Silent(type(layer.controller.encoder)):
        def forward(self, phi, memory):
            return torch.zeros_like(super().forward(phi, memory)[0]), None

    own = Silent(len(FEATURES), 64).double()
    layer.controller.encoder = own
    assert not torch.equal(layer(b, c).x, with_hook)


def test_an_encoder_or_weight_put_in_its_place_is_used(stepwise):
    A, b, c = problem(Nonneg(6), 3)
    layer = awake(RCDRSLayer(A, Nonneg(6), 3, CORE))
    layer(b, c)
    layer.controller.encoder = type(layer.controller.encoder)(len(FEATURES), 64).double()
    layer.controller.head.first.weight = torch.nn.Parameter(torch.randn(64, 64).double())
    assert_same(stepwise, layer, b, c)


def test_a_layer_that_nobody_has_is_gone():
    A, b, c = problem(Nonneg(6), 3)
    layer = awake(RCDRSLayer(A, Nonneg(6), 3, CORE))
    layer(b, c)
    seen = [weakref.ref(part) for part in (layer, layer.controller, layer.A, layer.affine)]
    del layer
    gc.collect()
    assert [part() for part in seen] == [None] * 4


def test_where_nothing_can_be_compiled_one_warning_and_the_same_results(monkeypatch):
    A, b, c = problem(every_cone(), 10)
    layer = awake(RCDRSLayer(A, every_cone(), 4, CORE))
    usual = layer(b, c).x
    run.works.cache_clear()

    def fails(*_):
        raise OSError("no folder can be written to")

    monkeypatch.setattr(run, "_smallest", fails)
    try:
        with pytest.warns(RuntimeWarning, match="run step by step .* no folder can be written to"):
            found = layer(b, c).x
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            layer(b, c)
    finally:
        run.works.cache_clear()
    torch.testing.assert_close(found, usual, **CLOSE)


def test_where_nothing_can_be_kept_there_is_a_warning(monkeypatch):
    assert run.is_kept()
    run.works.cache_clear()
    monkeypatch.setattr(run, "is_kept", lambda: False)
    try:
        with pytest.warns(RuntimeWarning, match="every process compiles it again: .*NUMBA_CACHE"):
            assert run.works(torch.float64, False)
    finally:
        run.works.cache_clear()


def test_somebody_who_waits_for_the_compiler_is_told(monkeypatch, capsys):
    run.works.cache_clear()
    monkeypatch.setattr(run, "PATIENCE", 0.01)
    monkeypatch.setattr(run, "_smallest", lambda *_: __import__("time").sleep(0.2))
    try:
        assert run.works(torch.float32, False)
    finally:
        run.works.cache_clear()
    assert "compiling its solver for this machine, once" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "log", "log1p", "asinh", "sigmoid"])
def test_elementary_functions(name, dtype):
    """Good to four roundings on their range, and a NaN stays one."""
    function = getattr(functions, name)

    @compiled
    def over_all(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    exact = {
        "exp": np.exp, "log": np.log, "log1p": np.log1p, "asinh": np.arcsinh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    }[name]  # fmt: skip
    size = np.exp(np.random.default_rng(0).uniform(-12, 12, 5000))
    signed = np.concatenate([size, -size]).clip(-60, 60)
    x = (size if name in ("log", "log1p") else signed).astype(dtype)
    out = np.empty_like(x)
    over_all(x, out)
    expected = exact(x.astype(np.float64))
    error = np.abs(out - expected) / np.abs(expected)
    # log near 1 is small: its error is one of the argument
    error = np.abs(out - expected) / np.maximum(np.abs(expected), 0.1) if name == "log" else error
    assert error.max() < 4 * np.finfo(dtype).eps
    over_all(np.full(3, np.nan, dtype), out[:3])
    assert np.isnan(out[:3]).all()
