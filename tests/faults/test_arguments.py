"""Odd arguments of every command: none is a traceback, and none is taken for something else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .cases import Case, judge
from .commands import COMMANDS, CONFIG, escaped
from .prepared import RUN, SIZES, configuration

GRID = {"alpha": [1.0], "beta": [1.0], "instances": 4}
PLAIN = configuration()
RECIPE = PLAIN["recipes"]["paper"]
CONTROLLER = {"controller": {}}
#: Of each stage: its command without settings, and settings that it would take.
STAGES = {
    "instances": ("instances socp-small --out new/set.npz", SIZES),
    "tune": (COMMANDS["tune"], GRID),
    "train": (COMMANDS["train"], CONTROLLER | {"recipe": RECIPE}),
    "evaluate": (COMMANDS["evaluate"], CONTROLLER),
    "time": (COMMANDS["time"], CONTROLLER | {"warm_up": 0, "repeats": 1}),
    "trace": (COMMANDS["trace"], CONTROLLER),
    "reference": (COMMANDS["reference"], {"steps": 5}),
}
#: In place of any value.
ODD = {
    "text": "many",
    "null": None,
    "list": [[]],
    "object": {"a": {}},
    "negative": -1,
    "true": True,
}


def settings() -> Iterator[tuple[str, str, str]]:
    """Each key of a stage's settings with each odd value; one that is unknown; none at all."""
    for stage, (command, right) in STAGES.items():
        for key in right:
            for what, value in ODD.items():
                if isinstance(right[key], dict) and not isinstance(value, dict | None):
                    continue  # these are all alike
                told = escaped(json.dumps(right | {key: value}))
                yield f"{stage} {key} {what}", f"{command} --settings {told}", key
            told = escaped(json.dumps({k: v for k, v in right.items() if k != key}))
            yield f"{stage} without {key}", f"{command} --settings {told}", key
        told = escaped(json.dumps(right | {"unknown": 1}))
        yield f"{stage} unknown", f"{command} --settings {told}", "unknown"
        for what, text in {"list": "[]", "nothing": "''", "number": "3", "half": "{{"}.items():
            yield f"{stage} settings {what}", f"{command} --settings {text}", "--settings"


def recipes() -> Iterator[tuple[str, str, str]]:
    for key, value in {
        "epochs": 1.5,
        "batch": "all",
        "learning_rate": 0,
        "weight_decay": -1.0,
        "clip": 0.0,
        "cosine": "yes",
        "final": 2.0,
        "loss": {},
        "reference": 3,
    }.items():
        told = escaped(json.dumps(CONTROLLER | {"recipe": RECIPE | {key: value}}))
        yield f"train recipe {key}", f"{COMMANDS['train']} --settings {told}", key
    for key, value in {
        "hidden": 0,
        "encoder": ["gru"],
        "features": "con",
        "controls": [3],
        "ranges": {"alpha": [1.9, 0.2]},
        "envelope": {"k_0": 0},
        "growth": {"beta": -1.0},
    }.items():
        told = escaped(json.dumps({"controller": {key: value}, "recipe": RECIPE}))
        yield f"train controller {key}", f"{COMMANDS['train']} --settings {told}", key


