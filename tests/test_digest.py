"""What a computed file depends on: code that can matter, not its wording."""

from __future__ import annotations

import shutil

import pytest

from rcdrs.artifact import digest
from rcdrs.artifact.digest import code_digest, settings_digest


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the package to change; returns a function that edits a file and digests again."""
    root = tmp_path / "rcdrs"
    shutil.copytree(digest.ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "ROOT", root)

    def changed(file: str, old: str, new: str, stage: str) -> bool:
        before = fresh(stage)
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))
        return fresh(stage) != before

    return changed


def fresh(stage: str) -> str:
    for cached in (code_digest, digest._tree, digest._text, digest._imported_names):
        cached.cache_clear()
    return code_digest(stage)


@pytest.fixture(autouse=True)
def forget():
    yield
    fresh("tune")


def test_wording_does_not_count(copy):
    """Comments, docstrings and layout cost no recomputation."""
    assert not copy("transition.py", '"""One controlled step', '"""A step', "train_layer")
    assert not copy("transition.py", "        # moved = z+ - z", "        # moved", "train_layer")
    assert not copy(
        "transition.py",
        "h = torch.sub(a, o, alpha=2)",
        "h = torch.sub(\n            a, o, alpha=2\n        )",
        "train_layer",
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "stage", "counts"),
    [
        ("transition.py", "alpha=2)", "alpha=3)", "train_layer", True),
        ("transition.py", "alpha=2)", "alpha=3)", "evaluate_runs", True),
        ("cones/psd.py", "0.5", "0.6", "train_layer", True),
        ("training.py", "epochs=30", "epochs=31", "train_layer", True),
        ("training.py", "_check_finite(losses", "print(losses", "make_instances", False),
        ("baselines/learned_pdhg.py", "SAFETY = 0.95", "SAFETY = 0.9", "make_instances", False),
        ("baselines/grid_drs.py", "SCORED = 128", "SCORED = 64", "tune", True),
        ("reporting/formatting.py", "import", "import", "train_layer", False),
        ("staging.py", 'KEYS = ("experiment"', 'KEYS = ("study"', "evaluate_runs", True),
        ("stages.py", "torch.manual_seed(seed)", "torch.manual_seed(0)", "train_layer", True),
        ("stages.py", "torch.manual_seed(seed)", "torch.manual_seed(0)", "time_methods", False),
    ],
)
def test_code_counts_where_it_is_used(copy, file, old, new, stage, counts):
    assert copy(file, old, new, stage) is counts


def test_unknown_function_is_named():
    with pytest.raises(ValueError, match="no_such_stage"):
        code_digest("no_such_stage")


def test_order_of_settings_does_not_count():
    assert settings_digest({"a": 1, "b": 2}) == settings_digest({"b": 2, "a": 1})
    assert settings_digest({"a": 1}) != settings_digest({"a": 2})
