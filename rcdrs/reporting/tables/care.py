"""The tables of equal care: the paper's gain split, the hard cases, and errors at equal time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from rcdrs.artifact.config import Config, universe
from rcdrs.reporting import care, equal_time
from rcdrs.reporting.care import CLASSICAL, FAIR, RECIPES, WIDE, Split
from rcdrs.reporting.formatting import FAMILIES, SCIENTIFIC, Amount
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, bold_best, measured, require, spread

#: What the hard cases are shown by, and at which depths.
SHOWN = ("Gap", "r_p", "r_d", "r_gap", "Dist")
DEPTHS = (5, 20)
#: In a column for every depth, and one for all.
ALL = "all K"


@dataclass(frozen=True)
class Care(Table):
    """Ratios of one metric over every setting, as geometric means and wins."""

    metric: str

    def splits(self, config: Config, results: Results) -> list[Split]:
        within = universe(config, FAIR)
        require(self.name, within, methods=["Grid-DRS"])
        if not care.classical(config):
            raise ValueError(
                f"table {self.name} compares with classical baselines, but synthetic.methods of "
                "the configuration has none: add one there (workflow/config/), or leave the table "
                "out."
            )
        return care.split(config, results, self.metric)

    def cells(self, config: Config, results: Results) -> list[Cell]:
        splits, cells = self.splits(config, results), []
        columns = {f"K={K}": [s for s in splits if s.K == K] for K in _depths(splits)}
        columns[ALL] = splits
        for over, label in product((CLASSICAL, WIDE), care.contenders(config)):
            if over == label:
                continue
            for column, chosen in columns.items():
                found, count = care.gain(chosen, label, over), f"of {len(chosen)}"
                numbers = {
                    column: Amount(100 * found.geometric, "percent"),
                    f"{column} wins": Amount(found.wins, count),
                }
                if column == ALL:
                    numbers["Mean"] = Amount(100 * found.mean, "percent")
                cells += [
                    Cell(label, name, amount, f"over {over}", metric=self.metric, keys=found.keys)
                    for name, amount in numbers.items()
                ]
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        splits = self.splits(config, results)
        pairs = product(care.contenders(config), (CLASSICAL, WIDE))
        limited = sum(care.gain(splits, *pair).limited for pair in pairs)
        within = universe(config, FAIR)
        shown = {"metric": self.metric, "count": len(splits), "depths": _depths(splits)}
        told = {"limit": f"{care.LIMIT:g}", "limited": limited, "averaged": _averaged(within.seeds)}
        return shown | told | _chosen(within.synthetic.chosen)


def _averaged(seeds: Sequence[int]) -> str:
    """What a ratio is of."""
    return f"averages over {len(seeds)} seeds" if len(seeds) > 1 else f"values of seed {seeds[0]}"


def _chosen(found: dict[str, str]) -> dict[str, Any]:
    """The feedback variants chosen on validation data, in words."""
    named = [f"{method} with {recipe}" for recipe, method in found.items()]
    return {"chosen": care.joined(named) if named else ""}


def _depths(splits: list[Split]) -> list[int]:
    return sorted({found.K for found in splits})


class CareHard(Table):
    """Every method of equal care with both losses on the hard cases, with more seeds."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        part = universe(config, FAIR).synthetic
        require(self.name, universe(config, FAIR), scales=["hard"], depths=DEPTHS)
        summed = (care.CHOSEN, care.BEST)  # of rows that stand here already
        rows = {
            label: runs[0]
            for label, runs in care.contenders(config).items()
            if len(runs) == 1 and runs[0][2] == FAIR and not label.startswith(summed)
        }
        cells = []
        for family, K in product(part.families, DEPTHS):
            block = []
            for (label, (method, recipe, within)), metric in product(rows.items(), SHOWN):
                setting = (family, "hard", K, method, recipe)
                found = results.statistic(
                    metric, *setting, universe=within, seeds=config.synthetic.hard_seeds
                )
                where = f"{FAMILIES[family]}, K={K}"
                block.append(measured(label, metric, found, SCIENTIFIC, where))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        seeds = config.but(seeds=config.synthetic.hard_seeds)
        return {"metrics": SHOWN, "spread": spread(seeds), "recipes": RECIPES}


class EqualTime(Table):
    """The controllers against Wide-DRS given the same time: settings where they are no worse, and
    the geometric mean of the ratio of errors."""

    detailed = True

    def cells(self, config: Config, results: Results) -> list[Cell]:
        found, cells = equal_time.races(config, results), []
        blocks = {
            FAMILIES[family]: [race for race in found if race.family == family]
            for family in dict.fromkeys(race.family for race in found)
        }
        blocks["All"] = found
        for block, races in blocks.items():
            for row, level in product(races[0].ratios, equal_time.LEVELS):
                points = [point for race in races for point in race.behind[row]]
                keys = tuple(dict.fromkeys(point.key for point in points))
                won = Amount(len(equal_time.no_worse(races, row, level)), f"of {len(races)}")
                error = Amount(100 * equal_time.gain(races, row, level).geometric, "percent")
                cells += [
                    Cell(row, column, value, block, metric=equal_time.METRIC, keys=keys)
                    for column, value in ((f"{level} no worse", won), (f"{level} ratio", error))
                ]
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        found = equal_time.races(config, results)
        timed = {p.timed for race in found for points in race.behind.values() for p in points}
        chosen = universe(config, FAIR).synthetic.timely
        told: dict[str, Any] = {"device": results.device(timed)} | _chosen(chosen)
        told["reading"] = " ".join(equal_time.reading(found))
        return told | {"levels": list(equal_time.LEVELS), "recipe": equal_time.RECIPE}
