"""The dispatch problem of eq. (11): variables, equations, bounds and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from rcdrs.cones import Box
from rcdrs.experiments.dispatch.network import Network
from rcdrs.solver.affine import AffineSet
from rcdrs.solver.problem import ConicProgram, check_numbers

#: Readings of the reserve row, eq. (18): the signs of s^res and of a surplus beside
#: the headroom in ``h + ... = Gamma``; 0 where there is no such variable.
FORMULATIONS = {"printed": (1, 0), "turned": (-1, 0), "inequality": (1, -1)}


class Profiles(NamedTuple):
    """Load of each bus and available power of each renewable site over the day."""

    load: Tensor  # (batch, buses, T)
    renewable: Tensor  # (batch, sites, T)

    def take(self, index: slice | Tensor) -> Profiles:
        return Profiles(self.load[index], self.renewable[index])


class Schedule(NamedTuple):
    """The decision z by its parts: views (batch, devices, periods) of it."""

    generation: Tensor
    charge: Tensor
    discharge: Tensor
    energy: Tensor  # at the T + 1 ends of the periods
    curtailment: Tensor
    shedding: Tensor
    angle: Tensor
    flow: Tensor
    slack: Tensor  # the paper's s^res, one row
    surplus: Tensor  # one row in the inequality formulation, none in the others


class Dispatch:
    """The problem of one network under one reading of its reserve row.

    `schedule` alone knows the order of the variables; all else is written in their names.
    """

    def __init__(
        self,
        network: Network,
        formulation: str = "printed",
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if formulation not in FORMULATIONS:
            raise ValueError(
                f"unknown formulation {formulation!r}, expected one of {', '.join(FORMULATIONS)}."
            )
        self.network, self.formulation = network, formulation
        self._sign, self._surplus_sign = FORMULATIONS[formulation]
        batteries, T = len(network.batteries), network.horizon
        self.shapes = {
            "generation": (len(network.generators), T),
            "charge": (batteries, T),
            "discharge": (batteries, T),
            "energy": (batteries, T + 1),
            "curtailment": (len(network.sites), T),
            "shedding": (network.buses, T),
            "angle": (network.buses, T),
            "flow": (len(network.lines), T),
            "slack": (1, T),
            "surplus": (abs(self._surplus_sign), T),
        }
        self.n = sum(math.prod(shape) for shape in self.shapes.values())
        self._zero = torch.zeros(self.n, dtype=dtype, device=device)
        bus = torch.eye(network.buses, dtype=dtype, device=device)
        self.generators = _columns(network.generators, bus)
        self.batteries = _columns(network.batteries, bus)
        self.sites = _columns(network.sites, bus)
        self.lines = _columns(network.lines, bus)
        #: A^net: 1 where a line begins, -1 where it ends, (buses, lines).
        self.incidence = self.lines.at_origin - self.lines.at_destination

    def schedule(self, z: Tensor) -> Schedule:
        """z (batch, n) by its parts."""
        parts = z.split([math.prod(shape) for shape in self.shapes.values()], dim=-1)
        named = zip(self.shapes.items(), parts, strict=True)
        return Schedule(**{name: part.unflatten(-1, shape) for (name, shape), part in named})

    # The physics

    def balance(self, s: Schedule, given: Profiles) -> Tensor:
        """Supply minus load minus outflow of each bus, eq. (12): (batch, buses, T).

        With the realised profiles it is -Delta of eq. (27).
        """
        return (
            self.generators.at_bus @ s.generation
            + self.batteries.at_bus @ (s.discharge - s.charge)
            + self.sites.at_bus @ (given.renewable - s.curtailment)
            + s.shedding
            - given.load
            - self.incidence @ s.flow
        )

    def headroom(self, s: Schedule) -> Tensor:
        """What generators and batteries could add, h_t of eq. (17): (batch, T)."""
        spare = (self.generators.limit - s.generation).sum(-2)
        return spare + (self.batteries.discharge - s.discharge).sum(-2)

    def requirement(self, given: Profiles) -> Tensor:
        """The reserve Gamma_t to hold, eq. (26): (batch, T)."""
        return self.network.reserve_factor * (given.load.sum(-2) + 0.5 * given.renewable.sum(-2))

    def residual(self, z: Tensor, forecast: Profiles) -> Tensor:
        """``A_eq z - d_eq``, equation by equation: (batch, m)."""
        s, batteries = self.schedule(z), self.batteries
        difference = self.incidence.mT @ s.angle
        stored = batteries.charge_efficiency * s.charge
        drawn = s.discharge / batteries.discharge_efficiency
        slack = self._sign * s.slack.sum(-2) + self._surplus_sign * s.surplus.sum(-2)
        reserve = self.headroom(s) + slack - self.requirement(forecast)
        equations = (
            self.balance(s, forecast),
            s.flow - self.lines.susceptance * difference,  # eq. (13)
            s.angle[..., :1, :],  # eq. (14)
            s.energy[..., 1:] - s.energy[..., :-1] - stored + drawn,  # eq. (15)
            s.energy[..., :1] - batteries.initial,  # eq. (16)
            s.energy[..., -1:] - batteries.initial,
            reserve.unsqueeze(-2),
        )
        return torch.cat([rows.flatten(-2) for rows in equations], dim=-1)

    # The program

    @cached_property
    def A(self) -> Tensor:
        """A_eq (m, n), the derivative of the equations."""
        buses, sites, T = self.network.buses, len(self.network.sites), self.network.horizon
        nothing = Profiles(self._zero.new_zeros(buses, T), self._zero.new_zeros(sites, T))
        jacobian = torch.autograd.functional.jacobian
        matrix: Tensor = jacobian(lambda z: self.residual(z, nothing), self._zero)
        return matrix

    @cached_property
    def affine(self) -> AffineSet:
        """The factored equations, one for all programs."""
        return AffineSet(self.A)

    def target(self, forecast: Profiles) -> Tensor:
        """d_eq (batch, m)."""
        return -self.residual(self._zero.expand(len(forecast.load), -1), forecast)

    def box(self, forecast: Profiles) -> Box:
        """The bounds of eq. (19); a surplus has no upper one."""
        lower, upper = (self._zero.repeat(len(forecast.load), 1) for _ in range(2))
        low, high = self.schedule(lower), self.schedule(upper)
        high.generation.copy_(self.generators.limit)
        high.charge.copy_(self.batteries.charge)
        high.discharge.copy_(self.batteries.discharge)
        low.energy.copy_(self.batteries.lowest)
        high.energy.copy_(self.batteries.highest)
        high.curtailment.copy_(forecast.renewable)
        high.shedding.copy_(forecast.load)
        low.angle.fill_(-self.network.angle_limit)
        high.angle.fill_(self.network.angle_limit)
        low.flow.copy_(-self.lines.limit)
        high.flow.copy_(self.lines.limit)
        high.slack.copy_(self.requirement(forecast).unsqueeze(-2) + 1)
        high.surplus.fill_(math.inf)
        return Box(lower, upper)

    @cached_property
    def cost(self) -> tuple[Tensor, Tensor]:
        """(Q, c) of eq. (21), each (n,); c_0 is zero."""
        quadratic, linear = self._zero.clone(), self._zero.clone()
        Q, c, costs = self.schedule(quadratic), self.schedule(linear), self.network.costs
        Q.generation.copy_(2 * self.generators.quadratic)
        Q.flow.fill_(2 * costs.flow)
        c.generation.copy_(self.generators.linear)
        c.charge.fill_(costs.battery)
        c.discharge.fill_(costs.battery)
        c.curtailment.fill_(costs.curtailment)
        c.shedding.fill_(costs.shedding)
        c.slack.fill_(costs.reserve)
        return quadratic, linear

    def program(self, forecast: Profiles, realised: Profiles) -> DispatchProgram:
        """The programs of a batch of days, decided on the forecast."""
        for name, profiles in (("forecast", forecast), ("realised", realised)):
            check_profiles(name, profiles, self.network)
        if len(forecast.load) != len(realised.load):
            raise ValueError(
                f"the forecast has {len(forecast.load)} days and {len(realised.load)} are "
                "realised, expected the same."
            )
        Q, c = self.cost
        b, box = self.target(forecast), self.box(forecast)
        program = DispatchProgram(
            self.A, b, c.expand(len(b), -1), box, Q,
            model=self, forecast=forecast, realised=realised,
        )  # fmt: skip
        return program.with_affine(self.affine)


@dataclass(frozen=True)
class DispatchProgram(ConicProgram):
    """Days to schedule: what is decided on (forecast), and what then happens (realised)."""

    model: Dispatch = field(kw_only=True)
    forecast: Profiles = field(kw_only=True)
    realised: Profiles = field(kw_only=True)

    def __getitem__(self, index: slice | Tensor) -> Self:
        part = super().__getitem__(index)
        forecast, realised = (days.take(index) for days in (self.forecast, self.realised))
        return replace(part, forecast=forecast, realised=realised).with_affine(self.affine)


def check_profiles(name: str, profiles: Profiles, network: Network) -> None:
    """An error names the profile that is of another network, negative or not a number."""
    rows = {"load": (network.buses, "buses"), "renewable": (len(network.sites), "sites")}
    for part, (count, what) in rows.items():
        profile = getattr(profiles, part)
        place = f"the {name} {part}"
        if profile.ndim != 3 or profile.shape[1:] != (count, network.horizon):
            raise ValueError(
                f"{place} has shape {tuple(profile.shape)}, expected (batch, {what}, T) with "
                f"{count} {what} and the horizon T = {network.horizon}."
            )
        check_numbers(place, profile)
        if profile.device.type != "meta" and bool((profile < 0).any()):
            day, row, period = (int(i) for i in (profile < 0).nonzero()[0])
            raise ValueError(
                f"{place} is negative, {float(profile[day, row, period]):g} on day {day} in row "
                f"{row} and period {period}; expected power of at least 0."
            )
    if len(profiles.load) != len(profiles.renewable):
        raise ValueError(
            f"the {name} load has {len(profiles.load)} days and renewable power "
            f"{len(profiles.renewable)}, expected the same."
        )


def _columns(devices: Sequence[Any], bus: Tensor) -> SimpleNamespace:
    """The numbers of all devices, each (devices, 1), and where they stand, (buses, devices)."""
    columns: dict[str, Tensor] = {}
    for name in devices[0].__dataclass_fields__ if devices else ():
        values = [getattr(device, name) for device in devices]
        if name in ("bus", "origin", "destination"):
            columns[f"at_{name}"] = bus[:, values]
        elif not isinstance(values[0], str):
            columns[name] = bus.new_tensor(values).unsqueeze(-1)
    return SimpleNamespace(**columns)
