"""The training losses against the paper's formulas, and that no label can reach them."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from conftest import awake, log_kkt_loss, solved_program, terminal_loss, times, training

from rcdrs import ConicProgram, DRSLayer, RCDRSLayer, State
from rcdrs.experiments.base import Run
from rcdrs.experiments.engine import train_run
from rcdrs.experiments.synthetic import stages
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.solver.step import step

CORE = (1.6, 0.5)
DEPTH = 4
WEIGHTS = {"eq": 10.0, "con": 10.0, "mov": 0.1, "obj": 1.0, "dom": 0.2, "smooth": 1e-3}
# A handful of float64 operations.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(scope="module")
def program():
    return solved_program(batch=12).program


@pytest.fixture(scope="module")
def solution(program):
    torch.manual_seed(0)
    layer = awake(RCDRSLayer(program.A, program.cone, DEPTH, CORE))
    with torch.no_grad():
        return layer.solve(program)


@pytest.fixture(scope="module")
def reference(program):
    return DRSLayer(program.A, program.cone, DEPTH, *CORE).solve(program).observation


def terminal(program, actions):
    """(L_eq, L_con, L_mov, c'z) at the end of the paper-form steps with these actions."""
    before = state = State.zero(program)
    for action in actions.unbind(1):
        before, state = state, step(program, state, action[:, 1], action[:, 2].exp())
    x, z = state.x, state.z

    def square(v):
        return v.square().sum(-1)

    size = (1 + z.norm(dim=-1)) ** 2
    eq = square(times(program.A, z) - program.b) / (1 + program.b.norm(dim=-1)) ** 2
    return eq, square(x - z) / size, square(z - before.z) / size, (program.c * z).sum(-1)


def defined_terms(program, solution):
    """The six terms, and the residuals of the reference."""
    core = torch.tensor([[[0.0, CORE[0], 0.0]]], dtype=torch.float64).expand(12, DEPTH, 3).clone()
    core[..., 2] = torch.tensor(CORE[1]).double().log()
    eq, con, mov, objective = terminal(program, solution.actions)
    *base, base_objective = terminal(program, core)
    jumps = solution.actions[:, 1:] - solution.actions[:, :-1]
    terms = {
        "eq": eq,
        "con": con,
        "mov": mov,
        "obj": torch.relu((objective - base_objective) / (1 + base_objective.abs())),
        "smooth": jumps.square().sum((1, 2)),
    }
    return terms, dict(zip(("eq", "con", "mov"), base, strict=True))


def defined_loss(program, solution, weights, margin=0.0):
    terms, base = defined_terms(program, solution)
    merit = sum(weights[name] * terms[name] for name in ("eq", "con", "mov", "obj"))
    base_merit = sum(weights[name] * base[name] for name in ("eq", "con", "mov"))
    dominance = torch.relu(merit - base_merit + margin)
    return merit + weights["dom"] * dominance + weights["smooth"] * terms["smooth"]


def test_default_weights_are_those_of_the_paper():
    """Table app_rc_hyperparameters."""
    assert dataclasses.asdict(terminal_loss()) == WEIGHTS | {"margin": 0.0}


@pytest.mark.parametrize("name", ["eq", "con", "mov", "obj", "smooth"])
def test_each_term_equals_its_formula(program, solution, reference, name):
    """With one weight left, the loss is that term alone."""
    alone = terminal_loss(**dict.fromkeys(WEIGHTS, 0.0) | {name: 3.0})
    expected = defined_terms(program, solution)[0][name]
    assert expected.max() > 0
    torch.testing.assert_close(alone(solution, reference), 3 * expected, **CLOSE)


def test_dominance_equals_its_formula(program, solution, reference):
    with_it = terminal_loss(margin=0.01)(solution, reference)
    without = terminal_loss(dom=0.0)(solution, reference)
    terms, base = defined_terms(program, solution)
    merit = sum(WEIGHTS[name] * terms[name] for name in ("eq", "con", "mov", "obj"))
    base_merit = sum(WEIGHTS[name] * base[name] for name in ("eq", "con", "mov"))
    expected = torch.relu(merit - base_merit + 0.01)
    assert 0 < (expected > 0).sum() < 12
    torch.testing.assert_close(with_it - without, 0.2 * expected, **CLOSE)


@pytest.mark.parametrize("removed", [None, *WEIGHTS])
def test_weight_of_zero_removes_exactly_its_term(program, solution, reference, removed):
    weights = WEIGHTS | ({removed: 0.0} if removed else {})
    found = terminal_loss(**weights, margin=0.01)(solution, reference)
    torch.testing.assert_close(found, defined_loss(program, solution, weights, 0.01), **CLOSE)


def test_merit_is_the_loss_without_dominance_and_smoothness(solution, reference):
    bare = terminal_loss(dom=0.0, smooth=0.0)
    assert torch.equal(bare(solution, reference), terminal_loss().merit(solution, reference))


def test_objective_counts_only_where_it_is_worse(solution, reference):
    """Zero up to the reference's objective, then in proportion to the excess."""
    loss = terminal_loss(**dict.fromkeys(WEIGHTS, 0.0) | {"obj": 1.0})
    own = solution.observation.objective
    for excess in (-1.0, 0.0, 0.5):
        found = loss(solution, reference._replace(objective=own - excess))
        expected = max(excess, 0.0) / (1 + (own - excess).abs())
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-15)


