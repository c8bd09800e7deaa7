"""Stacked bars over the hours of a day, as SVG inside of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from rcdrs.reporting.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, frame, svg
from rcdrs.reporting.report.scales import Scale

Parts = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Stack:
    """What stands above the axis, what hangs below it, and levels drawn over both."""

    above: Parts
    below: Parts
    levels: Parts

    @property
    def extent(self) -> tuple[float, float]:
        """Lowest and highest point."""
        lowest = [-sum(values) for values in zip(*self.below.values(), strict=True)]
        highest = [sum(values) for values in zip(*self.above.values(), strict=True)]
        over = [value for values in self.levels.values() for value in values]
        return min([0.0, *lowest]), max([0.0, *highest, *over])


def stacked(
    title: str,
    stack: Stack,
    classes: Mapping[str, str],
    extent: tuple[float, float],
    y_label: str,
    alt: str,
) -> Markup:
    """One bar an hour; `classes` gives the style of each part, `extent` the axis."""
    hours = len(next(iter(stack.above.values())))
    xs = Scale(-0.5, hours - 0.5, False, LEFT, WIDTH - RIGHT)
    ys = Scale.over(extent, False, HEIGHT - BOTTOM, TOP)
    ticks = [float(hour) for hour in range(0, hours, 6)]
    parts = [frame(title, xs, ys, "hour", y_label, ticks)]
    for sign, side in ((1, stack.above), (-1, stack.below)):
        base = [0.0] * hours
        for name, values in side.items():
            tops = [low + sign * value for low, value in zip(base, values, strict=True)]
            parts.append(_bars(name, classes[name], base, tops, xs, ys))
            base = tops
    parts.append(f'<path class="frame" d="M{LEFT},{ys(0):.1f}H{WIDTH - RIGHT}"/>')
    for name, values in stack.levels.items():
        parts.append(f'<path class="{classes[name]}" d="{_steps(values, xs, ys)}"/>')
    return svg(parts, HEIGHT, f"{title}. {alt}")


def _bars(
    name: str, css: str, low: Sequence[float], high: Sequence[float], xs: Scale, ys: Scale
) -> str:
    """All bars of one part as one shape; where it is nothing, nothing is drawn."""
    path = "".join(
        f"M{xs(hour - 0.5):.1f},{ys(a):.1f}V{ys(b):.1f}H{xs(hour + 0.5):.1f}V{ys(a):.1f}z"
        for hour, (a, b) in enumerate(zip(low, high, strict=True))
        if abs(a - b) > 1e-9
    )
    return f'<path class="piece {css}" d="{path}"><title>{escape(name)}</title></path>'


def _steps(values: Sequence[float], xs: Scale, ys: Scale) -> str:
    """A line that is level over each hour."""
    path = f"M{xs(-0.5):.1f},{ys(values[0]):.1f}"
    return path + "".join(
        f"V{ys(value):.1f}H{xs(hour + 0.5):.1f}" for hour, value in enumerate(values)
    )


def key(css: str, line: bool = False) -> Markup:
    """A piece of a part, or of a level, for a legend."""
    shape = (
        '<path class="{}" d="M1,7H27"/>' if line else '<rect class="{}" width="18" height="12"/>'
    )
    return Markup('<svg class="swatch" viewBox="0 0 28 14" aria-hidden="true">{}</svg>').format(
        Markup(shape).format(css if line else f"piece {css}")
    )
