"""What the engine computes of optimal power flow."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from rcdrs.baselines import registry
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.opf.data import WeekSet, check_case
from rcdrs.experiments.opf.data import generate as draw
from rcdrs.experiments.opf.experiment import EXACT
from rcdrs.experiments.opf.metrics import measure, operate
from rcdrs.experiments.opf.network import Prices
from rcdrs.experiments.opf.sequence import follow
from rcdrs.experiments.opf.year import WEEK, read_year
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic.layers import lesson
from rcdrs.layer import SolverLayer
from rcdrs.rollout.fixed import rollout
from rcdrs.solution import Solution

__all__ = ["lesson"]

METHODS = (*registry.METHODS, EXACT)
SETTINGS = ("controller",)

load = WeekSet.load


def generate(case: str, seed: int, settings: Plain) -> WeekSet:
    """From the data of the installed packages."""
    check_case(case)
    sizes = {name: settings[name] for name in ("train", "validation", "test")}
    prices = Prices(*(settings[name] for name in Prices._fields))
    network, year = read_year(prices, settings["wind"], settings["solar"])
    return draw(seed, sizes, network, year)


@torch.no_grad()
def tune(
    data: WeekSet, depth: int, alphas: list[float], betas: list[float], scored: int
) -> tuple[float, float]:
    """The pair whose plans cost least when they are carried out, in hours of validation."""
    program = data.validation.program
    hours = program[:: max(1, program.batch // scored)]

    def cost(pair: tuple[float, float]) -> float:
        return float(operate(hours, rollout(hours, *pair, depth).z).cost.double().mean())

    return min(product(alphas, betas), key=cost)


def build(
    data: WeekSet, depth: int, core: tuple[float, float], method: str, settings: Plain
) -> SolverLayer:
    """The layer of a method, untrained; that of the exact optimum is not asked."""
    found = find_method("Grid-DRS" if method == EXACT else method)
    return found.build(data.model.A, data.test.program.cone, depth, core, settings["controller"])


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
