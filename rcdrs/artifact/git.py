"""What git knows of a checkout, for those who state which code something is of."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path


class GitFailed(ValueError):
    """This is no checkout of git, or git does not do what is asked of it."""


def git(root: Path, *arguments: str) -> str:
    """What git says, but for the end of its last line."""
    return _run(root, *arguments).decode().rstrip("\n")


def export(root: Path, commit: str, folder: Path, *but: str) -> Path:
    """The files of a commit but some; unlike a worktree, nothing of it is left in git."""
    content = _run(root, "archive", commit, ".", *(f":!{name}" for name in but))
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        # An argument only from Python 3.11.4 on; before that the files are ours all the same.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)
    return folder


def _run(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise GitFailed("git is not installed, and what is asked for needs it.") from error
    if done.returncode:
        raise GitFailed(f"{' '.join(command)} failed: {done.stderr.decode().strip()}")
    return done.stdout
