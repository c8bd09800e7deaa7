"""Whole runs: which jobs there are, and how long they take on any number of cores."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest
import yaml

from rcdrs.artifact import times as jobtimes
from rcdrs.artifact.config import load
from rcdrs.artifact.plan import PAPER, SCHEMA, Plan
from rcdrs.artifact.schedule import (
    ALL,
    START,
    Task,
    jobs_of,
    longest_chain,
    makespan,
    submissions_of,
    tasks_of,
)
from rcdrs.artifact.times import JobTime, write
from rcdrs.cli import results as commands
from rcdrs.cli.main import main

ROOT = Path(__file__).parents[1]
SMOKE = ROOT / "workflow/config/smoke.yaml"


def plan_of(*files):
    return Plan.of(load(ROOT / PAPER, *files, schema=ROOT / SCHEMA), ROOT)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(1, 15.0), (2, 9.0), (8, 9.0)],
)
def test_schedule_waits_for_dependencies_and_cores(cores, expected):
    """Two chains of 2 + 3 s and 4 s, then one task of 2 s on two cores, then 4 s."""
    tasks = [
        Task(2.0),
        Task(3.0, after=(0,)),
        Task(4.0),
        Task(2.0, threads=2, after=(1, 2)),
        Task(2.0, after=(3,)),
        Task(2.0, after=(3,)),
    ]
    assert makespan(tasks, cores) == expected


def test_task_that_wants_more_cores_than_there_are_runs_alone():
    assert makespan([Task(1.0, threads=8), Task(1.0, threads=8)], cores=2) == 2.0


def test_nothing_takes_no_time():
    assert makespan([], cores=2) == 0.0


def test_timing_waits_until_it_is_alone():
    tasks = [Task(4.0), Task(1.0, threads=ALL), Task(1.0)]
    assert makespan(tasks, cores=8) == 5.0


def test_longest_chain_is_found_past_shorter_and_wider_ones():
    tasks = [
        Task(2.0),
        Task(9.0),
        Task(5.0, after=(0,)),
        Task(1.0, after=(0,)),
        Task(3.0, after=(2, 3)),
    ]
    assert longest_chain(tasks) == [0, 2, 4]
    assert makespan(tasks, cores=64) == 10.0
    assert longest_chain([]) == []


def test_jobs_are_those_of_the_workflow(tmp_path):
    """Snakemake's own list, of every rule, by log; a benchmark file has the same name."""
    command = ["-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", tmp_path]
    command += ["-n", "-p", "--cores", 2, "paper_tables", "--configfile", SMOKE]
    done = subprocess.run(
        [sys.executable, *map(str, command), "--config", "results=recompute"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"> results/smoke/logs/(\S+)\.log", done.stdout + done.stderr)
    assert found, done.stdout + done.stderr
    assert sorted(found) == sorted(jobs_of(plan_of(SMOKE)))


def test_paper_is_scheduled_at_once():
    jobs = jobs_of(plan_of())
    tasks = tasks_of(jobs, dict.fromkeys(jobs, 1.0))
    started = perf_counter()
    wall = [makespan(tasks, cores) for cores in (1, 2, 64)]
    chain = longest_chain(tasks)
    assert perf_counter() - started < 1
    assert wall[0] == len(jobs)
    assert wall[1] == pytest.approx(len(jobs) / 2, rel=0.05)
    rules = [list(jobs)[number].partition("/")[0] for number in chain]
    assert rules == ["instances", "tune", "train", "learn", "evaluate", "render"]


def test_submissions_are_connected_jobs_of_a_group():
    """Two seeds to prepare, two trainings in one evaluation, three variants taken in pairs."""
    jobs = {}
    for seed in (0, 1):
        jobs[f"instances/a-{seed}"], jobs[f"tune/a-{seed}"] = (), (f"instances/a-{seed}",)
    for method in ("x", "y"):
        jobs[f"train/{method}/a-0-K5"] = ("tune/a-0",)
    jobs["evaluate/a-0-K5"] = ("train/x/a-0-K5", "train/y/a-0-K5", "tune/a-0")
    for variant in ("u", "v", "w"):
        jobs[f"train_ablation/{variant}/a-1-K5"] = ("tune/a-1",)
    jobs["time/a-0"] = ("tune/a-0",)
    groups = dict.fromkeys(("instances", "tune"), "prepare-{case}-{seed}")
    groups |= dict.fromkeys(("train", "evaluate"), "{case}-{seed}-K{K}")
    groups |= {"train_ablation": "ablation"}
    tasks = submissions_of(jobs, dict.fromkeys(jobs, 1.0), groups, {"ablation": 2})
    each = START + 1.0
    assert tasks == [
        Task(START + 2 * each),
        Task(START + 2 * each),
        Task(START + 3 * each, after=(0,)),
        Task(START + 2 * each, after=(1,)),
        Task(START + each, after=(1,)),
        Task(START + each, after=(0,)),
    ]


def test_submissions_of_the_smoke_run_are_those_of_its_profile():
    """25 were counted on a SLURM."""
    jobs = jobs_of(plan_of(SMOKE))
    profile = yaml.safe_load((ROOT / commands.PROFILE).read_text())
    settings = profile["groups"], profile["group-components"]
    assert len(submissions_of(jobs, dict.fromkeys(jobs, 1.0), *settings)) == 25
    assert len(submissions_of(jobs, dict.fromkeys(jobs, 1.0), {}, {})) == len(jobs)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A table of times in which every rule but one takes a second."""
    rules = {name.partition("/")[0] for name in jobs_of(plan_of(SMOKE))} - {"headline"}
    times = [JobTime("smoke", f"{rule}/x", 1, 1.0, 1.0, 0.1) for rule in sorted(rules)]
    monkeypatch.setattr(jobtimes, "reference_seconds", lambda: 0.1)
    monkeypatch.setattr(commands, "JOB_TIMES", str(tmp_path / "times.csv"))
    write(times, tmp_path / "times.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "times.csv"


def test_profile_tells_wall_times_from_the_kept_table(kept, capsys):
    assert main(["profile", "--cores", "1", "256", "--configfile", str(SMOKE)]) == 0
    output = capsys.readouterr().out
    jobs = jobs_of(plan_of(SMOKE))
    assert "1 job never timed, as headline: taken as 0 s." in output
    assert f"{len(jobs)} jobs, {jobtimes.duration(len(jobs) - 1)} of core time." in output
    alone = jobtimes.duration(6 * (1 + 2 * START))  # the longest chain, each submitted by itself
    assert re.search(rf"^  256 +\d+ s +2 min +{alone}$", output, re.M)
    assert "takes 6 s: instances/dfl-0 (1 s) -> tune/dfl-0 (1 s) -> train/" in output


def test_profile_without_any_time_says_where_it_looked(kept, capsys):
    write([], kept)
    assert main(["profile", "--cores", "8"]) == 2
    assert "no job was timed, neither in results/paper nor in" in capsys.readouterr().err


def test_profile_of_nothing_is_an_error(capsys):
    assert main(["profile"]) == 2
    assert "give the folder of a run" in capsys.readouterr().err
