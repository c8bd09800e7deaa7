"""The compiled pieces of a step equal their torch formulas, and keep instances apart."""

import sys

import pytest
import torch

from rcdrs import RCDRSLayer
from rcdrs.cones import PSD, Box, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.controller import ControllerConfig
from rcdrs.solver.problem import ConicProgram

PARTS = ("actions", "encoders", "features")
MODULES = ("rcdrs.solver.elementwise", *(f"rcdrs.controller.{part}" for part in PARTS))
CONE = Product([Nonneg(5), SecondOrder(4, count=2), RotatedSecondOrder(5), PSD(3)])


@pytest.fixture
def in_torch(monkeypatch):
    """Switches the compiled pieces off."""

    def switch():
        for module in MODULES:
            monkeypatch.setattr(sys.modules[module], "arrays", lambda *tensors: None)

    return switch


def problem(m, batch, dtype, quadratic=False, box=False):
    torch.manual_seed(m)
    n = CONE.dim
    cone = Box(torch.full((n,), -0.5, dtype=dtype), torch.ones(n, dtype=dtype)) if box else CONE
    A, x = torch.randn(m, n, dtype=dtype), torch.rand(batch, n, dtype=dtype)
    Q = torch.rand(n, dtype=dtype) * (torch.arange(n) % 3 == 0) if quadratic else None
    return ConicProgram(A, x @ A.mT, torch.randn(batch, n, dtype=dtype), cone, Q)


def solved(program, config, depth=4):
    """Every output of a controlled rollout, and the gradients in the weights, b and c."""
    torch.manual_seed(0)
    layer = RCDRSLayer(program.A, program.cone, depth, (1.5, 0.7), config).to(program.A.dtype)
    for weight in layer.parameters():  # away from the core, so that every part matters
        torch.nn.init.normal_(weight, std=0.3)
    b, c = program.b.clone().requires_grad_(), program.c.clone().requires_grad_()
    solution = layer.solve(ConicProgram(program.A, b, c, program.cone, program.Q))
    seen = solution.observation
    outputs = [solution.x, solution.state.u, solution.state.x, solution.actions, *seen]
    torch.manual_seed(1)
    total = sum((part * torch.randn_like(part)).sum() for part in outputs)
    grads = torch.autograd.grad(total, [*layer.parameters(), b, c], allow_unused=True)
    return [part.detach() for part in outputs], [g for g in grads if g is not None]


@pytest.mark.parametrize(
    ("m", "kind"),
    [(6, {}), (24, {}), (6, {"quadratic": True, "box": True})],
    ids=["thin rows", "thin kernel", "quadratic on a box"],
)
@pytest.mark.parametrize(
    "config",
    [
        ControllerConfig(),
        ControllerConfig(envelope=None, growth=None),
        ControllerConfig(controls=("alpha",), features=("eq", "obj", "beta")),
        ControllerConfig(encoder="schedule"),
    ],
    ids=["env", "no env", "alpha only", "schedule"],
)
def test_compiled_pieces_equal_their_torch_formulas(m, kind, config, in_torch):
    program = problem(m, 9, torch.float64, **kind)
    values, grads = solved(program, config)
    in_torch()
    expected_values, expected_grads = solved(program, config)
    # Sums in another order: rounding, grown by four steps of recurrence.
    for found, expected in zip(values + grads, expected_values + expected_grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_an_instance_that_overflows_leaves_the_others_bitwise_unchanged():
    program = problem(6, 70, torch.float32)
    values, _ = solved(program, ControllerConfig())
    b = program.b.clone()
    b[33] = 1e30
    spoiled, _ = solved(ConicProgram(program.A, b, program.c, program.cone), ControllerConfig())
    others = torch.arange(70) != 33
    for found, expected in zip(spoiled, values, strict=True):
        assert torch.equal(found[others], expected[others])
    assert not torch.stack([part[33].isfinite().all() for part in spoiled]).all()
