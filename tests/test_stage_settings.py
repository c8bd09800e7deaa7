"""Settings on the command line: what a stage cannot take is named with its place."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT, TINY_NETWORK

import rcdrs.experiments.dfl.data as decisions
import rcdrs.experiments.dispatch.scenarios as days
import rcdrs.experiments.synthetic.instances as benchmarks
from rcdrs.artifact.config import checked
from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.experiments.base import Run, experiments
from rcdrs.experiments.settings import merge
from rcdrs.files import write_json

FEW = {"train": 2, "validation": 2, "test": 2}
PLAN = Plan.read(ROOT)
KINDS = ("instances", "cores", "checkpoints", "rows", "times", "traces")


def runs_of(experiment):
    found = PLAN.experiments[experiment]
    trained = {found.trained(run) for run in found.runs(found.cases[0])} - {None}
    return [*trained, *filter(None, map(found.start, trained))] or [Run("F-DRS")]


@pytest.mark.parametrize("experiment", experiments())
def test_settings_of_the_configuration_pass_as_they_are(experiment):
    """What the workflow gives to a stage, to the last number."""
    found = PLAN.experiments[experiment]
    for run in runs_of(experiment):
        shifts = ["shifts"] if experiment == "synthetic" else []
        for kind in (*KINDS, *(["references"] if found.reference else []), *shifts):
            if kind == "times" and experiment == "ablation":
                continue
            written = PLAN.settings(PLAN.key(kind, found.cases[0], 0, **run._asdict(), K=5))
            passed = checked(found.form(kind, run), json.loads(json.dumps(written))).plain()
            assert repr(sorted_parts(passed)) == repr(sorted_parts(written)), (kind, run)


def sorted_parts(value):
    if isinstance(value, dict):
        return {key: sorted_parts(value[key]) for key in sorted(value)}
    return value


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances and a core of every experiment."""
    folder = tmp_path_factory.mktemp("work")
    drawn = {
        "synthetic": benchmarks.generate("socp-small", 0, FEW),
        "dfl": decisions.generate(0, FEW),
        "dispatch": days.generate(0, FEW, "inequality", TINY_NETWORK),
    }
    for name, data in drawn.items():
        data.save(folder / f"{name}.npz")
        core = data.owner | {"depth": 2, "alpha": 1.3, "beta": 1.0}
        write_json(folder / f"{name}.json", core)
    return folder


def settings(kind, experiment, run, **changes):
    found = PLAN.experiments[experiment]
    written = {
        "instances": found.instances,
        "tune": found.grid,
        "train": lambda: found.training(run),
        "evaluate": lambda: found.solver(run),
        "trace": lambda: found.solver(run),
        "shift": found.shift_settings,
        "time": lambda: found.solver(run) | PLAN.config.timing.plain(),
        "reference": found.reference_settings,
    }[kind]()
    merged = merge(written, changes)
    return json.dumps({key: value for key, value in merged.items() if value is not ...})


