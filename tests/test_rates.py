"""The search for learning rates: every method and loss, gone on with, and chosen without luck."""

from __future__ import annotations

import math
from concurrent.futures import Future

import pandas as pd
import pytest
import torch
from conftest import ROOT

from rcdrs.artifact.plan import Plan
from rcdrs.baselines.grid_drs import terminal_score
from rcdrs.experiments.settings import merge
from rcdrs.experiments.synthetic import pace, rates
from rcdrs.experiments.synthetic.rates import COLUMNS, choose, lead, score, search, trials
from rcdrs.training.loop import TrainingDiverged

RATES = [0.001, 0.0123456789, 0.1]
TINY = {
    "families": ["socp"],
    "instances": {"train": 8, "validation": 4, "test": 1},
    "grid": {"alpha": [1.3], "beta": [1.0], "instances": 4},
    "methods": ["Grid-DRS", "L-PDHG", "RCDRS-Light"],
    "extended": ["RCDRS-Light"],
    "search": {"rates": RATES, "scale": "small", "depths": [2, 3]},
}
SHORT = {"epochs": 1, "batch": 8}


def experiment(**changes):
    plan = Plan.read(ROOT)
    section = merge(plan.config.synthetic.plain(), merge(TINY, changes))
    recipes = {name: part | SHORT for name, part in plan.config.recipes.plain().items()}
    written = plan.config.plain() | {"synthetic": section, "recipes": recipes, "universes": {}}
    return Plan.of(written, ROOT).experiments["synthetic"]


