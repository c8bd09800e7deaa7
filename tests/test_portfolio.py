"""Portfolios: what is known when, the standard form, sequences, training, files, errors."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT, random_tensor

from rcdrs.artifact.config import PAPER, ConfigError, check, load, read
from rcdrs.experiments.base import Run
from rcdrs.experiments.engine import KEYS, Asked, make_instances, train_run, tune
from rcdrs.experiments.engine import evaluate as evaluate_runs
from rcdrs.experiments.portfolio import data as portfolio_data
from rcdrs.experiments.portfolio import market as portfolio_market
from rcdrs.experiments.portfolio.data import WeekSet, exactly, follow, generate
from rcdrs.experiments.portfolio.experiment import EXACT, FROZEN, Experiment
from rcdrs.experiments.portfolio.market import DAYS, FEATURES, HISTORY, PRICES, observe, shape
from rcdrs.experiments.portfolio.methods import EQ, METHODS, RealisedLoss, select_core
from rcdrs.experiments.portfolio.metrics import WARM, by_layer, measure
from rcdrs.experiments.portfolio.model import (
    Portfolio,
    Terms,
    drifted,
    realised_risk,
    turnover,
)
from rcdrs.experiments.portfolio.stages import evaluate, lesson
from rcdrs.experiments.settings import merge
from rcdrs.layer import DRSLayer
from rcdrs.reporting.tables import needs, values

CPU = torch.device("cpu")
STOCKS, DEPTH, CORE = 4, 3, (1.3, 1.0)
#: By which prices change in tests of what must not depend on them.
FACTORS = np.array([0.5, 0.8, 1.5, 2.0])
TERMS = {"aversion": 0.05, "cost": 10.0, "cap": 0.4, "limit": 250.0}
#: Few weeks of the stand-in's years.
SETTINGS = {
    "train": [2001, 2001],
    "validation": [2002, 2002],
    "test": {"calm": [2003, 2003], "storm": [2004, 2004]},
    "terms": TERMS,
}
METRICS = ["Utility", "Return", "Risk", "Turnover", "Expected", "Regret", "Missed", "r_p"]


@pytest.fixture(scope="module")
def stand_in():
    """Prices of stocks that there are not: a random walk on working days."""
    rng = np.random.default_rng(0)
    days = pd.bdate_range("2000-01-03", "2004-12-31", name="Date")
    common, own = (rng.standard_normal((len(days), size)) for size in (1, STOCKS))
    steps = 0.0005 + 0.008 * common + 0.01 * own
    return pd.DataFrame(np.exp(steps.cumsum(0)), days, [f"S{i}" for i in range(STOCKS)])


@pytest.fixture
def package(tmp_path, monkeypatch, stand_in):
    """A package with the name of the real one, and the stand-in in its file."""
    content = io.StringIO()
    stand_in.to_csv(content)
    packed = gzip.compress(content.getvalue().encode())
    path = tmp_path / PRICES.path
    path.parent.mkdir(parents=True)
    path.write_bytes(packed)
    (tmp_path / "skfolio-1.12.2.dist-info").mkdir()
    (tmp_path / "skfolio-1.12.2.dist-info/METADATA").write_text("Name: skfolio\nVersion: 1.12.2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return hashlib.sha256(packed).hexdigest()


@pytest.fixture
def installed(package, monkeypatch):
    """The stand-in is what is meant."""
    monkeypatch.setattr(portfolio_market, "PRICES", replace(PRICES, digest=package))


@pytest.fixture(scope="module")
def market(stand_in):
    return observe(stand_in)


@pytest.fixture(scope="module")
def problem(market):
    """In float64, so that identities hold to rounding."""
    L = torch.from_numpy(shape(market.years(2001, 2001)))
    return Portfolio(L, Terms(**TERMS))


@pytest.fixture(scope="module")
def weeks(stand_in):
    """A set of the stand-in's weeks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portfolio_data, "prices", lambda: stand_in)
        return generate("portfolio", 0, SETTINGS)


@pytest.fixture(scope="module")
def config():
    return load(ROOT / PAPER)


# What is known when


