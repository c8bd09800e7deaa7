"""The commands of the stages: each calls the stage of `engine` for the experiment that the given
instances are of.

Without ``--settings`` a stage takes those of the configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import pandas as pd
import torch

from rcdrs.artifact.config import ROOT, checked
from rcdrs.artifact.digest import stage_digest
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import note_of, write_origin
from rcdrs.artifact.runtime import claim
from rcdrs.experiments import engine
from rcdrs.experiments.base import Run, experiment_of, experiments
from rcdrs.experiments.engine import Asked
from rcdrs.experiments.instances import case_of
from rcdrs.experiments.settings import Grid, Plain

T = TypeVar("T")


def instances(options: argparse.Namespace) -> None:
    name = experiment_of(options.case)
    sizes = _settings(options, "instances", name)
    _timed(engine.make_instances, name, options.case, options.seed, sizes, options.out)
    print(f"wrote {options.out}")


def tune(options: argparse.Namespace) -> None:
    name = _name(options)
    grid = checked(Grid, _settings(options, "cores", name)).plain()
    _timed(engine.tune, name, options.instances, options.depth, grid, options.out)
    print(f"wrote {options.out}")


def train(options: argparse.Namespace) -> None:
    name, run = _name(options), Run(options.method, options.recipe)
    settings = _settings(options, "checkpoints", name, run)
    files = (name, options.instances, options.core)
    on, start = claim(device(options.device)), _only(options, "start")
    code = stage_digest("train_run", name)
    _timed(engine.train_run, *files, run, settings, options.seed, options.out, on, start, code)
    print(f"wrote {options.out}")


def reference(options: argparse.Namespace) -> None:
    name = _name(options)
    settings = _settings(options, "references", name)
    steps = settings.get("steps", 0)
    if experiments()[name].reference and steps < 1:
        raise ValueError(f"settings: steps is {steps}, expected at least 1.")
    _timed(engine.make_reference, name, options.instances, options.core, steps, options.out)
    print(f"wrote {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    name = _name(options)
    asked = [Asked.parse(text, name) for text in options.runs]
    settings = _settings(options, "rows", name, asked[0].run)
    files = (name, options.instances, options.core)
    on, compared = claim(device(options.device)), _only(options, "reference")
    rows, details = _timed(engine.evaluate, *files, asked, settings, on, compared)
    _show(rows, options, details)


def time(options: argparse.Namespace) -> None:
    name = _name(options)
    plan = Plan.read(ROOT, options.configfile)
    methods = options.method or plan.experiments[name].section.methods
    files = (name, options.instances, options.core)
    on, settings = claim(device(options.device)), _settings(options, "times", name)
    _show(_timed(engine.time_methods, *files, methods, settings, on), options)


def trace(options: argparse.Namespace) -> None:
    name = _name(options)
    asked = [Asked.parse(text, name) for text in options.runs]
    settings = _settings(options, "traces", name, asked[0].run)
    on = claim(device(options.device))
    files = (name, options.instances, options.core)
    _show(_timed(engine.trace, *files, asked, settings, on), options)


def device(name: str = "auto") -> torch.device:
    """`auto` is CUDA where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device here.")
    return torch.device(name)


def _name(options: argparse.Namespace) -> str:
    """The experiment that instances are of, unless another takes them."""
    name: str = options.experiment or experiment_of(case_of(options.instances))
    if name not in experiments():
        raise ValueError(f"experiment is {name!r}, expected one of {', '.join(experiments())}.")
    return name


def _settings(
    options: argparse.Namespace, kind: str, experiment: str, run: Run | None = None
) -> Plain:
    """Those of the command line, or of the configuration."""
    if options.settings is not None:
        given: Plain = options.settings
        return given
    method, recipe = run or Run("")
    key = Key(kind, experiment, "", 0, 0, method, recipe)
    return Plan.read(ROOT, options.configfile).settings(key)


def _only(options: argparse.Namespace, name: str) -> Path | None:
    """The one file of an option that takes at most one."""
    files: list[Path] = getattr(options, name)
    if len(files) > 1:
        raise ValueError(f"{name} has {len(files)} files, expected at most one.")
    return files[0] if files else None


def _timed(stage: Callable[..., T], *arguments: Any) -> T:
    """Run a stage and say how long it alone took: the rest of a job is start and imports."""
    started = perf_counter()
    result = stage(*arguments)
    print(f"{stage.__name__} took {perf_counter() - started:.2f} s", file=sys.stderr)
    return result


def _show(
    rows: pd.DataFrame, options: argparse.Namespace, details: dict[str, Any] | None = None
) -> None:
    """To the file, with where it comes from beside it, or to the terminal where none is named."""
    if options.out is None:
        print(rows.to_string(index=False, float_format="{:.3g}".format))
        return
    # A note of what was there before would not fit the new files.
    note_of(options.out).unlink(missing_ok=True)
    beside = [] if details is None else [options.out.with_suffix(".npz")]
    for path in beside:
        engine.write_details(details or {}, path)
    engine.write_rows(rows, options.out)
    write_origin(options.out, options.stamp, str(device(options.device)), *beside)
    print(f"wrote {options.out}")
