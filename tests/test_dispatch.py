"""The dispatch problem against hand-written physics and exact solvers."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import TINY_NETWORK as TINY
from conftest import grid, paper, solver, training
from scipy.optimize import linprog

from rcdrs.baselines.registry import find_method
from rcdrs.baselines.spectral_admm import SpectralLayer
from rcdrs.experiments.base import Run
from rcdrs.experiments.dispatch import optimum, stages
from rcdrs.experiments.dispatch.methods import (
    FIXED_CORE,
    METHODS,
    select_core,
)
from rcdrs.experiments.dispatch.metrics import DispatchLoss, cost, cost_gap, operate
from rcdrs.experiments.dispatch.model import FORMULATIONS, Dispatch, Profiles
from rcdrs.experiments.dispatch.network import (
    SIX_BUS,
    Generator,
    Line,
    Network,
    NetworkError,
    Site,
)
from rcdrs.experiments.dispatch.scenarios import Climate, ScenarioSet, generate
from rcdrs.experiments.dispatch.trace import stacks
from rcdrs.experiments.engine import (
    make_instances,
)
from rcdrs.experiments.instances import owner_of
from rcdrs.layer import DRSLayer
from rcdrs.reporting.paper_values import paper_values
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.fused import Transition

SIZES = {"train": 1, "validation": 1, "test": 1}
NETWORKS = {"six-bus": SIX_BUS, "tiny": TINY}


def days(network=SIX_BUS, formulation="printed", count=2, **climate):
    """Programs of a few test days in float64."""
    sizes = {"train": 1, "validation": 1, "test": count}
    data = generate(0, sizes, formulation, network, Climate(**climate), torch.float64)
    return data.test


def random_point(program, seed=0):
    """Schedules inside and outside the bounds."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(program.c.shape, generator=generator, dtype=program.c.dtype)


# The network


def test_paper_network():
    assert (SIX_BUS.buses, len(SIX_BUS.lines), SIX_BUS.horizon) == (6, 7, 24)
    assert [line.limit for line in SIX_BUS.lines] == pytest.approx(
        [1.0925, 0.9775, 0.92, 0.8625, 0.8625, 0.805, 0.7475]
    )
    assert Network.from_dict(json.loads(json.dumps(SIX_BUS.to_dict()))) == SIX_BUS


BATTERY = TINY.batteries[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lines": TINY.lines[:1]}, "no line connects bus 2 with bus 0"),
        ({"lines": (Line(0, 3, 1.0, 1.0), *TINY.lines)}, r"lines\[0\].destination.*bus 3.*0 to 2"),
        ({"lines": (Line(0, 1, 0.0, 1.0), *TINY.lines)}, r"susceptance is 0.0.*positive"),
        ({"generators": (Generator(-1, 1.0, 0.1, 1.0),)}, r"generators\[0\].bus is -1"),
        ({"batteries": (replace(BATTERY, initial=0.05),)}, r"initial is 0.05.*\[0.1, 0.8\]"),
        ({"batteries": (replace(BATTERY, initial=math.nan),)}, "initial is nan"),
        ({"batteries": (replace(BATTERY, charge_efficiency=0.0),)}, r"charge_efficiency.*\(0, 1\]"),
        ({"loads": (0.2, -0.3, 0.25)}, r"loads\[1\] is -0.3.*nonnegative"),
        ({"sites": (Site(0, 1.0, "tide"),)}, "'tide'.*solar, wind"),
        ({"horizon": 0}, "horizon is 0"),
    ],
)
def test_network_that_contradicts_itself(change, message):
    with pytest.raises(NetworkError, match=message):
        replace(TINY, **change)


# The model


@pytest.mark.parametrize(
    ("formulation", "n"), [("printed", 746), ("turned", 746), ("inequality", 770)]
)
def test_dimensions_and_full_row_rank(formulation, n):
    A = Dispatch(SIX_BUS, formulation, torch.float64).A
    assert A.shape == (412, n)
    assert torch.linalg.matrix_rank(A) == 412


