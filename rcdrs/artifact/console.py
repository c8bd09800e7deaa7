"""What a run prints: a line when a job starts and one when it ends, and errors in full.

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
from rcdrs.artifact.times import JOB_TIMES, Estimate, benchmark_seconds, count, duration, read

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

    def __init__(self, workflow: Any, run: str) -> None:
        super().__init__()
        self._workflow, self._run = workflow, run
        self._finished: list[Any] = []  # since progress was last told
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
        table = read(Path(self._workflow.basedir, JOB_TIMES))
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
        return self._line("start" if record.local else "submit", self._message(record.jobid))

    def _group_info(self, record: Any) -> str:
        group = f"{count(len(record.jobs), 'job')} of {record.group_id}"
        return "" if self._workflow.dryrun else self._line("submit", group)

    def _job_finished(self, record: Any) -> str:
        if record.job_id in self._jobs:
            self._finished.append(self._jobs[record.job_id])
        return ""

    def _progress(self, record: Any) -> str:
        """Of a job, or of the jobs of a group, which end together."""
        jobs, self._finished = self._finished, []
        if not jobs:
            return ""
        took = sum(benchmark_seconds(Path(job.benchmark)) or 0.0 for job in jobs)
        for job in jobs:
            del self.schedule.seconds[job]
        what = self._message(jobs[0].jobid)
        if group := self._workflow.dag.get_job_group(jobs[0]):
            what = f"{count(len(jobs), 'job')} of {group.groupid}"
        total, left = len(self._jobs), self._left()
        done = f"[{total - len(self.schedule.seconds):{len(str(total))}}/{total}]"
        text = self._line(done, f"{what}: {duration(took)}")
        return f"{text}, about {duration(left)} left" if left else text

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
