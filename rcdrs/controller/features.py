"""What the controller sees: the ten features of the paper, in its order."""

from __future__ import annotations

import torch
from torch import Tensor

from rcdrs.transition import Observation, Transition

RESIDUAL = ("con", "eq", "dz", "obj", "dobj")
PREVIOUS = ("rho", "alpha", "beta")
TIME = ("elapsed", "left")
FEATURES = RESIDUAL + PREVIOUS + TIME


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
    size = 1 + seen.size
    residuals = torch.stack(
        [seen.consensus, seen.equality, seen.movement, seen.objective.abs()]
    ) / torch.stack([size, 1 + transition.b_norm, size, 1 + transition.c_norm * seen.size])
    change = (seen.objective - before.objective) / (1 + before.objective.abs())
    action = previous.mT - torch.stack([base[0], torch.zeros_like(base[0]), base[2]]).unsqueeze(1)
    time = torch.tensor([k / depth, (depth - k) / depth], dtype=size.dtype, device=size.device)
    # Batch-last in memory: the encoder's products and the stacking run along the batch.
    phi = torch.cat(
        [
            torch.log1p(residuals),
            torch.asinh(change).unsqueeze(0),
            action,
            time.unsqueeze(1).expand(2, len(size)),
        ]
    )
    if kept != FEATURES:
        phi = phi[[FEATURES.index(name) for name in kept]]
    return phi.mT
