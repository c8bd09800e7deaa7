"""Releases: in parts, with trained layers, and enough for every page in a fresh clone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import awake

import rcdrs
from rcdrs.artifact import release as release_module
from rcdrs.artifact.hooks import source
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import MANIFEST, DamagedRelease, Released
from rcdrs.artifact.plan import PAPER, Plan
from rcdrs.artifact.pretrained import NotReleased
from rcdrs.artifact.release import DETAILED, LAYER_SEED, origin, read_origin, release
from rcdrs.baselines.registry import find_method
from rcdrs.cli import results as commands
from rcdrs.experiments.dispatch import scenarios
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.reporting.equal_time import UNIVERSES as EQUAL_TIME

ROOT = Path(__file__).parents[1]
CASE, DEPTH = "qp-small", 5
ROW = Key("rows", "synthetic", CASE, 0, DEPTH, "RCDRS-Env", "log_kkt")
LAYER = replace(ROW, kind="checkpoints")
OTHER = replace(ROW, method="Grid-DRS", recipe="paper")
DAYS = Key("rows", "dispatch", "dispatch-inequality", 0, DEPTH, "RCDRS-Env", "log_kkt")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with the configuration, and a run that is not finished."""
    (tmp_path / PAPER).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / PAPER, tmp_path / PAPER)
    monkeypatch.chdir(tmp_path)
    train(tmp_path, LAYER)
    evaluate(tmp_path, ROW)
    return tmp_path


def plan_of(checkout, *files):
    return Plan.read(checkout, *files)


def run_of(checkout):
    return checkout / plan_of(checkout).folder


def train(checkout, key):
    """A checkpoint with the times of its job."""
    sizes = {"train": 1, "validation": 1, "test": 1}
    if key.experiment == "dispatch":
        days = scenarios.generate(key.seed, sizes, scenarios.formulation_of(key.case))
        A, cone = days.model.A, days.test.cone
    else:
        data = generate(key.case, key.seed, sizes)
        A, cone = data.A, data.case.cone
    layer = awake(find_method(key.method).build(A, cone, key.K, (1.6, 0.3)))
    path = run_of(checkout) / replace(key, kind="checkpoints").path()
    layer.save(path)
    name = path.relative_to(run_of(checkout)).with_suffix(".tsv")
    benchmark = run_of(checkout) / "benchmarks/train" / name.relative_to("checkpoints")
    benchmark.parent.mkdir(parents=True, exist_ok=True)
    benchmark.write_text("s\th:m:s\n12.5\t0:00:12\n")
    return layer


def evaluate(checkout, key, gap="0.5", digests=None):
    """A row, with its details and where it comes from."""
    path = run_of(checkout) / key.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    family, _, scale = key.case.partition("-")
    recipe = key.recipe if key.method.startswith("RCDRS") else "-"
    cells = [key.experiment, family, scale, str(key.K), str(key.seed), key.method, recipe, gap]
    path.write_text(f"experiment,family,scale,K,seed,method,recipe,Gap\n{','.join(cells)}\n")
    np.savez_compressed(path.with_suffix(".npz"), **{f"{key.method}@{recipe}/Gap": np.ones(3)})
    digests = plan_of(checkout).digests(key) if digests is None else digests
    path.with_suffix(".origin.json").write_text(json.dumps(origin(digests, "cpu")))


def released(checkout, **changes):
    plan = plan_of(checkout)
    arguments = {"key_of": plan.key, "current": plan.known_digests} | changes
    return release(run_of(checkout), checkout / "results/released", **arguments)


def manifest(checkout):
    return json.loads((checkout / "results/released" / MANIFEST).read_text())["files"]


def files_of(checkout):
    """Content and time of everything that is released."""
    folder = checkout / "results/released"
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def lines_of(checkout, key):
    return (checkout / "results/released" / key.released()).read_bytes().splitlines()


# In parts


