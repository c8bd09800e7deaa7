"""The engine from file to file, what settings change, and that it runs on any device."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import grid, log_kkt_loss, paper, random_tensor, recipe, solver, training
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.cli.stages import device
from rcdrs.experiments.base import Run
from rcdrs.experiments.engine import (
    KEYS,
    NOT_LEARNED,
    Asked,
    Core,
    evaluate,
    make_instances,
    make_reference,
    read_core,
    time_methods,
    trace,
    train_run,
    tune,
    write_details,
    write_rows,
)
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.experiments.synthetic.layers import lesson, measure
from rcdrs.files import read_checkpoint
from rcdrs.solver.problem import ConicProgram
from rcdrs.training.loop import TrainingDiverged, _check_finite

CPU, META = torch.device("cpu"), torch.device("meta")
aten = torch.ops.aten
DEPTH = 3
SIZES = {"train": 8, "validation": 4, "test": 5}
METRICS = ["ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"]
LEARNED = [name for name, method in METHODS.items() if method.learned]
ONE_PAIR = {"alpha": [1.3], "beta": [1.0], "instances": 4}
SOLVER = solver("synthetic")
OWNER = {"case": "socp-small", "seed": 2}
TIMED = SOLVER | {"warm_up": 0, "repeats": 1}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, their core, and a checkpoint of every learned method."""
    folder = tmp_path_factory.mktemp("engine")
    make_instances("synthetic", "socp-small", 2, SIZES, folder / "set.npz")
    # The pair is not the one of F-DRS, so that methods and references differ.
    tune("synthetic", folder / "set.npz", DEPTH, ONE_PAIR, folder / "core.json")
    for name in LEARNED:
        trained(folder, f"{name}.pt", name)
    return folder


def files(folder):
    return folder / "set.npz", folder / "core.json"


def trained(folder, out, method="RCDRS-Env", by="paper", on=CPU, experiment="synthetic", **parts):
    """The path of a checkpoint, trained now; in two epochs, if no part of the settings says so."""
    settings = training(experiment, method, by, **{"recipe": {"epochs": 2}} | parts)
    run = Run(method, by)
    train_run(experiment, *files(folder), run, settings, 0, folder / out, on)
    return folder / out


def parse(text, experiment="synthetic"):
    return Asked.parse(text, experiment)


def runs(folder, *names):
    return [
        parse(f"{name}@paper={folder / name}.pt" if name in LEARNED else name)
        for name in names or METHODS
    ]


def evaluated(folder, which, settings=SOLVER, on=CPU, experiment="synthetic"):
    return evaluate(experiment, *files(folder), which, settings, on)


# Rows and details


@pytest.mark.parametrize("needed", ["tune", "solve", "trace"])
def test_stage_that_an_experiment_does_not_have_is_named(work, tmp_path, needed):
    (instances, core), grid = files(work), paper().grid.plain()
    stage, *arguments = {
        "tune": (tune, instances, DEPTH, grid, tmp_path / "core.json"),
        "solve": (time_methods, instances, [core], ["full"], {}, CPU),
        "trace": (trace, instances, core, [], solver("ablation", "full"), CPU),
    }[needed]
    message = f"experiment is 'ablation', whose stages have no '{needed}': leave --experiment out"
    with pytest.raises(ValueError, match=message):
        stage("ablation", *arguments)


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
    core = read_core(work / "core.json", OWNER)
    assert core == Core(DEPTH, 1.3, 1.0)
    layer = find_method(name).build(data.A, data.case.cone, core.depth, core.pair)
    if name in LEARNED:
        layer = type(layer).load(work / f"{name}.pt", data.A, data.case.cone, DEPTH)
    row = every[0].set_index("method").loc[name]
    for metric, values in measure(layer, data.test).items():
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


def test_variant_without_changes_is_its_method_but_for_the_name(work, every):
    full = parse(f"full@paper={work / 'RCDRS-Env'}.pt", "ablation")
    rows, details = evaluated(work, [full], solver("ablation", "full"), experiment="ablation")
    (row,) = rows.to_dict("records")
    plain = every[0].set_index("method").loc["RCDRS-Env"]
    assert (row["experiment"], row["method"], row["recipe"]) == ("ablation", "full", "paper")
    assert all(row[metric] == plain[metric] for metric in METRICS)
    assert set(details) == {f"full@paper/{metric}" for metric in METRICS}


