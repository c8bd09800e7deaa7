"""Commands run by a server that has imported everything: as without one, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import training as settings

from rcdrs.artifact import server as warm

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | dict.fromkeys(warm.THREADS, "1") | {"PYTHONPATH": str(ROOT)}
#: Stands for Snakemake: has a server, says where, and ends when it is told to.
WORKFLOW = """
import os, sys
from rcdrs.artifact import server as warm
warm.start(1)
print(os.environ[warm.VARIABLE], flush=True)
sys.stdin.read()
"""
SIZES = json.dumps({"train": 8, "validation": 4, "test": 4})
INSTANCES = ("instances", "socp-small", "--settings", SIZES, "--out", "set.npz")
TUNE = ("tune", "set.npz", "--depth", "3", "--out", "core.json")
TRAIN = ("train", "set.npz", "--core", "core.json", "--out", "env.pt")


def start_workflow() -> tuple[subprocess.Popen, str]:
    workflow = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW],
        env=ENVIRONMENT,
        # As in the background, or by nohup.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return workflow, workflow.stdout.readline().strip()


@pytest.fixture(scope="module")
def server():
    workflow, path = start_workflow()
    with workflow:
        yield path


def is_alive(server: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(f"\0{server}") == 0


def start(
    folder: Path, *arguments: str, server: str = "", interrupt: signal.Handlers = signal.SIG_DFL
) -> subprocess.Popen:
    """The caller in a folder; one with a living server cannot import torch itself."""
    folder.mkdir(exist_ok=True)
    if server and is_alive(server):
        (folder / "torch.py").write_text("raise ImportError('not warm')")
    return subprocess.Popen(
        [sys.executable, "-m", "rcdrs", *arguments],
        cwd=folder,
        env=ENVIRONMENT | {warm.VARIABLE: server},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever started the tests: in the background, an interrupt is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupt),
    )


def run(folder: Path, *arguments: str, server: str = "") -> tuple[int, str, str]:
    """Exit code, output and errors, without times."""
    command = start(folder, *arguments, server=server)
    output, errors = command.communicate()
    return command.returncode, output, re.sub(r"[\d.]+ s$", "", errors, flags=re.M)


def wait_for(happened) -> None:
    for _ in range(2400):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within two minutes")


def process_of(caller: subprocess.Popen) -> int | None:
    """The process that runs the command: it writes to the same pipe as the caller."""
    pipe = os.readlink(f"/proc/self/fd/{caller.stdout.fileno()}")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone
            if int(process.name) != caller.pid and os.readlink(process / "fd/1") == pipe:
                return int(process.name)
    return None


@pytest.fixture(scope="module")
def prepared(server, tmp_path_factory) -> Path:
    """A folder with instances and cores."""
    folder = tmp_path_factory.mktemp("prepared")
    for command in (INSTANCES, TUNE):
        assert run(folder, *command, server=server)[0] == 0
    return folder


@pytest.fixture
def training(server, prepared):
    """The caller of a command that would train for hours, and runs."""
    (prepared / "env.resume").unlink(missing_ok=True)
    long = settings("synthetic", "RCDRS-Env", recipe={"epochs": 1_000_000})
    command = start(prepared, *TRAIN, "--settings", json.dumps(long), server=server)
    wait_for(lambda: process_of(command))
    yield command
    command.kill()
    command.communicate()


@pytest.mark.parametrize(
    ("command", "code"),
    [(INSTANCES, 0), (TUNE, 2), (("instances", "nonsense", "--out", "a"), 2), (("tune",), 2)],
)
def test_same_as_a_direct_run(server, tmp_path, command, code):
    """Among them some that fail: without instances, of an unknown case, with arguments missing."""
    folders = tmp_path / "direct", tmp_path / "warm"
    direct = run(folders[0], *command)
    assert run(folders[1], *command, server=server) == direct
    assert direct[0] == code
    (folders[1] / "torch.py").unlink()
    made = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert made[0] == made[1]
    assert bool(made[0]) == (code == 0)


def test_two_at_once(server, training, tmp_path):
    assert run(tmp_path, *INSTANCES, server=server)[0] == 0
    assert training.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_caller_ends_its_command(training, number):
    training.send_signal(number)
    training.communicate(timeout=60)  # waits until nobody has its output open
    assert training.returncode == -number


def test_interrupted_command_says_so_once(training, prepared):
    """Once it is past its start, as its first file shows."""
    wait_for((prepared / "env.resume").exists)
    training.send_signal(signal.SIGINT)
    assert training.communicate(timeout=60)[1] == "rcdrs train: interrupted\n"
    assert training.returncode == 130


def test_command_in_the_background_is_not_interrupted(server, prepared, tmp_path):
    """What is typed at a terminal goes to all of its processes, but is not meant for these."""
    long = settings("synthetic", "RCDRS-Env", recipe={"epochs": 1_000_000})
    arguments = (*TRAIN[:-1], "background.pt", "--settings", json.dumps(long))
    command = start(prepared, *arguments, server=server, interrupt=signal.SIG_IGN)
    wait_for((prepared / "background.resume").exists)
    command.send_signal(signal.SIGINT)
    assert run(tmp_path, *INSTANCES, server=server)[0] == 0  # time enough to end
    assert command.poll() is None
    command.kill()
    command.communicate()


def test_caller_ends_as_its_command_does(training):
    os.kill(process_of(training), signal.SIGKILL)
    training.communicate(timeout=60)
    assert training.returncode == -signal.SIGKILL


def test_server_ends_with_a_killed_workflow():
    workflow, name = start_workflow()
    assert is_alive(name)
    with workflow:
        workflow.kill()
    wait_for(lambda: not is_alive(name))


def test_server_needs_no_folder(tmp_path, monkeypatch):
    """Neither one that is there and can be written to, nor one with a short name."""
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(tmp_path / "missing" / ("long" * 50)))
    workflow, name = start_workflow()
    with workflow:
        assert run(tmp_path, *INSTANCES, server=name)[0] == 0
        workflow.kill()
    assert {path.name for path in tmp_path.iterdir()} == {"set.npz", "torch.py"}


def test_nobody_else_is_served(server, tmp_path, monkeypatch):
    """All users can reach an abstract socket."""
    monkeypatch.setenv(warm.VARIABLE, server)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert warm.hand_over(INSTANCES) is None


def test_server_that_is_told_to_end_leaves_nothing(tmp_path):
    """As a scheduler does that cancels a job."""
    workflow, path = start_workflow()
    with workflow:
        assert run(tmp_path, *INSTANCES, server=path)[0] == 0
        children = Path(f"/proc/{workflow.pid}/task/{workflow.pid}/children").read_text()
        os.kill(int(children), signal.SIGTERM)
        wait_for(lambda: not is_alive(path))


@pytest.fixture
def listener(monkeypatch):
    """A socket that commands take for a server."""
    name = f"rcdrs-test-{os.getpid()}"
    monkeypatch.setenv(warm.VARIABLE, name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        yield listener


@pytest.mark.parametrize("answer", [b"0" * 64, b"", b"short"])
def test_foreign_server_is_refused(listener, answer):
    def serve() -> None:
        with listener.accept()[0] as connection:
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    assert warm.hand_over(INSTANCES) is None
    thread.join()


def test_server_with_other_threads_is_refused(server, monkeypatch):
    monkeypatch.setenv(warm.VARIABLE, server)
    for name in warm.THREADS:
        monkeypatch.setenv(name, "2")
    assert warm.hand_over(INSTANCES) is None


def test_without_a_living_server_the_caller_runs_its_command(tmp_path):
    done = 0, "wrote set.npz\n", "make_instances took \n"
    assert run(tmp_path, *INSTANCES, server="none") == done


def test_socket_that_a_killed_server_left_is_refused(listener):
    listener.close()
    assert warm.hand_over(INSTANCES) is None