def test_parts_of_an_unfinished_run_add_up(checkout):
    assert released(checkout)["released"] == [ROW.path()]
    other = replace(ROW, seed=1)
    evaluate(checkout, other)
    train(checkout, other)
    told = released(checkout)
    assert (told["released"], told["unchanged"]) == ([other.path()], [ROW.path()])
    (run_of(checkout) / ROW.path()).unlink()  # as in another run, which has not come so far
    assert released(checkout)["released"] == []
    rows = {ROW.released(), other.released()}
    details = {name.replace(".csv", ".npz") for name in rows}
    assert manifest(checkout).keys() == {*rows, *details, LAYER.released()}


def test_metrics_by_instance_beyond_the_paper_are_of_one_seed_and_where_they_are_shown(checkout):
    plan = plan_of(checkout)
    shown, *others = [
        plan.key("rows", case, seed, universe=universe, K=5, method="Grid-DRS")
        for case, universe, seed in (
            *(("qp-small", "fair", seed) for seed in (0, 1)),
            ("qp-hard", "first_sampling", 0),
            ("opf", "", 1),
        )
    ]
    for row in (shown, *others):
        evaluate(checkout, row)
    released(checkout)
    details = {key.released().replace(".csv", ".npz") for key in (shown, ROW)}
    results = {key.released() for key in (ROW, LAYER, shown, *others)}
    assert manifest(checkout).keys() == results | details
    assert set(EQUAL_TIME) | {""} == set(DETAILED)


def test_row_joins_those_of_its_setting(checkout):
    """And leaves their bytes as they are, down to the last digit."""
    evaluate(checkout, ROW, gap="0.10000000000000000555")
    released(checkout)
    before = lines_of(checkout, ROW)
    evaluate(checkout, OTHER, gap="3.1470683392598175e-08")
    assert released(checkout)["released"] == [OTHER.path()]
    assert lines_of(checkout, ROW) == [
        *before,
        b"synthetic,qp,small,5,0,Grid-DRS,-,3.1470683392598175e-08",
    ]
    entry = manifest(checkout)[ROW.released()]
    assert entry["digests"] == {
        key.run: plan_of(checkout).digests(key)[key.run] for key in (ROW, OTHER)
    }
    with np.load((checkout / "results/released" / ROW.released()).with_suffix(".npz")) as details:
        assert set(details) == {"RCDRS-Env@log_kkt/Gap", "Grid-DRS@-/Gap"}
    evaluate(checkout, OTHER, gap="4.5")
    assert released(checkout)["released"] == [OTHER.path()]
    assert lines_of(checkout, ROW) == [*before, b"synthetic,qp,small,5,0,Grid-DRS,-,4.5"]


def test_row_of_one_run_does_not_need_the_others(checkout):
    """The row beside it may be of another code: it stays, and stays stale."""
    old = {OTHER.run: "older older"}
    evaluate(checkout, OTHER, digests=old)
    released(checkout, current=lambda key: old if key == OTHER else {})
    assert released(checkout)["stale"] == [OTHER.path()]
    plan = plan_of(checkout)
    assert plan.released_states() == {"current": 1, "stale": 1}
    assert plan.released.state(OTHER, plan.digests(OTHER)) == "stale"
    folder = checkout / "results/released"
    assert plan.results([OTHER, ROW]) == [str(folder / ROW.released()), f"{plan.folder}/{OTHER}"]


def test_what_is_unchanged_is_not_written_again(checkout):
    """Or every table would be older than its numbers."""
    evaluate(checkout, OTHER)
    released(checkout)
    before, entries = files_of(checkout), manifest(checkout)
    note = (run_of(checkout) / ROW.path()).with_suffix(".origin.json")
    note.write_text(note.read_text().replace('"host": "', '"host": "other-'))
    told = released(checkout)
    assert told == {"released": [], "unchanged": [OTHER.path(), ROW.path()], "stale": []}
    assert files_of(checkout) == before
    assert manifest(checkout) == entries


def test_recomputed_result_replaces_the_released_one(checkout):
    released(checkout)
    evaluate(checkout, ROW, gap="0.4")
    assert released(checkout)["released"] == [ROW.path()]
    assert plan_of(checkout).result(ROW) == str(checkout / "results/released" / ROW.released())
    assert lines_of(checkout, ROW)[1:] == [b"synthetic,qp,small,5,0,RCDRS-Env,log_kkt,0.4"]


