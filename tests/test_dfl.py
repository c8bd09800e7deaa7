"""Decision-focused learning: instances, gradients through every layer, training, files, errors."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import awake, paper, random_tensor, recipe, solver, training

from rcdrs.baselines.grid_drs import select_core
from rcdrs.experiments import synthetic
from rcdrs.experiments.base import Run
from rcdrs.experiments.dfl.data import (
    CONE,
    EQUALITIES,
    FEATURES,
    Decisions,
    DecisionSet,
    generate,
)
from rcdrs.experiments.dfl.exact import evaluate_exactly
from rcdrs.experiments.dfl.methods import (
    DECISION_METHODS,
    FIXED_CORE,
    evaluate,
    find_decision_method,
    score,
)
from rcdrs.experiments.dfl.model import CostPredictor, DecisionLoss, DecisionModel, PredictionLoss
from rcdrs.experiments.dfl.stages import lesson
from rcdrs.experiments.engine import KEYS, Asked, make_instances, time_methods, train_run, tune
from rcdrs.experiments.engine import evaluate as evaluate_runs
from rcdrs.experiments.exact import solve
from rcdrs.files import read_checkpoint
from rcdrs.layer import DRSLayer
from rcdrs.solver.problem import ConicProgram

CPU = torch.device("cpu")
DEPTH = 3
CORE = (1.3, 1.0)
FEW = {"train": 12, "validation": 6, "test": 8}
SHORT = {"epochs": 3, "batch": 5}
SOLVER = solver("dfl")
ONE_PAIR = {"alpha": [1.3], "beta": [1.0], "instances": 6}
METRICS = ["Regret", "Eq", "Dist", "r_p", "r_d", "r_gap"]
CONTROLLED = [name for name, method in DECISION_METHODS.items() if method.controlled]
PAPER = ["PTO", "F-DRS", "Grid-DRS", "AA-DRS", "L-PDHG"] + [
    f"RCDRS-{variant}-{suffix}" for variant in ("Env", "NoEnv") for suffix in "FJ"
]


@pytest.fixture(scope="module")
def data():
    """Float64, so that identities hold to rounding."""
    return generate(0, FEW, torch.float64)


def model_of(name, data, depth=DEPTH, core=CORE):
    """The model of a method with noise on every weight: an untrained controller is its core."""
    method = find_decision_method(name)
    torch.manual_seed(0)
    model = method.build(data.A, depth, core, SOLVER["controller"])
    awake(model.layer, 0.05)
    return model


# Instances


def test_structure_is_the_papers(data):
    assert (CONE.dim, EQUALITIES, FEATURES) == (49, 18, 20)
    sizes = paper().dfl.instances.plain()
    assert list(sizes.items()) == [("train", 5000), ("validation", 1500), ("test", 1500)]
    assert torch.linalg.cond(data.A).item() == pytest.approx(80)
    assert [getattr(data, name).batch for name in FEW] == list(FEW.values())


def test_instances_are_solved_exactly_by_their_triple(data):
    for part in (data.train, data.validation, data.test):
        program = part.program
        torch.testing.assert_close(part.x @ data.A.mT, program.b)
        torch.testing.assert_close(part.y @ data.A + part.s, program.c)
        assert CONE.contains(part.x, 1e-12).all()
        assert CONE.dual_contains(part.s, 1e-12).all()
        assert ((part.x * part.s).sum(-1).abs() <= 1e-12).all()


def test_costs_have_length_one(data):
    torch.testing.assert_close(data.train.program.c.norm(dim=-1), torch.ones(12).double())


def test_cost_is_a_function_of_the_features_alone(data):
    more = generate(0, FEW | {"train": 20}, torch.float64)
    torch.testing.assert_close(more.train.q[:12], data.train.q, rtol=0, atol=0)
    torch.testing.assert_close(more.train.program.c[:12], data.train.program.c)
    torch.testing.assert_close(more.test.program.c, data.test.program.c, rtol=0, atol=0)


def test_seed_changes_structure_features_and_map(data):
    other = generate(1, FEW, torch.float64)
    for mine, its in ((data.A, other.A), (data.test.q, other.test.q), (data.test.y, other.test.y)):
        assert not torch.isclose(mine, its).any()


def test_set_comes_back_from_its_file(tmp_path):
    first = generate(0, FEW)
    first.save(tmp_path / "a.npz")
    again = DecisionSet.load(tmp_path / "a.npz")
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert again.to(CPU) is again
    torch.testing.assert_close(again.test.s, first.test.s, rtol=0, atol=0)


def test_foreign_set_is_named(tmp_path):
    synthetic.instances.generate("socp-small", 0, FEW).save(tmp_path / "set.npz")
    with pytest.raises(ValueError, match=r"set\.npz is not a readable.*socp-small.*instances dfl"):
        DecisionSet.load(tmp_path / "set.npz")


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="expected positive numbers for train, validation, test"):
        generate(0, {"train": 3})


# Bad input


def replaced(part, **tensors):
    return Decisions(**(vars(part) | tensors))


def test_features_are_checked(data):
    part, q = data.test, data.test.q.clone()
    with pytest.raises(ValueError, match=r"q has shape \(8, 19\), expected \(batch, 20 features\)"):
        replaced(part, q=q[:, :19])
    with pytest.raises(ValueError, match=r"q has batch size 7 and the program has 8"):
        replaced(part, q=q[:7])
    with pytest.raises(ValueError, match=r"x has shape \(8, 18\), expected \(8, 49\)"):
        replaced(part, x=part.y)
    q[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"q holds 1 NaN.*first at \(3, 4\)"):
        replaced(part, q=q)
    with pytest.raises(ValueError, match=r"q holds 1 NaN"):
        CostPredictor().double()(q)
    with pytest.raises(ValueError, match=r"q has shape \(8, 18\), expected \(batch, 20 features\)"):
        CostPredictor().double()(part.y)


def test_predictor_and_layer_must_fit(data):
    layer = DRSLayer(data.A, CONE, DEPTH)
    with pytest.raises(ValueError, match=r"gives 48 costs, expected n = 49"):
        DecisionModel(CostPredictor(costs=48).double(), layer)


def test_unknown_method_is_named():
    with pytest.raises(ValueError, match=r"'RCDRS-Env', expected one of PTO"):
        find_decision_method("RCDRS-Env")


# Predictor and losses


def test_predictor_is_clipped_smoothly():
    predictor = CostPredictor().double()
    q = random_tensor(5, FEATURES)
    raw = predictor.net(q)
    torch.testing.assert_close(predictor(q), 20 * torch.tanh(raw / 20))
    assert predictor(1e6 * q).abs().max() <= 20
    widths = [tuple(w.shape) for w in predictor.parameters() if w.ndim == 2]
    assert widths == [(128, 20), (128, 128), (49, 128)]


def test_decision_loss_is_the_papers_formula(data):
    part = data.test
    # The true cost, driven hard: some points, not feasible, have less than the optimum.
    model = model_of("Grid-DRS", data, core=(1.6, 6.0))
    model.predictor.forward = lambda q: part.program.c
    decision = model.solve(part)
    tensors = (decision.solution.x, part.x, part.program.b, part.program.c)
    z, x, b, c = (tensor.numpy() for tensor in tensors)
    optimum = (c * x).sum(1)
    regret = ((c * z).sum(1) - optimum) / (1 + abs(optimum))
    eq = np.linalg.norm(z @ data.A.numpy().T - b, axis=1) / (1 + np.linalg.norm(b, axis=1))
    expected = torch.from_numpy(np.maximum(regret, 0) + 20 * eq)
    torch.testing.assert_close(DecisionLoss()(decision), expected)
    assert (regret < 0).any()
    assert (regret > 0).any()


def test_prediction_loss_does_not_solve(data):
    model = model_of("PTO", data)
    model.layer.forward = None  # not even callable
    losses = PredictionLoss()(model.solve(data.test))
    error = model.predictor(data.test.q) - data.test.program.c
    torch.testing.assert_close(losses, error.square().mean(-1))


@pytest.mark.parametrize("name", DECISION_METHODS)
def test_gradient_of_the_decision_loss_is_that_of_finite_differences(data, name):
    """In every weight of the predictor, and of the layer where it learns, along a random line."""
    model, loss = model_of(name, data, depth=6), DecisionLoss()
    weights = [w for w in model.parameters() if w.requires_grad]
    gradients = torch.autograd.grad(loss(model.solve(data.train)).mean(), weights)
    h = 1e-7
    for number, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        line = random_tensor(*weight.shape, seed=number)
        values = []
        with torch.no_grad():
            for step in (h, -2 * h):
                weight += step * line
                values.append(float(loss(model.solve(data.train)).mean()))
            weight += h * line
        slope = (values[0] - values[1]) / (2 * h)
        # Rounding of 1e-16 / h, and no kink of a projection is that near.
        assert float((gradient * line).sum()) == pytest.approx(slope, rel=1e-6, abs=1e-8), number


def test_frozen_layer_learns_nothing_and_the_predictor_behind_it_does(data):
    frozen, joint = (model_of(f"RCDRS-Env-{suffix}", data) for suffix in "FJ")
    assert not any(w.requires_grad for w in frozen.layer.parameters())
    assert all(w.requires_grad for w in joint.parameters())
    for model in (frozen, joint):
        DecisionLoss()(model.solve(data.train)).mean().backward()
        assert all(w.grad.abs().max() > 0 for w in model.predictor.parameters())


# Methods


def test_methods_are_the_papers_and_one_of_ours():
    assert sorted(DECISION_METHODS) == sorted([*PAPER, "Anderson-DRS"])
    assert [m.name for m in DECISION_METHODS.values() if m.frozen] == [
        "RCDRS-Env-F",
        "RCDRS-NoEnv-F",
    ]


@pytest.mark.parametrize("name", PAPER)
def test_recipe_is_the_papers(data, name):
    found = lesson(data, Run(name), CORE, training("dfl", name))
    assert (found.train, found.validation, found.reference) == (data.train, data.validation, None)
    expected = PredictionLoss() if name == "PTO" else DecisionLoss(eq=20)
    assert found.recipe.loss == expected
    assert (found.recipe.epochs, found.recipe.batch, found.recipe.learning_rate) == (50, 2500, 1e-3)
    assert (found.recipe.weight_decay, found.recipe.clip, found.recipe.cosine) == (1e-5, 5.0, False)


def test_pretraining_is_the_papers(data):
    found = lesson(data, Run("RCDRS-Env"), CORE, training("dfl", "RCDRS-Env"))
    assert (found.recipe, found.reference) == (recipe("paper", epochs=80, batch=2500), CORE)
    assert found.train is data.train.program
    assert found.validation is data.validation.program
    found = lesson(data, Run("RCDRS-Env", "log_kkt"), CORE, training("dfl", "RCDRS-Env", "log_kkt"))
    assert (found.recipe, found.reference) == (recipe("log_kkt", epochs=12), None)


def test_layers_have_the_papers_ranges_and_cores(data):
    ranges = {"rho": (1e-3, 1e3), "alpha": (0.2, 1.8), "beta": (1e-3, 10.0)}
    for name in CONTROLLED:
        method = find_decision_method(name)
        layer = method.build(data.A, DEPTH, CORE, SOLVER["controller"]).layer
        config = layer.controller.config
        assert vars(config.ranges) == ranges
        assert (config.envelope is None) == ("NoEnv" in name)
        assert layer.core == CORE
    cores = {name: model_of(name, data).layer.options() for name in ("PTO", "F-DRS", "Grid-DRS")}
    assert cores["F-DRS"] == {"alpha": FIXED_CORE[0], "beta": pytest.approx(FIXED_CORE[1])}
    assert cores["PTO"] == cores["Grid-DRS"] == {"alpha": CORE[0], "beta": CORE[1]}


def test_core_has_the_lowest_score(data):
    part, grid = data.validation, {"alphas": (0.8, 1.6), "betas": (0.3, 3.0)}
    scores = {}
    for core in itertools.product(*grid.values()):
        z = DRSLayer(data.A, CONE, DEPTH, *core)(part.program.b, part.program.c).x
        optimum = (part.program.c * part.x).sum(-1)
        regret = ((part.program.c * z).sum(-1) - optimum) / (1 + optimum.abs())
        eq = (z @ data.A.mT - part.program.b).norm(dim=-1) / (1 + part.program.b.norm(dim=-1))
        scores[core] = float((regret.clamp(min=0) + 0.1 * eq).mean())
    assert select_core(part, DEPTH, **grid, scored=6, score=score) == min(scores, key=scores.get)


# Metrics


def test_true_cost_and_many_steps_give_no_regret(data):
    """A predictor that knows the cost: what is left is the layer's own error."""
    model = model_of("Grid-DRS", data, depth=300, core=(1.6, 3.0))
    model.predictor.forward = lambda q: data.test.program.c
    metrics = evaluate(model, data.test)
    assert list(metrics) == METRICS
    for name in ("Regret", "Eq", "r_p", "r_d", "r_gap"):
        assert metrics[name].max() <= 1e-6, name


