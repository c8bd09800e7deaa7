"""What a run prints: how far it is, a few lines a minute, errors in full, and what it made.

Snakemake describes each job with all of its files.  Here its handler of the terminal gets only what
is left to it: warnings, errors, and everything where no jobs are run.  The log of a run keeps
Snakemake's own words, and -p, --verbose and --quiet bring them back.
"""

from __future__ import annotations

import logging
import re
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from rcdrs.artifact.schedule import Schedule
from rcdrs.artifact.times import JOB_TIMES, Estimate, count, duration, read

#: Seconds from one line of progress to the next, however many jobs end meanwhile.
PAUSE = 15.0
#: Files of one folder that are named one by one; of more, there is a number for each kind.
NAMED = 4
#: What is worth a line among the messages of Snakemake that belong to no event.
KEPT = re.compile(
    "Building DAG|Nothing to be done|[Ss]ubmitted|Trying to restart"
    "|Terminating|Will exit|Complete log|Elapsed time"
)


def tell(text: str) -> None:
    """Print what the workflow says of itself, unless Snakemake is asked to be quiet."""
    if text:
        logger.info(text, extra={"event": LogEvent.RUN_INFO})


class Console(logging.Handler):
    """In the place of Snakemake's handler of the terminal, which stays behind it."""

    def __init__(self, workflow: Any, root: Path, run: str) -> None:
        super().__init__()
        self._workflow, self._root, self._run = workflow, root, run
        self._finished: list[Any] = []  # and not yet counted
        self._running: dict[Any, str] = {}
        self._told = -PAUSE
        settings = workflow.output_settings
        asked = settings.quiet or settings.verbose or settings.printshellcmds or settings.debug_dag
        usual = [each for each in logger.handlers if each.name == "DefaultStreamHandler"]
        if usual and not asked:
            self._usual: Any = usual[0]
            logger.removeHandler(self._usual)
            logger.addHandler(self)

    @cached_property
    def schedule(self) -> Schedule:
        """Of the jobs that are left; first asked for when Snakemake knows all of them."""
        table = read(self._root / JOB_TIMES)
        schedule = Schedule(self._workflow.dag, Estimate(self._run, table))
        self._whole, self._began = schedule.wall(self._workflow), monotonic()
        return schedule

    @cached_property
    def _jobs(self) -> dict[int, Any]:
        return {job.jobid: job for job in self.schedule.seconds}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if text := self._text(record):
                self._usual.stream.write(f"{text}\n")
                self._usual.flush()
        except Exception:  # whatever goes wrong here, Snakemake still speaks
            text = None
        if text is None:
            self._usual.handle(record)

    def _text(self, record: Any) -> str | None:
        """What to print, maybe nothing; None leaves it to Snakemake."""
        event, said = getattr(record, "event", None), record.getMessage()
        if event == LogEvent.WORKFLOW_STARTED or said.startswith("Assuming unrestricted"):
            return ""
        if self._workflow.executor_plugin is None:  # nothing is to be run
            return None
        if event is not None and (method := getattr(self, f"_{event}", None)):  # as _job_info
            return method(record)
        return None if record.levelno > logging.INFO or KEPT.search(said) else ""

    def _run_info(self, record: Any) -> str:
        if not hasattr(record, "stats"):
            return record.getMessage()
        told = "schedule" in vars(self)  # a dry run ends with what it began with
        return self._table(self.schedule) if self._workflow.dryrun and not told else ""

    def _table(self, schedule: Schedule) -> str:
        """What a dry run tells: jobs, expected time and reasons of each rule."""
        lines = [f"{'rule':20}{'jobs':>6}{'core time':>12}   why"]
        for rule in self._workflow.rules:
            if jobs := [job for job in schedule.seconds if job.rule is rule]:
                reasons = (self._workflow.dag.reason(job).get_names() for job in jobs)
                why = dict.fromkeys(next(names, "") for names in reasons)  # of each job the first
                time = duration(sum(schedule.seconds[job] for job in jobs))
                lines.append(f"{rule.name:20}{len(jobs):6,}{time:>12}   {', '.join(why)}")
        told = f"{schedule.told(self._workflow)}  A dry run with -p shows every job."
        return "\n".join([*lines, told])

    def _job_info(self, record: Any) -> str:
        if self._workflow.dryrun or record.indent or record.benchmark is None:
            return ""
        self._running[record.jobid] = self._message(record.jobid)
        return self._progress_line()

    def _group_info(self, record: Any) -> str:
        if self._workflow.dryrun:
            return ""
        self._running[record.group_id] = f"{count(len(record.jobs), 'job')} of {record.group_id}"
        return self._progress_line()

    def _job_finished(self, record: Any) -> str:
        if record.job_id in self._jobs:
            self._finished.append(self._jobs[record.job_id])
        return ""

    def _progress(self, record: Any) -> str:
        """Of a job, or of the jobs of a group, which end together."""
        jobs, self._finished = self._finished, []
        for job in jobs:
            del self.schedule.seconds[job]
            group = self._workflow.dag.get_job_group(job)
            self._running.pop(group.groupid if group else job.jobid, "")
        return self._progress_line() if jobs else ""

    def _progress_line(self) -> str:
        """How far the run is; nothing where that was told a moment ago, and there is more to do."""
        left, now = len(self.schedule.seconds), monotonic()
        if left and (now - self._told < PAUSE or not self._running):
            return ""
        first, self._told = self._told < 0, now
        total = len(self._jobs)
        done = f"[{total - left:{len(str(total))}}/{total}]"
        text = "" if first else duration(now - self._began)
        if left:
            rest = "" if first else f", about {duration(self._left())} left: "
            names = list(self._running.values())
            text += rest + names[-1] + (f", and {len(names) - 1} more" if names[1:] else "")
        return self._line(done, text)

    def made(self) -> str:
        """What this run made that no other job of it needs, by folder."""
        jobs, needed = set(self._jobs.values()), self._workflow.dag.depending
        last = [job for job in self._jobs.values() if not jobs & set(needed[job])]
        folders: dict[Path, list[Path]] = {}
        for path in sorted(Path(name) for job in last for name in job.output):
            folders.setdefault(path.parent, []).append(path)
        return "\n".join(f"made {_listed(folder, each)}" for folder, each in folders.items())

    def _left(self) -> float:
        """Expected seconds to the end, at the pace of this run so far.

        Its start says little of its pace: a minute, or a tenth of a long run, counts as on time.
        """
        left, slack = self.schedule.wall(self._workflow), max(60.0, self._whole / 10)
        pace = (monotonic() - self._began + slack) / (self._whole - left + slack)
        return left * pace

    def _error(self, record: Any) -> str | None:
        """A command that failed is told by its job."""
        return "" if "CalledProcessError" in record.getMessage() else None

    def _job_error(self, record: Any) -> str:
        parts = [self._message(record.jobid), record.rule_msg, *(f"see {x}" for x in record.log)]
        return "" if record.indent else self._line("failed", ", ".join(filter(None, parts)))

    def _group_error(self, record: Any) -> str:
        return self._line("failed", f"group {record.groupid}")

    def _line(self, state: str, what: str) -> str:
        return f"{state:>{2 * len(str(len(self._jobs))) + 3}} {what}"

    def _message(self, jobid: int) -> str:
        job = self._jobs[jobid]
        return job.message or job.rule.name


def _listed(folder: Path, paths: list[Path]) -> str:
    """Few files by name; of many, how many of each kind, and the odd ones by name."""
    if len(paths) <= NAMED:
        return ", ".join(map(str, paths))
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        kinds.setdefault(path.suffix, []).append(path)
    told = [f"{len(each)} {kind}" if each[1:] else each[0].name for kind, each in kinds.items()]
    return f"{folder}: {', '.join(told)}"
