"""What the workflow computes, and when a released result stands in for it."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from rcdrs.artifact.config import check
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import MANIFEST, DamagedRelease, Released
from rcdrs.artifact.plan import STAGES, Plan, StaleResult
from rcdrs.artifact.release import origin, release
from rcdrs.experiments import engine
from rcdrs.experiments.base import Run
from rcdrs.experiments.dfl.experiment import LAYERS
from rcdrs.experiments.portfolio.experiment import LAYERS as PRETRAINED
from rcdrs.experiments.settings import merge
from rcdrs.reporting.tables import configured, needs

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "workflow/config/paper.yaml").read_text())
KEY = Key("rows", "synthetic", "socp-hard", 0, 20, "RCDRS-Env", "paper")


def plan_of(root=ROOT, **changes):
    return Plan.of(merge(CONFIG, changes), root)


PLAN = plan_of()


# What there is


def test_paper_has_the_settings_of_the_paper():
    rows = {
        table: [key for key in needs(table, PLAN.config) if key.kind == "rows"]
        for table in configured(PLAN.config)
    }
    assert len(PLAN.experiments["synthetic"].cases) == 9
    assert len({key.released() for key in rows["coverage"]}) == 36 * 3
    assert len(rows["coverage"]) == 36 * 3 * 8
    assert len(rows["ablation_full"]) == 17 * 2 * 3
    assert len(PLAN.experiments["synthetic"].runs("socp-hard")) == 8 + 2
    assert len(PLAN.experiments["dfl"].runs("dfl")) == 9 + 4 + 2
    assert len(PLAN.experiments["dispatch"].runs("dispatch-printed")) == 6
    assert len(PLAN.experiments["dispatch"].runs("dispatch-inequality")) == 6 + 2
    assert PLAN.experiments["synthetic"].depths == [5, 10, 15, 20]


@pytest.mark.parametrize("table", configured(PLAN.config))
def test_every_table_names_its_results(table):
    for key in needs(table, PLAN.config):
        digests = PLAN.digests(key)
        assert digests
        assert all(
            re.fullmatch(r"[0-9a-f]{16} [0-9a-f]{16}", digest) for digest in digests.values()
        )
        assert key.kind in ("times", "shifts") or list(digests) == [key.run]


def test_every_kind_has_its_stage():
    assert all(callable(getattr(engine, stage)) for stage in STAGES.values())


def test_key_of_a_checkpoint_is_of_the_experiment_that_trains_it():
    names = {"case": "socp-medium", "seed": 0, "K": 10}
    assert PLAN.key("checkpoints", method="mlp", **names).experiment == "ablation"
    assert PLAN.key("checkpoints", method="RCDRS-Env", **names).experiment == "synthetic"
    assert PLAN.key("instances", "dispatch-turned", "1").experiment == "dispatch"
    assert PLAN.key("instances", "dfl", "1") == Key("instances", "dfl", "dfl", 1)


def paths_behind(key):
    return {name: [k.path() for k in keys] for name, keys in PLAN.behind(key).items()}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Key("instances", "dfl", "dfl", 0), {}),
        (Key("cores", "dfl", "dfl", 0, 5), {"instances": ["instances/dfl-0.npz"]}),
        (
            Key("rows", "dfl", "dfl", 0, 5, "PTO-Exact"),
            {"checkpoints": ["checkpoints/paper/PTO/dfl-0-K5.pt"]},
        ),
        (
            Key("checkpoints", "dfl", "dfl", 0, 5, "RCDRS-Env-J", "log_kkt"),
            {"start": ["checkpoints/log_kkt/RCDRS-Env/dfl-0-K5.pt"]},
        ),
        (Key("checkpoints", "dfl", "dfl", 0, 5, "PTO"), {"start": []}),
        (KEY, {"checkpoints": ["checkpoints/paper/RCDRS-Env/socp-hard-0-K20.pt"]}),
        (Key("rows", "synthetic", "socp-hard", 0, 20, "F-DRS"), {"checkpoints": []}),
        (
            Key("rows", "dispatch", "dispatch-printed", 1, 5, "F-DRS"),
            {"checkpoints": [], "reference": ["references/dispatch-printed-1.npz"]},
        ),
        (
            Key("references", "dispatch", "dispatch-printed", 1),
            {"core": ["cores/dispatch-printed-1-K15.json"]},
        ),
        (
            Key("times", "dispatch", "dispatch-printed", 1),
            {"core": [f"cores/dispatch-printed-1-K{K}.json" for K in (5, 10, 15)]},
        ),
        (
            Key("traces", "synthetic", "qp-small", 0, 5),
            {
                "checkpoints": [
                    f"checkpoints/{recipe}/{method}/qp-small-0-K5.pt"
                    for recipe, methods in (
                        ("paper", ("L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv")),
                        ("log_kkt", ("RCDRS-Env", "RCDRS-NoEnv")),
                    )
                    for method in methods
                ]
            },
        ),
    ],
    ids=str,
)
def test_what_a_result_is_computed_from(key, expected):
    found = paths_behind(key)
    if key.kind not in ("instances", "cores"):
        expected = {
            "instances": [f"instances/{key.case}-{key.seed}.npz"],
            "core": [f"cores/{key.case}-{key.seed}-K{key.K}.json"],
        } | expected
    assert found == expected


def test_depth_of_the_ablation_is_tuned_too():
    plan = plan_of(ablation={"depth": 7})
    (key, *_) = [key for key in needs("ablation_full", plan.config) if key.case == "socp-medium"]
    assert key.K == 7
    assert [core.path() for core in plan.behind(key)["core"]] == ["cores/socp-medium-0-K7.json"]


def test_runs_as_a_command_takes_them():
    assert PLAN.asked(Key("rows", "synthetic", "qp-small", 0, 5, "F-DRS")) == ["F-DRS"]
    path = "results/paper/checkpoints/paper/RCDRS-Env/socp-hard-0-K20.pt"
    assert PLAN.asked(KEY) == [f"RCDRS-Env@paper={path}"]
    exact = Key("rows", "dfl", "dfl", 0, 5, "PTO-Exact")
    path = "results/paper/checkpoints/paper/PTO/dfl-0-K5.pt"
    assert PLAN.asked(exact) == [f"PTO-Exact@paper={path}"]
    assert len(PLAN.asked(Key("traces", "synthetic", "qp-small", 0, 5))) == 4 + 2


def test_other_settings_need_a_name_of_their_own():
    plan_of().check_name()
    plan_of(results="recompute", device="cpu").check_name()
    plan_of(run="mine", seeds=[0]).check_name()
    with pytest.raises(ValueError, match=r"seeds differ from .*paper\.yaml: give the run a name"):
        plan_of(seeds=[0]).check_name()


# Digests: what a result depends on, and nothing else


def parts_of(plan, universe=""):
    """Digests by kind of result, experiment and run (or the method and depth of a time)."""
    found = {}
    for name, experiment in plan.within(universe).experiments.items():
        case, K = experiment.cases[-1], max(experiment.depths)
        runs = experiment.runs(case)
        trained = {r: None for run in runs if (r := experiment.trained(run))}
        trained |= {r: None for run in trained if (r := experiment.start(run))}
        keys = [Key("rows", name, case, 0, K, *run) for run in runs]
        keys += [Key("checkpoints", name, case, 0, K, *run) for run in trained]
        if name != "ablation":
            keys.append(Key("times", name, case, 0))
        if name in ("synthetic", "dispatch"):
            keys.append(Key("traces", name, case, 0, K))
        if name == "synthetic":
            keys.append(Key("shifts", name, case, 0, K))
        for key in (replace(key, universe=universe) for key in keys):
            found |= {(key.kind, name, part): d for part, d in plan.digests(key).items()}
    return found


@cache
def papers_parts():
    return parts_of(PLAN)


KINDS = ("rows", "checkpoints", "traces", "shifts", "times")


def of(*experiments, kinds=KINDS, recipe=None, but=()):
    """Which parts depend on a setting: those of experiments; with a recipe, those alone whose
    controller, or variant, is trained with it."""

    def depends(kind, experiment, part):
        run = Run(*part.split("@")) if kind != "times" else None
        if experiment not in experiments or kind not in kinds or (run and run.method in but):
            return False
        return recipe is None or (
            run is not None and run.recipe == recipe and learns(experiment, run)
        )

    return depends


def learns(experiment, run):
    match experiment:
        case "dfl":
            return run.method.startswith(LAYERS)
        case "portfolio":  # predictors alone learn by the paper's recipe
            return run.recipe == "log_kkt"
        case "ablation":
            return True
    return run.method in PLAN.experiments["synthetic"].learned


EVERY = ("synthetic", "ablation", "dfl", "dispatch", "portfolio", "opf")
BENCHMARKS = ("synthetic", "ablation")
OWN_FEATURES = ("residual_only", "no_time", "no_previous", "no_rho")
OWN_CONTROLS = ("fixed_core", "alpha_only", "beta_only", "alpha_beta")
OWN_WEIGHT = {"con": ("no_consistency",), "obj": ("no_objective",), "dom": ("no_dominance",)}
#: With a learning rate of its own: the schedule, what it stands in, and the same solved exactly.
OWN_RATE = ("Layerwise-DRS", "Layerwise-DRS-F", "Layerwise-DRS-F-Exact")
OWN_WEIGHT |= {"mov": ("no_movement",), "smooth": ("no_smoothness",)}
#: Of every setting, by its place, what depends on it; the first that fits counts.
DEPENDS = {
    "run|device|seeds|tables": of(),
    "threads": of(*EVERY),
    "sampling": of("synthetic", "ablation", "dfl"),
    # What is asked for; layers are tried at all depths.
    r"synthetic\.(depths|shifts\..*)": of("synthetic", kinds=("shifts",)),
    r"synthetic\.(hard_seeds|search\..*)": of(),
    r"\w+\.(families|scales?|methods|extended|exact|formulations|rows|depths?)": of(),
    r"synthetic\.instances\..*|grid\..*": of(*BENCHMARKS),
    r"controller\.encoder": of(*EVERY, but=("layerwise", "mlp", "lstm")),
    r"controller\.features": of(*EVERY, but=OWN_FEATURES),
    r"controller\.controls": of(*EVERY, but=OWN_CONTROLS),
    r"controller\.(hidden|growth\..*)": of(*EVERY),
    r"controller\.ranges\.beta": of(*BENCHMARKS),
    r"controller\.ranges\..*": of(*BENCHMARKS, "portfolio", "opf"),
    r"controller\.envelope\..*": of("synthetic", "ablation", "dfl", "portfolio", "opf"),
    **{
        rf"recipes\.paper\.loss\.{weight}": of(
            "synthetic", "ablation", "dfl", "opf", recipe="paper", but=OWN_WEIGHT.get(weight, ())
        )
        for weight in ("eq", "con", "mov", "obj", "dom", "margin", "smooth")
    },
    r"recipes\.paper\.(epochs|batch)": of(*BENCHMARKS, "opf", recipe="paper"),
    r"recipes\.paper\..*": of("synthetic", "ablation", "dfl", "opf", recipe="paper"),
    r"recipes\.log_kkt\.loss\.gap": of("synthetic", "dfl", "portfolio", recipe="log_kkt"),
    r"recipes\.log_kkt\.loss\..*": of(
        "synthetic", "dfl", "dispatch", "portfolio", "opf", recipe="log_kkt"
    ),
    r"recipes\.log_kkt\.epochs": of("synthetic", recipe="log_kkt"),
    r"recipes\.log_kkt\.batch": of("synthetic", "dfl", recipe="log_kkt"),
    r"recipes\.log_kkt\.learning_rate": of(
        "synthetic", "dfl", "portfolio", recipe="log_kkt", but=OWN_RATE
    ),
    r"recipes\.log_kkt\..*": of("synthetic", "dfl", "portfolio", "opf", recipe="log_kkt"),
    r"timing\..*": of(*EVERY, kinds=("times",)),
    r"peers\..*": of(),
    r"ablation\.method": of("ablation"),
    r"ablation\.variants\.(?P<variant>\w+)\..*": None,  # that variant
    r"dfl\.(instances|grid|controller)\..*": of("dfl"),
    r"dfl\.training\.(?P<recipe>\w+)\..*": None,  # what is pretrained so
    r"dfl\.predictor\..*": of("dfl", kinds=("rows", "checkpoints"), but=LAYERS),
    r"dispatch\.(instances|grid|controller)\..*": of("dispatch"),
    r"dispatch\.reference": of("dispatch", kinds=("rows",)),
    r"dispatch\.training\.(?P<recipe>\w+)\..*": None,  # what is trained so
    r"portfolio\.(instances|grid|controller)\..*": of("portfolio"),
    r"portfolio\.training\.(?P<recipe>\w+)\..*": None,
    r"(?P<own>portfolio|opf)\.rates\..*": None,  # what has a rate of its own
    r"portfolio\.predictor\..*": of(
        "portfolio", kinds=("rows", "checkpoints"), but=(*PRETRAINED, "Simple", "Simple-Exact")
    ),
    r"opf\.(instances|grid|controller)\..*": of("opf"),
    r"opf\.training\.log_kkt\.learning_rate": of("opf", recipe="log_kkt", but=OWN_RATE),
    r"opf\.training\.(?P<recipe>\w+)\..*": None,
}


def depends_on(place):
    for form, depends in DEPENDS.items():
        if found := re.fullmatch(form, place):
            named = found.groupdict()
            if own := named.get("own"):
                return lambda kind, experiment, part: (
                    experiment == own and part.partition("@")[0] in OWN_RATE
                )
            if "variant" in named:
                return lambda kind, experiment, part: part == f"{named['variant']}@paper"
            return depends or of(place.partition(".")[0], recipe=named["recipe"])
    raise AssertionError(f"say in DEPENDS which results depend on {place}")


def leaves(values, place=()):
    if isinstance(values, dict):
        for key, value in values.items():
            yield from leaves(value, (*place, key))
    else:
        yield place, values


COMMON = {"controller": PLAN.config.controller.plain()}
HOME = {name: part for name, part in CONFIG.items() if name != "universes"}
LEAVES = dict(leaves(HOME | COMMON))
OTHER = {"gru": "lstm", "lstm": "mlp", "mlp": "gru", "schedule": "gru", "tuned": "base"}
OTHER |= {"RCDRS-Env": "RCDRS-NoEnv", "medium": "hard", "auto": "cpu"}
OTHER |= {"paper": "all", "all": "paper"}
OTHER |= {"first": "second", "second": "first", "one": "first", "base": "tuned"}
OTHER |= {"hard": "small", "small": "medium"}
OTHER |= dict.fromkeys(("RCDRS-MLP", "RCDRS-Glance", "RCDRS-Anderson"), "RCDRS-Env")
OTHER |= {"fair": "deep"}
#: Of what a universe asks for alone.
OTHER |= {"Grid-DRS": "F-DRS", "inequality": "printed", "Layerwise-DRS": "L-PDHG"}


def another(value):
    """A value of the same kind that is allowed in its place, too."""
    match value:
        case bool():
            return not value
        case [int() as first, int() as last]:  # years
            return [first + 1, last] if first < last else [first, last + 1]
        case int():
            return value + 1
        case float():
            return value + 0.01
        case str():
            return OTHER[value]
        case [int() | float() as first, *rest]:
            return [another(first) if isinstance(first, float) else 9, *rest]
        case [str() as only] if only in OTHER:
            return [OTHER[only]]
        case []:
            return ["rho"]
    return value[:-1]


@pytest.mark.parametrize("place", LEAVES, ids=".".join)
def test_setting_counts_where_it_matters_and_nowhere_else(place):
    changed = copy.deepcopy(CONFIG)
    section = changed
    for key in place[:-1]:
        section = section.setdefault(key, {})
    value = LEAVES[place]
    # Of each of these another setting asks for something.
    kept = place in (("portfolio", "methods"), ("portfolio", "extended"))
    section[place[-1]] = value[::-1] if kept else another(value)
    before, after = papers_parts(), parts_of(Plan.of(changed, ROOT))
    both = before.keys() & after.keys()
    depends = depends_on(".".join(place))
    assert {part for part in both if before[part] != after[part]} == {
        part for part in both if depends(*part)
    }


def test_every_leaf_that_is_changed_is_one_of_the_configuration():
    """And the other way round: sections fill nothing that is not said in one of these places."""
    written = PLAN.config.plain()
    assert written.pop("universes") == CONFIG["universes"]
    filled = {".".join(place) for place, _ in leaves(written)}
    assert {".".join(place) for place in LEAVES} | {"results"} <= filled
    extra = filled - {".".join(place) for place in LEAVES} - {"results"}
    taken = (
        r"\w+\.(grid|controller|training)\..*|ablation\.variants\..*|\w+\.predictor\.(cosine|final)"
    )
    assert all(re.fullmatch(taken, place) for place in extra)


def test_what_is_filled_counts_as_if_it_were_written():
    """A section that says what it would take from the common part changes nothing."""
    assert parts_of(Plan.of(PLAN.config.plain(), ROOT)) == papers_parts()


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return value


def test_digest_does_not_depend_on_the_order_of_a_configuration():
    """Snakemake and the command line merge files in different orders."""
    assert parts_of(Plan.of(reversed_keys(CONFIG), ROOT)) == papers_parts()


def test_result_of_an_unknown_variant_has_no_digests():
    key = Key("rows", "ablation", "socp-medium", 0, 10, "gone")
    assert PLAN.known_digests(key) == {}
    assert PLAN.known_digests(KEY) == PLAN.digests(KEY)


# Asking for more, or for less


#: A few settings of every experiment.
SMALL = {
    "run": "small",
    "seeds": [0, 1],
    "synthetic": {"families": ["socp"], "scales": ["medium", "hard"], "depths": [5, 10]},
    "ablation": {"families": ["socp"]},
    "dfl": {"depths": [5, 10]},
    "dispatch": {"depths": [5, 15]},
}
LESS = {
    "method": {
        "synthetic": {"methods": [m for m in CONFIG["synthetic"]["methods"] if m != "AA-DRS"]}
    },
    "learned": {
        "synthetic": {
            "methods": CONFIG["synthetic"]["methods"][:-1],
            "extended": CONFIG["synthetic"]["extended"][:-1],
        }
    },
    "recipe": {"synthetic": {"extended": ["RCDRS-NoEnv"]}},
    "scale": {"synthetic": {"scales": ["medium"]}},
    "depth": {"synthetic": {"depths": [10]}},
    "seed": {"seeds": [1]},
    "variant": {"ablation": {"rows": CONFIG["ablation"]["rows"][4:]}},
    "dfl method": {"dfl": {"methods": CONFIG["dfl"]["methods"][1:]}},
    "dfl recipe": {"dfl": {"extended": []}},
    "dfl exact": {"dfl": {"exact": ["PTO-Exact"]}},
    "dfl depth": {"dfl": {"depths": [5]}},
    "dispatch method": {"dispatch": {"methods": CONFIG["dispatch"]["methods"][1:]}},
    "dispatch recipe": {"dispatch": {"extended": []}},
    "dispatch depth": {"dispatch": {"depths": [15]}},
    "formulation": {"dispatch": {"formulations": ["inequality"]}},
}
#: Times stand side by side in one file.
TIMED = (
    "method",
    "learned",
    "depth",
    "dfl method",
    "dfl depth",
    "dispatch method",
    "dispatch depth",
)


def every_key(plan):
    for name, experiment in plan.experiments.items():
        for case in experiment.cases:
            for seed in plan.config.seeds:
                for K in experiment.depths:
                    for run in experiment.runs(case):
                        yield Key("rows", name, case, seed, K, *run)
                if name != "ablation":
                    yield Key("times", name, case, seed)


def released_from(plan, root):
    """A release of all that a plan asks for: files that only say which they are."""
    entries = {}
    for key in every_key(plan):
        path = root / "results/released" / key.released()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key.released())
        entry = entries.setdefault(key.released(), {"digests": {}})
        entry["digests"] |= plan.digests(key)
        entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    Released(root / "results/released", entries).write()


def small(root, *changes):
    config = merge(CONFIG, SMALL)
    for change in changes:
        config = merge(config, change)
    return Plan.of(config, root)


@pytest.mark.parametrize("what", LESS)
def test_other_results_stay_as_they_are(tmp_path, what):
    """A method, depth or seed that is added or removed concerns its own results alone."""
    less, more = small(tmp_path, LESS[what]), small(tmp_path)
    few, many = set(every_key(less)), set(every_key(more))
    assert few < many or what in TIMED
    for key in few:
        assert less.digests(key).items() <= more.digests(key).items()
        assert key.kind == "times" or less.digests(key) == more.digests(key)


@pytest.mark.parametrize("what", LESS)
def test_what_is_removed_leaves_the_rest_released(tmp_path, what):
    released_from(small(tmp_path), tmp_path)
    less = small(tmp_path, LESS[what])
    assert {less.state(key) for key in every_key(less)} == {"released"}
    names = {str(tmp_path / "results/released" / key.released()) for key in every_key(less)}
    assert set(less.results(every_key(less))) == names


@pytest.mark.parametrize("what", LESS)
def test_what_is_added_is_all_that_is_computed(tmp_path, what):
    """But of times, which are only compared as they were measured side by side."""
    less = small(tmp_path, LESS[what])
    released_from(less, tmp_path)
    more, known = small(tmp_path), set(every_key(less))
    new = {key for key in every_key(more) if key not in known}
    if what in TIMED:
        experiment = what.split()[0] if " " in what else "synthetic"
        new |= {key for key in known if key.kind == "times" and key.experiment == experiment}
    assert {key for key in every_key(more) if more.state(key) != "released"} == new
    found = more.results(every_key(more))
    computed = [path for path in found if path.startswith("results/small/")]
    assert set(computed) == {f"results/small/{key}" for key in new}
    assert found[-len(computed) :] == computed, "released first: later rows replace earlier ones"
    assert len(found) == len(set(found))


def test_greatest_depth_decides_what_dispatch_compares_with():
    """The long run takes its core; so a greater one concerns every row, but nothing else."""
    before, after = papers_parts(), parts_of(plan_of(dispatch={"depths": [5, 10, 15, 25]}))
    changed = {part for part in before if before[part] != after[part]}
    assert changed == {part for part in before if part[:2] == ("rows", "dispatch")}


# Released or computed


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with one computed result in it."""
    monkeypatch.chdir(tmp_path)
    plan = plan_of(tmp_path)
    rows = Path(plan.folder, KEY.path())
    rows.parent.mkdir(parents=True)
    rows.write_text("experiment,method,recipe,ObjErr\nsynthetic,RCDRS-Env,paper,0.5\n")
    note = rows.with_suffix(".origin.json")
    note.write_text(json.dumps(origin(plan.digests(KEY), "cpu")))
    return tmp_path


