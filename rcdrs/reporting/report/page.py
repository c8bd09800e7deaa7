"""One page from all that a run has left: sections, their parts, and the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from rcdrs.artifact.plan import Plan
from rcdrs.files import replacing
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.report import (
    care,
    controller,
    decisions,
    figures,
    peers,
    provenance,
    readings,
    verdicts,
)
from rcdrs.reporting.report.answer import answer
from rcdrs.reporting.report.drawing import TEMPLATES
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.grids import table
from rcdrs.reporting.report.heatmap import heat_map
from rcdrs.reporting.tables import find_table

#: Tables that are long enough to be opened on a click.
FOLDED = {"settings", "settings_log_kkt", "ablation_full", "dfl_extended", "dispatch_extended"}
FOLDED |= {"care_dual", "care_hard", "tails", "ledger-paper", "ledger-log_kkt"}
FOLDED |= {"depths", "ablation_scales", "portfolio_starts"}
#: Sections of tables that need universes, by how the names of the tables begin: the figure.
FROM_UNIVERSES = care.SECTIONS | readings.SECTIONS
#: Tables are told apart by how their names begin.
PAPERS = ("coverage", "synthetic", "settings", "ablation", "dfl", "dispatch")
#: Sections of what needs packages of its own, where it was computed: what stands before the tables.
EXTRA: dict[str, tuple[Callable[[Evidence], Any], ...]] = {
    "peers": (peers.ratios, peers.figure),
    "portfolio": (decisions.portfolio,),
    "grid": (decisions.grid,),
}
PREFIXES = (*PAPERS, *FROM_UNIVERSES, "depths", *EXTRA)
RECIPES = ("paper", "log_kkt")
#: Title and text of each section: first what answers the paper's question.
SECTIONS = {
    "care": (
        "With equal care",
        "How much of the gain over the paper's baselines is the edge of its grid, and how much "
        "acceleration, a learned schedule, or feedback: a fixed core from a grid without an edge, "
        "and every learned method with as many steps and a learning rate of its own.",
    ),
    "equal_time": (
        "At equal time",
        "A controlled step takes longer than a plain one: errors against the time per instance.",
    ),
    "peers": (
        "Beside other solvers and layers",
        "What one would use instead, on the same programs: Clarabel and SCS in a loop, Moreau, "
        "cvxpylayers, and pinet for projections. Each runs with a tolerance of its own, so only "
        "equal accuracy compares.",
    ),
    "shifts": (
        "On other data, and for other depths",
        "Layers that were trained on one matrix A, one distribution of solutions and one number of "
        "steps, tried on others, beside a constant core and a schedule made for these.",
    ),
    "multiverse": (
        "Other readings of the protocol",
        "What the paper leaves open (the core that its loss compares with, the batch, how "
        "instances are drawn, how baselines are tuned), read otherwise one at a time.",
    ),
    "synthetic": (
        "Synthetic benchmarks",
        "Conic programs with known solutions in three families, three scales and four depths. Gap "
        "is the positive part of the relative objective error, Dist the relative distance to the "
        "solution, and the residuals are those of the conditions of optimality.",
    ),
    "controller": (
        "What the controllers learn",
        "The relaxation alpha and the objective drive beta that trained layers choose along the "
        "rollout, and how training got there.",
    ),
    "ablations": (
        "Ablations",
        "One component of the controller, its inputs or its loss changed at a time.",
    ),
    "dfl": (
        "Decision-focused learning",
        "Costs are predicted, the layer decides, and regret is what the decision loses.",
    ),
    "dispatch": (
        "Energy dispatch",
        "A day on a small network, planned with forecasts of load, wind and sun.",
    ),
    "portfolio": (
        "Portfolios of real stocks",
        "Twenty stocks: returns are predicted, the layer decides week after week, and what it "
        "holds enters the next problem. It is tried in calm years after those of training, and in "
        "crises.",
    ),
    "grid": (
        "A year of optimal power flow",
        "A network of 39 buses whose lines bind, hour by hour on measured profiles of load, wind "
        "and sun: trained in winter, tried there and in summer.",
    ),
    "others": ("Other experiments", "Not in the paper."),
    "claims": (
        "Claims",
        "Every quantitative or ordering claim of the paper, checked against this run.",
    ),
    "configuration": (
        "Configuration",
        "What the numbers above were computed with, read off the configuration.",
    ),
    "run": (
        "What was run, and where",
        "Which results there are, the code and the settings behind them, and the machine.",
    ),
}


@dataclass(frozen=True)
class Section:
    """A chapter of the page; `parts` are figures, tables, heat maps and notes on missing ones, or
    lists of such that stand side by side where there is room."""

    name: str
    title: str
    text: str
    parts: list[Any]


def report(plan: Plan, out: Path, claims: Path | None = None, extended: Path | None = None) -> None:
    """Write the page.

    Arguments
        plan: says which results there should be; what is missing is named on the page with the
            command that computes it.
        out: the .html file to write; it needs no other file and no network.
        claims, extended: the CSVs that `rcdrs claims` wrote for the paper's recipe and for
            log_kkt, if it ran.
    """
    evidence = Evidence(plan)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    keys = evidence.results + evidence.times + evidence.shifts
    ledgers = {"paper": verdicts.read(claims), "log_kkt": verdicts.read(extended)}
    page = environment.get_template("page.html.j2").render(
        run=plan.config.run,
        answer=answer(evidence, ledgers["paper"]),
        where=provenance.hosts(evidence, keys),
        stale=provenance.stale(evidence, keys),
        sections=sections(evidence, ledgers),
        folded=FOLDED,
        style=(TEMPLATES / "style.css").read_text("utf-8"),
        script=(TEMPLATES / "page.js").read_text("utf-8"),
    )
    with replacing(out) as temporary:
        temporary.write_text(page, "utf-8")


def sections(evidence: Evidence, ledgers: dict[str, Any]) -> list[Section]:
    keys = evidence.results + evidence.times + evidence.shifts
    trained = [(draw, r) for draw in (controller.actions, controller.curves) for r in RECIPES]
    parts: dict[str, list[Any]] = {
        "run": [
            provenance.states(evidence, keys),
            provenance.origins(evidence, keys),
            provenance.times(evidence),
        ],
        "claims": verdicts.parts(evidence, ledgers),
        "synthetic": _synthetic(evidence),
        "controller": [draw(evidence, recipe) for draw, recipe in trained],
        "ablations": _tables(evidence, "ablation"),
        "dfl": decisions.dfl(evidence) + _tables(evidence, "dfl"),
        "dispatch": decisions.dispatch(evidence) + _tables(evidence, "dispatch"),
    }
    for name, draw in FROM_UNIVERSES.items():
        if tables := _tables(evidence, name):
            parts[name] = [draw(evidence), *tables]
    for name, drawn in EXTRA.items():
        if tables := _tables(evidence, name):
            parts[name] = [*(draw(evidence) for draw in drawn), *tables]
    if "shifts" in parts:
        parts["shifts"] += [readings.depths(evidence), *_tables(evidence, "depths")]
    for name in evidence.tables:
        if not name.startswith(PREFIXES):
            section = "others" if find_table(name).measured else "configuration"
            parts.setdefault(section, []).append(table(name, evidence))
    return [Section(name, *SECTIONS[name], parts[name]) for name in SECTIONS if name in parts]


def _synthetic(evidence: Evidence) -> list[Any]:
    part = evidence.config.synthetic
    *others, hardest = part.scales
    parts: list[Any] = [[heat_map(evidence, r, reading) for r in RECIPES] for reading in READINGS]
    for name, scales in {"depth": [hardest], "depth-others": others}.items():
        if cases := [(family, scale) for scale in scales for family in part.families]:
            title = f"Error against depth, {' and '.join(scales)} benchmarks"
            shown = (evidence, "synthetic", name, title, cases)
            parts.append(figures.against_depth(*shown, folded=scales is others))
    parts += figures.tails(evidence)
    for prefix in ("coverage", "synthetic", "settings"):
        parts += _tables(evidence, prefix)
    return parts


def _tables(evidence: Evidence, prefix: str) -> list[Any]:
    return [table(name, evidence) for name in evidence.tables if name.startswith(prefix)]
