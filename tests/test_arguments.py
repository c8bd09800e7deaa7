"""What layers, cones, controllers and programs take, and what they say of anything else."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from conftest import random_tensor

from rcdrs import ConicProgram, ControllerConfig, DRSLayer, RCDRSLayer
from rcdrs.cones import PSD, Box, Nonneg, Product, SecondOrder
from rcdrs.controller import Envelope, Growth, Ranges

M, N, BATCH = 2, 5, 3
A, B, C = (random_tensor(*s, dtype=torch.float32) for s in ((M, N), (BATCH, M), (BATCH, N)))
CONE = Nonneg(N)
LAYER = DRSLayer(A, CONE, 3)
STATE = LAYER(B, C).state


def program(**change):
    return ConicProgram(**{"A": A, "b": B, "c": C, "cone": CONE} | change)


# Plain data


@pytest.mark.parametrize(
    "plain",
    [
        torch.Tensor.numpy,
        lambda t: t.double().numpy(),
        lambda t: np.asfortranarray(t.numpy()),
        lambda t: t.flip(0).numpy()[::-1],
        torch.Tensor.tolist,
        lambda t: tuple(map(tuple, t.tolist())),
        lambda t: list(t.numpy()),
    ],
    ids=["numpy", "float64", "fortran", "reversed", "lists", "tuples", "rows"],
)
def test_plain_data_is_taken_as_the_tensor_of_the_layer(plain):
    expected = LAYER(B, C, A=A, start=STATE)
    found = LAYER(plain(B), plain(C), A=plain(A), start=[plain(part) for part in STATE])
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.gap, expected.gap)


def test_plain_matrix_keeps_its_precision_and_a_list_has_the_usual_one():
    for value, dtype in (
        (A.numpy(), torch.float32),
        (A.double().numpy(), torch.float64),
        (A.tolist(), torch.float32),
        (np.ones((1, N), dtype=int), torch.float32),
    ):
        for layer in (DRSLayer(value, CONE, 3), RCDRSLayer(value, CONE, 3)):
            assert layer.A.dtype is dtype
            layer([[1.0] * layer.A.shape[0]], [1] * N)


def test_array_is_copied_and_may_be_read_only():
    b = B.numpy().copy()
    b.setflags(write=False)
    assert torch.equal(LAYER(b, C).x, LAYER(B, C).x)


# What is refused: the call, what it raises, and how its message begins.

SPARSE, GRADIENT = C.to_sparse(), [row.clone().requires_grad_() for row in C]
REFUSED = {
    # b and c of a layer
    "b none": (lambda: LAYER(None, C), TypeError, "b is None, expected a tensor or numbers"),
    "b text": (lambda: LAYER("b", C), TypeError, "b is 'b', expected a tensor or numbers"),
    "b texts": (lambda: LAYER([["1", "2"]], C), TypeError, "b is a list of <U1, expected"),
    "b mapping": (lambda: LAYER({"b": 1}, C), TypeError, "b is a dict, expected a tensor or"),
    "b ragged": (lambda: LAYER([[1.0], [1.0, 2.0]], C), ValueError, "b is a list that is no array"),
    "b truth": (lambda: LAYER([[True, False]], C), TypeError, "b is a list of bool, expected"),
    "b complex": (lambda: LAYER([[1j, 1]], C), TypeError, "b is a list of complex128, expected"),
    "b dates": (lambda: LAYER(np.array(["2020"], "M8[D]"), C), TypeError, "b is a ndarray of"),
    "b objects": (lambda: LAYER([[None, 1.0]], C), TypeError, "b is a list of object, expected"),
    "b number": (lambda: LAYER(1.0, C), ValueError, "b has shape (), expected (batch, m) with m"),
    "b cube": (lambda: LAYER(B[None], C), ValueError, "b has shape (1, 3, 2), expected (batch, m)"),
    "b width": (lambda: LAYER(C, C), ValueError, "b has shape (3, 5), expected (batch, m) with m"),
    "b batch": (lambda: LAYER(B[:2], C), ValueError, "b has batch size 2 and c has 3, expected"),
    "b nan": (lambda: LAYER(B / 0 * 0, C), ValueError, "b holds 6 NaN or infinite entries"),
    "b overflow": (lambda: LAYER([[1e300, 0.0]], C[0]), ValueError, "b holds 1 NaN or infinite"),
    "c integers": (lambda: LAYER(B, C.int()), TypeError, "c has dtype torch.int32, expected"),
    "c float64": (lambda: LAYER(B, C.double()), TypeError, "c has dtype torch.float64, expected"),
    "c half": (lambda: LAYER(B, C.half()), TypeError, "c has dtype torch.float16, expected"),
    "c complex": (lambda: LAYER(B, C + 0j), TypeError, "c has dtype torch.complex64, expected"),
    "c sparse": (lambda: LAYER(B, SPARSE), TypeError, "c is sparse or nested (torch.sparse_coo)"),
    "c tensors": (lambda: LAYER(B, GRADIENT), TypeError, "c is a list of tensors, expected one"),
    "c elsewhere": (lambda: LAYER(B, C.to("meta")), ValueError, "c is on meta, expected cpu"),
    # depth, start and A of a call
    "depth": (lambda: LAYER(B, C, depth="3"), ValueError, "depth is '3', expected a positive"),
    "depth 0": (lambda: LAYER(B, C, depth=0), ValueError, "depth is 0, expected a positive"),
    "start": (lambda: LAYER(B, C, start=LAYER(B, C)), TypeError, "the state is a Solution, expec"),
    "start z": (lambda: LAYER(B, C, start=STATE[:2]), TypeError, "the state is a tuple, expected"),
    "start none": (lambda: LAYER(B, C, start=[None] * 3), TypeError, "the state's x is None, exp"),
    "start shape": (lambda: LAYER(B, C, start=[B] * 3), ValueError, "the state's x has shape"),
    "start dtype": (
        lambda: LAYER(B, C, start=[C.double()] * 3),
        TypeError,
        "the state's x has dtype torch.float64, expected torch.float32",
    ),
    "call A": (lambda: LAYER(B, C, A="A"), TypeError, "A is 'A', expected a tensor or numbers"),
    "call A flat": (lambda: LAYER(B, C, A=A[0]), ValueError, "A has shape (5,), expected (m, n)"),
    "call A batch": (lambda: LAYER(B, C, A=A.expand(2, M, N)), ValueError, "A has batch size 2"),
    # the layer itself
    "A none": (lambda: DRSLayer(None, CONE, 3), TypeError, "A is None, expected a tensor or"),
    "A tall": (lambda: DRSLayer(A.mT, Nonneg(M), 3), ValueError, "A has shape (5, 2): 5 rows"),
    "A sparse": (lambda: DRSLayer(A.to_sparse(), Nonneg(3), 3), ValueError, "cone has dimension 3"),
    "A integers": (lambda: DRSLayer(A.long(), CONE, 3), TypeError, "A has dtype torch.int64"),
    "cone none": (lambda: DRSLayer(A, None, 3), TypeError, "cone is None, expected a cone"),
    "cone kind": (lambda: DRSLayer(A, Nonneg, 3), TypeError, "cone is a ABCMeta, expected a cone"),
    "cone size": (lambda: DRSLayer(A, Nonneg(4), 3), ValueError, "cone has dimension 4, expected"),
    "layer depth": (lambda: DRSLayer(A, CONE, 2.5), ValueError, "depth is 2.5, expected a positi"),
    "alpha": (lambda: DRSLayer(A, CONE, 3, alpha=2), ValueError, "alpha = 2, expected alpha in"),
    "alpha text": (lambda: DRSLayer(A, CONE, 3, alpha="1"), TypeError, "alpha is '1', expected a"),
    "alpha list": (lambda: DRSLayer(A, CONE, 3, alpha=[1]), TypeError, "alpha is a list, expected"),
    "beta": (lambda: DRSLayer(A, CONE, 3, beta=float("nan")), ValueError, "beta = nan, expected"),
    "core": (lambda: RCDRSLayer(A, CONE, 3, core=1.6), TypeError, "core is 1.6, expected a pair"),
    "core 3": (lambda: RCDRSLayer(A, CONE, 3, (1, 1, 1)), TypeError, "core is (1, 1, 1), expected"),
    "controller": (
        lambda: RCDRSLayer(A, CONE, 3, controller={"hidden": 8}),
        TypeError,
        "controller is a dict, expected a ControllerConfig",
    ),
    # controllers
    "encoder": (lambda: ControllerConfig("rnn"), ValueError, "encoder: unknown 'rnn', expected"),
    "encoder 5": (lambda: ControllerConfig(5), ValueError, "encoder: unknown 5, expected gru"),
    "hidden": (lambda: ControllerConfig(hidden=0), ValueError, "hidden is 0, expected a positive"),
    "hidden text": (lambda: ControllerConfig(hidden="8"), ValueError, "hidden is '8', expected a"),
    "hidden part": (lambda: ControllerConfig(hidden=8.5), ValueError, "hidden is 8.5, expected a"),
    "features": (lambda: ControllerConfig(features="con"), TypeError, "features is 'con', expec"),
    "features 5": (lambda: ControllerConfig(features=5), TypeError, "features is 5, expected a"),
    "no features": (lambda: ControllerConfig(features=()), ValueError, "features is empty, expec"),
    "controls": (lambda: ControllerConfig(controls=("k",)), ValueError, "controls: unknown 'k'"),
    "envelope": (lambda: ControllerConfig(envelope={}), TypeError, "envelope is {}, expected Env"),
    "growth": (lambda: ControllerConfig(growth=10.0), TypeError, "growth is 10.0, expected Growth"),
    "ranges": (lambda: ControllerConfig(ranges=None), TypeError, "ranges is None, expected Range"),
    "radius": (lambda: Envelope(delta_0=-1.0), ValueError, "delta_0 is -1.0, expected a positive"),
    "decay": (lambda: Envelope(p="2"), ValueError, "p is '2', expected a positive finite number"),
    "factor": (lambda: Growth(beta=0.5), ValueError, "the growth of beta is 0.5, expected >= 1"),
    "range": (lambda: Ranges(alpha=1.0), ValueError, "the range of alpha is 1.0, expected (low"),
    "range of 3": (lambda: Ranges(rho=(1, 2, 3)), ValueError, "the range of rho is (1, 2, 3), ex"),
    "range text": (lambda: Ranges(beta=("a", 1)), ValueError, "the range of beta is 'a', expected"),
    "plain": (
        lambda: ControllerConfig.from_dict({"width": 8}),
        ValueError,
        "controller: unknown 'width', expected encoder, hidden",
    ),
    # cones
    "n": (lambda: Nonneg(2.0), ValueError, "n is 2.0, expected a positive integer"),
    "dim": (lambda: SecondOrder("3"), ValueError, "dim is '3', expected a positive integer"),
    "count": (lambda: PSD(2, count=0), ValueError, "count is 0, expected a positive integer"),
    "product": (lambda: Product(Nonneg(2)), TypeError, "cones is a Nonneg, expected a list of"),
    "factors": (lambda: Product([Nonneg(2), 3]), TypeError, "cones[1] is 3, expected a cone"),
    "bounds": (lambda: Box([0.0], [1.0]), TypeError, "lower is a list, expected a tensor"),
    "bounds complex": (lambda: Box(C, C + 0j), TypeError, "upper has dtype torch.complex64, exp"),
    "point": (lambda: CONE.project([1.0] * N), TypeError, "v is a list, expected a tensor"),
    "point none": (lambda: CONE.contains(None), TypeError, "x is None, expected a tensor"),
    "point integers": (lambda: CONE.project(C.int()), TypeError, "v has dtype torch.int32, expe"),
    "slack": (lambda: PSD(2).dual_contains(C), ValueError, "s has shape (3, 5), expected (..., 4)"),
    # programs
    "program A": (lambda: program(A=A.tolist()), TypeError, "A is a list, expected a tensor"),
    "program b": (lambda: program(b=None), TypeError, "b is None, expected a tensor"),
    "program c": (lambda: program(c=C.numpy()), TypeError, "c is a ndarray, expected a tensor"),
    "program c sparse": (lambda: program(c=SPARSE), TypeError, "c is sparse or nested"),
    "program cone": (lambda: program(cone="Nonneg"), TypeError, "cone is 'Nonneg', expected a"),
    "program Q": (lambda: program(Q=[1.0] * N), TypeError, "Q is a list, expected a tensor"),
    "program Q shape": (lambda: program(Q=A), ValueError, "Q has shape (2, 5), expected (n,) or"),
    "program Q sign": (lambda: program(Q=-C.abs()), ValueError, "Q has negative entries, expecte"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_argument_is_refused_by_its_name(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}") as found:
        call()
    assert "expected" in str(found.value)
