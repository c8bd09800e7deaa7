"""What the paper leaves open, read otherwise: do its results depend on how it is read?

    effect = Gap of the better RCDRS variant / Gap of the strongest baseline
             for each reading of the protocol, recipe, and reading of "strongest"

A reading of the protocol is the configuration as it stands or one of its universes, each on the
cases and seeds that the universes have.  A result that a universe does not change is that of the
configuration as it stands: it is not computed again, and confirms nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from rcdrs.artifact.config import ROOT, Config, universe
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.reporting.care import Gain, joined, percent
from rcdrs.reporting.coverage import RCDRS, READINGS, Comparison, Reading, compare
from rcdrs.reporting.formatting import FAMILIES, TIE
from rcdrs.reporting.results import Results

#: The universes of each experiment that read it otherwise.
MULTIVERSE = {
    "synthetic": (
        "base_reference",
        "small_batch",
        "first_sampling",
        "one_magnitude",
        "tuned_baselines",
    ),
    "ablation": ("ablation_small", "ablation_hard"),
}
#: What the configuration as it stands is called among them.
HOME = "as configured"
METRIC = "Gap"


@dataclass(frozen=True)
class Protocol:
    """One reading of the protocol; `name` is that of a universe, or none."""

    name: str
    config: Config
    located: Callable[[Key], Key]

    @property
    def label(self) -> str:
        return self.name.replace("_", " ") or HOME

    def of(self, results: Results) -> Results:
        return results.within(self.located, self.config.seeds)


def protocols(config: Config, experiment: str) -> list[Protocol]:
    """The configuration on the cases and seeds of the universes, then those of them that the
    configuration has and that differ from all before."""
    plan = Plan(config, ROOT)
    names = [name for name in MULTIVERSE[experiment] if name in config.tabled]
    others = [universe(config, name) for name in names]
    home = config.but(universes={})
    if others:
        scales = others[0].synthetic.scales
        home = home.but(seeds=others[0].seeds, synthetic=home.synthetic.but(scales=scales))
    found = [Protocol("", home, lambda key: key)]
    for name, other in zip(names, others, strict=True):
        if all(other.plain() != one.config.plain() for one in found):
            found.append(Protocol(name, other, _located(plan, name)))
    return found


def _located(plan: Plan, name: str) -> Callable[[Key], Key]:
    def located(key: Key) -> Key:
        """In the universe, or at home where it is the same: a digest does not tell the case."""
        there = replace(key, universe=name)
        known = key.case in plan.experiments[key.experiment].cases
        return key if known and plan.digests(key) == plan.digests(there) else there

    return located


@dataclass(frozen=True)
class Effect:
    """RCDRS against the strongest, in every setting of one specification."""

    protocol: str
    recipe: str
    reading: Reading
    settings: tuple[Comparison, ...]

    def gain(self, family: str = "") -> Gain:
        """Over all settings, or those of a family."""
        chosen = [found for found in self.settings if family in ("", found.family)]
        keys = tuple(key for found in chosen for key in behind(found))
        return Gain(tuple(found.ratio for found in chosen), keys)

    @property
    def distinct(self) -> bool:
        """Whether it has a result that the configuration as it stands does not have."""
        return self.protocol == HOME or any(key.universe for key in self.gain().keys)


def behind(found: Comparison) -> tuple[Key, ...]:
    statistics = (*found.rcdrs.values(), *found.compared.values())
    return tuple(key for statistic in statistics for key in statistic.keys)


def recipes(config: Config) -> list[str]:
    """Those that both variants of RCDRS are trained with."""
    extended = set(RCDRS) <= set(config.synthetic.extended)
    return ["paper", "log_kkt"] if extended else ["paper"]


def effects(config: Config, results: Results) -> list[Effect]:
    """All specifications with results of their own."""
    found = []
    for recipe, reading in product(recipes(config), READINGS):
        for protocol in protocols(config, "synthetic"):
            settings = compare(protocol.config, protocol.of(results), METRIC, recipe, reading)
            found.append(Effect(protocol.label, recipe, reading, tuple(settings)))
    return [effect for effect in found if effect.distinct]


def reading(found: list[Effect]) -> list[str]:
    """How much of the effect depends on the reading, in words."""
    told, parts = [], []
    for recipe in dict.fromkeys(effect.recipe for effect in found):
        ranked = sorted((e for e in found if e.recipe == recipe), key=_size)
        ends = [f"{percent(_size(e))} ({e.protocol}, {READINGS[e.reading]})" for e in ranked]
        parts.append(
            f"with {recipe} RCDRS is ahead in {sum(_size(e) < 1 - TIE for e in ranked)} of "
            f"{len(ranked)} readings, from {ends[0]} to {ends[-1]}"
        )
    told.append(f"By the geometric mean over all settings, {joined(parts)}.")
    parts = []
    for family in dict.fromkeys(c.family for c in found[0].settings):
        won = sorted(effect.gain(family).wins for effect in found)
        span = " to ".join(map(str, dict.fromkeys((won[0], won[-1]))))
        count = len(found[0].gain(family).ratios)
        parts.append(f"{span} of {count} on {FAMILIES[family]}")
    told.append(f"Of single settings it wins, by reading, {joined(parts)}.")
    return told


def _size(effect: Effect) -> float:
    return effect.gain().geometric
