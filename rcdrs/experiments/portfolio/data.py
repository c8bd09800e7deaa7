"""Weeks to decide in, with the decisions of a simple prediction; and files of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rcdrs.experiments import exact
from rcdrs.experiments.instances import SPLITS, Programs, Split
from rcdrs.experiments.portfolio.market import Market, observe, prices, shape
from rcdrs.experiments.portfolio.model import Portfolio, Terms, drifted
from rcdrs.experiments.settings import Plain
from rcdrs.solver.problem import ConicProgram

#: The name of its only case.
CASE = "portfolio"
#: From b and c (1, .) of a week to x (1, n).
Decide = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Weeks(Split):
    """Weeks in their order, as `Market` has them; `period` numbers the periods that they are of.

    `program` and its solution are those of the simple prediction.
    """

    features: Tensor
    sigma: Tensor
    returns: Tensor
    daily: Tensor
    period: Tensor


class WeekSet(Programs[Weeks]):
    """Training, validation and test periods: the same for all seeds, of training alone."""

    example = CASE

    def __init__(self, meta: Plain, tensors: dict[str, Tensor]) -> None:
        check_case(meta["case"])
        self.portfolio = Portfolio.of(tensors["A"], Terms(**meta["terms"]))
        super().__init__(meta, tensors, self.portfolio.cone)

    def split(
        self,
        b: Tensor,
        c: Tensor,
        x: Tensor,
        s: Tensor,
        y: Tensor,
        features: Tensor,
        sigma: Tensor,
        returns: Tensor,
        daily: Tensor,
        period: Tensor,
    ) -> Weeks:
        return Weeks(self.program(b, c), x, s, y, features, sigma, returns, daily, period)

    @property
    def periods(self) -> Iterator[tuple[str, Weeks]]:
        """Those of the test split by name."""
        for number, name in enumerate(self.meta["periods"]):
            yield name, self.test[self.test.period == number]


def check_case(case: str) -> None:
    if case != CASE:
        raise ValueError(f"unknown case {case!r}, expected {CASE}.")


class Path(NamedTuple):
    """Decisions week after week: a row of each is of one."""

    b: Tensor
    c: Tensor
    x: Tensor
    w: Tensor


@torch.no_grad()
def follow(
    portfolio: Portfolio, mu: Tensor, sigma: Tensor, returns: Tensor, decide: Decide
) -> Path:
    """Begin with cash alone, and hold week after week what is decided by the predictions mu."""
    held, rows = torch.zeros_like(mu[:1]), []
    for week in range(len(mu)):
        now = slice(week, week + 1)
        b, c = portfolio.right(held, sigma[now]), portfolio.cost(mu[now], sigma[now])
        x = decide(b, c)
        w = portfolio.weights(x, b)
        rows.append((b, c, x, w))
        held = drifted(w, returns[now])
    return Path(*(torch.cat(parts) for parts in zip(*rows, strict=True)))


def exactly(portfolio: Portfolio, A: Tensor) -> Decide:
    """To optimality, by Clarabel."""
    return lambda b, c: optimum(portfolio, A, b, c)[0]


def optimum(portfolio: Portfolio, A: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """(x, lambda) of a batch."""
    A64, b64, c64 = (tensor.cpu().double() for tensor in (A, b, c))
    x, y = exact.solve(ConicProgram(A64, b64, c64, portfolio.cone))
    return x.to(b), y.to(b)


def generate(case: str, seed: int, settings: Plain) -> WeekSet:
    """Of the years in the settings; risk has the shape that it has in training."""
    check_case(case)
    market, terms = observe(prices()), settings["terms"]
    years = {name: {name: settings[name]} for name in SPLITS} | {"test": settings["test"]}
    L = torch.from_numpy(shape(market.years(*settings["train"])))
    portfolio = Portfolio(L, Terms(**terms))

    def draw(split: str, size: int) -> dict[str, np.ndarray]:
        parts = [
            _decided(portfolio, market.years(*span), number)
            for number, span in enumerate(years[split].values())
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    meta = {"case": case, "seed": seed, "terms": terms, "periods": list(years["test"])}
    any_size = dict.fromkeys(SPLITS, 1)  # the years decide
    return WeekSet.draw(meta, any_size, draw, torch.float32, A=portfolio.matrix().numpy())


def _decided(portfolio: Portfolio, market: Market, period: int) -> dict[str, np.ndarray]:
    """The weeks of a period, with optimal decisions by the simple prediction."""
    A = portfolio.matrix()
    mu, sigma, returns = map(torch.from_numpy, (market.simple, market.sigma, market.returns))
    path = follow(portfolio, mu, sigma, returns, exactly(portfolio, A))
    x, y = optimum(portfolio, A, path.b, path.c)
    program = {"b": path.b, "c": path.c, "x": x, "s": path.c - y @ A, "y": y}
    own = {name: getattr(market, name) for name in ("features", "sigma", "returns", "daily")}
    numbered = {"period": np.full(len(market.week), float(period))}
    return {name: part.numpy() for name, part in program.items()} | own | numbered