def test_scale_of_the_prediction_does_not_matter_to_the_decision(data):
    model = model_of("Grid-DRS", data)
    before = evaluate(model, data.test)
    predicted = model.predictor(data.test.q).detach()
    model.predictor.forward = lambda q: 7 * predicted
    after = evaluate(model, data.test)
    for name in ("Regret", "Eq", "Dist"):
        torch.testing.assert_close(after[name], before[name], rtol=1e-6, atol=1e-6)


def test_exact_reference_finds_the_optimum(data):
    model = model_of("PTO", data)
    model.predictor.forward = lambda q: data.test.program.c
    metrics = evaluate_exactly(model, data.test)
    assert list(metrics) == [*METRICS, "Solved"]
    solved = metrics["Solved"] == 1
    assert solved.sum() >= 7  # Clarabel gives up on a few for numerical reasons
    for name in ("Regret", "Eq", "r_p", "r_d", "r_gap"):
        assert metrics[name][solved].max() <= 1e-6, name
        assert metrics[name][~solved].isnan().all()


def test_unbounded_problem_has_no_exact_solution(data):
    program = data.test.program
    c = torch.stack([program.c[0], -CONE.project(program.c[0])])
    x, y = solve(ConicProgram(data.A, program.b[:2], c, CONE))
    assert torch.isfinite(x[0]).all()
    assert x[1].isnan().all()
    assert y[1].isnan().all()