def released(checkout, plan=None):
    plan = plan or plan_of(checkout)
    return release(Path(plan.folder), checkout / "results/released", plan.key, plan.known_digests)


def test_result_is_computed_until_it_is_released(checkout):
    assert plan_of(checkout).result(KEY) == f"results/paper/{KEY}"
    assert plan_of(checkout).state(KEY) == "computed"
    assert released(checkout) == {"released": [KEY.path()], "unchanged": [], "stale": []}
    assert plan_of(checkout).result(KEY) == str(checkout / "results/released" / KEY.released())
    assert plan_of(checkout).state(KEY) == "released"
    assert released(checkout) == {"released": [], "unchanged": [KEY.path()], "stale": []}


def test_origin_is_that_of_the_file_that_is_used(checkout):
    note = plan_of(checkout).origin(KEY)
    assert note["digests"] == plan_of(checkout).digests(KEY)
    released(checkout)
    entry = plan_of(checkout).origin(KEY)
    assert {"sha256", "host", "torch"} <= entry.keys()
    assert plan_of(checkout, grid={"beta": [1.0]}).origin(KEY) == note


def test_computed_result_of_other_settings_is_stale(checkout):
    assert plan_of(checkout, grid={"beta": [1.0]}).state(KEY) == "stale"
    assert plan_of(checkout).state(KEY) == "computed"
    Path("results/paper", KEY.path()).unlink()
    assert plan_of(checkout).state(KEY) == "missing"


