"""Our layers beside other solvers and layers: who is faster at equal accuracy, and where that ends.

    t(e) = least time in which the median error of a solver is e or less

between two of its settings log-linear in the logarithm of the error, and nowhere extrapolated: a
solver whose most accurate setting has a larger error does not get there.  The ratio of a case is
the least t(e) of all peers over the least of all our layers.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from rcdrs import files
from rcdrs.artifact.key import parse_end
from rcdrs.artifact.release import read_origin
from rcdrs.peers.registry import PEERS, PROGRAM, PROJECTION
from rcdrs.reporting.care import joined
from rcdrs.reporting.formatting import FAMILIES

COLUMNS = (
    *("experiment", "family", "scale", "seed"),
    *("problem", "solver", "setting", "batch", "what", "value", "note"),
)
#: What is compared, with how many instances at once.
FORWARD, BOTH = "forward", "both"
RACES = ((FORWARD, 1), (FORWARD, 400), (BOTH, 32))
#: In words.
WORDS = {FORWARD: "forward", BOTH: "forward and backward"}
#: The median errors that are compared at.
LEVELS = (1e-2, 1e-3, 1e-4, 1e-6)
METRIC = "ObjErr"
NAMES = {"dfl": "Decision-focused", "portfolio": "Portfolios", "opf": "Optimal power flow"}
COMMAND = "snakemake --cores 2 peers"


def read(paths: Iterable[Path]) -> pd.DataFrame:
    """The lines of all files; a damaged one is named."""
    frames = []
    for path in paths:
        read_origin(path)  # an error where the file is not as it was computed
        with files.reading(path, "CSV of peers", f"delete it and measure again with `{COMMAND}`"):
            text = path.read_text("utf-8")
            _check(text, parse_end(path))
            kinds = {"solver": str, "note": str, "what": str, "problem": str}
            frames.append(
                pd.read_csv(
                    io.StringIO(text),
                    dtype=kinds,
                    keep_default_na=False,
                    na_values={"value": [""], "setting": [""]},
                )
            )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))


def _check(text: str, places: dict[str, object]) -> None:
    if not text.endswith("\n"):
        raise ValueError("its last line is cut off" if text else "it is empty")
    header, *lines = csv.reader(io.StringIO(text))
    if header != list(COLUMNS):
        raise ValueError(f"its columns are {', '.join(header)}, expected {', '.join(COLUMNS)}")
    if not lines:
        raise ValueError("it has no lines")
    for number, cells in enumerate(lines, start=2):
        if len(cells) != len(header):
            raise ValueError(f"line {number} has {len(cells)} values, expected {len(header)}")
        line = dict(zip(header, cells, strict=True))
        for column in ("setting", "value"):
            if line[column] and not math.isfinite(float(line[column])):
                raise ValueError(f"line {number}: {column} is {line[column]}, expected a number")
        case = line["family"] if line["scale"] == "-" else f"{line['family']}-{line['scale']}"
        if places.get("case", case) != case:
            raise ValueError(f"line {number} is of {case}, expected {places['case']}")


class Point(NamedTuple):
    setting: float
    error: float
    ms: float


@dataclass(frozen=True)
class Case:
    """What was found of one case and problem."""

    family: str
    scale: str
    problem: str
    lines: pd.DataFrame

    @property
    def label(self) -> str:
        name = NAMES.get(self.family, FAMILIES[self.family])
        name = name if self.scale == "-" else f"{name} {self.scale}"
        return name if self.problem == PROGRAM else f"{name}, projection"

    @cached_property
    def solvers(self) -> list[str]:
        """Ours first; without those that cannot express the problem."""
        cannot = set(self.lines[self.lines["what"] == "cannot express it"]["solver"])
        return [s for s in dict.fromkeys(self.lines["solver"]) if s and s not in cannot]

    @property
    def ours(self) -> list[str]:
        return [solver for solver in self.solvers if solver not in PEERS]

    @property
    def peers(self) -> list[str]:
        return [solver for solver in self.solvers if solver in PEERS]

    def found(self, solver: str, what: str, batch: int | None = None) -> pd.Series:
        """By setting; what is not a number is missing."""
        part = self._by.get((solver, what))
        if part is None:
            return pd.Series(dtype=float)
        part = part if batch is None else part[part["batch"] == batch]
        return part.set_index("setting")["value"].dropna()

    def note(self, solver: str, what: str) -> str:
        part = self._by.get((solver, what))
        return "" if part is None else str(part["note"].iloc[-1])

    @cached_property
    def _by(self) -> dict[tuple[str, str], pd.DataFrame]:
        groups = self.lines.groupby(["solver", "what"], sort=False)
        return {(str(solver), str(what)): part for (solver, what), part in groups}

    def curve(self, solver: str, what: str, batch: int) -> list[Point]:
        """The settings of which both time and median error are there, coarsest first."""
        times = self.found(solver, f"{what} ms", batch)
        errors = self.found(solver, f"{METRIC} median")
        shared = [s for s in times.index if s in errors.index]
        points = [Point(float(s), float(errors[s]), float(times[s])) for s in shared]
        return sorted(points, key=lambda point: -point.error)

    def time(self, solver: str, what: str, batch: int, error: float) -> float:
        """t(e), infinite where it does not get there."""
        curve = self.curve(solver, what, batch)
        reached = [point.ms for point in curve if point.error <= error]
        for a, b in pairwise(curve):
            if 0 < b.error <= error < a.error:
                logs = [math.log(b.error), math.log(a.error)]
                at = np.interp(math.log(error), logs, [math.log(b.ms), math.log(a.ms)])
                reached.append(math.exp(at))
        return min(reached, default=math.inf)

    def best(self, solvers: list[str], what: str, batch: int, error: float) -> tuple[str, float]:
        times = [(self.time(solver, what, batch, error), solver) for solver in solvers]
        ms, solver = min(times, default=(math.inf, ""))
        return (solver, ms) if math.isfinite(ms) else ("", math.inf)

    def ratio(self, what: str, batch: int, error: float) -> float:
        """The best peer's time over that of our best layer; NaN where neither gets there."""
        theirs = self.best(self.peers, what, batch, error)[1]
        ours = self.best(self.ours, what, batch, error)[1]
        return math.nan if math.isinf(theirs) and math.isinf(ours) else theirs / ours

    def crossing(self, what: str, batch: int) -> float:
        """The smallest error of ours at which they are still ahead; NaN where they never are."""
        errors = [p.error for s in self.ours for p in self.curve(s, what, batch) if p.error > 0]
        if not errors:
            return math.nan
        grid = np.geomspace(max(errors), min(errors), 200)
        ahead = [e for e in grid if self.ratio(what, batch, float(e)) > 1]
        return float(min(ahead)) if ahead else math.nan


