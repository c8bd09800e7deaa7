"""Settings of a process that computes: threads, denormals, and how freed memory is kept.

What only some systems have is done where it is there, and left out elsewhere: `resource` and
`fcntl` are not on Windows, and `mallopt` is of glibc alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

fcntl: Any
resource: Any
try:
    import fcntl
    import resource
except ImportError:
    fcntl = resource = None

# Parameters of glibc's mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


#: Of address space: torch, numba and all that they bring are less than this, if not by much.
NEEDED = 2 * 10**9


def small_memory() -> str:
    """What to say of a limit under which the imports alone would fail, or crawl; else nothing."""
    if resource is None:
        return ""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= NEEDED:
        return ""
    return (
        f"the limit on address space is {limit / 1e9:.1f} GB, and {NEEDED / 1e9:.0f} GB are "
        "needed: raise it, as with `ulimit -v unlimited`."
    )


def peak_memory() -> float:
    """The most that this process has had in memory, in GB; NaN where the system does not say."""
    if resource is None:
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 2**10  # bytes there, kB elsewhere
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30)


def configure(threads: int = 1) -> None:
    """Prepare this process for computing; called by commands that compute, never on import.

    The number of torch threads is fixed so that results do not depend on the machine's cores.
    Denormal numbers, which deep rollouts produce, are flushed to zero.  Freed memory stays with
    the process: by default glibc returns a rollout's arrays to the system and every step pays
    for fresh pages again (a quarter of a training step).
    """
    if small := small_memory():
        raise OSError(small)
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    if os.name == "posix":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


#: Locks of the GPUs that this process has to itself; closed, and so released, when it ends.
_claimed: list[int] = []


def claim(device: torch.device) -> torch.device:
    """Wait for a GPU that no other job of this machine has, and make it the current one.

    Jobs run side by side, one a core, but a GPU serves one job at a time.  On a CPU there is
    nothing to wait for; without locks, as on Windows, nobody is waited for.
    """
    import torch

    while device.type == "cuda" and fcntl is not None:
        for index in range(torch.cuda.device_count()):
            name = f"rcdrs-{torch.cuda.get_device_properties(index).uuid}.lock"
            lock = os.open(Path(tempfile.gettempdir(), name), os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            _claimed.append(lock)
            torch.cuda.set_device(index)
            return device
        time.sleep(0.2)
    return device


def end_with_parent() -> None:
    """End this process when the workflow that started it is gone, even if it was killed.

    The workflow names itself in ``RCDRS_PARENT`` as host:pid; on another host, as on a cluster,
    there is nothing to watch.  Without this, a killed workflow would leave jobs writing files
    that its successor computes again.
    """
    host, _, pid = os.environ.get("RCDRS_PARENT", "").rpartition(":")
    if host != platform.node() or not pid.isdigit():
        return

    def watch() -> None:
        while _lives(int(pid)):
            time.sleep(1)
        os._exit(143)  # as after a SIGTERM

    threading.Thread(target=watch, daemon=True).start()


def _lives(pid: int) -> bool:
    if os.name == "nt":  # where os.kill would end it
        import psutil

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user, and alive
        pass
    return True
