"""The figures of other data and of other readings of the protocol."""

from __future__ import annotations

import pandas as pd

from rcdrs.artifact.config import Config
from rcdrs.reporting import multiverse, shifts
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report.care import from_table
from rcdrs.reporting.report.drawing import Curve, dots, legend, lines, look, specification
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.care import DEPTHS

OTHER, DEEPER = "On other data than their own", "For other depths than their own"
OTHERWISE = "Does it depend on the reading?"


def other_data(config: Config, results: Results) -> Figure:
    """The Gap of every solver over that of Wide-DRS tuned there, a panel for each depth."""
    deepest = max(DEPTHS)
    shown = [
        *shifts.reading(config, results, deepest),
        f"Each mark is the {shifts.METRIC} over that of Wide-DRS tuned on the other data, as a "
        "geometric mean over families: left of the line is better than a constant tuned there.",
    ]
    columns = [s for s in shifts.solvers(config, deepest) if s != shifts.reference(deepest)]
    styles = {s.label: look(shifts.WIDE if s.method == "Grid-DRS" else s.method) for s in columns}
    for solver in columns:
        if solver.tuned == shifts.THERE:  # not of home: hollow
            styles[solver.label] |= {"markerfacecolor": "none"}
    panels = []
    for K in reversed(DEPTHS):
        rows = {
            target: {
                solver.label: shifts.gain(config, results, solver, target).geometric
                for solver in shifts.solvers(config, K)
                if solver != shifts.reference(K)
            }
            for target in shifts.data_targets(config)
        }
        panels.append(dots(f"Hard benchmarks, K = {K}", rows, styles, f"{shifts.METRIC} ratio"))
    marks = {label: style | {"linestyle": "none"} for label, style in styles.items()}
    return Figure("other-data", OTHER, " ".join(shown), panels, legend("other-data", marks))


def other_depths(config: Config, results: Results) -> Figure:
    """The median error of the deepest layer and of one for any depth, against the steps it runs."""
    rows = shifts.deepened(config)
    shown = {shifts.WIDE: (rows.pop(shifts.WIDE), look(shifts.WIDE))}
    for solvers in rows.values():
        last = solvers[-1]
        trained = "log_kkt" if last.within == shifts.ANY else "paper"  # dashed
        shown[last.label] = ([last], look(last.method, trained))
    note = [
        *shifts.depth_reading(config, results),
        "Each panel: the median of Dist over test instances of layers trained for the deepest "
        "rollout, and dashed of those trained over random depths; Wide-DRS is tuned for each.",
    ]
    depths, panels = [solver.K for solver in shown[shifts.WIDE][0]], []
    for family in shifts.families(config):
        curves = []
        for label, (solvers, style) in shown.items():
            each = solvers if label == shifts.WIDE else solvers * len(depths)
            at = dict(zip(depths, each, strict=True))
            values = [shifts.median(config, results, at[K], family, K).mean for K in depths]
            curves.append(Curve(label, pd.DataFrame({"median": values}, depths), style))
        told = "; ".join(f"{c.label} {c.y.iloc[0]:.2e} to {c.y.iloc[-1]:.2e}" for c in curves)
        alt = f"Median Dist from K={depths[0]} to K={depths[-1]}: {told}."
        title = f"{FAMILIES[family]} {shifts.SCALE}: Dist"
        panels.append(lines(title, curves, "steps K", "median Dist", alt, x_ticks=depths))
    styles = {label: style for label, (_, style) in shown.items()}
    return Figure("other-depths", DEEPER, " ".join(note), panels, legend("other-depths", styles))


def specifications(config: Config, results: Results) -> Figure:
    """The effect in every reading, sorted, and the choices behind each; a panel for each family."""
    found = multiverse.effects(config, results)
    chosen = [(e.protocol, e.recipe, READINGS[e.reading]) for e in found]
    columns = zip(*chosen, strict=True)
    choices = [choice for column in columns for choice in dict.fromkeys(column)]
    shown = [
        *multiverse.reading(found),
        f"Each dot is one reading: the {multiverse.METRIC} of the better RCDRS variant over that "
        "of the strongest baseline, as a geometric mean over depths. Below it: the reading of the "
        "protocol, the recipe, and the methods compared with. Readings that change no result are "
        "left out.",
    ]
    panels = [
        specification(
            FAMILIES[family],
            [(e.gain(family).geometric, c) for e, c in zip(found, chosen, strict=True)],
            choices,
            f"{multiverse.METRIC} ratio",
        )
        for family in dict.fromkeys(c.family for c in found[0].settings)
    ]
    return Figure("specifications", OTHERWISE, " ".join(shown), panels, [])


depths = from_table("depths", DEEPER, other_depths)
#: The sections of the page that are about these: what the tables begin with, and the figure.
SECTIONS = {
    "shifts": from_table("shifts", OTHER, other_data),
    "multiverse": from_table("multiverse", OTHERWISE, specifications),
}
