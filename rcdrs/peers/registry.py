"""Every peer by name: where it is, and the packages that it needs, at the versions pinned.

No peer is imported here: each comes with packages of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

#: What brings all of them.
REMEDY = "pip install -c envs/constraints.txt -e '.[peers]'"
#: What is measured of a case: its programs, and the projections onto their feasible sets.
PROGRAM, PROJECTION = "program", "projection"
#: Of a checkout.
PINS = "envs/constraints.txt"


class Place(NamedTuple):
    """A class of a module of this package, and what it needs to be installed."""

    module: str
    name: str
    packages: tuple[str, ...]


PEERS = {
    "Clarabel": Place("clarabel_solver", "Clarabel", ("clarabel",)),
    "SCS": Place("scs_solver", "SCS", ("scs",)),
    "cvxpylayers, SCS": Place("cvxpy_layers", "WithSCS", ("cvxpylayers", "diffcp", "scs")),
    "cvxpylayers, dense": Place("cvxpy_layers", "Dense", ("cvxpylayers", "diffcp", "scs")),
    "cvxpylayers, Clarabel": Place(
        "cvxpy_layers", "WithClarabel", ("cvxpylayers", "diffcp", "clarabel")
    ),
    "Moreau": Place("moreau_solver", "Moreau", ("moreau",)),
    "pinet": Place("pinet_layer", "Pinet", ("pinet-hcnn", "jax")),
}
OURS = Place("ours", "Ours", ("torch",))


class PeerError(ValueError):
    """A peer is not there, or not the one that is pinned."""


def pinned(root: Path) -> dict[str, str]:
    """The version of each package in the file of constraints."""
    if not (root / PINS).is_file():
        raise PeerError(f"{root} has no {PINS}, which says what peers are measured at.")
    lines = (root / PINS).read_text("utf-8").splitlines()
    return dict(line.split("==", 1) for line in lines if "==" in line and line[0] != "#")


def versions_of(names: Iterable[str], pins: Mapping[str, str]) -> dict[str, str]:
    """What some peers need, at which versions."""
    needed = [package for name in names for package in find(name).packages]
    if missing := [package for package in needed if package not in pins]:
        raise PeerError(f"{PINS} has no version of {missing[0]}, expected a line {missing[0]}==...")
    return {package: pins[package] for package in dict.fromkeys(needed)}


def find(name: str) -> Place:
    if name not in PEERS:
        raise PeerError(f"unknown peer {name!r}, expected one of {', '.join(PEERS)}.")
    return PEERS[name]


def check_installed(expected: Mapping[str, str]) -> None:
    """An error that names every package that is missing or of another version."""
    wrong = []
    for package, wanted in expected.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            wrong.append(f"{package} is not installed, expected {wanted}")
            continue
        if found.split("+")[0] != wanted:
            wrong.append(f"{package} is {found}, expected {wanted}")
    if wrong:
        raise PeerError(
            f"{'; '.join(wrong)}: install the peers with `{REMEDY}`, or leave them out of "
            "peers.solvers in the configuration."
        )
