"""The command line, command by command, on a few small instances."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import paper

from rcdrs.artifact.plan import Plan
from rcdrs.baselines.registry import METHODS
from rcdrs.cli import main as cli
from rcdrs.cli import results
from rcdrs.cli.main import main
from rcdrs.experiments.base import experiments
from rcdrs.experiments.settings import merge
from rcdrs.files import write_json
from rcdrs.reporting.tables import needs

ROOT = Path(__file__).parents[1]
STAGES = ("instances", "tune", "train", "reference", "evaluate", "time", "trace")
#: They import torch, and take a number of threads.
COMPUTING = (*STAGES, "bench", "calibrate")
RESULTS = ("table", "headline", "claims", "report", "draw", "preview", "status", "release")
COMMANDS = (*COMPUTING, *RESULTS, "schema", "compare", "verify", "profile", "explain")
KEYS = ["experiment", "family", "scale", "K", "seed", "method", "recipe"]
METRICS = ["ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"]
LEARNED = [name for name, method in METHODS.items() if method.learned]
CLASSICAL = [name for name, method in METHODS.items() if not method.learned]
PLAN = Plan.read(ROOT)
CONTROLLER = PLAN.config.controller.plain()
SIZES = json.dumps({"train": 8, "validation": 4, "test": 4})
GRID = {"alpha": [1.0, 1.6], "beta": [0.3, 1.0], "instances": 4}


def short(name: str = "paper", /, **changes: object) -> str:
    """Settings of a short training with a recipe."""
    schedule = getattr(PLAN.config.recipes, name).plain() | {"epochs": 2}
    return json.dumps(merge({"controller": CONTROLLER, "recipe": schedule}, changes))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, cores of depth 3 and 4, and at depth 3 a checkpoint of every learned method."""
    folder = tmp_path_factory.mktemp("work")
    make_set(folder)
    for method in LEARNED:
        train(folder, folder / f"{method}.pt", "--method", method)
    return folder


