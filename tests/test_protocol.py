"""The configurations of the workflow: what they say, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from rcdrs.artifact.config import ConfigError, check, load, merge
from rcdrs.baselines.grid_drs import ALPHAS, BETAS, SCORED
from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.controller import CONTROLS, FEATURES, ControllerConfig, Envelope, Growth, Ranges
from rcdrs.controller.encoders import ENCODERS, SCHEDULE
from rcdrs.experiments.synthetic.instances import CASES, SIZES, find_case, generate
from rcdrs.experiments.synthetic.stages import make_recipe
from rcdrs.layer import BASE_ACTION
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.training.loop import RECIPES
from rcdrs.training.losses import LogKKTLoss, TerminalLoss

WORKFLOW = Path(__file__).parents[1] / "workflow"
SCHEMA = WORKFLOW / "schemas" / "config.schema.yaml"
PAPER, SMOKE = (WORKFLOW / "config" / name for name in ("paper.yaml", "smoke.yaml"))
config = load(PAPER, schema=SCHEMA)
rules = yaml.safe_load(SCHEMA.read_text())["$defs"]
VARIANTS = config["ablation"]["variants"]


# What the files say


def test_paper_is_valid_as_it_stands():
    assert config == yaml.safe_load(PAPER.read_text())


def test_smoke_over_paper_is_valid_and_differs_only_in_size():
    smoke = load(PAPER, SMOKE, schema=SCHEMA)
    changed = yaml.safe_load(SMOKE.read_text())
    assert smoke == merge(config, changed)
    assert smoke["run"] != config["run"]
    assert {key for key in config if smoke[key] != config[key]} == changed.keys()
    assert smoke["synthetic"]["methods"] == config["synthetic"]["methods"]
    rows = smoke["ablation"]["rows"]
    assert all(row in config["ablation"]["rows"] for row in rows)
    assert {row["main"] for row in rows} == {True, False}, "both tables have rows"
    for section in ("dfl", "dispatch"):
        assert set(smoke[section]["methods"]) <= set(config[section]["methods"])
        assert set(smoke[section]["depths"]) <= set(config[section]["depths"])


def test_merge_goes_section_by_section_and_replaces_lists():
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}
    before = copy.deepcopy(base)
    assert merge(base, {"a": {"c": [3]}, "d": 4, "f": 5}) == {
        "a": {"b": 1, "c": [3]},
        "d": 4,
        "f": 5,
    }
    assert base == before


def test_empty_file_changes_nothing(tmp_path):
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert load(PAPER, tmp_path / "empty.yaml", schema=SCHEMA) == config


# One truth: the library's defaults are the protocol's numbers


def test_instances_are_the_default_sizes():
    assert config["synthetic"]["instances"] == SIZES


def test_cases_are_all_cases():
    families, scales = config["synthetic"]["families"], config["synthetic"]["scales"]
    assert {f"{family}-{scale}" for family in families for scale in scales} <= CASES.keys()
    assert rules["scale"]["enum"] == scales


def test_new_family_needs_no_entry_elsewhere():
    """Only its cases: configuration and labels take any name that is no other experiment's."""
    part = merge(config, {"run": "lp", "synthetic": {"families": ["lp"]}})
    assert check(part, SCHEMA)["synthetic"]["families"] == ["lp"]
    assert FAMILIES["lp"] == "LP"


def test_methods_are_all_methods():
    assert config["synthetic"]["methods"] == rules["method"]["enum"] == list(METHODS)
    assert all(METHODS[name].learned for name in config["synthetic"]["extended"])
    assert METHODS[config["ablation"]["method"]].learned


def test_grid_is_the_default_grid():
    expected = {"alpha": list(ALPHAS), "beta": list(BETAS), "instances": SCORED}
    assert config["grid"] == expected


def test_base_action_is_the_default():
    assert tuple(config["base_action"][name] for name in CONTROLS) == BASE_ACTION


def test_controller_is_the_default():
    assert ControllerConfig.from_dict(config["controller"]) == ControllerConfig()
    written = config["controller"]
    assert written["encoder"] == ControllerConfig.encoder
    assert written["hidden"] == ControllerConfig.hidden
    assert {k: tuple(v) for k, v in written["ranges"].items()} == asdict(Ranges())
    assert written["envelope"] == asdict(Envelope())
    assert written["growth"] == asdict(Growth())