def test_dominance_counts_only_beyond_the_reference(solution, reference):
    """``loss - dom-free loss`` is nonnegative, and zero where the merit is at most M_base."""
    easy = reference._replace(equality=reference.equality + 10)
    hard = reference._replace(equality=torch.zeros_like(reference.equality))
    without = terminal_loss(dom=0.0)
    assert torch.equal(terminal_loss()(solution, easy), without(solution, easy))
    assert (terminal_loss()(solution, hard) >= without(solution, hard)).all()


def test_log_kkt_equals_its_formula(program, solution, reference):
    terms, _ = defined_terms(program, solution)
    squares = 10 * terms["eq"] + 10 * terms["con"] + 0.1 * terms["mov"]
    squares = squares + solution.dual_residual**2 + 3 * solution.gap**2
    loss = log_kkt_loss()
    torch.testing.assert_close(loss(solution, reference), squares.log(), **CLOSE)
    assert torch.equal(loss.merit(solution, reference), loss(solution, reference))


# No labels


def test_programs_hold_no_solution():
    names = [field.name for field in dataclasses.fields(ConicProgram)]
    assert names == ["A", "b", "c", "cone", "Q"]


@pytest.mark.parametrize("method", ["RCDRS-Env", "L-PDHG"])
@pytest.mark.parametrize("recipe", ["paper", "log_kkt"])
def test_solutions_do_not_reach_the_weights(method, recipe, tmp_path, monkeypatch):
    """Trained on instances without solutions, which a file may not have: the same bytes."""
    settings = training("synthetic", method, recipe, recipe={"epochs": 3})
    complete = generate("socp-small", 0, sizes={"train": 8, "validation": 4, "test": 1})
    blind = InstanceSet(complete.meta, without_solutions(complete.tensors))
    core = complete.owner | {"depth": 3, "alpha": 1.6, "beta": 1.0}
    (tmp_path / "core.json").write_text(json.dumps(core))
    for name, instances in (("complete", complete), ("blind", blind)):
        monkeypatch.setattr(stages, "load", lambda _, data=instances: data)
        files = tmp_path / f"{name}.npz", tmp_path / "core.json"
        out, on = tmp_path / name / "layer.pt", torch.device("cpu")
        train_run("synthetic", *files, Run(method, recipe), settings, 0, out, on)
    for file in ("layer.pt", "layer.csv"):
        contents = [(tmp_path / name / file).read_bytes() for name in ("complete", "blind")]
        assert contents[0] == contents[1]


def without_solutions(tensors):
    """The tensors of a file, with NaN for every x*, s* and lambda*."""
    known = [name for name in tensors if name.endswith(("_x", "_s", "_y"))]
    assert len(known) == 9
    return tensors | {name: torch.full_like(tensors[name], torch.nan) for name in known}
