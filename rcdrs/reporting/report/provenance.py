"""What was run, by which code, where, and how long it took."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.key import Key
from rcdrs.artifact.times import JOB_TIMES, duration, measure, read
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import Block, Datum, Grid, number, text

STATES = ("released", "computed", "stale", "missing")
#: Of an origin, beside digests and machine.
VERSIONS = ("python", "torch", "numpy")


def states(evidence: Evidence, keys: list[Key]) -> Grid:
    """How much of what the configuration asks for is there, experiment by experiment."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for key in keys:
        counts[_kind(key)][evidence.plan.state(key)] += 1
    rows = [
        [text(kind), *(number(found[state]) for state in STATES), number(found.total())]
        for kind, found in counts.items()
    ]
    note = (
        "Seed-level results of this configuration. Released ones come with the code, computed ones "
        "from this run; a stale one was made by other code or settings than those here."
    )
    columns = ["Experiment", *(state.capitalize() for state in STATES), "All"]
    return Grid("states", "Results", note, columns, [Block("", rows)])


def stale(evidence: Evidence, keys: list[Key]) -> int:
    return sum(evidence.plan.state(key) == "stale" for key in keys)


def origins(evidence: Evidence, keys: list[Key]) -> Grid | Missing:
    """Code, settings, machine and versions behind the results that are there."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key in keys:
        if origin := _origin(evidence, key):
            part = next(iter(evidence.plan.digests(key)))
            code, settings = origin["digests"][part].split()
            versions = (origin.get(version, "") for version in VERSIONS)
            found[_kind(key), code, _machine(origin), *versions].append(settings)
    if not found:
        return Missing("Origin", "No result says where it comes from.")
    rows = [
        [text(kind), _code(code), _settings(set(each)), *map(text, where), number(len(each))]
        for (kind, code, *where), each in found.items()
    ]
    note = (
        "From the note beside every result. A digest covers all code, or all settings, that the "
        "numbers can depend on, without its wording."
    )
    columns = [
        "Experiment",
        "Code",
        "Settings",
        "Machine",
        *map(str.capitalize, VERSIONS),
        "Results",
    ]
    return Grid("origins", "Origin", note, columns, [Block("", rows)])


def times(evidence: Evidence) -> Grid | Missing:
    """How long the jobs took, by rule: measured in this run, or kept with the code.

    A run that uses released results has measured but a few of the jobs behind them.
    """
    kept = evidence.plan.root / JOB_TIMES
    known = read(kept) if kept.exists() else []
    found = {time.kind: time for time in known if time.run == evidence.config.run}
    for time in measure(evidence.plan.folder):
        if time.kind not in found or time.jobs >= found[time.kind].jobs:
            found[time.kind] = time
    if not found:
        return Missing("Time", "No job of this run was timed here.")
    each = [
        (time.rule, time.jobs, time.jobs * time.seconds, time.jobs * time.inside)
        for time in found.values()
    ]
    rules = pd.DataFrame(each, columns=["rule", "jobs", "spent", "inside"]).groupby("rule").sum()
    rows = [
        [text(rule), number(jobs), *map(_duration, (spent, spent / jobs, inside))]
        for rule, jobs, spent, inside in rules.sort_values("spent", ascending=False).itertuples()
    ]
    note = (
        "Wall time of the jobs, on one core each: measured in this run, or when the released "
        f"results were computed. Together {duration(rules['spent'].sum())}."
    )
    columns = ["Rule", "Jobs", "Together", "Each", "Inside the stage"]
    return Grid("times", "Time", note, columns, [Block("", rows)])


def hosts(evidence: Evidence, keys: list[Key]) -> str:
    """Where the results were computed, in a few words."""
    found = {_machine(origin) for key in keys if (origin := _origin(evidence, key))}
    return "; ".join(sorted(found))


def _origin(evidence: Evidence, key: Key) -> dict[str, Any]:
    return evidence.plan.origin(key) if evidence.path(key) else {}


def _machine(origin: dict[str, Any]) -> str:
    """Host, system and device; of a CPU also what rounding depends on, where it was noted."""
    parts = (origin.get(part, "") for part in ("host", "machine", "device", "cpu"))
    return " ".join(filter(None, parts))


def _kind(key: Key) -> str:
    kind = {"times": "timing", "shifts": "other data"}.get(key.kind, key.experiment)
    return f"{kind}, {key.universe}" if key.universe else kind


def _code(digest: str) -> Datum:
    return Datum(Markup('<code title="{}">{}</code>').format(digest, digest[:8]), digest)


def _settings(digests: set[str]) -> Datum:
    if len(digests) == 1:
        return _code(next(iter(digests)))
    return text(f"{len(digests)} different")


def _duration(seconds: float) -> Datum:
    if not seconds:
        return text("")
    shown = duration(seconds) if seconds >= 1 else f"{seconds:.1f} s"
    return Datum(shown, seconds, "number")