def constraints(network, s, load, renewable, formulation):
    """``A z - d`` of one day with loops; `s` has arrays by variable."""
    T, buses = range(network.horizon), range(network.buses)
    rows = []
    for i, t in itertools.product(buses, T):
        power = s["shedding"][i][t] - load[i][t]
        power += sum(s["generation"][k][t] for k, g in enumerate(network.generators) if g.bus == i)
        for k, battery in enumerate(network.batteries):
            if battery.bus == i:
                power += s["discharge"][k][t] - s["charge"][k][t]
        for k, site in enumerate(network.sites):
            if site.bus == i:
                power += renewable[k][t] - s["curtailment"][k][t]
        for k, line in enumerate(network.lines):
            power -= s["flow"][k][t] * ((line.origin == i) - (line.destination == i))
        rows.append(power)
    for (k, line), t in itertools.product(enumerate(network.lines), T):
        drop = s["angle"][line.origin][t] - s["angle"][line.destination][t]
        rows.append(s["flow"][k][t] - line.susceptance * drop)
    rows += [s["angle"][0][t] for t in T]
    for (k, battery), t in itertools.product(enumerate(network.batteries), T):
        stored = battery.charge_efficiency * s["charge"][k][t]
        drawn = s["discharge"][k][t] / battery.discharge_efficiency
        rows.append(s["energy"][k][t + 1] - s["energy"][k][t] - stored + drawn)
    for t in (0, -1):
        rows += [s["energy"][k][t] - b.initial for k, b in enumerate(network.batteries)]
    for t in T:
        row = headroom(network, s, t) - requirement(network, load, renewable, t)
        row += -s["slack"][0][t] if formulation == "turned" else s["slack"][0][t]
        rows.append(row - (s["surplus"][0][t] if formulation == "inequality" else 0))
    return np.array(rows)


def headroom(network, s, t):
    spare = sum(g.limit - s["generation"][k][t] for k, g in enumerate(network.generators))
    return spare + sum(b.discharge - s["discharge"][k][t] for k, b in enumerate(network.batteries))


def requirement(network, load, renewable, t):
    return 0.12 * (sum(row[t] for row in load) + 0.5 * sum(row[t] for row in renewable))


def parts(program, z, day):
    """The variables of one day as arrays."""
    schedule = program.model.schedule(z)
    return {name: part[day].numpy() for name, part in schedule._asdict().items()}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_matrix_is_the_constraints(network, formulation):
    program = days(network, formulation)
    z = random_point(program)
    residual = z @ program.A.T - program.b
    for day in range(2):
        load, renewable = (p[day].numpy() for p in program.forecast)
        expected = constraints(network, parts(program, z, day), load, renewable, formulation)
        np.testing.assert_allclose(residual[day], expected, rtol=0, atol=1e-12)


def test_exact_solution_conserves_power_and_energy():
    """By hand, not by the matrix: every bus and hour, every battery."""
    program = days(formulation="inequality")
    z = optimum.solve(program)
    for day in range(2):
        s = parts(program, z, day)
        load, renewable = (p[day].numpy() for p in program.forecast)
        for t in range(24):
            for bus in range(6):
                arriving = sum(
                    s["flow"][k][t] * (line.destination == bus)
                    - s["flow"][k][t] * (line.origin == bus)
                    for k, line in enumerate(SIX_BUS.lines)
                )
                produced = {0: s["generation"][0][t], 3: s["generation"][1][t]}.get(bus, 0)
                stored = {2: 0, 4: 1}.get(bus)
                if stored is not None:
                    produced += s["discharge"][stored][t] - s["charge"][stored][t]
                site = {1: 0, 3: 1, 5: 2}.get(bus)
                if site is not None:
                    produced += renewable[site][t] - s["curtailment"][site][t]
                served = load[bus][t] - s["shedding"][bus][t]
                assert produced + arriving == pytest.approx(served, abs=1e-6)
            for k, line in enumerate(SIX_BUS.lines):
                flow = line.susceptance * (
                    s["angle"][line.origin][t] - s["angle"][line.destination][t]
                )
                assert s["flow"][k][t] == pytest.approx(flow, abs=1e-6)
                assert abs(s["flow"][k][t]) <= line.limit + 1e-6
        for k, battery in enumerate(SIX_BUS.batteries):
            energy = battery.initial
            for t in range(24):
                energy += 0.95 * s["charge"][k][t] - s["discharge"][k][t] / 0.95
                assert s["energy"][k][t + 1] == pytest.approx(energy, abs=1e-5)
                assert battery.lowest - 1e-6 <= energy <= battery.highest + 1e-6
            assert energy == pytest.approx(battery.initial, abs=1e-5)


