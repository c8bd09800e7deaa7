"""Times of jobs: what is read, and what is expected of a job."""

from __future__ import annotations

import pytest

from rcdrs.artifact import times as jobtimes
from rcdrs.artifact.times import (
    Estimate,
    JobTime,
    count,
    duration,
    kind_of,
    measure,
    overhead,
    read,
)
from rcdrs.cli.main import main

TRAIN = "train/paper/RCDRS-Env/socp-hard-{}-K20"


@pytest.fixture(autouse=True)
def speed(monkeypatch):
    """A machine whose speed does not depend on what else it does."""
    monkeypatch.setattr(jobtimes, "reference_seconds", lambda: 0.1)


def finished(run, name, seconds, inside=None):
    """The files that a job leaves behind."""
    benchmark, log = run / "benchmarks" / f"{name}.tsv", run / "logs" / f"{name}.log"
    for path in (benchmark, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    benchmark.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:01\t100\n")
    log.write_text("a warning\n" + (f"stage took {inside} s\n" if inside else "") + "wrote it\n")


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "results/mine"
    finished(run, TRAIN.format(0), 10.0, 8.0)
    finished(run, TRAIN.format(1), 20.0, 16.0)
    finished(run, "instances/socp-hard-0", 6.0, 3.0)
    finished(run, "render/synthetic_k20", 4.0)
    return run


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (TRAIN.format(12), "train/paper/RCDRS-Env/socp-hard-K20"),
        ("time/socp-hard-0", "time/socp-hard"),
        (
            "evaluate/synthetic/socp-hard-0-K20/RCDRS-Env@paper",
            "evaluate/synthetic/socp-hard-K20/RCDRS-Env@paper",
        ),
        ("trace/dispatch-turned-3/RCDRS-Env", "trace/dispatch-turned/RCDRS-Env"),
        ("render/synthetic_k20", "render/synthetic_k20"),
        ("preview", "preview"),
    ],
)
def test_kind_of_a_job_leaves_out_its_seed(name, kind):
    assert kind_of(f"results/paper/benchmarks/{name}.tsv") == kind


def test_times_are_means_over_the_seeds(run):
    times = {time.kind: time for time in measure(run)}
    train = times["train/paper/RCDRS-Env/socp-hard-K20"]
    assert (train.run, train.jobs, train.seconds, train.inside) == ("mine", 2, 15.0, 12.0)
    assert times["render/synthetic_k20"].inside == 0


def test_overhead_counts_training_evaluation_and_timing_alone(run):
    """Of 40 s, 24 s inside of training; making instances is not what a run is for."""
    assert overhead(measure(run)).startswith("4 jobs took 40 s of core time, 60% of it inside")


def test_run_that_only_rendered_has_no_overhead_to_tell(tmp_path):
    finished(tmp_path, "render/protocol", 4.0)
    assert overhead(measure(tmp_path)) == ""


@pytest.mark.parametrize("text", ["", "s\th:m:s\n", "s\th:m:s\nNA\t0:00:01\n", "0.5\n"])
def test_benchmark_that_a_kill_cut_off_is_left_out(run, text):
    (run / "benchmarks" / f"{TRAIN.format(1)}.tsv").write_text(text)
    assert next(t for t in measure(run) if t.rule == "train").jobs == 1


def test_table_keeps_the_times(run, tmp_path, capsys):
    table = tmp_path / "times.csv"
    assert main(["profile", str(run), "--out", str(table)]) == 0
    assert "mine: 4 jobs took 40 s" in capsys.readouterr().out
    kept = read(table)
    assert [time.kind for time in kept] == [time.kind for time in measure(run)]
    assert [time.seconds for time in kept] == [6.0, 4.0, 15.0]


def test_folder_without_benchmarks_is_an_error(tmp_path, capsys):
    assert main(["profile", str(tmp_path)]) == 2
    assert "no benchmark files under" in capsys.readouterr().err


def known(run, kind, seconds, reference=0.1):
    """A line of the table."""
    return JobTime(run, kind, 1, seconds, seconds, reference)


def test_estimate_prefers_what_was_measured_here(run):
    kind, other = "train/paper/RCDRS-Env/socp-hard-K20", "train/paper/RCDRS-Env/qp-hard-K20"
    expected = Estimate(run, [known("paper", kind, 99.0), known("paper", other, 45.0)])
    benchmarks = run / "benchmarks"
    assert expected(benchmarks / f"{TRAIN.format(7)}.tsv") == 15.0
    assert expected(benchmarks / "train/paper/RCDRS-Env/qp-hard-0-K20.tsv") == 45.0
    assert expected(benchmarks / "train/paper/L-PDHG/socp-hard-0-K5.tsv") == 30.0
    assert expected(benchmarks / "preview.tsv") is None


def test_unknown_kind_is_expected_to_take_as_long_as_others_of_its_case_and_depth(tmp_path):
    rows = "evaluate/synthetic/socp-hard"
    table = [known("paper", f"{rows}-K20", 8.0), known("paper", f"{rows}-K5", 2.0)]
    expected = Estimate(tmp_path, table)
    benchmarks = tmp_path / "benchmarks"
    assert expected(benchmarks / f"{rows}-1-K20/RCDRS-Env@paper.tsv") == 8.0
    assert expected(benchmarks / f"{rows}-1-K10/RCDRS-Env@paper.tsv") == 5.0


def test_estimate_scales_times_of_a_slower_machine(tmp_path):
    expected = Estimate(tmp_path, [known("paper", "time/qp-hard", 50.0, reference=0.5)])
    assert expected(tmp_path / "benchmarks/time/qp-hard-0.tsv") == pytest.approx(10.0)


def test_estimate_of_a_run_in_the_table_ignores_other_runs(tmp_path):
    run = tmp_path / "smoke"
    table = [known("paper", "time/qp-hard", 50.0), known("smoke", "time/qp-hard", 1.0)]
    assert Estimate(run, table)(run / "benchmarks/time/qp-hard-0.tsv") == 1.0


def test_reference_is_measured(monkeypatch):
    monkeypatch.undo()
    assert 0 < jobtimes.reference_seconds() < 10


def test_one_job_is_not_several():
    assert [count(number, "job") for number in (1, 1033)] == ["1 job", "1,033 jobs"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.44 s"), (2, "2 s"), (45, "45 s"), (12 * 60, "12 min"), (3.4 * 3600, "3.4 h")],
)
def test_duration_in_a_unit_that_fits(seconds, text):
    assert duration(seconds) == text
