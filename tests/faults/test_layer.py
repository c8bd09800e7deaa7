"""The layer, its cones and its controller, used as they should not be; and one bad instance among
good ones."""

from __future__ import annotations

import re
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import awake, half_line_and_line, random_tensor, solved_program

from rcdrs import ConicProgram, ControllerConfig, DRSLayer, RCDRSLayer, State
from rcdrs.baselines.registry import METHODS
from rcdrs.cones import PSD, Box, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.controller.config import Envelope, Growth, Ranges

NAN, INF = float("nan"), float("inf")
CONE = Product([Nonneg(4), SecondOrder(4)])
A, b, c = (random_tensor(*shape, seed=9, dtype=torch.float32) for shape in ((3, 8), (2, 3), (2, 8)))
layer = RCDRSLayer(A, CONE, depth=3)
start = State(*(part.detach() for part in layer(b, c).state))
PROGRAM = {"A": A, "b": b, "c": c, "cone": CONE}


def with_entry(x, value):
    changed = x.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[-1] = value
    return changed


def odd(x):
    """What may stand in the place of a tensor, but should not."""
    return {
        "ragged list": [[1.0], [1.0, 2.0]],
        "text": "x",
        "None": None,
        "number": 1.0,
        "integers": x.int(),
        "bool": x > 0,
        "float64": x.double(),
        "half": x.half(),
        "complex": x.to(torch.complex64),
        "NaN": with_entry(x, NAN),
        "infinity": with_entry(x, INF),
        "column more": torch.cat([x, x[..., :1]], dim=-1),
        "column less": x[..., :-1],
        "more axes": x[None, None],
        "scalar": x.flatten()[0],
        "nothing": x[..., :0],
    }


