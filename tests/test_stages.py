"""The stages from file to file, what settings change, and that they run on any device."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import random_tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import METHODS, evaluate, find_method
from rcdrs.experiments.staging import (
    KEYS,
    NOT_LEARNED,
    Run,
    device,
    read_core,
    write_details,
    write_rows,
)
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.experiments.synthetic.stages import (
    evaluate_runs,
    make_instances,
    make_recipe,
    time_methods,
    train_layer,
    tune,
)
from rcdrs.layer import read_checkpoint
from rcdrs.solver.problem import ConicProgram
from rcdrs.training.loop import RECIPES, TrainingDiverged, _check_finite
from rcdrs.training.losses import LogKKTLoss

CPU, META = torch.device("cpu"), torch.device("meta")
aten = torch.ops.aten
DEPTH = 3
SIZES = {"train": 8, "validation": 4, "test": 5}
METRICS = ["ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"]
LEARNED = [name for name, method in METHODS.items() if method.learned]
SHORT = {"recipe": {"epochs": 2}}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, cores, and a checkpoint of every learned method."""
    folder = tmp_path_factory.mktemp("stages")
    make_instances("socp-small", 2, SIZES, folder / "set.npz")
    # The pair is not the one of F-DRS, so that methods and references differ.
    tune(folder / "set.npz", [DEPTH], folder / "cores.json", {"alphas": [1.3], "betas": [1.0]})
    for name in LEARNED:
        trained(folder, f"{name}.pt", name)
    return folder


def trained(folder, out, method="RCDRS-Env", recipe="paper", settings=SHORT, seed=0, on=CPU):
    """The path of a checkpoint, trained now."""
    files = folder / "set.npz", folder / "cores.json"
    train_layer(*files, DEPTH, method, recipe, seed, folder / out, settings, on)
    return folder / out


def runs(folder, *names):
    return [
        Run.parse(f"{name}@paper={folder / name}.pt" if name in LEARNED else name)
        for name in names or METHODS
    ]


def evaluated(folder, which, settings=SHORT, on=CPU, **names):
    files = folder / "set.npz", folder / "cores.json"
    return evaluate_runs(*files, DEPTH, which, settings, on, **names)


# Rows and details


@pytest.fixture(scope="module")
def every(work):
    return evaluated(work, runs(work))