def test_bounds():
    program = days(TINY, "inequality")
    low, high = (program.model.schedule(t) for t in (program.cone.lower, program.cone.upper))
    gamma = program.model.requirement(program.forecast)
    expected = {
        "generation": (0, 0.9),
        "charge": (0, 0.2),
        "discharge": (0, 0.25),
        "energy": (0.1, 0.8),
        "curtailment": (0, program.forecast.renewable),
        "shedding": (0, program.forecast.load),
        "angle": (-0.6, 0.6),
        "flow": (torch.tensor([[-0.5], [-0.4], [-0.3]]), torch.tensor([[0.5], [0.4], [0.3]])),
        "slack": (0, gamma.unsqueeze(1) + 1),
        "surplus": (0, math.inf),
    }
    for name, (lower, upper) in expected.items():
        for found, bound in ((getattr(low, name), lower), (getattr(high, name), upper)):
            torch.testing.assert_close(found, torch.as_tensor(bound).double().expand_as(found))


def hand_cost(network, s):
    total = 0.0
    for t in range(network.horizon):
        for k, g in enumerate(network.generators):
            p = s["generation"][k][t]
            total += g.quadratic * p**2 + g.linear * p
        total += 0.015 * sum(row[t] for name in ("charge", "discharge") for row in s[name])
        total += 0.08 * sum(row[t] for row in s["curtailment"])
        total += 14 * sum(row[t] for row in s["shedding"]) + 10 * s["slack"][0][t]
        total += 0.002 * sum(row[t] ** 2 for row in s["flow"])
    return total


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_cost_and_its_gradient(network):
    program = days(network, "inequality")
    z = random_point(program).requires_grad_()
    value = cost(program, z)
    by_hand = [hand_cost(network, parts(program, z.detach(), day)) for day in range(2)]
    assert value.tolist() == pytest.approx(by_hand, rel=1e-12)
    (gradient,) = torch.autograd.grad(value.sum(), z)
    torch.testing.assert_close(program.gradient(z), gradient)


def hand_metrics(network, program, z, day):
    """Every metric of one day with loops."""
    s = parts(program, z, day)
    real_load, real_renewable = (p[day].numpy() for p in program.realised)
    load, renewable = (p[day].numpy() for p in program.forecast)
    zero = {name: np.zeros_like(part) for name, part in s.items()}
    formulation = program.model.formulation
    residual = constraints(network, s, load, renewable, formulation)
    target = constraints(network, zero, load, renewable, formulation)
    # The first rows are the balances: on the realised day they are what is left over.
    left = constraints(network, s, real_load, real_renewable, formulation)
    left = left[: network.buses * network.horizon]
    deficit, excess = -left[left < 0].sum(), left[left > 0].sum()
    gamma = [requirement(network, real_load, real_renewable, t) for t in range(network.horizon)]
    missing = sum(max(0, g - headroom(network, s, t)) for t, g in enumerate(gamma))
    low, high = (bound[day].numpy() for bound in (program.cone.lower, program.cone.upper))
    outside = z[day].numpy() - np.clip(z[day].numpy(), low, high)
    found = {
        "Eq": np.linalg.norm(residual) / (1 + np.linalg.norm(target)),
        "Box": np.linalg.norm(outside) / (1 + np.linalg.norm(z[day])),
        "Shed": (s["shedding"].sum() + deficit) / (1 + real_load.sum()),
        "Curt": (s["curtailment"].sum() + excess) / (1 + real_renewable.sum()),
        "Reserve": missing / (1 + sum(gamma)),
        "Emerg": deficit / (1 + real_load.sum()),
    }
    accepted = found["Eq"] <= 0.035 and found["Box"] <= 1e-5
    found["Pass"] = float(accepted and found["Shed"] <= 0.12 and found["Reserve"] <= 0.08)
    found["merit"] = (
        hand_cost(network, s) / (1 + load.sum())
        + 6 * found["Eq"]
        + found["Box"]
        + 12 * found["Shed"]
        + 8 * found["Reserve"]
        + 0.05 * found["Curt"]
    )
    return found


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("exact", [False, True])
def test_metrics_and_merit(formulation, exact):
    program = days(TINY, formulation, level=1.1)
    z = rollout(program, 1.0, 0.3, 400).z if exact else random_point(program)
    seen = operate(program, z)
    ours = seen._asdict() | {"Pass": seen.Pass, "merit": DispatchLoss().of(program, z)}
    for day in range(2):
        expected = hand_metrics(TINY, program, z, day)
        assert {k: float(v[day]) for k, v in ours.items()} == pytest.approx(expected, abs=1e-9)
    assert bool(seen.Pass.any()) == exact


