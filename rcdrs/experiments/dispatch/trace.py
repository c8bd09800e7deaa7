"""The stage behind the picture of a dispatch day: what each method schedules, hour by hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from rcdrs.experiments.dispatch import optimum
from rcdrs.experiments.dispatch.metrics import operate
from rcdrs.experiments.dispatch.model import DispatchProgram
from rcdrs.experiments.dispatch.scenarios import ScenarioSet
from rcdrs.experiments.settings import Plain
from rcdrs.layer import SolverLayer

#: What of a day's fate is shown beside its picture.
SHOWN = ("Shed", "Curt", "Reserve", "Eq")
Stack = dict[str, np.ndarray]


def trace(solvers: Iterable[tuple[Plain, Any, SolverLayer]], data: ScenarioSet) -> Iterator[Plain]:
    """The schedules of the first test day, of each solver and of the optimum if there is one.

    The columns are `schedule` (its name), `side`, `part`, `hour` and `value`.  Sides are supply and
    use, which stack up on either side of the axis, load and reserve, and metric, which has no hour.
    """
    program = data.test[:1]
    schedules = {
        f"{run['method']}, K = {run['K']}": layer.solve(program).x[0] for run, _, layer in solvers
    }
    exact = optimum.solve(program)[0]
    if not exact.isnan().any():
        schedules["Optimum"] = exact.to(program.c)
    for name, z in schedules.items():
        for line in _parts(program, z):
            yield {"schedule": name} | line


def _parts(program: DispatchProgram, z: Tensor) -> Iterator[dict[str, Any]]:
    model, realised = program.model, program.realised
    supply, use = stacks(program, z)
    headroom = model.headroom(model.schedule(z.unsqueeze(0)))
    load = _hours(realised.load.sum(1))
    sides: dict[str, dict[str, Any]] = {
        "supply": supply,
        "use": use,
        "load": {"Load": load, "Load and charge": load + use["Charge"]},
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


def stacks(program: DispatchProgram, z: Tensor) -> tuple[Stack, Stack]:
    """What supplies power, and what is done with it beside the load: hours of all buses."""
    model, realised = program.model, program.realised
    s = model.schedule(z.unsqueeze(0))
    deficit = (-model.balance(s, realised)).clamp(min=0)
    supply = {
        f"Generator {number}": row.cpu().numpy()
        for number, row in enumerate(s.generation[0].double(), start=1)
    }
    supply |= {
        "Renewable power": _hours((realised.renewable - s.curtailment).sum(1)),
        "Discharge": _hours(s.discharge.sum(1)),
        "Planned shedding": _hours(s.shedding.sum(1)),
        "Emergency shedding": _hours(deficit.sum(1)),
    }
    use = {"Charge": _hours(s.charge.sum(1)), "Curtailment": _hours(s.curtailment.sum(1))}
    return supply, use


def _hours(values: Tensor) -> np.ndarray:
    """The only row as an array."""
    return values[0].detach().double().cpu().numpy()
