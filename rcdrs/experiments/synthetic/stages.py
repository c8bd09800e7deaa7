"""The stages of the synthetic experiments, from file to file: what the verbs do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import METHODS, evaluate, find_method
from rcdrs.experiments.staging import (
    Rows,
    Run,
    changed,
    check_names,
    check_settings,
    check_training,
    load_layer,
    milliseconds,
    read_core,
    time_row,
    write_cores,
)
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.layer import BASE_ACTION, SolverLayer
from rcdrs.training.loop import Recipe, find_recipe, train


def make_instances(case: str, seed: int, sizes: dict[str, int] | None, out: Path) -> None:
    generate(case, seed, sizes).save(out)


def tune(instances: Path, depths: Iterable[int], out: Path, grid: dict[str, Any]) -> None:
    """Write the selected core of each depth."""
    data = InstanceSet.load(instances)
    write_cores(lambda depth: select_core(data.validation, depth, **grid), depths, out)


def make_recipe(name: str, changes: dict[str, Any]) -> tuple[Recipe, str]:
    """The recipe of that name with changes, and which core its loss compares with."""
    changes = dict(changes)
    reference = changes.pop("reference", "tuned")
    if reference not in ("tuned", "base"):
        raise ValueError(f"reference is {reference!r}, expected base or tuned.")
    return changed(find_recipe(name), changes), reference


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
    found = find_method(method)
    if not found.learned:
        raise ValueError(f"{method} has nothing to train.")
    resume = check_training(out, settings)
    rules, reference = make_recipe(recipe, settings.get("recipe", {}))
    data = InstanceSet.load(instances).to(on)
    core = read_core(cores, depth)
    torch.manual_seed(seed)
    layer = found.build(data.A, data.case.cone, depth, core, settings.get("controller"))
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
    layer.save(out, trained=_trained(data, recipe))
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
    check_settings(settings)
    runs = list(runs)
    names = [(label or run.method.name, run.recipe) for run in runs]
    check_names(names)
    data = InstanceSet.load(instances).to(on)
    core = read_core(cores, depth)
    rows, case = Rows(), data.case
    for run, name in zip(runs, names, strict=True):
        layer = _layer(run, data, depth, core, settings).to(on)
        key = (experiment, case.family, case.scale, depth, data.seed, *name)
        rows.add(key, evaluate(layer, data.test))
    return rows.result()


def time_methods(
    instances: Path,
    cores: Path,
    depths: Iterable[int],
    methods: Iterable[str] | None,
    on: torch.device,
    warm_up: int,
    repeats: int,
    controller: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Milliseconds per instance of inference on the whole test split; all methods by default.

    Weights do not change the time, so learned methods run untrained.
    """
    data = InstanceSet.load(instances).to(on)
    case, test = data.case, data.test.program
    rows = []
    for depth in depths:
        core = read_core(cores, depth)
        for name in methods or METHODS:
            layer = find_method(name).build(data.A, case.cone, depth, core, controller).to(on)
            ms = milliseconds(partial(layer.solve, test), on, warm_up, repeats) / test.batch
            key = ("synthetic", case.family, case.scale, depth, data.seed, name)
            rows.append(time_row(key, ms, on))
    return pd.DataFrame(rows)


def _layer(
    run: Run, data: InstanceSet, depth: int, core: tuple[float, float], settings: dict[str, Any]
) -> SolverLayer:
    built = run.method.build(data.A, data.case.cone, depth, core, settings.get("controller"))
    if run.checkpoint is None:
        return built
    return load_layer(run.checkpoint, built, _trained(data, run.recipe))


def _trained(data: InstanceSet, recipe: str) -> dict[str, Any]:
    return {"case": data.case.name, "seed": data.seed, "recipe": recipe}
