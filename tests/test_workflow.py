"""The workflow as its users run it: Snakemake on a configuration of seconds, killed and resumed."""

from __future__ import annotations

import base64
import fcntl
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT, copy_of_checkout
from numba.core.caching import _CacheLocator
from snakemake.exceptions import WorkflowError

from rcdrs.artifact import console as console_module
from rcdrs.artifact import slurm
from rcdrs.artifact.console import PAUSE, Console
from rcdrs.artifact.hooks import Start, failure, recover, refuse
from rcdrs.artifact.plan import Plan

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
#: Of the tiny configuration: instances, tune, train twice, evaluate three times, render.
JOBS = 8
#: An earlier pytest-xdist or coverage setting must not reach the jobs.
ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def command(
    folder: Path,
    *options: object,
    target: str = "table_settings",
    cores: int | None = 2,
    root: Path = ROOT,
) -> list[str]:
    """`snakemake TARGET ...` in a folder of its own."""
    config = folder / "tiny.yaml"
    folder.mkdir(exist_ok=True)
    if not config.exists():
        config.write_text(TINY)
    start = [sys.executable, "-m", "snakemake", "--snakefile", root / "Snakefile"]
    where = ["--directory", folder, *(["--cores", cores] if cores else [])]
    where += [*target.split(), "--configfile", config]
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
    assert "seeds, recipes, opf, synthetic differ from workflow/config/paper.yaml" in done.stdout


def test_part_of_a_run_can_be_asked_for_on_the_command_line(tmp_path):
    """Numbers inside of lists arrive as text there."""
    part = ("run=part", "seeds=[4]", "synthetic={depths: [2], families: [qp]}")
    rows = "results/part/synthetic/qp-small-4-K2/Grid-DRS@paper.csv"
    done = snakemake(tmp_path, "-n", "-p", "--config", *part, target=rows)
    assert done.returncode == 0, done.stdout
    assert "evaluate Grid-DRS (paper) on qp-small, K=2, seed 4" in done.stdout


def test_run_says_what_it_will_do_and_what_it_did(finished):
    output = (finished / "output").read_text()
    assert f"\n{JOBS} jobs" in output
    assert f"{JOBS} jobs took " in output
    assert "of it inside training, evaluation and timing." in output


def test_run_says_how_far_it_is_and_what_it_made(finished):
    """First what it does, and at the end that it is done and where to look."""
    lines = (finished / "output").read_text().replace(str(ROOT), ".").splitlines()
    progress = [line for line in lines if line.startswith("[")]
    assert progress[0] == f"[0/{JOBS}] generate socp-small, seed 0"
    assert re.fullmatch(rf"\[{JOBS}/{JOBS}\] [\d.]+ (s|min)", progress[-1])
    tables = "results/tiny/paper_tables/settings"
    assert f"made {tables}.csv, {tables}.tex" in lines
    assert max(map(len, lines)) < 200


class Job:
    """Of a run in which all need the first."""

    local, indent, benchmark = True, False, "x.tsv"

    def __init__(self, number: int) -> None:
        self.jobid = self.job_id = number
        self.message, self.output = f"job {number}", [f"out/{number}.csv"]


@pytest.fixture
def console(monkeypatch):
    """Of 400 jobs, at a time that a test sets."""
    jobs = [Job(number) for number in range(400)]
    needed = {job: jobs[1:] if job is jobs[0] else [] for job in jobs}
    dag = SimpleNamespace(get_job_group=lambda job: None, depending=needed)
    found = object.__new__(Console)
    workflow = SimpleNamespace(dryrun=False, dag=dag)
    vars(found).update(_finished=[], _running={}, _told=-PAUSE, _workflow=workflow)
    seconds = dict.fromkeys(jobs, 1.0)
    wall = lambda workflow: float(len(seconds))  # noqa: E731
    vars(found).update(schedule=SimpleNamespace(seconds=seconds, wall=wall), _whole=400.0)
    vars(found).update(_began=0.0, _jobs={job.jobid: job for job in jobs}, now=0.0)
    monkeypatch.setattr(console_module, "monotonic", lambda: found.now)
    return found


