"""What a peer has to offer: prepare for a program's A and cone, solve a batch, differentiate it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rcdrs.cones import Cone

#: A tolerance, or a number of steps: what a peer trades time for accuracy by.
Setting = float
#: What is shown of an error.
LENGTH = 160


class Unsupported(ValueError):
    """The peer cannot express such a program."""


@dataclass(frozen=True)
class Problem:
    """What all instances share: ``min x'diag(Q)x / 2 + c'x  s.t.  A x = b, x in K``, in float64.

    Q is one for all entries or none: projections have it.
    """

    A: np.ndarray
    cone: Cone
    quadratic: bool = False


class Answer(NamedTuple):
    """Of a batch: x (batch, n), as the peer gives it, and what it says of each instance."""

    x: Any
    #: Empty where the peer says nothing.
    status: list[str]


class Gradient(NamedTuple):
    """x, and the gradients of ``sum <g, x>`` in b and c, as the peer gives them."""

    x: Any
    b: Any
    c: Any


class Peer(ABC):
    """One solver or layer, prepared for a problem.

    What is prepared once, as a factorisation, is not timed, and neither is `take`: a user has the
    numbers where the peer wants them.  `solve` and `differentiate` are, and end with the result.
    """

    #: The settings that it runs with, for the table.
    settings: ClassVar[str]
    #: Words of its status that mean a solution; of others the answer counts as unsolved.
    solved: ClassVar[tuple[str, ...]] = ()
    differentiates: ClassVar[bool] = False
    #: The first call of a kind and batch takes long, and says nothing.
    compiles: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, problem: Problem) -> None:
        """An `Unsupported` error where it cannot express the problem."""

    @abstractmethod
    def take(self, b: np.ndarray, c: np.ndarray) -> Any:
        """A batch in the peer's own form."""

    @abstractmethod
    def solve(self, batch: Any, setting: Setting) -> Answer:
        """Forward alone, without what a gradient would need."""

    def states(self, batch: Any, setting: Setting) -> list[str]:
        """What it says of each instance, where that is not part of its answer."""
        return self.solve(batch, setting).status

    def differentiate(self, batch: Any, g: Any, setting: Setting) -> Gradient:
        """Forward and backward; `g` in the form of `cotangent`."""
        raise NotImplementedError

    def cotangent(self, g: np.ndarray) -> Any:
        return g


@dataclass(frozen=True)
class Task:
    """What a process is told: the peer, the program, and what is true of it."""

    #: Module of this package, and class.
    place: tuple[str, str]
    arguments: Mapping[str, Any]
    problem: Problem
    b: np.ndarray
    c: np.ndarray
    x: np.ndarray  # exact
    #: g, the exact gradients in b and c, and which of them are verified, of the first instances.
    gradient: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    #: (b, c) of an instance without a solution.
    spoilt: tuple[np.ndarray, np.ndarray] | None
    settings: tuple[Setting, ...]
    batches: tuple[int, ...]
    #: More than a call may take, in seconds.
    bound: float
