"""The tables of other data and of other depths."""

from __future__ import annotations

from itertools import product
from typing import Any

from rcdrs.artifact.config import Config, universe
from rcdrs.reporting import shifts
from rcdrs.reporting.care import FAIR, LIMIT
from rcdrs.reporting.formatting import FAMILIES, SCIENTIFIC, Amount, Measured
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, bold_best, require
from rcdrs.reporting.tables.care import DEPTHS


class Shifts(Table):
    """Layers of home on other data, over Wide-DRS tuned there, whose own Gap stands first."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        _check(self.name, config, results)
        require(self.name, universe(config, FAIR), depths=DEPTHS)
        cells = []
        for K, target in product(reversed(DEPTHS), shifts.data_targets(config)):
            place, there = f"K={K}", shifts.reference(K)
            found = shifts.on_target(config, results, there, target)
            level = Measured(shifts.level(found), None, SCIENTIFIC)
            cells.append(
                Cell(target, there.label, level, place, metric=shifts.METRIC, keys=found.keys)
            )
            for solver in shifts.solvers(config, K):
                if solver != there:
                    gain = shifts.gain(config, results, solver, target)
                    share = Amount(100 * gain.geometric, "percent")
                    where = (target, solver.label, share, place)
                    cells.append(Cell(*where, metric=shifts.METRIC, keys=gain.keys))
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        columns = list(dict.fromkeys(cell.column for cell in cells))
        pairs = [
            (solver, target)
            for K, target in product(DEPTHS, shifts.data_targets(config))
            for solver in shifts.solvers(config, K)
        ]
        limited = sum(shifts.gain(config, results, *pair).limited for pair in pairs)
        told = {"metric": shifts.METRIC, "columns": columns, "recipe": shifts.RECIPE}
        told |= {"families": [FAMILIES[family] for family in shifts.families(config)]}
        return told | {"limit": f"{LIMIT:g}", "limited": limited, "seed": _seed(cells)}


class Depths(Table):
    """The median error of layers that run for other numbers of steps than they were trained for."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        _check(self.name, config, results)
        part, cells = universe(config, FAIR).synthetic, []
        require(self.name, universe(config, shifts.ANY), depths=part.depths)
        for family in shifts.families(config):
            block = []
            for label, solvers in shifts.deepened(config).items():
                # Wide-DRS is tuned for each depth: its rows are one.
                tuned = [{s.K: s for s in solvers}] if label == shifts.WIDE else []
                rows = tuned or [dict.fromkeys(part.depths, solver) for solver in solvers]
                for row, K in product(rows, part.depths):
                    found = shifts.median(config, results, row[K], family, K)
                    value = Measured(found.mean, None, SCIENTIFIC)
                    where = (row[K].label, f"K={K}", value, FAMILIES[family])
                    block.append(Cell(*where, metric=found.metric, keys=found.keys))
            cells += bold_best(block)
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        depths = list(dict.fromkeys(cell.column for cell in cells))
        return {"columns": depths, "recipe": shifts.RECIPE, "seed": _seed(cells)}


def _check(name: str, config: Config, results: Results) -> None:
    fair = universe(config, FAIR)
    require(name, fair, scales=[shifts.SCALE])
    require(
        name, universe(config, shifts.ANY), scales=[shifts.SCALE], families=fair.synthetic.families
    )
    shifts.check_targets(config, results)


def _seed(cells: list[Cell]) -> int:
    return cells[0].keys[0].seed
