"""The ledger of claims on the page: how many hold, and each with its verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from rcdrs.reporting.claims.ledger import INCONSISTENT, MISSING, UNCHECKED
from rcdrs.reporting.claims.output import MEANING
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import Block, Datum, Grid
from rcdrs.reporting.report.titles import recipe_name

#: How a verdict is marked: class of the style sheet and sign.
MARKS = {
    HOLDS: ("holds", "✓"),
    NOISE: ("noise", "≈"),
    FAILS: ("fails", "✗"),
    INCONSISTENT: ("inconsistent", "!"),
    UNCHECKED: ("unknown", "?"),
    MISSING: ("unknown", "·"),
}
COLUMNS = {"claim": "Claim", "verdict": "Verdict", "paper": "Paper", "ours": "Ours"}
#: What stands behind a claim on a click.
BEHIND = {"where": "", "note": "", "detail": "", "tolerance": "Tolerance: ", "kind": "Check: "}
BEHIND |= {"readings": "Of the protocol, read otherwise: ", "id": "Name in the ledger: "}


@dataclass(frozen=True)
class Tally:
    """How many claims have each verdict, drawn as bars: css, sign, verdict, meaning, count."""

    title: str
    total: int
    counts: list[tuple[str, str, str, str, int]]
    kind: str = "tally"


def read(path: Path | None) -> pd.DataFrame | None:
    """The judged ledger, or None where it was not judged."""
    if path is None or not path.exists():
        return None
    try:
        ledger = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a readable CSV ({error}): judge it again.") from error
    if missing := [name for name in (*COLUMNS, "section") if name not in ledger]:
        raise ValueError(f"{path} has no column {', '.join(missing)}: judge it again.")
    return ledger


def parts(evidence: Evidence, ledgers: dict[str, pd.DataFrame | None]) -> list[Any]:
    """The ledger of each recipe; for the paper's, what does not hold stands first."""
    shown: list[Any] = []
    for recipe, ledger in ledgers.items():
        own = recipe_name(recipe)
        if ledger is None:
            title = f"Claims, {own}"
            shown.append(Missing(title, "", evidence.command("claims")))
            continue
        found, title = Counter(ledger["verdict"]), f"{len(ledger)} claims by verdict, {own}"
        counts = [(*mark, name, MEANING[name], found[name]) for name, mark in MARKS.items()]
        shown.append(Tally(title, len(ledger), [count for count in counts if count[-1]]))
        against = ledger[ledger["verdict"].isin([FAILS, INCONSISTENT])]
        if recipe == "paper" and not against.empty:
            title = "Claims that do not hold here, or not in the paper itself"
            shown.append(_grid("against", title, against))
        shown.append(_grid(f"ledger-{recipe}", f"Every claim, {own}", ledger))
    return shown


_READING = (
    "In the order of the paper. A lead holds where it is clear of the noise of test instances and "
    "of seeds; numbers are the least favourable of the comparisons behind a claim."
)


def _grid(name: str, title: str, claims: pd.DataFrame) -> Grid:
    blocks = []
    for section, lines in claims.groupby("section", sort=False):
        rows = [[_datum(column, line) for column in COLUMNS] for line in lines.to_dict("records")]
        blocks.append(Block(str(section), rows))
    return Grid(name, title, _READING, list(COLUMNS.values()), blocks)


def _datum(column: str, line: dict[Any, str]) -> Datum:
    value = line[column]
    if column == "claim":
        notes = [f"{lead}{line[key]}" for key, lead in BEHIND.items() if line.get(key)]
        if line.get("command"):
            notes.append(Markup("<code>{}</code>").format(line["command"]))
        html = Markup('{}<details class="more"><summary>how</summary>{}</details>')
        return Datum(html.format(value, Markup("<br>").join(notes)), value, "long")
    if column == "verdict":
        css, sign = MARKS.get(value, ("unknown", "·"))
        html = Markup('<span class="verdict {}"><span aria-hidden="true">{}</span> {}</span>')
        return Datum(html.format(css, sign, value), value)
    return Datum(value, value, "told")
