"""What was run, by which code, where, and how long it took."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rcdrs.artifact.times import JOB_TIMES, JobTime, duration, measure, read
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import Datum, Grid, number, plain_grid, text

STATES = ("released", "computed", "stale", "missing")
#: Of an origin, beside digests and machine.
VERSIONS = ("python", "torch", "numpy")


def states(evidence: Evidence, names: list[str]) -> Grid:
    """How much of what the configuration asks for is there, experiment by experiment."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        counts[_kind(name)][evidence.state(name)] += 1
    rows = [
        [text(kind), *(number(found[state], "d") for state in STATES), number(found.total(), "d")]
        for kind, found in counts.items()
    ]
    note = (
        "Seed-level results of this configuration. Released ones come with the code, computed ones "
        "from this run; a stale one was made by other code or settings than those here."
    )
    columns = ["Experiment", *(state.capitalize() for state in STATES), "All"]
    return plain_grid("states", "Results", note, columns, rows)


def stale(evidence: Evidence, names: list[str]) -> int:
    return sum(evidence.state(name) == "stale" for name in names)


def origins(evidence: Evidence, names: list[str]) -> Grid | Missing:
    """Code, settings, machine and versions behind the results that are there."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in names:
        if origin := evidence.origin(name):
            digest = origin.get("digest", {})
            versions = (origin.get(package, "") for package in VERSIONS)
            key = (_kind(name), digest.get("code", ""), _machine(origin), *versions)
            entry = found.setdefault(key, {"settings": set(), "count": 0})
            entry["settings"].add(digest.get("settings", ""))
            entry["count"] += 1
    if not found:
        return Missing("Origin", "No result says where it comes from.")
    rows = [
        [
            text(kind),
            _code(code),
            _settings(entry["settings"]),
            *map(text, where),
            number(entry["count"], "d"),
        ]
        for (kind, code, *where), entry in found.items()
    ]
    note = (
        "From the note beside every result. A digest covers all code, or all settings, that the "
        "numbers can depend on, without its wording."
    )
    where = ["Machine", *(name.capitalize() for name in VERSIONS)]
    columns = ["Experiment", "Code", "Settings", *where, "Results"]
    return plain_grid("origins", "Origin", note, columns, rows)


def times(evidence: Evidence) -> Grid | Missing:
    """How long the jobs took, by rule: measured in this run, or kept with the code.

    A run that uses released results has measured but a few of the jobs behind them.
    """
    kept = evidence.plan.root / JOB_TIMES
    known = read(kept) if kept.exists() else []
    found = {time.kind: time for time in known if time.run == evidence.config["run"]}
    for time in measure(evidence.plan.folder):
        if time.kind not in found or time.jobs >= found[time.kind].jobs:
            found[time.kind] = time
    if not found:
        return Missing("Time", "No job of this run was timed here.")
    rules: dict[str, list[JobTime]] = defaultdict(list)
    for time in found.values():
        rules[time.rule].append(time)
    rows = []
    for rule, parts in rules.items():
        jobs = sum(part.jobs for part in parts)
        spent = sum(part.jobs * part.seconds for part in parts)
        inside = sum(part.jobs * part.inside for part in parts)
        cells = [text(rule), number(jobs, "d"), _duration(spent), _duration(spent / jobs)]
        rows.append([*cells, _duration(inside) if inside else text("")])
    rows.sort(key=lambda row: -float(row[2].sort or 0))
    total = sum(time.jobs * time.seconds for time in found.values())
    note = (
        "Wall time of the jobs, on one core each: measured in this run, or when the released "
        f"results were computed. Together {duration(total)}."
    )
    columns = ["Rule", "Jobs", "Together", "Each", "Inside the stage"]
    return plain_grid("times", "Time", note, columns, rows)


def hosts(evidence: Evidence, names: list[str]) -> str:
    """Where the results were computed, in a few words."""
    found = {_machine(origin) for name in names if (origin := evidence.origin(name))}
    return "; ".join(sorted(found))


def _machine(origin: dict[str, Any]) -> str:
    """Host, system and device; of a CPU also what rounding depends on, where it was noted."""
    parts = (origin.get(part, "") for part in ("host", "machine", "device", "cpu"))
    return " ".join(filter(None, parts))


def _kind(name: str) -> str:
    return Path(name).parts[0]


def _code(digest: str) -> Datum:
    return Datum(Markup('<code title="{}">{}</code>').format(digest, digest[:8]), digest)


def _settings(digests: set[str]) -> Datum:
    if len(digests) == 1:
        return _code(next(iter(digests)))
    return text(f"{len(digests)} different")


def _duration(seconds: float) -> Datum:
    shown = duration(seconds) if seconds >= 1 else f"{seconds:.1f} s"
    return Datum(Markup("{}").format(shown), seconds, "number")