def test_entry_says_where_and_how_long(checkout):
    released(checkout)
    entry = manifest(checkout)[LAYER.released()]
    assert entry["seconds"] == 12.5
    assert {"sha256", "digests", "host", "machine", "device", "cpu", "torch"} <= entry.keys()
    assert entry["digests"] == plan_of(checkout).digests(LAYER)
    assert "seconds" not in manifest(checkout)[ROW.released()]  # was never measured
    evaluate(checkout, ROW, gap="0.4")
    benchmark = run_of(checkout) / "benchmarks/evaluate" / ROW.path()
    benchmark.parent.mkdir(parents=True)
    benchmark.with_suffix(".tsv").write_text("s\th:m:s\n1.5\t0:00:01\n")
    released(checkout)
    assert manifest(checkout)[ROW.released()]["seconds"] == 1.5


def test_result_that_no_longer_holds_is_told(checkout, monkeypatch, capsys):
    released(checkout)
    other = {ROW.run: "other other"}
    assert released(checkout, current=lambda key: other)["stale"] == [ROW.path()]
    assert plan_of(checkout).result(ROW).endswith(f"released/{ROW.released()}")  # it still does
    monkeypatch.setattr(commands, "ROOT", checkout)
    path = checkout / PAPER
    path.write_text(path.read_text().replace("epochs: 30", "epochs: 31"))
    assert rcdrs_cli("release") == 0
    told = capsys.readouterr().out
    assert f"stale: 1 ({ROW.path()}" in told
    assert "1 results in " in told
    assert "no longer hold and are not used: release them again" in told


def test_result_of_a_variant_that_is_gone_is_stale(checkout):
    gone = Key("rows", "ablation", "socp-medium", 0, 10, "gone")
    evaluate(checkout, gone, digests={"gone@paper": "a b"})
    assert released(checkout)["stale"] == [gone.path()]


def test_times_of_more_than_is_asked_for_are_released(checkout):
    plan, key = plan_of(checkout), Key("times", "dfl", "dfl", 0)
    path = run_of(checkout) / key.path()
    path.parent.mkdir(parents=True)
    path.write_text("method,time_ms\nPTO,0.5\n")
    note = origin(plan.digests(key) | {"PTO K40": "a b"}, "cpu")
    path.with_suffix(".origin.json").write_text(json.dumps(note))
    assert key.path() in released(checkout)["released"]
    assert plan_of(checkout).state(key) == "released"


def test_run_of_other_settings_does_not_replace_the_papers(checkout, monkeypatch, capsys):
    """As a smoke run, whose files have the same names."""
    released(checkout)
    before = manifest(checkout)
    smoke = checkout / "smoke.yaml"
    smoke.write_text("run: paper\nsynthetic: { instances: { train: 24 } }\n")
    evaluate(checkout, ROW, gap="9.0", digests=plan_of(checkout, smoke).digests(ROW))
    monkeypatch.setattr(commands, "ROOT", checkout)
    assert rcdrs_cli("release", "--configfile", str(smoke)) == 0
    assert "stale: 1" in capsys.readouterr().out
    assert manifest(checkout) == before


def rcdrs_cli(*words):
    from rcdrs.cli.main import main

    return main(list(words))


# Files of a former layout, and damaged ones


@pytest.mark.parametrize(
    "name", ["synthetic/socp-hard-0-K20.csv", "ablation/mlp/socp-medium-0-K10.csv"]
)
def test_run_of_a_former_layout_is_named_with_what_to_do(checkout, name):
    path = run_of(checkout) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("method,Gap\nRCDRS-Env,0.5\n")
    path.with_suffix(".origin.json").write_text(json.dumps({"digest": {"code": "a"}}))
    message = rf"{name} is of a former layout.*delete it .* and run the workflow again"
    with pytest.raises(ValueError, match=message):
        released(checkout)
    assert not (checkout / "results/released" / MANIFEST).exists()


def test_manifest_of_a_former_layout_is_named_with_what_to_do(checkout):
    folder = checkout / "results/released"
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text('{"synthetic/socp-hard-0-K20.csv": {"sha256": "0"}}')
    with pytest.raises(DamagedRelease, match=r"manifest of a former layout: restore it with `git"):
        released(checkout)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"digests": "a b"}', '{"digest": {}}'])
