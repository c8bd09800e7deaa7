r"""The portfolio of a week, in the standard form ``min c'x  s.t.  A x = b, x in K``.

    maximise   mu'w - aversion sigma |L'w| - cost sum_i |w_i - w0_i|
    subject to sum_i w_i <= 1,  0 <= w <= cap,  sigma |L'w| <= limit

The first two terms are the worst mean return of an ellipsoid around the prediction mu.  What the
weights w leave is cash, without interest.  L, the shape of risk, is in A for all weeks; how large
risk is (sigma) and what is held (w0) are in b, and what is predicted is in c:

    x = (w, spare, bought, sold, cash, margin, (t, v)) >= 0, the last in a second-order cone,

    w + spare = cap,  w - bought + sold = w0,  v = L'w,
    1'w + cash = 1,   t + margin = limit / sigma.

Weights, trades and cash are counted in caps, so that all of x has about the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rcdrs.cones import Nonneg, Product, SecondOrder


class Parts(NamedTuple):
    """x by its parts: views (batch, .) of it."""

    w: Tensor
    spare: Tensor
    bought: Tensor
    sold: Tensor
    cash: Tensor
    margin: Tensor
    t: Tensor
    v: Tensor


@dataclass(frozen=True)
class Terms:
    """What the decision maker wants; return, risk and costs are in basis points.

    Arguments
        aversion: the return that a unit of risk has to bring.
        cost: what trading all that there is once costs.
        cap: of a weight.
        limit: of risk in a week.
    """

    aversion: float
    cost: float
    cap: float
    limit: float


class Portfolio:
    """The problem of some stocks, with one shape of risk L (stocks, stocks)."""

    def __init__(self, L: Tensor, terms: Terms) -> None:
        self.L, self.terms = L, terms
        N = len(L)
        self.sizes = [N, N, N, N, 1, 1, 1, N]
        self.cone = Product([Nonneg(4 * N + 2), SecondOrder(N + 1)])

    @classmethod
    def of(cls, A: Tensor, terms: Terms) -> Portfolio:
        """From the matrix that it made."""
        N = A.shape[0] // 3
        return cls(-A[2 * N : 3 * N, :N].mT / terms.cap, terms)

    def parts(self, x: Tensor) -> Parts:
        return Parts(*x.split(self.sizes, dim=-1))

    def matrix(self) -> Tensor:
        """A, (3 N + 2, 5 N + 3)."""
        x = self.parts(torch.eye(self.cone.dim, dtype=self.L.dtype, device=self.L.device))
        columns = [
            x.w + x.spare,
            x.w - x.bought + x.sold,
            x.v - self.terms.cap * x.w @ self.L,
            x.w.sum(-1, keepdim=True) + x.cash,
            x.t + x.margin,
        ]
        return torch.cat(columns, dim=-1).mT.contiguous()

    def right(self, held: Tensor, sigma: Tensor) -> Tensor:
        """b (batch, 3 N + 2) of the weights w0 (batch, N) and the size of risk (batch,)."""
        one, cap = torch.ones_like(held), self.terms.cap
        rows = [one, held / cap, 0 * one, one[:, :1] / cap, self.terms.limit / sigma.unsqueeze(-1)]
        return torch.cat(rows, dim=-1)

    def cost(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """c (batch, 5 N + 3) of predicted returns (batch, N)."""
        cap, none = self.terms.cap, torch.zeros_like(mu)
        trade = torch.full_like(mu, cap * self.terms.cost)
        price = self.terms.aversion * sigma.unsqueeze(-1)
        return torch.cat([-cap * mu, none, trade, trade, none[:, :2], price, none], dim=-1)

    def held(self, b: Tensor) -> Tensor:
        """The w0 that b was made of."""
        N = len(self.L)
        return self.terms.cap * b[:, N : 2 * N]

    def predicted(self, c: Tensor) -> Tensor:
        """The mu that c was made of."""
        return -c[:, : len(self.L)] / self.terms.cap

    def weights(self, x: Tensor, b: Tensor) -> Tensor:
        """The weights (batch, N) after the trades of x, as far as the limits allow; an exact x
        needs no change.

        Trades and not x.w, which say the same where A x = b: where none pays, the projection onto
        the cone makes them zero, and none is paid for.
        """
        part, most = self.parts(x), b[:, -1]
        w = self.held(b) + self.terms.cap * (part.bought - part.sold)
        w = w.clamp(0, self.terms.cap)
        excess = torch.maximum(w.sum(-1), self.sigmas(w) / most).clamp(min=1)
        return w / excess.unsqueeze(-1)

    def sigmas(self, w: Tensor) -> Tensor:
        """|L'w|, the risk of weights over sigma."""
        return torch.linalg.vector_norm(w @ self.L, dim=-1)

    def value(self, w: Tensor, held: Tensor, mu: Tensor, risk: Tensor) -> Tensor:
        """The objective, (batch,): as predicted, or with the returns and the risk that came."""
        paid = self.terms.aversion * risk + self.terms.cost * turnover(w, held)
        return (mu * w).sum(-1) - paid


def turnover(w: Tensor, held: Tensor) -> Tensor:
    return (w - held).abs().sum(-1)


def realised_risk(w: Tensor, daily: Tensor) -> Tensor:
    """Of a week with daily returns (batch, days, N): the root of the sum of their squares."""
    return torch.linalg.vector_norm((daily @ w.unsqueeze(-1)).squeeze(-1), dim=-1)


def drifted(w: Tensor, returns: Tensor) -> Tensor:
    """What weights are after a week of returns."""
    grown = w * (1 + returns / 1e4)
    return grown / (1 + (w * returns).sum(-1, keepdim=True) / 1e4)
