"""Layers on other data than they were trained on, and for other numbers of steps.

    ratio = Gap of a layer on other data / Gap of Wide-DRS tuned there        in a family
    shown = geometric mean over families, each ratio a factor of LIMIT at most     (care.Gain)

A ratio of 1 is as good as a constant core tuned on the other data.  For other depths the median of
Dist over instances is shown as it is, beside that of Wide-DRS tuned for each depth, and of a layer
that was trained over random depths.  One seed, as the layers of random depths have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import get_args

from rcdrs.artifact.config import Config, universe
from rcdrs.experiments.settings import Scale
from rcdrs.reporting.care import FAIR, SCHEDULE, WIDE, Gain, is_feedback, joined, percent
from rcdrs.reporting.coverage import ratio
from rcdrs.reporting.formatting import TIE
from rcdrs.reporting.results import Results, Shift, Statistic

#: Its layers are trained over random depths.
ANY = "any_depth"
UNIVERSES = (FAIR, ANY)
RECIPE = "log_kkt"
SCALE = "hard"
METRIC = "Gap"
#: The column of the median of Dist over instances.
MEDIAN = "median"
HOME, THERE = "home", "there"
#: The controllers that are tried at other depths, beside the schedule.
DEEPENED = (SCHEDULE, "RCDRS-Env", "RCDRS-Light")


def data_targets(config: Config) -> list[str]:
    """What a layer is tried on at its own depth, as the files of shifts call it; home first."""
    factors = config.synthetic.shifts
    named = ["another A"] + [f"scale {scale}" for scale in get_args(Scale) if scale != SCALE]
    parts = [(part, factors.magnitude) for part in ("x", "s", "y")]
    for (part, size), sign in product(
        [*parts, ("condition", factors.condition)], ("times", "over")
    ):
        named.append(f"{part} {sign} {size:g}")
    return [HOME, *named]


def depth_target(trained: int, K: int) -> str:
    return HOME if trained == K else f"K {K}"


@dataclass(frozen=True)
class Solver:
    """A solver on other data: its universe, the depth it was made for, and where it was tuned."""

    label: str
    method: str
    K: int
    tuned: str = HOME
    within: str = FAIR

    def line(self, config: Config, family: str, target: str) -> Shift:
        recipe = "paper" if self.method == "Grid-DRS" else RECIPE
        seed = universe(config, ANY).seeds[0]
        run = (f"{family}-{SCALE}", seed, self.K, self.method, recipe, self.within)
        return Shift("shifts", "synthetic", *run, target, self.tuned)


def solvers(config: Config, K: int) -> list[Solver]:
    """The columns: Wide-DRS of home and of there, the schedule of both, the learned of home."""
    learned = universe(config, FAIR).synthetic.extended
    found = [Solver(f"{WIDE}, {HOME}", "Grid-DRS", K), reference(K)]
    if SCHEDULE in learned:
        found.append(Solver(f"{SCHEDULE}, {HOME}", SCHEDULE, K))
    found.append(Solver(f"{SCHEDULE}, {THERE}", SCHEDULE, K, THERE))
    others = [method for method in learned if method != SCHEDULE]
    return found + [Solver(m, m, K) for m in sorted(others, key=lambda m: not is_feedback(m))]


def reference(K: int) -> Solver:
    return Solver(f"{WIDE}, {THERE}", "Grid-DRS", K, THERE)


def check_targets(config: Config, results: Results) -> None:
    """An error for a line of other data, or of a depth, that the configuration does not have."""
    depths = [f"K {K}" for name in UNIVERSES for K in universe(config, name).synthetic.depths]
    known = {"target": [*data_targets(config), *dict.fromkeys(depths)], "tuned": [HOME, THERE]}
    for key in results.rows:
        if isinstance(key, Shift) and key.universe in UNIVERSES:
            for part, names in known.items():
                if getattr(key, part) not in names:
                    raise ValueError(
                        f"unknown {part} {getattr(key, part)!r} in {key.path()}, expected one of "
                        f"{', '.join(names)}: it was computed with another configuration."
                    )


def families(config: Config) -> list[str]:
    return list(universe(config, FAIR).synthetic.families)


def on_target(config: Config, results: Results, solver: Solver, target: str) -> Statistic:
    """The metric in every family."""
    return results.of(METRIC, [solver.line(config, f, target) for f in families(config)])


def gain(config: Config, results: Results, solver: Solver, target: str) -> Gain:
    """Over Wide-DRS tuned there, family by family."""
    ours, theirs = (
        on_target(config, results, one, target) for one in (solver, reference(solver.K))
    )
    ratios = (ratio(a, b) for a, b in zip(ours.values, theirs.values, strict=True))
    return Gain(tuple(ratios), (*ours.keys, *theirs.keys))


def level(found: Statistic) -> float:
    """The geometric mean over families; zero where one of them is."""
    if min(found.values) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, found.values)) / len(found.values))


def deepened(config: Config) -> dict[str, list[Solver]]:
    """The rows of other depths by method: a solver for each depth that it was trained for; of
    Wide-DRS, the one tuned for each depth, so that its rows are one."""
    part, anywhere = universe(config, FAIR).synthetic, universe(config, ANY).synthetic
    found = {WIDE: [Solver(WIDE, "Grid-DRS", K) for K in part.depths]}
    for method in DEEPENED:
        if method in part.extended:
            found[method] = [Solver(f"{method}, K={K}", method, K) for K in part.depths]
        if method in anywhere.extended:
            label = f"{method}, any depth"
            found[label] = [Solver(label, method, max(anywhere.depths), within=ANY)]
    return found


def median(config: Config, results: Results, solver: Solver, family: str, K: int) -> Statistic:
    """Of Dist over the instances of home, after K steps."""
    target = depth_target(solver.K, K)
    return results.of(MEDIAN, [solver.line(config, family, target)])


def reading(config: Config, results: Results, K: int) -> list[str]:
    """What transfers and what does not, in words."""
    others = data_targets(config)[1:]
    gains = {
        solver.label: {t: gain(config, results, solver, t).geometric for t in [HOME, *others]}
        for solver in solvers(config, K)
        if solver != reference(K)
    }
    counts = [
        f"{label.removesuffix(f', {HOME}')} on {sum(found[t] < 1 - TIE for t in others)}"
        for label, found in gains.items()
        if not label.endswith(f", {THERE}")
    ]
    told = [
        f"Of {len(others)} other kinds of data at K={K}, a solver of home has a lower {METRIC} "
        f"than {WIDE} tuned there (geometric mean over families): {joined(counts)}."
    ]
    fed = [label for label in gains if is_feedback(label)]
    if fed:
        best = min(fed, key=lambda label: gains[label][HOME])
        ranked = sorted(others, key=lambda target: gains[best][target])
        planned = gains[f"{SCHEDULE}, {THERE}"]
        below = sum(gains[best][t] < planned[t] for t in others)
        told.append(
            f"{best}, the best of the feedback variants at home ({percent(gains[best][HOME])} of "
            f"{WIDE}), has {percent(gains[best][ranked[0]])} on {ranked[0]} and "
            f"{percent(gains[best][ranked[-1]])} on {ranked[-1]}, its best and worst; it is below "
            f"a schedule trained there on {below} of {len(others)}."
        )
    return told


def depth_reading(config: Config, results: Results) -> list[str]:
    """The same of depths: geometric means of the error over that of the layer trained for one."""
    depths, parts = universe(config, FAIR).synthetic.depths, []
    rows = deepened(config)
    for method in DEEPENED:
        if method not in rows:
            continue
        own = {solver.K: solver for solver in rows[method]}
        pairs = [(own[K], own[k], k) for K, k in product(depths, depths) if k != K]
        words = [(pairs, "layers of other depths")]
        if anywhere := rows.get(f"{method}, any depth"):
            words.append(([(anywhere[0], own[k], k) for k in depths], "one of any depth"))
        found = [
            f"{percent(_over(config, results, chosen).geometric, '.0f')} with {what}"
            for chosen, what in words
            if chosen
        ]
        if found:
            parts.append(f"{method} has {joined(found)}")
    if not parts:
        return []
    return [f"Of the median Dist of the layer trained for a depth, {joined(parts)}."]


def _over(config: Config, results: Results, pairs: Sequence[tuple[Solver, Solver, int]]) -> Gain:
    ratios = []
    for (first, second, K), family in product(pairs, families(config)):
        ours, theirs = (median(config, results, one, family, K).mean for one in (first, second))
        ratios.append(ratio(ours, theirs))
    return Gain(tuple(ratios))
