"""The DAG on a real SLURM of one node, started on this machine (tests/slurm/cluster)."""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from rcdrs.artifact import slurm

ROOT = Path(__file__).parents[1]
HERE = ROOT / "tests" / "slurm"
#: Every rule that a table needs.
TARGETS = [
    "results/tiny/synthetic/socp-hard-0-K5/RCDRS-Env@paper.csv",
    "results/tiny/synthetic/socp-hard-0-K5/Grid-DRS@paper.csv",
    "results/tiny/timing/socp-hard-0.csv",
    "table_ablation_main",
]
PLUGIN = find_spec("snakemake_executor_plugin_slurm") is not None


def lacking() -> str:
    """Why there can be no SLURM here."""
    if not all(shutil.which(daemon) for daemon in ("munged", "slurmctld", "slurmd")):
        return "needs SLURM: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "needs root, to start munge and SLURM"
    if not PLUGIN:
        return "needs the plugin: pip install -e '.[slurm]'"
    return ""


real = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A machine has one SLURM: test processes take turns."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with open(Path(tempfile.gettempdir(), "rcdrs-slurm.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            subprocess.run([HERE / "cluster", "start", folder], check=True)
            yield
        finally:
            subprocess.run([HERE / "cluster", "stop", folder], check=True)
            shutil.rmtree(folder)


class Run:
    """Snakemake in a folder of its own."""

    def __init__(self, folder: Path, *options: str, path: str | None = None) -> None:
        self.folder, self.log = folder, folder / "log"
        folder.mkdir(exist_ok=True)
        start = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [*start, "--directory", str(folder), *options],
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | ({"PATH": path} if path else {}),
            )
        RUNS.append(self)

    def wait(self) -> int:
        return self.process.wait(timeout=1200)

    @property
    def text(self) -> str:
        return self.log.read_text()

    def metrics(self) -> dict[str, bytes]:
        """Seed-level results, and the tables without times, which differ from run to run."""
        kinds = ("synthetic/*/*", "ablation/*/*", "dfl/*/*", "dispatch/*/*", "paper_tables/*")
        return {
            str(path.relative_to(self.folder)): text
            for kind in kinds
            for path in self.folder.glob(f"results/*/{kind}.csv")
            if b"time_ms" not in (text := path.read_bytes())
        }


RUNS: list[Run] = []


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    while RUNS:
        RUNS.pop().process.kill()


def submitted(folder: Path, *options: str, path: str | None = None) -> Run:
    profile = ["--profile", str(ROOT / "workflow/profiles/slurm"), "--latency-wait", "5"]
    quick = ["--slurm-init-seconds-before-status-checks", "1"]
    return Run(folder, *options, *profile, *quick, path=path)


def tiny(folder: Path, epochs: int = 2) -> list[str]:
    """The configuration."""
    text = (HERE / "tiny.yaml").read_text()
    assert "epochs: 2" in text
    (folder / "tiny.yaml").write_text(text.replace("epochs: 2", f"epochs: {epochs}"))
    return ["--configfile", str(folder / "tiny.yaml")]


