"""Whole runs: which jobs there are, and how long they take on any number of cores."""

from __future__ import annotations

import dataclasses
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from snakemake.settings.types import SchedulingSettings

from rcdrs.artifact import times as jobtimes
from rcdrs.artifact.hooks import COMPARED, choose_when_needed
from rcdrs.artifact.schedule import ALL, START, Schedule, Task, longest_chain, makespan, planned
from rcdrs.artifact.times import JobTime, duration, name_of, write
from rcdrs.cli import profile as commands
from rcdrs.cli.main import main

ROOT = Path(__file__).parents[1]
SMOKE = ROOT / "workflow/config/smoke.yaml"


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


@pytest.mark.parametrize(
    ("local", "given", "expected"),
    [(True, None, (None, COMPARED)), (True, 7, (None, 7)), (False, None, ("100/1s", None))],
)
def test_snakemake_chooses_jobs_when_one_ends(local, given, expected):
    """On this machine, and as many as the user says; a cluster keeps its limits."""
    settings = SimpleNamespace(max_jobs_per_timespan="100/1s", subsample=given)
    choose_when_needed(SimpleNamespace(local_exec=local, scheduling_settings=settings))
    assert (settings.max_jobs_per_timespan, settings.subsample) == expected


def test_snakemake_still_has_these_settings():
    found = {field.name for field in dataclasses.fields(SchedulingSettings)}
    assert {"max_jobs_per_timespan", "subsample"} <= found


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


@pytest.fixture(scope="module")
def smoke():
    """Snakemake's DAG of the smoke run, in the groups of the profile."""
    return planned(ROOT, SMOKE, profile=commands.PROFILE)


def a_second(benchmark):
    """What every job takes."""
    return 1.0


def names(schedule):
    return [name_of(job.benchmark) for job in schedule.seconds]


def test_jobs_are_those_of_the_workflow(smoke, tmp_path):
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
    assert sorted(found) == sorted(names(Schedule(smoke, a_second)))


def test_asking_snakemake_leaves_no_trace(smoke, tmp_path, monkeypatch):
    """Neither in the folder nor in this process."""
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)
    dag = planned(ROOT, SMOKE, profile=commands.PROFILE)
    assert len(Schedule(dag, a_second).seconds) == len(Schedule(smoke, a_second).seconds)
    assert Path.cwd() == tmp_path
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == handler


def test_paper_is_scheduled_at_once():
    schedule = Schedule(planned(ROOT, profile=commands.PROFILE), a_second)
    tasks = schedule.tasks()
    started = perf_counter()
    wall = [makespan(tasks, cores) for cores in (1, 2, 64)]
    chain = longest_chain(tasks)
    assert perf_counter() - started < 1
    assert wall[0] == len(tasks) > 5000
    assert 450 < len(schedule.submissions()) < 600
    assert wall[1] == pytest.approx(len(tasks) / 2, rel=0.05)
    rules = [names(schedule)[number].partition("/")[0] for number in chain]
    assert (rules[:3], rules[-1]) == (["instances", "tune", "train"], "render")


class Job(NamedTuple):
    benchmark: str
    threads: int = 1


def dag_of(after, groups):
    """What a schedule asks a DAG of Snakemake's: of jobs by name, and groups by job."""
    jobs = {name: Job(f"r/benchmarks/{name}.tsv") for name in after}
    return SimpleNamespace(
        needrun_jobs=lambda exclude_finished: jobs.values(),
        dependencies={jobs[name]: [jobs[other] for other in after[name]] for name in after},
        get_job_group=lambda job: groups.get(name_of(job.benchmark)),
    )


def test_jobs_of_a_group_are_one_submission():
    """Two seeds to prepare, two trainings in one evaluation, and timing by itself."""
    after = {"tune/a-0": (), "tune/a-1": ()}
    after |= {f"train/{method}/a-0-K5": ("tune/a-0",) for method in ("x", "y")}
    after["evaluate/a-0-K5"] = ("train/x/a-0-K5", "train/y/a-0-K5", "tune/a-0")
    after["time/a-0"] = ("tune/a-0",)
    groups = {"tune/a-0": "p-0", "tune/a-1": "p-1"}
    groups |= dict.fromkeys((name for name in after if name.endswith("K5")), "a-0-K5")
    schedule = Schedule(dag_of(after, groups), a_second)
    each = START + 1.0
    assert schedule.submissions() == [
        Task(START + each),
        Task(START + each),
        Task(START + 3 * each, after=(0,)),
        Task(START + each, after=(0,)),
    ]
    assert [task.seconds for task in schedule.submissions(grouped=False)] == [START + each] * 6


