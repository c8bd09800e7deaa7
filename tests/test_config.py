"""The configurations of the workflow: what they say, and what is refused."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from snakemake.exceptions import WorkflowError

from rcdrs import controller as standard
from rcdrs.artifact.config import ConfigError, check, load, model
from rcdrs.artifact.hooks import plan_of
from rcdrs.artifact.key import PARTS
from rcdrs.baselines import grid_drs
from rcdrs.baselines.registry import METHODS, find_method
from rcdrs.cli.main import main
from rcdrs.controller import (
    CONTROLS,
    FEATURES,
    SCHEDULE,
    ControllerConfig,
    Envelope,
    Growth,
    Ranges,
)
from rcdrs.controller.encoders import ENCODERS
from rcdrs.experiments import settings
from rcdrs.experiments.ablation.experiment import Ablations
from rcdrs.experiments.base import Run, experiments
from rcdrs.experiments.dfl import data as decisions
from rcdrs.experiments.dfl import experiment as dfl
from rcdrs.experiments.dfl import methods as dfl_methods
from rcdrs.experiments.dfl import stages as dfl_stages
from rcdrs.experiments.dispatch import experiment as dispatch
from rcdrs.experiments.dispatch import methods as dispatch_methods
from rcdrs.experiments.dispatch import scenarios
from rcdrs.experiments.dispatch.model import FORMULATIONS
from rcdrs.experiments.settings import Controlled, Controller, Scale, merge
from rcdrs.experiments.synthetic.experiment import Method
from rcdrs.experiments.synthetic.instances import CASES, find_case, generate
from rcdrs.experiments.synthetic.layers import LOSSES, lesson
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.render import LATEX
from rcdrs.training.loop import Recipe
from rcdrs.training.losses import LogKKTLoss, TerminalLoss

WORKFLOW = Path(__file__).parents[1] / "workflow"
PAPER, SMOKE = (WORKFLOW / "config" / name for name in ("paper.yaml", "smoke.yaml"))
#: As it is written, and what it says.
written = yaml.safe_load(PAPER.read_text())
config = load(PAPER)
VARIANTS = config.ablation.variants


# What the files say


def test_paper_is_valid_and_filled():
    """What a section leaves out is the common part's, and what that does the library's."""
    assert merge(config.plain(), written) == config.plain()
    assert check(config.plain()) == config
    assert config.controller == Controller()
    assert config.synthetic.grid == config.grid
    assert config.synthetic.controller == config.controller
    assert config.dfl.training.paper == config.recipes.paper.but(epochs=80, batch=2500)
    assert config.dfl.training.log_kkt == config.recipes.log_kkt.but(epochs=12)
    ranges = config.dfl.controller.ranges
    assert ranges.plain() == written["dfl"]["controller"]["ranges"]
    assert config.dfl.controller == config.controller.but(ranges=ranges)
    assert VARIANTS["full"].controller == config.controller
    assert VARIANTS["full"].loss == config.recipes.paper.loss
    assert VARIANTS["mlp"].controller == config.controller.but(encoder="mlp")
    assert VARIANTS["no_objective"].loss == config.recipes.paper.loss.but(obj=0.0)


def test_smoke_over_paper_is_valid_and_differs_only_in_size():
    smoke = load(PAPER, SMOKE)
    changed = yaml.safe_load(SMOKE.read_text())
    assert smoke == check(merge(written, changed))
    assert smoke.run != config.run
    before, after = config.plain(), smoke.plain()
    assert {key for key in before if after[key] != before[key]} == changed.keys()
    assert smoke.synthetic.methods == config.synthetic.methods
    rows = smoke.ablation.rows
    assert all(row in config.ablation.rows for row in rows)
    assert {row.main for row in rows} == {True, False}, "both tables have rows"
    assert smoke.universes.keys() == config.universes.keys()
    for section in ("dfl", "dispatch"):
        ours, paper = getattr(smoke, section), getattr(config, section)
        assert set(ours.methods) <= set(paper.methods)
        assert set(ours.depths) <= set(paper.depths)


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
    assert load(PAPER, tmp_path / "empty.yaml") == config


def test_no_value_can_be_set_by_mistake():
    with pytest.raises(ValueError, match="frozen"):
        config.grid.instances = 3


# One truth: the library has no second copy of the protocol's numbers


def defaults(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }


@pytest.mark.parametrize("loss", [TerminalLoss, LogKKTLoss])
def test_losses_have_no_weights_of_their_own(loss):
    assert defaults(loss) == {}


def test_recipe_has_no_numbers_of_its_own():
    """But that a learning rate is constant unless it is said to decay, and the depth a layer's."""
    assert defaults(Recipe) == {"cosine": False, "final": 0.0, "depths": ()}
    fields = settings.Schedule.model_fields
    given = {n: f.default for n, f in fields.items() if not f.is_required()}
    assert given == defaults(Recipe) | {"depths": []}
    assert list(fields) == [field.name for field in dataclasses.fields(Recipe)][1:]