def run(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0


def make_set(folder) -> None:
    where = folder / "set.npz"
    run("instances", "socp-small", "--seed", 1, "--settings", SIZES, "--out", where)
    for depth in (3, 4):
        out = ("--out", folder / f"core{depth}.json")
        run("tune", where, "--depth", depth, "--settings", json.dumps(GRID), *out)


def data(folder, depth: int = 3) -> tuple[object, ...]:
    return folder / "set.npz", "--core", folder / f"core{depth}.json"


def train(folder, out, *options: object, recipe: str = "paper") -> None:
    settings = ("--recipe", recipe, "--settings", short(recipe))
    run("train", *data(folder), *settings, "--out", out, *options)


def trained(folder, method: str, recipe: str = "paper") -> str:
    """The RUN of a method at depth 3."""
    return f"{method}@{recipe}={folder / method}.pt" if method in LEARNED else method


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def read_csv(path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_stages_leave_their_files(work):
    """And nothing else: neither temporary nor resume files."""
    for depth in (3, 4):
        core = json.loads((work / f"core{depth}.json").read_text())
        assert core.keys() == {"case", "seed", "depth", "alpha", "beta", "sha256"}
        assert (core["case"], core["seed"], core["depth"]) == ("socp-small", 1, depth)
    expected = {"set.npz", "core3.json", "core4.json"}
    expected |= {f"{method}.{suffix}" for method in LEARNED for suffix in ("pt", "csv")}
    assert {path.name for path in work.iterdir()} == expected
    for method in LEARNED:
        curve = (work / f"{method}.csv").read_text().splitlines()
        assert len(curve) == 1 + 3  # header, the untrained layer, two epochs


def test_evaluate_writes_a_row_a_run_and_each_instance(work, tmp_path, capsys):
    out = ("--out", tmp_path / "rows.csv", "--stamp", '{"RCDRS-Env@paper": "a b"}')
    capsys.readouterr()
    run("evaluate", *data(work), *(trained(work, method) for method in METHODS), *out)
    assert capsys.readouterr().out == f"wrote {tmp_path / 'rows.csv'}\n"
    rows = read_csv(tmp_path / "rows.csv")
    assert [row["method"] for row in rows] == list(METHODS)
    for row in rows:
        assert list(row) == KEYS + METRICS
        recipe = "paper" if row["method"] in LEARNED else "-"
        key = ["synthetic", "socp", "small", "3", "1", row["method"], recipe]
        assert [row[name] for name in KEYS] == key
        assert all(math.isfinite(float(row[name])) and float(row[name]) >= 0 for name in METRICS)
    with np.load(tmp_path / "rows.npz", allow_pickle=False) as details:
        names = {f"{row['method']}@{row['recipe']}/{name}" for row in rows for name in METRICS}
        assert set(details.files) == names
        assert all(details[name].shape == (4,) for name in names)
    origin = json.loads((tmp_path / "rows.origin.json").read_text())
    assert origin["digests"] == {"RCDRS-Env@paper": "a b"}
    assert {"host", "machine", "device", "cpu", "python", "torch", "numpy"} <= origin.keys()


def test_evaluate_prints_a_table_where_no_file_is_named(work, capsys):
    capsys.readouterr()
    run("evaluate", *data(work), "Grid-DRS", trained(work, "RCDRS-Env"))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == KEYS + METRICS
    assert [row.split()[5:7] for row in rows] == [["Grid-DRS", "-"], ["RCDRS-Env", "paper"]]


def test_row_of_another_experiment(work, tmp_path):
    """A variant stands in a method's place, and its settings say which method that is."""
    settings = ("--experiment", "ablation", "--settings")
    changed = merge(CONTROLLER, {"encoder": "mlp"})
    told = json.dumps(json.loads(short()) | {"controller": changed, "method": "RCDRS-Env"})
    where = ("--method", "mlp", "--out", tmp_path / "mlp.pt")
    run("train", *data(work), *where, *settings, told)
    told = json.dumps({"controller": changed, "method": "RCDRS-Env"})
    out = ("--out", tmp_path / "rows.csv")
    run("evaluate", *data(work), f"mlp@paper={tmp_path / 'mlp.pt'}", *settings, told, *out)
    (row,) = read_csv(tmp_path / "rows.csv")
    assert (row["experiment"], row["method"], row["recipe"]) == ("ablation", "mlp", "paper")


def test_time_gives_a_row_a_depth_and_method(work, tmp_path, capsys):
    once = json.dumps({"controller": CONTROLLER, "warm_up": 0, "repeats": 1})
    both = (*data(work), work / "core4.json", "--settings", once)
    run("time", *both, "--out", tmp_path / "time.csv")
    rows = read_csv(tmp_path / "time.csv")
    methods = paper().synthetic.methods
    expected = [(depth, method) for depth in ("3", "4") for method in methods]
    assert [(row["K"], row["method"]) for row in rows] == expected
    assert list(rows[0]) == [*KEYS[:-1], "time_ms", "device"]
    assert all(float(row["time_ms"]) > 0 for row in rows)
    capsys.readouterr()
    run("time", *data(work), "--settings", once, "--method", "F-DRS", "AA-DRS")
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [*KEYS[:-1], "time_ms", "device"]
    assert [row.split()[5] for row in rows] == ["F-DRS", "AA-DRS"]


def test_trace_gives_actions_and_training_curves(work, tmp_path, capsys):
    run("trace", *data(work), trained(work, "RCDRS-Env"), "--out", tmp_path / "trace.csv")
    lines = read_csv(tmp_path / "trace.csv")
    steps = {(line["series"], int(line["step"])) for line in lines}
    assert steps >= {(name, step) for name in ("alpha", "beta") for step in range(4)}
    assert steps >= {("merit", epoch) for epoch in range(3)}
    assert "F-DRS learns nothing" in refusal(capsys, "trace", *data(work), "F-DRS")


def test_day_is_drawn_from_its_trace(tmp_path):
    wave = [0.2 + 0.01 * hour for hour in range(24)]
    sides = {"supply": ("Generator 1", "Renewable power"), "use": ("Charge",)}
    sides |= {"load": ("Load", "Load and charge"), "reserve": ("required", "headroom")}
    lines = [
        {"schedule": name, "side": side, "part": part, "hour": hour, "value": value}
        for name in ("Grid-DRS, K = 15", "Optimum")
        for side, parts in sides.items()
        for part in parts
        for hour, value in enumerate(wave)
    ]
    lines += [
        {"schedule": name, "side": "metric", "part": metric, "hour": -1, "value": 0.01}
        for name in ("Grid-DRS, K = 15", "Optimum")
        for metric in ("Shed", "Curt", "Reserve", "Eq")
    ]
    pd.DataFrame(lines).to_csv(tmp_path / "trace.csv", index=False)
    run("draw", tmp_path / "trace.csv", "--out", tmp_path / "day.png")
    assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")


def test_predictor_starts_from_a_pretrained_layer(tmp_path, capsys):
    """Decision-focused learning: --start is the layer inside."""
    where, core = tmp_path / "dfl.npz", tmp_path / "core.json"
    run("instances", "dfl", "--settings", SIZES, "--out", where)
    run("tune", where, "--depth", 2, "--settings", json.dumps(GRID), "--out", core)
    files = (where, "--core", core)
    controller = PLAN.config.dfl.controller.plain()
    pretraining = PLAN.config.dfl.training.paper.but(epochs=1, batch=4).plain()
    settings = json.dumps({"controller": controller, "recipe": pretraining})
    layer = tmp_path / "layer.pt"
    run("train", *files, "--method", "RCDRS-Env", "--settings", settings, "--out", layer)
    predictor = PLAN.config.dfl.predictor.but(epochs=1, batch=4).plain()
    settings = ("--settings", json.dumps({"controller": controller, "recipe": predictor}))
    model = ("--method", "RCDRS-Env-J", *settings, "--out", tmp_path / "model.pt")
    assert "expected a checkpoint of RCDRS-Env" in refusal(capsys, "train", *files, *model)
    two = ("--start", layer, layer)
    assert "start has 2 files, expected at most one" in refusal(
        capsys, "train", *files, *model, *two
    )
    run("train", *files, *model, "--start", layer)
    run("evaluate", *files, f"RCDRS-Env-J@paper={tmp_path / 'model.pt'}")


def test_stages_repeated_write_the_same_bytes(work, tmp_path):
    make_set(tmp_path)
    train(tmp_path, tmp_path / "RCDRS-Env.pt", "--threads", 1)
    for path in list(tmp_path.iterdir()):
        assert path.read_bytes() == (work / path.name).read_bytes(), path.name
    runs = ("Grid-DRS", trained(work, "RCDRS-Env"))
    for name in "ab":
        run("evaluate", *data(work), *runs, "--out", tmp_path / f"{name}.csv")
    for kind in ("csv", "npz"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_training_curve_goes_beside_the_checkpoint(work, tmp_path):
    train(work, tmp_path / "new" / "a.pt", recipe="log_kkt")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"a.pt", "a.csv"}
    run("evaluate", *data(work), f"RCDRS-Env@log_kkt={tmp_path / 'new' / 'a.pt'}")


def test_grid_decides_what_tune_selects(work, tmp_path):
    grid = json.dumps({"alpha": [1.1], "beta": [0.2], "instances": 2})
    out = ("--settings", grid, "--out", tmp_path / "a.json")
    run("tune", work / "set.npz", "--depth", 3, *out)
    core = json.loads((tmp_path / "a.json").read_text())
    del core["sha256"]
    assert core == {"case": "socp-small", "seed": 1, "depth": 3, "alpha": 1.1, "beta": 0.2}


def test_without_settings_those_of_the_configuration_count(work, tmp_path):
    run("tune", work / "set.npz", "--depth", 3, "--out", tmp_path / "paper.json")
    (tmp_path / "other.yaml").write_text("grid: { alpha: [1.1], beta: [0.2] }")
    out = ("--configfile", tmp_path / "other.yaml", "--out", tmp_path / "other.json")
    run("tune", work / "set.npz", "--depth", 3, *out)
    cores = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("paper", "other")]
    assert cores[0]["alpha"] in PLAN.config.grid.alpha
    assert (cores[1]["alpha"], cores[1]["beta"]) == (1.1, 0.2)


def test_bench_step_prints_one_line(capsys):
    run("bench", "step", "--case", "socp-small", "--depth", 2, "--batch", 4)
    (row,) = lines(capsys)
    assert (row["case"], row["depth"], row["batch"], row["threads"]) == ("socp-small", 2, 4, 1)
    assert min(row["step_ms"], row["floor_ms"], row["ratio"]) > 0
    # The ratio is taken before the times are rounded to 0.01 ms.
    low, high = row["floor_ms"] - 0.005, row["floor_ms"] + 0.005
    slack = 0.001  # the ratio's own rounding
    assert row["ratio"] * low - slack <= row["step_ms"] + 0.005
    assert row["ratio"] * high + slack >= row["step_ms"] - 0.005


@pytest.mark.parametrize("controller", ["gru", "lstm", "mlp"])
def test_bench_step_runs_each_controller(capsys, controller):
    run(
        "bench",
        "step",
        "--case",
        "socp-small",
        "--depth",
        2,
        "--batch",
        4,
        "--controller",
        controller,
    )
    (row,) = lines(capsys)
    assert row["controller"] == controller


def test_bench_solve_prints_one_line_a_method(capsys):
    run("bench", "solve", "--case", "mixed-small", "--depth", 2, "--batch", 4)
    rows = lines(capsys)
    assert [row["method"] for row in rows] == list(METHODS)
    assert len(rows) == 13
    assert all(row["time_ms"] > 0 for row in rows)


def test_main_help_shows_commands_and_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert "verb" not in shown
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\b", shown, re.MULTILINE), command
    examples = shown.partition("examples:")[2]
    for command in (*COMPUTING, "status", "compare", "explain", "draw", "schema", "verify"):
        assert re.search(rf"^  rcdrs {command}\b", examples, re.MULTILINE), command


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_exits_with_zero(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: rcdrs {command}" in shown
    assert ("--threads" in shown) is (command in COMPUTING)


def test_examples_of_the_help_parse(monkeypatch):
    """Every example is a command that the parser takes."""
    seen = []
    monkeypatch.setattr(cli, "_run", lambda place: lambda options: seen.append(options.command))
    examples = [shlex.split(line)[1:] for line in cli.EXAMPLES.splitlines()[1:]]
    assert all(main(example) == 0 for example in examples)
    assert seen == [example[0] for example in examples]


def test_module_runs_as_a_program():
    """`python -m rcdrs` in a process of its own."""
    command = [sys.executable, "-m", "rcdrs", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: rcdrs")


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("train", "--help"),
        ("schema",),
        ("status",),
        ("status", "--json"),
        ("release",),
        ("compare", "results/none"),
        ("explain", "synthetic_k20", "RCDRS-Env", "ObjErr"),
    ],
    ids=" ".join,
)
def test_what_computes_nothing_does_not_import_torch(tmp_path, words):
    """Which takes seconds.  `release` is shown in a folder without a run."""
    code = f"""
import sys
from rcdrs.cli.main import main
try:
    main({list(words)!r})
finally:
    assert "torch" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert "AssertionError" not in done.stderr
    assert "Traceback" not in done.stderr


def test_status_as_json_gives_the_digests_of_what_is_released(capsys):
    run("status", "--json")
    digests = json.loads(capsys.readouterr().out)
    assert len(digests) > 100
    found = digests["synthetic/socp-hard-0-K20.csv"]
    assert set(found) == {str(run) for run in PLAN.experiments["synthetic"].runs("socp-hard")}
    key = PLAN.key("rows", "socp-hard", 0, K=20, method="RCDRS-Env")
    assert found["RCDRS-Env@paper"] == PLAN.digests(key)["RCDRS-Env@paper"]


def test_numbers_are_shown_as_a_person_reads_them(tmp_path, monkeypatch, capsys):
    """Of a release of one setting, in a checkout of its own."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflow/config").mkdir(parents=True)
    paper = (ROOT / "workflow/config/paper.yaml").read_text()
    one = paper.replace("seeds: [0, 1, 2]", "seeds: [0]")
    (tmp_path / "workflow/config/paper.yaml").write_text(one)
    plan = Plan.read(tmp_path)
    for key in needs("synthetic_k20", plan.config):
        family, scale = key.case.split("-")
        where = {"experiment": key.experiment, "family": family, "scale": scale, "seed": key.seed}
        rows = [where | {"K": key.K, "method": key.method, "recipe": "paper"}]
        rows[0] |= dict.fromkeys(METRICS, 0.123456789012)
        if key.kind == "times":
            named = [part.rsplit(" K", 1) for part in plan.digests(key)]
            rows = [
                where | {"K": int(K), "method": method, "time_ms": 0.0123456, "device": "cpu"}
                for method, K in named
            ]
        elif key.method in CLASSICAL:
            rows[0]["recipe"] = "-"
        path = Path(plan.folder, key.path())
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(path, index=False)
        note = {"digests": plan.digests(key), "host": "bench-1"}
        path.with_suffix(".origin.json").write_text(json.dumps(note))
    run("explain", "synthetic_k20", "RCDRS-Env", "ObjErr")
    told = capsys.readouterr().out
    assert " 0.123 " in told
    assert "0.1234" not in told
    assert '"host": "bench-1", "RCDRS-Env@paper": ' in told
    run("explain", "synthetic_k20", "RCDRS-Env", "time_ms")
    told = capsys.readouterr().out
    assert " 0.0123 " in told
    assert '"RCDRS-Env K20": ' in told


