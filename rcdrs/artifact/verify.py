"""Has any number moved?  A sample of every setting, computed by two versions of the code.

A release notes a digest of the code behind each result, so code that is only moved, renamed or
reworded makes hours of results stale.  `verify` computes a sample with the code of a release and
with the code as it is, on this machine, each by its own workflow, and compares to the byte what
they computed; how it is laid out in files does not count.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tqdm import tqdm

from rcdrs.artifact import manifest
from rcdrs.artifact.config import PAPER
from rcdrs.artifact.git import GitFailed, export, git
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import RELEASED, Released

#: In a checkout: what decides the numbers of a run, the sample that is computed, and what it is
#: computed for.
CODE = ("Snakefile", "rcdrs", "workflow")
SAMPLE = "workflow/config/sample.yaml"
MANIFEST = f"{RELEASED}/{manifest.MANIFEST}"
#: What a sample has to hold, or it shows nothing: arrays of instances and references, tuned cores,
#: trained weights, lines of training curves, rows, their values by instance, lines of traces.
KINDS = ("array", "core", "weights", "curve", "row", "detail", "trace")
#: Folders of a run without results, or with times.
SKIPPED = ("benchmarks", "logs", "paper_tables", "timing")
#: A folder of runs that are laid out as the one that has it.
UNIVERSES = "universes"
#: Columns of a row that are no numbers; its recipe is in its name.
APART = ("recipe", "time_ms", "device", "source")

#: (kind and name, value), as often as it was computed.
Contents = Counter[tuple[str, str]]


class NotVerified(ValueError):
    """It could not be shown that every number is as it was."""


def contents(run: Path) -> Contents:
    """All that a run computed, in whichever files it is kept."""
    found: Contents = Counter()
    for universe in sorted(run.glob(f"{UNIVERSES}/*")):
        for (name, value), count in contents(universe).items():
            kind, _, of = name.partition(" ")
            found[f"{kind} {universe.name}:{of}", value] += count
    for path in sorted(run.glob("*/**/*.*")):
        folder, *rest = path.relative_to(run).with_suffix("").parts
        match folder, path.suffix:
            case folder, _ if folder in (*SKIPPED, UNIVERSES):
                pass
            case "instances" | "references", ".npz":
                found.update(_arrays(path, folder, f"array {folder}/{path.stem}"))
            case "cores", ".json":
                found.update(_cores(path))
            case "checkpoints" | "models", ".pt":
                found[f"weights {_trained(*rest)}", _weights(path)] += 1
            case "checkpoints" | "models", ".csv":
                found.update((f"curve {_trained(*rest)}", _text(line)) for line in _lines(path))
            case "traces", ".csv":
                found.update((f"trace {path.stem}", _text(line)) for line in _lines(path))
            case _, ".csv":
                for row in _lines(path):
                    key = Key.of_row(dict(row))
                    numbers = {name: text for name, text in row.items() if name not in APART}
                    found[f"row {Path(key.path()).with_suffix('')}", _text(numbers)] += 1
            case _, ".npz":
                found.update(_arrays(path, folder, f"detail {'/'.join([folder, *rest])}"))
    return found


def _lines(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def _text(line: dict[str, str]) -> str:
    """Without cells that are empty: those are there for other lines of the same file."""
    return ", ".join(f"{name}={value}" for name, value in sorted(line.items()) if value)


def _arrays(path: Path, folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """By instance they are called METHOD@RECIPE/METRIC, or METRIC in a file METHOD@RECIPE."""
    with np.load(path) as stored:
        for name, array in stored.items():
            if (folder, name) == ("references", "meta"):
                continue  # says what they are of; older runs have none
            name = name.replace("@-/", "@paper/").removeprefix(f"{path.stem}/")
            yield f"{prefix}/{name}", _hash(f"{array.dtype} {array.shape}", array.tobytes())


def _cores(path: Path) -> Iterator[tuple[str, str]]:
    """One file a depth, or one with all depths."""
    stored = json.loads(path.read_text())
    depths = {"": stored} if "alpha" in stored else {f"-K{K}": core for K, core in stored.items()}
    for depth, core in depths.items():
        yield f"core {path.stem}{depth}", f"alpha={core['alpha']!r}, beta={core['beta']!r}"


def _trained(recipe: str, method: str, where: str) -> str:
    """A variant of the ablation follows the paper's recipe, whatever its folder is called."""
    return f"{where}/{method}@{'paper' if recipe == 'ablation' else recipe}"


def _weights(path: Path) -> str:
    from rcdrs.files import read_checkpoint

    parts: list[str | bytes] = []
    for name, tensor in read_checkpoint(path)[1].items():
        parts += [f"{name} {tensor.dtype} {tensor.shape}", tensor.numpy().tobytes()]
    return _hash(*parts)


