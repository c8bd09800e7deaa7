"""The weeks of the year that a layer is trained and tested on, with the optimum of every hour."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from rcdrs.experiments import exact
from rcdrs.experiments.instances import SPLITS, Dataset, stream
from rcdrs.experiments.opf.model import HourProgram, PowerFlow, Profiles, comparable
from rcdrs.experiments.opf.network import Network
from rcdrs.experiments.opf.year import SUMMER, WEEK, Year, weeks

#: The name of its only case.
CASE = "opf"


@dataclass(frozen=True)
class Hours:
    """Hours to plan, week after week: their programs on the forecast, and exact solutions."""

    program: HourProgram
    x: Tensor
    #: The dual slack c - A'y.
    s: Tensor
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
    shared = ("scale",)

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        check_case(meta["case"])
        scale, network = tensors["scale"], Network.from_dict(meta["network"])
        self.model = PowerFlow(network, scale, scale.dtype, scale.device)
        super().__init__(meta, tensors)

    def split(
        self,
        forecast_load: Tensor,
        forecast_renewable: Tensor,
        realised_load: Tensor,
        realised_renewable: Tensor,
        x: Tensor,
        s: Tensor,
        away: Tensor,
    ) -> Hours:
        forecast = Profiles(forecast_load, forecast_renewable)
        program = self.model.program(forecast, Profiles(realised_load, realised_renewable))
        for name, part in (("x", x), ("s", s), ("away", away)):
            expected = program.c.shape[: part.ndim]
            if part.shape != expected:
                raise ValueError(
                    f"{name} has shape {tuple(part.shape)}, expected {tuple(expected)}."
                )
        return Hours(program, x, s, away)


def generate(
    seed: int,
    sizes: dict[str, int],
    network: Network,
    year: Year,
    dtype: torch.dtype = torch.float32,
) -> WeekSet:
    """The weeks of one seed; every seed is tested on the same ones.  Variables are scaled by what
    is optimal in the hours of training."""
    chosen = weeks(stream(f"opf/{seed}/weeks"), sizes)
    expected = year.forecast([site.source for site in network.sites])
    model = PowerFlow(network, dtype=torch.float64)

    def solved(split: str) -> dict[str, Tensor]:
        def cut(array: np.ndarray) -> Tensor:
            parts = [array[year.week(number)] for number in chosen[split]]
            return torch.from_numpy(np.concatenate(parts))

        forecast, realised = (
            Profiles(*(cut(getattr(hours, part)) for part in Profiles._fields))
            for hours in (expected, year)
        )
        given = {
            f"{kind}_{part}": getattr(profiles, part)
            for kind, profiles in (("forecast", forecast), ("realised", realised))
            for part in Profiles._fields
        }
        away = np.repeat([float(number in SUMMER) for number in chosen[split]], WEEK)
        x, s = optimum(model.program(forecast, realised))
        return given | {"x": x, "s": s, "away": torch.from_numpy(away)}

    found = {split: solved(split) for split in SPLITS}
    scale = comparable(found["train"]["x"], found["train"]["s"])

    def draw(split: str, size: int) -> dict[str, np.ndarray]:
        part = found[split]
        part |= {"x": part["x"] / scale, "s": part["s"] * scale}
        return {name: tensor.numpy() for name, tensor in part.items()}

    meta = {"case": CASE, "seed": seed, "network": network.to_dict()}
    return WeekSet.draw(meta, sizes, draw, dtype, scale=scale.numpy())


def optimum(program: HourProgram) -> tuple[Tensor, Tensor]:
    """Exact solutions x and dual slacks s, (batch, n) in float64."""
    x, y = exact.solve(program)
    if bool(bad := int((~x.isfinite()).any(-1).sum())):
        raise ValueError(f"Clarabel found no optimum of {bad} hours, expected one of every hour.")
    return program.cone.project(x), program.c.double() - y @ program.A.double()


def check_case(case: str) -> None:
    if case != CASE:
        raise ValueError(f"unknown case {case!r}, expected {CASE}.")
