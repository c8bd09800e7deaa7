"""What the instances of all experiments share: random streams, and one .npz file for each set."""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.files import replacing

SPLITS = ("train", "validation", "test")


def check_sizes(sizes: dict[str, int]) -> dict[str, int]:
    if sizes.keys() != set(SPLITS) or not all(count >= 1 for count in sizes.values()):
        raise ValueError(f"sizes is {sizes}, expected positive numbers for {', '.join(SPLITS)}.")
    return sizes


def stream(name: str) -> np.random.Generator:
    """A random stream of its own for each purpose: adding one never shifts another."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


def to_tensors(arrays: dict[str, np.ndarray], dtype: torch.dtype) -> dict[str, Tensor]:
    """The arrays, computed in float64, rounded to `dtype`."""
    kind = np.float32 if dtype == torch.float32 else np.float64
    return _from_numpy({key: array.astype(kind) for key, array in arrays.items()})


def write_set(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Everything in one .npz file."""
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    arrays["meta"] = np.array(json.dumps(meta))
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


@contextlib.contextmanager
def reading_set(path: str | Path, command: str) -> Iterator[tuple[dict[str, Tensor], Any]]:
    """Tensors and metadata of what `write_set` wrote.

    Whatever goes wrong with them inside the block, too, is an error that names the file and the
    command that makes it again.
    """
    with _naming(path, command):
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} is damaged")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        meta = json.loads(str(arrays.pop("meta")))
        yield _from_numpy(arrays), meta


def case_of(path: str | Path) -> str:
    """Which case a set is of: ``socp-hard``, ``dfl``, ``dispatch-turned``."""
    with _naming(path, "python -m rcdrs instances"), np.load(path, allow_pickle=False) as stored:
        return str(json.loads(str(stored["meta"]))["case"])


@contextlib.contextmanager
def _naming(path: str | Path, command: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, numpy or json raise
        raise ValueError(
            f"{path} is not a readable instance set ({error}): delete it and generate it again "
            f"with `{command}`."
        ) from error


def _from_numpy(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in arrays.items()}
