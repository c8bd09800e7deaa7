"""What users read of the public functions: the reference, and the examples in it."""

from __future__ import annotations

import doctest
import re

import pytest
import torch
from conftest import random_tensor

import rcdrs
from rcdrs import cones
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


def test_reference_has_every_public_name_with_its_arguments(tmp_path):
    pytest.importorskip("pdoc", reason="pip install pdoc brings what makes the pages")
    assert main(["docs", "--out", str(tmp_path)]) == 0
    pages = {
        module: (tmp_path / f"{module}.html").read_text() for module in ("rcdrs", "rcdrs/cones")
    }
    found = {
        module: set(re.findall(r'<section id="(\w+)"', page)) for module, page in pages.items()
    }
    assert found == {"rcdrs": set(rcdrs.__all__), "rcdrs/cones": set(cones.__all__)}
    # Sections are lists, not running text.
    assert "<li><strong>epochs:</strong>" in pages["rcdrs"]
    assert "Arguments\n" not in re.sub("<[^>]*>", "", pages["rcdrs"])
