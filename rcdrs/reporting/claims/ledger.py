"""The ledger: read, held against what exists, and judged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from rcdrs.artifact.config import ROOT
from rcdrs.reporting.claims.checks import Check
from rcdrs.reporting.claims.evidence import All, Constants, Test, Unavailable
from rcdrs.reporting.claims.numbers import Cells, Close, Coverage, Share, Value
from rcdrs.reporting.claims.orderings import Bold, Order
from rcdrs.reporting.claims.sources import (
    FAILS,
    HOLDS,
    NOISE,
    NotComputed,
    Ours,
    expect,
    printed,
)

LEDGER = ROOT / "workflow/claims.yaml"

INCONSISTENT, UNCHECKED = "inconsistent in the paper", "cannot be checked here"
MISSING = "not computed"
#: From the best to the worst, as `all` takes them together.
VERDICTS = (UNCHECKED, HOLDS, NOISE, MISSING, INCONSISTENT, FAILS)

_CHECKS: tuple[type[Check], ...] = (Order, Close, Value, Cells, Bold, Share, Coverage)
_CHECKS += (Constants, Test, All, Unavailable)
KINDS = {check.__name__.lower(): check for check in _CHECKS}


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, in our words.

    only: "paper" where a run has nothing to say on it.
    """

    id: str
    section: str
    where: str
    says: str
    kind: str
    check: Check
    tolerance: str
    note: str = ""
    only: str = ""


@dataclass(frozen=True)
class InReading:
    """Whether a claim holds in another reading of the protocol: see `readings`."""

    label: str
    holds: bool


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, what the paper's own numbers say, and what ours do; and in which
    readings of the protocol it holds, where others say something on it."""

    claim: Claim
    verdict: str
    paper: str = ""
    ours: str = ""
    detail: str = ""
    command: str = ""
    readings: tuple[InReading, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """`tables`: what the paper's tables are here, by label."""

    tables: dict[str, dict[str, Any]]
    claims: list[Claim]

    @staticmethod
    def read(path: Path = LEDGER) -> Ledger:
        """The ledger, every reference of which exists; else an error that names the claim."""
        document = yaml.safe_load(path.read_text("utf-8"))
        claims = []
        for section in document["sections"]:
            for entry in section["claims"]:
                try:
                    claims.append(_claim(entry, section, document))
                except (ValueError, TypeError, KeyError) as error:
                    name = entry.get("id", entry)
                    raise ValueError(f"{path.name}, claim {name}: {error}") from error
        _check_ids(claims, path)
        return Ledger(document["tables"], claims)

    def judge(self, ours: Ours) -> list[Judged]:
        found: dict[str, Judged] = {}
        # Those of other claims come last; the order of the ledger is kept.
        for claim in sorted(self.claims, key=lambda claim: isinstance(claim.check, All)):
            if isinstance(claim.check, All):
                found[claim.id] = _together(claim, [found[name] for name in claim.check.claims])
            else:
                command = self.command(claim, ours.recipe)
                found[claim.id] = Judged(claim, *_judge(claim, ours), command)
        return [found[claim.id] for claim in self.claims]

    def command(self, claim: Claim, recipe: str) -> str:
        """What recomputes the numbers of a claim."""
        if isinstance(claim.check, Test):
            return f"pytest {' '.join(claim.check.tests)}"
        targets = [self.tables[label]["targets"] for label in claim.check.tables()]
        if claim.only == "paper" or not targets:
            return "snakemake --cores 1 claims"
        names = dict.fromkeys(f"table_{t.get(recipe, t['paper'])}" for t in targets)
        return f"snakemake --cores 2 {' '.join(names)}"


def _claim(entry: dict[str, Any], section: dict[str, Any], document: dict[str, Any]) -> Claim:
    """`section` gives what its claims do not say themselves: where, and the table."""
    for key in entry:
        expect("key", key, ("id", "says", "where", "check", "tolerance", "note", "only"))
    given = dict(entry["check"])
    kind = given.pop("kind")
    expect("kind", kind, KINDS)
    names = [part.name for part in fields(KINDS[kind])]
    for key in given:
        expect(f"key of {kind}", key, names)
    if "table" in names and "table" in section:
        given.setdefault("table", section["table"])
    check = KINDS[kind](**given)
    check.validate()
    for label in check.tables():
        expect("table here", label, document["tables"])
    return Claim(
        id=entry["id"],
        section=section["title"],
        where=entry.get("where", section["where"]),
        says=" ".join(entry["says"].split()),
        kind=kind,
        check=check,
        tolerance=entry.get("tolerance", document["tolerances"].get(kind, "")),
        note=" ".join(entry.get("note", "").split()),
        only=entry.get("only", ""),
    )


def _check_ids(claims: list[Claim], path: Path) -> None:
    """Of all claims together: no name twice, and `all` only of what is no `all` itself."""
    single = [claim.id for claim in claims if not isinstance(claim.check, All)]
    for claim in claims:
        if [other.id for other in claims].count(claim.id) > 1:
            raise ValueError(f"{path.name}: two claims are called {claim.id}.")
        for other in claim.check.claims if isinstance(claim.check, All) else ():
            expect(f"claim in {path.name}, claim {claim.id}:", other, single)


def _judge(claim: Claim, ours: Ours) -> tuple[str, str, str, str]:
    """The verdict, what the paper's numbers say, what ours do, and details."""
    check = claim.check
    if isinstance(check, Unavailable):
        return UNCHECKED, check.shown(printed()), check.shown(ours), check.because
    if isinstance(check, Constants):
        # The numbers are the paper's: where they fail, the paper contradicts itself.
        told = check.judge_config(ours.config)
        return INCONSISTENT if told.status == FAILS else HOLDS, told.value, "", told.detail
    first = check.judge(printed()) if check.on_paper else None
    on_paper = "" if first is None else _with(first.value, first.detail)
    failed = first is not None and first.status == FAILS
    if claim.only == "paper":
        return INCONSISTENT if failed else HOLDS, on_paper, "", ""
    try:
        told = check.judge(ours)
    except NotComputed as missing:
        return INCONSISTENT if failed else MISSING, on_paper, "", str(missing)
    if isinstance(check, Test) and check.refutes:
        return INCONSISTENT if told.status == HOLDS else UNCHECKED, told.value, "", told.detail
    if failed:
        detail = _with(f"here it {told.status}", told.detail)
        return INCONSISTENT, on_paper, told.value, detail
    return told.status, on_paper, told.value, told.detail


def _together(claim: Claim, parts: list[Judged]) -> Judged:
    verdict = max((part.verdict for part in parts), key=VERDICTS.index)
    told = "; ".join(f"{part.claim.id}: {part.verdict}" for part in parts)
    holds = sum(part.verdict in (HOLDS, NOISE) for part in parts)
    return Judged(claim, verdict, "", f"{holds} of {len(parts)} hold", told, "see the claims named")


def _with(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
