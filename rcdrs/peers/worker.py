"""One peer on one problem, measured in a process of its own: ``python -m rcdrs.peers.worker``.

The task comes in through standard input, pickled by `measure`, and each finding goes out as a line
of JSON, so that what was found before a crash is kept.  When the input ends, so does the process.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any, BinaryIO

import numpy as np

from rcdrs.peers.base import LENGTH, Peer, Problem, Setting, Task, Unsupported

#: Calls are repeated until they took so many seconds together, and at most so often.
ENOUGH, REPEATS = 0.35, 50
#: Instances that a single one is timed on, and those of the batch with one that has no solution.
SINGLES, SPOILT = 20, 8
MEGABYTE = 2**20

Emit = Callable[..., None]


@dataclass
class Run:
    """A peer at one setting."""

    task: Task
    peer: Peer
    setting: Setting
    emit: Emit
    #: Seconds of a call and what it gave, by what is called and batch.
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)
    given: dict[tuple[str, int], Any] = field(default_factory=dict)
    raised: list[str] = field(default_factory=list)

    def measure(self) -> None:
        for batch in self.task.batches:
            self.time("forward", batch)
            if self.peer.differentiates:
                self.time("both", batch)
        self.attempt("accuracy", self.accuracy)
        if self.peer.differentiates:
            self.attempt("gradient", self.gradient)

    def attempt(self, what: str, run: Callable[[], None], batch: int = 0) -> None:
        """What a peer raises is a finding."""
        try:
            run()
        except Exception as error:
            self.raised.append(what)
            self.emit(self.setting, batch, f"{what} raises", 1.0, told(error))

    def calls(self, what: str, batch: int) -> list[Callable[[], Any]]:
        """Of several instances, where the batch is a single one: iterations differ."""
        task, peer = self.task, self.peer
        starts = range(min(SINGLES, len(task.b))) if batch == 1 else range(1)
        taken = [peer.take(task.b[i : i + batch], task.c[i : i + batch]) for i in starts]
        if what == "forward":
            return [partial(peer.solve, one, self.setting) for one in taken]
        g = np.resize(task.gradient[0], (batch, task.c.shape[1]))  # again and again, if need be
        return [partial(peer.differentiate, one, peer.cotangent(g), self.setting) for one in taken]

    def time(self, what: str, batch: int) -> None:
        """The median of calls, after one that may compile; of one alone, where it takes long and
        a smaller batch came before."""
        bound = self.task.bound
        before = [s * batch / size for (name, size), s in self.seconds.items() if name == what]
        expected = before[-1] if before else 0.0
        if expected > bound:
            note = f"about {expected:.0f} s expected, the bound is {bound:g} s"
            self.emit(self.setting, batch, f"{what} not measured", 1.0, note)
            return

        def run() -> None:
            calls, seconds = self.calls(what, batch), list[float]()
            if expected < ENOUGH or self.peer.compiles:
                timed(calls[0])
            while len(seconds) < REPEATS and sum(seconds) < ENOUGH:
                spent, result = timed(calls[len(seconds) % len(calls)])
                seconds.append(spent)
            self.seconds[what, batch] = statistics.median(seconds)
            self.given[what, batch] = result
            ms = 1000 * self.seconds[what, batch]
            self.emit(self.setting, batch, f"{what} ms", ms, f"{len(seconds)} calls")

        self.attempt(what, run, batch)

    def accuracy(self) -> None:
        """Of the largest batch that was measured; where one raises, one by one, to see which do."""
        task, sizes = self.task, [size for what, size in self.given if what == "forward"]
        if sizes and "forward" not in self.raised:
            count = max(sizes)
            answer = self.given["forward", count]
            x, status = np.array(answer.x, dtype=np.float64), answer.status
        else:  # as many as there is time for
            spent = min(
                (s / n for (what, n), s in self.seconds.items() if what == "forward"), default=1
            )
            count = max(1, min(max(task.batches), int(task.bound / spent)))
            x, status = self.singly(count), []
        given, peer = (task.b[:count], task.c[:count]), self.peer
        lost = ~np.isfinite(x).all(1)
        self.emit(self.setting, count, "without answer", float(lost.sum()))
        if status:
            unsolved = [state for state in status if state not in peer.solved]
            kinds = ", ".join(sorted(set(unsolved)))
            self.emit(self.setting, count, "unsolved", float(len(unsolved)), kinds)
        for metric, values in metrics(task.problem, *given, x, task.x[:count]).items():
            # An instance without an answer is as wrong as can be.
            values = np.where(lost, np.inf, values)
            for level, share in (("median", 0.5), ("95 %", 0.95), ("worst", 1.0)):
                quantile = float(np.quantile(values, share, method="higher"))
                self.emit(self.setting, count, f"{metric} {level}", quantile)

    def singly(self, count: int) -> np.ndarray:
        task, x = self.task, np.full_like(self.task.c[:count], np.nan)
        for row in range(count):
            with suppress(Exception):
                one = self.peer.take(task.b[row : row + 1], task.c[row : row + 1])
                x[row] = np.array(self.peer.solve(one, self.setting).x)
        return x

    def gradient(self) -> None:
        """The cosine to the exact one, where that is verified."""
        task, peer = self.task, self.peer
        g, db, dc, verified = task.gradient
        found = self.given.get(("both", len(g)))
        if found is None:
            batch = peer.take(task.b[: len(g)], task.c[: len(g)])
            found = peer.differentiate(batch, peer.cotangent(g), self.setting)
        self.emit(self.setting, len(g), "verified gradients", float(verified.sum()))
        for name, exact in (("b", db), ("c", dc)):
            ours = np.array(getattr(found, name), dtype=np.float64)[verified]
            lost = ~np.isfinite(ours).all(1)
            ours, exact = np.where(lost[:, None], 0.0, ours), exact[verified]
            lengths = np.linalg.norm(ours, axis=1), np.linalg.norm(exact, axis=1)
            cosine = (ours * exact).sum(1) / np.maximum(lengths[0] * lengths[1], 1e-300)
            self.emit(self.setting, len(g), f"without gradient in {name}", float(lost.sum()))
            if len(cosine):
                for level, share in (("median", 0.5), ("10 %", 0.1)):
                    quantile = float(np.quantile(cosine, share))
                    self.emit(self.setting, len(g), f"cosine in {name} {level}", quantile)
                ratio = float(np.median(lengths[0] / lengths[1]))
                self.emit(self.setting, len(g), f"length in {name} median", ratio)

    def spoilt(self) -> None:
        """What one instance without a solution does to the others, and what is said of it."""
        task, peer = self.task, self.peer
        assert task.spoilt is not None
        count, place = min(SPOILT, len(task.b)), min(SPOILT, len(task.b)) // 2
        b, c = task.b[:count].copy(), task.c[:count].copy()
        others = np.arange(count) != place
        first, whole = (
            np.array(peer.solve(peer.take(b, c), self.setting).x, dtype=np.float64)
            for _ in range(2)
        )
        b[place], c[place] = task.spoilt
        batch = peer.take(b, c)
        beside = np.array(peer.solve(batch, self.setting).x, dtype=np.float64)
        for what, a, b in (
            ("the same again", first, whole),  # or what follows says nothing of the bad one
            ("others unchanged", whole[others], beside[others]),
        ):
            change = float(np.nanmax(np.abs(a - b))) / (float(np.nanmax(np.abs(a))) or 1.0)
            same = np.array_equal(a, b, equal_nan=True)
            self.emit(self.setting, count, what, float(same), f"changed by {change:.1e} at most")
        status = peer.states(batch, self.setting)
        self.emit(
            self.setting, count, "status", float(bool(status)), status[place] if status else ""
        )


def told(error: BaseException) -> str:
    """Its kind and its words, on one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:LENGTH]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor: with one core, those of a clock, whatever else the machine does."""
    start = process_time()
    result = call()
    return process_time() - start, result


def metrics(
    problem: Problem, b: np.ndarray, c: np.ndarray, x: np.ndarray, exact: np.ndarray
) -> dict[str, np.ndarray]:
    """ObjErr, Dist and Eq of `rcdrs.solver.readout`, in float64."""
    import torch

    from rcdrs.solver.problem import ConicProgram
    from rcdrs.solver.readout import errors

    Q = torch.ones(c.shape[1], dtype=torch.float64) if problem.quadratic else None
    given = [torch.from_numpy(part) for part in (problem.A, b, c)]
    program = ConicProgram(given[0], given[1], given[2], problem.cone, Q)
    found = errors(program, torch.from_numpy(np.nan_to_num(x)), torch.from_numpy(exact))
    return {name: getattr(found, name).numpy() for name in ("ObjErr", "Dist", "Eq")}


def run(task: Task, emit: Emit) -> None:
    """Everything of one peer on one problem."""
    module, name = task.place
    kind = getattr(import_module(f"rcdrs.peers.{module}"), name)
    before = peak(reset=True)
    try:
        peer = kind(task.problem, **task.arguments)
    except Unsupported as error:
        emit(None, 0, "cannot express it", 1.0, str(error))
        return
    emit(None, 0, "settings", None, peer.settings)
    Run(task, peer, task.settings[0], emit).attempt("memory", lambda: once(task, peer))
    emit(task.settings[0], len(task.gradient[0]), "peak MB", (peak() - before) / MEGABYTE)
    runs = [Run(task, peer, setting, emit) for setting in task.settings]
    for one in runs:
        one.measure()
    if task.spoilt is not None:
        runs[len(runs) // 2].attempt("one without a solution", runs[len(runs) // 2].spoilt)


def once(task: Task, peer: Peer) -> None:
    """The first call of this process: forward and, where there is one, backward."""
    g = task.gradient[0]
    batch = peer.take(task.b[: len(g)], task.c[: len(g)])
    if peer.differentiates:
        peer.differentiate(batch, peer.cotangent(g), task.settings[0])
    else:
        peer.solve(batch, task.settings[0])


def peak(reset: bool = False) -> float:
    """The most memory that this process has had, since a reset; NaN where the system says nothing.

    Unlike that of getrusage, it does not include the process that started this one.
    """
    with suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return 1024 * float(line.split()[1])
    return float("nan")


def end_with_input(stream: BinaryIO) -> None:
    """Whoever started this process keeps its input open, and has gone when that ends."""
    while stream.read(1):
        pass
    os._exit(1)


def main() -> None:
    with suppress(AttributeError, OSError):  # one core, whatever a library thinks of threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no finding

    def emit(setting: Any, batch: int, what: str, value: float | None, note: str = "") -> None:
        finite = value is not None and bool(np.isfinite(value))
        line = {"setting": setting, "batch": batch, "what": what}
        print(json.dumps(line | {"value": value if finite else None, "note": note}), file=out)

    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=end_with_input, args=(sys.stdin.buffer,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    run(task, emit)
    print(json.dumps({"what": "end"}), file=out)
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
