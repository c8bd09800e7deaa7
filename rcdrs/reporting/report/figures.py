"""The figures over seed-level rows and over instances: error against depth, and tails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from rcdrs.reporting.formatting import FAMILIES, LARGER_IS_BETTER
from rcdrs.reporting.report.charts import Line, Look, Range, lines, ranges, swatch
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import Datum, Grid, number, plain_grid, text
from rcdrs.reporting.report.looks import look, name_of

#: A method with the recipe it was trained by.
Trained = tuple[str, str]
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


def legend(methods: Iterable[Trained]) -> list[tuple[Markup, str]]:
    return [(swatch(look(*trained)), name_of(*trained)) for trained in methods]


def against_depth(
    evidence: Evidence,
    experiment: str,
    metrics: Sequence[str],
    panels: Sequence[tuple[str, str, str]],
    name: str,
    title: str,
    target: str,
    only: set[Trained] | None = None,
    folded: bool = False,
) -> Figure | Missing:
    """Metrics against the number of steps, one panel for each (family, scale, label) and metric.

    The curve is the mean over the seeds, the band spans them.  `only` names what is drawn, all by
    default.
    """
    rows = evidence.rows
    if not rows.empty:
        rows = rows[rows["experiment"] == experiment]
        if only is not None:
            trained = zip(rows["method"], rows["recipe"], strict=True)
            rows = rows[[pair in only for pair in trained]]
    drawn, methods = [], dict[Trained, None]()
    for metric in metrics:
        for family, scale, label in panels:
            chosen = rows if rows.empty else rows[(rows.family == family) & (rows.scale == scale)]
            if not chosen.empty and metric in chosen:
                drawn.append(_depth_panel(chosen, metric, label))
                methods |= dict.fromkeys(_trained(chosen))
    if not drawn:
        names = [n for n in evidence.results if n.startswith(f"{experiment}/")]
        return evidence.missing(title, names, target)
    note = "Curves are means over the seeds; the bands span them. Lower is better."
    if any(metric in LARGER_IS_BETTER for metric in metrics):
        note = note.replace("Lower is better", "Lower is better, except for Pass")
    if any(recipe != "paper" for _, recipe in methods):
        note += " Dashed: log_kkt."
    elif any(look(*trained).dashed for trained in methods):
        note += " Dashed: frozen controller."
    return Figure(name, title, note, drawn, legend(methods), folded)


def _depth_panel(rows: pd.DataFrame, metric: str, label: str) -> Markup:
    series, depths = [], sorted(int(K) for K in rows["K"].unique())
    for trained in _trained(rows):
        chosen = _of(rows, trained).groupby("K")[metric]
        mean, low, high = chosen.mean(), chosen.min(), chosen.max()
        series.append(
            Line(
                name_of(*trained),
                [float(K) for K in mean.index],
                list(mean),
                look(*trained),
                list(low),
                list(high),
            )
        )
    title = f"{label}: {metric}"
    log = metric not in LARGER_IS_BETTER and any(y > 0 for s in series for y in s.y)
    return lines(title, series, "steps K", metric, _told(series, metric), log, depths)


def _told(series: Sequence[Line], metric: str) -> str:
    """What a panel shows, in words: first and last value of every curve."""
    curves = "; ".join(f"{s.label} {s.y[0]:.2e} to {s.y[-1]:.2e}" for s in series)
    first, last = series[0].x[0], series[0].x[-1]
    return f"{metric} from K={first:g} to K={last:g}: {curves}."


def tails(evidence: Evidence, metric: str = "Dist") -> list[Figure | Grid | Missing]:
    """Median, 95 % and worst over the test instances, at the deepest rollout."""
    part = evidence.config["synthetic"]
    depth, title = max(part["depths"]), f"Tails over instances: {metric}"
    drawn, table, methods, names = [], [], dict[Trained, None](), []
    # The hardest first: it is what the figure shows.
    for scale in reversed(part["scales"]):
        for family in part["families"]:
            files = [
                f"synthetic/{family}-{scale}-{s}-K{depth}.csv" for s in evidence.config["seeds"]
            ]
            names += files
            found = _instances(evidence, files, metric)
            if not found:
                continue
            levels = {
                trained: tuple(float(np.quantile(values, q)) for q in QUANTILES.values())
                for trained, values in found.items()
            }
            if scale == part["scales"][-1]:
                drawn.append(
                    _tail_panel(f"{FAMILIES[family]} {scale}, K = {depth}", levels, metric)
                )
                methods |= dict.fromkeys(levels)
            table += [_tail_row(family, scale, trained, level) for trained, level in levels.items()]
    if not table:
        return [evidence.missing(title, names, "table_settings")]
    note = (
        f"{metric} of single test instances, all seeds together: dot at the median, thick line to "
        "the 95 % quantile, thin line to the worst instance. A star marks log_kkt."
    )
    columns = ["Benchmark", "Method", *QUANTILES, "worst / median"]
    grid_title = f"{metric} over instances, K = {depth}"
    grid = plain_grid("tails", grid_title, "Every scale, sortable.", columns, table)
    return [Figure("tails-figure", title, note, drawn, []), grid]


def _instances(evidence: Evidence, files: list[str], metric: str) -> dict[Trained, np.ndarray]:
    """The metric of every instance of every seed that is there, by method."""
    found: dict[Trained, list[np.ndarray]] = {}
    for name in files:
        for trained, values in evidence.details(name, metric).items():
            method, _, recipe = trained.partition("@")
            found.setdefault((method, recipe.replace("-", "paper")), []).append(values)
    return {trained: np.concatenate(parts) for trained, parts in found.items()}


def _tail_panel(title: str, levels: dict[Trained, tuple[float, ...]], metric: str) -> Markup:
    rows = [
        Range(_short(*trained), (level[0], level[1], level[2]), _solid(look(*trained)))
        for trained, level in levels.items()
    ]
    told = "; ".join(
        f"{name_of(*trained)} {', '.join(f'{value:.2e}' for value in level)}"
        for trained, level in levels.items()
    )
    return ranges(title, rows, metric, f"Median, 95 % quantile and worst instance: {told}.")


def _short(method: str, recipe: str) -> str:
    """A label that fits beside the axis: recipes other than the paper's as a star."""
    return method if recipe == "paper" else f"{method}*"


def _solid(style: Look) -> Look:
    return Look(style.css, style.mark)


def _tail_row(family: str, scale: str, trained: Trained, level: tuple[float, ...]) -> list[Datum]:
    spread = level[-1] / level[0] if level[0] > 0 else float("inf")
    return [
        text(f"{FAMILIES[family]} {scale}"),
        text(name_of(*trained)),
        *(number(value, ".2e") for value in level),
        number(spread, ".1f"),
    ]


def _trained(rows: pd.DataFrame) -> list[Trained]:
    """The methods of some rows, RCDRS last so that it is drawn over the others."""
    found = dict.fromkeys(zip(rows["method"], rows["recipe"], strict=True))
    return sorted(found, key=lambda trained: trained[0].startswith("RCDRS"))


def _of(rows: pd.DataFrame, trained: Trained) -> pd.DataFrame:
    return rows[(rows["method"] == trained[0]) & (rows["recipe"] == trained[1])]
