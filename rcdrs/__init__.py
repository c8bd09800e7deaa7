"""Residual-Controlled Douglas-Rachford Splitting: a fixed-budget differentiable conic layer."""

from rcdrs.controller import ControllerConfig
from rcdrs.layer import DRSLayer, RCDRSLayer, Solution
from rcdrs.problem import ConicProgram
from rcdrs.splitting import State

__all__ = ["ConicProgram", "ControllerConfig", "DRSLayer", "RCDRSLayer", "Solution", "State"]