ENV, LOG = Run("RCDRS-Env"), Run("RCDRS-Env", "log_kkt")
NO_LOSS = {key: v for key, v in PLAN.config.recipes.paper.plain().items() if key != "loss"}
ODD = [
    ("instances", "synthetic", ENV, {"train": "8"}, "train is '8', expected an integer"),
    ("instances", "synthetic", ENV, {"train": 8.5}, "train is 8.5, expected an integer"),
    ("instances", "synthetic", ENV, {"train": True}, "train is True, expected an integer"),
    ("instances", "synthetic", ENV, {"train": None}, "train is None, expected an integer"),
    ("instances", "synthetic", ENV, {"sampling": "no"}, "sampling is 'no', expected one of first"),
    ("instances", "dispatch", ENV, {"sampling": "first"}, "unknown key 'sampling', expected train"),
    ("instances", "synthetic", ENV, {"more": 1}, "unknown key 'more', expected train, validat"),
    ("tune", "synthetic", ENV, {"alpha": 1.0}, "alpha is 1.0, expected a list"),
    ("tune", "synthetic", ENV, {"alpha": ["1"]}, "alpha[0] is '1', expected a number"),
    ("tune", "synthetic", ENV, {"beta": [1, 1]}, "beta is [1, 1], expected each entry once"),
    ("tune", "dfl", ENV, {"beta": [float("inf")]}, "beta[0] is inf, expected a finite number"),
    ("tune", "dispatch", ENV, {"beta": [-1]}, "beta[0] is -1, expected more than 0"),
    ("train", "synthetic", ENV, {"recipe": 3}, "recipe is 3, expected a section of settings"),
    ("train", "synthetic", ENV, {"recipe": ...}, "'recipe' is a required property"),
    ("train", "synthetic", ENV, {"recipe": {"loss": 1}}, "recipe.loss is 1, expected a section"),
    ("train", "synthetic", ENV, {"recipe": {"loss": None}}, "recipe.loss is None, expected"),
    ("train", "synthetic", ENV, {"recipe": {"clip": 0}}, "recipe.clip is 0, expected more than"),
    ("train", "synthetic", ENV, {"recipe": {"epochs": 1e9}}, "epochs is 1000000000.0, expected"),
    ("train", "synthetic", ENV, {"recipe": {"final": 1}}, "recipe.final is 1, expected less than"),
    ("train", "synthetic", ENV, {"recipe": {"cosine": 1}}, "cosine is 1, expected true or false"),
    ("train", "synthetic", LOG, {"recipe": {"reference": "base"}}, "unknown key 'reference'"),
    ("train", "synthetic", LOG, {"recipe": {"loss": {"dom": 1}}}, "recipe.loss: unknown key 'dom'"),
    ("train", "synthetic", ENV, {"controller": []}, "controller is [], expected a section"),
    ("train", "synthetic", ENV, {"controller": {"hidden": 0}}, "controller.hidden is 0, expected"),
    ("train", "dfl", ENV, {"recipe": {"batch": "all"}}, "recipe.batch is 'all', expected an int"),
    ("train", "dfl", Run("PTO"), {"recipe": {"loss": {}}}, "recipe: unknown key 'loss', expected"),
    ("train", "dispatch", ENV, {"recipe": {"loss": {}}}, "recipe: unknown key 'loss', expected"),
    ("train", "dispatch", LOG, {"recipe": {"loss": {"gap": -1}}}, "recipe.loss.gap is -1, expec"),
    ("evaluate", "synthetic", ENV, {"controller": ...}, "'controller' is a required property"),
    ("evaluate", "synthetic", ENV, {"recipe": {}}, "unknown key 'recipe', expected controller"),
    ("evaluate", "dfl", ENV, {"controller": "gru"}, "controller is 'gru', expected a section"),
    ("trace", "synthetic", ENV, {"controller": {"growth": {"rho": 0.5}}}, "growth.rho is 0.5, exp"),
    ("trace", "dispatch", ENV, {"steps": 3}, "unknown key 'steps', expected controller"),
    ("shift", "synthetic", LOG, {"depths": []}, "depths is [], expected 1 or more entries"),
    ("shift", "synthetic", LOG, {"shifts": {"magnitude": 0}}, "shifts.magnitude is 0, expected"),
    ("shift", "synthetic", LOG, {"instances": {"sampling": "no"}}, "instances.sampling is 'no'"),
    ("time", "synthetic", ENV, {"repeats": 0}, "repeats is 0, expected at least 1"),
    ("time", "synthetic", ENV, {"warm_up": -1}, "warm_up is -1, expected at least 0"),
    ("time", "dispatch", ENV, {"warm_up": ...}, "'warm_up' is a required property"),
    ("reference", "dispatch", ENV, {"steps": "many"}, "steps is 'many', expected an integer"),
    ("reference", "dispatch", ENV, {"depth": 0}, "depth is 0, expected at least 1"),
]


@pytest.mark.parametrize(("command", "experiment", "run", "changes", "told"), ODD)
def test_odd_settings_are_one_clear_line(
    work, tmp_path, capsys, command, experiment, run, changes, told
):
    data = work / f"{experiment}.npz"
    core = ("--core", data.with_suffix(".json"))
    learned = f"{run}=a.pt" if experiment != "dfl" else "PTO@paper=a.pt"
    where = {
        "instances": ("dispatch-inequality" if experiment == "dispatch" else "socp-small",),
        "tune": (data, "--depth", 2),
        "train": (data, *core, "--method", run.method, "--recipe", run.recipe),
        "evaluate": (data, *core, learned),
        "trace": (data, *core, learned),
        "shift": (data, *core, learned),
        "time": (data, *core, "--method", "F-DRS"),
        "reference": (data, *core),
    }[command]
    given = ("--settings", settings(command, experiment, run, **changes))
    words = (command, *where, *given, "--out", tmp_path / "a.pt")
    assert main([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.startswith(f"rcdrs {command}: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_recipe_without_its_loss_is_named(work, tmp_path, capsys):
    given = {"controller": PLAN.config.controller.plain(), "recipe": NO_LOSS}
    files = (work / "synthetic.npz", "--core", work / "synthetic.json")
    words = ("train", *files, "--settings", json.dumps(given), "--out", tmp_path / "a.pt")
    assert main([str(word) for word in words]) == 2
    assert "recipe: 'loss' is a required property" in capsys.readouterr().err
