"""What the Snakefile does around its jobs: before a run, at its end, and after one was killed."""

from __future__ import annotations

import base64
import difflib
import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from rcdrs.artifact import slurm
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.schedule import Task, makespan
from rcdrs.artifact.times import Estimate, count, duration, read

#: A disk with less is as good as full.
SPACE = 10 * 2**20


def check_room() -> None:
    """Refuse to start on a full disk: Snakemake itself would fail, with a traceback."""
    if full := _full_disk():
        raise OSError(full)


def _full_disk() -> str:
    full = shutil.disk_usage(".").free < SPACE
    return f"the disk of {Path.cwd()} is full: make room first." if full else ""


def recover(state: Path = Path(".snakemake")) -> None:
    """Clear what a killed run left: Snakemake's lock, and outputs that it marked as unfinished.

    Every run holds a shared lock of the kernel's for as long as it lives.  Who gets that lock
    exclusively is alone, and whatever Snakemake finds locked or unfinished is from a dead run.
    """
    state.mkdir(exist_ok=True)
    handle = os.open(state / "alive", os.O_RDWR | os.O_CREAT)  # the process keeps it open
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    except OSError:  # a file system without locks: Snakemake then says what to do
        return
    else:
        shutil.rmtree(state / "locks", ignore_errors=True)
        for marker in (state / "incomplete").glob("**/*"):
            if marker.is_file() and not _on_a_cluster(marker):
                _marked_file(marker.relative_to(state / "incomplete")).unlink(missing_ok=True)
    fcntl.flock(handle, fcntl.LOCK_SH)


def _marked_file(marker: Path) -> Path:
    """Snakemake names a marker after its file, in base 64; long names are cut into folders."""
    name = "".join(part.removeprefix("@") for part in marker.parts)
    return Path(base64.urlsafe_b64decode(name).decode())


def _on_a_cluster(marker: Path) -> bool:
    """Such a job may still be running; Snakemake finds it again by itself."""
    try:
        return json.loads(marker.read_text())["external_jobid"] is not None
    except ValueError:  # cut off by the kill
        return False


def more(amount: int) -> Callable[[Any, int], int]:
    """A resource that grows with each attempt; only clusters try a job again."""
    return lambda wildcards, attempt: amount * attempt


def refuse(target: str, known: Iterable[str]) -> NoReturn:
    """The error of a target that does not exist, with those that may have been meant."""
    near = difflib.get_close_matches(target, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`snakemake --list` names all."
    raise ValueError(f"there is no target {target}: {hint}")


def source(plan: Plan) -> str:
    """One line: which released results stand in for computed ones, and how to compute them."""
    if plan.config.get("results") == "recompute":
        return ""
    released, found = plan.released, Counter[str]()
    places = set()
    for name, entry in released.entries.items():
        if name.endswith(".csv"):
            state = _state(plan, name)
            found[state] += 1
            if state == "current":
                places.add(f"{entry.get('host', '?')} (torch {entry.get('torch', '?')})")
    if not found["current"]:
        return ""
    text = (
        f"numbers come from {count(found['current'], 'released result')} in {released.folder}, "
        f"computed on {', '.join(sorted(places))}; to compute them here, add "
        "--config results=recompute"
    )
    if found["stale"]:
        text += f"; {found['stale']} more are of other code or settings and not used"
    return text + "."


def _state(plan: Plan, name: str) -> str:
    try:
        return plan.released.state(name, plan.digest(name))
    except KeyError:  # of a variant that this configuration does not have
        return "stale"


def forecast(dag: Any, cores: int, run: str, table: Path) -> str:
    """One line: how many jobs there are to do, and about how long they will take here."""
    jobs = [job for job in dag.needrun_jobs() if job.benchmark]
    expected = Estimate(run, read(table))
    times = [expected(job.benchmark) for job in jobs]
    number = {job: index for index, job in enumerate(jobs)}
    tasks = [
        Task(
            seconds or 0.0,
            job.threads,
            tuple(number[other] for other in dag.dependencies[job] if other in number),
        )
        for job, seconds in zip(jobs, times, strict=True)
    ]
    text, unknown = count(len(jobs), "job"), times.count(None)
    if unknown < len(jobs):
        text += f", about {duration(makespan(tasks, cores))} on {count(cores, 'core')}"
    if unknown:
        text += f"; {unknown:,} of a kind that was never timed, and not counted in the time"
    return text + "."


def failure(jobs: Iterable[Any]) -> str:
    """What failed, the end of its log, and what to do."""
    parts = []
    for job in jobs:
        parts += slurm.reason(job)
        failed = slurm.last_started(job) if job.is_group() else job
        for log in map(Path, failed.log):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            parts.append(f"rule {failed.rule.name} failed.  The end of {log}:")
            parts += [f"    {line}" for line in lines[-15:]] or ["    (empty)"]
    parts += [
        _full_disk(),
        "What was finished is kept: the same command goes on from here.  With --keep-going, all "
        "that does not need the failed jobs runs first.",
    ]
    return "\n".join(filter(None, parts))
