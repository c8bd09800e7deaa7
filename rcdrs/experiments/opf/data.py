"""The weeks of the year that a layer is trained and tested on, with the optimum of every hour."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from rcdrs.experiments import exact
from rcdrs.experiments.instances import Dataset, stream
from rcdrs.experiments.opf.model import HourProgram, PowerFlow, Profiles
from rcdrs.experiments.opf.network import Network
from rcdrs.experiments.opf.year import SUMMER, WEEK, Year, weeks

#: The name of its only case.
CASE = "opf"


@dataclass(frozen=True)
class Hours:
    """Hours to plan, week after week: their programs on the forecast, and exact solutions x."""

    program: HourProgram
    x: Tensor
    #: 1 for an hour of summer, which no layer was trained on.
    away: Tensor

    @property
    def batch(self) -> int:
        return self.program.batch

    def __getitem__(self, index: slice | Tensor) -> Self:
        return type(self)(*(getattr(self, field.name)[index] for field in fields(self)))


class WeekSet(Dataset[Hours]):
    """All weeks of one seed."""

    example = CASE

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        check_case(meta["case"])
        like = next(iter(tensors.values()))
        self.model = PowerFlow(Network.from_dict(meta["network"]), like.dtype, like.device)
        super().__init__(meta, tensors)

    def split(
        self,
        forecast_load: Tensor,
        forecast_renewable: Tensor,
        realised_load: Tensor,
        realised_renewable: Tensor,
        x: Tensor,
        away: Tensor,
    ) -> Hours:
        forecast = Profiles(forecast_load, forecast_renewable)
        program = self.model.program(forecast, Profiles(realised_load, realised_renewable))
        if x.shape != program.c.shape or away.shape != x.shape[:1]:
            raise ValueError(
                f"x has shape {tuple(x.shape)} and away {tuple(away.shape)}, expected "
                f"{tuple(program.c.shape)} and its first."
            )
        return Hours(program, x, away)


def generate(
    seed: int,
    sizes: dict[str, int],
    network: Network,
    year: Year,
    dtype: torch.dtype = torch.float32,
) -> WeekSet:
    """The weeks of one seed; every seed is tested on the same ones."""
    chosen = weeks(stream(f"opf/{seed}/weeks"), sizes)
    expected = year.forecast([site.source for site in network.sites])
    model = PowerFlow(network, torch.float64)

    def draw(split: str, size: int) -> dict[str, np.ndarray]:
        def cut(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array[year.week(number)] for number in chosen[split]])

        found = {
            f"{kind}_{part}": cut(getattr(hours, part))
            for kind, hours in (("forecast", expected), ("realised", year))
            for part in Profiles._fields
        }
        given = {name: torch.from_numpy(array) for name, array in found.items()}
        forecast, realised = (
            Profiles(given[f"{kind}_load"], given[f"{kind}_renewable"])
            for kind in ("forecast", "realised")
        )
        away = np.repeat([float(number in SUMMER) for number in chosen[split]], WEEK)
        return found | {"x": optimum(model.program(forecast, realised)).numpy(), "away": away}

    meta = {"case": CASE, "seed": seed, "network": network.to_dict()}
    return WeekSet.draw(meta, sizes, draw, dtype)


def optimum(program: HourProgram) -> Tensor:
    """Exact solutions, (batch, n) in float64."""
    x = exact.solve(program)[0]
    if bool(bad := int((~x.isfinite()).any(-1).sum())):
        raise ValueError(f"Clarabel found no optimum of {bad} hours, expected one of every hour.")
    return program.cone.project(x)


def check_case(case: str) -> None:
    if case != CASE:
        raise ValueError(f"unknown case {case!r}, expected {CASE}.")