def test_progress_is_a_few_lines_a_minute_however_many_jobs_end(console):
    """400 jobs of a second each."""
    told = []
    for number, job in enumerate(list(console.schedule.seconds)):
        console.now = float(number)
        told.append(console._job_info(job))
        console._job_finished(job)
        told.append(console._progress(None))
    told = list(filter(None, told))
    assert told[0] == "[  0/400] job 0"
    assert re.fullmatch(r"\[ 15/400\] 15 s, about 6 min left: job 15", told[1])
    assert told[-1] == "[400/400] 7 min"
    assert len(told) <= 2 + 400 / PAUSE


def test_progress_names_one_of_the_jobs_that_run(console):
    for job in list(console.schedule.seconds)[:3]:
        console._job_info(job)
    console.now = 20.0
    console._job_finished(console._jobs[1])
    assert console._progress(None) == "[  1/400] 20 s, about 9 min left: job 2, and 1 more"


def test_what_was_made_is_listed_by_folder(console):
    """Without what other jobs took; of many files, how many there are."""
    assert console.made() == "made out: 399 .csv"
    few = {number: console._jobs[number] for number in (0, 7, 5)}
    console._jobs = few
    assert console.made() == "made out/5.csv, out/7.csv"


def test_dry_run_of_the_paper_fits_a_screen(tmp_path):
    """All of its tables, in a line for each rule."""
    (tmp_path / "tiny.yaml").write_text("{}")
    options = ("-n", "--config", "results=recompute", "tables=paper")
    said = snakemake(tmp_path, *options, target="paper_tables").stdout
    lines = said.replace(str(ROOT), ".").splitlines()  # wherever the checkout is
    assert len(lines) <= 30
    assert max(map(len, lines)) < 120
    table = {line.split()[0]: line for line in lines}
    assert re.search(
        r"^train +1,\d\d\d +[\d.]+ h   output files have to be generated$", table["train"]
    )
    assert re.search(r"^2,\d\d\d jobs, about [\d.]+ h on 2 cores", lines[-1])


@pytest.mark.parametrize("option", ["-p", "--verbose", "--quiet"])
def test_snakemake_itself_can_be_heard(finished, option):
    """With the commands, with all that it does, or with next to nothing."""
    said = snakemake(finished, "-n", "--forceall", option).stdout
    assert ("rcdrs train results/tiny" in said) == (option == "-p")
    assert ("Job stats:" in said) == (option != "--quiet")
    assert "core time" not in said


def test_snakemake_speaks_where_the_console_fails():
    console = object.__new__(Console)
    logging.Handler.__init__(console)
    heard = []
    console._usual = SimpleNamespace(handle=heard.append)
    record = logging.makeLogRecord({"msg": "of a DAG that nobody knows"})
    console.handle(record)
    assert heard == [record]


def test_finished_run_has_nothing_to_do(finished):
    assert "Nothing to be done" in snakemake(finished).stdout


def test_report_of_snakemake_shows_the_tables_without_a_network(finished, tmp_path):
    """All that its page shows is packed with Snakemake, and nothing is left to download."""
    page = tmp_path / "report.html"
    done = snakemake(finished, "--report", page)
    assert done.returncode == 0, done.stdout
    assert "downloading" not in done.stdout
    content = page.read_text()
    assert "results/tiny/paper_tables/settings.csv" in content
    assert "Tables" in content
    # What it is about, and what is said of a table, with its name.
    assert "each with what it" in content
    assert "Cells of the table" in content
    assert not re.search(r"<(script|link|img)[^>]* (src|href)=.?https?:", content)


def test_workflow_is_found_where_catalogs_look_for_it(finished):
    """As the same: the finished run has nothing to do."""
    start = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "workflow/Snakefile"]
    where = ["--directory", finished, "--cores", "1", "--configfile", finished / "tiny.yaml"]
    words = [str(word) for word in (*start, "table_settings", *where)]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "Nothing to be done" in done.stdout + done.stderr
    assert (ROOT / "config/README.md").exists()
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["report"] is True


