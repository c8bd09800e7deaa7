"""What the controller sees: the ten features of the paper, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.controller.config import FEATURES
from rcdrs.kernels import arrays, compiled, first_order, view
from rcdrs.solver.fused import Observation, Transition


def features(
    transition: Transition,
    seen: Observation,
    before: Observation,
    previous: Tensor,
    base: Tensor,
    k: int,
    depth: int,
    kept: tuple[str, ...] = FEATURES,
) -> Tensor:
    r"""The feature vector ``phi^k``, shape (batch, len(kept)).

        log(1 + |x - z| / (1 + |z|)),  log(1 + |A z - b| / (1 + |b|)),
        log(1 + |z - z_prev| / (1 + |z|)),  log(1 + |c'z| / (1 + |c||z|)),
        asinh((c'z - c'z_prev) / (1 + |c'z_prev|)),
        log(rho/rho_0),  alpha,  log(beta/beta_0),  k/K,  (K - k)/K

    Arguments
        seen, before: the observations of ``z^k`` and ``z^{k-1}`` (the same at k = 0).
        previous: ``(log rho, alpha, log beta)`` of the last step, (batch, 3).
        base: the same of the core, (3,).
        kept: the features to return, a subset of `FEATURES` in any order.
    """
    phi = _Features.apply(
        *seen, before.objective, previous.mT, transition.b_norm, transition.c_norm, base, k / depth
    )
    if kept != FEATURES:
        phi = phi[[FEATURES.index(name) for name in kept]]
    return phi.mT


class _Features(torch.autograd.Function):
    """All ten at once, batch-last (10, batch): a dozen small operations instead of fifty."""

    @staticmethod
    def forward(
        ctx: Any,
        consensus: Tensor,
        equality: Tensor,
        movement: Tensor,
        size: Tensor,
        objective: Tensor,
        objective_before: Tensor,
        previous: Tensor,
        b_norm: Tensor,
        c_norm: Tensor,
        base: Tensor,
        elapsed: float,
    ) -> Tensor:
        if arrays(previous) is not None:
            inputs = (consensus, equality, movement, size, objective, objective_before, previous)
            phi = size.new_empty(10, len(size))
            _look(*map(view, (*inputs, b_norm, c_norm, base, phi)), elapsed)
            ctx.save_for_backward(*inputs[:-1], b_norm, c_norm)
            return phi
        one = size + 1
        above = torch.stack([consensus, equality, movement, objective.abs()])
        below = torch.stack([one, 1 + b_norm, one, 1 + c_norm * size])
        scale = 1 + objective_before.abs()
        change = (objective - objective_before) / scale
        phi = above.new_empty(10, len(size))
        torch.div(above, below, out=phi[:4]).log1p_()
        torch.asinh(change, out=phi[4])
        phi[5:8] = previous
        phi[5] -= base[0]
        phi[7] -= base[2]
        phi[8], phi[9] = elapsed, 1 - elapsed
        ctx.save_for_backward(
            above, below, scale, change, size, objective, objective_before, c_norm
        )
        return phi

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if arrays(g) is not None:
            grads = g.new_empty(8, g.shape[1])
            _pull(*map(view, (*ctx.saved_tensors, g, grads)))
            g_consensus, g_equality, g_movement, g_size, g_objective, g_before, g_b, g_c = grads
            return (
                g_consensus, g_equality, g_movement, g_size, g_objective, g_before, g[5:8],
                g_b if ctx.needs_input_grad[7] else None,
                g_c if ctx.needs_input_grad[8] else None, None, None,
            )  # fmt: skip
        above, below, scale, change, size, objective, objective_before, c_norm = ctx.saved_tensors
        # log(1 + p/q): (dp - p/q dq) / (p + q)
        g_above = g[:4] / (above + below)
        g_below = -(g_above * above / below)
        g_consensus, g_equality, g_movement, g_objective = g_above.unbind()
        g_one, g_b, g_two, g_product = g_below.unbind()
        # asinh((o - o') / (1 + |o'|))
        g_change = g[4] / (1 + change * change).sqrt_() / scale
        g_before = -g_change * (1 + change * objective_before.sign())
        g_objective = torch.addcmul(g_change, g_objective, objective.sign())
        g_size = torch.addcmul(g_one + g_two, g_product, c_norm)
        g_c = g_product * size if ctx.needs_input_grad[8] else None
        return (
            g_consensus, g_equality, g_movement, g_size, g_objective, g_before, g[5:8],
            g_b if ctx.needs_input_grad[7] else None, g_c, None, None,
        )  # fmt: skip


@compiled
def _look(  # type: ignore[no-untyped-def]
    consensus, equality, movement, size, objective, before, previous, b_norm, c_norm, base, phi,
    elapsed,
):  # fmt: skip
    for j in range(len(size)):
        one = 1 + size[j]
        phi[0, j] = np.log1p(consensus[j] / one)
        phi[1, j] = np.log1p(equality[j] / (1 + b_norm[j]))
        phi[2, j] = np.log1p(movement[j] / one)
        phi[3, j] = np.log1p(abs(objective[j]) / (1 + c_norm[j] * size[j]))
        phi[4, j] = np.arcsinh((objective[j] - before[j]) / (1 + abs(before[j])))
        phi[5, j] = previous[0, j] - base[0]
        phi[6, j] = previous[1, j]
        phi[7, j] = previous[2, j] - base[2]
        phi[8, j] = elapsed
        phi[9, j] = 1 - elapsed


@compiled
def _pull(  # type: ignore[no-untyped-def]
    consensus, equality, movement, size, objective, before, b_norm, c_norm, g, grads
):
    for j in range(len(size)):
        # log(1 + p/q): (dp - p/q dq) / (p + q)
        one, two, product = 1 + size[j], 1 + b_norm[j], 1 + c_norm[j] * size[j]
        g_con, g_eq = g[0, j] / (consensus[j] + one), g[1, j] / (equality[j] + two)
        g_mov, g_obj = g[2, j] / (movement[j] + one), g[3, j] / (abs(objective[j]) + product)
        g_product = -g_obj * abs(objective[j]) / product
        # asinh((o - o') / (1 + |o'|))
        scale = 1 + abs(before[j])
        change = (objective[j] - before[j]) / scale
        g_change = g[4, j] / np.sqrt(1 + change * change) / scale
        grads[0, j], grads[1, j], grads[2, j] = g_con, g_eq, g_mov
        g_one = -(g_con * consensus[j] + g_mov * movement[j]) / one
        grads[3, j] = g_one + g_product * c_norm[j]
        grads[4, j] = g_change + g_obj * np.sign(objective[j])
        grads[5, j] = -g_change * (1 + change * np.sign(before[j]))
        grads[6, j] = -g_eq * equality[j] / two
        grads[7, j] = g_product * size[j]
