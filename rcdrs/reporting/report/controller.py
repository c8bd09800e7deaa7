"""The figures of the learned controllers: their actions along the rollout, and their training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.plan import Plan
from rcdrs.reporting.coverage import RCDRS
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report.charts import Line, Look, lines, swatch
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.report.looks import look
from rcdrs.reporting.report.titles import recipe_name

#: Methods whose actions are drawn; a schedule has no spread over instances.
CONTROLLED = ("Layerwise-DRS", *RCDRS)
_SYMBOLS = {
    "alpha": "relaxation \N{GREEK SMALL LETTER ALPHA}",
    "beta": "objective drive \N{GREEK SMALL LETTER BETA}",
}


def traced(plan: Plan) -> list[str]:
    """The results that these figures are made of: the largest scale at the greatest depth."""
    part = plan.config["synthetic"]
    scale, depth = part["scales"][-1], max(part["depths"])
    return [
        f"traces/{family}-{scale}-{seed}-K{depth}.csv"
        for family in part["families"]
        for seed in plan.config["seeds"]
    ]


def actions(evidence: Evidence, recipe: str) -> Figure | Missing:
    """Alpha and beta step by step, of the layers trained with one recipe."""
    title = f"Actions along the rollout, {recipe_name(recipe)}"
    rows = _rows(evidence, recipe)
    if rows.empty:
        return evidence.missing(title, traced(evidence.plan), "report")
    panels = [
        _action_panel(rows[(rows.family == family) & (rows.series == series)], family, series)
        for series in _SYMBOLS
        for family in rows["family"].unique()
    ]
    note = (
        "Median over the test instances, band from the 5 % to the 95 % quantile, each averaged "
        "over the seeds. The dotted line is the fixed core that training starts from."
    )
    methods = [m for m in CONTROLLED if m in set(rows["method"])]
    return Figure(f"actions-{recipe}", title, note, panels, _solid_legend(methods))


def _action_panel(rows: pd.DataFrame, family: str, series: str) -> Markup:
    curves, log = [], series == "beta"
    base = rows[rows["step"] == 0]["middle"].mean()
    for method in (m for m in CONTROLLED if m in set(rows["method"])):
        chosen = rows[(rows["method"] == method) & (rows["step"] > 0)]
        steps = chosen.groupby("step")[["low", "middle", "high"]].mean()
        band = method in RCDRS
        curves.append(
            Line(
                method,
                [float(step) for step in steps.index],
                list(steps["middle"]),
                Look(look(method).css),
                list(steps["low"]) if band else None,
                list(steps["high"]) if band else None,
            )
        )
    depth = int(rows["step"].max())
    told = "; ".join(f"{c.label} from {c.y[0]:.3g} to {c.y[-1]:.3g}" for c in curves)
    alt = f"Median of {series} from step 1 to {depth}: {told}; the fixed core is {base:.3g}."
    title = f"{FAMILIES[family]} {rows['scale'].iloc[0]}, K = {depth}"
    ticks = [float(k) for k in range(0, depth + 1, max(1, depth // 4)) if k]
    return lines(title, curves, "step k", _SYMBOLS[series], alt, log, [1.0, *ticks], base)


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
        _curve_panel(part[part["family"] == family], family)
        for part in (rows[~own_scale], rows[own_scale])
        for family in part["family"].unique()
    ]
    note = (
        "Merit on the validation split after each epoch, mean over the seeds, which the band "
        "spans; epoch 0 is the untrained layer. The epoch of lowest merit is kept. Merits of "
        "different recipes do not compare."
    )
    methods = list(rows["method"].unique())
    return Figure(f"curves-{recipe}", title, note, panels, _solid_legend(methods))


def _curve_panel(rows: pd.DataFrame, family: str) -> Markup:
    drawn = []
    for method in rows["method"].unique():
        epochs = rows[rows["method"] == method].groupby("step")["middle"]
        bounds = epochs.agg(["mean", "min", "max"])
        drawn.append(
            Line(
                method,
                [float(epoch) for epoch in bounds.index],
                list(bounds["mean"]),
                Look(look(method).css),
                list(bounds["min"]),
                list(bounds["max"]),
            )
        )
    log = all(y > 0 for line in drawn for y in line.y)
    told = "; ".join(f"{s.label} from {s.y[0]:.3g} to {_best(s.y):.3g}" for s in drawn)
    title = f"{FAMILIES[family]} {rows['scale'].iloc[0]}, K = {rows['K'].iloc[0]}"
    alt = f"Validation merit, untrained and at its lowest: {told}."
    return lines(title, drawn, "epoch", "validation merit", alt, log)


def _best(values: Sequence[float]) -> float:
    return min(value for value in values if not math.isnan(value))


def _rows(evidence: Evidence, recipe: str) -> pd.DataFrame:
    frame = evidence.frame(traced(evidence.plan))
    return frame if frame.empty else frame[frame["recipe"] == recipe]


def _solid_legend(methods: list[str]) -> list[tuple[Markup, str]]:
    """All curves of such a figure are of one recipe, and none is dashed."""
    return [(swatch(Look(look(m).css)), m) for m in methods]
