"""What the engine computes of the ablations: a variant is one method with other settings."""

from __future__ import annotations

from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic import stages
from rcdrs.experiments.synthetic.instances import InstanceSet
from rcdrs.experiments.synthetic.stages import evaluate, lesson, load
from rcdrs.layer import SolverLayer

__all__ = ["METHODS", "evaluate", "lesson", "load"]

#: Variants are the configuration's.
METHODS: dict[str, None] = {}
SETTINGS = ("controller", "method")


def build(
    data: InstanceSet, depth: int, core: tuple[float, float], variant: str, settings: Plain
) -> SolverLayer:
    return stages.build(data, depth, core, settings["method"], settings)
