"""What the engine computes of portfolios."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines.registry import find_method
from rcdrs.experiments.base import Run
from rcdrs.experiments.portfolio import methods
from rcdrs.experiments.portfolio.data import WeekSet, exactly, generate
from rcdrs.experiments.portfolio.experiment import EXACT, LAYERS, SOLVED
from rcdrs.experiments.portfolio.methods import DecisionModel, select_core
from rcdrs.experiments.portfolio.metrics import WARM, by_layer, measure
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.layers import lesson as pretraining
from rcdrs.layer import SolverLayer
from rcdrs.solution import Solution
from rcdrs.training.loop import Lesson, Recipe

__all__ = ["generate"]

METHODS = (*methods.METHODS, *SOLVED)
SETTINGS = ("controller",)

load = WeekSet.load


def tune(data: WeekSet, depth: int, **grid: Any) -> tuple[float, float]:
    return select_core(data.portfolio, data.validation, depth, **grid)


def build(
    data: WeekSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer | DecisionModel:
    """The model of a method; or the layer alone, which is pretrained."""
    controller = settings["controller"]
    if method in LAYERS:
        return find_method(method).build(data.A, data.cone, depth, core, controller)
    return methods.METHODS[method.removesuffix(EXACT)].build(data, depth, core, controller)


def lesson(data: WeekSet, run: Run, core: tuple[float, float], settings: Plain) -> Lesson:
    """A layer is pretrained on problems of the simple prediction; a predictor on decisions."""
    if run.method in LAYERS:
        return pretraining(data, run, core, settings)
    loss = methods.METHODS[run.method].loss
    return Lesson(data.train, data.validation, Recipe(loss, **settings["recipe"]))


def solve(model: DecisionModel, data: WeekSet) -> Solution:
    """From features to decisions, all weeks at once."""
    return model.solve(data.test).solution


@torch.no_grad()
def evaluate(
    model: DecisionModel, data: WeekSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The sequence of each test period, as ``Utility_calm``; that of warm starts is
    ``WarmUtility_calm``.  A week has the metrics of its own period."""
    found: dict[str, Tensor] = {}
    for number, (name, weeks) in enumerate(data.periods):
        of = partial(measure, data.portfolio, data.A, weeks, model.solve(weeks).mu)
        if method.endswith(EXACT):
            metrics = of(exactly(data.portfolio, data.A))
        else:
            metrics = of(by_layer(model.layer, warm=False))
            warm = of(by_layer(model.layer, warm=True))
            metrics |= {f"{WARM}{metric}": values for metric, values in warm.items()}
        for metric, values in metrics.items():
            whole = torch.full_like(data.test.sigma, torch.nan)
            found[f"{metric}_{name}"] = whole.masked_scatter(data.test.period == number, values)
    return found, tuple(found)
