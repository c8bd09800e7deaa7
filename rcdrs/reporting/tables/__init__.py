"""Every table by name: what it needs, its cells, its files.

configured(config)                          those that a configuration has
needs("synthetic_k20", config)              the results that it is made of
files(plan, "rows", "synthetic_k20")        where these are
values("synthetic_k20", config, results)    its cells, and the rows behind each
render("synthetic_k20", config, results)    {"synthetic_k20.tex": ..., "synthetic_k20.csv": ...}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import jinja2

from rcdrs.artifact.config import ROOT, Config, ConfigError
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.dispatch.experiment import SOLVABLE
from rcdrs.peers.registry import PeerError
from rcdrs.reporting.care import FAIR
from rcdrs.reporting.equal_time import UNIVERSES
from rcdrs.reporting.multiverse import MULTIVERSE
from rcdrs.reporting.render import LATEX
from rcdrs.reporting.results import TIME, Questions, Results
from rcdrs.reporting.shifts import UNIVERSES as OTHER
from rcdrs.reporting.tables.base import TEMPLATES, Cell, Table, layout, spread
from rcdrs.reporting.tables.care import Care, CareHard, EqualTime
from rcdrs.reporting.tables.configuration import (
    Benchmarks,
    DispatchParameters,
    Hyperparameters,
    Protocol,
)
from rcdrs.reporting.tables.coverage import Coverage, Settings
from rcdrs.reporting.tables.methods import Hard, Methods
from rcdrs.reporting.tables.multiverse import AblationScales, Multiverse
from rcdrs.reporting.tables.peers import Peers
from rcdrs.reporting.tables.portfolio import Periods, Starts
from rcdrs.reporting.tables.shifts import Depths, Shifts
from rcdrs.reporting.tables.synthetic import CERTIFICATES, Ablation, LogKKT

#: The columns of the paper's tables.
SOLUTION = (*CERTIFICATES, TIME)
DECISION = ("Regret", "r_p", "r_d", "r_gap", "Dist")
OPERATION = ("CostGap", "Eq", "Shed", "Curt", "Reserve", "Emerg", "Pass")
#: Of real hours in the season of training; of those of the other one, and of hours each of which
#: begins where the one before it ended.
HOURS = ("Cost", "CostGap", "OptGap", "Eq", "Over", "Shed", "Curt", "Pass")
OTHER_HOURS = tuple(
    f"{metric}_{at}" for at in ("away", "warm") for metric in ("Cost", "CostGap", "Over", "Pass")
)
#: Of an experiment that the paper does not have: a line as `Methods("it", "it", METRICS,
#: template="methods")` is all that it takes.
_TABLES: tuple[Table, ...] = (
    Hard("synthetic_k20", "synthetic", SOLUTION, depth=20, template="synthetic"),
    Hard("synthetic_k5", "synthetic", SOLUTION, depth=5, template="synthetic"),
    LogKKT("synthetic_log_kkt"),
    Ablation("ablation_main", full=False, template="ablation"),
    Ablation("ablation_full", full=True, template="ablation"),
    Coverage("coverage", recipe="paper"),
    Coverage("coverage_log_kkt", recipe="log_kkt", template="coverage"),
    Settings("settings", recipe="paper"),
    Settings("settings_log_kkt", recipe="log_kkt", template="settings"),
    Methods("dfl_k20", "dfl", (*DECISION, TIME), depth=20, template="dfl"),
    Methods("dfl_k5_k10_k15", "dfl", ("Regret", "Eq", "Dist", TIME), but=20, template="dfl"),
    Methods("dfl_extended", "dfl", DECISION, extended=True, beside=FAIR),
    Methods("dispatch_k15", "dispatch", (*OPERATION, TIME), depth=15, template="dispatch"),
    Methods("dispatch_k5_k10", "dispatch", (*OPERATION, TIME), but=15, template="dispatch"),
    Methods(
        "dispatch_extended",
        "dispatch",
        ("OptGap", *OPERATION),
        case=SOLVABLE,
        extended=True,
        beside=FAIR,
        template="dispatch",
    ),
    Methods("grid", "opf", HOURS, extended=True, template="opf"),
    Methods("grid_other", "opf", OTHER_HOURS, extended=True, template="opf_other"),
    Care("care", "Gap", universes=(FAIR,)),
    Care("care_dual", "r_d", universes=(FAIR,), template="care"),
    CareHard("care_hard", universes=(FAIR,)),
    EqualTime("equal_time", universes=UNIVERSES),
    Shifts("shifts", universes=OTHER),
    Depths("depths", universes=OTHER),
    Multiverse("multiverse", universes=MULTIVERSE["synthetic"]),
    AblationScales("ablation_scales", universes=MULTIVERSE["ablation"]),
    Periods("portfolio"),
    Starts("portfolio_starts"),
    DispatchParameters("dispatch_parameters"),
    Protocol("protocol"),
    Benchmarks("benchmarks"),
    Hyperparameters("hyperparameters"),
)
TABLES = {table.name: table for table in _TABLES}
#: Of what is measured, and not of rows.
MEASURED: dict[str, Table] = {"peers": Peers("peers")}


def configured(config: Config) -> dict[str, Table]:
    """The tables whose universes the configuration has."""
    return {n: table for n, table in TABLES.items() if not _lacks_universes(table, config)}


def _lacks_universes(table: Table, config: Config) -> list[str]:
    return sorted(set(table.universes) - set(config.tabled))


def find_table(name: str, config: Config | None = None) -> Table:
    """The table; an error where the configuration, if there is one, lacks what it is about."""
    if name in MEASURED:
        return MEASURED[name]
    if name not in TABLES:
        known = ", ".join([*TABLES, *MEASURED])
        raise ValueError(f"unknown table {name!r}, expected one of {known}.")
    table = TABLES[name]
    if config is not None and (missing := _lacks_universes(table, config)):
        raise ValueError(
            f"table {name} is about {', '.join(missing)}, but universes of the "
            f"configuration has {', '.join(config.tabled) or 'none'}: add it there "
            "(workflow/config/), or leave the table out."
        )
    return table


def shown(plan: Plan) -> list[str]:
    """The tables that are made where nobody names one: all that the configuration has, but of those
    whose results need packages of their own only what is there."""
    names = [*configured(plan.config), *MEASURED]
    return [name for name in names if not find_table(name).extra or is_there(plan, name)]


def is_there(plan: Plan, name: str) -> bool:
    """Are the results behind a table all there and current?"""
    try:
        keys = plan.peers if name in MEASURED else needs(name, plan.config)
        made = (Path(plan.folder, key.path()).is_file() for key in keys)
        there = (key.released() in plan.released.entries for key in keys)
        # Files first, as digests take their time.
        if not all(a or b for a, b in zip(there, made, strict=True)):
            return False
        return {plan.state(key) for key in keys} <= {"released", "computed"}
    except (ConfigError, PeerError):  # without its universe, or its pins
        return False


def needs(name: str, config: Config) -> list[Key]:
    """The rows and times behind a table, found by asking for its cells; an error where the
    configuration lacks what it is about."""
    if name in MEASURED:
        return Plan(config, ROOT).peers
    table, questions = find_table(name, config), Questions(config.seeds)
    if table.measured:
        table.cells(config, questions)
    return list(questions.asked)


def files(plan: Plan, kind: str, *names: str) -> list[Path]:
    """The files behind tables, released or computed: rows, times, shifts, or the details beside
    rows, which a release may lack."""
    asked = dict.fromkeys(key for name in names for key in needs(name, plan.config))
    if kind != "details":
        return [Path(path) for path in plan.results(key for key in asked if key.kind == kind)]
    beside = [path.with_suffix(".npz") for path in files(plan, "rows", *names)]
    return [path for path in beside if path.is_relative_to(plan.folder) or path.exists()]


def available(name: str, config: Config) -> list[Key]:
    """The same, and nothing where the configuration leaves the table out."""
    try:
        return needs(name, config)
    except (ValueError, KeyError):
        return []


def values(name: str, config: Config, results: Results | None = None) -> list[Cell]:
    table = find_table(name, config)
    return table.cells(config, results or Results(None, None, config.seeds))


def render(
    name: str, config: Config, results: Results | None = None, templates: Path = TEMPLATES
) -> dict[str, str]:
    """File name -> content: the table in LaTeX, and as data."""
    table, results = find_table(name, config), results or Results(None, None, config.seeds)
    cells = table.cells(config, results)
    context = {"name": name, "blocks": layout(cells), "spread": spread(config)}
    context |= table.context(config, results, cells)
    tex = _environment(templates).get_template(table.templates()[0]).render(context)
    return {f"{name}.tex": tex, f"{name}.csv": table.csv(cells)}


def preview(files: Iterable[Path], templates: Path = TEMPLATES) -> str:
    """One document that shows the tables in the given .tex files."""
    paths = [Path(file).as_posix() for file in files]
    return _environment(templates).get_template("preview.tex.j2").render(files=paths)


def head_lines(column: str) -> list[str]:
    """``cosine in b median`` over two lines, ``forward and backward, 32`` over three."""
    return re.split(r", | (?=(?:median|worst|\d+ %|backward)(?:,|$))", column)


def _environment(templates: Path) -> jinja2.Environment:
    r"""Templates in which LaTeX stays LaTeX: \VAR{}, \BLOCK{}, \#{}; a missing value fails."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        block_start_string=r"\BLOCK{",
        block_end_string="}",
        variable_start_string=r"\VAR{",
        variable_end_string="}",
        comment_start_string=r"\#{",
        comment_end_string="}",
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"text": LATEX.text, "metric": LATEX.metric, "head": LATEX.head}
    environment.filters["lines"] = head_lines
    environment.filters["row"] = lambda cells: " & ".join(cell.show(LATEX) for cell in cells)
    return environment
