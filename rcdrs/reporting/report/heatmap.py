"""Every synthetic setting at a glance: the better RCDRS variant against the strongest baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rcdrs.reporting.coverage import READINGS, Comparison, Reading, compare
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.titles import recipe_name
from rcdrs.reporting.results import Results
from rcdrs.reporting.statistics import AHEAD, BEHIND, Paired, versus

#: Upper ends of the classes of a ratio; the colours of the style sheet are h0, h1, ...
CLASSES = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0)
LABELS = ("≤ 10 %", "≤ 25 %", "≤ 50 %", "≤ 80 %", "< 100 %", "≤ 125 %", "≤ 200 %", "> 200 %")


@dataclass(frozen=True)
class Tile:
    """One setting; `noise` says that the lead, or the lag, may be one of chance."""

    text: str
    css: str
    told: str
    noise: bool = False


@dataclass(frozen=True)
class HeatMap:
    """Cases down, depths across."""

    name: str
    title: str
    note: str
    depths: list[int]
    rows: list[tuple[str, list[Tile]]]
    labels: tuple[str, ...] = LABELS
    kind: str = "heatmap"


#: A setting's comparison, and how sure it is.
Found = tuple[Comparison, Paired]


def heat_map(
    evidence: Evidence, recipe: str, reading: Reading, metric: str = "Gap"
) -> HeatMap | Missing:
    """The ratios of one recipe of RCDRS, with the seeds that are there in each setting."""
    part = evidence.config.synthetic
    strongest = f"strongest {READINGS[reading]}"
    title = f"{metric} ratio to the {strongest}, {recipe_name(recipe)}"
    rows, found = [], []
    for family in part.families:
        for scale in part.scales:
            where = [(family, scale, K) for K in part.depths]
            line = [_compared(evidence, recipe, reading, metric, *place) for place in where]
            found += [pair for pair in line if pair]
            rows.append((f"{FAMILIES[family]} {scale}", [_tile(pair) for pair in line]))
    if not found:
        keys = [key for key in evidence.home if key.experiment == "synthetic"]
        return evidence.missing(title, keys, "table_settings")
    wins = sum(comparison.ratio < 1 for comparison, _ in found)
    sure = sum(pair.call == AHEAD for _, pair in found)
    count = len(rows) * len(part.depths)
    note = (
        f"Seed-averaged {metric} of the better RCDRS variant, in percent of the {strongest}'s; "
        f"below 100 RCDRS wins. It wins {wins} of {len(found)} settings, {sure} of them "
        "clearly; a tilde marks a difference within the noise of instances and seeds."
    )
    if len(found) < count:
        note += f" {count - len(found)} of {count} settings are not computed yet."
    return HeatMap(f"heat-{recipe}-{reading}", title, note, list(part.depths), rows)


def _compared(
    evidence: Evidence, recipe: str, reading: Reading, metric: str, family: str, scale: str, K: int
) -> Found | None:
    """The comparison in one setting, over the seeds that are there."""
    part = evidence.config.synthetic.but(families=[family], scales=[scale], depths=[K])
    where = ("synthetic", f"{family}-{scale}", K)
    keys = [
        key
        for key in evidence.home
        if (key.experiment, key.case, key.K) == where and key.recipe in ("paper", recipe)
    ]
    missing = {key.seed for key in keys if not evidence.path(key)}
    seeds = [seed for seed in evidence.config.seeds if seed not in missing]
    if not keys or not seeds:
        return None
    results = Results(evidence.frame(key for key in keys if key.seed in seeds), None, seeds)
    try:
        config = evidence.config.but(synthetic=part)
        found = compare(config, results, metric, recipe, reading)[0]
    except ValueError:  # a run without this recipe
        return None
    return found, versus(found.better, found.strongest, evidence.instances)


def _tile(found: Found | None) -> Tile:
    if found is None:
        return Tile("·", "none", "not computed yet")
    comparison, pair = found
    ratio, strongest = comparison.ratio, comparison.strongest
    told = (
        f"{comparison.better.method} {comparison.better.mean:.2e}, "
        f"{strongest.method} {strongest.mean:.2e}; ratio {pair}; "
        f"{len(pair.seeds)} seeds: {pair.call}"
    )
    number = sum(ratio > limit or ratio == limit == 1 for limit in CLASSES)  # a tie is no win
    text = "∞" if math.isinf(ratio) else f"{100 * ratio:.{0 if ratio >= 1 else 1}f}"
    return Tile(text, f"h{number}", told, noise=pair.call not in (AHEAD, BEHIND))
