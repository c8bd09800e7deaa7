"""Moreau, a batched interior-point method with gradients, called directly.

Through cvxpylayers 1.2 (``solver="MOREAU"``) bounds and inequalities of a problem are lost without
a word, so it is not measured there.
"""

from __future__ import annotations

from typing import Any

import moreau
import numpy as np
import scipy.sparse as sp
import torch
from moreau.torch import Solver
from torch import Tensor

from rcdrs.peers.base import Answer, Gradient, Peer, Problem, Setting
from rcdrs.peers.standard import standard

CONES = {"l": "nonneg", "q": "soc", "s": "psd_triangle"}


class Moreau(Peer):
    """Cones on the variables themselves (`dir_cones`), which its guide says is faster."""

    settings = "defaults, all tolerances equal, device cpu, dir_cones"
    solved = ("Solved", "AlmostSolved")
    differentiates = True

    def __init__(self, problem: Problem) -> None:
        self.form = standard(problem)
        self.T = torch.from_numpy(self.form.T)
        self.A, self.P = sp.csr_matrix(self.form.A), self.form.P.tocsr()
        specs, start = [], 0
        for kind, size in self.form.blocks:
            length = size * (size + 1) // 2 if kind == "s" else size
            order = {"psd_k": size} if kind == "s" else {}
            places = list(range(start, start + length))
            specs.append(moreau.DirectConeSpec(kind=CONES[kind], indices=places, **order))
            start += length
        self.cones = moreau.Cones(num_zero_cones=len(self.form.A), dir_cones=specs)
        self._solvers: dict[tuple[int, Setting], Solver] = {}

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(b), torch.from_numpy(c)

    def cotangent(self, g: np.ndarray) -> Tensor:
        return torch.from_numpy(g)

    def solve(self, batch: Any, setting: Setting) -> Answer:
        with torch.no_grad():
            b, c = batch
            x, solver = self._x(b, c, setting)
        states = np.atleast_1d(np.asarray(solver.info.status))
        return Answer(x, [moreau.SolverStatus(int(state)).name for state in states])

    def differentiate(self, batch: Any, g: Any, setting: Setting) -> Gradient:
        b, c = (part.detach().requires_grad_() for part in batch)
        x, _ = self._x(b, c, setting)
        return Gradient(x, *torch.autograd.grad(x, (b, c), g))

    def _x(self, b: Tensor, c: Tensor, setting: Setting) -> tuple[Tensor, Solver]:
        solver = self._solver(len(b), setting)
        values = torch.from_numpy(self.P.data), torch.from_numpy(self.A.data)
        v = solver.solve(*values, c @ self.T, b).x
        return v @ self.T.mT, solver

    def _solver(self, count: int, tolerance: Setting) -> Solver:
        if (count, tolerance) not in self._solvers:
            names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
            inner = moreau.IPMSettings(**dict.fromkeys(names, tolerance))
            given = {"device": "cpu", "batch_size": count, "enable_grad": True}
            settings = moreau.Settings(solver="ipm", ipm_settings=inner, **given)
            structure = [
                torch.from_numpy(part.astype(np.int64))
                for matrix in (self.P, self.A)
                for part in (matrix.indptr, matrix.indices)
            ]
            m, n = self.A.shape
            self._solvers[count, tolerance] = Solver(n, m, *structure, self.cones, settings)
        return self._solvers[count, tolerance]
