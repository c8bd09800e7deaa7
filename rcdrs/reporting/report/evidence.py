"""What a run has left, found without insisting on any of it: the page shows what is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from rcdrs.artifact.config import PAPER, Config
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan, StaleResult
from rcdrs.reporting.details import Details
from rcdrs.reporting.peers import read as read_peers
from rcdrs.reporting.results import KEY, Results, read_rows
from rcdrs.reporting.tables import available, shown


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
        self.path = cache(self._path)
        self._rows = cache(lambda path: read_rows([path]))

    def _path(self, key: Key) -> Path | None:
        """The file of a result; None where there is none yet."""
        try:
            path = Path(self.plan.result(key))
        except (StaleResult, KeyError):  # not released, or of a kind that the plan has not
            return None
        return path if path.is_file() else None

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """The rows of these results that exist."""
        files: dict[Path, set[Key]] = {}
        for key in keys:
            if path := self.path(key):
                files.setdefault(path, set()).add(key)
        frames = []
        for path, wanted in files.items():
            rows = self._rows(path)
            if next(iter(wanted)).kind == "rows":  # a released file may have others
                keys = map(Key.of_row, rows[[*KEY, "universe"]].to_dict("records"))
                rows = rows[[key in wanted for key in keys]]
            frames.append(rows)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def details(self, keys: Iterable[Key], metric: str) -> dict[tuple[str, str], np.ndarray]:
        """A metric instance by instance, all seeds together, by method and recipe."""
        found: dict[tuple[str, str], list[np.ndarray]] = {}
        for key in keys:
            values = self.instances.one(metric, key) if self.path(key) else None
            if values is not None:
                found.setdefault((key.method, key.recipe), []).append(values)
        return {run: np.concatenate(parts) for run, parts in found.items()}

    @cached_property
    def instances(self) -> Details:
        """Every metric instance by instance, as paired comparisons take it."""
        paths = dict.fromkeys(path for key in self.results if (path := self.path(key)))
        found = [path.with_suffix(".npz") for path in paths]
        return Details(path for path in found if path.exists())

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every seed-level row behind a table of the configuration as it stands."""
        rows = Results(self.frame(self.home), None, self.config.seeds).rows
        return pd.DataFrame(rows.values())

    @cached_property
    def results(self) -> list[Key]:
        """The seed-level results behind all tables."""
        return [key for key in self._behind_all if key.kind == "rows"]

    @cached_property
    def home(self) -> list[Key]:
        """Those of the configuration as it stands: a universe has the same methods otherwise."""
        return [key for key in self.results if not key.universe]

    @cached_property
    def times(self) -> list[Key]:
        return [key for key in self._behind_all if key.kind == "times"]

    @cached_property
    def shifts(self) -> list[Key]:
        return [key for key in self._behind_all if key.kind == "shifts"]

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The lines of peers, where they were measured."""
        return read_peers(path for key in self.plan.peers if (path := self.path(key)))

    @cached_property
    def tables(self) -> list[str]:
        """Those of the page."""
        return shown(self.plan)

    @cached_property
    def _behind_all(self) -> list[Key]:
        return list(dict.fromkeys(key for name in self.tables for key in self.behind(name)))

    def behind(self, table: str, seeds: list[int] | None = None) -> list[Key]:
        """Rows and times behind a table; none where the configuration leaves it out."""
        return available(table, self.config if seeds is None else self.config.but(seeds=seeds))

    def of(self, table: str, seeds: list[int]) -> Results:
        """What a table needs, of some seeds."""
        keys = self.behind(table, seeds)
        rows, times, shifts = (
            self.frame(key for key in keys if key.kind == kind)
            for kind in ("rows", "times", "shifts")
        )
        peers = self.measured if any(key.kind == "peers" for key in keys) else None
        return Results(rows, times, seeds, self.instances, shifts, peers)

    def seeds(self, table: str) -> list[int]:
        """The seeds of which everything that a table needs is there."""
        return [
            seed
            for seed in self.config.seeds
            if all(self.path(key) for key in self.behind(table, [seed]))
        ]

    def command(self, target: str) -> str:
        """The command that computes a target of the workflow with this run's settings."""
        text, run = f"snakemake --cores 2 {target}", self.config.run
        own = Path(PAPER).with_stem(run)
        known = run != "paper" and (self.plan.root / own).exists()
        return f"{text} --configfile {own.as_posix()}" if known else text

    def missing(self, title: str, keys: Iterable[Key], target: str) -> Missing:
        """The note in place of a part that needs these results."""
        keys = list(keys)
        there = sum(self.path(key) is not None for key in keys)
        reason = f"{there} of {len(keys)} results are there." if there else ""
        return Missing(title, reason, self.command(target))
