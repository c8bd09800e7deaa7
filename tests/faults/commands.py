"""The commands that read the files of the prepared run; each writes below `new`, or prints."""

from __future__ import annotations

import json
import shlex

from .prepared import configuration


def escaped(text: str) -> str:
    """As a word of a command, in which braces are names of files."""
    return shlex.quote(text).replace("{", "{{").replace("}", "}}")


#: Of the run alone, whatever is released.
CONFIG = "--config " + escaped(json.dumps(configuration() | {"results": "recompute"}))
COMMANDS = {
    "tune": "tune {set} --depth 3 --out new/core.json",
    "train": "train {set} --core {core} --out new/env.pt",
    "evaluate": "evaluate {set} --core {core} RCDRS-Env@paper={env} --out new/rows.csv",
    "trace": "trace {set} --core {core} RCDRS-Env@paper={env} --out new/trace.csv",
    "time": "time {set} --core {core} --method F-DRS --out new/times.csv",
    "tune dfl": "tune {dfl} --depth 2 --out new/core.json",
    "train dfl": "train {dfl} --core {dfl_core} --method RCDRS-Env-J --start {layer}"
    " --out new/model.pt",
    "evaluate dfl": "evaluate {dfl} --core {dfl_core} RCDRS-Env-J@paper={model} --out new/rows.csv",
    "reference": "reference {days} --core {days_core} --out new/reference.npz",
    "evaluate days": "evaluate {days} --core {days_core} Grid-DRS --reference {reference}"
    " --out new/rows.csv",
    "table": f"table settings {CONFIG} --out new/settings.tex",
    "draw": "draw {day} --out new/day.png",
    "status": "status --json",
    "compare": "compare results/paper",
    "release": "release",
    "explain": "explain settings 'K=3 Gap' RCDRS-Env",
}
