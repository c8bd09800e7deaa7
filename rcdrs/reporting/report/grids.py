"""The tables of the page: ours beside the paper's, cell by cell, with the ratio."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
from markupsafe import Markup

from rcdrs.artifact.config import Config
from rcdrs.reporting.formatting import FAMILIES, METRICS, Amount, Measured
from rcdrs.reporting.paper_values import paper_values
from rcdrs.reporting.render import HTML
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.titles import title_of
from rcdrs.reporting.results import TIME
from rcdrs.reporting.statistics import AHEAD, of_table
from rcdrs.reporting.tables import values
from rcdrs.reporting.tables.base import Cell, layout

#: The paper's name of what an experiment measures on.
BENCHMARKS = {"dfl": "DFL", "dispatch": "Dispatch", "portfolio": "Portfolio", "opf": "Grid"}
#: A ratio within this factor of one counts as the paper's value.
NEAR = 1.25


#: (block, row, column) of a best cell -> how sure its lead is.
Leads = dict[tuple[str, str, str], str]


@dataclass(frozen=True)
class Datum:
    """One cell, text or markup; `sort` is what it is sorted by."""

    html: str
    sort: float | str | None = None
    css: str = ""


@dataclass(frozen=True)
class Block:
    """Rows under a common heading, or under none."""

    label: str
    rows: list[list[Datum]] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """A sortable table; the first cell of every row is its heading."""

    name: str
    title: str
    note: str
    columns: Sequence[str]
    blocks: list[Block]
    command: str = ""
    kind: str = "grid"


def table(name: str, evidence: Evidence) -> Grid | Missing:
    """One of the paper's tables, with the seeds that are there."""
    title, note = title_of(name)
    keys = evidence.behind(name)
    seeds = evidence.seeds(name) if keys else evidence.config.seeds
    if not seeds:
        return evidence.missing(title, keys, f"table_{name}")
    config, results = evidence.config.but(seeds=seeds), evidence.of(name, seeds)
    try:
        cells = values(name, config, results)
    except (ValueError, KeyError) as error:  # the configuration lacks what the table is about
        return Missing(title, f"It cannot be made from this run: {error}")
    if keys and seeds != evidence.config.seeds:
        note += f" So far seeds {', '.join(map(str, seeds))} of {len(evidence.config.seeds)}."
    if any(paper_cell(cell, config) for cell in cells):
        note += " Second line: the paper's value, and ours divided by it."
    leads: Leads = {}
    try:
        leads = _narrow_leads(of_table(name, cells, results, evidence.instances))
    except ValueError as error:  # a metric that has no ratio, as a negative one
        note += f" Whether a lead is due to chance is not known: {error}"
    if leads:
        note += " A tilde marks a lead that may be due to chance."
    heads, blocks = content(cells, config, leads)
    command = evidence.command(f"table_{name}")
    return Grid(name, title, note, heads, blocks, command)


def _narrow_leads(found: pd.DataFrame) -> Leads:
    """The best cells whose lead over the second is within the noise of instances and seeds."""
    return {
        (line["block"], line["first"], line["column"]): (
            f"{line['call']}, against {line['second']}: ratio {line['ratio']:.3g}, over seeds "
            f"{line['seed_low']:.3g} to {line['seed_high']:.3g}"
        )
        for line in found.to_dict("records")
        if line["call"] != AHEAD
    }


