"""From seed-level rows to tables."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, paper
from run_files import MORE, write_run

from rcdrs.artifact.config import PAPER as PAPER_CONFIG
from rcdrs.artifact.config import load
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.experiments.base import experiments
from rcdrs.reporting import tables
from rcdrs.reporting.coverage import READINGS, compare, compared_methods, ratio, summary
from rcdrs.reporting.formatting import (
    FIVE_DECIMALS,
    MILLISECONDS,
    SCIENTIFIC,
    Amount,
    Assigned,
    Cones,
    Joined,
    Measured,
    Numbers,
)
from rcdrs.reporting.paper_values import paper_coverage, paper_values
from rcdrs.reporting.render import HTML, LATEX, PLAIN
from rcdrs.reporting.results import MissingRow, Results, Statistic, read_rows
from rcdrs.reporting.tables import configured, needs, preview
from rcdrs.reporting.tables.base import bold_best, measured

PAPER = paper().but(universes={})
SMOKE_FILE = ROOT / "workflow/config/smoke.yaml"
#: Two seeds, so that there is a deviation to show.
SMOKE = load(ROOT / PAPER_CONFIG, SMOKE_FILE).but(seeds=[0, 1], universes={})
CONFIGS = {"paper": PAPER, "smoke": SMOKE}
METRICS = ("ObjErr", "Gap", "Eq", "Cone", "Dist", "r_p", "r_d", "r_comp", "r_gap", "Regret")
METRICS += ("CostGap", "OptGap", "Shed", "Curt", "Reserve", "Emerg", "Pass")
NOT_LEARNED = ("F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS")
PDFLATEX = shutil.which("pdflatex")


def seed_rows(config, seed=0):
    """Random rows and times of everything that a configuration runs."""
    rng = np.random.default_rng(seed)
    keys = []
    for name, kind in experiments().items():
        experiment = kind(config)
        for case, K, n in product(experiment.cases, experiment.depths, config.seeds):
            family, _, scale = case.partition("-")
            for run in experiment.runs(case):
                recipe = run.recipe if experiment.trained(run) else "-"
                keys.append((name, family, scale or "-", K, n, run.method, recipe))
    names = ["experiment", "family", "scale", "K", "seed", "method", "recipe"]
    rows = pd.DataFrame(keys, columns=names)
    metrics = list(dict.fromkeys([*METRICS, *(name for more in MORE.values() for name in more)]))
    rows[metrics] = 10 ** rng.uniform(-5, 1, (len(rows), len(metrics)))
    timed = (rows.experiment != "ablation") & (rows.recipe != "log_kkt")
    timing = rows[timed][names[:-1]].copy()
    timing["time_ms"] = rng.uniform(0.01, 0.4, len(timing))
    timing["device"] = "cpu"
    return rows, timing


ROWS = {name: seed_rows(config) for name, config in CONFIGS.items()}


def values(name, config, rows=None, timing=None):
    """The cells of a table, a line each."""
    cells = tables.values(name, config, Results(rows, timing, config.seeds))
    shown = [{"mean": c.mean, "std": c.std, "text": c.show(LATEX)} for c in cells]
    lines = [vars(cell) | text for cell, text in zip(cells, shown, strict=True)]
    return pd.DataFrame(lines).astype({"std": float})


def render(name, config, rows=None, timing=None, **options):
    return tables.render(name, config, Results(rows, timing, config.seeds), **options)


def behind(cell, rows, timing):
    """The rows, or times, of a cell."""
    frame, wanted = timing if cell["metric"] == "time_ms" else rows, set(cell["keys"])
    found = frame[[Key.of_row({"recipe": "-"} | row) in wanted for row in frame.to_dict("records")]]
    read = Results(rows, timing, []).behind(cell["metric"], cell["keys"])
    assert sorted(read[cell["metric"]]) == sorted(found[cell["metric"]])
    return found


def pick(rows, **places):
    """The rows that have these values in these columns."""
    return rows[(rows[[*places]] == places).all(axis=1)]


def changed(config, **changes):
    """The configuration with ``section__key=value`` set."""
    for path, value in changes.items():
        head, _, rest = path.partition("__")
        value = changed(getattr(config, head), **{rest: value}) if rest else value
        config = config.but(**{head: value})
    return config


# Formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.315, r"3.15\mathrm{e}{-1}"),
        (2.2, r"2.20\mathrm{e}{0}"),
        (0.0, r"0.00\mathrm{e}{0}"),
        (9.996e-3, r"1.00\mathrm{e}{-2}"),
        (9.994e-3, r"9.99\mathrm{e}{-3}"),
        (1.2345e12, r"1.23\mathrm{e}{12}"),
        (4.5e-11, r"4.50\mathrm{e}{-11}"),
        (-0.0123, r"-1.23\mathrm{e}{-2}"),
    ],
)
def test_scientific_numbers(value, text):
    assert LATEX.number(value, SCIENTIFIC.spec) == text


def test_mean_and_deviation_as_the_paper_prints_them():
    expected = r"\(3.15\mathrm{e}{-1}\!\pm\!3.07\mathrm{e}{-2}\)"
    assert LATEX.show(Measured(0.315, 0.0307, SCIENTIFIC)) == expected
    times = Measured(0.0424, 0.0151, MILLISECONDS)
    assert LATEX.show(times) == r"\(0.042\!\pm\!0.015\)"
    exact = Measured(0.014571, 0.00033, FIVE_DECIMALS)
    assert LATEX.show(exact) == r"\(0.01457\pm0.00033\)"
    assert LATEX.show(Measured(0.042, None, MILLISECONDS), bold=True) == r"\(\mathbf{0.042}\)"


def test_one_seed_has_no_deviation():
    assert LATEX.show(Measured(0.315, None, SCIENTIFIC)) == r"\(3.15\mathrm{e}{-1}\)"


def test_every_number_of_the_paper_is_printed_as_it_is_stored():
    """The paper's own cells survive the formatting: rounding loses nothing of them."""
    cells = paper_values()
    cells = cells[cells.table.isin(["tab:synthetic_main_k20", "tab:app_synthetic_k5"])]
    assert len(cells) == 160
    for cell in cells.itertuples():
        style = MILLISECONDS if cell.metric == "time_ms" else SCIENTIFIC
        assert Measured(cell.mean, cell.std, style).rounded == cell.mean
        assert Measured(cell.std, None, style).rounded == cell.std


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (64, "64"),
        (1000, "1000"),
        (0.3, "0.3"),
        (80.0, "80"),
        (0.03, "0.03"),
        (0.001, "10^{-3}"),
        (10000.0, "10^{4}"),
        (0.006, r"6\cdot10^{-3}"),
        (0.0, "0"),
        (1234567.0, r"1.234567\cdot10^{6}"),
    ],
)
def test_settings_are_exact(value, text):
    assert LATEX.exact(value) == text