def test_computed_times_of_fewer_methods_still_hold(checkout):
    """As released ones do."""
    plan, key = plan_of(checkout), Key("times", "dfl", "dfl", 0)
    rows = Path(plan.folder, key.path())
    rows.parent.mkdir(parents=True)
    rows.write_text("method,time_ms\nPTO,0.5\n")
    rows.with_suffix(".origin.json").write_text(json.dumps(origin(plan.digests(key), "cpu")))
    assert plan.state(key) == "computed"
    assert plan_of(checkout, dfl={"methods": ["PTO"]}).state(key) == "computed"
    assert plan_of(checkout, dfl={"depths": [5, 10, 15, 20, 25]}).state(key) == "stale"


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
    assert (plan.result(KEY) == f"results/paper/{KEY}") is stale
    assert plan.released_states() == {"stale" if stale else "current": 1}


def test_released_results_can_be_ignored_or_insisted_on(checkout):
    with pytest.raises(StaleResult, match=f"{KEY} is missing in .*: leave out results=released"):
        plan_of(checkout, results="released").result(KEY)
    released(checkout)
    assert "released" in plan_of(checkout, results="released").result(KEY)
    assert plan_of(checkout, results="recompute").result(KEY) == f"results/paper/{KEY}"
    other = plan_of(checkout, results="released", grid={"beta": [1.0]})
    with pytest.raises(StaleResult, match=f"{KEY} is stale"):
        other.result(KEY)


