"""Residual-Controlled Douglas-Rachford Splitting: a fixed-budget differentiable conic layer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rcdrs.controller import ControllerConfig
    from rcdrs.layer import DRSLayer, RCDRSLayer, Solution
    from rcdrs.problem import ConicProgram
    from rcdrs.splitting import State
    from rcdrs.trained import pretrained

__all__ = [
    "ConicProgram",
    "ControllerConfig",
    "DRSLayer",
    "RCDRSLayer",
    "Solution",
    "State",
    "pretrained",
]

_HOMES = {
    "ConicProgram": "rcdrs.problem",
    "ControllerConfig": "rcdrs.controller",
    "DRSLayer": "rcdrs.layer",
    "RCDRSLayer": "rcdrs.layer",
    "Solution": "rcdrs.layer",
    "State": "rcdrs.splitting",
    "pretrained": "rcdrs.trained",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and `rcdrs --help` should not."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rcdrs' has no attribute {name!r}")