@pytest.mark.parametrize("select", [grid_drs.select_core, dispatch_methods.select_core])
def test_grid_stands_in_the_configuration_alone(select):
    assert not defaults(select).keys() & {"depth", "alphas", "betas", "scored"}


@pytest.mark.parametrize("draw", [generate, decisions.generate, scenarios.generate])
def test_sizes_stand_in_the_configuration_alone(draw):
    assert not defaults(draw).keys() & {"seed", "sizes"}


def test_numbers_of_the_common_controller_stand_in_the_library_alone():
    assert not written.keys() & {"controller", "base_action"}
    assert ControllerConfig.from_dict(config.controller.plain()) == ControllerConfig()
    assert config.controller.plain().keys() == ControllerConfig().to_dict().keys()
    for part, kind in (("envelope", Envelope), ("growth", Growth), ("ranges", Ranges)):
        filled = getattr(config.controller, part).plain()
        assert {k: tuple(v) if isinstance(v, list) else v for k, v in filled.items()} == (
            dataclasses.asdict(kind())
        )


@pytest.mark.parametrize(
    ("weights", "loss"),
    [(settings.TerminalWeights, TerminalLoss), (settings.LogKKTWeights, LogKKTLoss)],
)
def test_weights_are_those_of_the_loss(weights, loss):
    assert list(weights.model_fields) == [field.name for field in dataclasses.fields(loss)]


def names(annotation):
    """The names that a field of the configuration may have, in a list or alone."""
    inner = get_args(annotation)
    return names(inner[0]) if inner and not isinstance(inner[0], str) else list(inner)


def test_names_of_methods_are_the_registries():
    """They are written again, to stay free of torch."""
    controlled = [name for name, method in METHODS.items() if method.make is None]
    assert names(Method) == list(METHODS)
    # Ours are no methods of the paper's tables.
    ours = ("Anderson-DRS", *(f"RCDRS-{name}" for name in ("MLP", "Light", "Glance", "Anderson")))
    assert config.synthetic.methods == [name for name in METHODS if name not in ours]
    assert names(Controlled) == controlled
    assert names(Ablations.model_fields["method"].annotation) == controlled
    learned = experiments()["synthetic"].learned
    assert list(learned) == [name for name, method in METHODS.items() if method.learned]


def test_names_of_decision_methods_are_the_registries():
    known = dfl_methods.DECISION_METHODS
    assert [name for name in names(dfl.Method) if name != "Anderson-DRS"] == config.dfl.methods
    assert set(names(dfl.Method)) == set(known)
    assert set(names(dfl.Controlled)) == {name for name, found in known.items() if found.controlled}
    assert list(dfl.SOLVED) == [f"{name}{dfl.EXACT}" for name in names(dfl.Method)]
    assert set(dfl_stages.METHODS) == {*known, *dfl.SOLVED}
    assert set(dfl.LAYERS) == {method.layer for method in known.values() if method.controlled}
    for name, method in known.items():
        layer = Run(method.layer) if method.controlled else None
        assert dfl.Experiment.start(Run(name)) == layer


