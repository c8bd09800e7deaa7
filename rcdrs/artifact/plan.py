"""What the workflow computes: the results that a configuration asks for, each by its key, with the
files it is made from, its settings and its digests.

The Snakefile and its rules ask this class; it knows no mathematics and does not import torch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rcdrs.artifact.config import (
    PAPER,
    Config,
    ConfigError,
    check,
    check_size,
    load,
    typed,
    universe,
)
from rcdrs.artifact.digest import peers_digest, settings_digest, stage_digest
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import RELEASED, Released
from rcdrs.artifact.release import read_origin
from rcdrs.experiments.base import Experiment, Run, experiment_of, experiments
from rcdrs.experiments.settings import Measured, Plain
from rcdrs.peers.registry import pinned, versions_of

#: The function of the engine that makes each kind of result.
STAGES = {
    "instances": "make_instances",
    "cores": "tune",
    "checkpoints": "train_run",
    "references": "make_reference",
    "rows": "evaluate",
    "times": "time_methods",
    "traces": "trace",
    "shifts": "shift",
}


class StaleResult(ValueError):
    """A released result was insisted on, but it is missing or stale."""


@dataclass(frozen=True)
class Plan:
    """The results of one configuration; `root` is the checkout."""

    config: Config
    root: Path

    @staticmethod
    def of(config: Plain, root: str | Path) -> Plan:
        """From plain values, as Snakemake has them."""
        check_size(config)
        return Plan(check(typed(config)), Path(root))

    @staticmethod
    def read(root: str | Path, *changes: Path | None) -> Plan:
        """The paper's configuration, and files over it, where some are named."""
        root = Path(root)
        if not (root / PAPER).exists():
            raise ConfigError(
                f"{root} is no checkout, it has no {PAPER}: run this in one, or install from one "
                "with `pip install -e .`."
            )
        return Plan(load(root / PAPER, *filter(None, changes)), root)

    def check_name(self) -> None:
        """Other settings than the paper's need a name of their own: they are not its results."""
        ours, paper = self.config.plain(), load(self.root / PAPER).plain()
        same = ("device", "results", "tables")
        known = dict.fromkeys([*paper, *ours])  # some are only there where they are set
        changed = [key for key in known if ours.get(key) != paper.get(key) and key not in same]
        if ours["run"] == paper["run"] and changed:
            raise ConfigError(
                f"{', '.join(changed)} differ from {PAPER}: give the run a name of its own, "
                "as in --config run=mine"
            )

    @property
    def folder(self) -> str:
        """Where this run's files go."""
        return f"results/{self.config.run}"

    @property
    def tables_folder(self) -> str:
        """The committed tables belong to the paper's run; any other keeps its own."""
        return "paper_tables" if self.config.run == "paper" else f"{self.folder}/paper_tables"

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        return {name: kind(self.config) for name, kind in experiments().items()}

    # Keys.

    def key(self, kind: str, case: str, seed: int | str, **more: Any) -> Key:
        """The key of a kind of result; the experiment is that of the case, or of the variant.

        Files may be of a universe that there is no more: it has a key, and no digests.
        """
        names = {"K": int(more.get("K", 0)), "method": more.get("method", "")}
        names["recipe"] = more.get("recipe", "paper")
        names["universe"] = name = more.get("universe", "")
        own = self.within(name) if name in self.config.universes else self
        experiment = more.get("experiment") or own._experiment(case, names["method"])
        return Key(kind, experiment, case, int(seed), **names)

    def within(self, name: str) -> Plan:
        """The plan of a universe; its results are named by keys of this one."""
        if not name:
            return self
        if name not in self._universes:
            self._universes[name] = Plan(universe(self.config, name), self.root)
        return self._universes[name]

    @cached_property
    def _universes(self) -> dict[str, Plan]:
        return {}

    def experiment(self, key: Key) -> Experiment:
        """With the settings of the key's universe."""
        return self.within(key.universe).experiments[key.experiment]

    def _experiment(self, case: str, method: str) -> str:
        owner = experiment_of(case)
        for name, experiment in self.experiments.items():
            takes = experiment.instances_of == owner and case in experiment.cases
            if takes and any(run.method == method for run in experiment.runs(case)):
                return name
        return owner

    def behind(self, key: Key) -> dict[str, list[Key]]:
        """What a result is computed from, by the name of the input."""
        owner = experiment_of(key.case)
        instances = replace(key, kind="instances", experiment=owner)
        core = replace(key, kind="cores", experiment=owner)
        if key.kind == "instances":
            return {}
        if key.kind == "cores":
            return {"instances": [instances]}
        found = {"instances": [instances], "core": [core]}
        experiment = self.experiment(key)
        if key.kind == "references":
            found["core"] = [replace(core, K=experiment.reference_settings()["depth"])]
        elif key.kind == "times":
            found["core"] = [replace(core, K=K) for K in experiment.depths]
        elif key.kind == "peers":  # trained layers are those of the release
            found["core"] = [replace(core, K=K) for K in self.config.peers.depths]
        elif key.kind == "checkpoints":
            start = experiment.start(Run(key.method, key.recipe))
            found["start"] = [_of_run(key, "checkpoints", start)] if start else []
        else:
            runs = [experiment.trained(run) for run in self.runs(key)]
            found["checkpoints"] = [_of_run(key, "checkpoints", run) for run in runs if run]
            if key.kind == "rows" and experiment.reference:
                found["reference"] = [replace(key, kind="references")]
        return found

    def runs(self, key: Key) -> list[Run]:
        """The runs that a result is of."""
        if key.method:
            return [Run(key.method, key.recipe)]
        experiment = self.experiment(key)
        named = {"traces": experiment.traced, "shifts": experiment.shifted}
        return named[key.kind](key.case) if key.kind in named else []

    @property
    def peers(self) -> list[Key]:
        """What is measured beside other solvers and layers."""
        part = self.config.peers
        return [self.key("peers", c, part.seed, universe=part.universe) for c in part.cases]

    def timed(self, key: Key) -> list[str]:
        """The methods whose times are measured: a time does not depend on the recipe."""
        section = self.experiment(key).section
        return list(dict.fromkeys([*section.methods, *section.extended]))

    def asked(self, key: Key) -> list[str]:
        """The same as `rcdrs evaluate` takes them: ``METHOD`` or ``METHOD@RECIPE=CHECKPOINT``."""
        found, experiment = [], self.experiment(key)
        for run in self.runs(key):
            trained = experiment.trained(run)
            path = f"{self.folder}/{_of_run(key, 'checkpoints', trained)}" if trained else ""
            found.append(f"{run}={path}" if trained else run.method)
        return found

    # Settings and digests.

    def settings(self, key: Key) -> Plain:
        """What the stage behind a result is told: plain values."""
        experiment, run = self.experiment(key), Run(key.method, key.recipe)
        match key.kind:
            case "instances":
                return experiment.instances()
            case "cores":
                return experiment.grid()
            case "checkpoints":
                return experiment.training(run)
            case "references":
                return experiment.reference_settings()
            case "shifts":
                return experiment.shift_settings()
            case "peers":
                return self._peers_settings() | {"grid": experiment.grid()}
            case "times":
                return experiment.solver(run) | self.config.timing.plain()
            case _:
                return experiment.solver(run)

    def _peers_settings(self) -> Plain:
        """Of every case alike, with the versions that count."""
        part = self.config.peers
        versions = versions_of(part.solvers, pinned(self.root))
        own = {name: getattr(part, name) for name in Measured.model_fields}
        own |= {"settings": {name: part.settings[name] for name in part.solvers}}
        return own | {"versions": versions}

    def code(self, key: Key) -> str:
        if key.kind == "peers":
            return peers_digest()
        return stage_digest(STAGES[key.kind], key.experiment)

    def digests(self, key: Key) -> dict[str, str]:
        """``CODE SETTINGS`` of everything behind each part of a result: its runs, or its times."""
        if key.kind == "peers":
            return {"peers": self._digest(key, None)}
        if key.kind == "times":
            experiment = self.experiment(key)
            digest = self._digest(key, None)
            names = [f"{m} K{K}" for m in self.timed(key) for K in experiment.depths]
            return dict.fromkeys(names, digest)
        return {str(run): self._digest(key, run) for run in self.runs(key)}

    def known_digests(self, key: Key) -> dict[str, str]:
        """The same; nothing for a variant or recipe that this configuration does not have."""
        try:
            return self.digests(key)
        except (KeyError, ValueError):
            return {}

    def _digest(self, key: Key, run: Run | None) -> str:
        known = (key.universe, key.kind, key.experiment, run)
        if known not in self._digested:
            one = key if run is None else replace(key, method=run.method, recipe=run.recipe)
            code = settings_digest([self.code(link) for link in self._chain(one)])
            self._digested[known] = f"{code} {settings_digest(self.all_settings(one))}"
        return self._digested[known]

    def all_settings(self, key: Key) -> list[Any]:
        """Of a result of one run: the settings of each stage behind it, and the threads."""
        chain = self._chain(key)
        return [[(link.kind, self.settings(link)) for link in chain], self.config.threads]

    def parts(self, key: Key) -> dict[str, Key]:
        """Each part of a result that has a digest of its own, as a result of one run or method."""
        if key.kind == "times":
            return dict.fromkeys(self.digests(key), key)
        runs = self.runs(key)
        return {str(run): replace(key, method=run.method, recipe=run.recipe) for run in runs}

    @cached_property
    def _digested(self) -> dict[Any, str]:
        return {}

    def _chain(self, key: Key) -> list[Key]:
        """A result and all that it is computed from, each kind of work once."""
        found: dict[Any, Key] = {}
        for inputs in self.behind(key).values():
            for part in inputs[:1]:
                found |= {(k.kind, k.method, k.recipe): k for k in self._chain(part)}
        return [*found.values(), key]

    # Results: what a run computed, or what was released and still holds.

    def result(self, key: Key) -> str:
        """The file with a result, released or computed."""
        mode = self.config.results
        if mode != "recompute" and self.released.holds(key, self.digests(key)):
            return str(self.released.path(key))
        if mode == "released":
            raise StaleResult(
                f"{key} is {self.released.state(key, self.digests(key))} in "
                f"{self.released.folder}: leave out results=released to compute it."
            )
        return f"{self.folder}/{key}"

    def results(self, keys: Iterable[Key]) -> list[str]:
        """The files with these results, each once; those of a run after released ones, since rows
        of later files replace those of earlier ones."""
        found = dict.fromkeys(self.result(key) for key in keys)
        return sorted(found, key=lambda path: path.startswith(f"{self.folder}/"))

    def state(self, key: Key) -> str:
        """``released``, ``computed`` or ``missing``; a released file of other code is ``stale``."""
        digests = self.digests(key)
        released = self.released.state(key, digests)
        if released == "current":
            return "released"
        path = Path(self.folder, key.path())
        if origin := read_origin(path):
            return "computed" if digests.items() <= origin["digests"].items() else "stale"
        return released

    def released_digests(self) -> dict[str, dict[str, str]]:
        """What this code and configuration would note of each released file, by part."""
        found: dict[str, dict[str, str]] = {}
        for name, entry in self.released.entries.items():
            digests: dict[str, str] = {}
            for key in self.released.keys_of(name, self.key):
                digests |= self.known_digests(key)
            found[name] = {part: digests[part] for part in entry["digests"] if part in digests}
        return found

    def released_states(self) -> Counter[str]:
        """How many released results are ``current``, and how many ``stale``."""
        now, found = self.released_digests(), Counter[str]()
        for name, entry in self.released.entries.items():
            if name.endswith(".csv"):
                for part, digest in entry["digests"].items():
                    found["current" if now[name].get(part) == digest else "stale"] += 1
        return found

    def origin(self, key: Key) -> Plain:
        """Where a result was computed: the note beside it, or its entry in the manifest."""
        if self.released.state(key, self.digests(key)) == "current":
            return self.released.entries[key.released()]
        return read_origin(Path(self.folder, key.path()))

    def stamp(self, key: Key) -> str:
        return json.dumps(self.digests(key), sort_keys=True)

    def tables_config(self) -> str:
        """What the tables show of the configuration: nothing of where and on what it runs."""
        shown = self.config.but(run="paper", results="auto", device="auto", threads=1)
        return shown.model_dump_json()

    @cached_property
    def released(self) -> Released:
        """Nothing where all is to be computed: no damage of a release stands in the way of that."""
        folder = self.root / RELEASED
        return Released(folder) if self.config.results == "recompute" else Released.read(folder)

    def warning(self) -> str:
        """Of released files that could be used and are not, if there are."""
        return "" if self.config.results == "recompute" else self.released.warning()


def _of_run(key: Key, kind: str, run: Run) -> Key:
    return replace(key, kind=kind, method=run.method, recipe=run.recipe)
