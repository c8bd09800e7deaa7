"""The command line, verb by verb, on a few small instances."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys

import pytest
import torch

from rcdrs import cli, training
from rcdrs.cli import main
from rcdrs.experiments import synthetic
from rcdrs.methods import METHODS

VERBS = ("instances", "tune", "train", "evaluate", "bench", "calibrate")
METRICS = {"ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap"}
LEARNED = [name for name, method in METHODS.items() if method.learned]
CLASSICAL = [name for name, method in METHODS.items() if not method.learned]


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """Few instances, two epochs; what `main` sets in the process is undone at the end."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"train": 8, "validation": 4, "test": 4}
        patch.setattr(synthetic, "SIZES", sizes)
        patch.setitem(training.RECIPES, "paper", training.Recipe(epochs=2))
        yield
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, cores of depth 3 and 4, and at depth 3 a checkpoint of every learned method."""
    folder = tmp_path_factory.mktemp("work")
    run("instances", "socp-small", "--seed", 1, "--out", folder / "set.npz")
    for depth in (3, 4):
        run("tune", folder / "set.npz", "--depth", depth, "--out", folder / f"core{depth}.json")
    for method in LEARNED:
        run("train", *data(folder), "--method", method, "--out", folder / f"{method}.pt")
    return folder


def run(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0


def data(folder, core: str = "core3.json") -> tuple[object, ...]:
    return folder / "set.npz", "--core", folder / core


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_stages_leave_their_files(work):
    """And nothing else: neither temporary nor resume files."""
    core = json.loads((work / "core3.json").read_text())
    assert core.keys() == {"depth", "alpha", "beta"}
    assert core["depth"] == 3
    expected = {"set.npz", "core3.json", "core4.json"}
    expected |= {f"{method}.{suffix}" for method in LEARNED for suffix in ("pt", "csv")}
    assert {path.name for path in work.iterdir()} == expected
    for method in LEARNED:
        curve = (work / f"{method}.csv").read_text().splitlines()
        assert len(curve) == 1 + 3  # header, the untrained layer, two epochs


@pytest.mark.parametrize("method", METHODS)
def test_evaluate_prints_every_metric_in_one_line(work, capsys, method):
    checkpoint = ("--checkpoint", work / f"{method}.pt") if method in LEARNED else ()
    capsys.readouterr()
    run("evaluate", *data(work), "--method", method, *checkpoint)
    (row,) = lines(capsys)
    assert row.keys() == {"case", "depth", "method"} | METRICS
    assert (row["case"], row["depth"], row["method"]) == ("socp-small", 3, method)
    assert all(math.isfinite(row[name]) and row[name] >= 0 for name in METRICS)


def test_stages_repeated_write_the_same_bytes(work, tmp_path):
    run("instances", "socp-small", "--seed", 1, "--out", tmp_path / "set.npz")
    run("tune", tmp_path / "set.npz", "--depth", 3, "--out", tmp_path / "core3.json")
    run("train", *data(tmp_path), "--out", tmp_path / "RCDRS-Env.pt", "--threads", 1)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (work / path.name).read_bytes(), path.name


def test_training_curve_goes_where_it_is_told(work, tmp_path):
    run("train", *data(work), "--out", tmp_path / "a.pt", "--curve", tmp_path / "curves" / "b.csv")
    assert (tmp_path / "curves" / "b.csv").exists()
    assert not (tmp_path / "a.csv").exists()


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
    for verb in VERBS:
        monkeypatch.setattr(cli, verb, lambda options: seen.append(options.verb))
    examples = [line.split()[1:] for line in cli.EXAMPLES.splitlines()[1:]]
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


@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_unknown_method_is_refused(capsys, work, tmp_path, verb):
    out = ("--out", tmp_path / "a.pt") if verb == "train" else ()
    message = refusal(capsys, verb, *data(work), "--method", "ADAM", *out)
    assert "'ADAM'" in message
    assert "RCDRS-Env" in message


def test_unknown_recipe_is_refused(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.pt")
    message = refusal(capsys, "train", *data(work), "--recipe", "quick", *out)
    assert "'quick'" in message
    assert "paper" in message


def test_unknown_controller_is_refused(capsys):
    command = ("bench", "step", "--case", "socp-small", "--batch", 4, "--controller", "cnn")
    assert "'cnn'" in refusal(capsys, *command)


@pytest.mark.parametrize("method", CLASSICAL)
def test_training_needs_something_to_train(capsys, work, tmp_path, method):
    out = ("--out", tmp_path / "a.pt")
    assert method in refusal(capsys, "train", *data(work), "--method", method, *out)
    assert list(tmp_path.iterdir()) == []


def test_depth_must_be_positive(capsys, work, tmp_path):
    command = ("tune", work / "set.npz", "--depth", 0, "--out", tmp_path / "a.json")
    with pytest.raises(SystemExit, match="2"):
        main([str(word) for word in command])
    assert "--depth: 0 is not a positive number" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_missing_files_are_named(capsys, work, tmp_path):
    out = ("--out", tmp_path / "a.json")
    assert "no.npz" in refusal(capsys, "tune", tmp_path / "no.npz", "--depth", 3, *out)
    assert "no.json" in refusal(capsys, "evaluate", *data(work, "no.json"), "--method", "F-DRS")
    command = ("evaluate", *data(work), "--checkpoint", work / "no.pt")
    assert "no.pt" in refusal(capsys, *command)


NO_CORES = {
    "text": b"alpha: 1.6",
    "bytes": b"\xff\xfe",
    "nothing in it": b"{}",
    "list": b"[1]",
    "number": b"3",
    "text for a number": b'{"depth": 3, "alpha": "a", "beta": 1}',
}


@pytest.mark.parametrize("content", NO_CORES.values(), ids=NO_CORES)
def test_core_that_is_none_is_named(capsys, work, tmp_path, content):
    (tmp_path / "odd.json").write_bytes(content)
    command = (
        "evaluate",
        work / "set.npz",
        "--core",
        tmp_path / "odd.json",
        "--method",
        "Grid-DRS",
    )
    assert "odd.json" in refusal(capsys, *command)


def test_instances_that_are_none_are_named(capsys, work, tmp_path):
    command = ("tune", work / "core3.json", "--depth", 3, "--out", tmp_path / "a.json")
    assert "core3.json" in refusal(capsys, *command)


def test_learned_method_needs_a_checkpoint(capsys, work):
    for method in LEARNED:
        message = refusal(capsys, "evaluate", *data(work), "--method", method)
        assert method in message
        assert "--checkpoint" in message


def test_checkpoint_of_another_depth_is_refused(capsys, work):
    command = ("evaluate", *data(work, "core4.json"), "--checkpoint", work / "RCDRS-Env.pt")
    assert "RCDRS-Env.pt holds depth 3, expected 4" in refusal(capsys, *command)


@pytest.mark.parametrize("trained", [name for name in LEARNED if name != "RCDRS-Env"])
def test_checkpoint_of_another_method_is_refused(capsys, work, trained):
    """Else its numbers would stand under the wrong name."""
    command = ("evaluate", *data(work), "--method", "RCDRS-Env", "--checkpoint")
    assert f"{trained}.pt" in refusal(capsys, *command, work / f"{trained}.pt")


def test_checkpoint_that_is_none_is_named(capsys, work, tmp_path):
    torch.save({"config": {}, "weights": {}}, tmp_path / "foreign.pt")
    for path in (work / "set.npz", work / "core3.json", tmp_path / "foreign.pt"):
        message = refusal(capsys, "evaluate", *data(work), "--checkpoint", path)
        assert path.name in message