def test_cost_gap_is_not_negative():
    value, reference = torch.tensor([3.0, 1.0, -1.0]), torch.tensor([1.0, 3.0, -3.0])
    assert cost_gap(value, reference).tolist() == [1.0, 0.0, 0.5]


# Feasibility


def feasible_days(program):
    """Per day: does HiGHS find a point of the equations and bounds, or prove that there is none?"""
    A, answers = program.A.numpy(), []
    for b, lower, upper in zip(program.b, program.cone.lower, program.cone.upper, strict=True):
        bounds = torch.stack([lower, upper], dim=1).numpy()
        found = linprog(np.zeros(A.shape[1]), A_eq=A, b_eq=b.numpy(), bounds=bounds)
        assert found.status in (0, 2), found.message  # solved, infeasible
        answers.append(found.status == 0)
    return torch.tensor(answers)


@pytest.mark.parametrize(
    ("formulation", "level", "share"),
    [
        ("printed", 1.0, "none"),
        ("printed", 1.375, "none"),
        ("printed", 1.45, "some"),
        ("printed", 1.6, "all"),
        ("turned", 0.95, "some"),
        ("turned", 1.375, "all"),
        ("inequality", 1.0, "all"),
        ("inequality", 1.375, "all"),
    ],
)
def test_feasibility_by_highs(formulation, level, share):
    """The printed equality caps the headroom: it can only hold where the load is high."""
    program = days(formulation=formulation, count=10, level=level)
    feasible = feasible_days(program)
    assert {0: "none", 10: "all"}.get(int(feasible.sum()), "some") == share
    assert (~optimum.solve(program).isnan().any(1)).tolist() == feasible.tolist()


def test_long_run_approaches_the_optimum():
    program = days(TINY, "inequality", level=1.1)
    exact = cost(program, optimum.solve(program))
    z = rollout(program, 1.0, 2.0, 1500).z
    assert operate(program, z).Eq.max() < 1e-4
    torch.testing.assert_close(cost(program, z), exact, rtol=1e-3, atol=0)


# The gradient-driven step


def plain_step(program, z, u, alpha, beta):
    """Eqs. dispatch_normalized_gradient to dispatch_rcdrs_transition as they stand."""
    gradient = program.Q * z + program.c
    g = gradient / (gradient.norm(dim=1, keepdim=True) + 1e-8)
    w = z - u - beta[:, None] * g
    A = program.A
    x = w - (w @ A.T - program.b) @ torch.linalg.pinv(A @ A.T) @ A
    relaxed = alpha[:, None] * x + (1 - alpha[:, None]) * z
    new = torch.minimum(torch.maximum(relaxed + u, program.cone.lower), program.cone.upper)
    return new, u + relaxed - new


def test_transition_is_the_paper_step_and_so_is_its_derivative():
    program = days(TINY, count=3)
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(2, 5, 3, generator=generator, dtype=torch.float64)
    alpha, beta = 0.5 + draws[0], 0.2 + draws[1]
    outcomes = []
    for fused in (True, False):
        actions = [a.clone().requires_grad_() for a in (alpha, beta)]
        transition = Transition(program)
        columns = transition.start()
        z = u = torch.zeros_like(program.c)
        for alpha_k, beta_k in zip(*actions, strict=True):
            columns, _ = transition(columns, alpha_k, beta_k)
            z, u = plain_step(program, z, u, alpha_k, beta_k)
        z = columns.z.mT if fused else z
        merit = DispatchLoss().of(program, z).sum()
        outcomes.append((z.detach(), *torch.autograd.grad(merit, actions)))
    torch.testing.assert_close(*outcomes)


# Scenarios