def test_what_is_known_depends_on_no_later_price(stand_in, market):
    """Prices after a week change neither what is known at its end nor what is decided then."""
    last = 80
    later = stand_in.copy()
    later[later.index > market.week[last]] *= FACTORS
    changed = observe(later)
    for name in ("features", "simple", "sigma"):
        mine, its = (getattr(m, name) for m in (market, changed))
        np.testing.assert_array_equal(mine[: last + 1], its[: last + 1])
        assert not np.isclose(mine[last + 1 :], its[last + 1 :]).all()
    np.testing.assert_array_equal(market.returns[:last], changed.returns[:last])
    assert not np.isclose(market.returns[last], changed.returns[last]).any()


def test_decisions_depend_on_no_later_price(stand_in, problem):
    """Week after week, by predictions that have looked at all the prices there are."""

    def decided(prices):
        market = observe(prices).years(2001, 2001)
        known = (market.simple, market.sigma, market.returns)
        given = (torch.from_numpy(part[:30]) for part in known)
        return follow(problem, *given, exactly(problem, problem.matrix())).w, market.week

    first, week = decided(stand_in)
    later = stand_in.copy()
    later[later.index > week[20]] *= FACTORS
    second, _ = decided(later)
    torch.testing.assert_close(first[:21], second[:21], rtol=0, atol=0)
    assert not torch.isclose(first[22:], second[22:]).all()


def test_returns_are_of_the_week_after(stand_in, market):
    close = stand_in.loc[market.week]  # the stand-in has every Friday
    expected = 1e4 * (close.to_numpy()[1:] / close.to_numpy()[:-1] - 1)
    np.testing.assert_allclose(market.returns[:-1], expected)
    growth = (1 + market.daily / 1e4).prod(axis=1) - 1
    np.testing.assert_allclose(1e4 * growth, market.returns, atol=1e-8)
    assert market.daily.shape[1:] == (DAYS, STOCKS)
    assert market.features.shape[1:] == (STOCKS, FEATURES)


def test_history_comes_before_the_first_decision(stand_in, market):
    """A decision needs a year of weekly returns, and so one more weekly price."""
    fridays = stand_in.index[stand_in.index.day_of_week == 4]
    assert market.week[0] == fridays[HISTORY]
    assert np.isfinite(market.features).all()
    short = observe(stand_in.loc[: market.week[2]])
    assert len(short.week) == 2  # of the last week the return is not known


def test_risk_has_the_size_of_equal_weights(market, stand_in):
    """sigma is an average of squared past returns; |L'w| = 1 for equal weights."""
    day = 1e4 * stand_in.pct_change().iloc[1:].mean(axis=1)
    squares = day[: market.week[-1]].to_numpy()[::-1] ** 2
    weight = 0.94 ** np.arange(len(squares))
    assert market.sigma[-1] == pytest.approx(np.sqrt(5 * (weight @ squares) / weight.sum()))
    equal = np.full(STOCKS, 1 / STOCKS)
    assert np.linalg.norm(equal @ shape(market)) == pytest.approx(1)


@pytest.mark.parametrize("years", [(2000, 2001), (2003, 2005), (2003, 2002)])
def test_years_outside_of_the_prices_are_refused(market, years):
    with pytest.raises(ValueError, match=rf"years are {years[0]} to {years[1]}, .*2001 to 2004"):
        market.years(*years)


def test_other_prices_are_refused_by_their_hash(package):
    with pytest.raises(ValueError, match=rf"sha256 {package}, expected {PRICES.digest}"):
        generate("portfolio", 0, SETTINGS)


# The problem


def programs(problem, count=6):
    """Random predictions, holdings and sizes of risk, in some of which the limit binds."""
    held = random_tensor(count, STOCKS, seed=1).abs()
    held = 0.8 * held / held.sum(1, keepdim=True).clamp(min=1) * 0.4
    mu = 40 * random_tensor(count, STOCKS, seed=2) + 30
    sigma = torch.linspace(120, 600, count, dtype=torch.float64)
    return mu, held, sigma


def by_cvxpy(problem, mu, held, sigma):
    """The problem as the docstring of `model` states it, solved by Clarabel."""
    terms, w = problem.terms, cp.Variable(STOCKS)
    risk = sigma * cp.norm(problem.L.numpy().T @ w)
    value = mu @ w - terms.aversion * risk - terms.cost * cp.norm1(w - held)
    rows = [cp.sum(w) <= 1, w >= 0, w <= terms.cap, risk <= terms.limit]
    best = cp.Problem(cp.Maximize(value), rows).solve(cp.CLARABEL)
    return best, w.value


