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
from rcdrs.release import Released

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
#: The stages behind each kind of result.
BEHIND = {
    "synthetic": ("instances", "tune", "train", "evaluate"),
    "ablation": ("instances", "tune", "train", "evaluate"),
    "timing": ("instances", "tune", "time"),
}


class StaleResult(ValueError):
    """A released result was insisted on, but it is missing or stale."""


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
        return _json(self.config["synthetic"]["instances"])

    def grid(self) -> str:
        grid = self.config["grid"]
        return _json({"alphas": grid["alpha"], "betas": grid["beta"], "scored": grid["instances"]})

    def training(self, recipe: str, variant: str = "full") -> str:
        changes = self.config["ablation"]["variants"][variant]
        rules = merge(self.config["recipes"][recipe], {"loss": changes.get("loss", {})})
        return _json({"controller": self._controller(variant), "recipe": rules})

    def controller(self, variant: str = "full") -> str:
        return _json({"controller": self._controller(variant)})

    def _controller(self, variant: str) -> dict[str, Any]:
        changes = self.config["ablation"]["variants"][variant]
        return self.config["controller"] | changes.get("controller", {})

    # Digests.

    def code(self, stage: str) -> str:
        if stage == "table":
            return code_digest("render", "rcdrs.reporting.tables")
        return code_digest(STAGES[stage])

    def digest(self, name: str) -> dict[str, str]:
        """Of everything behind a result: code and settings.  `name` is as in `result`."""
        kind, *rest = name.split("/")
        settings: Any = {
            "instances": self.config["synthetic"]["instances"],
            "grid": self.config["grid"],
            "base_action": self.config["base_action"],
            "threads": self.config["threads"],
        }
        if kind == "timing":
            settings |= {"timing": self.config["timing"], "controller": self.config["controller"]}
        elif kind == "ablation":
            settings |= {"training": self.training("paper", rest[0])}
            settings |= {"method": self.config["ablation"]["method"]}
        else:
            settings |= {recipe: self.training(recipe) for recipe in self.config["recipes"]}
            settings |= {key: self.config["synthetic"][key] for key in ("methods", "extended")}
        return {
            "code": settings_digest([self.code(stage) for stage in BEHIND[kind]]),
            "settings": settings_digest(settings),
        }

    def stamp(self, name: str) -> str:
        return _json(self.digest(name))

    # Results: what a run computed, or what was released and still holds.

    def result(self, name: str) -> str:
        """The file of a result such as ``synthetic/socp-hard-0-K20.csv``, released or computed."""
        mode = self.config.get("results", "auto")
        if mode != "recompute" and self.released.holds(name, self.digest(name)):
            return str(self.released.path(name))
        if mode == "released":
            raise StaleResult(
                f"{name} is {self.released.state(name, self.digest(name))} in "
                f"{self.released.folder}: leave out results=released to compute it."
            )
        return f"{self.folder}/{name}"

    def state(self, name: str) -> str:
        """``released``, ``computed`` or ``missing``; a released file of other code is ``stale``."""
        released = self.released.state(name, self.digest(name))
        if released == "current":
            return "released"
        note = Path(self.folder, name).with_suffix(".origin.json")
        if note.exists() and json.loads(note.read_text())["digest"] == self.digest(name):
            return "computed"
        return "stale" if released == "stale" or note.exists() else "missing"

    def rows_behind(self, table: str) -> list[str]:
        """The seed-level results a table is made from."""
        from rcdrs.reporting.tables import needs

        found = needs(table, self.config)
        names = [
            f"synthetic/{c}-{seed}-K{K}.csv" for c, seed, K in found.synthetic + found.extended
        ]
        names += [f"ablation/{v}/{c}-{seed}-K{K}.csv" for c, seed, K, v in found.ablation]
        return list(dict.fromkeys(names))

    def times_behind(self, table: str) -> list[str]:
        from rcdrs.reporting.tables import needs

        found = needs(table, self.config)
        return list(dict.fromkeys(f"timing/{case}-{seed}.csv" for case, seed, _ in found.timing))

    def tables_config(self) -> str:
        """What the tables show of the configuration: all but where and on what it runs."""
        hidden = ("run", "results", "device", "threads")
        return _json({key: value for key, value in self.config.items() if key not in hidden})

    @cached_property
    def released(self) -> Released:
        return Released.read(self.root / "results/released")


def _json(values: Any) -> str:
    """As text that does not depend on the order in which a configuration was merged."""
    return json.dumps(values, sort_keys=True)
