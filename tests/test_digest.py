"""What a computed file depends on: code that can matter, not its wording."""

from __future__ import annotations

import ast
import contextlib
import json
import shutil
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml

from rcdrs.artifact import digest
from rcdrs.artifact.digest import code_digest, settings_digest, stage_digest
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import STAGES, Plan
from rcdrs.cli.main import main
from rcdrs.experiments.base import experiments
from rcdrs.experiments.engine import stages_of
from rcdrs.experiments.settings import merge

ROOT = Path(__file__).parents[1]
#: What is known of modules; trees are known by their code, which no edit makes wrong.
CACHED = (stage_digest, code_digest, digest._tree, digest._bindings, digest._imported_names)


def forget() -> None:
    for cached in CACHED:
        cached.cache_clear()


# Edits of a copy


@cache
def unchanged(stage: str, experiment: str) -> str:
    """The digest before any edit."""
    return stage_digest(stage, experiment)


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the package to change; returns a function that edits a file and says which of some
    (stage, experiment) have another digest."""
    root = tmp_path / "rcdrs"
    shutil.copytree(digest.ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "ROOT", root)
    forget()

    def changed(file: str, old: str, new: str, *stages: tuple[str, str]) -> list[tuple[str, str]]:
        before = {stage: unchanged(*stage) for stage in stages}
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))
        forget()
        return [stage for stage in stages if stage_digest(*stage) != before[stage]]

    yield changed
    forget()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("solver/fused.py", '"""One controlled step and', '"""A step and'),
        ("solver/fused.py", "        # ", "        # In other words: "),
        ("solver/fused.py", "alpha=2)", "\n            alpha=2,\n        )"),
        ("solver/problem.py", "expected", "which should be"),  # texts of errors
        ("experiments/engine.py", "does not hold a tuned core", "holds no core"),
        ("training/loop.py", 'unit="epoch"', 'unit="pass"'),
        ("training/loop.py", "import copy\nimport csv\n", "import csv\nimport copy\n"),
        (
            "experiments/engine.py",
            "from rcdrs.layer import check_core\nfrom rcdrs.training.loop import train\n",
            "from rcdrs.training.loop import train\nfrom rcdrs.layer import (check_core)\n",
        ),
        ("files.py", "0o666", "0o600"),  # how files are written
    ],
)
def test_wording_does_not_count(copy, file, old, new):
    """Comments, docstrings, layout, the order of imports and messages cost no recomputation."""
    assert copy(file, old, new, *((stage, "dispatch") for stage in STAGES.values())) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "stage", "counts"),
    [
        ("solver/fused.py", "alpha=2)", "alpha=3)", "train_run", True),
        ("solver/fused.py", "alpha=2)", "alpha=3)", "evaluate", True),
        ("cones/psd.py", "0.5", "0.6", "train_run", True),
        ("training/loop.py", "recipe.clip", "recipe.batch", "train_run", True),
        ("training/loop.py", "_check_finite(losses", "print(losses", "make_instances", False),
        ("baselines/learned_pdhg.py", "SAFETY = 0.95", "SAFETY = 0.9", "make_instances", False),
        ("baselines/learned_pdhg.py", "SAFETY = 0.95", "SAFETY = 0.9", "evaluate", True),
        ("controller/config.py", "(1.0, 1.6, 0.3)", "(1.0, 1.6, 0.4)", "train_run", True),
        ("reporting/formatting.py", "import", "import  ", "train_run", False),
        ("experiments/engine.py", 'KEYS = ("experiment"', 'KEYS = ("study"', "evaluate", True),
        ("experiments/engine.py", "manual_seed(seed)", "manual_seed(0)", "train_run", True),
        ("experiments/engine.py", "manual_seed(seed)", "manual_seed(0)", "time_methods", False),
        (
            "experiments/engine.py",
            "to_csv(temporary, ",
            "to_csv(temporary, sep=';', ",
            "trace",
            True,
        ),
        (
            "experiments/engine.py",
            "to_csv(temporary, ",
            "to_csv(temporary, sep=';', ",
            "tune",
            False,
        ),
        ("experiments/engine.py", "1000 * float", "float", "time_methods", True),
        ("experiments/engine.py", "1000 * float", "float", "evaluate", False),
        ("experiments/synthetic/stages.py", '"high": 0.95', '"high": 0.9', "trace", True),
        ("experiments/synthetic/stages.py", '"high": 0.95', '"high": 0.9', "evaluate", False),
        (
            "experiments/synthetic/layers.py",
            "import BASE_ACTION",
            "import CONTROLS as BASE_ACTION",
            "train_run",
            True,
        ),
        (
            "experiments/engine.py",
            "    load_weights,\n",
            "    other as load_weights,\n",
            "train_run",
            True,
        ),
        ("solver/affine.py", "import torch\n", "import torch, os\n", "tune", True),
    ],
)
def test_code_counts_where_it_is_used(copy, file, old, new, stage, counts):
    assert bool(copy(file, old, new, (stage, "synthetic"))) is counts


@pytest.mark.parametrize("experiment", experiments())
def test_experiment_counts_for_itself(copy, experiment):
    """And the benchmarks for all, which build on them."""
    name = "layers" if experiment == "synthetic" else "stages"
    file, old, new = f"experiments/{experiment}/{name}.py", "def build(\n", "def build(\n    *,\n"
    found = copy(file, old, new, *(("train_run", name) for name in experiments()))
    built_on = ("ablation", "dfl", "opf", "portfolio") if experiment == "synthetic" else ()
    assert {name for _, name in found} == {experiment, *built_on}


def test_definition_that_is_gone_is_named():
    with pytest.raises(ValueError, match=r"rcdrs\.experiments\.engine defines no 'no_such_stage'"):
        stage_digest("no_such_stage", "synthetic")


#: Of each kind that later Pythons write otherwise, and as 3.11 does.
WRITTEN = {
    "def f(): return None": "FunctionDef(name='f', args=arguments(posonlyargs=[], args=[], "
    "kwonlyargs=[], kw_defaults=[], defaults=[]), body=[Return(value=Constant(value=None))], "
    "decorator_list=[])",
    "class C: x: int": "ClassDef(name='C', bases=[], keywords=[], body=[AnnAssign(target=Name("
    "id='x', ctx=Store()), annotation=Name(id='int', ctx=Load()), simple=1)], decorator_list=[])",
    "f(*a, **k)": "Expr(value=Call(func=Name(id='f', ctx=Load()), args=[Starred(value=Name(id='a', "
    "ctx=Load()), ctx=Load())], keywords=[keyword(value=Name(id='k', ctx=Load()))]))",
    "f'a{x!r:>{w}}' 'b'": "Expr(value=JoinedStr(values=[Constant(value='a'), FormattedValue(value="
    "Name(id='x', ctx=Load()), conversion=114, format_spec=JoinedStr(values=[Constant(value='>'), "
    "FormattedValue(value=Name(id='w', ctx=Load()), conversion=-1)])), Constant(value='b')]))",
    "f'a {x=}'": "Expr(value=JoinedStr(values=[Constant(value='a x='), FormattedValue(value=Name("
    "id='x', ctx=Load()), conversion=114)]))",
}


@pytest.mark.parametrize("code", WRITTEN)
def test_every_python_writes_the_same_digest(code):
    """A release made by one Python is current under another."""
    assert digest._dump(ast.parse(code).body[0]) == WRITTEN[code]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later Pythons write trees otherwise")
def test_digests_are_of_what_python_3_11_writes():
    for path in digest.ROOT.rglob("*.py"):
        tree = ast.parse(path.read_bytes())
        assert digest._dump(tree) == ast.dump(tree), path


def test_order_of_settings_does_not_count():
    assert settings_digest({"a": 1, "b": 2}) == settings_digest({"b": 2, "a": 1})
    assert settings_digest({"a": 1}) != settings_digest({"a": 2})


# Every function that runs counts


#: They say what is asked for, how files are written and where results are kept.
PLAIN = ("rcdrs.artifact", "rcdrs.cli", "rcdrs.files", "rcdrs.experiments.base")
PLAIN += ("rcdrs.experiments.settings",)
PAPER = yaml.safe_load((ROOT / "workflow/config/paper.yaml").read_text())
#: Experiments that need no data beside.
PAPERS = [name for name, experiment in experiments().items() if not experiment.extra]
SIZES = {"train": 4, "validation": 3, "test": 3}
GRID = {"alpha": [1.0, 1.6], "beta": [0.3, 1.0], "instances": 3}
SHORT = {"epochs": 2, "batch": 2, "cosine": True}
TINY = {
    "run": "tiny",
    "seeds": [0],
    "grid": GRID,
    "timing": {"warm_up": 0, "repeats": 1},
    "recipes": {"paper": SHORT, "log_kkt": SHORT},
    "synthetic": {"families": ["mixed"], "scales": ["small"], "depths": [2], "instances": SIZES},
    "ablation": {"families": ["mixed"], "scale": "small", "depth": 2},
    "dfl": {"depths": [2], "instances": SIZES, "grid": GRID, "predictor": SHORT}
    | {"training": {"paper": SHORT, "log_kkt": SHORT}},
    "dispatch": {"depths": [2], "instances": SIZES, "grid": GRID, "reference": 5}
    | {"formulations": ["inequality"], "training": {"paper": SHORT, "log_kkt": SHORT}},
}
CALLS = {
    "instances": "{case} --seed 0",
    "cores": "{instances} --depth 2",
    "checkpoints": "{instances} --core {core} --experiment {experiment} --method {method}"
    " --recipe {recipe} --start {start}",
    "references": "{instances} --core {core}",
    "rows": "{instances} --core {core} --reference {reference} --experiment {experiment} {runs}",
    "times": "{instances} --core {core}",
    "traces": "{instances} --core {core} {runs}",
    "shifts": "{instances} --core {core} {runs}",
}
COMMANDS = {"cores": "tune", "checkpoints": "train", "references": "reference", "rows": "evaluate"}
COMMANDS |= {"instances": "instances", "times": "time", "traces": "trace", "shifts": "shift"}


def keys_of(plan):
    """Every result of a plan, each after what it is computed from."""
    found = {}

    def add(key):
        for inputs in plan.behind(key).values():
            for part in inputs:
                add(part)
        found.setdefault(key.path(), key)

    for name in PAPERS:
        experiment = plan.experiments[name]
        (case,), (K,) = experiment.cases, experiment.depths
        for run in experiment.runs(case):
            add(Key("rows", name, case, 0, K, *run))
        if name != "ablation":
            add(Key("times", name, case, 0))
        if name in ("synthetic", "dispatch"):
            add(Key("traces", name, case, 0, K))
        if name == "synthetic":
            add(Key("shifts", name, case, 0, K))
    return list(found.values())


def compute(plan, key):
    """By the command of its stage, as the workflow does."""
    files = {
        name: " ".join(f"{plan.folder}/{part}" for part in parts)
        for name, parts in plan.behind(key).items()
    }
    places = vars(key) | {"reference": "", "start": "", "runs": " ".join(plan.asked(key))} | files
    options = ["--settings", json.dumps(plan.settings(key)), "--out", f"{plan.folder}/{key}"]
    words = CALLS[key.kind].format(**places).split()
    assert main([COMMANDS[key.kind], *words, *options]) == 0, key


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Which functions of the package the stages of each experiment call, in a run of all of them.

    By stage and experiment: module and qualified name.
    """
    plan = Plan.of(merge(PAPER, TINY), ROOT)
    found, keys = defaultdict(set), keys_of(plan)
    for name in experiments():
        stages_of(name)
    with contextlib.chdir(tmp_path_factory.mktemp("tiny")):
        for key in keys[: [key.kind for key in keys].index("rows") + 1]:
            compute(plan, key)  # imports and compiles, which takes long under a profiler
        for key in keys:
            codes = set()
            sys.setprofile(lambda frame, event, _, add=codes.add: add(frame.f_code))
            try:
                compute(plan, key)
            finally:
                sys.setprofile(None)
            found[STAGES[key.kind], key.experiment] |= codes
    return {
        stage: {name for code in codes if (name := place_of(code))}
        for stage, codes in found.items()
    }


