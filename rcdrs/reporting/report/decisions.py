"""The figures of decision-focused learning and of energy dispatch."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.plan import Plan
from rcdrs.reporting.report.bars import Stack, key, stacked
from rcdrs.reporting.report.charts import Line, Look, lines
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.figures import Figure, Trained, against_depth

#: The runs whose schedules of a day are drawn, beside the optimum.
DAY = ("Grid-DRS", "RCDRS-Env@paper")
#: Lines over the bars of a day: the style of each.
LEVELS = {"Load": "load-line", "Load and charge": "load-line dotted"}


def dfl(evidence: Evidence) -> list[Figure | Missing]:
    """Regret and distance against depth: the paper's methods, then what goes beyond it."""
    metrics, target = ("Regret", "Dist"), "table_dfl_k20"
    part = evidence.config.get("dfl", {})
    beyond = {(method, "paper") for method in part.get("exact", [])}
    beyond |= {(method, "log_kkt") for method in part.get("extended", [])}
    paper = {(method, "paper") for method in part.get("methods", [])}
    title = "Regret against depth"
    found = [_depth(evidence, "dfl", metrics, title, target, "dfl-depth", paper)]
    if beyond and isinstance(found[0], Figure):
        best = {trained for trained in paper if trained[0].endswith("-J")}
        title = "Regret against depth, log_kkt and exact solutions"
        extra = _depth(evidence, "dfl", metrics, title, target, "dfl-beyond", best | beyond)
        found.append(replace(extra, folded=True) if isinstance(extra, Figure) else extra)
    return found


def dispatch(evidence: Evidence) -> list[Figure | Missing]:
    """Cost and safety against depth, and one day."""
    metrics, target = ("CostGap", "Pass"), "table_dispatch_k15"
    title = "Cost and pass rate against depth"
    depth = _depth(evidence, "dispatch", metrics, title, target, "dispatch-depth")
    return [depth, day(evidence)]


def traced_day(plan: Plan) -> list[str]:
    """The result that the day is drawn from: one seed at the full depth.

    The formulation is the one in which every day has an optimum to compare with, if it runs.
    """
    part = plan.config.get("dispatch")
    if not part:
        return []
    formulations = part["formulations"]
    chosen = "inequality" if "inequality" in formulations else formulations[0]
    return [f"traces/dispatch-{chosen}-{plan.config['seeds'][0]}-K{max(part['depths'])}.csv"]


def day(evidence: Evidence) -> Figure | Missing:
    """One test day as each method schedules it: power above, reserve below."""
    names = traced_day(evidence.plan)
    title = f"A dispatch day, {names[0].split('-')[1]} formulation" if names else "A dispatch day"
    rows = evidence.frame(names)
    if rows.empty:
        return evidence.missing(title, names, "report")
    schedules = {str(name): part for name, part in rows.groupby("schedule", sort=False)}
    stacks = {name: _stack(part) for name, part in schedules.items()}
    ends = [stack.extent for stack in stacks.values()]
    extent = min(low for low, _ in ends), max(high for _, high in ends)
    classes = _classes(stacks)
    panels = []
    for name, stack in stacks.items():
        fate = _fate(schedules[name])
        alt = f"Hourly supply and use of power. {fate}"
        panels.append(stacked(name, stack, classes, extent, "power", alt))
    panels += [_reserve(name, part) for name, part in schedules.items()]
    shown = [(key(classes[p]), p) for s in list(stacks.values())[:1] for p in (*s.above, *s.below)]
    shown += [(key(classes[p], line=True), p) for p in LEVELS]
    note = (
        "A test day as it is realised. Above the axis: what supplies power, and emergency "
        "shedding; below: charge and curtailment. What is above load and charge is excess. "
        "In the lower row: headroom, and dashed the reserve required. "
        + " ".join(f"{name}: {_fate(part)}" for name, part in schedules.items())
    )
    return Figure("dispatch-day", title, note, panels, shown)


def _stack(rows: pd.DataFrame) -> Stack:
    def side(name: str) -> dict[str, list[float]]:
        chosen = rows[rows["side"] == name]
        return {str(part): list(p["value"]) for part, p in chosen.groupby("part", sort=False)}

    return Stack(side("supply"), side("use"), side("load"))


def _classes(stacks: dict[str, Stack]) -> dict[str, str]:
    """The style of each part: generators in shades, the rest by name."""
    found = dict(LEVELS)
    for stack in stacks.values():
        for part in (*stack.above, *stack.below):
            number = part.removeprefix("Generator ")
            found[part] = f"gen{number}" if number.isdigit() else part.lower().replace(" ", "-")
    return found


def _fate(rows: pd.DataFrame) -> str:
    metrics = rows[rows["side"] == "metric"].set_index("part")["value"]
    return (
        f"{metrics['Shed']:.1%} of the load shed, {metrics['Curt']:.0%} of renewable power "
        f"curtailed, {metrics['Reserve']:.1%} of the reserve missing."
    )


def _reserve(name: str, rows: pd.DataFrame) -> Markup:
    chosen = rows[rows["side"] == "reserve"]
    drawn = []
    for part, css in (("required", "fixed"), ("headroom", "env")):
        values = list(chosen[chosen["part"] == part]["value"])
        hours = [float(hour) for hour in range(len(values))]
        drawn.append(Line(part, hours, values, Look(css, dashed=part == "required")))
    least = min(h - r for r, h in zip(drawn[0].y, drawn[1].y, strict=True))
    alt = f"Hourly headroom (solid) and reserve required (dashed); least margin {least:.3g}."
    ticks = [float(hour) for hour in range(0, len(drawn[0].x), 6)]
    return lines(f"{name}: reserve", drawn, "hour", "reserve", alt, log=False, x_ticks=ticks)


def _depth(
    evidence: Evidence,
    experiment: str,
    metrics: tuple[str, ...],
    title: str,
    target: str,
    name: str,
    only: set[Trained] | None = None,
) -> Figure | Missing:
    """A panel for each case that the rows of the experiment are about."""
    rows = evidence.rows
    cases = []
    if not rows.empty:
        rows = rows[rows["experiment"] == experiment]
        cases = list(dict.fromkeys(zip(rows["family"], rows["scale"], strict=True)))
    panels = [(family, scale, _label(family, scale)) for family, scale in cases]
    return against_depth(evidence, experiment, metrics, panels, name, title, target, only)


def _label(family: str, scale: str) -> str:
    name = {"dfl": "DFL", "dispatch": "Dispatch"}.get(family, family)
    return name if scale in ("-", "") else f"{name}, {scale}"