def test_names_of_dispatch_methods_and_formulations_are_the_registries():
    known = dispatch_methods.METHODS
    section = dispatch.Section.model_fields
    learned = [name for name, method in known.items() if method.learned]
    assert names(dispatch.Method) == list(known)
    assert [name for name in known if name != "Anderson-DRS"] == config.dispatch.methods
    assert names(section["extended"].annotation) == learned == list(dispatch.Experiment.learned)
    assert names(section["formulations"].annotation) == list(FORMULATIONS)
    assert dispatch.SOLVABLE in {f"dispatch-{name}" for name in FORMULATIONS}


def test_names_of_controllers_are_the_registries():
    fields = Controller.model_fields
    assert names(fields["encoder"].annotation) == [*ENCODERS, SCHEDULE]
    assert list(standard.ENCODERS) == list(ENCODERS)
    assert names(fields["features"].annotation) == list(FEATURES)
    assert names(fields["controls"].annotation) == list(CONTROLS)


def test_recipes_are_all_recipes():
    assert list(settings.Recipes.model_fields) == list(LOSSES) == list(written["recipes"])


def test_cases_are_all_cases():
    section = config.synthetic
    cases = {f"{family}-{scale}" for family in section.families for scale in section.scales}
    assert cases <= CASES.keys()
    assert names(Scale) == section.scales


def test_new_family_needs_no_entry_elsewhere():
    """Only its cases: configuration and labels take any name that is no other experiment's."""
    part = merge(written, {"run": "lp", "synthetic": {"families": ["lp"]}})
    assert check(part).synthetic.families == ["lp"]
    assert FAMILIES["lp"] == "LP"


# The ablation


def test_ablation_has_twenty_rows_of_seventeen_variants():
    rows = config.ablation.rows
    assert len(rows) == 20
    assert {row.variant for row in rows} == VARIANTS.keys()
    assert len(VARIANTS) == 17
    assert len({(row.group, row.label) for row in rows}) == 20


def test_no_two_variants_train_the_same_thing():
    assert len({repr(variant) for variant in VARIANTS.values()}) == 17
    experiment = experiments()["ablation"](config)
    made = [str(experiment.training(Run(name))) for name in VARIANTS]
    assert len(set(made)) == 17
    full = experiment.training(Run("full"))
    assert full["controller"] == config.controller.plain()
    assert full["recipe"] == config.recipes.paper.plain()


@pytest.fixture(scope="module")
def data():
    return generate("socp-small", 0, {"train": 2, "validation": 1, "test": 1})


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_builds_a_layer_with_a_loss(data, variant):
    told = experiments()["ablation"](config).training(Run(variant))
    method = find_method(config.ablation.method)
    layer = method.build(data.A, data.case.cone, 2, (1.6, 1.0), told["controller"])
    assert layer.controller.config == ControllerConfig.from_dict(
        VARIANTS[variant].controller.plain()
    )
    solution = layer.solve(data.train.program)
    made = lesson(data, Run(variant), (1.6, 1.0), told)
    assert made.recipe.loss == TerminalLoss(**VARIANTS[variant].loss.plain())
    assert made.recipe.loss(solution, solution.observation).isfinite().all()


def test_ablated_cases_exist():
    for family in config.ablation.families:
        assert find_case(f"{family}-{config.ablation.scale}").family == family


# What is refused


def changed(path, value):
    """The paper's configuration with one place changed; the path is a list of keys."""
    other = copy.deepcopy(written)
    place = other
    for key in path[:-1]:
        place = place[key] if isinstance(place, list) else place.setdefault(key, {})
    place[path[-1]] = value
    return other