def place_of(code):
    """Module and name of a function that has to count, with those it is defined in."""
    path = Path(code.co_filename)
    if not path.is_relative_to(digest.ROOT):
        return None
    module = ".".join(("rcdrs", *path.relative_to(digest.ROOT).with_suffix("").parts))
    names = [name for name in code.co_qualname.split(".") if not name.startswith("<")]
    plain = module.startswith(PLAIN) or module.endswith(".experiment")
    return None if plain or not names else (module.removesuffix(".__init__"), *names)


class Mutant:
    """Changes one definition in the syntax trees that digests are taken from."""

    def __init__(self, monkeypatch):
        """Texts of definitions are hashed: long ones would be joined again for each digest."""
        self.dumps = {}
        monkeypatch.setattr(digest, "_dump", self.dump)

    def dump(self, node):
        if node not in self.dumps:
            self.dumps[node] = digest._short(ast.dump(node))
        return self.dumps[node]

    def digests(self, stages):
        return [
            code_digest.__wrapped__(*functions, hooks=f"rcdrs.experiments.{experiment}.stages")
            for stage, experiment in stages
            if (functions := [(digest.ENGINE, s) for s in (stage, *digest.WRITERS.get(stage, ()))])
        ]

    @contextlib.contextmanager
    def changed(self, module, top, *inner):
        """The definition of that name, and what is defined in it, with one statement more."""
        tree, outer = digest._tree(module), digest._bindings(module)[top]
        node = outer
        for name in inner:
            node = next(n for n in ast.walk(node) if getattr(n, "name", None) == name)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            before, node.value = node.value, ast.Tuple([node.value, ast.Constant(0)], ast.Load())
        else:
            node.body.insert(0, ast.Expr(ast.Constant(0)))
        for stale in (tree, outer):
            self.dumps.pop(stale, None)
        try:
            yield
        finally:
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                node.value = before
            else:
                del node.body[0]
            for stale in (tree, outer):
                self.dumps.pop(stale, None)