#: By what is wrong: who is called with what, and what must be named.
MISUSE = {
    **{f"b {what}": (lambda x=x: layer(x, c), "b") for what, x in odd(b).items()},
    **{f"c {what}": (lambda x=x: layer(b, x), "c") for what, x in odd(c).items()},
    **{
        f"A {what}": (lambda x=x: layer(b, c, A=x), "A")
        for what, x in odd(A).items()
        if what != "None"
    },
    **{
        f"own A {what}": (lambda x=x: DRSLayer(x, CONE, 3), "A|cone") for what, x in odd(A).items()
        if what not in ("float64",)
    },
    **{
        f"program {name} {what}": (
            lambda name=name, x=x: ConicProgram(**PROGRAM | {name: x}),
            f"{name}|cone",
        )
        for name, own in {"A": A, "b": b, "c": c, "Q": c.abs()}.items()
        for what, x in odd(own).items()
        if (name, what) != ("Q", "None")
    },
    "batch sizes": (lambda: layer(b, torch.cat([c, c])), "batch"),
    "A of another batch": (lambda: layer(b, c, A=A.expand(5, 3, 8)), "batch"),
    "more rows than columns": (lambda: DRSLayer(A.T.contiguous(), Nonneg(3), 3), "A"),
    "negative Q": (lambda: ConicProgram(A, b, c, CONE, -c.abs()), "Q"),
    **{f"depth {d!r}": (lambda d=d: layer(b, c, depth=d), "depth") for d in (0, -1, 2.5, "3")},
    **{f"own depth {d!r}": (lambda d=d: DRSLayer(A, CONE, d), "depth") for d in (0, 1.0, None)},
    **{f"cone {k!r}": (lambda k=k: DRSLayer(A, k, 3), "cone") for k in (None, "soc", 8, Nonneg(7))},
    **{
        f"alpha {v!r}": (lambda v=v: DRSLayer(A, CONE, 3, alpha=v), "alpha")
        for v in (0, 2, -1.0, NAN, INF, "1", None, [1.0])
    },
    **{
        f"beta {v!r}": (lambda v=v: DRSLayer(A, CONE, 3, beta=v), "beta")
        for v in (0, -1.0, NAN, INF, "1", None)
    },
    **{
        f"core {v!r}": (lambda v=v: RCDRSLayer(A, CONE, 3, core=v), "core|alpha|beta")
        for v in ((1.0,), (1.0, 1.0, 1.0), "ab", 3, (NAN, 1.0), (1.0, None))
    },
    **{
        f"controller {v!r}": (lambda v=v: RCDRSLayer(A, CONE, 3, controller=v), "controller")
        for v in ("gru", {"hidden": 8}, 3)
    },
    "start that is text": (lambda: layer(b, c, start="x"), "start|state"),
    "start that is a solution": (lambda: layer(b, c, start=layer(b, c)), "start|state"),
    "start of two parts": (lambda: layer(b, c, start=(start.z, start.u)), "start|state"),
    "start of another batch": (lambda: layer(b[:1], c[:1], start=start), "start|state"),
    "start without batch": (lambda: layer(b, c, start=State(*(p[0] for p in start))), "state"),
    **{
        f"start {part} {what}": (
            lambda part=part, x=x: layer(b, c, start=start._replace(**{part: x})),
            "state|start",
        )
        for part in ("x", "z", "u")
        for what, x in odd(start.z).items()
    },
    "load of nothing": (lambda: RCDRSLayer.load("nowhere.pt", A, CONE), "nowhere.pt"),
    **{
        f"{cone.__name__}{v!r}": (lambda cone=cone, v=v: cone(*v), "n |dim|count|order")
        for cone in (Nonneg, SecondOrder, RotatedSecondOrder, PSD)
        for v in ((0,), (-1,), (1.5,), ("3",), (True,), (None,))
    },
    **{
        f"{cone.__name__} count {v!r}": (lambda cone=cone, v=v: cone(3, v), "count")
        for cone in (SecondOrder, RotatedSecondOrder, PSD)
        for v in (0, -1, 1.5, "3", None)
    },
    "rotated cone of one": (lambda: RotatedSecondOrder(1), "dim"),
    **{f"product of {v!r}": (lambda v=v: Product(v), "cone") for v in ([], [3], None, "x", [None])},
    **{
        f"box {what}": (lambda v=v: Box(*v), "lower|upper")
        for what, v in {
            "of numbers": (0.0, 1.0),
            "of lists": ([0.0], [1.0]),
            "of two shapes": (torch.zeros(2), torch.ones(3)),
            "of NaN": (torch.tensor([NAN]), torch.ones(1)),
            "crossed": (torch.ones(2), torch.zeros(2)),
            "at infinity": (torch.tensor([INF]), torch.tensor([INF])),
        }.items()
    },
    **{
        f"project {what}": (lambda x=x: CONE.project(x), "v")
        for what, x in odd(c).items()
        if what not in ("float64", "half", "NaN", "infinity", "more axes")
    },
    **{
        f"{name} {v!r}": (lambda name=name, v=v: ControllerConfig(**{name: v}), name)
        for name, values in {
            "encoder": ("cnn", None, 3, ["gru"]),
            "hidden": (0, -1, 1.5, "8", None, True),
            "features": ((), "con", ("con", "con"), ("x",), (3,), None),
            "controls": ("alpha", ("x",), ("alpha", "alpha"), None, 3),
            "envelope": ("x", 3, {"k_0": 1.0}),
            "growth": ("x", 3),
            "ranges": (None, "x", 3),
        }.items()
        for v in values
    },
    **{
        f"envelope {k} {v!r}": (lambda k=k, v=v: ControllerConfig(envelope=Envelope(**{k: v})), k)
        for k in ("delta_0", "k_0", "p", "s_alpha")
        for v in (-1.0, NAN, INF, "x", None)
    },
    **{
        f"growth {k} {v!r}": (lambda k=k, v=v: ControllerConfig(growth=Growth(**{k: v})), k)
        for k in ("rho", "beta")
        for v in (0.0, 0.5, -1.0, NAN, "x", None)
    },
    **{
        f"range {k} {v!r}": (lambda k=k, v=v: Ranges(**{k: v}), k)
        for k in ("rho", "alpha", "beta")
        for v in ((1.0, 0.5), (0.0, 1.0), (NAN, 1.0), (1.0,), 1.0, None, ("a", "b"))
    },
}  # fmt: skip


@pytest.mark.parametrize("what", MISUSE)
def test_misuse_is_named(what):
    call, named = MISUSE[what]
    with pytest.raises((ValueError, TypeError, FileNotFoundError)) as told:
        call()
    message = str(told.value)
    assert re.search(rf"\b({named})", message), message
    assert re.search("expected|twice|nowhere", message), message


