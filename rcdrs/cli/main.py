"""The command line: one verb a stage, the same verbs that the workflow runs.

Imports of torch stand inside the verbs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rcdrs.artifact.server import hand_over

EXAMPLES = """examples:
  rcdrs instances socp-hard --seed 0 --out set.npz
  rcdrs tune set.npz --depth 20 --out cores.json
  rcdrs train set.npz --cores cores.json --depth 20 --method RCDRS-Env --recipe paper --out env.pt
  rcdrs evaluate set.npz --cores cores.json --depth 20 Grid-DRS RCDRS-Env@paper=env.pt
  rcdrs learn dfl.npz --cores cores.json --depth 20 --method PTO --out pto.pt
  rcdrs reference dispatch.npz --cores cores.json --depth 15 --out reference.npz
  rcdrs time set.npz --cores cores.json --depth 20
  rcdrs status
  rcdrs compare results/paper
  rcdrs explain synthetic_k20 RCDRS-Env ObjErr
  rcdrs bench step --case mixed-hard --depth 20 --batch 1000 --threads 1
  rcdrs calibrate socp mixed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        # A command that was typed; a call from Python is meant for its own process.
        if arguments is None and (code := hand_over(sys.argv[1:])) is not None:
            return code
        from rcdrs.artifact.runtime import configure, end_with_parent

        end_with_parent()
        configure(options.threads)
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads it, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as after a SIGPIPE
    except (ValueError, TypeError, OSError) as error:
        print(f"rcdrs {options.verb}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from rcdrs.training.loop import TrainingDiverged

        if not isinstance(error, TrainingDiverged):
            raise
        print(f"rcdrs {options.verb}: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print(f"rcdrs {options.verb}: interrupted", file=sys.stderr)
        return 130
    return 0


def _stage(name: str) -> Callable[[argparse.Namespace], None]:
    """A verb of `rcdrs.cli.stages`, imported when it is called."""

    def run(options: argparse.Namespace) -> None:
        from rcdrs.cli import stages as verbs

        getattr(verbs, name)(options)

    return run


def _reporting(name: str) -> Callable[[argparse.Namespace], None]:
    """A verb of `rcdrs.cli.results`, imported when it is called."""

    def run(options: argparse.Namespace) -> None:
        from rcdrs.cli import results as commands

        getattr(commands, name)(options)

    return run


def claims(options: argparse.Namespace) -> None:
    from rcdrs.reporting.claims import claims as judge

    judge(options)


def bench(options: argparse.Namespace) -> None:
    from rcdrs.cli.bench import bench_solve, bench_step

    if options.what == "step":
        batch = 1000 if options.batch is None else options.batch
        print(json.dumps(bench_step(options.case, options.depth, batch, options.controller)))
    else:
        batch = 400 if options.batch is None else options.batch
        for row in bench_solve(options.case, options.depth, batch):
            print(json.dumps(row))


def calibrate(options: argparse.Namespace) -> None:
    from rcdrs.reporting.calibration import calibrate as run
    from rcdrs.reporting.calibration import rms

    for family in options.families:
        table = run(family, options.seed)
        print(table.to_string(index=False, float_format="{:.3g}".format))
        print(f"{family}: rms of log(ours/paper) over {len(table)} figures: {rms(table):.3f}\n")


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is not a JSON object")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rcdrs",
        description="Residual-Controlled Douglas-Rachford Splitting: the stages of the paper.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--threads", type=_positive, default=1, help="torch threads (default: 1)")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run: object, help: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, parents=[common], help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    def tuned(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("instances", type=Path, help="what `rcdrs instances` wrote")
        sub.add_argument("--cores", type=Path, required=True, help="what `rcdrs tune` wrote")
        sub.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
        sub.add_argument(
            "--settings",
            type=_object,
            default={},
            help='changes, as JSON: {"controller": {..}, "recipe": {.., "loss": {..}}}',
        )

    sub = verb("instances", _stage("instances"), "generate the instances of one case and seed")
    sub.add_argument(
        "case",
        help="such as socp-hard (qp, socp or mixed; small, medium or hard), dfl, dispatch-turned",
    )
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--sizes", type=_object, help='{"train": .., "validation": .., "test": ..}')
    sub.add_argument("--out", type=Path, required=True, help="the .npz file to write")

    sub = verb("tune", _stage("tune"), "select the fixed core (alpha, beta) on validation data")
    sub.add_argument("instances", type=Path)
    sub.add_argument("--depth", type=_positive, nargs="+", required=True, help="numbers of steps K")
    sub.add_argument("--grid", type=_object, default={}, help='{"alphas": [..], "betas": [..], ..}')
    sub.add_argument("--out", type=Path, required=True, help="the .json file to write")

    def trained(sub: argparse.ArgumentParser) -> None:
        tuned(sub)
        sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
        sub.add_argument("--method", default="RCDRS-Env")
        sub.add_argument("--recipe", default="paper", help="paper or log_kkt (default: paper)")
        sub.add_argument("--seed", type=int, default=0, help="of weights and minibatches")
        sub.add_argument("--out", type=Path, required=True, help="the checkpoint to write (.pt)")

    trained(verb("train", _stage("train"), "train the layer of a learned method at one depth"))

    sub = verb("learn", _stage("learn"), "train a cost predictor through a layer (dfl)")
    trained(sub)
    sub.add_argument(
        "--pretrained", type=Path, nargs="*", default=[], help="its layer, from `rcdrs train`"
    )

    sub = verb("reference", _stage("reference"), "cost of a long run and of the optimum (dispatch)")
    sub.add_argument("instances", type=Path, help="what `rcdrs instances` wrote")
    sub.add_argument("--cores", type=Path, required=True, help="what `rcdrs tune` wrote")
    sub.add_argument("--depth", type=_positive, required=True, help="whose core runs")
    sub.add_argument("--steps", type=_positive, default=300, help="how long (default: 300)")
    sub.add_argument("--out", type=Path, required=True, help="the .npz file to write")

    sub = verb("evaluate", _stage("evaluate"), "test metrics of any number of methods at one depth")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="METHOD or METHOD@RECIPE=CHECKPOINT")
    sub.add_argument("--out", type=Path, help="the .csv file to write (default: print)")
    sub.add_argument("--stamp", type=_object, default={}, help="digests to note beside the file")
    sub.add_argument("--details", type=Path, help=".npz file for the metrics of each instance")
    sub.add_argument("--experiment", help="what the rows call it (default: of the instances)")
    sub.add_argument("--label", help="what the rows call the method (default: its name)")
    sub.add_argument("--reference", type=Path, help="what `rcdrs reference` wrote (dispatch)")

    sub = verb("trace", _stage("trace"), "what trained layers do, for the report")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="METHOD@RECIPE=CHECKPOINT")
    sub.add_argument("--out", type=Path, help="the .csv file to write (default: print)")
    sub.add_argument("--stamp", type=_object, default={}, help="digests to note beside the file")

    sub = verb("draw", _stage("draw"), "the schedules of one test day, as a picture (dispatch)")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="METHOD or METHOD@RECIPE=CHECKPOINT")
    sub.add_argument("--day", type=_natural, default=0, help="of the test split (default: 0)")
    sub.add_argument("--out", type=Path, required=True, help="the .png or .pdf file to write")

    sub = verb("time", _stage("time"), "inference time of methods, in milliseconds per instance")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, nargs="+", required=True, help="numbers of steps K")
    sub.add_argument("--method", nargs="+", help="default: all")
    sub.add_argument("--warm-up", type=_natural, default=1, help="passes before (default: 1)")
    sub.add_argument("--repeats", type=_positive, default=3, help="passes timed (default: 3)")
    sub.add_argument("--out", type=Path, help="the .csv file to write (default: print)")
    sub.add_argument("--stamp", type=_object, default={}, help="digests to note beside the file")

    sub = verb("table", _reporting("table"), "render one table of the paper from seed-level CSVs")
    sub.add_argument("name", help="synthetic_k20, coverage, ...")
    sub.add_argument("--config", type=_object, required=True, help="the configuration, as JSON")
    sub.add_argument("--rows", type=Path, nargs="*", default=[], help="seed-level CSVs")
    sub.add_argument("--times", type=Path, nargs="*", default=[], help="timing CSVs")
    sub.add_argument("--out", type=Path, required=True, help="the .tex file; a .csv goes beside it")

    sub = verb("headline", _reporting("headline"), "the table and the picture of the README")
    sub.add_argument("--config", type=_object, required=True, help="the configuration, as JSON")
    sub.add_argument("--rows", type=Path, nargs="*", default=[], help="seed-level CSVs")
    sub.add_argument("--out", type=Path, required=True, help="the .md file; a .png goes beside it")

    sub = verb("claims", claims, "judge the claims of the paper from seed-level results")
    sub.add_argument("--config", type=_object, required=True, help="the configuration, as JSON")
    sub.add_argument("--rows", type=Path, nargs="*", default=[], help="seed-level CSVs")
    sub.add_argument("--times", type=Path, nargs="*", default=[], help="timing CSVs")
    sub.add_argument("--details", type=Path, nargs="*", default=[], help="per instance, .npz files")
    sub.add_argument("--tests", type=Path, help="what `pytest --junitxml` wrote")
    sub.add_argument("--recipe", default="paper", help="of RCDRS: paper or log_kkt")
    sub.add_argument("--out", type=Path, required=True, help="the .md file; CSVs go beside it")

    sub = verb("report", _reporting("report"), "one HTML page of everything that was computed")
    sub.add_argument("--config", type=_object, required=True, help="the configuration, as JSON")
    sub.add_argument(
        "--claims", type=Path, nargs="*", default=[], help="what `rcdrs claims` wrote, by recipe"
    )
    sub.add_argument("--out", type=Path, required=True, help="the .html file to write")

    sub = verb("preview", _reporting("preview"), "compile rendered tables into one PDF")
    sub.add_argument("tables", type=Path, nargs="+", help="rendered .tex files")
    sub.add_argument("--out", type=Path, required=True, help="the .pdf file to write")

    def configured(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--configfile", type=Path, help="over workflow/config/paper.yaml")

    configured(
        verb(
            "status",
            _reporting("status"),
            "which results each table has: released, computed, missing",
        )
    )
    configured(
        verb("release", _reporting("release"), "copy a run's current results to results/released")
    )

    sub = verb(
        "compare",
        _reporting("compare"),
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

    sub = verb("profile", _reporting("profile"), "how long the jobs of finished runs took")
    sub.add_argument("runs", type=Path, nargs="*", metavar="FOLDER", help="results/paper, ...")
    sub.add_argument("--out", type=Path, help="the table of times: workflow/job_times.csv")
    sub.add_argument(
        "--cores",
        type=_positive,
        nargs="+",
        help="also: the whole run's expected wall time on so many",
    )
    configured(sub)

    sub = verb(
        "explain",
        _reporting("explain"),
        "where a cell of a table comes from: rows, files, code, host",
    )
    sub.add_argument("table", help="synthetic_k20, ablation_main, ...")
    sub.add_argument("row", help="RCDRS-Env, ...")
    sub.add_argument("column", help="ObjErr, r_p, ...")
    configured(sub)

    sub = verb("bench", bench, "time a rollout against its floor, or every method's inference")
    sub.add_argument("what", choices=("step", "solve"))
    sub.add_argument("--case", default="mixed-hard")
    sub.add_argument("--depth", type=_positive, default=20)
    sub.add_argument(
        "--batch", type=_positive, help="instances (default: 1000 for step, 400 for solve)"
    )
    sub.add_argument("--controller", help="also run this encoder in every step: gru, lstm, mlp")

    sub = verb("calibrate", calibrate, "compare the classical rows with the paper's")
    sub.add_argument("families", nargs="*", default=["socp", "mixed"])
    sub.add_argument("--seed", type=int, default=0)
    return parser
