"""Where the numbers of a claim come from: the paper's own cells, or the results of a run.

Both answer the same questions, so that every check is made twice: a claim that fails on the paper's
own numbers is inconsistent in the paper, whatever a run says.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from rcdrs.artifact.config import Config
from rcdrs.experiments.base import experiments
from rcdrs.reporting import coverage
from rcdrs.reporting.coverage import READINGS, Reading
from rcdrs.reporting.details import Details
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.paper_values import paper_coverage, paper_values
from rcdrs.reporting.results import MissingRow, Results, Statistic
from rcdrs.reporting.statistics import AHEAD, BEHIND, TIED, Paired, measurements, versus

#: Families x scales x depths of the paper's coverage summary.
SETTINGS = 36

#: By reading and metric.
Comparisons = dict[Reading, dict[str, list[coverage.Comparison]]]

HOLDS, NOISE, FAILS = "holds", "holds within seed noise", "does not hold"


class NotComputed(LookupError):
    """The run does not have what a claim is about."""


@dataclass(frozen=True)
class Address:
    """One cell of the paper's tables; without a method, one column."""

    table: str
    benchmark: str
    K: int
    metric: str
    method: str = ""

    def of(self, method: str) -> Address:
        return replace(self, method=method)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.method, self.metric, self.benchmark, f"K={self.K}")))


def expect(what: str, name: Any, known: Iterable[Any]) -> None:
    """An error for a name that does not exist, with the nearest that do."""
    names = [str(item) for item in known]
    if str(name) not in names:
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}."
        raise ValueError(f"unknown {what} {str(name)!r}, {hint}")


class Paper:
    """The cells as printed; one number each, so nothing is judged by noise."""

    def __init__(self) -> None:
        keys = ("table", "benchmark", "K", "metric", "method")
        lines: list[dict[Any, Any]] = paper_values().to_dict("records")
        self.cells = {Address(*(line[key] for key in keys)): line for line in lines}
        self.tables = list(dict.fromkeys(address.table for address in self.cells))
        values = {item: [amount.number] for item, amount in paper_coverage().items()}
        self.coverage = dict.fromkeys(READINGS, values)  # it prints one, whatever it is

    def names(self, part: str, table: str, benchmark: str = "", K: int = 0) -> list[Any]:
        """What the cells of a table (of a benchmark, of a depth) have as `part`, in their order."""
        found = (
            getattr(a, part)
            for a in self.cells
            if a.table == table and benchmark in ("", a.benchmark) and K in (0, a.K)
        )
        return list(dict.fromkeys(found))

    def check(self, address: Address) -> None:
        """An error for a cell that does not exist."""
        if address not in self.cells:
            expect("table", address.table, self.tables)
            for part in ("benchmark", "K", "method", "metric"):
                known = self.names(part, address.table)
                expect(f"{part} of {address.table}", getattr(address, part), known)
            raise ValueError(f"{address.table} has no cell for {address}.")

    def measure(self, address: Address) -> np.ndarray:
        self.check(address)
        return np.array([self.cells[address]["mean"]])

    def status(self, pair: Paired) -> str:
        return HOLDS if pair.ratio < 1 else FAILS

    def by_noise(self, a: Address, b: Address) -> bool:
        """Whether the printed deviations are as large as the difference."""
        first, second = self.cells[a], self.cells[b]
        return bool(abs(first["mean"] - second["mean"]) <= np.hypot(first["std"], second["std"]))


@cache
def printed() -> Paper:
    return Paper()


@dataclass
class Ours:
    """The results of a run.

    tables: what each of the paper's tables is called here.
    recipe: of RCDRS in the synthetic and decision-focused experiments.
    tests: the outcome of every test that was run.
    """

    config: Config
    results: Results
    details: Details
    tables: dict[str, dict[str, Any]]
    recipe: str = "paper"
    tests: dict[str, str] = field(default_factory=dict)
    _measured: dict[Address, np.ndarray] = field(default_factory=dict)

    def measure(self, address: Address) -> np.ndarray:
        """(seeds, instances), or (seeds,) where only the means are stored."""
        if address not in self._measured:
            try:
                self._measured[address] = measurements(self._statistic(address), self.details)
            except MissingRow as missing:
                raise NotComputed(str(missing)) from missing
        return self._measured[address]

    def status(self, pair: Paired) -> str:
        """Of a claim to be better: who ties is not."""
        return HOLDS if pair.call == AHEAD else FAILS if pair.call in (BEHIND, TIED) else NOISE

    def _statistic(self, address: Address) -> Statistic:
        """Of the run and the metric behind a cell."""
        table = self.tables[address.table]
        experiment, method, recipe = table["experiment"], address.method, "paper"
        part = getattr(self.config, experiment)
        families = {label: family for family, label in FAMILIES.items()}
        if experiment == "ablation":
            family, scale = families[address.benchmark], part.scale
            variants = {row.label: row.variant for row in part.rows}
            if method not in variants:
                raise NotComputed(f"ablation.rows of the configuration has no {method}")
            method = variants[method]
        elif experiment == "synthetic":
            family, scale = families[address.benchmark], table["scale"]
        else:  # the first case is the one behind the paper's tables
            family, _, scale = experiments()[experiment](self.config).cases[0].partition("-")
        if method.startswith("RCDRS") and experiment != "dispatch":
            recipe = self.recipe
        metric = table.get("metrics", {}).get(address.metric, address.metric)
        run = (family, scale or "-", address.K, method, recipe, experiment)
        return self.results.statistic(metric, *run)

    @cached_property
    def comparisons(self) -> Comparisons:
        """By reading and metric: RCDRS and the compared methods in every setting."""
        part = self.config.synthetic
        count = len(part.families) * len(part.scales) * len(part.depths)
        if count != SETTINGS:
            raise NotComputed(f"the configuration has {count} settings, not the {SETTINGS}")
        try:
            return self._compare(self.results)
        except MissingRow as missing:
            raise NotComputed(str(missing)) from missing

    def _compare(self, results: Results) -> Comparisons:
        return {
            reading: {
                metric: coverage.compare(self.config, results, metric, self.recipe, reading)
                for metric in ("Gap", "Dist")
            }
            for reading in READINGS
        }

    @cached_property
    def coverage(self) -> dict[Reading, dict[str, list[float]]]:
        """Reading -> item -> its value over all seeds, then that of each seed alone."""
        compared, found = [self.comparisons], {}
        for seed in self.results.seeds:
            one = copy(self.results)
            one.seeds = [seed]
            compared.append(self._compare(one))
        for reading in READINGS:
            lines = zip(*(coverage.summary(*c[reading].values()) for c in compared), strict=True)
            found[reading] = {items[0].name: [i.value for i in items] for items in lines}
        return found

    def wins(self, metric: str, variant: str, reading: Reading) -> int:
        return sum(found.won_by([variant]) for found in self.comparisons[reading][metric])

    def clear_wins(self, metric: str, variants: Sequence[str], reading: Reading) -> int:
        """Settings won by the best of these variants, clear of noise."""
        found = (
            versus(coverage.lowest(c.rcdrs[v] for v in variants), c.strongest, self.details)
            for c in self.comparisons[reading][metric]
        )
        return sum(pair.call == AHEAD for pair in found)
