"""The splitting state and one step of eq. (4), as the paper writes them.

`fused.Transition` is the same step for every device, and `rcdrs.rollout` the whole rollout in one
compiled pass; `tests/test_rollout.py` and `tests/test_transition.py` hold them to this form.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rcdrs.cones.base import check_tensor, kind_of
from rcdrs.solver.fused import EPSILON_C, Columns
from rcdrs.solver.problem import ConicProgram, as_numbers, check_numbers


class State(NamedTuple):
    """The scaled splitting state ``y^k = (x^k, z^k, u^k)``, each of shape (batch, n)."""

    x: Tensor
    z: Tensor
    u: Tensor

    @staticmethod
    def zero(program: ConicProgram) -> State:
        """The standard initialisation ``x = z = u = 0``."""
        return State(*(torch.zeros_like(program.c) for _ in range(3)))

    @staticmethod
    def of(columns: Columns) -> State:
        z = columns.z.mT
        return State(z + columns.gap.mT, z, (columns.v - columns.z).mT)


Action = float | Tensor


def step(program: ConicProgram, state: State, alpha: Action, beta: Action) -> State:
    r"""One step of eq. (4), written as in the paper.

        w = z - u - beta cbar,  x+ = Proj_A(w),  xbar = alpha x+ + (1 - alpha) z,
        z+ = Proj_K(xbar + u),  u+ = u + xbar - z+

    cbar is the normalised c, or where the program has Q the normalised gradient at z, as in
    eq. (22).

    Arguments
        alpha, beta: numbers, or one per instance (batch,); alpha in (0, 2), beta > 0.

    `rcdrs.rollout` computes the same numbers faster; this is its definition, and what it is
    tested against.
    """
    state = check_state(program, state)
    alpha, beta = (a.unsqueeze(-1) for a in check_action(program, alpha, beta))
    c, affine = program.gradient(state.z), program.affine
    direction = c / (torch.linalg.vector_norm(c, dim=-1, keepdim=True) + EPSILON_C)
    w = state.z - state.u - beta * direction
    x = affine.project(w.mT, affine.target(program.b.mT)).mT
    relaxed = alpha * x + (1 - alpha) * state.z
    z = program.cone.project(relaxed + state.u)
    u = state.u + relaxed - z
    return State(x, z, u)


def check_action(program: ConicProgram, alpha: Action, beta: Action) -> tuple[Tensor, Tensor]:
    """Per-instance tensors (batch,) of an admissible pair, or an error that names the culprit."""
    checked = []
    for name, value, upper in (("alpha", alpha, 2.0), ("beta", beta, float("inf"))):
        action = torch.as_tensor(value, dtype=program.c.dtype, device=program.c.device)
        if action.shape not in ((), (program.batch,)):
            raise ValueError(
                f"{name} has shape {tuple(action.shape)}, expected a number or "
                f"(batch,) = ({program.batch},)."
            )
        admissible = (action > 0) & (action < upper)
        if not bool(admissible.all()):
            found = float(action[~admissible].flatten()[0])
            bounds = "in (0, 2)" if upper == 2 else "positive and finite"
            raise ValueError(f"{name} = {found:g}, expected {name} {bounds}.")
        checked.append(action.expand(program.batch))
    return checked[0], checked[1]


def check_state(program: ConicProgram, state: State) -> State:
    if not isinstance(state, (tuple, list)) or len(state) != 3:
        raise TypeError(
            f"the state is {kind_of(state)}, expected (x, z, u), such as the `state` of a solution."
        )
    state = State(
        *(as_numbers(f"the state's {n}", p, program.c) for n, p in zip("xzu", state, strict=True))
    )
    for name, part in zip(("x", "z", "u"), state, strict=True):
        check_tensor(f"the state's {name}", part)
        if part.shape != program.c.shape:
            raise ValueError(
                f"the state's {name} has shape {tuple(part.shape)}, expected (batch, n) = "
                f"{tuple(program.c.shape)}."
            )
        if part.dtype != program.c.dtype:
            raise TypeError(
                f"the state's {name} has dtype {part.dtype}, expected {program.c.dtype}."
            )
        check_numbers(f"the state's {name}", part)
        if part.device != program.c.device:
            raise ValueError(
                f"the state's {name} is on {part.device}, expected {program.c.device}."
            )
    return state


def check_depth(depth: int) -> int:
    if not isinstance(depth, int) or isinstance(depth, bool) or depth < 1:
        raise ValueError(f"depth is {depth!r}, expected a positive integer.")
    return depth
