"""The tables of the page: ours beside the paper's, cell by cell, with the ratio."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from rcdrs.reporting.formatting import FAMILIES, LARGER_IS_BETTER, METRICS, typeset
from rcdrs.reporting.paper_values import paper_values
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.latex import to_html
from rcdrs.reporting.report.titles import title_of
from rcdrs.reporting.results import TIME, Config
from rcdrs.reporting.statistics import AHEAD, of_table
from rcdrs.reporting.tables import values

#: The paper's name of what an experiment measures on.
BENCHMARKS = {"dfl": "DFL", "dispatch": "Dispatch"}
#: A ratio within this factor of one counts as the paper's value.
NEAR = 1.25


#: (block, row, column) of a best cell -> how sure its lead is.
Leads = dict[tuple[str, str, str], str]


@dataclass(frozen=True)
class Datum:
    """One cell of HTML; `sort` is what it is sorted by."""

    html: Markup
    sort: float | str | None = None
    css: str = ""


@dataclass(frozen=True)
class Block:
    """Rows under a common heading; a table without headings is one block without a label."""

    label: Markup
    rows: list[list[Datum]] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """A sortable table; the first cell of every row is its heading."""

    name: str
    title: str
    note: Markup
    columns: list[Markup]
    blocks: list[Block]
    command: str = ""
    kind: str = "grid"


def table(name: str, evidence: Evidence) -> Grid | Missing:
    """One of the paper's tables, with the seeds that are there."""
    title, note = title_of(name)
    rows, times = evidence.behind(name)
    seeds = evidence.seeds(name) if rows or times else evidence.config["seeds"]
    if not seeds:
        return evidence.missing(title, rows + times, f"table_{name}")
    config = evidence.config | {"seeds": seeds}
    try:
        cells = values(name, config, evidence.frame(rows), evidence.frame(times))
    except (ValueError, KeyError) as error:  # the configuration lacks what the table is about
        return Missing(title, f"It cannot be made from this run: {error}")
    if rows and seeds != evidence.config["seeds"]:
        note += f" So far seeds {', '.join(map(str, seeds))} of {len(evidence.config['seeds'])}."
    if any(paper_cell(cell, config) for _, cell in cells.iterrows()):
        note += " Second line: the paper's value, and ours divided by it."
    leads: Leads = {}
    if cells["bold"].any():
        try:
            leads = _narrow_leads(name, evidence, config)
        except ValueError as error:  # a metric that has no ratio, as a negative one
            note += f" Whether a lead is due to chance is not known: {error}"
    if leads:
        note += " A tilde marks a lead that may be due to chance."
    command = evidence.command(f"table_{name}")
    return grid(name, title, Markup(escape(note)), cells, config, command, leads)


def _narrow_leads(name: str, evidence: Evidence, config: Config) -> Leads:
    """The best cells whose lead over the second is within the noise of instances and seeds."""
    rows, times = (evidence.frame(names) for names in evidence.behind(name, config["seeds"]))
    found = of_table(name, config, rows, times, evidence.instances)
    return {
        (line["block"], line["first"], line["column"]): (
            f"{line['call']}, against {line['second']}: ratio {line['ratio']:.3g}, over seeds "
            f"{line['seed_low']:.3g} to {line['seed_high']:.3g}"
        )
        for line in found.to_dict("records")
        if line["call"] != AHEAD
    }


def grid(
    name: str,
    title: str,
    note: Markup,
    cells: pd.DataFrame,
    config: Config,
    command: str = "",
    leads: Leads | None = None,
) -> Grid:
    """The cells of `tables.values` as a table, each beside the paper's where it has one."""
    columns = list(dict.fromkeys(cells["column"]))
    beside = {"Ours", "Paper"} <= set(columns)
    blocks = []
    for label, members in cells.groupby("block", sort=False):
        block = Block(_text(str(label)))
        for row, line in members.groupby("row", sort=False):
            found = {cell["column"]: cell for _, cell in line.iterrows()}
            data = [Datum(_text(str(row)))]
            for column in columns:
                lead = (leads or {}).get((str(label), str(row), column), "")
                data.append(_datum(found.get(column), config, lead))
            if beside:
                chip, value = _chip(_share(found["Ours"]), _share(found["Paper"]))
                data.insert(3, Datum(chip, value, "number"))
            block.rows.append(data)
        blocks.append(block)
    heads = [_head(column) for column in columns]
    if beside:
        heads.insert(2, Markup("Ours / paper"))
    return Grid(name, title, note, [Markup(""), *heads], blocks, command)