def test_damaged_note_is_named_with_what_to_do(checkout, text):
    rows = run_of(checkout) / ROW.path()
    note = rows.with_suffix(".origin.json")
    note.write_text(text)
    message = rf"{note.name} does not say where {rows.name} comes from .*: delete both and run"
    for call in (lambda: read_origin(rows), lambda: released(checkout)):
        with pytest.raises(ValueError, match=message):
            call()


def test_result_without_a_note_is_no_ones(checkout):
    rows = run_of(checkout) / ROW.path()
    rows.with_suffix(".origin.json").unlink()
    assert read_origin(rows) == {}
    assert plan_of(checkout).state(ROW) == "missing"
    assert released(checkout) == {"released": [], "unchanged": [], "stale": []}


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = [(altered, "differs from its manifest"), (Path.unlink, "in the manifest but not there")]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_layer_is_named(checkout, damage, message):
    released(checkout)
    damage(checkout / "results/released" / LAYER.released())
    with pytest.raises(DamagedRelease, match=f"{CASE}-0-K{DEPTH}.pt .*{message}"):
        rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_damaged_rows_and_details_are_named(checkout, suffix, damage, message):
    released(checkout)
    path = (checkout / "results/released" / ROW.released()).with_suffix(suffix)
    damage(path)
    with pytest.raises(DamagedRelease, match=f"{path.name} .*{message}"):
        plan_of(checkout).result(ROW)


@pytest.mark.parametrize(("damage", "_"), DAMAGES)
@pytest.mark.parametrize("suffix", [".csv", ".npz", ".pt"])
def test_damaged_file_is_repaired_by_another_release(checkout, suffix, damage, _):
    evaluate(checkout, OTHER)
    released(checkout)
    before = {name: content for name, (content, _) in files_of(checkout).items()}
    key = LAYER if suffix == ".pt" else ROW
    damage((checkout / "results/released" / key.released()).with_suffix(suffix))
    assert ROW.path() in released(checkout)["released"]
    assert {name: content for name, (content, _) in files_of(checkout).items()} == before
    rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)
    assert plan_of(checkout).state(OTHER) == "released"


def test_release_does_not_give_up_what_only_a_damaged_file_held(checkout):
    """Nor does it vouch for it: what a run does not have has to be restored first."""
    evaluate(checkout, OTHER)
    released(checkout)
    (run_of(checkout) / OTHER.path()).unlink()
    evaluate(checkout, ROW, gap="0.25")
    altered(checkout / "results/released" / ROW.released())
    before = files_of(checkout), manifest(checkout)
    with pytest.raises(DamagedRelease, match=r"K5.csv differs from its manifest: restore it with"):
        released(checkout)
    assert (files_of(checkout), manifest(checkout)) == before


def test_release_does_not_replace_a_file_that_its_manifest_does_not_name(checkout):
    released(checkout)
    path = checkout / "results/released" / MANIFEST
    stored = json.loads(path.read_text())
    del stored["files"][ROW.released()]
    path.write_text(json.dumps(stored))
    before = files_of(checkout), manifest(checkout)
    with pytest.raises(DamagedRelease, match=r"K5.csv is there but not in the manifest: delete"):
        released(checkout)
    assert (files_of(checkout), manifest(checkout)) == before


def test_what_is_wrong_in_the_run_leaves_the_release_as_it_is(checkout):
    """Though other results, which come before it, are new."""
    released(checkout)
    before = files_of(checkout), manifest(checkout)
    evaluate(checkout, ROW, gap="0.25")
    late = replace(ROW, case="qp-medium")
    evaluate(checkout, late)
    note = (run_of(checkout) / late.path()).with_suffix(".origin.json")
    stored = json.loads(note.read_text())
    note.write_text(json.dumps(stored | {"host": "\x1b[2J"}))
    message = r"origin.json: host is '.x1b\[2J', expected text without control characters"
    with pytest.raises(ValueError, match=message):
        released(checkout)
    assert (files_of(checkout), manifest(checkout)) == before


