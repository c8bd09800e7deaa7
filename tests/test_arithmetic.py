"""How kernels round: no instance sees another, what is loaded is what was compiled, and editions
stay apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import INF, paper, random_tensor

from rcdrs import kernels
from rcdrs.artifact import server
from rcdrs.artifact.plan import ConfigError, Plan
from rcdrs.artifact.release import origin
from rcdrs.artifact.runtime import configure
from rcdrs.cli.main import main
from rcdrs.cones import PSD

ROOT = Path(__file__).parents[1]
#: Around the number of instances that the kernel works on at a time.
BATCHES = (2, 63, 64, 65, 129)


def test_tests_hold_the_arithmetic_of_the_library():
    assert kernels.ARITHMETIC == 2
    assert server.ARITHMETIC == kernels.VARIABLE


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


#: Says what PSD blocks are projected to, and how many of the kernels were loaded.
PROBE = """
import hashlib, torch
from rcdrs.cones import PSD, Nonneg, nonneg, psd
v, p = torch.sin(torch.arange(3600.0).square()).view(36, 100), torch.empty(36, 100)
Nonneg(36).vjp(v, (), v, p)
kernels = [nonneg.vjp_rows]
if {blocks}:
    PSD(6).forward(v, p)
    kernels += [psd.project_lanes]
loaded = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels)
print(hashlib.sha256(p.numpy().tobytes()).hexdigest(), loaded)
"""


def probe(cache, edition, code):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    environment |= {kernels.VARIABLE: edition} if edition else {}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_is_loaded_rounds_as_what_was_compiled_and_editions_stay_apart(tmp_path):
    (first, compiled), (second, loaded) = (
        probe(tmp_path, "", PROBE.format(blocks=True)).stdout.split() for _ in range(2)
    )
    assert (compiled, loaded) == ("0", "2")
    assert first == second
    _, apart = probe(tmp_path, "1", PROBE.format(blocks=False)).stdout.split()
    assert apart == "0"


def test_unknown_edition_is_refused(tmp_path):
    error = probe(tmp_path, "3", "import rcdrs.kernels").stderr
    assert "RCDRS_ARITHMETIC is '3', expected one of 1, 2." in error


def test_process_that_has_another_edition_does_not_compute(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(kernels.VARIABLE, "1")
    with pytest.raises(ValueError, match="has imported the kernels with arithmetic 2"):
        configure()
    assert main(["instances", "socp-small", "--out", str(tmp_path / "set.npz")]) == 2
    assert "start the command as a process of its own" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_origin_says_which():
    assert origin({}, "cpu")["arithmetic"] == 2


class Typed(Exception):
    """Stands for the command that would run now."""


def chosen(monkeypatch, *arguments):
    """What the environment says when a typed command is handed over."""

    def hand_over(_):
        raise Typed(os.environ.get(server.ARITHMETIC))

    monkeypatch.setattr("rcdrs.cli.main.hand_over", hand_over)
    monkeypatch.setattr(sys, "argv", ["rcdrs", *arguments])
    with pytest.raises(Typed) as found:
        main()
    return found.value.args[0]


def test_typed_command_computes_as_its_configuration_says(monkeypatch, tmp_path):
    # Set and taken back, so that it is gone after the test whatever a command sets.
    monkeypatch.setenv(server.ARITHMETIC, "")
    other = tmp_path / "other.yaml"
    other.write_text("run: other\narithmetic: 1\n")
    command = ("instances", "socp-small", "--out", "set.npz")
    for configured, expected in (((), "2"), (("--configfile", str(other)), "1")):
        monkeypatch.delenv(server.ARITHMETIC)
        assert chosen(monkeypatch, *command, *configured) == expected
    monkeypatch.setenv(server.ARITHMETIC, "1")
    assert chosen(monkeypatch, *command) == "1"
    monkeypatch.delenv(server.ARITHMETIC)
    assert chosen(monkeypatch, "schema") is None


def test_edition_is_part_of_the_code_and_of_the_run():
    first = Plan(paper().but(arithmetic=1), ROOT)
    second = Plan(paper(), ROOT)
    for kind in ("instances", "cores", "rows", "times"):
        key = first.key(kind, "mixed-hard", 0, K=20, method="Grid-DRS")
        assert first.code(key) != second.code(key)
    assert first.tables_config() == second.tables_config()
    second.check_name()
    with pytest.raises(ConfigError, match="arithmetic differ"):
        first.check_name()


def test_server_of_another_edition_is_not_asked(monkeypatch):
    monkeypatch.setenv(server.ARITHMETIC, "1")
    first = server._code()
    monkeypatch.setenv(server.ARITHMETIC, "2")
    assert server._code() != first
