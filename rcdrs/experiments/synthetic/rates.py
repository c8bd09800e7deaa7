"""Learning rates with equal care: every method and loss, the same candidates, validation data.

The score is that by which fixed cores are selected, ``Gap + 10 Eq + 10 Cone``; a method and loss
gets the rate of the lowest geometric mean over the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from tqdm import tqdm

from rcdrs.baselines.grid_drs import terminal_score
from rcdrs.experiments import base
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import Plain
from rcdrs.experiments.synthetic import layers, stages
from rcdrs.experiments.synthetic.experiment import is_feedback
from rcdrs.files import replacing
from rcdrs.layer import SolverLayer
from rcdrs.training.loop import TrainingDiverged, train

COLUMNS = ("method", "recipe", "rate", "case", "K", "score")
#: What tells one line from another.
PLACE = list(COLUMNS[:-1])


class Trial(NamedTuple):
    """One method and loss in one setting, with every rate."""

    run: Run
    case: str
    depth: int
    seed: int
    rates: list[float]
    instances: Plain
    grid: Plain
    training: Plain

    @property
    def places(self) -> list[tuple[Any, ...]]:
        """What tells its lines from others."""
        return [(*self.run, rate, self.case, self.depth) for rate in self.rates]


def trials(experiment: base.Experiment) -> Iterator[Trial]:
    search, section = experiment.section.search, experiment.section
    found = [run for run in experiment.runs("") if run.method in experiment.learned]
    for run in found:
        for family in section.families:
            for depth in search.depths:
                yield Trial(
                    run,
                    f"{family}-{search.scale}",
                    depth,
                    experiment.config.seeds[0],
                    search.rates,
                    experiment.instances(),
                    experiment.grid(),
                    experiment.training(run),
                )


def score(trial: Trial) -> list[Plain]:
    """The lines of a trial; a rate with which training diverges has an infinite score."""
    torch.set_num_threads(1)
    data = stages.generate(trial.case, trial.seed, trial.instances)
    grid = trial.grid
    options = {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}
    core = layers.tune(data, trial.depth, **options)
    return [_line(trial, data, core, rate) for rate in trial.rates]


def _line(trial: Trial, data: Any, core: tuple[float, float], rate: float) -> Plain:
    settings = trial.training | {"recipe": trial.training["recipe"] | {"learning_rate": rate}}
    torch.manual_seed(trial.seed)
    layer = layers.build(data, trial.depth, core, trial.run.method, settings)
    lesson = layers.lesson(data, trial.run, core, settings)
    value = float("inf")
    try:
        sets = lesson.train, lesson.validation
        train(layer, *sets, lesson.recipe, trial.seed, reference=lesson.reference)
        value = validated(layer, data)
    except TrainingDiverged:
        pass
    return dict(zip(COLUMNS, (*trial.run, rate, trial.case, trial.depth, value), strict=True))


@torch.no_grad()
def validated(layer: SolverLayer, data: Any) -> float:
    """The mean score of a layer on validation data."""
    found = data.validation.errors(layer.solve(data.validation.program).x)
    return float(terminal_score(found).double().mean())


def search(experiment: base.Experiment, out: Path, jobs: int) -> pd.DataFrame:
    """The lines of all trials; those that are in `out` already are not made again."""
    known = pd.read_csv(out) if out.exists() else pd.DataFrame(columns=COLUMNS)
    done = set(known[PLACE].itertuples(index=False, name=None))
    asked = list(trials(experiment))
    waiting = [trial for trial in asked if not done.issuperset(trial.places)]
    with ProcessPoolExecutor(jobs) as pool:
        made = [pool.submit(score, trial) for trial in waiting]
        for lines in tqdm(as_completed(made), total=len(made), unit="trial", disable=None):
            found = pd.DataFrame(lines.result())
            known = pd.concat([known, found], ignore_index=True) if len(known) else found
            known = known.drop_duplicates(PLACE, keep="last").sort_values(PLACE)
            with replacing(out) as temporary:
                known.to_csv(temporary, index=False)
    places = {place for trial in asked for place in trial.places}  # the file may have others
    return known[[place in places for place in known[PLACE].itertuples(index=False, name=None)]]


def choose(scores: pd.DataFrame) -> pd.DataFrame:
    """For each method and recipe the best rate, and whether it is an edge of the candidates.

    A rate that diverges in one setting, or was not tried there, is none.
    """
    means = _means(scores)
    if len(bad := means[means.isna().all(axis=1)]):
        raise ValueError(f"no rate trains {'@'.join(bad.index[0])} in every setting.")
    best = means.idxmin(axis=1)
    edge = best.isin([means.columns.min(), means.columns.max()])
    return pd.DataFrame({"rate": best, "edge": edge})


def at_best(scores: pd.DataFrame) -> pd.DataFrame:
    """The lines of each method and recipe with its best rate."""
    rates = choose(scores)["rate"]
    own = scores[["method", "recipe"]].itertuples(index=False, name=None)
    return scores[scores["rate"].to_numpy() == [rates[run] for run in own]]


def lead(scores: pd.DataFrame) -> dict[str, str]:
    """For each recipe the feedback variant whose best rate has the lowest score of all."""
    best = _means(scores).min(axis=1)
    found: dict[str, str] = {}
    for method, recipe in best.sort_values(ascending=False).index:  # the lowest last
        if is_feedback(method):
            found[recipe] = method
    return found


def _means(scores: pd.DataFrame) -> pd.DataFrame:
    """Of the logarithms of scores over settings, a line for each method and recipe; none where a
    rate diverges or was not tried."""
    logs = scores.assign(score=scores["score"].map(_log))
    settings = logs.pivot(index=PLACE[:3], columns=PLACE[3:], values="score")
    means = settings.mean(axis=1, skipna=False).unstack("rate")
    return means.where(means < float("inf"))


def _log(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float64).log())
