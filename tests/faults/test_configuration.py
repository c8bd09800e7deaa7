"""Every key of the configuration with odd values, and files that are no configuration."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rcdrs.artifact.config import ConfigError, check
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.settings import merge

from . import damage as d
from .cases import Case, judge
from .prepared import configuration

CONFIG = configuration()
#: In the place of a value of each type: each is something else.
NUMBERS = ("many", None, [1], {"a": 1}, True, math.nan, -1, -math.inf)
ODD: dict[type, tuple[Any, ...]] = {
    bool: ("yes", 1, None, []),
    int: (*NUMBERS, 1.5, math.inf),
    float: (*NUMBERS, math.inf),
    str: (3, None, ["a"], {"a": 1}, True),
    list: (None, "text", 3, {"a": 1}, [None], [{}]),
    dict: ("text", 3, [1], {"unknown": 1}),
}
#: These may be anything of their type: what is shown, or may be left out.
FREE = ("ablation.variants.", "margin")
#: Words that end up in paths, in commands and in patterns of the workflow.
WORDS = (
    "",
    " ",
    "a b",
    "a/b",
    "../x",
    "/tmp/x",
    "a\nb",
    "$(touch x)",
    "`x`",
    "a;b",
    "{a}",
    "é",
)
NAMES = {
    "run": lambda word: {"run": word},
    "device": lambda word: {"device": word},
    "families": lambda word: {"synthetic": {"families": [word]}},
    "scales": lambda word: {"synthetic": {"scales": [word]}},
    "methods": lambda word: {"synthetic": {"methods": [word]}},
    "formulations": lambda word: {"dispatch": {"formulations": [word]}},
    "variants": lambda word: {"ablation": {"variants": {word: {}}}},
    "variant of a row": lambda word: {
        "ablation": {"rows": [{"group": "a", "label": "b", "variant": word, "main": True}]}
    },
    "seeds": lambda word: {"seeds": [word]},
    "depths": lambda word: {"dfl": {"depths": [word]}},
}
TWICE = {
    "seeds": {"seeds": [0, 0]},
    "depths": {"synthetic": {"depths": [3, 3]}},
    "families": {"synthetic": {"families": ["socp", "socp"]}},
    "scales": {"synthetic": {"scales": ["small", "small"]}},
    "methods": {"synthetic": {"methods": ["Grid-DRS", "Grid-DRS"]}},
    "formulations": {"dispatch": {"formulations": ["printed", "printed"]}},
    "exact": {"dfl": {"exact": ["PTO-Exact", "PTO-Exact"]}},
}


def places(found: Any, *above: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key at any height, and its value."""
    for key, value in found.items():
        yield (*above, key), value
        if isinstance(value, dict):
            yield from places(value, *above, key)


def changed(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The configuration with another value in a place."""

    def put(found: dict[str, Any], key: str, *below: str) -> dict[str, Any]:
        return found | {key: put(found[key], *below) if below else value}

    return put(CONFIG, *place)


KEYS = {
    f"{'.'.join(place)} = {value!r}": (place, value)
    for place, usual in places(CONFIG)
    for value in ODD[type(usual)]
    if not any(free in ".".join(place) for free in FREE) and place != ("results",)
}


@pytest.mark.parametrize("name", KEYS)
def test_odd_value_is_named_with_its_place(name):
    place, value = KEYS[name]
    with pytest.raises(ConfigError, match=place[-1]):
        check(changed(place, value))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_word_that_is_no_name_is_refused(name, word):
    """As text it would be a path, a command or a pattern."""
    with pytest.raises(ConfigError, match=r"expected|unknown"):
        check(merge(CONFIG, NAMES[name](word)))


@pytest.mark.parametrize("name", TWICE)
def test_entry_that_is_there_twice_is_named(name):
    with pytest.raises(ConfigError, match=name):
        check(merge(CONFIG, TWICE[name]))


@pytest.mark.parametrize("place", [("run",), ("seeds",), ("grid",), ("recipes",), ("synthetic",)])
def test_missing_key_is_named(place):
    with pytest.raises(ConfigError, match=place[0]):
        check({key: CONFIG[key] for key in CONFIG if key != place[0]})


@pytest.mark.parametrize(
    "text", ["{a}", "50 %", "a_b", "x^2", "a & b", "#1", "$x$", "\\input{x}", "é"]
)
def test_label_is_only_text(text):
    """Of a row: whatever it has, LaTeX shows it."""
    rows = [{"group": "Loss", "label": text, "variant": "full", "main": True}]
    assert check(merge(CONFIG, {"ablation": {"rows": rows}})).ablation.rows[0].label == text


YAML = {
    "a list": ("- 1", "odd.yaml"),
    "a number": ("3", "odd.yaml"),
    "text": ("run", "odd.yaml"),
    "half of it": ("run: [", "odd.yaml"),
    "tabs": ("run:\n\t- a", "odd.yaml"),
    "two documents": ("run: a\n---\nrun: b", "odd.yaml"),
    "a key twice": ("seeds: [0]\nseeds: [1]", "seeds"),
    "a key twice inside": ("synthetic:\n  depths: [3]\n  depths: [4]", "depths"),
    "a number for a key": ("1: 2", "1"),
    "a list for a key": ("[a]: 2", "odd.yaml|'a'"),
    "null for a key": ("null: 2", "None|null"),
    "a loop": ("seeds: &a [*a]", "seeds|odd.yaml|the configuration"),
    "a date": ("run: 2020-01-01", "run"),
    "on for a name": ("run: on", "run"),
    "an octal number": ("seeds: [010, 8]", "seeds"),
    "code": ("run: !!python/object/apply:os.mkdir [canary]", "odd.yaml"),
    "an unknown tag": ("run: !new x", "odd.yaml"),
    "an unknown section": ("experiments: {a: 1}", "experiments"),
    "a huge number": (f"threads: {'9' * 5000}", "threads|odd.yaml"),
    "a huge seed": ("seeds: [99999999999999]", "seeds"),
    "deep nesting": ("[" * 3000, "odd.yaml"),
}
FILES = {
    "binary": (d.bytes_of(b"\xff\xfe\x00"), "odd.yaml"),
    "other encoding": (d.bytes_of("run: ä".encode("latin-1")), "odd.yaml"),
    "NUL": (d.bytes_of(b"run: a\x00b"), "odd.yaml"),
}
CASES = [
    Case(what, "status --json --configfile odd.yaml", says, "odd", damage)
    for what, (damage, says) in FILES.items()
] + [
    Case(what, "status --json --configfile odd.yaml", says, "odd", d.text(text))
    for what, (text, says) in YAML.items()
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_file_that_is_no_configuration_is_named(case, checkout):
    judge(case, checkout)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_bomb_of_aliases_does_not_go_off(tmp_path):
    """9^9 entries in a file of some hundred bytes; in a process whose memory is limited."""
    (tmp_path / "odd.yaml").write_text(BOMB)
    command = [sys.executable, "-m", "rcdrs", "status", "--configfile", "odd.yaml"]
    limited = ["bash", "-c", 'ulimit -v 8000000; exec "$@"', "-", *command]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr[-1000:]
    assert "the configuration has more than" in done.stderr
    assert len(done.stderr) < 5000


def test_small_configuration_is_one():
    """So that the cases above fail for their oddity alone."""
    assert Plan.of(CONFIG, ".").config.run == "paper"
