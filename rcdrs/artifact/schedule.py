"""The jobs of a whole run and how long they take together on any number of cores."""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rcdrs.artifact.plan import Plan
from rcdrs.artifact.times import rule_of

#: More cores than there are: such a task runs alone.
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
    waiting, followers = _edges(tasks)
    # A queue for each number of threads: who is first in it is the only one to look at.
    ready: dict[int, deque[int]] = {min(task.threads, cores): deque() for task in tasks}
    for number, count in enumerate(waiting):
        if not count:
            ready[min(tasks[number].threads, cores)].append(number)
    running: list[tuple[float, int]] = []
    now, free = 0.0, cores
    while running or any(ready.values()):
        while fits := [queue[0] for size, queue in ready.items() if queue and size <= free]:
            number = min(fits)
            size = min(tasks[number].threads, cores)
            ready[size].popleft()
            free -= size
            heapq.heappush(running, (now + tasks[number].seconds, number))
        now, done = heapq.heappop(running)
        free += min(tasks[done].threads, cores)
        for number in followers[done]:
            waiting[number] -= 1
            if not waiting[number]:
                ready[min(tasks[number].threads, cores)].append(number)
    return now


def longest_chain(tasks: Sequence[Task]) -> list[int]:
    """The tasks that take longest one after the other: no number of cores makes it shorter."""
    waiting, followers = _edges(tasks)
    ends: list[float] = [task.seconds for task in tasks]
    before: list[int | None] = [None] * len(tasks)
    ready = [number for number, count in enumerate(waiting) if not count]
    while ready:
        done = ready.pop()
        for number in followers[done]:
            if ends[done] + tasks[number].seconds > ends[number]:
                ends[number], before[number] = ends[done] + tasks[number].seconds, done
            waiting[number] -= 1
            if not waiting[number]:
                ready.append(number)
    chain: list[int] = []
    last = max(range(len(tasks)), key=ends.__getitem__, default=None)
    while last is not None:
        chain.append(last)
        last = before[last]
    return chain[::-1]


def _edges(tasks: Sequence[Task]) -> tuple[list[int], list[list[int]]]:
    """How many tasks each one waits for, and which ones wait for it."""
    followers: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for other in set(task.after):
            followers[other].append(number)
    return [len(set(task.after)) for task in tasks], followers


def jobs_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The jobs of ``paper_tables`` where nothing is there yet, each with those that it waits for.

    They are named as their benchmark files are.  The rules of the workflow say the same; a test
    holds the two against each other.
    """
    from rcdrs.reporting.tables import TABLES

    jobs: dict[str, tuple[str, ...]] = {}
    for table in TABLES:
        names = plan.rows_behind(table) + plan.times_behind(table)
        jobs[f"render/{table}"] = tuple(_result(plan, name, jobs) for name in names)
    jobs["headline"] = jobs["render/coverage"]
    return jobs


def tasks_of(jobs: Mapping[str, tuple[str, ...]], seconds: Mapping[str, float]) -> list[Task]:
    """The same as a schedule for one machine, where timing has every core."""
    numbers = {name: number for number, name in enumerate(jobs)}
    return [
        Task(
            seconds[name],
            ALL if rule_of(name) == "time" else 1,
            tuple(numbers[other] for other in after),
        )
        for name, after in jobs.items()
    ]


def submissions_of(
    jobs: Mapping[str, tuple[str, ...]],
    seconds: Mapping[str, float],
    groups: Mapping[str, str],
    components: Mapping[str, int],
) -> list[Task]:
    """The same for a cluster: the jobs of a submission run one after the other, and timing, on a
    node of its own, holds up nobody.

    `groups` and `components` are those of a Snakemake profile: the group of a rule, such as
    ``{case}-{seed}-K{K}``, and how many unconnected parts of a group make one submission.
    """
    group = {name: _group(name, groups) for name in jobs}
    part: dict[str, str] = {}  # the connected jobs of a group, by the last of them
    for name, after in jobs.items():
        met = {part[other] for other in after if group[other] == group[name]}
        part |= {other: name for other, last in part.items() if last in met} | {name: name}
    parts: dict[str, list[str]] = {}
    submission: dict[str, tuple[str, int]] = {}
    for name in jobs:
        of_group = parts.setdefault(group[name], [])
        if part[name] not in of_group:
            of_group.append(part[name])
        together = components.get(groups.get(rule_of(name), ""), 1)
        submission[name] = group[name], of_group.index(part[name]) // together

    number = {key: index for index, key in enumerate(dict.fromkeys(submission.values()))}
    work, before = [START] * len(number), [set[int]() for _ in number]
    for name, after in jobs.items():
        own = number[submission[name]]
        work[own] += START + seconds[name]
        before[own] |= {number[submission[other]] for other in after} - {own}
    return [Task(each, after=tuple(others)) for each, others in zip(work, before, strict=True)]


def _group(job: str, groups: Mapping[str, str]) -> str:
    """Of a job such as ``train/paper/RCDRS-Env/socp-hard-0-K20``; without one, its own name."""
    where = re.search(r"(?P<case>[a-z-]+)-(?P<seed>\d+)(-K(?P<K>\d+))?$", job)
    return groups.get(rule_of(job), job).format(**where.groupdict() if where else {})


def _result(plan: Plan, name: str, jobs: dict[str, tuple[str, ...]]) -> str:
    """The job of a seed-level result such as ``synthetic/socp-hard-0-K20.csv``."""
    kind, *variant = Path(name).parent.parts
    where = Path(name).stem
    case_and_seed, _, depth = where.partition("-K")
    case, _, seed = case_and_seed.rpartition("-")
    tune = f"tune/{case_and_seed}"
    jobs[f"instances/{case_and_seed}"], jobs[tune] = (), (f"instances/{case_and_seed}",)
    if kind == "timing":
        return _add(jobs, f"time/{where}", tune)
    if kind == "ablation":
        train = _add(jobs, f"train_ablation/{variant[0]}/{where}", tune)
        return _add(jobs, f"evaluate_ablation/{variant[0]}/{where}", train)
    before = [_training(plan, path, tune, jobs) for path in plan.checkpoints(case, seed, depth)]
    if kind == "dispatch":
        before.append(_add(jobs, f"reference/{case_and_seed}", tune))
    return _add(jobs, f"evaluate/{kind}/{where}", tune, *before)


def _training(plan: Plan, path: str, tune: str, jobs: dict[str, tuple[str, ...]]) -> str:
    """The job that writes a checkpoint, or a model and before it its pretrained layer."""
    folder, recipe, method, file = Path(path).relative_to(plan.folder).parts
    where = re.sub(r"\.pt$", "", file)
    if folder == "checkpoints":
        return _add(jobs, f"train/{recipe}/{method}/{where}", tune)
    layers = plan.pretrained(recipe, method, where)
    before = [_training(plan, layer, tune, jobs) for layer in layers]
    return _add(jobs, f"learn/{recipe}/{method}/{where}", tune, *before)


def _add(jobs: dict[str, tuple[str, ...]], name: str, *after: str) -> str:
    jobs[name] = after
    return name
