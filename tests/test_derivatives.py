"""Second derivatives: right where there are any, and refused where they would be wrong."""

from __future__ import annotations

import pytest
import torch
from conftest import awake, every_cone, random_tensor, small_cone, solved_program
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.functional import hessian

from rcdrs import ConicProgram, ControllerConfig, RCDRSLayer
from rcdrs.baselines.registry import METHODS
from rcdrs.cones import PSD, Nonneg, RotatedSecondOrder, SecondOrder
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.readout import diagnose, readout
from rcdrs.solver.step import State, step

REFUSED = "second derivatives .* not available: leave out create_graph=True"
PROGRAM = solved_program(batch=2, m=4, cone=small_cone()).program
A, b, c, CONE = PROGRAM.A, PROGRAM.b, PROGRAM.c, PROGRAM.cone
refused = pytest.raises(RuntimeError, match=REFUSED)


def layers():
    for name, method in METHODS.items():
        yield name, lambda method=method: method.build(A, CONE, 3, (1.6, 0.3))
    for encoder in ("gru", "lstm", "mlp", "schedule"):
        config = ControllerConfig(encoder=encoder, hidden=4)
        yield encoder, lambda config=config: RCDRSLayer(A, CONE, 3, (1.6, 0.3), config)


each_layer = pytest.mark.parametrize("make", [pytest.param(m, id=name) for name, m in layers()])


@each_layer
def test_layer_has_first_derivatives_and_refuses_second_ones(make):
    layer = awake(make())
    inputs = [t.clone().requires_grad_() for t in (b, c)]

    def loss(b, c):
        solution = layer(b, c)
        return solution.x.square().sum() + solution.gap.sum() + solution.beta.sum()

    torch.autograd.grad(loss(*inputs), [*inputs, *layer.parameters()], allow_unused=True)
    with refused:
        torch.autograd.grad(loss(*inputs), inputs, create_graph=True)
    with refused:
        hessian(loss, (b, c))
    with refused:
        gradgradcheck(loss, inputs)
    with pytest.raises(RuntimeError):  # which cannot go through a function of autograd's own either
        torch.func.hessian(loss)(b, c)
    if parameters := list(layer.parameters()):
        with refused:
            torch.autograd.grad(loss(b, c), parameters, create_graph=True, allow_unused=True)


CONES = [Nonneg(3), SecondOrder(3), RotatedSecondOrder(3), PSD(2), every_cone()]


@pytest.mark.parametrize("cone", CONES, ids=repr)
def test_cone_refuses_second_derivatives(cone):
    v = random_tensor(2, cone.dim).requires_grad_()
    assert gradcheck(cone.project, v)
    with refused:
        torch.autograd.grad(cone.project(v).square().sum(), v, create_graph=True)


@pytest.mark.parametrize("quadratic", [False, True])
def test_step_and_rollout_refuse_second_derivatives(quadratic):
    weights = c[0].abs() if quadratic else None

    def steps(c):
        program = ConicProgram(A, b, c, CONE, weights)
        return step(program, State.zero(program), 1.6, 0.3).z

    def run(c):
        return rollout(ConicProgram(A, b, c, CONE, weights), 1.6, 0.3, 3).z

    wanted = c.clone().requires_grad_()
    for function in (steps, run):
        assert gradcheck(function, wanted)
        with refused:
            torch.autograd.grad(function(wanted).sum(), wanted, create_graph=True)


def test_readout_has_second_derivatives_in_the_state_and_in_c():
    z, u = random_tensor(2, CONE.dim, seed=1), random_tensor(2, CONE.dim, seed=2)
    inputs = [t.clone().requires_grad_() for t in (z, u, c)]

    def read(z, u, c):
        found = readout(ConicProgram(A, b, c, CONE), z, u, 0.3)
        return found.y, found.r_p, found.r_d, found.r_gap

    assert gradgradcheck(read, inputs)


def test_factorisation_of_A_refuses_second_derivatives():
    """Its derivative is right to the first order alone."""
    z, s = random_tensor(2, CONE.dim, seed=1), random_tensor(2, CONE.dim, seed=2)
    wanted = A.clone().requires_grad_()

    def multiplier(A):
        program = ConicProgram(A, b, c, CONE)
        return diagnose(program, z, s, program.affine.multiplier((c - s).mT).mT).y

    assert gradcheck(multiplier, wanted)
    with refused:
        gradgradcheck(multiplier, wanted)
