"""What a run has left, found without insisting on any of it: the page shows what is there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcdrs.artifact.plan import PAPER, Plan, StaleResult
from rcdrs.reporting.results import Config
from rcdrs.reporting.statistics import Details
from rcdrs.reporting.tables import TABLES, needs


@dataclass(frozen=True)
class Missing:
    """A part that cannot be shown: why, and the command that computes it."""

    title: str
    reason: str
    command: str = ""
    kind: str = "missing"


class Evidence:
    """The results of one plan that exist, released or computed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.config: Config = plan.config
        self._frames: dict[str, pd.DataFrame] = {}
        self._paths: dict[str, Path] = {}

    def path(self, name: str) -> Path | None:
        """The file of a result, named as in `Plan.result`; None where there is none yet."""
        if name not in self._paths:
            try:
                path = Path(self.plan.result(name))
            except (StaleResult, KeyError):  # not released, or of a kind that the plan has not
                return None
            if not path.exists():
                return None
            self._paths[name] = path
        return self._paths[name]

    def frame(self, names: Iterable[str]) -> pd.DataFrame:
        """The rows of those files that exist."""
        frames = [self._read(name) for name in names if self.path(name)]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def details(self, name: str, metric: str) -> dict[str, np.ndarray]:
        """A metric instance by instance, keyed ``METHOD@RECIPE``; empty where there is none.

        The file stands beside the seed-level CSV of that name.
        """
        found, end = self.path(name), f"/{metric}"
        if found is None or not found.with_suffix(".npz").exists():
            return {}
        with np.load(found.with_suffix(".npz"), allow_pickle=False) as stored:
            return {k.removesuffix(end): stored[k] for k in stored.files if k.endswith(end)}

    @cached_property
    def instances(self) -> Details:
        """Every metric instance by instance, as paired comparisons take it."""
        found = [path.with_suffix(".npz") for name in self.results if (path := self.path(name))]
        return Details(path for path in found if path.exists())

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every seed-level row behind a table, with the recipe "paper" for what learns nothing."""
        frame = self.frame(self.results)
        if "recipe" in frame:
            frame["recipe"] = frame["recipe"].replace("-", "paper")
        return frame

    @cached_property
    def results(self) -> list[str]:
        """The seed-level results behind all tables."""
        return _unique(name for table in TABLES for name in self.behind(table)[0])

    @cached_property
    def times(self) -> list[str]:
        return _unique(name for table in TABLES for name in self.behind(table)[1])

    def behind(self, table: str, seeds: list[int] | None = None) -> tuple[list[str], list[str]]:
        """Rows and times behind a table; none where the configuration leaves it out."""
        config = self.config if seeds is None else self.config | {"seeds": seeds}
        try:
            found = needs(table, config)
        except (ValueError, KeyError):
            return [], []
        return _unique(found.rows), _unique(found.times)

    def seeds(self, table: str) -> list[int]:
        """The seeds of which everything that a table needs is there."""
        return [
            seed
            for seed in self.config["seeds"]
            if all(self.path(name) for names in self.behind(table, [seed]) for name in names)
        ]

    def command(self, target: str) -> str:
        """The command that computes a target of the workflow with this run's settings."""
        text, run = f"snakemake --cores 2 {target}", self.config["run"]
        own = Path(PAPER).with_stem(run)
        known = run != "paper" and (self.plan.root / own).exists()
        return f"{text} --configfile {own.as_posix()}" if known else text

    def missing(self, title: str, names: Iterable[str], target: str) -> Missing:
        """The note in place of a part that needs these results."""
        names = list(names)
        there = sum(self.path(name) is not None for name in names)
        reason = f"{there} of {len(names)} results are there." if there else ""
        return Missing(title, reason, self.command(target))

    def state(self, name: str) -> str:
        """``released``, ``computed``, ``stale`` or ``missing``, as `Plan.state` says."""
        return self.plan.state(name)

    def origin(self, name: str) -> dict[str, Any]:
        """Where a result was computed: the note beside it, or its entry in the manifest."""
        path = self.path(name)
        if path is None:
            return {}
        note = path.with_suffix(".origin.json")
        if note.exists():
            return dict(json.loads(note.read_text()))
        return dict(self.plan.released.entries.get(name, {}))

    def _read(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            path = self.path(name)
            assert path is not None
            try:
                self._frames[name] = pd.read_csv(path)
            except (ValueError, UnicodeDecodeError) as error:
                raise ValueError(
                    f"{path} is not a readable CSV ({error}): delete it and run the workflow again."
                ) from error
        return self._frames[name]


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
