"""Files of a run that are gone, cut off, overwritten, or damaged in a single bit."""

from __future__ import annotations

import pytest

from . import damage as d
from .cases import Case, judge
from .commands import COMMANDS

#: By file, the commands that read it.
READERS = {
    "set": ("tune", "train", "evaluate", "trace"),
    "core": ("train", "evaluate", "trace"),
    "env": ("evaluate", "trace"),
    "dfl": ("tune dfl", "train dfl"),
    "layer": ("train dfl",),
    "model": ("evaluate dfl",),
    "days": ("reference", "evaluate days"),
    "reference": ("evaluate days",),
    "rows": ("table", "compare"),
    "day": ("draw",),
}
#: Nothing of the file can be used.
WHOLLY = (d.missing, d.directory, d.loop, d.dangling, d.empty, d.zeros, d.garbage, d.truncate)
#: What is left may be all that matters.
FLIPS = 5

CASES = [
    Case(f"{how.__name__} {file}, {command}", COMMANDS[command], "{" + file + "}", file, how)
    for file, commands in READERS.items()
    for command in commands
    for how in WHOLLY
    if (command, how) != ("compare", d.missing)  # which compares what there is
] + [
    Case(f"{name} {file}, {command}", COMMANDS[command], "{" + file + "}", file, how, harmless=True)
    for file, (command, *_) in READERS.items()
    for name, how in [("append", d.append), *((f"flip {n}", d.flip) for n in range(FLIPS))]
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damaged_file_is_named(case, checkout, undamaged):
    judge(case, checkout, undamaged(tuple(case.words())) if case.harmless else None)


@pytest.mark.parametrize("command", COMMANDS)
def test_undamaged_file_is_taken(command, undamaged):
    """So that the cases fail for their damage alone."""
    undamaged(tuple(Case(command, COMMANDS[command]).words()))
