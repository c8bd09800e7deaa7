"""Seed-level rows, looked up by what they are.  What is missing or not a number is an error."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcdrs.artifact.key import Key, parse_end
from rcdrs.artifact.release import read_origin
from rcdrs.experiments.base import experiment_of
from rcdrs.files import reading
from rcdrs.reporting.details import Details

TIME = "time_ms"
#: The columns that tell one seed-level row from another; times do not depend on the recipe.
KEY = ("experiment", "family", "scale", "K", "seed", "method", "recipe")
#: And those that tell the lines of shifts apart.
SHIFT = (*KEY, "target", "tuned")
#: Columns of text and of whole numbers, also in traces; all others are of numbers.
TEXTS = (*KEY[:3], *SHIFT[5:], "device", "series", "schedule", "side", "part")
WHOLE = ("K", "seed", "step", "hour")


def read_rows(paths: Iterable[Path]) -> pd.DataFrame:
    """The rows of all files, with the file of each as its `source`, and the universe that the file
    is of; a damaged one is named.

    Those of later files replace those of earlier ones: of a release that is in part out of date.
    """
    frames = [pd.DataFrame(columns=["source", "universe"])]
    for path in dict.fromkeys(paths):
        read_origin(path)  # an error where the file is not as it was computed
        with reading(path, "CSV", "delete it and run the workflow again"):
            text = path.read_text(encoding="utf-8")
            _check_lines(text, places := parse_end(path))
            where = {"source": str(path), "universe": places.get("universe", "")}
            frames.append(pd.read_csv(io.StringIO(text)).assign(**where))
    rows = pd.concat(frames[1:] or frames, ignore_index=True)
    key = [column for column in (*KEY, "universe") if column in rows]
    if len(rows) and "method" in key:
        rows = rows[rows["source"] == rows.groupby(key, dropna=False)["source"].transform("last")]
    return rows


def _check_lines(text: str, places: dict[str, Any]) -> None:
    """Every line has a value of its kind in each column, and is of what its file is called."""
    if not text.endswith("\n"):
        raise ValueError("its last line is cut off" if text else "it is empty")
    header, *lines = csv.reader(io.StringIO(text))
    kinds = ("schedule",) if "schedule" in header else KEY[:-1] if TIME in header else KEY
    if missing := [column for column in kinds if column not in header]:
        raise ValueError(f"it has no column {', '.join(missing)}")
    if len(set(header)) < len(header) or not lines:
        raise ValueError("a column is there twice" if lines else "it has no rows")
    seen: dict[tuple[str, ...], int] = {}
    for number, cells in enumerate(lines, start=2):
        if len(cells) != len(header):
            raise ValueError(f"line {number} has {len(cells)} values, expected {len(header)}")
        line = dict(zip(header, cells, strict=True))
        for column, cell in line.items():
            _check_cell(f"line {number}: {column}", column, cell)
        told = tuple(line[column] for column in (*TEXTS, *WHOLE) if column in line)
        if seen.setdefault(told, number) != number:
            raise ValueError(f"line {number} is of the same run as line {seen[told]}")
        if places and "schedule" not in line:
            key = vars(Key.of_row({"recipe": "paper"} | line))
            for name in ("experiment", "case", "seed", "K", "method", "recipe"):
                if places.get(name, key[name]) != key[name]:
                    expected = f"expected {places[name]}, as the file is called"
                    raise ValueError(f"line {number} is of {name} {key[name]}, {expected}")


def _check_cell(place: str, column: str, cell: str) -> None:
    """An empty one is there for other lines of the file."""
    if column in WHOLE and not re.fullmatch(r"-?\d+", cell):
        raise ValueError(f"{place} is {cell!r}, expected a whole number")
    if column in KEY and not cell:
        raise ValueError(f"{place} is empty")
    if column not in TEXTS and cell:
        with suppress(ValueError):
            if math.isfinite(float(cell)):
                return
        raise ValueError(f"{place} is {cell!r}, expected a finite number")


@dataclass(frozen=True, order=True)
class Shift(Key):
    """One line of a file of shifts: a run on another `target`, `tuned` at home or there."""

    target: str = ""
    tuned: str = ""

    def __str__(self) -> str:
        return f"{self.path()}, {self.run} on {self.target!r}, tuned {self.tuned!r}"

    @property
    def file(self) -> Key:
        """Of the result that the line is in: all runs and targets have one file."""
        return Key(self.kind, self.experiment, self.case, self.seed, self.K, universe=self.universe)

    @staticmethod
    def of_row(row: Mapping[Any, Any]) -> Shift:
        names = vars(Key.of_row(row)) | {"kind": "shifts"}
        names["experiment"] = experiment_of(names["case"])
        return Shift(**names, target=str(row["target"]), tuned=str(row["tuned"]))


class MissingRow(ValueError):
    """A run is not among the results."""


@dataclass(frozen=True)
class Statistic:
    """A metric over the seeds: its `values`, and the row of each."""

    metric: str
    values: tuple[float, ...]
    keys: tuple[Key, ...]

    @cached_property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """The sample standard deviation, where there are several seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def method(self) -> str:
        return self.keys[0].method


