"""The figures of equal care: the gain split by depth, and errors against time."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.config import Config, universe
from rcdrs.reporting import care, equal_time
from rcdrs.reporting.care import BEST, CHOSEN, FAIR, RECIPES, SCHEDULE, WIDE, Split, leading
from rcdrs.reporting.equal_time import Line
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report.drawing import Curve, legend, lines, look
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.report.titles import recipe_name
from rcdrs.reporting.results import Results

METRIC, TITLE = "Gap", "Where the gain comes from"
#: What feedback is, in the note of a figure.
FEEDBACK = {
    CHOSEN: "the variant chosen on validation data, one for all settings",
    BEST: "the best variant in each setting",
}


def parts(splits: list[Split], recipe: str) -> dict[str, str]:
    """What the gain is split into: the row behind each, without the recipe of what is trained."""
    return {
        "grid without an edge": WIDE,
        "acceleration": "Anderson-DRS",
        "schedule": SCHEDULE,
        "feedback": leading(splits[0].found, recipe),
    }


def gains(config: Config, results: Results) -> Figure:
    """Geometric means of the ratio to the strongest classical baseline, against depth."""
    splits = care.split(config, results, METRIC)
    split = parts(splits, RECIPES[-1])
    shown = [
        *care.reading(splits, METRIC, RECIPES[-1]),
        f"Each point is the geometric mean, over families and scales, of the {METRIC} over that of "
        f"the strongest classical baseline; feedback is {FEEDBACK[split['feedback']]}.",
    ]
    panels = [_gains_panel(splits, recipe) for recipe in RECIPES]
    styles = {part: look(row) for part, row in split.items()}
    return Figure("gains", TITLE, " ".join(shown), panels, legend("gains", styles))


def headline(config: Config, results: Results) -> Figure:
    """The same of the last recipe alone, for the top of the page."""
    splits, recipe = care.split(config, results, METRIC), RECIPES[-1]
    split = parts(splits, recipe)
    shown = (
        f"{METRIC} over that of the strongest classical baseline, geometric mean over families and "
        f"scales; feedback is {FEEDBACK[split['feedback']]}."
    )
    marks = legend("headline", {part: look(row) for part, row in split.items()})
    return Figure("headline", TITLE, shown, [_gains_panel(splits, recipe)], marks)


def curves_of(splits: list[Split], recipe: str) -> list[Curve]:
    """Of each part the geometric mean of the ratio, against depth."""
    depths, curves = sorted({found.K for found in splits}), []
    at = {K: [found for found in splits if found.K == K] for K in depths}
    for part, row in parts(splits, recipe).items():
        for label in {row, f"{row}, {recipe}"} & set(splits[0].found):
            values = [care.gain(at[K], label).geometric for K in depths]
            curves.append(Curve(part, pd.DataFrame({"ratio": values}, depths), look(row)))
    return curves


def _gains_panel(splits: list[Split], recipe: str) -> Markup:
    curves = curves_of(splits, recipe)
    depths = list(curves[0].points.index)
    told = "; ".join(f"{c.label} {c.y.iloc[0]:.3g} to {c.y.iloc[-1]:.3g}" for c in curves)
    alt = f"{METRIC} ratio from K={depths[0]} to K={depths[-1]}: {told}."
    title = f"Over the strongest classical, {recipe_name(recipe)}"
    return lines(title, curves, "steps K", f"{METRIC} ratio", alt, x_ticks=depths, level=1.0)


def times(config: Config, results: Results) -> Figure:
    """Median and 95 % quantile of errors against time, on the hardest cases."""
    part = universe(config, FAIR).synthetic
    shown = [
        *equal_time.reading(equal_time.races(config, results)),
        "Curves are medians over the test instances of one seed, with a mark for each depth; bands "
        "reach up to the 95 % quantile. Times are those of a whole batch over its instances.",
    ]
    panels = [
        _times_panel(config, results, family, part.scales[-1], metric)
        for metric in (equal_time.METRIC, METRIC)
        for family in part.families
    ]
    styles = {line.label: look(line.label) for line in equal_time.lines_of(config)}
    title = f"Error against time, {part.scales[-1]} benchmarks"
    return Figure("error-time", title, " ".join(shown), panels, legend("error-time", styles))


def _times_panel(config: Config, results: Results, family: str, scale: str, metric: str) -> Markup:
    def curve(line: Line) -> Curve:
        found = equal_time.points(results, line, f"{family}-{scale}", metric)
        frame = pd.DataFrame([p.levels for p in found], [p.time for p in found])
        frame.insert(1, "low", frame["median"])
        return Curve(line.label, frame, look(line.label))

    curves = [curve(line) for line in equal_time.lines_of(config)]
    told = "; ".join(
        f"{c.label} {c.y.iloc[0]:.2e} in {c.points.index[0]:.3g} ms to {c.y.iloc[-1]:.2e} in "
        f"{c.points.index[-1]:.3g} ms"
        for c in curves
    )
    title = f"{FAMILIES[family]} {scale}: {metric}"
    return lines(title, curves, "ms per instance", metric, f"{told}.", log_x=True)


def from_table(
    table: str, title: str, draw: Callable[[Config, Results], Figure]
) -> Callable[[Evidence], Figure | Missing]:
    """The figure from what its table is made of, with the seeds that are there."""

    def drawn(evidence: Evidence) -> Figure | Missing:
        keys = evidence.behind(table)
        seeds = evidence.seeds(table) if keys else []
        if not seeds:
            return evidence.missing(title, keys, f"table_{table}")
        try:
            return draw(evidence.config, evidence.of(table, seeds))
        except ValueError as error:  # as instances that a release lacks
            return Missing(title, f"It cannot be drawn from this run: {error}")

    return drawn


#: The sections of the page that are about these: what the tables begin with, and the figure.
SECTIONS = {
    "care": from_table("care", TITLE, gains),
    "equal_time": from_table("equal_time", "Error against time", times),
}
