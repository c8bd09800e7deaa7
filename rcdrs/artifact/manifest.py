"""The manifest of a release: what each released file is, and whether it still holds.

Whoever reads it may trust what it says: names are those of results, and every text is printable.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from rcdrs.artifact.config import checked
from rcdrs.artifact.key import Key, parse
from rcdrs.experiments.settings import Plain, Printable, Section, Weight
from rcdrs.files import replacing, sha256

#: In a checkout.
RELEASED = "results/released"
MANIFEST = "manifest.json"
#: At the top of what was unpacked from an archive: `rcdrs.artifact.crate`.
METADATA = "ro-crate-metadata.json"
#: By part of a file, a run or the times of a method: ``CODE SETTINGS``.
Digests = dict[str, str]
#: The rule of the workflow that computes each kind of what is released.
RULES = {"rows": "evaluate", "checkpoints": "train", "times": "time"}
RULES |= {"traces": "trace", "shifts": "shift", "peers": "peer"}


class DamagedRelease(ValueError):
    """Released files and their manifest are not those that belong together."""


def places(name: str) -> Plain:
    """What stands in the places of a released file's name; details are named as their rows."""
    found = parse(f"{name.removesuffix('.npz')}.csv" if name.endswith(".npz") else name)
    if found["kind"] not in RULES or (found["kind"] == "rows" and "method" in found):
        raise ValueError(f"{name} is no file of a release.")
    return found


def _is_result(name: str) -> bool:
    with suppress(ValueError):
        return bool(places(name))
    return False


def _named(name: str) -> str:
    if not _is_result(name):
        raise ValueError("expected the name of a result below this folder")
    return name


class Entry(Section):
    """Of a file: its hash, the digests of each part, where it was computed, and maybe more."""

    model_config = ConfigDict(extra="allow")

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    digests: dict[Printable, Annotated[str, Field(pattern="^[0-9a-z]+ [0-9a-z]+$")]]
    host: Printable = ""
    machine: Printable = ""
    device: Printable = ""
    cpu: Printable = ""
    python: Printable = ""
    torch: Printable = ""
    numpy: Printable = ""
    seconds: Weight = 0.0
    ended: Printable = ""


class Manifest(Section):
    files: dict[Annotated[str, AfterValidator(_named)], Entry]
    #: What showed that other code gives the same numbers.
    verified: list[Plain]


@dataclass(frozen=True)
class Released:
    """The folder of released results; each entry names a file's hash, digests and origin."""

    folder: Path
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    verified: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def read(folder: str | Path) -> Released:
        """An error where released files have no manifest: hours of computation are at stake."""
        folder = Path(folder)
        path = folder / MANIFEST
        found = _read(path) if path.exists() else {"files": {}, "verified": []}
        released = Released(folder, found["files"], found["verified"])
        if not released.entries and (unlisted := released.unlisted()):
            raise DamagedRelease(
                f"{path} {'names no file' if path.exists() else 'is not there'}, but {folder} has "
                f"{len(unlisted)} released files: {_remedy(folder)}."
            )
        if not path.exists() and _tracked(path):
            raise DamagedRelease(
                f"{path} is part of this checkout but not there: {_remedy(folder)}."
            )
        return released

    def write(self) -> None:
        stored = {"files": self.entries, "verified": self.verified}
        checked(Manifest, stored)  # nothing is written that could not be read again
        with replacing(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")

    def unlisted(self) -> list[str]:
        """Files of results that the manifest does not name: nothing uses them."""
        files = (path for path in sorted(self.folder.rglob("*.*")) if path.is_file())
        names = (path.relative_to(self.folder).as_posix() for path in files)
        return [name for name in names if name not in self.entries and _is_result(name)]

    def warning(self) -> str:
        """Of files that the manifest does not name, if there are."""
        if not (names := self.unlisted()):
            return ""
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return (
            f"{len(names)} of the files in {self.folder} are not in the manifest and are not used "
            f"({shown}): delete them, or, if it is the manifest that is wrong, "
            f"{restore(self.folder)}."
        )

    def path(self, key: Key) -> Path:
        return self.folder / key.released()

    def keys_of(self, name: str, key_of: Callable[..., Key]) -> list[Key]:
        """The results in a released file."""
        found = places(name)
        if found["kind"] != "rows":
            return [key_of(**found)]
        runs = (part.partition("@") for part in self.entries[name]["digests"])
        return [key_of(**found, method=method, recipe=recipe) for method, _, recipe in runs]

    def state(self, key: Key, digests: Digests) -> str:
        """``current``, ``stale`` (computed by other code or settings) or ``missing``."""
        there = self.entries.get(key.released(), {"digests": {}})["digests"]
        if not digests or not digests.keys() <= there.keys():
            return "missing"
        return "current" if digests.items() <= there.items() else "stale"

    def holds(self, key: Key, digests: Digests) -> bool:
        """Is there a current file?  One that was altered is an error, not a reason to recompute."""
        if self.state(key, digests) != "current":
            return False
        name = key.released()
        details = str(Path(name).with_suffix(".npz"))  # the same by instance, read with it
        for part in (name, *([details] if details in self.entries else [])):
            self.verify(part)
        return True

    def verify(self, name: str) -> None:
        path, expected = self.folder / name, self.entries[name]["sha256"]
        if not path.is_file():
            raise DamagedRelease(
                f"{path} is in the manifest but not there: {restore(self.folder, name)}."
            )
        if hash_of(path) != expected:
            raise DamagedRelease(f"{path} differs from its manifest: {restore(self.folder, name)}.")


def _read(path: Path) -> Plain:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_told_once)
        if not isinstance(stored, dict):
            raise ValueError(f"it holds {type(stored).__name__}, expected files and verified")
        if "files" in stored:
            checked(Manifest, stored)
            return stored
    except (ValueError, OSError, RecursionError) as error:
        raise DamagedRelease(
            f"{path} is not a manifest ({error}): {_remedy(path.parent)}."
        ) from error
    raise DamagedRelease(f"{path} is a manifest of a former layout: {_remedy(path.parent)}.")


def _told_once(pairs: list[tuple[str, Any]]) -> Plain:
    """JSON takes the last of two entries of a name; so a bad merge would go unseen."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {twice!r} twice")
    return found


def restore(folder: Path, name: str = "") -> str:
    """What brings back what was committed: the whole release, or a file of it."""
    root = folder.resolve().parent.parent
    if (root / METADATA).exists():
        return f"restore {Path(RELEASED, name)} from the archive that this was unpacked from"
    git = "git" if root == Path.cwd() else f"git -C {shlex.quote(str(root))}"
    return f"restore it with `{git} checkout -- {shlex.quote(str(Path(RELEASED, name)))}`"


def _remedy(folder: Path) -> str:
    return f"{restore(folder)}, or compute all again with --config results=recompute"


def _tracked(path: Path) -> bool:
    """Does git know this file?  Where there is no git, nobody does."""
    root = path.resolve().parent.parent.parent
    command = ["git", "-C", str(root), "ls-files", "--error-unmatch", f"{RELEASED}/{MANIFEST}"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def hash_of(path: Path) -> str:
    """sha256 of a file; of none, nothing."""
    return _hash(path, path.stat().st_mtime_ns) if path.exists() else ""


@cache
def _hash(path: Path, modified: int) -> str:
    """The same of a file as it was at that time."""
    return sha256(path)
