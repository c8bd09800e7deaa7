"""Released results and trained layers, with a manifest that says what each file is.

A run keeps one file for each of its rows; a release keeps those of a setting together.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rcdrs.artifact.key import Key, parse
from rcdrs.artifact.times import benchmark_seconds
from rcdrs.files import read_arrays, read_json, replacing, sha256, write_json

#: In a checkout.
RELEASED = "results/released"
MANIFEST = "manifest.json"
#: By part of a file, a run or the times of a method: ``CODE SETTINGS``.
Digests = dict[str, str]
#: The rule of the workflow that computes each kind of what is released.
RULES = {"rows": "evaluate", "checkpoints": "train", "times": "time", "traces": "trace"}
#: Layers are released of these methods and this seed: 13 MB.  Every seed would be 39 MB.
LAYERS = ("RCDRS-Env", "RCDRS-NoEnv")
LAYER_SEED = 0
#: What the note beside a result may say; `files` are the hashes of the result's own, by suffix.
NOTE = ("digests", "host", "machine", "device", "cpu", "python", "torch", "numpy", "files")


class DamagedRelease(ValueError):
    """A released file is not the one that its manifest describes."""


@dataclass(frozen=True)
class Released:
    """The folder of released results; each entry names a file's hash, digests and origin."""

    folder: Path
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: What showed that other code gives the same numbers.
    verified: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def read(folder: str | Path) -> Released:
        path = Path(folder) / MANIFEST
        if not path.exists():
            return Released(Path(folder))
        remedy = f"restore it with `git checkout -- {RELEASED}`"
        try:
            stored = json.loads(path.read_text())
            if "files" not in stored:
                raise DamagedRelease(f"{path} is a manifest of a former layout: {remedy}.")
            for name, entry in stored["files"].items():
                if not isinstance(entry["sha256"], str) or not isinstance(entry["digests"], dict):
                    raise ValueError(f"the entry {name} has no hash or digests")
            return Released(Path(folder), stored["files"], stored["verified"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, DamagedRelease):
                raise
            raise DamagedRelease(f"{path} is not a manifest ({error}): {remedy}.") from error

    def write(self) -> None:
        stored = {"files": self.entries, "verified": self.verified}
        with replacing(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")

    def path(self, key: Key) -> Path:
        return self.folder / key.released()

    def keys_of(self, name: str, key_of: Callable[..., Key]) -> list[Key]:
        """The results in a released file."""
        places = parse(Path(name).with_suffix(".csv").as_posix() if ".npz" in name else name)
        if places["kind"] != "rows":
            return [key_of(**places)]
        runs = (part.partition("@") for part in self.entries[name]["digests"])
        return [key_of(**places, method=method, recipe=recipe) for method, _, recipe in runs]

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
        remedy = f"restore it with `git checkout -- {path}`"
        if not path.exists():
            raise DamagedRelease(f"{path} is in the manifest but not there: {remedy}.")
        if _hash_of(path) != expected:
            raise DamagedRelease(
                f"{path} differs from its manifest: {remedy}, or release it again with "
                "`rcdrs release`."
            )


def origin(digests: Digests, device: str) -> dict[str, Any]:
    """Where a result comes from: code, settings, machine and versions."""
    from torch.backends.cpu import get_cpu_capability

    from rcdrs.kernels import ARITHMETIC

    packages = ("torch", "numpy")
    return {
        "digests": digests,
        "host": platform.node(),
        "machine": f"{platform.machine()} {platform.system()}",
        "device": device,
        "cpu": get_cpu_capability(),  # such as AVX512: what rounding depends on
        "arithmetic": ARITHMETIC,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def write_origin(rows: Path, digests: Digests, device: str, *beside: Path) -> None:
    """The note beside a result, with the hashes of its file and of those that go with it."""
    hashes = {path.suffix: sha256(path) for path in (rows, *beside)}
    write_json(note_of(rows), origin(digests, device) | {"files": hashes})


def note_of(rows: Path) -> Path:
    return rows.with_suffix(".origin.json")


def read_origin(rows: Path) -> dict[str, Any]:
    """The note beside a result; empty where there is none.

    A result that is not as it was when the note was written is an error.
    """
    note = note_of(rows)
    if not note.exists() or not rows.exists():
        return {}
    try:
        found = read_json(note, NOTE)
        hashes = found.pop("files", {})
        if not isinstance(found["digests"], dict) or not isinstance(hashes, dict):
            raise TypeError("its digests or files are no mapping")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{note} does not say where {rows.name} comes from ({error!r}): delete both and run "
            "the workflow again."
        ) from error
    for suffix, expected in hashes.items():
        path = rows.with_suffix(suffix)
        if not path.exists() or sha256(path) != expected:
            what = "was changed" if path.exists() else "is gone"
            raise ValueError(
                f"{path} {what} after it was computed: delete {rows} and run the workflow again."
            )
    return found


def release(
    run: Path,
    folder: Path,
    key_of: Callable[..., Key],
    current: Callable[[Key], Digests],
) -> dict[str, list[str]]:
    """Copy what a run, finished or not, has of results whose digests are `current`.

    What was released before stays, row by row.  The answer names the results that were released
    now, that were there unchanged, and that are stale in the run.
    """
    released = Released.read(folder)
    told: dict[str, list[str]] = {"released": [], "unchanged": [], "stale": []}
    for note in sorted(run.glob("*/**/*.origin.json")):
        rows = note.with_name(note.name.removesuffix(".origin.json") + ".csv")
        if not rows.exists():
            continue
        name = rows.relative_to(run).as_posix()
        key, source = key_of(**_places(rows, name)), read_origin(rows)
        digests = current(key)
        if not digests or not digests.items() <= source["digests"].items():
            told["stale"].append(name)
            continue
        parts = {key: rows} | _layer(run, key, rows)
        changed = [
            _store(
                released, part, path, source | {"digests": current(part)} | _wall_time(run, part)
            )
            for part, path in parts.items()
        ]
        told["released" if any(changed) else "unchanged"].append(name)
    if told["released"]:
        released.write()
    return told


def _places(rows: Path, name: str) -> dict[str, Any]:
    """What stands in the places of a run's file."""
    with suppress(ValueError):
        places = parse(name)
        if places["kind"] != "rows" or "method" in places:
            return places
    raise ValueError(
        f"{rows} is of a former layout, where a file had all runs of a setting: delete it with the "
        "note beside it, and run the workflow again."
    )


def _layer(run: Path, key: Key, rows: Path) -> dict[Key, Path]:
    """The trained layer that a row was computed with, and no later one."""
    if key.kind != "rows" or key.method not in LAYERS or key.seed != LAYER_SEED:
        return {}
    layer = replace(key, kind="checkpoints")
    path = run / layer.path()
    earlier = path.exists() and path.stat().st_mtime <= rows.stat().st_mtime
    return {layer: path} if earlier else {}


def _store(released: Released, key: Key, path: Path, entry: dict[str, Any]) -> bool:
    """Put a result, with its details, into the file it belongs to; whether that was needed."""
    merge = {".csv": _merge_rows, ".npz": _merge_details} if key.kind == "rows" else {}
    changed = False
    for source in (path, path.with_suffix(".npz")) if merge else (path,):
        if not source.exists():
            continue
        goal = released.path(key).with_suffix(source.suffix)
        name = goal.relative_to(released.folder).as_posix()
        there, before = released.entries.get(name, {}), _hash_of(goal)
        # What was altered, or is gone, has nothing to keep.
        kept = bool(merge) and before == there.get("sha256", "")
        with TemporaryDirectory() as folder:
            found = Path(folder, goal.name)
            if kept and before:
                shutil.copyfile(goal, found)
            merge.get(source.suffix, shutil.copyfile)(source, found)
            after = _hash_of(found)
            if after != before:
                with replacing(goal) as temporary:
                    shutil.copyfile(found, temporary)
        digests = (there["digests"] if kept and there else {}) | entry["digests"]
        if (after, digests) != (there.get("sha256"), there.get("digests")):
            released.entries[name] = entry | {"sha256": after, "digests": digests}
            changed = True
        changed |= after != before
    return changed


def _merge_rows(source: Path, target: Path) -> None:
    """The rows of `source` in the place of those of the same run in `target`, digit by digit."""
    import pandas as pd

    rows: dict[Any, Any] = {}
    for path in (target, source):
        if path.exists():
            read = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
            rows |= {(row["method"], row["recipe"]): row for row in read}
    pd.DataFrame(rows.values()).to_csv(target, index=False)


def _merge_details(source: Path, target: Path) -> None:
    import numpy as np

    arrays: dict[str, Any] = {}
    for path in (target, source):
        if path.exists():
            arrays |= read_arrays(path)
    with open(target, "wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def _wall_time(run: Path, key: Key) -> dict[str, float]:
    """How long the job that wrote the file took, where the run has measured it."""
    name = Path(key.path()).with_suffix(".tsv")
    measured = name if key.kind == "rows" else name.relative_to(name.parts[0])
    path = run / "benchmarks" / RULES[key.kind] / measured
    seconds = benchmark_seconds(path)
    return {} if seconds is None else {"seconds": seconds}


def _hash_of(path: Path) -> str:
    return _hash(path, path.stat().st_mtime_ns) if path.exists() else ""


@cache
def _hash(path: Path, modified: int) -> str:
    """sha256 of a file as it was at that time."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
