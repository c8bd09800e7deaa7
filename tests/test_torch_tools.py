"""Torch's own tools on a layer: compile, export, vmap and the transforms of `torch.func`."""

from __future__ import annotations

import pytest
import torch
from conftest import awake, every_cone, random_tensor
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

from rcdrs import ControllerConfig, DRSLayer, RCDRSLayer

CONE = every_cone()
A = random_tensor(10, CONE.dim)
B, C = random_tensor(5, 10), random_tensor(5, CONE.dim)
LIGHT = ControllerConfig("direct", 6, scheduled=True)
LAYERS = {
    "fixed": lambda: DRSLayer(A, CONE, 4, 1.5, 0.7),
    "GRU": lambda: awake(RCDRSLayer(A, CONE, 4, controller=ControllerConfig(hidden=6))),
    "light": lambda: awake(RCDRSLayer(A, CONE, 4, controller=LIGHT)),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
same = torch.testing.assert_close


@pytest.fixture(autouse=True)
def forget_what_was_compiled():
    """Torch counts how often one function is compiled, and here each test brings other layers."""
    torch.compiler.reset()


@pytest.fixture
def layer():
    return LAYERS["GRU"]()


@each_layer
@pytest.mark.parametrize("learns", [False, True])
def test_vmap(make, learns):
    layer = make()
    with torch.set_grad_enabled(learns):
        expected = layer(B, C)
        found = vmap(lambda b, c: (layer(b, c).x, layer(b, c).gap))(B, C)
        same(found[0], expected.x)
        same(found[1], expected.gap)
        same(vmap(lambda c: layer(B[0], c).x)(C), layer(B[0], C).x)
        batches = vmap(lambda b, c: layer(b, c).x)(torch.stack([B, B]), torch.stack([C, 2 * C]))
        same(batches[1], layer(B, 2 * C).x)


def test_gradient_through_a_vmapped_layer_in_plain_autograd(layer):
    c = C.clone().requires_grad_()
    loss = vmap(lambda b, c: layer(b, c).x)(B, c).square().sum()
    expected = layer(B, c).x.square().sum()
    wanted = [c, *layer.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(loss, wanted), torch.autograd.grad(expected, wanted), strict=True
    ):
        same(ours, theirs)


@each_layer
def test_grad_and_jacrev(make):
    layer = make()
    c = C[0].clone().requires_grad_()
    expected = torch.autograd.grad(layer(B[0], c).x.square().sum(), c)[0]

    def loss(c):
        return layer(B[0], c).x.square().sum()

    same(grad(loss)(C[0]), expected)
    same(vmap(grad(loss))(C)[0], expected)
    same(grad(lambda all_: vmap(loss)(all_).sum())(C)[0], expected)
    jacobian = torch.autograd.functional.jacobian(lambda c: layer(B[0], c).x, C[0])
    same(jacrev(lambda c: layer(B[0], c).x)(C[0]), jacobian)


def test_gradients_of_the_weights_of_each_instance(layer):
    weights = dict(layer.named_parameters())

    def loss(weights, b, c):
        return functional_call(layer, weights, (b, c)).x.square().sum()

    each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, B, C)
    for i in range(len(B)):
        expected = torch.autograd.grad(layer(B[i], C[i]).x.square().sum(), list(weights.values()))
        for name, theirs in zip(weights, expected, strict=True):
            same(each[name][i], theirs)


def test_other_weights_by_functional_call(layer):
    other = {name: 2 * p.detach() for name, p in layer.named_parameters()}
    found = functional_call(layer, other, (B, C)).x
    layer.load_state_dict(other)
    same(found, layer(B, C).x)


@pytest.mark.parametrize("transform", [jacfwd, hessian])
def test_forward_mode_is_refused(layer, transform):
    """And not silently zero."""
    with pytest.raises(RuntimeError, match=r"forward-mode .* not available: use reverse mode"):
        transform(lambda c: layer(B[0], c).x.square().sum())(C[0])


def test_second_derivatives_are_refused_by_transforms(layer):
    with pytest.raises(RuntimeError, match=r"second derivatives .* not available"):
        jacrev(grad(lambda c: layer(B[0], c).x.square().sum()))(C[0])


def compiled(module):
    return torch.compile(module, fullgraph=True, backend="aot_eager")


@each_layer
def test_compile(make):
    """The first call of a layer is a compiled one; other batches, one instance, another depth."""
    layer = make()
    fast = compiled(layer)
    solution = fast(B, C)
    expected = layer(B, C)
    same(solution.x, expected.x)
    same(solution.dual_residual, expected.dual_residual)
    same(solution.beta, expected.beta)
    same(fast(B[:3], C[:3]).x, layer(B[:3], C[:3]).x)
    same(fast(B[0], C[0]).x, layer(B[0], C[0]).x)
    same(fast(B, C, depth=2).x, layer(B, C, depth=2).x)
    same(fast(B, C, start=expected.state).x, layer(B, C, start=expected.state).x)


def test_compiled_gradients(layer):
    run = compiled(lambda b, c: layer(b, c).x.square().sum() + layer(b, c).gap.sum())
    c = C.clone().requires_grad_()
    wanted = [c, *layer.parameters()]
    found = torch.autograd.grad(run(B, c), wanted)
    solution = layer(B, c)
    expected = torch.autograd.grad(solution.x.square().sum() + solution.gap.sum(), wanted)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs)


def test_a_compiled_layer_still_refuses_what_it_cannot_take(layer):
    fast = compiled(layer)
    fast(B, C)
    bad = C.clone()
    bad[2, 3] = torch.nan
    with pytest.raises(ValueError, match=r"c holds 1 NaN .* \(2, 3\)"):
        fast(B, bad)
    with pytest.raises(Exception, match=r"has dtype torch\.float32, expected torch\.float64"):
        fast(B.float(), C.float())
    with pytest.raises(Exception, match=r"b has shape .* expected \(batch, m\)"):
        fast(B[:, :4], C)


class Decision(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, b, c):
        solution = self.layer(b, c)
        return solution.x, solution.primal_residual


@each_layer
@pytest.mark.parametrize("strict", [False, True])
def test_export_of_any_batch(make, strict):
    layer = make()
    batch = torch.export.Dim("batch", min=2)
    sizes = ({0: batch}, {0: batch})
    program = torch.export.export(Decision(layer), (B, C), dynamic_shapes=sizes, strict=strict)
    for size in (3, 5):
        found = program.module()(B[:size], C[:size])
        same(found[0], layer(B[:size], C[:size]).x)
        same(found[1], layer(B[:size], C[:size]).primal_residual)


def test_a_layer_moved_to_another_dtype_is_compiled_for_it(layer):
    single = layer.float()
    found = compiled(single)(B.float(), C.float()).x
    assert found.dtype is torch.float32
    same(found, single(B.float(), C.float()).x)
