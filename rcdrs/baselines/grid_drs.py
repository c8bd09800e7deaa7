"""Grid-DRS: the best fixed pair of a small grid on validation data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.layer import DRSLayer
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import Errors, errors


class Labelled(Protocol):
    """Programs whose exact solutions x are known, as validation data may have them."""

    @property
    def program(self) -> ConicProgram: ...

    @property
    def x(self) -> Tensor: ...


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> DRSLayer:
    return DRSLayer(A, cone, depth, *core)


def terminal_score(error: Errors) -> Tensor:
    """``Gap + 10 Eq + 10 Cone``, the rule of the synthetic benchmarks."""
    return error.Gap + 10 * error.Eq + 10 * error.Cone


@torch.no_grad()
def select_core(
    validation: Labelled,
    depth: int,
    alphas: Sequence[float],
    betas: Sequence[float],
    scored: int,
    score: Callable[[Errors], Tensor] = terminal_score,
) -> tuple[float, float]:
    """The (alpha, beta) of lowest mean score after `depth` steps, on at most `scored` instances.

    Pairs and instances form one batch: pair i runs on the rows ``i * count, ...``.
    """
    count = min(scored, validation.program.batch)
    if count < 1 or not alphas or not betas:
        raise ValueError(
            f"the grid has {len(alphas)} alphas and {len(betas)} betas and scores {count} "
            "instances, expected at least one of each."
        )
    pairs = torch.cartesian_prod(torch.tensor(alphas), torch.tensor(betas)).to(validation.x)
    alpha, beta = pairs.repeat_interleave(count, dim=0).unbind(-1)
    rows = torch.arange(count, device=pairs.device).repeat(len(pairs))
    program = validation.program[rows]
    error = errors(program, rollout(program, alpha, beta, depth).z, validation.x[rows])
    best = int(score(error).unflatten(0, (len(pairs), count)).mean(-1).argmin())
    # From the constants, not from `pairs`: 0.3 in float32 is no longer 0.3.
    return alphas[best // len(betas)], betas[best % len(betas)]
