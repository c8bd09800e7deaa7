"""The drawing of a dispatch day, from the rows that `rcdrs trace` wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch

from rcdrs.reporting.report.drawing import COLOURS, HEIGHT, WIDTH, Style, dress, scale

#: Lines over the bars.
LEVELS: dict[str, Style] = {
    "Load": {"color": COLOURS["text"], "linewidth": 1.5},
    "Load and charge": {"color": COLOURS["text"], "linewidth": 1.2, "linestyle": "--"},
}
RESERVE: dict[str, Style] = {
    "required": {"color": COLOURS["fixed"], "linewidth": 1.6, "linestyle": "--"},
    "headroom": {"color": COLOURS["env"], "linewidth": 2.2},
}


def draw_day(rows: pd.DataFrame, only: str | None = None) -> Figure:
    r"""One column for each schedule, or `only` that one on the same axes and without a legend.

    Arguments
        rows: schedule, side, part, hour and value, as `trace_day` gives them.

    Above, supply and emergency shedding stand on the axis,

        generation + renewable power + discharge + shedding = load + charge + excess,

    with charge and curtailment below it; whatever is above the dashed line is excess.  Below, the
    headroom is held against the reserve required.
    """
    schedules = [only] if only else list(rows["schedule"].unique())
    height = HEIGHT + (110 if only else 180)
    figure = Figure((WIDTH / 72 * len(schedules), height / 72), dpi=150, layout="constrained")
    axes = figure.subplots(2, len(schedules), sharex=True, squeeze=False, height_ratios=(3, 1))
    totals = rows.groupby(["side", "schedule", "hour"])["value"].sum()
    values = rows.set_index("side")["value"]
    for name, (upper, lower) in zip(schedules, axes.T, strict=True):
        day = rows[rows["schedule"] == name]
        seen = day[day["side"] == "metric"].set_index("part")["value"]
        shares = f"Shed {seen['Shed']:.1%}, Curt {seen['Curt']:.0%}, Eq {seen['Eq']:.1e}"
        dress(upper, f"{name}\n{shares}", "", "power")
        dress(lower, "", "hour", "reserve")
        scale(upper.yaxis, [0, -totals["use"].max(), *totals["supply"], *values["load"]], log=False)
        scale(lower.yaxis, values["reserve"], log=False)
        for side, sign in (("supply", 1), ("use", -1)):
            base = np.zeros(day["hour"].max() + 1)
            for part, hours in _parts(day, side).items():
                top = base + sign * hours
                _steps(upper, top, base, color=_colour(part), fill=True).set_gid(f"about {part}")
                base = top
        upper.axhline(0, color=COLOURS["muted"], linewidth=0.8)
        for ax, side, styles in ((upper, "load", LEVELS), (lower, "reserve", RESERVE)):
            for part, hours in _parts(day, side).items():
                _steps(ax, hours, None, **styles[part])
        lower.set(xlim=(-0.5, len(base) - 0.5), xticks=range(0, len(base), 6))
    if not only:
        handles = [Line2D([], [], label=part, **style) for part, style in parts(rows).items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    return figure


def parts(rows: pd.DataFrame) -> dict[str, Style]:
    """What the colours stand for; bars as broad lines."""
    bars = rows[rows["side"].isin(["supply", "use"])]["part"].unique()
    broad = {"linewidth": 11, "solid_capstyle": "butt"}
    reserve = {"Headroom": RESERVE["headroom"], "Reserve required": RESERVE["required"]}
    return {part: {"color": _colour(part)} | broad for part in bars} | LEVELS | reserve


def _parts(day: pd.DataFrame, side: str) -> dict[str, np.ndarray]:
    found = day[day["side"] == side].groupby("part", sort=False)["value"]
    return {str(part): values.to_numpy() for part, values in found}


def _colour(part: str) -> str:
    """Generators in four shades, the rest by name."""
    number = part.removeprefix("Generator ")
    shade = f"gen{(int(number) - 1) % 4 + 1}" if number.isdigit() else ""
    return COLOURS[shade or part.lower().replace(" ", "-")]


def _steps(axes: Axes, values: np.ndarray, base: np.ndarray | None, **style: Any) -> StepPatch:
    """Level over each hour."""
    edges = np.arange(len(values) + 1) - 0.5
    return axes.stairs(values, edges, baseline=base, **style)
