"""The figures of the learned controllers: their actions along the rollout, and their training."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.reporting.coverage import RCDRS
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report.drawing import Curve, legend, lines, plain
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.report.titles import recipe_name

#: Methods whose actions are drawn; a schedule has no spread over instances.
CONTROLLED = ("Layerwise-DRS", *RCDRS)
_SYMBOLS = {
    "alpha": "relaxation \N{GREEK SMALL LETTER ALPHA}",
    "beta": "objective drive \N{GREEK SMALL LETTER BETA}",
}


def traced(plan: Plan) -> list[Key]:
    """The results that these figures are made of: the largest scale at the greatest depth."""
    part = plan.config.synthetic
    return [
        plan.key("traces", f"{family}-{part.scales[-1]}", seed, K=max(part.depths))
        for family in part.families
        for seed in plan.config.seeds
    ]


def actions(evidence: Evidence, recipe: str) -> Figure | Missing:
    """Alpha and beta step by step, of the layers trained with one recipe."""
    title = f"Actions along the rollout, {recipe_name(recipe)}"
    rows = _rows(evidence, recipe)
    if rows.empty:
        return evidence.missing(title, traced(evidence.plan), "report")
    panels = [
        _action_panel(rows[(rows.family == family) & (rows.series == series)], series)
        for series in _SYMBOLS
        for family in rows["family"].unique()
    ]
    note = (
        "Median over the test instances, band from the 5 % to the 95 % quantile, each averaged "
        "over the seeds. The dotted line is the fixed core that training starts from."
    )
    name, shown = f"actions-{recipe}", set(rows["method"])
    keys = legend(name, {method: plain(method) for method in CONTROLLED if method in shown})
    return Figure(name, title, note, panels, keys)


def _action_panel(rows: pd.DataFrame, series: str) -> Markup:
    curves, base = [], rows[rows["step"] == 0]["middle"].mean()
    for method in (m for m in CONTROLLED if m in set(rows["method"])):
        chosen = rows[(rows["method"] == method) & (rows["step"] > 0)]
        columns = ["middle", "low", "high"] if method in RCDRS else ["middle"]
        curves.append(Curve(method, chosen.groupby("step")[columns].mean(), plain(method)))
    depth = int(rows["step"].max())
    told = "; ".join(f"{c.label} from {c.y.iloc[0]:.3g} to {c.y.iloc[-1]:.3g}" for c in curves)
    alt = f"Median of {series} from step 1 to {depth}: {told}; the fixed core is {base:.3g}."
    ticks = [1, *range(max(1, depth // 4), depth + 1, max(1, depth // 4))]
    log = series == "beta"
    return lines(_title(rows), curves, "step k", _SYMBOLS[series], alt, log, ticks, base)


def curves(evidence: Evidence, recipe: str) -> Figure | Missing:
    """Validation merit against the epoch."""
    title = f"Training curves, {recipe_name(recipe)}"
    rows = _rows(evidence, recipe)
    rows = rows if rows.empty else rows[rows["series"] == "merit"]
    if rows.empty:
        return evidence.missing(title, traced(evidence.plan), "report")
    # The merit of L-PDHG is orders of magnitude above the others': it has panels of its own.
    own_scale = rows["method"] == "L-PDHG"
    panels = [
        _curve_panel(part[part["family"] == family])
        for part in (rows[~own_scale], rows[own_scale])
        for family in part["family"].unique()
    ]
    note = (
        "Merit on the validation split after each epoch, mean over the seeds, which the band "
        "spans; epoch 0 is the untrained layer. The epoch of lowest merit is kept. Merits of "
        "different recipes do not compare."
    )
    name = f"curves-{recipe}"
    keys = legend(name, {method: plain(method) for method in rows["method"].unique()})
    return Figure(name, title, note, panels, keys)


def _curve_panel(rows: pd.DataFrame) -> Markup:
    drawn = []
    for method in rows["method"].unique():
        epochs = rows[rows["method"] == method].groupby("step")["middle"]
        drawn.append(Curve(method, epochs.agg(["mean", "min", "max"]), plain(method)))
    log = all((c.y > 0).all() for c in drawn)
    told = "; ".join(f"{c.label} from {c.y.iloc[0]:.3g} to {c.y.min():.3g}" for c in drawn)
    alt = f"Validation merit, untrained and at its lowest: {told}."
    return lines(_title(rows), drawn, "epoch", "validation merit", alt, log)


def _title(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{FAMILIES[first['family']]} {first['scale']}, K = {first['K']}"


def _rows(evidence: Evidence, recipe: str) -> pd.DataFrame:
    frame = evidence.frame(traced(evidence.plan))
    return frame if frame.empty else frame[frame["recipe"] == recipe]
