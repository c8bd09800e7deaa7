"""What the Snakefile does around its jobs: before a run, at its end, and after one was killed."""

from __future__ import annotations

import base64
import difflib
import json
import logging
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from rcdrs.artifact import slurm
from rcdrs.artifact.config import read
from rcdrs.artifact.console import tell
from rcdrs.artifact.manifest import RELEASED
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.runtime import fcntl, small_memory
from rcdrs.artifact.times import count
from rcdrs.experiments.settings import Plain
from rcdrs.files import clear

#: A disk with less is as good as full.
SPACE = 10 * 2**20


def plan_of(config: Plain, root: Path, files: Iterable[str | Path] = ()) -> Plan:
    """The plan of a run.  A configuration or release that is not in order is one message, before
    anything is planned: what hangs on it would take hours.

    Snakemake has read the `files` of the configuration; of a setting twice it has told nothing.
    """
    try:
        for file in map(Path, files):
            if file.suffix in (".yaml", ".yml") and file.is_file():
                read(file)
        plan = Plan.of(config, root)
        plan.check_name()
        _ = plan.released  # is read here
    except (ValueError, OSError) as error:
        raise WorkflowError(str(error)) from None
    return plan


class Start(logging.Handler):
    """What is done before the first job, once it is known that jobs will be run.

    Snakemake reads the Snakefile whatever it is asked for, and chooses an executor later, if at
    all.  Its next message comes before it looks for locks and unfinished files.
    """

    def __init__(self, workflow: Any, plan: Plan) -> None:
        super().__init__()
        self._workflow, self._plan = workflow, plan
        state = Path(".snakemake")
        if not os.access(state if state.exists() else ".", os.W_OK):  # or Snakemake has a traceback
            raise WorkflowError(
                f"{Path.cwd()} cannot be written to: name a folder for results and tables, with "
                "--directory FOLDER"
            )
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._workflow.executor_plugin is None:
            return
        logger.removeHandler(self)
        if not self._workflow.dryrun and not self._workflow.touch:
            # Snakemake itself would fail, with a traceback, or every job would.
            if wrong := full_disk() or small_memory():
                raise WorkflowError(wrong)
            recover()
            choose_when_needed(self._workflow)
        tell(source(self._plan))
        if odd := self._plan.warning():
            logger.warning(odd)


#: Ready jobs that Snakemake compares when it chooses the next ones of this machine.
COMPARED = 48


def choose_when_needed(workflow: Any) -> None:
    """Let Snakemake choose jobs of this machine when one ends, and among few.

    By default it limits how many jobs start in a second, and for that looks again a second after
    each choice, and a second after that look, for ever: after some hundred jobs it does nothing
    else, on a third of a core, and every look is at the files of all jobs that are ready.
    """
    settings = workflow.scheduling_settings
    if workflow.local_exec:
        settings.max_jobs_per_timespan = None
        if settings.subsample is None:
            settings.subsample = COMPARED


def end_when_told(workflow: Any) -> None:
    """SIGTERM and SIGINT end a run on this machine at once, as SIGKILL does: its commands notice
    that, and the next run recovers.

    Snakemake would first wait for the jobs that run, which may take an hour, or for ever: its
    handler asks for a lock that the interrupted thread may hold.  On a cluster, where jobs go on
    without it, it waits, but not for that lock.
    """
    graceful = workflow.scheduler.exit_gracefully

    def leave(number: int, _: object) -> None:
        if not workflow.local_exec:
            threading.Thread(target=graceful).start()
            return
        name = signal.Signals(number).name
        with suppress(OSError):  # nobody listens any more
            os.write(2, f"ended by {name}: the same command goes on from here.\n".encode())
        for folder in (workflow._snakemake_tmp_dir, workflow.sourcecache.runtime_cache):
            with suppress(AttributeError, OSError):  # as at the end of every run
                folder.cleanup()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, leave)
    interrupt = signal.getsignal(signal.SIGINT)
    if workflow.local_exec and interrupt is not signal.SIG_IGN:  # as it is in the background
        signal.signal(signal.SIGINT, leave)


def full_disk() -> str:
    """What to say of a full disk, else nothing."""
    full = shutil.disk_usage(".").free < SPACE
    return f"the disk of {Path.cwd()} is full: make room first." if full else ""


def recover(state: Path = Path(".snakemake")) -> None:
    """Clear what a killed run left: Snakemake's lock, outputs that it marked as unfinished, and
    files that were being written.

    Every run holds a shared lock of the kernel's for as long as it lives.  Who gets that lock
    exclusively is alone, and whatever Snakemake finds locked or unfinished is from a dead run.
    Without such locks, as on Windows, Snakemake says what to do.
    """
    if fcntl is None:
        return
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
        markers = [path for path in (state / "incomplete").glob("**/*") if path.is_file()]
        dead = [marker for marker in markers if not _on_a_cluster(marker)]
        for marker in dead:
            _marked_file(marker.relative_to(state / "incomplete")).unlink(missing_ok=True)
        if len(dead) == len(markers):  # nobody writes
            clear(Path("results"))
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
    """A path of the checkout as rules take it: relative to where it is run, if it is below, since
    braces in the name of a folder above would be wildcards to Snakemake."""
    path, here = Path(path), Path.cwd()
    if path.is_relative_to(here):
        return path.relative_to(here)
    if "{" in str(path):
        raise WorkflowError(
            f"{path} has braces in its name, which Snakemake takes for wildcards: leave out "
            "--directory, or rename the folder."
        )
    return path


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
    parts, full = [], full_disk()
    for job in jobs:
        parts += slurm.reason(job)
        failed = slurm.last_started(job) if job.is_group() else job
        for log in map(Path, failed.log):
            lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
            shown = lines[-1:] if full else lines[-15:]  # a full disk explains all the rest
            parts.append(f"rule {failed.rule.name} failed.  The end of {log}:")
            parts += [f"    {line}" for line in shown] or ["    (empty)"]
    parts += [
        full,
        "What was finished is kept: the same command goes on from here.  With --keep-going, all "
        "that does not need the failed jobs runs first.",
    ]
    return "\n".join(filter(None, parts))
