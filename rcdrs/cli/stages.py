"""The commands of the stages: each calls the stage of `engine` for the experiment that the given
instances are of.

Without ``--settings`` a stage takes those of the configuration.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from os.path import realpath
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import pandas as pd
import torch

from rcdrs.artifact.config import ROOT, checked
from rcdrs.artifact.digest import stage_digest
from rcdrs.artifact.key import Key, parse_end
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import note_of, write_origin
from rcdrs.artifact.runtime import claim
from rcdrs.experiments import engine
from rcdrs.experiments.base import Run, experiment_of, experiments
from rcdrs.experiments.engine import Asked
from rcdrs.experiments.instances import owner_of
from rcdrs.experiments.settings import PeersSettings, Plain
from rcdrs.files import check_place

T = TypeVar("T")


def instances(options: argparse.Namespace) -> None:
    name = experiment_of(options.case)
    _check_out(options, "instances", case=options.case, seed=options.seed)
    sizes = _settings(options, "instances", name)
    _timed(engine.make_instances, name, options.case, options.seed, sizes, options.out)
    print(f"wrote {options.out}")


def tune(options: argparse.Namespace) -> None:
    name = _name(options)
    _check_out(options, "cores", **_owner(options), K=options.depth)
    grid = _settings(options, "cores", name)
    _timed(engine.tune, name, options.instances, options.depth, grid, options.out)
    core = json.loads(options.out.read_text())
    for part in ("alpha", "beta"):
        low, high, value = min(grid[part]), max(grid[part]), core[part]
        if low < high and value in (low, high):
            edge = f"lies on the edge of its grid, {low:g} to {high:g}"
            told = f"warning: the selected {part} = {value:g} {edge}: a wider one may be better"
            print(told, file=sys.stderr)
    print(f"wrote {options.out}")


def train(options: argparse.Namespace) -> None:
    name, run = _name(options), Run(options.method, options.recipe)
    owner = _owner(options, options.core)
    _check_out(options, "checkpoints", **owner | run._asdict())
    _check_name(options.out, "checkpoints", seed=options.seed)
    if start := experiments()[name].start(run):
        for path in options.start:
            _check_name(path, "checkpoints", **owner | start._asdict())
    settings = _settings(options, "checkpoints", name, run)
    files = (name, options.instances, options.core)
    on, first = claim(device(options.device)), _only(options, "start")
    code = stage_digest("train_run", name)
    _timed(engine.train_run, *files, run, settings, options.seed, options.out, on, first, code)
    print(f"wrote {options.out}")


def reference(options: argparse.Namespace) -> None:
    name = _name(options)
    _check_out(options, "references", **_owner(options, options.core))
    steps = _settings(options, "references", name).get("steps", 0)
    _timed(engine.make_reference, name, options.instances, options.core, steps, options.out)
    print(f"wrote {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    name = _name(options)
    asked, owner = _asked(options, name)
    runs = {part: "+".join(getattr(one.run, part) for one in asked) for part in Run._fields}
    _check_out(options, "rows", ".npz", **owner | runs, experiment=name)
    for path in options.reference:
        _check_name(path, "references", **owner)
    settings = _settings(options, "rows", name, asked[0].run)
    files = (name, options.instances, options.core)
    on, compared = claim(device(options.device)), _only(options, "reference")
    rows, details = _timed(engine.evaluate, *files, asked, settings, on, compared)
    _show(rows, options, details)


def time(options: argparse.Namespace) -> None:
    name = _name(options)
    _check_out(options, "times", **_owner(options, *options.core))
    plan = Plan.read(ROOT, options.configfile)
    methods = options.method or plan.experiments[name].section.methods
    files = (name, options.instances, options.core)
    on, settings = claim(device(options.device)), _settings(options, "times", name)
    _show(_timed(engine.time_methods, *files, methods, settings, on), options)


def peers(options: argparse.Namespace) -> None:
    """The layers are those that are released; the cores are given."""
    from rcdrs.artifact.pretrained import released_layers
    from rcdrs.peers.measure import measure

    name, owner = _name(options), _owner(options, *options.core)
    case, seed = owner["case"], owner["seed"]
    _check_out(options, "peers", case=case, seed=seed)
    plan = Plan.read(ROOT, options.configfile)
    key = Key("peers", name, case, seed, universe=plan.config.peers.universe)
    given = plan.settings(key) if options.settings is None else options.settings
    settings = checked(PeersSettings, given).plain()
    data = engine.stages_of(name).load(options.instances)
    cores = [engine.read_core(path, data.owner) for path in options.core]
    layers = released_layers(plan, case, seed, key.universe)
    _show(_timed(measure, data, settings, {one.depth: one.pair for one in cores}, layers), options)


def trace(options: argparse.Namespace) -> None:
    _lines(options, "traces", engine.trace)


def shift(options: argparse.Namespace) -> None:
    _lines(options, "shifts", engine.shift)


def _lines(options: argparse.Namespace, kind: str, stage: Callable[..., pd.DataFrame]) -> None:
    """A stage that has many lines of each of its runs."""
    name = _name(options)
    asked, owner = _asked(options, name)
    _check_out(options, kind, **owner)
    settings = _settings(options, kind, name, asked[0].run)
    on = claim(device(options.device))
    files = (name, options.instances, options.core)
    _show(_timed(stage, *files, asked, settings, on), options)


def device(name: str = "auto") -> torch.device:
    """`auto` is CUDA where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device here: use cpu, or auto.")
    return torch.device(name)


