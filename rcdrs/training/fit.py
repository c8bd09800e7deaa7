"""A layer tuned and trained for a user's own problems, from samples without solutions.

First the core: the pair (alpha, beta) of lowest merit on held-out samples, from a grid that follows
its best pair until that is not on its edge, and is then refined.  Then the controller, which starts
as that core, so that nothing is lost where training finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rcdrs.solution import Solution
from rcdrs.training.loop import Recipe, train
from rcdrs.training.losses import LogKKTLoss

#: As in the recipe log_kkt, but that no residual counts more than another.
LOSS = LogKKTLoss(eq=3.0, con=3.0, mov=0.1, dual=3.0, gap=3.0)
STEPS, RATE, DECAY, CLIP = 1000, 0.01, 1e-5, 5.0
#: The first grid of cores, and how far beta may be followed; alpha has limits of its own.
ALPHAS = (0.8, 1.1, 1.4, 1.6, 1.75, 1.9)
BETAS = (0.1, 0.3, 1.0, 3.0, 10.0)
RANGE = (1e-4, 90.0)
RESIDUALS = {"primal": "r_p", "dual": "r_d", "gap": "r_gap"}


@dataclass(frozen=True)
class FitReport:
    """What a fit found: medians over the held-out samples, before, with the tuned core, after."""

    core: tuple[float, float]
    #: Beta ran to an end of its range.
    edge: bool
    before: dict[str, float]
    tuned: dict[str, float]
    after: dict[str, float]
    epochs: int
    curve: list[dict[str, float]] = field(repr=False)

    def __str__(self) -> str:
        lines = [f"core: alpha {self.core[0]:.3g}, beta {self.core[1]:.3g}; {self.epochs} epochs"]
        if self.edge:
            lines.append("beta is at the end of its range: are the samples scaled sensibly?")
        lines.append(f"{'residual':10s}{'before':>10s}{'tuned':>10s}{'trained':>10s}")
        lines += [
            f"{name:10s}{self.before[name]:10.1e}{self.tuned[name]:10.1e}{self.after[name]:10.1e}"
            for name in RESIDUALS
        ]
        return "\n".join(lines)


def fit(
    layer: Any,
    samples: Any,
    *,
    epochs: int | None = None,
    batch: int = 32,
    validation: float = 0.2,
    learning_rate: float = RATE,
    patience: float = 30,
    seed: int = 0,
    tune: bool = True,
    resume: str | Path | None = None,
) -> FitReport:
    """Choose the core of `layer` and train its controller on programs like `samples`, in place.

    Arguments
        layer: an `RCDRSLayer`.
        samples: a `ConicProgram` of the layer's A and cone, without solutions; two hundred
            instances are enough.
        epochs: passes over the samples, by default as many as make a thousand steps.
        validation: share of the samples that is held out, to choose the core and the best epoch.
        patience: epochs without a better merit on these after which training ends.
        tune: choose a core first; without it, the layer goes on from what it is.
        resume: file that keeps an unfinished training; the same call goes on from it.

    Example
        >>> report = rcdrs.fit(layer, ConicProgram(A, b, c, cone))
        >>> print(report)
    """
    for name in ("recentre", "solve"):
        if not hasattr(layer, name):
            raise TypeError(f"layer is a {type(layer).__name__}, expected an RCDRSLayer.")
    if not hasattr(samples, "batch"):
        raise TypeError(f"samples is a {type(samples).__name__}, expected a ConicProgram.")
    if not 0 < validation < 1 or samples.batch < 5:
        raise ValueError(
            f"samples has {samples.batch} instances, of which the share {validation} is held out, "
            "expected at least 5 and a share between 0 and 1."
        )
    order = torch.randperm(samples.batch, generator=torch.Generator().manual_seed(seed))
    held = max(1, round(validation * samples.batch))
    learned, judged = samples[order[held:]], samples[order[:held]]
    before, edge = medians(layer, judged), False
    torch.manual_seed(seed)
    if tune:
        core, edge = find_core(layer, judged)
        layer.recentre(core)
    tuned = medians(layer, judged)
    recipe = Recipe(
        LOSS,
        epochs=math.ceil(STEPS / math.ceil(learned.batch / batch)) if epochs is None else epochs,
        batch=batch,
        learning_rate=learning_rate,
        weight_decay=DECAY,
        clip=CLIP,
        cosine=True,
    )
    curve = train(
        layer, learned, judged, recipe, seed, None, resume=resume, label="fit", patience=patience
    )
    after = medians(layer, judged)
    return FitReport(layer.core, edge, before, tuned, after, len(curve) - 1, curve)


@torch.no_grad()
def medians(layer: Any, samples: Any) -> dict[str, float]:
    read = layer.solve(samples).readout
    return {name: float(getattr(read, column).median()) for name, column in RESIDUALS.items()}


@torch.no_grad()
def find_core(layer: Any, samples: Any) -> tuple[tuple[float, float], bool]:
    """The pair of lowest mean merit, and whether beta ran to an end of its range.

    The layer is left at one of the pairs tried.
    """
    known: dict[tuple[float, float], float] = {}

    def merit(pair: tuple[float, float]) -> float:
        if pair not in known:
            layer.recentre(pair)  # untrained, a layer is its core
            solution: Solution = layer.solve(samples)
            known[pair] = float(LOSS.merit(solution, solution.observation).nanmean())
        return known[pair]

    def best(alphas: Sequence[float], betas: Sequence[float]) -> tuple[float, float]:
        return min(((a, b) for a in alphas for b in betas), key=merit)

    (low, high), betas = RANGE, list(BETAS)
    while True:
        alpha, beta = best(ALPHAS, betas)
        if beta == betas[0] and beta > low:
            betas = [max(beta / 9, low), max(beta / 3, low), beta]
        elif beta == betas[-1] and beta < high:
            betas = [beta, min(beta * 3, high), min(beta * 9, high)]
        else:
            break
    for ratio, width in ((3**0.5, 0.1), (3**0.25, 0.05)):
        near = [alpha + step for step in (-width, 0.0, width) if 0.2 < alpha + step <= ALPHAS[-1]]
        around = [beta / ratio, beta, min(beta * ratio, high)]
        alpha, beta = best(near, around)
    return (alpha, beta), not low < beta < high
