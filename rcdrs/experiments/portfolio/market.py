"""Twenty stocks, 1990 to 2022: what is known at the end of a week, and what the next one brings.

The prices come with the package skfolio.  Its stocks are in the S&P 500 to the last day, so that
all of them did well: results say how decisions compare, not what would have been earned.
"""

from __future__ import annotations

import gzip
import io
from typing import NamedTuple

import numpy as np
import pandas as pd

from rcdrs.experiments.packaged import Packaged

PRICES = Packaged(
    "skfolio",
    "1.12.2",
    "skfolio/datasets/data/sp500_dataset.csv.gz",
    "ee21cac28befb1d0a739a9ceb22184f995394726aa0cfde9a21941d1ac04ac0d",
)
WEEKLY = "W-FRI"
#: Weight of yesterday in squared returns, as RiskMetrics has it.
DECAY = 0.94
#: Trading days of a week at most, and weeks that are looked back.
DAYS, HISTORY = 5, 52
#: Weeks that features sum returns over.
SPANS = (1, 4, 13, HISTORY)
FEATURES = len(SPANS) + 2
#: Risk that features are relative to, and the least of a stock: some stood still for days.
USUAL, STILL = 200.0, 10.0
#: Of the simple prediction: the share of a stock's own past year, the rest is that of all stocks.
OWN = 0.25


class Market(NamedTuple):
    """A row for each week, at whose end a portfolio is chosen; returns are in basis points.

    What is known then: `features` (weeks, stocks, FEATURES), the risk of equal weights `sigma`
    (weeks,), and a prediction without learning, `simple` (weeks, stocks).  What the next week
    brings: `returns` (weeks, stocks), and those of its days, `daily` (weeks, DAYS, stocks), zero
    where there are fewer.
    """

    week: pd.DatetimeIndex
    features: np.ndarray
    simple: np.ndarray
    sigma: np.ndarray
    returns: np.ndarray
    daily: np.ndarray

    def years(self, first: int, last: int) -> Market:
        """The weeks of some years; an error where they are not there."""
        begin, end = self.week[0].year, self.week[-1].year
        if not begin <= first <= last <= end:
            raise ValueError(
                f"years are {first} to {last}, expected some from {begin} to {end}, which the "
                f"prices cover after {HISTORY} weeks of history."
            )
        inside = (self.week.year >= first) & (self.week.year <= last)
        week, *known = (self.week[inside], *(part[inside] for part in self[1:]))
        return Market(week, *known)


def prices() -> pd.DataFrame:
    """Adjusted closing prices, a row for each trading day."""
    text = gzip.decompress(PRICES.read())
    return pd.read_csv(io.BytesIO(text), index_col=0, parse_dates=True)


def observe(prices: pd.DataFrame) -> Market:
    r"""Weeks end on Friday, or on the last trading day before.

        sigma^2 = DAYS (1 - DECAY) sum_k DECAY^k e_k^2,   e_k the mean return of stocks k days ago

    and the same of a stock alone is its own risk, over which its past returns are features; the
    last two are its risk over sigma, and sigma, as logarithms.
    """
    of_price = pd.DatetimeIndex(prices.index).to_period(WEEKLY)
    of_day = of_price[1:]
    day = 1e4 * prices.pct_change().iloc[1:]
    week = 1e4 * prices.groupby(of_price).last().pct_change().iloc[1:]

    def risk(returns: pd.DataFrame) -> pd.DataFrame:
        smooth = returns.pow(2).ewm(alpha=1 - DECAY).mean().mul(DAYS).pow(0.5)
        return smooth.groupby(of_day).last().loc[week.index]

    own, sigma = risk(day).clip(lower=STILL), risk(day.mean(axis=1).to_frame()).to_numpy()
    past = [week.rolling(span).sum() / (own * span**0.5) for span in SPANS]
    level = [np.log(own / sigma), own * 0 + np.log(sigma / USUAL)]
    features = np.stack([part.to_numpy() for part in (*past, *level)], axis=-1).clip(-3, 3)
    mean = week.rolling(HISTORY).mean().to_numpy()
    simple = OWN * mean + (1 - OWN) * mean.mean(axis=1, keepdims=True)

    daily = np.zeros((len(week), DAYS, day.shape[1]))
    row, place = week.index.get_indexer(of_day), day.groupby(of_day).cumcount().to_numpy()
    inside = row >= 0  # the first week has no return
    daily[row[inside], place[inside]] = day.to_numpy()[inside]
    now, after = slice(HISTORY - 1, -1), slice(HISTORY, None)
    return Market(
        pd.PeriodIndex(week.index[now]).to_timestamp(how="end").normalize(),
        features[now],
        simple[now],
        sigma[now, 0],
        week.to_numpy()[after],
        daily[after],
    )


def shape(market: Market) -> np.ndarray:
    """L with ``L L'`` the covariance of returns over sigma, and |L'w| = 1 at equal weights."""
    covariance = np.cov(market.returns / market.sigma[:, None], rowvar=False)
    return np.linalg.cholesky(covariance / covariance.mean())
