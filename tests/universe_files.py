"""A small configuration with universes, for the tests of their tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from conftest import ROOT

from rcdrs.artifact.config import PAPER, Config, check, load
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.settings import merge

WIDE = {"alpha": [1.0, 1.8], "beta": [1.0, 30.0]}
LEARNED = ["L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-MLP", "RCDRS-Light"]
UNIVERSES = {
    "fair": {
        "synthetic": {
            "grid": WIDE,
            "methods": ["Grid-DRS", "Anderson-DRS", *LEARNED],
            "extended": LEARNED,
        },
        "dfl": {"grid": WIDE, "methods": ["Grid-DRS"], "extended": ["RCDRS-Env-J"]},
        "dispatch": {
            "formulations": ["inequality"],
            "grid": WIDE,
            "methods": ["Grid-DRS", "Anderson-DRS"],
            "extended": ["RCDRS-Env"],
        },
    },
    "deep": {
        "seeds": [0],
        "synthetic": {
            "grid": WIDE,
            "depths": [40, 60],
            "methods": ["Grid-DRS", "Layerwise-DRS"],
            "extended": ["Layerwise-DRS"],
        },
    },
    "between": {
        "seeds": [0],
        "synthetic": {"grid": WIDE, "depths": [12], "methods": ["Grid-DRS"], "extended": []},
    },
    "deep_edge": {
        "seeds": [0],
        "synthetic": {"depths": [40], "methods": ["Grid-DRS"], "extended": []},
    },
}
HARD = {"seeds": [0], "synthetic": {"scales": ["hard"]}}
#: Layers of random depths, and the protocol read otherwise.
OTHERS = {
    "any_depth": {
        "seeds": [0],
        "recipes": {"log_kkt": {"depths": [5, 20]}},
        "synthetic": {"grid": WIDE, "methods": ["Grid-DRS"], "extended": LEARNED[2:]},
    },
    "base_reference": HARD | {"recipes": {"paper": {"reference": "base"}}},
    "small_batch": HARD | {"recipes": {"paper": {"batch": 4}}},
    "first_sampling": HARD | {"sampling": "first"},
    "one_magnitude": HARD | {"sampling": "one"},
    "tuned_baselines": HARD,
    "ablation_small": HARD | {"ablation": {"scale": "small"}},
    "ablation_hard": HARD | {"ablation": {"scale": "hard"}},
}


@cache
def with_universes(*names: str) -> Plan:
    """The smoke configuration from two seeds, with some universes, or those of equal care."""
    smoke = load(ROOT / PAPER, ROOT / "workflow/config/smoke.yaml").but(universes={}).plain()
    chosen = {name: (UNIVERSES | OTHERS)[name] for name in names or UNIVERSES}
    synthetic = {"hard_seeds": [0, 1, 2]}
    changes = {"seeds": [0, 1], "synthetic": synthetic, "universes": chosen, "tables": "all"}
    config = merge(smoke, changes)
    return Plan(check(config), ROOT)


def write_over_paper(config: Config, path: Path) -> Path:
    """As a file that is given over the paper's, whose choice among more methods it takes back."""
    plain = config.plain()
    for name in ("chosen", "timely"):
        plain["universes"]["fair"]["synthetic"][name] = dict.fromkeys(
            ("paper", "log_kkt"), "RCDRS-MLP"
        )
    path.write_text(yaml.safe_dump(plain))
    return path
