"""`rcdrs verify`: what counts as the same numbers, in whichever files, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from rcdrs.artifact import verify as module
from rcdrs.artifact.verify import KINDS, NotVerified, compare, contents, verify
from rcdrs.files import (
    read_arrays,
    read_checkpoint,
    write_arrays,
    write_checkpoint,
    write_json,
)

KEYS = "experiment,family,scale,K,seed,method,recipe"
CASE = "socp-hard-0-K5"
#: Of one run: what each file of the two layouts is called.
SETTING = f"synthetic/{CASE}"
ONE_FILE = {"rows": f"{SETTING}.csv", "details": f"{SETTING}.npz", "core": "cores/socp-hard-0.json"}
ONE_FILE |= {"ablation": f"ablation/mlp/{CASE}.csv", "variant": "checkpoints/ablation/mlp"}
ONE_FILE |= {"model": "models/paper/PTO/dfl-0-K5.pt"}
ONE_EACH = {"core": "cores/socp-hard-0-K5.json", "ablation": f"ablation/{CASE}/mlp@paper.csv"}
ONE_EACH |= {"variant": "checkpoints/paper/mlp", "model": "checkpoints/paper/PTO/dfl-0-K5.pt"}
COMMON = {"trained": "checkpoints/paper/RCDRS-Env", "trace": f"traces/{CASE}.csv"}
ROWS = {
    "F-DRS": ("-", "0.25", "0.5", ""),
    "RCDRS-Env": ("paper", "0.125", "0.75", "1.0"),
}

ROOT = Path(__file__).parents[1]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def arrays(path: Path, **values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **values)


def values_of(method: str) -> np.ndarray:
    return np.linspace(0, len(method), 8, dtype=np.float32)


def layer(path: Path, shift: float = 0.0) -> None:
    weights = {"head.weight": torch.arange(6.0).reshape(2, 3) + shift, "head.bias": torch.ones(2)}
    write_checkpoint(path, {"options": str(path)}, weights)


def common(run: Path, names: dict[str, str]) -> Path:
    arrays(run / "instances/socp-hard-0.npz", A=np.eye(3, dtype=np.float32), meta=np.array("{}"))
    arrays(run / "references/dispatch-printed-0.npz", optimum=np.ones(8, np.float32))
    for folder in (names["trained"], names["variant"]):
        layer(run / folder / f"{CASE}.pt")
        put(run / folder / f"{CASE}.csv", "epoch,loss,merit\n0,nan,0.5\n1,0.25,0.125\n")
    layer(run / names["model"])
    put(
        run / names["trace"], f"{KEYS},series,step,low\ntrace,socp,hard,5,0,RCDRS-Env,paper,a,1,2\n"
    )
    put(run / names["ablation"], f"{KEYS},Gap\nablation,socp,hard,5,0,mlp,paper,0.5\n")
    put(
        run / "timing/socp-hard-0.csv", f"{KEYS},time_ms\nsynthetic,socp,hard,5,0,F-DRS,-,{id(run)}"
    )
    put(run / "logs/tune.log", str(run))
    put(run / f"traces/{CASE}.origin.json", json.dumps(str(run)))
    return run


def one_file(run: Path) -> Path:
    """All runs of a setting in one CSV and one .npz, all depths of a core in one file."""
    lines = [f"synthetic,socp,hard,5,0,{m},{','.join(cells)}" for m, cells in ROWS.items()]
    put(run / ONE_FILE["rows"], "\n".join([f"{KEYS},ObjErr,Gap,Solved", *lines]) + "\n")
    named = {f"{m}@{cells[0]}/Gap": values_of(m) for m, cells in ROWS.items()}
    arrays(run / ONE_FILE["details"], **named)
    put(run / ONE_FILE["core"], json.dumps({"5": {"alpha": 1.6, "beta": 0.3}}, indent=1))
    return common(run, COMMON | ONE_FILE)


def one_each(run: Path) -> Path:
    """A CSV and a .npz for each run, with the columns that it has; a file for each core."""
    for method, (recipe, *numbers) in ROWS.items():
        stem = run / SETTING / f"{method}@paper"
        cells = dict(zip(("ObjErr", "Gap", "Solved"), numbers, strict=True))
        cells = {name: text for name, text in reversed(cells.items()) if text} | {"device": "cpu"}
        line = f"synthetic,socp,hard,5,0,{method},{recipe},{','.join(cells.values())}"
        put(Path(f"{stem}.csv"), f"{KEYS},{','.join(cells)}\n{line}\n")
        arrays(Path(f"{stem}.npz"), Gap=values_of(method))
    arrays(run / f"ablation/{CASE}/mlp@paper.npz", Gap=values_of("mlp"))
    put(run / ONE_EACH["core"], json.dumps({"beta": 0.3, "alpha": 1.6}))
    return common(run, COMMON | ONE_EACH)


@pytest.fixture
def runs(tmp_path):
    return one_file(tmp_path / "base"), one_each(tmp_path / "here")


def test_the_layout_of_files_does_not_count(runs):
    comparison = compare(*runs)
    assert comparison.differ == []
    assert comparison.same
    assert comparison.agree == {
        "array": 3, "core": 1, "weights": 3, "curve": 4, "row": 3, "detail": 2, "trace": 1
    }  # fmt: skip
    assert "3 row" in str(comparison)


def test_seals_and_what_a_reference_says_of_itself_do_not_count(runs):
    """A base from before has neither."""
    base, here = runs
    weights = read_checkpoint(here / ONE_EACH["model"])[1]
    torch.save({"config": "{}", "weights": weights}, base / ONE_FILE["model"])
    for path in [*here.rglob("*.npz")]:
        meta = {"meta": np.array("{}")} if path.parent.name == "references" else {}
        write_arrays(path, read_arrays(path) | meta)
    write_json(here / ONE_EACH["core"], {"alpha": 1.6, "beta": 0.3})
    assert compare(base, here).same


def test_values_that_the_base_does_not_keep_are_told_but_no_difference(runs):
    base, here = runs
    assert compare(base, here).new == {"detail ablation": 1}
    assert "detail ablation: not kept by the base" in str(compare(base, here))
    # The other way round they are lost, also where nothing is left of the experiment.
    assert compare(here, base).differ == [f"detail ablation/{CASE}/mlp@paper/Gap: only in the base"]
    (here / f"{SETTING}/F-DRS@paper.npz").unlink()
    assert compare(base, here).differ == [f"detail {SETTING}/F-DRS@paper/Gap: only in the base"]


def test_one_value_more_of_an_experiment_that_the_base_keeps_is_a_difference(runs):
    base, here = runs
    arrays(here / f"{SETTING}/AA-DRS@paper.npz", Gap=values_of("AA-DRS"))
    assert compare(base, here).differ == [f"detail {SETTING}/AA-DRS@paper/Gap: only here"]


def edit(old: str, new: str):
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def flip(name: str):
    """The lowest bit of one number."""

    def change(path: Path) -> None:
        with np.load(path) as stored:
            values = dict(stored)
        values[name] = values[name].copy()
        values[name].reshape(-1).view(np.uint32)[-1] ^= 1
        np.savez_compressed(path, **values)

    return change


def retype(path: Path) -> None:
    with np.load(path) as stored:
        np.savez_compressed(path, **{k: v.astype(float) for k, v in stored.items()})


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        (f"{SETTING}/RCDRS-Env@paper.csv", edit("0.125", "0.126"), "ObjErr=0.125 in the base"),
        (f"{SETTING}/RCDRS-Env@paper.csv", edit("1.0", ""), f"row {SETTING}/RCDRS-Env@paper"),
        (f"{SETTING}/RCDRS-Env@paper.csv", Path.unlink, "only in the base"),
        (f"{SETTING}/RCDRS-Env@paper.csv", edit(",0,RCDRS-Env,", ",1,RCDRS-Env,"), "only here"),
        (f"{SETTING}/F-DRS@paper.npz", flip("Gap"), f"detail {SETTING}/F-DRS@paper/Gap"),
        (f"{SETTING}/F-DRS@paper.npz", retype, f"detail {SETTING}/F-DRS@paper/Gap"),
        ("instances/socp-hard-0.npz", flip("A"), "array instances/socp-hard-0/A"),
        ("references/dispatch-printed-0.npz", flip("optimum"), "array references/dispatch"),
        ("cores/socp-hard-0-K5.json", edit("0.3", "0.1"), "beta=0.3 in the base, beta=0.1 here"),
        (f"checkpoints/paper/RCDRS-Env/{CASE}.pt", lambda p: layer(p, 1e-7), "weights socp-hard"),
        (f"checkpoints/paper/mlp/{CASE}.pt", Path.unlink, f"weights {CASE}/mlp@paper: only in the"),
        (f"checkpoints/paper/mlp/{CASE}.csv", edit("0.25", "0.5"), f"curve {CASE}/mlp@paper"),
        (ONE_EACH["ablation"], edit("0.5", "0.6"), f"row ablation/{CASE}/mlp@paper"),
        (COMMON["trace"], edit("a,1,2", "a,1,3"), f"trace {CASE}: low=2 in the base, low=3 here"),
    ],
)  # fmt: skip
def test_every_kind_of_difference_is_found_and_named(runs, file, change, told):
    base, here = runs
    change(here / file)
    comparison = compare(base, here)
    assert not comparison.same
    assert any(told in line for line in comparison.differ)
    assert told[:40] in str(comparison)


def test_a_row_that_is_there_twice_is_a_difference(runs):
    base, here = runs
    path = here / f"{SETTING}/F-DRS@paper.csv"
    put(path, path.read_text() + path.read_text().splitlines()[1] + "\n")
    assert compare(base, here).differ == [f"row {SETTING}/F-DRS@paper: only here"]


def test_runs_that_lack_a_kind_show_nothing_of_it(runs):
    for run in runs:
        for path in run.glob("cores/*"):
            path.unlink()
    assert compare(*runs).differ == []
    assert not compare(*runs).same
    assert not compare(Path("nowhere"), Path("nowhere")).same


def test_times_logs_and_origins_are_no_contents(tmp_path):
    names = [name for name, _ in contents(one_each(tmp_path))]
    assert {name.split()[0] for name in names} == set(KINDS)
    assert not [name for name in names if "timing" in name or "log" in name or "origin" in name]


def test_a_universe_is_compared_apart_from_what_it_changes(tmp_path):
    """The same results in a universe and at home are two of each, and a difference names where."""
    for name in ("base", "here"):
        alone = contents(one_each(tmp_path / name))
        one_each(tmp_path / name / "universes/fair")
    assert contents(tmp_path / "base").total() == 2 * alone.total()
    assert compare(tmp_path / "base", tmp_path / "here").differ == []
    path = tmp_path / f"here/universes/fair/{SETTING}/F-DRS@paper.csv"
    path.write_text(path.read_text().replace("0.25", "0.26"))
    (line,) = compare(tmp_path / "base", tmp_path / "here").differ
    assert line.startswith(f"row fair:{SETTING}/F-DRS@paper: ObjErr=0.25 in the base")


def test_universes_with_methods_of_their_own_are_in_the_sample():
    paper = yaml.safe_load((ROOT / module.PAPER).read_text("utf-8"))
    sample = yaml.safe_load((ROOT / module.SAMPLE).read_text("utf-8"))
    _, _, rows = module._targets(paper, sample)
    learned = {Path(row).name for row in rows if "/fair/" in row}
    assert {"RCDRS-Anderson@log_kkt.csv", "RCDRS-MLP@paper.csv", "Anderson-DRS@paper.csv"} < learned
    assert "results/sample/universes/deep/synthetic/qp-hard-0-K100/Grid-DRS@paper.csv" in rows


# The whole command, on a repository whose two commits compute what they have in a file.


def git(root: Path, *arguments: str) -> str:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "change")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Two commits; in place of the workflow, a run is made up from the code."""
    root = tmp_path / "checkout"
    put(root / "rcdrs/code.py", "one_file 0.25")
    put(root / "Snakefile", "")
    put(root / module.MANIFEST, "{}")
    put(
        root / module.PAPER,
        yaml.safe_dump({"seeds": [0, 1, 2], "recipes": {"paper": {"epochs": 9}}}),
    )
    put(
        root / module.SAMPLE,
        yaml.safe_dump({"run": "s", "seeds": [0], "recipes": {"paper": {"epochs": 1}}}),
    )
    git(tmp_path, "init", "-q", str(root))
    commit(root)
    put(root / "rcdrs/moved.py", "one_each 0.25")
    (root / "rcdrs/code.py").unlink()
    commit(root)
    computed = []

    def recompute(code: Path, sample: Path, folder: Path) -> Path:
        (file,) = (code / "rcdrs").iterdir()
        layout, number = file.read_text().split()
        run = {"one_file": one_file, "one_each": one_each}[layout](folder)
        for path in run.glob("synthetic/**/*.csv"):
            path.write_text(path.read_text().replace("0.25", number))
        computed.append(folder.name.partition("-")[0])
        return run

    monkeypatch.setattr(module, "recompute", recompute)
    monkeypatch.setattr(module, "accept_digests", lambda root, codes, record: None)
    return root, computed


