"""An experiment is one folder: a toy is added to a copy of the package, and its rows come out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT, paper

from rcdrs.artifact.config import PAPER
from rcdrs.experiments.base import experiment_of
from rcdrs.experiments.engine import KEYS

SECTION = """
toy:
  depths: [4]
  instances: { train: 16, validation: 8, test: 5 }
  methods: [Grid-DRS, RCDRS-Env]
  extended: []
  controller: { hidden: 8 }
"""
FOLDER = {
    "__init__.py": '''"""Nonnegative linear programs with known solutions."""\n''',
    "experiment.py": '''"""The toy in the configuration."""

from typing import Literal

from rcdrs.experiments import base
from rcdrs.experiments.settings import ExperimentSection, Many, Some


class Section(ExperimentSection):
    methods: Many[Literal["Grid-DRS", "RCDRS-Env"]]
    extended: Some[Literal["RCDRS-Env"]]


class Experiment(base.Experiment):
    name = "toy"
    Section = Section
    families = ("toy",)
    learned = ("RCDRS-Env",)
''',
    "stages.py": '''"""What the engine computes of the toy."""

from rcdrs.baselines.grid_drs import select_core
from rcdrs.baselines.registry import find_method
from rcdrs.cones import Nonneg
from rcdrs.experiments.instances import Programs, Split, stream
from rcdrs.experiments.synthetic.stages import lesson, solve

import torch

METHODS = ("Grid-DRS", "RCDRS-Env")
SETTINGS = ("controller",)
CONE, ROWS = Nonneg(6), 3


class ToySet(Programs):
    """One A, three splits."""

    example = "toy"

    def __init__(self, meta, tensors):
        super().__init__(meta, tensors, CONE)

    def split(self, b, c, x, s, y):
        return Split(self.program(b, c), x, s, y)


load = ToySet.load


def generate(case, seed, sizes):
    """``b = A x*``, ``c = A'y* + s*`` with x* and s* the parts of a Gaussian point."""
    rng = stream(f"toy/{seed}")
    A = rng.standard_normal((ROWS, CONE.dim))

    def draw(split, size):
        v, y = (rng.standard_normal((size, width)) for width in (CONE.dim, ROWS))
        x, s = v.clip(0), (-v).clip(0)
        return {"b": x @ A.T, "c": y @ A + s, "x": x, "s": s, "y": y}

    return ToySet.draw({"case": "toy", "seed": seed}, sizes, draw, torch.float32, A=A)


def tune(data, depth, **grid):
    return select_core(data.validation, depth, **grid)


def build(data, depth, core, method, settings):
    return find_method(method).build(data.A, CONE, depth, core, settings["controller"])


def evaluate(layer, data, method, reference):
    with torch.no_grad():
        errors = data.test.errors(solve(layer, data).x)
    return {"Gap": errors.Gap, "Dist": errors.Dist}, ()