def cases(lines: pd.DataFrame) -> list[Case]:
    if lines.empty:
        return []
    groups = lines.groupby(["family", "scale", "problem"], sort=False)
    found = [Case(str(f), str(s), str(p), part) for (f, s, p), part in groups]
    return sorted(found, key=lambda case: case.problem == PROJECTION)


def race_of(case: Case, what: str, batch: int) -> int:
    """The batch of this race, or the largest that was measured where it was not, as in a small
    run."""
    sizes = {
        int(size)
        for solver in case.ours
        for size in case.lines[
            (case.lines["solver"] == solver) & (case.lines["what"] == f"{what} ms")
        ]["batch"]
    }
    return batch if batch in sizes or not sizes else max(sizes)


class Lead(NamedTuple):
    """At a median error: our fastest layer, the fastest peer, and its time over ours."""

    ours: str
    peer: str
    ratio: float

    @property
    def words(self) -> str:
        """``7.7``, or ``150``: two digits say enough of a time."""
        return f"{float(f'{self.ratio:.2g}'):g}"


def lead(case: Case, what: str, batch: int, error: float) -> Lead | None:
    """None where one of both does not get there."""
    ours, t = case.best(case.ours, what, batch, error)
    peer, other = case.best(case.peers, what, batch, error)
    return Lead(ours, peer, other / t) if ours and peer else None


def reading(found: list[Case], level: float) -> list[str]:
    """A sentence for each way of use: how many times faster ours is at this median error."""
    told = []
    for what, size in RACES:
        parts = []
        for case in found:
            one = lead(case, what, size, level)
            if one is not None:
                parts.append(f"{case.label} {one.words} ({one.ours}, {one.peer})")
        if parts:
            told.append(
                f"Time of the fastest peer over that of our fastest, {WORDS[what]}, batch "
                f"{size}, at {level:g}: {'; '.join(parts)}."
            )
    return told


def versions(found: list[Case]) -> list[str]:
    """Each solver with what it was: versions and settings of peers."""
    told = {}
    for case in found:
        for solver in [s for s in dict.fromkeys(case.lines["solver"]) if s in PEERS]:
            settings = case.note(solver, "settings")
            told[solver] = f"{solver}: {case.note(solver, 'version')}" + (
                f"; {settings}" if settings else ""
            )
    return list(told.values())


def unable(found: list[Case]) -> list[str]:
    """Who cannot express which problems."""
    told: dict[str, list[str]] = {}
    for case in found:
        for solver in dict.fromkeys(case.lines["solver"]):
            if why := case.note(solver, "cannot express it"):
                told.setdefault(f"{solver} ({why})", []).append(case.label)
    return [f"{solver} cannot express {joined(cases)}" for solver, cases in told.items()]
