"""An instance that overflows is seen in its own values, and in no gradient."""

from __future__ import annotations

import pytest
import torch
from conftest import awake, random_tensor, solved_program

from rcdrs import ConicProgram, ControllerConfig, RCDRSLayer, State
from rcdrs.baselines.registry import METHODS
from rcdrs.cones import Box
from rcdrs.solver.readout import Readout

BATCH, BAD = 6, 2
GOOD = torch.arange(BATCH) != BAD
#: Where squares overflow, well before, and far beyond.
SIZES = {torch.float32: (1e18, 1e19, 1e30), torch.float64: (1e150, 1e155, 1e300)}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
each_dtype = pytest.mark.parametrize("dtype", SIZES, ids=str)
PROGRAM = solved_program(batch=BATCH).program


def data(dtype):
    torch.manual_seed(0)  # of the weights of a layer
    return [t.to(dtype) for t in (PROGRAM.A, PROGRAM.b, PROGRAM.c)]


def measure(layer, b, c, counted, **how):
    """What is seen of the counted instances, and the gradients of each part of it that has any."""
    inputs = [b.clone().requires_grad_(), c.clone().requires_grad_()]
    solution = layer(*inputs, **how)
    seen = (*solution.state, *solution.observation, solution.actions, *solution.readout)
    wanted = [*inputs, *layer.parameters(), *filter(is_wanted, how.values())]
    gradients = []
    for part in seen:
        if part.requires_grad:
            loss = part[counted].square().sum()
            kept = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
            gradients.append(torch.autograd.grad(loss, wanted, **kept))
    return solution, [part[counted] for part in seen], gradients


