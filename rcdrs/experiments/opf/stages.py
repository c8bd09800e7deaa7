"""What the engine computes of optimal power flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from rcdrs.baselines import registry
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.base import Run
from rcdrs.experiments.opf.data import Hours, WeekSet, check_case
from rcdrs.experiments.opf.data import generate as draw
from rcdrs.experiments.opf.experiment import EXACT, RECALL
from rcdrs.experiments.opf.metrics import expected_cost, measure
from rcdrs.experiments.opf.model import HourProgram
from rcdrs.experiments.opf.network import Prices
from rcdrs.experiments.opf.recall import RecallDRS
from rcdrs.experiments.opf.sequence import follow
from rcdrs.experiments.opf.year import WEEK, read_year
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.layers import lesson as self_supervised
from rcdrs.layer import DRSLayer, SolverLayer
from rcdrs.solution import Solution
from rcdrs.training.loop import Lesson
from rcdrs.training.losses import LogKKTLoss

METHODS = (*registry.METHODS, EXACT, RECALL)
SETTINGS = ("controller", "grid")

load = WeekSet.load


def generate(case: str, seed: int, settings: Plain) -> WeekSet:
    """From the data of the installed packages."""
    check_case(case)
    sizes = {name: settings[name] for name in ("train", "validation", "test")}
    prices = Prices(*(settings[name] for name in Prices._fields))
    network, year = read_year(prices, settings["wind"], settings["solar"])
    return draw(seed, sizes, network, year)


def tune(
    data: WeekSet, depth: int, alphas: list[float], betas: list[float], scored: int
) -> tuple[float, float]:
    return select(
        data.validation,
        alphas,
        betas,
        scored,
        partial(DRSLayer, data.model.A, data.test.program.cone, depth),
    )


@torch.no_grad()
def select(
    hours: Hours,
    alphas: list[float],
    betas: list[float],
    scored: int,
    make: Callable[[float, float], SolverLayer],
) -> tuple[float, float]:
    """The pair with the lowest CostGap in at most `scored` hours of validation."""
    hours = hours[:: -(-hours.batch // scored)]

    def gap(pair: tuple[float, float]) -> float:
        plans = make(*pair).solve(hours.program).x
        return float(measure(hours.program, plans, hours.x)["CostGap"].double().mean())

    return min(product(alphas, betas), key=gap)


def build(
    data: WeekSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer:
    """The layer of a method, untrained; that of the exact optimum is not asked.

    Where Recall-DRS begins, another core is best: it takes its own.
    """
    if method == RECALL:
        make, grid = partial(RecallDRS, data.train, depth), settings["grid"]
        return make(*select(data.validation, grid["alpha"], grid["beta"], grid["instances"], make))
    found = find_method("Grid-DRS" if method == EXACT else method)
    return found.build(data.model.A, data.test.program.cone, depth, core, settings["controller"])


@dataclass(frozen=True)
class PlanLoss(LogKKTLoss):
    """`log_kkt`, and of its epochs the one whose plans cost least if hours come as forecast.

    A logarithm gives easy hours the weight of hard ones, which cost more.
    """

    def merit(self, solution: Solution, reference: object) -> Tensor:
        assert isinstance(solution.program, HourProgram)
        return expected_cost(solution.program, solution.x)


def lesson(data: WeekSet, run: Run, core: tuple[float, float], settings: Plain) -> Lesson:
    found = self_supervised(data, run, core, settings)
    loss = found.recipe.loss
    if isinstance(loss, LogKKTLoss):
        loss = PlanLoss(**asdict(loss))
    return replace(found, recipe=replace(found.recipe, loss=loss))


def solve(layer: SolverLayer, data: WeekSet) -> Solution:
    return layer.solve(data.test.program)


@torch.no_grad()
def evaluate(
    layer: SolverLayer, data: WeekSet, method: str, reference: Path | None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Each metric in the season of training and, as ``_away``, in the other; and as ``_warm`` and
    ``_away_warm`` the same of weeks in which each hour begins where the one before it ended."""
    test = data.test
    cold = test.x if method == EXACT else solve(layer, data).x
    warm = test.x if method == EXACT else follow(layer, test.program, WEEK)
    found = {}
    for start, plans in (("", cold), ("_warm", warm)):
        for name, values in measure(test.program, plans, test.x).items():
            found[f"{name}{start}"] = values[test.away == 0]
            found[f"{name}_away{start}"] = values[test.away == 1]
    return found, ()
