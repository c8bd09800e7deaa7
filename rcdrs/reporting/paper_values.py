"""The values printed in the paper, as data."""

from __future__ import annotations

from importlib.resources import as_file, files

import pandas as pd


def paper_values() -> pd.DataFrame:
    """The cells of its result tables in long form: table, benchmark, K, method, metric, ..."""
    return _read("values.csv")


def paper_coverage() -> pd.DataFrame:
    """Its coverage summary over the 36 synthetic settings."""
    return _read("coverage_values.csv")


def _read(name: str) -> pd.DataFrame:
    with as_file(files("rcdrs.reporting") / "paper" / name) as path:
        return pd.read_csv(path)
