"""What the README shows: the coverage summary beside the paper's, and a picture of settings."""

from __future__ import annotations

from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from rcdrs.artifact.config import Config
from rcdrs.reporting.coverage import READINGS, Comparison, compare, summary
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.render import PLAIN
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables import needs

#: RCDRS as the paper trains it, and as we do.
RECIPES = ("paper", "log_kkt")
#: Colours that stay apart for every kind of colour vision (Okabe and Ito).
COLOURS = {"paper": "#0072B2", "log_kkt": "#D55E00"}
MARKERS = "osD^v"


def markdown(config: Config, results: Results) -> str:
    """A table in Markdown: the paper's value of each item, and ours by recipe and reading."""
    _check(config)
    ours = [
        summary(*(compare(config, results, metric, recipe, reading) for metric in ("Gap", "Dist")))
        for recipe, reading in product(RECIPES, READINGS)
    ]
    lines = [
        "| | paper | ours, its recipe | over every method | ours, `log_kkt` | over every method |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for items in zip(*ours, strict=True):
        paper = paper_coverage().get(items[0].name, "")
        amounts = [PLAIN.show(value) for value in (paper, *(item.amount for item in items))]
        lines.append(f"| {' | '.join([items[0].label, *amounts])} |")
    return "\n".join(lines) + "\n"


def draw(config: Config, results: Results) -> Figure:
    """Gap of the better RCDRS variant over the strongest classical one, setting by setting."""
    _check(config)
    part = config.synthetic
    figure = Figure(figsize=(3.2 * len(part.families), 3.2), dpi=110, layout="constrained")
    row = figure.subplots(1, len(part.families), sharey=True, squeeze=False)[0]
    for recipe in RECIPES:
        found = compare(config, results, "Gap", recipe)
        for axes, family in zip(row, part.families, strict=True):
            _panel(axes, [c for c in found if c.family == family], recipe, part.scales)
    for axes, family in zip(row, part.families, strict=True):
        axes.set_title(FAMILIES[family])
        axes.set_xlabel("steps K")
        axes.set_xticks(part.depths)
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
    row[0].set_ylabel("Gap, RCDRS / strongest classical")
    row[0].set_yscale("log")
    row[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    row[0].yaxis.set_minor_locator(NullLocator())
    row[0].yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    handles, _ = row[0].get_legend_handles_labels()
    scales = len(part.scales)
    # A legend is filled column by column: one column for each scale.
    by_scale = [handle for first in range(scales) for handle in handles[first::scales]]
    figure.legend(handles=by_scale, loc="outside lower center", ncols=scales)
    return figure


def _panel(axes: Axes, found: list[Comparison], recipe: str, scales: list[str]) -> None:
    for marker, scale in zip(MARKERS, scales, strict=False):
        chosen = [c for c in found if c.scale == scale]
        axes.plot(
            [c.K for c in chosen],
            [c.ratio for c in chosen],
            marker=marker,
            color=COLOURS[recipe],
            linestyle="-" if recipe == "paper" else "--",
            label=f"{scale}, {'paper recipe' if recipe == 'paper' else recipe}",
        )


def _check(config: Config) -> None:
    """It has all that the summaries are about, or this is an error."""
    for table in ("coverage", "coverage_log_kkt"):
        needs(table, config)
