"""The command line: a command for each stage, the same that the workflow runs, and for results.

Modules are imported when their command is called, and torch by those alone that compute: the others
answer at once.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rcdrs.artifact.runtime import configure, end_with_parent
from rcdrs.artifact.server import hand_over

EXAMPLES = """examples:
  rcdrs instances socp-hard --seed 0 --out set.npz
  rcdrs tune set.npz --depth 20 --out core.json
  rcdrs train set.npz --core core.json --method RCDRS-Env --recipe log_kkt --out env.pt
  rcdrs evaluate set.npz --core core.json Grid-DRS RCDRS-Env@log_kkt=env.pt
  rcdrs time set.npz --core core.json
  rcdrs peers set.npz --core core.json
  rcdrs trace set.npz --core core.json RCDRS-Env@log_kkt=env.pt --out trace.csv
  rcdrs train dfl.npz --core core.json --method RCDRS-Env-J --start layer.pt --out model.pt
  rcdrs reference dispatch.npz --core core.json --out reference.npz
  rcdrs status
  rcdrs compare results/paper
  rcdrs verify --base v1.0
  rcdrs explain synthetic_k20 RCDRS-Env ObjErr
  rcdrs draw trace.csv --out day.png
  rcdrs schema
  rcdrs lock --check
  rcdrs bench step --case mixed-hard --depth 20 --batch 1000 --threads 1
  rcdrs calibrate socp mixed
"""
VERIFY = """Both codes compute workflow/config/sample.yaml on this machine, each by its own workflow
(minutes): small runs of every experiment, case, method, recipe and ablation variant.  If all rows,
values by instance, weights, curves, cores, instances and traces agree, released results that held
for the code of COMMIT hold for the code that is checked out.  If anything differs, it is named and
nothing changes.

example: commit the change, then
  rcdrs verify --base v1.0 --keep ../verified
"""

#: What to do about a file that cannot be read or written, by the system's number of the error.
REMEDIES = {
    errno.ENOENT: "check its name, or make it first",
    errno.EISDIR: "give the name of a file",
    errno.ENOTDIR: "give a name below a folder",
    errno.EEXIST: "give a name below a folder",
    errno.ELOOP: "remove this link to itself",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EACCES: "check its permissions, or give another name",
    errno.EPERM: "check its permissions, or give another name",
    errno.EROFS: "give a name where files can be written",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        # A command that was typed; a call from Python is meant for its own process.
        if arguments is None and (code := hand_over(sys.argv[1:])) is not None:
            return code
        end_with_parent()
        if "threads" in options:
            configure(options.threads)
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads it, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as after a SIGPIPE
    except (ValueError, TypeError, OSError) as error:
        print(f"rcdrs {options.command}: {_with_remedy(error)}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "rcdrs").startswith("rcdrs"):
            raise
        remedy = "install the paper's packages with pip install 'rcdrs[paper]'"
        print(f"rcdrs {options.command}: {error.name} is missing: {remedy}.", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"rcdrs {options.command}: out of memory.", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from rcdrs.training.loop import TrainingDiverged

        if isinstance(error, TrainingDiverged):
            print(f"rcdrs {options.command}: {error}", file=sys.stderr)
            return 3
        if not (found := re.search("(can't allocate memory|out of memory).*", str(error))):
            raise
        print(f"rcdrs {options.command}: out of memory: {found[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"rcdrs {options.command}: interrupted", file=sys.stderr)
        return 130
    return 0


def _with_remedy(error: Exception) -> str:
    """The system's own errors name the file, but not what to do."""
    if isinstance(error, OSError) and error.filename and error.errno in REMEDIES:
        return f"{error}: {REMEDIES[error.errno]}."
    return str(error)


def _run(place: str) -> Callable[[argparse.Namespace], None]:
    """A function of this package, as ``stages.train``, imported when it is called."""
    module, _, name = place.partition(".")

    def run(options: argparse.Namespace) -> None:
        getattr(import_module(f"rcdrs.cli.{module}"), name)(options)

    return run


def _natural(text: str) -> int:
    """As the configuration has numbers: what is larger, no library takes."""
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not a natural number below {2**31}")
    return int(text)


