"""What the workflow computes, and when a released result stands in for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rcdrs.artifact.config import load, merge
from rcdrs.artifact.plan import Plan, StaleResult
from rcdrs.artifact.release import MANIFEST, DamagedRelease, Released, origin, release
from rcdrs.baselines.registry import METHODS
from rcdrs.experiments.base import DFL, Synthetic
from rcdrs.experiments.dfl.methods import DECISION_METHODS
from rcdrs.reporting.tables import TABLES

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"
CONFIG = load(ROOT / "workflow/config/paper.yaml", schema=SCHEMA)
NAME = "synthetic/socp-hard-0-K20.csv"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with the configuration of the repository and one computed result in it."""
    (tmp_path / "workflow/schemas").mkdir(parents=True)
    (tmp_path / "workflow/schemas" / SCHEMA.name).write_text(SCHEMA.read_text())
    monkeypatch.chdir(tmp_path)
    plan = Plan.of(CONFIG, tmp_path)
    rows = Path(plan.folder, NAME)
    rows.parent.mkdir(parents=True)
    rows.write_text("experiment,ObjErr\nsynthetic,0.5\n")
    rows.with_suffix(".npz").write_bytes(b"details")
    note = rows.with_suffix(".origin.json")
    note.write_text(json.dumps(origin(plan.digest(NAME), "cpu")))
    return tmp_path


def plan_of(checkout, **changes):
    return Plan.of(merge(CONFIG, changes), checkout)


def released(checkout):
    plan = plan_of(checkout)
    return release(Path(plan.folder), checkout / "results/released", plan.digest)


def test_paper_has_the_settings_of_the_paper():
    plan = Plan.of(CONFIG, ROOT)
    assert len(plan.synthetic.cases) == 9
    assert len(plan.rows_behind("coverage")) == 36 * 3
    assert len(plan.rows_behind("ablation_full")) == 17 * 2 * 3
    assert len(plan.runs("socp-hard", 0, 20)) == 8 + 2
    assert len(plan.runs("dfl", 0, 20)) == 9 + 4 + 2
    assert plan.synthetic.depths("socp-medium") == [5, 10, 15, 20]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_names_its_results(table):
    plan = Plan.of(CONFIG, ROOT)
    for name in plan.rows_behind(table) + plan.times_behind(table):
        assert set(plan.digest(name)) == {"code", "settings"}


def test_plan_knows_which_methods_are_learned():
    """It keeps their names itself, to stay free of torch; they must be the library's."""
    assert set(Synthetic.learned) == {name for name, method in METHODS.items() if method.learned}
    controlled = {name: DFL(CONFIG).layer(name) for name in DECISION_METHODS}
    assert controlled == {
        name: method.layer if method.controlled else None
        for name, method in DECISION_METHODS.items()
    }


@pytest.mark.parametrize(
    ("method", "model", "layer"),
    [
        ("PTO-Exact", "models/paper/PTO/dfl-0-K5.pt", []),
        (
            "RCDRS-Env-J",
            "models/paper/RCDRS-Env-J/dfl-0-K5.pt",
            ["results/paper/checkpoints/paper/RCDRS-Env/dfl-0-K5.pt"],
        ),
    ],
)
def test_where_decision_focused_methods_are_kept(method, model, layer):
    plan = Plan.of(CONFIG, ROOT)
    assert plan.trained("paper", method, "dfl-0-K5") == f"results/paper/{model}"
    assert plan.pretrained("paper", method.removesuffix("-Exact"), "dfl-0-K5") == layer


def test_depth_of_the_ablation_is_tuned_too():
    plan = Plan.of(merge(CONFIG, {"ablation": {"depth": 7}}), ROOT)
    assert plan.synthetic.depths("socp-medium") == [5, 7, 10, 15, 20]
    assert plan.synthetic.depths("socp-hard") == [5, 10, 15, 20]


def test_result_is_computed_until_it_is_released(checkout):
    assert plan_of(checkout).result(NAME) == f"results/paper/{NAME}"
    assert plan_of(checkout).state(NAME) == "computed"
    told = released(checkout)
    assert told["released"] == [NAME, NAME.replace(".csv", ".npz")]
    assert plan_of(checkout).result(NAME) == str(checkout / "results/released" / NAME)
    assert plan_of(checkout).state(NAME) == "released"
    assert released(checkout)["unchanged"] == told["released"]


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({"recipes": {"paper": {"epochs": 99}}}, True),
        ({"grid": {"beta": [1.0]}}, True),
        ({"controller": {"hidden": 32}}, True),
        ({"synthetic": {"instances": {"train": 1999}}}, True),
        ({"synthetic": {"depths": [20]}}, False),
        ({"seeds": [0]}, False),
        ({"timing": {"repeats": 5}}, False),
        ({"ablation": {"scale": "hard"}}, False),
    ],
)
def test_released_result_of_other_settings_is_stale(checkout, changes, stale):
    """What decides a number counts; which numbers are asked for does not."""
    released(checkout)
    plan = plan_of(checkout, **changes)
    assert (plan.result(NAME) == f"results/paper/{NAME}") is stale


def test_released_results_can_be_ignored_or_insisted_on(checkout):
    with pytest.raises(StaleResult, match=f"{NAME} is missing"):
        plan_of(checkout, results="released").result(NAME)
    released(checkout)
    assert "released" in plan_of(checkout, results="released").result(NAME)
    assert plan_of(checkout, results="recompute").result(NAME) == f"results/paper/{NAME}"
    other = plan_of(checkout, results="released", grid={"beta": [1.0]})
    with pytest.raises(StaleResult, match=f"{NAME} is stale"):
        other.result(NAME)


def test_result_of_other_settings_is_not_released(checkout):
    plan = plan_of(checkout, grid={"beta": [1.0]})
    told = release(Path(plan.folder), checkout / "results/released", plan.digest)
    assert told == {"released": [], "unchanged": [], "stale": [NAME], "outdated": []}


def test_altered_release_is_an_error_that_names_it(checkout):
    released(checkout)
    path = checkout / "results/released" / NAME
    path.write_text(path.read_text().replace("0.5", "0.4"))
    with pytest.raises(DamagedRelease, match=r"socp-hard-0-K20\.csv differs from its manifest"):
        plan_of(checkout).result(NAME)
    path.unlink()
    with pytest.raises(DamagedRelease, match="in the manifest but not there"):
        plan_of(checkout).result(NAME)


@pytest.mark.parametrize("text", ["", "[1]", '{"a.csv": {}}', "not json"])
def test_damaged_manifest_is_named(checkout, text):
    released(checkout)
    (checkout / "results/released" / MANIFEST).write_text(text)
    with pytest.raises(DamagedRelease, match=MANIFEST):
        Released.read(checkout / "results/released")


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return value


@pytest.mark.parametrize(
    "name",
    [NAME, "ablation/mlp/socp-medium-0-K10.csv", "timing/socp-hard-0.csv", "dfl/dfl-0-K5.csv"],
)
def test_digest_does_not_depend_on_the_order_of_a_configuration(name):
    """Snakemake and the command line merge files in different orders."""
    assert Plan.of(CONFIG, ROOT).digest(name) == Plan.of(reversed_keys(CONFIG), ROOT).digest(name)
