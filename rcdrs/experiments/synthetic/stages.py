"""What the engine computes of the synthetic benchmarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from rcdrs.baselines.registry import METHODS
from rcdrs.experiments.sampling import taken_apart
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.instances import InstanceSet
from rcdrs.experiments.synthetic.instances import generate as draw
from rcdrs.experiments.synthetic.layers import build, lesson, measure, tune
from rcdrs.experiments.synthetic.shift import shift
from rcdrs.files import read_checkpoint, sha256
from rcdrs.layer import RCDRSLayer, SolverLayer
from rcdrs.solution import Solution

__all__ = ["METHODS", "build", "lesson", "shift", "tune"]

SETTINGS = ("controller",)
#: Of the actions over the test instances.
QUANTILES = {"low": 0.05, "middle": 0.5, "high": 0.95}

load = InstanceSet.load


def generate(case: str, seed: int, settings: Plain) -> InstanceSet:
    sizes, sampling = taken_apart(settings)
    return draw(case, seed, sizes, sampling=sampling)


def solve(layer: SolverLayer, data: InstanceSet) -> Solution:
    return layer.solve(data.test.program)


def evaluate(
    layer: SolverLayer, data: InstanceSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    return measure(layer, data.test), ()


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
