"""What the engine computes of energy dispatch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.baselines.registry import find_method
from rcdrs.experiments.base import Run
from rcdrs.experiments.dispatch import optimum
from rcdrs.experiments.dispatch.methods import METHODS, select_core
from rcdrs.experiments.dispatch.metrics import DispatchLoss, cost, cost_gap, operate
from rcdrs.experiments.dispatch.scenarios import ScenarioSet, formulation_of
from rcdrs.experiments.dispatch.scenarios import generate as draw
from rcdrs.experiments.dispatch.trace import trace
from rcdrs.experiments.settings import Plain
from rcdrs.files import read_arrays, reading
from rcdrs.layer import SolverLayer
from rcdrs.rollout.fixed import rollout
from rcdrs.solution import Solution
from rcdrs.training.loop import Lesson, Recipe
from rcdrs.training.losses import LogKKTLoss

__all__ = ["METHODS", "trace"]

SETTINGS = ("controller",)
LOSSES = {"paper": DispatchLoss, "log_kkt": LogKKTLoss}

load = ScenarioSet.load


def generate(case: str, seed: int, sizes: Plain) -> ScenarioSet:
    """`case` is ``dispatch-printed``, ``dispatch-turned`` or ``dispatch-inequality``."""
    return draw(seed, sizes, formulation_of(case))


def tune(data: ScenarioSet, depth: int, **grid: Any) -> tuple[float, float]:
    return select_core(data.validation, depth, **grid)


def build(
    data: ScenarioSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer:
    """The layer of a method, untrained."""
    found, A, cone = find_method(method, METHODS), data.model.A, data.test.cone
    return found.build(A, cone, depth, core, settings["controller"])


def lesson(data: ScenarioSet, run: Run, core: tuple[float, float], settings: Plain) -> Lesson:
    """For the merit of a day's schedule, or for its KKT residuals."""
    schedule = dict(settings["recipe"])
    loss = LOSSES[run.recipe](**schedule.pop("loss", {}))
    return Lesson(data.train, data.validation, Recipe(loss, **schedule))


def solve(layer: SolverLayer, data: ScenarioSet) -> Solution:
    return layer.solve(data.test)


@torch.no_grad()
def reference(data: ScenarioSet, core: tuple[float, float], steps: int) -> dict[str, np.ndarray]:
    """What the test days cost by a long run of the core, and at best.

    The long run is the paper's reference dispatch.  The optimum is NaN for a day that has none.
    """
    test = data.test
    long_run, exact = rollout(test, *core, steps).z, optimum.solve(test).to(test.c)
    return {"reference": cost(test, long_run).numpy(), "optimum": cost(test, exact).numpy()}


def evaluate(
    layer: SolverLayer, data: ScenarioSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """`reference` is the file of `rcdrs reference`.  Days without an optimum have no OptGap."""
    return measure(layer, data, read_reference(reference, data)), ("OptGap",)


@torch.no_grad()
def measure(layer: SolverLayer, data: ScenarioSet, costs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every metric of the dispatch tables, one value per test day."""
    z = solve(layer, data).x
    seen, value, best = operate(data.test, z), cost(data.test, z), costs["optimum"]
    return {
        "CostGap": cost_gap(value, costs["reference"]),
        **seen._asdict(),
        "Pass": seen.Pass,
        # Of either sign: an infeasible schedule may cost less than the best feasible one.
        "OptGap": (value - best).abs() / (1 + best.abs()),
    }


def read_reference(path: Path | None, data: ScenarioSet) -> dict[str, Tensor]:
    """The costs that `reference` computed for these days."""
    if path is None:
        raise ValueError("reference is missing: make it with `rcdrs reference`.")
    days, owner = data.test.batch, data.owner
    with reading(path, "reference", "delete it and make it with `rcdrs reference`"):
        arrays = read_arrays(path)
        meta = arrays.pop("meta", None)  # an older file has none
        if meta is not None and (found := json.loads(str(meta))) != owner:
            raise ValueError(f"it is of {found}, expected {owner}")
        if arrays.keys() != {"reference", "optimum"}:
            raise ValueError(f"it holds {sorted(arrays)}, expected ['optimum', 'reference']")
        for name, costs in arrays.items():
            if costs.shape != (days,) or costs.dtype.kind != "f":
                found = f"{costs.dtype} of shape {costs.shape}"
                raise ValueError(f"{name} is {found}, expected the costs of {days} test days")
            if np.isinf(costs).any() or (name == "reference" and np.isnan(costs).any()):
                raise ValueError(f"{name} holds costs that are no finite numbers")
    return {name: torch.from_numpy(costs).to(data.test.c) for name, costs in arrays.items()}
