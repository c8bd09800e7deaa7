"""Releases: in parts, with trained layers, and enough for every page in a fresh clone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from conftest import awake
from run_files import write_run

import rcdrs
from rcdrs.artifact.config import load
from rcdrs.artifact.hooks import source
from rcdrs.artifact.plan import PAPER, SCHEMA, Plan
from rcdrs.artifact.pretrained import NotReleased
from rcdrs.artifact.release import LAYER_SEED, MANIFEST, DamagedRelease, origin, release
from rcdrs.baselines.registry import find_method
from rcdrs.cli import results as commands
from rcdrs.experiments.dispatch import scenarios
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.page import report

ROOT = Path(__file__).parents[1]
CASE, DEPTH = "qp-small", 5
ROWS = f"synthetic/{CASE}-0-K{DEPTH}.csv"
LAYER = f"checkpoints/log_kkt/RCDRS-Env/{CASE}-0-K{DEPTH}.pt"
DAYS = f"dispatch/dispatch-inequality-0-K{DEPTH}.csv"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with the configuration, and a run that is not finished."""
    for name in (PAPER, SCHEMA):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    train(tmp_path, CASE)
    evaluate(tmp_path, ROWS)
    return tmp_path


def plan_of(checkout, *files):
    return Plan.of(load(checkout / PAPER, *files, schema=checkout / SCHEMA), checkout)


def run_of(checkout):
    return checkout / plan_of(checkout).folder


def train(checkout, case, seed=0, method="RCDRS-Env", recipe="log_kkt"):
    """A checkpoint with the times of its job."""
    if case.startswith("dispatch"):
        formulation = scenarios.formulation_of(case)
        days = scenarios.generate(seed, {"train": 1, "validation": 1, "test": 1}, formulation)
        A, cone = days.model.A, days.test.cone
    else:
        data = generate(case, seed, {"train": 1, "validation": 1, "test": 1})
        A, cone = data.A, data.case.cone
    layer = awake(find_method(method).build(A, cone, DEPTH, (1.6, 0.3)))
    path = run_of(checkout) / f"checkpoints/{recipe}/{method}/{case}-{seed}-K{DEPTH}.pt"
    layer.save(path)
    benchmark = run_of(checkout) / f"benchmarks/train/{recipe}/{method}/{path.stem}.tsv"
    benchmark.parent.mkdir(parents=True, exist_ok=True)
    benchmark.write_text("s\th:m:s\n12.5\t0:00:12\n")
    return layer


def evaluate(checkout, name, text="method,Gap\nRCDRS-Env,0.5\n", settings=None):
    rows = run_of(checkout) / name
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text(text)
    digest = plan_of(checkout).digest(name) | (settings or {})
    rows.with_suffix(".origin.json").write_text(json.dumps(origin(digest, "cpu")))


def released(checkout):
    plan = plan_of(checkout)
    return release(run_of(checkout), checkout / "results/released", plan.digest)


def manifest(checkout):
    return json.loads((checkout / "results/released" / MANIFEST).read_text())


# In parts


def test_parts_of_an_unfinished_run_add_up(checkout):
    assert released(checkout)["released"] == [ROWS, LAYER]
    other = ROWS.replace("-0-", "-1-")
    evaluate(checkout, other)
    train(checkout, CASE, seed=1)
    told = released(checkout)
    assert (told["released"], told["unchanged"]) == ([other], [ROWS, LAYER])
    (run_of(checkout) / ROWS).unlink()  # as in another run, which has not come so far
    assert released(checkout)["released"] == []
    assert manifest(checkout).keys() == {ROWS, LAYER, other}


def test_what_is_unchanged_is_not_written_again(checkout):
    """Or every table would be older than its numbers."""
    released(checkout)
    path = checkout / "results/released" / ROWS
    os.utime(path, (1, 1))
    released(checkout)
    assert path.stat().st_mtime == 1
    path.unlink()
    assert released(checkout)["released"] == [ROWS]


def test_recomputed_result_replaces_the_released_one(checkout):
    released(checkout)
    evaluate(checkout, ROWS, text="method,Gap\nRCDRS-Env,0.4\n")
    assert released(checkout)["released"] == [ROWS]
    assert plan_of(checkout).result(ROWS) == str(checkout / "results/released" / ROWS)


def test_entry_says_where_and_how_long(checkout):
    released(checkout)
    entry = manifest(checkout)[LAYER]
    assert entry["seconds"] == 12.5
    assert {"sha256", "digest", "host", "machine", "device", "cpu", "torch"} <= entry.keys()
    assert "seconds" not in manifest(checkout)[ROWS]  # was never measured


def test_released_file_that_no_longer_holds_is_told(checkout):
    released(checkout)
    plan = Plan.of(load(checkout / PAPER, schema=checkout / SCHEMA) | {"seeds": [0]}, checkout)
    changed = {"code": "other", "settings": "other"}
    told = release(run_of(checkout), checkout / "results/released", lambda name: changed)
    assert told["stale"] == [ROWS]
    assert told["outdated"] == [LAYER, ROWS]
    assert plan.result(ROWS).endswith(f"released/{ROWS}")  # of this code it still does


def test_run_of_other_settings_does_not_replace_the_papers(checkout, monkeypatch, capsys):
    """As a smoke run, whose files have the same names."""
    released(checkout)
    before = manifest(checkout)
    smoke = checkout / "smoke.yaml"
    smoke.write_text("run: paper\nsynthetic: { instances: { train: 24 } }\n")
    digest = plan_of(checkout, smoke).digest(ROWS)
    evaluate(checkout, ROWS, text="method,Gap\nRCDRS-Env,9.0\n", settings=digest)
    monkeypatch.setattr(commands, "ROOT", checkout)
    assert rcdrs_cli("release", "--configfile", str(smoke)) == 0
    assert "stale: 1" in capsys.readouterr().out
    assert manifest(checkout) == before


