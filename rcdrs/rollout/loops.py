"""Loops over the lanes of a tile, and between a tile and the batch.

Numba copies one side of an assignment between arrays; a loop does not.
"""

from __future__ import annotations

import math

from rcdrs.kernels import compiled
from rcdrs.rollout.functions import exp, times_transposed


@compiled
def copy(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


@compiled
def add(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] += x[i, j]


@compiled
def subtract(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] -= x[i, j]


@compiled
def exponential(x, out):  # type: ignore[no-untyped-def]
    for j in range(len(x)):
        out[j] = exp(x[j])


@compiled
def lengths(x, out):  # type: ignore[no-untyped-def]
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j] * x[i, j]
    for j in range(len(out)):
        out[j] = math.sqrt(out[j])


@compiled
def offset(V, x, d, out):  # type: ignore[no-untyped-def]
    """``V'x - d``."""
    copy(d, out)
    times_transposed(out, V, x, -1, 1)


@compiled
def load(batch, first, out):  # type: ignore[no-untyped-def]
    """The instances from `first` on, (instances, rows), as lanes; the last one fills the rest."""
    if len(batch) == 0:
        return
    for start in range(0, out.shape[1], 16):  # so many rows of the batch are read side by side
        stop = min(start + 16, out.shape[1])
        for i in range(out.shape[0]):
            for j in range(start, stop):
                out[i, j] = batch[min(first + j, len(batch) - 1), i]


@compiled
def unload(lanes, first, last, batch):  # type: ignore[no-untyped-def]
    for i in range(lanes.shape[0]):
        for j in range(last - first):
            batch[first + j, i] = lanes[i, j]


@compiled
def load_rows(rows, first, out):  # type: ignore[no-untyped-def]
    """As `load`, of an array whose last axis is the batch."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = rows[i, min(first + j, rows.shape[1] - 1)]


@compiled
def add_rows(rows, first, last, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for j in range(last - first):
            out[i, j] += rows[i, first + j]


@compiled
def store(lanes, first, last, rows):  # type: ignore[no-untyped-def]
    for i in range(lanes.shape[0]):
        for j in range(last - first):
            rows[i, first + j] = lanes[i, j]
