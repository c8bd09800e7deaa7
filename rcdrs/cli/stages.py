"""The verbs of the stages, for every experiment: each calls the function of the same stage in the
module of the experiment that the given instances are of.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import pandas as pd

from rcdrs.artifact.release import origin
from rcdrs.artifact.runtime import claim
from rcdrs.experiments.base import EXPERIMENTS, experiment_of
from rcdrs.experiments.instances import case_of
from rcdrs.experiments.staging import device, write_details, write_rows
from rcdrs.files import replacing

T = TypeVar("T")


def instances(options: argparse.Namespace) -> None:
    make = _stages(options.case).make_instances
    _timed(make, options.case, options.seed, options.sizes, options.out)
    print(f"wrote {options.out}")


def tune(options: argparse.Namespace) -> None:
    stages = _stages(case_of(options.instances))
    _timed(stages.tune, options.instances, options.depth, options.out, options.grid)
    print(f"wrote {options.out}")


def train(options: argparse.Namespace) -> None:
    _train(options, "train_layer")


def learn(options: argparse.Namespace) -> None:
    if len(options.pretrained) > 1:
        raise ValueError(f"pretrained has {len(options.pretrained)} files, expected at most one.")
    _train(options, "train_model", *(options.pretrained or [None]))


def _train(options: argparse.Namespace, stage: str, *more: Any) -> None:
    case = case_of(options.instances)
    run = getattr(_stages(case), stage, None)
    if run is None:
        raise ValueError(f"{options.instances} holds instances of {case}: nothing to learn there.")
    _timed(
        run,
        options.instances,
        options.cores,
        options.depth,
        options.method,
        options.recipe,
        options.seed,
        options.out,
        options.settings,
        claim(device(options.device)),
        *more,
    )
    print(f"wrote {options.out}")


def reference(options: argparse.Namespace) -> None:
    make = _dispatch(options.instances).make_reference
    _timed(make, options.instances, options.cores, options.depth, options.steps, options.out)
    print(f"wrote {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    stages = _stages(case_of(options.instances))
    # What only some experiments take.
    more = {name: getattr(options, name) for name in ("experiment", "label", "reference")}
    rows, details = _timed(
        stages.evaluate_runs,
        options.instances,
        options.cores,
        options.depth,
        [stages.Run.parse(text) for text in options.runs],
        options.settings,
        claim(device(options.device)),
        **{name: value for name, value in more.items() if value is not None},
    )
    _show(rows, options)
    if options.details is not None:
        write_details(details, options.details)


def time(options: argparse.Namespace) -> None:
    stages = _stages(case_of(options.instances))
    rows = _timed(
        stages.time_methods,
        options.instances,
        options.cores,
        options.depth,
        options.method,
        claim(device(options.device)),
        options.warm_up,
        options.repeats,
        options.settings.get("controller"),
    )
    _show(rows, options)


def trace(options: argparse.Namespace) -> None:
    """What the report shows of trained layers: their actions, or a day's schedules."""
    case = case_of(options.instances)
    from rcdrs.experiments.dispatch.trace import trace_day
    from rcdrs.experiments.synthetic.trace import trace_runs

    rows = _timed(
        trace_day if experiment_of(case) == "dispatch" else trace_runs,
        options.instances,
        options.cores,
        options.depth,
        [_stages(case).Run.parse(text) for text in options.runs],
        options.settings,
        claim(device(options.device)),
    )
    _show(rows, options)


def draw(options: argparse.Namespace) -> None:
    stages = _dispatch(options.instances)
    runs = [stages.Run.parse(text) for text in options.runs]
    files = (options.instances, options.cores, options.depth)
    _timed(stages.draw_day, *files, runs, options.settings, options.day, options.out)
    print(f"wrote {options.out}")


def _dispatch(instances: Path) -> Any:
    """The stages of dispatch; other experiments do not have all of them."""
    case = case_of(instances)
    if experiment_of(case) != "dispatch":
        raise ValueError(f"{instances} holds instances of {case}, expected dispatch.")
    return _stages(case)


def _stages(case: str) -> Any:
    """The module with the stages of the experiment that the case is of."""
    return import_module(EXPERIMENTS[experiment_of(case)].module)


def _timed(stage: Callable[..., T], *arguments: Any, **more: Any) -> T:
    """Run a stage and say how long it alone took: the rest of a job is start and imports."""
    started = perf_counter()
    result = stage(*arguments, **more)
    print(f"{stage.__name__} took {perf_counter() - started:.2f} s", file=sys.stderr)
    return result


def _show(rows: pd.DataFrame, options: argparse.Namespace) -> None:
    """To the file, with where it comes from beside it, or to the terminal where none is named."""
    if options.out is None:
        print(rows.to_string(index=False, float_format="{:.3g}".format))
        return
    out: Path = options.out
    write_rows(rows, out)
    source = origin(options.stamp, str(device(options.device)))
    with replacing(out.with_suffix(".origin.json")) as temporary:
        temporary.write_text(json.dumps(source, indent=1) + "\n")
    print(f"wrote {out}")
