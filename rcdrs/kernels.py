"""What compiled CPU kernels and derivatives by hand share: decorators, and where kernels apply.

On the CPU a step is many small operations, each of which costs a call and a pass over memory;
one compiled loop does their work in a single pass.  A kernel stands beside the torch formula it
replaces, which remains for every other device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")
#: How kernels may round.  No `nnan`, no `ninf`: an instance that is NaN or infinite has to stay so.
#: No `arcp`: 1/sqrt(1) may then be estimated below 1, so that a PSD block that needs no rotation
#: shrinks whenever a neighbour's is rotated.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract", "nsz"}}
#: Numba notices a change in the file of a kernel, and none in those that the kernel calls or takes
#: constants from: what it keeps on the disk is found by a digest of them all.
_FILES = sorted(
    path
    for path in Path(__file__).parent.rglob("*.py")
    if path.parent.name in ("cones", "rollout", "solver", "controller")
    and path.stem not in ("fixed", "operator", "transforms", "run", "policy", "problem")
    and path.stem not in ("readout", "status", "step", "sparse", "sparse_step")
)
_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in [Path(__file__), *_FILES]))


def compiled(function: Any, inline: str = "never") -> Any:
    """Compile at the first call for each combination of types; kept on disk for later processes."""
    # What is kept is found by this name, by types and by source: the options are in none of them.
    function.__qualname__ += f"_{_SOURCES.hexdigest()[:8]}"
    njit: Any = partial(numba.njit, nogil=True, inline=inline, **OPTIONS)
    try:
        return njit(function, cache=True)
    except RuntimeError:  # there is no folder that can be written to
        return njit(function)


def inlined(function: Any) -> Any:
    """A part of kernels, compiled into each of them.

    As a function of its own the compiler would merge it with its caller, and round with it, only
    where it was not loaded from the disk.
    """
    return compiled(function, "always")


NO_SECOND = (
    "second derivatives through a solver layer, a cone or the factorisation of A are not "
    "available: leave out create_graph=True, or take differences of first derivatives in float64."
)


def transformed() -> bool:
    """Does a compiler or a transform of `torch.func` trace this?  Numbers are out of sight then."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def first_order(backward: Callable[..., T]) -> Callable[..., T]:
    """For each `backward` that is written by hand: autograd would take its result for a constant,
    so that a second derivative, for which it runs with gradients on, would be silently wrong."""

    @wraps(backward)
    def checked(ctx: Any, *grads: Tensor | None) -> T:
        if torch.is_grad_enabled():
            raise RuntimeError(NO_SECOND)
        given = next((g for g in grads if g is not None), torch.empty(0))
        with own_precision(given.device):
            return backward(ctx, *grads)

    return checked


def own_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Layers compute in the dtype of their A, whatever `torch.autocast` says around them."""
    if not autocasts(device):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def autocasts(device: torch.device) -> bool:
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def arrays(*tensors: Tensor) -> tuple[np.ndarray, ...] | None:
    """The tensors as numpy views, or None where the compiled path does not apply.

    It applies to matrices on the CPU, all of one dtype, float32 or float64.
    """
    dtype = tensors[0].dtype
    if dtype is not torch.float32 and dtype is not torch.float64:
        return None
    for tensor in tensors:
        if tensor.ndim != 2 or tensor.dtype is not dtype or not tensor.is_cpu:
            return None
    return tuple([tensor.numpy(force=True) for tensor in tensors])


def view(tensor: Tensor) -> np.ndarray:
    """A tensor as a kernel takes it: contiguous, so that each kernel is compiled once a dtype."""
    return tensor.detach().contiguous().numpy()
