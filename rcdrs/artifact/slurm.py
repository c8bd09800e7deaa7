"""What a run on a SLURM cluster says beyond Snakemake's plugin: before it starts, and on a failure.

Snakemake drops the plugin's reasons where jobs are submitted in groups, and repeats the rest for
every job and attempt.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from math import inf
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

#: Where the plugin keeps the logs of what it submits, until they have succeeded.
LOGS = Path(".snakemake/slurm_logs")
#: What to change, by what SLURM writes into such a log.
CURES = {
    "DUE TO TIME LIMIT": "Allow it more minutes: --set-resources RULE:runtime=MINUTES",
    "oom.kill|OUT_OF_MEMORY|memory limit": "Allow it more: --set-resources RULE:mem_mb=MB",
}


def check(dag: Any) -> None:
    """Ask SLURM about every kind of submission before the first: an error says what to change."""
    if shutil.which("sbatch") is None:
        raise WorkflowError(
            "there is no SLURM here: sbatch is not installed. Run this on a login node of the "
            "cluster, or without --profile to compute on this machine."
        )
    limits = _time_limits()
    jobs = {dag._group.get(job, job) for job in dag.needrun_jobs() if not job.is_local}
    for options, job in {_options(job): job for job in jobs}.items():
        answer = subprocess.run(
            ["sbatch", "--test-only", *options, "--wrap=true"], capture_output=True, text=True
        )
        words = answer.stderr.strip() if answer.returncode else None
        partition = job.resources.get("slurm_partition", "")
        if (limit := limits.get(partition, inf)) < job.resources.get("runtime", 0):
            words = f"the partition ends its jobs after {limit:g} minutes."
        if words:
            raise WorkflowError(
                f"SLURM refuses {_kind(job)} {job.name}, asked for with {shlex.join(options)}:\n"
                f"{words}\n`sinfo` shows partitions, limits and nodes. Choose with "
                "--default-resources slurm_partition=NAME slurm_account=NAME, with "
                "--set-resources RULE:runtime=MINUTES RULE:mem_mb=MB, or in the profile."
            )


def _kind(job: Any) -> str:
    return "group" if job.is_group() else "rule"


def _options(job: Any) -> tuple[str, ...]:
    """The plugin's request for a job, as options of sbatch."""
    names = {"partition": "slurm_partition", "account": "slurm_account", "time": "runtime"}
    names |= {"mem": "mem_mb", "qos": "qos", "constraint": "constraint"}
    asked = {option: job.resources.get(name) for option, name in names.items()}
    asked["cpus-per-task"] = job.threads
    if gpus := job.resources.get("gpu"):
        model = job.resources.get("gpu_model")
        asked["gpus"] = f"{model}:{gpus}" if model else gpus
    options = [f"--{option}={value}" for option, value in asked.items() if value]
    return (*options, *shlex.split(job.resources.get("slurm_extra", "")))


def _time_limits() -> dict[str, float]:
    """Minutes by partition; that of an empty name is the default."""
    command = ["sinfo", "--noheader", "--format=%P|%l"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.split()
    limits = {}
    for name, _, limit in (line.partition("|") for line in lines):
        for each in (name.removesuffix("*"), *([""] if name.endswith("*") else [])):
            limits[each] = minutes(limit)
    return limits


def minutes(limit: str) -> float:
    """Of ``infinite``, ``30:00``, ``2:00:00`` or ``1-00:00:00``."""
    if not re.fullmatch(r"(\d+-)?[\d:]+", limit):
        return inf
    days, _, clock = limit.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = 60 * seconds + int(part)
    return 1440 * int(days or 0) + seconds / 60


def reason(job: Any) -> list[str]:
    """What SLURM says of a submission that failed, and what to change; empty if there is no log."""
    if (log := _log(job)) is None:
        return []
    said = [line for line in log.read_text(errors="replace").splitlines() if "slurmstepd" in line]
    return [
        f"SLURM's log of {_kind(job)} {job.name} is {log}",
        *(f"    {line}" for line in said[:1]),
        *(cure for sign, cure in CURES.items() if re.search(sign, "".join(said))),
    ]


def last_started(group: Any) -> Any:
    """The job of a group, which runs them one after the other, that was begun last."""
    log = _log(group)
    text = "" if log is None else log.read_text(errors="replace")
    messages = re.findall(r"^Job \d+: (.*)", text, re.MULTILINE)
    return next(
        (job for job in group if messages and job.message == messages[-1]), next(iter(group))
    )


def _log(job: Any) -> Path | None:
    """That of the last attempt."""
    folder = LOGS / f"{_kind(job)}_{job.name}"
    if not job.is_group():
        folder /= "_".join(job.wildcards)
    return max(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, default=None)
