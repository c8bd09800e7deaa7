"""Panels drawn with matplotlib, as SVG inside of a page: lines with bands, ranges, dots, and
specification curves.

Colours stand in the page's style sheet, as variables.  A panel is drawn in those of the light page
and refers to them by name, so that the same drawing serves light, dark and print.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

TEMPLATES = Path(__file__).parent / "templates"
#: The colours of the light page by name: the first rule of the style sheet.
COLOURS = dict(
    re.findall(
        r"--([\w-]+): (#\w{6});", (TEMPLATES / "style.css").read_text("utf-8").partition("}")[0]
    )
)
_NAMES = {colour: name for name, colour in reversed(COLOURS.items())}
#: Size of a panel in points, which are the pixels of its view box; margins of its axes.
WIDTH, HEIGHT = 360, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 42
#: What of matplotlib's SVG is left out or said otherwise, in this order.
_TIDY = (
    (r"\s*\n\s*", ""),
    (r'<g id="about ([^"]*)">', r"<g><title>\1</title>"),
    (r'<g id="[^"]*"', "<g"),
    (r'<defs><clipPath.*?</defs>| clip-path="[^"]*"| transform="rotate\(-0 [^"]*"|xlink:', ""),
    (r'font-family: [^;"]*;? ?', ""),  # the page's own
    (r'(\.\d\d)\d{3,}(?=[ "),])', r"\1"),
)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Colour and mark of each method; the marks tell methods apart without the colours.
_LOOKS = {
    "RCDRS-Env": ("env", "o"),
    "RCDRS-NoEnv": ("noenv", "s"),
    "Layerwise-DRS": ("layerwise", "D"),
    "RCDRS-MLP": ("mlp", "p"),
    "RCDRS-Light": ("light", "h"),
    "RCDRS-Glance": ("odd", "X"),
    "RCDRS-Anderson": ("anderson", "*"),
    "Best feedback": ("env", "*"),
    "Chosen feedback": ("env", "*"),
    "Wide-DRS": ("wide", "P"),
    "Recall-DRS": ("wide", ">"),
    "AA-DRS": ("anderson", "^"),
    "Anderson-DRS": ("anderson", "<"),
    "S-ADMM": ("admm", "v"),
    "Grid-DRS": ("grid-drs", "+"),
    "F-DRS": ("fixed", "x"),
    "L-PDHG": ("pdhg", "^"),
    "PTO": ("exact", "D"),
    "SCS": ("admm", "v"),
    "Clarabel": ("exact", "x"),
    "Moreau": ("pdhg", "^"),
    "cvxpylayers, SCS": ("noenv", "s"),
    "cvxpylayers, dense": ("odd", "d"),
    "cvxpylayers, Clarabel": ("fixed", "+"),
    "pinet": ("mlp", "p"),
}
#: In decision-focused learning: frozen or joint weights of RCDRS, and exact solutions.
_SUFFIX = re.compile(r"(?:-(?P<how>[FJ]))?(?P<exact>-Exact)?$")
#: How a line is drawn, as matplotlib's Line2D takes it.
Style = dict[str, Any]
Which = Literal["x", "y"]


class Curve(NamedTuple):
    """One curve: its points are indexed by x; second and third column bound a band around it."""

    label: str
    points: pd.DataFrame
    style: Style

    @property
    def y(self) -> pd.Series:
        return self.points.iloc[:, 0]


def look(method: str, recipe: str = "paper") -> Style:
    """The look of a method; another recipe than the paper's, and frozen weights, are dashed."""
    found = _SUFFIX.search(method)
    assert found is not None
    name, mark = _LOOKS.get(method[: found.start()], ("other", "o"))
    style = {"color": COLOURS[name], "marker": "+" if found["exact"] else mark, "markersize": 5.5}
    style |= {"linewidth": 2.2 if name in ("env", "noenv") else 1.6, "markeredgewidth": 1.2}
    if recipe != "paper" or found["how"] == "F":
        style |= {"linestyle": "--", "markerfacecolor": COLOURS["ground"]}
    return style


def plain(method: str) -> Style:
    """The same where all curves are of one recipe and none is dashed or bears marks."""
    return {"color": look(method)["color"], "linewidth": look(method)["linewidth"]}


def name_of(method: str, recipe: str = "paper") -> str:
    return method if recipe == "paper" else f"{method}, {recipe}"


