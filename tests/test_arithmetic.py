"""How kernels round: no instance sees another, and what is loaded is what was compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import INF, random_tensor

from rcdrs.cones import PSD

ROOT = Path(__file__).parents[1]
#: Around the number of instances that the kernel works on at a time.
BATCHES = (2, 63, 64, 65, 129)


def projected(v, g, order):
    p, gradient = torch.empty_like(v), torch.empty_like(v)
    cone = PSD(order)
    cone.vjp(v, cone.forward(v, p), g, gradient)
    return p, gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", range(2, 11))
def test_no_block_changes_a_byte_of_another(order, dtype):
    """Half of the others are diagonal: they stand still while their neighbour is rotated."""
    diagonal = torch.eye(order, dtype=dtype).flatten().unsqueeze(1)
    for batch in BATCHES:
        v, g = (random_tensor(order**2, batch, seed=seed).to(dtype) for seed in (0, 1))
        v[:, ::2] *= diagonal
        bad = batch // 2
        others = torch.arange(batch) != bad
        plain = projected(v, g, order)
        for value in (torch.nan, INF, 1e30, 1e-30):
            spoilt = v.clone()
            spoilt[:, bad] = value * random_tensor(order**2, seed=2).to(dtype)
            for found, expected in zip(projected(spoilt, g, order), plain, strict=True):
                assert torch.equal(found[:, others], expected[:, others]), (batch, value)


#: Says what PSD blocks are projected to, and whether the kernel was loaded.
PROBE = """
import hashlib, torch
from rcdrs.cones import PSD, psd
v, p = torch.sin(torch.arange(3600.0).square()).view(36, 100), torch.empty(36, 100)
PSD(6).forward(v, p)
loaded = sum(psd.project_lanes.stats.cache_hits.values())
print(hashlib.sha256(p.numpy().tobytes()).hexdigest(), loaded)
"""


def test_what_is_loaded_rounds_as_what_was_compiled(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROBE]
    (first, compiled), (second, loaded) = (
        subprocess.check_output(command, env=environment, text=True).split() for _ in range(2)
    )
    assert (compiled, loaded) == ("0", "1")
    assert first == second