def test_equal_numbers_are_accepted_with_a_record(checkout):
    root, _ = checkout
    records = []
    base, head = git(root, "rev-parse", "HEAD~1"), git(root, "rev-parse", "HEAD")
    # The manifest names the base.
    comparison = verify(root, accept=lambda root, codes, record: records.append(record))
    assert comparison.same
    (record,) = records
    assert (record["base"], record["commit"]) == (base, head)
    assert record["sample"]["row"] == 3
    assert set(record) == {"base", "commit", "sample", "machine", "date"}
    json.dumps(record)
    assert git(root, "worktree", "list").count("\n") == 0


def test_a_number_that_moved_is_named_and_nothing_is_accepted(checkout):
    root, _ = checkout
    put(root / "rcdrs/moved.py", "one_each 0.26")
    commit(root)
    records = []
    with pytest.raises(NotVerified, match=r"ObjErr=0.25 in the base, ObjErr=0.26 here"):
        verify(root, "HEAD~2", accept=lambda *taken: records.append(taken))
    assert records == []


def test_results_of_the_base_are_kept_for_the_next_time(checkout, tmp_path):
    root, computed = checkout
    for _ in range(2):
        assert verify(root, "HEAD~1", keep=tmp_path / "kept").same
    assert computed == ["base", "here", "here"]
    other = tmp_path / "other.yaml"
    shutil.copyfile(root / module.SAMPLE, other)
    put(other, other.read_text() + "threads: 1\n")
    put(root / module.PAPER, (root / module.PAPER).read_text())
    assert verify(root, "HEAD~1", other, keep=tmp_path / "kept").same
    assert computed == ["base", "here", "here", "base", "here"]


