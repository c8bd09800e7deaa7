"""How synthetic solutions are drawn, which the paper leaves open: a few editions, by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self


class Magnitudes(NamedTuple):
    """Of x*, s* and lambda*."""

    x: float
    s: float
    y: float


@dataclass(frozen=True)
class Sampling:
    """One way to draw instances: `workflow/choices.md` says what was measured of each.

    Arguments
        symmetric: the rows of A are symmetric matrices on PSD blocks, as in any semidefinite
            program.  The antisymmetric part of other rows adds constraints that say nothing of a
            symmetric X and that the iteration meets slowly.
        magnitudes: of a family's solutions, by its name.
        condition: a factor to the condition number of A.
    """

    symmetric: bool
    magnitudes: dict[str, Magnitudes] = field(hash=False)
    condition: float = 1.0

    def scaled(self, **factors: float) -> Self:
        """The same with some of the magnitudes times a factor."""
        changed = {
            family: found._replace(
                **{name: f * getattr(found, name) for name, f in factors.items()}
            )
            for family, found in self.magnitudes.items()
        }
        return replace(self, magnitudes=changed)


#: Fitted to the classical rows of the paper's tables; it has none of the QP lift, whose rotated
#: blocks are second-order cones turned: it takes those of the SOCP.
_SOCP = Magnitudes(x=2.4, s=0.075, y=0.044)
_ONE = Magnitudes(x=2.1, s=0.076, y=0.087)
SAMPLINGS = {
    "first": Sampling(
        False, {"qp": _SOCP, "socp": _SOCP, "mixed": Magnitudes(x=0.78, s=0.28, y=3.5)}
    ),
    "second": Sampling(
        True, {"qp": _SOCP, "socp": _SOCP, "mixed": Magnitudes(x=2.4, s=0.042, y=0.13)}
    ),
    # As the second, with magnitudes fitted to all rows at once.
    "one": Sampling(True, {"qp": _ONE, "socp": _ONE, "mixed": _ONE}),
}


def find_sampling(name: str) -> Sampling:
    if name not in SAMPLINGS:
        raise ValueError(f"unknown sampling {name!r}, expected one of {', '.join(SAMPLINGS)}.")
    return SAMPLINGS[name]


def taken_apart(settings: dict[str, Any]) -> tuple[dict[str, int], str]:
    """The sizes of the splits and the name of the sampling, from the settings of instances."""
    sizes = dict(settings)
    return sizes, sizes.pop("sampling", "first")


def noted(name: str) -> dict[str, str]:
    """What files and settings say of a sampling: nothing of the first, which once was the only."""
    return {} if name == "first" else {"sampling": name}
