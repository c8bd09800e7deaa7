"""RCDRS-Anderson: the paper's controller on top of Anderson acceleration.

It drives the steps of Anderson-DRS, and is trained through them, the coefficients of the
acceleration included: with these held constant training finds nothing on SOCP.  Chosen on
validation data: `workflow/choices.md`.
"""

from __future__ import annotations

from torch import Tensor

from rcdrs.baselines.anderson_drs import accelerate
from rcdrs.layer import RCDRSLayer
from rcdrs.solution import Solution, begin, finish
from rcdrs.solver.fused import Observation
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import State


class AndersonRCDRSLayer(RCDRSLayer):
    """A controlled layer whose steps are accelerated; it has no compiled pass."""

    def run_compiled(
        self, program: ConicProgram, depth: int, start: State | None
    ) -> Solution | None:
        return None

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        memory, actions = None, [self.controller.map.base.expand(program.batch, 3)]

        def drive(seen: Observation, k: int) -> tuple[Tensor, Tensor]:
            nonlocal memory
            action, found, memory = self.controller(transition, seen, actions[-1], memory, k, depth)
            actions.append(action)
            return found

        transition, state, seen = begin(program, start)
        state, seen = accelerate(transition, state, seen, depth, drive)
        return finish(transition, state, seen, actions[1:])
