"""Layerwise-DRS: a learned open-loop schedule, the same for every instance."""

from __future__ import annotations

from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.controller import ControllerConfig
from rcdrs.layer import RCDRSLayer

#: The controller without its eyes: one learned action a step, free in the global ranges.
CONFIG = ControllerConfig(encoder="schedule", envelope=None)


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> RCDRSLayer:
    return RCDRSLayer(A, cone, depth, core, CONFIG)
