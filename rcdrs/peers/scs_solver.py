"""SCS, an operator-splitting method, called for one instance after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import scs

from rcdrs.peers.base import Answer, Peer, Problem, Setting
from rcdrs.peers.standard import LOWER, standard

#: Ten thousand steps take longer than any other solver here.
STEPS = 10_000


class SCS(Peer):
    """One workspace for all instances, with its factorisation; each is solved from a cold start."""

    settings = f"defaults, eps_abs = eps_rel, max_iters {STEPS}, cached workspace, cold starts"
    solved = ("solved", "solved (inaccurate - reached max_iters)")

    def __init__(self, problem: Problem) -> None:
        self.form = standard(problem, LOWER)
        self._solvers: dict[Setting, Any] = {}

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.form.right(b), c @ self.form.T

    def solve(self, batch: Any, setting: Setting) -> Answer:
        solver, found, status = self._solver(setting), [], []
        for h, q in zip(*batch, strict=True):
            solver.update(h, q)
            solution = solver.solve(warm_start=False)
            found.append(solution["x"])
            status.append(solution["info"]["status"])
        return Answer(np.array(found) @ self.form.T.T, status)

    def _solver(self, tolerance: Setting) -> Any:
        if tolerance not in self._solvers:
            G, form = self.form.equations, self.form
            data = {"P": form.P, "A": G, "b": np.ones(G.shape[0]), "c": np.ones(G.shape[1])}
            cone: dict[str, Any] = {"z": len(form.A), "l": sum(form.sizes("l"))}
            cone |= {kind: form.sizes(kind) for kind in "qs"}
            told = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": STEPS}
            self._solvers[tolerance] = scs.SCS(data, cone, verbose=False, **told)
        return self._solvers[tolerance]
