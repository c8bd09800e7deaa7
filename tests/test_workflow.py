"""The workflow as its users run it: Snakemake on a configuration of seconds, killed and resumed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rcdrs.artifact.hooks import check_room, failure, recover, refuse

ROOT = Path(__file__).parents[1]
TINY = """
run: tiny
seeds: [0]
synthetic:
  families: [socp]
  scales: [small]
  depths: [3]
  instances: {train: 16, validation: 8, test: 8}
  methods: [Grid-DRS, RCDRS-Env, RCDRS-NoEnv]
  extended: []
recipes: {paper: {epochs: 2, batch: 8}}
"""
#: Of the tiny configuration: instances, tune, train twice, evaluate, render.
JOBS = 6
#: An earlier pytest-xdist or coverage setting must not reach the jobs.
ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def command(
    folder: Path,
    *options: object,
    target: str = "table_settings",
    cores: int = 2,
    root: Path = ROOT,
) -> list[str]:
    """`snakemake TARGET` in a folder of its own."""
    config = folder / "tiny.yaml"
    folder.mkdir(exist_ok=True)
    if not config.exists():
        config.write_text(TINY)
    start = [sys.executable, "-m", "snakemake", "--snakefile", root / "Snakefile"]
    where = ["--directory", folder, "--cores", cores, target, "--configfile", config]
    return [str(word) for word in (*start, *where, *options)]


def snakemake(folder: Path, *options: object, **how) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(folder, *options, **how),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def results(folder: Path) -> dict[str, bytes]:
    """Every file that a run is for: all but its logs and measured times."""
    run = folder / "results/tiny"
    files = [path for path in run.rglob("*") if path.is_file()]
    names = {str(path.relative_to(run)): path for path in files}
    return {n: p.read_bytes() for n, p in names.items() if not n.startswith(("logs", "benchmarks"))}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which the workflow ran on one core, undisturbed."""
    folder = tmp_path_factory.mktemp("finished")
    done = snakemake(folder, cores=1)
    assert done.returncode == 0, done.stdout
    (folder / "output").write_text(done.stdout)
    return folder


def test_lint_is_clean():
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "near"),
    [("table_synthetic_k02", "table_synthetic_k20"), ("paper_table", "paper_tables")],
)
def test_mistyped_target_names_the_nearest(tmp_path, target, near):
    done = snakemake(tmp_path, "-n", target=target)
    assert done.returncode != 0
    assert f"there is no target {target}: did you mean {near}" in done.stdout


def test_paper_is_not_replaced_by_other_settings(tmp_path):
    done = snakemake(tmp_path, "-n", "--config", "run=paper")
    assert done.returncode != 0
    assert "seeds, synthetic, recipes differ from workflow/config/paper.yaml" in done.stdout


def test_part_of_a_run_can_be_asked_for_on_the_command_line(tmp_path):
    """Numbers inside of lists arrive as text there."""
    part = ("run=part", "seeds=[4]", "synthetic={depths: [2], families: [qp]}")
    rows = "results/part/synthetic/qp-small-4-K2.csv"
    done = snakemake(tmp_path, "-n", "--config", *part, target=rows)
    assert done.returncode == 0, done.stdout
    assert "evaluate qp-small, K=2, seed 4" in done.stdout


def test_run_says_what_it_will_do_and_what_it_did(finished):
    output = (finished / "output").read_text()
    assert f"\n{JOBS} jobs" in output
    assert f"{JOBS} jobs took " in output
    assert "of it inside training, evaluation and timing." in output


def test_finished_run_has_nothing_to_do(finished):
    assert "Nothing to be done" in snakemake(finished).stdout


