"""The schedules of one day, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from rcdrs.experiments.dispatch.metrics import operate
from rcdrs.experiments.dispatch.model import DispatchProgram

#: Colours that stay apart for every kind of colour vision (Okabe and Ito).
BLUES = ("#0072B2", "#56B4E9", "#9BD4F5", "#00486F")
COLOURS = {
    "Renewable power": "#009E73",
    "Discharge": "#E69F00",
    "Planned shedding": "#CC79A7",
    "Emergency shedding": "#D55E00",
    "Charge": "#F0E442",
    "Curtailment": "#B3E2D4",
}
Stack = dict[str, np.ndarray]


def draw_schedules(program: DispatchProgram, schedules: dict[str, Tensor]) -> Figure:
    r"""One column for each schedule z (n,) of the only day of `program`.

    Above, supply and emergency shedding stand on the axis,

        generation + renewable power + discharge + shedding = load + charge + excess,

    with charge and curtailment below it; whatever is above the dashed line is excess.  Below, the
    headroom is held against the reserve requirement.
    """
    figure = Figure(figsize=(3.6 * len(schedules) + 0.4, 5.6), dpi=150, layout="constrained")
    axes = figure.subplots(
        2, len(schedules), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1)
    )
    model, realised = program.model, program.realised
    load, required = _hours(realised.load.sum(1)), _hours(model.requirement(realised))
    hours = np.arange(len(load))
    for column, (name, z) in enumerate(schedules.items()):
        upper, lower = axes[:, column]
        supply, use = stacks(program, z)
        _bars(upper, hours, supply, 1)
        _bars(upper, hours, use, -1)
        _steps(upper, load, "Realised load", color="black", linewidth=1.6)
        _steps(upper, load + use["Charge"], "Load and charge", color="black", linestyle="--")
        upper.axhline(0, color="black", linewidth=0.6)
        seen = operate(program, z.unsqueeze(0))
        shares = f"Shed {float(seen.Shed):.1%}, Curt {float(seen.Curt):.0%}"
        upper.set_title(f"{name}\n{shares}, Eq {float(seen.Eq):.1e}", fontsize=9)

        headroom = _hours(model.headroom(model.schedule(z.unsqueeze(0))))
        lower.bar(hours, required, width=1, color="#BBBBBB", label="Reserve required")
        _steps(lower, headroom, "Headroom", color="#0072B2", linewidth=1.6)
        lower.set(xlabel="Hour", xlim=(-0.5, len(load) - 0.5), xticks=hours[::6])
    axes[0, 0].set_ylabel("Power")
    axes[1, 0].set_ylabel("Reserve")
    entries: dict[str, Any] = {}
    for part in axes[:, 0]:
        handles, labels = part.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=4, fontsize=8,
        frameon=False,
    )  # fmt: skip
    return figure


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


def _bars(axes: Axes, hours: np.ndarray, parts: Stack, sign: int) -> None:
    blues = iter(BLUES * len(parts))
    base = np.zeros(len(hours))
    for name, values in parts.items():
        color = COLOURS[name] if name in COLOURS else next(blues)
        hatch = "////" if name == "Curtailment" else None
        axes.bar(
            hours, sign * values, bottom=base, width=1, color=color, label=name, hatch=hatch,
            edgecolor="white", linewidth=0.3,
        )  # fmt: skip
        base = base + sign * values


def _steps(axes: Axes, values: np.ndarray, label: str, **style: Any) -> None:
    """A line that is level over each hour."""
    edges = np.arange(len(values) + 1) - 0.5
    axes.stairs(values, edges, baseline=None, label=label, **style)


def _hours(values: Tensor) -> np.ndarray:
    """The only row as an array."""
    return values[0].detach().double().cpu().numpy()
