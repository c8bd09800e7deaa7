"""The methods of dispatch, how their core is chosen and what trains them.

Six are those of the paper's tables; Anderson-DRS is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import torch
from torch import Tensor

from rcdrs.baselines import aa_drs, anderson_drs, grid_drs, spectral_admm
from rcdrs.baselines.registry import Method
from rcdrs.cones import Cone
from rcdrs.experiments.dispatch.metrics import DispatchLoss
from rcdrs.experiments.dispatch.model import DispatchProgram
from rcdrs.layer import SolverLayer
from rcdrs.rollout.fixed import rollout

#: The pair of F-DRS, which the paper does not give: no relaxation, unit drive.
FIXED_CORE = (1.0, 1.0)

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
        Method("Anderson-DRS", anderson_drs.build, learned=False),
        Method("RCDRS-Env"),
        Method("RCDRS-NoEnv", changes={"envelope": None, "growth": None}),
    )
}


@torch.no_grad()
def select_core(
    validation: DispatchProgram,
    depth: int,
    alphas: Sequence[float],
    betas: Sequence[float],
    scored: int,
) -> tuple[float, float]:
    """The pair of lowest mean training merit, eq. (36), after `depth` steps."""
    days, merit = validation[:scored], DispatchLoss().of

    def score(pair: tuple[float, float]) -> float:
        return float(merit(days, rollout(days, *pair, depth).z).double().mean())

    return min(product(alphas, betas), key=score)
