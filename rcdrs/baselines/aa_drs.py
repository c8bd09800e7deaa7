"""AA-DRS: DRS with safeguarded extrapolation of the primal and scaled-dual state."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.baselines.core import CoreLayer, action_of
from rcdrs.cones import Cone
from rcdrs.solution import Solution, begin, finish
from rcdrs.solver.fused import Columns, Observation, Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import State

#: Extrapolation coefficient, and the tolerated growth of the monitor.
OMEGA, TOLERATED = 0.25, 1.05


class AcceleratedLayer(CoreLayer):
    r"""Each step proposes ``z + omega (z - z_prev)``, projected onto the cone, and likewise u.

    The proposal is taken where its monitor is at most 1.05 times that of the plain state.  The
    monitor is the fixed-point residual ``|T v - v|`` of the safeguard's own theory; it needs one
    step from each state, and the step from the chosen one is the next step.  The last step is
    plain, so that the terminal readout keeps its cone-dual feasibility.
    """

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        transition, state, _ = begin(program, start)
        alpha, beta = self.constants(program)
        after, seen = transition(state, alpha, beta)
        for _ in range(depth - 1):
            proposal = extrapolate(transition, state, after)
            plain_after, plain_seen = transition(after, alpha, beta)
            proposal_after, proposal_seen = transition(proposal, alpha, beta)
            taken = monitor(proposal, proposal_after) <= TOLERATED * monitor(after, plain_after)
            state = Columns(*choose(taken, proposal, after))
            after = Columns(*choose(taken, proposal_after, plain_after))
            seen = Observation(*choose(taken, proposal_seen, plain_seen))
        return finish(transition, after, seen, [action_of(alpha, beta)] * depth)


def extrapolate(transition: Transition, before: Columns, now: Columns) -> Columns:
    """The proposal, with ``x - z`` zero: no affine step has been made from it."""
    z = torch.lerp(before.z, now.z, 1 + OMEGA)
    z = transition.program.cone.project(z.mT)
    u = torch.lerp(before.v - before.z, now.v - now.z, 1 + OMEGA)
    return transition.start(z, u.mT)


def monitor(state: Columns, after: Columns) -> Tensor:
    return (after.v - state.v).square().sum(0).sqrt()


def choose(taken: Tensor, first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> list[Tensor]:
    return [torch.where(taken, a, b) for a, b in zip(first, second, strict=True)]


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> AcceleratedLayer:
    return AcceleratedLayer(A, cone, depth, *core)
