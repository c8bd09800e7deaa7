"""One page from all that a run has left: sections, their parts, and the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from rcdrs.artifact.plan import Plan
from rcdrs.files import replacing
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.report import controller, decisions, figures, provenance, verdicts
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.glance import cards
from rcdrs.reporting.report.grids import table
from rcdrs.reporting.report.heatmap import heat_map
from rcdrs.reporting.tables import TABLES

TEMPLATES = Path(__file__).parent / "templates"
#: Tables that are long enough to be opened on a click.
FOLDED = {
    "settings",
    "settings_log_kkt",
    "ablation_full",
    "dfl_extended",
    "dispatch_extended",
    "tails",
    "ledger-paper",
    "ledger-log_kkt",
}


@dataclass(frozen=True)
class Section:
    """A chapter of the page; `parts` are figures, tables, heat maps and notes on missing ones."""

    name: str
    title: str
    text: str
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Pair:
    """Parts that stand side by side where there is room."""

    parts: list[Any]
    kind: str = "pair"


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
    names = evidence.results + evidence.times
    ledgers = {"paper": verdicts.read(claims), "log_kkt": verdicts.read(extended)}
    page = environment.get_template("page.html.j2").render(
        run=plan.config["run"],
        cards=cards(evidence, ledgers["paper"]),
        where=provenance.hosts(evidence, names),
        stale=provenance.stale(evidence, names),
        sections=sections(evidence, ledgers),
        folded=FOLDED,
        style=(TEMPLATES / "style.css").read_text(),
        script=(TEMPLATES / "page.js").read_text(),
    )
    with replacing(out) as temporary:
        temporary.write_text(page)


def sections(evidence: Evidence, ledgers: dict[str, Any]) -> list[Section]:
    return [
        _run(evidence),
        Section(
            "claims",
            "Claims",
            "Every quantitative or ordering claim of the paper, checked against this run.",
            verdicts.parts(evidence, ledgers),
        ),
        _synthetic(evidence),
        _controller(evidence),
        Section(
            "ablations",
            "Ablations",
            "One component of the controller, its inputs or its loss changed at a time.",
            _tables(evidence, "ablation"),
        ),
        Section(
            "dfl",
            "Decision-focused learning",
            "Costs are predicted, the layer decides, and regret is what the decision loses.",
            [*decisions.dfl(evidence), *_tables(evidence, "dfl")],
        ),
        Section(
            "dispatch",
            "Energy dispatch",
            "A day on a small network, planned with forecasts of load, wind and sun.",
            [*decisions.dispatch(evidence), *_tables(evidence, "dispatch")],
        ),
        Section(
            "configuration",
            "Configuration",
            "What the numbers above were computed with, read off the configuration.",
            _tables(evidence, ""),
        ),
    ]


def _run(evidence: Evidence) -> Section:
    names = evidence.results + evidence.times
    return Section(
        "run",
        "What was run, and where",
        "Which results there are, the code and the settings behind them, and the machine.",
        [
            provenance.states(evidence, names),
            provenance.origins(evidence, names),
            provenance.times(evidence),
        ],
    )


def _synthetic(evidence: Evidence) -> Section:
    part = evidence.config["synthetic"]
    families, (*others, hardest) = part["families"], part["scales"]
    metrics = ("Gap", "Dist")

    def depth(scales: list[str], name: str, title: str, folded: bool = False) -> Any:
        panels = [(f, scale, f"{FAMILIES[f]} {scale}") for scale in scales for f in families]
        target = "table_settings"
        return figures.against_depth(
            evidence, "synthetic", metrics, panels, name, title, target, folded=folded
        )

    maps = [heat_map(evidence, recipe) for recipe in ("paper", "log_kkt")]
    parts: list[Any] = [Pair(maps)]
    parts.append(depth([hardest], "depth", f"Error against depth, {hardest} benchmarks"))
    if others:
        title = f"Error against depth, {' and '.join(others)} benchmarks"
        parts.append(depth(others, "depth-others", title, folded=True))
    parts += figures.tails(evidence)
    parts += [
        t for prefix in ("coverage", "synthetic", "settings") for t in _tables(evidence, prefix)
    ]
    text = (
        "Conic programs with known solutions in three families, three scales and four depths. Gap "
        "is the positive part of the relative objective error, Dist the relative distance to the "
        "solution, and the residuals are those of the conditions of optimality."
    )
    return Section("synthetic", "Synthetic benchmarks", text, parts)


def _controller(evidence: Evidence) -> Section:
    recipes = ("paper", "log_kkt")
    return Section(
        "controller",
        "What the controllers learn",
        "The relaxation alpha and the objective drive beta that trained layers choose along the "
        "rollout, and how training got there.",
        [controller.actions(evidence, recipe) for recipe in recipes]
        + [controller.curves(evidence, recipe) for recipe in recipes],
    )


#: Tables are told apart by how their names begin.
PREFIXES = ("coverage", "synthetic", "settings", "ablation", "dfl", "dispatch")


def _tables(evidence: Evidence, prefix: str) -> list[Any]:
    """The tables whose names begin so; with no prefix, those of no other section."""
    chosen = [
        name
        for name in TABLES
        if (name.startswith(prefix) if prefix else not name.startswith(PREFIXES))
    ]
    return [table(name, evidence) for name in chosen]
