"""The causal residual feedback controller: features -> encoder -> head -> admissible action."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from rcdrs.controller.actions import CONTROLS, ActionMap, Envelope, Growth, Ranges
from rcdrs.controller.encoders import ENCODERS, SCHEDULE, Head
from rcdrs.controller.features import FEATURES, PREVIOUS, RESIDUAL, TIME, features
from rcdrs.solver.fused import Observation, Transition

__all__ = [
    "CONTROLS",
    "FEATURES",
    "PREVIOUS",
    "RESIDUAL",
    "TIME",
    "Controller",
    "ControllerConfig",
    "Envelope",
    "Growth",
    "Ranges",
]


@dataclass(frozen=True)
class ControllerConfig:
    """Everything the ablations swap.  The default is RCDRS-Env; ``envelope=None`` is RCDRS-NoEnv.

    Arguments
        encoder: "gru", "lstm", "mlp" or "schedule" (open loop, layer by layer).
        hidden: width of encoder and head.
        features: the features it sees, from `FEATURES`.
        controls: the variables it sets, from `CONTROLS`; the others stay at the core.
        envelope, growth: the safeguards, or None without them.
    """

    encoder: str = "gru"
    hidden: int = 64
    features: tuple[str, ...] = FEATURES
    controls: tuple[str, ...] = CONTROLS
    envelope: Envelope | None = field(default_factory=Envelope)
    growth: Growth | None = field(default_factory=Growth)
    ranges: Ranges = field(default_factory=Ranges)

    def __post_init__(self) -> None:
        _check_names("encoder", [self.encoder], [*ENCODERS, SCHEDULE])
        _check_names("features", self.features, FEATURES)
        _check_names("controls", self.controls, CONTROLS)
        if not self.features:
            raise ValueError(f"features is empty, expected some of {', '.join(FEATURES)}.")
        if self.hidden < 1:
            raise ValueError(f"hidden is {self.hidden}, expected a positive integer.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ControllerConfig:
        """A configuration from plain values, as files hold them; what is absent is the default."""
        parts: dict[str, Any] = dict(values)
        kinds: dict[str, Any] = {"envelope": Envelope, "growth": Growth, "ranges": Ranges}
        for name, kind in kinds.items():
            if parts.get(name) is not None:
                parts[name] = _part(name, kind, parts[name])
        for name in ("features", "controls"):
            if name in parts:
                parts[name] = tuple(parts[name])
        return ControllerConfig(**parts)


class Controller(nn.Module):
    """The policy ``pi_theta``; until trained it returns the core at every step."""

    def __init__(
        self, config: ControllerConfig, core: tuple[float, float, float], depth: int
    ) -> None:
        super().__init__()
        self.config = config
        self.map = ActionMap(core, config.controls, config.envelope, config.ranges, config.growth)
        start = self.map.raw_core()
        if config.encoder == SCHEDULE:
            self.schedule = nn.Parameter(start.repeat(depth, 1))
        else:
            self.encoder = ENCODERS[config.encoder](len(config.features), config.hidden)
            self.head = Head(config.hidden, start)

    def forward(
        self,
        transition: Transition,
        seen: Observation,
        before: Observation,
        previous: Tensor,
        memory: Any,
        k: int,
        depth: int,
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Any]:
        """For step k of `depth`: the action ``l_k`` (batch, 3), its alpha and beta (batch,), and
        the encoder's memory."""
        if self.config.encoder == SCHEDULE:
            # Beyond the trained depth the last action goes on.
            raw = self.schedule[min(k, len(self.schedule) - 1)].expand_as(previous)
        else:
            kept = self.config.features
            phi = features(transition, seen, before, previous, self.map.base, k, depth, kept)
            hidden, memory = self.encoder(phi, memory)
            raw = self.head(hidden)
        action, alpha, beta = self.map(raw, previous, k)
        return action, (alpha, beta), memory


def _part(name: str, kind: Any, values: Any) -> Any:
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except (TypeError, AttributeError) as error:
        keys = ", ".join(kind.__dataclass_fields__)
        raise ValueError(f"{name} is {values!r}, expected values for {keys}.") from error


def _check_names(argument: str, given: Any, allowed: Any) -> None:
    for name in given:
        if name not in allowed:
            raise ValueError(f"{argument}: unknown {name!r}, expected {', '.join(allowed)}.")
    if len(set(given)) < len(given):
        raise ValueError(f"{argument} names one twice: {', '.join(given)}.")


def split_action(action: Tensor) -> tuple[Tensor, Tensor]:
    """``(alpha, beta)`` of an action ``(log rho, alpha, log beta)``, each (batch,)."""
    # Contiguous: they multiply every row of a batch-last array.
    return action[:, 1].contiguous(), torch.exp(action[:, 2])
