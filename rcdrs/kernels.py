"""What compiled CPU kernels share: the decorator, and the test whether they apply.

On the CPU a step is many small operations, each of which costs a call and a pass over memory;
one compiled loop does their work in a single pass.  A kernel stands beside the torch formula it
replaces, which remains for every other device.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

# No `nnan`, no `ninf`: an instance that is NaN or infinite has to stay so.
_njit: Any = partial(
    numba.njit, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"}
)


def compiled(function: Any) -> Any:
    """Compile at the first call for each combination of types; kept on disk for later processes."""
    try:
        return _njit(function, cache=True)
    except RuntimeError:  # there is no folder that can be written to
        return _njit(function)


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
