"""The lock fits pyproject.toml and the constraints, and the recipes install from it."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from rcdrs.artifact import lock
from rcdrs.artifact.lock import BASE, CONSTRAINTS, CPU, FILES, MORE, PROJECT, TORCH, WHEELS

ROOT = Path(__file__).parents[1]


@pytest.fixture
def copy(tmp_path):
    """What the check reads, to change; returns a function that edits a file and checks again."""
    for name in (PROJECT, CONSTRAINTS, *FILES, WHEELS):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def check(file: str, old: str, new: str) -> list[str]:
        text = (tmp_path / file).read_text()
        changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
        assert changed != text
        (tmp_path / file).write_text(changed)
        return lock.check(tmp_path)

    return check


def test_lock_is_as_pyproject_and_constraints_ask():
    """If not: `rcdrs lock`, after `pip install -c envs/constraints.txt -e '.[lock]'`."""
    assert lock.check(ROOT) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (CONSTRAINTS, r"^numpy==.*", "numpy==2.5.0", f"expected 2.5.0 of {CONSTRAINTS}"),
        (PROJECT, r'"numpy>=2.0"', '"numpy>=9"', f"expected numpy>=9 of {PROJECT}"),
        (PROJECT, r'"tqdm>=4.66"', '"new>=1"', "the lock has no new, expected new>=1 of [cvxpy]"),
        (
            PROJECT,
            r'^ *"selenium.*\n',
            "",
            "has selenium, asked for by rcdrs (pyproject.toml), whi",
        ),
        (PROJECT, r'"uv>=0.9"', '"hypothesis"', f"{MORE} has uv, asked for by"),
        (PROJECT, r'^    "ruff>=0.9",\n', '    "ruff>=0.9", "uv",\n', f"uv, expected it in {BASE}"),
        (BASE, r"^sympy==1.14.0", "sympy==1.14.*", "expected a package as `name==version`"),
        (BASE, r"^sympy==1.14.0", "sympy @ file:///here", "nothing of where it is from"),
        (BASE, r"\A", "--extra-index-url file:///here\n", "nothing of where it is from"),
        (BASE, r"(?<=^tqdm)[^#]*", "==4.70.1\n    ", f"{BASE} has 'tqdm==4.70.1', expected"),
        (WHEELS, r"^\w{60}", 60 * "0", f"{CPU} has other wheels than {WHEELS}"),
        (WHEELS, r"2\.13\.0", "2.12.0", f"{WHEELS} has torch 2.12.0, expected 2.13.0 as locked"),
    ],
)
def test_what_does_not_fit_is_named(copy, file, old, new, told):
    wrong = copy(file, old, new)
    assert told in "\n".join(wrong)
    assert all(line.endswith("run `rcdrs lock`, and commit what it writes.") for line in wrong)


def test_file_of_the_lock_that_is_gone_is_named(tmp_path):
    assert lock.check(tmp_path) == [f"{BASE} is missing: {lock.REMEDY}."]


def test_lock_says_nothing_of_where_packages_are_from():
    for name in FILES:
        text = (ROOT / name).read_text()
        assert not re.search(r"://|^-|file:|/root|/home|/opt", text, re.MULTILINE), name


def test_torch_is_beside_the_lock_for_cuda_or_for_a_cpu():
    """What CUDA needs is for Linux alone; builds for a CPU need nothing but what all builds do."""
    base, torch, cpu = (lock.read((ROOT / name).read_text()) for name in (BASE, TORCH, CPU))
    assert not [one.name for one in base if lock.OF_TORCH.fullmatch(one.name)]
    assert [one.name for one in cpu] == ["torch"]
    assert cpu[0].version.endswith("+cpu")
    cuda = [one for one in torch if one.name != "torch"]
    assert len(torch) == len(cuda) + 1 > 10
    assert all('sys_platform == "linux"' in str(one.requirement.marker) for one in cuda)
    assert not set(cpu[0].hashes) & {digest for one in torch for digest in one.hashes}


def test_lock_is_read_as_it_is_written():
    for name in FILES:
        head, _, text = (ROOT / name).read_text().partition("\n# Made by")
        assert head == f"# {lock.TOLD[name]}"
        assert "".join(map(str, lock.read("# " + text))) == text.partition("\n")[2]


def test_extra_brings_what_it_includes(tmp_path):
    """`test` has all of `paper`, and each extra what the layer alone needs."""
    found = {extra: {each.name for each in part} for extra, part in lock.asked(ROOT).items()}
    assert found["paper"] < found["test"]
    assert all("torch" in part for part in found.values())
    assert set(found) == set(tomllib.loads((ROOT / PROJECT).read_text())["project"][OPTIONAL])


OPTIONAL = "optional-dependencies"


def test_without_uv_the_lock_is_not_touched(monkeypatch):
    monkeypatch.setattr(lock, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"uv.* is missing: install it with `pip install .*lock"):
        lock.write(ROOT)


# Recipes of containers


def test_both_recipes_run_the_same_lines():
    """Every RUN of the Dockerfile stands in the definition for Apptainer, from the same base."""
    docker, apptainer = ((ROOT / "envs" / name).read_text() for name in ("Dockerfile", "rcdrs.def"))
    plain = " ".join(apptainer.split())
    runs = re.findall(r"^RUN ((?:.*\\\n)*.*)", docker, re.MULTILINE)
    assert len(runs) == 3
    for run in runs:
        assert " ".join(run.split()) in plain
    base = re.search(r"^FROM (\S+)$", docker, re.MULTILINE)[1]
    assert f"From: {base}\n" in apptainer
    for setting in re.findall(r"^ARG (\S+)", docker, re.MULTILINE):
        assert f"    {setting}\n" in apptainer


def test_recipes_leave_out_what_git_ignores():
    """Of a build, what was computed here is no part; released results are."""
    left_out = (ROOT / "envs" / "Dockerfile.dockerignore").read_text().split("\n")
    assert {"results/*", "!results/released", "**/__pycache__", ".snakemake"} <= set(left_out)
