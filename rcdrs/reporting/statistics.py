"""Is a method better than another, or is it noise?  Paired comparisons on the same instances.

Three seeds are few, so the two sources of noise are told apart:

- **Test instances**: `low` and `high` are the ends of a 95 % percentile bootstrap interval.
  Instances are drawn again within each seed, the same draw for both methods.  It is about another
  test set for the *same* matrices A and the *same* trained layers, and says nothing on other seeds.
- **Seeds** (another A, another training): `seed_low` and `seed_high` are the ends of Student's 95 %
  interval for the mean over seeds of log(a / b).  Three seeds leave two degrees of freedom, so it
  is the mean +- 2.48 standard deviations, wide as it must be; one seed leaves none, and the
  interval is everything.

`Paired.call` makes one word of it.  The burden of proof is on who claims to be better: a lead is
clear only where both intervals are below 1; to be behind, it suffices that every seed says so and
the bootstrap does not object.  Each interval is of one comparison alone, without correction for
how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from rcdrs.artifact.config import Config
from rcdrs.reporting import coverage
from rcdrs.reporting.details import Details
from rcdrs.reporting.formatting import LARGER_IS_BETTER, TIE, Measured
from rcdrs.reporting.results import TIME, Results, Statistic
from rcdrs.reporting.tables.base import Cell

#: Bootstrap draws: the ends of a 95 % interval then vary by about 2 % of its width.
DRAWS = 2000
LEVEL = 0.95

AHEAD, BEHIND, TIED = "ahead", "behind", "tied"
AHEAD_BY_NOISE, BEHIND_BY_NOISE = "ahead by noise", "behind by noise"


@dataclass(frozen=True)
class Paired:
    """Method a against method b in a metric where lower is better; all numbers are ratios a / b.

    ratio: of the means over seeds and instances, as the tables compare.
    won: share of the instances where a is lower, a tie counting half; NaN, like `low` and `high`,
        where only the seeds' means are known.
    """

    ratio: float
    low: float
    high: float
    seed_low: float
    seed_high: float
    won: float
    seeds: tuple[float, ...]

    @property
    def call(self) -> str:
        """``ahead``, ``ahead by noise``, ``tied``, ``behind by noise`` or ``behind``."""
        if max(abs(ratio - 1) for ratio in (self.ratio, *self.seeds)) < TIE:
            return TIED
        if self.ratio < 1:
            clear = self.seed_high < 1 and not self.high >= 1  # NaN does not object
            return AHEAD if clear else AHEAD_BY_NOISE
        clear = min(self.seeds) > 1 and not self.low <= 1
        return BEHIND if clear else BEHIND_BY_NOISE

    def __str__(self) -> str:
        ends = (self.seed_low, self.seed_high) if math.isnan(self.low) else (self.low, self.high)
        kind = "seeds" if math.isnan(self.low) else "instances"
        return f"{self.ratio:.4g} [{ends[0]:.4g}, {ends[1]:.4g} over {kind}]"


def paired(a: np.ndarray, b: np.ndarray) -> Paired:
    """Compare two methods, each given as (seeds, instances), or as (seeds,) where only means are
    known; by their means where they are of one."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if {a.ndim, b.ndim} == {1, 2}:
        a, b = _over_seeds(a), _over_seeds(b)
    if a.shape != b.shape or a.ndim not in (1, 2) or not a.size:
        raise ValueError(f"a is {a.shape} and b is {b.shape}, expected the same seeds, instances.")
    if not (np.isfinite(a).all() and np.isfinite(b).all() and min(a.min(), b.min()) >= 0):
        raise ValueError("a metric is negative or not a number, expected errors to compare.")
    means = [_over_seeds(x) for x in (a, b)]
    logs = _log_ratio(*means)
    center, spread = logs.mean(), _half_width(logs)
    low = high = won = math.nan
    if a.ndim == 2:
        again = _log_ratio(*(_draws(*a.shape) @ np.stack([a.ravel(), b.ravel()], 1)).T)
        # Observed values only: an interval never ends between a ratio and a zero.
        tail = (1 - LEVEL) / 2
        low = np.exp(np.quantile(again, tail, method="lower"))
        high = np.exp(np.quantile(again, 1 - tail, method="higher"))
        won = float(((a < b) + 0.5 * (a == b)).mean())
    return Paired(
        ratio=coverage.ratio(float(means[0].mean()), float(means[1].mean())),
        low=float(low),
        high=float(high),
        seed_low=_exp(center - spread),
        seed_high=_exp(center + spread),
        won=won,
        seeds=tuple(float(x) for x in np.exp(logs)),
    )


