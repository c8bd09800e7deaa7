"""The manifest of a release: what it may say, and what is told where it is damaged or gone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import needs_git
from snakemake.exceptions import WorkflowError

from rcdrs.artifact.hooks import plan_of
from rcdrs.artifact.manifest import MANIFEST, DamagedRelease, Released
from rcdrs.artifact.plan import PAPER, Plan
from rcdrs.cli import results as commands
from rcdrs.cli.main import main

ROOT = Path(__file__).parents[1]
NAME = "synthetic/qp-small-0-K5.csv"
ENTRY = {"sha256": "0" * 64, "digests": {"F-DRS@paper": "ab12 cd34"}}
REMEDY = r": restore it with `git checkout -- results/released`, or compute all again with --config"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A release of one file in a checkout, where commands are called."""
    (tmp_path / PAPER).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / PAPER, tmp_path / PAPER)
    found = tmp_path / "results/released"
    (found / NAME).parent.mkdir(parents=True)
    (found / NAME).write_text("method\nF-DRS\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    Released(found, {NAME: ENTRY}).write()
    return found


def refusal(folder):
    with pytest.raises(DamagedRelease) as caught:
        Released.read(folder)
    told = str(caught.value)
    assert re.search(REMEDY, told)
    assert told.isprintable()  # in one line, and no terminal obeys it
    return told


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x", f"files['{NAME}'] is 'x', expected"),
        (3, f"files['{NAME}'] is 3, expected"),
        ([1], f"files['{NAME}'] is [1], expected"),
        (None, f"files['{NAME}'] is None, expected"),
        ({"digests": {}}, f"files['{NAME}']: 'sha256' is a required property"),
        (ENTRY | {"sha256": None}, "sha256 is None, expected text"),
        (ENTRY | {"sha256": "ab"}, "sha256 is 'ab', expected a name that matches [0-9a-f]{64}"),
        (ENTRY | {"sha256": list(range(10**5))}, "sha256 is [0, 1, 2, 3, 4, 5, ...], expected"),
        (ENTRY | {"digests": []}, "digests is [], expected"),
        (ENTRY | {"digests": {"F-DRS@paper": 3}}, "digests['F-DRS@paper'] is 3, expected text"),
        (ENTRY | {"digests": {"F-DRS@paper": "one"}}, "digests['F-DRS@paper'] is 'one', expected"),
        (ENTRY | {"digests": {"\x1b[31m": "a b"}}, r"digests['\x1b[31m'] is '\x1b[31m', expected"),
        (ENTRY | {"host": 3}, "host is 3, expected text"),
        (ENTRY | {"host": "\x1b[2J"}, r"host is '\x1b[2J', expected text without control"),
        (ENTRY | {"torch": "2\n3"}, r"torch is '2\n3', expected text without control"),
        (ENTRY | {"seconds": "9"}, "seconds is '9', expected a number"),
    ],
)
def test_entry_of_another_shape_is_named(folder, entry, message):
    (folder / MANIFEST).write_text(json.dumps({"files": {NAME: entry}, "verified": []}))
    assert message in refusal(folder)


@pytest.mark.parametrize(
    "name",
    [
        "../../x.csv",
        "/etc/passwd",
        "synthetic/../../qp-small-0-K5.csv",
        "a.csv",
        "",
        f"{NAME}\n",
        "instances/qp-small-0.npz",  # is not released
        "synthetic/qp-small-0-K5/F-DRS@paper.csv",  # as a run has it
    ],
)
def test_name_that_is_no_released_file_is_named(folder, name):
    (folder / MANIFEST).write_text(json.dumps({"files": {name: ENTRY}, "verified": []}))
    assert f"files[{name!r}] is {name!r}, expected the name of a result" in refusal(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"files": {}}', "'verified' is a required property"),
        ('{"files": {}, "verified": null}', "verified is None, expected a list"),
        ('{"files": {}, "verified": ["x"]}', "verified[0] is 'x', expected"),
        ('{"files": {}, "verified": [], "more": 1}', "unknown key 'more', expected files, verif"),
        ('{"files": {}, "files": {}, "verified": []}', "it has 'files' twice"),
        ("<<<<<<< HEAD\n{}", "Expecting value"),
        ("[" * 10**5, "recursion"),
        ('{"files": {}, "verified": []}', "names no file, but "),
    ],
)
def test_manifest_of_another_shape_is_named(folder, text, message):
    (folder / MANIFEST).write_text(text)
    assert message in refusal(folder)


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_manifest_that_cannot_be_read_is_named(folder, content):
    """Bytes that are no text, or a folder in its place."""
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).write_bytes(content) if content else (folder / MANIFEST).mkdir()
    assert "manifest.json is not a manifest (" in refusal(folder)


def test_nothing_is_written_that_could_not_be_read_again(folder):
    before = (folder / MANIFEST).read_text()
    with pytest.raises(ValueError, match=r"host is '.x07', expected text without control"):
        Released(folder, {NAME: ENTRY | {"host": "\a"}}).write()
    assert (folder / MANIFEST).read_text() == before


# Without a manifest


@pytest.mark.parametrize("command", ["status", "release", "compare"])
def test_released_files_without_a_manifest_are_no_empty_release(folder, capsys, command):
    """Else hours of computation would begin without a word."""
    (folder / MANIFEST).unlink()
    Path("results/paper").mkdir()
    assert main([command]) == 2
    told = capsys.readouterr().err
    assert f"{MANIFEST} is not there, but {folder} has 1 released files{REMEDY}" in told
    assert (folder / NAME).exists()
    assert not (folder / MANIFEST).exists()


@needs_git
def test_release_that_git_knows_and_that_is_gone_is_told(folder):
    for command in (["init", "-q"], ["add", "results"]):
        subprocess.run(["git", *command], check=True)
    shutil.rmtree(folder)
    assert "manifest.json is part of this checkout but not there" in refusal(folder)


def test_without_any_release_there_is_nothing_to_miss(folder):
    shutil.rmtree(folder)
    assert Released.read(folder).entries == {}


def test_recomputing_needs_no_release(folder):
    (folder / MANIFEST).unlink()
    (folder / "recompute.yaml").write_text("results: recompute\n")
    plan = Plan.read(Path.cwd(), folder / "recompute.yaml")
    assert plan.released.entries == {}
    assert plan.warning() == ""


def test_remedy_works_from_another_folder(folder, monkeypatch):
    monkeypatch.chdir("/")
    (folder / MANIFEST).write_text("")
    with pytest.raises(DamagedRelease, match=f"`git -C {folder.parents[1]} checkout -- results/"):
        Released.read(folder)
    with pytest.raises(DamagedRelease, match=f"checkout -- results/released/{NAME}`"):
        Released(folder, {NAME: ENTRY}).verify(NAME)


def test_file_that_the_manifest_does_not_name_is_told(folder, capsys):
    other = NAME.replace("qp", "socp")
    shutil.copyfile(folder / NAME, folder / other)
    (folder / "README.md").write_text("not a result\n")
    assert main(["status"]) == 0
    told = capsys.readouterr().err
    assert re.match(f"1 of the files in .* are not in the manifest and .* [(]{other}[)]", told)
    (folder / other).unlink()
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""


def test_run_of_a_damaged_release_is_one_message_before_anything_is_planned(folder):
    (folder / MANIFEST).unlink()
    config = yaml.safe_load((ROOT / PAPER).read_text())
    with pytest.raises(WorkflowError, match=REMEDY):
        plan_of(config, Path.cwd())
    assert plan_of(config | {"results": "recompute"}, Path.cwd()).config.run == "paper"
