"""The stages of dispatch, file to file, on a small network."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import TINY_NETWORK as TINY
from conftest import paper, solver, training

from rcdrs.experiments.base import Run
from rcdrs.experiments.dispatch import optimum
from rcdrs.experiments.dispatch.methods import METHODS
from rcdrs.experiments.dispatch.metrics import DispatchLoss, cost, operate
from rcdrs.experiments.dispatch.scenarios import Climate, ScenarioSet, generate
from rcdrs.experiments.engine import (
    KEYS,
    NOT_LEARNED,
    Asked,
    evaluate,
    make_reference,
    read_core,
    time_methods,
    trace,
    train_run,
    tune,
)
from rcdrs.files import read_checkpoint
from rcdrs.layer import DRSLayer
from rcdrs.reporting.report.day import draw_day
from rcdrs.rollout.fixed import rollout

CPU = torch.device("cpu")
METRICS = ["CostGap", "Eq", "Box", "Shed", "Curt", "Reserve", "Emerg", "Pass", "OptGap"]
DEPTH = 3
SHORT = {"epochs": 4, "batch": 8, "learning_rate": 0.02}
SMALL = {"hidden": 8}
SOLVER = solver("dispatch", controller=SMALL)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances of the small network, core, reference and two trained layers."""
    folder = tmp_path_factory.mktemp("dispatch")
    sizes = {"train": 24, "validation": 8, "test": 6}
    generate(2, sizes, "inequality", TINY, Climate(level=1.1)).save(folder / "set.npz")
    few = paper().dispatch.grid.but(beta=[0.2, 0.5]).plain()
    tune("dispatch", folder / "set.npz", DEPTH, few, folder / "core.json")
    make_reference("dispatch", *files(folder), 50, folder / "reference.npz")
    for name in ("RCDRS-Env", "RCDRS-NoEnv"):
        trained(folder, f"{name}.pt", name)
    return folder


def files(folder):
    return folder / "set.npz", folder / "core.json"


def trained(folder, out, method="RCDRS-Env", by="paper", **parts):
    settings = training("dispatch", method, by, **{"recipe": SHORT, "controller": SMALL} | parts)
    train_run("dispatch", *files(folder), Run(method, by), settings, 0, folder / out, CPU)
    return folder / out


def runs(folder, *names):
    return [
        Asked.parse(f"{m}@paper={folder / m}.pt" if METHODS[m].learned else m, "dispatch")
        for m in names or METHODS
    ]


@pytest.fixture(scope="module")
def evaluated(work):
    return evaluate("dispatch", *files(work), runs(work), SOLVER, CPU, work / "reference.npz")


def core_of(work):
    core = read_core(work / "core.json", {"case": "dispatch-inequality", "seed": 2})
    assert core.depth == DEPTH
    return core.pair


def test_rows_and_details(work, evaluated):
    rows, details = evaluated
    assert list(rows.columns) == [*KEYS, *METRICS]
    expected = [
        (
            "dispatch",
            "dispatch",
            "inequality",
            DEPTH,
            2,
            m,
            "paper" if METHODS[m].learned else NOT_LEARNED,
        )
        for m in METHODS
    ]
    assert list(rows[list(KEYS)].itertuples(index=False, name=None)) == expected
    assert rows[METRICS].notna().all(axis=None)
    for row in rows.to_dict("records"):
        for metric in METRICS:
            values = details[f"{row['method']}@{row['recipe']}/{metric}"]
            assert values.shape == (6,)
            assert row[metric] == pytest.approx(values.astype(np.float64).mean(), rel=1e-12)


def test_row_is_that_of_the_loaded_layer(work, evaluated):
    data = ScenarioSet.load(work / "set.npz")
    layer = DRSLayer(data.model.A, data.test.cone, DEPTH, *core_of(work))
    seen = operate(data.test, layer.solve(data.test).x)
    row = evaluated[0].set_index("method").loc["Grid-DRS"]
    for metric in seen._fields:
        assert row[metric] == pytest.approx(float(getattr(seen, metric).mean()), rel=1e-6)


def test_reference_is_the_long_run_and_the_optimum(work):
    data = ScenarioSet.load(work / "set.npz")
    long_run = rollout(data.test, *core_of(work), 50).z
    with np.load(work / "reference.npz") as stored:
        np.testing.assert_allclose(stored["reference"], cost(data.test, long_run), rtol=1e-6)
        exact = cost(data.test, optimum.solve(data.test).float())
        np.testing.assert_allclose(stored["optimum"], exact, rtol=1e-6)