def refusal(other):
    with pytest.raises(ConfigError) as caught:
        check(other)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        # another type
        (["seeds"], 3, "seeds is 3, expected a list"),
        (["seeds"], {"first": 0}, "seeds is {'first': 0}, expected a list"),
        (["threads"], "two", "threads is 'two', expected an integer"),
        (["threads"], True, "threads is True, expected an integer"),
        (["run"], 3, "run is 3, expected text"),
        (["controller", "hidden"], 6.5, "controller.hidden is 6.5, expected an integer"),
        (["recipes", "paper", "cosine"], 1, "recipes.paper.cosine is 1, expected true or false"),
        # 1e-3 without a point is text in YAML 1.1
        (
            ["recipes", "paper", "learning_rate"],
            yaml.safe_load("1e-3"),
            "recipes.paper.learning_rate is '1e-3', expected a number",
        ),
        (["controller", "envelope"], None, "controller.envelope is None, expected a section of"),
        (["recipes"], None, "recipes is None, expected a section of settings"),
        (["recipes", "paper"], [], "recipes.paper is [], expected a section of settings"),
        (["dfl"], [], "dfl is [], expected a section of settings"),
        (["dfl", "training", "paper"], 3, "dfl.training.paper is 3, expected a section of"),
        (["dispatch", "grid"], None, "dispatch.grid is None, expected a section of settings"),
        (["ablation", "variants"], [], "ablation.variants is [], expected a section of settings"),
        (["ablation", "variants", "full"], None, "ablation.variants.full is None, expected a"),
        (["ablation", "rows"], {}, "ablation.rows is {}, expected a list"),
        (["ablation", "rows", 0, "label"], 3, "ablation.rows[0].label is 3, expected text"),
        # seeds are small integers
        (["seeds"], [-1], "seeds[0] is -1, expected at least 0"),
        (["seeds"], [0, 1.0], "seeds[1] is 1.0, expected an integer"),
        (["seeds"], [1.5], "seeds[0] is 1.5, expected an integer"),
        (["seeds"], [True], "seeds[0] is True, expected an integer"),
        (["seeds"], [2**40], "seeds[0] is 1099511627776, expected less than 2147483648"),
        (["seeds"], ["0"], "seeds[0] is '0', expected an integer"),
        (["seeds"], [None], "seeds[0] is None, expected an integer"),
        (["seeds"], [[0]], "seeds[0] is [0], expected an integer"),
        # out of range
        (["synthetic", "depths"], [5, 0], "synthetic.depths[1] is 0, expected at least 1"),
        (["ablation", "depth"], 0, "ablation.depth is 0, expected at least 1"),
        (["timing", "repeats"], 0, "timing.repeats is 0, expected at least 1"),
        (["dispatch", "reference"], 0, "dispatch.reference is 0, expected at least 1"),
        (["grid", "alpha"], [1.0, 2.5], "grid.alpha[1] is 2.5, expected less than 2"),
        (["grid", "beta", 0], 0, "grid.beta[0] is 0, expected more than 0"),
        (
            ["recipes", "paper", "loss", "eq"],
            -1,
            "recipes.paper.loss.eq is -1, expected at least 0",
        ),
        (["recipes", "paper", "final"], 1, "recipes.paper.final is 1, expected less than 1"),
        (["controller", "envelope", "p"], 1, "controller.envelope.p is 1, expected more than 1"),
        (["controller", "growth", "rho"], 0.5, "controller.growth.rho is 0.5, expected at least 1"),
        (["dfl", "controller", "hidden"], 0, "dfl.controller.hidden is 0, expected at least 1"),
        (
            ["ablation", "variants", "full", "loss"],
            {"eq": -1},
            "ablation.variants.full.loss.eq is -1, expected at least 0",
        ),
        (
            ["recipes", "paper", "learning_rate"],
            float("nan"),
            "recipes.paper.learning_rate is nan, expected a finite number",
        ),
        (["grid", "beta", 0], float("inf"), "grid.beta[0] is inf, expected a finite number"),
        (
            ["controller", "ranges", "alpha"],
            [0.2, 2.5],
            "controller.ranges.alpha[1] is 2.5, expected less than 2",
        ),
        (
            ["controller", "ranges", "beta"],
            [1.0, 0.1],
            "controller.ranges.beta is [1.0, 0.1], expected low < high",
        ),
        # another name
        (
            ["synthetic", "families"],
            ["qp", "dfl"],
            "synthetic.families[1] is 'dfl', expected a name that is not another experiment's",
        ),
        (["ablation", "families"], ["dispatch"], "ablation.families[0] is 'dispatch', expected a"),
        (["synthetic", "families"], ["QP"], "synthetic.families[0] is 'QP', expected a name that"),
        (["synthetic", "families"], ["a-b"], "synthetic.families[0] is 'a-b', expected a name"),
        (
            ["synthetic", "scales", 0],
            "huge",
            "synthetic.scales[0] is 'huge', expected one of small, medium, hard",
        ),
        (["ablation", "scale"], "huge", "ablation.scale is 'huge', expected one of small, medium"),
        (["device"], "tpu", "device is 'tpu', expected one of auto, cpu, cuda"),
        (["results"], "old", "results is 'old', expected one of auto, recompute, released"),
        (
            ["recipes", "paper", "reference"],
            "Tuned",
            "recipes.paper.reference is 'Tuned', expected one of base, tuned",
        ),
        (
            ["controller", "encoder"],
            "cnn",
            "controller.encoder is 'cnn', expected one of gru, lstm, mlp, direct, schedule",
        ),
        (
            ["synthetic", "methods", 0],
            "DRS",
            f"synthetic.methods[0] is 'DRS', expected one of {', '.join(METHODS)}",
        ),
        (
            ["synthetic", "extended"],
            ["F-DRS"],
            "synthetic.extended[0] is 'F-DRS', expected one of L-PDHG, Layerwise-DRS, RCDRS-Env",
        ),
        (["dfl", "exact"], ["PTO"], "dfl.exact[0] is 'PTO', expected one of PTO-Exact, F-DRS-Ex"),
        (
            ["dispatch", "formulations"],
            ["other"],
            "dispatch.formulations[0] is 'other', expected one of printed, turned, inequality",
        ),
        (
            ["ablation", "rows", 4, "variant"],
            "fixed",
            f"ablation.rows[4].variant is 'fixed', expected one of {', '.join(VARIANTS)}",
        ),
        (["run"], "../paper", "run is '../paper', expected a name that matches [A-Za-z0-9_-]+"),
        (["run"], "smoke\n", r"run is 'smoke\n', expected a name that matches [A-Za-z0-9_-]+"),
        (["run"], "", "run is '', expected a name that matches [A-Za-z0-9_-]+"),
        (
            ["ablation", "variants", "a/b"],
            {},
            "ablation.variants['a/b'] is 'a/b', expected a name that matches [a-z_]+",
        ),
        (["ablation", "variants", "a b"], {}, "ablation.variants['a b'] is 'a b', expected a name"),
        (["ablation", "variants", "Full"], {}, "ablation.variants.Full is 'Full', expected a name"),
        (["ablation", "variants", "a\n"], {}, r"ablation.variants['a\n'] is 'a\n', expected a na"),
        (["ablation", "variants", 3], {}, "ablation.variants[3] is 3, expected text"),
        (["run"], "x" * 81, f"run is '{'x' * 37}...{'x' * 38}', expected 80 or fewer letters"),
        (["run"], "Released", "run is 'Released', expected another name: released results are"),
        (["synthetic", "families"], ["q\n"], r"synthetic.families[0] is 'q\n', expected a name"),
        (["ablation", "rows", 0, "variant"], "a/b", "ablation.rows[0].variant is 'a/b', expected"),
        (
            ["ablation", "rows", 0, "label"],
            "a\nb",
            r"ablation.rows[0].label is 'a\nb', expected text without control characters",
        ),
        # too large
        (["threads"], 10**6, "threads is 1000000, expected at most 1024"),
        (["synthetic", "depths"], [10**9], "synthetic.depths[0] is 1000000000, expected at most 1"),
        (["synthetic", "depths"], [True], "synthetic.depths[0] is True, expected an integer"),
        (["ablation", "depth"], 10**5, "ablation.depth is 100000, expected at most 10000"),
        (["timing", "repeats"], 2**31, "timing.repeats is 2147483648, expected less than 214748"),
        (["seeds"], list(range(10**5 - 99)), "the configuration has more than 100,000 values."),
        (["seeds"], [[0] * 99], "seeds[0] is [0, 0, 0, 0, 0, 0, ...], expected an integer"),
        # too few entries, or one twice
        (["seeds"], [], "seeds is [], expected 1 or more entries"),
        (["seeds"], [1, 1], "seeds is [1, 1], expected each entry once"),
        (["synthetic", "depths"], [5, 5], "synthetic.depths is [5, 5], expected each entry once"),
        (["synthetic", "methods"], ["F-DRS"] * 2, "synthetic.methods is ['F-DRS', 'F-DRS'], expec"),
        (["dfl", "exact"], ["PTO-Exact"] * 2, "dfl.exact is ['PTO-Exact', 'PTO-Exact'], expected"),
        (["grid", "alpha"], [1.0, 1.0], "grid.alpha is [1.0, 1.0], expected each entry once"),
        (["controller", "features"], [], "controller.features is [], expected 1 or more entries"),
        (
            ["controller", "controls"],
            ["rho"] * 2,
            "controller.controls is ['rho', 'rho'], expected",
        ),
        (
            ["controller", "ranges", "rho"],
            [1.0],
            "controller.ranges.rho is [1.0], expected 2 or more entries",
        ),
        (
            ["controller", "ranges", "rho"],
            [1.0, 2.0, 3.0],
            "controller.ranges.rho is [1.0, 2.0, 3.0], expected 2 or fewer entries",
        ),
        # unknown keys, at every level
        (["seed"], 0, "unknown key 'seed', expected run, device, results, seeds, threads"),
        (["base_action"], {"alpha": 1.5}, "unknown key 'base_action', expected run, device"),
        (["grid", "gamma"], [1], "grid: unknown key 'gamma', expected alpha, beta, instances"),
        (["recipes", "quick"], {}, "recipes: unknown key 'quick', expected paper, log_kkt"),
        (
            ["recipes", "paper", "lr"],
            0.1,
            "recipes.paper: unknown key 'lr', expected epochs, batch, learning_rate, weight_decay",
        ),
        (
            ["recipes", "paper", "loss", "dual"],
            1.0,
            "recipes.paper.loss: unknown key 'dual', expected eq, con, mov, obj, dom, margin",
        ),
        (["recipes", "log_kkt", "reference"], "base", "recipes.log_kkt: unknown key 'reference'"),
        (["controller", "width"], 3, "controller: unknown key 'width', expected encoder, hidden"),
        (
            ["controller", "envelope", "q"],
            1,
            "controller.envelope: unknown key 'q', expected delta_0, k_0, p, s_alpha",
        ),
        (["controller", "ranges", "gamma"], [1, 2], "controller.ranges: unknown key 'gamma', exp"),
        (["controller", "growth", "alpha"], 2, "controller.growth: unknown key 'alpha', expected "),
        (["timing", "warmup"], 1, "timing: unknown key 'warmup', expected warm_up, repeats"),
        (["synthetic", "scale"], "hard", "synthetic: unknown key 'scale', expected depths"),
        (
            ["synthetic", "instances", "tests"],
            1,
            "synthetic.instances: unknown key 'tests', expected train, validation, test",
        ),
        (["dfl", "grid", "gamma"], [1], "dfl.grid: unknown key 'gamma', expected alpha, beta, in"),
        (["dfl", "training", "quick"], {}, "dfl.training: unknown key 'quick', expected paper, lo"),
        (["dfl", "predictor", "loss"], {}, "dfl.predictor: unknown key 'loss', expected epochs"),
        (
            ["dispatch", "training", "paper", "loss"],
            {},
            "dispatch.training.paper: unknown key 'loss', expected epochs, batch",
        ),
        (["ablation", "scales"], ["hard"], "ablation: unknown key 'scales', expected families"),
        (
            ["ablation", "rows", 0, "bold"],
            True,
            "ablation.rows[0]: unknown key 'bold', expected group, label, variant, main",
        ),
        (
            ["ablation", "variants", "full", "controler"],
            {},
            "ablation.variants.full: unknown key 'controler', expected controller, loss",
        ),
        (
            ["ablation", "variants", "full", "loss"],
            {"gap": 1.0},
            "ablation.variants.full.loss: unknown key 'gap', expected eq, con, mov, obj",
        ),
    ],
)
def test_bad_value_is_named_with_what_is_allowed(path, value, message):
    found = refusal(changed(path, value))
    assert found.startswith(message)
    assert "\n" not in found


