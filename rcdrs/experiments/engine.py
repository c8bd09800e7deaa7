"""The stages of every experiment, from file to file: instances, tune, train, evaluate, ...

What differs between experiments are the functions of their `stages` modules:

    generate(case, seed, settings)             instances: a `Dataset`
    load(path)                                 the same from a file
    tune(data, depth, alphas, betas, scored)   the fixed core (alpha, beta)
    build(data, depth, core, method, settings) the solver of a method, untrained
    lesson(data, run, core, settings)          what it is trained on, and how
    evaluate(solver, data, method, reference)  metrics, one value per test instance; and the names
                                               of those that not every instance has
    solve(solver, data)                        the test split, as it is timed
    reference(data, core, steps)               arrays that rows compare with
    trace(solvers, data)                       lines of what the report shows of solvers
    shift(solvers, data, core, depth, settings)  lines of how they do on other data

Not every experiment has all of them.  `METHODS` are those that can be evaluated, `SETTINGS` the
names of what `build` takes from its settings.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from rcdrs.experiments.base import Run, experiments
from rcdrs.experiments.instances import shown
from rcdrs.experiments.sampling import noted
from rcdrs.experiments.settings import Plain, Timing
from rcdrs.files import (
    load_weights,
    read_json,
    replacing,
    sha256,
    write_arrays,
    write_checkpoint,
    write_json,
)
from rcdrs.layer import check_core
from rcdrs.training.loop import train

#: Columns that say which run a row of a seed-level CSV is.
KEYS = ("experiment", "family", "scale", "K", "seed", "method", "recipe")
#: Recipe, in a row, of a method that learns nothing.
NOT_LEARNED = "-"


class Core(NamedTuple):
    """The fixed core selected for one depth."""

    depth: int
    alpha: float
    beta: float

    @property
    def pair(self) -> tuple[float, float]:
        return self.alpha, self.beta


class Asked(NamedTuple):
    """A run, and for a trained one its checkpoint."""

    run: Run
    checkpoint: Path | None = None

    @staticmethod
    def parse(text: str, experiment: str) -> Asked:
        """``METHOD``, or ``METHOD@RECIPE=CHECKPOINT`` of a method that is trained."""
        name, _, path = text.partition("=")
        method, _, recipe = name.partition("@")
        check_method(experiment, method)
        run, kind = Run(method, recipe or "paper"), experiments()[experiment]
        kind.check(run)
        learned = kind.trained(run) is not None
        if not (recipe and path if learned else text == method):
            shape = f"{method}@RECIPE=CHECKPOINT" if learned else method
            raise ValueError(f"{text!r} does not fit {method}, expected {shape}.")
        return Asked(run, Path(path) if learned else None)


class Given:
    """What a stage after `tune` is given: instances, the core of one depth, and its settings."""

    def __init__(
        self, stages: Any, instances: Path, core: Path, settings: Plain, on: torch.device
    ) -> None:
        self.stages, self.settings, self.on = stages, settings, on
        self.data = stages.load(instances).to(on)
        self.core = read_core(core, self.data.owner)

    def solver(self, method: str) -> Any:
        """Untrained."""
        core = self.core
        solver = self.stages.build(self.data, core.depth, core.pair, method, self.settings)
        return solver.to(self.on)

    def trained_solver(self, asked: Asked) -> Any:
        """The solver of a run, with the weights of its checkpoint."""
        solver = self.solver(asked.run.method)
        if asked.checkpoint is not None:
            load_weights(solver, asked.checkpoint, self.purpose(asked.run))
        return solver

    def purpose(self, run: Run) -> Plain:
        """What a checkpoint says that it was trained for."""
        return self.data.owner | {"recipe": run.recipe}

    def row(self, experiment: str, method: str, recipe: str) -> Plain:
        where = (*self.data.columns, self.core.depth, self.data.seed)
        return dict(zip(KEYS, (experiment, *where, method, recipe), strict=True))


def stages_of(experiment: str, needed: str = "build") -> Any:
    """The `stages` module of an experiment, in which there must be what is needed."""
    stages = import_module(f"rcdrs.experiments.{experiment}.stages")
    if not hasattr(stages, needed):
        raise ValueError(
            f"experiment is {experiment!r}, whose stages have no {needed!r}: leave --experiment "
            "out for that of the instances."
        )
    return stages


def check_method(experiment: str, name: str) -> None:
    known = stages_of(experiment).METHODS
    if known and name not in known:
        raise ValueError(f"unknown method {name!r}, expected one of {', '.join(known)}.")


def check_settings(settings: Plain, *expected: str) -> None:
    """A stage is told all that its numbers depend on, and nothing else."""
    unknown, missing = settings.keys() - set(expected), set(expected) - settings.keys()
    for problem, names in (("unknown", unknown), ("missing", missing)):
        if names:
            found = ", ".join(map(repr, sorted(names)))
            raise ValueError(f"settings: {problem} {found}, expected {', '.join(expected)}.")


def make_instances(experiment: str, case: str, seed: int, settings: Plain, out: Path) -> None:
    stages_of(experiment).generate(case, seed, settings).save(out)


def tune(experiment: str, instances: Path, depth: int, grid: Plain, out: Path) -> None:
    """Write the core selected for one depth."""
    check_settings(grid, "alpha", "beta", "instances")
    stages = stages_of(experiment, "tune")
    data = stages.load(instances)
    options = {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}
    alpha, beta = stages.tune(data, depth, **options)
    write_json(out, data.owner | {"depth": depth, "alpha": alpha, "beta": beta})


def read_core(path: Path, owner: Plain) -> Core:
    """What `tune` wrote, for the instances of this owner."""
    try:
        core = read_json(path, ("case", "seed", "sampling", *Core._fields))
        found = Core(int(core["depth"]), *check_core(float(core["alpha"]), float(core["beta"])))
        tuned = {"case": core["case"], "seed": core["seed"]} | noted(core.get("sampling", "first"))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} does not hold a tuned core ({error!r}): make it with `rcdrs tune`."
        ) from error
    if tuned != owner:
        raise ValueError(
            f"{path} holds the core of {shown(tuned)}, expected {shown(owner)}: make it with "
            "`rcdrs tune`."
        )
    return found


def train_run(
    experiment: str,
    instances: Path,
    core: Path,
    run: Run,
    settings: Plain,
    seed: int,
    out: Path,
    on: torch.device,
    start: Path | None = None,
    code: str = "",
) -> None:
    """Train the solver of a run and write its checkpoint, with the training curve as CSV beside it.

    `start` is the checkpoint of the layer inside, for a run that begins with a trained one.  An
    unfinished training goes on if it was of the same data, settings and `code`, a digest.
    """
    stages, kind = stages_of(experiment), experiments()[experiment]
    if kind.trained(run) != run:
        check_method(experiment, run.method)
        raise ValueError(f"{run.method} has nothing to train.")
    kind.check(run)
    check_settings(settings, *stages.SETTINGS, "recipe")
    if (kind.start(run) is None) != (start is None):
        expected = f"a checkpoint of {kind.start(run)}" if start is None else "none"
        raise ValueError(f"start is {start}, expected {expected} for {run.method}.")
    if out.suffix != ".pt":
        raise ValueError(f"out is {out}, expected a name that ends in .pt.")
    given = Given(stages, instances, core, settings, on)
    curve, resume = out.with_suffix(".csv"), out.with_suffix(".resume")
    torch.manual_seed(seed)
    solver = given.solver(run.method)
    if start is not None:
        load_weights(solver.layer, start, given.purpose(run))
    lesson = stages.lesson(given.data, run, given.core.pair, settings)
    train(
        solver,
        lesson.train,
        lesson.validation,
        lesson.recipe,
        seed,
        reference=lesson.reference,
        curve=curve,
        resume=resume,
        label=f"{run} {given.purpose(run)['case']} K={given.core.depth}",
        code=code,
    )
    config = solver.describe() | {"trained": given.purpose(run), "curve": sha256(curve)}
    write_checkpoint(out, config, solver.state_dict())
    resume.unlink(missing_ok=True)


def make_reference(experiment: str, instances: Path, core: Path, steps: int, out: Path) -> None:
    """Write what rows compare with, as one .npz file."""
    if not experiments()[experiment].reference:
        raise ValueError(f"{instances} is of {experiment}, whose rows compare with no reference.")
    stages = stages_of(experiment, "reference")
    data = stages.load(instances)
    arrays = stages.reference(data, read_core(core, data.owner).pair, steps)
    write_arrays(out, arrays | {"meta": np.array(json.dumps(data.owner))})


def evaluate(
    experiment: str,
    instances: Path,
    core: Path,
    asked: Iterable[Asked],
    settings: Plain,
    on: torch.device,
    reference: Path | None = None,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row of test means per run, and the same per instance, keyed ``METHOD@RECIPE/METRIC``.

    Of some metrics, instances without a value (NaN) do not count in the mean.
    """
    stages = stages_of(experiment)
    check_settings(settings, *stages.SETTINGS)
    given = Given(stages, instances, core, settings, on)
    rows: list[Plain] = []
    details: dict[str, np.ndarray] = {}
    for one in asked:
        solver = given.trained_solver(one)
        metrics, incomplete = stages.evaluate(solver, given.data, one.run.method, reference)
        recipe = NOT_LEARNED if one.checkpoint is None else one.run.recipe
        row = given.row(experiment, one.run.method, recipe)
        for metric, values in metrics.items():
            name = f"{one.run.method}@{recipe}/{metric}"
            if name in details:
                raise ValueError(f"{one.run} is asked for twice: evaluate each run once.")
            mean = torch.nanmean if metric in incomplete else torch.mean
            row[metric] = float(mean(values.double()))
            details[name] = values.cpu().float().numpy()
        rows.append(row)
    return pd.DataFrame(rows), details