@pytest.mark.parametrize("name", ["RCDRS-Env", "RCDRS-NoEnv"])
def test_training_lowers_the_merit(work, name):
    curve = pd.read_csv(work / f"{name}.csv")
    assert list(curve["epoch"]) == [0, 1, 2, 3, 4]
    assert curve["merit"].min() < 0.98 * curve["merit"][0]


def test_training_is_deterministic_and_resumes_to_the_same_bytes(work, tmp_path, monkeypatch):
    for name in ("set.npz", "core.json"):
        (tmp_path / name).write_bytes((work / name).read_bytes())
    assert trained(tmp_path, "a.pt").read_bytes() == (work / "RCDRS-Env.pt").read_bytes()
    clock = SimpleNamespace(monotonic=itertools.count(0, 60).__next__)
    monkeypatch.setattr("rcdrs.training.loop.time", clock)  # saves its progress every epoch
    calls = itertools.count(1)

    def stop(self, solution, reference=None):
        if next(calls) == 8:  # in the third epoch of three minibatches
            raise KeyboardInterrupt
        return self.of(solution.program, solution.x)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(DispatchLoss, "__call__", stop)
        interrupted.setattr(DispatchLoss, "merit", lambda self, s, r=None: self.of(s.program, s.x))
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path, "b.pt")
    assert (tmp_path / "b.resume").exists()
    assert trained(tmp_path, "b.pt").read_bytes() == (work / "RCDRS-Env.pt").read_bytes()
    assert not (tmp_path / "b.resume").exists()


def test_log_kkt_recipe_trains(work):
    path = trained(work, "log.pt", by="log_kkt")
    assert read_checkpoint(path)[0]["trained"] == {
        "case": "dispatch-inequality",
        "seed": 2,
        "recipe": "log_kkt",
    }
    curve = pd.read_csv(path.with_suffix(".csv"))
    assert curve["merit"].min() < curve["merit"][0]


def test_checkpoint_of_something_else_is_refused(work, tmp_path):
    reference = work / "reference.npz"
    for text, settings, message in (
        (f"RCDRS-Env@paper={work / 'RCDRS-NoEnv.pt'}", SOLVER, "another method"),
        (f"RCDRS-Env@log_kkt={work / 'RCDRS-Env.pt'}", SOLVER, "was trained for"),
        (f"RCDRS-Env@paper={work / 'RCDRS-Env.pt'}", solver("dispatch"), "another method"),
    ):
        asked = [Asked.parse(text, "dispatch")]
        with pytest.raises(ValueError, match=message):
            evaluate("dispatch", *files(work), asked, settings, CPU, reference)
    with pytest.raises(ValueError, match="'recipes'"):
        trained(work, "x.pt", recipes={})
    with pytest.raises(ValueError, match="nothing to train"):
        trained(work, "x.pt", "F-DRS")
    with pytest.raises(ValueError, match="unknown method 'L-PDHG', expected one of F-DRS"):
        trained(work, "x.pt", "L-PDHG")
    with pytest.raises(ValueError, match=r"\.pt"):
        trained(work, "x.bin")
    np.savez(tmp_path / "short.npz", reference=np.ones(2), optimum=np.ones(2))
    with pytest.raises(ValueError, match="6 test days"):
        evaluate("dispatch", *files(work), runs(work), SOLVER, CPU, tmp_path / "short.npz")
    with pytest.raises(ValueError, match=r"reference is missing: make it with `rcdrs reference`"):
        evaluate("dispatch", *files(work), runs(work), SOLVER, CPU)


def test_times_have_one_row_a_depth_and_method(work):
    instances, core = files(work)
    settings = SOLVER | {"warm_up": 0, "repeats": 1}
    rows = time_methods("dispatch", instances, [core], ["F-DRS", "RCDRS-Env"], settings, CPU)
    assert list(rows.columns) == [*KEYS[:-1], "time_ms", "device"]
    assert (rows["time_ms"] > 0).all()


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_day_is_drawn(work, tmp_path, suffix):
    out = tmp_path / f"day{suffix}"
    rows = trace("dispatch", *files(work), runs(work, "Grid-DRS", "RCDRS-Env"), SOLVER, CPU)
    assert list(rows["schedule"].unique()) == ["Grid-DRS, K = 3", "RCDRS-Env, K = 3", "Optimum"]
    draw_day(rows).savefig(out)
    assert out.stat().st_size > 5000