#: These have a default: the second edition, and no other readings.
OPTIONAL = ("sampling", "tables", "universes")


@pytest.mark.parametrize("section", [name for name in written if name not in OPTIONAL])
def test_missing_section_is_named(section):
    rest = {key: value for key, value in written.items() if key != section}
    assert refusal(rest) == f"the configuration: '{section}' is a required property"


def test_missing_key_is_named_with_its_section():
    other = copy.deepcopy(written)
    del other["synthetic"]["instances"]["test"]
    assert "synthetic.instances: 'test' is a required property" in refusal(other)


def test_several_bad_values_are_named_at_once():
    message = refusal(changed(["threads"], 0) | {"device": "tpu"})
    assert "device is 'tpu'" in message
    assert "threads is 0" in message


def test_bad_common_value_is_named_once():
    """Though the sections that take it have it, too."""
    assert refusal(changed(["controller", "hidden"], 0)).count("expected") == 1


@pytest.mark.parametrize("label", ["alpha+beta", "a{b}", r"\beta & 3 %", "MLP_2"])
def test_label_may_hold_anything(label):
    """Tables escape it."""
    other = check(changed(["ablation", "rows", 0, "label"], label))
    assert other.ablation.rows[0].label == label
    assert "{" not in LATEX.text("a{b}").replace(r"\{", "")