def time_methods(
    experiment: str,
    instances: Path,
    cores: Iterable[Path],
    methods: Iterable[str],
    settings: Plain,
    on: torch.device,
) -> pd.DataFrame:
    """Milliseconds per instance of inference on the whole test split, at the depth of each core.

    Weights do not change the time, so learned methods run untrained.
    """
    stages = stages_of(experiment, "solve")
    check_settings(settings, *stages.SETTINGS, *Timing.model_fields)
    rows, methods, cores = [], list(methods), list(cores)
    for asked in (methods, cores):
        if len(set(asked)) < len(asked):
            raise ValueError(
                f"one is asked for twice in {', '.join(map(str, asked))}: name each once."
            )
    for core in cores:
        given = Given(stages, instances, core, settings, on)
        for method in methods:
            solve = partial(stages.solve, given.solver(method), given.data)
            ms = milliseconds(solve, on, settings["warm_up"], settings["repeats"])
            key = given.row(experiment, method, NOT_LEARNED)
            del key["recipe"]
            rows.append(key | {"time_ms": ms / given.data.test.batch, "device": str(on)})
    return pd.DataFrame(rows)


def trace(
    experiment: str,
    instances: Path,
    core: Path,
    asked: Iterable[Asked],
    settings: Plain,
    on: torch.device,
) -> pd.DataFrame:
    """What the report shows of solvers: their actions along the rollout, or a day's schedules."""
    stages = stages_of(experiment, "trace")
    check_settings(settings, *stages.SETTINGS)
    given = Given(stages, instances, core, settings, on)
    solvers = [
        (given.row("trace", *one.run), one.checkpoint, given.trained_solver(one)) for one in asked
    ]
    with torch.no_grad():
        return pd.DataFrame(stages.trace(solvers, given.data))


