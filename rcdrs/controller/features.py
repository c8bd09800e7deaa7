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
    change = seen.objective - before.objective
    columns = {
        "con": lambda: torch.log1p(seen.consensus / size),
        "eq": lambda: torch.log1p(seen.equality / (1 + transition.b_norm)),
        "dz": lambda: torch.log1p(seen.movement / size),
        "obj": lambda: torch.log1p(
            seen.objective.abs()
            / torch.addcmul(torch.ones_like(size), transition.c_norm, seen.size)
        ),
        "dobj": lambda: torch.asinh(change / (1 + before.objective.abs())),
        "rho": lambda: previous[:, 0] - base[0],
        "alpha": lambda: previous[:, 1],
        "beta": lambda: previous[:, 2] - base[2],
        "elapsed": lambda: torch.full_like(size, k / depth),
        "left": lambda: torch.full_like(size, (depth - k) / depth),
    }
    return torch.stack([columns[name]() for name in kept], dim=-1)
