"""What users read of the public functions: the reference, and the examples in it."""

from __future__ import annotations

import doctest
import re
from importlib import import_module

import pytest
import torch
from conftest import random_tensor

import rcdrs
from rcdrs import cones
from rcdrs.cli.docs import INTERNAL, RETURNED
from rcdrs.cli.main import main

EXAMPLES = {
    name: doctest.DocTestParser().get_examples(getattr(rcdrs, name).__doc__ or "")
    for name in rcdrs.__all__
}


def given():
    """What the examples take for granted: ten programs with one A, and a small CVXPY problem."""
    import cvxpy as cp

    cone = cones.SecondOrder(8, 20)
    x = cone.project(random_tensor(10, cone.dim, dtype=torch.float32))
    A = random_tensor(12, cone.dim, seed=1, dtype=torch.float32)
    w, mu, risk = cp.Variable(3), cp.Parameter(3), cp.Parameter((3, 3))
    rows = [cp.sum(w) == 1, w >= 0, cp.norm(risk @ w) <= 1]
    return (
        vars(cones)
        | vars(rcdrs)
        | {
            **{"rcdrs": rcdrs, "cone": cone, "A": A, "b": x @ A.T},
            "c": cone.project(random_tensor(10, cone.dim, seed=2, dtype=torch.float32)),
            "layer": rcdrs.RCDRSLayer(A, cone, depth=2),
            "RCDRSLayer": rcdrs.RCDRSLayer,
            "DRSLayer": rcdrs.DRSLayer,
            "ConicProgram": rcdrs.ConicProgram,
            **{"problem": cp.Problem(cp.Maximize(mu @ w), rows), "mu": mu, "risk": risk, "w": w},
            **{"mu_values": torch.ones(5, 3), "risk_values": 0.1 * torch.ones(5, 3, 3)},
        }
    )


@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples])
def test_example_runs(name):
    """As it stands in the docstring, line by line."""
    names = given()
    for example in EXAMPLES[name]:
        exec(compile(example.source, name, "exec"), names)


def test_example_of_the_entry_page_runs():
    """Until a model learns from the loss, as its text says."""
    (code,) = re.findall(r"```python\n(.*?)```", rcdrs.__doc__, flags=re.DOTALL)
    known = given()
    model = torch.nn.Linear(4, known["c"].shape[1])
    known |= {"model": model, "features": torch.ones(10, 4), "task": torch.sum}
    exec(compile(code, "entry", "exec"), known)
    assert model.weight.grad.abs().max() > 0


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    pytest.importorskip("pdoc", reason="pip install pdoc brings what makes the pages")
    folder = tmp_path_factory.mktemp("docs")
    assert main(["docs", "--out", str(folder)]) == 0
    assert "rcdrs.html" in (folder / "index.html").read_text()
    return {module: (folder / f"{module}.html").read_text() for module in ("rcdrs", "rcdrs/cones")}


def test_reference_has_every_public_name_with_its_arguments(pages):
    found = {
        module: set(re.findall(r'<section id="(\w+)"', page)) for module, page in pages.items()
    }
    names = {*rcdrs.__all__, *RETURNED}
    assert found == {"rcdrs": names, "rcdrs/cones": set(cones.__all__)}
    # Sections are lists, not running text.
    assert "<li><strong>epochs:</strong>" in pages["rcdrs"]
    assert "Arguments\n" not in re.sub("<[^>]*>", "", pages["rcdrs"])


def test_reference_says_how_a_layer_is_called(pages):
    """`forward` and the like are of a base that has no page."""
    for layer in ("DRSLayer", "RCDRSLayer", "CvxpyLayer"):
        for name in ("forward", "solve", "save", "load"):
            assert f'<div id="{layer}.{name}"' in pages["rcdrs"]
    assert "SolverLayer" not in pages["rcdrs"]
    assert 'href="rcdrs/cones.html"' in pages["rcdrs"]  # the way from the entry page


def test_reference_is_without_internals_and_the_words_of_others(pages):
    for kind, names in INTERNAL.items():
        for name in names:
            assert f'id="{kind}.{name}"' not in pages["rcdrs"] + pages["rcdrs/cones"]
    text = re.sub("<[^>]*>", "", pages["rcdrs"])
    for words in ("ScriptModule", "Alias for field", "ForwardRef", "PosixPath"):
        assert words not in text
    assert "Beta ran to an end of its range." in text  # a remark above a field


@pytest.mark.parametrize("kind", INTERNAL)
def test_internals_that_the_reference_leaves_out_exist(kind):
    homes = [cones, import_module("rcdrs.layer"), rcdrs]
    homes += [import_module(RETURNED[kind])] if kind in RETURNED else []
    found = next(getattr(home, kind) for home in homes if hasattr(home, kind))
    fields = {name for base in found.__mro__ for name in vars(base).get("__annotations__", ())}
    made = {"action"}  # in `__init__`
    assert set(INTERNAL[kind]) - made <= fields | set(dir(found))
