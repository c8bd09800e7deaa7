"""Every method of the paper by name, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rcdrs.baselines import (
    anderson_drs,
    fixed_drs,
    grid_drs,
    layerwise_drs,
    learned_pdhg,
    spectral_admm,
)
from rcdrs.cones import Cone
from rcdrs.controller import ControllerConfig
from rcdrs.experiments.synthetic import Split
from rcdrs.layer import RCDRSLayer, SolverLayer

Build = Callable[[Tensor, Cone, int, tuple[float, float]], SolverLayer]


@dataclass(frozen=True)
class Method:
    """``build(A, cone, depth, core)`` gives the layer; a learned one is then trained.

    `core` is the validation-selected (alpha, beta) of `select_core`, from which every method
    but F-DRS and L-PDHG starts.
    """

    name: str
    build: Build
    learned: bool = False


def _rcdrs(config: ControllerConfig) -> Build:
    def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> RCDRSLayer:
        return RCDRSLayer(A, cone, depth, core, config)

    return build


METHODS = {
    method.name: method
    for method in (
        Method("F-DRS", fixed_drs.build),
        Method("Grid-DRS", grid_drs.build),
        Method("S-ADMM", spectral_admm.build),
        Method("AA-DRS", anderson_drs.build),
        Method("L-PDHG", learned_pdhg.build, learned=True),
        Method("Layerwise-DRS", layerwise_drs.build, learned=True),
        Method("RCDRS-Env", _rcdrs(ControllerConfig()), learned=True),
        Method("RCDRS-NoEnv", _rcdrs(ControllerConfig(envelope=None)), learned=True),
    )
}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}, expected one of {', '.join(METHODS)}.")
    return METHODS[name]


def evaluate(layer: SolverLayer, split: Split) -> dict[str, Tensor]:
    """Every metric of the synthetic tables, one value per instance."""
    with torch.no_grad():
        solution = layer.solve(split.program)
        error, read = split.errors(solution.x), solution.readout
    residuals = {name: getattr(read, name) for name in ("r_p", "r_d", "r_comp", "r_gap")}
    return error._asdict() | residuals
