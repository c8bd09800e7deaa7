"""What autograd, vmap and the transforms of `torch.func` make of `rcdrs::rollout`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rcdrs.kernels import NO_SECOND
from rcdrs.rollout.operator import COUNTS, LIBRARY, Inputs, compute

NO_FORWARD = (
    "forward-mode derivatives through a solver layer are not available: use reverse mode, as "
    "torch.func.jacrev instead of torch.func.jacfwd."
)


def _save(ctx: Any, inputs: Inputs, output: tuple[Tensor, ...]) -> None:
    bad, tape = output[2], output[4]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(bad, tape)
    ctx.rest = (list(inputs.cone), list(inputs.sizes))
    ctx.save_for_backward(bad, tape, *inputs.tensors())


def _pull(ctx: Any, derivative: Any, grads: tuple[Tensor | None, ...]) -> list[Tensor]:
    """The gradients in b, c, the start, `given` and the weights, by the given form of
    `rcdrs::rollout_backward`."""
    bad, tape, *tensors = ctx.saved_tensors
    inputs = Inputs.of(tensors, *ctx.rest)
    batch, n = inputs.c.shape
    kind, *_, depth, _ = inputs.sizes
    shapes = ((3, n, batch), (batch,), (depth if kind else 0, 3, batch))
    full = [
        inputs.c.new_zeros(shape) if g is None else g
        for g, shape in zip((grads[0], grads[1], grads[3]), shapes, strict=True)
    ]
    found = derivative(*full, bad, tape, ctx.needs, *inputs)
    if found[4].shape[1] != inputs.given.shape[-1]:  # one for all, or none
        found[4] = found[4].sum(1, keepdim=True) if inputs.given.numel() else inputs.given
    return list(found)


# Autograd, as it sees the operators.


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _save(ctx, Inputs(*inputs[:-1]), output)


def _backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(NO_SECOND)
    need = ctx.needs_input_grad
    weights = need[5] if isinstance(need[5], bool) else any(need[5])
    ctx.needs = [bool(need[0]), bool(need[1]), bool(need[2] or need[3]), bool(weights)]
    found = _pull(ctx, torch.ops.rcdrs.rollout_backward, grads)
    vectors = [g if wanted else None for g, wanted in zip(found[:5], need, strict=False)]
    none = [[None] * count for count in COUNTS[1:]]
    return (*vectors, found[5:] if weights else [None] * COUNTS[0], *none, None, None, None)


def _refuse(ctx: Any, *grads: Any) -> None:
    raise RuntimeError(NO_SECOND)


torch.library.register_autograd("rcdrs::rollout", _backward, setup_context=_setup, lib=LIBRARY)
torch.library.register_autograd("rcdrs::rollout_backward", _refuse, lib=LIBRARY)


# vmap, as it sees the operators.


def _map(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], Any]:
    """Where only instances are mapped over, all of them are one batch; else one call for each."""
    inputs, rows = Inputs(*arguments[:-1]), 4  # b, c, z0, u0 have an instance a row
    mapped = [dim is not None for dim in _flat(dims)]
    own = any(len(t) > 1 or t.shape[-1] > 1 for t in inputs.extras if t.numel())
    if own or any(mapped[rows:]):
        return _each(torch.ops.rcdrs.rollout, info, dims, arguments)
    merged = []
    for t, dim in zip(arguments[:rows], dims[:rows], strict=True):
        t = t.unsqueeze(0).expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
        merged.append(t.flatten(0, 1))
    state, moved, bad, actions, tape = torch.ops.rcdrs.rollout(*merged, *arguments[rows:])
    size = (info.batch_size, -1)
    out = (state.unflatten(-1, size), moved.unflatten(0, size), bad.unflatten(0, size))
    return (*out, actions.unflatten(-1, size), tape), (2, 0, 0, 2, None)


def _map_backward(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[list[Tensor], Any]:
    return _each(torch.ops.rcdrs.rollout_backward, info, dims, arguments)


torch.library.register_vmap("rcdrs::rollout", _map, lib=LIBRARY)
torch.library.register_vmap("rcdrs::rollout_backward", _map_backward, lib=LIBRARY)


def _each(operator: Any, info: Any, dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """One call for each of what is mapped over, and the results one over the other."""

    def pick(value: Any, dim: Any, i: int) -> Any:
        if isinstance(dim, (list, tuple)):
            return [pick(v, d, i) for v, d in zip(value, dim, strict=True)]
        return value if dim is None else value.select(dim, i)

    calls = [
        operator(*(pick(v, d, i) for v, d in zip(arguments, dims, strict=True)))
        for i in range(info.batch_size)
    ]
    stacked = [torch.stack(parts) for parts in zip(*calls, strict=True)]
    return type(calls[0])(stacked), type(calls[0])([0] * len(stacked))


def _flat(dims: Any) -> list[Any]:
    return [d for dim in dims for d in (dim if isinstance(dim, (list, tuple)) else (dim,))]


# The transforms of `torch.func` do not see through autograd rules of operators: for them the same
# rules as functions.


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(cone: Any, sizes: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.ops.rcdrs.rollout(*Inputs.of(tensors, cone, sizes), True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        cone, sizes, *tensors = inputs
        _save(ctx, Inputs.of(tensors, cone, sizes), output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        need = ctx.needs_input_grad[2:]
        count = 5 + COUNTS[0]
        ctx.needs = [need[0], need[1], need[2] or need[3], any(need[5:count])]

        def derivative(*arguments: Any) -> list[Tensor]:
            inputs = Inputs(*arguments[6:])
            flat = (*arguments[:5], *inputs.tensors())
            return list(_Derivative.apply(arguments[5], inputs.cone, inputs.sizes, *flat))

        pulled = zip(_pull(ctx, derivative, grads), need, strict=False)
        found = [g if wanted else None for g, wanted in pulled]
        return (None, None, *found, *[None] * (len(need) - count))

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> Any:
        return _each(_Rollout.apply, info, dims, arguments)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        raise RuntimeError(NO_FORWARD)


class _Derivative(torch.autograd.Function):
    """`rcdrs::rollout_backward`, of which there is no derivative."""

    @staticmethod
    def forward(needs: Any, cone: Any, sizes: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = Inputs.of(tensors[5:], cone, sizes)
        return tuple(torch.ops.rcdrs.rollout_backward(*tensors[:5], needs, *inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> None:
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> Any:
        return _each(_Derivative.apply, info, dims, arguments)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        raise RuntimeError(NO_FORWARD)


def roll(inputs: Inputs, save: bool) -> tuple[Tensor, ...]:
    """`rcdrs::rollout`: through a function for transforms, and at once where neither autograd nor
    a compiler has to see it."""
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(t).tangent is not None for t in inputs.tensors()
    ):
        raise RuntimeError(NO_FORWARD)
    if not torch.compiler.is_compiling():
        if torch._C._are_functorch_transforms_active() and _differentiates():
            return tuple(_Rollout.apply(inputs.cone, inputs.sizes, *inputs.tensors()))
        if not save and not torch._C._are_functorch_transforms_active() and plain(inputs):
            return compute(*inputs, False)
    return tuple(torch.ops.rcdrs.rollout(*inputs, save))


def plain(inputs: Inputs) -> bool:
    """Are b and c tensors of torch's own, and no subclass that wants to see the operator?"""
    return type(inputs.b) is Tensor is type(inputs.c)


def _differentiates() -> bool:
    """Is one of the transforms of `torch.func` around this a derivative?"""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() != torch._C._functorch.TransformType.Vmap for level in stack)
