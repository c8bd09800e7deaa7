"""Rollouts with fixed (alpha, beta)."""

from __future__ import annotations

import torch

from rcdrs.rollout.run import applies, unroll
from rcdrs.solver.fused import Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import Action, State, check_action, check_depth, check_state


def rollout(
    program: ConicProgram, alpha: Action, beta: Action, depth: int, start: State | None = None
) -> State:
    """`depth` steps with fixed (alpha, beta), numbers or one per instance, from `start` or zero.

    Differentiable in b, c, A, alpha and beta.  Without gradients its memory does not grow
    with the depth.
    """
    alpha, beta = check_action(program, alpha, beta)
    depth = check_depth(depth)
    if start is not None:
        start = check_state(program, start)
    if applies(program, torch.is_grad_enabled()):
        return unroll(program, depth, start, given=torch.stack([alpha, beta.log()])).state
    transition = Transition(program)
    columns = transition.start() if start is None else transition.start(start.z, start.u)
    for _ in range(depth):
        columns, _ = transition(columns, alpha, beta)
    return State.of(columns)
