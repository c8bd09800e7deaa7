"""RCDRS against the strongest baseline in every setting, and the summary over settings.

The paper's definitions: a win is decided by the seed-averaged metric of a setting; the ratio
divides the better RCDRS variant by the strongest baseline, in that metric and setting.  Which
baselines count it says in two ways, so there are two readings: the ``classical`` ones by table 9,
``every`` one that is not RCDRS by the text before it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal

from rcdrs.artifact.config import Config
from rcdrs.artifact.key import Key
from rcdrs.experiments.synthetic.experiment import Experiment
from rcdrs.reporting.formatting import Amount
from rcdrs.reporting.results import MissingRow, Results, Statistic

RCDRS = ("RCDRS-Env", "RCDRS-NoEnv")

Reading = Literal["classical", "every"]
#: What the methods of each reading are called.  The first one leads: hard SOCP comes out in it as
#: the paper has it, and points far from feasible, as L-PDHG's at K = 5, do not win by a small Gap.
READINGS: dict[Reading, str] = {"classical": "classical method", "every": "compared method"}


def compared_methods(config: Config, reading: Reading) -> list[str]:
    """Those that learn nothing, or all but RCDRS."""
    left_out = Experiment.learned if reading == "classical" else RCDRS
    return [method for method in config.synthetic.methods if method not in left_out]


@dataclass(frozen=True)
class Comparison:
    """One metric in one setting, of RCDRS and of the methods of one reading."""

    family: str
    scale: str
    K: int
    metric: str
    compared: dict[str, Statistic]
    rcdrs: dict[str, Statistic]

    @property
    def strongest(self) -> Statistic:
        """The best of the compared methods."""
        return lowest(self.compared.values())

    @property
    def better(self) -> Statistic:
        """The better of the two RCDRS variants."""
        return lowest(self.rcdrs.values())

    @property
    def ratio(self) -> float:
        return ratio(self.better.mean, self.strongest.mean)

    def won_by(self, variants: Iterable[str]) -> bool:
        """Whether one of these RCDRS variants is lower than every compared method."""
        return any(self.rcdrs[variant].mean < self.strongest.mean for variant in variants)


def ratio(ours: float, theirs: float) -> float:
    """``ours / theirs``: 1 where both are zero, infinite where only `theirs` is.

    A Gap is zero where the objective is never above the optimum, as infeasible points can have
    it.  To leave such settings out of a mean would drop just those that RCDRS loses.
    """
    if theirs > 0:
        return ours / theirs
    return 1.0 if ours == 0 else math.inf


def compare(
    config: Config, results: Results, metric: str, recipe: str, reading: Reading = "classical"
) -> list[Comparison]:
    """The metric in every configured setting; `recipe` is that of RCDRS alone."""
    part, found, compared = config.synthetic, [], compared_methods(config, reading)
    if not compared:
        raise MissingRow(f"synthetic.methods of the configuration has no {READINGS[reading]}.")
    for setting in product(part.families, part.scales, part.depths):
        others, rcdrs = (
            {method: results.statistic(metric, *setting, method, trained) for method in methods}
            for methods, trained in ((compared, "paper"), (RCDRS, recipe))
        )
        found.append(Comparison(*setting, metric, others, rcdrs))
    return found


@dataclass(frozen=True)
class Item:
    """One line of the summary; `name` and `unit` are those of paper/coverage_values.csv."""

    name: str
    label: str
    meaning: str
    value: float
    unit: str
    metric: str
    keys: tuple[Key, ...]

    @property
    def amount(self) -> Amount:
        return Amount(self.value, self.unit)


def summary(gaps: list[Comparison], distances: list[Comparison]) -> list[Item]:
    """The paper's lines, for the comparisons by Gap and by Dist of one reading."""
    env = ["RCDRS-Env"]
    items = [
        _wins("best_rcdrs_gap_wins", "Best RCDRS gap wins", gaps, RCDRS),
        _wins("rcdrs_env_gap_wins", "RCDRS-Env gap wins", gaps, env),
        _wins("rcdrs_env_distance_wins", "RCDRS-Env distance wins", distances, env),
        _ratio("mean_gap_ratio", "Mean gap ratio", "mean over all settings", gaps),
        _ratio("median_gap_ratio", "Median gap ratio", "median over all settings", gaps, True),
    ]
    for family, label in (("qp", "QP"), ("socp", "SOCP")):
        hard = _of(gaps, family)
        name, meaning = f"hard_{family}_gap_ratio", "mean over all depths"
        items.append(_ratio(name, f"Hard {label} average gap ratio", meaning, hard))
    for kind, comparisons in (("gap", gaps), ("distance", distances)):
        mixed = _of(comparisons, "mixed")
        depths = [c.K for c in mixed]
        for K in sorted({min(depths), max(depths)}):
            chosen = [c for c in mixed if c.K == K]
            name, label = f"mixed_hard_{kind}_ratio_k{K}", f"Mixed-hard {kind} ratio, K={K}"
            items.append(_ratio(name, label, "one setting", chosen))
    return items


def _wins(name: str, label: str, comparisons: list[Comparison], variants: Iterable[str]) -> Item:
    meaning = "settings where it is below the strongest"
    count, unit = sum(c.won_by(variants) for c in comparisons), f"of {len(comparisons)}"
    behind = _behind(comparisons, variants)
    return Item(name, label, meaning, count, unit, comparisons[0].metric, behind)


def _ratio(
    name: str, label: str, meaning: str, comparisons: list[Comparison], median: bool = False
) -> Item:
    average = statistics.median if median else statistics.fmean
    value = 100 * average([c.ratio for c in comparisons])
    behind = _behind(comparisons, RCDRS)
    return Item(name, label, meaning, value, "percent", comparisons[0].metric, behind)


def _behind(comparisons: list[Comparison], variants: Iterable[str]) -> tuple[Key, ...]:
    """Those of the variants, and of all that they are compared with."""
    found = [[c.rcdrs[name] for name in variants] + [*c.compared.values()] for c in comparisons]
    return tuple(key for setting in found for statistic in setting for key in statistic.keys)


def _of(comparisons: list[Comparison], family: str) -> list[Comparison]:
    return [c for c in comparisons if (c.family, c.scale) == (family, "hard")]


def lowest(found: Iterable[Statistic]) -> Statistic:
    return min(found, key=lambda statistic: statistic.mean)
