"""What the stages of all experiments share: runs, cores, checks, seed-level files, clocks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rcdrs.baselines.registry import Method, find_method
from rcdrs.files import replacing
from rcdrs.layer import SolverLayer, check_core, read_checkpoint
from rcdrs.training.loop import Recipe, find_recipe

#: Columns that say which run a row of a seed-level CSV is.
KEYS = ("experiment", "family", "scale", "K", "seed", "method", "recipe")
#: Recipe of a method that learns nothing.
NOT_LEARNED = "-"


@dataclass(frozen=True)
class Run:
    """What to evaluate: a method, and for a learned one the recipe and its checkpoint."""

    method: Method
    recipe: str = NOT_LEARNED
    checkpoint: Path | None = None

    @staticmethod
    def parse(text: str) -> Run:
        """``METHOD`` or ``METHOD@RECIPE=CHECKPOINT``."""
        name, learned, rest = text.partition("@")
        recipe, _, checkpoint = rest.partition("=")
        method = find_method(name)
        if bool(learned) != method.learned or bool(checkpoint) != method.learned:
            shape = f"{name}@RECIPE=CHECKPOINT" if method.learned else name
            raise ValueError(f"{text!r} does not fit {name}, expected {shape}.")
        if not method.learned:
            return Run(method)
        find_recipe(recipe)
        return Run(method, recipe, Path(checkpoint))


def device(name: str = "auto") -> torch.device:
    """`auto` is CUDA where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device here.")
    return torch.device(name)


def write_cores(
    select: Callable[[int], tuple[float, float]], depths: Iterable[int], out: Path
) -> None:
    """Write the core that `select` finds for each depth."""
    cores = {}
    for depth in depths:
        alpha, beta = select(depth)
        cores[str(depth)] = {"alpha": alpha, "beta": beta}
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(cores, indent=1) + "\n")


def read_core(path: Path, depth: int) -> tuple[float, float]:
    """The core of one depth from what `write_cores` wrote."""
    try:
        core = json.loads(path.read_text())[str(depth)]
        return check_core(float(core["alpha"]), float(core["beta"]))
    except KeyError as error:
        raise ValueError(
            f"{path} holds no core for depth {depth}: make it with `rcdrs tune --depth {depth}`."
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} does not hold tuned cores ({error}): make it with `rcdrs tune`."
        ) from error


def changed(standard: Recipe, changes: dict[str, Any]) -> Recipe:
    """The recipe with changes, also to the weights of its loss, from plain values."""
    changes = dict(changes)
    loss = type(standard.loss)(**(vars(standard.loss) | changes.pop("loss", {})))
    return Recipe(**(vars(standard) | changes | {"loss": loss}))


def check_settings(settings: dict[str, Any]) -> None:
    if unknown := settings.keys() - {"controller", "recipe"}:
        raise ValueError(
            f"settings: unknown {', '.join(map(repr, sorted(unknown)))}, "
            "expected controller and recipe."
        )


def check_training(out: Path, settings: dict[str, Any]) -> Path:
    """The file that keeps an unfinished run, beside the checkpoint it will write."""
    check_settings(settings)
    if out.suffix != ".pt":
        raise ValueError(f"out is {out}, expected a name that ends in .pt.")
    return out.with_suffix(".resume")


def load_layer(path: Path, like: SolverLayer, trained: dict[str, Any]) -> SolverLayer:
    """The layer of a checkpoint, which must be one like this, trained for just this."""
    layer = type(like).load(path, like.A, like.cone, like.depth)
    found = read_checkpoint(path)[0].get("trained", {})
    if found != trained:
        raise ValueError(f"{path} was trained for {found}, expected {trained}.")
    if layer.options() != like.options():
        raise ValueError(
            f"{path} was trained as another method, controller or core: it has "
            f"{layer.options()}, expected {like.options()}.  Train it again."
        )
    return layer


def check_names(names: Sequence[tuple[str, str]]) -> None:
    """Each (method, recipe) of a CSV must be told from the others."""
    if len(set(names)) < len(names):
        shown = ", ".join("@".join(name) for name in names)
        raise ValueError(
            f"two runs would have the same name ({shown}): evaluate each once, or one by one with "
            "a label."
        )


class Rows:
    """The rows of a seed-level CSV, and their metrics per instance."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.details: dict[str, np.ndarray] = {}

    def add(
        self, key: Iterable[Any], metrics: dict[str, Tensor], partial: Container[str] = ()
    ) -> None:
        """`key` as in `KEYS`.  Of the metrics in `partial`, instances without a value (NaN) do
        not count in the mean."""
        row = dict(zip(KEYS, key, strict=True))
        for metric, values in metrics.items():
            mean = torch.nanmean if metric in partial else torch.mean
            row[metric] = float(mean(values.double()))
        self.rows.append(row)
        for metric, values in metrics.items():
            name = f"{row['method']}@{row['recipe']}/{metric}"
            self.details[name] = values.cpu().float().numpy()

    def result(self) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
        return pd.DataFrame(self.rows), self.details


def write_rows(rows: pd.DataFrame, out: Path) -> None:
    with replacing(out) as temporary:
        rows.to_csv(temporary, index=False)


def write_details(details: dict[str, np.ndarray], out: Path) -> None:
    with replacing(out) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **details)


def milliseconds(solve: Callable[[], Any], on: torch.device, warm_up: int, repeats: int) -> float:
    """Mean time of `solve` without gradients, after some passes to warm up."""
    seconds = []
    for _ in range(warm_up + repeats):
        _synchronize(on)
        start = time.perf_counter()
        with torch.no_grad():
            solve()
        _synchronize(on)
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.mean(seconds[warm_up:]))


def time_row(key: Iterable[Any], ms: float, on: torch.device) -> dict[str, Any]:
    """One row of a timing CSV; `key` as in `KEYS`, without a recipe."""
    return dict(zip(KEYS, key, strict=False)) | {"time_ms": ms, "device": str(on)}


def _synchronize(on: torch.device) -> None:
    if on.type == "cuda":
        torch.cuda.synchronize(on)