def shift(
    experiment: str,
    instances: Path,
    core: Path,
    asked: Iterable[Asked],
    settings: Plain,
    on: torch.device,
) -> pd.DataFrame:
    """Trained solvers on other data than their own, a line for each and every target."""
    stages = stages_of(experiment, "shift")
    given = Given(stages, instances, core, settings, on)
    solvers = [(one.run, given.trained_solver(one)) for one in asked]
    lines = stages.shift(solvers, given.data, given.core.pair, given.core.depth, settings)
    return pd.DataFrame([given.row("shift", "", "") | line for line in lines])


def write_rows(rows: pd.DataFrame, out: Path) -> None:
    with replacing(out) as temporary:
        rows.to_csv(temporary, index=False)


def write_details(details: dict[str, np.ndarray], out: Path) -> None:
    write_arrays(out, details, compressed=True)


def milliseconds(solve: Callable[[], Any], on: torch.device, warm_up: int, repeats: int) -> float:
    """Mean time of `solve` without gradients, after some passes to warm up."""
    seconds = []
    for _ in range(warm_up + repeats):
        _synchronize(on)
        start = clock.perf_counter()
        with torch.no_grad():
            solve()
        _synchronize(on)
        seconds.append(clock.perf_counter() - start)
    return 1000 * float(np.mean(seconds[warm_up:]))


def _synchronize(on: torch.device) -> None:
    if on.type == "cuda":
        torch.cuda.synchronize(on)
