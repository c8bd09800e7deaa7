"""What a step costs where A is sparse, against the size of the problem."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rcdrs.artifact.runtime import peak_memory
from rcdrs.cones import Nonneg
from rcdrs.layer import DRSLayer
from rcdrs.solver.sparse import SparseSet

SIZES = (1_000, 3_000, 10_000, 30_000, 50_000, 100_000)
#: Rows of A over its columns, nonzeros of a column, and rows that these lie within.
SHARE, EACH, REACH = 0.4, 3, 20


def chain(n: int, seed: int = 0) -> sp.csr_array:
    """Three nonzeros a column, near its place: equations that couple neighbours, as in time."""
    generator, m = np.random.default_rng(seed), int(SHARE * n)
    place = (np.arange(n) * m // n)[:, None]
    row = (place + generator.integers(0, REACH, (n, EACH))) % m
    row[:, :1] = place  # every row has an entry
    column = np.repeat(np.arange(n), EACH)
    return sp.csr_array((generator.standard_normal(n * EACH), (row.ravel(), column)), (m, n))


def bench_sparse(depth: int, batch: int, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """Milliseconds a step, forward and backward, with the nonzeros of A and of its factor."""
    rows = []
    for n in sizes:
        A, generator = chain(n).astype(np.float32), torch.Generator().manual_seed(0)
        begun = time.perf_counter()
        layer = DRSLayer(A, Nonneg(n), depth, 1.6, 1.0)
        factored = time.perf_counter() - begun
        x, s = (torch.randn(batch, n, generator=generator) for _ in range(2))
        b = torch.from_numpy(A @ x.clamp(min=0).numpy().T).T.contiguous().requires_grad_()
        c = s.abs().requires_grad_()
        layer(b, c, depth=1).x.sum().backward()  # warms up
        begun = time.perf_counter()
        loss = layer(b, c).x.square().sum()
        forward = time.perf_counter() - begun
        loss.backward()
        both = time.perf_counter() - begun
        affine: Any = layer.affine
        assert isinstance(affine, SparseSet)
        rows.append(
            {
                "n": n,
                "m": A.shape[0],
                "batch": batch,
                "depth": depth,
                "nonzeros": A.nnz,
                "factor": affine.factor.nonzeros,
                "factor_s": round(factored, 2),
                "forward_ms": round(1000 * forward / depth, 3),
                "both_ms": round(1000 * both / depth, 3),
                "peak_gb": round(peak_memory(), 2),
            }
        )
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds a step against the nonzeros of the factor, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    factor = [row["factor"] for row in rows]
    for name, label in (("forward_ms", "forward"), ("both_ms", "forward and backward")):
        axes.loglog(factor, [row[name] for row in rows], marker="o", label=label)
    steepest = rows[-1]["both_ms"] / factor[-1]
    axes.loglog(factor, [steepest * k for k in factor], color="0.7", label="in proportion")
    for row in rows:
        axes.annotate(f"n = {row['n']:,}", (row["factor"], row["both_ms"]), fontsize=7)
    axes.set_xlabel("nonzeros of the factor of AA'")
    axes.set_ylabel(f"ms a step, batch {rows[0]['batch']}")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