def refusal(capsys, *arguments: object) -> str:
    """The one line on stderr of a command that ends with code 2 and prints nothing else."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"rcdrs {arguments[0]}: ")
    assert err.count("\n") == 1
    return err


def test_unknown_case_is_refused(capsys, tmp_path):
    assert "'lp-small'" in refusal(capsys, "instances", "lp-small", "--out", tmp_path / "a.npz")
    assert "'dfl-small'" in refusal(capsys, "instances", "dfl-small", "--out", tmp_path / "a.npz")
    assert "'lp-small'" in refusal(capsys, "bench", "step", "--case", "lp-small")
    assert "'lp-small'" in refusal(capsys, "bench", "solve", "--case", "lp-small")
    assert "'qp'" in refusal(capsys, "calibrate", "qp")
    assert list(tmp_path.iterdir()) == []


def test_unknown_method_is_refused(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.pt")
    for command in (
        ("train", *data(work), "--method", "ADAM", "--settings", short(), *out),
        ("evaluate", *data(work), "Grid-DRS", "ADAM", *out),
        ("evaluate", *data(work), "ADAM@paper=a.pt", *out),
        ("time", *data(work), "--method", "ADAM", *out),
    ):
        message = refusal(capsys, *command)
        assert "'ADAM'" in message
        assert "RCDRS-Env" in message
    assert list(tmp_path.iterdir()) == []


def test_unknown_recipe_is_refused(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.pt")
    for command in (
        ("train", *data(work), "--recipe", "quick", *out),
        ("evaluate", *data(work), trained(work, "RCDRS-Env", "quick")),
    ):
        message = refusal(capsys, *command)
        assert "'quick'" in message
        assert "paper, log_kkt" in message


def test_unknown_controller_is_refused(capsys):
    command = ("bench", "step", "--case", "socp-small", "--batch", 4, "--controller", "cnn")
    assert "'cnn'" in refusal(capsys, *command)


@pytest.mark.parametrize("method", CLASSICAL)
def test_training_needs_something_to_train(capsys, work, tmp_path, method):
    out = ("--out", tmp_path / "a.pt")
    assert method in refusal(capsys, "train", *data(work), "--method", method, *out)
    assert list(tmp_path.iterdir()) == []


def misuse(capsys, *arguments: object) -> str:
    """The last line on stderr of a command that the parser refuses with code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1]


