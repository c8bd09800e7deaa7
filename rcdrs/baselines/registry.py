"""Every method by name, the paper's and ours, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rcdrs.baselines import (
    aa_drs,
    accelerated,
    anderson_drs,
    fixed_drs,
    grid_drs,
    layerwise_drs,
    learned_pdhg,
    light,
    spectral_admm,
)
from rcdrs.cones import Cone
from rcdrs.controller import ControllerConfig
from rcdrs.layer import RCDRSLayer, SolverLayer


@dataclass(frozen=True)
class Method:
    """A compared method; ``build`` gives its layer, and a learned one is then trained.

    Either `make` builds the layer, or the method is a controlled `layer` with `changes` to the
    common controller.
    """

    name: str
    make: Callable[[Tensor, Cone, int, tuple[float, float]], SolverLayer] | None = None
    learned: bool = True
    changes: dict[str, Any] = field(default_factory=dict)
    layer: type[RCDRSLayer] = RCDRSLayer

    def build(
        self,
        A: Tensor,
        cone: Cone,
        depth: int,
        core: tuple[float, float],
        controller: dict[str, Any] | None = None,
    ) -> SolverLayer:
        """The layer, untrained.

        Arguments
            core: the validation-selected (alpha, beta) of `select_core`, from which every method
                but F-DRS and L-PDHG starts.
            controller: plain values of the common `ControllerConfig`, the paper's by default.
        """
        if self.make is not None:
            return self.make(A, cone, depth, core)
        config = ControllerConfig.from_dict((controller or {}) | self.changes)
        return self.layer(A, cone, depth, core, config)


METHODS = {
    method.name: method
    for method in (
        Method("F-DRS", fixed_drs.build, learned=False),
        Method("Grid-DRS", grid_drs.build, learned=False),
        Method("S-ADMM", spectral_admm.build, learned=False),
        Method("AA-DRS", aa_drs.build, learned=False),
        Method("Anderson-DRS", anderson_drs.build, learned=False),
        Method("L-PDHG", learned_pdhg.build),
        Method("Layerwise-DRS", changes=layerwise_drs.CHANGES),
        Method("RCDRS-Env"),
        Method("RCDRS-NoEnv", changes={"envelope": None}),
        Method("RCDRS-MLP", changes={"encoder": "mlp"}),  # without memory
        Method("RCDRS-Light", changes=light.CHANGES),
        Method("RCDRS-Glance", changes=light.GLANCE),
        Method("RCDRS-Anderson", layer=accelerated.AndersonRCDRSLayer),
    )
}


def find_method(name: str, methods: dict[str, Method] = METHODS) -> Method:
    if name not in methods:
        raise ValueError(f"unknown method {name!r}, expected one of {', '.join(methods)}.")
    return methods[name]
