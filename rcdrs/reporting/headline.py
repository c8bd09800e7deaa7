"""What the README shows: the answer, the coverage summary beside the paper's, and a picture: what
the gain is made of, or, without the results for that, the settings."""

from __future__ import annotations

from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from rcdrs.artifact.config import Config
from rcdrs.reporting import care
from rcdrs.reporting.coverage import READINGS, Comparison, compare, summary
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.render import PLAIN
from rcdrs.reporting.report.answer import METRIC, TOLD, tell
from rcdrs.reporting.report.care import curves_of
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables import configured, needs

#: RCDRS as the paper trains it, and as we do.
RECIPES = ("paper", "log_kkt")
#: Colours that stay apart for every kind of colour vision (Okabe and Ito).
COLOURS = {"paper": "#0072B2", "log_kkt": "#D55E00"}
MARKERS = "osD^v"


def behind(config: Config) -> list[str]:
    """The tables from whose results all of this is made."""
    known = configured(config)
    return [name for name in TOLD if name in known]


def answer(config: Config, results: Results) -> str:
    """Sentences, and a table of what they are about in numbers."""
    known = behind(config)
    sentences, findings = tell(config, lambda table: results if table in known else None, TOLD)
    lines = [" ".join(sentences), "", "| | so in | |", "| --- | ---: | --- |"]
    lines += [f"| {f.claim} | {f.count} of {f.total} | {f.measured} |" for f in findings]
    return "\n".join(lines) + "\n"


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
    return (_gains if "care" in behind(config) else _settings)(config, results)


def _gains(config: Config, results: Results) -> Figure:
    """What the gain over the strongest classical baseline is made of, against depth."""
    splits = care.split(config, results, METRIC)
    figure = Figure(figsize=(9.6, 3.4), dpi=110, layout="constrained")
    row = figure.subplots(1, len(RECIPES), sharey=True)
    for axes, recipe in zip(row, RECIPES, strict=True):
        for curve in curves_of(splits, recipe):
            axes.plot(curve.points.index, curve.y, label=curve.label, **curve.style)
        axes.set_title("the paper's loss" if recipe == "paper" else recipe)
        axes.set_xticks(sorted({found.K for found in splits}))
    _against_steps(figure, f"{METRIC} / strongest classical")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _settings(config: Config, results: Results) -> Figure:
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
        axes.set_xticks(part.depths)
    _against_steps(figure, f"{METRIC}, RCDRS / strongest classical")
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


def _against_steps(figure: Figure, label: str) -> None:
    """Ratios against K, on axes that the panels share."""
    first = figure.axes[0]
    for axes in figure.axes:
        axes.set_xlabel("steps K")
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
    first.set_ylabel(label)
    first.set_yscale("log")
    first.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    first.yaxis.set_minor_locator(NullLocator())
    first.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _check(config: Config) -> None:
    """It has all that the summaries are about, or this is an error."""
    for table in ("coverage", "coverage_log_kkt"):
        needs(table, config)
