"""One training loop for every learned method: deterministic, resumable, label-free."""

from __future__ import annotations

import copy
import csv
import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from rcdrs.files import replacing
from rcdrs.layer import DRSLayer, SolverLayer, read_checkpoint, write_checkpoint
from rcdrs.losses import LogKKTLoss, Loss, TerminalLoss
from rcdrs.problem import ConicProgram
from rcdrs.transition import Observation


@dataclass(frozen=True)
class Recipe:
    """How a layer is trained; the default is the paper's, table app_rc_hyperparameters."""

    loss: Loss = field(default_factory=TerminalLoss)
    epochs: int = 100
    batch: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    clip: float = 5.0
    cosine: bool = False


RECIPES = {
    "paper": Recipe(),
    "log_kkt": Recipe(LogKKTLoss(), epochs=20, batch=125, learning_rate=3e-3, cosine=True),
}


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}, expected one of {', '.join(RECIPES)}.")
    return RECIPES[name]


class TrainingDiverged(RuntimeError):
    """The loss became NaN or infinite; what was good so far is kept."""


@dataclass
class _Progress:
    """All that a resumed run needs."""

    epoch: int
    best_merit: float
    best: dict[str, Tensor]
    curve: list[dict[str, float]]


def train(
    layer: SolverLayer,
    train_set: ConicProgram,
    validation_set: ConicProgram,
    recipe: Recipe,
    seed: int,
    reference: tuple[float, float],
    curve: str | Path | None = None,
    resume: str | Path | None = None,
    label: str = "train",
) -> list[dict[str, float]]:
    """Train `layer` in place and leave it at its epoch of lowest validation merit.

    Arguments
        train_set, validation_set: programs only.  Exact solutions are not part of them.
        seed: of the order of the minibatches.
        reference: the fixed core (alpha, beta) that the loss compares with.
        curve: CSV file for one row an epoch.
        resume: file that keeps the state of an unfinished run; the same call goes on from it
            and ends with the same bytes.  Delete it once the trained layer is saved.

    Returns the rows of the curve; row 0 is the untrained layer.
    """
    baseline = DRSLayer(layer.A, layer.cone, layer.depth, *reference)
    with torch.no_grad():
        reference_train = baseline.solve(train_set).observation
        reference_validation = baseline.solve(validation_set).observation
    optimizer = torch.optim.AdamW(
        layer.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )

    def validate() -> float:
        with torch.no_grad():
            solution = layer.solve(validation_set)
            return float(recipe.loss.merit(solution, reference_validation).mean())

    progress = _load_progress(resume, layer, optimizer)
    if progress is None:
        merit = validate()
        row = {"epoch": 0, "loss": math.nan, "merit": merit}
        progress = _Progress(0, merit, copy.deepcopy(layer.state_dict()), [row])

    bar = tqdm(total=recipe.epochs, initial=progress.epoch, desc=label, unit="epoch", disable=None)
    saved_at = time.monotonic()
    for epoch in range(progress.epoch + 1, recipe.epochs + 1):
        total = 0.0
        batches = list(_minibatches(train_set.batch, recipe.batch, seed, epoch))
        for number, index in enumerate(batches):
            if recipe.cosine:
                share = (epoch - 1 + number / len(batches)) / recipe.epochs
                optimizer.param_groups[0]["lr"] = (
                    recipe.learning_rate * (1 + math.cos(math.pi * share)) / 2
                )
            losses = recipe.loss(
                layer.solve(train_set[index]), Observation(*(t[index] for t in reference_train))
            )
            _check_finite(losses, index, epoch, layer, progress)
            optimizer.zero_grad()
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), recipe.clip)
            optimizer.step()
            total += float(losses.detach().sum())
        merit = validate()
        progress.epoch = epoch
        progress.curve.append({"epoch": epoch, "loss": total / train_set.batch, "merit": merit})
        if merit < progress.best_merit:
            progress.best_merit = merit
            progress.best = copy.deepcopy(layer.state_dict())
        bar.set_postfix(merit=f"{merit:.3g}", best=f"{progress.best_merit:.3g}")
        bar.update()
        # Every few seconds is often enough to lose little, and rare enough to cost nothing.
        if resume is not None and time.monotonic() - saved_at > 5:
            _save_progress(resume, layer, optimizer, progress)
            saved_at = time.monotonic()
    bar.close()

    layer.load_state_dict(progress.best)
    if curve is not None:
        _write_curve(curve, progress.curve)
    return progress.curve


def _minibatches(count: int, batch: int, seed: int, epoch: int) -> Iterator[Tensor]:
    """A fresh order every epoch, from (seed, epoch) alone, so that a resumed run agrees."""
    digest = hashlib.sha256(f"minibatches/{seed}/{epoch}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
    return iter(torch.randperm(count, generator=generator).split(batch))


def _check_finite(
    losses: Tensor, index: Tensor, epoch: int, layer: SolverLayer, progress: _Progress
) -> None:
    bad = ~torch.isfinite(losses.detach())
    if bool(bad.any()):
        layer.load_state_dict(progress.best)
        instances = sorted(index[bad].tolist())
        raise TrainingDiverged(
            f"the loss is not finite in epoch {epoch} for {len(instances)} training instances "
            f"({', '.join(map(str, instances[:8]))}{', ...' if len(instances) > 8 else ''}); "
            f"the layer is back at its best, validation merit {progress.best_merit:.4g}, "
            f"of {progress.epoch} whole epochs."
        )


def _save_progress(
    path: str | Path, layer: SolverLayer, optimizer: torch.optim.Optimizer, progress: _Progress
) -> None:
    config = {"epoch": progress.epoch, "best": progress.best_merit, "curve": progress.curve}
    weights: dict[str, Any] = {
        "layer": layer.state_dict(),
        "best": progress.best,
        "optimizer": optimizer.state_dict(),
    }
    write_checkpoint(path, config, weights)


def _load_progress(
    path: str | Path | None, layer: SolverLayer, optimizer: torch.optim.Optimizer
) -> _Progress | None:
    if path is None or not Path(path).exists():
        return None
    config, weights = read_checkpoint(path)
    layer.load_state_dict(weights["layer"])
    optimizer.load_state_dict(weights["optimizer"])
    return _Progress(config["epoch"], config["best"], weights["best"], config["curve"])


def _write_curve(path: str | Path, rows: list[dict[str, float]]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