def test_days_look_as_described():
    sizes = {"train": 1, "validation": 1, "test": 400}
    program = generate(0, sizes).test
    load, renewable = (p.double() for p in program.realised)
    base = torch.tensor(SIX_BUS.loads).double()
    mean = load.mean(0) / base[:, None]
    assert mean.mean() == pytest.approx(1.375, abs=0.01)
    assert mean.mean(0).argmax() in range(18, 23)  # an evening peak
    night = [0, 1, 2, 3, 4, 22, 23]
    for site, description in enumerate(SIX_BUS.sites):
        dark = renewable[:, site, night]
        assert bool((dark == 0).all()) == (description.source == "solar")
        assert renewable[:, site].amax() <= 2 * description.amplitude
    for kind, expected in ((0, 0.045), (1, 0.05625)):
        realised, forecast = (p[kind].double() for p in (program.realised, program.forecast))
        error = (forecast / realised - 1)[realised > 0.01]
        assert error.mean() == pytest.approx(0, abs=1e-3)
        assert error.std() == pytest.approx(expected, rel=0.02)


def test_days_depend_on_the_seed_and_the_split_alone():
    sizes = {"train": 2, "validation": 2, "test": 2}
    first, again, turned, other = (
        generate(seed, sizes, formulation, TINY)
        for seed, formulation in ((0, "printed"), (0, "printed"), (0, "turned"), (1, "printed"))
    )
    longer = generate(0, sizes | {"train": 5}, "printed", TINY)
    for same in (again, turned, longer):
        assert torch.equal(same.test.realised.load, first.test.realised.load)
        assert torch.equal(same.test.forecast.renewable, first.test.forecast.renewable)
    for different in (other.test, first.train, first.validation):
        assert not torch.equal(different.realised.load, first.test.realised.load)


def test_set_comes_back_from_its_file(tmp_path):
    data = generate(3, {"train": 2, "validation": 2, "test": 3}, "inequality", TINY)
    data.save(tmp_path / "set.npz")
    back = ScenarioSet.load(tmp_path / "set.npz")
    assert (back.seed, back.model.formulation, back.model.network) == (3, "inequality", TINY)
    for name in ("train", "validation", "test"):
        ours, theirs = getattr(data, name), getattr(back, name)
        for part in ("A", "b", "c", "Q"):
            assert torch.equal(getattr(ours, part), getattr(theirs, part))
        assert torch.equal(ours.cone.upper, theirs.cone.upper)
        assert all(map(torch.equal, ours.realised, theirs.realised))
    assert owner_of(tmp_path / "set.npz") == {"case": "dispatch-inequality", "seed": 3}
    stored = (tmp_path / "set.npz").read_bytes()
    (tmp_path / "set.npz").write_bytes(stored[:-300])
    with pytest.raises(ValueError, match=r"set.npz is not a readable.*generate it again"):
        ScenarioSet.load(tmp_path / "set.npz")


def test_part_of_a_batch_is_the_same_days():
    program = days(TINY, count=5)
    index = torch.tensor([3, 1])
    part = program[index]
    z = random_point(program)
    for whole, chosen in zip(operate(program, z), operate(part, z[index]), strict=True):
        torch.testing.assert_close(whole[index], chosen)
    assert part.affine is program.affine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda load: load - 0.5, r"realised load is negative, -.* on day 0 in row \d"),
        (lambda load: load * math.nan, "realised load holds 24 NaN"),
        (lambda load: load[..., :3], r"shape \(2, 3, 3\).*horizon T = 4"),
        (lambda load: load[:, :2], r"shape \(2, 2, 4\).*3 buses"),
        (lambda load: load[:1], "load has 1 days and renewable power 2"),
    ],
)
def test_bad_profiles(change, message):
    program = days(TINY)
    bad = Profiles(change(program.realised.load), program.realised.renewable)
    with pytest.raises(ValueError, match=message):
        program.model.program(program.forecast, bad)


def test_other_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"'upside'.*printed, turned, inequality"):
        Dispatch(TINY, "upside")
    with pytest.raises(ValueError, match=r"'dispatch-upside'.*dispatch-printed, dispatch-turned"):
        make_instances("dispatch", "dispatch-upside", 0, SIZES, tmp_path / "set.npz")
    with pytest.raises(ValueError, match="sizes"):
        generate(0, {"train": 0, "validation": 1, "test": 1}, network=TINY)
    with pytest.raises(ValueError, match=r"'L-PDHG'.*RCDRS-NoEnv"):
        find_method("L-PDHG", METHODS)
    with pytest.raises(ValueError, match=r"'fast'.*paper, log_kkt"):
        training("dispatch", "RCDRS-Env", "fast")


