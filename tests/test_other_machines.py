"""What is of one system has a fallback: nothing here needs Linux but the speed of a workflow."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rcdrs.artifact import runtime, server
from rcdrs.files import replacing, write_json

ROOT = Path(__file__).parents[1]
PIPES = {"capture_output": True, "text": True}
#: Of the standard library, by what Windows lacks.
UNIX = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
#: What others import of it, for Linux, is imported before it is taken away.
ELSEWHERE = f"""
import asyncio, os, signal, socket, sys
import clarabel, cvxpy, matplotlib.figure, numba, pandas, snakemake.api, torch._dynamo
sys.modules |= dict.fromkeys({UNIX!r})
for name in ("fork", "forkpty", "killpg", "setsid", "getuid", "geteuid", "getpgid", "posix_spawn"):
    if hasattr(os, name): delattr(os, name)
for name in ("SIGKILL", "SIGCHLD", "SIGSTOP", "SIGHUP", "SIGPIPE", "SIGALRM"): delattr(signal, name)
for name in ("AF_UNIX", "SO_PEERCRED", "send_fds", "recv_fds"): delattr(socket, name)
"""
IMPORTS = """
import importlib, pkgutil, rcdrs
for module in pkgutil.walk_packages(rcdrs.__path__, "rcdrs."):
    if module.name != "rcdrs.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # of an extra, which need not be here
            if error.name not in ("cvxpylayers", "jax", "moreau", "pinet"): raise
from rcdrs.artifact import server
server.start(1)
assert server.VARIABLE not in os.environ and server.hand_over(["status"]) is None
from rcdrs.cli.main import main
sys.exit(main(["status"]))
"""


def test_every_module_and_a_command_do_without_unix():
    """In a home that cannot be written to, nor made, besides."""
    home = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "XDG_CONFIG_HOME": "/proc/none"}
    command = [sys.executable, "-c", f"{ELSEWHERE}{IMPORTS}"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | home, **PIPES)
    assert done.returncode == 0, done.stderr
    assert "synthetic_k20 " in done.stdout


def test_only_two_modules_are_asked_for_that_windows_lacks():
    """Where they are, an ImportError is caught."""
    asked = Counter()
    for path in [*(ROOT / "rcdrs").rglob("*.py"), *(ROOT / "workflow").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module] if isinstance(node, ast.ImportFrom) else []
            asked.update((path.name, name) for name in names if name in UNIX)
    assert asked == {("runtime.py", "fcntl"): 1, ("runtime.py", "resource"): 1}


def test_only_linux_has_a_server_that_forks(monkeypatch):
    def refused(*given, **named):
        raise AssertionError("a server was started")

    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.delenv(server.VARIABLE, raising=False)
    for platform in ("darwin", "win32", "freebsd14"):
        monkeypatch.setattr(sys, "platform", platform)
        server.start(1)
    monkeypatch.undo()
    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.delattr(os, "fork")
    server.start(1)


def test_memory_is_kept_only_where_there_is_mallopt(monkeypatch):
    """macOS has no such function, Windows no library None; numbers of threads hold all the same."""

    def without(name):
        if name is None and os.name == "nt":
            raise OSError("no such library")
        return object()

    monkeypatch.setattr(runtime.ctypes, "CDLL", without)
    runtime.configure(1)
    assert torch.get_num_threads() == 1


def test_without_resource_no_limit_is_known(monkeypatch):
    monkeypatch.setattr(runtime, "resource", None)
    assert runtime.small_memory() == ""
    assert math.isnan(runtime.peak_memory())


def test_peak_memory_is_in_bytes_on_a_mac(monkeypatch):
    here = runtime.peak_memory()
    assert 0.01 < here < 100  # GB: this process has torch
    monkeypatch.setattr(sys, "platform", "darwin")
    # What the kernel counts may grow between the calls, not a hundredfold.
    assert runtime.peak_memory() == pytest.approx(here / 1024, rel=0.5)


def test_without_locks_a_gpu_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(runtime, "fcntl", None)
    assert runtime.claim(torch.device("cuda")).type == "cuda"


def test_without_locks_snakemake_says_what_a_killed_run_left(monkeypatch, tmp_path):
    from rcdrs.artifact import hooks

    lock = tmp_path / "locks" / "0.input.lock"
    lock.parent.mkdir()
    lock.touch()
    monkeypatch.setattr(hooks, "fcntl", None)
    hooks.recover(tmp_path)
    assert lock.exists()


def test_windows_asks_whether_a_process_lives_without_ending_it(monkeypatch):
    """`os.kill` with any number ends a process there."""

    def ended(pid, number):
        raise AssertionError("it is ended")

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    pids = (os.getpid(), gone.pid)
    assert [runtime._lives(pid) for pid in pids] == [True, False]
    known = SimpleNamespace(pid_exists=lambda pid: pid == os.getpid())
    monkeypatch.setitem(sys.modules, "psutil", known)
    monkeypatch.setattr(os, "kill", ended)
    monkeypatch.setattr(os, "name", "nt")
    found = [runtime._lives(pid) for pid in pids]
    monkeypatch.undo()  # pathlib makes paths of this system by that name
    assert found == [True, False]


def test_file_that_is_open_elsewhere_is_named(monkeypatch, tmp_path):
    """Windows replaces none; what was there stays, and nothing is left beside it."""
    path = tmp_path / "core.json"
    write_json(path, {"alpha": 1.0})
    before = path.read_bytes()

    def open_elsewhere(*names):
        raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(os, "replace", open_elsewhere)
    with (
        pytest.raises(OSError, match=r"cannot be written, another program has it open.*core\.json"),
        replacing(path) as temporary,
    ):
        temporary.write_text("{}")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_names_differ_by_more_than_case():
    """Of files of the checkout, and so of every released result: macOS and Windows keep one."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, **PIPES)
    if listed.returncode:
        pytest.skip("not a git checkout")
    counts = Counter(name.casefold() for name in listed.stdout.splitlines())
    assert max(counts.values()) == 1
    assert not [name for name in counts if set(name) & set('<>:"|?*\\')]
