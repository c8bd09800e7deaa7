"""What a file holds is checked when it is read: shapes, numbers, and what it says that it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from conftest import TINY_NETWORK, random_tensor

from rcdrs import RCDRSLayer
from rcdrs.cli.main import main
from rcdrs.cones import Nonneg
from rcdrs.experiments.dfl.data import DecisionSet
from rcdrs.experiments.dfl.data import generate as draw_decisions
from rcdrs.experiments.dispatch.scenarios import ScenarioSet
from rcdrs.experiments.dispatch.scenarios import generate as draw_days
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.files import read_arrays, read_checkpoint, write_arrays, write_checkpoint

FEW = {"train": 2, "validation": 2, "test": 3}
SETS = {
    "socp": (InstanceSet, lambda: generate("socp-small", 0, FEW)),
    "double": (InstanceSet, lambda: generate("socp-small", 0, FEW, torch.float64)),
    "dfl": (DecisionSet, lambda: draw_decisions(0, FEW)),
    "dispatch": (ScenarioSet, lambda: draw_days(0, FEW, "inequality", TINY_NETWORK)),
}


def spoilt(array, value):
    changed = array.copy()
    changed.flat[1] = value
    return changed


def without(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def put(name, change):
    return lambda arrays: arrays | {name: change(arrays.get(name))}


def meta(**changes):
    def change(array):
        stored = json.loads(str(array)) | changes
        return np.array(json.dumps({k: v for k, v in stored.items() if v is not ...}))

    return put("meta", change)


PROGRAMS = {
    "NaN": (put("test_x", lambda x: spoilt(x, np.nan)), "test_x holds 1 NaN or infinite"),
    "inf": (put("train_y", lambda x: spoilt(x, np.inf)), "train_y holds 1 NaN or infinite"),
    "NaN in A": (put("A", lambda x: spoilt(x, np.nan)), "A holds 1 NaN or infinite"),
    "one row": (put("test_x", lambda x: x[:1]), r"x has shape \(1, "),
    "other order": (put("test_x", lambda x: x[::-1]), r"test: A x\* = b does not hold"),
    "no rows": (put("test_x", lambda x: x[:0]), "test_x is empty"),
    "missing": (without("train_s"), "it lacks arrays train_s"),
    "missing A": (without("A"), "it lacks arrays A"),
    "unknown": (put("test_z", lambda _: np.ones(3)), "it has unknown arrays test_z|mixes"),
    "one more axis": (put("test_b", lambda x: x[None]), "b has shape"),
    "one A each": (put("A", lambda x: np.stack([x] * 3)), r"A has shape \(3, .*expected \(m, n\)"),
    "integers": (put("test_b", lambda x: x.astype(int)), "test_b has dtype torch.int64"),
    "text": (put("test_b", lambda x: x.astype(str)), "TypeError"),
    "half": (put("test_b", lambda x: x.astype(np.float16)), "test_b has dtype torch.float16"),
    "columns of A": (put("A", lambda x: x[:, 1:]), "cone has dimension"),
    "A of another scale": (put("A", lambda x: x * x.dtype.type(1.01)), r"A x\* = b does not hold"),
    "c": (put("test_c", lambda x: spoilt(x, 1.5)), r"test: A'lambda\* \+ s\* = c does not hold"),
    "no case": (meta(case=...), "case None and seed 0|KeyError: 'case'"),
    "no seed": (meta(seed=...), "seed None"),
    "seed as text": (meta(seed="0"), "seed '0'"),
    "seed as truth": (meta(seed=True), "seed True"),
    "negative seed": (meta(seed=-1), "seed -1"),
    "case as a list": (meta(case=["socp-small"]), "TypeError|case"),
    "another case": (meta(case="qp-none"), "unknown case|expected"),
    "no meta": (without("meta"), "meta"),
}
DAYS = {
    "NaN": (put("test_realised_load", lambda x: spoilt(x, np.nan)), "holds 1 NaN or infinite"),
    "negative": (put("test_realised_load", lambda x: -x), "realised load is negative"),
    "one day": (
        lambda arrays: (
            arrays | {key: arrays[key][:1] for key in arrays if key.startswith("test_realised")}
        ),
        "the forecast has 3 days and 1 are realised",
    ),
    "missing": (without("train_forecast_load"), "it lacks arrays train_forecast_load"),
    "unknown": (put("A", lambda _: np.ones(3, np.float32)), "it has unknown arrays A"),
    "other dtype": (put("test_realised_load", lambda x: x.astype(float)), "mixes torch.float32"),
    "no network": (meta(network=...), "KeyError: 'network'"),
    "no seed": (meta(seed=...), "seed None"),
}
CASES = [(kind, name) for kind in ("socp", "double", "dfl") for name in PROGRAMS]
CASES += [("dispatch", name) for name in DAYS]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_instances_that_are_not_what_they_should_be_are_named(tmp_path, kind, name):
    path, (load, make) = tmp_path / "set.npz", SETS[kind]
    make().save(path)
    load.load(path)
    change, told = (DAYS if kind == "dispatch" else PROGRAMS)[name]
    write_arrays(path, change(read_arrays(path)))
    message = rf"set\.npz is not a readable .*({told}).*: delete it and"
    with pytest.raises(ValueError, match=message):
        load.load(path)


# Checkpoints


@pytest.fixture
def layer(tmp_path):
    A = random_tensor(3, 6, dtype=torch.float32)
    RCDRSLayer(A, Nonneg(6), depth=3).save(tmp_path / "layer.pt")
    return tmp_path / "layer.pt", A


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda w, name: w | {name: torch.full_like(w[name], torch.nan)}, "{} holds .* NaN"),
        (lambda w, name: w | {name: torch.full_like(w[name], torch.inf)}, "{} holds .* infinite"),
        (lambda w, name: w | {name: w[name][:1]}, "{} has shape"),
        (lambda w, name: w | {name: w[name].long()}, "{} has dtype torch.int64"),
        (lambda w, name: w | {name: 1.0}, "{} has shape None"),
        (lambda w, name: w | {"more": w[name]}, "another layer, as of more"),
        (lambda w, name: {k: v for k, v in w.items() if k != name}, "another layer, as of {}"),
    ],
)
def test_weights_that_do_not_fit_are_named(layer, change, told):
    path, A = layer
    config, weights = read_checkpoint(path)
    name = next(name for name in weights if weights[name].ndim == 1 and len(weights[name]) > 1)
    write_checkpoint(path, config, change(weights, name))
    with pytest.raises(ValueError, match=rf"layer\.pt .*{told.format(name)}.*: train it again"):
        RCDRSLayer.load(path, A, Nonneg(6))


@pytest.mark.parametrize(
    "change",
    [
        {"depth": ...},
        {"depth": "3"},
        {"depth": 0},
        {"options": ...},
        {"options": []},
        {"options": {"core": [1.0]}},
        {"options": {"core": [1.0, 1.0]}},
        {"options": {"core": [9.0, 1.0], "controller": {}}},
        {"options": {"core": [1.0, 1.0], "controller": {"hidden": "x"}}},
        {"layer": 3},
        {"cone": ...},
    ],
)
def test_checkpoint_whose_configuration_is_odd_is_named(layer, change):
    path, A = layer
    config, weights = read_checkpoint(path)
    config = {k: v for k, v in (config | change).items() if v is not ...}
    write_checkpoint(path, config, weights)
    with pytest.raises(ValueError, match=r"layer\.pt (holds|is not a readable checkpoint)"):
        RCDRSLayer.load(path, A, Nonneg(6))


# Names


SIZES = json.dumps(FEW)
GRID = json.dumps({"alpha": [1.3], "beta": [1.0], "instances": 2})


def rcdrs(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder as the workflow makes it."""
    folder = tmp_path_factory.mktemp("run")
    for case, seed in (("socp-small", 0), ("socp-small", 1), ("qp-small", 0)):
        out = folder / f"instances/{case}-{seed}.npz"
        assert rcdrs("instances", case, "--seed", seed, "--settings", SIZES, "--out", out) == 0
        for depth in (2, 3):
            core = folder / f"cores/{case}-{seed}-K{depth}.json"
            assert rcdrs("tune", out, "--depth", depth, "--settings", GRID, "--out", core) == 0
    return folder


