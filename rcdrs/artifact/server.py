"""Commands that start at once: one process imports everything, and forks for each command.

Importing torch and the rest takes seconds, and a workflow runs more than a thousand commands.  So
a local workflow starts a server that imports once; ``python -m rcdrs COMMAND`` finds it by the
environment variable ``RCDRS_SERVER`` and hands over what it was called with: arguments, folder,
environment and open files.  A fork of the server runs the command and is gone when either the
caller or the workflow is.  Without a server, or where it has other code, the caller runs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

#: Where the server of a workflow listens.
VARIABLE = "RCDRS_SERVER"
#: Libraries read these only while they are imported.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: With what they import, all that most commands need.
MODULES = ("torch._dynamo", "rcdrs.cli.stages", "rcdrs.cli.results")  # optimizers need the first
#: More than the imports of a server can take, in seconds.
PATIENCE = 120


def hand_over(arguments: Sequence[str]) -> int | None:
    """The exit code of the command, run by the server; None if no server takes it."""
    if not (server := os.environ.get(VARIABLE)):
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(_address(server))
        if not _is_ours(connection):
            return None
        code = _code()
        if connection.recv(len(code), socket.MSG_WAITALL) != code:
            return None
        request = json.dumps([list(arguments), os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
        connection.sendall(request)
    except OSError:
        return None
    connection.settimeout(None)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is in the background
        signal.signal(signal.SIGINT, lambda number, frame: connection.sendall(bytes([number])))
    answer = connection.recv(16)
    if not answer:
        raise OSError("the process that ran it is gone.")
    if (status := int(answer)) < 0:  # ended by a signal: so is this process
        os.kill(os.getpid(), -status)
    return status


def start(threads: int) -> None:
    """Start a server that lives as long as this process, and name it in the environment."""
    import secrets
    import subprocess

    if sys.platform != "linux" or not hasattr(os, "fork"):  # elsewhere each command imports all
        return
    name = f"rcdrs-{secrets.token_hex(16)}"
    # Bound here, so that the first callers wait for the server instead of going without.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(_address(name))
        listener.listen(1024)
        alive, _ = os.pipe()  # its other end is open until this process ends, however it does
        subprocess.Popen(
            [sys.executable, "-m", "rcdrs.cli.serve", str(listener.fileno())],
            stdin=alive,
            stdout=subprocess.DEVNULL,  # buffered like the logs that commands write
            pass_fds=[listener.fileno()],
            env=os.environ | dict.fromkeys(THREADS, str(threads)),
            cwd=Path(__file__).parents[2],
            start_new_session=True,  # what is typed reaches a command once, through its caller
        )
        os.close(alive)
    os.environ[VARIABLE] = name


def _address(name: str) -> str:
    """Of Linux's abstract sockets, which are no files: nothing of them is left behind, and no
    temporary folder is needed."""
    return f"\0{name}"


def _is_ours(connection: socket.socket) -> bool:
    """Is this user at the other end?  An abstract socket can be reached by all."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", peer)[1]
    return user == os.getuid()


def _code() -> bytes:
    """What a server and a caller have to share: package, Python and threads."""
    package = Path(__file__).parents[1]
    changed = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    read = [os.environ.get(name) for name in THREADS]
    text = json.dumps([str(package), changed, sys.prefix, sys.version, read])
    return hashlib.sha256(text.encode()).hexdigest().encode()


def serve(listener: socket.socket) -> list[str]:
    """Fork for each command; in the fork, return its arguments."""
    import gc
    import select

    import numba

    from rcdrs.experiments.base import experiments

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    code = _code()
    for module in (*MODULES, *(f"rcdrs.experiments.{name}.stages" for name in experiments())):
        import_module(module)
    numba.njit(lambda: None)()  # imports the rest of numba, as the first call of a kernel would
    gc.freeze()  # forks share these pages as long as no collection writes to them
    while True:
        if sys.stdin in select.select([sys.stdin, listener], [], [])[0]:
            os._exit(0)  # the workflow is gone
        connection, _ = listener.accept()
        if not _is_ours(connection):
            connection.close()
            continue
        if os.fork() == 0:
            listener.close()
            return _take_over(connection, code)
        connection.close()


def _take_over(connection: socket.socket, code: bytes) -> list[str]:
    """Make a fork what the caller at the other end is, and tell that how it ended; the arguments of
    its command."""
    import threading

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from the caller, and nobody else
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # of a caller that is gone
            connection.send(str(status).encode())
        os._exit(0)
    try:
        connection.sendall(code)
        size, files, _, _ = socket.recv_fds(connection, 8, 3)
    except OSError:
        files = []
    if not files:  # the caller refused, or is gone
        os._exit(0)
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    arguments, folder, environment = json.loads(request)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)

    def watch() -> None:
        while number := connection.recv(1):
            os.kill(os.getpid(), number[0])
        os._exit(143)  # as after a SIGTERM: the caller is gone

    threading.Thread(target=watch, daemon=True).start()
    return list(arguments)