def lines(
    title: str,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    alt: str,
    log: bool = True,
    x_ticks: Sequence[float] | None = None,
    level: float | None = None,
    log_x: bool = False,
) -> Markup:
    """Curves over an axis, linear if not otherwise; `level` draws a horizontal line for reference.

    On a logarithmic axis, what is not positive stands on its lower end.
    """
    figure, axes = _panel(HEIGHT, LEFT)
    dress(axes, title, x_label, y_label)
    axes.yaxis.set_label_coords((14 - LEFT) / (WIDTH - LEFT - RIGHT), 0.5)
    bounds = [y for curve in curves for y in curve.points.to_numpy().flat]
    ends = scale(axes.yaxis, bounds if level is None else [*bounds, level], log)
    scale(axes.xaxis, [x for curve in curves for x in curve.points.index], log=log_x)
    if x_ticks is not None:
        axes.set_xticks(x_ticks)
    if level is not None:
        axes.axhline(level, color=COLOURS["muted"], linewidth=1.2, linestyle=":")
    for label, points, style in curves:
        shown, told = points.clip(*ends), label
        if shown.shape[1] == 3:
            band = (shown.index, shown.iloc[:, 1], shown.iloc[:, 2])
            axes.fill_between(*band, color=style["color"], alpha=0.17, linewidth=0)
        if "marker" in style:
            told += ": " + ", ".join(f"{y:.2e} at {x:g}" for x, y in points.iloc[:, 0].items())
        (line,) = axes.plot(shown.index, shown.iloc[:, 0], **style)
        line.set_gid(f"about {told}")
    return picture(figure, f"{title}. {alt}")


def ranges(
    title: str, rows: Mapping[str, tuple[Sequence[float], str]], x_label: str, alt: str
) -> Markup:
    """For each row (label -> three values, colour): a dot, a line to a second value, a bar at a
    third; over a logarithmic axis."""
    figure, axes = _panel(TOP + 19 * len(rows) + BOTTOM, 104)
    dress(axes, title, x_label, "", grid="x")
    scale(axes.xaxis, [value for values, _ in rows.values() for value in values], log=True)
    _rows(axes, list(rows))
    for y, (label, ((near, middle, far), colour)) in enumerate(rows.items()):
        (line,) = axes.plot([near, far], [y, y], color=colour, linewidth=1.3)
        line.set_gid(f"about {label}: {near:.2e}, {middle:.2e}, {far:.2e}")
        axes.plot([near, middle], [y, y], color=colour, linewidth=4)
        axes.plot(near, y, "o", far, y, "|", color=colour, markersize=7)
    return picture(figure, f"{title}. {alt}")


def dots(
    title: str, rows: Mapping[str, Mapping[str, float]], styles: Mapping[str, Style], x_label: str
) -> Markup:
    """For each row (label -> value by series) the marks of its series, over a logarithmic axis with
    a line at one; what is out of its range, as a zero, stands on its end."""
    figure, axes = _panel(TOP + 19 * len(rows) + BOTTOM, 104)
    dress(axes, title, x_label, "", grid="x")
    values = [value for series in rows.values() for value in series.values()]
    low, high = scale(axes.xaxis, [*values, 1.0], log=True)
    _rows(axes, list(rows))
    axes.axvline(1.0, color=COLOURS["muted"], linewidth=1.2, linestyle=":")
    for name, style in styles.items():
        marks = {label: series[name] for label, series in rows.items() if name in series}
        told = ", ".join(f"{value:.3g} on {label}" for label, value in marks.items())
        places = [list(rows).index(label) for label in marks]
        drawn = [min(max(value, low), high) for value in marks.values()]
        (line,) = axes.plot(drawn, places, **style | {"linestyle": "none"})
        line.set_gid(f"about {name}: {told}")
    alt = "; ".join(
        f"{label}: {', '.join(f'{name} {value:.3g}' for name, value in series.items())}"
        for label, series in rows.items()
    )
    return picture(figure, f"{title}. {alt}.")


def specification(
    title: str, found: Sequence[tuple[float, Sequence[str]]], choices: Sequence[str], y_label: str
) -> Markup:
    """A specification curve: values in their order over a logarithmic axis with a line at one, and
    below a dot for each choice behind a value."""
    ranked = sorted(found, key=lambda pair: pair[0])
    height, left, upper = 15 * len(choices), 118, 130
    whole = TOP + upper + 16 + height + 14
    figure = Figure(figsize=(WIDTH / 72, whole / 72))
    width, x = 1 - (left + RIGHT) / WIDTH, left / WIDTH
    curve = figure.add_axes((x, 1 - (TOP + upper) / whole, width, upper / whole))
    matrix = figure.add_axes((x, 14 / whole, width, height / whole))
    dress(curve, title, "", y_label)
    low, high = scale(curve.yaxis, [*(value for value, _ in ranked), 1.0], log=True)
    curve.axhline(1.0, color=COLOURS["muted"], linewidth=1.2, linestyle=":")
    dress(matrix, "", "", "")
    matrix.grid(visible=False)
    _rows(matrix, choices)
    for axes in (curve, matrix):
        axes.set(xlim=(-0.7, len(ranked) - 0.3), xticks=[])
    for place, (value, chosen) in enumerate(ranked):
        colour = COLOURS["good" if value < 1 else "bad"]
        (dot,) = curve.plot(place, min(max(value, low), high), "o", color=colour, markersize=4.5)
        dot.set_gid(f"about {value:.3g}: {', '.join(chosen)}")
        rows = [choices.index(choice) for choice in chosen]
        matrix.plot([place] * len(rows), rows, "o", color=colour, markersize=3.2)
    told = "; ".join(f"{value:.3g} ({', '.join(chosen)})" for value, chosen in ranked)
    return picture(figure, f"{title}. {told}.")


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    """Labels beside the axis, the first on top."""
    axes.set(yticks=range(len(labels)), yticklabels=labels, ylim=(len(labels) - 0.5, -0.5))
    axes.tick_params("y", labelcolor=COLOURS["text"], labelsize=10.5)


