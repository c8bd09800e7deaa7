"""Training that goes on from a file: of this run, of another, or a damaged one."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

from rcdrs.training import loop

from . import damage as d
from .cases import Case, call, split, tree
from .commands import COMMANDS
from .prepared import FILES, inside

RESUME = "new/env.resume"
#: Each with which the training goes on from another state, if it does not notice.
DAMAGES = {
    "flip 0": d.flip,
    "flip 1": d.flip,
    "flip 2": d.flip,
    "truncated": d.truncate,
    "empty": d.empty,
    "zeros": d.zeros,
    "garbage": d.garbage,
    "directory": d.directory,
    "loop": d.loop,
    "pickled code": d.pickled,
    "pickled code inside": d.pickled_checkpoint,
    "a checkpoint": d.swap(FILES["env"]),
    "another epoch": d.sealed(d.checkpoint(config=lambda c: c | {"epoch": 5})),
    "epoch of text": d.checkpoint(config=lambda c: c | {"epoch": "one"}),
    "no curve": d.checkpoint(config=lambda c: {k: c[k] for k in c if k != "curve"}),
    "no run": d.checkpoint(config=lambda c: {k: c[k] for k in c if k != "run"}),
    "merit NaN": d.sealed(d.checkpoint(config=lambda c: c | {"best": float("nan")})),
    "weights gone": d.checkpoint(weights=lambda w: w | {"layer": {}}),
    "optimizer gone": d.checkpoint(weights=lambda w: w | {"optimizer": {}}),
    "NaN": d.checkpoint(
        weights=lambda w: w | {"best": {k: t * float("nan") for k, t in w["best"].items()}}
    ),
}


class Killed(Exception):
    """Where a kill would be."""


@pytest.fixture
def unfinished(checkout, monkeypatch):
    """A training that was stopped after its first epoch."""

    def save_and_stop(*arguments: object) -> None:
        save(*arguments)
        raise Killed

    save = loop._save_progress
    monkeypatch.setattr(loop, "SAVE_INTERVAL", -1.0)
    monkeypatch.setattr(loop, "_save_progress", save_and_stop)
    with inside(checkout), pytest.raises(Killed):
        call(Case("", COMMANDS["train"]).words())
    assert (checkout / RESUME).exists()
    monkeypatch.setattr(loop, "_save_progress", save)
    return checkout


def train(folder: Path):
    with inside(folder):
        outcome = call(Case("", COMMANDS["train"]).words())
    return outcome, split(tree(folder))


def test_training_goes_on_to_the_same_bytes(unfinished, undamaged):
    (code, _, _), (_, new) = train(unfinished)
    assert code == 0
    assert new == undamaged(tuple(Case("", COMMANDS["train"]).words()))


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_progress_is_no_progress(unfinished, undamaged, what):
    """Either the training starts anew and ends as it should, or it says what to do."""
    with inside(unfinished):
        DAMAGES[what](Path(RESUME), Random(f"resume/{what}"))
        before = tree(unfinished)
    (code, _, err), (after, new) = train(unfinished)
    assert not (unfinished / d.CANARY).exists()
    assert after == split(before)[0]
    if code == 0:
        assert new == undamaged(tuple(Case("", COMMANDS["train"]).words()))
    else:
        assert "env.resume" in err
        assert "delete" in err
        assert {**after, **new} == before


@pytest.mark.parametrize(
    "other",
    [
        "train {other_set} --core {other_core} --out new/env.pt",
        "train {set} --core {core} --seed 1 --out new/env.pt",
        "train {set} --core {core} --recipe log_kkt --out new/env.pt",
        "train {set} --core {core} --method RCDRS-NoEnv --out new/env.pt",
        "train {set} --core {core4} --out new/env.pt",
    ],
)
def test_progress_of_another_run_is_not_taken(unfinished, undamaged, other):
    """The other ends as if nothing had been there, or says what to do."""
    case = Case(other, other, r"env\.resume", harmless=True)
    if not Path(unfinished, FILES["core4"]).exists():
        pytest.skip("no core of another depth")
    words = tuple(case.words())
    with inside(unfinished):
        before = tree(unfinished)
        code, _, err = call(words)
    if code == 0:
        assert split(tree(unfinished))[1] == undamaged(words)
    else:
        assert "env.resume" in err
        assert "delete" in err
        assert tree(unfinished) == before


def test_progress_on_other_instances_is_not_taken(unfinished, undamaged):
    """Of the same case and seed, but other numbers: made by other code, or with other sizes."""
    with inside(unfinished):
        d.array("train_b", lambda found: found * np.float32(1.01))(Path(FILES["set"]), Random(0))
        shutil.copytree(unfinished, unfinished.parent / "fresh")
        Path("new/env.resume").unlink()
        words = Case("", COMMANDS["train"]).words()
        anew = call(words), split(tree(unfinished))[1]
    with inside(unfinished.parent / "fresh"):
        resumed = call(words), split(tree(unfinished.parent / "fresh"))[1]
    assert anew[0].code != 0 or resumed[0].code != 0 or resumed[1] == anew[1]
