"""Encoders: from the features seen so far to a hidden vector.  One is chosen by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class GRU(nn.Module):
    """Single-layer GRU, the paper's encoder."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(features, hidden)

    def forward(self, phi: Tensor, memory: Any) -> tuple[Tensor, Any]:
        h = self.cell(phi, memory)
        return h, h


class LSTM(nn.Module):
    """Single-layer LSTM."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(features, hidden)

    def forward(self, phi: Tensor, memory: Any) -> tuple[Tensor, Any]:
        h, c = self.cell(phi, memory)
        return h, (h, c)


class MLP(nn.Module):
    """Two layers on the current features only: no memory."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )

    def forward(self, phi: Tensor, memory: Any) -> tuple[Tensor, Any]:
        return self.net(phi), None


ENCODERS: dict[str, type[nn.Module]] = {"gru": GRU, "lstm": LSTM, "mlp": MLP}
#: Not an encoder: one learned action a step, the same for every instance.
SCHEDULE = "schedule"


def head(hidden: int, start: Tensor) -> nn.Sequential:
    """The two-layer control head; its output is `start` until training moves it."""
    last = nn.Linear(hidden, 3)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(start)
    return nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), last)
