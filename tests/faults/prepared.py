"""A checkout in small, with a run of seconds and its release, for the cases to damage copies of."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import yaml
from conftest import ROOT

from rcdrs.artifact.config import PAPER
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.cli import profile, results, stages
from rcdrs.cli.main import main
from rcdrs.experiments.settings import Plain, merge

SIZES = {"train": 8, "validation": 4, "test": 4}
SHORT = {"epochs": 2, "batch": 4}
#: What differs from the paper's configuration.
TINY = {
    "device": "cpu",
    "seeds": [0, 1],
    "grid": {"alpha": [1.0, 1.6], "beta": [0.3, 1.0], "instances": 4},
    "recipes": {"paper": SHORT, "log_kkt": SHORT},
    "timing": {"repeats": 1},
    "synthetic": {
        "families": ["socp"],
        "scales": ["small"],
        "depths": [3],
        "instances": SIZES,
        "methods": ["Grid-DRS", "RCDRS-Env", "RCDRS-NoEnv"],
        "extended": [],
    },
    "ablation": {"families": ["socp"], "scale": "small", "depth": 3},
    "dfl": {
        "depths": [2],
        "instances": SIZES,
        "methods": ["PTO", "RCDRS-Env-J"],
        "extended": [],
        "exact": [],
        "grid": {"alpha": [1.0], "beta": [0.3, 1.0], "instances": 4},
        "training": {"paper": SHORT, "log_kkt": SHORT},
        "predictor": SHORT,
    },
    "dispatch": {
        "depths": [2],
        "instances": SIZES,
        "formulations": ["printed", "inequality"],
        "reference": 5,
        "methods": ["Grid-DRS"],
        "extended": [],
        "grid": {"alpha": [1.0], "beta": [0.5, 1.0], "instances": 4},
        "training": {"paper": SHORT, "log_kkt": SHORT},
    },
}
RUN = "results/paper"
#: The files of the run by the names that cases give them.
FILES = {
    "set": "instances/socp-small-0.npz",
    "other_set": "instances/socp-small-1.npz",
    "core": "cores/socp-small-0-K3.json",
    "core4": "cores/socp-small-0-K4.json",
    "other_core": "cores/socp-small-1-K3.json",
    "env": "checkpoints/paper/RCDRS-Env/socp-small-0-K3.pt",
    "env4": "checkpoints/paper/RCDRS-Env/socp-small-0-K4.pt",
    "env_log": "checkpoints/log_kkt/RCDRS-Env/socp-small-0-K3.pt",
    "other_env": "checkpoints/paper/RCDRS-Env/socp-small-1-K3.pt",
    "noenv": "checkpoints/paper/RCDRS-NoEnv/socp-small-0-K3.pt",
    "curve": "checkpoints/paper/RCDRS-Env/socp-small-0-K3.csv",
    "rows": "synthetic/socp-small-0-K3/RCDRS-Env@paper.csv",
    "other_rows": "synthetic/socp-small-1-K3/RCDRS-Env@paper.csv",
    "grid_rows": "synthetic/socp-small-0-K3/Grid-DRS@paper.csv",
    "details": "synthetic/socp-small-0-K3/RCDRS-Env@paper.npz",
    "note": "synthetic/socp-small-0-K3/RCDRS-Env@paper.origin.json",
    "times": "timing/socp-small-0.csv",
    "trace": "traces/socp-small-0-K3.csv",
    "dfl": "instances/dfl-0.npz",
    "dfl_core": "cores/dfl-0-K2.json",
    "layer": "checkpoints/paper/RCDRS-Env/dfl-0-K2.pt",
    "model": "checkpoints/paper/RCDRS-Env-J/dfl-0-K2.pt",
    "days": "instances/dispatch-printed-0.npz",
    "other_days": "instances/dispatch-inequality-0.npz",
    "days_core": "cores/dispatch-printed-0-K2.json",
    "reference": "references/dispatch-printed-0.npz",
    "other_reference": "references/dispatch-inequality-0.npz",
    "day": "traces/dispatch-printed-0-K2.csv",
}
FILES = {name: f"{RUN}/{path}" for name, path in FILES.items()}
#: In a release rows of a setting stand together.
FILES["released_rows"] = "results/released/synthetic/socp-small-0-K3.csv"
FILES["released_layer"] = "results/released/checkpoints/paper/RCDRS-Env/socp-small-0-K3.pt"
#: One that a case writes itself.
FILES["odd"] = "odd.yaml"
FILES["manifest"] = "results/released/manifest.json"


def configuration() -> Plain:
    """Of the small checkout."""
    return merge(yaml.safe_load((ROOT / PAPER).read_text()), TINY)


#: With all that they are computed from.
WANTED = [
    *(
        Key("rows", "synthetic", "socp-small", seed, 3, method)
        for method in TINY["synthetic"]["methods"]
        for seed in TINY["seeds"]
    ),
    *(Key("times", "synthetic", "socp-small", seed) for seed in TINY["seeds"]),
    Key("traces", "synthetic", "socp-small", 0, 3),
    Key("checkpoints", "synthetic", "socp-small", 0, 3, "RCDRS-Env", "log_kkt"),
    Key("checkpoints", "synthetic", "socp-small", 0, 4, "RCDRS-Env"),
    Key("rows", "dfl", "dfl", 0, 2, "RCDRS-Env-J"),
    Key("rows", "dispatch", "dispatch-printed", 0, 2, "Grid-DRS"),
    Key("rows", "dispatch", "dispatch-inequality", 0, 2, "Grid-DRS"),
    Key("traces", "dispatch", "dispatch-printed", 0, 2),
]


def make(folder: Path) -> Path:
    """The checkout, with a run that is finished and released."""
    config = folder / PAPER
    config.parent.mkdir(parents=True)
    config.write_text(yaml.safe_dump(configuration()))
    with inside(folder):
        plan, made = Plan.read(folder), set[str]()
        for key in WANTED:
            _make(plan, key, made)
        assert main(["release"]) == 0
    return folder


class inside(chdir):
    """Commands run in a small checkout, and take it for theirs."""

    def __enter__(self) -> None:
        super().__enter__()
        for module in (stages, results, profile):
            module.ROOT = Path(self.path)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for module in (stages, results, profile):
            module.ROOT = ROOT


def _make(plan: Plan, key: Key, made: set[str]) -> None:
    """A result and all that it is computed from, as the workflow would."""
    if key.path() in made:
        return
    made.add(key.path())
    behind = plan.behind(key)
    for parts in behind.values():
        for part in parts:
            _make(plan, part, made)
    paths = {name: [f"{RUN}/{part}" for part in parts] for name, parts in behind.items()}
    settings = ("--settings", json.dumps(plan.settings(key)), "--out", f"{RUN}/{key}")
    stamp = ("--stamp", plan.stamp(key))
    given = (*paths.get("instances", ()), "--core", *paths.get("core", ()))
    words: dict[str, tuple[str, ...]] = {
        "instances": ("instances", key.case, "--seed", str(key.seed)),
        "cores": ("tune", *paths.get("instances", ()), "--depth", str(key.K)),
        "references": ("reference", *given),
        "checkpoints": (
            *("train", *given, "--method", key.method, "--recipe", key.recipe),
            *("--seed", str(key.seed), "--start", *paths.get("start", ())),
        ),
        "rows": (
            *("evaluate", *given[:-2], *plan.asked(key), *given[-2:]),
            *("--reference", *paths.get("reference", ()), *stamp),
        ),
        "times": ("time", *given, "--method", *plan.timed(key), *stamp),
        "traces": ("trace", *given[:-2], *plan.asked(key), *given[-2:], *stamp),
    }
    assert main([*words[key.kind], *settings]) == 0, key
