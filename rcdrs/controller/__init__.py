"""The causal residual feedback controller: what it is made of; `policy` has the module itself."""

from rcdrs.controller.config import (
    BASE_ACTION,
    CONTROLS,
    ENCODERS,
    FEATURES,
    PREVIOUS,
    RESIDUAL,
    SCHEDULE,
    TIME,
    ControllerConfig,
    Envelope,
    Growth,
    Ranges,
)

__all__ = [
    "BASE_ACTION",
    "CONTROLS",
    "ENCODERS",
    "FEATURES",
    "PREVIOUS",
    "RESIDUAL",
    "SCHEDULE",
    "TIME",
    "ControllerConfig",
    "Envelope",
    "Growth",
    "Ranges",
]
