"""Where the numbers of a claim come from: the paper's own cells, or the results of a run.

Both answer the same questions, so that every check is made twice: a claim that fails on the paper's
own numbers is inconsistent in the paper, whatever a run says.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from rcdrs.experiments.base import EXPERIMENTS
from rcdrs.reporting import coverage
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.paper_values import paper_coverage, paper_values
from rcdrs.reporting.results import Config, MissingRow, Query, Results
from rcdrs.reporting.statistics import (
    AHEAD,
    BEHIND,
    TIED,
    Details,
    Paired,
    measurements,
    paired,
)

#: Families x scales x depths of the paper's coverage summary.
SETTINGS = 36

HOLDS, NOISE, FAILS = "holds", "holds within seed noise", "does not hold"


class NotComputed(LookupError):
    """The run does not have what a claim is about."""


@dataclass(frozen=True)
class Address:
    """One cell of the paper's tables."""

    table: str
    benchmark: str
    K: int
    method: str
    metric: str

    def __str__(self) -> str:
        return f"{self.method}, {self.metric}, {self.benchmark}, K={self.K}"


def unknown(what: str, name: Any, known: Iterable[Any]) -> NoReturn:
    """A name that does not exist, with the nearest that do."""
    names = [str(item) for item in known]
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}."
    raise ValueError(f"unknown {what} {str(name)!r}, {hint}")


class Paper:
    """The cells as printed; one number each, so nothing is judged by noise."""

    def __init__(self) -> None:
        self.cells: dict[Address, dict[str, Any]] = {}
        for line in paper_values().to_dict("records"):
            where = (line["table"], line["benchmark"], int(line["K"]))
            self.cells[Address(*where, line["method"], line["metric"])] = {
                str(key): value for key, value in line.items()
            }

    def names(self, part: str, table: str, benchmark: str = "", K: int = 0) -> list[Any]:
        """What the cells of a table (of a benchmark, of a depth) have as `part`, in their order."""
        found = (
            getattr(a, part)
            for a in self.cells
            if a.table == table and benchmark in ("", a.benchmark) and K in (0, a.K)
        )
        return list(dict.fromkeys(found))

    def check(self, address: Address) -> Address:
        """The address itself; what does not exist is told with the nearest names."""
        if address in self.cells:
            return address
        tables = dict.fromkeys(a.table for a in self.cells)
        if address.table not in tables:
            unknown("table", address.table, tables)
        for part in ("benchmark", "K", "method", "metric"):
            known = self.names(part, address.table)
            if getattr(address, part) not in known:
                unknown(f"{part} of {address.table}", getattr(address, part), known)
        raise ValueError(f"{address.table} has no cell for {address}.")

    def measure(self, address: Address) -> np.ndarray:
        return np.array([self.cells[self.check(address)]["mean"]])

    def status(self, pair: Paired) -> str:
        return HOLDS if pair.ratio < 1 else FAILS

    def by_noise(self, a: Address, b: Address) -> bool:
        """Whether the printed deviations are as large as the difference."""
        first, second = self.cells[a], self.cells[b]
        return bool(abs(first["mean"] - second["mean"]) <= np.hypot(first["std"], second["std"]))

    @cached_property
    def coverage(self) -> dict[str, list[float]]:
        return {
            str(line["item"]): [float(line["value"])]
            for line in paper_coverage().to_dict("records")
        }


