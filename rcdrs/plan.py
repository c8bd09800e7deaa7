"""What the workflow computes: which runs a configuration asks for, with which settings and digests.

The Snakefile and its rules ask this class; it knows files and settings, but no mathematics, and
does not import torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rcdrs.digest import code_digest, settings_digest
from rcdrs.protocol import Config, check, merge

#: Methods that are trained, in either recipe.
LEARNED = ("L-PDHG", "Layerwise-DRS", "RCDRS-Env", "RCDRS-NoEnv")
#: The stage behind each rule.
STAGES = {
    "instances": "make_instances",
    "tune": "tune",
    "train": "train_layer",
    "evaluate": "evaluate_runs",
    "time": "time_methods",
}


@dataclass(frozen=True)
class Plan:
    """The runs of one configuration; `root` is the checkout."""

    config: Config
    root: Path

    @staticmethod
    def of(config: Config, root: str | Path) -> Plan:
        root = Path(root)
        return Plan(check(config, root / "workflow/schemas/config.schema.yaml"), root)

    @property
    def folder(self) -> str:
        """Where this run's files go."""
        return f"results/{self.config['run']}"

    @property
    def tables_folder(self) -> str:
        """The committed tables belong to the paper's run; any other keeps its own."""
        return "paper_tables" if self.config["run"] == "paper" else f"{self.folder}/paper_tables"

    @cached_property
    def cases(self) -> list[str]:
        synthetic = self.config["synthetic"]
        return [f"{f}-{s}" for f in synthetic["families"] for s in synthetic["scales"]]

    @property
    def ablation_cases(self) -> list[str]:
        ablation = self.config["ablation"]
        return [f"{family}-{ablation['scale']}" for family in ablation["families"]]

    def depths(self, case: str) -> list[int]:
        """Every depth at which this case runs, in any experiment."""
        depths = set(self.config["synthetic"]["depths"]) if case in self.cases else set()
        if case in self.ablation_cases:
            depths.add(self.config["ablation"]["depth"])
        return sorted(depths)

    def runs(self, case: str, seed: str | int, depth: str | int) -> list[str]:
        """What `rcdrs evaluate` is asked for in one setting."""
        synthetic = self.config["synthetic"]
        asked = [(method, "paper") for method in synthetic["methods"]]
        asked += [(method, "log_kkt") for method in synthetic["extended"]]
        where = f"{case}-{seed}-K{depth}"
        return [
            f"{method}@{recipe}={self.checkpoint(recipe, method, where)}"
            if method in LEARNED
            else method
            for method, recipe in asked
        ]

    def checkpoint(self, recipe: str, method: str, where: str) -> str:
        return f"{self.folder}/checkpoints/{recipe}/{method}/{where}.pt"

    # Settings of the stages, as JSON for the command line.

    def sizes(self) -> str:
        return json.dumps(self.config["synthetic"]["instances"])

    def grid(self) -> str:
        grid = self.config["grid"]
        return json.dumps(
            {"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]}
        )

    def training(self, recipe: str, variant: str = "full") -> str:
        changes = self.config["ablation"]["variants"][variant]
        rules = merge(self.config["recipes"][recipe], {"loss": changes.get("loss", {})})
        return json.dumps({"controller": self._controller(variant), "recipe": rules})

    def controller(self, variant: str = "full") -> str:
        return json.dumps({"controller": self._controller(variant)})

    def _controller(self, variant: str) -> dict[str, Any]:
        changes = self.config["ablation"]["variants"][variant]
        return self.config["controller"] | changes.get("controller", {})

    # Digests.

    def code(self, stage: str) -> str:
        return code_digest(STAGES[stage])

    def digest(self, *stages: str) -> dict[str, str]:
        """Of everything behind a seed-level CSV: code and settings."""
        sections = ("synthetic", "grid", "base_action", "controller", "recipes", "threads")
        settings = {name: self.config[name] for name in sections}
        # Which settings are asked for does not change what one of them gives.
        chosen = ("families", "scales", "depths")
        settings["synthetic"] = {k: v for k, v in settings["synthetic"].items() if k not in chosen}
        return {
            "code": settings_digest([self.code(stage) for stage in stages]),
            "settings": settings_digest(settings),
        }
