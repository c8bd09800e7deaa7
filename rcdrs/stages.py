"""The stages of the synthetic experiments, from file to file: what the verbs do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rcdrs.baselines.grid_drs import select_core
from rcdrs.experiments.synthetic import InstanceSet, generate
from rcdrs.files import replacing
from rcdrs.layer import BASE_ACTION, SolverLayer, check_core, read_checkpoint
from rcdrs.methods import Method, evaluate, find_method
from rcdrs.training import Recipe, find_recipe, train

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


def make_instances(case: str, seed: int, sizes: dict[str, int] | None, out: Path) -> None:
    generate(case, seed, sizes).save(out)


def tune(instances: Path, depths: Iterable[int], out: Path, grid: dict[str, Any]) -> None:
    """Write the selected core of each depth."""
    data = InstanceSet.load(instances)
    cores = {}
    for depth in depths:
        alpha, beta = select_core(data.validation, depth, **grid)
        cores[str(depth)] = {"alpha": alpha, "beta": beta}
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(cores, indent=1) + "\n")


def read_core(path: Path, depth: int) -> tuple[float, float]:
    """The core of one depth from what `tune` wrote."""
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


def make_recipe(name: str, changes: dict[str, Any]) -> tuple[Recipe, str]:
    """The recipe of that name with changes, and which core its loss compares with."""
    standard = find_recipe(name)
    changes = dict(changes)
    reference = changes.pop("reference", "tuned")
    if reference not in ("tuned", "base"):
        raise ValueError(f"reference is {reference!r}, expected base or tuned.")
    loss = type(standard.loss)(**(vars(standard.loss) | changes.pop("loss", {})))
    return Recipe(**(vars(standard) | changes | {"loss": loss})), reference


def train_layer(
    instances: Path,
    cores: Path,
    depth: int,
    method: str,
    recipe: str,
    seed: int,
    out: Path,
    settings: dict[str, Any],
    on: torch.device,
) -> None:
    """Train one layer and write its checkpoint, with the training curve as CSV beside it.

    `settings` may change the common controller (``controller``) and the recipe (``recipe``).
    """
    _check_settings(settings)
    found = find_method(method)
    if not found.learned:
        raise ValueError(f"{method} has nothing to train.")
    if out.suffix != ".pt":
        raise ValueError(f"out is {out}, expected a name that ends in .pt.")
    rules, reference = make_recipe(recipe, settings.get("recipe", {}))
    data = InstanceSet.load(instances).to(on)
    core = read_core(cores, depth)
    torch.manual_seed(seed)
    layer = found.build(data.A, data.case.cone, depth, core, settings.get("controller"))
    resume = out.with_suffix(".resume")
    train(
        layer.to(on),
        data.train.program,
        data.validation.program,
        rules,
        seed,
        reference=core if reference == "tuned" else (BASE_ACTION[1], BASE_ACTION[2]),
        curve=out.with_suffix(".csv"),
        resume=resume,
        label=f"{method} {data.case.name} K={depth}",
    )
    layer.save(out, trained={"case": data.case.name, "seed": data.seed, "recipe": recipe})
    resume.unlink(missing_ok=True)


def evaluate_runs(
    instances: Path,
    cores: Path,
    depth: int,
    runs: Iterable[Run],
    settings: dict[str, Any],
    on: torch.device,
    experiment: str = "synthetic",
    label: str | None = None,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row of test means per run, and the same per instance, keyed ``METHOD@RECIPE/METRIC``.

    With `label`, the rows bear it in place of the method's name.
    """
    _check_settings(settings)
    runs = list(runs)
    names = [(label or run.method.name, run.recipe) for run in runs]
    if len(set(names)) < len(names):
        raise ValueError(
            "two runs would have the same name: with a label, evaluate them one by one."
        )
    data = InstanceSet.load(instances).to(on)
    core = read_core(cores, depth)
    rows, details = [], {}
    for run in runs:
        layer = _layer(run, data, depth, core, settings).to(on)
        metrics = evaluate(layer, data.test)
        name = label or run.method.name
        key = ("synthetic", data.case.family, data.case.scale, depth, data.seed, name, run.recipe)
        means = {metric: float(values.double().mean()) for metric, values in metrics.items()}
        rows.append(dict(zip(KEYS, key, strict=True)) | {"experiment": experiment} | means)
        for metric, values in metrics.items():
            details[f"{name}@{run.recipe}/{metric}"] = values.cpu().float().numpy()
    return pd.DataFrame(rows), details


def _layer(
    run: Run, data: InstanceSet, depth: int, core: tuple[float, float], settings: dict[str, Any]
) -> SolverLayer:
    """The layer of a run; its checkpoint must have been trained for just this."""
    cone = data.case.cone
    built = run.method.build(data.A, cone, depth, core, settings.get("controller"))
    if run.checkpoint is None:
        return built
    layer = type(built).load(run.checkpoint, data.A, cone, depth)
    trained = read_checkpoint(run.checkpoint)[0].get("trained", {})
    expected = {"case": data.case.name, "seed": data.seed, "recipe": run.recipe}
    if trained != expected:
        raise ValueError(f"{run.checkpoint} was trained for {trained}, expected {expected}.")
    if layer.options() != built.options():
        raise ValueError(
            f"{run.checkpoint} was trained as another method, controller or core than "
            f"{run.method.name} with core {core}: train it again."
        )
    return layer


def _check_settings(settings: dict[str, Any]) -> None:
    if unknown := settings.keys() - {"controller", "recipe"}:
        raise ValueError(
            f"settings: unknown {', '.join(map(repr, sorted(unknown)))}, "
            "expected controller and recipe."
        )


def write_rows(rows: pd.DataFrame, out: Path) -> None:
    with replacing(out) as temporary:
        rows.to_csv(temporary, index=False)


def write_details(details: dict[str, np.ndarray], out: Path) -> None:
    with replacing(out) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **details)


def time_methods(
    instances: Path,
    cores: Path,
    depths: Iterable[int],
    methods: Iterable[str],
    on: torch.device,
    warm_up: int,
    repeats: int,
    controller: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Milliseconds per instance of inference on the whole test split, without gradients.

    Weights do not change the time, so learned methods run untrained.
    """
    data = InstanceSet.load(instances).to(on)
    rows = []
    for depth in depths:
        core = read_core(cores, depth)
        for name in methods:
            build = find_method(name).build
            layer = build(data.A, data.case.cone, depth, core, controller).to(on)
            seconds = []
            for _ in range(warm_up + repeats):
                _synchronize(on)
                start = time.perf_counter()
                with torch.no_grad():
                    layer.solve(data.test.program)
                _synchronize(on)
                seconds.append(time.perf_counter() - start)
            ms = 1000 * float(np.mean(seconds[warm_up:])) / data.test.program.batch
            key = ("synthetic", data.case.family, data.case.scale, depth, data.seed, name)
            rows.append(dict(zip(KEYS, key, strict=False)) | {"time_ms": ms, "device": str(on)})
    return pd.DataFrame(rows)


def _synchronize(on: torch.device) -> None:
    if on.type == "cuda":
        torch.cuda.synchronize(on)
