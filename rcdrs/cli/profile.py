"""The command about time: how long jobs took, and a whole run would on any number of cores."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from rcdrs.artifact.config import ROOT
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.schedule import Schedule, longest_chain, makespan, planned
from rcdrs.artifact.times import (
    JOB_TIMES,
    Estimate,
    count,
    duration,
    measure,
    name_of,
    overhead,
    read,
    write,
)

#: In a checkout, how a cluster gets the jobs.
PROFILE = "workflow/profiles/slurm/config.yaml"


def profile(options: argparse.Namespace) -> None:
    if not options.runs and not options.cores:
        raise ValueError("give the folder of a run, such as results/paper, or --cores.")
    if options.runs:
        _show_times(options)
    if options.cores:
        _show_schedule(options)


def _show_times(options: argparse.Namespace) -> None:
    times = [time for run in options.runs for time in measure(run)]
    if not times:
        folders = ", ".join(map(str, options.runs))
        raise ValueError(f"no benchmark files under {folders}: run the workflow first.")
    rows = [(t.run, t.rule, t.jobs, t.jobs * t.seconds, t.jobs * t.inside) for t in times]
    frame = pd.DataFrame(rows, columns=["run", "rule", "jobs", "core seconds", "inside"])
    print(frame.groupby(["run", "rule"]).sum().round().astype(int).to_string())
    for name in frame["run"].unique():
        print(f"{name}: {overhead([time for time in times if time.run == name])}")
    if options.out is not None:
        write(times, options.out)
        print(f"wrote {options.out}")


def _show_schedule(options: argparse.Namespace) -> None:
    """Expected wall times of the whole run, from what its jobs took here or elsewhere."""
    files = [options.configfile] if options.configfile else []
    run = options.runs[0] if options.runs else Path(Plan.read(ROOT, *files).folder)
    expected = Estimate(run, read(ROOT / JOB_TIMES))
    schedule = Schedule(planned(ROOT, *files, profile=PROFILE), expected)
    machine, submissions = schedule.tasks(), schedule.submissions()
    single = schedule.submissions(grouped=False)
    jobs = [name_of(job.benchmark) for job in schedule.seconds]
    unknown = [name_of(job.benchmark) for job in schedule.unknown]
    if len(unknown) == len(jobs):
        raise ValueError(f"no job was timed, neither in {run} nor in {JOB_TIMES}.")
    if unknown:
        print(f"{count(len(unknown), 'job')} never timed, as {unknown[0]}: taken as 0 s.")
    print(f"{count(len(jobs), 'job')}, {duration(sum(schedule.seconds.values()))} of core time.")
    print(f"cores   one machine   cluster: {len(submissions):,} submissions   each job by itself")
    for cores in options.cores:
        times = [duration(makespan(tasks, cores)) for tasks in (machine, submissions, single)]
        print(f"{cores:5}   {times[0]:11}   {times[1]:24}   {times[2]}")
    print("A cluster starts Snakemake for each job, which is counted; waiting in its queue is not.")
    chain = longest_chain(machine)
    told = " -> ".join(f"{jobs[n]} ({duration(machine[n].seconds)})" for n in chain)
    total = duration(sum(machine[n].seconds for n in chain))
    print(f"the longest chain, which more cores do not shorten, takes {total}: {told}")
