"""Runs that are killed at random moments, again and again, and started again with the same command:
in the end every byte is that of an undisturbed run, and nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
import yaml
from conftest import ROOT

from .cases import SEED
from .prepared import TINY

pytestmark = pytest.mark.kills

#: How many in all, and how many of them hit a training that can be resumed.
KILLS = int(os.environ.get("FAULTS_KILLS", "20"))
RESUMED = max(1, KILLS // 4)
#: Mostly what cannot be caught.
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SIZES = {"train": 16, "validation": 8, "test": 8}
CONFIG = {
    "run": "killed",
    "device": "cpu",
    "seeds": [0],
    "synthetic": TINY["synthetic"] | {"instances": SIZES},
    "recipes": {"paper": {"epochs": 100, "batch": 8}},
    "dispatch": {"depths": [2], "instances": SIZES, "methods": ["Grid-DRS"], "reference": 20},
}
#: Every kind of file but times, which are never the same twice.
TARGETS = [
    "table_settings",
    "results/killed/traces/socp-small-0-K3.csv",
    "results/killed/dispatch/dispatch-printed-0-K2/Grid-DRS@paper.csv",
]
WORKFLOW = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
WORKFLOW += ["--cores", "2", *TARGETS, "--configfile", "config.yaml"]
#: As `rcdrs train`, but its progress is saved after every epoch.
TRAIN = """
import sys
from rcdrs.cli.main import main
from rcdrs.training import loop
loop.SAVE_INTERVAL = 0.0
sys.exit(main(sys.argv[1:]))
"""
#: In the environment of every process that is started here.
MARK = f"FAULTS_RUN={os.getpid()}-{time.time_ns()}"


class Runs:
    """The same command in a folder of its own, as often as it takes."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder, self.command, self.kills = folder, command, 0
        self.temporary = Path(mkdtemp(prefix="tmp-", dir=folder.parent))
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))

    def start(self) -> subprocess.Popen[bytes]:
        name, _, value = MARK.partition("=")
        environment = os.environ | {name: value, "TMPDIR": str(self.temporary)}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        with open(self.folder / "said", "wb") as said:
            return subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def finish(self) -> dict[str, bytes]:
        """Undisturbed from here on: what it made."""
        code = self.start().wait(timeout=300)
        assert code == 0, self.said
        return self.made()

    def kill_at(self, moment: Callable[[], bool], chance: Random) -> bool:
        """Kill it then, with all it started or alone; whether it was still running."""
        run = self.start()
        while run.poll() is None and not moment():
            time.sleep(0.01)
        number, whole = chance.choice(SIGNALS), chance.random() < 0.5
        hit = run.poll() is None
        if hit:
            (os.killpg if whole else os.kill)(run.pid, number)
            self.kills += 1
        else:
            assert run.returncode == 0, self.said
        run.wait(timeout=120)
        return hit

    @property
    def said(self) -> str:
        return f"seed {SEED}, after {self.kills} kills: " + (self.folder / "said").read_text()

    def made(self) -> dict[str, bytes]:
        """Every file but logs and measured times."""
        names = {path.relative_to(self.folder): path for path in self.folder.rglob("*")}
        apart = {"logs", "benchmarks", ".snakemake", "said"}
        return {
            str(name): path.read_bytes()
            for name, path in names.items()
            if path.is_file() and not apart & set(name.parts) and not name.name.startswith(".")
        }

    def left(self) -> list[str]:
        """What should not be there any more: processes, and files for the time of a run."""
        found = [f"process {pid}: {command}" for pid, command in processes()]
        return found + [str(path) for path in self.temporary.glob("rcdrs-*")]


def processes() -> Iterator[tuple[str, str]]:
    """Those that were started here, or by one that was."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and MARK.encode() in (folder / "environ").read_bytes():
                yield folder.name, (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has just ended, or is another user's
            continue


def ends_clean(runs: Runs, whole: dict[str, bytes]) -> None:
    made = runs.finish()
    assert made.keys() == whole.keys(), runs.said
    different = [name for name in whole if made[name] != whole[name]]
    assert not different, f"{', '.join(different)} differ: {runs.said}"
    for _ in range(200):
        if not (left := runs.left()):
            return
        time.sleep(0.1)
    raise AssertionError(f"{left} is left: {runs.said}")


def test_killed_workflow_ends_with_the_same_bytes(tmp_path):
    whole = Runs(tmp_path / "whole", WORKFLOW)
    started = time.monotonic()
    expected = whole.finish()
    seconds = time.monotonic() - started
    assert not any(name.endswith(".resume") for name in expected)
    chance, kills, number = Random(f"{SEED}/workflow"), 0, 0
    while kills < KILLS - RESUMED:
        runs, number = Runs(tmp_path / f"killed{number}", WORKFLOW), number + 1
        unfinished = True
        while unfinished and kills < KILLS - RESUMED:
            moment = time.monotonic() + chance.uniform(0.3, 0.8 * seconds)
            unfinished = runs.kill_at(lambda at=moment: time.monotonic() > at, chance)
            kills += unfinished
        ends_clean(runs, expected)


def test_killed_training_ends_with_the_same_bytes(tmp_path):
    """Each time with progress to go on from."""

    def train(name: str) -> Runs:
        runs = Runs(tmp_path / name, [sys.executable, "-c", TRAIN])
        given = [sys.executable, "-m", "rcdrs"]
        for words in (
            ["instances", "socp-small", "--settings", json.dumps(SIZES), "--out", "set.npz"],
            ["tune", "set.npz", "--depth", "3", "--out", "core.json"],
        ):
            subprocess.run([*given, *words], cwd=runs.folder, check=True, capture_output=True)
        files = ["set.npz", "--core", "core.json", "--configfile", "config.yaml"]
        runs.command += ["train", *files, "--out", "env.pt"]
        return runs

    expected = train("whole").finish()
    runs, chance = train("killed"), Random(f"{SEED}/training")
    progress = runs.folder / "env.resume"

    def saved() -> int:
        return progress.stat().st_mtime_ns if progress.exists() else 0

    for _ in range(RESUMED):
        seen, epochs = {saved()}, chance.randrange(1, 8)

        def moment(seen: set[int] = seen, epochs: int = epochs) -> bool:
            """When this process has saved some epochs."""
            seen.add(saved())
            return len(seen) > epochs

        assert runs.kill_at(moment, chance), "the training was too short to be killed"
        assert saved()
    ends_clean(runs, expected)