def test_standard_form_is_the_problem(problem):
    mu, held, sigma = programs(problem)
    b, c = problem.right(held, sigma), problem.cost(mu, sigma)
    x = exactly(problem, problem.matrix())(b, c)
    w, bound = problem.weights(x, b), 0
    for i in range(len(mu)):
        best, expected = by_cvxpy(problem, mu[i].numpy(), held[i].numpy(), float(sigma[i]))
        # Two solvers' tolerances of 1e-8, times numbers of some hundreds.
        assert float(-(c[i] @ x[i])) == pytest.approx(best, rel=1e-5, abs=1e-4)
        risk = sigma[i] * problem.sigmas(w[i])
        assert float(problem.value(w[i], held[i], mu[i], risk)) == pytest.approx(best, abs=1e-3)
        np.testing.assert_allclose(w[i], expected, atol=1e-3)
        bound += float(risk) > 0.999 * problem.terms.limit
    assert 0 < bound < len(mu)
    torch.testing.assert_close(w, problem.terms.cap * problem.parts(x).w, rtol=0, atol=1e-6)


def test_matrix_and_vectors_give_back_what_they_are_made_of(problem):
    mu, held, sigma = programs(problem)
    again = Portfolio.of(problem.matrix(), problem.terms)
    torch.testing.assert_close(again.L, problem.L)
    torch.testing.assert_close(problem.held(problem.right(held, sigma)), held)
    torch.testing.assert_close(problem.predicted(problem.cost(mu, sigma)), mu)


def test_weights_are_feasible_whatever_x_is(problem):
    _, held, sigma = programs(problem)
    b = problem.right(held, sigma)
    w = problem.weights(3 * random_tensor(len(held), problem.cone.dim), b)
    assert (w >= 0).all()
    assert (w <= problem.terms.cap).all()
    assert (w.sum(1) <= 1 + 1e-12).all()
    assert (sigma * problem.sigmas(w) <= problem.terms.limit * (1 + 1e-12)).all()


def test_value_counts_return_risk_and_trades(problem):
    w = torch.tensor([[0.4, 0.1, 0.0, 0.0]], dtype=torch.float64)
    held = torch.tensor([[0.2, 0.2, 0.0, 0.0]], dtype=torch.float64)
    mu = torch.tensor([[10.0, 20.0, 0.0, 0.0]], dtype=torch.float64)
    # 4 + 2 of return, 100 of risk at 0.05, 0.3 of trades at 10.
    assert float(problem.value(w, held, mu, torch.tensor([100.0]))) == pytest.approx(6 - 5 - 3)
    daily = torch.tensor([[[10.0, 20, 0, 0], [-5.0, 0, 0, 0]]], dtype=torch.float64)
    assert float(realised_risk(w, daily)) == pytest.approx(np.hypot(6, 2))
    grown = drifted(w, torch.tensor([[1000.0, 0, 0, 0]], dtype=torch.float64))
    torch.testing.assert_close(grown[0, :2], torch.tensor([0.44, 0.1]).double() / 1.04)


# Sequences


def test_what_is_held_enters_the_next_problem(weeks):
    problem, part = weeks.portfolio, weeks.test
    for _, own in weeks.periods:
        b, held = own.program.b, problem.held(own.program.b)
        w = problem.weights(own.x, b)
        torch.testing.assert_close(held[0], torch.zeros(STOCKS))
        # Float32 of what was computed in float64.
        torch.testing.assert_close(held[1:], drifted(w, own.returns)[:-1], rtol=0, atol=1e-5)
        assert float(turnover(w, held).mean()) > 0.001
    assert part.batch == sum(own.batch for _, own in weeks.periods)


def test_warm_start_goes_on_where_the_last_week_ended(weeks):
    """Of the same problem again, twice K steps are 2 K steps."""
    program, (alpha, beta) = weeks.test.program[:1], CORE
    layer = DRSLayer(weeks.A, weeks.cone, DEPTH, alpha, beta)
    cold, warm = by_layer(layer, warm=False), by_layer(layer, warm=True)
    first = layer(program.b, program.c).x
    for decide, second in ((cold, first), (warm, layer(program.b, program.c, depth=2 * DEPTH).x)):
        torch.testing.assert_close(decide(program.b, program.c), first, rtol=0, atol=0)
        torch.testing.assert_close(decide(program.b, program.c), second)


