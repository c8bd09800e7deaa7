from __future__ import annotations

import shutil
from functools import cache

import pytest

from . import cases, prepared


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The small checkout as it should be."""
    return prepared.make(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def checkout(finished, tmp_path):
    """A copy to damage: nothing of it is shared with another."""
    folder = tmp_path / "checkout"
    yield shutil.copytree(finished, folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def undamaged(finished, tmp_path_factory):
    """What a command writes where nothing is damaged."""

    @cache
    def written(words: tuple[str, ...]):
        folder = tmp_path_factory.mktemp("undamaged") / "checkout"
        shutil.copytree(finished, folder)
        with prepared.inside(folder):
            code, out, err = cases.call(words)
        assert code == 0, f"{' '.join(words)}\n{out}{err}"
        found = cases.split(cases.tree(folder))[1]
        shutil.rmtree(folder)
        return found

    return written
