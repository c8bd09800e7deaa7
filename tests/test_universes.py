"""Universes: other readings of the protocol, whose settings count for their own results alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, paper
from hypothesis import given
from hypothesis import strategies as st
from test_plan import BENCHMARKS, CONFIG, OWN_RATE, another, depends_on, leaves, of, parts_of
from test_workflow import snakemake

from rcdrs.artifact.config import CHANGED, ConfigError, check, universe
from rcdrs.artifact.key import PATHS, Key, parse, parse_end
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import origin, release
from rcdrs.experiments.base import Run, experiments
from rcdrs.experiments.settings import merge
from rcdrs.reporting.results import Results, read_rows
from rcdrs.reporting.statistics import Details

UNIVERSES = CONFIG["universes"]
PLAN = Plan.of(CONFIG, ROOT)
ROW = Key("rows", "synthetic", "socp-hard", 0, 20, "RCDRS-Env", "paper", "fair")


def plan_of(root=ROOT, **changes):
    return Plan.of(merge(CONFIG, changes), root)


# The configuration


#: Sections take these from the recipes as long as none is set.
FILLED = {f"{name}.training.log_kkt.depths" for name in ("dfl", "portfolio", "opf")}


@pytest.mark.parametrize("name", UNIVERSES)
def test_universe_is_the_configuration_but_for_what_it_changes(name):
    changes = {".".join(place): value for place, value in leaves(UNIVERSES[name])}
    home, found = (
        {".".join(place): value for place, value in leaves(config.but(universes={}).plain())}
        for config in (paper(), universe(paper(), name))
    )
    assert changes.items() <= found.items()
    moved = {place for place in home | found if home.get(place) != found.get(place)}
    assert moved <= changes.keys() | FILLED
    assert UNIVERSES[name].keys() <= {*CHANGED, *experiments()}


def test_universe_is_made_once_for_each_configuration():
    """Thousands of questions are one reading; a changed configuration has its own."""
    config, name = paper(), next(iter(UNIVERSES))
    assert universe(config, name) is universe(config, name)
    assert universe(config.but(threads=7), name).threads == 7
    assert universe(config, name).threads == config.threads != 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": [0]}, "unknown key 'seed', expected seeds, sampling, recipes, rates, "),
        ({"universes": {}}, "unknown key 'universes', expected seeds"),
        ({"threads": 2}, "unknown key 'threads', expected seeds"),
        ({"seeds": []}, "seeds is [], expected 1 or more entries"),
        ({"sampling": "third"}, "sampling is 'third', expected one of first, second, one"),
        ({"synthetic": 3}, "synthetic is 3, expected a section of settings"),
        ({"synthetic": {"scale": "hard"}}, "synthetic: unknown key 'scale', expected depths"),
        ({"synthetic": {"families": ["dfl"]}}, "synthetic.families[0] is 'dfl', expected a name"),
        ({"dfl": {"grid": {"beta": [-1.0]}}}, "dfl.grid.beta[0] is -1.0, expected more than 0"),
        ({"recipes": {"log_kkt": {"depths": [0]}}}, "recipes.log_kkt.depths[0] is 0, expected at"),
        ({"rates": {"paper": {"RCDRS-Env": 0}}}, "rates.paper['RCDRS-Env'] is 0, expected more"),
        (
            {"rates": {"papers": {}}},
            "rates: unknown recipe 'papers', expected one of paper, log_kkt",
        ),
        ({"rates": {"paper": {"F-DRS": 0.1}}}, "rates.paper: unknown method 'F-DRS', expected one"),
    ],
)
def test_what_a_universe_may_not_say_is_named_with_its_place(changes, message):
    with pytest.raises(ConfigError) as caught:
        check(CONFIG | {"universes": {"mine": changes}})
    assert str(caught.value).startswith(f"universes.mine: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("universes", "message"),
    [
        (3, "universes is 3, expected a section of settings"),
        ({"mine": 3}, "universes.mine is 3, expected a section of settings"),
        ({"mine": {3: 2}}, "universes.mine[3] is 3, expected text"),
        ({"mine": None}, "universes.mine is None, expected a section of settings"),
        ({"a/b": {}}, "universes['a/b'] is 'a/b', expected a name that matches [a-z_]+"),
        ({"Mine": {}}, "universes.Mine is 'Mine', expected a name that matches [a-z_]+"),
    ],
)
def test_what_is_no_universe_is_named(universes, message):
    with pytest.raises(ConfigError) as caught:
        check(CONFIG | {"universes": universes})
    assert str(caught.value) == message


def test_unknown_universe_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=f"unknown universe 'nope', .* {', '.join(UNIVERSES)}$"):
        PLAN.within("nope")
    without = Plan(paper().but(universes={}), ROOT)
    with pytest.raises(
        ConfigError, match=r"'fair', .* none, as the configuration has no universes"
    ):
        without.within("fair")


def test_target_in_an_unknown_universe_is_told(tmp_path):
    for name in ("instances/socp-hard-0.npz", "synthetic/socp-hard-0-K20/Grid-DRS@paper.csv"):
        done = snakemake(tmp_path, "-n", target=f"results/tiny/universes/nope/{name}")
        assert done.returncode != 0
        assert f"unknown universe 'nope', expected one of {', '.join(UNIVERSES)}" in done.stdout
        assert "rcdrs/artifact" not in done.stdout


def test_settings_that_are_only_there_if_set_need_a_name_too():
    for changes in ({"rates": {"paper": {"L-PDHG": 0.1}}}, {"universes": {"fair": {"seeds": [9]}}}):
        with pytest.raises(ConfigError, match=rf"{next(iter(changes))} differ from .*paper\.yaml"):
            plan_of(**changes).check_name()
    without = {name: part for name, part in CONFIG.items() if name != "universes"}
    with pytest.raises(ConfigError, match="universes differ from"):
        Plan.of(without, ROOT).check_name()


# Names


names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=40)


@given(
    st.sampled_from(sorted(PATHS)),
    st.one_of(st.just(""), names),
    st.sampled_from(["socp-hard", "dfl", "dispatch-printed"]),
    st.integers(0, 99),
    st.integers(1, 999),
)
def test_key_comes_back_from_its_path(kind, name, case, seed, K):
    key = PLAN.key(kind, case, seed, K=K, method="RCDRS-Env", recipe="log_kkt", universe=name)
    path = key.path()
    assert path.startswith(f"universes/{name}/") is bool(name)
    found = parse(path)
    assert found == {part: getattr(key, part) for part in found}
    assert found["universe"] == name
    assert PLAN.key(**found).path() == path
    assert parse_end(Path("/work/results/paper", path)) == found
    assert parse(key.released())["universe"] == name


def test_key_of_a_row_has_its_universe():
    row = {"experiment": "synthetic", "family": "socp", "scale": "hard", "K": 20, "seed": 0}
    row |= {"method": "RCDRS-Env", "recipe": "paper"}
    assert Key.of_row(row | {"universe": "fair"}) == ROW
    assert Key.of_row(row).universe == ""


def test_what_a_result_is_computed_from_is_of_its_universe():
    for keys in PLAN.behind(ROW).values():
        assert {key.universe for key in keys} <= {"fair"}
    path = "results/paper/universes/fair/checkpoints/paper/RCDRS-Env/socp-hard-0-K20.pt"
    assert PLAN.asked(ROW) == [f"RCDRS-Env@paper={path}"]
    shifts = Key("shifts", "synthetic", "socp-hard", 0, 20, universe="fair")
    assert list(PLAN.digests(shifts)) == [
        f"{method}@log_kkt" for method in UNIVERSES["fair"]["synthetic"]["extended"]
    ]


# Digests


#: Sections of experiments are filled before a universe changes anything: what it says of recipes
#: reaches what has no training of its own.
INSIDE = {
    r"recipes\.log_kkt\.depths": of("synthetic", "dfl", "portfolio", "opf", recipe="log_kkt"),
    r"recipes\.(?P<name>paper|log_kkt)\..*": None,
    r"synthetic\.grid\..*": of(*BENCHMARKS),
    r"synthetic\.(chosen|timely)\..*": of(),
}


def rated(recipe, method):
    """What is trained so; in decision-focused learning, what starts from a controller that is; on
    other data, all that a schedule trained there stands beside."""

    def depends(kind, experiment, part):
        if kind == "times" or experiment == "ablation":
            return False
        named, trained = part.split("@")
        if kind == "shifts" and method == "Layerwise-DRS":
            return trained == recipe
        if experiment == "dfl" and not named.startswith("RCDRS"):
            return False
        if experiment in ("portfolio", "opf") and named in OWN_RATE:
            return False
        layer = named.removesuffix("-Exact").removesuffix("-F").removesuffix("-J")
        return trained == recipe and layer == method

    return depends


def depends_inside(place):
    if found := re.fullmatch(r"rates\.(\w+)\.(.*)", place):
        return rated(*found.groups())
    for form, depends in INSIDE.items():
        if found := re.fullmatch(form, place):
            return depends or of(*BENCHMARKS, recipe=found["name"])
    return depends_on(place)


def put(config, place, value):
    changed = json.loads(json.dumps(config))  # sections that YAML shares are apart
    section = changed
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    return changed


def other(value):
    if isinstance(value, list) and "RCDRS-Anderson" in value:  # the last; two of them are chosen
        return value[1:]
    return ["RCDRS-Env"] if value == [] else another(value)


@pytest.mark.parametrize("name", UNIVERSES)
def test_setting_of_a_universe_counts_there(name):
    """As at home, where it matters and nowhere else."""
    before = parts_of(PLAN, name)
    for place, value in leaves(UNIVERSES[name]):
        changed = put(CONFIG, ("universes", name, *place), other(value))
        after = parts_of(Plan.of(changed, ROOT), name)
        both, depends = before.keys() & after.keys(), depends_inside(".".join(place))
        assert {part for part in both if before[part] != after[part]} == {
            part for part in both if depends(*part)
        }, place


@pytest.mark.parametrize("name", UNIVERSES)
def test_setting_of_a_universe_counts_nowhere_else(name):
    changed = CONFIG
    for place, value in leaves(UNIVERSES[name]):
        changed = put(changed, ("universes", name, *place), other(value))
    plan = Plan.of(changed, ROOT)
    for elsewhere in ("", *UNIVERSES):
        if elsewhere != name:
            assert parts_of(plan, elsewhere) == parts_of(PLAN, elsewhere)


def test_universe_that_changes_nothing_has_the_digests_of_home():
    plan = plan_of(universes={"same": {}})
    assert parts_of(plan, "same") == parts_of(plan)
    # And a setting of home counts in every universe that does not change it.
    moved = plan_of(universes={"same": {}}, sampling="one")
    assert parts_of(moved, "same") == parts_of(moved) != parts_of(plan)
    assert parts_of(moved, "first_sampling") == parts_of(plan, "first_sampling")


# Rates


def with_rate(recipe, method):
    """A universe, and the same with one rate."""
    usual = {"synthetic": {"extended": ["RCDRS-Env", "RCDRS-Light"]}}
    rates = {"rates": {recipe: {method: 0.0625}}}
    return plan_of(universes={"usual": usual, "mine": usual | rates})


def trainings(plan):
    """The settings of every training, by experiment and run."""
    found = {}
    for name, experiment in plan.experiments.items():
        runs = [experiment.trained(run) for run in experiment.runs(experiment.cases[-1])]
        for run in filter(None, (*runs, *(experiment.start(run) for run in runs if run))):
            found[name, run] = experiment.training(run)
    return found


@pytest.mark.parametrize(
    ("run", "reached"),
    [
        (Run("RCDRS-Light", "log_kkt"), ["synthetic"]),
        (Run("L-PDHG"), ["synthetic"]),
        (Run("RCDRS-Env"), ["dfl", "dispatch", "opf", "synthetic"]),
    ],
)
def test_rate_reaches_the_training_of_its_method_and_recipe_alone(run, reached):
    """Of every experiment that trains it."""
    plan = with_rate(run.recipe, run.method)
    usual, mine = (trainings(plan.within(name)) for name in ("usual", "mine"))
    changed = [place for place in usual if usual[place] != mine[place]]
    assert sorted(changed) == [(name, run) for name in reached]
    for place in changed:
        assert mine[place] == merge(usual[place], {"recipe": {"learning_rate": 0.0625}})


@pytest.mark.parametrize("run", [Run("RCDRS-Light", "log_kkt"), Run("L-PDHG")])
def test_rate_changes_the_digests_of_its_method_and_recipe_alone(run):
    plan = with_rate(run.recipe, run.method)
    usual, mine = (parts_of(plan, name) for name in ("usual", "mine"))
    kinds = ["rows", "checkpoints", "traces", *(["shifts"] if run.recipe == "log_kkt" else [])]
    changed = {part for part in usual if usual[part] != mine[part]}
    assert changed == {(kind, "synthetic", str(run)) for kind in kinds}
    assert parts_of(plan) == parts_of(PLAN)


# Files


HEADER = "experiment,family,scale,K,seed,method,recipe,Gap\n"


def computed(root, key, gap, plan):
    """A result of a run, with its details and its note."""
    path = root / "results/paper" / key.path()
    path.parent.mkdir(parents=True)
    row = f"{key.experiment},socp,hard,{key.K},{key.seed},{key.method},{key.recipe},{gap}\n"
    path.write_text(HEADER + row)
    np.savez(path.with_suffix(".npz"), **{f"{key.run}/Gap": np.full(3, gap)})
    note = origin(plan.digests(key), "cpu")
    path.with_suffix(".origin.json").write_text(json.dumps(note))
    benchmark = root / "results/paper/benchmarks/evaluate" / Path(key.path()).with_suffix(".tsv")
    benchmark.parent.mkdir(parents=True)
    benchmark.write_text(f"s\th:m:s\n{10 * gap}\t0:00:01\n")
    return path


HOME = Key(*[value for name, value in vars(ROW).items() if name != "universe"])


@pytest.fixture
def run(tmp_path):
    """A folder with one row at home, and the same in a universe."""
    plan = plan_of(tmp_path)
    return tmp_path, [computed(tmp_path, HOME, 0.5, plan), computed(tmp_path, ROW, 0.25, plan)]


@pytest.mark.parametrize("order", [1, -1])
def test_rows_and_details_of_universes_stand_side_by_side(run, order):
    root, paths = run
    released(root)
    kept = [root / "results/released" / key.released() for key in (HOME, ROW)]
    for files in (paths, kept):
        rows = read_rows(files[::order])
        assert sorted(rows["universe"]) == ["", "fair"]
        results = Results(rows, None, [0])
        details = Details([path.with_suffix(".npz") for path in files[::order]])
        for name, gap in (("", 0.5), ("fair", 0.25)):
            found = results.statistic("Gap", "socp", "hard", 20, "RCDRS-Env", universe=name)
            assert found.values == (gap,)
            assert set(details.of("Gap", found.keys).ravel()) == {gap}


def released(root, **changes):
    plan = plan_of(root, **changes)
    return release(root / "results/paper", root / "results/released", plan.key, plan.known_digests)


def test_results_of_a_universe_are_released(run):
    root, _ = run
    assert sorted(released(root)["released"]) == [HOME.path(), ROW.path()]
    plan = plan_of(root)
    assert {plan.state(HOME), plan.state(ROW)} == {"released"}
    seconds = {key: plan.released.entries[key.released()]["seconds"] for key in (HOME, ROW)}
    assert seconds == {HOME: 5.0, ROW: 2.5}
    # Other settings there leave what is at home as it is.
    moved = plan_of(root, universes={"fair": {"sampling": "one"}})
    assert (moved.state(HOME), moved.state(ROW)) == ("released", "stale")
    assert moved.released_states() == {"current": 1, "stale": 1}


def test_layers_of_a_universe_are_timed_by_its_own_jobs(run):
    """A trained layer goes with its row."""
    root, paths = run
    for key, seconds in ((HOME, 7.0), (ROW, 9.0)):
        layer = root / "results/paper" / key.within / "checkpoints/paper/RCDRS-Env"
        layer.mkdir(parents=True)
        (layer / "socp-hard-0-K20.pt").write_bytes(b"weights")
        train = root / "results/paper/benchmarks/train" / key.within / "paper/RCDRS-Env"
        train.mkdir(parents=True)
        (train / "socp-hard-0-K20.tsv").write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")
    for path in paths:
        path.touch()
    released(root)
    entries = plan_of(root).released.entries
    layers = {name: entry["seconds"] for name, entry in entries.items() if name.endswith(".pt")}
    assert layers == {
        "checkpoints/paper/RCDRS-Env/socp-hard-0-K20.pt": 7.0,
        "universes/fair/checkpoints/paper/RCDRS-Env/socp-hard-0-K20.pt": 9.0,
    }


def test_results_of_a_universe_that_is_gone_are_stale(run):
    root, _ = run
    released(root)
    plan = Plan.of({k: v for k, v in CONFIG.items() if k != "universes"}, root)
    assert plan.released_states() == {"current": 1, "stale": 1}
    told = release(root / "results/paper", plan.released.folder, plan.key, plan.known_digests)
    assert told == {"released": [], "unchanged": [HOME.path()], "stale": [ROW.path()]}


def test_damaged_row_of_a_universe_is_named(tmp_path):
    path = computed(tmp_path, ROW, 0.5, plan_of(tmp_path))
    path.with_suffix(".origin.json").unlink()
    path.write_text(path.read_text().replace(",20,", ",10,"))
    with pytest.raises(ValueError, match="line 2 is of K 10, expected 20, as the file is called"):
        read_rows([path])
