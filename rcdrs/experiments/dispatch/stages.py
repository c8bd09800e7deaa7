"""The stages of the dispatch experiment, from file to file: what the verbs do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rcdrs.experiments.dispatch import optimum
from rcdrs.experiments.dispatch.methods import (
    CONTROLLER,
    METHODS,
    find_dispatch_method,
    make_recipe,
    select_core,
)
from rcdrs.experiments.dispatch.metrics import cost, cost_gap, operate
from rcdrs.experiments.dispatch.pictures import draw_schedules
from rcdrs.experiments.dispatch.scenarios import (
    EXPERIMENT,
    ScenarioSet,
    formulation_of,
    generate,
)
from rcdrs.experiments.staging import (
    Rows,
    Run,
    check_names,
    check_settings,
    check_training,
    load_layer,
    milliseconds,
    read_core,
    time_row,
    write_cores,
)
from rcdrs.files import replacing
from rcdrs.layer import SolverLayer
from rcdrs.solver.step import rollout
from rcdrs.training.loop import train


def make_instances(case: str, seed: int, sizes: dict[str, int] | None, out: Path) -> None:
    """`case` is ``dispatch-printed``, ``dispatch-turned`` or ``dispatch-inequality``."""
    generate(seed, sizes, formulation_of(case)).save(out)


def tune(instances: Path, depths: Iterable[int], out: Path, grid: dict[str, Any]) -> None:
    """Write the selected core of each depth; `grid` may have alphas, betas and scored."""
    data = ScenarioSet.load(instances)
    write_cores(lambda depth: select_core(data.validation, depth, **grid), depths, out)


def make_reference(instances: Path, cores: Path, depth: int, steps: int, out: Path) -> None:
    """Write what the test days cost by a long run and by the exact solver, as one .npz file.

    The long run is the paper's reference dispatch: `steps` steps of the core selected for `depth`.
    The optimum is NaN for a day that has none.
    """
    test = ScenarioSet.load(instances).test
    with torch.no_grad():
        long_run = rollout(test, *read_core(cores, depth), steps).z
    exact = optimum.solve(test).to(test.c)
    costs = {"reference": cost(test, long_run).numpy(), "optimum": cost(test, exact).numpy()}
    with replacing(out) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, allow_pickle=False, **costs)


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
    if not find_dispatch_method(method).learned:
        raise ValueError(f"{method} has nothing to train.")
    resume = check_training(out, settings)
    rules = make_recipe(recipe, settings.get("recipe", {}))
    data = ScenarioSet.load(instances).to(on)
    torch.manual_seed(seed)
    layer = _build(method, data, depth, read_core(cores, depth), settings.get("controller"))
    train(
        layer.to(on),
        data.train,
        data.validation,
        rules,
        seed,
        reference=None,
        curve=out.with_suffix(".csv"),
        resume=resume,
        label=f"{method} {data.case} K={depth}",
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
    reference: Path,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row of test means per run, and the same per instance, keyed ``METHOD@RECIPE/METRIC``.

    `reference` is the file of `make_reference`.  Days without an optimum do not count in OptGap.
    """
    check_settings(settings)
    runs = list(runs)
    names = [(run.method.name, run.recipe) for run in runs]
    check_names(names)
    data = ScenarioSet.load(instances).to(on)
    costs = _read_reference(reference, data)
    rows = Rows()
    for run, name in zip(runs, names, strict=True):
        layer = _layer(run, data, cores, depth, settings).to(on)
        rows.add(_key(data, depth, *name), evaluate(layer, data, costs), partial=("OptGap",))
    return rows.result()


@torch.no_grad()
def evaluate(layer: SolverLayer, data: ScenarioSet, costs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every metric of the dispatch tables, one value per test day."""
    z = layer.solve(data.test).x
    seen, value, best = operate(data.test, z), cost(data.test, z), costs["optimum"]
    return {
        "CostGap": cost_gap(value, costs["reference"]),
        **seen._asdict(),
        "Pass": seen.Pass,
        # Of either sign: an infeasible schedule may cost less than the best feasible one.
        "OptGap": (value - best).abs() / (1 + best.abs()),
    }


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
    data = ScenarioSet.load(instances).to(on)
    rows = []
    for depth in depths:
        core = read_core(cores, depth)
        for name in methods or METHODS:
            layer = _build(name, data, depth, core, controller).to(on)
            solve = partial(layer.solve, data.test)
            ms = milliseconds(solve, on, warm_up, repeats) / data.test.batch
            rows.append(time_row(_key(data, depth, name), ms, on))
    return pd.DataFrame(rows)


def draw_day(
    instances: Path,
    cores: Path,
    depth: int,
    runs: Iterable[Run],
    settings: dict[str, Any],
    day: int,
    out: Path,
) -> None:
    """Draw the schedules of one test day, of each run and the optimum if there is one."""
    check_settings(settings)
    data = ScenarioSet.load(instances)
    if day not in range(data.test.batch):
        raise ValueError(f"day is {day}, expected 0 to {data.test.batch - 1}.")
    program = data.test[day : day + 1]
    schedules = {}
    with torch.no_grad():
        for run in runs:
            layer = _layer(run, data, cores, depth, settings)
            schedules[f"{run.method.name}, K = {depth}"] = layer.solve(program).x[0]
    exact = optimum.solve(program)[0]
    if not exact.isnan().any():
        schedules["Optimum"] = exact.to(program.c)
    with replacing(out) as temporary:
        draw_schedules(program, schedules).savefig(temporary)


def _build(
    method: str,
    data: ScenarioSet,
    depth: int,
    core: tuple[float, float],
    controller: dict[str, Any] | None,
) -> SolverLayer:
    build = find_dispatch_method(method).build
    return build(data.model.A, data.test.cone, depth, core, CONTROLLER | (controller or {}))


def _layer(
    run: Run, data: ScenarioSet, cores: Path, depth: int, settings: dict[str, Any]
) -> SolverLayer:
    core, controller = read_core(cores, depth), settings.get("controller")
    built = _build(run.method.name, data, depth, core, controller)
    if run.checkpoint is None:
        return built
    return load_layer(run.checkpoint, built, _trained(data, run.recipe))


def _read_reference(path: Path, data: ScenarioSet) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as stored:
        costs = {name: torch.from_numpy(stored[name]).to(data.test.c) for name in stored.files}
    for name in ("reference", "optimum"):
        if name not in costs or len(costs[name]) != data.test.batch:
            raise ValueError(
                f"{path} does not hold the {name} costs of {data.test.batch} test days: make it "
                "with `rcdrs reference`."
            )
    return costs


def _trained(data: ScenarioSet, recipe: str) -> dict[str, Any]:
    return {"case": data.case, "seed": data.seed, "recipe": recipe}


def _key(data: ScenarioSet, depth: int, *name: str) -> tuple[Any, ...]:
    """The key columns of a row; the formulation is its scale."""
    return (EXPERIMENT, EXPERIMENT, data.model.formulation, depth, data.seed, *name)
