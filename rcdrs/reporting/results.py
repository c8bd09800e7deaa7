"""Seed-level rows, looked up by what they are.  What is missing or not a number is an error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

Config = dict[str, Any]
#: Column -> value, or list of values, of a selection of seed-level rows.
Query = dict[str, Any]

TIME = "time_ms"
#: What tells one seed-level row from another; times do not depend on the recipe.
TIMING_KEY = ("experiment", "family", "scale", "K", "seed", "method")
KEY = (*TIMING_KEY, "recipe")


def read_rows(paths: Iterable[Path]) -> pd.DataFrame:
    """The rows of all files; a damaged one is named."""
    frames = []
    for path in paths:
        try:
            frames.append(pd.read_csv(path))
        except (ValueError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path} is not a readable CSV ({error}): delete it and run the workflow again."
            ) from error
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


class MissingRow(ValueError):
    """A run is not among the results."""


@dataclass(frozen=True)
class Statistic:
    """A metric over the seeds: mean, and sample standard deviation where there are several."""

    metric: str
    mean: float
    std: float | None
    query: Query


class Results:
    """The rows of one run.

    The recipe of a method that learns nothing is "-" in the rows; it belongs to the recipe
    "paper" here, since the paper's tables show it beside the learned ones.
    """

    def __init__(
        self, rows: pd.DataFrame | None, timing: pd.DataFrame | None, seeds: Sequence[int]
    ) -> None:
        self.seeds = list(seeds)
        self._rows = _index(rows, KEY)
        self._timing = _index(timing, TIMING_KEY)

    def statistic(
        self,
        metric: str,
        family: str,
        scale: str,
        K: int,
        method: str,
        recipe: str = "paper",
        experiment: str = "synthetic",
    ) -> Statistic:
        run: Query = {
            "experiment": experiment,
            "family": family,
            "scale": scale,
            "K": K,
            "seed": self.seeds,
            "method": method,
        }
        if metric != TIME:
            run["recipe"] = recipe
        lines = [self._line(metric, run | {"seed": seed}) for seed in self.seeds]
        values = [float(line[metric]) for line in lines]
        if metric != TIME:
            run["recipe"] = lines[0]["recipe"]  # as it stands in the CSV
        std = statistics.stdev(values) if len(values) > 1 else None
        return Statistic(metric, statistics.fmean(values), std, run)

    def device(self, queries: Iterable[Query]) -> str:
        """The device of the times; times of different devices never share a table."""
        found = {
            self._line(TIME, query | {"seed": seed})["device"]
            for query in queries
            for seed in self.seeds
        }
        if len(found) != 1:
            raise ValueError(
                f"times were measured on several devices ({', '.join(sorted(found))}): measure "
                "them again on one."
            )
        return str(found.pop())

    def _line(self, metric: str, run: Query) -> dict[str, Any]:
        index, key = (self._timing, TIMING_KEY) if metric == TIME else (self._rows, KEY)
        name = ", ".join(f"{column}={run[column]}" for column in key)
        line = index.get(tuple(run[column] for column in key))
        if line is None:
            raise MissingRow(f"no row for {name}: its {metric} is missing from the CSVs.")
        if metric not in line or not math.isfinite(line[metric]):
            raise ValueError(
                f"{metric} is {line.get(metric, 'missing')} in the row {name}, expected a number."
            )
        return line


def _index(frame: pd.DataFrame | None, key: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    if frame is None or frame.empty:
        return {}
    if missing := [column for column in key if column not in frame]:
        raise ValueError(f"the CSVs have no column {', '.join(missing)}, expected {', '.join(key)}")
    index: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in frame.to_dict("records"):
        # Only the recipe: a scale may be "-" as well, of an experiment that has but one.
        run = tuple(
            "paper" if (column, line[column]) == ("recipe", "-") else line[column] for column in key
        )
        if run in index:
            name = ", ".join(f"{c}={value}" for c, value in zip(key, run, strict=True))
            raise ValueError(f"two rows for {name}: the same CSV was read twice?")
        index[run] = {str(column): value for column, value in line.items()}
    return index


def union(queries: Iterable[Query]) -> Query:
    """One query for several: the values of every column together."""
    merged: dict[str, list[Any]] = {}
    for query in queries:
        for column, value in query.items():
            known = merged.setdefault(column, [])
            known += [v for v in _as_list(value) if v not in known]
    return merged


def pick(frame: pd.DataFrame, query: Iterable[Query]) -> pd.DataFrame:
    """The rows that any of the selections picks."""
    picked = pd.Series(False, index=frame.index)
    for selection in query:
        fits = pd.Series(True, index=frame.index)
        for column, value in selection.items():
            fits &= frame[column].isin(_as_list(value))
        picked |= fits
    return frame[picked]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