def scale(axis: Axis, values: Iterable[float], log: bool) -> tuple[float, float]:
    """An axis wide enough for all values, with a little room and few ticks; returns its ends.

    What has no logarithm does not count, and what hardly varies is drawn as such.
    """
    shown = [v for v in values if np.isfinite(v) and (v > 0 or not log)] or [1.0, 10.0]
    low, high = min(shown), max(shown)
    if log:
        room = 10 ** max(0.06 * np.log10(high / low), 0.02)
        low, high = low / room, high * room
    else:
        room = max(0.06 * (high - low), 0.02 * max(abs(low), abs(high))) or 0.5
        low, high = low - room, high + room
    which, decades = "xy"[isinstance(axis, YAxis)], np.log10(high / low) if log else 0
    axis.axes.set(**{f"{which}scale": "log" if log else "linear", f"{which}lim": (low, high)})
    multiples = (1,) if decades > 3 else (1, 3) if decades > 1.5 else (1, 2, 5)
    steps = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    axis.set_major_locator(LogLocator(subs=multiples, numticks=6) if decades > 0.8 else steps)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: tick_label(value))
    return low, high


def tick_label(value: float) -> str:
    """``0.05``, ``20``, ``10⁻⁴`` or ``3·10⁻⁴``."""
    if value == 0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.6g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    mantissa = mantissa.removesuffix(".0")
    return power if mantissa == "1" else f"{mantissa}·{power}"


def dress(axes: Axes, title: str, x_label: str, y_label: str, grid: Which = "y") -> None:
    """Title, labels and grid in the colours of the page."""
    text, muted = COLOURS["text"], COLOURS["muted"]
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=text)
    axes.set_xlabel(x_label, fontsize=11, color=text)
    axes.set_ylabel(y_label, fontsize=11, color=text)
    axes.tick_params(labelsize=11, labelcolor=muted, color=muted)
    axes.tick_params("both" if grid == "x" else "y", length=0)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines.bottom.set_color(muted)
    axes.grid(axis=grid, color=COLOURS["rule"], linewidth=0.7)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)


def picture(figure: Figure, alt: str) -> Markup:
    """A drawing for the page, and what it shows in words."""
    return _svg(figure, alt, f'class="chart" role="img" aria-label="{escape(alt)}"')


def legend(name: str, entries: Mapping[str, Style]) -> list[tuple[Markup, str]]:
    """A piece of each line, and what it stands for; `name` is that of the figure."""
    found = []
    for label, style in entries.items():
        figure = Figure(figsize=(28 / 72, 14 / 72))
        figure.add_artist(Line2D([1 / 28, 0.5, 27 / 28], [0.5] * 3, markevery=[1], **style))
        found.append((_svg(figure, name + label, 'class="swatch" aria-hidden="true"'), label))
    return found


def _panel(height: float, left: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    box = (left / WIDTH, BOTTOM / height, 1 - (left + RIGHT) / WIDTH, 1 - (TOP + BOTTOM) / height)
    return figure, figure.add_axes(box)


def _svg(figure: Figure, salt: str, attributes: str) -> Markup:
    """The same bytes for the same figure; `salt` keeps its ids apart from those of others."""
    figure.patch.set_visible(False)
    stream, about = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(stream, format="svg", metadata=about)
    drawn = stream.getvalue()
    drawn = drawn[drawn.index('<g id="figure_1">') :]
    for pattern, by in _TIDY:
        drawn = re.sub(pattern, by, drawn)
    for colour, name in _NAMES.items():
        drawn = drawn.replace(colour, f"var(--{name})")
    width, height = figure.get_size_inches() * 72
    return Markup(f'<svg {attributes} viewBox="0 0 {width:g} {height:g}">{drawn}')
