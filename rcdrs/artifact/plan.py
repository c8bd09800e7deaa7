"""What the workflow computes: which runs a configuration asks for, with which settings and digests.

The Snakefile and its rules ask this class; it knows files and settings, but no mathematics, and
does not import torch.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rcdrs.artifact.config import Config, ConfigError, check, load
from rcdrs.artifact.digest import code_digest, settings_digest
from rcdrs.artifact.release import Released
from rcdrs.experiments.base import DFL, EXPERIMENTS, Experiment, Synthetic, experiment_of

#: In a checkout.
PAPER = "workflow/config/paper.yaml"
SCHEMA = "workflow/schemas/config.schema.yaml"
#: The function behind each stage, in the module of its experiment.
STAGES = {
    "instances": "make_instances",
    "tune": "tune",
    "train": "train_layer",
    "learn": "train_model",
    "reference": "make_reference",
    "evaluate": "evaluate_runs",
    "time": "time_methods",
}
#: What the report shows of trained layers is computed by these.
TRACES = (
    ("trace_runs", "rcdrs.experiments.synthetic.trace"),
    ("trace_day", "rcdrs.experiments.dispatch.trace"),
)


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
        return Plan(check(_typed(config), root / SCHEMA), root)

    def check_name(self) -> None:
        """Other settings than the paper's need a name of their own: they are not its results."""
        paper = load(self.root / PAPER, schema=self.root / SCHEMA)
        changed = [key for key in paper if self.config[key] != paper[key] and key != "device"]
        if self.config["run"] == paper["run"] and changed:
            raise ConfigError(
                f"{', '.join(changed)} differ from {PAPER}: give the run a name of its own, "
                "as in --config run=mine"
            )

    @property
    def folder(self) -> str:
        """Where this run's files go."""
        return f"results/{self.config['run']}"

    @property
    def tables_folder(self) -> str:
        """The committed tables belong to the paper's run; any other keeps its own."""
        return "paper_tables" if self.config["run"] == "paper" else f"{self.folder}/paper_tables"

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        return {name: kind(self.config) for name, kind in EXPERIMENTS.items()}

    @property
    def synthetic(self) -> Synthetic:
        return Synthetic(self.config)

    @property
    def dfl(self) -> DFL:
        return DFL(self.config)

    def experiment(self, case: str) -> Experiment:
        return self.experiments[experiment_of(case)]

    @property
    def cases(self) -> list[str]:
        return [case for experiment in self.experiments.values() for case in experiment.cases]

    def runs(self, case: str, seed: str | int, depth: str | int) -> list[str]:
        """What `rcdrs evaluate` is asked for in one setting."""
        where = f"{case}-{seed}-K{depth}"
        return [
            method if recipe is None else f"{method}@{recipe}={self.trained(recipe, method, where)}"
            for method, recipe in self.experiment(case).asked(case)
        ]

    def checkpoints(self, case: str, seed: str | int, depth: str | int) -> list[str]:
        """What these runs were trained to."""
        runs = self.runs(case, seed, depth)
        return list(dict.fromkeys(run.partition("=")[2] for run in runs if "=" in run))

    def trained(self, recipe: str, method: str, where: str) -> str:
        """The trained layer of a method; in decision-focused learning, the model around it."""
        folder = "models" if experiment_of(where) == "dfl" else "checkpoints"
        return f"{self.folder}/{folder}/{recipe}/{method.removesuffix('-Exact')}/{where}.pt"

    def pretrained(self, recipe: str, method: str, where: str) -> list[str]:
        """The checkpoint of the layer that a decision-focused method starts from, if any."""
        layer = self.dfl.layer(method)
        return [f"{self.folder}/checkpoints/{recipe}/{layer}/{where}.pt"] if layer else []

    # Settings of the stages, as JSON for the command line.

    def sizes(self, case: str) -> str:
        return _json(self.experiment(case).sizes())

    def grid(self, case: str) -> str:
        return _json(self.experiment(case).grid())

    def training(self, case: str, recipe: str) -> str:
        return _json(self.experiment(case).training(recipe))

    def controller(self, case: str) -> str:
        return _json({"controller": self.experiment(case).controller()})

    def ablated(self, variant: str) -> str:
        return _json(self.synthetic.ablated(variant))

    def ablated_controller(self, variant: str) -> str:
        return _json({"controller": self.synthetic.ablated(variant)["controller"]})

    def predictor(self) -> str:
        return _json(self.dfl.predictor())

    # Digests.

    def code(self, stage: str, case: str = "") -> str:
        if stage == "table":
            return code_digest("render", "rcdrs.reporting.tables")
        return code_digest(STAGES[stage], self.experiment(case).module)

    def digest(self, name: str) -> dict[str, str]:
        """Of everything behind a result: code and settings.  `name` is as in `result`."""
        kind, *rest = name.split("/")
        case = re.sub(r"-\d+(-K\d+)?(\.\w+)?$", "", rest[-1])
        experiment = self.experiment(case)
        stages, settings = experiment.stages, experiment.settings()
        common = {key: settings[key] for key in ("instances", "grid", "base_action", "threads")}
        if kind == "timing":
            stages = ("instances", "tune", "time")
            settings = common | {"timing": self.config["timing"]}
            settings |= {"controller": experiment.controller()}
        elif kind == "ablation":
            settings = common | {"method": self.config["ablation"]["method"]}
            settings |= {"training": self.ablated(rest[0])}
        code = [self.code(stage, case) for stage in stages]
        if kind == "traces":
            code += [code_digest(*traced) for traced in TRACES]
        return {
            "code": settings_digest(code),
            "settings": settings_digest(settings),
        }

    def stamp(self, name: str | Path) -> str:
        return _json(self.digest(str(name)))

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

        return list(dict.fromkeys(needs(table, self.config).rows))

    def times_behind(self, table: str) -> list[str]:
        from rcdrs.reporting.tables import needs

        return list(dict.fromkeys(needs(table, self.config).times))

    def tables_config(self) -> str:
        """What the tables show of the configuration: all but where and on what it runs."""
        hidden = ("run", "results", "device", "threads")
        return _json({key: value for key, value in self.config.items() if key not in hidden})

    @cached_property
    def released(self) -> Released:
        return Released.read(self.root / "results/released")


def _typed(value: Any) -> Any:
    """Snakemake reads numbers inside of lists and sections on its command line as text."""
    if isinstance(value, dict):
        return {key: _typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_typed(part) for part in value]
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _json(values: Any) -> str:
    """As text that does not depend on the order in which a configuration was merged."""
    return json.dumps(values, sort_keys=True)