def test_depth_must_be_positive(capsys, work, tmp_path):
    command = ("tune", work / "set.npz", "--out", tmp_path / "a", "--depth")
    assert "--depth: 0 is not a positive number" in misuse(capsys, *command, 0)
    assert "--depth: three is not a positive number" in misuse(capsys, *command, "three")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train", "evaluate", "time", "trace"])
def test_depth_is_that_of_the_core(capsys, work, tmp_path, command):
    """So the others take none."""
    out = ("--out", tmp_path / "a.pt")
    assert "--depth" in misuse(capsys, command, *data(work), *out, "F-DRS", "--depth", 3)


@pytest.mark.parametrize("command", ["train", "evaluate", "time", "trace", "reference"])
def test_core_is_asked_for(capsys, work, tmp_path, command):
    told = misuse(capsys, command, work / "set.npz", "--out", tmp_path / "a.pt")
    assert "--core" in told


def test_experiment_that_is_not_there_is_named(capsys, work):
    message = refusal(capsys, "evaluate", *data(work), "F-DRS", "--experiment", "study")
    assert f"'study', expected one of {', '.join(experiments())}" in message


NO_OBJECTS = {"{epochs: 2}": "not JSON", "[1]": "[1] is not a JSON object", "3": "3 is not a JSON"}


