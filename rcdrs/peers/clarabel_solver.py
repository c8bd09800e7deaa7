"""Clarabel, an interior-point method, called for one instance after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import clarabel
import numpy as np

from rcdrs.peers.base import Answer, Peer, Problem, Setting
from rcdrs.peers.standard import standard

CONES = {"l": clarabel.NonnegativeConeT, "q": clarabel.SecondOrderConeT}
CONES |= {"s": clarabel.PSDTriangleConeT}


class Clarabel(Peer):
    """One solver object for all instances, whose b and q are updated, as its guide has it for
    parametric programs; presolve, which does not allow that, has nothing to do here."""

    settings = "defaults, all tolerances equal, updated data"
    solved = ("Solved", "AlmostSolved")

    def __init__(self, problem: Problem) -> None:
        self.form = standard(problem)
        self.G = self.form.equations
        self._solvers: dict[Setting, Any] = {}

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.form.right(b), c @ self.form.T

    def solve(self, batch: Any, setting: Setting) -> Answer:
        found = list(self.solutions(batch, setting))
        x = np.array([solution.x for solution in found]) @ self.form.T.T
        return Answer(x, [str(solution.status) for solution in found])

    def solutions(self, batch: Any, setting: Setting) -> Iterator[Any]:
        """As Clarabel gives them: `x` and the multipliers `z` of v."""
        solver = self._solver(setting)
        for h, q in zip(*batch, strict=True):
            solver.update(q=q, b=h)
            yield solver.solve()

    def _solver(self, tolerance: Setting) -> Any:
        if tolerance not in self._solvers:
            settings = clarabel.DefaultSettings()
            settings.verbose, settings.presolve_enable, settings.max_threads = False, False, 1
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
            cones = [clarabel.ZeroConeT(len(self.form.A))]
            cones += [CONES[kind](size) for kind, size in self.form.blocks]
            m, n = self.G.shape
            given = (self.form.P, np.ones(n), self.G, np.ones(m), cones, settings)
            self._solvers[tolerance] = clarabel.DefaultSolver(*given)
        return self._solvers[tolerance]
