"""Days of load and renewable power, as forecast and as they come; and files of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.experiments.dispatch.model import FORMULATIONS, Dispatch, DispatchProgram, Profiles
from rcdrs.experiments.dispatch.network import SIX_BUS, Network
from rcdrs.experiments.instances import Dataset, stream

#: What a case, such as ``dispatch-printed``, begins with.
FAMILY = "dispatch"


@dataclass(frozen=True)
class Climate:
    r"""How days look: at hour h, with independent N(0, 1) numbers xi for a day or an hour of it,

        load  = base (level + variation daily(h)) (1 + day_load xi)_+ (1 + noise xi)_+
        solar = amplitude cos(2 pi (h - 12.5) / 24)_+ (1 + day_weather xi)_+ (1 + noise xi)_+
        wind  = amplitude (0.5 + 0.1 cos(2 pi (h - 2) / 24)) (1 + day_weather xi)_+ (1 + noise xi)_+

        daily = 3/4 cos(2 pi (h - 19) / 24) + 1/4 cos(4 pi (h - 10) / 24)

    The load of a day is that of all buses, its weather that of one site.  `variation`, `noise` and
    the forecast errors are the paper's, table 12; the rest it leaves open.
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
    """The forecasts of eq. (25)."""
    expected = perturb(rng, load, climate.forecast_load).clip(climate.least_load)
    return expected, perturb(rng, renewable, climate.forecast_renewable)


def perturb(
    rng: np.random.Generator, x: np.ndarray, size: float, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """``x (1 + size xi)_+`` with xi of the given shape, that of x by default."""
    return x * (1 + size * rng.standard_normal(x.shape if shape is None else shape)).clip(0)


class ScenarioSet(Dataset[DispatchProgram]):
    """All days of one seed for one model."""

    example = f"{FAMILY}-printed"

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        network, formulation = Network.from_dict(meta["network"]), formulation_of(meta["case"])
        like = next(iter(tensors.values()))
        self.model = Dispatch(network, formulation, like.dtype, like.device)
        super().__init__(meta, tensors)

    def split(
        self,
        forecast_load: Tensor,
        forecast_renewable: Tensor,
        realised_load: Tensor,
        realised_renewable: Tensor,
    ) -> DispatchProgram:
        forecast = Profiles(forecast_load, forecast_renewable)
        return self.model.program(forecast, Profiles(realised_load, realised_renewable))


def generate(
    seed: int,
    sizes: dict[str, int],
    formulation: str = "printed",
    network: Network = SIX_BUS,
    climate: Climate | None = None,
    dtype: torch.dtype = torch.float32,
) -> ScenarioSet:
    """The days of one seed; every formulation gets the same ones."""
    weather = climate or Climate()

    def draw(split: str, size: int) -> dict[str, np.ndarray]:
        days = realise(stream(f"dispatch/{seed}/{split}/days"), size, network, weather)
        ahead = foresee(stream(f"dispatch/{seed}/{split}/forecasts"), *days, weather)
        names = (f"{kind}_{part}" for kind in ("forecast", "realised") for part in Profiles._fields)
        return dict(zip(names, (*ahead, *days), strict=True))

    case = f"{FAMILY}-{formulation}"
    meta = {"case": case, "seed": seed, "network": network.to_dict()}
    return ScenarioSet.draw(meta, sizes, draw, dtype)


def formulation_of(case: str) -> str:
    """The formulation in a case such as ``dispatch-printed``."""
    cases = {f"{FAMILY}-{name}": name for name in FORMULATIONS}
    if case not in cases:
        raise ValueError(f"unknown case {case!r}, expected one of {', '.join(cases)}.")
    return cases[case]
