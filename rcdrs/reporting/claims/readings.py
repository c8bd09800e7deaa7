"""Claims in other readings of the protocol: in how many of them does one hold?

A claim is judged by the same check, from the results and the configuration of each reading: of the
benchmarks on their hard cases, or of the ablations.  These have one seed, so noise decides nothing:
a claim holds there where the numbers say so.  What needs more than that (other settings, times,
tests, other experiments) is not judged; and a reading that changes none of the results behind a
claim says nothing on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from rcdrs.reporting import coverage
from rcdrs.reporting.claims.checks import Check
from rcdrs.reporting.claims.evidence import All, Constants, Test, Unavailable
from rcdrs.reporting.claims.ledger import Claim, InReading, Ledger
from rcdrs.reporting.claims.numbers import Coverage
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NotComputed, Ours
from rcdrs.reporting.coverage import READINGS, Reading
from rcdrs.reporting.details import Details
from rcdrs.reporting.multiverse import MULTIVERSE, Protocol, protocols
from rcdrs.reporting.results import MissingRow, Questions, Results
from rcdrs.reporting.statistics import TIED, Paired

#: Checks that are not of results.
OTHERS = (All, Constants, Test, Unavailable)


class _Asked(dict[Any, Any]):
    """What is not there is made when it is asked for."""

    def __init__(self, make: Callable[[Any], Any], known: Any = ()) -> None:
        super().__init__(known)
        self.make = make

    def __missing__(self, name: Any) -> Any:
        self[name] = self.make(name)
        return self[name]


class Hard(Ours):
    """The results of one reading: hard cases or ablations, of one seed."""

    def status(self, pair: Paired) -> str:
        return HOLDS if pair.ratio < 1 and pair.call != TIED else FAILS

    @cached_property
    def coverage(self) -> dict[Reading, dict[str, list[float]]]:
        """Of the items that are about hard cases alone, and of the reading that is asked for: one
        has methods that another has not."""
        return _Asked(self._items)

    def _items(self, reading: Reading) -> dict[str, list[float]]:
        try:
            compared = [
                coverage.compare(self.config, self.results, metric, self.recipe, reading)
                for metric in ("Gap", "Dist")
            ]
        except MissingRow as missing:
            raise NotComputed(str(missing)) from missing
        try:
            items = [(item.name, [item.value]) for item in coverage.summary(*compared)]
        except ValueError as missing:  # of no settings
            raise NotComputed("a family of the summary is not configured") from missing
        return _Asked(_not_here, {name: value for name, value in items if "hard" in name})


def _not_here(item: str) -> Any:
    raise NotComputed(f"{item} is about more than hard cases")


def in_readings(ledger: Ledger, ours: Ours) -> dict[str, tuple[InReading, ...]]:
    """Claim -> its verdicts in all readings that say something on it, that of the configuration as
    it stands first; only of claims on which another one does."""
    found = {}
    known = {name: protocols(ours.config, name) for name in MULTIVERSE}
    for claim in ledger.claims:
        if experiment := _experiment(claim, ledger):
            judged = {
                protocol.name: _judge(claim.check, protocol, ours) for protocol in known[experiment]
            }
            if any(judged[name] for name in judged if name):
                found[claim.id] = tuple(one for part in judged.values() for one in part)
    return found


def _experiment(claim: Claim, ledger: Ledger) -> str:
    """The one that a claim is about; none for one that no other reading can say something on."""
    if claim.only == "paper" or isinstance(claim.check, OTHERS):
        return ""
    about = {ledger.tables[t].get("experiment", "synthetic") for t in claim.check.tables()}
    return about.pop() if len(about) == 1 and about <= set(MULTIVERSE) else ""


def _judge(check: Check, protocol: Protocol, ours: Ours) -> list[InReading]:
    """Once; or for each reading of the strongest baseline, where it is about that."""
    found = []
    for strongest in READINGS if isinstance(check, Coverage) else (None,):
        label = f"{protocol.label}, {READINGS[strongest]}" if strongest else protocol.label
        asked = Questions(protocol.config.seeds)
        try:
            _status(check, protocol, strongest, asked, ours)
            differs = not protocol.name or any(key.universe for key in asked.asked)
            timed = any(key.kind == "times" for key in asked.asked)
            if differs and not timed:
                status = _status(check, protocol, strongest, ours.results, ours)
                found.append(InReading(label, status == HOLDS))
        except NotComputed:
            continue
    return found


def _status(
    check: Check, protocol: Protocol, strongest: Reading | None, results: Results, ours: Ours
) -> str:
    here = Hard(
        protocol.config, protocol.of(results), Details(), ours.tables, ours.recipe, ours.tests
    )
    if isinstance(check, Coverage) and strongest:
        return check.judge_in(here, strongest).status
    return check.judge(here).status