def test_key_that_is_no_text_is_named():
    assert "3" in refusal(written | {3: 1})


def test_file_that_is_not_yaml_is_named(tmp_path):
    (tmp_path / "odd.yaml").write_text("seeds: [0, 1\nrun: a")
    with pytest.raises(ConfigError, match=r"odd\.yaml is not YAML"):
        load(PAPER, tmp_path / "odd.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"run: a\ndfl:\n  depths: [5]\n  depths: [9]\n",
            ", line 4: 'depths' is there twice.",
        ),
        (b"run: a\nseeds: [0]\nrun: b\n", ", line 3: 'run' is there twice."),
        (b"run: a\nsynthetic:\n\tdepths: [5]\n", ", line 3: found character"),
        (b"run: r\xe4po\n", ": 'utf-8' codec can't decode byte 0xe4"),
        (b"run: \x00\n", ": unacceptable character"),
        (b"run: !!python/object/apply:os.getcwd []", ", line 1: could not determine a constructor"),
        (b"seeds: [" + b"1" * 5000 + b"]", ": Exceeds the limit"),
        (b"seeds: " + b"[" * 5000, ": maximum recursion depth exceeded"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_in_a_line(tmp_path, text, message):
    (tmp_path / "odd.yaml").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        load(PAPER, tmp_path / "odd.yaml")
    told = str(caught.value)
    assert told.startswith(f"{tmp_path}/odd.yaml is not YAML{message}")
    assert "\n" not in told


def nested(name, first, level):
    """Ten of the level before on each: a page of text that stands for billions of values."""
    lines = [f"{name}0: &{name}0 {first}"]
    for number in range(1, 12):
        inside = ", ".join([f"*{name}{number - 1}"] * 10)
        lines.append(f"{name}{number}: &{name}{number} {level.format(inside)}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested("a", "[1]", "[{}]"), "the configuration has more than 100,000 values."),
        (nested("a", "{x: 1}", "{{<<: [{}]}}"), "line 7: there are more than 100,000 settings."),
        ("seeds: " + "[" * 50 + "]" * 50, "the configuration has more than 20 levels."),
        ("# much\n" * 150_000, "has more than 1,000,000 bytes, expected a configuration."),
    ],
)
def test_what_no_configuration_is_is_refused_at_once(tmp_path, text, message):
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(PAPER, tmp_path / "odd.yaml")