CONES = {
    "nonneg": Nonneg(8),
    "second order": SecondOrder(4, 2),
    "rotated": RotatedSecondOrder(4, 2),
    "psd": PSD(3),
    "large psd": PSD(12),
    "box": Product([half_line_and_line(), Box(-torch.ones(6), torch.ones(6))]),
    "product": CONE,
}
#: What an instance may be: hard, infeasible, without a scale, or with one that overflows.
BAD = {
    "huge b": lambda b, c: (1e30 * b, c),
    "largest b": lambda b, c: (torch.full_like(b, torch.finfo(b.dtype).max), c),
    "huge c": lambda b, c: (b, 1e30 * c),
    "largest c": lambda b, c: (b, torch.full_like(c, torch.finfo(b.dtype).max)),
    "zero c": lambda b, c: (b, 0 * c),
    "tiny c": lambda b, c: (b, 1e-42 * c),
    "zero b and c": lambda b, c: (0 * b, 0 * c),
    "tiny b": lambda b, c: (1e-42 * b, c),
}


def gradients(layer, b, c, autocast=False):
    b, c = b.clone().requires_grad_(), c.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        solution = layer(b, c)
        total = (solution.x.square().sum(-1) + solution.y.square().sum(-1) + solution.gap).sum()
    total.backward()
    found = (solution.x, solution.y, solution.s, solution.primal_residual, solution.dual_residual)
    return [t.detach() for t in (*found, solution.gap, solution.actions, b.grad, c.grad)]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", CONES)
@pytest.mark.parametrize("method", METHODS)
def test_bad_instance_changes_nothing_for_the_others(method, name, bad):
    """To the last bit, in values and in gradients."""
    cone, others = CONES[name], [0, 1, 3, 4]
    A = random_tensor(4, cone.dim, seed=1, dtype=torch.float32)
    b = random_tensor(5, 4, seed=2, dtype=torch.float32)
    c = random_tensor(5, cone.dim, seed=3, dtype=torch.float32)
    layer = awake(METHODS[method].build(A, cone, 3, (1.6, 1.0)))
    good = gradients(layer, b, c)
    b[2], c[2] = BAD[bad](b[2], c[2])
    for before, after in zip(good, gradients(layer, b, c), strict=True):
        assert torch.equal(before[others], after[others])


def test_arrays_and_lists_are_taken_for_what_they_are():
    x = layer(b, c).x
    assert torch.equal(layer(b.numpy(), c.numpy()).x, x)
    assert torch.equal(layer(b.tolist(), c.tolist()).x, x)


def test_second_derivative_is_refused():
    """Never silently zero."""
    problem = solved_program(batch=1)
    layer = DRSLayer(problem.program.A, problem.program.cone, 4)
    b, c = problem.program.b.requires_grad_(), problem.program.c
    total = layer(b, c).x.square().sum()
    with pytest.raises(RuntimeError, match=r"second derivatives .* are not available: leave out"):
        torch.autograd.grad(total, b, create_graph=True)


def test_inference_before_training_changes_nothing():
    fresh = awake(RCDRSLayer(A, CONE, 3))
    used = deepcopy(fresh)
    with torch.inference_mode():
        used(b, c)
    for one, other in zip(gradients(fresh, b, c), gradients(used, b, c), strict=True):
        assert torch.equal(one, other)


def test_autocast_changes_nothing():
    """The layer has one precision: that of its A."""
    layer = awake(RCDRSLayer(A, CONE, 3))
    found = gradients(layer, b, c, autocast=True)
    for one, other in zip(gradients(layer, b, c), found, strict=True):
        assert torch.equal(one, other)


def test_layer_in_another_precision_names_the_old_one():
    layer = RCDRSLayer(A, CONE, 3).double()
    with pytest.raises(TypeError, match=r"b has dtype torch.float32, expected torch.float64"):
        layer(b, c)
    assert layer(b.double(), c.double()).x.dtype == torch.float64


@pytest.mark.parametrize("change", ["depth", "cone", "A", "kind"])
def test_saved_layer_for_something_else_is_named(tmp_path, change):
    path = tmp_path / "layer.pt"
    layer.save(path)
    given = SimpleNamespace(kind=RCDRSLayer, A=A, cone=CONE, depth=3)
    other = {"depth": 4, "cone": Nonneg(8), "A": A[:2], "kind": DRSLayer}[change]
    setattr(given, change, other)
    with pytest.raises(ValueError, match=r"layer\.pt holds .* expected"):
        given.kind.load(path, given.A, given.cone, given.depth)
    assert np.isfinite(RCDRSLayer.load(path, A, CONE, 3)(b, c).x.detach().numpy()).all()
