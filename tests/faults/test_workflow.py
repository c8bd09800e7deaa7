"""The workflow itself, as a process of its own: what is wrong is told before anything is computed,
and the main command works in the most awkward of places."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT, copy_of_checkout

from . import damage as d

ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def snakemake(checkout: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", checkout / "Snakefile"]
    return subprocess.run(
        [*map(str, command), "--directory", str(folder), *words],
        env=ENVIRONMENT | {"PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose released results are all current, in a folder whose name is no word."""
    folder = tmp_path_factory.mktemp("x") / "My räpo & $(touch x) 'y'"
    return copy_of_checkout(folder)


#: `--config` of a dry run, and what is said of it.
CONFIGS = {
    "run=a/b": "run is 'a/b', expected",
    "run=": "run",
    "run=x seeds=[one]": r"seeds\[0\] is 'one', expected an integer",
    "run=x seeds=[0,0]": "seeds",
    "run=x synthetic=3": "synthetic is 3, expected",
    "run=x synthetic={{families: [dfl]}}": "families",
    "run=x nothing=1": "unknown key 'nothing'",
    "results=maybe": "results is 'maybe', expected",
    "seeds=[7]": "run=mine",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_odd_configuration_plans_nothing(tmp_path, config):
    words = [word.replace("{{", "{").replace("}}", "}") for word in config.split(" ", 1)]
    done = snakemake(ROOT, tmp_path, "-n", "paper_tables", "--config", *words)
    assert done.returncode != 0
    assert re.search(CONFIGS[config], done.stdout), done.stdout
    assert "most recent call last" not in done.stdout


#: Of a copy's files, and what is said of it.
DAMAGES = {
    "manifest gone": ("results/released/manifest.json", d.missing),
    "manifest cut off": ("results/released/manifest.json", d.truncate),
    "released rows changed": ("results/released/synthetic/socp-hard-0-K20.csv", d.digit),
    "released rows gone": ("results/released/synthetic/socp-hard-0-K20.csv", d.missing),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_checkout_is_named_with_its_remedy(checkout, tmp_path, what):
    name, damage = DAMAGES[what]
    path = checkout / name
    whole = path.read_bytes()
    try:
        damage(path, Random(what))
        done = snakemake(checkout, tmp_path, "-n", "table_synthetic_k20")
    finally:
        path.write_bytes(whole)
    assert done.returncode != 0
    assert path.name in done.stdout, done.stdout
    assert re.search("git .*checkout --|expected|correct", done.stdout), done.stdout
    assert "most recent call last" not in done.stdout
    assert not list(tmp_path.glob("results/*"))


def test_braces_above_another_folder_are_named(checkout, tmp_path):
    """Snakemake would take them for wildcards."""
    odd = checkout.rename(checkout.with_name("{a}"))
    try:
        done = snakemake(odd, tmp_path, "-n", "table_protocol")
    finally:
        odd.rename(checkout)
    assert done.returncode != 0
    assert "wildcards: leave out --directory, or rename the folder" in done.stdout, done.stdout


def test_main_command_in_an_awkward_place(checkout, tmp_path, monkeypatch):
    """A read-only checkout with an odd name, files for one's own eyes only, interrupts ignored as
    under nohup: the tables are those of any other place, and nothing is written anywhere else."""
    monkeypatch.setitem(ENVIRONMENT, "NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    folder = tmp_path / "here"
    folder.mkdir()
    there = {path: path.stat().st_mode for path in (checkout, *checkout.rglob("*"))}
    for path in there:
        path.chmod(0o555 if path.is_dir() else 0o444)
    umask, interrupt = os.umask(0o077), signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = snakemake(checkout, folder, "--cores", "2", "paper_tables")
    finally:
        os.umask(umask)
        signal.signal(signal.SIGINT, interrupt)
        for path, mode in there.items():
            path.chmod(mode)
    assert done.returncode == 0, done.stdout
    assert {checkout, *checkout.rglob("*")} == there.keys()  # root may write where it should not
    assert list(checkout.parent.iterdir()) == [checkout]
    own = [path for path in folder.rglob("*") if ".snakemake" not in path.parts]
    assert not [path for path in own if stat.S_IMODE(path.stat().st_mode) & 0o077]
    made = {path.name: path.read_bytes() for path in (folder / "paper_tables").iterdir()}
    assert len(made) > 20
    assert made == {name: (ROOT / "paper_tables" / name).read_bytes() for name in made}