def test_optimal_decisions_have_no_regret_and_miss_nothing(weeks):
    (_, own), _ = weeks.periods
    problem, mu = weeks.portfolio, weeks.portfolio.predicted(own.program.c)
    found = measure(problem, weeks.A, own, mu, exactly(problem, weeks.A))
    assert list(found) == METRICS
    for metric in ("Regret", "Missed", "r_p"):  # beside numbers of some hundreds, in float32
        assert float(found[metric].abs().max()) < 1e-2
    parts = found["Return"] - 0.05 * found["Risk"] - 10 * found["Turnover"] / 100
    torch.testing.assert_close(found["Utility"], parts, rtol=0, atol=1e-3)
    coarse = measure(problem, weeks.A, own, mu, by_layer(DRSLayer(weeks.A, weeks.cone, 2), False))
    assert float(coarse["Regret"].min()) > -1e-2
    assert float(coarse["Regret"].mean()) > 0.1


# Training


def test_untrained_predictor_is_the_simple_prediction(weeks):
    model = METHODS["Grid-DRS"].build(weeks, DEPTH, CORE, {})
    decision = model.solve(weeks.train)
    torch.testing.assert_close(decision.mu, weeks.portfolio.predicted(weeks.train.program.c))
    expected = model.layer.solve(weeks.train.program).x
    # The cost is divided by the cap and multiplied by it again.
    torch.testing.assert_close(decision.solution.x, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["PTO", "Grid-DRS", "RCDRS-Env-F"])
def test_only_the_predictor_learns(weeks, name):
    model = METHODS[name].build(weeks, DEPTH, CORE, {})
    METHODS[name].loss(model.solve(weeks.train)).mean().backward()
    grads = {key: p.grad for key, p in model.named_parameters()}
    assert float(grads["predictor.net.2.weight"].abs().sum()) > 0
    assert all(g is None for key, g in grads.items() if key.startswith("layer."))


def test_realised_loss_is_what_the_week_took_away(weeks):
    model, part = METHODS["Grid-DRS"].build(weeks, DEPTH, CORE, {}), weeks.train
    with torch.no_grad():
        decision = model.solve(part)
        problem, b = weeks.portfolio, part.program.b
        w = problem.weights(decision.solution.x, b)
        earned = (w * part.returns).sum(1) - 0.05 * realised_risk(w, part.daily)
        paid = 10 * (w - problem.held(b)).abs().sum(1)
        expected = EQ * decision.solution.primal_residual - earned + paid
        torch.testing.assert_close(RealisedLoss()(decision), expected)


def test_core_is_that_of_least_loss(weeks):
    """Among pairs of which one hardly moves."""
    options = {"alphas": [0.01, 1.3], "betas": [1.0], "scored": 20}
    assert select_core(weeks.portfolio, weeks.validation, 10, **options) == (1.3, 1.0)


def test_lessons_are_of_the_run(weeks, config):
    experiment = Experiment(config)
    for run, loss in ((Run("RCDRS-Env", "log_kkt"), "LogKKTLoss"), (Run("PTO"), "PredictionLoss")):
        found = lesson(weeks, run, CORE, experiment.training(run))
        assert type(found.recipe.loss).__name__ == loss


# Files, stages, errors


def test_set_comes_back_from_its_file(weeks, tmp_path):
    weeks.save(tmp_path / "a.npz")
    again = WeekSet.load(tmp_path / "a.npz")
    torch.testing.assert_close(again.test.daily, weeks.test.daily, rtol=0, atol=0)
    assert [name for name, _ in again.periods] == ["calm", "storm"]


def test_other_case_is_refused():
    with pytest.raises(ValueError, match="unknown case 'portfolio-monthly', expected portfolio"):
        generate("portfolio-monthly", 0, SETTINGS)


