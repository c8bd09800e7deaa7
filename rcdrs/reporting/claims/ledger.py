"""The ledger: read, held against what exists, and judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from rcdrs.reporting.claims.checks import Check
from rcdrs.reporting.claims.evidence import All, Constants, Test, Unavailable
from rcdrs.reporting.claims.numbers import Cells, Close, Coverage, Share, Value
from rcdrs.reporting.claims.orderings import Bold, Order
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, NotComputed, Ours, Paper, unknown

LEDGER = Path(__file__).parents[3] / "workflow" / "claims.yaml"

INCONSISTENT, UNCHECKED = "inconsistent in the paper", "cannot be checked here"
MISSING = "not computed"
#: From the best to the worst, as `all` takes them together.
VERDICTS = (UNCHECKED, HOLDS, NOISE, MISSING, INCONSISTENT, FAILS)

KINDS: dict[str, type[Check]] = {
    "order": Order,
    "close": Close,
    "value": Value,
    "cells": Cells,
    "bold": Bold,
    "share": Share,
    "coverage": Coverage,
    "constants": Constants,
    "test": Test,
    "all": All,
    "unavailable": Unavailable,
}


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
class Judged:
    """A claim with its verdict, what the paper's own numbers say, and what ours do."""

    claim: Claim
    verdict: str
    paper: str = ""
    ours: str = ""
    detail: str = ""
    command: str = ""


@dataclass(frozen=True)
class Ledger:
    """`tables`: what the paper's tables are here, by label."""

    tables: dict[str, dict[str, Any]]
    claims: list[Claim]

    @staticmethod
    def read(path: Path = LEDGER) -> Ledger:
        """The ledger, every reference of which exists; else an error that names the claim."""
        document = yaml.safe_load(path.read_text())
        paper, claims, tables = Paper(), [], document["tables"]
        for section in document["sections"]:
            for entry in section["claims"]:
                try:
                    claims.append(_claim(entry, section, document["tolerances"], paper, tables))
                except (ValueError, TypeError, KeyError) as error:
                    name = entry.get("id", entry)
                    raise ValueError(f"{path.name}, claim {name}: {error}") from error
        _check_ids(claims, path)
        return Ledger(tables, claims)

    def judge(self, ours: Ours) -> list[Judged]:
        paper = Paper()
        found: dict[str, Judged] = {}
        # Those of other claims come last; the order of the ledger is kept.
        for claim in sorted(self.claims, key=lambda claim: isinstance(claim.check, All)):
            found[claim.id] = _judge(claim, ours, paper, found, self.command(claim, ours.recipe))
        return [found[claim.id] for claim in self.claims]

    def command(self, claim: Claim, recipe: str) -> str:
        """What recomputes the numbers of a claim."""
        if isinstance(claim.check, Test):
            return f"pytest {' '.join(claim.check.tests)}"
        labels = ["coverage"] if claim.kind == "coverage" else claim.check.tables()
        targets = [self.tables[label]["targets"] for label in labels]
        names = [f"table_{t.get(recipe, t['paper'])}" for t in targets]
        if claim.only == "paper" or not names:
            return "snakemake --cores 1 claims"
        return f"snakemake --cores 2 {' '.join(dict.fromkeys(names))}"


def _claim(
    entry: dict[str, Any],
    section: dict[str, Any],
    tolerances: dict[str, str],
    paper: Paper,
    tables: dict[str, Any],
) -> Claim:
    """`section` gives what its claims do not say themselves: where, and the table."""
    allowed = {"id", "says", "where", "check", "tolerance", "note", "only"}
    for key in entry:
        if key not in allowed:
            unknown("key", key, allowed)
    given = dict(entry["check"])
    kind = given.pop("kind")
    if kind not in KINDS:
        unknown("kind", kind, KINDS)
    names = [part.name for part in fields(KINDS[kind])]
    for key in given:
        if key not in names:
            unknown(f"key of {kind}", key, names)
    if "table" in names and "table" in section:
        given.setdefault("table", section["table"])
    check = KINDS[kind](**given)
    check.validate(paper)
    for label in check.tables():
        if label not in tables:
            unknown("table here", label, tables)
    return Claim(
        id=entry["id"],
        section=section["title"],
        where=entry.get("where", section["where"]),
        says=" ".join(entry["says"].split()),
        kind=kind,
        check=check,
        tolerance=entry.get("tolerance", tolerances.get(kind, "")),
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
            if other not in single:
                unknown(f"claim in {path.name}, claim {claim.id}:", other, single)


def _judge(
    claim: Claim, ours: Ours, paper: Paper, before: dict[str, Judged], command: str
) -> Judged:
    check = claim.check
    if isinstance(check, Unavailable):
        printed, here = check.shown(paper, paper), check.shown(ours, paper)
        return Judged(claim, UNCHECKED, printed, here, check.because, command)
    if isinstance(check, All):
        return _together(claim, [before[name] for name in check.claims])
    if isinstance(check, Constants):
        # The numbers are the paper's: where they fail, the paper contradicts itself.
        told = check.judge_config(ours.config)
        verdict = INCONSISTENT if told.status == FAILS else HOLDS
        return Judged(claim, verdict, told.value, "", told.detail, command)
    first = check.judge(paper, paper) if "paper" in check.sources else None
    on_paper = "" if first is None else _with(first.value, first.detail)
    failed = first is not None and first.status == FAILS
    if claim.only == "paper":
        return Judged(claim, INCONSISTENT if failed else HOLDS, on_paper, "", "", command)
    try:
        told = check.judge(ours, paper)
    except NotComputed as missing:
        verdict = INCONSISTENT if failed else MISSING
        return Judged(claim, verdict, on_paper, "", str(missing), command)
    verdict = INCONSISTENT if failed else told.status
    detail = _with(f"here it {told.status}" if failed else "", told.detail)
    return Judged(claim, verdict, on_paper, told.value, detail, command)


def _together(claim: Claim, parts: Iterable[Judged]) -> Judged:
    parts = list(parts)
    verdict = max((part.verdict for part in parts), key=VERDICTS.index)
    told = "; ".join(f"{part.claim.id}: {part.verdict}" for part in parts)
    holds = sum(part.verdict in (HOLDS, NOISE) for part in parts)
    return Judged(claim, verdict, "", f"{holds} of {len(parts)} hold", told, "see the claims named")


def _with(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