def swapped(folder, first, second):
    """Two files in each other's place."""
    one, other = (folder / first).read_bytes(), (folder / second).read_bytes()
    (folder / first).write_bytes(other)
    (folder / second).write_bytes(one)


@pytest.mark.parametrize("other", ["socp-small-1", "qp-small-0"])
def test_swapped_instances_are_found(run, capsys, other):
    files = ("instances/socp-small-0.npz", f"instances/{other}.npz")
    swapped(run, *files)
    try:
        core = run / "cores/socp-small-0-K4.json"
        words = ("tune", run / files[0], "--depth", 4, "--settings", GRID, "--out", core)
        assert rcdrs(*words) == 2
        assert "socp-small-0.npz is called as a file with" in capsys.readouterr().err
        assert not core.exists()
    finally:
        swapped(run, *files)


def test_swapped_cores_are_found(run, capsys):
    files = ("cores/socp-small-0-K2.json", "cores/socp-small-0-K3.json")
    swapped(run, *files)
    try:
        words = ("evaluate", run / "instances/socp-small-0.npz", "--core", run / files[0], "F-DRS")
        assert rcdrs(*words) == 2
        assert "K2.json is called as a file with K 2, but this one" in capsys.readouterr().err
    finally:
        swapped(run, *files)


INSTANCES, CORE = "instances/socp-small-0.npz", "cores/socp-small-0-K2.json"
GIVEN = (INSTANCES, "--core", CORE)
TRAINED = "checkpoints/{}/{}/{}.pt"


