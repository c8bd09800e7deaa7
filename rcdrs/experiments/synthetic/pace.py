"""Learned methods against the fixed core given the same time, on validation data.

    pace  = time of a method / time of the core, both with K steps
    ratio = score of the method / score of the core with pace K steps

The score is that by which cores are selected: of a method with its best learning rate (`rates`), of
the core with the pair selected for so many steps, its logarithm linear between whole numbers of
steps.  Times are medians of processor time on this machine, for all validation instances at once:
other work beside it hardly moves them.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import median
from time import process_time

import pandas as pd
import torch

from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.synthetic import layers, stages
from rcdrs.experiments.synthetic.experiment import is_feedback
from rcdrs.experiments.synthetic.rates import at_best, validated
from rcdrs.layer import SolverLayer

CORE = "Grid-DRS"
#: Timed passes of each, after one that is not.
PASSES = 15
#: The core is not run for longer: a method that takes more time is compared with so many steps.
MOST = 200


def paces(experiment: base.Experiment, scores: pd.DataFrame) -> pd.DataFrame:
    """By method and recipe: pace and ratio, as geometric means over settings, and in how many of
    these it is no worse than the core; the lowest ratio first."""
    lines = []
    for (case, K), here in at_best(scores).groupby(["case", "K"]):
        setting = Setting(experiment, str(case), int(str(K)))
        pace = {method: setting.pace(method) for method in here["method"].unique()}
        for line in here.to_dict("records"):
            faster = setting.score(pace[line["method"]] * setting.depth)
            lines.append(line | {"pace": pace[line["method"]], "ratio": line["score"] / faster})
    found = pd.DataFrame(lines)
    found["no_worse"] = found["ratio"] <= 1
    by_run = found.groupby(["method", "recipe"])
    means = by_run[["pace", "ratio"]].agg(_geometric)
    return means.join(by_run["no_worse"].sum()).sort_values("ratio")


def _geometric(values: pd.Series) -> float:
    return math.exp(values.map(math.log).mean())


def lead(table: pd.DataFrame) -> dict[str, str]:
    """For each recipe the feedback variant of the lowest ratio."""
    fed = [run for run in table.index if is_feedback(run[0])]
    return {recipe: method for method, recipe in reversed(fed)}


class Setting:
    """A case and a number of steps: what takes how long there, and what the core reaches."""

    def __init__(self, experiment: base.Experiment, case: str, depth: int) -> None:
        grid = experiment.grid()
        options = {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}
        self.depth, self.controller = depth, experiment.solver(Run(CORE))
        self.data = stages.generate(case, experiment.config.seeds[0], experiment.instances())
        self.pair = cache(lambda steps: layers.tune(self.data, steps, **options))

    @torch.no_grad()
    def pace(self, method: str) -> float:
        """Both by turns, so that both are of the same moments."""
        program, seconds = self.data.validation.program, []
        solvers = [self.layer(name, self.depth) for name in (method, CORE)]
        for _ in range(1 + PASSES):
            ends = [process_time()]
            for solver in solvers:
                solver.solve(program)
                ends.append(process_time())
            seconds.append((ends[1] - ends[0], ends[2] - ends[1]))
        ours, theirs = map(median, zip(*seconds[1:], strict=True))
        return ours / theirs

    def layer(self, method: str, steps: int) -> SolverLayer:
        """Untrained: weights do not change the time."""
        return layers.build(self.data, steps, self.pair(steps), method, self.controller)

    def score(self, steps: float) -> float:
        """Of the core."""
        steps = min(max(steps, 1.0), float(MOST))
        below, above = math.floor(steps), math.ceil(steps)
        reached = (validated(self.layer(CORE, k), self.data) for k in (below, above))
        first, last = map(math.log, reached)
        return math.exp(first + (steps - below) * (last - first))