def test_percent():
    assert LATEX.show(Amount(33.14, "percent")) == r"\(33.1\%\)"
    assert LATEX.show(Amount(math.inf, "percent")) == r"\(\infty\)"


@pytest.mark.parametrize(
    ("plain", "latex"),
    [
        ("RCDRS-NoEnv, log_kkt", r"\textsc{RCDRS-NoEnv}, \texttt{log\_kkt}"),
        ("Layerwise schedule", "Layerwise schedule"),
        ("Full alpha+beta+rho", r"Full \(\alpha+\beta+\rho\)"),
        ("No rho-memory", r"No \(\rho\)-memory"),
        ("SOCP, K=20", r"SOCP, \(K=20\)"),
        ("50% of {a}", r"50\% of \{a\}"),
    ],
)
def test_names(plain, latex):
    assert LATEX.text(plain) == latex


@pytest.mark.parametrize(
    ("value", "html", "plain"),
    [
        (Measured(0.315, 0.0307, SCIENTIFIC), "3.15e-1 ± 3.07e-2", "3.15e-01 ± 3.07e-02"),
        (Measured(0.04, None, MILLISECONDS, "F-DRS"), "0.040<br> F-DRS", "0.040 (F-DRS)"),
        (Amount(33.14, "percent"), "33.1%", "33.1 %"),
        (Amount(30, "of 36"), "30/36", "30/36"),
        ("RCDRS-Env, log_kkt", "RCDRS-Env, <code>log_kkt</code>", "RCDRS-Env, log_kkt"),
        ("No rho & a<b", "No &rho; &amp; a&lt;b", "No rho & a<b"),
        (Cones([("RotatedSecondOrder", (3, 32)), ("Nonneg", (4,))]),
         "(<i>Q</i><sup>r</sup><sub>3</sub>)<sup>32</sup> &times; <b>R</b><sub>+</sub><sup>4</sup>",
         "(Q^r_3)^32 x R_+^4"),
        (Assigned({"k_0": 80.0, "s_alpha": 0.006}),
         "k<sub>0</sub>=80, s<sub>&alpha;</sub>=6·10<sup>-3</sup>", "k_0=80, s_alpha=6·10^-3"),
        (Joined([Numbers([0, 1], "{}"), "constant"], ", "), "{0,1}, constant", "{0,1}, constant"),
        (250.0, "250", "250"),
        (None, "&ndash;", "--"),
    ],
)  # fmt: skip
def test_values_as_html_and_as_plain_text(value, html, plain):
    assert HTML.show(value) == html
    assert PLAIN.show(value) == plain


