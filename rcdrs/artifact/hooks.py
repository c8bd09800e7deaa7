"""What the Snakefile does around its jobs: before a run, at its end, and after one was killed."""

from __future__ import annotations

import base64
import difflib
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from rcdrs.artifact import slurm
from rcdrs.artifact.console import tell
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import RELEASED
from rcdrs.artifact.times import count

#: A disk with less is as good as full.
SPACE = 10 * 2**20


class Start(logging.Handler):
    """What is done before the first job, once it is known that jobs will be run.

    Snakemake reads the Snakefile whatever it is asked for, and chooses an executor later, if at
    all.  Its next message comes before it looks for locks and unfinished files.
    """

    def __init__(self, workflow: Any, plan: Plan) -> None:
        super().__init__()
        self._workflow, self._plan = workflow, plan
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._workflow.executor_plugin is None:
            return
        logger.removeHandler(self)
        if not self._workflow.dryrun and not self._workflow.touch:
            if full := full_disk():  # Snakemake itself would fail, with a traceback
                raise WorkflowError(full)
            recover()
        tell(source(self._plan))


def full_disk() -> str:
    """What to say of a full disk, else nothing."""
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
        for lock in (state / "locks").glob("*"):
            lock.unlink()
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


def beside(path: str | Path) -> Path:
    """A path of the checkout as rules take it: relative to where it is run, if it is below.

    Braces in an absolute path, of a folder above, would be wildcards to Snakemake.
    """
    path, here = Path(path), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def growing(amount: int) -> Callable[[Any, int], int]:
    """A resource that grows with each attempt; only clusters try a job again."""
    return lambda wildcards, attempt: amount * attempt


def refuse(target: str, known: Iterable[str]) -> NoReturn:
    """The error of a target that does not exist, with those that may have been meant."""
    near = difflib.get_close_matches(target, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`snakemake --list` names all."
    raise ValueError(f"there is no target {target}: {hint}")


def source(plan: Plan) -> str:
    """One line: which released results stand in for computed ones, and how to compute them."""
    if plan.config.results == "recompute" or not (found := plan.released_states())["current"]:
        return ""
    entries = plan.released.entries.values()
    places = {f"{entry.get('host', '?')} (torch {entry.get('torch', '?')})" for entry in entries}
    text = (
        f"numbers come from {count(found['current'], 'released result')} in {RELEASED}, "
        f"computed on {', '.join(sorted(places))}; to compute them here, add --config "
        "results=recompute"
    )
    if found["stale"]:
        text += f"; {found['stale']:,} more do not hold here"
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
        full_disk(),
        "What was finished is kept: the same command goes on from here.  With --keep-going, all "
        "that does not need the failed jobs runs first.",
    ]
    return "\n".join(filter(None, parts))
