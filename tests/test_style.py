"""The habits of the code base, checked with the rest."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("snakefmt", "--check", "Snakefile", "workflow/Snakefile", "workflow/rules"),
    ],
    ids=" ".join,
)
def test_is_clean(command):
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_direct_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {re.split(r"[<>=]", line)[0].lower() for line in wanted}
    names -= {"rcdrs[paper]", "rcdrs[paper,cvxpy]"}
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "envs/constraints.txt").read_text(), re.MULTILINE)
    assert names == {name.lower() for name in pinned}
