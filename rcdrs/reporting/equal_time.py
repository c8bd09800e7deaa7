"""Who is more accurate given the same time?  A controlled step costs more than a plain one.

    e(K), t(K): a quantile of an error over test instances, and milliseconds per instance
    e_wide(t) = exp of log e_wide(K), linear in t_wide(K) between the two depths next to t
    ratio     = e(K) / e_wide(t(K))        of a controller; no worse where it is 1 or less

Nothing is extrapolated: before its fastest and after its slowest depth, Wide-DRS has the error of
that depth.  One seed, as the deep runs have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from rcdrs.artifact.config import Config, universe
from rcdrs.artifact.key import Key
from rcdrs.reporting.care import (
    BEST,
    BETWEEN,
    CHOSEN,
    DEEP,
    EDGE,
    FAIR,
    FEEDBACK,
    SCHEDULE,
    WIDE,
    Gain,
    is_feedback,
    joined,
    leading,
    percent,
)
from rcdrs.reporting.coverage import ratio
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.results import TIME, Results

#: The quantiles of an error over instances that are shown.
LEVELS = {"median": 0.5, "95 %": 0.95}
METRIC = "Dist"
RECIPE = "log_kkt"
UNIVERSES = (FAIR, DEEP, BETWEEN, EDGE)


@dataclass(frozen=True)
class Line:
    """One solver at all depths that it runs with, and the universe of each; the depths of settings
    are in the first."""

    label: str
    method: str
    recipe: str
    depths: tuple[tuple[str, int], ...]
    seed: int

    @property
    def home(self) -> str:
        return self.depths[0][0]


def lines_of(config: Config) -> list[Line]:
    """The fixed cores, the schedule, and the controllers."""
    parts = {"": config} | {name: universe(config, name) for name in UNIVERSES}

    def line(label: str, method: str, recipe: str, *names: str) -> Line:
        depths = [(name, K) for name in names for K in parts[name].synthetic.depths]
        return Line(label, method, recipe, tuple(depths), parts[DEEP].seeds[0])

    trained = parts[FAIR].synthetic.extended
    found = [
        line("Grid-DRS", "Grid-DRS", "paper", "", EDGE),
        line(WIDE, "Grid-DRS", "paper", FAIR, DEEP, BETWEEN),
    ]
    if SCHEDULE in trained:
        found.append(line(SCHEDULE, SCHEDULE, RECIPE, FAIR, DEEP))
    return found + [line(m, m, RECIPE, FAIR) for m in trained if is_feedback(m)]


@dataclass(frozen=True)
class Point:
    """A solver at one depth: milliseconds per instance, and the quantiles of an error."""

    K: int
    time: float
    levels: dict[str, float]
    key: Key
    #: Of the time: see `Results.times`.
    timed: Key


def points(results: Results, line: Line, case: str, metric: str = METRIC) -> list[Point]:
    """The depths of a line, fastest first."""
    found = []
    for within, K in line.depths:
        key = Key("rows", "synthetic", case, line.seed, K, line.method, line.recipe, within)
        timed = replace(key, recipe="paper")
        errors = results.instances(metric, key)
        levels = {name: float(np.quantile(errors, q)) for name, q in LEVELS.items()}
        (time,) = results.of(TIME, [timed]).values
        found.append(Point(K, time, levels, key, timed))
    return sorted(found, key=lambda point: (point.time, point.K))


def error_at(time: float, curve: list[Point], level: str) -> float:
    """Log-linear between the neighbours in time; constant beyond the ends."""
    logs = [np.log(max(point.levels[level], np.finfo(float).tiny)) for point in curve]
    return float(np.exp(np.interp(time, [point.time for point in curve], logs)))


@dataclass(frozen=True)
class Race:
    """One setting: the ratio to Wide-DRS at equal time, by row and level, and the points behind
    each row; those of Wide-DRS are behind all."""

    family: str
    scale: str
    K: int
    ratios: dict[str, dict[str, float]]
    behind: dict[str, list[Point]]


def races(config: Config, results: Results) -> list[Race]:
    """Every setting of the controllers, and the other solvers there.

    The best controller of a setting has the lowest ratio; it is chosen for each level by itself.
    """
    part, every, found = universe(config, FAIR).synthetic, lines_of(config), []
    for family, scale in product(part.families, part.scales):
        curves = {line: points(results, line, f"{family}-{scale}") for line in every}
        wide = next(curve for line, curve in curves.items() if line.label == WIDE)
        for K in [K for K in part.depths if K in config.synthetic.depths]:
            at = {line.label: _at(curve, K, line) for line, curve in curves.items()}
            del at[WIDE]
            ratios = {
                label: {
                    level: ratio(value, error_at(point.time, wide, level))
                    for level, value in point.levels.items()
                }
                for label, point in at.items()
            }
            behind = {label: [point, *wide] for label, point in at.items()}
            fed = [label for label in ratios if is_feedback(label)]
            if chosen := part.timely.get(RECIPE):
                ratios[CHOSEN], behind[CHOSEN] = ratios[chosen], behind[chosen]
            if fed:
                ratios[BEST] = {n: min(ratios[label][n] for label in fed) for n in LEVELS}
                behind[BEST] = [*(at[label] for label in fed), *wide]
            found.append(Race(family, scale, K, ratios, behind))
    return found


def _at(curve: list[Point], K: int, line: Line) -> Point:
    """At the depth of a setting: what is deeper or in between is in other universes."""
    return next(point for point in curve if (point.K, point.key.universe) == (K, line.home))


def no_worse(found: list[Race], label: str, level: str) -> list[Race]:
    return [race for race in found if race.ratios[label][level] <= 1]


def gain(found: list[Race], label: str, level: str) -> Gain:
    return Gain(tuple(race.ratios[label][level] for race in found))


def reading(found: list[Race], level: str = "median") -> list[str]:
    """Who wins where: a sentence for each family."""
    told = []
    for family in dict.fromkeys(race.family for race in found):
        here = [race for race in found if race.family == family]
        lead = leading(here[0].ratios)
        names = {lead: FEEDBACK[lead], SCHEDULE: "the schedule"}
        clauses = [
            _clause(here, label, level, name)
            for label, name in names.items()
            if label in here[0].ratios
        ]
        told.append(
            f"{FAMILIES[family]}, {len(here)} settings at equal time: {'; '.join(clauses)}."
        )
    return told


def _clause(here: list[Race], label: str, level: str, name: str) -> str:
    """``the schedule is no worse than Wide-DRS in 2 (hard at K=5 and 10), and over all has ...``"""
    won = no_worse(here, label, level)
    depths = {
        scale: [str(race.K) for race in won if race.scale == scale]
        for scale in dict.fromkeys(race.scale for race in won)
    }
    places = ", ".join(f"{scale} at K={joined(each)}" for scale, each in depths.items())
    number = "all" if len(won) == len(here) else f"{len(won)} ({places})" if won else "none"
    error = percent(gain(here, label, level).geometric, ".0f")
    told = f"{name} is no worse than {WIDE} in {number}"
    return f"{told}, and over all has {error} of its {level} {METRIC} (geometric mean)"