def _share(cell: pd.Series) -> float:
    """The number of a cell; ``5/6``, a count of settings, as a share of them."""
    of = re.search(r"/(\d+)", cell["text"])
    return float(cell["mean"]) / (int(of[1]) if of else 1)


def _datum(cell: pd.Series | None, config: Config, lead: str = "") -> Datum:
    """Our number, and under it the paper's with the ratio."""
    if cell is None:
        return Datum(Markup(""))
    html = to_html(cell["text"])
    if lead:
        html += Markup(' <span class="noise" title="{}" aria-label="{}">~</span>').format(
            lead, lead
        )
    if cell["mean"] is None or math.isnan(cell["mean"]):
        words = str(html.striptags())
        return Datum(html, words, "told" if len(words) > 24 else "")
    printed = paper_cell(cell, config)
    if printed is not None:
        theirs = _like(cell["text"], printed["mean"], printed["std"])
        chip, _ = _chip(cell["mean"], printed["mean"], cell["metric"])
        html += Markup('<span class="paper"><span class="hidden">paper</span> {} {}</span>').format(
            theirs, chip
        )
    return Datum(html, float(cell["mean"]), "number")


def paper_cell(cell: pd.Series, config: Config) -> dict[str, Any] | None:
    """The paper's value of a cell of `tables.values`, if it prints one."""
    if len(cell["query"]) != 1:
        return None
    query = cell["query"][0]
    if query.get("recipe", "paper") not in ("paper", "-"):
        return None
    experiment = query["experiment"]
    benchmark = BENCHMARKS.get(experiment) or FAMILIES.get(query["family"])
    if experiment == "synthetic" and query["scale"] != "hard":
        return None
    if experiment == "dispatch" and query["scale"] != config["dispatch"]["formulations"][0]:
        return None
    # Ablations bear the paper's labels in the table, and the variants' names in the rows.
    ablated = experiment == "ablation"
    group, method = (cell["block"], cell["row"]) if ablated else ("", query["method"])
    return _paper().get((benchmark, query["K"], group, method, cell["metric"]))


@cache
def _paper() -> dict[tuple[Any, ...], dict[str, Any]]:
    lines = paper_values().fillna({"group": ""}).to_dict("records")
    keys = ("benchmark", "K", "group", "method", "metric")
    return {
        tuple(line[key] for key in keys): {str(k): v for k, v in line.items()} for line in lines
    }


def _like(text: str, mean: float, std: float) -> Markup:
    """The paper's number, printed as ours is."""
    decimals = re.search(r"\.(\d+)", text)
    spec = ".2e" if "mathrm{e}" in text else f".{len(decimals[1]) if decimals else 0}f"
    shown = [_short(format(value, spec)) for value in (mean, std) if not math.isnan(value)]
    return Markup(" ± ".join(shown))


def _short(number: str) -> str:
    """``2.28e-03`` as ``2.28e-3``, the way our own numbers are printed."""
    mantissa, e, exponent = number.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def _chip(ours: float, theirs: float, metric: str = "") -> tuple[Markup, float | None]:
    """The ratio of ours to the paper's, marked where it is not near one."""
    if any(value is None or not math.isfinite(value) for value in (ours, theirs)):
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
    metric = column.rpartition(" ")[2]
    if metric not in METRICS:
        return _text(column)
    arrow = "↑" if metric in LARGER_IS_BETTER else "↓"
    before = _text(column.removesuffix(metric).strip())
    return Markup(f"{before} {to_html(METRICS[metric])} {arrow}".strip())


def _text(plain: str) -> Markup:
    return to_html(typeset(plain))


def plain_grid(
    name: str,
    title: str,
    note: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Datum]],
    command: str = "",
) -> Grid:
    """A table of other things than results."""
    heads = [Markup(escape(column)) for column in columns]
    block = Block(Markup(""), [list(row) for row in rows])
    return Grid(name, title, Markup(escape(note)), heads, [block], command)


def text(value: object) -> Datum:
    return Datum(Markup(escape(value)), str(value))


def number(value: float, spec: str = ".3g") -> Datum:
    return Datum(Markup(escape(_short(format(value, spec)))), value, "number")
