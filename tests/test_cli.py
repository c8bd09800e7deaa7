"""The command line, verb by verb, on a few small instances."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch

from rcdrs.baselines.registry import METHODS
from rcdrs.cli import main as cli
from rcdrs.cli.main import main

VERBS = (
    "instances",
    "tune",
    "train",
    "learn",
    "reference",
    "evaluate",
    "time",
    "bench",
    "calibrate",
)
KEYS = ["experiment", "family", "scale", "K", "seed", "method", "recipe"]
METRICS = ["ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"]
LEARNED = [name for name, method in METHODS.items() if method.learned]
CLASSICAL = [name for name, method in METHODS.items() if not method.learned]
SIZES = json.dumps({"train": 8, "validation": 4, "test": 4})
SHORT = json.dumps({"recipe": {"epochs": 2}})


@pytest.fixture(scope="module", autouse=True)
def undo():
    """What `main` sets in the process is undone at the end."""
    yield
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)


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
    run("instances", "socp-small", "--seed", 1, "--sizes", SIZES, "--out", where)
    run("tune", where, "--depth", 3, 4, "--out", folder / "cores.json")


def data(folder, depth: int = 3, cores: str = "cores.json") -> tuple[object, ...]:
    return folder / "set.npz", "--cores", folder / cores, "--depth", depth


def train(folder, out, *options: object) -> None:
    run("train", *data(folder), "--settings", SHORT, "--out", out, *options)


def trained(folder, method: str, recipe: str = "paper") -> str:
    """The RUN of a method at depth 3."""
    return f"{method}@{recipe}={folder / method}.pt" if method in LEARNED else method


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def read_csv(path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_stages_leave_their_files(work):
    """And nothing else: neither temporary nor resume files."""
    cores = json.loads((work / "cores.json").read_text())
    assert cores.keys() == {"3", "4"}
    assert all(core.keys() == {"alpha", "beta"} for core in cores.values())
    expected = {"set.npz", "cores.json"}
    expected |= {f"{method}.{suffix}" for method in LEARNED for suffix in ("pt", "csv")}
    assert {path.name for path in work.iterdir()} == expected
    for method in LEARNED:
        curve = (work / f"{method}.csv").read_text().splitlines()
        assert len(curve) == 1 + 3  # header, the untrained layer, two epochs


def test_evaluate_writes_a_row_a_run_and_each_instance(work, tmp_path, capsys):
    out = ("--out", tmp_path / "rows.csv", "--details", tmp_path / "details.npz")
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
    with np.load(tmp_path / "details.npz", allow_pickle=False) as details:
        names = {f"{row['method']}@{row['recipe']}/{name}" for row in rows for name in METRICS}
        assert set(details.files) == names
        assert all(details[name].shape == (4,) for name in names)


def test_evaluate_prints_a_table_where_no_file_is_named(work, capsys):
    capsys.readouterr()
    run("evaluate", *data(work), "Grid-DRS", trained(work, "RCDRS-Env"))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == KEYS + METRICS
    assert [row.split()[5:7] for row in rows] == [["Grid-DRS", "-"], ["RCDRS-Env", "paper"]]


def test_rows_bear_the_label_and_the_experiment(work, tmp_path):
    out = ("--out", tmp_path / "rows.csv")
    names = ("--experiment", "ablation", "--label", "mlp")
    run("evaluate", *data(work), trained(work, "RCDRS-Env"), *names, *out)
    (row,) = read_csv(tmp_path / "rows.csv")
    assert (row["experiment"], row["method"], row["recipe"]) == ("ablation", "mlp", "paper")


def test_time_gives_a_row_a_depth_and_method(work, tmp_path, capsys):
    once = ("--warm-up", 0, "--repeats", 1)
    run("time", *data(work), 4, "--out", tmp_path / "time.csv", *once)
    rows = read_csv(tmp_path / "time.csv")
    expected = [(depth, method) for depth in ("3", "4") for method in METHODS]
    assert [(row["K"], row["method"]) for row in rows] == expected
    assert list(rows[0]) == [*KEYS[:-1], "time_ms", "device"]
    assert all(float(row["time_ms"]) > 0 for row in rows)
    capsys.readouterr()
    run("time", *data(work), "--method", "F-DRS", "AA-DRS", *once)
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [*KEYS[:-1], "time_ms", "device"]
    assert [row.split()[5] for row in rows] == ["F-DRS", "AA-DRS"]


def test_stages_repeated_write_the_same_bytes(work, tmp_path):
    make_set(tmp_path)
    train(tmp_path, tmp_path / "RCDRS-Env.pt", "--threads", 1)
    for path in list(tmp_path.iterdir()):
        assert path.read_bytes() == (work / path.name).read_bytes(), path.name
    runs = ("Grid-DRS", trained(work, "RCDRS-Env"))
    for name in "ab":
        out = ("--out", tmp_path / f"{name}.csv", "--details", tmp_path / f"{name}.npz")
        run("evaluate", *data(work), *runs, *out)
    for kind in ("csv", "npz"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_training_curve_goes_beside_the_checkpoint(work, tmp_path):
    train(work, tmp_path / "new" / "a.pt", "--recipe", "log_kkt")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"a.pt", "a.csv"}
    run("evaluate", *data(work), f"RCDRS-Env@log_kkt={tmp_path / 'new' / 'a.pt'}")


def test_grid_decides_what_tune_selects(work, tmp_path):
    grid = json.dumps({"alphas": [1.1], "betas": [0.2], "scored": 2})
    out = ("--grid", grid, "--out", tmp_path / "a.json")
    run("tune", work / "set.npz", "--depth", 3, *out)
    assert json.loads((tmp_path / "a.json").read_text()) == {"3": {"alpha": 1.1, "beta": 0.2}}


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
    assert len(rows) == 8
    assert all(row["time_ms"] > 0 for row in rows)


def test_main_help_shows_verbs_and_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    for verb in VERBS:
        assert re.search(rf"^ +{verb}\b", shown, re.MULTILINE), verb
        assert f"\n  rcdrs {verb} " in shown.partition("examples:")[2], verb


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_exits_with_zero(capsys, verb):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert f"usage: rcdrs {verb}" in capsys.readouterr().out


def test_examples_of_the_help_parse(monkeypatch):
    """Every example is a command that the parser takes."""
    seen = []
    for verb in ("bench", "calibrate"):
        monkeypatch.setattr(cli, verb, lambda options: seen.append(options.verb))
    for kind in ("_stage", "_reporting"):
        monkeypatch.setattr(cli, kind, lambda _: lambda options: seen.append(options.verb))
    examples = [shlex.split(line)[1:] for line in cli.EXAMPLES.splitlines()[1:]]
    assert all(main(example) == 0 for example in examples)
    assert seen == [example[0] for example in examples]


def test_module_runs_as_a_program():
    """`python -m rcdrs` in a process of its own."""
    command = [sys.executable, "-m", "rcdrs", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: rcdrs")


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
    assert "'lp-small'" in refusal(capsys, "bench", "step", "--case", "lp-small")
    assert "'lp-small'" in refusal(capsys, "bench", "solve", "--case", "lp-small")
    assert "'qp'" in refusal(capsys, "calibrate", "qp")
    assert list(tmp_path.iterdir()) == []


def test_unknown_method_is_refused(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a")
    for command in (
        ("train", *data(work), "--method", "ADAM", *out),
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
    out = ("--out", tmp_path / "a")
    wrong = "--depth: 0 is not a positive number"
    assert wrong in misuse(capsys, "tune", work / "set.npz", "--depth", 3, 0, *out)
    assert wrong in misuse(capsys, "train", *data(work, 0), *out)
    assert wrong in misuse(capsys, "evaluate", *data(work, 0), "F-DRS", *out)
    assert wrong in misuse(capsys, "time", *data(work, 0), *out)
    assert list(tmp_path.iterdir()) == []


NO_OBJECTS = {"{epochs: 2}": "not JSON", "[1]": "[1] is not a JSON object", "3": "3 is not a JSON"}


@pytest.mark.parametrize(("text", "message"), NO_OBJECTS.items())
def test_json_options_must_be_objects(capsys, work, tmp_path, text, message):
    out = ("--out", tmp_path / "a")
    for option, command in {
        "--sizes": ("instances", "socp-small", *out),
        "--grid": ("tune", work / "set.npz", "--depth", 3, *out),
        "--settings": ("train", *data(work), *out),
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
    command = ("train", *data(work), "--settings", json.dumps(settings), "--out", tmp_path / "a.pt")
    assert culprit in refusal(capsys, *command)
    assert list(tmp_path.iterdir()) == []


def test_grid_names_what_it_does_not_know(capsys, work, tmp_path):
    command = ("tune", work / "set.npz", "--depth", 3, "--out", tmp_path / "a.json", "--grid")
    assert "'alpha'" in refusal(capsys, *command, '{"alpha": [1.0]}')
    assert "alpha = 2.5" in refusal(capsys, *command, '{"alphas": [2.5]}')


#: Each ends in a traceback, or in files made with something else than was asked for.
CARELESS = {
    "sizes without a split": ("instances", "socp-small", "--sizes", '{"train": 4}'),
    "grid without a pair": ("tune", "--depth", 3, "--grid", '{"alphas": []}'),
    "grid on no instances": ("tune", "--depth", 3, "--grid", '{"scored": 0}'),
    "envelope of a number": ("train", "--settings", '{"controller": {"envelope": 5}}'),
    "batches of nothing": ("train", "--settings", '{"recipe": {"batch": 0, "epochs": 1}}'),
    "fewer than no epochs": ("train", "--settings", '{"recipe": {"epochs": -1}}'),
    "unknown section": ("train", "--settings", '{"recipes": {}, "recipe": {"epochs": 0}}'),
    "unknown reference": ("train", "--settings", '{"recipe": {"epochs": 0, "reference": "Tuned"}}'),
    "curve over the checkpoint": ("train", "--settings", SHORT),
}


@pytest.mark.parametrize("name", CARELESS)
def test_careless_option_is_refused(capsys, work, tmp_path, name):
    verb, *options = CARELESS[name]
    where = {"instances": (), "tune": (work / "set.npz",), "train": data(work)}[verb]
    out = tmp_path / ("a.csv" if name == "curve over the checkpoint" else "a.pt")
    refusal(capsys, verb, *where, *options, "--out", out)


def test_device_that_is_not_there_is_refused(capsys, work, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (
        ("train", *data(work), "--out", tmp_path / "a.pt"),
        ("evaluate", *data(work), "F-DRS"),
        ("time", *data(work)),
    ):
        assert "no CUDA device" in refusal(capsys, *command, "--device", "cuda")
    assert "'tpu'" in misuse(capsys, "evaluate", *data(work), "F-DRS", "--device", "tpu")


def test_missing_files_are_named(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.json")
    assert "no.npz" in refusal(capsys, "tune", tmp_path / "no.npz", "--depth", 3, *out)
    assert "no.json" in refusal(capsys, "evaluate", *data(work, cores="no.json"), "F-DRS")
    command = ("evaluate", *data(work), f"RCDRS-Env@paper={work / 'no.pt'}")
    assert "no.pt" in refusal(capsys, *command)


def test_depth_that_was_not_tuned_is_named(capsys, work, tmp_path):
    """With the command that makes its core."""
    message = "cores.json holds no core for depth 5: make it with `rcdrs tune --depth 5`"
    assert message in refusal(capsys, "evaluate", *data(work, 5), "F-DRS")
    assert message in refusal(capsys, "train", *data(work, 5), "--out", tmp_path / "a.pt")
    assert message in refusal(capsys, "time", *data(work), 5, "--method", "F-DRS")


NO_CORES = {
    "text": b"alpha: 1.6",
    "bytes": b"\xff\xfe",
    "nothing in it": b"{}",
    "list": b"[1]",
    "number": b"3",
    "number for a core": b'{"3": 1.6}',
    "half a core": b'{"3": {"alpha": 1.6}}',
    "text for a number": b'{"3": {"alpha": "a", "beta": 1}}',
    "nothing for a number": b'{"3": {"alpha": null, "beta": 1}}',
}


@pytest.mark.parametrize("content", NO_CORES.values(), ids=NO_CORES)
def test_cores_that_are_none_are_named(capsys, work, tmp_path, content):
    (tmp_path / "odd.json").write_bytes(content)
    command = (work / "set.npz", "--cores", tmp_path / "odd.json", "--depth", 3)
    message = refusal(capsys, "evaluate", *command, "Grid-DRS")
    assert "odd.json" in message
    assert "`rcdrs tune" in message


def test_instances_that_are_none_are_named(capsys, work, tmp_path):
    command = ("tune", work / "cores.json", "--depth", 3, "--out", tmp_path / "a.json")
    assert "cores.json" in refusal(capsys, *command)


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
    (tmp_path / "cores.json").write_text('{"3": {"alpha": 1.25, "beta": 0.7}}')
    command = (work / "set.npz", "--cores", tmp_path / "cores.json", "--depth", 3)
    message = refusal(capsys, "evaluate", *command, trained(work, method))
    assert f"{method}.pt was trained as another" in message
    assert "1.25, 0.7" in message


def test_checkpoint_of_another_controller_is_refused(capsys, work):
    settings = json.dumps({"controller": {"hidden": 8}})
    command = ("evaluate", *data(work), "--settings", settings)
    message = refusal(capsys, *command, trained(work, "RCDRS-Env"))
    assert "RCDRS-Env.pt was trained as another" in message
    assert "controller" in message


def test_checkpoint_that_is_none_is_named(capsys, work, tmp_path):
    torch.save({"config": {}, "weights": {}}, tmp_path / "foreign.pt")
    for path in (work / "set.npz", work / "cores.json", tmp_path / "foreign.pt"):
        message = refusal(capsys, "evaluate", *data(work), f"RCDRS-Env@paper={path}")
        assert path.name in message