def test_eight_cores_and_a_read_only_checkout_give_the_same_bytes(finished, tmp_path, monkeypatch):
    # Where compiled kernels go for all but root, who may write to the checkout.
    monkeypatch.setitem(ENVIRONMENT, "NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    checkout = tmp_path / "checkout"
    skipped = shutil.ignore_patterns(".*", "__pycache__", "results", "*.egg-info")
    shutil.copytree(ROOT, checkout, ignore=skipped)
    before = sorted(checkout.rglob("*"))
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = snakemake(tmp_path / "run", cores=8, root=checkout)
    for path in checkout.rglob("*"):  # or the folder could not be deleted
        path.chmod(0o755)
    assert done.returncode == 0, done.stdout
    assert sorted(checkout.rglob("*")) == before  # root may write where it should not
    assert results(tmp_path / "run") == results(finished)


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """What Snakemake leaves when it is killed: its lock, and a marker for a file in the making."""
    monkeypatch.chdir(tmp_path)
    state = tmp_path / ".snakemake"
    (state / "locks").mkdir(parents=True)
    (state / "locks/0.output.lock").write_text("out.csv\n")
    (state / "incomplete").mkdir()

    def mark(name: str, external_jobid: str | None = None) -> Path:
        (tmp_path / name).write_text("half of it")
        first, rest = (base64.urlsafe_b64encode(name.encode()).decode()[i:j] for i, j in CUTS)
        marker = state / "incomplete" / (f"@{first}/{rest}" if rest else first)
        marker.parent.mkdir(exist_ok=True)
        marker.write_text(json.dumps({"external_jobid": external_jobid}))
        return marker

    return mark


#: Snakemake cuts the names of its markers so that any file system can hold them.
CUTS = ((0, 254), (254, None))


@pytest.mark.parametrize("name", ["out.csv", f"{'long' * 55}.csv"])
def test_file_that_a_killed_run_was_making_is_discarded(killed, name):
    marker = killed(name)
    recover()
    assert not Path(name).exists()
    assert not Path(".snakemake/locks").exists()
    assert marker.exists()  # Snakemake's own; without its file it says nothing


def test_marker_that_the_kill_cut_off_counts_too(killed):
    killed("out.csv").write_text("")
    recover()
    assert not Path("out.csv").exists()


def test_file_that_a_cluster_is_making_is_left_alone(killed):
    killed("out.csv", external_jobid="17")
    recover()
    assert Path("out.csv").exists()


def test_run_that_is_alive_is_left_alone(killed):
    killed("out.csv")
    with open(".snakemake/alive", "w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        recover()
    assert Path("out.csv").exists()
    assert Path(".snakemake/locks/0.output.lock").exists()


def test_target_like_nothing_is_told_where_all_are():
    with pytest.raises(ValueError, match="no target xyz: `snakemake --list` names all"):
        refuse("xyz", ["paper_tables"])


def test_full_disk_is_told_before_a_run_and_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "full" not in failure([])
    check_room()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    assert f"the disk of {tmp_path} is full: make room first." in failure([])
    with pytest.raises(OSError, match="is full: make room first"):
        check_room()


def start_and_wait_for(folder: Path, pattern: str) -> subprocess.Popen:
    """A run in the background that has come as far as the file."""
    run = subprocess.Popen(
        command(folder),
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(folder.glob(f"results/tiny/{pattern}")):
        assert run.poll() is None
        time.sleep(0.005)
    return run


def group_is_gone(group: int) -> bool:
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_killed_run_goes_on_with_the_same_command(finished, tmp_path):
    """Killed while jobs run, at last when one has written only the first of its outputs."""
    for moment in ("logs/tune/*.log", "logs/train/paper/*/*.log", "checkpoints/paper/*/*.csv"):
        run = start_and_wait_for(tmp_path, moment)
        if "tune" in moment:
            os.kill(run.pid, signal.SIGSTOP)  # or it would be done before a second has started
            second = snakemake(tmp_path, "--rerun-incomplete")
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert list(tmp_path.glob(".snakemake/locks/*")), "the kill came too late"
        assert group_is_gone(run.pid)
    assert second.returncode != 0
    assert "cannot be locked" in second.stdout
    done = snakemake(tmp_path)
    assert done.returncode == 0, done.stdout
    assert results(tmp_path) == results(finished)


def test_failing_job_shows_its_log_and_the_rest_goes_on(tmp_path):
    """One recipe diverges; the other is trained all the same."""
    poison = "recipes={paper: {learning_rate: 1e30}}"
    both = "synthetic={extended: [RCDRS-Env]}"
    done = snakemake(tmp_path, "--keep-going", "--config", poison, both)
    assert done.returncode != 0
    assert "rule train failed.  The end of results/tiny/logs/train/paper/RCDRS-Env" in done.stdout
    # Which is checked first; whether the loss has overflowed by then depends on the CPU.
    diverged = r"rcdrs train: the (training loss|validation merit) is not finite in epoch"
    assert re.search(diverged, done.stdout)
    assert "the same command goes on from here" in done.stdout
    made = results(tmp_path)
    assert "checkpoints/log_kkt/RCDRS-Env/socp-small-0-K3.pt" in made
    assert not any(name.startswith(("checkpoints/paper", "paper_tables")) for name in made)


def test_full_disk_is_named_and_loses_nothing(finished, tmp_path):
    """A limit on the size of files stands for it: checkpoints are the largest here."""
    folder, own = tmp_path / "run", "checkpoints/paper/RCDRS-Env/socp-small-0-K3"
    shutil.copytree(finished, folder)
    rows, table = "synthetic/socp-small-0-K3.csv", "paper_tables/settings.tex"
    for name in (f"{own}.pt", f"{own}.csv", rows, table):
        (folder / "results/tiny" / name).unlink()
    before = results(folder)
    limited = ["bash", "-c", 'ulimit -f 30; exec "$@"', "-", *command(folder)]
    done = subprocess.run(limited, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "rule train failed" in output
    assert "3 jobs, about " in output  # their kinds were timed by the finished run
    assert "rcdrs train: [Errno 27] File too large" in output
    assert results(folder) == before
    assert snakemake(folder).returncode == 0
    assert results(folder) == results(finished)