def _positive(text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return _natural(text)


def _file(text: str) -> Path:
    path = Path(text)
    if not path.name:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a file")
    return path


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is not a JSON object")
    return value


def _digests(text: str) -> dict[str, str]:
    value = _object(text)
    if not all(isinstance(digest, str) for digest in value.values()):
        raise argparse.ArgumentTypeError(f"{text} has values that are no text")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rcdrs",
        description="Residual-Controlled Douglas-Rachford Splitting: the stages of the paper.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, place: str, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=_run(place))
        return sub

    def computing(name: str, place: str, help: str) -> argparse.ArgumentParser:
        sub = command(name, place, help)
        sub.add_argument("--threads", type=_positive, default=1, help="torch threads (default: 1)")
        return sub

    def configured(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--configfile", type=Path, help="over workflow/config/paper.yaml")

    def stage(name: str, help: str, out: str, cores: int = 1) -> argparse.ArgumentParser:
        """Rows without a file to write are printed."""
        sub = computing(name, f"stages.{name}", help)
        if name != "instances":
            sub.add_argument("instances", type=Path, help="what `rcdrs instances` wrote")
            sub.add_argument("--experiment", help="that takes them (default: their own)")
        if cores:
            many: dict[str, Any] = {} if cores == 1 else {"nargs": "+"}
            told = "what `rcdrs tune` wrote; it says the number of steps, too"
            sub.add_argument("--core", type=Path, required=True, help=told, **many)
        if cores and name != "reference":
            sub.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
        sub.add_argument("--settings", type=_object, help="as JSON (default: the configuration's)")
        configured(sub)
        rows = out == ".csv"
        told = f"the {out} file to write{' (default: print)' if rows else ''}"
        sub.add_argument("--out", type=_file, required=not rows, help=told)
        if rows:
            sub.add_argument(
                "--stamp", type=_digests, default={}, help="digests, to note beside it"
            )
        return sub

    sub = stage("instances", "generate the instances of one case and seed", ".npz", 0)
    sub.add_argument(
        "case",
        help="such as socp-hard (qp, socp or mixed; small, medium or hard), dfl, dispatch-turned",
    )
    sub.add_argument("--seed", type=_natural, default=0)

    sub = stage("tune", "select the fixed core (alpha, beta) on validation data", ".json", 0)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")

    sub = stage("train", "train the solver of a learned method", ".pt")
    sub.add_argument("--method", default="RCDRS-Env")
    sub.add_argument("--recipe", default="paper", help="paper or log_kkt (default: paper)")
    sub.add_argument("--seed", type=_natural, default=0, help="of weights and minibatches")
    sub.add_argument(
        "--start", type=Path, nargs="*", default=[], help="the layer it begins with (dfl)"
    )

    stage("reference", "cost of a long run and of the optimum (dispatch)", ".npz")

    run = "METHOD or METHOD@RECIPE=CHECKPOINT"
    sub = stage("evaluate", "test metrics of any number of methods", ".csv")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=run)
    sub.add_argument(
        "--reference", type=Path, nargs="*", default=[], help="what `rcdrs reference` wrote"
    )

    sub = stage("trace", "what solvers do, for the report", ".csv")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=run)

    sub = stage("shift", "trained layers on other data than their own (synthetic)", ".csv")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=run)

    sub = stage("time", "inference time of methods, ms per instance", ".csv", cores=2)
    sub.add_argument("--method", nargs="+", help="default: all")

    sub = stage("peers", "other solvers and layers beside ours, on one core", ".csv", cores=2)
    sub.set_defaults(device="cpu")

    def given(sub: argparse.ArgumentParser, *kinds: str) -> None:
        """The configuration, and files with results."""
        told = {
            "times": "timing CSVs",
            "details": "per instance, .npz files",
            "shifts": "CSVs of other data",
            "peers": "CSVs of peers",
        }
        sub.add_argument("--config", type=_object, required=True, help="as JSON")
        sub.add_argument("--rows", type=Path, nargs="*", help="seed-level CSVs (default: all)")
        for kind in kinds:
            sub.add_argument(f"--{kind}", type=Path, nargs="*", default=[], help=told[kind])

    sub = command("table", "results.table", "render one table of the paper from seed-level CSVs")
    sub.add_argument("name", help="synthetic_k20, coverage, ...")
    given(sub, "times", "details", "shifts", "peers")
    sub.add_argument(
        "--out", type=_file, required=True, help="the .tex file; a .csv goes beside it"
    )

    sub = command("headline", "results.headline", "what the README shows of the results")
    given(sub, "times", "details", "shifts")
    told = "the .md file with the summary; answer.md and a .png go beside it"
    sub.add_argument("--out", type=_file, required=True, help=told)

    sub = command("claims", "results.claims", "judge the claims of the paper")
    given(sub, "times", "details")
    sub.add_argument(
        "--tests", type=Path, nargs="*", default=[], help="what `pytest --junitxml` wrote"
    )
    sub.add_argument("--recipe", default="paper", help="of RCDRS: paper or log_kkt")
    sub.add_argument("--out", type=_file, required=True, help="the .md file; CSVs go beside it")

    sub = command("report", "results.report", "one HTML page of everything that was computed")
    sub.add_argument("--config", type=_object, required=True, help="the configuration, as JSON")
    sub.add_argument(
        "--claims", type=Path, nargs="*", default=[], help="what `rcdrs claims` wrote, by recipe"
    )
    sub.add_argument("--out", type=_file, required=True, help="the .html file to write")

    sub = command("draw", "results.draw", "the schedules of a day, as a picture (dispatch)")
    sub.add_argument("trace", type=Path, help="what `rcdrs trace` wrote")
    sub.add_argument("--out", type=_file, required=True, help="the .png or .pdf file to write")

    sub = command("preview", "results.preview", "compile rendered tables into one PDF")
    sub.add_argument("tables", type=Path, nargs="+", help="rendered .tex files")
    sub.add_argument("--out", type=_file, required=True, help="the .pdf file to write")

    sub = command("status", "results.status", "which results tables have: released, computed, ...")
    sub.add_argument("--json", action="store_true", help="digests of what is released, by result")
    configured(sub)
    sub = command("release", "results.release", "copy a run's current results to results/released")
    told = "instead: code, released results, tables and report as a Workflow Run RO-Crate"
    sub.add_argument("--crate", type=_file, metavar="FOLDER", help=told)
    told = "instead: the same as one .tar.gz file, with its checksum beside it"
    sub.add_argument("--archive", type=_file, metavar="FILE", help=told)
    configured(sub)
    sub = command("docs", "docs.docs", "the reference of the public functions, as HTML pages")
    sub.add_argument("--out", type=_file, required=True, metavar="FOLDER", help="of the pages")
    command("schema", "results.schema", "what a configuration may hold, as a JSON schema")

    sub = command(
        "compare",
        "results.compare",
        "how far a run's results are from the released ones, by method",
    )
    sub.add_argument(
        "run_folder",
        type=Path,
        nargs="?",
        default=Path("results/paper"),
        metavar="FOLDER",
        help="of the run (default: results/paper)",
    )
    configured(sub)

    sub = command("profile", "profile.profile", "how long the jobs of finished runs took")
    sub.add_argument("runs", type=Path, nargs="*", metavar="FOLDER", help="results/paper, ...")
    sub.add_argument("--out", type=_file, help="the table of times: workflow/job_times.csv")
    sub.add_argument(
        "--cores",
        type=_positive,
        nargs="+",
        help="also: the whole run's expected wall time on so many",
    )
    configured(sub)

    sub = command(
        "explain",
        "results.explain",
        "where a cell of a table comes from: rows, files, code, host",
    )
    sub.add_argument("table", help="synthetic_k20, ablation_main, ...")
    sub.add_argument("row", help="RCDRS-Env, ...")
    sub.add_argument("column", help="ObjErr, r_p, ...")
    configured(sub)

    sub = command("lock", "results.lock", "resolve every package again, with hashes, into envs/")
    sub.add_argument("--check", action="store_true", help="only say whether what is there fits")
    sub.add_argument("--upgrade", action="store_true", help="to the latest versions that fit")

    sub = command("verify", "results.verify", "show that no number has moved since a commit")
    sub.epilog = VERIFY
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    told = "the code behind the release (default: the commit that last changed its manifest)"
    sub.add_argument("--base", metavar="COMMIT", help=told)
    told = "default: workflow/config/sample.yaml"
    sub.add_argument("--sample", type=Path, metavar="FILE", help=told)
    told = "for results of COMMIT, which are used again"
    sub.add_argument("--keep", type=Path, metavar="FOLDER", help=told)

    sub = computing("bench", "bench.bench", "time a rollout against its floor, or inference")
    sub.add_argument("what", choices=("step", "solve", "layer", "sparse"))
    sub.add_argument("--case", default="mixed-hard")
    sub.add_argument("--depth", type=_positive, default=20)
    sub.add_argument(
        "--batch",
        type=_positive,
        help="instances (default: 1000 for step, 400 for solve, 8 for sparse; not layer)",
    )
    sub.add_argument("--controller", help="of step: also run gru, lstm, mlp or light")
    sub.add_argument("--figure", type=_file, help="of sparse: draw it into this .png file")

    sub = computing("rates", "results.rates", "compare learning rates on validation data")
    sub.add_argument("--universe", default="fair", help="of the configuration (default: fair)")
    sub.add_argument("--jobs", type=_positive, default=2, help="processes (default: 2)")
    sub.add_argument("--out", type=_file, default=Path("workflow/rates.csv"), help="the .csv file")
    told = "also compare methods given the same time: some minutes, on an otherwise idle machine"
    sub.add_argument("--pace", action="store_true", help=told)
    configured(sub)

    sub = computing("calibrate", "results.calibrate", "compare the classical rows with the paper's")
    sub.add_argument("families", nargs="*", default=["socp", "mixed"])
    sub.add_argument("--seed", type=_natural, default=0)
    configured(sub)
    return parser
