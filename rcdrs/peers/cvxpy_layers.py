"""cvxpylayers: CVXPY problems as torch layers, solved and differentiated by diffcp."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
import torch
from cvxpylayers.torch import CvxpyLayer
from torch import Tensor

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.peers.base import Answer, Gradient, Peer, Problem, Setting, Unsupported


class CvxpyLayers(Peer):
    """The problem as a user of CVXPY writes it; b and c are its parameters."""

    differentiates = True
    #: One instance after the other: its thread pool is for more cores than one.
    serial: ClassVar[dict[str, Any]] = {"n_jobs_forward": 1}
    #: How the derivative is computed; its default where nothing is said.
    derivative: ClassVar[dict[str, Any]] = {}

    def __init__(self, problem: Problem) -> None:
        m, n = problem.A.shape
        b, c = cp.Parameter(m), cp.Parameter(n)
        self.variables, parts, rows = [], [], []
        for variable, part, row in _blocks(problem.cone):
            self.variables.append(variable)
            parts.append(part)
            rows += row
        x = cp.hstack(parts)
        cost = c @ x + (cp.sum_squares(x) / 2 if problem.quadratic else 0)
        program = cp.Problem(cp.Minimize(cost), [problem.A @ x == b, *rows])
        self.layer = CvxpyLayer(program, parameters=[b, c], variables=self.variables)

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(b), torch.from_numpy(c)

    def cotangent(self, g: np.ndarray) -> Tensor:
        return torch.from_numpy(g)

    def tolerances(self, setting: Setting) -> dict[str, Any]:
        raise NotImplementedError

    def solve(self, batch: Any, setting: Setting) -> Answer:
        with torch.no_grad():
            return Answer(self._x(batch, self.tolerances(setting)), [])

    def differentiate(self, batch: Any, g: Any, setting: Setting) -> Gradient:
        b, c = (part.detach().requires_grad_() for part in batch)
        x = self._x((b, c), self.tolerances(setting) | {"n_jobs_backward": 1} | self.derivative)
        return Gradient(x, *torch.autograd.grad(x, (b, c), g))

    def _x(self, batch: Any, arguments: dict[str, Any]) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.layer(*batch, solver_args=arguments | self.serial)
        return torch.cat([part.reshape(len(part), -1) for part in found], dim=1)


def _blocks(cone: Cone) -> Iterator[tuple[cp.Variable, cp.Expression, list[cp.Constraint]]]:
    """A variable for each factor, its entries in their order, and its constraints."""
    match cone:
        case Product(cones=cones):
            for part in cones:
                yield from _blocks(part)
        case Nonneg(dim=n):
            v = cp.Variable(n)
            yield v, v, [v >= 0]
        case SecondOrder(block=size, count=count):
            v = cp.Variable((count, size))
            yield v, cp.vec(v, order="C"), [cp.SOC(v[:, 0], v[:, 1:], axis=1)]
        case RotatedSecondOrder(block=size, count=count):
            v = cp.Variable((count, size))
            # 2 t u >= |w|^2 is (t + u, t - u, sqrt(2) w) in the second-order cone.
            t, u = v[:, 0], v[:, 1]
            rest = cp.hstack([cp.reshape(t - u, (count, 1), order="C"), np.sqrt(2) * v[:, 2:]])
            yield v, cp.vec(v, order="C"), [cp.SOC(t + u, rest, axis=1)]
        case PSD(order=order, count=1):
            v = cp.Variable((order, order), symmetric=True)
            yield v, cp.vec(v, order="C"), [v >> 0]
        case _:
            raise Unsupported(f"no CVXPY form of {cone!r}")


class WithSCS(CvxpyLayers):
    settings = "solve_method SCS (default), eps, mode lsqr (default)"

    def tolerances(self, setting: Setting) -> dict[str, Any]:
        return {"solve_method": "SCS", "eps": setting, "max_iters": 10_000}


class WithClarabel(CvxpyLayers):
    settings = "solve_method Clarabel, all tolerances equal, mode lsqr (default)"

    def tolerances(self, setting: Setting) -> dict[str, Any]:
        names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
        return {"solve_method": "Clarabel", "max_threads": 1} | dict.fromkeys(names, setting)


class Dense(WithSCS):
    settings = "solve_method SCS (default), eps, mode dense"
    derivative: ClassVar[dict[str, Any]] = {"mode": "dense"}
