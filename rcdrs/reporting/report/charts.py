"""Small drawings as SVG inside of a page: lines with bands, and ranges.

Colours and type come from the page's style sheet, by class, so that the same drawing serves light,
dark and print.  Every drawing bears a text that says what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from rcdrs.reporting.report.scales import Scale, tick_label

WIDTH, HEIGHT = 360, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 42
_MARKS = {
    "circle": "M-3.4,0a3.4,3.4 0 1,0 6.8,0a3.4,3.4 0 1,0 -6.8,0z",
    "square": "M-3,-3h6v6h-6z",
    "diamond": "M0,-4.2L4.2,0L0,4.2L-4.2,0z",
    "up": "M0,-4L4,3.2H-4z",
    "down": "M0,4L4,-3.2H-4z",
    "cross": "M-3,-3L3,3M3,-3L-3,3",
    "plus": "M-3.8,0H3.8M0,-3.8V3.8",
    "bar": "M0,-4.5V4.5",
}


@dataclass(frozen=True)
class Look:
    """How a series is drawn: a class of the style sheet, a mark, and whether lines are broken."""

    css: str
    mark: str | None = None
    dashed: bool = False

    @property
    def classes(self) -> str:
        return f"{self.css} dashed" if self.dashed else self.css


@dataclass(frozen=True)
class Line:
    """One curve; `low` and `high` bound a band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Range:
    """A row with a dot, a line to a second value, and a bar at a third."""

    label: str
    values: tuple[float, float, float]
    look: Look


def lines(
    title: str,
    series: Sequence[Line],
    x_label: str,
    y_label: str,
    alt: str,
    log: bool = True,
    x_ticks: Sequence[float] | None = None,
    level: float | None = None,
) -> Markup:
    """Curves over a linear axis; `level` draws a horizontal line for reference.

    On a logarithmic axis, what is not positive stands on its lower end.
    """
    xs = Scale.over((x for s in series for x in s.x), False, LEFT, WIDTH - RIGHT)
    bounds = [y for s in series for part in (s.y, s.low or (), s.high or ()) for y in part]
    ys = Scale.over([*bounds, *([] if level is None else [level])], log, HEIGHT - BOTTOM, TOP)
    parts = [frame(title, xs, ys, x_label, y_label, x_ticks)]
    if level is not None:
        at = f"{ys(level):.1f}"
        parts.append(f'<path class="level" d="M{LEFT},{at}H{WIDTH - RIGHT}"/>')
    parts += [_band(s, xs, ys) for s in series if s.low is not None]
    parts += [_curve(s, xs, ys) for s in series]
    return svg(parts, HEIGHT, f"{title}. {alt}")


def ranges(title: str, rows: Sequence[Range], x_label: str, alt: str) -> Markup:
    """One row for each range, over a logarithmic axis."""
    left, line = 104, 19
    height = TOP + line * len(rows) + BOTTOM
    xs = Scale.over((v for row in rows for v in row.values), True, left, WIDTH - RIGHT)
    floor = height - BOTTOM
    parts = [f'<text class="title" x="4" y="16">{escape(title)}</text>']
    parts += _x_axis(xs, xs.ticks(), floor, x_label, left, grid=True)
    for number, row in enumerate(rows):
        y = TOP + line * (number + 0.5)
        near, middle, far = (f"{xs(value):.1f}" for value in row.values)
        shown = ", ".join(f"{value:.2e}" for value in row.values)
        parts.append(
            f'<g class="{row.look.classes}"><title>{escape(row.label)}: {shown}</title>'
            f'<text class="row" x="{left - 8}" y="{y + 3.5:.1f}">{escape(row.label)}</text>'
            f'<path class="thin" d="M{middle},{y:.1f}H{far}"/>'
            f'<path class="thick" d="M{near},{y:.1f}H{middle}"/>'
            f"{_mark('circle', near, y)}{_mark('bar', far, y)}</g>"
        )
    return svg(parts, height, f"{title}. {alt}")


def swatch(look: Look) -> Markup:
    """A piece of line for a legend."""
    mark = _mark(look.mark, "14", 7) if look.mark else ""
    return Markup(
        f'<svg class="swatch" viewBox="0 0 28 14" aria-hidden="true"><g class="{look.classes}">'
        f'<path class="curve" d="M1,7H27"/>{mark}</g></svg>'
    )


def svg(parts: Sequence[str], height: float, alt: str) -> Markup:
    """A drawing of these parts, and what it shows in words."""
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def frame(
    title: str,
    xs: Scale,
    ys: Scale,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float] | None,
) -> str:
    """Title, both axes and the grid."""
    floor = HEIGHT - BOTTOM
    parts = [f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>']
    for tick in ys.ticks():
        at = f"{ys(tick):.1f}"
        parts.append(
            f'<path class="grid" d="M{LEFT},{at}H{WIDTH - RIGHT}"/>'
            f'<text class="y" x="{LEFT - 6}" y="{ys(tick) + 3.5:.1f}">{tick_label(tick)}</text>'
        )
    parts += _x_axis(xs, x_ticks or xs.ticks(), floor, x_label, LEFT)
    middle = (TOP + floor) / 2
    parts.append(
        f'<text class="axis" transform="translate(11,{middle}) rotate(-90)">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)


def _x_axis(
    xs: Scale, ticks: Sequence[float], floor: float, label: str, left: float, grid: bool = False
) -> list[str]:
    parts = [f'<path class="frame" d="M{left},{floor}H{WIDTH - RIGHT}"/>']
    for tick in ticks:
        at = f"{xs(tick):.1f}"
        mark = ("grid", TOP, floor) if grid else ("frame", floor, floor + 4)
        parts.append(
            f'<path class="{mark[0]}" d="M{at},{mark[1]}V{mark[2]}"/>'
            f'<text class="x" x="{at}" y="{floor + 16}">{tick_label(tick)}</text>'
        )
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{floor + 34}">{escape(label)}</text>')
    return parts


def _curve(series: Line, xs: Scale, ys: Scale) -> str:
    # A value that is missing breaks the curve.
    path, pen = "", "M"
    for x, y in zip(series.x, series.y, strict=True):
        if math.isnan(y):
            pen = "M"
            continue
        path += f"{pen}{xs(x):.1f},{ys(y):.1f}"
        pen = "L"
    marks = ""
    if series.look.mark:
        marks = "".join(
            _mark(series.look.mark, f"{xs(x):.1f}", ys(y), f"{series.label} at {x:g}: {y:.3g}")
            for x, y in zip(series.x, series.y, strict=True)
            if not math.isnan(y)
        )
    return f'<g class="{series.look.classes}"><path class="curve" d="{path}"/>{marks}</g>'


def _band(series: Line, xs: Scale, ys: Scale) -> str:
    assert series.low is not None
    assert series.high is not None
    bounds = zip(series.x, series.low, series.high, strict=True)
    known = [bound for bound in bounds if not any(map(math.isnan, bound))]
    points = [(x, high) for x, _, high in known] + [(x, low) for x, low, _ in reversed(known)]
    path = " ".join(f"{xs(x):.1f},{ys(y):.1f}" for x, y in points)
    return f'<polygon class="{series.look.css} band" points="{path}"/>'


def _mark(kind: str | None, x: str, y: float, told: str = "") -> str:
    title = f"<title>{escape(told)}</title>" if told else ""
    return (
        f'<path class="mark {kind}" transform="translate({x},{y:.1f})" d="{_MARKS[kind or "bar"]}">'
        f"{title}</path>"
    )