def test_bold_and_heads_in_html():
    assert HTML.show(Measured(0.042, None, MILLISECONDS), bold=True) == "<b>0.042</b>"
    assert HTML.head("r_gap") == "r<sub>gap</sub> ↓"
    assert HTML.head("Pass") == "Pass ↑"


# Statistics


def test_mean_and_sample_deviation_over_seeds():
    rows, _ = ROWS["paper"]
    query = {"family": "qp", "scale": "small", "K": 10, "method": "L-PDHG"}
    found = Results(rows, None, [0, 1, 2]).statistic("Dist", **query)
    picked = pick(rows, **query, experiment="synthetic")
    assert len(picked) == 3
    assert found.mean == pytest.approx(picked.Dist.mean())
    assert found.std == pytest.approx(picked.Dist.std(ddof=1))
    assert [key.path() for key in found.keys] == [
        f"synthetic/qp-small-{seed}-K10/L-PDHG@paper.csv" for seed in range(3)
    ]


def line(mean, method="a", metric="r_p"):
    return measured(method, metric, Statistic(metric, (mean,), ()), SCIENTIFIC)


def test_the_lowest_is_bold_after_rounding_and_ties_are_both_bold():
    cells = [line(1.234e-3), line(1.2341e-3), line(1.24e-3), line(5e-3, metric="r_d")]
    assert [cell.bold for cell in bold_best(cells)] == [True, True, False, True]
    assert bold_best(cells)[0].show(LATEX) == r"\(\mathbf{1.23\mathrm{e}{-3}}\)"


def test_the_largest_pass_rate_is_bold():
    cells = [line(rate, metric="Pass") for rate in (0.5, 0.9, 0.9, 0.1)]
    assert [cell.bold for cell in bold_best(cells)] == [False, True, True, False]


def test_times_are_not_bold():
    cells = values("synthetic_k20", PAPER, *ROWS["paper"])
    times = cells[cells.column == "time_ms"]
    assert len(times) == 16
    assert not times.bold.any()
    quality = cells[cells.column != "time_ms"].groupby(["block", "column"])
    assert (quality.bold.sum() >= 1).all()


@pytest.mark.parametrize(
    ("table", "damage", "told"),
    [
        ("synthetic_k20", {"method": "AA-DRS", "family": "mixed"}, "AA-DRS"),
        ("ablation_main", {"method": "mlp", "family": "socp"}, "mlp"),
        ("coverage", {"method": "RCDRS-NoEnv", "family": "qp", "recipe": "paper"}, "RCDRS-NoEnv"),
        ("settings_log_kkt", {"recipe": "log_kkt", "family": "qp"}, "log_kkt"),
    ],
)
def test_a_missing_row_is_an_error_that_names_it(table, damage, told):
    rows, timing = ROWS["smoke"]
    gone = pick(rows, **damage, seed=1).index
    with pytest.raises(ValueError, match=f"no row for .*-1-K.*/.*{told}"):
        render(table, SMOKE, rows.drop(gone), timing)


def test_a_number_that_is_none_is_an_error_that_names_it():
    rows, timing = ROWS["smoke"]
    wanted = {"experiment": "synthetic", "K": 20, "family": "socp", "seed": 1, "method": "L-PDHG"}
    for bad in (math.nan, math.inf):
        broken = rows.copy()
        broken.loc[pick(rows, **wanted).index, "r_d"] = bad
        message = f"r_d is {bad} in the row synthetic/socp-hard-1-K20/L-PDHG@paper"
        with pytest.raises(ValueError, match=message):
            render("synthetic_k20", SMOKE, broken, timing)


