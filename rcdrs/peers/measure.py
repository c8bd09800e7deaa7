"""All peers on one case: tasks for each, run one after the other, and their findings as lines."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rcdrs.baselines.grid_drs import select_core
from rcdrs.cones import Box, Nonneg
from rcdrs.experiments.instances import Programs, stream
from rcdrs.experiments.settings import Plain
from rcdrs.peers import truth
from rcdrs.peers.base import LENGTH, Problem, Task
from rcdrs.peers.registry import (
    OURS,
    PROGRAM,
    PROJECTION,
    Place,
    check_installed,
    find,
    versions_of,
)
from rcdrs.solver.problem import ConicProgram

WIDE = "Wide-DRS"
#: Validation instances that a fixed core for other programs than the experiment's is chosen on.
SCORED = 32
#: Libraries read these while they are imported.
ONE_THREAD = dict.fromkeys(
    (
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
        *("RAYON_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    ),
    "1",
) | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


class Solver(NamedTuple):
    """What is measured under one name."""

    place: Place
    arguments: Plain
    settings: tuple[float, ...]
    #: What was installed, or which layers they are.
    version: str


class Case(NamedTuple):
    """Programs (b, c) that share A and a cone, with exact solutions, as tensors.

    Instances of an experiment are one where they are `Programs`, or have bounds instead of a cone;
    of anything else, say here what its program is.
    """

    A: Tensor
    cone: Any
    test: ConicProgram
    validation: ConicProgram
    #: Exact solutions, up to the rounding of b and c.
    x: Tensor
    known: Tensor
    #: These are not the programs that fixed cores and layers of the experiment are made for.
    other: bool = False

    @staticmethod
    def of(data: Any) -> Case:
        test, validation = data.test, data.validation
        if isinstance(data, Programs):
            given = (test.program, validation.program, test.x, validation.x)
            return Case(data.A, data.cone, *given)
        if not hasattr(test, "x") or not isinstance(test.program.cone, Box):
            raise ValueError(
                f"the instances are a {type(data).__name__}, expected programs with one A and one "
                "cone, or with bounds, and their solutions: see `Case` in rcdrs/peers/measure.py."
            )
        (seen, x), (scored, known) = (bounds_as_rows(s.program, s.x) for s in (test, validation))
        return Case(seen.A, seen.cone, seen, scored, x, known, other=True)

    def projections(self) -> Case:
        r"""``min |x - p|^2 / 2`` over the same sets, with p = x* - c: the solution x* is the same,
        since ``x* - p = c = A'lambda* + s*``."""

        def projected(program: ConicProgram, x: Tensor) -> ConicProgram:
            return replace(program, c=program.c - x, Q=torch.ones_like(x[0]))

        test, validation = projected(self.test, self.x), projected(self.validation, self.known)
        return self._replace(test=test, validation=validation, other=True)


def bounds_as_rows(program: ConicProgram, x: Tensor) -> tuple[ConicProgram, Tensor]:
    r"""The same in variables ``v = (x - low, high - x) >= 0``, and its solution: bounds that differ
    between instances are then in b.

        A v_1 = b - A low,    v_1 + v_2 = high - low
    """
    assert isinstance(program.cone, Box)
    low, high, n = program.cone.lower, program.cone.upper, x.shape[1]
    identity = torch.eye(n).to(x)
    zero = identity.new_zeros(len(program.A), n)
    A = torch.cat([torch.cat([program.A, zero], 1), torch.cat([identity, identity], 1)])
    b = torch.cat([program.b - low @ program.A.mT, high - low], dim=1)
    c = torch.cat([program.c, torch.zeros_like(program.c)], dim=1)
    return ConicProgram(A, b, c, Nonneg(2 * n)), torch.cat([x - low, high - x], dim=1)


def measure(
    data: Any,
    settings: Plain,
    cores: Mapping[int, tuple[float, float]],
    layers: Mapping[str, Mapping[int, Path]],
) -> pd.DataFrame:
    """The lines of a case: problem, solver, setting, batch, what, value, note.

    Arguments
        data: the instances.
        settings: of the configuration, with the `versions` of packages, and the `grid` that fixed
            cores of other programs than the experiment's are chosen from.
        cores: the fixed core (alpha, beta) by K.
        layers: the checkpoints of trained layers, by method and K.
    """
    case = Case.of(data)
    check_installed(settings["versions"])
    others = {
        name: Solver(
            find(name),
            {},
            tuple(settings["settings"][name]),
            _versions(name, settings["versions"]),
        )
        for name in settings["solvers"]
    }
    programs = {PROGRAM: case}
    if data.name in settings["projections"]:
        programs[PROJECTION] = case.projections()
    lines = []
    for kind, programs_of in programs.items():
        ours = {WIDE: _fixed(_tune(programs_of, settings) if programs_of.other else cores)}
        if not programs_of.other:
            ours |= {method: _trained(method, paths) for method, paths in layers.items()}
        task, word = _task(programs_of, kind, data, settings)
        lines.append(_line(kind, "", None, 0, "instance without a solution", 1.0, word))
        for name, solver in (ours | others).items():
            lines.append(_line(kind, name, None, 0, "version", None, solver.version))
            for found in _findings(task, solver, settings):
                lines.append(_line(kind, name, **found))
    frame = pd.DataFrame(lines)
    family, scale = data.columns
    where = {"experiment": "peers", "family": family, "scale": scale, "seed": data.seed}
    for place, (column, value) in enumerate(where.items()):
        frame.insert(place, column, value)
    return frame


