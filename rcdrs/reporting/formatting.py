"""What is shown, apart from how it is written: names, and values with their digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class _Labels(dict[str, str]):
    """Labels of the paper's families; another is called by its name."""

    def __missing__(self, family: str) -> str:
        return family.upper()


FAMILIES = _Labels(qp="QP-lift", socp="SOCP", mixed="Mixed cone")

#: Symbols of the metrics, by their column in the seed-level CSVs; `Notation.symbol` writes them.
METRICS = {
    name: name
    for name in ("ObjErr", "r_p", "r_d", "r_gap", "Gap", "Dist", "Regret", "CostGap", "OptGap")
}
METRICS |= {"Eq": "Eq.", "Shed": "Shed", "Curt": "Curt.", "Reserve": "Reserve", "Emerg": "Emerg."}
METRICS |= {"Cost": "Cost", "Over": "Over", "Pass": "Pass", "time_ms": "Time (ms)"}
#: The same on other hours, with that as an index.
_OTHERWISE = {
    f"{name}_{at}" for name in ("Cost", "CostGap", "Over", "Pass") for at in ("away", "warm")
}
METRICS |= {name: name for name in sorted(_OTHERWISE)}

LARGER_IS_BETTER = ("Pass", "Pass_away", "Pass_warm")
#: A relative difference below this does not show in three printed digits: a layer that training
#: left at its core differs from the fixed core by rounding alone, and that is no win.
TIE = 1e-3


@dataclass(frozen=True)
class Style:
    """The digits of a number; `tight` leaves little room between mean and deviation."""

    spec: str
    tight: bool = False


SCIENTIFIC = Style(".2e", tight=True)
SHORT = Style(".0e")
MILLISECONDS = Style(".3f", tight=True)
TWO_DECIMALS = Style(".2f")
THREE_DECIMALS = Style(".3f")
FOUR_DECIMALS = Style(".4f")
FIVE_DECIMALS = Style(".5f")


@dataclass(frozen=True)
class Measured:
    """A metric over the seeds; `by` is the method, where it stands under the number."""

    mean: float
    std: float | None
    style: Style
    by: str = ""

    @property
    def rounded(self) -> float:
        """The mean that is printed, for comparing what a reader sees."""
        return float(format(self.mean, self.style.spec))


@dataclass(frozen=True)
class Amount:
    """``33/36`` for the unit "of 36", ``33.1%`` for "percent"."""

    number: float
    unit: str

    @property
    def whole(self) -> int:
        """What a count is out of; 0 for a percentage."""
        return 0 if self.unit == "percent" else int(self.unit.removeprefix("of "))


@dataclass(frozen=True)
class Numbers:
    """Exact numbers in one formula: ``64``, ``{0,1,2}``, ``2000/400/400``."""

    values: Sequence[float]
    brackets: str = ""
    separator: str = ","


@dataclass(frozen=True)
class Assigned:
    """``a = 1, b = 2``, of symbols and exact numbers."""

    values: dict[str, float]


@dataclass(frozen=True)
class Cones:
    """A product of cones: the kind of each, as its class is called, and its sizes."""

    parts: Sequence[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Joined:
    """Several values one after the other."""

    parts: Sequence[Value]
    separator: str


#: Text, where methods and recipes are recognised by their names; a number; or one of the above.
Value = str | float | Measured | Amount | Numbers | Assigned | Cones | Joined | None