def _name(options: argparse.Namespace) -> str:
    """The experiment that instances are of, unless another takes them."""
    name: str | None = options.experiment
    if name is None:
        name = experiment_of(owner_of(options.instances)["case"])
    if name not in experiments():
        raise ValueError(f"experiment is {name!r}, expected one of {', '.join(experiments())}.")
    return name


def _asked(options: argparse.Namespace, name: str) -> tuple[list[Asked], Plain]:
    """The runs of the command line, and what they are of; a checkpoint of a run's folder is called
    as it is used."""
    asked = [Asked.parse(text, name) for text in options.runs]
    owner = _owner(options, options.core)
    for run, checkpoint in asked:
        trained = experiments()[name].trained(run)
        if checkpoint is not None and trained is not None:
            _check_name(checkpoint, "checkpoints", **owner | trained._asdict())
    return asked, owner


def _owner(options: argparse.Namespace, *cores: Path) -> Plain:
    """Case and seed of the given instances, and the depth of the (last) core, also by the names of
    their files."""
    found = owner_of(options.instances)
    owner: Plain = {"case": found["case"], "seed": found["seed"]}
    _check_name(options.instances, "instances", **owner)
    for path in cores:
        owner["K"] = engine.read_core(path, found).depth
        _check_name(path, "cores", **owner)
    return owner


def _check_out(options: argparse.Namespace, kind: str, *beside: str, **owner: Any) -> None:
    """An error before any work for an output that could not be written, that would replace an
    input, or whose name is that of another result."""
    if options.out is None:
        return
    given = (getattr(options, name, None) for name in ("instances", "core", "start", "reference"))
    inputs = [path for one in given for path in (one if isinstance(one, list) else [one]) if path]
    for path in (options.out, *(options.out.with_suffix(suffix) for suffix in beside)):
        check_place(path)
        if realpath(path) in map(realpath, inputs):
            raise ValueError(f"{path} would be replaced, which is an input: write to another file.")
    _check_name(options.out, kind, **owner)


def _check_name(path: Path, kind: str, **owner: Any) -> None:
    """A file that is called as one of a run is just that; others may be called anything."""
    places = parse_end(path)
    if not places or (places["kind"] == "rows" and "method" not in places):
        return
    for name, value in ({"kind": kind} | owner).items():
        if places.get(name, value) != value:
            raise ValueError(
                f"{path} is called as a file with {name} {places[name]}, but this one is with "
                f"{name} {value}: take the right file, or another name."
            )


def _settings(
    options: argparse.Namespace, kind: str, experiment: str, run: Run | None = None
) -> Plain:
    """Those of the command line, or of the configuration."""
    method, recipe = run or Run("")
    if options.settings is not None:
        form = experiments()[experiment].form(kind, Run(method, recipe))
        return checked(form, options.settings).plain()
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
    beside = []
    if details is not None:
        beside = [options.out.with_suffix(".npz")]
        engine.write_details(details, *beside)
    engine.write_rows(rows, options.out)
    write_origin(options.out, options.stamp, str(device(options.device)), *beside)
    print(f"wrote {options.out}")
