"""How long jobs take: read from the files that runs leave, kept in a table, used for estimates.

A job's *kind* is all that its time depends on: rule, method, case and depth, but not the seed.  It
is the name of the job's benchmark file, as in ``train/paper/RCDRS-Env/socp-hard-K20``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from time import perf_counter

import numpy as np
import pandas as pd

from rcdrs.files import replacing

#: In a checkout, how long jobs took in earlier runs.
JOB_TIMES = "workflow/job_times.csv"
#: Rules whose work is what a run is for; the rest prepares or reports.
PURPOSE = ("train", "evaluate", "time", "peer")


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
        return self.kind.partition("/")[0]


def name_of(benchmark: str | Path) -> str:
    """The name of the job with this benchmark file: ``train/paper/RCDRS-Env/socp-hard-0-K20``."""
    return Path(benchmark).with_suffix("").as_posix().rpartition("/benchmarks/")[2]


def kind_of(benchmark: str | Path) -> str:
    """The same without the seed, the number after a case."""
    return re.sub(r"-\d+(?=(-K\d+)?(/|$))", "", name_of(benchmark))


def measure(run: str | Path) -> list[JobTime]:
    """The times of a run's finished jobs, from their benchmark files and logs."""
    run, found = Path(run), defaultdict(list)
    for path in sorted(run.glob("benchmarks/**/*.tsv")):
        if (seconds := benchmark_seconds(path)) is not None:
            found[kind_of(path)].append((seconds, _inside(run / f"logs/{name_of(path)}.log")))
    here = reference_seconds() if found else 0.0
    return [
        JobTime(run.name, kind, len(jobs), fmean(seconds), fmean(inside), here)
        for kind, jobs in found.items()
        for seconds, inside in [zip(*jobs, strict=True)]
    ]


def benchmark_seconds(path: Path) -> float | None:
    """The wall time in a file of Snakemake's; a killed run may leave one that holds none."""
    try:
        return float(path.read_text().splitlines()[1].split("\t")[0])
    except (OSError, IndexError, ValueError):
        return None


def _inside(log: Path) -> float:
    """What a command says of itself in its log; commands without a stage say nothing."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return sum(float(seconds) for seconds in re.findall(r"^\w+ took ([\d.]+) s$", text, re.M))


def write(times: Sequence[JobTime], path: Path) -> None:
    columns = [field.name for field in fields(JobTime)]
    with replacing(path) as temporary:
        pd.DataFrame(times, columns=columns).to_csv(temporary, index=False, float_format="%.4g")


def read(path: Path) -> list[JobTime]:
    return [JobTime(*row) for row in pd.read_csv(path).itertuples(index=False)]


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
    its rule at the same case and depth, or else of its rule.
    """

    def __init__(self, run: str | Path, table: Iterable[JobTime] = ()) -> None:
        run, table = Path(run), list(table)
        # A run that is not in the table is taken for a part of the paper's.
        name = run.name if any(time.run == run.name for time in table) else "paper"
        here = reference_seconds()
        kinds = {t.kind: t.seconds * here / t.reference for t in table if t.run == name}
        kinds |= {time.kind: time.seconds for time in measure(run)}
        found = defaultdict(list)
        for kind, seconds in kinds.items():
            for key in _keys(kind):
                found[key].append(seconds)
        self._seconds = {key: fmean(seconds) for key, seconds in found.items()}

    def __call__(self, benchmark: str | Path) -> float | None:
        """Of the job with this benchmark file."""
        keys = _keys(kind_of(benchmark))
        return next((self._seconds[key] for key in keys if key in self._seconds), None)


def _keys(kind: str) -> tuple[str | tuple[str, str], ...]:
    """What a time is looked up by: the kind, its rule with case and depth, its rule."""
    rule, *parts = kind.split("/")
    setting = next((part for part in parts if re.search(r"-K\d+$", part)), kind)
    return kind, (rule, setting), (rule, "")


def overhead(times: Sequence[JobTime]) -> str:
    """One line: what the jobs of a run cost, and how much of it was its purpose."""
    purpose = [time for time in times if time.rule in PURPOSE]
    if not purpose:
        return ""
    jobs = count(sum(time.jobs for time in times), "job")
    total = sum(time.jobs * time.seconds for time in times)
    inside = sum(time.jobs * time.inside for time in purpose)
    return (
        f"{jobs} took {duration(total)} of core time, {inside / total:.0%} of it "
        "inside training, evaluation and timing."
    )


def count(number: int, what: str) -> str:
    """``1 job`` or ``1,033 jobs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``45 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 9.5:
        return f"{seconds:.2g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