class Results:
    """The rows and times of one run in any order, and the metrics of its instances; there may be
    more than is asked for.

    Times are kept by the key of a row with the paper's recipe, lines of shifts beside the rows.
    """

    def __init__(
        self,
        rows: pd.DataFrame | None,
        timing: pd.DataFrame | None,
        seeds: Sequence[int],
        details: Details | None = None,
        shifts: pd.DataFrame | None = None,
        peers: pd.DataFrame | None = None,
    ) -> None:
        self.seeds, self.details = list(seeds), details or Details()
        self.rows, self.times = _by_key(rows, KEY), _by_key(timing, KEY[:-1])
        self.rows |= _by_key(shifts, SHIFT)
        #: The lines of files of peers, as they are.
        self.peers = pd.DataFrame() if peers is None else peers
        self._located: Callable[[Key], Key] = lambda key: key

    def within(self, located: Callable[[Key], Key], seeds: Sequence[int]) -> Results:
        """The same, asked as if they were of another reading of the protocol: `located` says which
        row there stands for one of the configuration as it is."""
        found = copy(self)
        found.seeds, found._located = list(seeds), located
        return found

    def statistic(
        self,
        metric: str,
        family: str,
        scale: str,
        K: int,
        method: str,
        recipe: str = "paper",
        experiment: str = "synthetic",
        universe: str = "",
        seeds: Sequence[int] | None = None,
    ) -> Statistic:
        """Over the seeds of these results, if not over others."""
        case = family if scale == "-" else f"{family}-{scale}"
        places = (K, method, "paper" if metric == TIME else recipe, universe)
        chosen = self.seeds if seeds is None else seeds
        keys = [Key("rows", experiment, case, n, *places) for n in chosen]
        return self.of(metric, map(self._located, keys))

    def of(self, metric: str, keys: Iterable[Key]) -> Statistic:
        """The metric in these rows, one for each seed."""
        keys = tuple(keys)
        return Statistic(metric, tuple(self._value(metric, key) for key in keys), keys)

    def instances(self, metric: str, key: Key) -> np.ndarray:
        """The metric of each test instance of one row."""
        found = self.details.one(metric, key)
        if found is None:
            raise MissingRow(
                f"no instances for {key}: their {metric} is missing, a release may lack them; run "
                "the workflow again with results=recompute."
            )
        return found

    def behind(self, metric: str, keys: Iterable[Key]) -> pd.DataFrame:
        """The rows, or times, that a number is made of."""
        lines = self.times if metric == TIME else self.rows
        return pd.DataFrame([lines[key] for key in keys])

    def device(self, keys: Iterable[Key]) -> str:
        """The device of the times; times of different devices never share a table."""
        found = {self.times[key]["device"] for key in keys}
        if len(found) != 1:
            raise ValueError(
                f"times were measured on several devices ({', '.join(sorted(found))}): measure "
                "them again on one."
            )
        return str(found.pop())

    def _value(self, metric: str, key: Key) -> float:
        line = (self.times if metric == TIME else self.rows).get(key)
        if line is None:
            raise MissingRow(
                f"no row for {key}: its {metric} is missing from the CSVs, give all of them or run "
                "the workflow again."
            )
        if metric not in line or not math.isfinite(line[metric]):
            raise ValueError(
                f"{metric} is {line.get(metric, 'missing')} in the row {key}, expected a number."
            )
        return float(line[metric])


class Questions(Results):
    """Answers everything with a number, and notes of which results that was."""

    def __init__(self, seeds: Sequence[int]) -> None:
        super().__init__(None, None, seeds)
        self.asked: dict[Key, None] = {}

    def _value(self, metric: str, key: Key) -> float:
        if metric == TIME:  # one file has the times of every depth and method
            key = Key("times", key.experiment, key.case, key.seed, universe=key.universe)
        self.asked[key.file if isinstance(key, Shift) else key] = None
        return 1.0

    def instances(self, metric: str, key: Key) -> np.ndarray:
        self.asked[key] = None
        return np.ones(1)


def _by_key(frame: pd.DataFrame | None, columns: Sequence[str]) -> dict[Key, dict[Any, Any]]:
    """What learns nothing has the recipe of its key."""
    if frame is None or frame.empty:
        return {}
    if missing := [column for column in columns if column not in frame]:
        told = f"{', '.join(missing)}, expected {', '.join(columns)}"
        raise ValueError(f"the CSVs have no column {told}.")
    found: dict[Key, dict[Any, Any]] = {}
    of_row = Shift.of_row if columns == SHIFT else Key.of_row
    for line in frame.to_dict("records"):
        key = of_row({"recipe": "paper"} | line)
        if key in found:
            raise ValueError(f"two rows for {key}: the same CSV was read twice?")
        found[key] = line | ({"recipe": key.recipe} if "recipe" in line else {})
    return found
