"""F-DRS: relaxed DRS with the same pair for every problem."""

from __future__ import annotations

from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.controller import BASE_ACTION
from rcdrs.layer import DRSLayer


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> DRSLayer:
    """The pair (1.6, 0.3) of the paper; the tuned core is not used."""
    return DRSLayer(A, cone, depth, *BASE_ACTION[1:])