def _line(
    problem: str, solver: str, setting: Any, batch: int, what: str, value: Any, note: str
) -> Plain:
    names = {"problem": problem, "solver": solver, "setting": setting, "batch": batch}
    return names | {"what": what, "value": value, "note": note}


def _versions(name: str, versions: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {v}" for package, v in versions_of([name], versions).items())


def _fixed(cores: Mapping[int, tuple[float, float]]) -> Solver:
    told = ", ".join(f"K={K}: alpha {a:g}, beta {b:g}" for K, (a, b) in sorted(cores.items()))
    arguments = {"method": "Grid-DRS", "made": dict(sorted(cores.items()))}
    return Solver(OURS, arguments, tuple(sorted(cores)), told)


def _trained(method: str, paths: Mapping[int, Path]) -> Solver:
    """Named by their files: which universe, recipe and seed they are of."""
    arguments = {"method": method, "made": dict(sorted(paths.items()))}
    told = [
        f"{'/'.join(path.parts[path.parts.index('released') + 1 :])}"
        if "released" in path.parts
        else str(path)
        for _, path in sorted(paths.items())
    ]
    hashes = hashlib.sha256(b"".join(path.read_bytes() for path in paths.values())).hexdigest()
    return Solver(OURS, arguments, tuple(sorted(paths)), f"{', '.join(told)} ({hashes[:16]})")


def _tune(case: Case, settings: Plain) -> dict[int, tuple[float, float]]:
    """The fixed core for each K, on validation instances from all of them."""

    class Known(NamedTuple):
        program: ConicProgram
        x: Tensor

    every, grid = slice(None, None, max(1, len(case.known) // SCORED)), settings["grid"]
    known = Known(case.validation[every], case.known[every])
    return {
        K: select_core(known, K, grid["alpha"], grid["beta"], SCORED) for K in settings["depths"]
    }


def _task(case: Case, kind: str, data: Any, settings: Plain) -> tuple[Task, str]:
    """What all peers are told, and which kind of instance has no solution."""
    rng = stream(f"peers/{data.name}/{data.seed}/{kind}")
    count = min(max(settings["batches"]), case.test.batch)
    problem = Problem(_numbers(case.A), case.cone, kind == PROJECTION)
    b, c = (_numbers(part)[:count] for part in (case.test.b, case.test.c))
    exact = truth.solve(problem, b, c)
    if not (solved := np.isfinite(exact.x).all(1)).any():
        raise ValueError("Clarabel solves none of the instances: there is nothing to compare with.")
    # Clarabel stopped short of rounding there: the generated solution will do.
    x = np.where(solved[:, None], exact.x, _numbers(case.x)[:count])
    few = slice(0, min(settings["gradients"], count))
    gradient = truth.gradient(problem, b[few], c[few], exact.z[few], rng)
    told = (gradient.g, gradient.b, gradient.c, gradient.verified)
    spoilt = truth.without_solution(problem, x, b, c)
    batches = tuple(size for size in settings["batches"] if size <= count)
    task = Task(("", ""), {}, problem, b, c, x, told, None, (), batches, settings["seconds"])
    if spoilt is None:
        return task, "none: every b has one"
    return replace(task, spoilt=spoilt[:2]), spoilt[2]


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().cpu().double().numpy()


def _findings(task: Task, solver: Solver, settings: Plain) -> Iterator[Plain]:
    own = replace(task, place=solver.place[:2], arguments=solver.arguments)
    return in_process(replace(own, settings=solver.settings), settings["limit"])


def in_process(task: Task, limit: float) -> Iterator[Plain]:
    """What a process of its own finds, and how it ended if it did not end well."""
    with TemporaryFile() as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "rcdrs.peers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            env=os.environ | ONE_THREAD,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        late = Timer(limit, process.kill)
        late.start()
        ended = False
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            for line in process.stdout:
                found = json.loads(line)
                ended |= found["what"] == "end"
                if found["what"] != "end":
                    yield found
        except BrokenPipeError:
            pass
        finally:
            over = not late.is_alive()
            late.cancel()
            process.kill()
            process.wait()
        if not ended:
            told.seek(0)
            last = told.read().decode(errors="replace").strip().splitlines()[-1:]
            why = f"stopped after {limit:g} s" if over else " ".join(last) or "it crashed"
            yield {
                "setting": None,
                "batch": 0,
                "what": "ended",
                "value": None,
                "note": why[:LENGTH],
            }
