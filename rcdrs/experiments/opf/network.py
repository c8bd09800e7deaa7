"""A power network as data, and how it is read from a MATPOWER case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np


class Line(NamedTuple):
    """From one bus to another; flow is positive in this direction, at most `limit` MW in either."""

    origin: int
    destination: int
    susceptance: float
    limit: float


class Generator(NamedTuple):
    """Power in [0, limit] MW, at `cost` dollars per MWh."""

    bus: int
    limit: float
    cost: float


class Site(NamedTuple):
    """A renewable site, `source` being wind or solar, of `peak` MW installed in an area."""

    bus: int
    area: int
    source: str
    peak: float


class Prices(NamedTuple):
    """Dollars per MWh of what is not served, not used, and beyond a line's limit."""

    shed: float
    curtailment: float
    overload: float


@dataclass(frozen=True)
class Network:
    """Everything that does not change from hour to hour.

    Arguments
        loads: peak load of each bus in MW; buses are numbered from 0, the reference bus.
        areas: the area of each bus, numbered from 0.
    """

    loads: tuple[float, ...]
    areas: tuple[int, ...]
    lines: tuple[Line, ...]
    generators: tuple[Generator, ...]
    sites: tuple[Site, ...]
    prices: Prices

    def __post_init__(self) -> None:
        if len(self.areas) != len(self.loads):
            raise ValueError(f"{len(self.loads)} loads and {len(self.areas)} areas, expected both.")
        ends = [bus for line in self.lines for bus in line[:2]]
        places = [*ends, *(g.bus for g in self.generators), *(s.bus for s in self.sites)]
        if unknown := [bus for bus in places if not 0 <= bus < self.buses]:
            raise ValueError(f"bus {unknown[0]} is unknown, expected 0 to {self.buses - 1}.")
        for name, values in (
            ("limit of a line", [line.limit for line in self.lines]),
            ("limit of a generator", [g.limit for g in self.generators]),
            ("cost of a generator", [g.cost for g in self.generators]),
            ("price", self.prices),
        ):
            if not all(0 < value < np.inf for value in values):
                raise ValueError(f"a {name} is not positive and finite in {values}.")
        if (islands := _islands(self)) > 1:
            raise ValueError(f"the network has {islands} islands, expected one.")

    @property
    def buses(self) -> int:
        return len(self.loads)

    def with_sites(self, **shares: float) -> Network:
        """The same with a site of each source at the bus of largest load in every area.

        A share is the installed power over the peak load of the area.
        """
        sites = []
        for source, share in shares.items():
            for area in range(max(self.areas) + 1):
                loads = {
                    bus: self.loads[bus] for bus in range(self.buses) if self.areas[bus] == area
                }
                bus = max(loads, key=lambda bus: loads[bus])
                sites.append(Site(bus, area, source, share * sum(loads.values())))
        return Network(**vars(self) | {"sites": tuple(sites)})

    def transfer(self) -> np.ndarray:
        r"""The flows that a MW into each bus and out at the reference makes, (lines, buses).

        With angles theta, ``flow = diag(s) C'theta`` and ``C flow = injection``, C being the
        incidence (buses, lines) and s the susceptances: ``H = diag(s) C' (C diag(s) C')^+``.
        """
        size = np.array([line.susceptance for line in self.lines])
        incidence = self.incidence()
        found = np.zeros((len(size), self.buses))
        laplacian = (incidence * size) @ incidence.T
        found[:, 1:] = np.linalg.solve(laplacian[1:, 1:], (incidence * size)[1:]).T
        return found

    def incidence(self) -> np.ndarray:
        """1 where a line begins, -1 where it ends, (buses, lines)."""
        found = np.zeros((self.buses, len(self.lines)))
        for number, line in enumerate(self.lines):
            found[line.origin, number] += 1
            found[line.destination, number] -= 1
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as files hold them."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Network:
        return Network(
            loads=tuple(values["loads"]),
            areas=tuple(values["areas"]),
            lines=tuple(Line(*line) for line in values["lines"]),
            generators=tuple(Generator(*generator) for generator in values["generators"]),
            sites=tuple(Site(*site) for site in values["sites"]),
            prices=Prices(*values["prices"]),
        )


def _islands(network: Network) -> int:
    """How many parts hang together."""
    part = list(range(network.buses))
    for line in network.lines:
        one, other = part[line.origin], part[line.destination]
        part = [other if p == one else p for p in part]
    return len(set(part))


def read_matpower(text: str, prices: Prices) -> Network:
    """The network of a MATPOWER case, for a direct-current power flow.

    Of its matrices: BUS_I, PD and BUS_AREA of ``bus``; GEN_BUS, GEN_STATUS and PMAX of ``gen``;
    F_BUS, T_BUS, BR_X, RATE_A, TAP, SHIFT and BR_STATUS of ``branch``; linear costs of ``gencost``.
    Generators are free to run at any power up to PMAX.
    """
    bus, gen, branch, cost = (_matrix(text, name) for name in ("bus", "gen", "branch", "gencost"))
    number = {int(name): place for place, name in enumerate(bus[:, 0])}
    on = branch[:, 10] > 0
    if (branch[on, 9] != 0).any():
        raise ValueError("the case has phase shifters, expected branches without.")
    quadratic = (cost[:, 0] != 2) | (cost[:, 3] != 3) | (cost[:, 4] != 0)
    if quadratic.any():
        raise ValueError("the case has costs that are not linear, expected model 2, n = 3, c2 = 0.")
    tap = np.where(branch[:, 8] == 0, 1, branch[:, 8])
    areas = {area: place for place, area in enumerate(np.unique(bus[:, 6]))}
    return Network(
        loads=tuple(bus[:, 2].tolist()),
        areas=tuple(areas[area] for area in bus[:, 6]),
        lines=tuple(
            Line(
                number[int(row[0])], number[int(row[1])], float(1 / (row[3] * ratio)), float(row[5])
            )
            for row, ratio in zip(branch[on], tap[on], strict=True)
        ),
        generators=tuple(
            Generator(number[int(row[0])], float(row[8]), float(linear))
            for row, linear in zip(gen, cost[:, 5], strict=True)
            if row[7] > 0
        ),
        sites=(),
        prices=prices,
    )


def _matrix(text: str, name: str) -> np.ndarray:
    found = re.search(rf"^mpc\.{name} = \[(.*?)^\];", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"the case has no matrix mpc.{name}, expected a MATPOWER case.")
    lines = (line.partition("%")[0].strip().rstrip(";") for line in found[1].splitlines())
    return np.array([[float(value) for value in line.split()] for line in lines if line])
