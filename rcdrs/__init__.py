"""Residual-Controlled Douglas-Rachford Splitting: a fixed-budget differentiable conic layer.

A layer solves a batch of programs ``min c'x  s.t.  A x = b, x in K`` in a fixed number of steps,
and passes gradients to b, c and A.

1. Make one: `from_cvxpy` of a CVXPY problem, or `RCDRSLayer` (a controller sets alpha and beta at
   each step) or `DRSLayer` (constants) of a matrix A and a cone of `rcdrs.cones`.
2. Train its controller once, without solutions, on programs like those to come: `fit`; or take one
   of the paper's with `pretrained`.
3. Call it in the training loop, ``layer(b, c)`` or, from CVXPY, ``layer(*values)``.  A call of
   `RCDRSLayer` or `DRSLayer` is its `forward` and returns a `Solution`.

```python
import rcdrs, rcdrs.cones

layer = rcdrs.RCDRSLayer(A, rcdrs.cones.SecondOrder(8, 20), depth=20)
rcdrs.fit(layer, rcdrs.ConicProgram(A, b, c, layer.cone))

solution = layer(b, model(features))  # differentiable
loss = task(solution.x)
loss.backward()
solution.status, solution.primal_residual  # is it solved?
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rcdrs.artifact.pretrained import pretrained
    from rcdrs.controller import ControllerConfig
    from rcdrs.layer import DRSLayer, RCDRSLayer
    from rcdrs.modelling.cvxpy_layer import from_cvxpy
    from rcdrs.solution import Solution
    from rcdrs.solver.problem import ConicProgram
    from rcdrs.solver.step import State
    from rcdrs.training.fit import fit

__all__ = [
    "ConicProgram",
    "ControllerConfig",
    "DRSLayer",
    "RCDRSLayer",
    "Solution",
    "State",
    "fit",
    "from_cvxpy",
    "pretrained",
]

_HOMES = {
    "ConicProgram": "rcdrs.solver.problem",
    "ControllerConfig": "rcdrs.controller",
    "DRSLayer": "rcdrs.layer",
    "RCDRSLayer": "rcdrs.layer",
    "Solution": "rcdrs.solution",
    "State": "rcdrs.solver.step",
    "fit": "rcdrs.training.fit",
    "from_cvxpy": "rcdrs.modelling.cvxpy_layer",
    "pretrained": "rcdrs.artifact.pretrained",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and `rcdrs --help` should not."""
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            extra = "cvxpy" if name == "from_cvxpy" else "paper"
            raise ImportError(
                f"rcdrs.{name} needs {error.name}: pip install 'rcdrs[{extra}]' brings it."
            ) from error
    raise AttributeError(f"module 'rcdrs' has no attribute {name!r}")