def test_a_missing_time_is_an_error():
    rows, timing = ROWS["smoke"]
    with pytest.raises(ValueError, match=r"no row for .*/S-ADMM@paper.csv: its time_ms"):
        render("synthetic_k5", SMOKE, rows, timing[timing.method != "S-ADMM"])


def test_doubled_rows_and_mixed_devices_are_errors():
    rows, timing = ROWS["smoke"]
    with pytest.raises(ValueError, match="two rows for ablation/socp-small-0-K5/mlp@paper"):
        render("synthetic_k5", SMOKE, pd.concat([rows, rows]), timing)
    mixed = timing.assign(device=np.where(timing.seed == 0, "cpu", "cuda"))
    with pytest.raises(ValueError, match="several devices"):
        render("synthetic_k5", SMOKE, rows, mixed)


# Coverage

#: Two compared methods; K = 5 and 20 of the three hard cases; one seed.
TINY = changed(SMOKE, seeds=[0], synthetic__methods=["F-DRS", "L-PDHG", "RCDRS-Env", "RCDRS-NoEnv"])
#: Gap of F-DRS, L-PDHG, RCDRS-Env, RCDRS-NoEnv; the ratio over every method in percent.
TINY_GAPS = {
    ("qp", 5): (4.0, 8.0, 2.0, 3.0),  # 50
    ("qp", 20): (8.0, 4.0, 4.0, 1.0),  # 25; Env ties with L-PDHG: no win of its own
    ("socp", 5): (1.0, 2.0, 3.0, 2.0),  # 200: lost
    ("socp", 20): (5.0, 9.0, 1.0, 2.0),  # 20
    ("mixed", 5): (2.0, 3.0, 1.0, 9.0),  # 50
    ("mixed", 20): (4.0, 2.0, 3.0, 0.1),  # 5
}
TINY_DISTS = {key: (1.0, 2.0, 0.5, 0.25) for key in TINY_GAPS} | {
    ("mixed", 20): (1.0, 0.5, 0.5, 0.1)
}


def tiny_rows():
    records = []
    for (family, K), gaps in TINY_GAPS.items():
        for method, gap, dist in zip(
            TINY.synthetic.methods, gaps, TINY_DISTS[family, K], strict=True
        ):
            key = {"experiment": "synthetic", "family": family, "scale": "hard", "K": K, "seed": 0}
            recipe = "-" if method == "F-DRS" else "paper"
            metrics = {"Gap": gap, "Dist": dist, "r_p": 0.25 if method == "L-PDHG" else 0.01}
            records.append(key | {"method": method, "recipe": recipe} | metrics)
    return pd.DataFrame(records)


def items(config, rows, recipe="paper", reading="every"):
    results = Results(rows, None, config.seeds)
    kind = (recipe, reading)
    gaps, distances = (compare(config, results, metric, *kind) for metric in ("Gap", "Dist"))
    return {item.name: item for item in summary(gaps, distances)}


def test_coverage_of_a_hand_computed_example():
    found = items(TINY, tiny_rows())
    assert {name: item.value for name, item in found.items()} == pytest.approx(
        {
            "best_rcdrs_gap_wins": 5,
            "rcdrs_env_gap_wins": 3,
            "rcdrs_env_distance_wins": 5,
            "mean_gap_ratio": 350 / 6,
            "median_gap_ratio": 37.5,
            "hard_qp_gap_ratio": 37.5,
            "hard_socp_gap_ratio": 110,
            "mixed_hard_gap_ratio_k5": 50,
            "mixed_hard_gap_ratio_k20": 5,
            "mixed_hard_distance_ratio_k5": 25,
            "mixed_hard_distance_ratio_k20": 20,
        }
    )
    assert found["best_rcdrs_gap_wins"].unit == "of 6"


