"""The few numbers at the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.latex import to_html
from rcdrs.reporting.report.verdicts import FAILS, HOLDS, NOISE, tally
from rcdrs.reporting.tables import values

ITEMS = ("Best RCDRS gap wins", "Mean gap ratio", "Median gap ratio")


@dataclass(frozen=True)
class Card:
    """A number, what it is, and what it is to be compared with."""

    label: str
    value: Markup
    beside: Markup


def cards(evidence: Evidence, ledger: pd.DataFrame | None) -> list[Card]:
    """The coverage summary in both recipes, and how many claims hold; what is there of them."""
    found = []
    summaries = {name: _summary(evidence, name) for name in ("coverage", "coverage_log_kkt")}
    ours, extended = summaries.values()
    for item in ITEMS:
        if item in ours:
            beside = Markup("paper {}").format(ours[item]["Paper"])
            if item in extended:
                beside += Markup(" · log_kkt {}").format(extended[item]["Ours"])
            found.append(Card(item, ours[item]["Ours"], beside))
    if ledger is not None:
        count = tally(ledger)
        others = f"{count.of(NOISE)} within seed noise · {count.of(FAILS)} do not hold"
        held = f"{count.of(HOLDS)}/{count.total}"
        found.append(Card("Claims that hold", Markup(held), Markup(escape(others))))
    return found


def _summary(evidence: Evidence, table: str) -> dict[str, dict[str, Markup]]:
    """Item -> column -> what the coverage table shows; empty before all of a seed is there."""
    rows, _ = evidence.behind(table)
    seeds = evidence.seeds(table)
    if not rows or not seeds:
        return {}
    cells = values(table, evidence.config | {"seeds": seeds}, evidence.frame(rows))
    found: dict[str, dict[str, Markup]] = {}
    for _, cell in cells.iterrows():
        found.setdefault(cell["row"], {})[cell["column"]] = to_html(cell["text"])
    return found
