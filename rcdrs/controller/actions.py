"""From raw coordinates to admissible actions (log rho, alpha, log beta)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rcdrs.controller.config import CONTROLS, Envelope, Growth, Ranges
from rcdrs.kernels import arrays, compiled, first_order, view


class ActionMap(nn.Module):
    r"""Raw coordinates (batch, 3) to ``l_k = (log rho_k, alpha_k, log beta_k)``.

    Without an envelope the sigmoid spans the global ranges.  With one, ``l = base + radius
    tanh(r)``, then cut to the global ranges: with the paper's own constants
    ``alpha_0 + s_alpha delta_0 = 2.1`` would leave (0, 2).  The growth filter keeps rho and beta
    within a factor of their last values.  Variables that are not controlled stay at the core.
    """

    base: Tensor
    low: Tensor
    high: Tensor
    radius_scale: Tensor
    growth: Tensor
    controlled: Tensor

    def __init__(
        self,
        core: tuple[float, float, float],
        controls: tuple[str, ...] = CONTROLS,
        envelope: Envelope | None = None,
        ranges: Ranges | None = None,
        growth: Growth | None = None,
    ) -> None:
        super().__init__()
        ranges = ranges or Ranges()
        rho, alpha, beta = core
        intervals = (ranges.rho, ranges.alpha, ranges.beta)
        for name, value, (low, high) in zip(CONTROLS, core, intervals, strict=True):
            if not 0 < low <= value <= high:
                raise ValueError(f"core {name} = {value:g}, expected it in [{low:g}, {high:g}].")
        self.envelope = envelope
        infinity = math.inf
        steps = (
            (math.log(growth.rho), infinity, math.log(growth.beta)) if growth else (infinity,) * 3
        )
        values = {
            "base": (math.log(rho), alpha, math.log(beta)),
            "low": (math.log(ranges.rho[0]), ranges.alpha[0], math.log(ranges.beta[0])),
            "high": (math.log(ranges.rho[1]), ranges.alpha[1], math.log(ranges.beta[1])),
            "radius_scale": (1.0, envelope.s_alpha if envelope else 1.0, 1.0),
            "growth": steps,
        }
        for name, numbers in values.items():
            # Not part of the weights: a layer's options say what its map is.
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float64), persistent=False)
        mask = torch.tensor([name in controls for name in CONTROLS])
        self.register_buffer("controlled", mask, persistent=False)

    def forward(self, raw: Tensor, previous: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The action (batch, 3), and of it alpha and beta (batch,) as the step takes them."""
        radius = None
        if self.envelope is not None:
            radius = (self.envelope.radius(k) * self.radius_scale).unsqueeze(1)
        limits = (
            part.unsqueeze(1)
            for part in (self.controlled, self.base, self.low, self.high, self.growth)
        )
        action, alpha, beta = _Admit.apply(raw.mT, previous.mT, *limits, radius)
        return action.mT, alpha, beta

    def radii(self, depth: int) -> Tensor:
        """The radius of each step, (depth, 3); infinite without an envelope."""
        envelope = self.envelope
        steps = [envelope.radius(k) if envelope else math.inf for k in range(depth)]
        return torch.tensor(steps, dtype=torch.float64).unsqueeze(1) * self.radius_scale

    def raw_core(self) -> Tensor:
        """The raw coordinates whose action is the core."""
        if self.envelope is not None:
            return torch.zeros_like(self.base)
        # A core on the edge of its range would need an infinite coordinate: stay just inside.
        share = ((self.base - self.low) / (self.high - self.low)).clamp(1e-3, 1 - 1e-3)
        return torch.logit(share)


class _Admit(torch.autograd.Function):
    """`ActionMap` in batch-last layout (3, batch), and alpha and beta of it."""

    @staticmethod
    def forward(
        ctx: Any,
        raw: Tensor,
        previous: Tensor,
        controlled: Tensor,
        base: Tensor,
        low: Tensor,
        high: Tensor,
        growth: Tensor,
        radius: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        if arrays(previous) is not None:
            action, slope, follows = (previous.new_empty(previous.shape) for _ in range(3))
            _admit(
                *map(view, (raw, previous, controlled, base, low, high, growth)),
                view(low[:0] if radius is None else radius),
                *map(view, (action, slope, follows)),
            )
        else:
            if radius is None:
                t = torch.sigmoid(raw)
                action, slope = low + t * (high - low), (high - low) * t * (1 - t)
            else:
                t = torch.tanh(raw)
                action, slope = base + radius * t, radius * (1 - t * t)
            lower, upper = previous - growth, previous + growth
            least, most = torch.maximum(low, lower), torch.minimum(high, upper)
            below, above = action < least, action > most
            slope = slope.masked_fill_(below | above | ~controlled, 0)
            # Where the growth filter holds the action back, it moves with the last one.
            held = (below & (lower > low)) | (above & (upper < high))
            follows = (held & controlled).to(slope)
            action = torch.where(controlled, torch.clamp(action, least, most), base)
        beta = torch.exp(action[2])
        ctx.save_for_backward(slope, follows, beta)
        return action, action[1].clone(), beta

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g, g_alpha, g_beta = grads
        slope, follows, beta = ctx.saved_tensors
        g = torch.zeros_like(slope) if g is None else g.clone()
        if g_alpha is not None:
            g[1] += g_alpha
        if g_beta is not None:
            g[2] += g_beta * beta
        return g * slope, g * follows, None, None, None, None, None, None


@compiled
def _admit(  # type: ignore[no-untyped-def]
    raw, previous, controlled, base, low, high, growth, radius, action, slope, follows
):
    zero, one = action.dtype.type(0), action.dtype.type(1)
    for i in range(3):
        for j in range(action.shape[1]):
            if not controlled[i, 0]:
                action[i, j], slope[i, j], follows[i, j] = base[i, 0], zero, zero
                continue
            if len(radius):
                t = np.tanh(raw[i, j])
                wanted, k = base[i, 0] + radius[i, 0] * t, radius[i, 0] * (1 - t * t)
            else:
                t = 1 / (1 + np.exp(-raw[i, j]))
                span = high[i, 0] - low[i, 0]
                wanted, k = low[i, 0] + t * span, span * t * (1 - t)
            lower, upper = previous[i, j] - growth[i, 0], previous[i, j] + growth[i, 0]
            least, most = max(low[i, 0], lower), min(high[i, 0], upper)
            action[i, j], slope[i, j], follows[i, j] = wanted, k, zero
            # Where the growth filter holds the action back, it moves with the last one.
            if wanted < least:
                action[i, j], slope[i, j], follows[i, j] = least, zero, one * (lower > low[i, 0])
            elif wanted > most:
                action[i, j], slope[i, j], follows[i, j] = most, zero, one * (upper < high[i, 0])
