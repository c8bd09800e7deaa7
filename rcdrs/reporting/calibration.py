"""How near the synthetic instances come to the paper's: its classical rows against ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from rcdrs.baselines.grid_drs import select_core
from rcdrs.controller import BASE_ACTION
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.reporting.paper_values import paper_values
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.readout import readout

#: The paper's name of each family that has classical rows; its tables show the hard scale.
BENCHMARKS = {"socp": "SOCP", "mixed": "Mixed cone"}
TABLES = {5: "tab:app_synthetic_k5", 20: "tab:synthetic_main_k20"}
METRICS = ("ObjErr", "r_p", "r_d", "r_gap")


def calibrate(family: str, seed: int, config: Any) -> pd.DataFrame:
    """F-DRS and Grid-DRS at K = 5 and 20 on the test split, beside the paper's figures.

    Sixteen rows with the columns K, method, metric, ours, paper and ratio = ours / paper.
    Rows of learned methods are left out on purpose: instances fitted to them would
    prejudge the comparison.
    """
    if family not in BENCHMARKS:
        known = ", ".join(BENCHMARKS)
        raise ValueError(f"no classical rows for family {family!r}, expected one of {known}.")
    section, sampling = config.synthetic, config.sampling
    instances = generate(f"{family}-hard", seed, section.instances.plain(), sampling=sampling)
    rows, grid = [], (section.grid.alpha, section.grid.beta, section.grid.instances)
    for K in TABLES:
        for method, core in (
            ("F-DRS", BASE_ACTION[1:]),
            ("Grid-DRS", select_core(instances.validation, K, *grid)),
        ):
            ours = _figures(instances, K, *core)
            rows += [(K, method, metric, ours[metric]) for metric in METRICS]
    table = pd.DataFrame(rows, columns=["K", "method", "metric", "ours"])
    table = table.merge(_paper(family), on=["K", "method", "metric"], validate="one_to_one")
    return table.assign(ratio=table["ours"] / table["paper"])


def rms(table: pd.DataFrame) -> float:
    """``sqrt(mean log(ours / paper)^2)``: 0.3 means a typical factor of exp(0.3) = 1.35."""
    return float(np.sqrt(np.mean(np.log(table["ratio"]) ** 2)))


@torch.no_grad()
def _figures(instances: InstanceSet, depth: int, alpha: float, beta: float) -> dict[str, float]:
    """Test means of the four metrics for one core."""
    test = instances.test
    state = rollout(test.program, alpha, beta, depth)
    residuals = readout(test.program, state.z, state.u, beta)
    values = residuals._asdict() | {"ObjErr": test.errors(state.z).ObjErr}
    return {metric: float(values[metric].mean()) for metric in METRICS}


def _paper(family: str) -> pd.DataFrame:
    """The paper's means for one family, with the columns K, method, metric, paper."""
    values = paper_values()
    values = values[
        values["table"].isin(TABLES.values()) & (values["benchmark"] == BENCHMARKS[family])
    ]
    return values[["K", "method", "metric", "mean"]].rename(columns={"mean": "paper"})
