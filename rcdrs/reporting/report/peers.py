"""The section of peers: median error against time, for each case and each way of use."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from rcdrs.reporting import peers
from rcdrs.reporting.peers import LEVELS, METRIC, RACES, WORDS, Case
from rcdrs.reporting.render import HTML
from rcdrs.reporting.report.drawing import Curve, legend, lines, look
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.report.grids import Block, Datum, Grid, number, text

NAME, TITLE = "peers", "Accuracy against time, beside other solvers and layers"


def figure(evidence: Evidence) -> Figure:
    found = peers.cases(evidence.measured)
    note = [
        "A mark is a setting: a tolerance, or of our layers and of pinet a number of steps. Times "
        "are those of a whole batch on one core; only marks at one height compare.",
        *(f"{line}." for line in peers.unable(found)),
    ]
    drawn = [_panel(case, what, size) for case in found for what, size in RACES]
    styles = {solver: look(solver) for case in found for solver in case.solvers}
    panels = [panel for panel in drawn if panel is not None]
    return Figure(NAME, TITLE, " ".join(note), panels, legend(NAME, styles))


def ratios(evidence: Evidence) -> Grid:
    """How many times faster ours is at equal median error, and down to which."""
    blocks = []
    for case in peers.cases(evidence.measured):
        block = Block(case.label)
        for what, size in RACES:
            batch = peers.race_of(case, what, size)
            row = [text(f"{WORDS[what]}, {batch}")]
            for level in LEVELS:
                one = peers.lead(case, what, batch, level)
                row.append(text("") if one is None else _told(one))
            ends = case.crossing(what, batch)
            row.append(text("never") if math.isnan(ends) else number(ends, ".1e"))
            block.rows.append(row)
        blocks.append(block)
    columns = ["Use", *(f"at {HTML.number(level, '.0e')}" for level in LEVELS), "ahead down to"]
    note = (
        "Time of the fastest peer over that of our fastest layer, where both have the median "
        f"{METRIC} of the column: above 1 ours is faster. Empty where one of them does not get "
        f"there. Last: the smallest median {METRIC} of ours at which no peer is faster."
    )
    return Grid("peers-ratios", "How many times faster, at equal accuracy", note, columns, blocks)


def _told(lead: peers.Lead) -> Datum:
    html = Markup('{}<span class="names">{}, {}</span>').format(lead.words, lead.ours, lead.peer)
    return Datum(html, lead.ratio, "number")


def _panel(case: Case, what: str, size: int) -> Markup | None:
    batch, curves = peers.race_of(case, what, size), []
    for solver in case.solvers:
        points = case.curve(solver, what, batch)
        if points:
            frame = pd.DataFrame({METRIC: [p.error for p in points]}, [p.ms for p in points])
            curves.append(Curve(solver, frame, look(solver)))
    if not curves:
        return None
    told = "; ".join(
        f"{c.label} {c.y.iloc[0]:.2e} in {c.points.index[0]:.3g} ms to {c.y.iloc[-1]:.2e} in "
        f"{c.points.index[-1]:.3g} ms"
        for c in curves
    )
    title = f"{case.label}: {WORDS[what]}, {batch}"
    return lines(title, curves, "ms", f"median {METRIC}", f"{told}.", log_x=True)