def test_stages_go_from_prices_to_rows(installed, config, tmp_path):
    """Every kind of run: nothing learned, a predictor behind a pretrained layer, and exactly."""
    experiment = Experiment(config)
    instances, core = tmp_path / "set.npz", tmp_path / "core.json"
    make_instances("portfolio", "portfolio", 0, SETTINGS, instances)
    grid = {"alpha": [1.0, 1.5], "beta": [1.0, 3.0], "instances": 20}
    tune("portfolio", instances, DEPTH, grid, core)
    frozen = Run("RCDRS-Env-F", "log_kkt")
    files = {}
    for run in (experiment.start(frozen), frozen):
        settings = merge(experiment.training(run), {"recipe": {"epochs": 2, "batch": 30}})
        files[run] = tmp_path / f"{run.method}.pt"
        begun = files.get(experiment.start(run))
        train_run("portfolio", instances, core, run, settings, 0, files[run], CPU, begun)
    exact = frozen._replace(method=frozen.method + EXACT)
    asked = [Asked(Run("Simple")), Asked(frozen, files[frozen])]
    asked.append(Asked(exact, files[experiment.trained(exact)]))
    solver = experiment.solver(frozen)
    rows, details = evaluate_runs("portfolio", instances, core, asked, solver, CPU)
    columns = [f"{m}_{p}" for p in ("calm", "storm") for m in METRICS]
    warm = [f"{WARM}{m}_{p}" for p in ("calm", "storm") for m in METRICS]
    assert set(rows.columns) == {*KEYS, *columns, *warm}
    rows = rows.set_index("method")
    assert rows[columns].notna().all(axis=None)
    assert rows.loc[exact.method, warm].isna().all()
    assert (
        rows.loc[exact.method, "Regret_calm"] < 0.01 < rows["Regret_calm"].drop(exact.method).min()
    )
    own = details["Simple@-/Utility_storm"]  # a week has the metrics of its own period
    assert 50 < np.isfinite(own).sum() < 55 < len(own)


# In the configuration


def test_tables_show_every_run_period_depth_and_start(config):
    depths, runs = set(config.portfolio.depths), set(Experiment(config).runs(""))
    asked = {
        name: {(Run(key.method, key.recipe), key.K) for key in needs(name, config)}
        for name in ("portfolio", "portfolio_starts")
    }
    assert asked["portfolio"] == {(run, max(depths)) for run in runs}
    steps = {run for run in runs if not run.method.endswith(EXACT)}
    assert asked["portfolio_starts"] == {(run, K) for run in steps for K in depths}


def test_table_shows_its_row(config):
    """Each cell is of the column of its metric, start and period."""

    class Named:
        def statistic(self, metric, *where):
            found.append(metric)
            return type("S", (), {"mean": 1.0, "std": None, "metric": metric, "keys": ()})

    found = []
    cells = values("portfolio_starts", config, Named())
    for cell, name in zip(cells, found, strict=True):
        metric, period = cell.block.split(", ")
        assert name == f"{WARM if 'warm' in cell.column else ''}{metric}_{period}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instances": {"validation": [2003, 2006]}}, "train ends in 2003"),
        ({"instances": {"test": {"crash": [2006, 2009]}}}, r"test\.crash begins in 2006"),
        ({"exact": ["PTO-Exact"], "methods": ["Simple"]}, "exact has PTO-Exact, expected some of"),
        ({"instances": {"terms": {"cap": 1.5}}}, r"cap is 1\.5, expected at most 1"),
    ],
)
def test_configuration_is_checked(changes, message):
    with pytest.raises(ConfigError, match=message):
        check(merge(read(ROOT / PAPER), {"portfolio": changes}))


def test_recipes_are_of_what_learns(config):
    experiment = Experiment(config)
    rates = {
        name: experiment.recipe(Run(name, "log_kkt"))["learning_rate"] for name in FROZEN.values()
    }
    assert rates == {"Layerwise-DRS": 0.03, "RCDRS-Env": 0.006, "RCDRS-NoEnv": 0.006}
    assert experiment.trained(Run("Simple")) is None
    assert experiment.trained(Run("Simple-Exact")) is None
    with pytest.raises(ValueError, match="PTO has no pretrained layer"):
        experiment.check(Run("PTO", "log_kkt"))


# The real prices


def test_real_weeks_are_those_of_the_configuration(config):
    """Where the package is installed."""
    try:
        PRICES.read()
    except ValueError:
        pytest.skip("skfolio is not installed")
    part = config.portfolio.instances
    market = observe(portfolio_market.prices())
    assert market.features.shape[1:] == (20, FEATURES)
    assert np.isfinite(np.concatenate([market.features.ravel(), market.simple.ravel()])).all()
    spans = (part.train, part.validation, *part.test.values())
    assert [len(market.years(*years).week) for years in spans] == [678, 157, 522, 104, 52, 51]


def test_evaluate_has_an_answer_for_every_week(weeks):
    model = METHODS["Simple"].build(weeks, DEPTH, CORE, {})
    metrics, incomplete = evaluate(model, weeks, "Simple", None)
    assert set(incomplete) == set(metrics)
    both = [metrics[f"Utility_{name}"].isfinite() for name, _ in weeks.periods]
    assert (both[0] ^ both[1]).all()
