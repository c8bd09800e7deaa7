"""workflow/paper.md names what is there: files, definitions in them, and targets."""

from __future__ import annotations

import re
from pathlib import Path

from rcdrs.reporting.tables import TABLES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "workflow/paper.md").read_text()


def test_every_equation_has_its_code():
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| (")]
    assert len(rows) == 20
    for row in rows:
        # Of a part such as `model.py`: `Dispatch.cost`; a file without folder is dispatch's.
        for file, names in re.findall(r"`([\w/]+\.py)`: (`[\w.]+`(?:, `[\w.]+`)*)", row[4]):
            path = ROOT / file if "/" in file else ROOT / "rcdrs/experiments/dispatch" / file
            for name in re.findall(r"`([\w.]+)`", names):
                last = name.rpartition(".")[2]
                assert re.search(rf"(class|def) {last}\b|^{last}\b", path.read_text(), re.M), name


def test_every_table_of_the_paper_is_a_target():
    named = re.findall(r"`table_(\w+)`", PAGE)
    assert set(named) <= set(TABLES)
    assert len(named) == len(set(named)) == 14
