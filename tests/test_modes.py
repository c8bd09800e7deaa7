"""Layers under torch's modes: inference first and training after it, and autocast around them."""

from __future__ import annotations

import pytest
import torch
from conftest import awake, every_cone, solved_program

from rcdrs import ConicProgram, RCDRSLayer
from rcdrs.baselines.registry import METHODS
from rcdrs.cones import Nonneg

#: Equations few and many: the second step goes through the kernel of A.
PROGRAMS = {
    f"{m} of {cone.dim}": solved_program(m=m, cone=cone).program
    for m, cone in ((10, every_cone()), (24, Nonneg(28)))
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
each_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture
def data(program, dtype):
    return [t.to(dtype) for t in (program.A, program.b, program.c)]


def build(method, A, program):
    torch.manual_seed(0)
    return awake(method.build(A, program.cone, 4, (1.6, 0.3)))


def train(layer, b, c, inside=False, **how):
    """The loss, and the gradients in all that it depends on."""
    inputs = [b.clone().requires_grad_(), c.clone().requires_grad_()]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
        solution = layer(*inputs, **how)
        assert solution.x.dtype == solution.gap.dtype == layer.A.dtype
    loss = solution.x.square().sum() + solution.gap.sum() + solution.dual_residual.sum()
    return [loss, *torch.autograd.grad(loss, [*inputs, *layer.parameters()], allow_unused=True)]


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        assert (x is None and y is None) or torch.equal(x, y)


@each_method
@each_program
@each_dtype
def test_training_after_inference(method, program, data):
    A, b, c = data
    expected = train(build(method, A, program), b, c)
    layer = build(method, A, program)
    with torch.inference_mode():
        seen = layer(b, c).gap
    assert torch.equal(seen, layer(b, c).gap)
    assert_same(train(layer, b, c), expected)


@each_method
@each_program
@each_dtype
def test_autocast_changes_nothing(method, program, data):
    A, b, c = data
    expected = train(build(method, A, program), b, c)
    assert_same(train(build(method, A, program), b, c, inside=True), expected)


A, B, C = (t.float() for t in (lambda p: (p.A, p.b, p.c))(PROGRAMS["10 of 28"]))


def test_program_of_inference_can_be_trained_on_later():
    cone = every_cone()
    program = ConicProgram(A, B, C, cone)
    layer = awake(RCDRSLayer(A, cone, 4))
    with torch.inference_mode():
        layer.solve(program)
    layer.solve(program).gap.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)


def test_what_inference_made_is_a_start_a_b_and_a_c():
    layer = awake(RCDRSLayer(A, every_cone(), 4))
    with torch.no_grad():
        start = layer(B, C).state
    expected = train(layer, B, C, start=start)
    with torch.inference_mode():
        b, c, start = B.clone(), C.clone(), layer(B, C).state
    layer(b, c).x.sum().backward()
    assert_same(train(layer, B, C, start=start), expected)


def test_matrix_of_inference_is_factored_as_it_is_now():
    """Its changes in place cannot be seen, so that nothing of it is kept."""
    layer = RCDRSLayer(A, every_cone(), 4)
    with torch.inference_mode():
        other = 2 * A
        program = ConicProgram(other, B, C, layer.cone)
        first = layer.solve(program).x
        assert torch.equal(first, layer(B, C, A=2 * A).x)
        other.mul_(2)
        assert torch.equal(layer.solve(program).x, layer(B, C, A=4 * A).x)
        built = RCDRSLayer(other, every_cone(), 4)
        assert torch.equal(built(B, C).x, layer(B, C, A=4 * A).x)


def test_predictions_of_autocast_are_taken_with_their_gradients():
    layer = awake(RCDRSLayer(A, every_cone(), 4))
    predict = torch.nn.Linear(5, layer.cone.dim)
    features = torch.ones(len(B), 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = predict(features)
        assert c.dtype is torch.bfloat16
        solution = layer(B, c)
        solution.x.square().sum().backward()  # inside, which torch does not advise
    assert torch.equal(solution.x, layer(B, c.float()).x)
    assert torch.isfinite(predict.weight.grad).all()
    assert predict.weight.grad.any()
    with pytest.raises(TypeError, match=r"c has dtype torch\.bfloat16, expected"):
        layer(B, c)