def test_release_that_is_cut_off_has_in_its_manifest_what_it_copied(checkout, monkeypatch):
    late = replace(ROW, case="socp-small")
    evaluate(checkout, late)
    store = release_module._store

    def full(released, part):
        if part.key.case == late.case:
            raise OSError(28, "No space left on device")
        return store(released, part)

    monkeypatch.setattr(release_module, "_store", full)
    with pytest.raises(OSError, match="No space"):
        released(checkout)
    assert ROW.released() in manifest(checkout)
    monkeypatch.undo()
    monkeypatch.chdir(checkout)
    assert released(checkout) == {"released": [late.path()], "unchanged": [ROW.path()], "stale": []}


# Trained layers


def test_layers_of_one_seed_are_released(checkout):
    no_envelope = replace(ROW, method="RCDRS-NoEnv", recipe="paper")
    for key in (replace(ROW, seed=1), replace(ROW, method="L-PDHG"), no_envelope):
        train(checkout, key)
        evaluate(checkout, key)
    released(checkout)
    layers = {name for name in manifest(checkout) if name.endswith(".pt")}
    assert LAYER_SEED == 0
    assert layers == {LAYER.path(), replace(no_envelope, kind="checkpoints").path()}


def test_layer_that_is_newer_than_its_rows_waits_for_them(checkout):
    os.utime(run_of(checkout) / ROW.path(), (1, 1))
    assert released(checkout)["released"] == [ROW.path()]
    assert LAYER.path() not in manifest(checkout)


def test_layer_in_two_lines(checkout):
    trained = train(checkout, LAYER)
    evaluate(checkout, ROW)
    released(checkout)
    layer, data = rcdrs.pretrained(CASE, depth=DEPTH, root=checkout)
    program = data.test.program
    assert (data.case.name, data.seed, program.batch) == (CASE, 0, 400)
    with torch.no_grad():
        assert torch.equal(layer.solve(program).x, trained.solve(program).x)
    assert callable(rcdrs.pretrained)  # not hidden by a module of that name


def test_layer_of_dispatch(checkout):
    train(checkout, DAYS)
    evaluate(checkout, DAYS)
    released(checkout)
    layer, data = rcdrs.pretrained("dispatch-inequality", depth=DEPTH, root=checkout)
    assert layer.solve(data.test[:2]).x.isfinite().all()


def test_layer_that_is_not_released_is_told_how_to_make(checkout):
    Released(checkout / "results/released").write()
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
        ({"method": "L-PDHG"}, "method is 'L-PDHG', expected one of Layerwise-DRS"),
        ({"root": "nowhere"}, "nowhere is not a checkout"),
    ],
)
def test_wrong_argument_is_named(checkout, arguments, message):
    released(checkout)
    given = {"case": CASE, "depth": DEPTH, "root": checkout} | arguments
    with pytest.raises(ValueError, match=message):
        rcdrs.pretrained(**given)


def test_layer_of_other_code_is_a_warning(checkout):
    released(checkout)
    path = checkout / "results/released" / MANIFEST
    code = plan_of(checkout).digests(LAYER)[LAYER.run].split()[0]
    path.write_text(path.read_text().replace(code, "older"))
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
    changed = checkout / "changed.yaml"
    changed.write_text("results: recompute\n")
    assert source(plan_of(checkout, changed)) == ""
    changed.write_text("synthetic: { instances: { train: 24 } }\n")
    assert source(plan_of(checkout, changed)) == ""


def test_report_is_complete_from_released_data_alone(checkout):
    from run_files import write_run

    from rcdrs.reporting.report.controller import traced
    from rcdrs.reporting.report.page import report

    smoke = ROOT / "workflow/config/smoke.yaml"
    plan = plan_of(checkout, smoke)
    write_run(plan, Path(plan.folder))
    report(plan, Path("computed.html"))
    folder = checkout / "results/released"
    told = release(Path(plan.folder), folder, plan.key, plan.known_digests)
    assert {key.path() for key in traced(plan)} <= set(told["released"])  # with training curves
    shutil.rmtree(checkout / plan.folder)
    report(plan_of(checkout, smoke), Path("released.html"))
    pages = [Path(f"{name}.html").read_text() for name in ("computed", "released")]
    assert 'id="curves-paper"' in pages[1]
    for part in ("<svg", "<table", 'class="missing"'):
        assert pages[0].count(part) == pages[1].count(part)