def test_variant_trains_as_its_method_with_changed_settings(work, tmp_path):
    copied(work, tmp_path)
    same, other = (
        trained(tmp_path, f"{name}.pt", name, experiment="ablation") for name in ("full", "mlp")
    )
    assert same.read_bytes() == (work / "RCDRS-Env.pt").read_bytes()
    assert controller(other) == controller(same) | {"encoder": "mlp"}


def test_unknown_variant_is_named():
    for settings in (training, solver):
        with pytest.raises(ValueError, match="unknown variant 'half', expected one of full, "):
            settings("ablation", "half")


def test_run_asked_for_twice_is_refused(work):
    with pytest.raises(ValueError, match="F-DRS@paper is asked for twice"):
        evaluated(work, runs(work, "F-DRS", "F-DRS"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("DRS", "unknown method 'DRS', expected one of F-DRS, Grid-DRS, S-ADMM"),
        ("F-DRS@paper=a.pt", "'F-DRS@paper=a.pt' does not fit F-DRS, expected F-DRS"),
        ("RCDRS-Env", "'RCDRS-Env' does not fit RCDRS-Env, expected RCDRS-Env@RECIPE=CHECKPOINT"),
        ("RCDRS-Env@paper", "does not fit RCDRS-Env, expected RCDRS-Env@RECIPE=CHECKPOINT"),
        ("RCDRS-Env@adam=a.pt", "unknown recipe 'adam', expected one of paper, log_kkt"),
    ],
)
def test_run_that_cannot_be_is_named(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@pytest.mark.parametrize(
    ("method", "recipe", "complaint"),
    [
        ("F-DRS", "paper", "F-DRS has nothing to train"),
        ("DRS", "paper", "unknown method 'DRS', expected one of F-DRS, Grid-DRS, S-ADMM"),
        ("RCDRS-Env", "adam", "unknown recipe 'adam', expected one of paper, log_kkt"),
    ],
)
def test_training_that_cannot_be_is_named(work, tmp_path, method, recipe, complaint):
    settings = training("synthetic", "RCDRS-Env")
    arguments = (*files(work), Run(method, recipe), settings, 0, tmp_path / "a.pt", CPU)
    with pytest.raises(ValueError, match=complaint):
        train_run("synthetic", *arguments)


def test_times_have_one_row_a_depth_and_method(work, tmp_path):
    cores = [tmp_path / f"K{depth}.json" for depth in (2, 3)]
    for depth, out in zip((2, 3), cores, strict=True):
        tune("synthetic", work / "set.npz", depth, ONE_PAIR, out)
    rows = time_methods("synthetic", work / "set.npz", cores, ["F-DRS", "RCDRS-Env"], TIMED, CPU)
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


@pytest.mark.parametrize("depth", [2, 20])
def test_tune_writes_the_core_of_a_depth(work, tmp_path, depth):
    candidates = {"alpha": grid()["alphas"], "beta": grid()["betas"], "instances": 128}
    tune("synthetic", work / "set.npz", depth, candidates, tmp_path / "core.json")
    alpha, beta = select_core(InstanceSet.load(work / "set.npz").validation, depth, **grid())
    stored = json.loads((tmp_path / "core.json").read_text())
    del stored["sha256"]
    assert stored == OWNER | {"depth": depth, "alpha": alpha, "beta": beta}
    assert read_core(tmp_path / "core.json", OWNER) == (depth, alpha, beta)


def test_grid_limits_the_choice(work):
    assert read_core(work / "core.json", OWNER).pair == (1.3, 1.0)


def test_core_of_other_instances_is_named(work, tmp_path):
    message = r"core\.json holds the core of socp-small, seed 2, expected {}: make it with"
    for case, seed in (("socp-small", 3), ("socp-hard", 2)):
        with pytest.raises(ValueError, match=message.format(f"{case}, seed {seed}")):
            read_core(work / "core.json", {"case": case, "seed": seed})


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"alpha": 2.5}, "alpha = 2.5"),
        ({"beta": "small"}, "'small'"),
        ({"depth": None}, "NoneType"),
        ({"seed": ...}, "'seed'"),
    ],
)
def test_file_without_a_core_is_named(work, tmp_path, change, found):
    stored = json.loads((work / "core.json").read_text()) | {"sha256": ...} | change
    written = json.dumps({key: value for key, value in stored.items() if value is not ...})
    (tmp_path / "core.json").write_text(written)
    with pytest.raises(ValueError, match=rf"core\.json does not hold a tuned core.*{found}.*tune"):
        read_core(tmp_path / "core.json", OWNER)
    (tmp_path / "core.json").write_text(written[:-5])
    with pytest.raises(ValueError, match=r"core\.json does not hold a tuned core"):
        read_core(tmp_path / "core.json", OWNER)


