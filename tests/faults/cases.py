"""What a case is, how it is run, and what it must end with."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from stat import S_ISDIR
from typing import Any, NamedTuple

from rcdrs.cli.main import main

from . import damage
from .damage import CANARY, Damage
from .prepared import FILES, inside

#: Random places are drawn from this and the name of the case: `python -m tests.faults --seed N`.
SEED = int(os.environ.get("FAULTS_SEED", "0"))
#: Outputs of a command go below this folder, if there are any.
NEW = "new"
#: How a message says what to do; the parser shows what it would have taken.
REMEDY = re.compile(
    r"^usage:|expected|required|should be|supported|its columns|there is nothing to|no reference"
    r"|is not YAML|more than|once|again|first|instead|delete|remove|restore|give|leave|generate"
    r"|make (it|room|them|one)|take|choose|install|clone|use |correct it|check |did you mean"
    r"|`rcdrs|`git|snakemake"
)


@dataclass(frozen=True)
class Case:
    """A fault: what is done to which file, the command that meets it, and what that says.

    `command` is as one would type it, with files of the prepared run as ``{set}``.  A case ends
    with an error, in words that match `says`, and with every file as it was.  One that `survives`
    ends with what the undamaged run gives instead; for a `harmless` one, either will do, as nobody
    can tell beforehand which bytes of a file mean something.
    """

    name: str
    command: str
    says: str = ""
    file: str = ""
    damage: Damage = damage.none
    survives: bool = False
    harmless: bool = False

    def __str__(self) -> str:
        return self.name

    def words(self) -> list[str]:
        return [word.format(**FILES) for word in shlex.split(self.command)]


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def call(words: Iterable[str]) -> Outcome:
    """A command in this process; a traceback is the caller's, as it would be the user's."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as stop:  # of the parser
            code = int(stop.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


def tree(folder: Path) -> dict[str, Any]:
    """Every file below a folder: when it was last written, or what a new one has in it."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name, state = path.relative_to(folder).as_posix(), path.lstat()
        if name.startswith(f"{NEW}/") and path.is_file():
            found[name] = path.read_bytes()
        elif not S_ISDIR(state.st_mode):
            found[name] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


def split(files: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was there, and what is new."""
    new = {name: content for name, content in files.items() if name.startswith(f"{NEW}/")}
    return {name: files[name] for name in files if name not in new}, new


def judge(case: Case, folder: Path, whole: dict[str, Any] | None = None) -> None:
    """Run a case in its copy of the prepared checkout; `whole` is what the undamaged one gives."""
    with inside(folder):
        if case.file:
            case.damage(Path(FILES[case.file]), Random(f"{SEED}/{case.name}"))
        before = tree(folder)
        code, out, err = call(case.words())
        after, new = split(tree(folder))
    told = f"{' '.join(case.words())}\nended with {code}, seed {SEED}\n{out}{err}"
    assert not Path(folder, CANARY).exists(), f"pickled code was run by {told}"
    assert "Traceback" not in err, told
    assert after == before, f"{_changed(before, after)} changed: {told}"
    if case.survives or (case.harmless and code == 0):
        assert code == 0, told
        assert new == whole, f"{_changed(whole or {}, new)} differ from the undamaged run: {told}"
        return
    assert code != 0, f"nothing was noticed: {told}"
    assert not new, f"{', '.join(new)} was written: {told}"
    pattern = case.says.format(**{name: re.escape(Path(p).name) for name, p in FILES.items()})
    assert re.search(pattern, err), f"{pattern!r} is not in what was said: {told}"
    assert REMEDY.search(re.sub(r"^rcdrs \w+: ", "", err)), f"no remedy in {told}"


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    names = before.keys() | after.keys()
    return ", ".join(sorted(n for n in names if before.get(n) != after.get(n)))
