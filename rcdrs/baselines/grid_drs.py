"""Grid-DRS: the best fixed pair of a small grid on validation data."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.layer import DRSLayer
from rcdrs.problem import ConicProgram
from rcdrs.readout import Errors
from rcdrs.splitting import rollout

ALPHAS = (1.0, 1.3, 1.6, 1.8)
BETAS = (0.03, 0.1, 0.3, 1.0, 3.0)
#: At most this many validation instances are scored.
INSTANCES = 128


class Labelled(Protocol):
    """Programs whose exact solutions are known, as validation data may have them."""

    @property
    def program(self) -> ConicProgram: ...

    def errors(self, z: Tensor) -> Errors: ...

    def __getitem__(self, index: slice) -> Labelled: ...


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> DRSLayer:
    return DRSLayer(A, cone, depth, *core)


def select_core(
    validation: Labelled,
    depth: int,
    alphas: tuple[float, ...] = ALPHAS,
    betas: tuple[float, ...] = BETAS,
) -> tuple[float, float]:
    """The (alpha, beta) of lowest mean ``Gap + 10 Eq + 10 Cone`` after `depth` steps."""
    part = validation[:INSTANCES]
    best, core = float("inf"), (alphas[0], betas[0])
    for alpha in alphas:
        for beta in betas:
            with torch.no_grad():
                error = part.errors(rollout(part.program, alpha, beta, depth).z)
            score = float((error.Gap + 10 * error.Eq + 10 * error.Cone).mean())
            if score < best:
                best, core = score, (alpha, beta)
    return core
