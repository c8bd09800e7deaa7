"""The metrics of single instances, beside the seed-level rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from rcdrs.artifact.key import Key, parse_end, recipe_of
from rcdrs.artifact.release import read_origin
from rcdrs.files import read_arrays, reading


class Details:
    """The metrics of single instances, from the .npz files beside the seed-level CSVs: of one run,
    or of all runs of a setting.  Keys inside are ``METHOD@RECIPE/METRIC``.
    """

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._files = {_place(path): path for path in files}
        self._read = cache(_read)

    def of(self, metric: str, keys: Sequence[Key]) -> np.ndarray | None:
        """(seeds, instances), or None where a seed has no such file or metric."""
        found = [values for key in keys if (values := self.one(metric, key)) is not None]
        if len(found) < len(keys):
            return None
        if len({len(values) for values in found}) != 1:
            raise ValueError(
                f"{metric} of {keys[0]} differs in its number of instances over seeds."
            )
        return np.array(found, dtype=float)

    def one(self, metric: str, key: Key) -> np.ndarray | None:
        """(instances,) of one seed."""
        names = [Path(name).with_suffix(".npz").as_posix() for name in (key.path(), key.released())]
        path = next((self._files[name] for name in names if name in self._files), None)
        stored = {} if path is None else self._read(path)
        return stored.get(f"{key.run}/{metric}")


def _place(path: Path) -> str:
    """What a key calls the file: its last folders, with those of its universe."""
    places = parse_end(path.with_suffix(".csv"))
    folders = 2 + ("method" in places) + 2 * bool(places.get("universe"))
    return "/".join(path.parts[-folders:])


def _read(path: Path) -> dict[str, np.ndarray]:
    read_origin(path.with_suffix(".csv"))  # an error where it is not as it was computed
    with reading(path, ".npz file", "delete it and run the workflow again"):
        return {_known(name): values for name, values in read_arrays(path).items()}


def _known(name: str) -> str:
    run, metric = name.split("/")
    method, recipe = run.split("@")
    return f"{method}@{recipe_of(recipe)}/{metric}"
