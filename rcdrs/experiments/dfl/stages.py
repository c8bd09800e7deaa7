"""The stages of the decision-focused experiment, from file to file: what the verbs do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rcdrs.baselines.registry import find_method
from rcdrs.experiments.dfl.data import CASE, CONE, Decisions, DecisionSet, generate
from rcdrs.experiments.dfl.exact import evaluate_exactly
from rcdrs.experiments.dfl.methods import (
    CONTROLLER,
    DECISION_METHODS,
    PRETRAINING,
    DecisionMethod,
    Run,
    check_recipe,
    evaluate,
    find_decision_method,
    select_core,
)
from rcdrs.experiments.dfl.model import DecisionModel
from rcdrs.experiments.staging import (
    Rows,
    check_names,
    check_settings,
    check_training,
    load_layer,
    milliseconds,
    read_core,
    time_row,
    write_cores,
)
from rcdrs.experiments.synthetic.stages import make_recipe
from rcdrs.layer import BASE_ACTION, Solution, SolverLayer, read_checkpoint, write_checkpoint
from rcdrs.training.loop import train


def make_instances(case: str, seed: int, sizes: dict[str, int] | None, out: Path) -> None:
    if case != CASE:
        raise ValueError(f"unknown case {case!r}, expected {CASE}.")
    generate(seed, sizes).save(out)


def tune(instances: Path, depths: Iterable[int], out: Path, grid: dict[str, Any]) -> None:
    """Write the selected core of each depth; `grid` may have alphas, betas and scored."""
    data = DecisionSet.load(instances)
    write_cores(lambda depth: select_core(data.validation, depth, **grid), depths, out)


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
    """Pretrain a controlled layer on the true costs, self-supervised, and write its checkpoint.

    `method` is that of the layer, RCDRS-Env or RCDRS-NoEnv.  `settings` may change the controller
    (``controller``) and the recipe (``recipe``).  The training curve goes beside the checkpoint.
    """
    resume = check_training(out, settings)
    layers = sorted({found.layer for found in DECISION_METHODS.values() if found.controlled})
    if method not in layers:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(layers)}.")
    changes = PRETRAINING.get(recipe, {}) | settings.get("recipe", {})
    rules, reference = make_recipe(recipe, changes)
    data = DecisionSet.load(instances).to(on)
    core = read_core(cores, depth)
    torch.manual_seed(seed)
    controller = CONTROLLER | settings.get("controller", {})
    layer = find_method(method).build(data.A, CONE, depth, core, controller).to(on)
    train(
        layer,
        data.train.program,
        data.validation.program,
        rules,
        seed,
        reference=core if reference == "tuned" else (BASE_ACTION[1], BASE_ACTION[2]),
        curve=out.with_suffix(".csv"),
        resume=resume,
        label=f"{method} dfl K={depth}",
    )
    layer.save(out, trained=_trained(data, recipe))
    resume.unlink(missing_ok=True)


def train_model(
    instances: Path,
    cores: Path,
    depth: int,
    method: str,
    recipe: str,
    seed: int,
    out: Path,
    settings: dict[str, Any],
    on: torch.device,
    pretrained: Path | None = None,
) -> None:
    """Train the predictor of one method, with its layer unless frozen, and write both.

    `pretrained` is the checkpoint of the controller, for the methods that have one; `recipe` is
    how it was pretrained.  `settings` may change the controller (``controller``) and the
    predictor's training (``recipe``).
    """
    found = find_decision_method(method)
    check_recipe(found, recipe)
    resume = check_training(out, settings)
    if found.controlled != (pretrained is not None):
        expected = "a checkpoint of its controller" if found.controlled else "none"
        raise ValueError(f"pretrained is {pretrained}, expected {expected} for {method}.")
    data = DecisionSet.load(instances).to(on)
    layer = _build_layer(found, data, cores, depth, settings)
    if pretrained is not None:
        layer = load_layer(pretrained, layer, _trained(data, recipe))
    torch.manual_seed(seed)
    model = found.model(layer).to(on)
    train(
        model,
        data.train,
        data.validation,
        found.recipe(settings.get("recipe", {})),
        seed,
        reference=None,
        curve=out.with_suffix(".csv"),
        resume=resume,
        label=f"{method} K={depth}",
    )
    config = {"method": method, "depth": depth, "options": model.options()}
    config["trained"] = _trained(data, recipe)
    write_checkpoint(out, config, model.state_dict())
    resume.unlink(missing_ok=True)


def evaluate_runs(
    instances: Path,
    cores: Path,
    depth: int,
    runs: Iterable[Run],
    settings: dict[str, Any],
    on: torch.device,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row of test means per run, and the same per instance, keyed ``METHOD@RECIPE/METRIC``.

    Instances that the exact solver did not solve are left out of its means.
    """
    check_settings(settings)
    runs = list(runs)
    check_names([(run.name, run.recipe) for run in runs])
    data = DecisionSet.load(instances).to(on)
    rows = Rows()
    for run in runs:
        model = _load_model(run, data, cores, depth, settings)
        measure = evaluate_exactly if run.exact else evaluate
        metrics = measure(model.to(on), data.test)
        key = (*_key(data, depth, run.name), run.recipe)
        rows.add(key, metrics, partial=metrics if run.exact else ())
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
    """Milliseconds per instance from features to decisions on the whole test split.

    All methods by default.  Weights do not change the time, so everything runs untrained.
    """
    data = DecisionSet.load(instances).to(on)
    rows = []
    for depth in depths:
        for name in methods or DECISION_METHODS:
            method = find_decision_method(name)
            layer = _build_layer(method, data, cores, depth, {"controller": controller or {}})
            solve = partial(_decide, method.model(layer).to(on), data.test)
            ms = milliseconds(solve, on, warm_up, repeats) / data.test.batch
            rows.append(time_row(_key(data, depth, name), ms, on))
    return pd.DataFrame(rows)


def _decide(model: DecisionModel, given: Decisions) -> Solution:
    return model.solve(given).solution


def _build_layer(
    method: DecisionMethod, data: DecisionSet, cores: Path, depth: int, settings: dict[str, Any]
) -> SolverLayer:
    core = read_core(cores, depth)
    return method.build_layer(data.A, depth, core, settings.get("controller", {}))


def _load_model(
    run: Run, data: DecisionSet, cores: Path, depth: int, settings: dict[str, Any]
) -> DecisionModel:
    """The trained model of a run, which must have been trained for just this."""
    config, weights = read_checkpoint(run.checkpoint)
    _compare(run.checkpoint, "holds method", config.get("method"), run.method.name)
    _compare(run.checkpoint, "holds depth", config.get("depth"), depth)
    _compare(run.checkpoint, "was trained for", config["trained"], _trained(data, run.recipe))
    model = run.method.model(_build_layer(run.method, data, cores, depth, settings))
    expected = json.loads(json.dumps(model.options()))
    _compare(run.checkpoint, "was trained with", config["options"], expected)
    model.load_state_dict(weights)
    return model


def _compare(path: Path, what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise ValueError(f"{path} {what} {found}, expected {expected}.")


def _trained(data: DecisionSet, recipe: str) -> dict[str, Any]:
    return {"case": CASE, "seed": data.seed, "recipe": recipe}


def _key(data: DecisionSet, depth: int, method: str) -> tuple[Any, ...]:
    """The key of a row but its recipe; the experiment has one family and one scale."""
    return ("dfl", CASE, "-", depth, data.seed, method)