def is_wanted(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def assert_as_without(layer, b, c, spoilt_b, spoilt_c, stand_in=0, **how):
    """The others' values and all gradients are those of a batch with a good instance instead."""
    for tensor in (b, c):
        tensor[BAD] = tensor[stand_in]
    spoilt, found, gradients = measure(layer, spoilt_b, spoilt_c, GOOD, **how)
    _, expected, plain = measure(layer, b, c, GOOD, **how)
    for x, y in zip(found, expected, strict=True):
        assert torch.equal(x, y)
    for part, plain_part in zip(gradients, plain, strict=True):
        for x, y in zip(part, plain_part, strict=True):
            assert torch.equal(x, y)
        assert not any(g[BAD].any() for g in part[:2])
    return spoilt


@each_method
@each_dtype
def test_overflow_changes_no_gradient_of_the_others(method, dtype):
    A, b, c = data(dtype)
    layer = awake(method.build(A, PROGRAM.cone, 5, (1.6, 0.3)))
    for size in SIZES[dtype]:
        for place in (0, 1):
            spoilt = [b.clone(), c.clone()]
            spoilt[place][BAD] *= size
            if method.name == "L-PDHG" and size == SIZES[dtype][0]:
                continue  # overflows in its readout alone: see below
            _, seen, _ = measure(layer, *spoilt, ~GOOD)
            if all(torch.isfinite(part).all() for part in seen):
                continue  # large, and solved
            solution = assert_as_without(layer, b.clone(), c.clone(), *spoilt)
            assert not torch.isfinite(solution.readout.r_d[BAD] + solution.readout.r_p[BAD])


@pytest.mark.parametrize("encoder", ["gru", "lstm", "mlp", "schedule"])
def test_no_encoder_learns_from_an_overflow(encoder):
    A, b, c = data(torch.float32)
    layer = awake(RCDRSLayer(A, PROGRAM.cone, 5, controller=ControllerConfig(encoder=encoder)))
    spoilt = b.clone()
    spoilt[BAD] = 1e30
    assert_as_without(layer, b, c.clone(), spoilt, c)


def test_values_of_the_bad_instance_stay_and_a_loss_that_counts_it_is_not_finite():
    A, b, c = data(torch.float32)
    layer = awake(RCDRSLayer(A, PROGRAM.cone, 5))
    b[BAD] = 1e30
    with torch.no_grad():
        plain = layer(b, c)
    found = layer(b.requires_grad_(), c)
    for x, y in ((found.x, plain.x), (found.alpha, plain.alpha), (found.y, plain.y)):
        assert torch.equal(x[BAD].isnan(), y[BAD].isnan())
        assert torch.equal(x[BAD].nan_to_num(), y[BAD].nan_to_num())
    assert not torch.isfinite(found.primal_residual.mean())


def test_batch_that_is_bad_altogether_keeps_its_values():
    A, b, c = data(torch.float32)
    layer = awake(RCDRSLayer(A, PROGRAM.cone, 5))
    solution = layer(torch.full_like(b, 1e30).requires_grad_(), c)
    assert not torch.isfinite(solution.primal_residual).any()


@pytest.mark.parametrize("batched", [False, True])
def test_gradient_of_A_is_that_of_the_good_instances(batched):
    _, b, c = data(torch.float64)
    A = random_tensor(*((BATCH,) if batched else ()), *PROGRAM.A.shape)
    if batched:
        A[BAD] = A[0]
    layer = awake(RCDRSLayer(PROGRAM.A, PROGRAM.cone, 5))
    spoilt = b.clone()
    spoilt[BAD] = 1e300
    _, _, gradients = measure(layer, spoilt, c, GOOD, A=A.requires_grad_())
    b[BAD], c[BAD] = b[0], c[0]
    _, _, plain = measure(layer, b, c, GOOD, A=A)
    for part, plain_part in zip(gradients, plain, strict=True):
        # Up to the order of sums: in a sub-batch all uses of a shared A are one.
        torch.testing.assert_close(part, plain_part, rtol=1e-10, atol=1e-10)


def test_warm_start_is_replaced_with_its_instance():
    A, b, c = data(torch.float32)
    layer = awake(RCDRSLayer(A, PROGRAM.cone, 5))
    state = layer(b, c).state
    spoilt = b.clone()
    spoilt[BAD] = 1e30
    start = State(*(part.detach().clone() for part in state))
    for part in start:
        part[BAD] = part[0]
    assert_as_without(layer, b, c.clone(), spoilt, c, start=start)


def test_bounds_of_the_bad_instance_are_replaced_too():
    """A box as far as that overflows whatever b and c are."""
    _, b, c = data(torch.float32)
    lower = torch.zeros_like(c)
    lower[BAD] = 1e30
    cone = Box(lower, lower + 1)
    layer = awake(RCDRSLayer(PROGRAM.A.float(), cone, 5))
    x = layer(b.requires_grad_(), c).x
    x[GOOD].square().sum().backward()
    assert torch.isfinite(b.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)


def test_overflow_in_the_readout_alone_passes_no_gradient():
    A, b, c = data(torch.float32)
    layer = awake(METHODS["L-PDHG"].build(A, PROGRAM.cone, 5, (1.6, 0.3)))
    c[BAD] *= 1e18
    solution, seen, gradients = measure(layer, b, c, GOOD)
    assert torch.isfinite(solution.x).all()
    assert not torch.isfinite(torch.stack([part[BAD].sum() for part in solution.readout])).all()
    assert isinstance(solution.readout, Readout)
    assert all(torch.isfinite(part).all() for part in seen)
    assert all(torch.isfinite(g).all() for part in gradients for g in part)


def test_without_gradients_and_without_overflow_there_is_one_run(monkeypatch):
    """Step by step: the compiled pass runs again on the way back."""
    monkeypatch.setattr("rcdrs.layer.applies", lambda *_: False)
    A, b, c = data(torch.float32)
    layer = awake(RCDRSLayer(A, PROGRAM.cone, 5))
    calls = []
    run = layer.run
    monkeypatch.setattr(layer, "run", lambda *a: calls.append(1) or run(*a))
    assert torch.isfinite(layer(b, c).gap).all()
    with torch.no_grad():
        assert not torch.isfinite(layer(torch.full_like(b, 1e30), c).gap).any()
    assert len(calls) == 2
    bad = ConicProgram(A, torch.where(GOOD[:, None], b, 1e30), c, PROGRAM.cone)
    assert torch.equal(torch.isfinite(layer.solve(bad).gap), GOOD)
    assert len(calls) == 4
