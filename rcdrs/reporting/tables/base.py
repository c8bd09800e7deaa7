"""What a table is: cells with their sources, made from a configuration and seed-level rows."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar, Literal

import pandas as pd

from rcdrs.artifact.config import ROOT, Config
from rcdrs.artifact.key import Key
from rcdrs.reporting.coverage import RCDRS, READINGS, Reading, compared_methods
from rcdrs.reporting.formatting import LARGER_IS_BETTER, Amount, Measured, Style, Value
from rcdrs.reporting.render import LATEX, Notation
from rcdrs.reporting.results import TIME, Results, Statistic

#: Beside the package in a checkout; they are part of the paper, not of the library.
TEMPLATES = ROOT / "workflow/templates"


@dataclass(frozen=True)
class Cell:
    """One cell: where it stands, what it shows, and the rows behind it.

    `metric` is the column of the CSVs that its number is made of.
    """

    row: str
    column: str
    value: Value
    block: str = ""
    bold: bool = False
    metric: str = ""
    keys: tuple[Key, ...] = ()

    @property
    def mean(self) -> float:
        """The number, NaN of a cell that shows no result."""
        if isinstance(self.value, Amount):
            return self.value.number
        return self.value.mean if isinstance(self.value, Measured) else math.nan

    @property
    def std(self) -> float | None:
        return self.value.std if isinstance(self.value, Measured) else None

    def show(self, notation: Notation) -> str:
        return notation.show(self.value, self.bold)


@dataclass(frozen=True)
class Table(ABC):
    """One table.  `cells` begins with what the configuration must have for it; what it asks of
    the results is what the table needs.  Its template is called as it, if not otherwise."""

    name: str
    template: str = field(default="", kw_only=True)
    #: Those of the configuration that it is about; without one of them there is no such table.
    universes: tuple[str, ...] = field(default=(), kw_only=True)
    #: Whether there are results behind it, or the configuration alone.
    measured: ClassVar[bool] = True
    #: Whether these are, in part, of single instances.
    detailed: ClassVar[bool] = False

    @property
    def extra(self) -> bool:
        """Do its results need packages of their own?  Then it is shown where somebody has computed
        them."""
        return False

    def templates(self) -> list[str]:
        """Its template, and those that it extends."""
        found = [f"{self.template or self.name}.tex.j2"]
        for name in found:
            found += re.findall(r'extends "([\w.]+)"', (TEMPLATES / name).read_text("utf-8"))
        return found

    @abstractmethod
    def cells(self, config: Config, results: Results) -> list[Cell]: ...

    def context(self, config: Config, results: Results, cells: list[Cell]) -> dict[str, Any]:
        """What the template shows beside the cells."""
        return {}

    def csv(self, cells: list[Cell]) -> str:
        """The table as data: a line per cell, with its text in LaTeX."""
        lines = [
            {"block": cell.block, "row": cell.row, "column": cell.column}
            | {"mean": cell.mean, "std": cell.std, "bold": cell.bold}
            | {"text": cell.show(LATEX), "metric": cell.metric}
            for cell in cells
        ]
        return pd.DataFrame(lines).astype({"mean": float, "std": float}).to_csv(index=False)


def measured(
    row: str, column: str, found: Statistic, style: Style, block: str = "", by: str = ""
) -> Cell:
    value = Measured(found.mean, found.std, style, by)
    return Cell(row, column, value, block, metric=found.metric, keys=found.keys)


def bold_best(cells: list[Cell], along: Literal["column", "row"] = "column") -> list[Cell]:
    """The cells with the best in every column (or row) bold; times are not ranked.

    Numbers are compared as printed: equal ones are both bold.
    """

    def loss(cell: Cell) -> float:
        if not isinstance(cell.value, Measured):
            return math.inf
        shown = cell.value.rounded
        return -shown if cell.metric in LARGER_IS_BETTER else shown

    best: dict[str, float] = {}
    for cell in cells:
        line = getattr(cell, along)
        best[line] = min(best.get(line, math.inf), loss(cell))
    return [
        replace(cell, bold=cell.metric != TIME and loss(cell) == best[getattr(cell, along)])
        for cell in cells
    ]


def layout(cells: Iterable[Cell]) -> list[tuple[str, list[tuple[str, list[Cell]]]]]:
    """(label, rows) of each block, (label, cells) of each row, in the order of the cells."""
    return [
        (block, [(row, list(line)) for row, line in groupby(members, key=lambda cell: cell.row)])
        for block, members in groupby(cells, key=lambda cell: cell.block)
    ]


def require(
    table: str, config: Config, section: str = "synthetic", **wanted: Sequence[Any]
) -> None:
    """``require("t", config, scales=["hard"])``: an error where synthetic.scales lacks it."""
    for key, items in wanted.items():
        present = getattr(getattr(config, section), key)
        missing = ", ".join(str(item) for item in items if item not in present)
        if missing:
            raise ValueError(
                f"table {table} is about {missing}, but {section}.{key} of the configuration is "
                f"{present}: add it there (workflow/config/, or --config), or leave the table out."
            )


def require_compared(table: str, config: Config, recipe: str, reading: Reading) -> None:
    """An error unless both RCDRS variants with that recipe and something to compare with run."""
    require(table, config, methods=RCDRS)
    if recipe != "paper":
        require(table, config, extended=RCDRS)
    if not compared_methods(config, reading):
        raise ValueError(
            f"table {table} is about the strongest {READINGS[reading]}, but synthetic.methods of "
            "the configuration has none: add one there (workflow/config/), or leave the table out."
        )


def spread(config: Config) -> str:
    """What the numbers of a table are, for its caption."""
    count = len(config.seeds)
    if count == 1:
        return f"Each number is the test mean of one seed ({config.seeds[0]})"
    return (
        f"Each number is a test mean, averaged over {count} seeds, "
        "± the sample standard deviation between seeds"
    )
