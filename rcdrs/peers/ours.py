"""Our layers, behind the interface of their peers.  Their parameter is the number of steps K."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.baselines.registry import find_method
from rcdrs.layer import SolverLayer
from rcdrs.peers.base import Answer, Gradient, Peer, Problem, Setting
from rcdrs.solution import Solution
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.status import SOLVED


class Ours(Peer):
    """A layer for each K, called as users call it, in float32.

    Arguments
        method: of `rcdrs.baselines.registry`; Grid-DRS is the fixed core.
        made: by K, the pair (alpha, beta) of the fixed core, or the checkpoint of a trained layer.
    """

    settings = "float32"
    solved = (SOLVED, "inaccurate")
    differentiates = compiles = True

    def __init__(self, problem: Problem, method: str, made: Mapping[int, Any]) -> None:
        A, self.quadratic = torch.tensor(problem.A, dtype=torch.float32), problem.quadratic
        self.layers: dict[int, SolverLayer] = {}
        for K, made_of in made.items():
            kind = find_method(method)
            if isinstance(made_of, (str, Path)):
                self.layers[K] = kind.layer.load(made_of, A, problem.cone, K).requires_grad_(False)
            else:
                self.layers[K] = kind.build(A, problem.cone, K, made_of)

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[Tensor, Tensor]:
        one, two = (torch.tensor(part, dtype=torch.float32) for part in (b, c))
        return one, two

    def cotangent(self, g: np.ndarray) -> Tensor:
        return torch.tensor(g, dtype=torch.float32)

    def solve(self, batch: Any, setting: Setting) -> Answer:
        with torch.no_grad():
            return Answer(self._solution(batch, int(setting)).x, [])

    def states(self, batch: Any, setting: Setting) -> list[str]:
        """The status, which costs a step more and is only computed where it is asked for."""
        with torch.no_grad():
            return [str(state) for state in self._solution(batch, int(setting)).status]

    def differentiate(self, batch: Any, g: Any, setting: Setting) -> Gradient:
        b, c = (part.detach().requires_grad_() for part in batch)
        x = self._solution((b, c), int(setting)).x
        return Gradient(x.detach(), *torch.autograd.grad(x, (b, c), g))

    def _solution(self, batch: tuple[Tensor, Tensor], K: int) -> Solution:
        layer, (b, c) = self.layers[K], batch
        if not self.quadratic:
            return layer(b, c)
        program = ConicProgram(layer.A, b, c, layer.cone, torch.ones_like(c[0]))
        return layer.solve(program.with_affine(layer.affine))
