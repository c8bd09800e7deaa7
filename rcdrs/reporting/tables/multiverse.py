"""The tables of the multiverse: RCDRS against the strongest, and ablations, in every reading."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rcdrs.artifact.config import Config
from rcdrs.reporting import multiverse
from rcdrs.reporting.care import LIMIT
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.formatting import FAMILIES, Amount
from rcdrs.reporting.multiverse import Effect
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, require_compared, spread
from rcdrs.reporting.tables.synthetic import ABLATED, Ablation

ALL = "all"


class Multiverse(Table):
    """The ratio in every setting, and its geometric mean, a row for each reading."""

    def effects(self, config: Config, results: Results) -> list[Effect]:
        for protocol in multiverse.protocols(config, "synthetic"):
            for reading in READINGS:
                require_compared(self.name, protocol.config, "paper", reading)
        return multiverse.effects(config, results)

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells = []
        for effect in self.effects(config, results):
            numbers = {
                f"{FAMILIES[c.family]} K={c.K}": (c.ratio, multiverse.behind(c))
                for c in effect.settings
            }
            numbers[ALL] = (effect.gain().geometric, effect.gain().keys)
            block = f"{effect.recipe}, {READINGS[effect.reading]}"
            for column, (value, keys) in numbers.items():
                where = (effect.protocol, column, Amount(100 * value, "percent"), block)
                cells.append(Cell(*where, metric=multiverse.METRIC, keys=keys))
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        found = self.effects(config, results)
        home = multiverse.protocols(config, "synthetic")[0].config
        families = [FAMILIES[family] for family in home.synthetic.families]
        told = {"metric": multiverse.METRIC, "families": families, "limit": f"{LIMIT:g}"}
        told |= {"depths": list(home.synthetic.depths), "spread": spread(home)}
        return told | {"limited": sum(effect.gain().limited for effect in found)}


class AblationScales(Table):
    """The ablations in every reading of the scale that they are of."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells, table = [], Ablation(self.name, full=True)
        for protocol in multiverse.protocols(config, "ablation"):
            scale = protocol.config.ablation.scale
            cells += [
                replace(cell, column=f"{scale} {cell.column}")
                for cell in table.cells(protocol.config, protocol.of(results))
            ]
        # Row by row: `layout` takes the cells of a row one after the other.
        order = {(cell.block, cell.row): number for number, cell in reversed([*enumerate(cells)])}
        return sorted(cells, key=lambda cell: order[cell.block, cell.row])

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        found = multiverse.protocols(config, "ablation")
        part = found[0].config.ablation
        return {
            "scales": [protocol.config.ablation.scale for protocol in found],
            "families": [FAMILIES[family] for family in part.families],
            "metrics": ABLATED,
            "depth": part.depth,
            "method": part.method,
            "spread": spread(found[0].config),
        }