def test_classical_coverage_of_the_same_example():
    """L-PDHG, the only one that learns, does not count."""
    found = items(TINY, tiny_rows(), reading="classical")
    assert {name: item.value for name, item in found.items()} == pytest.approx(
        {
            "best_rcdrs_gap_wins": 5,
            "rcdrs_env_gap_wins": 5,
            "rcdrs_env_distance_wins": 6,
            "mean_gap_ratio": (50 + 12.5 + 200 + 20 + 50 + 2.5) / 6,
            "median_gap_ratio": 35,
            "hard_qp_gap_ratio": 31.25,
            "hard_socp_gap_ratio": 110,
            "mixed_hard_gap_ratio_k5": 50,
            "mixed_hard_gap_ratio_k20": 2.5,
            "mixed_hard_distance_ratio_k5": 25,
            "mixed_hard_distance_ratio_k20": 10,
        }
    )


def test_the_readings_are_those_of_the_paper():
    methods = {reading: compared_methods(PAPER, reading) for reading in READINGS}
    assert methods == {
        "classical": ["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS"],
        "every": ["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "L-PDHG", "Layerwise-DRS"],
    }
    assert next(iter(READINGS)) == "classical"


def test_a_summary_shows_both_readings():
    cells = values("coverage", TINY, tiny_rows()).set_index(["row", "column"])["mean"]
    for column, reading in (("Ours, classical", "classical"), ("Ours, every", "every")):
        for item in items(TINY, tiny_rows(), reading=reading).values():
            assert cells[item.label, column] == item.value


def test_nothing_classical_to_compare_with_is_told():
    config = changed(TINY, synthetic__methods=["L-PDHG", "RCDRS-Env", "RCDRS-NoEnv"])
    with pytest.raises(MissingRow, match="has no classical method"):
        items(config, tiny_rows(), reading="classical")
    assert items(config, tiny_rows())["mean_gap_ratio"].value > 0


def test_coverage_has_the_papers_items():
    rows, _ = ROWS["paper"]
    found = items(PAPER, rows)
    assert list(found) == list(paper_coverage())
    assert [item.unit for item in found.values()] == [a.unit for a in paper_coverage().values()]


def test_a_depth_that_the_paper_lacks_has_no_value_beside_it():
    config = changed(TINY, synthetic__depths=[5])
    cells = values("coverage", config, tiny_rows())
    assert not (cells.row == "Mixed-hard gap ratio, K=20").any()
    config = changed(TINY, synthetic__depths=[7, 20])
    cells = values("coverage", config, tiny_rows().replace({"K": {5: 7}}))
    shown = cells[cells.row == "Mixed-hard gap ratio, K=7"].set_index("column").text
    assert (shown["Ours, classical"], shown["Paper"]) == (r"\(50.0\%\)", "--")


def test_coverage_uses_the_recipe_for_rcdrs_alone():
    rows, _ = ROWS["smoke"]
    paper, ours = items(SMOKE, rows), items(SMOKE, rows, "log_kkt")
    swapped = rows.replace({"recipe": {"paper": "log_kkt", "log_kkt": "paper"}})
    swapped.loc[~swapped.method.str.startswith("RCDRS"), "recipe"] = "paper"
    assert items(SMOKE, swapped)["mean_gap_ratio"].value == ours["mean_gap_ratio"].value
    assert paper["mean_gap_ratio"].value != ours["mean_gap_ratio"].value


@pytest.mark.parametrize("seed", range(3))
def test_coverage_does_not_depend_on_the_order_of_rows(seed):
    rows, _ = ROWS["smoke"]
    shuffled = rows.sample(frac=1, random_state=seed)
    assert items(SMOKE, rows) == items(SMOKE, shuffled)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e5])
def test_ratios_do_not_depend_on_the_unit_of_a_setting(factor):
    rows, _ = ROWS["smoke"]
    scaled = rows.copy()
    scaled.loc[(rows.family == "socp") & (rows.K == 5), ["Gap", "Dist"]] *= factor
    expected = {name: item.value for name, item in items(SMOKE, rows).items()}
    assert {n: item.value for n, item in items(SMOKE, scaled).items()} == pytest.approx(expected)


def test_ratio_to_a_gap_of_zero():
    assert ratio(0.0, 0.0) == 1
    assert ratio(0.1, 0.0) == math.inf
    rows = tiny_rows()
    rows.loc[(rows.family == "qp") & (rows.K == 5) & (rows.method == "F-DRS"), "Gap"] = 0.0
    found = items(TINY, rows)
    assert found["best_rcdrs_gap_wins"].value == 4
    assert found["mean_gap_ratio"].value == math.inf
    assert found["median_gap_ratio"].value == pytest.approx(37.5)
    assert r"\infty" in render("coverage", TINY, rows)["coverage.tex"]


