"""How far the results of a run are from the released ones.

The same code on the same machine gives the same bytes.  Another CPU rounds differently, and
training amplifies that.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from rcdrs.artifact.manifest import Released
from rcdrs.reporting.results import KEY, read_rows

#: Zero but for rounding: the readout is in the cone and complementary by construction.
EXACT = ["Cone", "Box", "r_comp"]
#: Differences are relative to the released value, or to this where that is smaller.
FLOOR = 1e-6


def compare(run: Path, released: Released) -> pd.DataFrame:
    """One row for each experiment, method and recipe that a run and the release have in common.

    Columns: how many rows they have of it, how many of these are the same to the last digit, the
    median over rows of the largest relative difference in any metric, and the largest of all, with
    its metric and setting.  A number that only one of the two has is an infinite difference.
    """
    frames = [
        _differences(computed, released.folder / name)
        for name in sorted(released.entries)
        if name.endswith(".csv")
        if (computed := sorted((run / name).with_suffix("").glob("*@*.csv")))
    ]
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        raise ValueError(
            f"{run} has no result that is released too: compute one first, as with `snakemake "
            "--cores 2 results/paper/synthetic/socp-hard-0-K20/Grid-DRS@paper.csv --config "
            "results=recompute`."
        )
    rows = pd.concat(frames, ignore_index=True)
    groups = rows.groupby(["experiment", "method", "recipe"], sort=False)["largest"]
    worst = rows.loc[groups.idxmax(), ["where", "metric"]]
    return pd.DataFrame(
        {
            "rows": groups.size(),
            "identical": groups.apply(lambda found: int((found == 0).sum())),
            "median": groups.median(),
            "largest": groups.max(),
            "metric": worst["metric"].to_numpy(),
            "in": worst["where"].to_numpy(),
        }
    ).reset_index()


def _differences(computed: list[Path], released: Path) -> pd.DataFrame:
    """Of the rows of a setting that both have, the largest relative difference, with its metric."""
    ours, theirs = (
        read_rows(paths).drop(columns=["source", "universe"]).astype(dict.fromkeys(KEY, str))
        for paths in (computed, [released])
    )
    ours, theirs = ours.set_index([*KEY]).align(theirs.set_index([*KEY]), join="inner")
    if ours.empty:
        return pd.DataFrame()
    relative = (ours - theirs).abs() / theirs.abs().clip(lower=FLOOR)
    relative = relative.mask(ours.isna() & theirs.isna(), 0.0).fillna(math.inf)
    relative = relative.drop(columns=EXACT, errors="ignore")
    found = pd.DataFrame({"largest": relative.max(axis=1), "metric": relative.idxmax(axis=1)})
    return found.reset_index().assign(where=released.stem)
