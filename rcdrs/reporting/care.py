"""The paper's gain, split: what is the edge of a grid, what acceleration, a schedule, feedback?

    ratio = metric of a method / metric of the reference       in a setting, averaged over seeds
    gain  = exp mean log min(max(ratio, 1 / LIMIT), LIMIT)     over settings: a geometric mean

The reference is the strongest classical baseline of the paper, chosen for each setting and metric,
or Wide-DRS: the same fixed core as Grid-DRS, from a grid without an edge.  A ratio is zero or
infinite where a Gap is zero, as infeasible points can have it.  To leave such settings out would
drop just those, and as they are, one would decide the whole mean: so each counts as a factor of
LIMIT at most, and how many do is told.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from rcdrs.artifact.config import Config, universe
from rcdrs.artifact.key import Key
from rcdrs.experiments.base import experiments
from rcdrs.experiments.synthetic.experiment import is_feedback
from rcdrs.reporting.coverage import RCDRS, lowest, ratio
from rcdrs.reporting.formatting import TIE
from rcdrs.reporting.results import Results, Statistic

#: Equal care: a wide grid, every learned method with both losses.  And more depths: of the wide
#: core, and of that of the paper's grid.
FAIR, DEEP, BETWEEN, EDGE = "fair", "deep", "between", "deep_edge"
#: What Grid-DRS is called where its grid has no edge.
WIDE = "Wide-DRS"
CLASSICAL = "strongest classical"
SCHEDULE = "Layerwise-DRS"
#: Of the feedback variants: the one that was chosen on validation data for all settings, and the
#: best on test data in each setting by itself, which bounds what a choice can reach.
CHOSEN, BEST = "Chosen feedback", "Best feedback"
#: RCDRS of the paper's configuration: grid, recipe and number of steps.
PRINTED = "RCDRS, printed settings"
RECIPES = ("paper", "log_kkt")
#: A ratio counts as no more than this factor in a geometric mean.
LIMIT = 1000.0

#: Method, recipe and universe.
Run = tuple[str, str, str]


def name_in(method: str, within: str) -> str:
    """What a method is called in a table with rows of universes."""
    return WIDE if method == "Grid-DRS" and within in (FAIR, DEEP, BETWEEN) else method


def classical(config: Config) -> list[Run]:
    """What the paper compares with and nothing was trained for."""
    learned = experiments()["synthetic"].learned
    return [(method, "paper", "") for method in config.synthetic.methods if method not in learned]


def contenders(config: Config) -> dict[str, list[Run]]:
    """The rows of the split by label; of several runs, the best in each setting."""
    part, learned = universe(config, FAIR).synthetic, experiments()["synthetic"].learned
    plain = [method for method in part.methods if method not in learned]
    found = {name_in(method, FAIR): [(method, "paper", FAIR)] for method in plain}
    printed = [method for method in config.synthetic.methods if method in RCDRS]
    found[PRINTED] = [(method, "paper", "") for method in printed]
    for recipe in RECIPES:
        trained = {method: (method, recipe, FAIR) for method in part.trained(recipe)}
        found |= {f"{method}, {recipe}": [run] for method, run in trained.items()}
        if method := part.chosen.get(recipe):
            found[f"{CHOSEN}, {recipe}"] = [trained[method]]
        found[f"{BEST}, {recipe}"] = [run for method, run in trained.items() if is_feedback(method)]
    return {label: runs for label, runs in found.items() if runs}


@dataclass(frozen=True)
class Split:
    """One metric in one setting: of the strongest classical baseline, and of every row."""

    family: str
    scale: str
    K: int
    found: dict[str, Statistic]


def split(config: Config, results: Results, metric: str) -> list[Split]:
    """The metric in every setting of the universe of equal care, over those of its seeds that the
    results are of."""
    within = universe(config, FAIR)
    part, seeds = within.synthetic, [n for n in within.seeds if n in results.seeds]
    rows = {CLASSICAL: classical(config)} | contenders(config)
    return [
        Split(
            *setting,
            {
                label: lowest(
                    results.statistic(metric, *setting, method, recipe, universe=where, seeds=seeds)
                    for method, recipe, where in runs
                )
                for label, runs in rows.items()
            },
        )
        for setting in product(part.families, part.scales, part.depths)
    ]


@dataclass(frozen=True)
class Gain:
    """The ratios of one method to a reference, one for each setting."""

    ratios: tuple[float, ...]
    keys: tuple[Key, ...] = ()

    @cached_property
    def geometric(self) -> float:
        bounded = (min(max(value, 1 / LIMIT), LIMIT) for value in self.ratios)
        return math.exp(statistics.fmean(map(math.log, bounded)))

    @property
    def mean(self) -> float:
        """The paper's statistic; infinite where a ratio is."""
        return statistics.fmean(self.ratios)

    @property
    def wins(self) -> int:
        return sum(value < 1 - TIE for value in self.ratios)

    @property
    def limited(self) -> int:
        """The ratios that count as `LIMIT`."""
        return sum(not 1 / LIMIT <= value <= LIMIT for value in self.ratios)