def test_aliases_and_merged_sections_are_taken(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "synthetic: &few {depths: &depths [5], scales: [hard]}\n"
        "dfl: {depths: *depths}\nablation: {<<: {depth: 3}, scale: hard}\n"
    )
    found = load(PAPER, tmp_path / "mine.yaml")
    assert (found.dfl.depths, found.ablation.depth, found.ablation.scale) == ([5], 3, "hard")


def test_file_that_snakemake_has_read_is_read_again(tmp_path):
    """It takes the last of two settings, and says nothing."""
    file = tmp_path / "mine.yaml"
    file.write_text("run: a\nrun: b\n")
    with pytest.raises(WorkflowError, match="line 2: 'run' is there twice"):
        plan_of(written, PAPER.parents[2], [file])


def test_names_in_the_configuration_are_names_of_files():
    """What the patterns of sections take, the places of a file's name take too."""
    for annotation, place in ((settings.Name, "method"), (settings.Family, "case")):
        taken = TypeAdapter(annotation)
        for letter in map(chr, range(256)):
            with contextlib.suppress(ValidationError):
                assert re.fullmatch(PARTS[place], taken.validate_python(letter * 3))
    assert not re.fullmatch(PARTS["seed"], "٣")


def test_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.yaml"):
        load(PAPER, tmp_path / "no.yaml")