def until(true: Callable[[], Any], seconds: float = 300) -> Any:
    """What it gives as soon as that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.3)
    raise TimeoutError(f"after {seconds} s")


def queue(state: str, comment: str = "") -> list[str]:
    """Numbers of the jobs in that state; the plugin's comment names the rules."""
    lines = subprocess.run(
        ["squeue", "--noheader", f"--states={state}", "--format=%i %k"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [line.split()[0] for line in lines if comment in line]


def node(state: str) -> None:
    change = ["scontrol", "update", "NodeName=node1", f"State={state}", "Reason=test"]
    subprocess.run(change, check=True)


@pytest.mark.slurm
@real
def test_same_bytes_as_here_through_a_cancelled_job_and_a_node_that_goes_down(
    cluster: None, tmp_path: Path
) -> None:
    options = [*TARGETS, *tiny(tmp_path, epochs=200)]  # seconds of training, to be cut off
    run = submitted(tmp_path / "slurm", *options)
    (cancelled,) = until(lambda: queue("RUNNING", "socp-hard-0-K5"))
    until(lambda: list(run.folder.glob("results/tiny/logs/train/**/*.log")))
    subprocess.run(["scancel", cancelled], check=True)
    until(lambda: queue("CANCELLED"))
    (lost,) = until(lambda: queue("RUNNING", "socp-hard-0-K5"))  # submitted again
    node("DOWN")
    until(lambda: lost in queue("PENDING"))
    node("RESUME")
    assert run.wait() == 0, run.text
    assert "Trying to restart job" in run.text
    assert queue("CANCELLED") == [cancelled]
    assert lost in queue("COMPLETED")

    here = Run(tmp_path / "here", *options, "--cores", "2")
    assert here.wait() == 0, here.text
    assert len(here.metrics()) == 2 + 2 + 1  # of methods, of variants, and the table
    assert run.metrics() == here.metrics()


@pytest.mark.slurm
@real
def test_smoke_run_has_the_same_bytes_as_here(cluster: None, tmp_path: Path) -> None:
    """Every rule that a table needs, of three experiments; the whole run would take too long."""
    tables = ["table_ablation_full", "table_dfl_k20", "table_dispatch_k15"]
    options = [*tables, "--configfile", str(ROOT / "workflow/config/smoke.yaml")]
    here = Run(tmp_path / "here", *options, "--cores", "2")
    assert here.wait() == 0, here.text
    run = submitted(tmp_path / "slurm", *options)
    assert run.wait() == 0, run.text
    assert "has been submitted with SLURM jobid" in run.text
    assert len(here.metrics()) == 11 + 1  # of runs, and the table without times
    assert run.metrics() == here.metrics()


@pytest.mark.slurm
@real
def test_time_limit_too_short(cluster: None, tmp_path: Path) -> None:
    """SLURM counts minutes: a job that would take many is ended after one."""
    config = tiny(tmp_path, epochs=1_000_000)
    cores = "results/tiny/cores/socp-hard-0-K5.json"
    assert Run(tmp_path / "run", cores, *config, "--cores", "1").wait() == 0
    limits = ["--set-resources", "train:runtime=1", "evaluate:runtime=0", "--retries", "0"]
    run = submitted(tmp_path / "run", TARGETS[0], *config, *limits)
    assert run.wait() == 1
    said = run.text[run.text.index("SLURM's log of") :]
    assert "DUE TO TIME LIMIT" in said
    assert "--set-resources RULE:runtime=MINUTES" in said
    assert "rule train failed" in said
    assert "the same command goes on from here" in said
    # What was finished is kept, and the training will go on from where it was.
    assert (run.folder / cores).exists()
    assert list(run.folder.glob("results/tiny/checkpoints/**/*.resume"))


@pytest.mark.slurm
@real
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ["--default-resources", "slurm_partition=nowhere"],
            "invalid partition specified: nowhere",
        ),
        (["--set-resources", "tune:mem_mb=99999999"], "node configuration is not available"),
        (["--config", "device=cuda"], "Invalid generic resource"),
    ],
)
def test_a_request_that_the_cluster_cannot_meet(
    cluster: None, tmp_path: Path, options: list[str], reason: str
) -> None:
    run = submitted(tmp_path / "slurm", *TARGETS, *tiny(tmp_path), *options)
    assert run.wait() == 1
    assert re.search(rf"SLURM refuses (rule|group) .*:\n.*{reason}", run.text), run.text
    assert "has been submitted" not in run.text


@pytest.mark.slurm
@real
def test_a_partition_that_is_too_short(cluster: None, tmp_path: Path) -> None:
    """SLURM would let such a job wait for ever."""
    limit = ["scontrol", "update", "PartitionName=work", "MaxTime="]
    subprocess.run([*limit[:-1], limit[-1] + "9"], check=True)
    try:
        run = submitted(tmp_path / "slurm", TARGETS[0], *tiny(tmp_path))
        assert run.wait() == 1
        assert "the partition ends its jobs after 9 minutes" in run.text
    finally:
        subprocess.run([*limit[:-1], limit[-1] + "INFINITE"], check=True)


@pytest.mark.skipif(not PLUGIN, reason="needs the plugin: pip install -e '.[slurm]'")
def test_no_slurm_here(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in ("which", "bash", "sh", "python3"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    run = submitted(tmp_path / "slurm", TARGETS[0], *tiny(tmp_path), path=str(tmp_path / "bin"))
    assert run.wait() == 1
    assert "there is no SLURM here" in run.text
    assert "without --profile" in run.text


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", math.inf), ("30:00", 30), ("2:00:00", 120), ("1-12:00:30", 2160.5)],
)
def test_time_limits_of_partitions(limit: str, minutes: float) -> None:
    assert slurm.minutes(limit) == minutes


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***", "runtime"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", "mem_mb"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x ***", ""),
    ],
)
def test_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, cure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    job = SimpleNamespace(name="time", wildcards=["socp-hard", "0"], is_group=lambda: False)
    assert slurm.reason(job) == []
    log = tmp_path / ".snakemake/slurm_logs/rule_time/socp-hard_0/7.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"Building DAG of jobs...\n{said}\nsrun: error: node1: task 0: Killed\n")
    text = "\n".join(slurm.reason(job))
    assert said in text
    assert f"RULE:{cure}=" in text if cure else "--set-resources" not in text


def test_the_job_of_a_group_that_was_begun_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Group(list[SimpleNamespace]):
        name = "socp-hard-0-K5_evaluate_train"

        def is_group(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    group = Group(SimpleNamespace(message=text) for text in ("train L-PDHG", "train", "evaluate"))
    assert slurm.last_started(group).message == "train L-PDHG"
    log = tmp_path / f".snakemake/slurm_logs/group_{group.name}/7.log"
    log.parent.mkdir(parents=True)
    log.write_text("Job 1: train L-PDHG\nReason: Forced execution\nJob 2: train\nsrun: Killed\n")
    assert slurm.last_started(group).message == "train"


def test_the_profile_names_rules_that_exist() -> None:
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    named = {*profile["groups"], *profile["set-threads"], *profile["set-resources"]}
    texts = [path.read_text() for path in (ROOT / "workflow/rules").iterdir()]
    rule = r"^(?:use )?rule (?:\w+ as )?(\w+)(?: with)?:"
    rules = set(re.findall(rule, "\n".join(texts), re.MULTILINE))
    assert named <= rules
