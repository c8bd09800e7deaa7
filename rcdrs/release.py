"""Released results: seed-level files with a manifest that says what they are."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rcdrs.files import replacing

MANIFEST = "manifest.json"
Digest = dict[str, str]


class DamagedRelease(ValueError):
    """A released file is not the one that its manifest describes."""


@dataclass(frozen=True)
class Released:
    """The folder of released results; each entry of the manifest names a file's hash and origin."""

    folder: Path
    entries: dict[str, dict[str, Any]]

    @staticmethod
    def read(folder: str | Path) -> Released:
        path = Path(folder) / MANIFEST
        if not path.exists():
            return Released(Path(folder), {})
        try:
            entries = json.loads(path.read_text())
            if not all("sha256" in entry and "digest" in entry for entry in entries.values()):
                raise ValueError("an entry has no hash or digest")
        except (ValueError, AttributeError) as error:
            raise DamagedRelease(
                f"{path} is not a manifest: restore it, or write it with `rcdrs release`."
            ) from error
        return Released(Path(folder), entries)

    def path(self, name: str) -> Path:
        return self.folder / name

    def state(self, name: str, digest: Digest) -> str:
        """``current``, ``stale`` (computed by other code or settings) or ``missing``."""
        entry = self.entries.get(name)
        if entry is None:
            return "missing"
        return "current" if entry["digest"] == digest else "stale"

    def holds(self, name: str, digest: Digest) -> bool:
        """Is there a current file?  One that was altered is an error, not a reason to recompute."""
        if self.state(name, digest) != "current":
            return False
        self.verify(name)
        return True

    def verify(self, name: str) -> None:
        path, expected = self.path(name), self.entries[name]["sha256"]
        if not path.exists():
            raise DamagedRelease(f"{path} is in the manifest but not there: restore it.")
        if _hash(path, path.stat().st_mtime_ns) != expected:
            raise DamagedRelease(
                f"{path} differs from its manifest: restore it, or release it again with "
                "`rcdrs release`."
            )


def origin(digest: Digest, device: str) -> dict[str, Any]:
    """Where a result comes from: code, settings, machine and versions."""
    packages = ("torch", "numpy")
    return {
        "digest": digest,
        "host": platform.node(),
        "machine": f"{platform.machine()} {platform.system()}",
        "device": device,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def release(run: Path, folder: Path, current: Callable[[str], Digest]) -> dict[str, list[str]]:
    """Copy a run's results whose digests are `current`; say which were released, kept or stale."""
    released = Released.read(folder)
    entries = dict(released.entries)
    told: dict[str, list[str]] = {"released": [], "unchanged": [], "stale": []}
    for stamp in sorted(run.glob("*/**/*.origin.json")):
        rows = stamp.with_name(stamp.name.removesuffix(".origin.json") + ".csv")
        if not rows.exists():
            continue
        source = json.loads(stamp.read_text())
        name = str(rows.relative_to(run))
        if source["digest"] != current(name):
            told["stale"].append(name)
            continue
        for path in (rows, rows.with_suffix(".npz")):
            if path.exists():
                key = str(path.relative_to(run))
                entry = {"sha256": _hash(path, path.stat().st_mtime_ns)} | source
                same = entries.get(key, {}).get("sha256") == entry["sha256"]
                told["unchanged" if same and entries[key] == entry else "released"].append(key)
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                with replacing(folder / key) as temporary:
                    shutil.copyfile(path, temporary)
                entries[key] = entry
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
    return told


@cache
def _hash(path: Path, modified: int) -> str:
    """sha256 of a file as it was at that time."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
