"""Trained layers of the benchmarks, as released with the code: no training needed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from rcdrs.artifact.config import ROOT
from rcdrs.artifact.key import parse
from rcdrs.artifact.manifest import RELEASED
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import LAYER_SEED, LAYERS
from rcdrs.baselines.registry import METHODS
from rcdrs.experiments.engine import stages_of
from rcdrs.layer import RCDRSLayer

#: The recipe of the layers that are compared with others.
LEARNED_BY = "log_kkt"


class NotReleased(ValueError):
    """There is no such trained layer among the released files."""


def pretrained(
    case: str,
    depth: int,
    method: str = "RCDRS-Env",
    recipe: str = "log_kkt",
    seed: int = LAYER_SEED,
    root: str | Path = ROOT,
    universe: str = "",
) -> tuple[RCDRSLayer, Any]:
    """A trained layer and the instances that it was trained, validated and tested on.

    Arguments
        case: ``socp-hard``, ``mixed-small``, ``dispatch-inequality``, ...
        depth: the number of steps that it was trained for.
        method, recipe: RCDRS-Env or RCDRS-NoEnv; ``log_kkt`` or ``paper``.
        seed: of the instances, which decides A, and of the training.
        root: the checkout whose ``results/released`` is read.
        universe: of the configuration: ``fair`` has layers that start from a core without an edge,
            Layerwise-DRS, RCDRS-Light, RCDRS-Glance and RCDRS-Anderson among them.

    Example
        >>> layer, data = rcdrs.pretrained("socp-hard", depth=20)
        >>> solution = layer(data.test.program.b, data.test.program.c)
    """
    if not (Path(root) / RELEASED).exists():
        raise NotReleased(f"{root} is not a checkout: trained layers are released with the code.")
    if method not in LAYERS:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(LAYERS)}.")
    plan = Plan.read(root)
    places = {"K": depth, "method": method, "recipe": recipe, "universe": universe}
    key = plan.key("checkpoints", case, seed, **places)
    experiment, stages = plan.experiment(key), stages_of(key.experiment)
    # An unknown case is an error here, before any file is looked for.
    data = stages.generate(case, seed, experiment.instances())
    state = plan.released.state(key, plan.digests(key))
    if state == "missing":
        raise NotReleased(_not_released(plan, key.path()))
    plan.released.verify(key.path())
    if state == "stale":
        warnings.warn(
            f"{key} was trained by other code or settings than those of this checkout.",
            stacklevel=2,
        )
    solver = stages.build(data, depth, (1.0, 1.0), method, experiment.solver(plan.runs(key)[0]))
    layer = METHODS[method].layer.load(plan.released.path(key), solver.A, solver.cone, depth)
    return layer, data


def released_layers(plan: Plan, case: str, seed: int, universe: str) -> dict[str, dict[int, Path]]:
    """The files of trained layers that are released and hold, by method and depth: those of a
    universe, and of methods that have none there, those of the configuration as it is."""
    found: dict[str, dict[int, Path]] = {}
    for within in (universe, ""):
        here: dict[str, dict[int, Path]] = {}
        for name in plan.released.entries:
            places = parse(name) if name.endswith(".pt") else {}
            wanted = {"case": case, "seed": seed, "recipe": LEARNED_BY, "universe": within}
            if places.items() >= wanted.items() and places["method"] in METHODS:
                key = plan.key(**places)
                if plan.released.holds(key, plan.known_digests(key)):
                    here.setdefault(key.method, {})[key.K] = plan.released.path(key)
        found = here | found
    return {method: dict(sorted(found[method].items())) for method in METHODS if method in found}


def _not_released(plan: Plan, name: str) -> str:
    """What there is instead, and how to make it."""
    start = name.rpartition("-K")[0].rpartition("-")[0] + "-"
    near = [entry.removeprefix(start) for entry in plan.released.entries if entry.startswith(start)]
    known = f" (of {start} there are: {', '.join(sorted(near))})" if near else ""
    return (
        f"{name} is not in {plan.released.folder}{known}: train it with "
        f"`snakemake --cores 2 {plan.folder}/{name}`, then load it with RCDRSLayer.load."
    )