def rcdrs_cli(*words):
    from rcdrs.cli.main import main

    return main(list(words))


# Trained layers


def test_layers_of_one_seed_are_released(checkout):
    train(checkout, CASE, seed=1)
    train(checkout, CASE, method="Layerwise-DRS", recipe="paper")
    train(checkout, CASE, method="RCDRS-NoEnv", recipe="paper")
    for name in (ROWS, ROWS.replace("-0-", "-1-")):
        evaluate(checkout, name)
    layers = [name for name in released(checkout)["released"] if name.endswith(".pt")]
    assert LAYER_SEED == 0
    assert layers == [LAYER, f"checkpoints/paper/RCDRS-NoEnv/{CASE}-0-K{DEPTH}.pt"]


def test_layer_that_is_newer_than_its_rows_waits_for_them(checkout):
    rows = run_of(checkout) / ROWS
    os.utime(rows, (1, 1))
    assert released(checkout)["released"] == [ROWS]


def test_layer_in_two_lines(checkout):
    trained = train(checkout, CASE)
    evaluate(checkout, ROWS)
    released(checkout)
    layer, data = rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)
    program = data.test.program
    assert (data.case.name, data.seed, program.batch) == (CASE, 0, 400)
    with torch.no_grad():
        assert torch.equal(layer.solve(program).x, trained.solve(program).x)
    assert callable(rcdrs.pretrained)  # not hidden by a module of that name


def test_layer_of_dispatch(checkout):
    train(checkout, "dispatch-inequality")
    evaluate(checkout, DAYS)
    released(checkout)
    layer, data = rcdrs.pretrained("dispatch-inequality", depth=DEPTH, root=checkout)
    assert layer.solve(data.test[:2]).x.isfinite().all()


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [(altered, "differs from its manifest"), (Path.unlink, "in the manifest but not there")],
)
def test_damaged_layer_is_named(checkout, damage, message):
    released(checkout)
    damage(checkout / "results/released" / LAYER)
    with pytest.raises(DamagedRelease, match=f"{CASE}-0-K{DEPTH}.pt .*{message}"):
        rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)


def test_damaged_file_is_repaired_by_another_release(checkout):
    released(checkout)
    altered(checkout / "results/released" / LAYER)
    assert released(checkout)["released"] == [LAYER]
    rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)


@pytest.mark.parametrize(
    ("damage", "message"),
    [(altered, "differs from its manifest"), (Path.unlink, "in the manifest but not there")],
)
@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_damaged_rows_and_details_are_named(checkout, suffix, damage, message):
    (run_of(checkout) / ROWS).with_suffix(".npz").write_bytes(b"details of instances")
    released(checkout)
    path = (checkout / "results/released" / ROWS).with_suffix(suffix)
    damage(path)
    with pytest.raises(DamagedRelease, match=f"{path.name} .*{message}"):
        plan_of(checkout).result(ROWS)


def test_layer_that_is_not_released_is_told_how_to_make(checkout):
    with pytest.raises(NotReleased, match=f"snakemake --cores 2 results/paper/{LAYER}"):
        rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)
    released(checkout)
    with pytest.raises(NotReleased, match=rf"there are: 0-K{DEPTH}\.pt"):
        rcdrs.pretrained(CASE, depth=20, root=checkout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"case": "qp-huge"}, "unknown case 'qp-huge'"),
        ({"case": "dispatch-wrong"}, "unknown case 'dispatch-wrong'"),
        ({"method": "L-PDHG"}, "method is 'L-PDHG', expected one of RCDRS-Env"),
        ({"root": "nowhere"}, "nowhere is not a checkout"),
    ],
)
def test_wrong_argument_is_named(checkout, arguments, message):
    given = {"case": CASE, "depth": DEPTH, "root": checkout} | arguments
    with pytest.raises(ValueError, match=message):
        rcdrs.pretrained(**given)


def test_layer_of_other_code_is_a_warning(checkout):
    released(checkout)
    path = checkout / "results/released" / MANIFEST
    path.write_text(path.read_text().replace(plan_of(checkout).digest(LAYER)["code"], "older"))
    with pytest.warns(UserWarning, match=f"{LAYER} was trained by other code"):
        rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)


# A fresh clone


def test_line_says_where_the_numbers_come_from(checkout):
    assert source(plan_of(checkout)) == ""
    released(checkout)
    line = source(plan_of(checkout))
    assert line.startswith("numbers come from 1 released result in ")
    assert f"torch {torch.__version__.partition('+')[0]}" in line
    assert "--config results=recompute" in line
    other = load(checkout / PAPER, schema=checkout / SCHEMA) | {"results": "recompute"}
    assert source(Plan.of(other, checkout)) == ""
    changed = checkout / "changed.yaml"
    changed.write_text("synthetic: { instances: { train: 24 } }\n")
    assert source(plan_of(checkout, changed)) == ""


def test_report_is_complete_from_released_data_alone(checkout):
    smoke = ROOT / "workflow/config/smoke.yaml"
    plan = plan_of(checkout, smoke)
    write_run(plan, Path(plan.folder))
    report(plan, Path("computed.html"))
    told = release(Path(plan.folder), checkout / "results/released", plan.digest)
    assert set(traced(plan)) <= set(told["released"])  # with the training curves
    shutil.rmtree(checkout / plan.folder)
    report(plan_of(checkout, smoke), Path("released.html"))
    pages = [Path(f"{name}.html").read_text() for name in ("computed", "released")]
    assert 'id="curves-paper"' in pages[1]
    for part in ("<svg", "<table", 'class="missing"'):
        assert pages[0].count(part) == pages[1].count(part)
