"""The values printed in the paper, as data."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import pandas as pd

from rcdrs.reporting.formatting import Amount


def paper_values() -> pd.DataFrame:
    """The cells of its result tables in long form: table, benchmark, K, method, metric, ..."""
    return _read("values.csv")


@cache
def paper_coverage() -> dict[str, Amount]:
    """Its coverage summary over the 36 synthetic settings, item by item."""
    lines = _read("coverage_values.csv")
    return {
        item: Amount(float(value), unit)
        for item, value, unit in zip(lines["item"], lines["value"], lines["unit"], strict=True)
    }


def _read(name: str) -> pd.DataFrame:
    with as_file(files("rcdrs.reporting") / "paper" / name) as path:
        return pd.read_csv(path)
