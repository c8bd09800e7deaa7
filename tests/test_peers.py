"""Peers: what is measured of them is right, and what goes wrong is counted and named."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT, paper, solved_program

from rcdrs.artifact.config import ConfigError, check
from rcdrs.artifact.plan import Plan
from rcdrs.cones import PSD, Box, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments import exact
from rcdrs.experiments.settings import merge
from rcdrs.peers import registry, truth
from rcdrs.peers.base import Answer, Gradient, Peer, Problem, Task, Unsupported
from rcdrs.peers.clarabel_solver import Clarabel
from rcdrs.peers.measure import Case, bounds_as_rows, in_process
from rcdrs.peers.registry import PEERS, PeerError, check_installed, pinned, versions_of
from rcdrs.peers.worker import run
from rcdrs.reporting import peers, tables
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.grids import table
from rcdrs.solver.problem import ConicProgram

CONE = Product([Nonneg(3), SecondOrder(4, 2), RotatedSecondOrder(3, 2), PSD(3)])
#: An objective to 1e-9 leaves x to the square root of that, times a condition of about thirty.
CLOSE = 1e-3


def problem(cone=CONE, quadratic=False, batch=6, m=14):
    """A problem, instances, and their solutions by construction."""
    given = solved_program(batch=batch, m=m, cone=cone)
    A, b, c, x = (t.numpy() for t in (given.program.A, given.program.b, given.program.c, given.x))
    if PSD in map(type, cone.cones) if isinstance(cone, Product) else False:
        A, c = (_symmetric(part) for part in (A, c))
        b = x @ A.T
        c = _symmetric(given.y.numpy() @ A + given.s.numpy())
    return Problem(A, cone, quadratic), b, c - x if quadratic else c, x


def _symmetric(rows):
    """With a symmetric last block of nine entries."""
    block = rows[:, -9:].reshape(-1, 3, 3)
    return np.hstack([rows[:, :-9], ((block + block.swapaxes(1, 2)) / 2).reshape(-1, 9)])


def task_of(place, settings=(1e-8,), spoilt=True, quadratic=False):
    given, b, c, x = problem(quadratic=quadratic)
    bad = truth.without_solution(given, x, b, c) if spoilt else None
    g = np.random.default_rng(0).standard_normal(c.shape)[:4]
    gradient = (g, np.ones((4, 14)), np.ones((4, c.shape[1])), np.array([True, True, True, False]))
    more = (bad[:2] if bad else None, settings, (1, 2, 6), 5.0)
    return Task(place, {}, given, b, c, x, gradient, *more)


def findings(task):
    """By what was found: (value, note), the last of each."""
    found = {}
    run(task, lambda setting, batch, what, value, note="": found.update({what: (value, note)}))
    return found


class StandIn(Peer):
    """It knows the solution; `bad` instances, those with such a first entry of b, are an error."""

    settings, solved, differentiates = "none", ("fine",), True
    bad: tuple[float, ...] = ()

    def __init__(self, problem):
        self.inner = Clarabel(problem)

    def take(self, b, c):
        return b, c

    def solve(self, batch, setting):
        b, c = batch
        if set(self.bad) & set(b[:, 0]):
            raise RuntimeError("one is bad")
        x = self.inner.solve(self.inner.take(b, c), 1e-9).x
        return Answer(x, ["fine"] * len(b))

    def differentiate(self, batch, g, setting):
        b, c = batch
        return Gradient(self.solve(batch, setting).x, np.ones_like(b), -np.ones_like(c))


@pytest.fixture
def stand_in(monkeypatch):
    """A peer that is called as any other: put a class there."""

    def put(kind):
        monkeypatch.setitem(sys.modules, "rcdrs.peers.stand_in", SimpleNamespace(Kind=kind))
        return "stand_in", "Kind"

    return put


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("quadratic", [False, True], ids=["program", "projection"])
def test_peer_solves_what_it_can_express(name, quadratic):
    """Every kind of cone, and projections, whose solution is the same by construction."""
    place = PEERS[name]
    module = pytest.importorskip(
        f"rcdrs.peers.{place.module}", reason="not installed", exc_type=ImportError
    )
    cone = Product([Nonneg(3), SecondOrder(4, 2), RotatedSecondOrder(3, 2)])
    given, b, c, x = problem(cone if name == "pinet" else CONE, quadratic)
    kind = getattr(module, place.name)
    if name == "pinet" and not quadratic:
        with pytest.raises(Unsupported, match="no objective"):
            kind(given)
        return
    peer = kind(given)
    setting = 1000 if name == "pinet" else 1e-9
    answer = peer.solve(peer.take(b, c), setting)
    assert np.allclose(np.array(answer.x), x, atol=CLOSE)
    assert set(answer.status) <= set(peer.solved)


def test_truth_is_the_solution_and_its_verified_gradient():
    """Solutions are those of the construction, and differences agree with nearly all gradients."""
    for quadratic in (False, True):
        given, b, c, x = problem(quadratic=quadratic)
        found = truth.solve(given, b, c)
        assert np.allclose(found.x, x, atol=CLOSE)
        gradient = truth.gradient(given, b, c, found.z, np.random.default_rng(0))
        assert gradient.verified.mean() >= 0.5


def test_wrong_gradient_is_not_verified(monkeypatch):
    given, b, c, _ = problem(batch=3)
    right = truth._adjoint
    monkeypatch.setattr(truth, "_adjoint", lambda *a: tuple(1.2 * part for part in right(*a)))
    z = truth.solve(given, b, c).z
    assert not truth.gradient(given, b, c, z, np.random.default_rng(0)).verified.any()


def test_bounds_as_rows_have_the_same_solution():
    """And the bounds, which differ between instances, are in b: A and the cone are shared."""
    rng = np.random.default_rng(5)
    A, low = torch.from_numpy(rng.standard_normal((3, 8))), torch.from_numpy(rng.uniform(-2, 0, 8))
    high = low + torch.from_numpy(rng.uniform(0.5, 3, (6, 8)))
    b = ((low + high) / 2) @ A.mT
    c = torch.from_numpy(rng.standard_normal((6, 8)))
    bounded = ConicProgram(A, b, c, Box(low.expand(6, 8), high))
    x, _ = exact.solve(bounded)
    rows, v = bounds_as_rows(bounded, x)
    shared = Problem(rows.A.numpy(), rows.cone)
    found = truth.solve(shared, rows.b.numpy(), rows.c.numpy()).x
    assert np.abs(found - v.numpy()).max() < 1e-6
    assert np.abs(found[:, :8] + low.numpy() - x.numpy()).max() < 1e-6


def test_programs_of_another_kind_are_refused():
    program = SimpleNamespace(program=SimpleNamespace(cone=Nonneg(3)), x=None)
    with pytest.raises(ValueError, match=r"SimpleNamespace, expected programs with one A and one"):
        Case.of(SimpleNamespace(test=program, validation=program))


def test_instance_without_a_solution_has_none():
    """By what Clarabel says of it."""
    given, b, c, x = problem()
    bad = truth.without_solution(given, x, b, c)
    assert bad is not None
    peer = Clarabel(given)
    (status,) = peer.solve(peer.take(bad[0][None], bad[1][None]), 1e-8).status
    assert status == {"infeasible": "PrimalInfeasible", "unbounded": "DualInfeasible"}[bad[2]]


def test_findings_of_a_peer(stand_in):
    """Errors of exact answers are small; a gradient against the truth has a cosine of -1."""
    found = findings(task_of(stand_in(StandIn)))
    assert found["ObjErr worst"][0] < CLOSE**2  # tolerances are 1e-9
    assert found["Dist worst"][0] < CLOSE
    assert found["without answer"][0] == found["unsolved"][0] == 0
    assert found["verified gradients"][0] == 3
    assert found["cosine in b median"][0] == pytest.approx(1)
    assert found["cosine in c median"][0] == pytest.approx(-1)
    assert found["forward ms"][0] > 0
    assert found["both ms"][0] > 0


def test_failing_instance_is_counted(stand_in):
    """Where a batch raises, its instances are tried one by one, and worst is then no number."""
    task = task_of(stand_in(StandIn))

    class Fails(StandIn):
        bad = (task.b[4, 0],)

    found = findings(task_of(stand_in(Fails)))
    assert found["forward raises"] == (1.0, "RuntimeError: one is bad")
    assert found["without answer"][0] == 1
    assert found["ObjErr median"][0] < CLOSE
    assert np.isinf(found["ObjErr worst"][0])


def test_one_infeasible_instance_that_is_an_error_for_all_is_told(stand_in):
    task = task_of(stand_in(StandIn))
    assert task.spoilt is not None

    class Fails(StandIn):
        bad = (task.spoilt[0][0],) if not np.array_equal(task.spoilt[0], task.b[0]) else ()

        def solve(self, batch, setting):
            if any(np.array_equal(c, task.spoilt[1]) for c in batch[1][1:]):
                raise RuntimeError("infeasible")
            return super().solve(batch, setting)

    assert "one without a solution raises" in findings(task_of(stand_in(Fails)))


def test_infeasible_instance_leaves_others_of_clarabel_alone_and_has_a_status():
    found = findings(task_of(PEERS["Clarabel"][:2]))
    assert found["others unchanged"][0] == 1
    assert "Infeasible" in found["status"][1]


def test_what_a_peer_cannot_express_is_told(stand_in):
    class Cannot(StandIn):
        def __init__(self, problem):
            raise Unsupported("no such cone")

    assert findings(task_of(stand_in(Cannot))) == {"cannot express it": (1.0, "no such cone")}


def test_process_that_fails_or_takes_too_long_is_a_finding():
    """With the last line of what it said, or the time after which it was stopped."""
    task = task_of(("nothing", "Nothing"), spoilt=False)
    (found,) = in_process(task, limit=120)
    assert found["what"] == "ended"
    assert "No module named 'rcdrs.peers.nothing'" in found["note"]
    (found,) = in_process(task, limit=0.05)
    assert found["note"] == "stopped after 0.05 s"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("0.9", "moreau is 0.9, expected 0.4.1"),
        (None, "moreau is not installed, expected 0.4.1"),
    ],
)
def test_package_that_is_missing_or_another_is_named_with_the_remedy(monkeypatch, version, told):
    def find(package):
        if version is None:
            raise registry.PackageNotFoundError(package)
        return version

    monkeypatch.setattr(registry, "version", find)
    with pytest.raises(PeerError, match=told) as raised:
        check_installed(versions_of(["Moreau"], pinned(ROOT)))
    assert "pip install -c envs/constraints.txt -e '.[peers]'" in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"settings": {"GUESS": [1.0]}}, "peers.settings: unknown peer 'GUESS'"),
        ({"solvers": ["SCS", "GUESS"]}, "settings has none for 'GUESS'"),
        ({"projections": ["qp-small"]}, "peers.projections has 'qp-small'"),
        ({"batches": [32, 1]}, "expected the smallest first"),
    ],
)
def test_configuration_of_peers_is_checked(changes, told):
    with pytest.raises(ConfigError, match=told):
        check(merge(paper().plain(), {"peers": changes}))


def lines(**solvers):
    """Of SOCP hard: by solver its (setting, median error, ms) forward with one instance."""
    where = {"experiment": "peers", "family": "socp", "scale": "hard", "seed": 0}
    where |= {"problem": "program", "batch": 1, "note": ""}
    return pd.DataFrame(
        [
            where | {"solver": solver, "setting": setting, "what": what, "value": value}
            for solver, points in solvers.items()
            for setting, error, ms in points
            for what, value in (("ObjErr median", error), ("forward ms", ms))
        ]
    )[list(peers.COLUMNS)]


FOUND = lines(
    **{"Wide-DRS": [(5, 1e-1, 0.1), (40, 1e-5, 1.0)], "SCS": [(0.1, 1e-1, 0.2), (1e-6, 1e-9, 3.2)]}
)


def test_times_are_compared_at_equal_error():
    """Log-linear between settings, nothing beyond them, and a more accurate one counts."""
    (case,) = peers.cases(FOUND)
    assert case.time("Wide-DRS", "forward", 1, 1e-3) == pytest.approx(10**-0.5)
    assert case.time("Wide-DRS", "forward", 1, 0.5) == pytest.approx(0.1)
    assert case.time("Wide-DRS", "forward", 1, 1e-6) == np.inf
    assert case.ratio("forward", 1, 1e-1) == pytest.approx(2)
    assert case.ratio("forward", 1, 1e-5) == pytest.approx(0.8)
    # Both are lines in logarithms: equal where 10^(-1 + k/4) = 0.2 * 2^(k/2), k decades after 1e-1.
    k = np.log10(2) / (1 / 4 - np.log10(2) / 2)
    assert case.crossing("forward", 1) == pytest.approx(10 ** (-1 - k), rel=0.05)


def test_reading_says_who_is_faster():
    (case,) = peers.cases(FOUND)
    lead = peers.lead(case, "forward", 1, 1e-2)
    assert lead is not None
    assert (lead.ours, lead.peer, lead.words) == ("Wide-DRS", "SCS", "1.6")
    assert peers.lead(case, "forward", 1, 1e-6) is None
    (told,) = peers.reading([case], 1e-2)
    assert told.endswith("forward, batch 1, at 0.01: SOCP hard 1.6 (Wide-DRS, SCS).")


def test_many_times_faster_is_written_as_a_number():
    assert [peers.Lead("", "", ratio).words for ratio in (0.834, 7.66, 148.0)] == [
        "0.83",
        "7.7",
        "150",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-1], "its last line is cut off"),
        (lambda text: text.replace("solver", "who", 1), "its columns are"),
        (lambda text: text.replace("0.1\n", "inf\n", 1) + "a,b\n", "has 2 values, expected 11"),
    ],
)
def test_damaged_file_is_named(tmp_path, change, told):
    path = tmp_path / "socp-hard-0.csv"
    FOUND.to_csv(path, index=False)
    assert len(peers.read([path])) == len(FOUND)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=told):
        peers.read([path])


def test_nothing_asks_for_peers_until_they_are_measured(tmp_path, monkeypatch):
    """Neither the tables of a configuration nor those that are there."""
    monkeypatch.chdir(tmp_path)
    plan = Plan(paper().but(results="recompute"), ROOT)
    assert "peers" not in tables.configured(plan.config)
    assert not tables.is_there(plan, "peers")
    assert "peers" not in tables.shown(plan)


def test_table_has_a_row_for_each_solver():
    results = SimpleNamespace(peers=FOUND)
    cells = {(c.row, c.column): c for c in tables.MEASURED["peers"].cells(paper(), results)}
    assert cells["Wide-DRS", "forward, 1"].mean == pytest.approx(10**-0.5)
    assert cells["Wide-DRS", "forward, 1"].bold
    assert "log-linear" in tables.render("peers", paper(), results)["peers.tex"]


def test_table_is_two_on_paper():
    """Every cell of a row in one of them: all that is forward alone, and the rest."""
    tex = tables.render("peers", paper(), SimpleNamespace(peers=FOUND))["peers.tex"]
    parts = re.findall(r"\\begin\{longtable\}.*?\\end\{longtable\}", tex, flags=re.DOTALL)
    labels = [re.findall(r"\\label\{(.*?)\}", part) for part in parts]
    assert labels == [["tab:peers"], ["tab:peers_backward"]]
    rows = [next(line for line in part.splitlines() if line.startswith("SCS &")) for part in parts]
    assert [row.count("&") for row in rows] == [8, 7]  # measured for batches of 1 alone
    heads = [part.split(r"\endfirsthead")[0].count(r"\makecell") for part in parts]
    assert heads == [8, 7]
    assert r"\makecell{forward and\\ backward\\" in parts[1]


def test_report_shows_the_table_of_peers():
    """Though its cells have no rows behind them, and the paper prints none of it."""
    shown = table("peers", Evidence(Plan(paper(), ROOT)))
    assert len(shown.blocks) == len(paper().peers.cases) + len(paper().peers.projections)
    assert "Second line" not in shown.note
