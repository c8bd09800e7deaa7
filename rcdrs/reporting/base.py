"""What a table is: cells with their sources, made from a configuration and seed-level rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, ClassVar, Literal

from rcdrs.reporting.coverage import RCDRS, compared_methods
from rcdrs.reporting.formatting import LARGER_IS_BETTER, Style, bold, math_mode, setting, typeset
from rcdrs.reporting.results import TIME, Config, Query, Results, Statistic


@dataclass(frozen=True)
class Needs:
    """The seed-level CSVs behind a table, named as in `Plan.result`; none for a table of the
    configuration alone."""

    rows: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """One cell: where it stands, what it shows, and the selections whose rows are behind it."""

    row: str
    column: str
    text: str
    block: str = ""
    mean: float | None = None
    std: float | None = None
    shown: float | None = None  # the mean as it is printed
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
    shown = style.rounded(found.mean)
    return Cell(
        row, column, text, block, found.mean, found.std, shown,
        metric=found.metric, query=[found.query],
    )  # fmt: skip


def bold_best(cells: list[Cell], along: Literal["column", "row"] = "column") -> list[Cell]:
    """The cells with the best in every column (or row) bold; times are not ranked.

    Numbers are compared as printed: equal ones are both bold.
    """

    def loss(cell: Cell) -> float:
        if cell.shown is None:
            return math.inf
        return -cell.shown if cell.metric in LARGER_IS_BETTER else cell.shown

    best: dict[str, float] = {}
    for cell in cells:
        line = getattr(cell, along)
        best[line] = min(best.get(line, math.inf), loss(cell))
    return [
        replace(cell, bold=True, text=bold(cell.text))
        if cell.metric != TIME and loss(cell) == best[getattr(cell, along)]
        else cell
        for cell in cells
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


def row_files(
    folder: str, config: Config, cases: Sequence[str], depths: Sequence[int]
) -> list[str]:
    """The results of every case, seed and depth of an experiment."""
    return [
        f"{folder}/{case}-{seed}-K{K}.csv"
        for case, K, seed in product(cases, depths, config["seeds"])
    ]


def time_files(config: Config, cases: Sequence[str]) -> list[str]:
    return [f"timing/{case}-{seed}.csv" for case, seed in product(cases, config["seeds"])]


def synthetic_cases(families: Sequence[str], scales: Sequence[str]) -> list[str]:
    return [f"{family}-{scale}" for family, scale in product(families, scales)]


def require(
    table: str, config: Config, section: str = "synthetic", **wanted: Sequence[Any]
) -> None:
    """``require("t", config, scales=["hard"])``: an error where synthetic.scales lacks it."""
    for key, items in wanted.items():
        present = config[section][key]
        missing = ", ".join(str(item) for item in items if item not in present)
        if missing:
            raise ValueError(
                f"table {table} is about {missing}, but {section}.{key} of the configuration is "
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
