"""A damaged release, and damaged notes of where results of a run come from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rcdrs
from rcdrs.artifact.plan import Plan

from . import damage as d
from .cases import Case, judge
from .commands import COMMANDS, escaped
from .damage import Damage
from .prepared import FILES, configuration

RELEASED = "--config " + escaped(json.dumps(configuration() | {"results": "released"}))
RENDER = f"table settings {RELEASED} --out new/settings.tex"
ROWS = "synthetic/socp-small-0-K3.csv"


def manifest(change: Any) -> Damage:
    """The manifest with something else in it."""

    def damage(path: Path, chance: Random) -> None:
        stored = json.loads(path.read_text())
        path.write_text(json.dumps(change(stored)))

    return damage


def of_rows(**changes: Any) -> Damage:
    """The entry of a file of rows; `...` takes a key away."""

    def change(stored: Any) -> Any:
        entry = stored["files"][ROWS] | changes
        stored["files"][ROWS] = {k: v for k, v in entry.items() if v is not ...}
        return stored

    return manifest(change)


def renamed(name: str) -> Damage:
    def change(stored: Any) -> Any:
        stored["files"][name] = stored["files"].pop(ROWS)
        return stored

    return manifest(change)


MANIFESTS = {
    "missing": d.missing,
    "directory": d.directory,
    "loop": d.loop,
    "empty": d.empty,
    "garbage": d.garbage,
    "truncated": d.truncate,
    "text": d.text("files"),
    "list": d.text("[]"),
    "null": d.text("null"),
    "number": d.text("3"),
    "former layout": manifest(lambda stored: stored["files"]),
    "no verified": manifest(lambda stored: {"files": stored["files"]}),
    "files of a list": manifest(lambda stored: stored | {"files": list(stored["files"])}),
    "files of null": manifest(lambda stored: stored | {"files": None}),
    "entry of text": manifest(lambda stored: stored | {"files": stored["files"] | {ROWS: "x"}}),
    "no hash": of_rows(sha256=...),
    "hash of a number": of_rows(sha256=3),
    "short hash": of_rows(sha256="abc"),
    "no digests": of_rows(digests=...),
    "digests of a list": of_rows(digests=["RCDRS-Env@paper"]),
    "digest of a number": of_rows(digests={"RCDRS-Env@paper": 3}),
    "name outside": renamed("../../secret.csv"),
    "absolute name": renamed("/etc/passwd"),
    "unknown name": renamed("notes.txt"),
    "verified of text": manifest(lambda stored: stored | {"verified": "yes"}),
    "deeply nested": d.text("[" * 100_000),
}
#: Of the files themselves.
FILES_DAMAGED = (d.missing, d.empty, d.flip, d.truncate, d.append, d.directory, d.digit)
NOTES = {
    "no digests": d.json_changed(digests=...),
    "digests of a list": d.json_changed(digests=["a"]),
    "digests of numbers": d.json_changed(digests={"RCDRS-Env@paper": 3}),
    "host of a list": d.json_changed(host=["a"]),
    "list": d.text("[]"),
    "null": d.text("null"),
    "empty": d.empty,
    "garbage": d.garbage,
    "truncated": d.truncate,
    "directory": d.directory,
    "of another file": d.swap(FILES["note"].replace("RCDRS-Env", "Grid-DRS")),
}


def cases() -> Iterator[Case]:
    for what, damage in MANIFESTS.items():
        for command in ("status", "release"):
            yield Case(
                f"manifest {what}, {command}",
                COMMANDS[command],
                "{manifest}|results/released",
                "manifest",
                damage,
            )
        yield Case(
            f"manifest {what}, table", RENDER, "{manifest}|results/released", "manifest", damage
        )
    for damage in FILES_DAMAGED:
        name = f"released rows {damage.__name__}"
        yield Case(name, RENDER, "{released_rows}", "released_rows", damage)
    for what, damage in NOTES.items():
        for command in ("table", "release"):
            yield Case(
                f"note {what}, {command}", COMMANDS[command], r"RCDRS-Env@paper", "note", damage
            )
    for damage in (d.flip, d.truncate, d.empty, d.garbage, d.directory, d.missing):
        name = f"details {damage.__name__}, release"
        yield Case(name, COMMANDS["release"], "RCDRS-Env@paper", "details", damage)


CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damaged_release_is_named(case, checkout):
    judge(case, checkout)


@pytest.mark.parametrize("damage", [*FILES_DAMAGED[:-1], d.pickled, d.pickled_checkpoint])
def test_damaged_layer_is_named(checkout, damage):
    """And nothing in it is run."""
    path = checkout / FILES["released_layer"]
    damage(path, Random(damage.__name__))
    with pytest.raises((ValueError, OSError), match=r"socp-small-0-K3\.pt.*git .*checkout --"):
        rcdrs.pretrained("socp-small", 3, recipe="paper", root=checkout)
    assert not Path(d.CANARY).exists()


def test_released_layer_is_there(checkout):
    """So that the cases above fail for their damage alone."""
    layer, data = rcdrs.pretrained("socp-small", 3, recipe="paper", root=checkout)
    assert layer(data.test.program.b, data.test.program.c).x.shape == data.test.x.shape
    assert Plan.read(checkout).released_states()["stale"] == 0
