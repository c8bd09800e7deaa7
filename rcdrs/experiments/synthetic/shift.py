"""Layers on other data than their own: another A, scale, magnitude, condition number or depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from rcdrs.experiments.base import Run
from rcdrs.experiments.sampling import Sampling, find_sampling, taken_apart
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic import layers
from rcdrs.experiments.synthetic.instances import CASES, InstanceSet, draw
from rcdrs.layer import SolverLayer
from rcdrs.training.loop import train

#: The open loop that is trained for the other data as well.
SCHEDULE = Run("Layerwise-DRS", "log_kkt")
METRICS = ("Gap", "Dist", "r_p", "r_d", "r_gap")


class Target(NamedTuple):
    """Instances that a layer is tried on, and for how many steps."""

    name: str
    data: InstanceSet
    depth: int


def targets(data: InstanceSet, depth: int, settings: Plain) -> Iterator[Target]:
    """Those of one layer: first its own."""
    sizes, name = taken_apart(settings["instances"])
    sampling, case = find_sampling(name), data.case

    def drawn(sampling: Sampling, **changes: Any) -> InstanceSet:
        return draw(data.meta | changes, sizes, sampling, data.A.dtype).to(data.A.device)

    yield Target("home", data, depth)
    yield Target("another A", drawn(sampling, seed=data.seed + 1), depth)
    for other in CASES.values():
        if other.family == case.family and other.scale != case.scale:
            yield Target(f"scale {other.scale}", drawn(sampling, case=other.name), depth)
    size, condition = settings["shifts"]["magnitude"], settings["shifts"]["condition"]
    for part in ("x", "s", "y"):
        for sign, factor in (("times", size), ("over", 1 / size)):
            yield Target(f"{part} {sign} {size:g}", drawn(sampling.scaled(**{part: factor})), depth)
    for sign, factor in (("times", condition), ("over", 1 / condition)):
        changed = drawn(replace(sampling, condition=factor))
        yield Target(f"condition {sign} {condition:g}", changed, depth)
    for other_depth in settings["depths"]:
        if other_depth != depth:
            yield Target(f"K {other_depth}", data, other_depth)


def shift(
    solvers: Iterable[tuple[Run, SolverLayer]],
    data: InstanceSet,
    core: tuple[float, float],
    depth: int,
    settings: Plain,
) -> Iterator[Plain]:
    """Test means of trained layers on each target, of the core, and of core and schedule of there.

    The columns are method, recipe, `target`, `tuned` (at home or there) and the metrics.
    """
    trained = list(solvers)
    for target in targets(data, depth, settings):

        def line(run: Run, tuned: str, layer: SolverLayer, at: Target = target) -> Plain:
            found = layers.measure(layer, at.data.test, at.depth)
            means = {metric: float(found[metric].double().mean()) for metric in METRICS}
            median = float(found["Dist"].double().median())
            return run._asdict() | {"target": at.name, "tuned": tuned} | means | {"median": median}

        def build(method: str, steps: int, core: tuple[float, float], at: Target = target) -> Any:
            return layers.build(at.data, steps, core, method, settings).to(data.A.device)

        yield line(Run("Grid-DRS", "-"), "home", build("Grid-DRS", depth, core))
        for run, layer in trained:
            moved = build(run.method, depth, core)
            moved.load_state_dict(layer.state_dict())
            yield line(run, "home", moved)
        grid = settings["grid"]
        options = {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}
        there = layers.tune(target.data, target.depth, **options)
        yield line(Run("Grid-DRS", "-"), "there", build("Grid-DRS", target.depth, there))
        torch.manual_seed(data.seed)
        schedule = build(SCHEDULE.method, target.depth, there)
        lesson = layers.lesson(target.data, SCHEDULE, there, settings)
        train(schedule, lesson.train, lesson.validation, lesson.recipe, data.seed, reference=None)
        yield line(SCHEDULE, "there", schedule)
