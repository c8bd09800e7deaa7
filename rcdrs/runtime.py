"""Settings of a process that computes: threads, denormals, and how freed memory is kept."""

from __future__ import annotations

import contextlib
import ctypes
import os

import torch

# Parameters of glibc's mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def configure(threads: int = 1) -> None:
    """Prepare this process for computing; called by every command, never on import.

    The number of torch threads is fixed so that results do not depend on the machine's cores.
    Denormal numbers, which deep rollouts produce, are flushed to zero.  Freed memory stays with
    the process: by default glibc returns a rollout's arrays to the system and every step pays
    for fresh pages again (a quarter of a training step).
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    if os.name == "posix":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
