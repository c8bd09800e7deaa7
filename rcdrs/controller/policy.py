"""The causal residual feedback controller: features -> encoder -> head -> admissible action."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rcdrs.controller.actions import ActionMap
from rcdrs.controller.config import SCHEDULE, ControllerConfig
from rcdrs.controller.encoders import ENCODERS, Head
from rcdrs.controller.features import features
from rcdrs.solver.fused import Observation, Transition


class Memory(NamedTuple):
    """What a controller keeps of its last look: its output, what it saw, and its encoder's own."""

    raw: Tensor
    seen: Observation | None = None
    encoder: Any = None


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
            return
        features = len(config.features)
        self.encoder = ENCODERS[config.encoder](features, config.hidden)
        if config.scheduled:
            self.schedule = nn.Parameter(start.repeat(depth, 1))
            start = torch.zeros_like(start)
        inputs = features if config.encoder == "direct" else config.hidden
        self.head = Head(inputs, config.hidden, start)

    def forward(
        self,
        transition: Transition,
        seen: Observation,
        previous: Tensor,
        memory: Memory | None,
        k: int,
        depth: int,
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Memory | None]:
        """For step k of `depth`: the action ``l_k`` (batch, 3), its alpha and beta (batch,), and
        what it remembers."""
        if self.config.encoder == SCHEDULE:
            # Beyond the trained depth the last action goes on.
            raw = self.schedule[min(k, len(self.schedule) - 1)].expand_as(previous)
        else:
            kept, memory = self.config.features, memory or Memory(torch.zeros_like(previous))
            if (k + 1) % self.config.period == 0:
                before = memory.seen or seen
                phi = features(transition, seen, before, previous, self.map.base, k, depth, kept)
                hidden, encoded = self.encoder(phi, memory.encoder)
                memory = Memory(self.head(hidden), seen, encoded)
            raw = memory.raw
            if self.config.scheduled:
                raw = raw + self.schedule[min(k, len(self.schedule) - 1)]
        action, alpha, beta = self.map(raw, previous, k)
        return action, (alpha, beta), memory


def split_action(action: Tensor) -> tuple[Tensor, Tensor]:
    """``(alpha, beta)`` of an action ``(log rho, alpha, log beta)``, each (batch,)."""
    # Contiguous: they multiply every row of a batch-last array.
    return action[:, 1].contiguous(), torch.exp(action[:, 2])
