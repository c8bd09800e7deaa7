"""One training loop for every learned method: deterministic, resumable, label-free."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from tqdm import tqdm

from rcdrs.cones import Box, Cone, Product
from rcdrs.files import load_state, read_checkpoint, reading, replacing, write_checkpoint
from rcdrs.layer import DRSLayer, SolverLayer
from rcdrs.solver.fused import Observation
from rcdrs.solver.problem import ConicProgram
from rcdrs.training.losses import Loss

Plain = dict[str, Any]
#: Seconds between two saves of an unfinished training: often enough to lose little, and rare enough
#: to cost nothing.
SAVE_INTERVAL = 5.0


@dataclass(frozen=True)
class Recipe:
    """How a layer is trained: the loss, AdamW with clipped gradients, and for how long."""

    loss: Loss
    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float
    clip: float
    #: Cosine decay of the learning rate, down to the share `final` of it.
    cosine: bool = False
    final: float = 0.0
    #: Trained for all of these depths, one drawn for each minibatch; by default for its own.
    depths: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}, expected an integer of at least {least}.")
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected a positive number.")


@dataclass(frozen=True)
class Lesson:
    """What a solver is trained on, how, and the fixed core that its loss compares with, if any."""

    train: Any
    validation: Any
    recipe: Recipe
    reference: tuple[float, float] | None = None


class TrainingDiverged(RuntimeError):
    """The loss became NaN or infinite; what was good so far is kept."""


@dataclass
class _Progress:
    """All that a resumed run needs."""

    epoch: int
    best_merit: float
    best: dict[str, Tensor]
    curve: list[dict[str, float]]

    @property
    def idle(self) -> int:
        """Epochs since the best one."""
        merits = [row["merit"] for row in self.curve]
        return len(merits) - 1 - merits.index(min(merits))


def train(
    layer: Any,
    train_set: Any,
    validation_set: Any,
    recipe: Recipe,
    seed: int,
    reference: tuple[float, float] | None,
    curve: str | Path | None = None,
    resume: str | Path | None = None,
    label: str = "train",
    code: str = "",
    patience: float = math.inf,
) -> list[dict[str, float]]:
    """Train `layer` in place and leave it at its epoch of lowest validation merit.

    Arguments
        layer: a solver layer, or any module with `depth`, `options()` and `solve(programs)`.
        train_set, validation_set: a `ConicProgram` each, without exact solutions; or whatever the
            module solves, with `batch`, of which parts can be taken.
        seed: of the order of the minibatches.
        reference: the fixed core (alpha, beta) that the loss compares with, if any.
        curve: CSV file for one row an epoch.
        resume: file that keeps the state of an unfinished run; the same call goes on from it
            and ends with the same bytes.  A file of another run, with other data, first weights,
            code or settings, is not used, and standard error says so.  Delete it once the trained
            layer is saved.
        code: a digest of the code, which a resumed run has to share.
        patience: epochs without a better validation merit after which training ends.

    Returns the rows of the curve; row 0 is the untrained layer.
    """
    for name, programs in (("train_set", train_set), ("validation_set", validation_set)):
        if isinstance(layer, SolverLayer) and not isinstance(programs, ConicProgram):
            raise TypeError(
                f"{name} is a {type(programs).__name__}, expected a ConicProgram "
                "(of a split, its .program)."
            )
    depths: list[tuple[int, ...]] = [(depth,) for depth in recipe.depths] or [()]
    if recipe.depths and reference is not None:
        raise ValueError(f"reference is {reference}, expected none of a training for many depths.")
    reference_train = reference_validation = None
    if reference is not None:
        baseline = DRSLayer(layer.A, layer.cone, layer.depth, *reference)
        with torch.no_grad():
            reference_train = baseline.solve(train_set).observation
            reference_validation = baseline.solve(validation_set).observation
    lr, decay = recipe.learning_rate, recipe.weight_decay
    optimizer = AdamW(layer.parameters(), lr=lr, weight_decay=decay)

    def learn(epoch: int) -> float:
        """One pass over the training set; the mean loss."""
        total = 0.0
        batches = list(_minibatches(train_set.batch, recipe.batch, seed, epoch))
        for number, index in enumerate(batches):
            if recipe.cosine:
                share = (epoch - 1 + number / len(batches)) / recipe.epochs
                decayed = (1 + math.cos(math.pi * share)) / 2
                rate = recipe.learning_rate * (recipe.final + (1 - recipe.final) * decayed)
                optimizer.param_groups[0]["lr"] = rate
            reference_batch = None
            if reference_train is not None:
                reference_batch = Observation(*(t[index] for t in reference_train))
            depth = recipe.depths and [_drawn(recipe.depths, seed, epoch, number)]
            losses = recipe.loss(layer.solve(train_set[index], *depth), reference_batch)
            _check_finite(losses, index, "training loss", epoch)
            optimizer.zero_grad()
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), recipe.clip)
            optimizer.step()
            total += float(losses.detach().sum())
        return total / train_set.batch

    def validate(epoch: int) -> float:
        with torch.no_grad():
            solutions = [layer.solve(validation_set, *depth) for depth in depths]
            merits = [recipe.loss.merit(found, reference_validation) for found in solutions]
        for merit in merits:
            _check_finite(merit, torch.arange(len(merit)), "validation merit", epoch)
        return sum(float(merit.mean()) for merit in merits) / len(merits)

    run = {
        "layer": type(layer).__name__,
        "options": layer.options(),
        "depth": layer.depth,
        "recipe": repr(recipe),
        "seed": seed,
        "reference": reference and list(reference),
        "torch": torch.__version__,
        "code": code,
    }
    if resume is not None:
        run |= {"data": _fingerprint((train_set, validation_set))}
        run |= {"first weights": _fingerprint(layer.state_dict())}
    progress = _load_progress(resume, run, layer, optimizer)
    if progress is None:
        merit = validate(0)
        row = {"epoch": 0, "loss": math.nan, "merit": merit}
        progress = _Progress(0, merit, copy.deepcopy(layer.state_dict()), [row])

    bar = tqdm(total=recipe.epochs, initial=progress.epoch, desc=label, unit="epoch", disable=None)
    saved_at = time.monotonic()
    for epoch in range(progress.epoch + 1, recipe.epochs + 1):
        try:
            loss, merit = learn(epoch), validate(epoch)
        except TrainingDiverged as error:
            layer.load_state_dict(progress.best)
            raise TrainingDiverged(
                f"{error}; the layer is back at its best, validation merit "
                f"{progress.best_merit:.4g}, of {progress.epoch} whole epochs."
            ) from None
        progress.epoch = epoch
        progress.curve.append({"epoch": epoch, "loss": loss, "merit": merit})
        if merit < progress.best_merit:
            progress.best_merit = merit
            progress.best = copy.deepcopy(layer.state_dict())
        bar.set_postfix(merit=f"{merit:.3g}", best=f"{progress.best_merit:.3g}")
        bar.update()
        if resume is not None and time.monotonic() - saved_at > SAVE_INTERVAL:
            _save_progress(resume, run, layer, optimizer, progress)
            saved_at = time.monotonic()
        if progress.idle > patience:
            break
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


def _drawn(depths: Sequence[int], seed: int, epoch: int, number: int) -> int:
    """The depth of one minibatch, from its place alone."""
    digest = hashlib.sha256(f"depths/{seed}/{epoch}/{number}".encode()).digest()
    return depths[int.from_bytes(digest[:7], "little") % len(depths)]


def _check_finite(values: Tensor, index: Tensor, what: str, epoch: int) -> None:
    bad = ~torch.isfinite(values.detach())
    if bool(bad.any()):
        found = sorted(index[bad.cpu()].tolist())
        shown = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
        raise TrainingDiverged(
            f"the {what} is not finite in epoch {epoch} for {len(found)} instances ({shown})"
        )


def _save_progress(
    path: str | Path, run: Plain, layer: nn.Module, optimizer: Optimizer, at: _Progress
) -> None:
    config = {"run": run, "epoch": at.epoch, "best": at.best_merit, "curve": at.curve}
    weights = {"layer": layer.state_dict(), "best": at.best, "optimizer": optimizer.state_dict()}
    write_checkpoint(path, config, weights)


def _load_progress(
    path: str | Path | None, run: Plain, layer: nn.Module, optimizer: Optimizer
) -> _Progress | None:
    """What `_save_progress` wrote, in layer and optimizer; nothing if it is of another run."""
    if path is None or not Path(path).exists():
        return None
    remedy = "delete it, and training starts over"
    config, weights = read_checkpoint(path, remedy)
    with reading(path, "state of an unfinished training", remedy):
        found, own = config["run"], json.loads(json.dumps(run))
        if other := [name for name in own if found.get(name) != own[name]]:
            tqdm.write(
                f"{path} is of a training with other {', '.join(other)}: training starts over.",
                file=sys.stderr,
            )
            return None
        at = _Progress(config["epoch"], config["best"], weights["best"], config["curve"])
        if [row["epoch"] for row in at.curve] != [*range(at.epoch + 1)]:
            raise ValueError(f"its curve does not end at epoch {at.epoch}")
        state, steps = weights["layer"], weights["optimizer"]
    for kept in (at.best, state):  # the first only to see that it fits
        load_state(layer, path, kept, remedy)
    with reading(path, "state of an unfinished training", remedy):
        optimizer.load_state_dict(steps)
    return at


def _fingerprint(value: Any) -> str:
    """Of all numbers in a data set or in weights, wherever these are kept."""
    digest = hashlib.sha256()
    for part in _parts(value):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    match value:
        case Tensor():
            yield f"{value.dtype} {tuple(value.shape)}".encode()
            if value.device.type != "meta":
                yield value.detach().cpu().contiguous().numpy().tobytes()
        case dict():
            yield from _parts([*value.items()])
        case list() | tuple():
            for part in value:
                yield from _parts(part)
        case Product(cones=cones):
            yield from _parts([*cones])
        case Box(lower=lower, upper=upper):
            yield from _parts([lower, upper])
        case None | str() | int() | float() | Cone():
            yield repr(value).encode()
        case _ if is_dataclass(value):
            yield from _parts([(part.name, getattr(value, part.name)) for part in fields(value)])
        case _:  # a user's own data set
            yield from _parts(vars(value))


def _write_curve(path: str | Path, rows: list[dict[str, float]]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
