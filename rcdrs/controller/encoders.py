"""Encoders: from the features seen so far to a hidden vector.  One is chosen by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rcdrs.kernels import arrays, compiled, first_order, view

#: ``g y (1 - y)`` and ``g (1 - y^2)``, in one pass.
_SIGMOID, _TANH = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class GRU(nn.Module):
    """Single-layer GRU, the paper's encoder: `nn.GRUCell` with a fused derivative."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(features, hidden)

    def forward(self, phi: Tensor, memory: Any) -> tuple[Tensor, Any]:
        cell = self.cell
        if memory is None:
            memory = phi.new_zeros(cell.hidden_size, len(phi)).mT
        h: Tensor = _GRUCell.apply(
            phi.mT, memory.mT, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
        ).mT
        return h, h


class _GRUCell(torch.autograd.Function):
    r"""The cell in batch-last layout, phi (F, batch) and h (H, batch): half the time of autograd's.

    r, z = sigmoid(W_i phi + b_i + W_h h + b_h),  n = tanh(W_in phi + b_in + r (W_hn h + b_hn)),
    h+ = (1 - z) n + z h
    """

    @staticmethod
    def forward(
        ctx: Any, phi: Tensor, h: Tensor, Wi: Tensor, Wh: Tensor, bi: Tensor, bh: Tensor
    ) -> Tensor:
        H = len(h)
        gates = torch.addmm(bi.unsqueeze(1), Wi, phi)
        inner = torch.addmm(bh.unsqueeze(1), Wh, h)
        rz = gates[: 2 * H].add_(inner[: 2 * H]).sigmoid_()
        r, z = rz[:H], rz[H:]
        # tanh(a) = 2 sigmoid(2a) - 1, three times as fast here
        n = gates[2 * H :].addcmul_(r, inner[2 * H :]).mul_(2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(phi, h, Wi, Wh, gates, inner[2 * H :])
        return torch.lerp(n, h, z)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        phi, h, Wi, Wh, gates, inner_n = ctx.saved_tensors
        H = len(h)
        r, z, n = gates[:H], gates[H : 2 * H], gates[2 * H :]
        d_gates = torch.empty_like(gates)
        d_r, d_z, d_n = d_gates[:H], d_gates[H : 2 * H], d_gates[2 * H :]
        if arrays(gates) is not None:
            kept = torch.empty_like(n)
            _pull_gates(*map(view, (g, h, r, z, n, inner_n, kept, d_r, d_z, d_n)))
        else:
            kept = g * z
            _TANH(torch.sub(g, kept, out=d_n), n, grad_input=d_n)
            _SIGMOID(torch.sub(h, n, out=d_z).mul_(g), z, grad_input=d_z)
            _SIGMOID(torch.mul(d_n, inner_n, out=d_r), r, grad_input=d_r)
        trained = ctx.needs_input_grad[2]  # a frozen controller still passes gradients through
        d_Wi, d_bi = (d_gates @ phi.mT, d_gates.sum(1)) if trained else (None, None)
        d_phi = Wi.mT @ d_gates
        d_n.mul_(r)  # from here on d_gates belongs to W_h h + b_h
        d_h = kept.addmm_(Wh.mT, d_gates)
        d_Wh, d_bh = (d_gates @ h.mT, d_gates.sum(1)) if trained else (None, None)
        return d_phi, d_h, d_Wi, d_Wh, d_bi, d_bh


@compiled
def _pull_gates(g, h, r, z, n, inner_n, kept, d_r, d_z, d_n):  # type: ignore[no-untyped-def]
    one = g.dtype.type(1)  # a plain 1 would make the loops compute in float64
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            kept[i, j] = g[i, j] * z[i, j]
        for j in range(g.shape[1]):
            d_n[i, j] = (g[i, j] - kept[i, j]) * (one - n[i, j] * n[i, j])
        for j in range(g.shape[1]):
            d_z[i, j] = (h[i, j] - n[i, j]) * g[i, j] * z[i, j] * (one - z[i, j])
        for j in range(g.shape[1]):
            d_r[i, j] = d_n[i, j] * inner_n[i, j] * r[i, j] * (one - r[i, j])


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


class Direct(nn.Module):
    """The features as they are: no weights and no memory."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()

    def forward(self, phi: Tensor, memory: Any) -> tuple[Tensor, Any]:
        return phi, None


ENCODERS: dict[str, type[nn.Module]] = {"gru": GRU, "lstm": LSTM, "mlp": MLP, "direct": Direct}


class Head(nn.Module):
    """The two-layer control head; its output is `start` until training moves it."""

    def __init__(self, inputs: int, hidden: int, start: Tensor) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, hidden), nn.Linear(hidden, len(start))
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.copy_(start)

    def forward(self, hidden: Tensor) -> Tensor:
        first, last = self.first, self.last
        raw: Tensor = _TwoLayers.apply(
            hidden.mT, first.weight, first.bias, last.weight, last.bias
        ).mT
        return raw


class _TwoLayers(torch.autograd.Function):
    """``W_2 relu(W_1 h + b_1) + b_2`` on batch-last h."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
        inner = torch.addmm(b1.unsqueeze(1), W1, h).relu_()
        ctx.save_for_backward(h, W1, W2, inner)
        return torch.addmm(b2.unsqueeze(1), W2, inner)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        h, W1, W2, inner = ctx.saved_tensors
        d_inner = torch.ops.aten.threshold_backward(W2.mT @ g, inner, 0)
        d_h = W1.mT @ d_inner
        if not ctx.needs_input_grad[1]:
            return d_h, None, None, None, None
        return d_h, d_inner @ h.mT, d_inner.sum(1), g @ inner.mT, g.sum(1)