def _hash(*parts: str | bytes) -> str:
    digests = [hashlib.sha256(p.encode() if isinstance(p, str) else p).digest() for p in parts]
    return hashlib.sha256(b"".join(digests)).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """How much agrees, by kind; what differs, by name."""

    agree: Counter[str]
    differ: list[str]
    #: Values by instance of experiments of which the base keeps none, only rows.
    new: Counter[str]

    @property
    def same(self) -> bool:
        return not self.differ and all(self.agree[kind] for kind in KINDS)

    def __str__(self) -> str:
        lines = [f"agree: {', '.join(f'{self.agree[kind]} {kind}' for kind in KINDS)}"]
        lines += [f"{count} {name}: not kept by the base" for name, count in self.new.items()]
        lines += [f"{len(self.differ)} differ:" if self.differ else "nothing differs"]
        return "\n".join(lines + [f"  {line}" for line in self.differ[:10]])


def compare(base: Path, here: Path) -> Comparison:
    """Everything in either run must be in the other, with the same value and as often.

    One exception: values by instance that only `here` has, where `base` keeps none at all of their
    experiment.  Their means are compared, being rows.  What only `base` has is a difference.
    """
    before, after = contents(base), contents(here)
    lost, gained = before - after, after - before
    kept = {_group(name) for name, _ in before}
    fresh = (_group(name) for name, _ in gained if name.startswith("detail "))
    new = Counter(group for group in fresh if group not in kept)
    names = sorted({name for name, _ in lost | gained if _group(name) not in new})
    agree = Counter(name.split()[0] for name, _ in (before & after).elements())
    return Comparison(agree, [_difference(name, lost, gained) for name in names], new)


def _group(name: str) -> str:
    """``detail ablation`` of ``detail ablation/socp-medium-0-K10/mlp@paper/Gap``."""
    return name.partition("/")[0]


def _difference(name: str, lost: Contents, gained: Contents) -> str:
    """The name and the first value that differs."""
    was, now = (sorted(value for of, value in part if of == name) for part in (lost, gained))
    if not was or not now:
        return f"{name}: only {'in the base' if was else 'here'}"
    pairs = zip(was[0].split(", "), now[0].split(", "), strict=False)
    old, new = next((pair for pair in pairs if pair[0] != pair[1]), (was[0], now[0]))
    return f"{name}: {old[:40]} in the base, {new[:40]} here"


def recompute(checkout: Path, sample: Path, folder: Path) -> Path:
    """Run the sample by the workflow of a checkout; the folder of its results.

    A process that compiles a kernel may round otherwise than one that loads it, so the run that
    counts is one in which none is compiled.  They are kept in `folder`; traces, which no table
    needs, come from layers of every cone, so that making them first compiles what there is.
    """
    run, traces, others = _targets(_read(checkout / PAPER), _read(sample))
    _snakemake(checkout, sample, folder, traces, "compiling")
    while True:
        shutil.rmtree(folder / run)
        kernels = set(folder.glob("kernels/**/*"))
        _snakemake(checkout, sample, folder, ["paper_tables", *traces, *others], "computing")
        if set(folder.glob("kernels/**/*")) == kernels:
            return folder / run