@pytest.mark.parametrize(("text", "kind"), [("paper", "str"), ("[1, 2]", "list"), ("3", "int")])
def test_file_without_sections_is_named(tmp_path, text, kind):
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"odd\.yaml holds {kind}, expected sections"):
        load(PAPER, tmp_path / "odd.yaml")


# The schema


@pytest.fixture(scope="module")
def schema():
    return model().model_json_schema()


def test_command_prints_the_schema(schema, capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema


def test_schema_takes_every_configuration(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    for found in (config, load(PAPER, SMOKE)):
        jsonschema.validate(json.loads(found.model_dump_json()), schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["seeds"], [-1]),
        (["device"], "tpu"),
        (["run"], "../paper"),
        (["seed"], 0),
        (["grid", "alpha"], [2.5]),
        (["synthetic", "methods"], ["DRS"]),
        (["dfl", "predictor", "batch"], 0),
        (["ablation", "variants", "full", "loss", "eq"], "ten"),
    ],
)
def test_schema_refuses_what_the_check_refuses(schema, path, value):
    filled = json.loads(config.model_dump_json())
    place = filled
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(filled, schema)
    refusal(filled)


def test_every_section_has_a_place_in_the_schema(schema):
    assert set(schema["properties"]) == {*settings.Common.model_fields, *experiments()}