def test_rows_have_exactly_the_keys_and_the_metrics(every):
    rows, _ = every
    assert list(rows.columns) == [*KEYS, *METRICS]
    expected = [
        ("synthetic", "socp", "small", DEPTH, 2, name, "paper" if name in LEARNED else NOT_LEARNED)
        for name in METHODS
    ]
    assert list(rows[list(KEYS)].itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("name", METHODS)
def test_row_is_the_mean_of_the_loaded_layer(work, every, name):
    data = InstanceSet.load(work / "set.npz")
    core = read_core(work / "cores.json", DEPTH)
    layer = find_method(name).build(data.A, data.case.cone, DEPTH, core)
    if name in LEARNED:
        layer = type(layer).load(work / f"{name}.pt", data.A, data.case.cone, DEPTH)
    row = every[0].set_index("method").loc[name]
    for metric, values in evaluate(layer, data.test).items():
        assert row[metric] == float(values.double().mean()), metric


def test_details_average_to_the_rows(every):
    rows, details = every
    assert len(details) == len(METHODS) * len(METRICS)
    for row in rows.to_dict("records"):
        for metric in METRICS:
            values = details[f"{row['method']}@{row['recipe']}/{metric}"]
            assert (values.shape, values.dtype) == ((SIZES["test"],), np.float32)
            # Both are float64 sums of the same five float32 numbers, in another order.
            assert row[metric] == pytest.approx(values.astype(np.float64).mean(), rel=1e-15)


def test_rows_and_details_come_back_from_their_files(every, tmp_path):
    rows, details = every
    write_rows(rows, tmp_path / "new" / "rows.csv")
    write_details(details, tmp_path / "new" / "details.npz")
    read = csv.DictReader((tmp_path / "new" / "rows.csv").read_text().splitlines())
    assert list(read) == [{k: str(v) for k, v in row.items()} for row in rows.to_dict("records")]
    with np.load(tmp_path / "new" / "details.npz", allow_pickle=False) as stored:
        assert {name: array.tobytes() for name, array in stored.items()} == {
            name: array.tobytes() for name, array in details.items()
        }


def test_label_and_experiment_rename_the_row_and_nothing_else(work, every):
    rows, details = evaluated(work, runs(work, "RCDRS-Env"), experiment="ablation", label="full")
    (row,) = rows.to_dict("records")
    plain = every[0].set_index("method").loc["RCDRS-Env"]
    assert (row["experiment"], row["method"], row["recipe"]) == ("ablation", "full", "paper")
    assert all(row[metric] == plain[metric] for metric in METRICS)
    assert set(details) == {f"full@paper/{metric}" for metric in METRICS}


def test_label_for_two_runs_is_refused(work):
    with pytest.raises(ValueError, match="label"):
        evaluated(work, runs(work, "F-DRS", "Grid-DRS"), label="both")


def test_times_have_one_row_a_depth_and_method(work, tmp_path):
    tune(work / "set.npz", [2, 3], tmp_path / "cores.json", {})
    files = work / "set.npz", tmp_path / "cores.json"
    rows = time_methods(*files, [2, 3], ["F-DRS", "RCDRS-Env"], CPU, warm_up=0, repeats=1)
    assert list(rows.columns) == [*KEYS[:-1], "time_ms", "device"]
    assert list(zip(rows["K"], rows["method"], strict=True)) == [
        (2, "F-DRS"),
        (2, "RCDRS-Env"),
        (3, "F-DRS"),
        (3, "RCDRS-Env"),
    ]
    assert (rows["time_ms"] > 0).all()
    assert set(rows["device"]) == {"cpu"}


# Cores


def test_tune_writes_the_core_of_each_depth(work, tmp_path):
    tune(work / "set.npz", [2, 20], tmp_path / "cores.json", {})
    validation = InstanceSet.load(work / "set.npz").validation
    stored = json.loads((tmp_path / "cores.json").read_text())
    assert list(stored) == ["2", "20"]
    for depth in (2, 20):
        alpha, beta = select_core(validation, depth)
        assert stored[str(depth)] == {"alpha": alpha, "beta": beta}
        assert read_core(tmp_path / "cores.json", depth) == (alpha, beta)


def test_grid_limits_the_choice(work):
    assert read_core(work / "cores.json", DEPTH) == (1.3, 1.0)


# Settings


def controller(path):
    return read_checkpoint(path)[0]["options"]["controller"]


def test_settings_change_the_controller(work, tmp_path):
    settings = SHORT | {"controller": {"encoder": "mlp", "hidden": 8}}
    copied(work, tmp_path)
    path = trained(tmp_path, "mlp.pt", settings=settings)
    assert controller(work / "RCDRS-Env.pt")["encoder"] == "gru"
    assert (controller(path)["encoder"], controller(path)["hidden"]) == ("mlp", 8)
    run = Run.parse(f"RCDRS-Env@paper={path}")
    rows, _ = evaluated(tmp_path, [run], settings)
    assert len(rows) == 1
    with pytest.raises(ValueError, match="another method, controller or core"):
        evaluated(tmp_path, [run], SHORT)


def test_changes_of_a_method_stand_over_the_settings(work, tmp_path):
    """RCDRS-NoEnv has no envelope whatever the common controller says."""
    copied(work, tmp_path)
    settings = SHORT | {"controller": {"envelope": {"delta_0": 1.0}}}
    assert (
        controller(trained(tmp_path, "a.pt", "RCDRS-NoEnv", settings=settings))["envelope"] is None
    )
    path = trained(tmp_path, "b.pt", "RCDRS-Env", settings=settings)
    assert controller(path)["envelope"]["delta_0"] == 1.0


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_curve_has_the_epochs_of_the_settings(work, tmp_path, epochs):
    copied(work, tmp_path)
    path = trained(tmp_path, "a.pt", settings={"recipe": {"epochs": epochs}})
    assert list(pd.read_csv(path.with_suffix(".csv"))["epoch"]) == list(range(epochs + 1))


def curve(folder, **recipe):
    """The training curve with a changed recipe."""
    path = trained(folder, "a.pt", settings={"recipe": {"epochs": 2, "batch": 4} | recipe})
    return pd.read_csv(path.with_suffix(".csv"))


def test_loss_weight_of_zero_removes_its_term(work, tmp_path):
    copied(work, tmp_path)
    usual = curve(tmp_path)
    without = curve(tmp_path, loss={"con": 0.0})
    assert without["merit"][0] < usual["merit"][0]
    # Nothing is left to learn from: the merit is zero throughout.
    nothing = {"eq": 0, "con": 0, "mov": 0, "obj": 0, "dom": 0, "smooth": 0}
    assert (curve(tmp_path, loss=nothing)["merit"] == 0).all()


def test_reference_decides_what_training_compares_with(work, tmp_path):
    copied(work, tmp_path)
    usual, tuned, base = (
        curve(tmp_path, **given) for given in ({}, {"reference": "tuned"}, {"reference": "base"})
    )
    pd.testing.assert_frame_equal(usual, tuned, check_exact=True)
    # Row 0 is the untrained layer, here no worse in its objective than either reference.
    assert (base["merit"] != tuned["merit"])[1:].all()


def test_finished_training_leaves_no_resume_file(work):
    assert {path.suffix for path in work.iterdir()} == {".npz", ".json", ".pt", ".csv"}


def copied(work, folder):
    """What training needs, in a folder of its own."""
    for name in ("set.npz", "cores.json"):
        (folder / name).write_bytes((work / name).read_bytes())


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_without_changes_is_the_standard_one(name):
    assert make_recipe(name, {}) == (RECIPES[name], "tuned")


def test_recipe_takes_changes_and_keeps_the_rest():
    changes = {"epochs": 7, "loss": {"gap": 0.0}, "reference": "base"}
    recipe, reference = make_recipe("log_kkt", changes)
    expected = dataclasses.replace(RECIPES["log_kkt"], epochs=7, loss=LogKKTLoss(gap=0.0))
    assert (recipe, reference) == (expected, "base")
    assert changes == {"epochs": 7, "loss": {"gap": 0.0}, "reference": "base"}


@pytest.mark.parametrize(
    ("name", "changes", "culprit"),
    [
        ("paper", {"epoch": 2}, "'epoch'"),
        ("paper", {"loss": {"dual": 1.0}}, "'dual'"),
        ("log_kkt", {"loss": {"obj": 1.0}}, "'obj'"),
    ],
)
def test_recipe_names_unknown_keys(name, changes, culprit):
    with pytest.raises((TypeError, ValueError), match=culprit):
        make_recipe(name, changes)


def test_recipe_names_an_unknown_reference():
    with pytest.raises(ValueError, match=r"'Tuned'.*base.*tuned"):
        make_recipe("paper", {"reference": "Tuned"})


def test_settings_name_an_unknown_section(work, tmp_path):
    copied(work, tmp_path)
    with pytest.raises(ValueError, match="'recipes'"):
        trained(tmp_path, "a.pt", settings=SHORT | {"recipes": {"epochs": 1}})


# Devices


def test_device_of_a_machine_without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device() == device("auto") == device("cpu") == CPU
    with pytest.raises(ValueError, match="cuda, but torch sees no CUDA device"):
        device("cuda")


def test_device_of_a_machine_with_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device() == device("cuda") == torch.device("cuda")
    assert device("cpu") == CPU


def test_instances_moved_to_their_own_device_are_the_same_object(work):
    data = InstanceSet.load(work / "set.npz")
    assert data.to(CPU) is data


class Accelerator(TorchDispatchMode):
    """The meta device as a GPU that computes nothing: it is strict about where tensors are.

    Meta tensors hold no numbers.  Questions about them are answered as for good data: `all` is
    true, `any` is `found`, a whole number (the rank of A) is `rank`; what is copied back is ones.
    """

    def __init__(self, rank: int, found: bool = False) -> None:
        super().__init__()
        self.rank, self.found, self.last = rank, found, None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        # As on a GPU, a CPU number without axes may meet other tensors, but not be stacked with
        # them, and indices may be on the CPU.
        stacking = func in (aten.cat.default, aten.stack.default)
        places = {t.device.type for t in tensors if stacking or t.ndim}
        copying = func in (aten._to_copy.default, aten.copy_.default)
        indexing = func is aten.index.Tensor and args[0].device == META
        if len(places) > 1 and not (copying or indexing):
            raise AssertionError(f"{func} mixes devices: {sorted(places)}")
        before, self.last = self.last, func
        if tensors and tensors[0].device == META:
            if func is aten._local_scalar_dense.default:
                kind = tensors[0].dtype
                truth = self.found if before is aten.any.default else True
                return truth if kind == torch.bool else self.rank if kind == torch.int64 else 1.0
            if func is aten._to_copy.default and kwargs.get("device") == CPU:
                return torch.ones(tensors[0].shape, dtype=kwargs.get("dtype") or tensors[0].dtype)
        return func(*args, **kwargs)


def test_accelerator_notices_a_tensor_left_behind():
    here, there = torch.ones(3), torch.ones(3, device="meta")
    with Accelerator(rank=3):
        assert (there * 2 + torch.tensor(1.0)).device == META
        for mixed in (
            lambda: here + there,
            lambda: torch.dot(there, here),
            lambda: here[there > 0],
        ):
            with pytest.raises(AssertionError, match="mixes devices"):
                mixed()


@pytest.fixture(scope="module")
def mixed():
    """Every kind of cone, here and on the accelerator."""
    here = generate("mixed-small", 0, SIZES)
    with Accelerator(rank=here.case.m):
        return here, here.to(META)


@pytest.mark.parametrize("name", METHODS)
def test_method_leaves_no_tensor_behind(mixed, name):
    here, there = mixed
    with Accelerator(rank=here.case.m):
        layer = find_method(name).build(here.A, here.case.cone, DEPTH, (1.6, 1.0)).to(META)
        solution = layer.solve(there.test.program)
        results = (
            solution.actions,
            *solution.state,
            *solution.observation,
            *solution.readout,
            *there.test.errors(solution.x),
        )
    assert {tensor.device for tensor in results} == {META}


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize(
    ("name", "recipe"), [*((name, "paper") for name in LEARNED), ("RCDRS-Env", "log_kkt")]
)
def test_stages_leave_no_tensor_behind(work, tmp_path, name, recipe):
    copied(work, tmp_path)
    with Accelerator(rank=32):
        path = trained(tmp_path, "a.pt", name, recipe, {"recipe": {"epochs": 1}}, on=META)
        # The weights of a meta layer are no numbers, so the checkpoint is the real one.
        run = Run.parse(f"{name}@paper={work / name}.pt")
        rows, _ = evaluated(tmp_path, [run], on=META)
        files = tmp_path / "set.npz", tmp_path / "cores.json"
        times = time_methods(*files, [DEPTH], [name], META, warm_up=0, repeats=1)
    assert path.exists()
    assert len(rows) == len(times) == 1


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "schedule"])
def test_encoders_leave_no_tensor_behind(work, tmp_path, encoder):
    copied(work, tmp_path)
    features = ["con", "eq", "alpha"]
    changed = {"encoder": encoder, "features": features, "controls": ["alpha"]}
    with Accelerator(rank=32):
        settings = {"controller": changed, "recipe": {"epochs": 1}}
        trained(tmp_path, "a.pt", settings=settings, on=META)


def test_selection_of_the_core_leaves_no_tensor_behind(mixed):
    _, there = mixed
    with Accelerator(rank=3):  # the one whole number asked for is the place of the best pair
        assert select_core(there.validation, DEPTH, (1.3, 1.6), (0.1, 0.3)) == (1.6, 0.3)


def test_divergence_is_reported_on_a_gpu():
    losses = torch.ones(4, device="meta")
    with Accelerator(rank=4, found=True), pytest.raises(TrainingDiverged):
        _check_finite(losses, torch.arange(4), "training loss", 1)


def test_program_split_over_devices_is_refused(work):
    data = InstanceSet.load(work / "set.npz")
    b, c = data.test.program.b, random_tensor(*data.test.program.c.shape, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"c is on meta, expected cpu"):
        ConicProgram(data.A, b, c.to(META), data.case.cone)
