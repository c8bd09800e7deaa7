"""Training for many depths: one is drawn for each minibatch, from its place alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from conftest import recipe
from test_training import CORE, DEPTH, instances, interrupted, stop, untrained

from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.training.loop import train

DEPTHS = (1, 2, 5)
#: Three minibatches in each of four epochs.
RECIPE = recipe("log_kkt", epochs=4, batch=8, learning_rate=0.05, depths=DEPTHS)


@pytest.fixture(scope="module")
def data():
    return instances()


@pytest.fixture(autouse=True)
def save_every_epoch(monkeypatch):
    monkeypatch.setattr("rcdrs.training.loop.SAVE_INTERVAL", -1)


def run(data, folder, recipe=RECIPE, seed=0, layer=None):
    """The bytes of the trained layer and of its curve."""
    layer = untrained(data) if layer is None else layer
    files = {"curve": folder / "curve.csv", "resume": folder / "resume.pt"}
    train(layer, data.train.program, data.validation.program, recipe, seed, None, **files)
    layer.save(folder / "layer.pt")
    return (folder / "layer.pt").read_bytes(), (folder / "curve.csv").read_bytes()


def solved_depths(data, folder, monkeypatch, seed=0, **changes):
    """The depths of training and of validation, in order."""
    layer, found = untrained(data), []
    solve = layer.solve

    def noted(program, *depth):
        solution = solve(program, *depth)
        found.append((torch.is_grad_enabled(), *(depth or [DEPTH])))
        return solution

    monkeypatch.setattr(layer, "solve", noted)
    run(data, folder, replace(RECIPE, **changes), seed, layer)
    return [[depth for learns, depth in found if learns is kind] for kind in (True, False)]


def test_every_depth_is_drawn_and_validated(data, tmp_path, monkeypatch):
    learned, validated = solved_depths(data, tmp_path, monkeypatch)
    assert len(learned) == 12
    assert set(learned) == set(DEPTHS)
    assert validated == list(DEPTHS) * 5, "once before training and after each epoch"


def test_depths_are_those_of_the_place_alone(data, tmp_path, monkeypatch):
    """The same in a shorter training, and others with another seed."""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir(), (tmp_path / "c").mkdir()
    whole, _ = solved_depths(data, tmp_path / "a", monkeypatch)
    short, _ = solved_depths(data, tmp_path / "b", monkeypatch, epochs=2)
    other, _ = solved_depths(data, tmp_path / "c", monkeypatch, seed=1)
    assert whole[:6] == short
    assert whole != other


def test_without_depths_a_layer_is_trained_for_its_own(data, tmp_path, monkeypatch):
    learned, validated = solved_depths(data, tmp_path, monkeypatch, depths=())
    assert {*learned, *validated} == {DEPTH}


def test_its_own_depth_alone_gives_the_same_bytes(data, tmp_path):
    found = []
    for depths in ((), (DEPTH,)):
        folder = tmp_path / str(len(depths))
        folder.mkdir()
        found.append(run(data, folder, replace(RECIPE, depths=depths)))
    assert found[0] == found[1]


@pytest.mark.parametrize("at", [2, 5, 11])
def test_resumed_run_ends_with_the_same_bytes(data, tmp_path, at):
    (tmp_path / "whole").mkdir()
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(at, stop, RECIPE))
    assert (tmp_path / "resume.pt").exists() == (at > 3)
    assert run(data, tmp_path) == run(data, tmp_path / "whole")


def test_training_for_other_depths_is_not_gone_on_with(data, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, interrupted(5, stop, RECIPE))
    run(data, tmp_path, replace(RECIPE, depths=(1, 2)))
    assert "is of a training with other recipe: training starts over" in capsys.readouterr().err


def test_reference_is_refused(data, tmp_path):
    programs = data.train.program, data.validation.program
    with pytest.raises(ValueError, match=r"reference is \(1\.6, 1\.0\), expected none of a train"):
        train(untrained(data), *programs, RECIPE, 0, CORE)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.learned])
def test_every_learned_method_can_be_trained_so(data, name):
    torch.manual_seed(0)
    layer = find_method(name).build(data.A, data.cone, DEPTH, CORE)
    programs = data.train.program, data.validation.program
    curve = train(layer, *programs, replace(RECIPE, epochs=1), 0, None)
    assert all(math.isfinite(row["merit"]) for row in curve)