def test_settings_csv_of_the_hand_computed_example():
    lines = csv.DictReader(io.StringIO(render("settings", TINY, tiny_rows())["settings.csv"]))
    found = {(x["family"], int(x["K"]), x["metric"]): x for x in lines}
    assert len(found) == 12
    assert found["qp", 20, "Gap"] == {
        "family": "qp", "scale": "hard", "K": "20", "metric": "Gap",
        "classical": "F-DRS", "classical_mean": "8", "classical_r_p": "0.01",
        "every": "L-PDHG", "every_mean": "4", "every_r_p": "0.25",
        "RCDRS-Env_mean": "4", "RCDRS-NoEnv_mean": "1",
        "ratio_classical_percent": "12.5", "ratio_every_percent": "25",
    }  # fmt: skip
    assert found["socp", 5, "Gap"]["every"] == "F-DRS"


# Tables

TABLES = configured(PAPER)
RENDERED = [(name, run) for run in CONFIGS for name in TABLES]


@cache
def rendered(name, run):
    return render(name, CONFIGS[run], *ROWS[run])


@pytest.mark.parametrize(("name", "run"), RENDERED)
def test_every_table_renders(name, run):
    files = rendered(name, run)
    assert set(files) == {f"{name}.tex", f"{name}.csv"}
    for content in files.values():
        assert not re.search(r"\b(nan|inf|None|Undefined)\b|\\VAR|\\BLOCK", content)
        assert not re.search(r"& *(&|\\\\)", content.replace("& & \\(", "")), "an empty cell"
    assert rf"\label{{tab:{name}}}" in files[f"{name}.tex"]
    assert files[f"{name}.csv"].startswith("family" if "settings" in name else "block,row,column")


@pytest.mark.parametrize(("name", "run"), RENDERED)
def test_the_rows_behind_a_cell_give_its_number(name, run):
    rows, timing = ROWS[run]
    cells = values(name, CONFIGS[run], rows, timing)
    assert not cells.duplicated(["block", "row", "column"]).any()
    assert (cells.text != "").all()
    for _, cell in cells[cells["std"].notna()].iloc[::7].iterrows():
        picked = behind(cell, rows, timing)
        assert len(picked) == len(CONFIGS[run].seeds)
        assert picked[cell["metric"]].mean() == pytest.approx(cell["mean"])
        assert picked[cell["metric"]].std() == pytest.approx(cell["std"])


@pytest.mark.parametrize("name", ["coverage", "coverage_log_kkt"])
def test_a_summary_needs_no_more_than_the_rows_behind_it(name):
    """Other rows may change as they like; every row picked is of the metric's settings."""
    rows, timing = ROWS["smoke"]
    cells = values(name, SMOKE, rows, timing)
    for _, cell in cells[cells.column.str.startswith("Ours")].iterrows():
        other = rows.copy()
        rest = rows.index.difference(behind(cell, rows, timing).index)
        other.loc[rest, cell["metric"]] *= 1e3
        again = values(name, SMOKE, other, timing)
        same = (again.row == cell["row"]) & (again.column == cell["column"])
        assert again[same]["mean"].item() == cell["mean"]


@pytest.mark.parametrize(("name", "run"), RENDERED)
def test_a_table_is_made_of_what_it_needs(name, run):
    config, (rows, timing) = CONFIGS[run], ROWS[run]
    wanted = set(needs(name, config))
    found = [Key.of_row(row) in wanted for row in rows.to_dict("records")]
    assert sum(found) == sum(key.kind == "rows" for key in wanted), "it needs what nothing computes"
    timed = [times_of(row) in wanted for row in timing.to_dict("records")]
    assert render(name, config, rows[found], timing[timed]) == rendered(name, run)


def times_of(row):
    key = Key.of_row(row | {"recipe": "-"})
    return Key("times", key.experiment, key.case, key.seed)