# Stages


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, cores, pretrained controllers and the model of every method."""
    folder = tmp_path_factory.mktemp("dfl")
    make_instances("dfl", "dfl", 1, FEW, folder / "set.npz")
    for depth in (DEPTH, 4):
        tune("dfl", folder / "set.npz", depth, ONE_PAIR, folder / f"core-K{depth}.json")
    for name in ("RCDRS-Env", "RCDRS-NoEnv", *DECISION_METHODS):
        trained(folder, name, folder / f"{name}.pt")
    return folder


def files(folder, depth=DEPTH):
    return folder / "set.npz", folder / f"core-K{depth}.json"


def trained(work, name, out, depth=DEPTH, by="paper", start=..., **parts):
    """The path of a checkpoint, trained now; by default from the controller of its name."""
    if start is ...:
        start = work / f"{name[:-2]}.pt" if name in CONTROLLED else None
    settings = training("dfl", name, by, **{"recipe": SHORT} | parts)
    train_run("dfl", *files(work, depth), Run(name, by), settings, 0, out, CPU, start)
    return out


def parse(text):
    return Asked.parse(text, "dfl")


def run_of(work, name):
    return parse(f"{name}@paper={work / name.removesuffix('-Exact')}.pt")


@pytest.fixture(scope="module")
def every(work):
    runs = [run_of(work, name) for name in [*DECISION_METHODS, "PTO-Exact"]]
    return evaluate_runs("dfl", *files(work), runs, SOLVER, CPU)


def test_rows_have_the_keys_and_the_metrics(every):
    rows, details = every
    assert list(rows.columns) == [*KEYS, *METRICS, "Solved"]
    assert list(rows["method"]) == [*DECISION_METHODS, "PTO-Exact"]
    constant = {"experiment": "dfl", "family": "dfl", "scale": "-", "K": DEPTH, "seed": 1}
    for key, value in (constant | {"recipe": "paper"}).items():
        assert set(rows[key]) == {value}
    for row in rows[:-1].to_dict("records"):
        for metric in METRICS:
            values = details[f"{row['method']}@paper/{metric}"]
            assert row[metric] == pytest.approx(values.astype(np.float64).mean())


@pytest.mark.parametrize("name", ["AA-DRS", "RCDRS-NoEnv-F", "RCDRS-Env-J"])
def test_training_again_gives_the_same_bytes(work, tmp_path, name):
    out = trained(work, name, tmp_path / "again.pt")
    assert out.read_bytes() == (work / f"{name}.pt").read_bytes()
    curve = (tmp_path / "again.csv").read_bytes()
    assert curve == (work / f"{name}.csv").read_bytes()


@pytest.mark.parametrize("name", ["L-PDHG", "RCDRS-Env-F", "RCDRS-Env-J"])
def test_resumed_training_ends_with_the_same_bytes(work, tmp_path, monkeypatch, name):
    clock = SimpleNamespace(monotonic=itertools.count(0, 60).__next__)  # saves every epoch
    monkeypatch.setattr("rcdrs.training.loop.time", clock)
    calls, compute = itertools.count(1), DecisionLoss.__call__

    def interrupted(self, decision, reference=None):
        if next(calls) == 10:  # in the third epoch: three steps and a validation each
            raise KeyboardInterrupt
        return compute(self, decision, reference)

    with monkeypatch.context() as patch:
        patch.setattr(DecisionLoss, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained(work, name, tmp_path / "model.pt")
    assert (tmp_path / "model.resume").exists()
    out = trained(work, name, tmp_path / "model.pt")
    assert out.read_bytes() == (work / f"{name}.pt").read_bytes()
    assert not (tmp_path / "model.resume").exists()


def weights_of(path, part=""):
    return {
        name.removeprefix(part): weight
        for name, weight in read_checkpoint(path)[1].items()
        if name.startswith(part)
    }


@pytest.mark.parametrize("layer", ["RCDRS-Env", "RCDRS-NoEnv"])
def test_frozen_controller_stays_and_joint_one_moves(work, layer):
    before = weights_of(work / f"{layer}.pt")
    frozen, joint = (weights_of(work / f"{layer}-{s}.pt", "layer.") for s in "FJ")
    assert before.keys() == frozen.keys() == joint.keys()
    assert all(torch.equal(frozen[name], weight) for name, weight in before.items())
    assert not any(torch.equal(joint[name], weight) for name, weight in before.items())


def test_predictors_start_alike_and_end_apart(work, tmp_path):
    none = {"epochs": 0}
    start = [
        weights_of(trained(work, name, tmp_path / f"{name}.pt", recipe=none), "predictor.")
        for name in ("PTO", "RCDRS-Env-F")
    ]
    end = [weights_of(work / f"{name}.pt", "predictor.") for name in ("PTO", "RCDRS-Env-F")]
    for name, weight in start[0].items():
        assert torch.equal(start[1][name], weight)
        assert not torch.equal(end[0][name], end[1][name])


def test_times_are_measured_for_every_method(work):
    instances, core = files(work)
    settings = SOLVER | {"warm_up": 0, "repeats": 1}
    rows = time_methods("dfl", instances, [core], DECISION_METHODS, settings, CPU)
    assert list(rows["method"]) == list(DECISION_METHODS)
    assert (rows["time_ms"] > 0).all()


# Errors of the stages


def test_controller_of_another_depth_is_named(work, tmp_path):
    with pytest.raises(ValueError, match=r"RCDRS-Env\.pt holds depth 3, expected 4"):
        trained(work, "RCDRS-Env-F", tmp_path / "a.pt", depth=4)


def test_controller_of_another_recipe_is_named(work, tmp_path):
    with pytest.raises(ValueError, match=r"RCDRS-Env\.pt was trained for .*paper.*log_kkt"):
        trained(work, "RCDRS-Env-F", tmp_path / "a.pt", by="log_kkt")


def test_controller_of_another_kind_is_named(work, tmp_path):
    with pytest.raises(ValueError, match=r"RCDRS-NoEnv\.pt was trained as another method"):
        trained(work, "RCDRS-Env-J", tmp_path / "a.pt", start=work / "RCDRS-NoEnv.pt")
    with pytest.raises(ValueError, match="start is None, expected a checkpoint of RCDRS-Env@paper"):
        trained(work, "RCDRS-Env-J", tmp_path / "a.pt", start=None)


@pytest.mark.parametrize("name", ["PTO", "RCDRS-Env"])
def test_controller_for_a_method_without_one_is_refused(work, tmp_path, name):
    with pytest.raises(ValueError, match=rf"start is .*RCDRS-Env\.pt, expected none for {name}"):
        trained(work, name, tmp_path / "a.pt", start=work / "RCDRS-Env.pt")


def test_recipe_of_a_method_without_controller_is_the_papers(work, tmp_path):
    message = "PTO{} has no controller: its recipe is paper, not log_kkt"
    for name in ("PTO", "PTO-Exact"):
        with pytest.raises(ValueError, match=message.format(name.removeprefix("PTO"))):
            parse(f"{name}@log_kkt=a.pt")
    with pytest.raises(ValueError, match=message.format("")):
        training("dfl", "PTO", "log_kkt")
    run, out = Run("PTO", "log_kkt"), tmp_path / "a.pt"
    with pytest.raises(ValueError, match=message.format("")):
        train_run("dfl", *files(work), run, training("dfl", "PTO"), 0, out, CPU)
    with pytest.raises(ValueError, match="'PTO' does not fit PTO, expected PTO@RECIPE=CHECKPOINT"):
        parse("PTO")


def test_controllers_are_trained_but_not_evaluated(work, tmp_path):
    with pytest.raises(ValueError, match=r"'RCDRS-Env', expected one of PTO"):
        parse("RCDRS-Env@paper=a.pt")
    with pytest.raises(ValueError, match=r"'Layerwise-DRS', expected one of PTO"):
        trained(work, "Layerwise-DRS", tmp_path / "a.pt")
    with pytest.raises(ValueError, match="PTO-Exact has nothing to train"):
        trained(work, "PTO-Exact", tmp_path / "a.pt")
    run, out = Run("RCDRS-Env", "mse"), tmp_path / "a.pt"
    with pytest.raises(ValueError, match="unknown recipe 'mse'"):
        train_run("dfl", *files(work), run, training("dfl", "RCDRS-Env"), 0, out, CPU)


def test_run_asked_for_twice_is_refused(work):
    with pytest.raises(ValueError, match="PTO@paper is asked for twice"):
        evaluate_runs("dfl", *files(work), [run_of(work, "PTO")] * 2, SOLVER, CPU)


@pytest.mark.parametrize(
    ("name", "file", "depth", "complaint"),
    [
        ("RCDRS-Env-F", "RCDRS-Env-F", 4, "holds depth 3, expected 4"),
        ("RCDRS-Env-F", "RCDRS-Env-J", DEPTH, "holds method RCDRS-Env-J, expected RCDRS-Env-F"),
        ("PTO", "RCDRS-Env", DEPTH, "holds method None, expected PTO"),
    ],
)
def test_model_of_another_run_is_named(work, name, file, depth, complaint):
    run = parse(f"{name}@paper={work / file}.pt")
    with pytest.raises(ValueError, match=complaint):
        evaluate_runs("dfl", *files(work, depth), [run], SOLVER, CPU)


def test_model_of_another_seed_or_core_is_named(work, tmp_path):
    runs, other = [run_of(work, "Grid-DRS")], (tmp_path / "set.npz", tmp_path / "core.json")
    make_instances("dfl", "dfl", 2, FEW, other[0])
    tune("dfl", other[0], DEPTH, ONE_PAIR, other[1])
    with pytest.raises(ValueError, match=r"'seed': 1.*expected.*'seed': 2"):
        evaluate_runs("dfl", *other, runs, SOLVER, CPU)
    with pytest.raises(ValueError, match=r"K3\.json holds the core of dfl, seed 1, .* seed 2"):
        evaluate_runs("dfl", other[0], files(work)[1], runs, SOLVER, CPU)
    core = {"case": "dfl", "seed": 1, "depth": DEPTH, "alpha": 1.6, "beta": 1.0}
    other[1].write_text(json.dumps(core))
    with pytest.raises(ValueError, match=r"'alpha': 1\.3.*expected.*'alpha': 1\.6"):
        evaluate_runs("dfl", files(work)[0], other[1], runs, SOLVER, CPU)


def test_settings_and_names_are_checked(work, tmp_path):
    with pytest.raises(ValueError, match="unknown 'recipes', expected controller, recipe"):
        trained(work, "PTO", tmp_path / "a.pt", recipes={})
    with pytest.raises(ValueError, match=r"a\.txt, expected a name that ends in \.pt"):
        trained(work, "PTO", tmp_path / "a.txt")
