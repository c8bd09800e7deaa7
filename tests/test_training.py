"""The training loop: deterministic, resumable after any crash, and never worse than its start."""

from __future__ import annotations

import csv
import itertools
import math
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import log_kkt_loss, recipe, terminal_loss, training
from torch.optim.optimizer import register_optimizer_step_post_hook

from rcdrs import ControllerConfig, DRSLayer, RCDRSLayer
from rcdrs.baselines.registry import METHODS
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.files import read_checkpoint, write_checkpoint
from rcdrs.training.loop import TrainingDiverged, train
from rcdrs.training.losses import TerminalLoss

CORE = (1.6, 1.0)
DEPTH = 3
#: Three minibatches in each of four epochs.
RECIPE = recipe(epochs=4, batch=8, learning_rate=0.05)
STEPS = 12


def instances():
    return generate("socp-small", 0, sizes={"train": 24, "validation": 8, "test": 1})


@pytest.fixture(scope="module")
def data():
    return instances()


def untrained(data, seed=0):
    torch.manual_seed(seed)
    return RCDRSLayer(data.A, data.case.cone, DEPTH, CORE, ControllerConfig(hidden=8))


def run(data, folder, recipe=RECIPE, seed=0, weights=0, **more):
    """Train in `folder` and write the layer beside the curve; returns the bytes of both."""
    layer = untrained(data, weights)
    programs = (data.train.program, data.validation.program)
    files = {"curve": folder / "curve.csv", "resume": folder / "resume.pt"}
    train(layer, *programs, recipe, seed, CORE, **files, **more)
    layer.save(folder / "layer.pt")
    return (folder / "layer.pt").read_bytes(), (folder / "curve.csv").read_bytes()


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The outcome of a run without interruption."""
    return run(data, tmp_path_factory.mktemp("whole"))


@pytest.fixture
def save_every_epoch(monkeypatch):
    monkeypatch.setattr("rcdrs.training.loop.SAVE_INTERVAL", -1)


def hurried_clock():
    """A minute passes between any two looks at it."""
    return SimpleNamespace(monotonic=itertools.count(0, 60).__next__)


# Determinism


def test_same_seed_gives_the_same_bytes(data, whole, tmp_path):
    assert run(data, tmp_path) == whole


def test_other_seed_gives_other_weights(data, whole, tmp_path):
    assert run(data, tmp_path, seed=1) != whole


def test_global_random_state_does_not_matter(data, whole, tmp_path):
    """Only the first weights come from it."""
    layers = [untrained(data), untrained(data)]
    for layer, seed in zip(layers, (5, 6), strict=True):
        torch.manual_seed(seed)
        train(layer, data.train.program, data.validation.program, RECIPE, 0, CORE)
        layer.save(tmp_path / "layer.pt")
        assert (tmp_path / "layer.pt").read_bytes() == whole[0]


def test_every_epoch_sees_every_instance_once_in_another_order(data):
    seen = []

    def record(solution, reference):
        seen.extend(solution.program.b[:, 0].tolist())
        return RECIPE.loss(solution, reference)

    record.merit = RECIPE.loss.merit
    recipe = replace(RECIPE, loss=record)
    train(untrained(data), data.train.program, data.validation.program, recipe, 0, CORE)
    epochs = [seen[i : i + 24] for i in range(0, 96, 24)]
    assert all(sorted(epoch) == sorted(data.train.program.b[:, 0].tolist()) for epoch in epochs)
    assert all(one != other for one, other in itertools.combinations(epochs, 2))


# Interruption


class Wrapped:
    """A loss that is the same run to a resumed training as the loss it wraps."""

    def __repr__(self):
        return repr(self.loss)


class Interrupted(Wrapped):
    """A loss until its `at`-th call, which ends in `end`."""

    def __init__(self, loss, at, end):
        self.loss, self.at, self.end = loss, at, end
        self.calls, self.merit = itertools.count(1), loss.merit

    def __call__(self, solution, reference):
        if next(self.calls) == self.at:
            self.end()
        return self.loss(solution, reference)


def interrupted(at, end, recipe=RECIPE):
    return replace(recipe, loss=Interrupted(recipe.loss, at, end))


def stop():
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_resumed_run_ends_with_the_same_bytes(data, whole, tmp_path, save_every_epoch, at):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(at, stop))
    assert (tmp_path / "resume.pt").exists() == (at > 3)
    assert not (tmp_path / "curve.csv").exists()
    assert run(data, tmp_path) == whole


def test_twice_interrupted_run_ends_with_the_same_bytes(data, whole, tmp_path, save_every_epoch):
    for at in (5, 5):
        with pytest.raises(KeyboardInterrupt):
            run(data, tmp_path, interrupted(at, stop))
    assert run(data, tmp_path) == whole


def test_resumed_run_does_not_repeat_finished_epochs(data, tmp_path, save_every_epoch):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(8, stop))
    steps = []
    hook = register_optimizer_step_post_hook(lambda *_: steps.append(1))
    run(data, tmp_path)
    hook.remove()
    assert len(steps) == STEPS - 6


@pytest.mark.parametrize("name", ["L-PDHG", "Layerwise-DRS"])
def test_other_methods_resume_as_well(data, tmp_path, save_every_epoch, name):
    recipe = replace(RECIPE, cosine=True, loss=log_kkt_loss())
    layers = [METHODS[name].build(data.A, data.case.cone, DEPTH, CORE) for _ in range(3)]
    arguments = (data.train.program, data.validation.program)
    train(layers[0], *arguments, recipe, 0, CORE)
    resume = tmp_path / "resume.pt"
    with pytest.raises(KeyboardInterrupt):
        train(layers[1], *arguments, interrupted(8, stop, recipe), 0, CORE, resume=resume)
    train(layers[2], *arguments, recipe, 0, CORE, resume=resume)
    assert_same_weights(layers[0], layers[2])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def killed(when, folder):
    """Runs in a process of its own: train until SIGKILL in the third epoch, or in a third write."""
    import rcdrs.training.loop

    torch.set_num_threads(1)
    rcdrs.training.loop.time = hurried_clock()
    recipe, move, moves = RECIPE, os.replace, itertools.count(1)
    if when == "computing":
        recipe = interrupted(8, die)
    else:
        os.replace = lambda *names: die() if next(moves) == 3 else move(*names)
    run(instances(), Path(folder), recipe)


@pytest.mark.parametrize("when", ["computing", "writing"])
def test_killed_run_is_resumed_to_the_same_bytes(data, whole, tmp_path, when):
    code = f"import test_training; test_training.killed({when!r}, {str(tmp_path)!r})"
    here = Path(__file__).parent
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, check=False)
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "resume.pt").exists()
    assert run(data, tmp_path) == whole


def test_finished_run_called_again_ends_with_the_same_bytes(
    data, whole, tmp_path, save_every_epoch
):
    for _ in range(2):
        assert run(data, tmp_path) == whole


# Files


def test_crash_inside_writing_leaves_the_old_file(data, tmp_path, monkeypatch):
    layer, path = untrained(data), tmp_path / "layer.pt"
    layer.save(path)
    old = path.read_bytes()
    write = Path.write_bytes

    def full_disk(self, content):
        write(self, content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="no space left"):
        layer.save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_damaged_resume_file_is_named(data, tmp_path):
    (tmp_path / "resume.pt").write_bytes(b"half a fi")
    message = r"resume\.pt is not a readable checkpoint .*: delete it, and training starts over"
    with pytest.raises(ValueError, match=message):
        run(data, tmp_path)


def test_checkpoint_in_place_of_a_resume_file_is_named(data, tmp_path):
    untrained(data).save(tmp_path / "resume.pt")
    message = r"resume\.pt is not a readable state of an unfinished training .*: delete it, and"
    with pytest.raises(ValueError, match=message):
        run(data, tmp_path)


def test_every_flipped_byte_of_a_resume_file_is_found(data, tmp_path, save_every_epoch):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(8, stop))
    path = tmp_path / "resume.pt"
    whole = path.read_bytes()
    for place in (*range(0, len(whole), 2999), *range(len(whole) - 90, len(whole), 9)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"resume\.pt .*: delete it, and training starts over"):
            run(data, tmp_path)


def test_resume_file_whose_parts_do_not_fit_is_named(data, tmp_path, save_every_epoch):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(8, stop))
    path = tmp_path / "resume.pt"
    config, weights = read_checkpoint(path)
    first = next(iter(weights["best"]))
    for part, change in (
        ("best", {first: torch.full_like(weights["best"][first], math.nan)}),
        ("layer", {first: torch.ones(7)}),
        ("layer", {"more": torch.ones(7)}),
        ("optimizer", {"param_groups": []}),
    ):
        write_checkpoint(path, config, weights | {part: weights[part] | change})
        with pytest.raises(ValueError, match=r"resume\.pt is not a readable"):
            run(data, tmp_path)


def test_curve_has_one_row_an_epoch(data, tmp_path):
    run(data, tmp_path)
    with open(tmp_path / "curve.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert list(rows[0]) == ["epoch", "loss", "merit"]
    assert math.isnan(float(rows[0]["loss"]))
    assert all(math.isfinite(float(row["loss"])) for row in rows[1:])


# What is kept


def validation_merit(layer, data, loss):
    program = data.validation.program
    reference = DRSLayer(data.A, data.case.cone, DEPTH, *CORE).solve(program).observation
    with torch.no_grad():
        return float(loss.merit(layer.solve(program), reference).mean())


def test_layer_is_left_at_its_lowest_merit(data):
    """Row 0 of the curve is the untrained layer, so the outcome is never worse than the core."""
    layer = untrained(data)
    core = validation_merit(layer, data, RECIPE.loss)
    curve = train(layer, data.train.program, data.validation.program, RECIPE, 0, CORE)
    assert curve[0]["merit"] == core
    assert validation_merit(layer, data, RECIPE.loss) == min(row["merit"] for row in curve) <= core


class Scripted(Wrapped):
    """A loss whose validation merits are given in advance."""

    def __init__(self, loss, *merits):
        self.loss, self.merits = loss, iter(merits)

    def __call__(self, solution, reference):
        return self.loss(solution, reference)

    def merit(self, solution, reference):
        return torch.tensor([float(next(self.merits))])


def after_epochs(data, epochs):
    """The state of a layer whose last epoch is its best."""
    recipe = replace(RECIPE, epochs=epochs, loss=Scripted(RECIPE.loss, *range(epochs, -1, -1)))
    layer = untrained(data)
    train(layer, data.train.program, data.validation.program, recipe, 0, CORE)
    return layer


def assert_same_weights(first, second):
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("best", range(5))
def test_layer_is_left_at_its_best_epoch(data, best):
    merits = [2.0] * 5
    merits[best] = 1.0
    layer, recipe = untrained(data), replace(RECIPE, loss=Scripted(RECIPE.loss, *merits))
    curve = train(layer, data.train.program, data.validation.program, recipe, 0, CORE)
    assert [row["merit"] for row in curve] == merits
    assert_same_weights(layer, after_epochs(data, best))


def test_resumed_run_remembers_its_best_epoch(data, tmp_path, save_every_epoch):
    resume = tmp_path / "resume.pt"
    recipe = replace(RECIPE, loss=Scripted(RECIPE.loss, 5.0, 1.0, 2.0, 3.0, 4.0))
    programs = (data.train.program, data.validation.program)
    with pytest.raises(KeyboardInterrupt):
        train(untrained(data), *programs, interrupted(8, stop, recipe), 0, CORE, resume=resume)
    layer = untrained(data)
    train(layer, *programs, recipe, 0, CORE, resume=resume)
    assert_same_weights(layer, after_epochs(data, 1))


def test_layer_that_only_gets_worse_stays_at_its_core(data):
    """Row 0 counts: with a gradient turned round the core remains the best."""

    @dataclass(frozen=True)
    class Worsening(TerminalLoss):
        def __call__(self, solution, reference):
            return -super().__call__(solution, reference)

    layer = untrained(data)
    recipe = replace(RECIPE, loss=Worsening(**vars(RECIPE.loss)), learning_rate=0.3)
    curve = train(layer, data.train.program, data.validation.program, recipe, 0, CORE)
    assert min(row["merit"] for row in curve[1:]) > curve[0]["merit"]
    assert_same_weights(layer, untrained(data))


@pytest.mark.parametrize("name", ["paper", "log_kkt"])
@pytest.mark.parametrize("method", ["L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv"])
def test_training_lowers_the_validation_merit(data, name, method):
    torch.manual_seed(0)
    layer = METHODS[method].build(data.A, data.case.cone, DEPTH, CORE)
    short = recipe(name, epochs=5, batch=8, learning_rate=0.01)
    curve = train(layer, data.train.program, data.validation.program, short, 0, CORE)
    before, after = curve[0]["merit"], min(row["merit"] for row in curve)
    # The merit of log_kkt is a logarithm: 0.02 is two per cent of the residuals squared.
    assert after < (before - 0.02 if name == "log_kkt" else 0.98 * before)


# Divergence


class Diverging(Wrapped):
    """A loss that is NaN for one instance after its first `good` calls."""

    def __init__(self, loss, data, instance, good):
        self.loss, self.b, self.good = loss, data.train.program.b[instance], good
        self.calls, self.merit = itertools.count(1), loss.merit

    def __call__(self, solution, reference):
        losses = self.loss(solution, reference)
        hit = (solution.program.b == self.b).all(-1) & (next(self.calls) > self.good)
        return torch.where(hit, torch.nan, losses)


def test_divergence_names_epoch_and_instances(data, whole, tmp_path, save_every_epoch):
    """The state of the last whole epoch remains, and a sound loss goes on from it."""
    recipe = replace(RECIPE, loss=Diverging(RECIPE.loss, data, instance=5, good=3))
    message = r"training loss .* epoch 2 for 1 instances \(5\); .* of 1 whole epochs"
    with pytest.raises(TrainingDiverged, match=message):
        run(data, tmp_path, recipe)
    assert run(data, tmp_path) == whole


def other_data(split):
    """One number of a split is another."""
    data = instances()
    getattr(data, split).program.b[3, 5] += 1e-3
    return {"data": data}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"recipe": interrupted(8, stop, replace(RECIPE, learning_rate=0.5))}, "recipe"),
        ({"seed": 1}, "seed"),
        ({"weights": 1}, "first weights"),
        ({"code": "before"}, "code"),
        (other_data("train"), "data"),
        (other_data("validation"), "data"),
    ],
)
def test_resume_file_of_another_run_is_not_used(
    data, whole, tmp_path, save_every_epoch, capsys, change, what
):
    """Another run's state must not leak into this one; what differs is told."""
    given = {"data": data, "recipe": interrupted(8, stop)} | change
    with pytest.raises(KeyboardInterrupt):
        run(folder=tmp_path, **given)
    assert run(data, tmp_path) == whole
    told = capsys.readouterr().err
    assert f"resume.pt is of a training with other {what}: training starts over." in told


