"""Trained layers on other data than their own: the targets, and what stands in each line."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from conftest import ROOT, solver
from test_engine import META, Accelerator

from rcdrs.artifact.plan import Plan
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.base import Run
from rcdrs.experiments.engine import (
    KEYS,
    Asked,
    evaluate,
    make_instances,
    read_core,
    shift,
    train_run,
    tune,
    write_rows,
)
from rcdrs.experiments.settings import merge
from rcdrs.experiments.synthetic import layers
from rcdrs.experiments.synthetic.instances import CASES, InstanceSet, generate
from rcdrs.experiments.synthetic.shift import METRICS, targets
from rcdrs.reporting.results import read_rows

CPU = torch.device("cpu")
DEPTH, SEED = 3, 2
SIZES = {"train": 8, "validation": 4, "test": 5}
ONE_PAIR = {"alpha": [1.3], "beta": [1.0], "instances": 4}
FEW = {"instances": SIZES, "grid": ONE_PAIR, "depths": [DEPTH, 5], "recipe": {"epochs": 1}}
EXPERIMENT = Plan.read(ROOT).within("one_magnitude").experiments["synthetic"]
SETTINGS = merge(EXPERIMENT.shift_settings(), FEW)
SAMPLING = "one"
METHODS = ("L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-Light")
TARGETS = [
    *("home", "another A", "scale small", "scale hard"),
    *("x times 3", "x over 3", "s times 3", "s over 3", "y times 3", "y over 3"),
    *("condition times 4", "condition over 4", "K 5"),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances of a middle scale, their core, and layers trained on them."""
    folder = tmp_path_factory.mktemp("shift")
    settings = SETTINGS["instances"]
    make_instances("synthetic", "socp-medium", SEED, settings, folder / "set.npz")
    tune("synthetic", folder / "set.npz", DEPTH, ONE_PAIR, folder / "core.json")
    for name in METHODS:
        run = Run(name, "log_kkt")
        told = merge(EXPERIMENT.training(run), {"recipe": {"epochs": 1, "learning_rate": 0.05}})
        train_run("synthetic", *files(folder), run, told, SEED, folder / f"{name}.pt", CPU)
    return folder


def files(folder):
    return folder / "set.npz", folder / "core.json"


def asked(folder, *names):
    return [Asked.parse(f"{n}@log_kkt={folder / n}.pt", "synthetic") for n in names or METHODS]


@pytest.fixture(scope="module")
def lines(work):
    return shift("synthetic", *files(work), asked(work), SETTINGS, CPU)


def line(lines, target, method, tuned="home"):
    (found,) = lines.query("target == @target and method == @method and tuned == @tuned").to_dict(
        "records"
    )
    return found


def test_lines_are_those_of_every_target_and_layer(lines):
    assert list(lines.columns) == [*KEYS, "target", "tuned", *METRICS, "median"]
    expected = [("Grid-DRS", "-", "home"), *((name, "log_kkt", "home") for name in METHODS)]
    expected += [("Grid-DRS", "-", "there"), ("Layerwise-DRS", "log_kkt", "there")]
    found = lines[["target", "method", "recipe", "tuned"]].itertuples(index=False, name=None)
    assert list(found) == [(target, *run) for target in TARGETS for run in expected]
    places = {"experiment": "shift", "family": "socp", "scale": "medium", "K": DEPTH, "seed": SEED}
    assert (lines[list(places)] == pd.Series(places)).all(axis=None)
    assert not lines.isna().any(axis=None)


def test_home_is_the_row_of_the_evaluation(work, lines):
    grid = Asked.parse("Grid-DRS", "synthetic")
    runs = [grid, *asked(work)]
    rows, details = evaluate("synthetic", *files(work), runs, solver("synthetic"), CPU)
    for row in rows.to_dict("records"):
        found = line(lines, "home", row["method"])
        assert {metric: found[metric] for metric in METRICS} == {m: row[m] for m in METRICS}
        distances = torch.from_numpy(details[f"{row['method']}@{row['recipe']}/Dist"])
        assert found["median"] == float(distances.double().median())


