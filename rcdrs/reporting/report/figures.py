"""The figures over seed-level rows and over instances: error against depth, and tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from rcdrs.reporting.formatting import FAMILIES, LARGER_IS_BETTER
from rcdrs.reporting.report.drawing import Curve, legend, lines, look, name_of, ranges
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import BENCHMARKS, Block, Grid, number, text

#: A method with the recipe it was trained by.
Trained = tuple[str, str]
#: What is drawn against depth: the metrics, and the target that computes them.
DEPTH = {
    "synthetic": (("Gap", "Dist"), "table_settings"),
    "dfl": (("Regret", "Dist"), "table_dfl_k20"),
    "dispatch": (("CostGap", "Pass"), "table_dispatch_k15"),
    "portfolio": ((), "table_portfolio"),
    "opf": (("CostGap", "CostGap_away", "CostGap_warm", "Pass"), "table_grid"),
}
#: What the tail figures show of the instances: the name and the share of instances below.
QUANTILES = {"median": 0.5, "95 %": 0.95, "worst": 1.0}


@dataclass(frozen=True)
class Figure:
    """Drawings of one kind under a common title; `folded` ones open on a click."""

    name: str
    title: str
    note: str
    panels: list[Markup]
    legend: list[tuple[Markup, str]]
    folded: bool = False
    kind: str = "figure"


def against_depth(
    evidence: Evidence,
    experiment: str,
    name: str,
    title: str,
    cases: Sequence[tuple[str, str]] | None = None,
    only: set[Trained] | None = None,
    folded: bool = False,
    metrics: Sequence[str] = (),
) -> Figure | Missing:
    """Metrics against the number of steps, one panel for each metric and case (family, scale).

    The curve is the mean over the seeds, the band spans them.  `cases` and `only` name what is
    drawn, all by default, and `metrics` others than those of the experiment.
    """
    (usual, target), rows = DEPTH[experiment], evidence.rows
    metrics = metrics or usual
    if not rows.empty:
        rows = rows[rows["experiment"] == experiment]
        if only is not None:
            rows = rows[[pair in only for pair in zip(rows["method"], rows["recipe"], strict=True)]]
        # RCDRS last, so that it is drawn over the others.
        rows = rows.sort_values("method", key=lambda m: m.str.startswith("RCDRS"), kind="stable")
    groups = rows.groupby(["family", "scale"], sort=False) if len(rows) else ()
    found: dict[Any, pd.DataFrame] = dict(iter(groups))
    shown = [case for case in (cases or found) if case in found]
    if not shown:
        keys = [key for key in evidence.home if key.experiment == experiment]
        return evidence.missing(title, keys, target)
    drawn = [_depth_panel(found[case], metric, *case) for metric in metrics for case in shown]
    rows = pd.concat([found[case] for case in shown])
    methods = dict.fromkeys(zip(rows["method"], rows["recipe"], strict=True))
    note = "Curves are means over the seeds; the bands span them. Lower is better."
    if any(metric in LARGER_IS_BETTER for metric in metrics):
        note = note.replace("Lower is better", "Lower is better, except for Pass")
    if any(recipe != "paper" for _, recipe in methods):
        note += " Dashed: log_kkt."
    elif any("linestyle" in look(*trained) for trained in methods):
        note += " Dashed: frozen controller."
    styles = {name_of(*trained): look(*trained) for trained in methods}
    return Figure(name, title, note, drawn, legend(name, styles), folded)


def _depth_panel(rows: pd.DataFrame, metric: str, family: str, scale: str) -> Markup:
    curves = []
    for trained, part in rows.groupby(["method", "recipe"], sort=False):
        points = part.groupby("K")[metric].agg(["mean", "min", "max"])
        curves.append(Curve(name_of(*map(str, trained)), points, look(*map(str, trained))))
    label = f"{FAMILIES[family]} {scale}"
    if family in BENCHMARKS:
        label = BENCHMARKS[family] + (f", {scale}" if scale not in ("-", "") else "")
    depths = sorted(rows["K"].unique())
    told = "; ".join(f"{c.label} {c.y.iloc[0]:.2e} to {c.y.iloc[-1]:.2e}" for c in curves)
    alt = f"{metric} from K={depths[0]} to K={depths[-1]}: {told}."
    log = metric not in LARGER_IS_BETTER and any((c.y > 0).any() for c in curves)
    if log:  # an exact solution has no place on its axis
        curves = [c for c in curves if (c.y > 0).any()]
    name = metric.replace("_", ", ")
    return lines(f"{label}: {name}", curves, "steps K", name, alt, log, depths)


def tails(evidence: Evidence, metric: str = "Dist") -> list[Figure | Grid | Missing]:
    """Median, 95 % and worst over the test instances, at the deepest rollout."""
    part = evidence.config.synthetic
    depth, title = max(part.depths), f"Tails over instances: {metric}"
    drawn, table = [], []
    keys = [k for k in evidence.home if (k.experiment, k.K) == ("synthetic", depth)]
    # The hardest first: it is what the figure shows.
    for scale in reversed(part.scales):
        for family in part.families:
            chosen = [key for key in keys if key.case == f"{family}-{scale}"]
            levels = {
                trained: [float(np.quantile(values, q)) for q in QUANTILES.values()]
                for trained, values in evidence.details(chosen, metric).items()
            }
            benchmark = f"{FAMILIES[family]} {scale}"
            if levels and scale == part.scales[-1]:
                drawn.append(_tail_panel(f"{benchmark}, K = {depth}", levels, metric))
            table += [
                [text(benchmark), text(name_of(*trained))]
                + [number(value, ".2e") for value in level]
                + [number(level[-1] / level[0] if level[0] > 0 else float("inf"), ".1f")]
                for trained, level in levels.items()
            ]
    if not table:
        return [evidence.missing(title, keys, "table_settings")]
    note = (
        f"{metric} of single test instances, all seeds together: dot at the median, thick line to "
        "the 95 % quantile, thin line to the worst instance. A star marks log_kkt."
    )
    columns = ["Benchmark", "Method", *QUANTILES, "worst / median"]
    blocks, behind = [Block("", table)], f"{metric} over instances, K = {depth}"
    grid = Grid("tails", behind, "Every scale, sortable.", columns, blocks)
    return [Figure("tails-figure", title, note, drawn, []), grid]


def _tail_panel(title: str, levels: dict[Trained, list[float]], metric: str) -> Markup:
    # Recipes other than the paper's as a star: the label has to fit beside the axis.
    rows = {
        method + ("" if recipe == "paper" else "*"): (level, look(method)["color"])
        for (method, recipe), level in levels.items()
    }
    told = "; ".join(
        f"{name_of(*trained)} {', '.join(f'{value:.2e}' for value in level)}"
        for trained, level in levels.items()
    )
    return ranges(title, rows, metric, f"Median, 95 % quantile and worst instance: {told}.")
