"""The stage behind the picture of a dispatch day: what each method schedules, hour by hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from rcdrs.experiments.dispatch import optimum
from rcdrs.experiments.dispatch.methods import CONTROLLER, find_dispatch_method
from rcdrs.experiments.dispatch.metrics import operate
from rcdrs.experiments.dispatch.model import DispatchProgram
from rcdrs.experiments.dispatch.pictures import stacks
from rcdrs.experiments.dispatch.scenarios import ScenarioSet
from rcdrs.experiments.staging import Run, check_settings, load_layer, read_core

#: What of a day's fate is shown beside its picture.
SHOWN = ("Shed", "Curt", "Reserve", "Eq")


def trace_day(
    instances: Path,
    cores: Path,
    depth: int,
    runs: Iterable[Run],
    settings: dict[str, Any],
    on: torch.device,
    day: int = 0,
) -> pd.DataFrame:
    """The schedules of one test day, of each run and of the optimum if there is one.

    Arguments
        instances, cores: what `rcdrs instances` and `rcdrs tune` wrote for a dispatch case.
        settings: may change the common controller (``controller``).
        day: number of the day in the test split.

    The columns are `schedule` (its name), `side`, `part`, `hour` and `value`.  Sides are supply and
    use, which stack up on either side of the axis, load and reserve, and metric, which has no hour.
    """
    check_settings(settings)
    data = ScenarioSet.load(instances).to(on)
    if day not in range(data.test.batch):
        raise ValueError(f"day is {day}, expected 0 to {data.test.batch - 1}.")
    program = data.test[day : day + 1]
    core, controller = read_core(cores, depth), CONTROLLER | settings.get("controller", {})
    schedules: dict[str, Tensor] = {}
    with torch.no_grad():
        for run in runs:
            build = find_dispatch_method(run.method.name).build
            layer = build(data.model.A, data.test.cone, depth, core, controller)
            if run.checkpoint is not None:
                case = f"dispatch-{data.model.formulation}"
                trained = {"case": case, "seed": data.seed, "recipe": run.recipe}
                layer = load_layer(run.checkpoint, layer, trained)
            schedules[f"{run.method.name}, K = {depth}"] = layer.to(on).solve(program).x[0]
    exact = optimum.solve(program)[0]
    if not exact.isnan().any():
        schedules["Optimum"] = exact.to(program.c)
    lines = [
        {"schedule": name} | line for name, z in schedules.items() for line in _parts(program, z)
    ]
    return pd.DataFrame(lines)


def _parts(program: DispatchProgram, z: Tensor) -> Iterator[dict[str, Any]]:
    model, realised = program.model, program.realised
    supply, use = stacks(program, z)
    headroom = model.headroom(model.schedule(z.unsqueeze(0)))
    load = realised.load.sum(1)[0].double().cpu().numpy()
    sides: dict[str, dict[str, Any]] = {
        "supply": supply,
        "use": use,
        "load": {
            "Load": load,
            "Load and charge": [a + b for a, b in zip(load, use["Charge"], strict=True)],
        },
        "reserve": {"required": model.requirement(realised)[0], "headroom": headroom[0]},
    }
    for side, parts in sides.items():
        for part, values in parts.items():
            for hour, value in enumerate(values):
                line = {"side": side, "part": part, "hour": hour}
                yield line | {"value": float(f"{float(value):.6g}")}
    seen = operate(program, z.unsqueeze(0))
    for metric in SHOWN:
        value = float(getattr(seen, metric))
        yield {"side": "metric", "part": metric, "hour": -1, "value": float(f"{value:.6g}")}