def test_what_is_verified_has_to_be_committed(checkout):
    root, computed = checkout
    put(root / "rcdrs/new.py", "")
    with pytest.raises(NotVerified, match=r"not committed:\n\?\? rcdrs/new.py\nCommit them"):
        verify(root)
    (root / "rcdrs/new.py").unlink()
    put(root / "Snakefile", "# more")
    with pytest.raises(NotVerified, match="Snakefile"):
        verify(root)
    git(root, "checkout", "Snakefile")
    put(root / "README.md", "not code")
    assert verify(root).same
    assert len(computed) == 2


def test_an_unknown_base_and_a_folder_without_git_are_errors(checkout, tmp_path):
    root, _ = checkout
    with pytest.raises(NotVerified, match=r"base is 'nowhere', expected a commit of "):
        verify(root, "nowhere")
    with pytest.raises(NotVerified, match="not a git checkout: clone"):
        verify(tmp_path)


def test_settings_that_the_sample_hides_have_to_be_the_same(checkout):
    root, _ = checkout
    paper = root / module.PAPER
    put(paper, paper.read_text().replace("9", "8"))
    commit(root)
    with pytest.raises(NotVerified, match=r"epochs was 9 in .*paper.yaml and is 8"):
        verify(root, "HEAD~1")


def test_a_sample_that_fails_tells_how_it_ended(checkout, monkeypatch):
    root, _ = checkout
    monkeypatch.undo()
    put(root / module.PAPER, Path(module.PAPER).read_text() if Path(module.PAPER).exists() else "")
    put(root / "Snakefile", "raise SystemError('out of order')\n")
    sample = root / module.SAMPLE
    with pytest.raises(NotVerified, match=r"fails with the code of work:\n(.*\n)*.*out of order"):
        module._snakemake(root, sample, root / "work", ["all"], "computing")


