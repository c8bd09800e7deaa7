"""The figures of decision-focused learning, of energy dispatch, and of the same on real data."""

from __future__ import annotations

from dataclasses import replace

from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.dispatch.experiment import SOLVABLE
from rcdrs.reporting.report.day import draw_day, parts
from rcdrs.reporting.report.drawing import legend, picture
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.figures import Figure, against_depth


def dfl(evidence: Evidence) -> list[Figure | Missing]:
    """Regret and distance against depth: the paper's methods, then what goes beyond it."""
    part = evidence.config.dfl
    beyond = {(method, "paper") for method in part.exact}
    beyond |= {(method, "log_kkt") for method in part.extended}
    paper = {(method, "paper") for method in part.methods}
    found = [against_depth(evidence, "dfl", "dfl-depth", "Regret against depth", only=paper)]
    if beyond and isinstance(found[0], Figure):
        shown = beyond | {trained for trained in paper if trained[0].endswith("-J")}
        title = "Regret against depth, log_kkt and exact solutions"
        found += [against_depth(evidence, "dfl", "dfl-beyond", title, only=shown, folded=True)]
    return found


def dispatch(evidence: Evidence) -> list[Figure | Missing]:
    """Cost and safety against depth, and one day."""
    title = "Cost and pass rate against depth"
    return [against_depth(evidence, "dispatch", "dispatch-depth", title), day(evidence)]


def portfolio(evidence: Evidence) -> Figure | Missing:
    """Regret against depth, in every period, and at home with warm starts."""
    part = evidence.config.portfolio
    home, *others = part.instances.test
    metrics = [f"Regret_{home}", f"WarmRegret_{home}", *(f"Regret_{name}" for name in others)]
    solved = {(method, "paper") for method in part.methods}
    solved |= {(method, "log_kkt") for method in part.extended}
    names = ("portfolio", "portfolio-depth", "Regret against depth")
    return against_depth(evidence, *names, only=solved, metrics=metrics)


def grid(evidence: Evidence) -> Figure | Missing:
    """Cost and pass rate against depth: at home, in the other season, and with warm starts."""
    found = against_depth(evidence, "opf", "grid-depth", "Cost and pass rate against depth")
    if isinstance(found, Missing):
        return found
    note = f"{found.note} CostGap is relative to Exact, which has none and is in the last panel."
    return replace(found, note=note)


def traced_day(plan: Plan) -> list[Key]:
    """The result that the day is drawn from: one seed at the full depth.

    The formulation is the one in which every day has an optimum to compare with, if it runs.
    """
    cases, depths = plan.experiments["dispatch"].cases, plan.config.dispatch.depths
    case = SOLVABLE if SOLVABLE in cases else cases[0]
    return [plan.key("traces", case, plan.config.seeds[0], K=max(depths))]


def day(evidence: Evidence) -> Figure | Missing:
    """One test day as each method schedules it: power above, reserve below."""
    keys = traced_day(evidence.plan)
    title = f"A dispatch day, {keys[0].case.partition('-')[2]} formulation"
    rows = evidence.frame(keys)
    if rows.empty:
        return evidence.missing(title, keys, "report")
    panels, fates = [], []
    for name in rows["schedule"].unique():
        day = rows[rows["schedule"] == name].set_index(["side", "part"])["value"]
        seen, reserve = day["metric"], day["reserve"]
        fate = (
            f"{seen['Shed']:.1%} of the load shed, {seen['Curt']:.0%} of renewable power "
            f"curtailed, {seen['Reserve']:.1%} of the reserve missing."
        )
        least = (reserve["headroom"].to_numpy() - reserve["required"].to_numpy()).min()
        alt = (
            f"{name}. Hourly supply and use of power. {fate} {name}: reserve. Hourly headroom "
            f"(solid) and reserve required (dashed); least margin {least:.3g}."
        )
        panels.append(picture(draw_day(rows, only=name), alt))
        fates.append(f"{name}: {fate}")
    note = (
        "A test day as it is realised. Above the axis: what supplies power, and emergency "
        "shedding; below: charge and curtailment. What is above load and charge is excess. "
        f"In the lower row: headroom, and dashed the reserve required. {' '.join(fates)}"
    )
    return Figure("dispatch-day", title, note, panels, legend("dispatch-day", parts(rows)))
