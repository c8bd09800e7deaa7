"""Exact answers for comparison: the optimum of a day's program, and whether it has one."""

from __future__ import annotations

import clarabel
import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linprog
from torch import Tensor

from rcdrs.experiments.dispatch.model import DispatchProgram


def feasible(program: DispatchProgram) -> Tensor:
    """Per day: does HiGHS find a point of the equations and bounds, or prove that there is none?"""
    A = sp.csr_matrix(_numbers(program.A))
    answers: list[bool] = []
    for b, *bounds in _days(program):
        found = linprog(np.zeros(A.shape[1]), A_eq=A, b_eq=b, bounds=np.stack(bounds, axis=1))
        if found.status not in (0, 2):  # solved, infeasible
            raise RuntimeError(f"HiGHS could not decide day {len(answers)}: {found.message}")
        answers.append(found.status == 0)
    return torch.tensor(answers)


def solve(program: DispatchProgram) -> Tensor:
    """The optimal schedules by Clarabel, (batch, n) in float64; NaN for a day it cannot solve."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A, identity = sp.csc_matrix(_numbers(program.A)), sp.eye(program.A.shape[1], format="csc")
    quadratic = program.Q if program.Q is not None else torch.zeros_like(program.c)
    Q, c = (_numbers(t.expand_as(program.c)) for t in (quadratic, program.c))
    answers = []
    good = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    for day, (b, lower, upper) in enumerate(_days(program)):
        # A x = b;  x + w = upper and -x + w = -lower with w >= 0 where the bound is finite
        above, below = np.isfinite(upper), np.isfinite(lower)
        rows = sp.vstack([A, identity[above], -identity[below]], format="csc")
        right = np.concatenate([b, upper[above], -lower[below]])
        inequalities = int(above.sum() + below.sum())
        cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(inequalities)]
        P = sp.diags(Q[day], format="csc")
        found = clarabel.DefaultSolver(P, c[day], rows, right, cones, settings).solve()
        solved = found.status in good
        answers.append(np.clip(found.x, lower, upper) if solved else np.full_like(lower, np.nan))
    return torch.from_numpy(np.stack(answers))


def _days(program: DispatchProgram) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(b, lower, upper) of each day."""
    box = program.model.box(program.forecast)
    return list(zip(*(_numbers(t) for t in (program.b, box.lower, box.upper)), strict=True))


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().cpu().double().numpy()
