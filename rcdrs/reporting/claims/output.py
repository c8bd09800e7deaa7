"""The judged ledger as CSV and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

import pandas as pd

from rcdrs.reporting.claims.checks import some
from rcdrs.reporting.claims.ledger import INCONSISTENT, MISSING, UNCHECKED, Judged
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE

MEANING = {
    HOLDS: "true of our numbers, within the stated tolerance and clear of noise",
    NOISE: "the numbers lean one way or the other by less than noise: so few seeds cannot tell",
    FAILS: "our numbers say otherwise, and clearly so",
    INCONSISTENT: "the paper's own numbers contradict it, whatever ours say",
    UNCHECKED: "nothing that runs here can decide it",
    MISSING: "the results it needs are not among those given",
}
INTRODUCTION = """Every quantitative or ordering claim of the paper, in our words, judged from the
seed-level results of this run. Claims and checks are in `workflow/claims.yaml`.

An ordering is compared seed by seed on the same test instances. A lead *holds* where the 95 %
bootstrap interval over instances (same layers, other test set) and Student's 95 % interval over
seeds both exclude a tie; someone is *behind* where every seed says so and the bootstrap does not
object; what is between is *within seed noise*. Who ties, in every seed to a tenth of a percent, is
not better. "Worst of n" is the least favourable of n
comparisons, as a ratio in which below 1 favours the claim. "Within the paper's own deviations"
counts comparisons in which the paper's printed standard deviations exceed the difference.
"""
READINGS = """What the paper leaves open is also read otherwise, as `universes` of the
configuration. *Readings* counts in how many of these a claim holds by the numbers of their one
seed, the protocol as it is configured among them, on the hard benchmarks and in the ablations. A
reading that changes none of the results behind a claim does not count.
"""
#: Of the ledger as CSV.
COLUMNS = ["section", "id", "verdict", "claim", "where", "paper", "ours", "detail", "kind"]
COLUMNS += ["tolerance", "note", "command", "readings"]


def to_frame(judged: Iterable[Judged]) -> pd.DataFrame:
    """One line a claim, in the order of the ledger."""
    lines = [
        vars(j) | vars(j.claim) | {"claim": j.claim.says, "readings": in_readings(j, most=99)}
        for j in judged
    ]
    return pd.DataFrame(lines)[COLUMNS]


def in_readings(judged: Judged, most: int = 0) -> str:
    """``holds in 7 of 9 readings``, and at most so many of those in which it does not."""
    if not judged.readings:
        return ""
    against = [found.label for found in judged.readings if not found.holds]
    count = len(judged.readings)
    told = f"holds in {count - len(against)} of {count} readings"
    return told + (some("; not: ", against, most) if most else "")


def to_markdown(judged: Sequence[Judged], recipe: str, noise: Sequence[str] = ()) -> str:
    """A page for a reader with the paper open; `noise` are lines on wins by noise."""
    counts = Counter(j.verdict for j in judged)
    lines = [f"# The paper's claims, recipe `{recipe}`", "", INTRODUCTION]
    lines += ["| verdict | claims | meaning |", "| --- | ---: | --- |"]
    lines += [f"| {name} | {counts[name]} | {MEANING[name]} |" for name in MEANING]
    heads = ["verdict", "claim", "paper", "ours"]
    if any(j.readings for j in judged):
        heads.append("readings")
        lines += ["", READINGS]
    for section, members in groupby(judged, key=lambda j: j.claim.section):
        group = list(members)
        lines += ["", f"## {section}", ""]
        lines += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
        lines += [_row(j, len(heads)) for j in group]
        lines += ["", "<details><summary>Where, how, tolerance, command</summary>", ""]
        lines += [_entry(j) for j in group]
        lines += ["", "</details>"]
    if noise:
        lines += ["", "## Wins and noise", "", *noise]
    return "\n".join(lines) + "\n"


def noise_lines(tables: dict[str, pd.DataFrame]) -> list[str]:
    """How many comparisons are clear, by title: of `statistics.of_settings` and `of_table`."""
    calls = ["ahead", "ahead by noise", "tied", "behind by noise", "behind"]
    lines = [f"| comparison | {' | '.join(calls)} |", f"| --- |{' ---: |' * len(calls)}"]
    for title, frame in tables.items():
        counts = Counter(frame["call"])
        lines.append(f"| {title} | {' | '.join(str(counts[call]) for call in calls)} |")
    return lines


def _row(judged: Judged, columns: int) -> str:
    claim = f"{judged.claim.says} (`{judged.claim.id}`)"
    cells = [f"**{judged.verdict}**", claim, judged.paper, judged.ours, in_readings(judged)]
    return f"| {' | '.join(_cell(text) for text in cells[:columns])} |"


def _entry(judged: Judged) -> str:
    claim = judged.claim
    parts = [
        f"{claim.where}; check `{claim.kind}`",
        judged.detail,
        in_readings(judged, most=4),
        claim.note,
        f"Tolerance: {claim.tolerance}" if claim.tolerance else "",
        f"`{judged.command}`",
    ]
    return f"- `{claim.id}`: " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _cell(text: str) -> str:
    """Nothing that would end a cell of a Markdown table."""
    return text.replace("|", "/").replace("\n", " ")