@pytest.mark.parametrize(("text", "message"), NO_OBJECTS.items())
def test_json_options_must_be_objects(capsys, work, tmp_path, text, message):
    out = ("--out", tmp_path / "a")
    for option, command in {
        "--settings": ("train", *data(work), *out),
        "--stamp": ("evaluate", *data(work), "F-DRS", *out),
        "--config": ("table", "coverage", *out),
    }.items():
        assert f"argument {option}: {message}" in misuse(capsys, *command, option, text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"recipe": {"epoch": 2}}, "'epoch'"),
        ({"recipe": {"loss": {"dual": 1.0}}}, "'dual'"),
        ({"controller": {"hiden": 8}}, "'hiden'"),
        ({"controller": {"encoder": "cnn"}}, "'cnn'"),
        ({"controller": {"features": ["residual"]}}, "'residual'"),
        ({"controller": {"ranges": {"alpha": [0.1, 0.2]}}}, "core alpha"),
    ],
)
def test_settings_name_what_they_do_not_know(capsys, work, tmp_path, settings, culprit):
    command = ("train", *data(work), "--settings", short(**settings), "--out", tmp_path / "a.pt")
    assert culprit in refusal(capsys, *command)
    assert list(tmp_path.iterdir()) == []


def grid(**changes: object) -> str:
    return json.dumps(GRID | changes)


