"""The command line: one verb a stage, the same verbs that the workflow runs.

Imports of torch stand inside the verbs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = """examples:
  rcdrs instances socp-hard --seed 0 --out socp-hard-0.npz
  rcdrs tune socp-hard-0.npz --depth 20 --out core.json
  rcdrs train socp-hard-0.npz --core core.json --method RCDRS-Env --recipe paper --out env.pt
  rcdrs evaluate socp-hard-0.npz --core core.json --method RCDRS-Env --checkpoint env.pt
  rcdrs bench step --case mixed-hard --depth 20 --batch 1000 --threads 1
  rcdrs calibrate socp mixed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    from rcdrs.runtime import configure

    try:
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
    from rcdrs.experiments.synthetic import generate

    generate(options.case, options.seed).save(options.out)
    print(f"wrote {options.out}")


def tune(options: argparse.Namespace) -> None:
    from rcdrs.baselines.grid_drs import select_core
    from rcdrs.experiments.synthetic import InstanceSet
    from rcdrs.files import replacing

    data = InstanceSet.load(options.instances)
    alpha, beta = select_core(data.validation, options.depth)
    core = {"depth": options.depth, "alpha": alpha, "beta": beta}
    with replacing(options.out) as temporary:
        temporary.write_text(json.dumps(core) + "\n")
    print(f"wrote {options.out}: {core}")


def train(options: argparse.Namespace) -> None:
    import torch

    from rcdrs.experiments.synthetic import InstanceSet
    from rcdrs.methods import find_method
    from rcdrs.training import find_recipe
    from rcdrs.training import train as run

    method, recipe = find_method(options.method), find_recipe(options.recipe)
    if not method.learned:
        raise ValueError(f"{method.name} has nothing to train.")
    data = InstanceSet.load(options.instances)
    depth, core = _core(options.core)
    torch.manual_seed(options.seed)
    layer = method.build(data.A, data.case.cone, depth, core)
    run(
        layer,
        data.train.program,
        data.validation.program,
        recipe,
        options.seed,
        reference=core,
        curve=options.curve or options.out.with_suffix(".csv"),
        resume=options.out.with_suffix(".resume"),
        label=f"{method.name} {data.case.name} K={depth}",
    )
    layer.save(options.out)
    options.out.with_suffix(".resume").unlink(missing_ok=True)
    print(f"wrote {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    from rcdrs.experiments.synthetic import InstanceSet
    from rcdrs.methods import evaluate as run
    from rcdrs.methods import find_method

    method = find_method(options.method)
    data = InstanceSet.load(options.instances)
    depth, core = _core(options.core)
    layer = method.build(data.A, data.case.cone, depth, core)
    if method.learned:
        if options.checkpoint is None:
            raise ValueError(f"{method.name} is learned: --checkpoint is missing.")
        built = layer.options()
        layer = type(layer).load(options.checkpoint, data.A, data.case.cone, depth)
        if layer.options() != built:
            raise ValueError(
                f"{options.checkpoint} holds another method or core than {method.name} with "
                f"{options.core}: train it again."
            )
    means = {name: float(values.mean()) for name, values in run(layer, data.test).items()}
    print(json.dumps({"case": data.case.name, "depth": depth, "method": method.name} | means))


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


def _core(path: Path) -> tuple[int, tuple[float, float]]:
    try:
        stored = json.loads(path.read_text())
        return int(stored["depth"]), (float(stored["alpha"]), float(stored["beta"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a tuned core ({error}): make it with `rcdrs tune`."
        ) from error


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


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

    sub = verb("instances", instances, "generate the instances of one synthetic case and seed")
    sub.add_argument("case", help="qp, socp or mixed, then small, medium or hard: socp-hard")
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--out", type=Path, required=True, help="the .npz file to write")

    sub = verb("tune", tune, "select the fixed core (alpha, beta) on validation data")
    sub.add_argument("instances", type=Path)
    sub.add_argument("--depth", type=_positive, required=True, help="number of steps K")
    sub.add_argument("--out", type=Path, required=True, help="the .json file to write")

    sub = verb("train", train, "train a learned method at the depth of its core")
    sub.add_argument("instances", type=Path)
    sub.add_argument("--core", type=Path, required=True, help="what `rcdrs tune` wrote")
    sub.add_argument("--method", default="RCDRS-Env")
    sub.add_argument("--recipe", default="paper", help="paper or log_kkt (default: paper)")
    sub.add_argument("--seed", type=int, default=0, help="of weights and minibatches")
    sub.add_argument("--out", type=Path, required=True, help="the checkpoint to write")
    sub.add_argument("--curve", type=Path, help="training curve (default: beside the checkpoint)")

    sub = verb("evaluate", evaluate, "mean test metrics of one method, as one JSON line")
    sub.add_argument("instances", type=Path)
    sub.add_argument("--core", type=Path, required=True, help="what `rcdrs tune` wrote")
    sub.add_argument("--method", default="RCDRS-Env")
    sub.add_argument("--checkpoint", type=Path, help="what `rcdrs train` wrote")

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
