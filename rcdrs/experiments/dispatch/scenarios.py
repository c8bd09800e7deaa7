"""Days of load and renewable power, as forecast and as they come; and files of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rcdrs.experiments.dispatch.model import (
    FORMULATIONS,
    Dispatch,
    DispatchProgram,
    Profiles,
)
from rcdrs.experiments.dispatch.network import SIX_BUS, Network
from rcdrs.experiments.instances import (
    SPLITS,
    check_sizes,
    reading_set,
    stream,
    to_tensors,
    write_set,
)

#: How the experiment is called; with a formulation it is a case, such as ``dispatch-printed``.
EXPERIMENT = "dispatch"
#: Days in each split, table app_global_protocol.
SIZES = {"train": 1536, "validation": 384, "test": 512}
KINDS = ("forecast", "realised")


@dataclass(frozen=True)
class Climate:
    r"""How days look: at hour h, with independent N(0, 1) numbers xi for a day or an hour of it,

        load  = base (level + variation daily(h)) (1 + day_load xi)_+ (1 + noise xi)_+
        solar = amplitude cos(2 pi (h - 12.5) / 24)_+ (1 + day_weather xi)_+ (1 + noise xi)_+
        wind  = amplitude (0.5 + 0.1 cos(2 pi (h - 2) / 24)) (1 + day_weather xi)_+ (1 + noise xi)_+

        daily = 3/4 cos(2 pi (h - 19) / 24) + 1/4 cos(4 pi (h - 10) / 24)

    The load of a day is that of all buses, its weather that of one site.  `variation`, `noise` and
    the forecast errors are the paper's, table app_dispatch_parameters; the rest it leaves open.
    `level`, the mean load in base loads, is fitted to the classical rows of its tables.
    """

    level: float = 1.375
    variation: float = 0.20
    noise: float = 0.025
    day_load: float = 0.03
    day_weather: float = 0.2
    forecast_load: float = 0.045
    forecast_renewable: float = 1.25 * 0.045
    #: The smallest load that is forecast.
    least_load: float = 0.05


Pair = tuple[np.ndarray, np.ndarray]


def realise(rng: np.random.Generator, count: int, network: Network, climate: Climate) -> Pair:
    """`count` days of load (count, buses, T) and renewable power (count, sites, T)."""
    hour = 24 * np.arange(network.horizon) / network.horizon

    def wave(peak: float, a_day: int = 1) -> np.ndarray:
        return np.cos(2 * np.pi * a_day * (hour - peak) / 24)

    daily = 0.75 * wave(19) + 0.25 * wave(10, a_day=2)
    shapes = {"solar": wave(12.5).clip(0), "wind": 0.5 + 0.1 * wave(2)}
    load = np.multiply.outer(network.loads, climate.level + climate.variation * daily)
    renewable = np.zeros((len(network.sites), network.horizon))
    for row, site in enumerate(network.sites):
        renewable[row] = site.amplitude * shapes[site.source]
    loads = perturb(rng, load, climate.day_load, (count, 1, 1))
    renewables = perturb(rng, renewable, climate.day_weather, (count, len(renewable), 1))
    return perturb(rng, loads, climate.noise), perturb(rng, renewables, climate.noise)


def foresee(
    rng: np.random.Generator, load: np.ndarray, renewable: np.ndarray, climate: Climate
) -> Pair:
    """The forecasts of eq. dispatch_forecast_profiles."""
    expected = perturb(rng, load, climate.forecast_load).clip(climate.least_load)
    return expected, perturb(rng, renewable, climate.forecast_renewable)


def perturb(
    rng: np.random.Generator, x: np.ndarray, size: float, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """``x (1 + size xi)_+`` with xi of the given shape, that of x by default."""
    return x * (1 + size * rng.standard_normal(x.shape if shape is None else shape)).clip(0)


@dataclass(frozen=True)
class ScenarioSet:
    """All days of one seed for one model: three independent splits."""

    model: Dispatch
    seed: int
    splits: dict[str, DispatchProgram]

    def __getattr__(self, name: str) -> DispatchProgram:
        try:
            return self.__dict__["splits"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def case(self) -> str:
        return f"{EXPERIMENT}-{self.model.formulation}"

    def to(self, device: torch.device) -> ScenarioSet:
        """The same days on another device."""
        if self.model.A.device == device:
            return self
        moved = {key: tensor.to(device) for key, tensor in self._tensors().items()}
        return _assemble(self.model.network, self.model.formulation, self.seed, moved)

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file."""
        meta = {"case": self.case, "seed": self.seed, "network": self.model.network.to_dict()}
        write_set(path, self._tensors(), meta)

    @staticmethod
    def load(path: str | Path) -> ScenarioSet:
        """Read what `save` wrote; a damaged file is an error that names it."""
        with reading_set(path, f"python -m rcdrs instances {EXPERIMENT}-printed") as (
            tensors,
            meta,
        ):
            formulation = formulation_of(meta["case"])
            return _assemble(Network.from_dict(meta["network"]), formulation, meta["seed"], tensors)

    def _tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}_{kind}_{part}": profile
            for name, program in self.splits.items()
            for kind in KINDS
            for part, profile in getattr(program, kind)._asdict().items()
        }


def generate(
    seed: int,
    sizes: dict[str, int] | None = None,
    formulation: str = "printed",
    network: Network = SIX_BUS,
    climate: Climate | None = None,
    dtype: torch.dtype = torch.float32,
) -> ScenarioSet:
    """The days of one seed; every formulation gets the same ones."""
    sizes, climate = check_sizes(SIZES if sizes is None else sizes), climate or Climate()
    arrays = {}
    for name in SPLITS:
        days = realise(stream(f"dispatch/{seed}/{name}/days"), sizes[name], network, climate)
        ahead = foresee(stream(f"dispatch/{seed}/{name}/forecasts"), *days, climate)
        for kind, profiles in zip(KINDS, (ahead, days), strict=True):
            for part, profile in zip(Profiles._fields, profiles, strict=True):
                arrays[f"{name}_{kind}_{part}"] = profile
    return _assemble(network, formulation, seed, to_tensors(arrays, dtype))


def formulation_of(case: str) -> str:
    """The formulation in a case such as ``dispatch-printed``."""
    experiment, _, formulation = case.partition("-")
    if experiment != EXPERIMENT or formulation not in FORMULATIONS:
        known = ", ".join(f"{EXPERIMENT}-{name}" for name in FORMULATIONS)
        raise ValueError(f"unknown case {case!r}, expected one of {known}.")
    return formulation


def _assemble(
    network: Network, formulation: str, seed: int, tensors: dict[str, Tensor]
) -> ScenarioSet:
    first = next(iter(tensors.values()))
    model = Dispatch(network, formulation, first.dtype, first.device)
    splits = {}
    for name in SPLITS:
        forecast, realised = (
            Profiles(*(tensors[f"{name}_{kind}_{part}"] for part in Profiles._fields))
            for kind in KINDS
        )
        splits[name] = model.program(forecast, realised)
    return ScenarioSet(model, seed, splits)