# Settings


def controller(path):
    return read_checkpoint(path)[0]["options"]["controller"]


def test_settings_change_the_controller(work, tmp_path):
    changed = {"controller": {"encoder": "mlp", "hidden": 8}}
    copied(work, tmp_path)
    path = trained(tmp_path, "mlp.pt", **changed)
    assert controller(work / "RCDRS-Env.pt")["encoder"] == "gru"
    assert (controller(path)["encoder"], controller(path)["hidden"]) == ("mlp", 8)
    run = parse(f"RCDRS-Env@paper={path}")
    rows, _ = evaluated(tmp_path, [run], solver("synthetic", **changed))
    assert len(rows) == 1
    with pytest.raises(ValueError, match="another method, controller or core"):
        evaluated(tmp_path, [run])


def test_changes_of_a_method_stand_over_the_settings(work, tmp_path):
    """RCDRS-NoEnv has no envelope whatever the common controller says."""
    copied(work, tmp_path)
    changed = {"controller": {"envelope": {"delta_0": 1.0}}}
    assert controller(trained(tmp_path, "a.pt", "RCDRS-NoEnv", **changed))["envelope"] is None
    path = trained(tmp_path, "b.pt", "RCDRS-Env", **changed)
    assert controller(path)["envelope"]["delta_0"] == 1.0


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_curve_has_the_epochs_of_the_settings(work, tmp_path, epochs):
    copied(work, tmp_path)
    path = trained(tmp_path, "a.pt", recipe={"epochs": epochs})
    assert list(pd.read_csv(path.with_suffix(".csv"))["epoch"]) == list(range(epochs + 1))


def curve(folder, **recipe):
    """The training curve with a changed recipe."""
    path = trained(folder, "a.pt", recipe={"epochs": 2, "batch": 4} | recipe)
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
    for name in ("set.npz", "core.json"):
        (folder / name).write_bytes((work / name).read_bytes())


def lesson_of(work, name, changes):
    """What RCDRS-Env is trained with, by a recipe with changes."""
    data, settings = InstanceSet.load(work / "set.npz"), training("synthetic", "RCDRS-Env", name)
    settings["recipe"] |= changes
    given = json.loads(json.dumps(settings))
    found = lesson(data, Run("RCDRS-Env", name), (1.3, 1.0), settings)
    assert settings == given
    return found


@pytest.mark.parametrize(("name", "reference"), [("paper", (1.3, 1.0)), ("log_kkt", None)])
def test_lesson_is_the_recipe_of_the_configuration(work, name, reference):
    found = lesson_of(work, name, {})
    assert (found.recipe, found.reference) == (recipe(name), reference)
    assert (found.train.batch, found.validation.batch) == (SIZES["train"], SIZES["validation"])


def test_lesson_takes_changes_and_keeps_the_rest(work):
    found = lesson_of(work, "paper", {"epochs": 7, "reference": "base"})
    assert (found.recipe, found.reference) == (recipe("paper", epochs=7), (1.6, 0.3))
    weights = vars(log_kkt_loss(gap=0.0))
    found = lesson_of(work, "log_kkt", {"loss": weights})
    assert found.recipe == recipe("log_kkt", loss=log_kkt_loss(gap=0.0))


@pytest.mark.parametrize(
    ("name", "changes", "culprit"),
    [
        ("paper", {"epoch": 2}, "'epoch'"),
        ("paper", {"loss": {"dual": 1.0}}, "'dual'"),
        ("log_kkt", {"loss": {"obj": 1.0}}, "'obj'"),
    ],
)
def test_recipe_names_unknown_keys(work, name, changes, culprit):
    with pytest.raises((TypeError, ValueError), match=culprit):
        lesson_of(work, name, changes)


