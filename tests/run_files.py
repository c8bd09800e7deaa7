"""A run made up for the tests of the report: every file, with plausible numbers and no training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.base import Run
from rcdrs.reporting.formatting import LARGER_IS_BETTER
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.decisions import traced_day
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.shifts import data_targets
from rcdrs.reporting.tables import HOURS, OTHER_HOURS, configured
from rcdrs.reporting.tables.portfolio import METRICS as PORTFOLIO

#: Of all experiments; a row with more than its own does no harm.
METRICS = ("ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap", "Regret")
METRICS += ("CostGap", "OptGap", "Box", "Shed", "Curt", "Reserve", "Emerg", "Pass")
#: Of those on real data, beside these.
MORE = {
    "opf": [*HOURS, *OTHER_HOURS],
    "portfolio": [
        f"{start}{metric}_{period}"
        for start in ("", "Warm")
        for metric in PORTFOLIO
        for period in ("calm", "crash", "pandemic", "inflation")
    ],
}
#: How much better each method is than the first.
FACTORS = {"F-DRS": 1.0, "L-PDHG": 0.8, "S-ADMM": 0.2, "Grid-DRS": 0.1, "AA-DRS": 0.08}
FACTORS |= {"Layerwise-DRS": 0.05, "RCDRS-Env": 0.02, "RCDRS-NoEnv": 0.022}
ORIGIN = {"host": "bench-1", "machine": "x86_64 Linux", "device": "cpu", "python": "3.11.7"}
ORIGIN |= {"torch": "2.13.0", "numpy": "2.4.6"}


def write_run(plan: Plan, folder: Path, instances: int = 40, extra: bool = False) -> None:
    """All results that the tables and figures of a plan need, below `folder`; those of the tables
    that need packages of their own where they are asked for."""
    evidence = Evidence(plan)
    if extra:
        evidence.tables = list(configured(plan.config))
    for key in evidence.results:
        _results(plan, key, folder / key.path(), instances)
    for key in evidence.times:
        _times(plan, key, folder / key.path())
    for key in evidence.shifts:
        _shifts(plan, key, folder / key.path())
    for key in traced(plan):
        _trace(plan, key, folder / key.path())
    for key in traced_day(plan):
        _day(folder / key.path())
    tabled = [*evidence.results, *evidence.times, *evidence.shifts]
    for key in [*tabled, *traced(plan), *traced_day(plan)]:
        note = ORIGIN | {"digests": plan.digests(key)}
        (folder / key.path()).with_suffix(".origin.json").write_text(json.dumps(note))


def _where(key: Key) -> dict[str, Any]:
    """The columns of a result that tell its setting; times have no depth of their own."""
    family, _, scale = key.case.partition("-")
    where = {"experiment": key.experiment, "family": family, "scale": scale or "-"}
    return where | ({"K": key.K} if key.K else {}) | {"seed": key.seed}


def _rng(*names: object) -> np.random.Generator:
    return np.random.default_rng([ord(letter) for letter in "/".join(map(str, names))])


def _results(plan: Plan, key: Key, out: Path, instances: int) -> None:
    """One row, with the recipe "-" of what learns nothing as the engine writes it."""
    learned = plan.experiment(key).trained(Run(key.method, key.recipe))
    recipe = key.recipe if learned else "-"
    rng, means, details = _rng(key.path()), {}, {}
    level = FACTORS.get(key.method, 0.05) * np.exp(-0.2 * key.K) * (0.3 if key.universe else 1)
    for number, metric in enumerate(dict.fromkeys([*METRICS, *MORE.get(key.experiment, ())])):
        values = level * (1 + number) * (0.5 if recipe == "log_kkt" else 1.0)
        values = values * np.exp(0.1 * rng.normal() + 0.6 * rng.normal(size=instances))
        values = np.exp(-values) if metric in LARGER_IS_BETTER else values
        details[f"{key.method}@{recipe}/{metric}"] = values.astype(np.float32)
        means[metric] = float(values.astype(np.float32).astype(float).mean())
    _write([_where(key) | {"method": key.method, "recipe": recipe} | means], out)
    if key.experiment != "ablation":
        np.savez_compressed(out.with_suffix(".npz"), allow_pickle=False, **details)


def _times(plan: Plan, key: Key, out: Path) -> None:
    rng = _rng(key.path())
    rows = [
        _where(key)
        | {"K": K, "method": method}
        | {"time_ms": K * (0.01 + 0.002 * rng.uniform() + 0.02 * ("RCDRS" in method))}
        | {"device": "cpu"}
        for K in plan.experiment(key).depths
        for method in plan.timed(key)
    ]
    _write(rows, out)


def _shifts(plan: Plan, key: Key, out: Path) -> None:
    depths = plan.experiment(key).depths
    targets = data_targets(plan.config) + [f"K {K}" for K in depths if K != key.K]
    fixed, schedule = Run("Grid-DRS", "-"), Run("Layerwise-DRS", "log_kkt")
    runs = [(run, "home") for run in (fixed, *plan.runs(key))]
    lines = []
    for target in targets:
        for run, tuned in [*runs, (fixed, "there"), (schedule, "there")]:
            rng = _rng(key.path(), target, *run, tuned)
            where = _where(key) | {"experiment": "shift"}
            level = FACTORS.get(run.method, 0.03) * np.exp(0.3 * rng.normal())
            names = {"method": run.method, "recipe": run.recipe, "target": target, "tuned": tuned}
            metrics = ("Gap", "Dist", "r_p", "r_d", "r_gap", "median")
            lines.append(where | names | dict.fromkeys(metrics, level))
    _write(lines, out)


def _trace(plan: Plan, key: Key, out: Path) -> None:
    lines = []
    for method, recipe in plan.runs(key):
        where = _where(key) | {"method": method, "recipe": recipe}
        end = _rng(key.path(), method, recipe).uniform(0.5, 1.5)
        for series, base in (("alpha", 1.6), ("beta", 0.3)) if method != "L-PDHG" else ():
            for step in range(key.K + 1):
                middle = base * (1 + 0.1 * end * (1 - np.exp(-step / 4)))
                values = {"low": 0.97 * middle, "middle": middle, "high": 1.04 * middle}
                lines.append(where | {"series": series, "step": step} | values)
        for epoch in range(11):
            merit = np.exp(-epoch / 3) + 0.1 * end if recipe == "paper" else -end * epoch
            values = dict.fromkeys(("low", "middle", "high"), merit)
            lines.append(where | {"series": "merit", "step": epoch} | values)
    _write(lines, out)


def _day(out: Path) -> None:
    lines, wave = [], 1 + 0.3 * np.sin(np.arange(24) / 4)
    supply = ("Generator 1", "Generator 2", "Renewable power", "Emergency shedding")
    sides = {"supply": supply, "use": ("Charge", "Curtailment")}
    sides |= {"load": ("Load", "Load and charge"), "reserve": ("required", "headroom")}
    for schedule in ("Grid-DRS, K = 15", "RCDRS-Env, K = 15", "Optimum"):
        for side, parts in sides.items():
            for part in parts:
                values = _rng(schedule, part).uniform(0.2, 1.0) * wave
                line = {"schedule": schedule, "side": side, "part": part}
                lines += [line | {"hour": h, "value": value} for h, value in enumerate(values)]
        for metric in ("Shed", "Curt", "Reserve", "Eq"):
            line = {"schedule": schedule, "side": "metric", "part": metric}
            lines.append(line | {"hour": -1, "value": 0.01})
    _write(lines, out)


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)