@pytest.mark.parametrize(("name", "loss"), [("paper", TerminalLoss), ("log_kkt", LogKKTLoss)])
def test_recipe_is_the_default(name, loss):
    written = config["recipes"][name]
    assert make_recipe(name, written) == (RECIPES[name], "tuned")
    assert written["loss"] == asdict(loss())
    assert written == asdict(RECIPES[name]) | {"reference": "tuned"}


def test_recipes_are_all_recipes():
    assert list(config["recipes"]) == list(RECIPES)


def test_schema_knows_the_names_of_the_library():
    controller = rules["controller"]["properties"]
    assert controller["encoder"]["enum"] == [*ENCODERS, SCHEDULE]
    assert controller["features"]["items"]["enum"] == list(FEATURES)
    assert controller["controls"]["items"]["enum"] == list(CONTROLS)
    assert controller.keys() == asdict(ControllerConfig()).keys()
    assert controller["envelope"]["properties"].keys() == asdict(Envelope()).keys()
    assert controller["ranges"]["properties"].keys() == asdict(Ranges()).keys()
    assert controller["growth"]["properties"].keys() == asdict(Growth()).keys()
    assert rules["terminal_loss"]["properties"].keys() == asdict(TerminalLoss()).keys()
    assert rules["log_kkt_loss"]["properties"].keys() == asdict(LogKKTLoss()).keys()


# The ablation


def test_ablation_has_twenty_rows_of_seventeen_variants():
    rows = config["ablation"]["rows"]
    assert len(rows) == 20
    assert {row["variant"] for row in rows} == VARIANTS.keys()
    assert len(VARIANTS) == 17
    assert len({(row["group"], row["label"]) for row in rows}) == 20
    assert len({repr(variant) for variant in VARIANTS.values()}) == 17


def test_no_two_variants_train_the_same_thing():
    made = [(str(controller(name)), str(recipe(name))) for name in VARIANTS]
    assert len(set(made)) == 17
    assert made[list(VARIANTS).index("full")] == (str(ControllerConfig()), str(RECIPES["paper"]))


def controller(variant):
    changes = VARIANTS[variant].get("controller", {})
    return ControllerConfig.from_dict(config["controller"] | changes)


def recipe(variant):
    written = config["recipes"]["paper"]
    return make_recipe("paper", merge(written, {"loss": VARIANTS[variant].get("loss", {})}))[0]


@pytest.fixture(scope="module")
def data():
    return generate("socp-small", 0, {"train": 2, "validation": 1, "test": 1})


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_builds_a_layer_with_a_loss(data, variant):
    changed = config["controller"] | VARIANTS[variant].get("controller", {})
    method = find_method(config["ablation"]["method"])
    layer = method.build(data.A, data.case.cone, 2, (1.6, 1.0), changed)
    assert layer.controller.config == controller(variant)
    solution = layer.solve(data.train.program)
    assert recipe(variant).loss(solution, solution.observation).isfinite().all()


def test_ablated_cases_exist():
    ablation = config["ablation"]
    for family in ablation["families"]:
        assert find_case(f"{family}-{ablation['scale']}").family == family


# What is refused


def changed(path, value):
    """The paper's configuration with one place changed; the path is a list of keys."""
    other = copy.deepcopy(config)
    place = other
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return other


