"""The commands about results, and a job's tie to its workflow."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from conftest import paper

from rcdrs.artifact import runtime
from rcdrs.cli.main import main
from rcdrs.reporting.tables import configured

ROOT = Path(__file__).parents[1]
CONFIG = json.dumps(yaml.safe_load((ROOT / "workflow/config/paper.yaml").read_text()))


def test_table_of_the_configuration_is_tex_and_csv(tmp_path):
    out = tmp_path / "protocol.tex"
    assert main(["table", "protocol", "--config", CONFIG, "--out", str(out)]) == 0
    assert r"\begin{table*}" in out.read_text()
    assert out.with_suffix(".csv").read_text().startswith("block,row,column")


def test_damaged_rows_are_named_and_nothing_is_written(tmp_path, capsys):
    (tmp_path / "rows.csv").write_bytes(b"\xff\xfe\x00")
    command = ["table", "coverage", "--config", CONFIG, "--rows", str(tmp_path / "rows.csv")]
    assert main([*command, "--out", str(tmp_path / "a.tex")]) == 2
    assert "rows.csv is not a readable CSV" in capsys.readouterr().err
    assert not (tmp_path / "a.tex").exists()


def test_unknown_table_lists_the_known_ones(tmp_path, capsys):
    out = str(tmp_path / "a.tex")
    assert main(["table", "coverge", "--config", CONFIG, "--out", out]) == 2
    assert "synthetic_k20" in capsys.readouterr().err


def test_status_names_every_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(configured(paper()))
    found = next(line for line in lines if line.startswith("coverage "))
    assert sum(map(int, re.findall(r"\d+", found))) == 864  # released, stale or missing


def test_explain_of_an_unknown_table_lists_the_known_ones(capsys):
    assert main(["explain", "nothing", "RCDRS-Env", "ObjErr"]) == 2
    assert "synthetic_k20" in capsys.readouterr().err


def test_explain_says_what_to_compute_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    smoke = ["--configfile", str(ROOT / "workflow/config/smoke.yaml")]  # has no released results
    assert main(["explain", "synthetic_k20", "RCDRS-Env", "ObjErr", *smoke]) == 2
    assert "run `snakemake --cores 2 table_synthetic_k20` first" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the workflow is watched by its process id")
def test_job_ends_with_its_workflow():
    """A workflow that is killed leaves no job behind."""
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watched = {"RCDRS_PARENT": f"{platform.node()}:{parent.pid}"}
    code = (
        "import time; from rcdrs.artifact.runtime import end_with_parent as e; e(); time.sleep(60)"
    )
    job = subprocess.Popen([sys.executable, "-c", code], env=os.environ | watched)
    time.sleep(1.5)  # it looks once a second
    assert job.poll() is None
    parent.kill()
    parent.wait()
    assert job.wait(timeout=120) == 143


def test_a_gpu_serves_one_job_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(runtime, "_claimed", [])
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(
        "torch.cuda.get_device_properties", lambda index: SimpleNamespace(uuid=f"gpu{index}")
    )
    chosen = []
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    cuda = torch.device("cuda")
    assert runtime.claim(cuda) == runtime.claim(cuda) == cuda
    assert chosen == [0, 1]
    third = threading.Thread(target=runtime.claim, args=(cuda,))
    third.start()
    third.join(0.5)
    assert third.is_alive()
    os.close(runtime._claimed[1])  # as the end of that job's process would
    third.join(10)
    assert chosen == [0, 1, 1]
    assert runtime.claim(torch.device("cpu")).type == "cpu"


def test_reader_that_has_seen_enough_is_no_error():
    """As with `rcdrs explain ... | head`: the pipe is closed before anything is written."""
    command = [sys.executable, "-m", "rcdrs", "status"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 2, "rcdrs schema: out of memory.\n"),
        (
            RuntimeError("[alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
            2,
            "rcdrs schema: out of memory: can't allocate memory\n",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore."),
            2,
            "rcdrs schema: out of memory: out of memory. Tried to allocate 2 GiB.\n",
        ),
        (
            OSError(28, "No space left on device", "a.csv"),
            2,
            "rcdrs schema: [Errno 28] No space",
        ),
    ],
)
def test_what_a_machine_lacks_is_told_in_a_line(monkeypatch, capsys, error, code, message):
    def fail():
        raise error

    monkeypatch.setattr("rcdrs.cli.results.model", fail)
    assert main(["schema"]) == code
    told = capsys.readouterr().err
    assert told.startswith(message)
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["draw", "other.csv", "--out", "x.png"],
            "other.csv has no hour, part, schedule, side",
        ),
        (["draw", "folder", "--out", "x.png"], "Is a directory: 'folder'"),
        (["table", "protocol", "--config", CONFIG, "--out", "x.pdf"], "--out is x.pdf, expected a"),
        (["table", "protocol", "--config", CONFIG, "--out", "other.csv/x.tex"], "other.csv"),
        (["claims", "--config", CONFIG, "--recipe", "mine", "--out", "x.md"], "--recipe is 'mine'"),
        (["report", "--config", CONFIG, "--claims", "no.csv", "--out", "x.html"], "'no.csv'"),
        (["preview", "no.tex", "--out", "x.pdf"], "No such file or directory: 'no.tex'"),
        (["preview", "folder", "--out", "x.pdf"], "Is a directory: 'folder'"),
        (["release"], "results/paper is not there: run the workflow first, and call this where"),
        (["status", "--configfile", "folder"], "Is a directory: 'folder'"),
        (["verify", "--base", "no-commit"], "rcdrs verify: "),
    ],
)
def test_bad_argument_is_told_in_a_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    line = "trace,socp,small,5,0,RCDRS-Env,paper"
    Path("other.csv").write_text(f"experiment,family,scale,K,seed,method,recipe\n{line}\n")
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "other.csv"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "--cores", "x"], "--cores: x is not a positive number"),
        (["profile", "--cores", "0"], "--cores: 0 is not a positive number"),
        (["calibrate", "--seed", "-1"], "--seed: -1 is not a natural number"),
        (["calibrate", "--seed", str(10**30)], "is not a natural number below 2147483648"),
        (["calibrate", "--seed", "1.5"], "--seed: 1.5 is not a natural number"),
        (["table", "protocol", "--out", "x.tex", "--config", "["], "--config: not JSON"),
        (["table", "protocol", "--out", "x.tex", "--config", "[" * 10**5], "--config: not JSON"),
        (["table", "protocol", "--out", "x.tex", "--config", "[1]"], "[1] is not a JSON object"),
    ],
)
def test_bad_option_is_told_with_the_usage(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err