#: Each would end in a traceback, or in files made with something else than was asked for.
CARELESS = {
    "sizes without a split": (
        ("instances", "--settings", '{"train": 4}'),
        "the settings: 'validation' is a required property",
    ),
    "sizes of nothing": (
        ("instances", "--settings", '{"train": 4, "validation": 0, "test": 1}'),
        "validation is 0, expected at least 1",
    ),
    "unknown split": (
        ("instances", "--settings", '{"tests": 4}'),
        "unknown key 'tests'",
    ),
    "half a grid": (("tune", "--settings", '{"alpha": [1.0]}'), "'beta' is a required property"),
    "unknown key of a grid": (("tune", "--settings", grid(alphas=[1.0])), "unknown key 'alphas'"),
    "grid out of range": (("tune", "--settings", grid(alpha=[2.5])), "alpha[0] is 2.5, expected"),
    "grid without a pair": (("tune", "--settings", grid(alpha=[])), "alpha is [], expected 1 or"),
    "grid on no instances": (("tune", "--settings", grid(instances=0)), "instances is 0, expected"),
    "envelope of a number": (
        ("train", "--settings", short(controller={"envelope": 5})),
        "controller.envelope is 5, expected a section of settings",
    ),
    "batches of nothing": (
        ("train", "--settings", short(recipe={"batch": 0})),
        "recipe.batch is 0, expected at least 1",
    ),
    "fewer than no epochs": (
        ("train", "--settings", short(recipe={"epochs": -1})),
        "recipe.epochs is -1, expected at least 0",
    ),
    "half of the settings": (
        ("train", "--settings", '{"recipe": {"epochs": 0}}'),
        "the settings: 'controller' is a required property",
    ),
    "no recipe": (("train", "--settings", '{"controller": {}}'), "'recipe' is a required property"),
    "unknown section": (
        ("train", "--settings", short(recipes={})),
        "unknown key 'recipes'",
    ),
    "unknown reference": (
        ("train", "--settings", short(recipe={"reference": "Tuned"})),
        "recipe.reference is 'Tuned', expected one of base, tuned",
    ),
    "curve over the checkpoint": (("train", "--settings", short()), "expected a name that ends in"),
}


