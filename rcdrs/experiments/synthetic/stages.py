"""What the engine computes of the synthetic benchmarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.controller import BASE_ACTION
from rcdrs.experiments.base import Run
from rcdrs.experiments.instances import Split
from rcdrs.experiments.sampling import taken_apart
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.instances import InstanceSet
from rcdrs.experiments.synthetic.instances import generate as draw
from rcdrs.files import read_checkpoint, sha256
from rcdrs.layer import RCDRSLayer, Solution, SolverLayer
from rcdrs.training.loop import Lesson, Recipe
from rcdrs.training.losses import LogKKTLoss, TerminalLoss

__all__ = ["METHODS"]

SETTINGS = ("controller",)
LOSSES = {"paper": TerminalLoss, "log_kkt": LogKKTLoss}
#: Of the actions over the test instances.
QUANTILES = {"low": 0.05, "middle": 0.5, "high": 0.95}

load = InstanceSet.load


def generate(case: str, seed: int, settings: Plain) -> InstanceSet:
    sizes, sampling = taken_apart(settings)
    return draw(case, seed, sizes, sampling=sampling)


def tune(data: InstanceSet, depth: int, **grid: Any) -> tuple[float, float]:
    return select_core(data.validation, depth, **grid)


def build(
    data: InstanceSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer:
    """The layer of a method, untrained."""
    return find_method(method).build(data.A, data.cone, depth, core, settings["controller"])


def lesson(data: Any, run: Run, core: tuple[float, float], settings: Plain) -> Lesson:
    """Self-supervised, on programs without their solutions."""
    schedule = dict(settings["recipe"])
    loss = LOSSES[run.recipe](**schedule.pop("loss"))
    compared = {"base": BASE_ACTION[1:], "tuned": core} if run.recipe == "paper" else {"none": None}
    name = schedule.pop("reference", "none")
    if name not in compared:
        expected = " or ".join(compared)
        raise ValueError(f"reference is {name!r}, expected {expected} for the recipe {run.recipe}.")
    recipe = Recipe(loss, **schedule)
    return Lesson(data.train.program, data.validation.program, recipe, compared[name])


def solve(layer: SolverLayer, data: InstanceSet) -> Solution:
    return layer.solve(data.test.program)


def evaluate(
    layer: SolverLayer, data: InstanceSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    return measure(layer, data.test), ()


@torch.no_grad()
def measure(layer: SolverLayer, split: Split) -> dict[str, Tensor]:
    """Every metric of the synthetic tables, one value per instance."""
    solution = layer.solve(split.program)
    error, read = split.errors(solution.x), solution.readout
    residuals = {name: getattr(read, name) for name in ("r_p", "r_d", "r_comp", "r_gap")}
    return error._asdict() | residuals


def trace(
    solvers: Iterable[tuple[Plain, Path | None, SolverLayer]], data: InstanceSet
) -> Iterator[Plain]:
    """The quantiles of each trained layer's actions on the test split, and its training curve.

    The columns are those that name a run, then `series` (alpha, beta, loss or merit), `step` (of
    the rollout, or the epoch), `low`, `middle` and `high`.  Step 0 of alpha and beta is the base
    action.  A curve has one value, and all three columns hold it.
    """
    for run, checkpoint, layer in solvers:
        if checkpoint is None:
            raise ValueError(f"{run['method']} learns nothing: there is nothing to trace.")
        for line in (*_actions(layer, data), *_curve(checkpoint)):
            yield run | line


def _actions(layer: SolverLayer, data: InstanceSet) -> Iterator[Plain]:
    """Quantiles of alpha and beta at every step; nothing for a layer without them."""
    if not isinstance(layer, RCDRSLayer):
        return
    solution = solve(layer, data)
    shares = torch.tensor(list(QUANTILES.values()), dtype=torch.float64)
    for name, base in zip(("alpha", "beta"), layer.core, strict=True):
        yield {"series": name, "step": 0} | dict.fromkeys(QUANTILES, base)
        steps = getattr(solution, name).cpu().double().quantile(shares, dim=0)
        for number, values in enumerate(steps.T.tolist(), start=1):
            shown = (float(f"{value:.6g}") for value in values)  # float32 holds no more
            yield {"series": name, "step": number} | dict(zip(QUANTILES, shown, strict=True))


def _curve(checkpoint: Path) -> Iterator[Plain]:
    """The training curve beside a checkpoint; a released one may have none."""
    path = checkpoint.with_suffix(".csv")
    if not path.exists():
        return
    noted = read_checkpoint(checkpoint)[0].get("curve")
    if noted is not None and noted != sha256(path):
        raise ValueError(
            f"{path} is not the curve that was written with {checkpoint.name}: delete both and "
            "train again."
        )
    for line in pd.read_csv(path).to_dict("records"):
        for name in ("loss", "merit"):
            if not math.isnan(line[name]):  # before the first epoch there is no loss
                values = dict.fromkeys(QUANTILES, line[name])
                yield {"series": name, "step": int(line["epoch"])} | values
