"""Pinet (the package pinet-hcnn): projections onto convex sets by Douglas-Rachford, in JAX.

A layer behind a network that has made a proposal p: it gives ``argmin |x - p|`` over A x = b and x
in K, for boxes and second-order cones.  It has no objective of its own, so of the programs here it
can express the projections alone, and no semidefinite cone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pinet import (
    BoxConstraint,
    BoxConstraintSpecification,
    EqualityConstraint,
    EqualityConstraintsSpecification,
    NonLinearConstraint,
    NonLinearSpecification,
    Project,
    ProjectionInstance,
    SOCType,
)

from rcdrs.peers.base import Answer, Gradient, Peer, Problem, Setting, Unsupported
from rcdrs.peers.standard import standard

#: Of its guide's example: steps of bicgstab at most.
BACKWARD = 100


class Pinet(Peer):
    """Its parameter is the number of iterations; gradients are of the implicit function."""

    settings = "defaults (sigma 1, omega 1.7), n_iter steps forward, n_iter_bwd 100"
    differentiates = compiles = True

    def __init__(self, problem: Problem) -> None:
        form = standard(problem)
        if not problem.quadratic:
            raise Unsupported("it has no objective but the distance to a point")
        if form.sizes("s"):
            raise Unsupported("it has no semidefinite cone")
        m, n = form.A.shape
        self.T = jnp.asarray(form.T)
        equality = EqualityConstraint(jnp.asarray(form.A)[None], jnp.zeros((1, m, 1)), var_b=True)
        positive = start = sum(form.sizes("l"))
        cones: list[NonLinearSpecification] = []
        box = None
        if positive:
            mask = np.arange(n) < positive
            least = jnp.zeros((1, positive, 1))
            most = jnp.full((1, positive, 1), jnp.inf)
            box = BoxConstraint(BoxConstraintSpecification(lb=least, ub=most, mask=mask))
        for size in form.sizes("q"):  # |A v| <= f v
            rows, none = jnp.eye(n)[None, start : start + size], jnp.zeros((1, size, 1))
            given = {"a_mat": rows[:, 1:], "f": rows[:, :1], "a": none[:, 1:], "b": none[:, :1]}
            cones.append(NonLinearSpecification(nl_type=SOCType, **given))
            start += size
        self.cones = cones or None
        constraints = [NonLinearConstraint(cone) for cone in cones] or None
        self.layer = Project(equality, box_constraint=box, nl_constraints=constraints)
        self._forward: dict[int, Any] = {}
        self._backward: dict[int, Any] = {}

    def take(self, b: np.ndarray, c: np.ndarray) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(b), jnp.asarray(c)

    def cotangent(self, g: np.ndarray) -> jax.Array:
        return jnp.asarray(g)

    def _x(self, b: jax.Array, c: jax.Array, steps: int) -> jax.Array:
        given = EqualityConstraintsSpecification(b=b[..., None])
        point = ProjectionInstance(x=-(c @ self.T)[..., None], eq=given, nl=self.cones)
        found, _ = self.layer.call(y_raw=point, n_iter=steps, n_iter_bwd=BACKWARD)
        return found.x[..., 0] @ self.T.T

    def solve(self, batch: Any, setting: Setting) -> Answer:
        run = self._forward.setdefault(int(setting), jax.jit(partial(self._x, steps=int(setting))))
        return Answer(run(*batch).block_until_ready(), [])

    def differentiate(self, batch: Any, g: Any, setting: Setting) -> Gradient:
        if (steps := int(setting)) not in self._backward:

            def both(b: jax.Array, c: jax.Array, g: jax.Array) -> Any:
                x, back = jax.vjp(partial(self._x, steps=steps), b, c)
                return x, *back(g)

            self._backward[steps] = jax.jit(both)
        return Gradient(*jax.block_until_ready(self._backward[steps](*batch, g)))
