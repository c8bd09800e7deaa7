"""Results of a run beside the released ones."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from rcdrs.artifact.manifest import Released
from rcdrs.cli.main import main
from rcdrs.reporting.compare import compare

NAME = "synthetic/socp-hard-0-K{}.csv"
ROW = {"experiment": "synthetic", "family": "socp", "scale": "hard", "seed": 0, "recipe": "-"}


def rows_of(K: int, gaps: dict[str, float]) -> pd.DataFrame:
    """With these gaps by method."""
    rows = [
        ROW | {"K": K, "method": method, "Gap": gap, "r_d": 0.5, "Cone": gap * 1e-7}
        for method, gap in gaps.items()
    ]
    return pd.DataFrame(rows)


def write(run: Path, K: int, **gaps: float) -> None:
    """Results of a run: a file for each row."""
    folder = (run / NAME.format(K)).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for method, gap in gaps.items():
        rows_of(K, {method: gap}).to_csv(folder / f"{method}@paper.csv", index=False)


def publish(folder: Path, K: int, **gaps: float) -> None:
    """The same as a release has them: a file for each setting."""
    path = folder / NAME.format(K)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows_of(K, gaps).to_csv(path, index=False)


@pytest.fixture
def released(tmp_path: Path) -> Released:
    for K in (5, 10, 20):
        publish(tmp_path / "released", K, Grid=0.2, Env=0.1)
    names = [NAME.format(K) for K in (5, 10, 20)]
    details = [name.replace(".csv", ".npz") for name in names]
    others = ["timing/socp-hard-0.csv", "checkpoints/paper/RCDRS-Env/socp-hard-0-K5.pt"]
    return Released(tmp_path / "released", {name: {} for name in names + details + others})


def test_rows_that_both_have_are_compared(tmp_path: Path, released: Released) -> None:
    """K=20 is not computed, Grid of K=10 neither; rounding of zero does not count."""
    write(tmp_path, 5, Grid=0.2, Env=0.11)
    write(tmp_path, 10, Env=0.1, Other=3.0)
    table = compare(tmp_path, released).set_index("method").sort_index(ascending=False)
    assert list(table.index) == ["Grid", "Env"]
    assert table["rows"].to_list() == [1, 2]
    assert table["identical"].to_list() == [1, 1]
    assert table["largest"].to_list() == pytest.approx([0.0, 0.1])
    assert table["median"].to_list() == pytest.approx([0.0, 0.05])
    assert table.loc["Env", ["metric", "in"]].to_list() == ["Gap", "socp-hard-0-K5"]


def test_a_number_that_only_one_has_is_an_infinite_difference(
    tmp_path: Path, released: Released
) -> None:
    write(tmp_path, 5, Grid=math.nan, Env=0.1)
    assert compare(tmp_path, released)["largest"].to_list() == [0.0, math.inf]
    publish(tmp_path / "released", 5, Grid=math.nan, Env=0.1)
    assert compare(tmp_path, released)["largest"].to_list() == [0.0, 0.0]


def test_only_rows_that_are_released_too_are_compared(tmp_path: Path, released: Released) -> None:
    """Another method, another setting, and files of a former layout."""
    write(tmp_path, 5, Other=0.2)
    write(tmp_path, 40, Grid=0.2)
    publish(tmp_path, 10, Grid=0.2)
    with pytest.raises(ValueError, match="has no result that is released too"):
        compare(tmp_path, released)


def test_nothing_to_compare_says_what_to_compute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path} has no result that is released too" in error
    assert "results=recompute" in error