@pytest.mark.parametrize("name", METHODS)
def test_another_matrix_is_that_of_the_next_seed(work, lines, name):
    """And the layer is the one of home: its core and its weights."""
    data = generate("socp-medium", SEED + 1, SIZES, sampling=SAMPLING)
    core = read_core(work / "core.json", InstanceSet.load(work / "set.npz").owner).pair
    layer = find_method(name).build(data.A, data.cone, DEPTH, core)
    layer = type(layer).load(work / f"{name}.pt", data.A, data.cone, DEPTH)
    found = line(lines, "another A", name)
    for metric in METRICS:
        values = layers.measure(layer, data.test)[metric]
        assert found[metric] == float(values.double().mean()), metric


def test_core_of_there_is_selected_there(work):
    """With a choice of cores, the one that validation instances of the target select."""
    settings = merge(SETTINGS, {"grid": {"alpha": [1.0, 1.3, 1.6], "beta": [0.3, 1.0, 3.0]}})
    lines = shift("synthetic", *files(work), [], settings, CPU)
    data = generate("socp-hard", SEED, SIZES, sampling=SAMPLING)
    core = layers.tune(data, DEPTH, alphas=[1.0, 1.3, 1.6], betas=[0.3, 1.0, 3.0], scored=4)
    layer = find_method("Grid-DRS").build(data.A, data.cone, DEPTH, core)
    found = line(lines, "scale hard", "Grid-DRS", "there")
    assert found["Gap"] == float(layers.measure(layer, data.test)["Gap"].double().mean())


def test_targets_differ_from_home_in_what_they_say(work):
    data = InstanceSet.load(work / "set.npz")
    found = {target.name: target for target in targets(data, DEPTH, SETTINGS)}
    assert list(found) == TARGETS
    assert found["home"].data is found["K 5"].data is data
    assert {name: t.depth for name, t in found.items() if t.depth != DEPTH} == {"K 5": 5}
    sizes = {
        name: {s: getattr(t.data, s).program.batch for s in SIZES} for name, t in found.items()
    }
    assert all(size == SIZES for size in sizes.values())
    for part in ("x", "s", "y"):
        for name, factor in ((f"{part} times 3", 3), (f"{part} over 3", 1 / 3)):
            other = found[name].data
            assert torch.equal(other.A, data.A)
            for each in ("x", "s", "y"):
                expected = getattr(data.test, each) * (factor if each == part else 1)
                # Rounded to float32 before or after.
                torch.testing.assert_close(getattr(other.test, each), expected, rtol=1e-6, atol=0)
    for name, factor in (("condition times 4", 4), ("condition over 4", 1 / 4)):
        values = torch.linalg.svdvals(found[name].data.A.double())
        assert float(values[0] / values[-1]) == pytest.approx(
            factor * CASES["socp-medium"].condition, rel=1e-4
        )
        assert torch.equal(found[name].data.test.x, data.test.x)


def test_lines_come_back_from_their_file(lines, tmp_path):
    path = tmp_path / "universes/one_magnitude/shifts" / f"socp-medium-{SEED}-K{DEPTH}.csv"
    write_rows(lines, path)
    rows = read_rows([path])
    assert len(rows) == len(lines)
    assert set(rows["universe"]) == {"one_magnitude"}


def test_experiment_without_other_data_is_named(work):
    with pytest.raises(ValueError, match="experiment is 'ablation', whose stages have no 'shift'"):
        shift("ablation", *files(work), [], SETTINGS, CPU)
    with pytest.raises(ValueError, match="dfl has no other data"):
        Plan.read(ROOT).experiments["dfl"].shift_settings()


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_shift_leaves_no_tensor_behind(work, monkeypatch):
    """Scales have other ranks than the one that the accelerator answers with."""
    same = {name: case for name, case in CASES.items() if name == "socp-medium"}
    monkeypatch.setattr("rcdrs.experiments.synthetic.shift.CASES", same)
    monkeypatch.setattr(layers, "tune", lambda *_, **__: (1.3, 1.0))
    with Accelerator(rank=same["socp-medium"].m):
        lines = shift("synthetic", *files(work), asked(work), SETTINGS, META)
    assert list(dict.fromkeys(lines["target"])) == [t for t in TARGETS if "scale" not in t]
