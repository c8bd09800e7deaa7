"""Trained layers of the benchmarks, as released with the code: no training needed."""

from __future__ import annotations

import warnings
from pathlib import Path

from rcdrs.artifact.config import load
from rcdrs.artifact.plan import PAPER, SCHEMA, Plan
from rcdrs.artifact.release import LAYER_SEED, LAYERS
from rcdrs.experiments.base import experiment_of
from rcdrs.experiments.dispatch import scenarios
from rcdrs.experiments.dispatch.scenarios import ScenarioSet
from rcdrs.experiments.synthetic.instances import InstanceSet, find_case, generate
from rcdrs.layer import RCDRSLayer

ROOT = Path(__file__).parents[2]


class NotReleased(ValueError):
    """There is no such trained layer among the released files."""


def pretrained(
    case: str,
    depth: int,
    method: str = "RCDRS-Env",
    recipe: str = "log_kkt",
    seed: int = LAYER_SEED,
    root: str | Path = ROOT,
) -> tuple[RCDRSLayer, InstanceSet | ScenarioSet]:
    """A trained layer and the instances that it was trained, validated and tested on.

    Arguments
        case: ``socp-hard``, ``mixed-small``, ``dispatch-inequality``, ...
        depth: the number of steps that it was trained for.
        method, recipe: RCDRS-Env or RCDRS-NoEnv; ``log_kkt`` or ``paper``.
        seed: of the instances, which decides A, and of the training.
        root: the checkout whose ``results/released`` is read.

    Example
        >>> layer, data = rcdrs.pretrained("socp-hard", depth=20)
        >>> solution = layer(data.test.program.b, data.test.program.c)
    """
    root = Path(root)
    if not (root / PAPER).exists():
        raise NotReleased(f"{root} is not a checkout: trained layers are released with the code.")
    if method not in LAYERS:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(LAYERS)}.")
    dispatch = experiment_of(case) == "dispatch"
    # An unknown case is an error here, before any file is looked for.
    formulation = scenarios.formulation_of(case) if dispatch else find_case(case).name
    plan = Plan.of(load(root / PAPER, schema=root / SCHEMA), root)
    name = f"checkpoints/{recipe}/{method}/{case}-{seed}-K{depth}.pt"
    state = plan.released.state(name, plan.digest(name))
    if state == "missing":
        raise NotReleased(_not_released(plan, name, f"checkpoints/{recipe}/{method}/{case}-"))
    plan.released.verify(name)
    if state == "stale":
        warnings.warn(
            f"{name} was trained by other code or settings than those of this checkout.",
            stacklevel=2,
        )
    path = plan.released.path(name)
    sizes = plan.experiment(case).sizes()
    if dispatch:
        days = scenarios.generate(seed, sizes, formulation)
        return RCDRSLayer.load(path, days.model.A, days.test.cone, depth), days
    data = generate(case, seed, sizes)
    return RCDRSLayer.load(path, data.A, data.case.cone, depth), data


def _not_released(plan: Plan, name: str, start: str) -> str:
    """What there is instead, and how to make it."""
    near = [entry.removeprefix(start) for entry in plan.released.entries if entry.startswith(start)]
    known = f" (of {start} there are: {', '.join(sorted(near))})" if near else ""
    return (
        f"{name} is not in {plan.released.folder}{known}: train it with "
        f"`snakemake --cores 2 {plan.folder}/{name}`, then load it with RCDRSLayer.load."
    )
