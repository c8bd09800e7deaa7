"""Checks that do not read cells: arithmetic, tests, other claims, and what cannot be checked."""

from __future__ import annotations

import ast
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from rcdrs.artifact.config import ROOT, Config
from rcdrs.controller import BASE_ACTION, CONTROLS
from rcdrs.reporting.claims.checks import Check, Outcome, Source
from rcdrs.reporting.claims.numbers import Cell, Value
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NotComputed, Ours, expect

#: A number, the name of one in the configuration ("controller.envelope.p"), or a product of such.
Term = float | str | Sequence[float | str]

PASSED, FAILED = "passed", "failed"


@dataclass(frozen=True, kw_only=True)
class Constants(Check):
    """sum of `sum` < sum of `below`, > that of `above`, or = that of `equals`."""

    sum: Sequence[Term]
    below: Sequence[Term] = ()
    above: Sequence[Term] = ()
    equals: Sequence[Term] = ()

    def judge_config(self, config: Config) -> Outcome:
        value = _sum(self.sum, config)
        bound = _sum(self.below or self.above or self.equals, config)
        if self.equals:
            holds, sign = value == bound, "="
        else:
            holds, sign = (value < bound, "<") if self.below else (value > bound, ">")
        return Outcome(HOLDS if holds else FAILS, f"{value:.4g}, wanted {sign} {bound:.4g}")


def _sum(terms: Sequence[Term], config: Config) -> float:
    known = config.plain() | {"base_action": dict(zip(CONTROLS, BASE_ACTION, strict=True))}

    def number(factor: float | str) -> float:
        if not isinstance(factor, str):
            return factor
        value: Any = known
        for key in factor.split("."):
            expect(f"setting {factor}: key", key, value)
            value = value[key]
        return float(value)

    return math.fsum(
        math.prod(map(number, [term] if isinstance(term, int | float | str) else term))
        for term in terms
    )


@dataclass(frozen=True, kw_only=True)
class Test(Check):
    """Tests of this repository, as ``tests/test_theory.py::test_fixed_block_is_averaged``.

    refutes: they pass where the paper's own numbers contradict the claim.
    """

    tests: Sequence[str]
    refutes: bool = False
    on_paper: ClassVar[bool] = False
    __test__: ClassVar[bool] = False  # not a test of pytest itself

    def validate(self) -> None:
        for test in self.tests:
            file, _, name = test.partition("::")
            expect(f"test of {file}", name, _functions(ROOT / file))

    def judge(self, source: Source) -> Outcome:
        assert isinstance(source, Ours)
        if missing := [test for test in self.tests if test not in source.tests]:
            raise NotComputed(f"{missing[0]} was not run")
        failed = [test for test in self.tests if source.tests[test] != PASSED]
        told = "against it" if self.refutes else "pass"
        passed = f"{len(self.tests) - len(failed)} of {len(self.tests)} tests {told}"
        return Outcome(FAILS if failed else HOLDS, passed, ", ".join(failed))


@cache
def _functions(file: Path) -> list[str]:
    expect("file", file.name, sorted(path.name for path in file.parent.glob("*.py")))
    return [node.name for node in ast.parse(file.read_bytes()).body if hasattr(node, "name")]


def read_tests(report: Path) -> dict[str, str]:
    """Test -> passed or failed, from a JUnit file of pytest; one that was skipped did not run.

    A test with many parameters passes where all of its parameters do.
    """
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(
            f"{report} is not a report of tests ({error}): make it with `pytest --junitxml`."
        ) from error
    outcomes: dict[str, str] = {}
    for case in cases:
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = f"{file}::{case.get('name', '').partition('[')[0]}"
        told = {child.tag for child in case}
        if told & {"failure", "error"}:
            outcomes[name] = FAILED
        elif "skipped" not in told:
            outcomes.setdefault(name, PASSED)
    return outcomes


@dataclass(frozen=True, kw_only=True)
class All(Check):
    """Other claims, by id: as good as the worst of them."""

    claims: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Unavailable(Check):
    """`show`: cells to put beside the paper's all the same."""

    because: str
    table: str = ""
    show: Cell = field(default_factory=dict)

    def tables(self) -> list[str]:
        return [self.table] if self.show else []

    def validate(self) -> None:
        if self.show:
            self._value().validate()

    def shown(self, source: Source) -> str:
        try:
            return self._value().judge(source).value if self.show else ""
        except NotComputed:
            return ""

    def _value(self) -> Value:
        return Value(of=self.show, table=self.table, factor=math.inf)
