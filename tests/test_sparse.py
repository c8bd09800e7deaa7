"""Layers with a sparse A: against the same layers with a dense one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import awake, random_tensor

from rcdrs import ConicProgram, DRSLayer, RCDRSLayer
from rcdrs.baselines.anderson_drs import AndersonLayer
from rcdrs.cones import PSD, Nonneg, Product, SecondOrder
from rcdrs.solver.sparse import Factor, SparseSet, as_sparse, gram

CONE = Product([Nonneg(14), SecondOrder(5, 2), PSD(2)])
CORE = (1.6, 1.0)


def matrix(dtype=torch.float64):
    """(8, 28), two thirds of it zero, with independent rows."""
    A = random_tensor(8, 28, seed=1, dtype=dtype)
    A[random_tensor(8, 28, seed=2) < 0.4] = 0
    A[:, :8] += 2 * torch.eye(8, dtype=dtype)
    return A


def vectors(dtype=torch.float64, batch=4):
    return (random_tensor(batch, k, seed=k, dtype=dtype) for k in (8, 28))


FORMS = {
    "torch rows": lambda A: A.to_sparse_csr(),
    "torch columns": lambda A: A.to_sparse_csc(),
    "torch coordinates": lambda A: A.to_sparse_coo(),
    "scipy rows": lambda A: sp.csr_array(A.numpy()),
    "scipy matrix": lambda A: sp.coo_matrix(A.numpy()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [DRSLayer, AndersonLayer, RCDRSLayer])
def test_sparse_layer_is_the_dense_one(form, kind):
    A, (b, c) = matrix(), vectors()
    core = (CORE,) if kind is RCDRSLayer else CORE
    dense, sparse = (kind(M, CONE, 12, *core) for M in (A, FORMS[form](A)))
    if kind is RCDRSLayer:
        sparse.load_state_dict(awake(dense).state_dict())
    expected, found = dense(b, c), sparse(b, c)
    parts = zip((*found.state, *found.readout), (*expected.state, *expected.readout), strict=True)
    for x, y in parts:
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-10)
    assert found.status == expected.status


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_those_of_the_dense_layer(dtype):
    A, (b, c) = matrix(dtype), vectors(dtype)
    layers = [RCDRSLayer(M, CONE, 10, CORE) for M in (A, A.to_sparse_coo())]
    layers[1].load_state_dict(awake(layers[0]).state_dict())
    found = []
    for layer in layers:
        leaves = [t.clone().requires_grad_() for t in (b, c)]
        solution = layer(*leaves)
        loss = solution.x.square().sum() + solution.gap.sum() + solution.observation.equality.sum()
        found.append(torch.autograd.grad(loss, [*leaves, *layer.parameters()], allow_unused=True))
    close = {"rtol": 1e-7, "atol": 1e-9} if dtype is torch.float64 else {"rtol": 2e-3, "atol": 2e-3}
    for x, y in zip(*found, strict=True):
        if x is not None:
            torch.testing.assert_close(y, x, **close)


def test_quadratic_term_is_that_of_the_dense_program():
    A, (b, c) = matrix(), vectors()
    Q = random_tensor(28, seed=5).abs()
    dense, sparse = (
        DRSLayer(M, CONE, 10, *CORE).solve(ConicProgram(M, b, c, CONE, Q))
        for M in (A, A.to_sparse_coo())
    )
    torch.testing.assert_close(sparse.x, dense.x, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(sparse.gap, dense.gap, rtol=1e-6, atol=1e-10)


def test_warm_start_and_single_instance():
    A, (b, c) = matrix(), vectors()
    layer = DRSLayer(A.to_sparse_coo(), CONE, 10, *CORE)
    whole, half = layer(b, c, depth=20), layer(b, c)
    torch.testing.assert_close(layer(b, c, start=half.state).x, whole.x)
    torch.testing.assert_close(layer(b[1], c[1]).x, half.x[1])


def test_infeasible_instance_changes_no_other():
    A = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]).double()
    b = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, 2.0]]).double()
    c = torch.tensor([1.0, 2.0, 3.0]).double()
    layer = DRSLayer(A.to_sparse_coo(), Nonneg(3), 300, *CORE)
    found = layer(b, c)
    assert found.status == ["solved", "likely infeasible", "solved"]
    assert torch.equal(layer(b[[0, 2]], c).x, found.x[[0, 2]])


def test_no_equations_at_all():
    layer = DRSLayer(sp.csr_array((0, 4)), Nonneg(4), 5, *CORE)
    assert not layer(torch.zeros(2, 0).double(), torch.ones(2, 4).double()).x.any()


def test_factor_stays_sparse():
    """A chain of a thousand equations: the factor has a few entries a row."""
    m = 1000
    A = sp.eye_array(m, 2 * m, format="csr") + sp.eye_array(m, 2 * m, k=1, format="csr")
    affine = SparseSet(as_sparse(sp.csr_array(A)))
    assert affine.factor.nonzeros < 6 * m
    w, b = random_tensor(2 * m, 3, seed=1), random_tensor(m, 3, seed=2)
    x = affine.project(w, b)
    torch.testing.assert_close(affine.times(x), b)


@pytest.mark.parametrize("batch", [1, 2, 33])
def test_triangular_solves_are_those_of_the_whole_matrix(batch):
    """Of a matrix whose order SuperLU changes."""
    generator = np.random.default_rng(0)
    A = sp.random_array((60, 200), density=0.04, rng=generator) + sp.eye_array(60, 200)
    M, r = gram(A), generator.standard_normal((60, batch))
    factor = Factor(M)
    assert not np.array_equal(factor.rows, np.arange(60))
    np.testing.assert_allclose(factor.solve(r), np.linalg.solve(M.toarray(), r), atol=1e-10)


def test_layer_moves_to_another_dtype():
    A, (b, c) = matrix(torch.float32), vectors(torch.float32)
    layer = DRSLayer(A.to_sparse_coo(), CONE, 10, *CORE)
    before = layer(b, c).x
    after = layer.double()(b.double(), c.double()).x
    assert after.dtype is torch.float64
    torch.testing.assert_close(after.float(), before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (torch.ones(2, 4).to_sparse_coo(), "dependent rows"),
        (torch.full((2, 4), torch.nan).to_sparse_coo(), "NaN"),
        (torch.eye(2, 4).to_sparse_coo().requires_grad_(), "requires a gradient"),
        (torch.eye(4, 2).to_sparse_coo(), "m <= n"),
        (sp.csr_array([[1, 0, 0], [0, 1, 0]]), "dimension 4"),
        (torch.eye(2, 4, dtype=torch.float16).to_sparse_coo(), "float16"),
    ],
)
def test_bad_matrices_are_refused(A, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DRSLayer(A, Nonneg(4), 5)
