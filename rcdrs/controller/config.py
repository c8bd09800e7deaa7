"""What a controller is made of: plain values, without torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any

#: What it may see, what it may set, and what it may be.
RESIDUAL = ("con", "eq", "dz", "obj", "dobj")
PREVIOUS = ("rho", "alpha", "beta")
TIME = ("elapsed", "left")
FEATURES = RESIDUAL + PREVIOUS + TIME
CONTROLS = ("rho", "alpha", "beta")
ENCODERS = ("gru", "lstm", "mlp", "direct")
#: Not an encoder: one learned action a step, the same for every instance.
SCHEDULE = "schedule"
#: (rho_0, alpha_0, beta_0) before recentring at the validation-selected core; also F-DRS.
BASE_ACTION = (1.0, 1.6, 0.3)


@dataclass(frozen=True)
class Envelope:
    r"""Radius ``delta_k = delta_0 / (1 + (k/k_0)^p)`` around the core, eq. (6)."""

    delta_0: float = 2.0
    k_0: float = 80.0
    p: float = 1.2
    s_alpha: float = 0.25

    def __post_init__(self) -> None:
        for name in ("delta_0", "k_0", "p", "s_alpha"):
            _check_number(name, getattr(self, name))

    def radius(self, k: int) -> float:
        return self.delta_0 / (1 + (k / self.k_0) ** self.p)


@dataclass(frozen=True)
class Ranges:
    """The global admissible intervals of table 7."""

    rho: tuple[float, float] = (1e-4, 1e4)
    alpha: tuple[float, float] = (0.2, 1.9)
    beta: tuple[float, float] = (1e-5, 1e2)

    def __post_init__(self) -> None:
        for name, largest in (("rho", math.inf), ("alpha", 2.0), ("beta", math.inf)):
            interval = getattr(self, name)
            if not isinstance(interval, (tuple, list)) or len(interval) != 2:
                raise ValueError(f"the range of {name} is {interval!r}, expected (low, high).")
            low, high = interval
            for value in interval:
                _check_number(f"the range of {name}", value)
            if not 0 < low < high < largest:
                raise ValueError(
                    f"the range of {name} is [{low:g}, {high:g}], expected "
                    f"0 < low < high < {largest:g}."
                )


@dataclass(frozen=True)
class Growth:
    """Largest factor by which rho and beta may change between two steps."""

    rho: float = 10.0
    beta: float = 10.0

    def __post_init__(self) -> None:
        for name in ("rho", "beta"):
            _check_number(f"the growth of {name}", getattr(self, name))
            if getattr(self, name) < 1:
                raise ValueError(f"the growth of {name} is {getattr(self, name):g}, expected >= 1.")


@dataclass(frozen=True)
class ControllerConfig:
    """Everything the ablations swap.  The default is RCDRS-Env; ``envelope=None`` is RCDRS-NoEnv.

    Arguments
        encoder: "gru", "lstm", "mlp", "direct" (none: the head sees the features themselves) or
            "schedule" (open loop, layer by layer).
        hidden: width of encoder and head.
        features: the features it sees, from `FEATURES`.
        controls: the variables it sets, from `CONTROLS`; the others stay at the core.
        envelope, growth: the safeguards, or None without them.
        scheduled: learn a schedule, too, and let the encoder correct it.
        period: steps from one look to the next, until which a correction of the schedule holds.
    """

    encoder: str = "gru"
    hidden: int = 64
    features: tuple[str, ...] = FEATURES
    controls: tuple[str, ...] = CONTROLS
    envelope: Envelope | None = field(default_factory=Envelope)
    growth: Growth | None = field(default_factory=Growth)
    ranges: Ranges = field(default_factory=Ranges)
    scheduled: bool = False
    period: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.period, int) or isinstance(self.period, bool) or self.period < 1:
            raise ValueError(f"period is {self.period!r}, expected a positive integer.")
        if self.period > 1 and not self.scheduled:
            raise ValueError(
                f"period is {self.period} without a schedule, of which there is nothing to hold "
                "between two looks: expected 1, or scheduled=True."
            )
        if not isinstance(self.scheduled, bool):
            raise TypeError(f"scheduled is {self.scheduled!r}, expected True or False.")
        _check_names("encoder", [self.encoder], [*ENCODERS, SCHEDULE])
        _check_names("features", self.features, FEATURES)
        _check_names("controls", self.controls, CONTROLS)
        if not self.features:
            raise ValueError(f"features is empty, expected some of {', '.join(FEATURES)}.")
        if not isinstance(self.hidden, int) or isinstance(self.hidden, bool) or self.hidden < 1:
            raise ValueError(f"hidden is {self.hidden!r}, expected a positive integer.")
        parts = (("envelope", Envelope | None), ("growth", Growth | None), ("ranges", Ranges))
        for name, kind in parts:
            if not isinstance(value := getattr(self, name), kind):
                expected = name.capitalize() + (" or None" if name != "ranges" else "")
                raise TypeError(f"{name} is {value!r}, expected {expected}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `scheduled` and `period` only where they are set, as files from before do
        not have them."""
        values, standard = asdict(self), ControllerConfig()
        for name in ("scheduled", "period"):
            if values[name] == getattr(standard, name):
                del values[name]
        return values

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ControllerConfig:
        """A configuration from plain values, as files hold them; what is absent is the default."""
        if unknown := values.keys() - ControllerConfig.__dataclass_fields__.keys():
            known = ", ".join(ControllerConfig.__dataclass_fields__)
            raise ValueError(
                f"controller: unknown {', '.join(map(repr, unknown))}, expected {known}."
            )
        parts: dict[str, Any] = dict(values)
        kinds: dict[str, Any] = {"envelope": Envelope, "growth": Growth, "ranges": Ranges}
        for name, kind in kinds.items():
            if parts.get(name) is not None:
                parts[name] = _part(name, kind, parts[name])
        for name in ("features", "controls"):
            if name in parts:
                parts[name] = tuple(parts[name])
        return ControllerConfig(**parts)


def _part(name: str, kind: Any, values: Any) -> Any:
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except (TypeError, AttributeError) as error:
        keys = ", ".join(kind.__dataclass_fields__)
        raise ValueError(f"{name} is {values!r}, expected values for {keys}.") from error


def _check_number(name: str, value: Any) -> None:
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}, expected a positive finite number.")


def _check_names(argument: str, given: Any, allowed: Any) -> None:
    if not isinstance(given, (tuple, list)):
        raise TypeError(f"{argument} is {given!r}, expected a tuple of {', '.join(allowed)}.")
    for name in given:
        if name not in allowed:
            raise ValueError(f"{argument}: unknown {name!r}, expected {', '.join(allowed)}.")
    if len(set(given)) < len(given):
        raise ValueError(f"{argument} names one twice: {', '.join(given)}.")
