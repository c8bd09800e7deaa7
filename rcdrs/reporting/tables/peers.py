"""The table of peers: every solver on every case, at equal accuracy and at its best."""

from __future__ import annotations

import math
from typing import Any

from rcdrs.artifact.config import Config
from rcdrs.reporting import peers
from rcdrs.reporting.formatting import SCIENTIFIC, Measured, Style, Value
from rcdrs.reporting.peers import BOTH, METRIC, RACES, WORDS, Case
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table, bold_best

#: The median error at which times are compared.
LEVEL = 1e-3
TIME, SHARE, COUNT = Style(".3g"), Style(".3f"), Style(".0f")
#: What is shown of the most accurate setting: the column, its style.
BEST = {f"{METRIC} {level}": SCIENTIFIC for level in ("median", "95 %", "worst")}
BEST |= {"Dist median": SCIENTIFIC, "Dist 95 %": SCIENTIFIC, "Dist worst": SCIENTIFIC}
GRADIENTS = {f"cosine in {part} {level}": SHARE for part in "bc" for level in ("median", "10 %")}
LOST, SPOILT, MEMORY = "lost", "one without a solution", "MB"


class Peers(Table):
    """A block for each case, a row for each solver that can express it."""

    @property
    def extra(self) -> bool:
        return True

    def cells(self, config: Config, results: Results) -> list[Cell]:
        cells = []
        for case in peers.cases(results.peers):
            timed, others = [], {}
            for solver in case.solvers:
                timed += _times(case, solver)
                others[solver] = _others(case, solver)
            rows: dict[str, list[Cell]] = {}
            for cell in bold_best(timed):
                rows.setdefault(cell.row, []).append(cell)
            cells += [cell for solver in rows for cell in rows[solver] + others[solver]]
        return cells

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        found = peers.cases(results.peers)
        told = {"level": f"{LEVEL:g}", "metric": METRIC, "reading": peers.reading(found, LEVEL)}
        columns = list(dict.fromkeys(cell.column for cell in cells))
        # On paper two tables, as one with every column could not be read.
        last = [column for column in columns if column.startswith(WORDS[BOTH])]
        last += [*GRADIENTS, MEMORY, SPOILT]
        told["backward"] = [column for column in columns if column in last]
        told["forward"] = [column for column in columns if column not in last]
        return told | {"versions": peers.versions(found), "unable": peers.unable(found)}


def _times(case: Case, solver: str) -> list[Cell]:
    cells = []
    # In a small run two races can be the same.
    for what, batch in dict.fromkeys((what, peers.race_of(case, what, n)) for what, n in RACES):
        ms = case.time(solver, what, batch, LEVEL)
        value = Measured(ms, None, TIME) if math.isfinite(ms) else None
        cells.append(
            Cell(solver, f"{WORDS[what]}, {batch}", value, case.label, metric=f"{what} ms")
        )
    return cells


def _others(case: Case, solver: str) -> list[Cell]:
    """At the setting of the lowest median error; and what one bad instance does."""
    medians = case.found(solver, f"{METRIC} median")
    best = float(medians.index[int(medians.argmin())]) if len(medians) else math.nan

    def at(what: str, style: Style) -> Value:
        values = case.found(solver, what)
        return Measured(float(values[best]), None, style) if best in values.index else None

    shown: dict[str, Value] = {name: at(name, style) for name, style in BEST.items()}
    shown |= {name: at(name, style) for name, style in GRADIENTS.items()}
    lost = [case.found(solver, what).get(best, math.nan) for what in ("without answer", "unsolved")]
    known = [count for count in lost if math.isfinite(count)]
    shown[LOST] = Measured(max(known), None, COUNT) if known else None
    shown[MEMORY] = _first(case, solver, "peak MB")
    shown[SPOILT] = _spoilt(case, solver)
    return [Cell(solver, name, value, case.label, metric=name) for name, value in shown.items()]


def _first(case: Case, solver: str, what: str) -> Value:
    values = case.found(solver, what)
    return Measured(float(values.iloc[0]), None, COUNT) if len(values) else None


def _spoilt(case: Case, solver: str) -> Value:
    """``others unchanged; PrimalInfeasible``, or ``raises for all``."""
    if len(case.found(solver, "one without a solution raises")):
        return "raises for all"
    same = case.found(solver, "others unchanged")
    if not len(same):
        return None
    says = case.note(solver, "status") or "no status"
    changed = "unchanged" if same.iloc[0] else case.note(solver, "others unchanged")
    again = case.found(solver, "the same again")
    varies = ", as without it" if len(again) and not again.iloc[0] and not same.iloc[0] else ""
    return f"others {changed}{varies}; {says}"