def _over_seeds(values: np.ndarray) -> np.ndarray:
    """The mean of each seed."""
    return values if values.ndim == 1 else values.mean(1)


def _log_ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(a / b); a zero counts as the smallest number, so that it is below all else."""
    tiny = np.finfo(float).tiny
    return np.clip(np.log(np.maximum(a, tiny)) - np.log(np.maximum(b, tiny)), -700, 700)


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


def _half_width(logs: np.ndarray) -> float:
    count = len(logs)
    if count == 1:
        return math.inf
    from scipy.special import stdtrit  # slow to import, and the workflow imports this module

    quantile = float(stdtrit(count - 1, (1 + LEVEL) / 2))
    return quantile * float(logs.std(ddof=1)) / math.sqrt(count)


@cache
def _draws(seeds: int, instances: int) -> np.ndarray:
    """(draws, seeds x instances): how often each instance is drawn, over their number.

    The same for every comparison of this shape, so that results do not depend on their order.
    """
    rng = np.random.default_rng(0)
    shares = np.full(instances, 1 / instances)
    counts = rng.multinomial(instances, shares, (DRAWS, seeds))
    return counts.reshape(DRAWS, -1) / (instances * seeds)


def measurements(found: Statistic, details: Details) -> np.ndarray:
    """(seeds, instances) where these are stored, else (seeds,): what `paired` takes."""
    stored = details.of(found.metric, found.keys)
    if stored is None:
        return np.array(found.values)
    means = np.nanmean(stored, axis=1)
    if not np.allclose(means, found.values, rtol=1e-3, atol=1e-9):
        raise ValueError(
            f"{found.metric} of {found.keys[0]} has the means {means} over its instances, but "
            f"{found.values} in the CSVs: they are of different runs; run the workflow again."
        )
    # An exact solver may leave instances out: such a run is compared by its means.
    return stored if np.isfinite(stored).all() else means


def versus(first: Statistic, second: Statistic, details: Details) -> Paired:
    """Compare two runs in one metric, where lower is better if it does not say otherwise."""
    ends = [measurements(statistic, details) for statistic in (first, second)]
    return paired(*ends[:: -1 if first.metric in LARGER_IS_BETTER else 1])


def of_settings(
    config: Config,
    results: Results,
    details: Details,
    metric: str = "Gap",
    recipe: str = "paper",
    reading: coverage.Reading = "classical",
) -> pd.DataFrame:
    """The better RCDRS variant against the strongest of a reading, a line per setting.

    Both are chosen on the instances on which they are compared, which flatters both a little.
    """
    lines = []
    for found in coverage.compare(config, results, metric, recipe, reading):
        pair = versus(found.better, found.strongest, details)
        where = {"family": found.family, "scale": found.scale, "K": found.K, "metric": metric}
        first, second = (end.method for end in (found.better, found.strongest))
        lines.append(where | _line(first, second, pair))
    return pd.DataFrame(lines)


def of_table(
    name: str, cells: Iterable[Cell], results: Results, details: Details | None = None
) -> pd.DataFrame:
    """The best cell of every ranked column of a table against the second, a line per column.

    Only columns that have a bold cell are ranked; a table without any gives no line.
    """
    lines = []
    for first, second in _leaders(cells):
        best, next_best = (results.of(c.metric, c.keys) for c in (first, second))
        pair = versus(best, next_best, details or Details())
        where = {"table": name, "block": first.block, "column": first.column}
        lines.append(where | _line(first.row, second.row, pair))
    return pd.DataFrame(lines)


def _leaders(cells: Iterable[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """The best two cells of every ranked column.

    The cells of such a column are of one setting; where they are not, rows are ranked instead.
    """
    measured = [c for c in cells if isinstance(c.value, Measured) and c.metric != TIME]
    measured.sort(key=lambda c: (c.block, c.column))
    for _, group in groupby(measured, key=lambda c: (c.block, c.column)):
        column = list(group)
        settings = {(k.experiment, k.case, k.K) for cell in column for k in cell.keys}
        if any(cell.bold for cell in column) and len(settings) == 1 and len(column) > 1:
            sign = -1 if column[0].metric in LARGER_IS_BETTER else 1
            first, second, *_ = sorted(column, key=lambda c: (sign * c.mean, not c.bold))
            yield first, second


def _line(first: str, second: str, pair: Paired) -> dict[str, Any]:
    numbers = asdict(pair)
    numbers["seeds"] = " ".join(f"{ratio:.6g}" for ratio in pair.seeds)
    return {"first": first, "second": second} | numbers | {"call": pair.call}
