"""The section of peers: median error against time, for each case and each way of use."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from rcdrs.reporting import peers
from rcdrs.reporting.peers import METRIC, RACES, WORDS, Case
from rcdrs.reporting.report.drawing import Curve, legend, lines, look
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.figures import Figure

NAME, TITLE = "peers", "Accuracy against time, beside other solvers and layers"


def figure(evidence: Evidence) -> Figure:
    found = peers.cases(evidence.measured)
    note = [
        *peers.reading(found),
        "A mark is a setting: a tolerance, or of our layers and of pinet a number of steps. Times "
        "are those of a whole batch on one core; only marks at one height compare.",
        *(f"{line}." for line in peers.unable(found)),
    ]
    drawn = [_panel(case, what, size) for case in found for what, size in RACES]
    styles = {solver: look(solver) for case in found for solver in case.solvers}
    panels = [panel for panel in drawn if panel is not None]
    return Figure(NAME, TITLE, " ".join(note), panels, legend(NAME, styles))


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