def hand_kernels_on(checkout: Path, cache: Path) -> None:
    """What is compiled beside this code, where Numba looks for that of a copy: a minute saved."""
    for folder in (ROOT / "rcdrs").rglob("__pycache__"):
        source = checkout / folder.relative_to(ROOT).parent / "any.py"
        goal = cache / _CacheLocator.get_suitable_cache_subpath(str(source))
        for kernel in folder.glob("*.nb?"):
            goal.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kernel, goal)


def test_eight_cores_and_a_read_only_checkout_give_the_same_bytes(finished, tmp_path, monkeypatch):
    # Where compiled kernels go for all but root, who may write to the checkout.
    monkeypatch.setitem(ENVIRONMENT, "NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    checkout = tmp_path / "checkout"
    skipped = shutil.ignore_patterns(".*", "__pycache__", "results", "*.egg-info")
    shutil.copytree(ROOT, checkout, ignore=skipped)
    hand_kernels_on(checkout, tmp_path / "kernels")
    before = sorted(checkout.rglob("*"))
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = snakemake(tmp_path / "run", cores=8, root=checkout)
    for path in checkout.rglob("*"):  # or the folder could not be deleted
        path.chmod(0o755)
    assert done.returncode == 0, done.stdout
    assert sorted(checkout.rglob("*")) == before  # root may write where it should not
    assert results(tmp_path / "run") == results(finished)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A checkout whose released results are all current, in a folder with an unusual name."""
    letter = "ä" if sys.getfilesystemencoding() == "utf-8" else "a"
    checkout = tmp_path_factory.mktemp("x") / f"My r{letter}po & $(touch x) 'y' {{a}}"
    return copy_of_checkout(checkout)


def in_checkout(checkout: Path, *options: str) -> str:
    """What Snakemake says there."""
    start = [sys.executable, "-m", "snakemake", "--cores", "1"]
    environment = ENVIRONMENT | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [*start, *options],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_name_of_the_folder_is_only_a_name(released):
    """Neither a command nor a pattern: nothing else is made, there or beside it."""
    before = {path.name for path in released.iterdir()}
    for table in ("protocol", "synthetic_k20"):
        (released / f"paper_tables/{table}.tex").unlink()
    assert "\n2 jobs" in in_checkout(released, "table_protocol", "table_synthetic_k20")
    for table in ("protocol", "synthetic_k20"):
        assert (released / f"paper_tables/{table}.tex").stat().st_size
    assert {path.name for path in released.iterdir()} - before <= {".snakemake"}
    assert list(released.parent.iterdir()) == [released]


def planned(checkout: Path, target: str, **config: str) -> tuple[list[str], Counter[str]]:
    """The jobs of a dry run by log, but for the render at their end, and how many of each rule."""
    settings = [f"{name}={value}" for name, value in config.items()]
    said = in_checkout(checkout, "-n", "-p", target, "--config", *settings)
    found = re.findall(rf"> results/{config['run']}/logs/(\S+)\.log", said)
    found.remove(f"render/{target.removeprefix('table_')}")
    return found, Counter(name.partition("/")[0] for name in found)


#: Of the two cases of table_synthetic_k20, for one seed: times are measured at every depth.
ONE_SEED = {"instances": 2, "tune": 2 * 4, "train": 2 * 4, "evaluate": 2 * 8, "time": 2}


def test_another_seed_plans_nothing_of_the_others(released):
    jobs, rules = planned(released, "table_synthetic_k20", run="four", seeds="[0,1,2,3]")
    assert all(re.search(r"-hard-3(-K\d+)?(/|$)", name) for name in jobs)
    assert rules == ONE_SEED


def test_another_depth_plans_nothing_of_the_others(released):
    """Of nine cases and three seeds."""
    deeper = "{depths: [5, 10, 15, 20, 25]}"
    jobs, rules = planned(released, "table_settings", run="deep", synthetic=deeper)
    made = [name for name in jobs if not name.startswith("instances/")]
    assert all(re.search(r"-\d-K25(/|$)", name) for name in made)
    assert rules == {"instances": 27, "tune": 27, "train": 27 * 4, "evaluate": 27 * 8}


def test_another_method_plans_nothing_of_the_others(released):
    """One that was never released: its rows, and all times, which are measured side by side."""
    manifest = released / "results/released/manifest.json"
    written = manifest.read_text()
    manifest.write_text(re.sub(r'"RCDRS-Env(@paper| K\d+)": ', r'"Other\1": ', written))
    try:
        jobs, rules = planned(released, "table_synthetic_k20", run="other")
    finally:
        manifest.write_text(written)
    assert all("RCDRS-Env" in name for name in jobs if name.startswith(("train/", "evaluate/")))
    one = ONE_SEED | {"train": 2, "evaluate": 2}
    assert rules == {rule: 3 * number for rule, number in one.items()}


def test_fewer_methods_plan_nothing_but_their_table(released):
    few = "{methods: [Grid-DRS, RCDRS-Env, RCDRS-NoEnv]}"
    assert planned(released, "table_synthetic_k20", run="few", synthetic=few) == ([], {})


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
    assert not list(Path(".snakemake/locks").iterdir())
    assert marker.exists()  # Snakemake's own; without its file it says nothing


def test_marker_that_the_kill_cut_off_counts_too(killed):
    killed("out.csv").write_text("")
    recover()
    assert not Path("out.csv").exists()


def test_file_that_a_cluster_is_making_is_left_alone(killed):
    killed("out.csv", external_jobid="17")
    recover()
    assert Path("out.csv").exists()


@pytest.mark.parametrize("job", [None, "17"])
def test_half_of_a_file_that_a_killed_process_left_goes_unless_a_cluster_writes(killed, job):
    killed("out.csv", external_jobid=job)
    half, hidden = Path("results/mine/.set-0.0a1b2c3d.npz"), Path("results/mine/.keep")
    half.parent.mkdir(parents=True)
    for path in (half, hidden):
        path.write_text("half")
    recover()
    assert half.exists() is (job is not None)
    assert hidden.exists()


def test_run_that_is_alive_is_left_alone(killed):
    killed("out.csv")
    with open(".snakemake/alive", "w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        recover()
    assert Path("out.csv").exists()
    assert Path(".snakemake/locks/0.output.lock").exists()


@pytest.mark.parametrize("option", ["-n", "--list", "--lint", "--summary", "--dag", "--rulegraph"])
def test_what_runs_no_job_touches_nothing(killed, tmp_path, option):
    """Nor does it need to know how many cores there would be."""
    marker, lock = killed("out.csv"), Path(".snakemake/locks/0.output.lock")
    done = snakemake(tmp_path, option, cores=None)
    assert done.returncode == 0, done.stdout
    assert Path("out.csv").read_text() == "half of it"
    assert json.loads(marker.read_text()) == {"external_jobid": None}
    assert lock.read_text() == "out.csv\n"
    assert not Path(".snakemake/alive").exists()


def test_target_like_nothing_is_told_where_all_are():
    with pytest.raises(ValueError, match="no target xyz: `snakemake --list` names all"):
        refuse("xyz", ["paper_tables"])


def test_full_disk_is_told_before_a_run_and_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "full" not in failure([])
    workflow = SimpleNamespace(executor_plugin="local", dryrun=False, touch=False)
    start, record = Start(workflow, Plan.read(ROOT)), logging.makeLogRecord({})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    assert f"the disk of {tmp_path} is full: make room first." in failure([])
    with pytest.raises(WorkflowError, match="is full: make room first"):
        start.emit(record)


def test_read_only_folder_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(WorkflowError, match=f"{tmp_path} cannot be written to: .* --directory FOL"):
        Start(SimpleNamespace(), Plan.read(ROOT))


def test_full_disk_explains_all_that_failed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text("Traceback (most recent call last):\nOSError: [Errno 28]\n")
    rule = SimpleNamespace(name="train")
    job = SimpleNamespace(rule=rule, log=["train.log"], is_group=lambda: False)
    monkeypatch.setattr(slurm, "reason", lambda job: [])
    assert "Traceback" in failure([job])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    told = failure([job])
    assert "Traceback" not in told
    assert "rule train failed" in told
    assert "is full: make room first." in told


def test_too_little_memory_is_told_before_the_first_job(tmp_path):
    """Instead of jobs that crawl."""
    limited = ["bash", "-c", 'ulimit -v 1500000; exec "$@"', "-", *command(tmp_path)]
    done = subprocess.run(limited, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    told = "the limit on address space is 1.5 GB, and 2 GB are needed: raise it, as with `ulimit"
    assert told in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


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
    moments = {
        "logs/tune/*.log": signal.SIGKILL,
        "logs/train/paper/*/*.log": signal.SIGTERM,
        "checkpoints/paper/*/*.csv": signal.SIGKILL,
    }
    for moment, number in moments.items():
        run = start_and_wait_for(tmp_path, moment)
        if "tune" in moment:
            os.kill(run.pid, signal.SIGSTOP)  # or it would be done before a second has started
            second = snakemake(tmp_path, "--rerun-incomplete")
        os.kill(run.pid, number)
        assert run.wait(timeout=60) == -number
        assert list(tmp_path.glob(".snakemake/locks/*")), "the kill came too late"
        assert group_is_gone(run.pid)
    assert second.returncode != 0
    assert "cannot be locked" in second.stdout
    done = snakemake(tmp_path)
    assert done.returncode == 0, done.stdout
    assert results(tmp_path) == results(finished)


#: Stands for Snakemake, told to end while its main thread holds the lock of its scheduler.
TOLD = """
import os, signal, sys, tempfile, threading
from types import SimpleNamespace
from rcdrs.artifact.hooks import end_when_told
lock, told, folder = threading.Lock(), threading.Event(), tempfile.TemporaryDirectory(dir=".")
def graceful():
    with lock:
        told.set()
scheduler, cache = SimpleNamespace(exit_gracefully=graceful), SimpleNamespace(runtime_cache=None)
signal.signal(signal.SIGINT, signal.default_int_handler)
workflow = SimpleNamespace(scheduler=scheduler, sourcecache=cache, _snakemake_tmp_dir=folder)
workflow.local_exec = sys.argv[2] == "local"
end_when_told(workflow)
with lock:
    os.kill(os.getpid(), int(sys.argv[1]))
print(told.wait(60))
"""


@pytest.mark.parametrize(
    ("number", "where", "ends"),
    [
        (signal.SIGTERM, "local", (-signal.SIGTERM, "", "ended by SIGTERM: the same command goes")),
        (signal.SIGINT, "local", (-signal.SIGINT, "", "ended by SIGINT: the same command goes on")),
        (signal.SIGTERM, "cluster", (0, "True\n", "")),
    ],
)
def test_run_that_is_told_to_end_does(tmp_path, number, where, ends):
    """At once on this machine; on a cluster when jobs have ended, which it can learn."""
    done = subprocess.run(
        [sys.executable, "-c", TOLD, str(int(number)), where],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == ends[:2]
    assert done.stderr.startswith(ends[2])
    assert not list(tmp_path.iterdir())


def test_failing_job_shows_its_log_and_the_rest_goes_on(tmp_path):
    """One recipe diverges; the other is trained all the same."""
    poison = "recipes={paper: {learning_rate: 1e30}}"
    rows = "synthetic/socp-small-0-K3/RCDRS-Env@log_kkt.csv"
    both = f"table_settings results/tiny/{rows}"
    done = snakemake(tmp_path, "--keep-going", "--config", poison, target=both)
    assert done.returncode != 0
    assert "rule train failed.  The end of results/tiny/logs/train/paper/RCDRS-Env" in done.stdout
    # Which is checked first; whether the loss has overflowed by then depends on the CPU.
    diverged = r"rcdrs train: the (training loss|validation merit) is not finite in epoch"
    assert re.search(diverged, done.stdout)
    assert "the same command goes on from here" in done.stdout
    made = results(tmp_path)
    assert made.keys() >= {"checkpoints/log_kkt/RCDRS-Env/socp-small-0-K3.pt", rows}
    assert not any(name.startswith(("checkpoints/paper", "paper_tables")) for name in made)


def test_full_disk_is_named_and_loses_nothing(finished, tmp_path):
    """A limit on the size of files stands for it: checkpoints are the largest here."""
    folder, own = tmp_path / "run", "checkpoints/paper/RCDRS-Env/socp-small-0-K3"
    shutil.copytree(finished, folder)
    rows, table = "synthetic/socp-small-0-K3/RCDRS-Env@paper.csv", "paper_tables/settings.tex"
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