# Methods


def test_methods_of_the_tables():
    classical = ["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS"]
    assert list(METHODS) == [*classical, "RCDRS-Env", "RCDRS-NoEnv"]
    program, core = days(TINY), (1.3, 4.0)
    layers = {
        name: method.build(program.A, program.cone, 3, core, solver("dispatch")["controller"])
        for name, method in METHODS.items()
    }
    drawn = dict.fromkeys(classical, core) | {"F-DRS": FIXED_CORE, "S-ADMM": FIXED_CORE}
    for name, (alpha, beta) in drawn.items():
        assert layers[name].options() == pytest.approx({"alpha": alpha, "beta": beta})
    assert isinstance(layers["F-DRS"], DRSLayer)
    assert isinstance(layers["S-ADMM"], SpectralLayer)
    env, without = (layers[name].controller.config for name in list(METHODS)[-2:])
    assert (env.envelope.k_0, env.ranges.alpha, env.ranges.beta) == (60, (0.2, 1.8), (1e-3, 10))
    assert env.growth is not None
    assert (without.envelope, without.growth, without.ranges) == (None, None, env.ranges)


def test_core_has_the_lowest_merit():
    program = days(TINY, count=8)
    pairs = list(itertools.product((0.8, 1.6), (0.2, 1.0)))
    merits = [float(DispatchLoss().of(program, rollout(program, *p, 4).z).mean()) for p in pairs]
    assert select_core(program, 4, (0.8, 1.6), (0.2, 1.0), 8) == pairs[np.argmin(merits)]


def test_paper_recipe():
    data, run = generate(0, SIZES, network=TINY), Run("RCDRS-Env")
    lesson = stages.lesson(data, run, FIXED_CORE, training("dispatch", *run))
    assert (lesson.train, lesson.validation) == (data.train, data.validation)
    recipe = lesson.recipe
    assert (recipe.epochs, recipe.batch, recipe.learning_rate, recipe.final) == (
        60,
        512,
        1e-3,
        0.05,
    )
    assert recipe.cosine
    assert recipe.loss == DispatchLoss()
    short = training("dispatch", *run, recipe={"epochs": 3, "loss": {"shed": 0.0}})
    changed = stages.lesson(data, run, FIXED_CORE, short).recipe
    assert (changed.epochs, changed.loss) == (3, DispatchLoss(shed=0.0))


def test_log_kkt_recipe_has_no_gap():
    """That of the readout is a cone's, not a box's."""
    written = training("dispatch", "RCDRS-Env", "log_kkt")["recipe"]["loss"]
    assert written == paper().recipes.log_kkt.loss.plain() | {"gap": 0.0}


def test_classical_rows_are_near_the_paper():
    """Eq, Shed, Curt and Emerg of F-DRS and Grid-DRS at K = 10 and 15, as calibrated."""
    data = generate(0, {"train": 1, "validation": 32, "test": 48})
    printed = paper_values().query("benchmark == 'Dispatch'").set_index(["K", "method", "metric"])
    few = grid("dispatch", betas=(1, 2, 4))
    for K, method in itertools.product((10, 15), ("F-DRS", "Grid-DRS")):
        core = FIXED_CORE if method == "F-DRS" else select_core(data.validation, K, **few)
        seen = operate(data.test, rollout(data.test, *core, K).z)
        for metric in ("Eq", "Shed", "Curt", "Emerg"):
            ratio = float(getattr(seen, metric).mean()) / printed["mean"][K, method, metric]
            assert 1 / 1.5 < ratio < 1.5, (K, method, metric)


# The picture


def test_stacks_add_up():
    """What is supplied or shed in emergency serves the load, charges, or is left over."""
    program = days(count=1)
    z = program.cone.project(random_point(program))
    supply, use = stacks(program, z[0])
    left = program.model.balance(program.model.schedule(z), program.realised).clamp(min=0)
    total = program.realised.load[0].sum(0) + left[0].sum(0) + torch.from_numpy(use["Charge"])
    np.testing.assert_allclose(sum(supply.values()), total)
