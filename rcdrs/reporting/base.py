"""What a table is: cells with their sources, made from a configuration and seed-level rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, ClassVar, Literal

from rcdrs.reporting.coverage import RCDRS, compared_methods
from rcdrs.reporting.formatting import Style, bold, math_mode, setting, typeset
from rcdrs.reporting.results import TIME, Config, Query, Results, Statistic

#: One seed of one setting: case ("socp-hard"), seed, depth K.
Setting = tuple[str, int, int]


@dataclass(frozen=True)
class Needs:
    """The seed-level CSVs behind a table; all empty for a table of the configuration alone.

    synthetic, extended: settings of the synthetic experiment, with the paper's recipe and with
        log_kkt.
    ablation: (case, seed, K, variant).
    timing: settings whose inference is timed.
    """

    synthetic: list[Setting] = field(default_factory=list)
    extended: list[Setting] = field(default_factory=list)
    ablation: list[tuple[str, int, int, str]] = field(default_factory=list)
    timing: list[Setting] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """One cell: where it stands, what it shows, and the selections whose rows are behind it."""

    row: str
    column: str
    text: str
    block: str = ""
    mean: float | None = None
    std: float | None = None
    bold: bool = False
    metric: str = ""
    query: list[Query] = field(default_factory=list)


class Table(ABC):
    """One table.  `needs` also checks that the configuration has what the table is about."""

    name: str
    template: ClassVar[str]

    def needs(self, config: Config) -> Needs:
        return Needs()

    @abstractmethod
    def cells(self, config: Config, results: Results) -> list[Cell]: ...

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        """What the template shows beside the cells."""
        return {}

    def extra(self, cells: list[Cell]) -> dict[str, str]:
        """Further files, by suffix."""
        return {}


def measured(row: str, column: str, found: Statistic, style: Style, block: str = "") -> Cell:
    text = style.mean_std(found.mean, found.std)
    return Cell(
        row, column, text, block, found.mean, found.std, metric=found.metric, query=[found.query]
    )


def bold_best(
    cells: list[Cell], style: Style, along: Literal["column", "row"] = "column"
) -> list[Cell]:
    """The cells with the lowest in every column (or row) bold; times are not ranked.

    Numbers are compared as printed: equal ones are both bold.
    """
    shown = [math.inf if c.mean is None else style.rounded(c.mean) for c in cells]
    best: dict[str, float] = {}
    for cell, value in zip(cells, shown, strict=True):
        line = getattr(cell, along)
        best[line] = min(best.get(line, math.inf), value)
    return [
        replace(cell, bold=True, text=bold(cell.text))
        if cell.metric != TIME and value == best[getattr(cell, along)]
        else cell
        for cell, value in zip(cells, shown, strict=True)
    ]


def layout(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Blocks of rows of texts, in the order of the cells."""
    blocks = []
    for block, members in groupby(cells, key=lambda cell: cell.block):
        rows = [
            {"label": typeset(row), "texts": [cell.text for cell in line]}
            for row, line in groupby(members, key=lambda cell: cell.row)
        ]
        blocks.append({"label": typeset(block), "size": len(rows), "rows": rows})
    return blocks


def settings(
    config: Config, families: Sequence[str], scales: Sequence[str], depths: Sequence[int]
) -> list[Setting]:
    """Every (case, seed, K)."""
    return [
        (f"{family}-{scale}", seed, K)
        for family, scale, K, seed in product(families, scales, depths, config["seeds"])
    ]


def require(table: str, config: Config, **wanted: Sequence[Any]) -> None:
    """``require("t", config, scales=["hard"])``: an error where synthetic.scales lacks it."""
    for key, items in wanted.items():
        present = config["synthetic"][key]
        missing = ", ".join(str(item) for item in items if item not in present)
        if missing:
            raise ValueError(
                f"table {table} is about {missing}, but synthetic.{key} of the configuration is "
                f"{present}: add it there (workflow/config/, or --config), or leave the table out."
            )


def require_compared(table: str, config: Config, recipe: str) -> None:
    """An error unless both RCDRS variants with that recipe and something to compare with run."""
    require(table, config, methods=RCDRS)
    if recipe != "paper":
        require(table, config, extended=RCDRS)
    if not compared_methods(config):
        raise ValueError(
            f"table {table} compares RCDRS with other methods, but synthetic.methods of the "
            "configuration has none: add one there (workflow/config/), or leave the table out."
        )


def spread(config: Config) -> str:
    """What the numbers of a table are, for its caption."""
    count = len(config["seeds"])
    if count == 1:
        return f"Each number is the test mean of one seed ({config['seeds'][0]})"
    return (
        "Each number is a test mean, averaged over "
        rf"{count} seeds, \(\pm\) the sample standard deviation between seeds"
    )


def formula_list(values: Iterable[float], opening: str = r"\{", closing: str = r"\}") -> str:
    return math_mode(opening + ",".join(setting(value) for value in values) + closing)
