"""The stage behind the controller's figures: what trained layers do along the rollout.

One table for a case, seed and depth: the actions of every step, and the training curve that stands
beside each checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from rcdrs.experiments.staging import KEYS, Run, check_settings, load_layer, read_core
from rcdrs.experiments.synthetic.instances import InstanceSet
from rcdrs.layer import RCDRSLayer, SolverLayer

#: Over the test instances.
QUANTILES = {"low": 0.05, "middle": 0.5, "high": 0.95}


def trace_runs(
    instances: Path,
    cores: Path,
    depth: int,
    runs: Iterable[Run],
    settings: dict[str, Any],
    on: torch.device,
) -> pd.DataFrame:
    """Solve the test split with each learned layer: the quantiles of its actions, in long form.

    Arguments
        instances, cores: what `rcdrs instances` and `rcdrs tune` wrote for a synthetic case.
        runs: learned methods with their checkpoints, as `rcdrs evaluate` takes them.
        settings: may change the common controller (``controller``).

    The columns are those that name a run, then `series` (alpha, beta, loss or merit), `step` (of
    the rollout, or the epoch), `low`, `middle` and `high`.  Step 0 of alpha and beta is the base
    action.  A curve has one value, and all three columns hold it.
    """
    check_settings(settings)
    data = InstanceSet.load(instances).to(on)
    core = read_core(cores, depth)
    lines: list[dict[str, Any]] = []
    for run in runs:
        if run.checkpoint is None:
            raise ValueError(f"{run.method.name} learns nothing: there is nothing to trace.")
        built = run.method.build(data.A, data.case.cone, depth, core, settings.get("controller"))
        trained = {"case": data.case.name, "seed": data.seed, "recipe": run.recipe}
        layer = load_layer(run.checkpoint, built, trained).to(on)
        key = ("trace", data.case.family, data.case.scale, depth, data.seed)
        named = dict(zip(KEYS, (*key, run.method.name, run.recipe), strict=True))
        lines += [named | line for line in (*_actions(layer, data), *_curve(run.checkpoint))]
    return pd.DataFrame(lines)


def _actions(layer: SolverLayer, data: InstanceSet) -> Iterator[dict[str, Any]]:
    """Quantiles of alpha and beta at every step; nothing for a layer without them."""
    if not isinstance(layer, RCDRSLayer):
        return
    with torch.no_grad():
        solution = layer.solve(data.test.program)
    shares = torch.tensor(list(QUANTILES.values()), dtype=torch.float64)
    for name, base in zip(("alpha", "beta"), layer.core, strict=True):
        yield {"series": name, "step": 0} | dict.fromkeys(QUANTILES, base)
        steps = getattr(solution, name).cpu().double().quantile(shares, dim=0)
        for number, values in enumerate(steps.T.tolist(), start=1):
            shown = (float(f"{value:.6g}") for value in values)  # float32 holds no more
            yield {"series": name, "step": number} | dict(zip(QUANTILES, shown, strict=True))


def _curve(checkpoint: Path) -> Iterator[dict[str, Any]]:
    """The training curve beside a checkpoint; a released one may have none."""
    path = checkpoint.with_suffix(".csv")
    if not path.exists():
        return
    for line in pd.read_csv(path).to_dict("records"):
        for name in ("loss", "merit"):
            if not math.isnan(line[name]):  # before the first epoch there is no loss
                values = dict.fromkeys(QUANTILES, line[name])
                yield {"series": name, "step": int(line["epoch"])} | values