@pytest.mark.parametrize(
    ("words", "out", "told"),
    [
        (("instances", "socp-small"), "instances/qp-small-0.npz", "case qp-small"),
        (("instances", "socp-small"), "instances/socp-small-7.npz", "seed 7"),
        (("instances", "socp-small"), "references/socp-small-0.npz", "kind references"),
        (("tune", INSTANCES, "--depth", 4), "cores/socp-small-0-K9.json", "K 9"),
        (("tune", INSTANCES, "--depth", 4), "cores/socp-small-5-K4.json", "seed 5"),
        (("train", *GIVEN), TRAINED.format("paper", "L-PDHG", "socp-small-0-K2"), "method L-PDHG"),
        (("train", *GIVEN), TRAINED.format("log_kkt", "RCDRS-Env", "socp-small-0-K2"), "recipe lo"),
        (("train", *GIVEN), TRAINED.format("paper", "RCDRS-Env", "socp-small-0-K3"), "K 3"),
        (("train", *GIVEN), TRAINED.format("paper", "RCDRS-Env", "socp-hard-0-K2"), "case socp-h"),
        (
            ("train", *GIVEN, "--seed", 3),
            TRAINED.format("paper", "RCDRS-Env", "socp-small-0-K2"),
            "seed 0, but this one is with seed 3",
        ),
        (("evaluate", *GIVEN, "F-DRS"), "synthetic/socp-small-0-K2/S-ADMM@paper.csv", "method S-"),
        (("evaluate", *GIVEN, "F-DRS"), "dfl/socp-small-0-K2/F-DRS@paper.csv", "experiment dfl"),
        (("evaluate", *GIVEN, "F-DRS"), "synthetic/socp-small-0-K3/F-DRS@paper.csv", "K 3"),
        (("time", *GIVEN, "--method", "F-DRS"), "timing/socp-small-4.csv", "seed 4"),
        (("trace", *GIVEN, "F-DRS"), "traces/qp-small-0-K2.csv", "case qp-small"),
    ],
)
def test_output_that_is_called_as_another_result_is_refused(
    run, monkeypatch, capsys, words, out, told
):
    monkeypatch.chdir(run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert rcdrs(*words, "--out", out) == 2
    error = capsys.readouterr().err
    assert f"{out} is called as a file with {told}" in error
    assert error.count("\n") == 1
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}


def test_own_names_are_not_looked_at(run, monkeypatch, tmp_path):
    """Also in a folder that looks a little like one of a run."""
    monkeypatch.chdir(run)
    for name in ("a.csv", "mine/qp-hard-9-K7.csv", "mine/qp-hard-9-K7/S-ADMM@paper.csv"):
        assert rcdrs("evaluate", *GIVEN, "F-DRS", "--out", tmp_path / name) == 0


def test_output_in_place_of_an_input_is_refused(run, tmp_path, capsys):
    (tmp_path / "set.npz").write_bytes((run / INSTANCES).read_bytes())
    given = (tmp_path / "set.npz", "--core", run / CORE)
    assert rcdrs("evaluate", *given, "F-DRS", "--out", tmp_path / "set.csv") == 2
    assert "set.npz would be replaced, which is an input" in capsys.readouterr().err
    assert (tmp_path / "set.npz").read_bytes() == (run / INSTANCES).read_bytes()
