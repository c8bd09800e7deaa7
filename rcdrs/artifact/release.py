"""Released results and trained layers, with a manifest that says what each file is."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rcdrs.artifact.times import benchmark_seconds
from rcdrs.files import replacing

MANIFEST = "manifest.json"
Digest = dict[str, str]
#: Layers are released of these methods and this seed: 13 MB.  Every seed would be 39 MB.
LAYERS = ("RCDRS-Env", "RCDRS-NoEnv")
LAYER_SEED = 0
#: The rule that writes a result, by the first folder of its name.
RULES = {"timing": "time", "traces": "trace", "checkpoints": "train"}
RULES |= {"ablation": "evaluate_ablation"}


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
                f"{path} is not a manifest: restore it, or delete it and run `rcdrs release`."
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
        details = str(Path(name).with_suffix(".npz"))  # the same by instance, read with it
        for part in (name, *([details] if details in self.entries else [])):
            self.verify(part)
        return True

    def verify(self, name: str) -> None:
        path, expected = self.path(name), self.entries[name]["sha256"]
        if not path.exists():
            raise DamagedRelease(f"{path} is in the manifest but not there: restore it.")
        if _hash_of(path) != expected:
            raise DamagedRelease(
                f"{path} differs from its manifest: restore it, or release it again with "
                "`rcdrs release`."
            )


def origin(digest: Digest, device: str) -> dict[str, Any]:
    """Where a result comes from: code, settings, machine and versions."""
    from torch.backends.cpu import get_cpu_capability

    packages = ("torch", "numpy")
    return {
        "digest": digest,
        "host": platform.node(),
        "machine": f"{platform.machine()} {platform.system()}",
        "device": device,
        "cpu": get_cpu_capability(),  # such as AVX512: what rounding depends on
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def release(run: Path, folder: Path, current: Callable[[str], Digest]) -> dict[str, list[str]]:
    """Copy what a run, finished or not, has of results whose digests are `current`.

    What was released before stays.  The answer names the files that were released now, that were
    there unchanged, that are stale in the run, and that are in the release but no longer hold.
    """
    entries = dict(Released.read(folder).entries)
    told: dict[str, list[str]] = {"released": [], "unchanged": [], "stale": [], "outdated": []}
    for stamp in sorted(run.glob("*/**/*.origin.json")):
        rows = stamp.with_name(stamp.name.removesuffix(".origin.json") + ".csv")
        if not rows.exists():
            continue
        source = json.loads(stamp.read_text())
        name = str(rows.relative_to(run))
        if source["digest"] != current(name):
            told["stale"].append(name)
            continue
        for path in (rows, rows.with_suffix(".npz"), *_layers(run, rows)):
            if path.exists():
                key = str(path.relative_to(run))
                entry = {"sha256": _hash_of(path)} | source | _wall_time(run, key)
                if entries.get(key) == entry and entry["sha256"] == _hash_of(folder / key):
                    told["unchanged"].append(key)
                    continue
                told["released"].append(key)
                with replacing(folder / key) as temporary:
                    shutil.copyfile(path, temporary)
                entries[key] = entry
    told["outdated"] = [
        name for name, entry in sorted(entries.items()) if entry["digest"] != current(name)
    ]
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
    return told


def _layers(run: Path, rows: Path) -> list[Path]:
    """The trained layers that these rows were computed with, and no later ones."""
    if rows.parent.parent != run or not re.search(rf"-{LAYER_SEED}-K\d+$", rows.stem):
        return []
    if rows.parent.name not in ("synthetic", "dispatch"):  # dfl trains models around its layers
        return []
    paths = sorted(run.glob(f"checkpoints/*/*/{rows.stem}.pt"))
    return [
        path
        for path in paths
        if path.parent.name in LAYERS and path.stat().st_mtime <= rows.stat().st_mtime
    ]


def _wall_time(run: Path, name: str) -> dict[str, float]:
    """How long the job that wrote the file took, where the run has measured it."""
    kind, *rest = Path(name).with_suffix("").parts
    rule = RULES.get(kind, f"evaluate/{kind}")
    seconds = benchmark_seconds(run.joinpath("benchmarks", rule, *rest).with_suffix(".tsv"))
    return {} if seconds is None else {"seconds": seconds}


def _hash_of(path: Path) -> str:
    return _hash(path, path.stat().st_mtime_ns) if path.exists() else ""


@cache
def _hash(path: Path, modified: int) -> str:
    """sha256 of a file as it was at that time."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
