"""The six methods of the dispatch tables, how their core is chosen and what trains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines import aa_drs, grid_drs, spectral_admm
from rcdrs.baselines.registry import Method
from rcdrs.cones import Cone
from rcdrs.experiments.dispatch.metrics import DispatchLoss
from rcdrs.experiments.dispatch.model import DispatchProgram
from rcdrs.experiments.staging import changed
from rcdrs.layer import SolverLayer
from rcdrs.solver.step import rollout
from rcdrs.training.loop import Recipe
from rcdrs.training.losses import LogKKTLoss

#: The pair of F-DRS, which the paper does not give: no relaxation, unit drive.
FIXED_CORE = (1.0, 1.0)
#: The grid of the fixed core.
ALPHAS = (0.8, 1.0, 1.3, 1.6)
BETAS = (0.2, 0.5, 1.0, 2.0, 4.0)
#: At most this many validation days are scored: all of them.
SCORED = 384
#: The common controller of the experiment.
CONTROLLER: dict[str, Any] = {
    "ranges": {"rho": (1e-3, 1e3), "alpha": (0.2, 1.8), "beta": (1e-3, 10.0)},
    "envelope": {"delta_0": 2.0, "k_0": 60.0, "p": 1.2, "s_alpha": 0.25},
    "growth": {"rho": 10.0, "beta": 10.0},
}


Build = Callable[[Tensor, Cone, int, tuple[float, float]], SolverLayer]


def at_fixed_core(build: Build) -> Build:
    """The same method without the selected core."""
    return lambda A, cone, depth, core: build(A, cone, depth, FIXED_CORE)


METHODS = {
    method.name: method
    for method in (
        Method("F-DRS", at_fixed_core(grid_drs.build), learned=False),
        Method("Grid-DRS", grid_drs.build, learned=False),
        # As its rows in the paper follow those of F-DRS.  On a box z and u change in different
        # coordinates: the spectral estimate is hardly ever trusted, and the core decides.
        Method("S-ADMM", at_fixed_core(spectral_admm.build), learned=False),
        Method("AA-DRS", aa_drs.build, learned=False),
        Method("RCDRS-Env"),
        Method("RCDRS-NoEnv", changes={"envelope": None, "growth": None}),
    )
}
#: The paper's; and, for formulations that have a solution, its KKT residuals.  The gap of the
#: readout has no weight: it is that of a cone, not of a box.
RECIPES = {
    "paper": Recipe(DispatchLoss(), epochs=60, batch=512, cosine=True, final=0.05),
    "log_kkt": Recipe(
        LogKKTLoss(gap=0.0), epochs=60, batch=512, learning_rate=6e-3, cosine=True, final=0.05
    ),
}


def find_dispatch_method(name: str) -> Method:
    if name not in METHODS:
        raise ValueError(f"unknown dispatch method {name!r}, expected one of {', '.join(METHODS)}.")
    return METHODS[name]


def make_recipe(name: str, changes: dict[str, Any]) -> Recipe:
    """The recipe of that name with changes; those of its loss are under ``loss``."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}, expected one of {', '.join(RECIPES)}.")
    return changed(RECIPES[name], changes)


@torch.no_grad()
def select_core(
    validation: DispatchProgram,
    depth: int,
    alphas: Sequence[float] = ALPHAS,
    betas: Sequence[float] = BETAS,
    scored: int = SCORED,
) -> tuple[float, float]:
    """The pair of lowest mean training merit, eq. dispatch_training_merit, after `depth` steps."""
    days, merit = validation[:scored], DispatchLoss().of

    def score(pair: tuple[float, float]) -> float:
        return float(merit(days, rollout(days, *pair, depth).z).double().mean())

    return min(product(alphas, betas), key=score)