def gain(splits: Sequence[Split], label: str, over: str = CLASSICAL) -> Gain:
    pairs = [(found.found[label], found.found[over]) for found in splits]
    keys = dict.fromkeys(key for pair in pairs for end in pair for key in end.keys)
    return Gain(tuple(ratio(ours.mean, theirs.mean) for ours, theirs in pairs), tuple(keys))


def leading(rows: Container[str], recipe: str = "") -> str:
    """Which row stands for feedback: the chosen variant, where one was chosen."""
    return CHOSEN if (f"{CHOSEN}, {recipe}" if recipe else CHOSEN) in rows else BEST


#: What each is called in a sentence.
FEEDBACK = {
    CHOSEN: "the feedback variant chosen on validation data",
    BEST: "the best feedback variant",
}


def reading(splits: Sequence[Split], metric: str, recipe: str) -> list[str]:
    """What the split says, in words: the edge of the grid, the shares, feedback by depth."""
    schedule = f"{SCHEDULE}, {recipe}"
    lead = leading(splits[0].found, recipe)
    best, named = f"{lead}, {recipe}", FEEDBACK[lead]
    missing = {WIDE, schedule, best} - set(splits[0].found)
    if missing:
        return [f"Without {', '.join(sorted(missing))} the gain cannot be split."]
    count, wide, whole = len(splits), gain(splits, WIDE), gain(splits, best)
    told = [
        f"{WIDE}, which differs from the paper's Grid-DRS in its grid alone, has "
        f"{percent(wide.geometric)} of the {metric} of the strongest classical baseline (geometric "
        f"mean of {count} settings) and is below it in {wide.wins}; {named} with "
        f"{recipe} has {percent(whole.geometric)} and is below it in {whole.wins}."
    ]
    if whole.geometric < 1:
        # The three logarithms add up to that of the whole gain; one may be negative.
        steps = (wide, gain(splits, schedule, WIDE), gain(splits, best, schedule))
        shares = [math.log(step.geometric) / math.log(whole.geometric) for step in steps]
        if not any(step.limited for step in (*steps, whole)):
            edge, planned, fed = (percent(share, ".0f") for share in shares)
            told.append(
                f"Of that gain, in logarithms, the edge of the grid is {edge}, a schedule beyond "
                f"it {planned}, and feedback beyond the schedule {fed}."
            )
    depths = sorted({found.K for found in splits})
    parts = []
    for K in dict.fromkeys((depths[0], depths[-1])):
        at = [found for found in splits if found.K == K]
        over = gain(at, best, schedule)
        parts.append(f"{percent(over.geometric)} at K={K} (lower in {over.wins} of {len(at)})")
    told.append(f"Of the {metric} of the schedule, {named} has {joined(parts)}.")
    return told


def percent(value: float, spec: str = ".1f") -> str:
    return f"{100 * value:{spec}} %"


def joined(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
