"""Benchmarks that report ratios measured in one run, so that they mean the same on any machine."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rcdrs.baselines.registry import METHODS
from rcdrs.cli.bench_sparse import bench_sparse, draw
from rcdrs.controller import ControllerConfig
from rcdrs.experiments.synthetic.instances import Case, find_case, generate
from rcdrs.layer import RCDRSLayer, SolverLayer
from rcdrs.solver.fused import Transition
from rcdrs.solver.problem import ConicProgram


def bench(options: argparse.Namespace) -> None:
    """The command: a line of JSON for each ratio."""
    if options.what == "step":
        batch = options.batch or 1000
        rows = [bench_step(options.case, options.depth, batch, options.controller)]
    elif options.what == "solve":
        rows = bench_solve(options.case, options.depth, options.batch or 400)
    elif options.what == "layer":
        rows = bench_layer(options.case, options.depth)
    else:
        rows = bench_sparse(options.depth, options.batch or 8)
        if options.figure:
            draw(rows, options.figure)
    for row in rows:
        print(json.dumps(row))


def bench_step(
    case: str, depth: int, batch: int, controller: str | None = None, repeats: int = 7
) -> dict[str, Any]:
    """Forward and backward of a `depth`-step rollout against its `floor`, in milliseconds.

    The rollout has per-instance (alpha, beta) and the residual norms of the feature vector at
    every step; its gradient is taken in the actions, or with a controller in its weights.
    """
    sizes = {"train": batch, "validation": 1, "test": 1}
    instances = generate(case, seed=0, sizes=sizes)
    program = instances.train.program
    run = _controlled(program, depth, controller) if controller else _rollout(program, depth)
    step_ms, floor_ms = _interleaved(
        [run, floor(find_case(case), depth, batch, instances.A)], repeats
    )
    return {
        "case": case,
        "depth": depth,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "controller": controller,
        "step_ms": round(step_ms, 2),
        "floor_ms": round(floor_ms, 2),
        "ratio": round(step_ms / floor_ms, 3),
    }


def bench_solve(case: str, depth: int, batch: int) -> list[dict[str, Any]]:
    """Inference without gradients: milliseconds per instance of every method, in one run.

    One warm-up pass and three timed ones, as in the paper; weights do not change the time, so
    the learned methods run untrained.
    """
    sizes = {"train": 1, "validation": 1, "test": batch}
    instances = generate(case, seed=0, sizes=sizes)
    program, cone = instances.test.program, instances.case.cone

    def inference(name: str) -> Callable[[], None]:
        layer = METHODS[name].build(instances.A, cone, depth, (1.6, 1.0))

        def run() -> None:
            with torch.no_grad():
                layer.solve(program)

        return run

    times = _interleaved([inference(name) for name in METHODS], repeats=3)
    return [
        {"case": case, "depth": depth, "method": name, "time_ms": round(ms / batch, 4)}
        for name, ms in zip(METHODS, times, strict=True)
    ]


#: Calls that are timed together, by batch: enough to measure a tenth of a millisecond.
CALLS = {1: 100, 32: 20, 400: 2}


def bench_layer(case: str, depth: int, repeats: int = 15) -> list[dict[str, Any]]:
    """A layer called as users call it, without gradients: milliseconds a call, the controllers over
    the fixed core of the same depth, and step by step over the compiled pass."""
    sizes = {"train": 1, "validation": 1, "test": max(CALLS)}
    data = generate(case, seed=0, sizes=sizes)
    names = ("Grid-DRS", "RCDRS-Light", "RCDRS-Env")
    layers = [METHODS[name].build(data.A, data.case.cone, depth, (1.6, 1.0)) for name in names]

    def inference(layer: SolverLayer, batch: int, compiled: bool) -> Callable[[], None]:
        program = data.test.program[:batch]
        b, c = (program.b, program.c) if batch > 1 else (program.b[0], program.c[0])

        @torch.no_grad()
        def called() -> None:
            for _ in range(CALLS[batch]):
                _ = layer(b, c).x

        @torch.no_grad()
        def step_by_step() -> None:
            _ = layer.run(program, depth, None).x

        return called if compiled else step_by_step

    rows = []
    for batch in CALLS:
        runs = [inference(layer, batch, way) for way in (True, False) for layer in layers]
        times = _interleaved(runs, repeats)
        fast, slow = [ms / CALLS[batch] for ms in times[: len(names)]], times[len(names) :]
        for name, ms, stepwise in zip(names, fast, slow, strict=True):
            rows.append(
                {
                    "case": case,
                    "depth": depth,
                    "batch": batch,
                    "method": name,
                    "ms": round(ms, 4),
                    "over_fixed": round(ms / fast[0], 3),
                    "stepwise_over_it": round(stepwise / ms, 2),
                }
            )
    return rows


def _rollout(program: ConicProgram, depth: int) -> Callable[[], None]:
    alpha = torch.full((depth, program.batch), 1.6, requires_grad=True)
    beta = torch.full((depth, program.batch), 1.0, requires_grad=True)

    def run() -> None:
        transition = Transition(program)
        state = transition.start()
        seen: list[Tensor] = []
        for alpha_k, beta_k in zip(alpha.unbind(), beta.unbind(), strict=True):
            state, observation = transition(state, alpha_k, beta_k)
            seen.extend(observation)
        torch.autograd.grad(torch.stack(seen).sum(), (alpha, beta))

    return run


def _controlled(program: ConicProgram, depth: int, encoder: str) -> Callable[[], None]:
    changes = METHODS["RCDRS-Light"].changes if encoder == "light" else {"encoder": encoder}
    config = ControllerConfig.from_dict(changes)
    layer = RCDRSLayer(program.A, program.cone, depth, controller=config)
    weights = tuple(layer.parameters())

    def run() -> None:
        seen = layer.solve(program).observation
        torch.autograd.grad(torch.stack(seen).sum(), weights)

    return run


def floor(case: Case, depth: int, batch: int, A: Tensor) -> Callable[[], None]:
    """The products and eigendecompositions of a plain rollout by torch, and nothing else.

    2K products by the n x n projector, K by A, K by A', and K batched eigendecompositions of
    the PSD block.  A rollout may stay below: it works in thinner bases, and on a CPU has a faster
    eigendecomposition.
    """
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(batch, case.n, generator=generator)
    y = torch.randn(batch, case.m, generator=generator)
    projector = torch.eye(case.n) - torch.linalg.pinv(A) @ A
    orders = [c.order for c in getattr(case.cone, "cones", (case.cone,)) if hasattr(c, "order")]
    blocks = [torch.randn(batch, p, p, generator=generator) for p in orders]
    blocks = [block + block.mT for block in blocks]

    def run() -> None:
        for _ in range(depth):
            z @ projector, z @ projector, z @ A.mT, y @ A
            for block in blocks:
                torch.linalg.eigh(block)

    return run


def _interleaved(runs: list[Callable[[], None]], repeats: int) -> list[float]:
    """The median time of each, in ms; taken in turn, so that a busy moment hits them all."""
    times: list[list[float]] = [[] for _ in runs]
    for round_ in range(repeats + 1):
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if round_:  # the first round warms up
                taken.append(1000 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]