@pytest.mark.parametrize("name", CARELESS)
def test_careless_option_is_refused(capsys, work, tmp_path, name):
    (command, *options), message = CARELESS[name]
    where = {
        "instances": ("socp-small",),
        "tune": (work / "set.npz", "--depth", 3),
        "train": data(work),
    }[command]
    out = tmp_path / ("a.csv" if name == "curve over the checkpoint" else "a.pt")
    assert message in refusal(capsys, command, *where, *options, "--out", out)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_dispatch_need_a_reference(capsys, tmp_path):
    where, core = tmp_path / "days.npz", tmp_path / "core.json"
    run("instances", "dispatch-printed", "--settings", SIZES, "--out", where)
    run("tune", where, "--depth", 2, "--settings", grid(), "--out", core)
    command = ("evaluate", where, "--core", core, "F-DRS")
    assert "reference is missing: make it with `rcdrs reference`" in refusal(capsys, *command)
    made = ("reference", where, "--core", core, "--out", tmp_path / "reference.npz", "--settings")
    assert "the settings: 'steps' is a required property" in refusal(capsys, *made, "{}")
    assert "steps is 0, expected at least 1" in refusal(capsys, *made, '{"steps": 0}')
    run(*made, '{"depth": 2, "steps": 5}')
    run(*command, "--reference", tmp_path / "reference.npz")


def test_rows_of_the_benchmarks_have_no_reference(capsys, work, tmp_path):
    message = refusal(capsys, "reference", *data(work), "--out", tmp_path / "a.npz")
    assert "set.npz is of synthetic, whose rows compare with no reference" in message