''',
}
#: Its table: one line.
TABLES, BEGINS = "rcdrs/reporting/tables/__init__.py", "_TABLES: tuple[Table, ...] = (\n"
TABLE = """    Methods("toy", "toy", ("Gap", "Dist", TIME), template="methods"),\n"""
#: What was written for it, below the copy.
ADDED = {f"rcdrs/experiments/toy/{name}" for name in FOLDER} | {PAPER, TABLES}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of package and configuration with the toy in it."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "rcdrs", copy / "rcdrs")  # with what is compiled already
    shutil.copytree(ROOT / "workflow/templates", copy / "workflow/templates")
    (copy / PAPER).parent.mkdir(parents=True)
    listed = (ROOT / TABLES).read_text()
    assert BEGINS in listed
    (copy / TABLES).write_text(listed.replace(BEGINS, BEGINS + TABLE))
    (copy / PAPER).write_text((ROOT / PAPER).read_text() + SECTION)
    (copy / "rcdrs/experiments/toy").mkdir()
    for name, text in FOLDER.items():
        (copy / "rcdrs/experiments/toy" / name).write_text(text)
    return copy


def run(checkout: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the copy's package, in another folder."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def work(checkout, tmp_path_factory):
    """The files of its stages."""
    folder = tmp_path_factory.mktemp("work")
    for arguments in (
        "instances toy --seed 3 --out set.npz",
        "tune set.npz --depth 4 --out core.json",
        "train set.npz --core core.json --method RCDRS-Env --out env.pt",
        "evaluate set.npz --core core.json Grid-DRS RCDRS-Env@paper=env.pt --out rows.csv",
        "time set.npz --core core.json --out times.csv",
    ):
        done = run(checkout, folder, "-m", "rcdrs", *arguments.split())
        assert done.returncode == 0, done.stderr
    return folder


def test_rows_come_out(work):
    rows = pd.read_csv(work / "rows.csv")
    assert list(rows.columns) == [*KEYS, "Gap", "Dist"]
    key = ("toy", "toy", "-", 4, 3)
    assert list(rows[list(KEYS)].itertuples(index=False, name=None)) == [
        (*key, "Grid-DRS", "-"),
        (*key, "RCDRS-Env", "paper"),
    ]
    with np.load(work / "rows.npz") as details:
        for row in rows.to_dict("records"):
            values = details[f"{row['method']}@{row['recipe']}/Dist"]
            assert values.shape == (5,)
            # Both are float64 sums of the same five float32 numbers, in another order.
            assert row["Dist"] == pytest.approx(values.astype(np.float64).mean(), rel=1e-12)
    assert rows["Dist"].between(0.001, 1).all()
    assert rows["Dist"].nunique() == 2


def test_core_curve_and_times_come_out(work):
    core = json.loads((work / "core.json").read_text())
    assert (core["case"], core["seed"], core["depth"]) == ("toy", 3, 4)
    grid = paper().grid  # that of the whole configuration, as the section has none
    assert core["alpha"] in grid.alpha
    assert core["beta"] in grid.beta
    curve = pd.read_csv(work / "env.csv")
    assert len(curve) == paper().recipes.paper.epochs + 1
    assert curve["merit"].min() < curve["merit"][0]
    times = pd.read_csv(work / "times.csv")
    assert list(times["method"]) == ["Grid-DRS", "RCDRS-Env"]
    assert (times["time_ms"] > 0).all()


def test_table_comes_out(checkout, work):
    """With the numbers of its rows and times, the lower ones bold; times are not ranked."""
    config = yaml.safe_load((checkout / PAPER).read_text()) | {"seeds": [3]}
    given = ("--rows", "rows.csv", "--times", "times.csv", "--config", json.dumps(config))
    done = run(checkout, work, "-m", "rcdrs", "table", "toy", *given, "--out", "toy.tex")
    assert done.returncode == 0, done.stderr
    cells = pd.read_csv(work / "toy.csv").set_index(["row", "column"])
    rows, times = (pd.read_csv(work / f"{name}.csv") for name in ("rows", "times"))
    found = rows.merge(times[["method", "time_ms"]]).set_index("method")
    for metric in ("Gap", "Dist", "time_ms"):
        column = cells.xs(metric, level="column")
        assert dict(column["mean"]) == pytest.approx(dict(found[metric]))
        best = [] if metric == "time_ms" else [found[metric].idxmin()]
        assert list(column.index[column["bold"]]) == best
    tex = (work / "toy.tex").read_text()
    assert r"\label{tab:toy}" in tex
    assert "The methods of toy." in tex
    assert "on cpu and are not ranked" in tex
    assert all(text in tex for text in cells["text"])


PLAN = """
import json, sys
from rcdrs.artifact.plan import Plan

plan = Plan.read(sys.argv[1])
plan.check_name()
(case,), (K,) = plan.experiments["toy"].cases, plan.experiments["toy"].depths
rows = plan.key("rows", case, 0, K=K, method="RCDRS-Env")
behind = {name: [key.path() for key in keys] for name, keys in plan.behind(rows).items()}
print(json.dumps([rows.path(), behind, plan.settings(rows), plan.digests(rows)]))
"""


def test_workflow_knows_its_results(checkout, tmp_path):
    done = run(checkout, tmp_path, "-c", PLAN, str(checkout))
    assert done.returncode == 0, done.stderr
    path, behind, settings, digests = json.loads(done.stdout)
    assert path == "toy/toy-0-K4/RCDRS-Env@paper.csv"
    assert behind == {
        "instances": ["instances/toy-0.npz"],
        "core": ["cores/toy-0-K4.json"],
        "checkpoints": ["checkpoints/paper/RCDRS-Env/toy-0-K4.pt"],
    }
    assert settings == {"controller": paper().controller.plain() | {"hidden": 8}}
    assert list(digests) == ["RCDRS-Env@paper"]


def test_what_it_does_not_have_is_named(checkout, work):
    given = ("-m", "rcdrs", "evaluate", "set.npz", "--core", "core.json")
    done = run(checkout, work, *given, "F-DRS")
    assert done.returncode == 2
    assert "unknown method 'F-DRS', expected one of Grid-DRS, RCDRS-Env" in done.stderr


def test_no_other_file_was_touched(checkout, work):
    """Not for it, and not by its stages."""
    files = {path for path in checkout.rglob("*") if path.is_file()}
    changed = set()
    for path in files:
        name = path.relative_to(checkout).as_posix()
        same = (ROOT / name).exists() and (ROOT / name).read_bytes() == path.read_bytes()
        if not same and "__pycache__" not in name:
            changed.add(name)
    assert changed == ADDED


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("dfl", "dfl"),
        ("dispatch-turned", "dispatch"),
        ("socp-hard", "synthetic"),
        ("unheard-of", "synthetic"),
    ],
)
def test_instances_of_a_case_are_made_by_one_experiment(case, expected):
    """Those of no other family are the benchmarks', which say what they have."""
    assert experiment_of(case) == expected
