"""What the engine computes of decision-focused learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.base import Run
from rcdrs.experiments.dfl import methods
from rcdrs.experiments.dfl.data import CONE, DecisionSet, check_case
from rcdrs.experiments.dfl.data import generate as draw
from rcdrs.experiments.dfl.exact import evaluate_exactly
from rcdrs.experiments.dfl.experiment import EXACT, LAYERS, SOLVED
from rcdrs.experiments.dfl.methods import DECISION_METHODS, find_decision_method
from rcdrs.experiments.dfl.model import DecisionModel
from rcdrs.experiments.sampling import taken_apart
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.layers import lesson as pretraining
from rcdrs.layer import SolverLayer
from rcdrs.solution import Solution
from rcdrs.training.loop import Lesson, Recipe

METHODS = (*DECISION_METHODS, *SOLVED)
SETTINGS = ("controller",)

load = DecisionSet.load


def generate(case: str, seed: int, settings: Plain) -> DecisionSet:
    check_case(case)
    sizes, sampling = taken_apart(settings)
    return draw(seed, sizes, sampling=sampling)


def tune(data: DecisionSet, depth: int, **grid: Any) -> tuple[float, float]:
    return select_core(data.validation, depth, **grid, score=methods.score)


def build(
    data: DecisionSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer | DecisionModel:
    """The model of a method; or the layer alone, whose controller is pretrained."""
    controller = settings["controller"]
    if method in LAYERS:
        return find_method(method).build(data.A, CONE, depth, core, controller)
    found = find_decision_method(method.removesuffix(EXACT))
    return found.build(data.A, depth, core, controller)


def lesson(data: DecisionSet, run: Run, core: tuple[float, float], settings: Plain) -> Lesson:
    """A controller is pretrained on the true costs, self-supervised; a predictor on decisions."""
    if run.method in LAYERS:
        return pretraining(data, run, core, settings)
    loss = find_decision_method(run.method).loss
    return Lesson(data.train, data.validation, Recipe(loss, **settings["recipe"]))


def solve(model: DecisionModel, data: DecisionSet) -> Solution:
    """From features to decisions."""
    return model.solve(data.test).solution


def evaluate(
    model: DecisionModel, data: DecisionSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Instances that the exact solver did not solve are left out of its means."""
    if method.endswith(EXACT):
        metrics = evaluate_exactly(model, data.test)
        return metrics, tuple(metrics)
    return methods.evaluate(model, data.test), ()