WORDS = {
    "instances": {
        "''": "", "lp": "'lp'", "socp": "'socp'", "socp-": "'socp-'", "SOCP-HARD": "SOCP",
        "../x": "x", "socp-hard/x": "socp", "dfl-x": "dfl-x", "dispatch": "dispatch",
        "dispatch-x": "dispatch-x", "'socp hard'": "socp hard", "-- -x": "-x",
        "socp-small --seed -1": "--seed", "socp-small --seed 1.5": "--seed",
        "socp-small --seed one": "--seed", "socp-small --seed ''": "--seed",
        "socp-small --threads 0": "--threads", "socp-small --threads many": "--threads",
        "socp-small --configfile nowhere.yaml": "nowhere.yaml",
        "socp-small qp-small": "qp-small",
    },
    "tune {set}": {
        "--depth 0": "--depth", "--depth -3": "--depth", "--depth 2.5": "--depth",
        "--depth ''": "--depth", "": "--depth", "--depth 3 --experiment x": "'x'",
        "--depth 3 --experiment ''": "experiment",
        "--depth 3 --experiment dfl": "{set}|dfl", "--depth 3 --core {core}": "--core",
    },
    "train {set}": {
        "": "--core", "--core {core} {core4}": "cores", "--core {set}": "{set}",
        "--core {core} --method ''": "method", "--core {core} --method ../x": "x",
        "--core {core} --method RCDRS-Env-J": "RCDRS-Env-J",
        "--core {core} --recipe ''": "recipe", "--core {core} --recipe paper@x": "paper@x",
        "--core {core} --seed -1": "--seed", "--core {core} --start {env}": "start",
        "--core {core} --device tpu": "tpu", "--core {core} --device cuda": "cuda",
        "--core {core} --depth 3": "--depth", "--core {core} --epochs 3": "--epochs",
    },
    "evaluate {set}": {
        "--core {core}": "RUN", "--core {core} -- ''": "''", "--core {core} -- =": "''|=",
        "--core {core} -- @paper=x": "''|@paper", "--core {core} -- RCDRS-Env": "RCDRS-Env@RECIPE",
        "--core {core} -- RCDRS-Env@paper": "CHECKPOINT",
        "--core {core} -- RCDRS-Env@paper=": "CHECKPOINT",
        "--core {core} -- RCDRS-Env@../x={env}": "x",
        "--core {core} -- RCDRS-Env@paper={core}": "{core}",
        "--core {core} -- RCDRS-Env@paper=nowhere.pt": "nowhere.pt",
        "--core {core} -- RCDRS-Env@paper=results": "results",
        "--core {core} -- Grid-DRS Grid-DRS": "Grid-DRS", "--core {core} -- Grid-DRS@paper": "Grid",
        "--core {core} --experiment ablation -- nothing": "nothing",
        "--core {core} --experiment dispatch -- Grid-DRS": "{set}|dispatch",
        "--core {core} --stamp [] -- Grid-DRS": "--stamp",
        "--core {core} --stamp 3 -- Grid-DRS": "--stamp",
        "--core {core} --stamp '{{\"a\": 3}}' -- Grid-DRS": "stamp",
        "--core {core} --reference {reference} -- Grid-DRS": "reference|{reference}",
        "--core {core} --reference {reference} {reference} -- Grid-DRS": "reference|{reference}",
    },
    "evaluate {days}": {
        "--core {days_core} -- Grid-DRS": "reference",
        "--core {core} --reference {reference} -- Grid-DRS": "{core}",
        "--core {days_core} --reference {set} -- Grid-DRS": "{set}",
        "--core {days_core} --reference nowhere.npz -- Grid-DRS": "nowhere.npz",
    },
    "time {set}": {
        "--core {core} --method": "--method", "--core {core} --method ''": "method",
        "--core {core} --method F-DRS F-DRS": "F-DRS", "--core {core} {core}": "",
    },
    "trace {set}": {
        "--core {core} -- F-DRS": "F-DRS", "--core {core} -- RCDRS-Env@paper={env} x": "x",
    },
    "reference {set}": {"--core {core}": "{set}"},
}  # fmt: skip
ALONE = {
    "": "COMMAND", "tran": "tran", "--depth 3": "COMMAND",
    f"table nothing {CONFIG} --out new/a.tex": "settings",
    f"table '' {CONFIG} --out new/a.tex": "settings",
    "table settings --config '{{}}' --out new/a.tex": "required|missing",
    "table settings --config '[]' --out new/a.tex": "--config",
    "table settings --out new/a.tex": "--config",
    f"table settings {CONFIG} --rows nowhere.csv --out new/a.tex": "nowhere.csv",
    f"table settings {CONFIG} --rows {RUN} --out new/a.tex": RUN,
    f"table settings {CONFIG} --rows {{core}} --out new/a.tex": "{core}",
    f"table settings {CONFIG} --rows {{rows}} {{rows}} --out new/a.tex": "row|RCDRS|Grid",
    f"table settings {CONFIG} --rows --out new/a.tex": "row",
    f"table synthetic_k20 {CONFIG} --out new/a.tex": "synthetic_k20",
    f"claims {CONFIG} --recipe nothing --out new/a.md": "nothing|synthetic",
    f"headline {CONFIG} --out new/a.md": "coverage|log_kkt|families",
    "draw nowhere.csv --out new/day.png": "nowhere.csv",
    "draw {day} --out new/day.xyz": "xyz", "draw {rows} --out new/day.png": "{rows}",
    "draw {core} --out new/day.png": "{core}",
    "preview nowhere.tex --out new/a.pdf": "nowhere.tex|pdflatex",
    "status --configfile nowhere.yaml": "nowhere.yaml", "status --configfile results": "results",
    "status x": "x", "schema x": "x",
    "compare nowhere": "nowhere", "compare {core}": "{core}",
    "profile nowhere": "nowhere", "profile {core}": "{core}", "profile --cores 0": "--cores",
    "explain nothing RCDRS-Env Gap": "settings", "explain settings x Gap": "'x'",
    "explain settings 'K=3 Gap' x": "'x'", "explain settings": "row",
    "verify --base nonsense": "nonsense|git", "verify --sample nowhere.yaml": "nowhere.yaml|git",
    "bench walk": "walk", "bench step --case lp": "'lp'", "bench step --depth 0": "--depth",
    "bench step --batch 0": "--batch", "bench solve --case lp": "'lp'",
    "bench step --case socp-small --batch 2 --controller cnn": "'cnn'",
    "calibrate lp": "'lp'", "calibrate ''": "''", "calibrate dfl": "'dfl'",
    "calibrate --seed -1": "--seed",
}  # fmt: skip
#: Where an output cannot go.
PLACES = {
    "a folder": ("results", "results"),
    "below a file": ("{core}/out", "{core}"),
    "nowhere at all": ("''", "--out|'.'"),
    "a device": ("/dev/full/out", "/dev/full"),
    "a system folder": ("/proc/out/a", "/proc"),
    "a name that is too long": ("new/" + "long" * 80, "long"),
}


def outputs() -> Iterator[tuple[str, str, str]]:
    for stage in ("tune", "train", "evaluate", "trace", "reference", "table", "draw"):
        start = COMMANDS[stage].rpartition(" --out ")[0]
        suffix = COMMANDS[stage].rpartition(".")[2]
        for what, (place, says) in PLACES.items():
            ending = "" if place in ("''", "results") else f".{suffix}"
            yield f"{stage} to {what}", f"{start} --out {place}{ending}", says


CASES = [
    *(Case(*case) for case in (*settings(), *recipes(), *outputs())),
    *(
        Case(f"{start} {words}", f"{start} --out new/a.pt {words}", says)
        for start, odd in WORDS.items()
        for words, says in odd.items()
    ),
    *(Case(words[:60] or "nothing", words, says) for words, says in ALONE.items()),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_odd_argument_is_named(case, checkout):
    judge(case, checkout)