def refusal(other):
    with pytest.raises(ConfigError) as caught:
        check(other, SCHEMA)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        # another type
        (["seeds"], 3, "seeds is 3, expected array"),
        (["threads"], "two", "threads is 'two', expected integer"),
        (["threads"], True, "threads is True, expected integer"),
        (["controller", "hidden"], 6.5, "controller.hidden is 6.5, expected integer"),
        (["recipes", "paper", "cosine"], 1, "recipes.paper.cosine is 1, expected boolean"),
        # 1e-3 without a point is text in YAML 1.1
        (
            ["recipes", "paper", "learning_rate"],
            yaml.safe_load("1e-3"),
            "recipes.paper.learning_rate is '1e-3', expected number",
        ),
        (["controller", "envelope"], None, "controller.envelope is None, expected object"),
        # out of range
        (["synthetic", "depths"], [5, 0], "synthetic.depths[1] is 0, expected at least 1"),
        (["ablation", "depth"], 0, "ablation.depth is 0, expected at least 1"),
        (["seeds"], [-1], "seeds[0] is -1, expected at least 0"),
        (["grid", "alpha"], [1.0, 2.5], "grid.alpha[1] is 2.5, expected less than 2"),
        (["grid", "beta", 0], 0, "grid.beta[0] is 0, expected more than 0"),
        (["base_action", "alpha"], 1.5, "base_action.alpha is 1.5, expected 1.6"),
        (
            ["recipes", "paper", "loss", "eq"],
            -1,
            "recipes.paper.loss.eq is -1, expected at least 0",
        ),
        (["controller", "envelope", "p"], 1, "controller.envelope.p is 1, expected more than 1"),
        # another name
        (
            ["synthetic", "families"],
            ["qp", "dfl"],
            "synthetic.families[1] is 'dfl': 'dfl' does not match",
        ),
        (
            ["synthetic", "scales", 0],
            "huge",
            "synthetic.scales[0] is 'huge', expected one of small, medium, hard",
        ),
        (["device"], "tpu", "device is 'tpu', expected one of auto, cpu, cuda"),
        (
            ["recipes", "paper", "reference"],
            "Tuned",
            "recipes.paper.reference is 'Tuned', expected one of base, tuned",
        ),
        (
            ["controller", "encoder"],
            "cnn",
            "controller.encoder is 'cnn', expected one of gru, lstm, mlp, schedule",
        ),
        (
            ["synthetic", "methods", 0],
            "DRS",
            f"synthetic.methods[0] is 'DRS', expected one of {', '.join(METHODS)}",
        ),
        (
            ["ablation", "rows", 4, "variant"],
            "fixed",
            f"ablation.rows[4].variant is 'fixed', expected one of {', '.join(VARIANTS)}",
        ),
        # unknown keys
        (["seed"], 0, "unknown key 'seed', expected run, device, results, seeds, threads"),
        (["grid", "gamma"], [1], "grid: unknown key 'gamma', expected alpha, beta, instances"),
        (
            ["ablation", "variants", "full", "controler"],
            {},
            "ablation.variants.full: unknown key 'controler', expected controller, loss",
        ),
        (
            ["recipes", "quick"],
            {},
            "recipes: unknown key 'quick', expected paper, log_kkt",
        ),
    ],
)
def test_bad_value_is_named_with_what_is_allowed(path, value, message):
    assert message in refusal(changed(path, value))


@pytest.mark.parametrize("section", config)
def test_missing_section_is_named(section):
    rest = {key: value for key, value in config.items() if key != section}
    assert f"the configuration: '{section}' is a required property" in refusal(rest)


def test_missing_key_is_named_with_its_section():
    other = copy.deepcopy(config)
    del other["synthetic"]["instances"]["test"]
    assert "synthetic.instances: 'test' is a required property" in refusal(other)


def test_several_bad_values_are_named_at_once():
    message = refusal(changed(["threads"], 0) | {"device": "tpu"})
    assert "device is 'tpu'" in message
    assert "threads is 0" in message


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["seeds"], [], "seeds is []"),
        (["seeds"], [1, 1], "seeds is [1, 1]"),
        (["run"], "../paper", "run is '../paper'"),
        (["controller", "ranges", "rho"], [1.0], "controller.ranges.rho is [1.0]"),
    ],
)
def test_other_rules_name_the_place(path, value, message):
    assert message in refusal(changed(path, value))


def test_file_that_is_not_yaml_is_named(tmp_path):
    (tmp_path / "odd.yaml").write_text("seeds: [0, 1\nrun: a")
    with pytest.raises(ConfigError, match=r"odd\.yaml is not YAML"):
        load(PAPER, tmp_path / "odd.yaml", schema=SCHEMA)


def test_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.yaml"):
        load(PAPER, tmp_path / "no.yaml", schema=SCHEMA)


@pytest.mark.parametrize("text", ["paper", "[1, 2]", "3"])
def test_file_without_sections_is_named(tmp_path, text):
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"odd\.yaml"):
        load(PAPER, tmp_path / "odd.yaml", schema=SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["recipes", "paper", "learning_rate"], float("nan")),
        (["grid", "beta", 0], float("inf")),
        (["controller", "ranges", "alpha"], [0.2, 2.5]),
        (["controller", "ranges", "beta"], [1.0, 0.1]),
        (["recipes", "paper", "loss", "dual"], 1.0),
        (["synthetic", "extended"], ["F-DRS"]),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_value_that_no_stage_can_use_is_refused(path, value):
    assert path[-1 if isinstance(path[-1], str) else -2] in refusal(changed(path, value))