def test_result_of_other_settings_is_not_released(checkout):
    told = released(checkout, plan_of(checkout, grid={"beta": [1.0]}))
    assert told == {"released": [], "unchanged": [], "stale": [KEY.path()]}


def test_what_is_never_released_is_missing(checkout):
    """Instances have no digests of their own, which must not pass for current ones."""
    released(checkout)
    for kind in ("instances", "cores", "references"):
        key = Key(kind, "synthetic", "socp-hard", 0, 20)
        assert plan_of(checkout).state(key) == "missing"
        assert plan_of(checkout).result(key) == f"results/paper/{key}"


def test_altered_release_is_an_error_that_names_it(checkout):
    released(checkout)
    path = checkout / "results/released" / KEY.released()
    path.write_text(path.read_text().replace("0.5", "0.4"))
    with pytest.raises(DamagedRelease, match=r"socp-hard-0-K20\.csv differs from its manifest"):
        plan_of(checkout).result(KEY)
    path.unlink()
    with pytest.raises(DamagedRelease, match="in the manifest but not there"):
        plan_of(checkout).result(KEY)


FORMER = '{"synthetic/socp-hard-0-K20.csv": {"sha256": "", "digest": {"code": ""}}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a manifest"),
        ("not json", "is not a manifest"),
        ("3", "is not a manifest"),
        ('{"files": {"a.csv": {}}, "verified": []}', "is not a manifest"),
        ('{"files": []}', "is not a manifest"),
        ("[1]", "is not a manifest .it holds list, expected files and verified"),
        (FORMER, "is a manifest of a former layout"),
    ],
)
def test_damaged_manifest_is_named_with_what_to_do(checkout, text, message):
    released(checkout)
    (checkout / "results/released" / MANIFEST).write_text(text)
    with pytest.raises(
        DamagedRelease, match=f"{MANIFEST} .*{message}.*git checkout -- results"
    ) as told:
        Released.read(checkout / "results/released")
    assert "\n" not in str(told.value)


def test_folder_that_is_no_checkout_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"is no checkout, it has no workflow/config/paper\.yaml"):
        Plan.read(tmp_path)


def test_values_of_a_command_line_are_typed():
    """Snakemake reads those inside of lists and sections as text."""
    found = Plan.of(
        CONFIG | {"seeds": ["0", "2"], "timing": {"warm_up": "1", "repeats": "2"}}, ROOT
    )
    assert found.config == check(CONFIG | {"seeds": [0, 2], "timing": {"warm_up": 1, "repeats": 2}})