class Ours:
    """The results of a run; `tables` says what each of the paper's tables is called here.

    `recipe` is that of RCDRS in the synthetic and decision-focused experiments.  `tests` has the
    outcome of every test that was run.
    """

    def __init__(
        self,
        config: Config,
        rows: pd.DataFrame,
        timing: pd.DataFrame,
        details: Details,
        tables: dict[str, dict[str, Any]],
        recipe: str = "paper",
        tests: dict[str, str] | None = None,
    ) -> None:
        self.config, self.details, self.tables, self.recipe = config, details, tables, recipe
        self.tests = tests or {}
        self._measured: dict[Address, np.ndarray] = {}
        self.results = Results(rows, timing, config["seeds"])

    def measure(self, address: Address) -> np.ndarray:
        """(seeds, instances), or (seeds,) where only the means are stored."""
        if address not in self._measured:
            self._measured[address] = self._measure(address)
        return self._measured[address]

    def _measure(self, address: Address) -> np.ndarray:
        run, metric = self._run(address)
        try:
            return measurements(metric, run, self.results, self.details)
        except MissingRow as missing:
            raise NotComputed(str(missing)) from missing

    def status(self, pair: Paired) -> str:
        """Of a claim to be better: who ties is not."""
        return HOLDS if pair.call == AHEAD else FAILS if pair.call in (BEHIND, TIED) else NOISE

    def _run(self, address: Address) -> tuple[Query, str]:
        """The run behind a cell, and its metric as the CSVs call it."""
        table = self.tables[address.table]
        experiment, method, recipe = table["experiment"], address.method, "paper"
        if experiment not in self.config:
            raise NotComputed(f"the configuration has no {experiment}")
        part = self.config[experiment]
        if experiment == "ablation":
            family, scale = _family(address.benchmark), part["scale"]
            variants = {row["label"]: row["variant"] for row in part["rows"]}
            if method not in variants:
                raise NotComputed(f"ablation.rows of the configuration has no {method}")
            method = variants[method]
        else:
            if experiment == "synthetic":
                family, scale = _family(address.benchmark), table["scale"]
            else:
                # The first case is the one behind the paper's tables.
                family, _, scale = EXPERIMENTS[experiment](self.config).cases[0].partition("-")
                scale = scale or "-"
            if method.startswith("RCDRS") and experiment != "dispatch":
                recipe = self.recipe
        where = {"experiment": experiment, "family": family, "scale": scale, "K": address.K}
        run = where | {"seed": self.results.seeds, "method": method, "recipe": recipe}
        return run, table.get("metrics", {}).get(address.metric, address.metric)

    @cached_property
    def comparisons(self) -> dict[str, list[coverage.Comparison]]:
        """By metric: RCDRS and the compared methods in every setting."""
        part = self.config["synthetic"]
        count = len(part["families"]) * len(part["scales"]) * len(part["depths"])
        if count != SETTINGS:
            raise NotComputed(f"the configuration has {count} settings, not the {SETTINGS}")
        try:
            return {metric: self._compare(self.results, metric) for metric in ("Gap", "Dist")}
        except MissingRow as missing:
            raise NotComputed(str(missing)) from missing

    def _compare(self, results: Results, metric: str) -> list[coverage.Comparison]:
        return coverage.compare(self.config, results, metric, self.recipe)

    @cached_property
    def coverage(self) -> dict[str, list[float]]:
        """Item -> its value over all seeds, then that of each seed alone."""
        found = {i.name: [i.value] for i in coverage.summary(*self.comparisons.values())}
        for seed in self.results.seeds:
            one = copy(self.results)
            one.seeds = [seed]
            for item in coverage.summary(self._compare(one, "Gap"), self._compare(one, "Dist")):
                found[item.name].append(item.value)
        return found

    def wins(self, metric: str, variant: str) -> int:
        return sum(found.won_by([variant]) for found in self.comparisons[metric])

    def clear_wins(self, metric: str, variants: Sequence[str]) -> int:
        """Settings won by the best of these variants, clear of noise."""
        calls = []
        for found in self.comparisons[metric]:
            best = min((found.rcdrs[v] for v in variants), key=lambda statistic: statistic.mean)
            runs = (best.query, found.strongest.query)
            values = (measurements(metric, run, self.results, self.details) for run in runs)
            calls.append(paired(*values).call)
        return calls.count(AHEAD)


def _family(benchmark: str) -> str:
    return {label: family for family, label in FAMILIES.items()}[benchmark]
