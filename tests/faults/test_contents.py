"""Files that are whole, but hold something else than they should."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from . import damage as d
from .cases import Case, judge
from .commands import COMMANDS
from .damage import Damage

#: Of each set of instances, the command that reads it and some of its arrays.
SETS = {
    "set": ("tune", ("A", "validation_b", "validation_c", "validation_x")),
    "dfl": ("tune dfl", ("A", "validation_b")),
    "days": ("reference", ("test_forecast_load",)),
    "reference": ("evaluate days", ("reference",)),
}


def arrays(name: str) -> dict[str, Damage]:
    """What can be wrong with an array."""
    return {
        "NaN": d.entry(name, np.nan),
        "infinity": d.entry(name, np.inf),
        "another number": d.sealed(d.entry(name, 0.123)),
        "no array": d.dropped(name),
        "scalar": d.array(name, lambda found: found.ravel()[0]),
        "one row": d.array(name, lambda found: found[:1]),
        "column less": d.array(name, lambda found: found[..., :-1]),
        "more axes": d.array(name, lambda found: found[None]),
        "nothing": d.array(name, lambda found: found[:0]),
        "integers": d.array(name, lambda found: (100 * np.nan_to_num(found)).astype(int)),
        "rounding": d.sealed(d.array(name, lambda found: found * np.float32(1 + 1e-6))),
        "complex": d.array(name, lambda found: found.astype(complex)),
        "text": d.array(name, lambda found: found.astype(str)),
        "twice": d.sealed(d.array(name, lambda found: 2 * found)),
        "pickled code": d.pickled_array(name),
    }


def meta(**changes: object) -> Damage:
    def change(stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = json.loads(str(stored["meta"])) | changes
        kept = {key: value for key, value in found.items() if value is not ...}
        return stored | {"meta": np.array(json.dumps(kept))}

    return d.arrays(change)


def whole_sets() -> Iterator[Case]:
    for file, (command, names) in SETS.items():
        for name in names:
            for what, damage in arrays(name).items():
                yield Case(f"{file} {name} {what}", COMMANDS[command], f"{{{file}}}", file, damage)
    for what, damage in {
        "no meta": d.dropped("meta"),
        "meta of numbers": d.array("meta", lambda found: np.zeros(3)),
        "meta of text": d.array("meta", lambda found: np.array("socp-small")),
        "no case": meta(case=...),
        "no seed": meta(seed=...),
        "odd case": meta(case=["socp"]),
        "unknown case": meta(case="lp-huge"),
        "another case": meta(case="qp-small"),
        "another seed": d.sealed(meta(seed=1)),
        "odd seed": meta(seed="one"),
        "unknown array": d.arrays(lambda stored: stored | {"test_w": np.zeros(3)}),
        "bomb": d.bomb,
    }.items():
        yield Case(f"set {what}", COMMANDS["evaluate"], "{set}", "set", damage)


def cores() -> Iterator[Case]:
    for what, damage in {
        **{f"no {key}": d.json_changed(**{key: ...}) for key in ("case", "seed", "depth", "alpha")},
        "depth of text": d.json_changed(depth="3"),
        "depth of another": d.json_changed(depth=5),
        "half a depth": d.json_changed(depth=3.5),
        "true for a depth": d.json_changed(depth=True),
        "negative depth": d.json_changed(depth=-3),
        "huge depth": d.json_changed(depth=10**12),
        "other alpha": d.json_changed(alpha=1.234),
        "alpha of a list": d.json_changed(alpha=[1.6]),
        "alpha NaN": d.json_changed(alpha=float("nan")),
        "beta infinite": d.json_changed(beta=float("inf")),
        "beta null": d.json_changed(beta=None),
        "unknown key": d.json_changed(gamma=1.0),
        "a digit": d.digit,
        "a list": d.text("[1, 2]"),
        "deeply nested": d.text("[" * 100_000),
        "of another seed": d.swap("results/paper/cores/socp-small-1-K3.json"),
        "of another experiment": d.swap("results/paper/cores/dfl-0-K2.json"),
    }.items():
        yield Case(f"core {what}", COMMANDS["evaluate"], "{core}", "core", damage)


def checkpoints() -> Iterator[Case]:
    of = "results/paper/checkpoints"

    def weights(change) -> Damage:
        return d.checkpoint(weights=lambda w: w | {k: change(t) for k, t in list(w.items())[:1]})

    for what, damage in {
        "of another depth": d.swap(f"{of}/paper/RCDRS-Env/socp-small-0-K4.pt"),
        "of another recipe": d.swap(f"{of}/log_kkt/RCDRS-Env/socp-small-0-K3.pt"),
        "of another seed": d.swap(f"{of}/paper/RCDRS-Env/socp-small-1-K3.pt"),
        "of another method": d.swap(f"{of}/paper/RCDRS-NoEnv/socp-small-0-K3.pt"),
        "of another experiment": d.swap(f"{of}/paper/RCDRS-Env/dfl-0-K2.pt"),
        "of a predictor": d.swap(f"{of}/paper/RCDRS-Env-J/dfl-0-K2.pt"),
        "that is a CSV": d.swap(f"{of}/paper/RCDRS-Env/socp-small-0-K3.csv"),
        "that is instances": d.swap("results/paper/instances/socp-small-0.npz"),
        "pickled code": d.pickled,
        "pickled code inside": d.pickled_checkpoint,
        "NaN": weights(lambda t: t * float("nan")),
        "other weights": d.sealed(weights(lambda t: t + 0.01)),
        "other shape": weights(lambda t: t[:-1]),
        "other dtype": d.sealed(weights(lambda t: t.double())),
        "weights of a list": weights(lambda t: t.tolist()),
        "no weights": d.checkpoint(weights=lambda w: {}),
        "weight less": d.checkpoint(weights=lambda w: dict(list(w.items())[1:])),
        "weight more": d.checkpoint(weights=lambda w: w | {"other": next(iter(w.values()))}),
        "weights of text": d.checkpoint(weights=lambda w: "heavy"),
        "config of a list": d.checkpoint(config=lambda c: [c]),
        "no config": d.checkpoint(config=lambda c: {}),
        **{
            f"no {key}": d.checkpoint(config=lambda c, key=key: {k: c[k] for k in c if k != key})
            for key in ("trained", "options", "depth", "layer", "cone")
        },
        "options of text": d.checkpoint(config=lambda c: c | {"options": "all"}),
        "unknown option": d.checkpoint(config=lambda c: c | {"options": c["options"] | {"x": 1}}),
    }.items():
        yield Case(f"checkpoint {what}", COMMANDS["evaluate"], "{env}", "env", damage)
    yield Case(
        "start is the predictor",
        COMMANDS["train dfl"],
        "{layer}",
        "layer",
        d.swap(f"{of}/paper/RCDRS-Env-J/dfl-0-K2.pt"),
    )


def rows() -> Iterator[Case]:
    for what, damage in {
        "a digit": d.digit,
        "no rows": d.lines(lambda lines: lines[:1]),
        "no header": d.lines(lambda lines: lines[1:]),
        "a row twice": d.lines(lambda lines: [*lines, lines[-1]]),
        "no column": d.lines(lambda lines: [line.rpartition(",")[0] for line in lines]),
        "a column more": d.lines(lambda lines: [f"{line},1" for line in lines]),
        "other header": d.replaced("ObjErr", "Error"),
        "header twice": d.replaced("Gap", "ObjErr"),
        "text for a number": d.lines(lambda lines: [lines[0], lines[1].rpartition(",")[0] + ",x"]),
        "NaN": d.lines(lambda lines: [lines[0], lines[1].rpartition(",")[0] + ",nan"]),
        "semicolons": d.lines(lambda lines: [line.replace(",", ";") for line in lines]),
        "of another method": d.replaced("RCDRS-Env", "RCDRS-NoEnv"),
        "of another seed": d.swap("results/paper/synthetic/socp-small-1-K3/RCDRS-Env@paper.csv"),
        "of another experiment": d.replaced("synthetic", "ablation"),
        "odd depth": d.replaced(",3,0,", ",three,0,"),
        "open quote": d.replaced("synthetic", '"synthetic'),
        "other encoding": d.bytes_of("µ\n1\n".encode("utf-16")),
    }.items():
        for command in ("table", "compare"):
            yield Case(f"rows {what}, {command}", COMMANDS[command], "{rows}", "rows", damage)


def days() -> Iterator[Case]:
    """The trace that is drawn, and the reference of other days."""
    for what, damage in {
        "a digit": d.digit,
        "no rows": d.lines(lambda lines: lines[:1]),
        "other header": d.replaced("value", "amount"),
        "text for a number": d.lines(
            lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0] + ",x"]
        ),
        "of a benchmark": d.swap("results/paper/traces/socp-small-0-K3.csv"),
    }.items():
        yield Case(f"day {what}", COMMANDS["draw"], "{day}", "day", damage)
    for file, other in {
        "reference": "references/dispatch-inequality-0.npz",
        "days": "instances/dispatch-inequality-0.npz",
    }.items():
        damage = d.swap(f"results/paper/{other}")
        yield Case(f"other {file}", COMMANDS["evaluate days"], "dispatch-printed", file, damage)


CASES = [*whole_sets(), *cores(), *checkpoints(), *rows(), *days()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_other_contents_are_noticed(case, checkout):
    judge(case, checkout)
