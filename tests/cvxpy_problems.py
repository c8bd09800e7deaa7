"""Thirty standard problems of the kinds that CVXPY's examples show, each with samples of its
parameters: linear, quadratic, second-order and semidefinite; parameters in the objective, on the
right and in the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

rng = np.random.default_rng


@dataclass(frozen=True)
class Example:
    problem: cp.Problem
    parameters: list[cp.Parameter]
    variables: list[cp.Variable]
    #: Of a generator: one value for each parameter.
    sample: Callable[[np.random.Generator], list[Any]]


def normal(*shape, scale=1.0, shift=0.0):
    return lambda g: shift + scale * g.standard_normal(shape)


def positive(*shape, low=0.5, high=1.5):
    return lambda g: g.uniform(low, high, shape)


def example(objective, constraints, variables, **parameters):
    """Parameters are given as ``name=(parameter, sampler)``."""
    leaves = [leaf for leaf, _ in parameters.values()]
    samplers = [sampler for _, sampler in parameters.values()]
    sample = lambda g: [np.asarray(one(g)) for one in samplers]  # noqa: E731
    return Example(cp.Problem(objective, constraints), leaves, variables, sample)


def simplex_lp():
    x, c = cp.Variable(8), cp.Parameter(8)
    return example(cp.Minimize(c @ x), [x >= 0, cp.sum(x) == 1], [x], c=(c, normal(8)))


def diet():
    x, need = cp.Variable(6, nonneg=True), cp.Parameter(4, nonneg=True)
    food, price = rng(1).uniform(0, 2, (4, 6)), rng(2).uniform(1, 2, 6)
    return example(cp.Minimize(price @ x), [food @ x >= need], [x], need=(need, positive(4)))


def transport():
    x, supply, demand = cp.Variable((3, 4), nonneg=True), cp.Parameter(3), cp.Parameter(4)
    cost = rng(3).uniform(1, 3, (3, 4))
    rows = [cp.sum(x, axis=1) <= supply, cp.sum(x, axis=0) == demand]
    samplers = dict(supply=(supply, positive(3, low=4, high=5)), demand=(demand, positive(4)))
    return example(cp.Minimize(cp.sum(cp.multiply(cost, x))), rows, [x], **samplers)


def knapsack():
    x, value, weight = cp.Variable(10), cp.Parameter(10), cp.Parameter(10, nonneg=True)
    rows = [weight @ x <= 3, x >= 0, x <= 1]
    samplers = dict(value=(value, positive(10)), weight=(weight, positive(10)))
    return example(cp.Maximize(value @ x), rows, [x], **samplers)


def max_flow():
    """Over the edges of a small graph, whose capacities change."""
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5), (3, 4)]
    flow, capacity = cp.Variable(len(edges), nonneg=True), cp.Parameter(len(edges), nonneg=True)
    node = np.zeros((6, len(edges)))
    for k, (i, j) in enumerate(edges):
        node[i, k], node[j, k] = -1, 1
    rows = [node[1:5] @ flow == 0, flow <= capacity]
    samplers = dict(capacity=(capacity, positive(len(edges))))
    return example(cp.Maximize(-node[0] @ flow), rows, [flow], **samplers)


def chebyshev_fit():
    x, y, F = cp.Variable(4), cp.Parameter(12), rng(4).standard_normal((12, 4))
    return example(cp.Minimize(cp.norm_inf(F @ x - y)), [], [x], y=(y, normal(12)))


def least_absolute():
    x, y, F = cp.Variable(3), cp.Parameter(10), rng(5).standard_normal((10, 3))
    return example(cp.Minimize(cp.norm1(F @ x - y)), [x <= 1], [x], y=(y, normal(10)))


def robust_lp():
    """A linear program whose rows lie in ellipsoids."""
    x, c, F = cp.Variable(4), cp.Parameter(4), rng(6).standard_normal((5, 4))
    rows = [F[i] @ x + 0.3 * cp.norm(x) <= 1 for i in range(5)]
    return example(cp.Minimize(c @ x), [*rows, cp.norm(x) <= 4], [x], c=(c, normal(4)))


def projection_simplex():
    x, p = cp.Variable(8), cp.Parameter(8)
    rows = [x >= 0, cp.sum(x) == 1]
    return example(cp.Minimize(cp.sum_squares(x - p)), rows, [x], p=(p, normal(8)))


def projection_box():
    x, p, low, high = cp.Variable(5), cp.Parameter(5), cp.Parameter(5), cp.Parameter(5)
    samplers = dict(p=(p, normal(5)), low=(low, normal(5, scale=0.1, shift=-0.5)))
    samplers["high"] = (high, positive(5, low=0.2, high=0.6))
    return example(cp.Minimize(cp.sum_squares(x - p)), [x >= low, x <= high], [x], **samplers)


def ridge():
    x, F, y = cp.Variable(4), cp.Parameter((6, 4)), cp.Parameter(6)
    loss = cp.sum_squares(F @ x - y) + 0.5 * cp.sum_squares(x)
    return example(cp.Minimize(loss), [], [x], F=(F, normal(6, 4)), y=(y, normal(6)))


def lasso():
    x, F, y, weight = (
        cp.Variable(5),
        cp.Parameter((6, 5)),
        cp.Parameter(6),
        cp.Parameter(nonneg=True),
    )
    loss = cp.sum_squares(F @ x - y) + weight * cp.norm1(x)
    samplers = dict(F=(F, normal(6, 5)), y=(y, normal(6)), weight=(weight, positive()))
    return example(cp.Minimize(loss), [], [x], **samplers)


def nonneg_least_squares():
    x, y, F = cp.Variable(5, nonneg=True), cp.Parameter(8), rng(7).standard_normal((8, 5))
    return example(cp.Minimize(cp.norm(F @ x - y)), [], [x], y=(y, normal(8)))


def markowitz():
    w, mu, weight = cp.Variable(10), cp.Parameter(10), cp.Parameter(nonneg=True)
    F = rng(8).standard_normal((10, 10)) / np.sqrt(10)
    gain = mu @ w - weight * cp.quad_form(w, cp.psd_wrap(F @ F.T))
    samplers = dict(mu=(mu, normal(10, scale=0.3)), weight=(weight, positive()))
    return example(cp.Maximize(gain), [cp.sum(w) == 1, w >= 0], [w], **samplers)


def turnover():
    """A portfolio with a risk cone, a limit for each share and for what is traded."""
    w, mu, held = cp.Variable(10), cp.Parameter(10), cp.Parameter(10)
    F = rng(9).standard_normal((10, 10)) / np.sqrt(10)
    rows = [cp.sum(w) == 1, w >= 0, w <= 0.4, cp.norm(F @ w) <= 0.5, cp.norm1(w - held) <= 0.8]
    samplers = dict(mu=(mu, normal(10, scale=0.3)), held=(held, lambda g: np.full(10, 0.1)))
    return example(cp.Maximize(mu @ w), rows, [w], **samplers)


def svm():
    w, offset, F, label = cp.Variable(3), cp.Variable(), cp.Parameter((12, 3)), np.ones(12)
    label[::2] = -1
    loss = cp.sum(cp.pos(1 - cp.multiply(label, F @ w + offset)))
    goal = cp.Minimize(loss / 12 + 0.5 * cp.sum_squares(w))
    return example(goal, [], [w, offset], F=(F, normal(12, 3)))


def huber_fit():
    x, y, F = cp.Variable(3), cp.Parameter(8), rng(10).standard_normal((8, 3))
    return example(cp.Minimize(cp.sum(cp.huber(F @ x - y, 0.5))), [], [x], y=(y, normal(8)))


def total_variation():
    x, y = cp.Variable(12), cp.Parameter(12)
    loss = cp.sum_squares(x - y) + 0.8 * cp.tv(x)
    return example(cp.Minimize(loss), [], [x], y=(y, normal(12)))


def control():
    """Six steps of a double integrator, from a state that changes, with bounded forces."""
    x, u, first = cp.Variable((2, 7)), cp.Variable((1, 6)), cp.Parameter(2)
    move, push = np.array([[1, 0.5], [0, 1]]), np.array([[0.1], [0.5]])
    rows = [x[:, 0] == first, x[:, 1:] == move @ x[:, :-1] + push @ u, cp.abs(u) <= 2]
    loss = cp.sum_squares(x) + 0.1 * cp.sum_squares(u)
    return example(cp.Minimize(loss), rows, [x, u], first=(first, normal(2)))


def facility():
    """The point with the least sum of distances to some others."""
    x, points = cp.Variable(2), cp.Parameter((5, 2))
    loss = sum(cp.norm(x - points[i]) for i in range(5))
    return example(cp.Minimize(loss), [], [x], points=(points, normal(5, 2)))


def smallest_ball():
    x, r, points = cp.Variable(3), cp.Variable(), cp.Parameter((6, 3))
    rows = [cp.norm(x - points[i]) <= r for i in range(6)]
    return example(cp.Minimize(r), rows, [x, r], points=(points, normal(6, 3)))


def water_basin():
    """Quadratic over linear: rates that share a budget."""
    x, a = cp.Variable(5), cp.Parameter(5, nonneg=True)
    loss = cp.sum([cp.quad_over_lin(a[i], x[i]) for i in range(5)])
    return example(cp.Minimize(loss), [cp.sum(x) <= 3, x >= 0.1], [x], a=(a, positive(5)))


def geometric_mean():
    x, c = cp.Variable(4), cp.Parameter(4, nonneg=True)
    return example(cp.Maximize(cp.geo_mean(x)), [c @ x <= 2, x >= 0], [x], c=(c, positive(4)))


def smallest_eigenvalue():
    X, C = cp.Variable((4, 4), PSD=True), cp.Parameter((4, 4), symmetric=True)

    def symmetric(g):
        M = g.standard_normal((4, 4))
        return (M + M.T) / 2

    return example(cp.Minimize(cp.trace(C @ X)), [cp.trace(X) == 1], [X], C=(C, symmetric))


def nearest_correlation():
    X, C = cp.Variable((4, 4), symmetric=True), cp.Parameter((4, 4))
    goal = cp.Minimize(cp.norm(X - C, "fro"))
    return example(goal, [X >> 0, cp.diag(X) == 1], [X], C=(C, normal(4, 4)))


def max_cut():
    X, W = cp.Variable((5, 5), PSD=True), cp.Parameter((5, 5), symmetric=True)

    def weights(g):
        M = np.triu(g.uniform(0, 1, (5, 5)), 1)
        return M + M.T

    cut = cp.sum(cp.multiply(W, 1 - X)) / 4
    return example(cp.Maximize(cut), [cp.diag(X) == 1], [X], W=(W, weights))


def eigenvalue_bound():
    """The combination of symmetric matrices with the smallest largest eigenvalue."""
    x, C = cp.Variable(3), cp.Parameter(3)
    base = rng(11).standard_normal((4, 4, 4))
    base = base + base.transpose(0, 2, 1)
    matrix = base[3] + sum(x[i] * base[i] for i in range(3))
    goal = cp.Minimize(cp.lambda_max(matrix) + C @ x)
    return example(goal, [cp.norm(x) <= 2], [x], C=(C, normal(3)))


def trace_norm():
    """Entries of a low-rank matrix, of which some are known."""
    X, known = cp.Variable((3, 4)), cp.Parameter(5)
    at = ([0, 0, 1, 2, 2], [0, 3, 1, 2, 0])
    return example(cp.Minimize(cp.normNuc(X)), [X[at] == known], [X], known=(known, normal(5)))


def ellipsoid():
    """Weights of experiments that give the best worst-case variance."""
    w, cost = cp.Variable(6), cp.Parameter(6, nonneg=True)
    V = rng(12).standard_normal((6, 3))
    matrix = sum(w[i] * np.outer(V[i], V[i]) for i in range(6))
    goal = cp.Maximize(cp.lambda_min(matrix) - 0.1 * cost @ w)
    return example(goal, [cp.sum(w) == 1, w >= 0], [w], cost=(cost, positive(6)))


def dispatch():
    """Generators that meet a demand, with quadratic costs and ramps."""
    p, demand = cp.Variable((3, 4)), cp.Parameter(4)
    limit = np.array([[2.0], [1.5], [1.0]])
    rows = [cp.sum(p, axis=0) == demand, p >= 0, p <= limit, cp.abs(cp.diff(p, axis=1)) <= 0.7]
    cost = cp.sum(cp.multiply(np.array([[1.0], [2.0], [3.0]]), cp.square(p))) + cp.sum(p[0])
    samplers = dict(demand=(demand, positive(4, low=2.0, high=2.8)))
    return example(cp.Minimize(cost), rows, [p], **samplers)


EXAMPLES = {
    make.__name__: make
    for make in (
        simplex_lp, diet, transport, knapsack, max_flow, chebyshev_fit, least_absolute, robust_lp,
        projection_simplex, projection_box, ridge, lasso, nonneg_least_squares, markowitz, turnover,
        svm, huber_fit, total_variation, control, facility, smallest_ball, water_basin,
        geometric_mean, smallest_eigenvalue, nearest_correlation, max_cut, eigenvalue_bound,
        trace_norm, ellipsoid, dispatch,
    )
}  # fmt: skip
