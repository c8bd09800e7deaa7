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
from copy import copy
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcdrs.reporting import coverage
from rcdrs.reporting.formatting import LARGER_IS_BETTER
from rcdrs.reporting.results import TIME, Config, Query, Results
from rcdrs.reporting.tables import values

#: Bootstrap draws: the ends of a 95 % interval then vary by about 2 % of its width.
DRAWS = 2000
LEVEL = 0.95
#: Less than this in every seed does not show in three printed digits: a layer that training left
#: at its core differs from Grid-DRS by rounding alone, and that is no win.
TIE = 1e-3

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
    known."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim not in (1, 2) or not a.size:
        raise ValueError(f"a is {a.shape} and b is {b.shape}, expected the same seeds, instances.")
    if not (np.isfinite(a).all() and np.isfinite(b).all() and min(a.min(), b.min()) >= 0):
        raise ValueError("a metric is negative or not a number, expected errors to compare.")
    means = [x if x.ndim == 1 else x.mean(1) for x in (a, b)]
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


class Details:
    """The metrics of single instances, from the .npz files beside the seed-level CSVs.

    Keys inside are ``METHOD@RECIPE/METRIC``; files are named ``EXPERIMENT/CASE-SEED-Kdepth.npz``.
    """

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._files = {(path.parent.name, path.stem): path for path in files}
        self._read = cache(_read)

    def of(self, metric: str, run: Query) -> np.ndarray | None:
        """(seeds, instances), or None where a seed has no such file or metric."""
        found = []
        for seed in run["seed"]:
            case = "-".join(part for part in (run["family"], run["scale"]) if part not in ("", "-"))
            stem = f"{case}-{seed}-K{run['K']}"
            path = self._files.get((run["experiment"], stem))
            stored = {} if path is None else self._read(path)
            recipe = run.get("recipe", "-")
            # What learns nothing belongs to the paper's recipe, as in `Results`.
            names = [recipe, "-"] if recipe == "paper" else [recipe]
            keys = [f"{run['method']}@{name}/{metric}" for name in names]
            key = next((key for key in keys if key in stored), None)
            if key is None:
                return None
            found.append(stored[key])
        if len({len(values) for values in found}) != 1:
            raise ValueError(f"{metric} of {run} differs in its number of instances over seeds.")
        return np.array(found, dtype=float)


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except Exception as error:  # zipfile, zlib and numpy each have their own
        raise ValueError(
            f"{path} is not a readable .npz file ({error}): delete it and run the workflow again."
        ) from error


def measurements(metric: str, run: Query, results: Results, details: Details) -> np.ndarray:
    """(seeds, instances) where these are stored, else (seeds,): what `paired` takes.

    `run` is the query of a `Statistic`.
    """
    one_seed = copy(results)
    where = {key: run[key] for key in ("experiment", "family", "scale", "K", "method")}
    if run.get("recipe", "-") != "-":
        where["recipe"] = run["recipe"]
    means = []
    for seed in run["seed"]:
        one_seed.seeds = [seed]
        means.append(one_seed.statistic(metric, **where).mean)
    found = details.of(metric, run)
    if found is None:
        return np.array(means)
    stored = np.nanmean(found, axis=1)
    if not np.allclose(stored, means, rtol=1e-3, atol=1e-9):
        raise ValueError(
            f"{metric} of {run} has the means {stored} over its instances, but {means} in "
            "the CSVs: they are of different runs; run the workflow again."
        )
    # An exact solver may leave instances out: such a run is compared by its means.
    return found if np.isfinite(found).all() else stored


def alike(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two methods for `paired`: instance by instance if both have them, else by their means."""
    if a.ndim == b.ndim:
        return a, b
    first, second = (x if x.ndim == 1 else x.mean(1) for x in (a, b))
    return first, second


def of_settings(
    config: Config, results: Results, details: Details, metric: str = "Gap", recipe: str = "paper"
) -> pd.DataFrame:
    """The better RCDRS variant against the strongest compared method, a line per setting.

    Both are chosen on the instances on which they are compared, which flatters both a little.
    """
    lines = []
    for found in coverage.compare(config, results, metric, recipe):
        ours, theirs = found.better.query, found.strongest.query
        pair = paired(*(measurements(metric, run, results, details) for run in (ours, theirs)))
        where = {"family": found.family, "scale": found.scale, "K": found.K, "metric": metric}
        lines.append(where | _line(ours["method"], theirs["method"], pair))
    return pd.DataFrame(lines)


def of_table(
    name: str,
    config: Config,
    rows: pd.DataFrame | None,
    timing: pd.DataFrame | None = None,
    details: Details | None = None,
) -> pd.DataFrame:
    """The best cell of every ranked column of a table against the second, a line per column.

    Only columns that have a bold cell are ranked; a table without any gives no line.
    """
    results = Results(rows, timing, config["seeds"])
    cells = values(name, config, rows, timing)
    lines = []
    for block, column, ranked in _columns(cells):
        first, second = ranked[0], ranked[1]
        metric = first["metric"]
        found = [
            measurements(metric, cell["query"][0], results, details or Details())
            for cell in (first, second)
        ]
        if metric in LARGER_IS_BETTER:
            found.reverse()
        where = {"table": name, "block": block, "column": column}
        lines.append(where | _line(first["row"], second["row"], paired(*alike(*found))))
    return pd.DataFrame(lines)


def _columns(cells: pd.DataFrame) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(block, column, cells from best to worst) of every ranked column.

    The cells of such a column are of one setting; where they are not, rows are ranked instead.
    """
    measured = cells[cells["mean"].notna() & (cells["metric"] != TIME)]
    measured = measured[[len(query) == 1 for query in measured["query"]]]
    records: list[dict[str, Any]] = [
        {str(key): value for key, value in cell.items()} for cell in measured.to_dict("records")
    ]
    records.sort(key=lambda c: (c["block"], c["column"]))
    for (block, column), group in groupby(records, key=lambda c: (c["block"], c["column"])):
        column_cells = list(group)
        keys = ("experiment", "family", "scale", "K")
        settings = {tuple(cell["query"][0][key] for key in keys) for cell in column_cells}
        ranked = any(cell["bold"] for cell in column_cells) and len(settings) == 1
        if not ranked or len(column_cells) < 2:
            continue
        sign = -1 if column_cells[0]["metric"] in LARGER_IS_BETTER else 1
        yield block, column, sorted(column_cells, key=lambda c: (sign * c["mean"], not c["bold"]))


def _line(first: str, second: str, pair: Paired) -> dict[str, Any]:
    numbers = asdict(pair)
    numbers["seeds"] = " ".join(f"{ratio:.6g}" for ratio in pair.seeds)
    return {"first": first, "second": second} | numbers | {"call": pair.call}