def test_recipe_names_an_unknown_reference(work):
    with pytest.raises(ValueError, match=r"'Tuned'.*base.*tuned"):
        lesson_of(work, "paper", {"reference": "Tuned"})
    with pytest.raises(ValueError, match=r"'tuned'.*none for the recipe log_kkt"):
        lesson_of(work, "log_kkt", {"reference": "tuned"})


def test_settings_name_an_unknown_section(work, tmp_path):
    copied(work, tmp_path)
    with pytest.raises(ValueError, match="unknown 'recipes', expected controller, recipe"):
        trained(tmp_path, "a.pt", recipes={"epochs": 1})
    with pytest.raises(ValueError, match="unknown 'recipe', expected controller"):
        evaluated(work, runs(work), training("synthetic", "RCDRS-Env"))
    with pytest.raises(ValueError, match="missing 'controller', expected controller"):
        evaluated(work, runs(work), {})
    with pytest.raises(ValueError, match="missing 'repeats', 'warm_up', expected controller"):
        time_methods("synthetic", work / "set.npz", [work / "core.json"], ["F-DRS"], SOLVER, CPU)
    with pytest.raises(ValueError, match="unknown 'alphas', expected alpha, beta, instances"):
        tune("synthetic", work / "set.npz", DEPTH, ONE_PAIR | {"alphas": [1.0]}, tmp_path / "c")


def test_experiment_without_a_reference_is_named(work, tmp_path):
    with pytest.raises(ValueError, match=r"set\.npz is of synthetic, whose rows compare with no"):
        make_reference("synthetic", *files(work), 50, tmp_path / "reference.npz")


def test_trace_has_the_actions_and_the_curve_of_each_run(work):
    rows = trace("synthetic", *files(work), runs(work, *LEARNED), SOLVER, CPU)
    assert list(rows.columns) == [*KEYS, "series", "step", "low", "middle", "high"]
    assert set(rows["experiment"]) == {"trace"}
    for name, found in rows.groupby("method"):
        steps = {series: list(part["step"]) for series, part in found.groupby("series")}
        actions = {} if name == "L-PDHG" else {key: [0, 1, 2, 3] for key in ("alpha", "beta")}
        assert steps == actions | {"loss": [1, 2], "merit": [0, 1, 2]}
        curve = pd.read_csv(work / f"{name}.csv")
        merits = found[found["series"] == "merit"]["middle"]
        assert list(merits) == list(curve["merit"])
    with pytest.raises(ValueError, match="F-DRS learns nothing: there is nothing to trace"):
        trace("synthetic", *files(work), runs(work, "F-DRS"), SOLVER, CPU)


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
        path = trained(tmp_path, "a.pt", name, recipe, META, recipe={"epochs": 1})
        # The weights of a meta layer are no numbers, so the checkpoint is the real one.
        rows, _ = evaluated(tmp_path, runs(work, name), on=META)
        given = tmp_path / "set.npz", [tmp_path / "core.json"]
        times = time_methods("synthetic", *given, [name], TIMED, META)
    assert path.exists()
    assert len(rows) == len(times) == 1


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "schedule"])
def test_encoders_leave_no_tensor_behind(work, tmp_path, encoder):
    copied(work, tmp_path)
    features = ["con", "eq", "alpha"]
    changed = {"encoder": encoder, "features": features, "controls": ["alpha"]}
    with Accelerator(rank=32):
        trained(tmp_path, "a.pt", on=META, controller=changed, recipe={"epochs": 1})


def test_selection_of_the_core_leaves_no_tensor_behind(mixed):
    _, there = mixed
    with Accelerator(rank=3):  # the one whole number asked for is the place of the best pair
        assert select_core(there.validation, DEPTH, (1.3, 1.6), (0.1, 0.3), 4) == (1.6, 0.3)


def test_divergence_is_reported_on_a_gpu():
    losses = torch.ones(4, device="meta")
    with Accelerator(rank=4, found=True), pytest.raises(TrainingDiverged):
        _check_finite(losses, torch.arange(4), "training loss", 1)


def test_program_split_over_devices_is_refused(work):
    data = InstanceSet.load(work / "set.npz")
    b, c = data.test.program.b, random_tensor(*data.test.program.c.shape, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"c is on meta, expected cpu"):
        ConicProgram(data.A, b, c.to(META), data.case.cone)