def _targets(paper: dict[str, Any], sample: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """The folder of the run, its traces, and rows of universes with methods of their own: all of
    the largest scale at the greatest depth."""
    synthetic, dispatch = (paper[part] | sample.get(part, {}) for part in ("synthetic", "dispatch"))
    run, seed = f"results/{sample['run']}", sample["seeds"][0]

    def names(part: dict[str, Any]) -> list[str]:
        cases = [f"{family}-{part['scales'][-1]}" for family in part["families"]]
        return [f"{case}-{seed}-K{max(part['depths'])}" for case in cases]

    traced = [*names(synthetic), f"dispatch-inequality-{seed}-K{max(dispatch['depths'])}"]
    rows = []
    for name, changes in paper.get(UNIVERSES, {}).items():
        part = changes.get("synthetic", {})
        runs = [f"{method}@paper" for method in part.get("methods", [])]
        runs += [f"{method}@log_kkt" for method in part.get("extended", [])]
        places = product(names(synthetic | part), runs)
        rows += [f"{run}/{UNIVERSES}/{name}/synthetic/{place}/{of}.csv" for place, of in places]
    return run, [f"{run}/traces/{name}.csv" for name in traced], rows


def _snakemake(checkout: Path, sample: Path, folder: Path, targets: list[str], what: str) -> None:
    """Standard error shows how far it is; what it writes is shown if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "snakemake", *targets, "--cores", "all", "--profile", "none"]
    command += ["--snakefile", f"{checkout}/Snakefile", "--directory", str(folder)]
    command += ["--configfile", f"{checkout}/{PAPER}", str(sample), "--config", "results=recompute"]
    changes = {"PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": f"{folder}/kernels"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    output = []
    # In the checkout: `python -m` imports from where it is started first.
    with (
        subprocess.Popen(command, cwd=checkout, env=os.environ | changes, **pipes) as process,
        tqdm(desc=f"{folder.name}: {what}", unit="job", disable=None) as bar,
    ):
        try:
            for line in process.stdout or ():
                output.append(line)
                if found := re.match(r"\[ *(\d+)/(\d+)\]|(\d+) of (\d+) steps", line):
                    done, bar.total = (int(number) for number in found.groups() if number)
                    bar.update(done - bar.n)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        end = "".join(output[-30:])
        raise NotVerified(f"{sample} fails with the code of {folder.name}:\n{end}")


def verify(
    root: Path,
    base: str | None = None,
    sample: Path | None = None,
    keep: Path | None = None,
    accept: Callable[[Path, list[Path], dict[str, Any]], None] | None = None,
) -> Comparison:
    """Compare what the commit `base` computes with what the commit that is checked out does.

    Arguments
        root: the checkout.
        base: the code behind the release (default: of the commit that last changed the manifest).
        sample: a configuration over paper.yaml (default: ``workflow/config/sample.yaml``).
        keep: a folder for the results of `base`; those of an earlier call are used again.
        accept: called with the checkout, both codes and a record of the comparison, only if
            everything agrees (default: `accept_digests`).
    """
    if not (root / ".git").exists():
        raise NotVerified(f"{root} is not a git checkout: clone the repository, and verify there.")
    if changed := git(root, "status", "--porcelain", "--", *CODE):
        raise NotVerified(
            f"what is verified is a commit, and in {root} these are not committed:\n{changed}\n"
            "Commit them, or put them aside with `git stash -u`."
        )
    sample = (sample or root / SAMPLE).resolve()
    base = base or git(root, "log", "-1", "--format=%H", "--", MANIFEST)
    try:
        then, now = (git(root, "rev-parse", "--verify", f"{c}^{{commit}}") for c in (base, "HEAD"))
    except GitFailed as error:
        raise NotVerified(f"base is {base!r}, expected a commit of {root}.") from error
    packages = " ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "numba"))
    machine = f"{platform.node()}, {platform.machine()} {platform.system()}, {packages}"
    with tempfile.TemporaryDirectory(prefix="rcdrs-verify-") as name:
        work = Path(name)
        codes = [export(root, commit, work / commit, "results") for commit in (then, now)]
        _check_paper(_read(sample), *(_read(code / PAPER) for code in codes))
        digest = hashlib.sha256(sample.read_bytes()).hexdigest()
        kept = (keep or work) / f"{then[:12]}-{_hash(digest, machine)[:12]}"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(recompute(codes[0], sample, work / f"base-{then[:7]}"), kept)
        comparison = compare(kept, recompute(codes[1], sample, work / f"here-{now[:7]}"))
        if not comparison.same:
            raise NotVerified(f"{now[:7]} computes something else than {then[:7]}:\n{comparison}")
        record = {"base": then, "commit": now, "sample": {"sha256": digest, **comparison.agree}}
        record |= {"machine": machine, "date": date.today().isoformat()}
        (accept or accept_digests)(root, codes, record)
    return comparison


def accept_digests(root: Path, codes: list[Path], record: dict[str, Any]) -> None:
    """Released results that held for the first code hold for the second: note its digests."""
    before, after = (_digests(code, root / MANIFEST) for code in codes)
    released = Released.read((root / MANIFEST).parent)
    taken = 0
    for name, digests in before.items():
        there = released.entries[name]["digests"]
        for part, old in digests.items():
            new = after.get(name, {}).get(part, "")
            if there.get(part) == old and new.split()[1:] == old.split()[1:]:  # the same settings
                there[part] = new
                taken += 1
    released.verified.append(record | {"results": taken})
    released.write()
    print(f"{taken} released results hold for {record['commit'][:7]}", file=sys.stderr)


def _digests(code: Path, manifest: Path) -> dict[str, dict[str, str]]:
    """What a code would note of each result in the manifest, by released file and part."""
    copy = code / MANIFEST
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(manifest, copy)
    command = [sys.executable, "-m", "rcdrs", "status", "--json"]
    environment = os.environ | {"PYTHONPATH": str(code)}
    done = subprocess.run(command, cwd=code, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise NotVerified(f"the code of {code.name} does not tell its digests:\n{done.stderr}")
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return values


def _check_paper(sample: dict[str, Any], base: dict[str, Any], here: dict[str, Any]) -> None:
    """Settings that the sample replaces are not run, so the paper's have to be the same."""
    for key, value in sample.items():
        was, now = base.get(key, {}), here.get(key, {})
        if isinstance(value, dict):
            _check_paper(value, was, now)
        elif was != now:
            raise NotVerified(
                f"{key} was {was} in {PAPER} and is {now}, of which the sample shows nothing: "
                "compute the results that depend on it."
            )