def test_submissions_of_the_smoke_run_are_those_of_its_profile(smoke):
    """So many were counted on a SLURM.  One has all jobs of a setting that are not yet prepared."""
    schedule = Schedule(smoke, a_second)
    assert len(schedule.submissions()) == 25
    jobs = [job for job in schedule.seconds if "socp-hard-0-K5" in job.benchmark]
    groups = {job.rule.name: smoke.get_job_group(job) for job in jobs}
    assert groups["train"] is groups["evaluate"] is not groups["tune"]
    assert Counter(job.rule.name for job in groups["train"]) == {"train": 6, "evaluate": 10}
    assert Counter(job.rule.name for job in groups["tune"]) == {"instances": 1, "tune": 2}
    assert len(schedule.submissions(grouped=False)) == len(schedule.seconds)


def test_timing_has_every_core_and_the_rest_has_one(smoke):
    schedule = Schedule(smoke, a_second)
    alone = {
        name.partition("/")[0]
        for name, task in zip(names(schedule), schedule.tasks(), strict=True)
        if task.threads == ALL
    }
    assert alone == {"time"}


def test_forecast_counts_what_was_never_timed(smoke):
    schedule = Schedule(smoke, lambda name: None if "headline" in str(name) else 1.0)
    jobs = len(schedule.seconds)
    machine = SimpleNamespace(cores=1, nodes=None)
    assert schedule.told(machine) == (
        f"{jobs} jobs, about {duration(jobs - 1)} on 1 core; 1 of a kind that was never timed, "
        "and not counted in the time."
    )
    cluster = SimpleNamespace(cores=1, nodes=100)
    assert f"{jobs} jobs, about 3 min with 100 submissions at a time;" in schedule.told(cluster)


@pytest.fixture
def kept(smoke, tmp_path, monkeypatch):
    """A table of times in which every rule but one takes a second."""
    rules = {name.partition("/")[0] for name in names(Schedule(smoke, a_second))} - {"headline"}
    times = [JobTime("smoke", f"{rule}/x", 1, 1.0, 1.0, 0.1) for rule in sorted(rules)]
    monkeypatch.setattr(jobtimes, "reference_seconds", lambda: 0.1)
    monkeypatch.setattr(commands, "JOB_TIMES", str(tmp_path / "times.csv"))
    write(times, tmp_path / "times.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "times.csv"


def test_profile_tells_wall_times_from_the_kept_table(kept, smoke, capsys):
    assert main(["profile", "--cores", "1", "256", "--configfile", str(SMOKE)]) == 0
    output = capsys.readouterr().out
    schedule = Schedule(smoke, a_second)
    jobs, chain = len(schedule.seconds), len(longest_chain(schedule.tasks()))
    assert "1 job never timed, as headline: taken as 0 s." in output
    assert f"{jobs} jobs, {duration(jobs - 1)} of core time." in output
    alone = duration(chain * (1 + 2 * START))  # the longest chain, each submitted by itself
    assert re.search(rf"^  256 +[\d.]+ s +3 min +{alone}$", output, re.M)
    assert f"takes {chain} s: instances/" in output
    assert re.search(r"instances/([\w-]+) \(1 s\) -> tune/\1\S* \(1 s\) -> train/", output)


def test_profile_without_any_time_says_where_it_looked(kept, capsys):
    write([], kept)
    assert main(["profile", "--cores", "8"]) == 2
    assert "no job was timed, neither in results/paper nor in" in capsys.readouterr().err


def test_profile_of_nothing_is_an_error(capsys):
    assert main(["profile"]) == 2
    assert "give the folder of a run" in capsys.readouterr().err
