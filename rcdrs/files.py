"""The files of a run: never half written, and checked on reading.

An archive (.npz, .pt) ends with a seal, the sha256 of all before it, as the comment of a zip file;
a JSON file has one as its last entry.  A file without a seal is of an older run, or released, where
the manifest has its hash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

SEAL = "sha256"
#: Why a file cannot be written, where the system's own words are unclear.
REASONS = {
    errno.ENOSPC: "the disk is full: free some space and run the same again",
    errno.EDQUOT: "the disk quota is used up: free some space and run the same again",
    errno.EISDIR: "there is a folder in its place",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EEXIST: "a part of its path is a file, not a folder",
    errno.EACCES: "its folder is not writable",
}


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it there when the block ends without an error."""
    path = check_place(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        with _explaining(path):
            # As `open` would make it: the umask decides who may read it.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        with _explaining(path, errno.ENOSPC, errno.EDQUOT):
            yield temporary
        with _explaining(path, refused="another program has it open, or its folder forbids it"):
            os.replace(temporary, path)  # Windows replaces no file that is open
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def clear(folder: Path) -> None:
    """Remove what killed processes left of files that they were writing."""
    for path in folder.rglob(".*"):
        if re.fullmatch(r"\..*\.[0-9a-f]{8}(\.\w+)?", path.name) and path.is_file():
            path.unlink(missing_ok=True)


def check_place(path: str | Path) -> Path:
    """An error for a file that cannot be written, before the work for it is done; its folder is
    made."""
    path = Path(path)
    with _explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "")
    return path


@contextlib.contextmanager
def _explaining(path: Path, *numbers: int, refused: str = "") -> Iterator[None]:
    """Errors of the system, of these numbers or all, as ones that name file and reason; `refused`
    is the reason where it does not permit it."""
    try:
        yield
    except OSError as error:
        if numbers and error.errno not in numbers:
            raise
        reason = REASONS.get(error.errno or 0, error.strerror)
        if refused and isinstance(error, PermissionError):
            reason = refused
        raise OSError(error.errno, f"cannot be written, {reason}", str(path)) from error


@contextlib.contextmanager
def reading(path: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Whatever a damaged file makes its reader raise, as one error that says what to do."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}".removeprefix("ValueError: ").splitlines()[0]
        raise ValueError(f"{path} is not a readable {what} ({told}): {remedy}.") from error


def sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# Archives


def write_archive(path: str | Path, content: bytes) -> None:
    """A zip file, sealed."""
    if not _ends(content):
        raise ValueError(f"what is to be written to {path} is no zip file without a comment.")
    with replacing(path) as temporary:
        temporary.write_bytes(content[:-2] + _seal(content[:-2]))


def read_archive(path: str | Path) -> io.BytesIO:
    """A zip file whose seal holds; one without a seal is checked part by part."""
    content = Path(path).read_bytes()
    if _ends(content):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"its part {damaged} is damaged")
        return io.BytesIO(content)
    size = len(SEAL) + 1 + 64
    plain, end = memoryview(content)[: -size - 2], content[-size - 2 :]
    if not _ends(bytes(plain[-20:]) + bytes(2)) or end != _seal(plain):
        raise ValueError("it was cut off, or changed after it was written")
    return io.BytesIO(content)


def _seal(plain: bytes | memoryview) -> bytes:
    """The end of a sealed zip file, in place of the last two bytes: the comment with its length."""
    digest = hashlib.sha256(plain)
    digest.update(bytes(2))
    seal = f"{SEAL}:{digest.hexdigest()}".encode()
    return len(seal).to_bytes(2, "little") + seal


def _ends(content: bytes) -> bool:
    """Are these the last bytes of a zip file without a comment, whose length is in the last two?"""
    return content[-22:-18] == b"PK\x05\x06" and content[-2:] == bytes(2)


def write_arrays(path: str | Path, arrays: Mapping[str, Any], compressed: bool = False) -> None:
    """An .npz file; equal contents give equal bytes."""
    import numpy as np

    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, allow_pickle=False, **arrays)
    write_archive(path, stream.getvalue())


def read_arrays(path: str | Path) -> dict[str, Any]:
    import numpy as np

    with np.load(read_archive(path), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


# JSON


def write_json(path: str | Path, values: Mapping[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(_sealed(values))


def read_json(path: str | Path, known: Collection[str]) -> dict[str, Any]:
    """What `write_json` wrote, with no other entries than the known ones."""
    text = Path(path).read_text()
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    if values.pop(SEAL, None) is not None and text != _sealed(values):
        raise ValueError("it was changed after it was written")
    if unknown := values.keys() - set(known):
        raise ValueError(f"it has an unknown entry {min(unknown)!r}")
    return values


def _sealed(values: Mapping[str, Any]) -> str:
    seal = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return json.dumps({**values, SEAL: seal}, indent=1) + "\n"


# Checkpoints


def write_checkpoint(path: str | Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    """One file, replaced in one move; equal contents give equal bytes."""
    import torch

    stream = io.BytesIO()  # torch.save to a path would write the path's name into the file
    torch.save({"config": json.dumps(config), "weights": weights}, stream)
    write_archive(path, stream.getvalue())


def read_checkpoint(
    path: str | Path, remedy: str = "delete it and train again"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and tensors only: pickled code is refused by torch."""
    import torch

    with reading(path, "checkpoint", remedy):
        stored = torch.load(read_archive(path), map_location="cpu", weights_only=True)
        config, weights = json.loads(stored["config"]), stored["weights"]
        if not isinstance(config, dict) or not isinstance(weights, dict):
            raise ValueError("its configuration or its weights are no mapping")
        return config, weights


def check_contents(path: str | Path, config: dict[str, Any], expected: dict[str, Any]) -> None:
    """An error that names the first thing in which a checkpoint is not as expected."""
    for name, value in expected.items():
        if config.get(name) != value:
            raise ValueError(f"{path} holds {name} {config.get(name)}, expected {value}.")


def load_weights(module: Any, path: str | Path, trained: dict[str, Any]) -> None:
    """The weights of a checkpoint into a module that describes itself as the saved one did, and
    was trained for just this."""
    config, weights = read_checkpoint(path)
    expected = json.loads(json.dumps(module.describe()))
    options = expected.pop("options")
    check_contents(path, config, expected)
    if config.get("trained") != trained:
        raise ValueError(f"{path} was trained for {config.get('trained')}, expected {trained}.")
    if config.get("options") != options:
        raise ValueError(
            f"{path} was trained as another method, controller or core: it has "
            f"{config.get('options')}, expected {options}.  Train it again."
        )
    load_state(module, path, weights)


def load_state(
    module: Any, path: str | Path, weights: dict[str, Any], remedy: str = "train it again"
) -> None:
    """Tensors of a checkpoint into the module that has just these; all are finite numbers."""
    import torch

    own = module.state_dict()
    with reading(path, "checkpoint", remedy):
        if different := sorted(map(str, own.keys() ^ weights.keys())):
            raise ValueError(f"it has the tensors of another layer, as of {different[0]}")
        for name, tensor in weights.items():
            found, expected = getattr(tensor, "shape", None), own[name].shape
            if found != expected:
                raise ValueError(f"{name} has shape {found}, expected {expected}")
            if tensor.is_floating_point() != own[name].is_floating_point():
                raise ValueError(f"{name} has dtype {tensor.dtype}, expected {own[name].dtype}")
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{name} holds numbers that are NaN or infinite")
        module.load_state_dict(weights)
