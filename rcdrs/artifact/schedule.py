"""The jobs of Snakemake's DAG and how long they take together on any number of cores."""

from __future__ import annotations

import heapq
import logging
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from rcdrs.artifact.times import Estimate, count, duration

#: More cores than there are: a task with all of them runs alone.
ALL = 1_000_000
#: Seconds that Snakemake takes to start: on a cluster, for each job and for each submission.
START = 3.0


@dataclass(frozen=True)
class Task:
    """A job of a schedule; `after` are the numbers of the tasks that it waits for."""

    seconds: float
    threads: int = 1
    after: tuple[int, ...] = ()


def makespan(tasks: Sequence[Task], cores: int) -> float:
    """Wall time of the tasks where each starts, in order, as soon as it can and cores are free."""
    order = TopologicalSorter({number: task.after for number, task in enumerate(tasks)})
    order.prepare()
    size = [min(task.threads, cores) for task in tasks]
    # A queue for each number of cores: who is first in it is the only one to look at.
    ready: dict[int, deque[int]] = {each: deque() for each in size}
    running: list[tuple[float, int]] = []
    now, free = 0.0, cores
    while order.is_active():
        for number in sorted(order.get_ready()):
            ready[size[number]].append(number)
        while fits := [queue[0] for each, queue in ready.items() if queue and each <= free]:
            number = min(fits)
            ready[size[number]].popleft()
            free -= size[number]
            heapq.heappush(running, (now + tasks[number].seconds, number))
        now, done = heapq.heappop(running)
        free += size[done]
        order.done(done)
    return now


def longest_chain(tasks: Sequence[Task]) -> list[int]:
    """The tasks that take longest one after the other: no number of cores makes it shorter."""
    ends: dict[int | None, float] = {None: 0.0}
    before: dict[int, int | None] = {}
    for number in TopologicalSorter(dict(enumerate(t.after for t in tasks))).static_order():
        before[number] = max(tasks[number].after, key=ends.__getitem__, default=None)
        ends[number] = ends[before[number]] + tasks[number].seconds
    chain, last = [], max(before, key=ends.__getitem__, default=None)
    while last is not None:
        chain.append(last)
        last = before[last]
    return chain[::-1]


class Schedule:
    """The jobs of Snakemake's DAG that are still to be done, with their expected times."""

    def __init__(self, dag: Any, expected: Estimate) -> None:
        self._dag = dag
        jobs = [job for job in dag.needrun_jobs(exclude_finished=False) if job.benchmark]
        times = {job: expected(job.benchmark) for job in jobs}
        #: The jobs of a kind that was never timed, which count as taking no time.
        self.unknown = [job for job, seconds in times.items() if seconds is None]
        self.seconds = {job: seconds or 0.0 for job, seconds in times.items()}

    def tasks(self) -> list[Task]:
        """For one machine."""
        number = {job: index for index, job in enumerate(self.seconds)}
        return [
            Task(seconds, job.threads, tuple(number[other] for other in self._before(job)))
            for job, seconds in self.seconds.items()
        ]

    def submissions(self, grouped: bool = True) -> list[Task]:
        """For a cluster: the jobs of a submission, a group of Snakemake's, run one after the
        other, and timing, on a node of its own, holds up nobody."""
        group = self._dag.get_job_group if grouped else lambda job: None
        unit = {job: group(job) or job for job in self.seconds}
        number = {each: index for index, each in enumerate(dict.fromkeys(unit.values()))}
        work, before = [START] * len(number), [set[int]() for _ in number]
        for job, seconds in self.seconds.items():
            own = number[unit[job]]
            work[own] += START + seconds
            before[own] |= {number[unit[other]] for other in self._before(job)} - {own}
        return [Task(each, after=tuple(others)) for each, others in zip(work, before, strict=True)]

    def _before(self, job: Any) -> list[Any]:
        return [other for other in self._dag.dependencies[job] if other in self.seconds]

    def wall(self, workflow: Any) -> float:
        """Expected seconds until all is done, on the workflow's cores or in its submissions."""
        if workflow.nodes is None:
            return makespan(self.tasks(), workflow.cores)
        return makespan(self.submissions(), workflow.nodes)

    def told(self, workflow: Any) -> str:
        """One line: how many jobs there are to do, and about how long they will take."""
        text, unknown = count(len(self.seconds), "job"), len(self.unknown)
        if unknown < len(self.seconds):
            where = f"on {count(workflow.cores, 'core')}"
            if workflow.nodes is not None:
                where = f"with {count(workflow.nodes, 'submission')} at a time"
            text += f", about {duration(self.wall(workflow))} {where}"
        if unknown:
            text += f"; {unknown:,} of a kind that was never timed, and not counted in the time"
        return text + "."


def planned(checkout: Path, *configfiles: Path, profile: str) -> Any:
    """Snakemake's DAG of ``paper_tables`` where nothing is done yet, in a profile's groups."""
    from snakemake import api
    from snakemake.settings.enums import Quietness

    # With this quietness a dry run ends as soon as the DAG is complete.
    quiet = {Quietness.RULES, Quietness.PROGRESS}
    output = api.OutputSettings(dryrun=True, quiet=quiet, log_level_override=logging.ERROR)
    settings = yaml.safe_load((checkout / profile).read_text("utf-8"))
    groups = api.GroupSettings(
        overwrite_groups=settings.get("groups", {}),
        group_components=settings.get("group-components", {}),
    )
    handler = signal.getsignal(signal.SIGTERM)  # which Snakemake takes for itself
    try:
        with TemporaryDirectory() as folder, api.SnakemakeApi(output) as snakemake:
            workflow = snakemake.workflow(
                api.ResourceSettings(cores=ALL),
                api.ConfigSettings(
                    config={"results": "recompute"},
                    configfiles=[path.resolve() for path in configfiles],
                ),
                snakefile=checkout / "Snakefile",
                workdir=Path(folder),
            )
            dag = workflow.dag(api.DAGSettings(targets={"paper_tables"}))
            dag.execute_workflow(executor="dryrun", group_settings=groups)
            return workflow._workflow.dag
    finally:
        signal.signal(signal.SIGTERM, handler)
