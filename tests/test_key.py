"""Names of results: each key has one path, and each path is of one key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rcdrs.artifact.key import PARTS, PATHS, SETTING, Key, parse
from rcdrs.artifact.manifest import Released
from rcdrs.artifact.plan import Plan

ROOT = Path(__file__).parents[1]
ROW = Key("rows", "synthetic", "socp-hard", 0, 20, "RCDRS-Env", "log_kkt")
PLAN = Plan.read(ROOT)


def every_key():
    """Each kind of result of each experiment, once for each run."""
    for name, experiment in PLAN.experiments.items():
        case, depth = experiment.cases[-1], experiment.depths[0]
        for kind in ("instances", "references", "times", "peers"):
            yield Key(kind, name, case, 2)
        for kind in ("cores", "traces", "shifts"):
            yield Key(kind, name, case, 2, depth)
        for run in experiment.runs(case):
            for kind in ("rows", "checkpoints"):
                yield Key(kind, name, case, 2, depth, *run)


@pytest.mark.parametrize(
    ("key", "path", "released"),
    [
        (
            ROW,
            "synthetic/socp-hard-0-K20/RCDRS-Env@log_kkt.csv",
            "synthetic/socp-hard-0-K20.csv",
        ),
        (
            Key("rows", "ablation", "mixed-medium", 1, 10, "no_rho"),
            "ablation/mixed-medium-1-K10/no_rho@paper.csv",
            "ablation/mixed-medium-1-K10.csv",
        ),
        (
            Key("rows", "dfl", "dfl", 0, 5, "PTO-Exact"),
            "dfl/dfl-0-K5/PTO-Exact@paper.csv",
            "dfl/dfl-0-K5.csv",
        ),
        (
            Key("checkpoints", "dispatch", "dispatch-printed", 0, 15, "RCDRS-NoEnv"),
            "checkpoints/paper/RCDRS-NoEnv/dispatch-printed-0-K15.pt",
            "checkpoints/paper/RCDRS-NoEnv/dispatch-printed-0-K15.pt",
        ),
        (Key("times", "dfl", "dfl", 2), "timing/dfl-2.csv", "timing/dfl-2.csv"),
        (
            Key("traces", "synthetic", "qp-small", 0, 5),
            "traces/qp-small-0-K5.csv",
            "traces/qp-small-0-K5.csv",
        ),
        (Key("instances", "dfl", "dfl", 0), "instances/dfl-0.npz", "instances/dfl-0.npz"),
        (Key("cores", "dfl", "dfl", 0, 5), "cores/dfl-0-K5.json", "cores/dfl-0-K5.json"),
        (
            Key("references", "dispatch", "dispatch-turned", 0),
            "references/dispatch-turned-0.npz",
            "references/dispatch-turned-0.npz",
        ),
    ],
)
def test_path_says_what_a_result_is_of(key, path, released):
    assert (key.path(), str(key), key.released()) == (path, path, released)
    assert parse(path)["kind"] == key.kind
    assert {name: getattr(key, name) for name in parse(path)} == parse(path)


def test_every_key_comes_back_from_its_path():
    keys = list(every_key())
    assert {key.kind for key in keys} == set(PATHS)
    for key in keys:
        # The experiment of a checkpoint is that of its case, or of its variant.
        assert PLAN.key(**parse(key.path())).path() == key.path()
        if key.kind == "rows":
            assert Key(**parse(key.path())) == key
        if key.kind in ("rows", "checkpoints"):
            assert PLAN.key(**parse(key.path())) == key


def test_no_two_results_share_a_path():
    """But what the ablations take from the benchmarks."""
    own = ("rows", "checkpoints")
    keys = [key for key in every_key() if key.experiment != "ablation" or key.kind in own]
    assert len({key.path() for key in keys}) == len(keys)


def test_setting_of_a_release_has_no_method():
    assert parse(ROW.released()) == {
        "kind": "rows",
        "experiment": "synthetic",
        "case": "socp-hard",
        "seed": 0,
        "K": 20,
        "universe": "",
    }


@pytest.mark.parametrize(
    "path",
    [
        "",
        "synthetic",
        "manifest.json",
        "synthetic/socp-hard-0-K20.npz",
        "synthetic/socp-hard-0-K20/RCDRS-Env.csv",
        "synthetic/socp-hard-0-K20/RCDRS-Env@paper.csv\n",
        "synthetic/socp-hard-x-K20/RCDRS-Env@paper.csv",
        "synthetic/socp-hard-0-K20/RCDRS Env@paper.csv",
        "synthetic/SOCP-hard-0-K20/RCDRS-Env@paper.csv",
        "../synthetic/socp-hard-0-K20/RCDRS-Env@paper.csv",
        "ablation/mlp/socp-medium-0-K10.csv",  # of a former layout
        "checkpoints/paper/RCDRS-Env/socp-hard-0-K20.csv",
        "timing/socp-hard-0-K20.csv.bak",
    ],
)
def test_path_of_no_result_is_named_with_what_is_expected(path):
    with pytest.raises(ValueError, match=r"is no result of a run, expected one of \{within\}inst"):
        parse(path)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (
            {"experiment": "synthetic", "family": "socp", "scale": "hard", "K": 20, "seed": "0"}
            | {"method": "RCDRS-Env", "recipe": "log_kkt"},
            ROW,
        ),
        (
            {"experiment": "dfl", "family": "dfl", "scale": "-", "K": "5", "seed": 1}
            | {"method": "PTO", "recipe": "-"},
            Key("rows", "dfl", "dfl", 1, 5, "PTO"),
        ),
    ],
)
def test_key_of_a_row(row, key):
    """What learns nothing has the recipe "-" in a file, and is as the paper has it."""
    assert Key.of_row(row) == key


def test_every_name_of_the_configuration_fits_its_place():
    """The workflow's wildcards are the same."""
    for key in every_key():
        for name, form in PARTS.items():
            value = str(getattr(key, name))
            assert value in ("", "0") or re.fullmatch(form, value), (name, value)
    places = {name for path in (*PATHS.values(), SETTING) for name in re.findall(r"{(\w+)}", path)}
    assert places == set(PARTS)


def test_every_released_file_is_of_a_key():
    """With its details, which are named after it."""
    entries = Released.read(ROOT / "results/released").entries
    for name in entries:
        found = name
        if name.endswith(".npz"):
            found = str(Path(name).with_suffix(".csv"))
            assert found in entries
        parse(found)