def test_rows_know_their_file(tmp_path):
    """In a file of one run as in one of all runs of a setting; no table shows it."""
    rows, timing = ROWS["smoke"]
    paths = []
    for number, (_, part) in enumerate(rows.groupby(rows.index // 7)):
        paths.append(tmp_path / f"{number}.csv")
        part.to_csv(paths[-1], index=False)
    timing.to_csv(tmp_path / "times.csv", index=False)
    read, times = read_rows(paths), read_rows([tmp_path / "times.csv"])
    results = Results(read, times, SMOKE.seeds)
    for cell in tables.values("synthetic_k20", SMOKE, results)[::7]:
        found = results.behind(cell.metric, cell.keys)
        assert len(found) == 2
        for line in found.to_dict("records"):
            source = pd.read_csv(line["source"]).to_dict("records")
            assert any(line[cell.metric] == other[cell.metric] for other in source)
    for name in TABLES:
        assert tables.render(name, SMOKE, results) == rendered(name, "smoke")
    assert read_rows([]).empty


def test_tables_need_no_heavy_library():
    """The workflow asks before each run what its tables need."""
    code = (
        "import sys; from rcdrs.artifact.config import load; from rcdrs.reporting.tables import "
        "configured, needs; config = load(sys.argv[1]);"
        "[needs(name, config) for name in configured(config)];"
        "sys.exit(str({'torch', 'matplotlib', 'scipy'} & set(sys.modules) or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, PAPER_CONFIG], capture_output=True, text=True, cwd=ROOT,
        check=False,
    )  # fmt: skip
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("name", ["protocol", "benchmarks", "hyperparameters"])
def test_tables_of_the_configuration_need_nothing(name):
    assert needs(name, PAPER) == []
    elsewhere = PAPER.but(run="other", device="cuda", threads=7)
    assert render(name, elsewhere) == rendered(name, "paper"), "it shows where the run took place"
    assert render(name, PAPER) == rendered(name, "paper")


def test_the_shape_of_the_papers_tables():
    k20 = values("synthetic_k20", PAPER, *ROWS["paper"])
    paper = paper_values()
    paper = paper[paper.table == "tab:synthetic_main_k20"]
    shape = list(zip(paper.benchmark, paper.method, paper.metric, strict=True))
    assert list(zip(k20.block, k20.row, k20.column, strict=True)) == shape
    full = values("ablation_full", PAPER, *ROWS["paper"])
    paper = paper_values()
    paper = paper[paper.table == "tab:main_ablation_summary"]
    assert len(full) == len(paper)
    main = values("ablation_main", PAPER, *ROWS["paper"])
    assert len(full) - len(main) == 4 * sum(not row.main for row in PAPER.ablation.rows)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("dfl_k20", "tab:dfl_main_k20"),
        ("dfl_k5_k10_k15", "tab:app_dfl_k5_k10_k15"),
        ("dispatch_k15", "tab:energy_main_k15"),
        ("dispatch_k5_k10", "tab:app_dispatch_k5_k10"),
    ],
)
def test_the_tables_of_decisions_have_the_papers_cells(name, table):
    ours = values(name, PAPER, *ROWS["paper"])
    paper = paper_values()
    paper = paper[paper.table == table]
    expected = {
        (f"K={K}", m, metric)
        for K, m, metric in zip(paper.K, paper.method, paper.metric, strict=True)
    }
    assert set(zip(ours.block, ours.row, ours.column, strict=True)) == expected
    assert len(ours) == len(paper)


@pytest.mark.parametrize(
    ("name", "change", "before", "after"),
    [
        ("protocol", {"seeds": [3, 4]}, r"\(\{0,1,2\}\)", r"\(\{3,4\}\)"),
        ("protocol", {"synthetic__instances__train": 77}, "2000/400/400", "77/400/400"),
        ("protocol", {"recipes__paper__batch": 99}, r"\(1024\)", r"\(99\)"),
        ("benchmarks", {"synthetic__families": ["mixed"]}, "QP-lift", "376 & 160 & 250"),
        ("hyperparameters", {"controller__hidden": 65}, r"\(64\)", r"\(65\)"),
        ("hyperparameters", {"recipes__log_kkt__loss__gap": 7.5}, "gap}=3", "gap}=7.5"),
        ("hyperparameters", {"controller__envelope__k_0": 81.0}, "k_0=80", "k_0=81"),
        ("hyperparameters", {"recipes__paper__reference": "base"}, "& tuned", "& base"),
        ("hyperparameters", {"timing__repeats": 8}, r"\(1\) / \(3\)", r"\(1\) / \(8\)"),
    ],
)
def test_tables_of_the_configuration_follow_it(name, change, before, after):
    file = f"{name}.tex"
    assert before in render(name, PAPER)[file]
    tex = render(name, changed(PAPER, **change))[file]
    assert before not in tex
    assert after in tex