def test_device_that_is_not_there_is_refused(capsys, work, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (
        ("train", *data(work), "--settings", short(), "--out", tmp_path / "a.pt"),
        ("evaluate", *data(work), "F-DRS"),
        ("time", *data(work)),
    ):
        assert "no CUDA device" in refusal(capsys, *command, "--device", "cuda")
    assert "'tpu'" in misuse(capsys, "evaluate", *data(work), "F-DRS", "--device", "tpu")


def test_missing_files_are_named(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.json")
    assert "no.npz" in refusal(capsys, "tune", tmp_path / "no.npz", "--depth", 3, *out)
    missing = (work / "set.npz", "--core", tmp_path / "no.json")
    assert "no.json" in refusal(capsys, "evaluate", *missing, "F-DRS")
    command = ("evaluate", *data(work), f"RCDRS-Env@paper={work / 'no.pt'}")
    assert "no.pt" in refusal(capsys, *command)


@pytest.mark.parametrize(("name", "value"), [("case", "qp-small"), ("seed", 0)])
def test_core_of_other_instances_is_refused(capsys, work, tmp_path, name, value):
    """With the command that makes theirs."""
    core = json.loads((work / "core3.json").read_text()) | {name: value}
    del core["sha256"]
    write_json(tmp_path / "other.json", core)
    where = (work / "set.npz", "--core", tmp_path / "other.json")
    message = (
        f"other.json holds the core of {core['case']}, seed {core['seed']}, expected socp-small"
    )
    assert message in refusal(capsys, "evaluate", *where, "F-DRS")
    assert message in refusal(capsys, "time", *where, "--method", "F-DRS")
    assert "`rcdrs tune`" in refusal(capsys, "train", *where, "--out", tmp_path / "a.pt")


CORE = '"case": "socp-small", "seed": 1, "depth": 3'
NO_CORES = {
    "text": b"alpha: 1.6",
    "bytes": b"\xff\xfe",
    "nothing in it": b"{}",
    "list": b"[1]",
    "number": b"3",
    "former layout": b'{"3": {"alpha": 1.6, "beta": 1.0}}',
    "half a core": f'{{{CORE}, "alpha": 1.6}}'.encode(),
    "text for a number": f'{{{CORE}, "alpha": "a", "beta": 1}}'.encode(),
    "nothing for a number": f'{{{CORE}, "alpha": null, "beta": 1}}'.encode(),
    "number out of range": f'{{{CORE}, "alpha": 2.5, "beta": 1}}'.encode(),
    "no instances": b'{"depth": 3, "alpha": 1.6, "beta": 1.0}',
}


@pytest.mark.parametrize("content", NO_CORES.values(), ids=NO_CORES)
def test_cores_that_are_none_are_named(capsys, work, tmp_path, content):
    (tmp_path / "odd.json").write_bytes(content)
    command = (work / "set.npz", "--core", tmp_path / "odd.json")
    message = refusal(capsys, "evaluate", *command, "Grid-DRS")
    assert "odd.json" in message
    assert "`rcdrs tune" in message


def test_instances_that_are_none_are_named(capsys, work, tmp_path):
    command = ("tune", work / "core3.json", "--depth", 3, "--out", tmp_path / "a.json")
    assert "core3.json is not a readable instance set" in refusal(capsys, *command)


@pytest.mark.parametrize("method", LEARNED)
def test_learned_method_needs_a_checkpoint(capsys, work, method):
    message = refusal(capsys, "evaluate", *data(work), method)
    assert f"'{method}' does not fit {method}, expected {method}@RECIPE=CHECKPOINT" in message


@pytest.mark.parametrize("method", CLASSICAL)
def test_classical_method_takes_no_checkpoint(capsys, work, method):
    text = f"{method}@paper=a.pt"
    message = refusal(capsys, "evaluate", *data(work), text)
    assert f"'{text}' does not fit {method}, expected {method}." in message


@pytest.mark.parametrize("text", ["RCDRS-Env@paper", "RCDRS-Env@paper=", "F-DRS@"])
def test_half_a_run_is_named(capsys, work, text):
    assert f"{text!r} does not fit" in refusal(capsys, "evaluate", *data(work), text)


def test_checkpoint_of_another_depth_is_refused(capsys, work):
    message = refusal(capsys, "evaluate", *data(work, 4), trained(work, "RCDRS-Env"))
    assert "RCDRS-Env.pt holds depth 3, expected 4" in message


@pytest.mark.parametrize("method", LEARNED)
@pytest.mark.parametrize("other", LEARNED)
def test_checkpoint_of_another_method_is_refused(capsys, work, method, other):
    """Else its numbers would stand under the wrong name."""
    command = ("evaluate", *data(work), f"{method}@paper={work / other}.pt")
    if method == other:
        run(*command)
    else:
        assert f"{other}.pt" in refusal(capsys, *command)


@pytest.mark.parametrize("method", [name for name in LEARNED if name != "L-PDHG"])
def test_checkpoint_of_another_core_is_refused(capsys, work, tmp_path, method):
    """L-PDHG alone has none."""
    (tmp_path / "core.json").write_text(f'{{{CORE}, "alpha": 1.25, "beta": 0.7}}')
    command = (work / "set.npz", "--core", tmp_path / "core.json")
    message = refusal(capsys, "evaluate", *command, trained(work, method))
    assert f"{method}.pt was trained as another" in message
    assert "1.25, 0.7" in message


def test_checkpoint_of_another_controller_is_refused(capsys, work):
    settings = json.dumps({"controller": CONTROLLER | {"hidden": 8}})
    command = ("evaluate", *data(work), "--settings", settings)
    message = refusal(capsys, *command, trained(work, "RCDRS-Env"))
    assert "RCDRS-Env.pt was trained as another" in message
    assert "controller" in message


def test_checkpoint_that_is_none_is_named(capsys, work, tmp_path):
    torch.save({"config": {}, "weights": {}}, tmp_path / "foreign.pt")
    for path in (work / "set.npz", work / "core3.json", tmp_path / "foreign.pt"):
        message = refusal(capsys, "evaluate", *data(work), f"RCDRS-Env@paper={path}")
        assert path.name in message
