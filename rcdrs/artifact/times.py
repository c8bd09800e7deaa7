"""How long jobs take: read from the files that runs leave, kept in a table, used for estimates.

A job's *kind* is all that its time depends on: rule, method, case and depth, but not the seed.  It
is the name of the job's benchmark file, as in ``train/paper/RCDRS-Env/socp-hard-K20``.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import islice
from pathlib import Path
from statistics import fmean
from time import perf_counter

import numpy as np

from rcdrs.files import replacing

#: In a checkout, how long jobs took in earlier runs.
JOB_TIMES = "workflow/job_times.csv"
#: Rules whose work is what a run is for; the rest prepares or reports.
PURPOSE = ("train", "learn", "evaluate", "time")


@dataclass(frozen=True)
class JobTime:
    """Mean times of the jobs of one kind, in seconds."""

    run: str
    kind: str
    jobs: int
    #: From the start of a job's process to its end.
    seconds: float
    #: Of these, inside the stage itself: without the start of Python and its imports.
    inside: float
    #: What `reference_seconds` gave on that machine.
    reference: float

    @property
    def rule(self) -> str:
        return rule_of(self.kind)

    @property
    def purpose(self) -> bool:
        return self.rule.partition("_")[0] in PURPOSE


def kind_of(benchmark: str | Path, run: str | Path) -> str:
    """The kind of the job with this benchmark file, of a run that writes to this folder."""
    name = Path(benchmark).relative_to(Path(run) / "benchmarks").with_suffix("")
    return re.sub(r"-\d+(?=-K\d+$|$)", "", name.as_posix())


def rule_of(kind: str) -> str:
    return kind.partition("/")[0]


def measure(run: str | Path) -> list[JobTime]:
    """The times of a run's finished jobs, from their benchmark files and logs."""
    run = Path(run)
    found = defaultdict(list)
    for path in sorted(run.glob("benchmarks/**/*.tsv")):
        seconds = benchmark_seconds(path)
        if seconds is not None:
            log = run / "logs" / path.relative_to(run / "benchmarks").with_suffix(".log")
            found[kind_of(path, run)].append((seconds, _inside(log)))
    reference = reference_seconds() if found else 0.0
    return [
        JobTime(
            run.name,
            kind,
            len(times),
            fmean(seconds for seconds, _ in times),
            fmean(inside for _, inside in times),
            reference,
        )
        for kind, times in found.items()
    ]


def benchmark_seconds(path: Path) -> float | None:
    """The wall time in a file of Snakemake's; a killed run may leave one that holds none."""
    if not path.exists():
        return None
    try:
        return float(next(csv.DictReader(path.read_text().splitlines(), delimiter="\t"))["s"])
    except (StopIteration, KeyError, TypeError, ValueError):
        return None


def _inside(log: Path) -> float:
    """What a verb says of itself in its log; verbs without a stage say nothing."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return sum(float(seconds) for seconds in re.findall(r"^\w+ took ([\d.]+) s$", text, re.M))


def write(times: Iterable[JobTime], path: Path) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(field.name for field in fields(JobTime))
        for time in times:
            run, kind, jobs, *seconds = astuple(time)
            writer.writerow([run, kind, jobs, *(f"{value:.4g}" for value in seconds)])


def read(path: Path) -> list[JobTime]:
    with open(path, newline="") as stream:
        return [
            JobTime(run, kind, int(jobs), float(seconds), float(inside), float(reference))
            for run, kind, jobs, seconds, inside, reference in islice(csv.reader(stream), 1, None)
        ]


def reference_seconds() -> float:
    """How long a fixed piece of work takes here on one core: what times are scaled by.

    Like a step of training it is matrix products, passes over arrays, and Python between them.
    """

    def work() -> float:
        started = perf_counter()
        A, x = np.full((60, 60), 0.01, np.float32), np.full((200, 1000), 0.5, np.float32)
        y = np.empty_like(x)
        for _ in range(20):
            for _ in range(100):  # small enough for one thread, whatever the library may use
                A @ A
            for _ in range(4):
                np.multiply(x, x, out=y)
                np.add(x, y, out=y)
                np.maximum(x, y, out=y)
        return perf_counter() - started

    return min(work() for _ in range(5))


class Estimate:
    """Expected times of a run's jobs: measured in it, else from a table of other runs.

    The table's times are scaled to this machine.  A kind that was never measured gets the mean of
    its rule.
    """

    def __init__(self, run: str | Path, table: Iterable[JobTime] = ()) -> None:
        self.run, table = Path(run), list(table)
        # A run that is not in the table is taken for a part of the paper's.
        name = self.run.name if any(t.run == self.run.name for t in table) else "paper"
        here = reference_seconds()
        self._kinds = {t.kind: t.seconds * here / t.reference for t in table if t.run == name}
        self._kinds |= {time.kind: time.seconds for time in measure(run)}
        rules = defaultdict(list)
        for kind, seconds in self._kinds.items():
            rules[rule_of(kind)].append(seconds)
        self._rules = {rule: fmean(seconds) for rule, seconds in rules.items()}

    def __call__(self, benchmark: str | Path) -> float | None:
        """Of the job with this benchmark file."""
        kind = kind_of(benchmark, self.run)
        return self._kinds.get(kind, self._rules.get(rule_of(kind)))


def overhead(times: Sequence[JobTime]) -> str:
    """One line: what the jobs of a run cost, and how much of it was its purpose."""
    if not any(time.purpose for time in times):
        return ""
    jobs = sum(time.jobs for time in times)
    total = sum(time.jobs * time.seconds for time in times)
    inside = sum(time.jobs * time.inside for time in times if time.purpose)
    return (
        f"{count(jobs, 'job')} took {duration(total)} of core time, {inside / total:.0%} of it "
        "inside training, evaluation and timing."
    )


def count(number: int, what: str) -> str:
    """``1 job`` or ``1,033 jobs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