def test_the_papers_dimensions():
    cells = values("benchmarks", PAPER)
    n = cells[cells.column == "n"].text.astype(int)
    assert list(n) == [96, 192, 288, 64, 128, 160, 120, 248, 376]


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("synthetic_k20", {"synthetic__depths": [5, 10]}, "about 20, but synthetic.depths"),
        ("synthetic_k5", {"synthetic__scales": ["small"]}, "about hard, but synthetic.scales"),
        (
            "synthetic_log_kkt",
            {"synthetic__extended": []},
            "RCDRS-Env, RCDRS-NoEnv, but .*extended",
        ),
        ("coverage", {"synthetic__families": ["socp"]}, "about qp, mixed, but synthetic.families"),
        ("coverage_log_kkt", {"synthetic__extended": ["RCDRS-Env"]}, "about RCDRS-NoEnv"),
        ("settings", {"synthetic__methods": ["RCDRS-Env", "RCDRS-NoEnv"]}, "strongest classical"),
        ("ablation_main", {"ablation__rows": []}, "no rows: ablation.rows"),
    ],
)
def test_what_a_configuration_lacks_is_told(name, change, told):
    config = changed(PAPER, **change)
    for ask in (needs, tables.render):
        with pytest.raises(ValueError, match=f"table {name} .*{told}"):
            ask(name, config)


def test_an_unknown_table_is_told():
    with pytest.raises(ValueError, match="unknown table 'k20', expected one of synthetic_k20"):
        render("k20", PAPER)


def test_a_value_that_a_template_lacks_is_an_error(tmp_path):
    (tmp_path / "protocol.tex.j2").write_text(r"\textbf{\VAR{name}} \#{ nothing } \VAR{absent}")
    with pytest.raises(jinja2.UndefinedError, match="absent"):
        render("protocol", PAPER, templates=tmp_path)


def test_one_seed_renders_without_deviations():
    config = changed(SMOKE, seeds=[1])
    for name in TABLES:
        for content in render(name, config, *ROWS["smoke"]).values():
            assert not re.search(r"\bnan\b|\\pm", content)


@pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex (Debian: texlive-latex-extra)")
@pytest.mark.parametrize("run", CONFIGS)
def test_every_table_compiles_and_fits(run, tmp_path):
    files = []
    for name in TABLES:
        files.append(tmp_path / f"{name}.tex")
        files[-1].write_text(rendered(name, run)[f"{name}.tex"])
    (tmp_path / "preview.tex").write_text(preview(files))
    for _ in range(4):  # longtable finds its widths in a few runs
        done = subprocess.run(
            [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "preview.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]
        if "Rerun" not in done.stdout:
            break
    assert "Rerun" not in done.stdout
    assert "Overfull" not in done.stdout


def test_explain_shows_the_number_its_rows_and_their_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = Plan(SMOKE.but(seeds=[0]), ROOT)
    write_run(plan, Path(plan.folder), instances=2)
    for column, name in (
        ("ObjErr", "synthetic/socp-hard-0-K20/RCDRS-Env@paper"),
        ("time_ms", "timing/socp-hard-0"),
    ):
        cell = ["synthetic_k20", "RCDRS-Env", column, "--configfile", str(SMOKE_FILE)]
        assert main(["explain", *cell]) == 0
        told = capsys.readouterr().out
        found = pd.read_csv(f"{plan.folder}/{name}.csv")
        of_method = (found.method == "RCDRS-Env") & (found.K == 20)
        if "recipe" in found:
            of_method &= found.recipe == "paper"
        spec = ".3f" if column == "time_ms" else ".2e"
        shown = format(found[of_method][column].item(), spec)
        assert f"SOCP RCDRS-Env, {column}: {shown}\n" in told
        files = re.findall(r"^  (\S+): \{.*\"host\": \"bench-1\"", told, re.MULTILINE)
        assert files == [
            f"{plan.folder}/{name}.csv",
            f"{plan.folder}/{name}.csv".replace("socp", "mixed"),
        ]
        assert "source" not in told