class Here:
    """An executor in this process."""

    def __init__(self, jobs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done


@pytest.fixture
def trained(monkeypatch):
    """The rates of all trainings; those above 0.05 diverge in some."""
    found, train = [], rates.train

    def noted(layer, train_set, validation, recipe, *rest, **more):
        found.append(recipe.learning_rate)
        if recipe.learning_rate > 0.05 and layer.depth == 3:
            raise TrainingDiverged("the training loss is not finite")
        return train(layer, train_set, validation, recipe, *rest, **more)

    monkeypatch.setattr(rates, "train", noted)
    monkeypatch.setattr(rates, "ProcessPoolExecutor", Here)
    return found


def test_trials_are_of_every_learned_method_and_loss():
    found = list(trials(experiment()))
    runs = ["L-PDHG@paper", "RCDRS-Light@paper", "RCDRS-Light@log_kkt"]
    assert [(str(t.run), t.case, t.depth) for t in found] == [
        (run, "socp-small", depth) for run in runs for depth in (2, 3)
    ]
    assert all(trial.rates == RATES for trial in found)


def test_score_is_that_of_the_trained_layer_on_validation_data(monkeypatch):
    """By the rule that selects cores; another rate trains from the same first weights."""
    layers, train = [], rates.train

    def kept(layer, *arguments, **more):
        layers.append((layer, {k: v.clone() for k, v in layer.state_dict().items()}))
        return train(layer, *arguments, **more)

    monkeypatch.setattr(rates, "train", kept)
    trial = next(t for t in trials(experiment()) if str(t.run) == "RCDRS-Light@log_kkt")
    found = score(trial)
    assert [tuple(line) for line in found] == [COLUMNS] * 3
    assert [line["rate"] for line in found] == RATES
    data = rates.stages.generate(trial.case, trial.seed, trial.instances)
    for line, (layer, first) in zip(found, layers, strict=True):
        with torch.no_grad():
            errors = data.validation.errors(layer.solve(data.validation.program).x)
        assert line["score"] == float(terminal_score(errors).double().mean())
        assert all(torch.equal(first[name], layers[0][1][name]) for name in first)
    assert len({line["score"] for line in found}) == 3


def test_search_is_gone_on_with(tmp_path, trained):
    out = tmp_path / "rates.csv"
    found = search(experiment(), out, 1)
    assert len(found) == len(trained) == 3 * 2 * 3
    stored = out.read_bytes()
    again = search(experiment(), out, 1)
    assert len(trained) == 18, "nothing is trained twice"
    assert out.read_bytes() == stored
    pd.testing.assert_frame_equal(again.reset_index(drop=True), found.reset_index(drop=True))
    # What is lost is made again, with all rates of its setting.
    lines = stored.decode().splitlines(keepends=True)
    out.write_text("".join(line for line in lines if not line.startswith("L-PDHG,paper,0.001")))
    search(experiment(), out, 1)
    assert len(trained) == 18 + 6
    assert out.read_bytes() == stored


def test_search_for_fewer_returns_its_own_alone(tmp_path, trained):
    """The file keeps the others."""
    search(experiment(), tmp_path / "rates.csv", 1)
    fewer = {"search": {"rates": RATES[1:], "depths": [2]}}
    found = search(experiment(**fewer), tmp_path / "rates.csv", 1)
    assert len(trained) == 18
    assert set(found["rate"]) == set(RATES[1:])
    assert set(found["K"]) == {2}
    assert len(pd.read_csv(tmp_path / "rates.csv")) == 18


def test_diverging_rate_never_wins(tmp_path, trained):
    """Though it diverges in one of two settings, and is the best in the other."""
    found = search(experiment(), tmp_path / "rates.csv", 1)
    wild = (found["rate"] > 0.05) & (found["K"] == 3)
    assert (found["score"].map(math.isinf) == wild).all()
    found.loc[(found["rate"] > 0.05) & (found["K"] == 2), "score"] = 1e-300
    assert (choose(found)["rate"] < 0.05).all()


def scores(**by_rate):
    """Of one method: the scores of each rate in a few settings."""
    lines = [
        ("RCDRS-Env", "paper", float(rate.removeprefix("r")), "socp-hard", K, value)
        for rate, values in by_rate.items()
        for K, value in zip((5, 20), values, strict=False)
    ]
    return pd.DataFrame(lines, columns=list(COLUMNS))


@pytest.mark.parametrize(
    ("given", "rate", "edge"),
    [
        ({"r1": (2, 2), "r2": (1, 1), "r3": (3, 3)}, 2, False),
        ({"r1": (1, 1), "r2": (2, 2), "r3": (3, 3)}, 1, True),
        ({"r1": (3, 3), "r2": (2, 2), "r3": (1, 1)}, 3, True),
        # Geometric means: 1 and 3 against 2 and 2.
        ({"r1": (9, 9), "r2": (1, 3), "r3": (2, 2), "r4": (9, 9)}, 2, False),
        # Not tried everywhere, and not a number.
        ({"r1": (2, 2), "r2": (1,), "r3": (3, 3)}, 1, True),
        ({"r1": (2, 2), "r2": (1, math.nan), "r3": (3, 3)}, 1, True),
        ({"r1": (1, math.inf), "r2": (5, 5), "r3": (6, 6)}, 2, False),
    ],
)
def test_choice_is_the_least_geometric_mean_and_an_edge_is_told(given, rate, edge):
    (found,) = choose(scores(**given)).reset_index().to_dict("records")
    assert found == {"method": "RCDRS-Env", "recipe": "paper", "rate": rate, "edge": edge}


def test_method_that_no_rate_trains_is_named():
    with pytest.raises(ValueError, match="no rate trains RCDRS-Env@paper in every setting"):
        choose(scores(r1=(1, math.inf), r2=(math.inf, 1)))


def test_variant_of_the_lowest_score_at_its_best_rate_leads():
    """Whatever it has at other rates; what looks at nothing is no feedback variant."""
    scores = {"RCDRS-Env": (0.8, 0.5), "RCDRS-Light": (2.0, 0.4), "Layerwise-DRS": (0.1, 9.0)}
    lines = [
        (method, recipe, rate, "socp-hard", 5, value if recipe == "log_kkt" else 1 / value)
        for method, values in scores.items()
        for recipe in ("paper", "log_kkt")
        for rate, value in zip((0.01, 0.1), values, strict=True)
    ]
    assert lead(pd.DataFrame(lines, columns=COLUMNS)) == {
        "paper": "RCDRS-Light",  # 1 / 2.0 against 1 / 0.8
        "log_kkt": "RCDRS-Light",  # 0.4 against 0.5
    }


# Given the same time


def test_core_of_a_fraction_of_a_step_is_between_its_neighbours():
    """Its logarithm is linear there; before the first step, and far out, it has what is nearest."""
    setting = pace.Setting(experiment(), "socp-small", 2)
    two, three = setting.score(2), setting.score(3)
    assert two > three
    assert setting.score(2.25) == pytest.approx(two**0.75 * three**0.25)
    assert setting.score(0.1) == setting.score(1)
    assert setting.score(10.0 * pace.MOST) == setting.score(pace.MOST)


def test_pace_is_over_the_core_of_as_many_steps(monkeypatch):
    """By the clock of the processor: here each step of the core takes 2, of the method 3."""
    clock = [0.0]

    class Timed:
        def __init__(self, seconds):
            self.seconds = seconds

        def solve(self, program):
            clock[0] += self.seconds

    setting = pace.Setting(experiment(), "socp-small", 3)
    monkeypatch.setattr(pace, "process_time", lambda: clock[0])
    costs = {"RCDRS-Light": 3, pace.CORE: 2}
    monkeypatch.setattr(setting, "layer", lambda name, steps: Timed(costs[name] * steps))
    assert setting.pace("RCDRS-Light") == 1.5


def test_method_is_compared_with_the_core_that_takes_as_long(monkeypatch):
    """With its best rate; feedback of the lowest ratio leads, and what has none does not."""

    class Halving:
        """A core that halves its score with each step."""

        def __init__(self, experiment, case, depth):
            self.depth = depth

        def pace(self, method):
            return {"RCDRS-Env": 2.0, "RCDRS-Light": 1.5, "Layerwise-DRS": 1.0}[method]

        def score(self, steps):
            return 2.0**-steps

    monkeypatch.setattr(pace, "Setting", Halving)
    lines = [
        (method, "log_kkt", rate, "socp-hard", K, value * 2.0**-K)
        for method in ("RCDRS-Env", "RCDRS-Light", "Layerwise-DRS")
        for rate, value in ((0.01, 0.25), (0.1, 0.5))
        for K in (2, 4)
    ]
    found = pace.paces(experiment(), pd.DataFrame(lines, columns=COLUMNS))
    runs = [("Layerwise-DRS", 1.0, 0.25, 2), ("RCDRS-Light", 1.5, 0.25 * 2**1.5, 2)]
    runs.append(("RCDRS-Env", 2.0, 0.25 * 2**3.0, 1))
    assert list(found.index) == [(method, "log_kkt") for method, *_ in runs]
    for line, (_, *expected) in zip(found.itertuples(index=False), runs, strict=True):
        assert tuple(line) == pytest.approx(tuple(expected))
    assert pace.lead(found) == {"log_kkt": "RCDRS-Light"}
