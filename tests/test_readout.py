"""The terminal readout and the error measures against their definitions in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import random_tensor, solved_program

from rcdrs.cones import Nonneg
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.fused import EPSILON_C
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import diagnose, errors, readout

each_kind = pytest.mark.parametrize("shared", [True, False], ids=["shared A", "A per instance"])
# A handful of float64 operations, and a least-squares solve of condition below 100.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


def instances(program):
    """(A, b, c) of each instance as numpy arrays."""
    for i in range(program.batch):
        A = program.A[i] if program.A.ndim == 3 else program.A
        yield A.numpy(), program.b[i].numpy(), program.c[i].numpy()


@each_kind
def test_readout_equals_its_definitions(shared):
    """Eq. dualdiag and eq. diags."""
    program = solved_program(shared=shared).program
    beta = torch.tensor([0.1, 0.5, 1.0, 4.0]).double()
    state = rollout(program, 1.5, beta, 10)
    found = readout(program, state.z, state.u, beta)
    norm = np.linalg.norm
    for i, (A, b, c) in enumerate(instances(program)):
        z, u = state.z[i].numpy(), state.u[i].numpy()
        s = -u / (beta[i].item() / (norm(c) + EPSILON_C))
        y, *_ = np.linalg.lstsq(A.T, c - s, rcond=None)
        expected = {
            "s": s,
            "y": y,
            "r_p": norm(A @ z - b) / (1 + norm(b)),
            "r_d": norm(A.T @ y + s - c) / (1 + norm(c)),
            "r_comp": abs(z @ s) / (1 + abs(c @ z)),
            "r_gap": abs(c @ z - b @ y) / (1 + abs(c @ z) + abs(b @ y)),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(found, name)[i].numpy(), value, **CLOSE)


def test_readout_accepts_a_number_for_beta():
    program = solved_program().program
    state = rollout(program, 1.5, 0.7, 10)
    each = readout(program, state.z, state.u, torch.full((4,), 0.7, dtype=torch.float64))
    for one, many in zip(readout(program, state.z, state.u, 0.7), each, strict=True):
        assert torch.equal(one, many)


@each_kind
def test_complementarity_holds_at_every_depth(shared):
    """The other residuals are still far from zero where r_comp vanishes."""
    program = solved_program(shared=shared).program
    for depth in (1, 2, 10):
        state = rollout(program, 1.5, 0.7, depth)
        found = readout(program, state.z, state.u, 0.7)
        assert found.r_comp.max() <= 1e-12  # rounding
        assert (found.r_p + found.r_d).min() >= 1e-4


@each_kind
def test_diagnosis_of_the_solution_is_zero(shared):
    program, x, s, y = solved_program(shared=shared)
    residuals = diagnose(program, x, s, y)[2:]
    assert max(r.max() for r in residuals) <= 1e-13  # rounding
    for wrong in ((1.1 * x, s, y), (x, 1.1 * s, y), (x, s, 1.1 * y)):
        assert max(r.min() for r in diagnose(program, *wrong)[2:]) >= 1e-3


@each_kind
def test_errors_equal_their_definitions(shared):
    program, x, _, _ = solved_program(shared=shared)
    # Two points with a larger and two with a smaller objective, none of them in the cone.
    z = x + 0.1 * program.c * torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    found = errors(program, z, x)
    inside = program.cone.project(z).numpy()
    norm = np.linalg.norm
    for i, (A, b, c) in enumerate(instances(program)):
        point, star = z[i].numpy(), x[i].numpy()
        signed = (c @ point - c @ star) / (1 + abs(c @ star))
        expected = {
            "ObjErr": abs(signed),
            "Gap": max(signed, 0),
            "Eq": norm(A @ point - b) / (1 + norm(b)),
            "Cone": norm(point - inside[i]) / (1 + norm(point)),
            "Dist": norm(point - star) / (1 + norm(star)),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(found, name)[i].numpy(), value, **CLOSE)
    assert found.Gap.gt(0).tolist() == [True, True, False, False]


def test_errors_of_the_solution_are_zero():
    program, x, _, _ = solved_program()
    assert max(e.max() for e in errors(program, x, x)) <= 1e-13  # rounding


def test_optimal_value_is_computed_in_double_precision():
    """In float32, the rounding of a long c'z would hide an objective error of 1e-6."""
    n = 2000
    c = random_tensor(3, n, dtype=torch.float32)
    x = 10 * random_tensor(3, n, seed=1, dtype=torch.float32)
    z = x + 1e-4 * torch.sign(c) * (torch.arange(n) < 20)
    program = ConicProgram(torch.ones(1, n), torch.zeros(3, 1), c, Nonneg(n))
    optimum = (c.double() * x.double()).sum(-1)
    change = (c.double() * (z.double() - x.double())).sum(-1)
    expected = change.abs() / (1 + optimum.abs())
    assert expected.max() <= 1e-4
    found = errors(program, z, x)
    assert found.ObjErr.dtype == torch.float32
    # Float64 sums of 2000 terms of size 10 are good to 1e-12.
    torch.testing.assert_close(found.ObjErr.double(), expected, rtol=1e-6, atol=1e-11)
    naive = ((c * z).sum(-1) - (c * x).sum(-1)).abs() / (1 + (c * x).sum(-1).abs())
    assert (naive - expected).abs().max() >= 0.01 * expected.min()
