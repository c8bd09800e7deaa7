"""Released results and trained layers, with a manifest that says what each file is.

A run keeps one file for each of its rows; a release keeps those of a setting together.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rcdrs.artifact.config import ConfigError, checked
from rcdrs.artifact.key import Key, parse
from rcdrs.artifact.manifest import (
    RULES,
    DamagedRelease,
    Digests,
    Entry,
    Released,
    hash_of,
    restore,
)
from rcdrs.artifact.times import benchmark_seconds
from rcdrs.experiments.base import experiments
from rcdrs.experiments.settings import Plain
from rcdrs.files import read_arrays, read_json, replacing, sha256, write_json

#: Layers are released of these methods, universes and this seed: every seed would be too large.
LAYERS = (
    *("Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv", "RCDRS-Light"),
    *("RCDRS-Glance", "RCDRS-Anderson"),
)
LAYER_UNIVERSES = ("", "fair")
LAYER_SEED = 0
#: Beyond the paper, metrics by instance are released of that seed alone, and of the universes that
#: are compared at equal time: nothing else shows any.
DETAILED = ("", "fair", "deep", "between", "deep_edge")
#: What the note beside a result may say; `files` are the hashes of the result's own, by suffix.
NOTE = (
    *("digests", "host", "machine", "device", "cpu", "python", "torch", "numpy"),
    "files",
)


def origin(digests: Digests, device: str) -> dict[str, Any]:
    """Where a result comes from: code, settings, machine and versions."""
    from torch.backends.cpu import get_cpu_capability

    packages = ("torch", "numpy")
    return {
        "digests": digests,
        "host": platform.node(),
        "machine": f"{platform.machine()} {platform.system()}",
        "device": device,
        "cpu": get_cpu_capability(),  # such as AVX512: what rounding depends on
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
    now, that were there unchanged, and that are stale in the run.  All is read before anything is
    copied, so that what is wrong in the run or in the release leaves the release as it is.
    """
    released = Released.read(folder)
    told: dict[str, list[str]] = {"released": [], "unchanged": [], "stale": []}
    found: dict[str, list[Part]] = {}
    for note in sorted(run.glob("*/**/*.origin.json")):
        rows = note.with_name(note.name.removesuffix(".origin.json") + ".csv")
        if not rows.exists():
            continue
        name = rows.relative_to(run).as_posix()
        key, source = key_of(**_places(rows, name)), _checked(note, read_origin(rows))
        digests = current(key)
        if not digests or not digests.items() <= source["digests"].items():
            told["stale"].append(name)
            continue
        parts = {key: rows} | _layer(run, key, rows)
        found[name] = [
            Part(part, path, source | {"digests": current(part)} | _wall_time(run, part))
            for part, path in parts.items()
        ]
    _check_kept(released, [part for copied in found.values() for part in copied])
    before = dict(released.entries)
    try:
        for name, copied in found.items():
            changed = [_store(released, part) for part in copied]
            told["released" if any(changed) else "unchanged"].append(name)
    finally:  # what was copied is in the manifest, also where a full disk ends it
        if released.entries != before:
            released.write()
    return told


class Part(NamedTuple):
    """A result of a run, its file, and what the manifest will say of it."""

    key: Key
    path: Path
    entry: Plain

    def files(self, released: Released) -> Iterator[tuple[Path, Path, str]]:
        """Each file, where it goes, and its name there: rows may have details beside them."""
        key = self.key
        beyond = key.universe or experiments()[key.experiment].extra
        detailed = key.kind == "rows" and (
            not beyond or (key.seed == LAYER_SEED and key.universe in DETAILED)
        )
        for suffix in (self.path.suffix, *([".npz"] if detailed else [])):
            source, goal = (p.with_suffix(suffix) for p in (self.path, released.path(self.key)))
            if source.exists():
                yield source, goal, goal.relative_to(released.folder).as_posix()


def _checked(note: Path, source: Plain) -> Plain:
    """What a note says, if a manifest may say it."""
    try:
        checked(Entry, source | {"sha256": "0" * 64})
    except ConfigError as error:
        raise ValueError(f"{note}: {error}.") from error
    return source


def _check_kept(released: Released, parts: list[Part]) -> None:
    """What a damaged file held, as far as it can be made good, is made good; else it is an error,
    since copying over it would lose the rest for good."""
    brought: dict[str, set[str]] = {}
    for part in parts:
        for _, goal, name in part.files(released):
            if name not in released.entries and goal.exists():
                raise DamagedRelease(
                    f"{goal} is there but not in the manifest: delete it, or, if it is the "
                    f"manifest that is wrong, {restore(released.folder)}."
                )
            brought.setdefault(name, set()).update(part.entry["digests"])
    for name in brought.keys() & released.entries.keys():
        if not released.entries[name]["digests"].keys() <= brought[name]:
            released.verify(name)


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
    kept = key.method in LAYERS and key.universe in LAYER_UNIVERSES and key.seed == LAYER_SEED
    if key.kind != "rows" or not kept:
        return {}
    layer = replace(key, kind="checkpoints")
    path = run / layer.path()
    earlier = path.exists() and path.stat().st_mtime <= rows.stat().st_mtime
    return {layer: path} if earlier else {}


def _store(released: Released, part: Part) -> bool:
    """Put a result, with its details, into the file it belongs to; whether that was needed."""
    merge = {".csv": _merge_rows, ".npz": _merge_details} if part.key.kind == "rows" else {}
    changed = False
    for source, goal, name in part.files(released):
        there, before = released.entries.get(name, {}), hash_of(goal)
        # What was altered, or is gone, has nothing to keep.
        kept = bool(merge) and before == there.get("sha256", "")
        with TemporaryDirectory() as folder:
            found = Path(folder, goal.name)
            if kept and before:
                shutil.copyfile(goal, found)
            merge.get(source.suffix, shutil.copyfile)(source, found)
            after = hash_of(found)
            if after != before:
                with replacing(goal) as temporary:
                    shutil.copyfile(found, temporary)
        digests = (there["digests"] if kept and there else {}) | part.entry["digests"]
        if (after, digests) != (there.get("sha256"), there.get("digests")):
            released.entries[name] = part.entry | {"sha256": after, "digests": digests}
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


def _wall_time(run: Path, key: Key) -> Plain:
    """How long the job that wrote the file took, and when it ended, if it was measured."""
    name = Path(key.path()).relative_to(key.within).with_suffix(".tsv")
    measured = name if key.kind == "rows" else name.relative_to(name.parts[0])
    path = run / "benchmarks" / RULES[key.kind] / key.within / measured
    if (seconds := benchmark_seconds(path)) is None:
        return {}
    ended = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return {"seconds": seconds, "ended": ended.isoformat(timespec="seconds")}