def test_resumed_run_of_the_same_data_says_nothing(data, tmp_path, save_every_epoch, capsys):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(8, stop), code="a")
    run(instances(), tmp_path, code="a")
    assert capsys.readouterr().err == ""


def test_validation_that_is_not_finite_is_named(data):
    recipe = replace(RECIPE, loss=Scripted(RECIPE.loss, 5.0, float("nan")))
    with pytest.raises(TrainingDiverged, match="validation merit is not finite in epoch 1"):
        train(untrained(data), data.train.program, data.validation.program, recipe, 0, CORE)


def test_split_in_place_of_its_program_is_refused(data):
    with pytest.raises(TypeError, match="train_set is a Split, expected a ConicProgram"):
        train(untrained(data), data.train, data.validation.program, RECIPE, 0, CORE)


def test_divergence_leaves_the_best_layer(data):
    """What was good so far is kept."""
    scripted = Scripted(RECIPE.loss, 5.0, 1.0, 2.0)
    recipe = replace(RECIPE, loss=Diverging(scripted, data, instance=5, good=6))
    layer = untrained(data)
    with pytest.raises(TrainingDiverged):
        train(layer, data.train.program, data.validation.program, recipe, 0, CORE)
    assert_same_weights(layer, after_epochs(data, 1))


# Recipes