def missed(mutant, places):
    """(place, stage, experiment) of each that is changed and leaves the digest as it was."""
    stages = sorted({stage for found in places.values() for stage in found})
    before = dict(zip(stages, mutant.digests(stages), strict=True))
    for place, found in sorted(places.items()):
        with mutant.changed(*place):
            after = zip(found, mutant.digests(found), strict=True)
            yield from ((place, *stage) for stage, value in after if value == before[stage])
    assert dict(zip(stages, mutant.digests(stages), strict=True)) == before


def by_place(called):
    places = defaultdict(list)
    for stage, found in called.items():
        for place in found:
            places[place].append(stage)
    return places


def test_every_function_that_runs_counts(called, monkeypatch):
    """Of each experiment and stage; a change of any of them changes the digest."""
    assert set(called) >= {(stage, name) for name in PAPERS for stage in ("train_run", "evaluate")}
    places = by_place(called)
    assert len(places) > 250
    modules = {place[0].split(".")[1] for place in places}
    expected = (
        "kernels cones solver controller rollout solution layer training baselines experiments"
    )
    assert modules == set(expected.split())
    assert list(missed(Mutant(monkeypatch), places)) == []


def test_every_constant_that_a_function_names_counts(called, monkeypatch):
    """And every class: what is named in a function that runs, and defined beside it."""
    places = defaultdict(set)
    for (module, top, *_), stages in by_place(called).items():
        bound = digest._bindings(module)
        names = {n.id for n in ast.walk(bound[top]) if isinstance(n, ast.Name)}
        for name in names & bound.keys():
            if not isinstance(bound[name], (ast.Import, ast.ImportFrom)):
                places[module, name] |= set(stages)
    known = {"engine": "KEYS", "synthetic.layers": "LOSSES", "dispatch.methods": "FIXED_CORE"}
    assert {
        (f"rcdrs.experiments.{module}", name) for module, name in known.items()
    } <= places.keys()
    assert list(missed(Mutant(monkeypatch), places)) == []


def test_every_kernel_counts(called, monkeypatch):
    """They are compiled, so that no profiler sees them."""
    tree = digest._tree("rcdrs.kernels")
    kernels = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    stages = [
        (stage, name)
        for stage, name in called
        if stage in ("train_run", "evaluate", "time_methods", "trace")
    ]
    places = {("rcdrs.kernels", name): stages for name in kernels}
    assert places
    assert list(missed(Mutant(monkeypatch), places)) == []
