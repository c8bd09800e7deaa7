"""What can happen to a file: each damage is a function of its path and of chance."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

Damage = Callable[[Path, Random], None]
#: Made by pickled code, if that is ever run.
CANARY = "canary"


def none(path: Path, chance: Random) -> None:
    pass


# Of bytes.


def flip(path: Path, chance: Random) -> None:
    """One bit, anywhere."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, chance: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(1, len(content))])


def append(path: Path, chance: Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(40))


def zeros(path: Path, chance: Random) -> None:
    """As a file system may leave after a power cut: the size is right."""
    path.write_bytes(bytes(path.stat().st_size))


def garbage(path: Path, chance: Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def empty(path: Path, chance: Random) -> None:
    path.write_bytes(b"")


def text(content: str) -> Damage:
    return lambda path, chance: path.write_text(content) and None


def bytes_of(content: bytes) -> Damage:
    return lambda path, chance: path.write_bytes(content) and None


# Of the place.


def missing(path: Path, chance: Random) -> None:
    path.unlink()


def directory(path: Path, chance: Random) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path, chance: Random) -> None:
    """A link to itself."""
    path.unlink()
    path.symlink_to(path.name)


def dangling(path: Path, chance: Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def swap(other: str) -> Damage:
    """The place of one file taken by another, from the top of the checkout."""
    return lambda path, chance: shutil.copyfile(other, path) and None


# Of what is in it.


def sealed(damage: Damage) -> Damage:
    """Other contents under the seal of the old ones, which is the comment of an archive: all else
    about the file is right, and nothing but the seal can tell."""

    def both(path: Path, chance: Random) -> None:
        with zipfile.ZipFile(path) as archive:
            seal = archive.comment
        damage(path, chance)
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = seal

    return both


class _Code:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.path.abspath(CANARY),)


def pickled(path: Path, chance: Random) -> None:
    path.write_bytes(pickle.dumps({"config": "{}", "weights": _Code()}))


def pickled_checkpoint(path: Path, chance: Random) -> None:
    stored = torch.load(path, weights_only=True)
    torch.save(stored | {"config": _Code()}, path)


def pickled_array(name: str) -> Damage:
    return arrays(lambda stored: stored | {name: np.array([_Code()], dtype=object)})


def arrays(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Damage:
    """An .npz file with other arrays: a whole file, with checksums that are right."""

    def damage(path: Path, chance: Random) -> None:
        with np.load(path) as stored:
            found = change({name: stored[name] for name in stored.files})
        with open(path, "wb") as stream:
            np.savez(stream, **found)

    return damage


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return arrays(lambda stored: stored | {name: change(stored[name].copy())})


def entry(name: str, value: float) -> Damage:
    """One number of an array."""

    def change(found: np.ndarray) -> np.ndarray:
        found.flat[len(found.flat) // 2] = value
        return found

    return array(name, change)


def dropped(name: str) -> Damage:
    return arrays(lambda stored: {key: stored[key] for key in stored if key != name})


def bomb(path: Path, chance: Random) -> None:
    """An array that says it is larger than any memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (2**50,)}
    )
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, content) in enumerate(members.items()):
            archive.writestr(name, content if number else header.getvalue())


def json_changed(**changes: Any) -> Damage:
    """Keys of a JSON object with other values; `...` takes one away."""

    def damage(path: Path, chance: Random) -> None:
        stored = json.loads(path.read_text()) | changes
        kept = {key: value for key, value in stored.items() if value is not ...}
        path.write_text(json.dumps(kept))

    return damage


def checkpoint(
    config: Callable[[dict[str, Any]], Any] = lambda config: config,
    weights: Callable[[dict[str, Any]], Any] = lambda weights: weights,
) -> Damage:
    """A checkpoint that says or holds something else, and is whole otherwise."""

    def damage(path: Path, chance: Random) -> None:
        stored = torch.load(path, weights_only=True)
        changed = {"config": json.dumps(config(json.loads(stored["config"])))}
        torch.save(stored | changed | {"weights": weights(stored["weights"])}, path)

    return damage


def lines(change: Callable[[list[str]], list[str]]) -> Damage:
    """A text with other lines, of which the first is the header of a CSV."""

    def damage(path: Path, chance: Random) -> None:
        path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")

    return damage


def replaced(old: str, new: str) -> Damage:
    def damage(path: Path, chance: Random) -> None:
        content = path.read_text()
        assert old in content, f"{path} has no {old!r}"
        path.write_text(content.replace(old, new, 1))

    return damage


def digit(path: Path, chance: Random) -> None:
    """One digit of the last number of a text is another: nothing but a checksum can tell."""
    content = path.read_text()
    place = max(at for at, letter in enumerate(content) if letter.isdigit())
    other = str((int(content[place]) + chance.randrange(1, 10)) % 10)
    path.write_text(content[:place] + other + content[place + 1 :])
