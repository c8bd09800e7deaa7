"""Every table by name: what it needs, its values, its LaTeX.

    needs("synthetic_k20", config)                   which seed-level CSVs it is made of
    values("synthetic_k20", config, rows, timing)    its cells, and the rows behind each
    render("synthetic_k20", config, rows, timing)    {"synthetic_k20.tex": ...}

`rows` and `timing` are the seed-level CSVs, concatenated in any order; they may hold more than
the table needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import jinja2
import pandas as pd

from rcdrs.reporting.base import Cell, Needs, Table, layout, spread
from rcdrs.reporting.config_tables import (
    Benchmarks,
    DispatchParameters,
    Hyperparameters,
    Protocol,
)
from rcdrs.reporting.coverage_tables import Coverage, Settings
from rcdrs.reporting.decision_tables import DFL, DFLExtended, Dispatch, DispatchExtended
from rcdrs.reporting.result_tables import Ablation, LogKKT, Synthetic
from rcdrs.reporting.results import TIME, Config, Results, pick

#: Beside the package in a checkout; they are part of the paper, not of the library.
TEMPLATES = Path(__file__).parents[2] / "workflow" / "templates"

#: The columns of the paper's tables on decisions.
DECISION = ("Regret", "r_p", "r_d", "r_gap", "Dist")
OPERATION = ("CostGap", "Eq", "Shed", "Curt", "Reserve", "Emerg", "Pass")

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Synthetic("synthetic_k20", depth=20),
        Synthetic("synthetic_k5", depth=5),
        LogKKT("synthetic_log_kkt"),
        Ablation("ablation_main", full=False),
        Ablation("ablation_full", full=True),
        Coverage("coverage", recipe="paper"),
        Coverage("coverage_log_kkt", recipe="log_kkt"),
        Settings("settings", recipe="paper"),
        Settings("settings_log_kkt", recipe="log_kkt"),
        DFL("dfl_k20", (*DECISION, TIME), depth=20),
        DFL("dfl_k5_k10_k15", ("Regret", "Eq", "Dist", TIME), but=20),
        DFLExtended("dfl_extended", DECISION),
        Dispatch("dispatch_k15", (*OPERATION, TIME), depth=15),
        Dispatch("dispatch_k5_k10", (*OPERATION, TIME), but=15),
        DispatchExtended("dispatch_extended", ("OptGap", *OPERATION)),
        DispatchParameters("dispatch_parameters"),
        Protocol("protocol"),
        Benchmarks("benchmarks"),
        Hyperparameters("hyperparameters"),
    )
}


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}, expected one of {', '.join(TABLES)}.")
    return TABLES[name]


def needs(name: str, config: Config) -> Needs:
    """The CSVs behind a table; an error where the configuration lacks what it is about."""
    return find_table(name).needs(config)


def values(
    name: str,
    config: Config,
    rows: pd.DataFrame | None = None,
    timing: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One line per cell: block, row, column, mean, std, bold, text, metric, query.

    `query` is a list of selections, each a dict of column -> value or list of values; `behind`
    picks their rows.  `metric` is the column of the CSV that the number is made of.
    """
    cells = _cells(find_table(name), config, Results(rows, timing, config["seeds"]))
    order = ["block", "row", "column", "mean", "std", "bold", "text", "metric", "query"]
    return pd.DataFrame([vars(cell) for cell in cells])[order].astype({"mean": float, "std": float})


def behind(cell: pd.Series, rows: pd.DataFrame, timing: pd.DataFrame) -> pd.DataFrame:
    """The seed-level rows behind one line of `values`."""
    return pick(timing if cell["metric"] == TIME else rows, cell["query"])


def render(
    name: str,
    config: Config,
    rows: pd.DataFrame | None = None,
    timing: pd.DataFrame | None = None,
    templates: Path = TEMPLATES,
) -> dict[str, str]:
    """File name -> content: the LaTeX, and for some tables the same as CSV."""
    table = find_table(name)
    results = Results(rows, timing, config["seeds"])
    cells = _cells(table, config, results)
    context = {"name": name, "blocks": layout(cells), "spread": spread(config)}
    context |= table.context(config, results, cells)
    tex = _environment(templates).get_template(table.template).render(context)
    extra = {f"{name}{suffix}": content for suffix, content in table.extra(cells).items()}
    return {f"{name}.tex": tex} | extra


def preview(files: Iterable[Path], templates: Path = TEMPLATES) -> str:
    """One document that shows the tables in the given .tex files."""
    paths = [Path(file).as_posix() for file in files]
    return _environment(templates).get_template("preview.tex.j2").render(files=paths)


def _cells(table: Table, config: Config, results: Results) -> list[Cell]:
    table.needs(config)  # checks the configuration
    return table.cells(config, results)


def _environment(templates: Path) -> jinja2.Environment:
    r"""Templates in which LaTeX stays LaTeX: \VAR{}, \BLOCK{}, \#{}; a missing value fails."""
    return jinja2.Environment(
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
