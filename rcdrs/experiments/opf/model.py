r"""The optimal power flow of an hour in standard form.

    min   cost'g + price_curtailment'k + price_shed'e
    s.t.  1'(g - k + e) = 1'(d - r)                      power is balanced
          H (G g - R k + E e) - f = H (d - R r)          flows follow from what is injected
          0 <= g <= limit,  0 <= k <= r,  0 <= e <= d,  |f| <= limit

with g the generation, k what of the renewable power r is curtailed, e what of the load d is shed,
f the flows of the lines, and G, R, E the buses of each; H is `Network.transfer`.  A does not change
from hour to hour, and every hour has a solution: to shed all load and curtail all power.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import Box
from rcdrs.experiments.opf.network import Network
from rcdrs.solver.affine import AffineSet
from rcdrs.solver.problem import ConicProgram, check_numbers

#: Power is in units of 100 MW, and money in what 100 MWh cost at a dollar each.
BASE = 100.0
#: Added to the size of a coordinate, as a share of the median of all: what is zero in every hour
#: has one, too.
FLOOR = 0.03


class Profiles(NamedTuple):
    """Load of each bus and power that each site could give in an hour, in MW."""

    load: Tensor  # (batch, buses)
    renewable: Tensor  # (batch, sites)

    def take(self, index: slice | Tensor) -> Profiles:
        return Profiles(self.load[index], self.renewable[index])


class Plan(NamedTuple):
    """A decision by its parts, in MW: (batch, devices)."""

    generation: Tensor
    curtailment: Tensor
    shedding: Tensor  # of the buses with a load
    flow: Tensor


class PowerFlow:
    """The problem of one network, in variables x with ``scale x`` in units of 100 MW.

    The scale is part of the problem, the same for all methods; `comparable` makes one, and without
    any the variables are in those units.
    """

    def __init__(
        self,
        network: Network,
        scale: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.network = network
        bus, prices = np.eye(network.buses), network.prices
        limits = np.array([g.limit for g in network.generators])
        costs = np.array([g.cost for g in network.generators])
        lines = np.array([line.limit for line in network.lines])
        self.loaded = [number for number, load in enumerate(network.loads) if load > 0]
        self.sizes = [len(limits), len(network.sites), len(self.loaded), len(lines)]
        self.n = sum(self.sizes)

        def tensor(array: np.ndarray) -> Tensor:
            return torch.tensor(array, dtype=dtype, device=device)

        at_site, transfer = bus[:, [site.bus for site in network.sites]], network.transfer()
        injected = np.hstack(
            [bus[:, [g.bus for g in network.generators]], -at_site, bus[:, self.loaded]]
        )
        rows = np.block(
            [
                [injected.sum(0), np.zeros(len(lines))],
                [transfer @ injected, -np.eye(len(lines))],
            ]
        )
        cost = np.concatenate(
            [
                costs,
                np.full(len(network.sites), prices.curtailment),
                np.full(len(self.loaded), prices.shed),
                np.zeros(len(lines)),
            ]
        )
        self.scale = tensor(np.ones(self.n)) if scale is None else scale.to(device, dtype)
        if self.scale.shape != (self.n,) or not bool((self.scale > 0).all()):
            raise ValueError(
                f"the scale has shape {tuple(self.scale.shape)} and the least value "
                f"{float(self.scale.min()):g}, expected {self.n} positive numbers."
            )
        self.A, self.cost = tensor(rows) * self.scale, tensor(cost) * self.scale
        self.limits, self.costs, self.lines = tensor(limits), tensor(costs), tensor(lines)
        #: From buses to the equations; from sites to buses; from injectors to buses.
        self.equations = tensor(np.vstack([np.ones(network.buses), transfer]))
        self.at_site, self.injected = tensor(at_site), tensor(injected)

    @cached_property
    def affine(self) -> AffineSet:
        return AffineSet(self.A)

    def net(self, given: Profiles) -> Tensor:
        """Load minus renewable power of each bus, in MW."""
        return given.load - given.renewable @ self.at_site.mT

    def box(self, given: Profiles) -> Box:
        """The bounds, of the scaled variables."""
        batch = len(given.load)
        high = torch.cat(
            [
                self.limits.expand(batch, -1),
                given.renewable,
                given.load[:, self.loaded],
                self.lines.expand(batch, -1),
            ],
            dim=1,
        )
        low = torch.zeros_like(high)
        low[:, -len(self.lines) :] = -self.lines
        return Box(low / BASE / self.scale, high / BASE / self.scale)

    def plan(self, x: Tensor) -> Plan:
        """Scaled variables (batch, n) by their parts."""
        return Plan(*(x * self.scale * BASE).split(self.sizes, dim=-1))

    def program(self, forecast: Profiles, realised: Profiles) -> HourProgram:
        """The programs of a batch of hours, decided on the forecast."""
        for name, given in (("forecast", forecast), ("realised", realised)):
            _check(name, given, self.network)
        if len(forecast.load) != len(realised.load):
            raise ValueError(
                f"the forecast has {len(forecast.load)} hours and {len(realised.load)} are "
                "realised, expected the same."
            )
        b = self.net(forecast) @ self.equations.mT / BASE
        c, box = self.cost.expand(len(b), -1), self.box(forecast)
        program = HourProgram(self.A, b, c, box, model=self, forecast=forecast, realised=realised)
        return program.with_affine(self.affine)


def comparable(x: Tensor, s: Tensor) -> Tensor:
    r"""The scale (n,) with which x / scale and s scale have one size in every coordinate.

        size(x) = (mean x^4)^(1/4),    scale = t sqrt(size(x) / size(s))

    over hours with the solutions x and dual slacks s (batch, n), and with t for which x / scale has
    the mean size 1.  Splitting measures all coordinates alike, in x and in s.  The fourth power,
    as what is rare counts, such as curtailment, which a wrong scale takes many steps to reach.
    """
    large, dear = (part.double().pow(4).mean(0).pow(0.25) for part in (x, s))
    large, dear = large + FLOOR * large.median(), dear + FLOOR * dear.median()
    scale = (large / dear).sqrt()
    return scale * (large / scale).mean()


@dataclass(frozen=True)
class HourProgram(ConicProgram):
    """Hours to plan: what is decided on (forecast), and what then happens (realised)."""

    model: PowerFlow = field(kw_only=True)
    forecast: Profiles = field(kw_only=True)
    realised: Profiles = field(kw_only=True)

    def __getitem__(self, index: slice | Tensor) -> Self:
        part = super().__getitem__(index)
        forecast, realised = (given.take(index) for given in (self.forecast, self.realised))
        return replace(part, forecast=forecast, realised=realised).with_affine(self.affine)


def _check(name: str, given: Profiles, network: Network) -> None:
    """An error names the profile that is of another network, negative or not a number."""
    rows = {"load": (network.buses, "buses"), "renewable": (len(network.sites), "sites")}
    for part, (count, what) in rows.items():
        profile, place = getattr(given, part), f"the {name} {part}"
        if profile.ndim != 2 or profile.shape[1] != count:
            raise ValueError(
                f"{place} has shape {tuple(profile.shape)}, expected (batch, {what}) with {count} "
                f"{what}."
            )
        check_numbers(place, profile)
        if bool((profile < 0).any()):
            raise ValueError(f"{place} is negative in an hour, expected power of at least 0.")
