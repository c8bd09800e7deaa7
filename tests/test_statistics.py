"""Paired comparisons: known answers, and what must hold of any data."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_reporting import METRICS, NOT_LEARNED, PAPER, SMOKE, changed, seed_rows

from rcdrs.artifact.key import Key
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.details import Details
from rcdrs.reporting.results import Results
from rcdrs.reporting.statistics import (
    AHEAD,
    AHEAD_BY_NOISE,
    BEHIND,
    BEHIND_BY_NOISE,
    TIED,
    measurements,
    of_settings,
    of_table,
    paired,
)
from rcdrs.reporting.tables import values

SHAPES = st.tuples(st.integers(1, 4), st.integers(2, 12))
ERRORS = st.floats(1e-6, 1e6)


@st.composite
def pairs(draw):
    shape = draw(SHAPES)
    return draw(arrays(float, shape, elements=ERRORS)), draw(arrays(float, shape, elements=ERRORS))


# Known answers


def test_half_everywhere_is_a_clear_lead():
    b = np.arange(1.0, 13.0).reshape(3, 4)
    pair = paired(b / 2, b)
    assert pair.ratio == pytest.approx(0.5)
    assert (pair.low, pair.high) == pytest.approx((0.5, 0.5))
    assert (pair.seed_low, pair.seed_high) == pytest.approx((0.5, 0.5))
    assert (pair.won, pair.call) == (1.0, AHEAD)


def test_ratio_is_that_of_the_means_over_seeds_and_instances():
    a, b = np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [4.0, 6.0]])
    pair = paired(a, b)
    assert pair.ratio == pytest.approx(8 / 12)
    assert pair.seeds == pytest.approx((2.0, 0.4))
    assert pair.won == pytest.approx((0.5 + 0 + 1 + 1) / 4)


def test_interval_over_seeds_is_students():
    logs = np.array([-0.5, -0.2, 0.1])
    pair = paired(np.exp(logs), np.ones(3))
    low, high = scipy.stats.t.interval(0.95, 2, logs.mean(), scipy.stats.sem(logs))
    assert (pair.seed_low, pair.seed_high) == pytest.approx((math.exp(low), math.exp(high)))
    assert math.isnan(pair.low)
    assert math.isnan(pair.won)
    assert "over seeds" in str(pair)


def test_interval_over_instances_agrees_with_scipy():
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(0, 1, 200), rng.lognormal(0.2, 1, 200)
    pair = paired(a[None], b[None])
    theirs = scipy.stats.bootstrap(
        (a, b), lambda a, b, axis: a.mean(axis) / b.mean(axis), paired=True, vectorized=True,
        method="percentile", n_resamples=4000, rng=2,
    ).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    assert abs(pair.low - theirs.low) < 0.1 * width
    assert abs(pair.high - theirs.high) < 0.1 * width
    assert "over instances" in str(pair)


def test_interval_over_instances_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    truth, hits, rounds = math.exp(-0.1), 0, 200
    for _ in range(rounds):
        common = rng.normal(size=(3, 100))  # what makes an instance hard for both
        a = np.exp(common + 0.3 * rng.normal(size=common.shape) - 0.1)
        b = np.exp(common + 0.3 * rng.normal(size=common.shape))
        pair = paired(a, b)
        hits += pair.low <= truth <= pair.high
    assert 0.9 < hits / rounds < 0.99


def test_instances_are_paired():
    """Both methods depend on the instance far more than they differ: only pairing can tell."""
    rng = np.random.default_rng(3)
    b = np.exp(2 * rng.normal(size=(3, 200)))
    a = 0.97 * b * np.exp(0.01 * rng.normal(size=b.shape))
    assert paired(a, b).call == AHEAD
    assert paired(np.flip(a, 1), b).call != AHEAD


# The call


@pytest.mark.parametrize(
    ("seeds", "call"),
    [
        ((0.5, 0.51, 0.49), AHEAD),
        ((0.9, 0.5, 0.2), AHEAD_BY_NOISE),  # every seed, but three so far apart prove nothing
        ((0.5, 0.5, 1.1), AHEAD_BY_NOISE),
        ((0.5,), AHEAD_BY_NOISE),  # one seed has no spread
        ((1.0, 1.0, 1.0), TIED),
        ((0.9995, 0.9996, 0.9995), TIED),  # as equal as three printed digits can show
        ((0.9, 1.1, 0.9999), AHEAD_BY_NOISE),
        ((1.4, 1.5, 0.9), BEHIND_BY_NOISE),
        ((1.1, 1.5, 3.0), BEHIND),  # every seed: enough to be behind
        ((1.1,), BEHIND),
    ],
)
def test_call_from_seeds_alone(seeds, call):
    assert paired(np.array(seeds), np.ones(len(seeds))).call == call


def test_bootstrap_can_object_either_way():
    """One instance of 50 makes the whole difference, in every seed alike."""
    quiet = np.ones((3, 50))
    loud = quiet.copy()
    loud[:, 0] = 40
    assert paired(quiet, loud).call == AHEAD_BY_NOISE
    assert paired(loud, quiet).call == BEHIND_BY_NOISE


def test_zero_is_below_everything_and_ties_with_itself():
    zero, some = np.zeros((3, 5)), np.full((3, 5), 1e-3)
    assert paired(zero, some).call == AHEAD
    assert paired(zero, some).ratio == 0
    assert paired(some, zero).call == BEHIND
    assert paired(some, zero).ratio == math.inf
    assert paired(zero, zero).call == TIED
    assert paired(zero, zero).won == 0.5


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.ones(3), np.ones(2), "expected the same seeds"),
        (np.ones((3, 2)), np.ones((3, 1)), "expected the same seeds"),
        (np.ones((1, 1, 1)), np.ones((1, 1, 1)), "expected the same seeds"),
        (np.ones(0), np.ones(0), "expected the same seeds"),
        (np.array([-1.0]), np.ones(1), "negative or not a number"),
        (np.array([math.nan]), np.ones(1), "negative or not a number"),
        (np.ones(1), np.array([math.inf]), "negative or not a number"),
    ],
)
def test_impossible_data_is_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        paired(a, b)


# What holds of any data


@given(pairs())
def test_exchanged_methods_give_the_inverse(data):
    a, b = data
    one, other = paired(a, b), paired(b, a)
    assert one.ratio * other.ratio == pytest.approx(1)
    assert one.low * other.high == pytest.approx(1)
    assert one.won + other.won == pytest.approx(1)


@given(pairs())
def test_intervals_are_intervals(data):
    pair = paired(*data)
    assert pair.low <= pair.high
    assert pair.seed_low <= pair.seed_high
    assert 0 <= pair.won <= 1


@given(pairs(), st.floats(1e-3, 1e3))
def test_unit_of_the_metric_does_not_matter(data, unit):
    a, b = data
    assert paired(a * unit, b * unit).ratio == pytest.approx(paired(a, b).ratio)
    assert paired(a * unit, b * unit).low == pytest.approx(paired(a, b).low)


@given(pairs())
def test_same_data_give_the_same_numbers(data):
    assert paired(*data) == paired(*data)


@given(pairs())
def test_method_ties_with_itself(data):
    assert paired(data[0], data[0]).call == TIED


@given(pairs())
def test_seeds_alone_give_the_same_seed_interval(data):
    a, b = data
    whole, means = paired(a, b), paired(a.mean(1), b.mean(1))
    assert (whole.seed_low, whole.seed_high) == pytest.approx((means.seed_low, means.seed_high))


# From files


def run_files(folder, config, rows, instances=20, apart=False):
    """An .npz beside every synthetic seed-level CSV, whose means are the rows: one for each
    setting, or for each run."""
    rng = np.random.default_rng(0)
    synthetic = rows[rows.experiment == "synthetic"]
    for (family, scale, K, seed), group in synthetic.groupby(["family", "scale", "K", "seed"]):
        setting = folder / "synthetic" / f"{family}-{scale}-{seed}-K{K}"
        files = {}
        for row in group.to_dict("records"):
            path = setting / f"{Key.of_row(row).run}.npz" if apart else setting.with_suffix(".npz")
            for metric in METRICS:
                noise = rng.uniform(0.5, 1.5, instances)
                files.setdefault(path, {})[f"{row['method']}@{row['recipe']}/{metric}"] = (
                    row[metric] * noise / noise.mean()
                ).astype("float32")
        for path, details in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **details)
    return Details(sorted(folder.rglob("*.npz")))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    rows, timing = seed_rows(SMOKE)
    details = run_files(tmp_path_factory.mktemp("details"), SMOKE, rows)
    return rows, timing, Results(rows, timing, SMOKE.seeds), details


def keys(method, recipe="paper", seeds=(0, 1)):
    return [Key("rows", "synthetic", "socp-hard", seed, 20, method, recipe) for seed in seeds]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("recipe", ["-", "paper"])
def test_instances_of_what_learns_nothing_belong_to_the_papers_recipe(tmp_path, recipe, apart):
    rows, timing = seed_rows(SMOKE)
    rows = rows.replace({"recipe": {"-": recipe}})
    results, details = Results(rows, timing, [0, 1]), run_files(tmp_path, SMOKE, rows, apart=apart)
    found = measurements(results.of("r_d", keys("F-DRS")), details)
    picked = rows[(rows.K == 20) & (rows.family == "socp") & (rows.method == "F-DRS")]
    assert found.shape == (2, 20)
    assert found.mean(1) == pytest.approx(picked.sort_values("seed").r_d.to_numpy(), rel=1e-5)


def test_without_files_there_are_the_means(smoke):
    found = measurements(smoke[2].of("r_d", keys("RCDRS-Env", "log_kkt")), Details())
    assert found.shape == (2,)
    assert Details().of("r_d", keys("F-DRS")) is None
    assert smoke[3].of("no such metric", keys("F-DRS")) is None


def test_instances_of_another_run_are_refused(smoke):
    rows, timing, _, details = smoke
    other = Results(rows.assign(r_d=rows.r_d * 1.1), timing, SMOKE.seeds)
    with pytest.raises(ValueError, match=r"r_d of .*F-DRS.* are of different runs"):
        measurements(other.of("r_d", keys("F-DRS")), details)


def test_damaged_file_is_named(tmp_path):
    path = tmp_path / "synthetic" / "socp-hard-0-K20.npz"
    path.parent.mkdir()
    path.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(ValueError, match=r"socp-hard-0-K20\.npz is not a readable"):
        Details([path]).of("r_d", keys("F-DRS", seeds=[0]))


def test_seeds_with_other_numbers_of_instances_are_named(tmp_path):
    (tmp_path / "synthetic").mkdir()
    for seed, count in ((0, 3), (1, 4)):
        path = tmp_path / "synthetic" / f"socp-hard-{seed}-K20.npz"
        np.savez(path, **{"F-DRS@-/r_d": np.ones(count)})
    details = Details(sorted(tmp_path.glob("*/*.npz")))
    with pytest.raises(ValueError, match="differs in its number of instances"):
        details.of("r_d", keys("F-DRS"))


# Settings and tables


@pytest.mark.parametrize("reading", READINGS)
def test_settings_compare_what_the_coverage_compares(smoke, reading):
    _, _, results, details = smoke
    lines = of_settings(SMOKE, results, details, "Gap", "log_kkt", reading)
    assert len(lines) == 6
    assert not set(lines["first"]) - {"RCDRS-Env", "RCDRS-NoEnv"}
    assert not set(lines["second"]) & {"RCDRS-Env", "RCDRS-NoEnv"}
    assert lines["low"].notna().all()
    line = lines.iloc[0]
    others = [m for m in SMOKE.synthetic.methods if not m.startswith("RCDRS")]
    strongest = min(
        (m for m in others if reading == "every" or m in NOT_LEARNED),
        key=lambda m: results.statistic("Gap", line.family, line.scale, line.K, m).mean,
    )
    assert line.second == strongest


def test_best_of_every_column_against_the_second(smoke):
    _, _, results, details = smoke
    cells = values("synthetic_k20", SMOKE, results)
    lines = of_table("synthetic_k20", cells, results, details)
    assert len(lines) == 8  # two families, four metrics; times are not ranked
    assert (lines["ratio"] <= 1).all()
    assert lines["won"].between(0, 1).all()
    without = of_table("synthetic_k20", cells, results)
    pd.testing.assert_series_equal(lines["ratio"], without["ratio"], rtol=1e-4)
    assert without["low"].isna().all()


def test_tables_without_ranked_columns_give_no_line(smoke):
    results = smoke[2]
    for name in ("ablation_main", "settings", "protocol"):
        assert of_table(name, values(name, SMOKE, results), results).empty


def test_all_settings_of_the_paper_take_seconds(tmp_path):
    config = changed(PAPER, synthetic__methods=["F-DRS", "RCDRS-Env", "RCDRS-NoEnv"])
    rows, timing = seed_rows(config)
    details = run_files(tmp_path, config, rows, instances=50)
    lines = of_settings(config, Results(rows, timing, [0, 1, 2]), details)
    assert len(lines) == 36
    assert set(lines["call"]) <= {AHEAD, AHEAD_BY_NOISE, TIED, BEHIND_BY_NOISE, BEHIND}


def test_a_run_with_unsolved_instances_is_compared_by_its_means():
    whole, means = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]), np.array([4.0, 4.0])
    found = paired(whole, means)
    assert found.seeds == pytest.approx((0.5, 0.5))
    assert np.isnan(found.low)