def content(cells: list[Cell], config: Config, leads: Leads) -> tuple[list[Markup], list[Block]]:
    """Headings and rows, each cell beside the paper's where it has one."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    heads = [Markup(""), *map(_head, columns)]
    # The paper's value has a column of its own: the first of ours is divided by it.
    paper = columns.index("Paper") if "Paper" in columns else 0
    if paper:
        heads.insert(paper + 2, Markup("Ours / paper"))
    blocks = []
    for label, rows in layout(cells):
        block = Block(Markup(HTML.text(label)))
        for row, line in rows:
            data = [Datum(Markup(HTML.text(row)))]
            data += [_datum(c, config, leads.get((label, row, c.column), "")) for c in line]
            if paper:
                chip, ratio = _chip(_share(line[0]), _share(line[paper]))
                data.insert(paper + 2, Datum(chip, ratio, "number"))
            block.rows.append(data)
        blocks.append(block)
    return heads, blocks


def _share(cell: Cell) -> float:
    """The number of a cell; ``5/6``, a count of settings, as a share of them."""
    return cell.mean / (cell.value.whole or 1) if isinstance(cell.value, Amount) else math.nan


def _datum(cell: Cell, config: Config, lead: str) -> Datum:
    """Our number, and under it the paper's with the ratio."""
    # In a table of many columns the deviation has a line of its own.
    shown = re.sub(r" (± [^<]+)", r' <span class="spread">\1</span>', cell.show(HTML))
    html = Markup(shown)
    if lead:
        html += Markup(' <span class="noise" title="{0}" aria-label="{0}">~</span>').format(lead)
    if math.isnan(cell.mean):
        words = str(html.striptags())
        return Datum(html, words, "told" if len(words) > 24 else "")
    printed = paper_cell(cell, config)
    if printed is not None and isinstance(cell.value, Measured):
        theirs = Measured(printed["mean"], printed["std"], cell.value.style)
        chip, _ = _chip(cell.mean, theirs.mean, cell.metric)
        html += Markup('<span class="paper"><span class="hidden">paper</span> {} {}</span>').format(
            Markup(HTML.show(theirs)), chip
        )
    return Datum(html, cell.mean, "number")


def paper_cell(cell: Cell, config: Config) -> dict[Any, Any] | None:
    """The paper's value of a cell, if it prints one."""
    if not isinstance(cell.value, Measured) or not cell.keys:  # peers have no rows behind them
        return None
    key = cell.keys[0]
    scales = {"synthetic": "hard", "dispatch": config.dispatch.formulations[0]}
    if key.universe or key.recipe != "paper" or key.scale != scales.get(key.experiment, key.scale):
        return None
    benchmark = BENCHMARKS.get(key.experiment) or FAMILIES.get(key.family)
    # Ablations bear the paper's labels in the table, and the variants' names in the rows.
    ablated = key.experiment == "ablation"
    group, method = (cell.block, cell.row) if ablated else ("", key.method)
    return _paper().get((benchmark, key.K, group, method, cell.metric))


@cache
def _paper() -> dict[tuple[Any, ...], dict[Any, Any]]:
    lines = paper_values().fillna({"group": ""}).to_dict("records")
    keys = ("benchmark", "K", "group", "method", "metric")
    return {tuple(line[key] for key in keys): line for line in lines}


def _chip(ours: float, theirs: float, metric: str = "") -> tuple[Markup, float | None]:
    """The ratio of ours to the paper's, marked where it is not near one."""
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return Markup(""), None
    if theirs == 0 or ours < 0 or theirs < 0:
        equal = Markup("=" if ours == theirs else "&ndash;")
        return Markup('<span class="ratio">{}</span>').format(equal), None
    ratio = ours / theirs
    kind = "near" if 1 / NEAR <= ratio <= NEAR else "lower" if ratio < 1 else "higher"
    if metric == TIME:  # another machine: neither good nor bad
        kind = "near"
    return Markup('<span class="ratio {}">&times;{}</span>').format(kind, f"{ratio:.3g}"), ratio


def _head(column: str) -> Markup:
    """A metric as a formula with its direction; another column by its name."""
    before, _, metric = column.rpartition(" ")
    head = f"{HTML.text(before)} {HTML.head(metric)}" if metric in METRICS else HTML.text(column)
    return Markup(head.strip())


def text(value: object) -> Datum:
    return Datum(str(value), str(value))


def number(value: float, spec: str = "d") -> Datum:
    return Datum(HTML.number(value, spec), value, "number")