def test_only_what_held_before_is_accepted_and_only_with_the_same_settings(tmp_path, monkeypatch):
    held, stale, changed = (f"synthetic/qp-small-0-K{K}.csv" for K in (5, 10, 15))
    entries = {
        held: {"a@paper": "old s1", "b@paper": "old s2"},
        stale: {"a@paper": "older s1"},
        changed: {"a@paper": "old s1"},
    }
    stored = {
        "files": {n: {"sha256": "0" * 64, "digests": d} for n, d in entries.items()},
        "verified": [],
    }
    manifest = tmp_path / module.MANIFEST
    put(manifest, json.dumps(stored))
    told = {
        "then": {held: entries[held], stale: {"a@paper": "old s1"}} | {changed: entries[changed]},
        "now": {held: {"a@paper": "new s1", "b@paper": "new s2"}}
        | {stale: {"a@paper": "new s1"}, changed: {"a@paper": "new s9"}},
    }
    monkeypatch.setattr(module, "_digests", lambda code, manifest: told[code.name])
    record = {"base": "then", "commit": "now"}
    module.accept_digests(tmp_path, [Path("then"), Path("now")], record)
    after = json.loads(manifest.read_text())
    found = {name: entry["digests"] for name, entry in after["files"].items()}
    assert found == entries | {held: told["now"][held]}
    assert after["verified"] == [record | {"results": 2}]


def test_codes_tell_their_digests(tmp_path):
    """Of what is released, by file and part, as the manifest has them."""
    manifest = ROOT / module.MANIFEST
    code = tmp_path / "code"
    for part in ("rcdrs", "workflow", "envs"):
        shutil.copytree(ROOT / part, code / part, ignore=shutil.ignore_patterns("__pycache__"))
    told = module._digests(code, manifest)
    entries = json.loads(manifest.read_text())["files"]
    assert told.keys() == entries.keys()
    assert all(told[name].keys() == entry["digests"].keys() for name, entry in entries.items())
