"""The command line: one verb a stage, the same verbs that the workflow runs.

Imports of torch stand inside the verbs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = """examples:
  rcdrs instances socp-hard --seed 0 --out set.npz
  rcdrs tune set.npz --depth 20 --out cores.json
  rcdrs train set.npz --cores cores.json --depth 20 --method RCDRS-Env --recipe paper --out env.pt
  rcdrs evaluate set.npz --cores cores.json --depth 20 Grid-DRS RCDRS-Env@paper=env.pt
  rcdrs time set.npz --cores cores.json --depth 20
  rcdrs status
  rcdrs explain synthetic_k20 RCDRS-Env ObjErr
  rcdrs bench step --case mixed-hard --depth 20 --batch 1000 --threads 1
  rcdrs calibrate socp mixed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    from rcdrs.runtime import configure, end_with_parent

    try:
        end_with_parent()
        configure(options.threads)
        options.run(options)
    except (ValueError, TypeError, OSError) as error:
        print(f"rcdrs {options.verb}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from rcdrs.training import TrainingDiverged

        if not isinstance(error, TrainingDiverged):
            raise
        print(f"rcdrs {options.verb}: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print(f"rcdrs {options.verb}: interrupted", file=sys.stderr)
        return 130
    return 0


def instances(options: argparse.Namespace) -> None:
    from rcdrs.stages import make_instances

    make_instances(options.case, options.seed, options.sizes, options.out)
    print(f"wrote {options.out}")


def tune(options: argparse.Namespace) -> None:
    from rcdrs.stages import tune as run

    run(options.instances, options.depth, options.out, options.grid)
    print(f"wrote {options.out}")


def train(options: argparse.Namespace) -> None:
    from rcdrs.stages import device, train_layer

    train_layer(
        options.instances,
        options.cores,
        options.depth,
        options.method,
        options.recipe,
        options.seed,
        options.out,
        options.settings,
        device(options.device),
    )
    print(f"wrote {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    from rcdrs.stages import Run, device, evaluate_runs, write_details, write_rows

    rows, details = evaluate_runs(
        options.instances,
        options.cores,
        options.depth,
        [Run.parse(text) for text in options.runs],
        options.settings,
        device(options.device),
        options.experiment,
        options.label,
    )
    _show(rows, options, write_rows)
    if options.details is not None:
        write_details(details, options.details)


def time(options: argparse.Namespace) -> None:
    from rcdrs.methods import METHODS
    from rcdrs.stages import device, time_methods, write_rows

    rows = time_methods(
        options.instances,
        options.cores,
        options.depth,
        options.method or list(METHODS),
        device(options.device),
        options.warm_up,
        options.repeats,
        options.settings.get("controller"),
    )
    _show(rows, options, write_rows)


def _reporting(name: str) -> Callable[[argparse.Namespace], None]:
    """A verb of `rcdrs.reporting.commands`, imported when it is called."""

    def run(options: argparse.Namespace) -> None:
        from rcdrs.reporting import commands

        getattr(commands, name)(options)

    return run


def bench(options: argparse.Namespace) -> None:
    from rcdrs.bench import bench_solve, bench_step

    if options.what == "step":
        batch = 1000 if options.batch is None else options.batch
        print(json.dumps(bench_step(options.case, options.depth, batch, options.controller)))
    else:
        batch = 400 if options.batch is None else options.batch
        for row in bench_solve(options.case, options.depth, batch):
            print(json.dumps(row))


def calibrate(options: argparse.Namespace) -> None:
    from rcdrs.experiments.calibration import calibrate as run
    from rcdrs.experiments.calibration import rms

    for family in options.families:
        table = run(family, options.seed)
        print(table.to_string(index=False, float_format="{:.3g}".format))
        print(f"{family}: rms of log(ours/paper) over {len(table)} figures: {rms(table):.3f}\n")


def _show(rows: pd.DataFrame, options: argparse.Namespace, write: Callable[..., None]) -> None:
    """To the file, with where it comes from beside it, or to the terminal where none is named."""
    if options.out is None:
        print(rows.to_string(index=False, float_format="{:.3g}".format))
        return
    from rcdrs.files import replacing
    from rcdrs.release import origin
    from rcdrs.stages import device

    write(rows, options.out)
    source = origin(options.stamp, str(device(options.device)))
    with replacing(options.out.with_suffix(".origin.json")) as temporary:
        temporary.write_text(json.dumps(source, indent=1) + "\n")
    print(f"wrote {options.out}")


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

    sub = verb("instances", instances, "generate the instances of one synthetic case and seed")
    sub.add_argument("case", help="qp, socp or mixed, then small, medium or hard: socp-hard")
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--sizes", type=_object, help='{"train": .., "validation": .., "test": ..}')
    sub.add_argument("--out", type=Path, required=True, help="the .npz file to write")

    sub = verb("tune", tune, "select the fixed core (alpha, beta) on validation data")
    sub.add_argument("instances", type=Path)
    sub.add_argument("--depth", type=_positive, nargs="+", required=True, help="numbers of steps K")
    sub.add_argument("--grid", type=_object, default={}, help='{"alphas": [..], "betas": [..], ..}')
    sub.add_argument("--out", type=Path, required=True, help="the .json file to write")

    sub = verb("train", train, "train a learned method at one depth")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("--method", default="RCDRS-Env")
    sub.add_argument("--recipe", default="paper", help="paper or log_kkt (default: paper)")
    sub.add_argument("--seed", type=int, default=0, help="of weights and minibatches")
    sub.add_argument("--out", type=Path, required=True, help="the checkpoint to write (.pt)")

    sub = verb("evaluate", evaluate, "test metrics of any number of methods at one depth")
    tuned(sub)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="METHOD or METHOD@RECIPE=CHECKPOINT")
    sub.add_argument("--out", type=Path, help="the .csv file to write (default: print)")
    sub.add_argument("--stamp", type=_object, default={}, help="digests to note beside the file")
    sub.add_argument("--details", type=Path, help=".npz file for the metrics of each instance")
    sub.add_argument("--experiment", default="synthetic", help="what the rows call it")
    sub.add_argument("--label", help="what the rows call the method (default: its name)")

    sub = verb("time", time, "inference time of methods, in milliseconds per instance")
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
