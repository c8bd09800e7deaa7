"""The few numbers at the top of the page."""

from __future__ import annotations

from collections import Counter

import pandas as pd
from markupsafe import Markup

from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.render import HTML
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.verdicts import FAILS, HOLDS, NOISE
from rcdrs.reporting.tables import values

ITEMS = ("Best RCDRS gap wins", "Mean gap ratio", "Median gap ratio")


def cards(evidence: Evidence, ledger: pd.DataFrame | None) -> list[tuple[str, str, str]]:
    """The coverage summary in both recipes and readings, and how many claims hold; what is there
    of them.

    Of each: what it is, the number, and what it is to be compared with.
    """
    found: list[tuple[str, str, str]] = []
    summaries = {name: _summary(evidence, name) for name in ("coverage", "coverage_log_kkt")}
    ours, extended = summaries.values()
    for item in ITEMS:
        if item in ours:
            classical, every = (f"Ours, {reading}" for reading in READINGS)
            first = Markup("paper {}").format(ours[item]["Paper"])
            second = Markup("over every method {}").format(ours[item][every])
            if item in extended:
                first += Markup(" · log_kkt {}").format(extended[item][classical])
                second += Markup(" · log_kkt {}").format(extended[item][every])
            beside = Markup("{}<br>{}").format(first, second)
            found.append((f"{item}, classical", ours[item][classical], beside))
    if ledger is not None:
        count = Counter(ledger["verdict"])
        others = f"{count[NOISE]} within seed noise · {count[FAILS]} do not hold"
        found.append(("Claims that hold", f"{count[HOLDS]}/{len(ledger)}", others))
    return found


def _summary(evidence: Evidence, table: str) -> dict[str, dict[str, Markup]]:
    """Item -> column -> what the coverage table shows; empty before all of a seed is there."""
    seeds = evidence.seeds(table)
    if not evidence.behind(table) or not seeds:
        return {}
    results = evidence.of(table, seeds)
    found: dict[str, dict[str, Markup]] = {}
    for cell in values(table, evidence.config.but(seeds=seeds), results):
        found.setdefault(cell.row, {})[cell.column] = Markup(cell.show(HTML))
    return found
