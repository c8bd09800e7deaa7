"""A power network as data: buses, lines, generators, batteries and renewable sites."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


class NetworkError(ValueError):
    """The description of a network contradicts itself."""


@dataclass(frozen=True)
class Line:
    """A line from bus `origin` to bus `destination`; flow is positive in this direction."""

    origin: int
    destination: int
    susceptance: float
    limit: float


@dataclass(frozen=True)
class Generator:
    """Power in [0, limit] at the cost ``quadratic p^2 + linear p``."""

    bus: int
    limit: float
    quadratic: float
    linear: float


@dataclass(frozen=True)
class Battery:
    """Power limits, bounds of the stored energy, efficiencies, and the energy at both ends."""

    bus: int
    charge: float
    discharge: float
    lowest: float
    highest: float
    initial: float
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95


@dataclass(frozen=True)
class Site:
    """A renewable site: `source` is "solar" or "wind", `amplitude` its installed power."""

    bus: int
    amplitude: float
    source: str


@dataclass(frozen=True)
class Costs:
    """The prices lambda of eq. (20)."""

    battery: float = 0.015
    curtailment: float = 0.08
    shedding: float = 14.0
    reserve: float = 10.0
    flow: float = 0.002


@dataclass(frozen=True)
class Network:
    """Everything that does not change from day to day.

    Arguments
        loads: base load of each bus; buses are numbered from 0, the reference bus.
        angle_limit: bound of every voltage angle.
        reserve_factor: share of load, and half that share of renewable power, held in reserve.
        horizon: number of periods T.
    """

    loads: tuple[float, ...]
    lines: tuple[Line, ...]
    generators: tuple[Generator, ...]
    batteries: tuple[Battery, ...]
    sites: tuple[Site, ...]
    costs: Costs = field(default_factory=Costs)
    angle_limit: float = 0.60
    reserve_factor: float = 0.12
    horizon: int = 24

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise NetworkError(f"horizon is {self.horizon}, expected at least one period.")
        _check_numbers(self)
        _check_devices(self)
        _check_connected(self)

    @property
    def buses(self) -> int:
        return len(self.loads)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Network:
        """A network from plain values, as files hold them."""
        parts: dict[str, Any] = dict(values) | {"loads": tuple(values["loads"])}
        for name, kind in _DEVICES.items():
            parts[name] = tuple(kind(**device) for device in values[name])
        if "costs" in parts:
            parts["costs"] = Costs(**parts["costs"])
        return Network(**parts)


SOURCES = ("solar", "wind")
_DEVICES = {"lines": Line, "generators": Generator, "batteries": Battery, "sites": Site}


def _check_numbers(network: Network) -> None:
    """Every number of the description is finite and not negative; susceptances are positive."""
    for place, value in _numbers(network.to_dict()):
        least = "positive" if place.endswith(".susceptance") else "nonnegative"
        if not 0 <= value < math.inf or (value == 0 and least == "positive"):
            raise NetworkError(f"{place} is {value}, expected a finite {least} number.")


def _numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number of plain values with its place."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(part, f"{place}.{key}" if place else key)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _numbers(part, f"{place}[{index}]")
    elif not isinstance(value, str):
        yield place, value


def _check_devices(network: Network) -> None:
    def refuse(device: str, name: str, found: object, expected: str) -> None:
        raise NetworkError(f"{device}.{name} is {found}, expected {expected}.")

    for kind in _DEVICES:
        for number, device in enumerate(getattr(network, kind)):
            label = f"{kind}[{number}]"
            for name in ("bus", "origin", "destination"):
                bus = getattr(device, name, 0)
                if bus not in range(network.buses):
                    refuse(label, name, f"the unknown bus {bus}", f"0 to {network.buses - 1}")
            if isinstance(device, Site) and device.source not in SOURCES:
                refuse(label, "source", repr(device.source), f"one of {', '.join(SOURCES)}")
            if isinstance(device, Battery):
                bounds = f"[{device.lowest:g}, {device.highest:g}]"
                if not device.lowest <= device.initial <= device.highest:
                    refuse(label, "initial", device.initial, f"it within its bounds {bounds}")
                for name in ("charge_efficiency", "discharge_efficiency"):
                    if not 0 < getattr(device, name) <= 1:
                        refuse(label, name, getattr(device, name), "it in (0, 1]")


def _check_connected(network: Network) -> None:
    reached = {0}
    for _ in network.lines:  # as each round but the last reaches another bus, these are enough
        for ends in ({line.origin, line.destination} for line in network.lines):
            reached |= ends if ends & reached else set()
    if isolated := sorted(set(range(network.buses)) - reached):
        found = f"no line connects bus {isolated[0]} with bus 0"
        raise NetworkError(f"{found}, expected a connected network.")


def _six_bus() -> Network:
    """Table 12; lines carry 1.15 times their base limit.

    The paper leaves open what is stored at first, here midway between the bounds, and what the
    renewable sites are, here wind at bus 1 and sun at buses 3 and 5.
    """
    ends = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3), (2, 5))
    susceptances = (5.0, 4.5, 4.2, 4.0, 4.3, 3.6, 3.8)
    base_limits = (0.95, 0.85, 0.80, 0.75, 0.75, 0.70, 0.65)
    return Network(
        loads=(0.36, 0.43, 0.39, 0.46, 0.36, 0.32),
        lines=tuple(
            Line(*pair, b, 1.15 * limit)
            for pair, b, limit in zip(ends, susceptances, base_limits, strict=True)
        ),
        generators=(Generator(0, 1.85, 0.08, 1.00), Generator(3, 1.45, 0.10, 1.10)),
        batteries=(
            Battery(2, 0.42, 0.42, 0.15, 1.35, initial=0.75),
            Battery(4, 0.36, 0.36, 0.12, 1.15, initial=0.635),
        ),
        sites=(Site(1, 0.72, "wind"), Site(3, 0.58, "solar"), Site(5, 0.62, "solar")),
    )


SIX_BUS = _six_bus()