@pytest.mark.parametrize(("cosine", "final"), [(True, 0.0), (True, 0.05), (False, 0.0)])
def test_learning_rate_follows_the_recipe(data, cosine, final):
    """Half a cosine over all steps, the last close to its final share; or a constant."""
    rates = []
    hook = register_optimizer_step_post_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    recipe = replace(RECIPE, cosine=cosine, final=final)
    train(untrained(data), data.train.program, data.validation.program, recipe, 0, CORE)
    hook.remove()
    shares = [i / STEPS if cosine else 0.0 for i in range(STEPS)]
    cosines = [(1 + math.cos(math.pi * share)) / 2 for share in shares]
    expected = [0.05 * (final + (1 - final) * share) for share in cosines]
    assert rates == pytest.approx(expected, rel=1e-12)  # float64
    if cosine:
        assert final * rates[0] <= rates[-1] < (final + 0.02) * rates[0]


def test_recipe_of_the_paper():
    """Table app_rc_hyperparameters."""
    found = recipe("paper")
    assert found.loss == terminal_loss()
    assert (found.epochs, found.learning_rate) == (100, 1e-3)
    assert (found.weight_decay, found.clip, found.cosine) == (1e-5, 5.0, False)


@pytest.mark.parametrize("experiment", ["synthetic", "dfl", "dispatch"])
def test_unknown_recipe_lists_the_known_ones(experiment):
    with pytest.raises(ValueError, match="'adam', expected one of paper, log_kkt"):
        training(experiment, "RCDRS-Env", "adam")
