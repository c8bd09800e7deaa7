"""The layers of the synthetic benchmarks: how one is made, trained and measured."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import find_method
from rcdrs.controller import BASE_ACTION
from rcdrs.experiments.base import Run
from rcdrs.experiments.instances import Split
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.instances import InstanceSet
from rcdrs.layer import SolverLayer
from rcdrs.training.loop import Lesson, Recipe
from rcdrs.training.losses import LogKKTLoss, TerminalLoss

LOSSES = {"paper": TerminalLoss, "log_kkt": LogKKTLoss}


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


@torch.no_grad()
def measure(layer: SolverLayer, split: Split, depth: int | None = None) -> dict[str, Tensor]:
    """Every metric of the synthetic tables, one value per instance."""
    solution = layer.solve(split.program, depth)
    error, read = split.errors(solution.x), solution.readout
    residuals = {name: getattr(read, name) for name in ("r_p", "r_d", "r_comp", "r_gap")}
    return error._asdict() | residuals
