"""What a solver layer returns, and how it is made of a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor

from rcdrs.controller.policy import split_action
from rcdrs.kernels import own_precision
from rcdrs.rollout.run import Outcome
from rcdrs.solver.fused import Columns, Observation, Transition
from rcdrs.solver.problem import ConicProgram, is_sparse
from rcdrs.solver.readout import Readout, observe, readout
from rcdrs.solver.sparse_step import SparseTransition
from rcdrs.solver.status import BELIEVED, TOLERANCE, Certificates, certify, judge
from rcdrs.solver.step import State


@dataclass(frozen=True)
class Solution:
    """What a layer returns; vectors are (batch, .), or without the batch axis for one instance.

    `x` is the primal decision ``z^K``.  `y`, `s` and the residuals are the terminal readout, which
    like the observation is computed when first asked for.  `state` can be passed back to the layer
    as a warm start; it always has the batch axis.
    """

    program: ConicProgram
    state: State
    #: The actions (log rho, alpha, log beta) of each step, (batch, K, 3).
    actions: Tensor
    look: Callable[[], Observation]
    read: Callable[[], Readout]
    single: bool = False
    #: The same as it was computed, where `program` was scaled for that.
    inner: Solution | None = None
    #: What was asked for already; no `cached_property`, whose lock a compiler cannot trace.
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def observation(self) -> Observation:
        """What a controller would see of the terminal state."""
        found: Observation = self._make("observation", self.look)
        return found

    @property
    def readout(self) -> Readout:
        found: Readout = self._make("readout", self.read)
        return found

    def _make(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            with own_precision(self.state.z.device):
                self._made[name] = make()
        return self._made[name]

    @property
    def x(self) -> Tensor:
        """The primal decision ``z^K``."""
        return self._out(self.state.z)

    @property
    def y(self) -> Tensor:
        """The equality multiplier, the paper's ``lambda^K``."""
        return self._out(self.readout.y)

    @property
    def s(self) -> Tensor:
        """The dual slack ``s^K``."""
        return self._out(self.readout.s)

    @property
    def primal_residual(self) -> Tensor:
        """``|A x - b| / (1 + |b|)``."""
        return self._out(self.readout.r_p)

    @property
    def dual_residual(self) -> Tensor:
        """``|A'y + s - c| / (1 + |c|)``; with Q, c + Q x in place of c."""
        return self._out(self.readout.r_d)

    @property
    def gap(self) -> Tensor:
        """``|p - d| / (1 + |p| + |d|)``, p and d the primal and the dual objective."""
        return self._out(self.readout.r_gap)

    @property
    def status(self) -> list[str] | str:
        """Of each instance: `solved` to 1e-3, `inaccurate`, `likely infeasible` or `likely
        unbounded`."""
        return self.judged()

    def judged(self, tolerance: float = TOLERANCE, believed: float = BELIEVED) -> list[str] | str:
        """The status of each instance.

        Arguments
            tolerance: what no residual of a solved instance exceeds, as reported and, where the
                program was scaled, in its scaled form: norms hide rows in small units.
            believed: up to which residual a certificate is believed, see `certificates`.
        """
        forms = [self] if self.inner is None else [self, self.inner]
        with torch.no_grad():
            reads = [form.readout for form in forms]
            residuals = [part for read in reads for part in (read.r_p, read.r_d, read.r_gap)]
            found = judge(torch.stack(residuals).amax(0), self.certificates, tolerance, believed)
        return found[0] if self.single else found

    @property
    def certificates(self) -> Certificates:
        """How far the last step is from proving that there is no solution, see
        `rcdrs.solver.status`."""
        found: Certificates = self._make("certificates", self._certify)
        return found

    @torch.no_grad()
    def _certify(self) -> Certificates:
        if self.inner is not None:
            return self.inner.certificates
        transition, columns, _ = begin(self.program, self.state)
        after, _ = transition(columns, *split_action(self.actions[:, -1]))
        # v+ - v = alpha (x+ - z), but v grows, and its difference would lose digits.
        drift = (after.gap + after.z - columns.z).mT
        return certify(self.program, drift, self.state.z, self.readout.y)

    @property
    def alpha(self) -> Tensor:
        """The relaxation of each step, (batch, K)."""
        return self._out(self.actions[..., 1])

    @property
    def beta(self) -> Tensor:
        """The objective drive of each step, (batch, K)."""
        return self._out(self.actions[..., 2].exp())

    def _out(self, value: Tensor) -> Tensor:
        return value[0] if self.single else value


def begin(program: ConicProgram, start: State | None) -> tuple[Transition, Columns, Observation]:
    """The transition of a program, its first state and what is seen of it."""
    if is_sparse(program.A):  # whose transition has the same methods
        transition = cast(Transition, SparseTransition(program))
    else:
        transition = Transition(program)
    columns = transition.start() if start is None else transition.start(start.z, start.u)
    return transition, columns, transition.observe_start(columns)


def finish(
    transition: Transition, columns: Columns, seen: Observation, actions: list[Tensor]
) -> Solution:
    """The solution of a trajectory of DRS steps."""
    state = State.of(columns)
    program, beta = transition.program, split_action(actions[-1])[1]
    return Solution(
        program,
        state,
        torch.stack(actions, dim=1),
        lambda: seen,
        lambda: readout(program, state.z, state.u, beta),
    )


def conclude(program: ConicProgram, outcome: Outcome, actions: Tensor) -> Solution:
    """The solution of a compiled pass."""
    still = outcome.stillness()

    def quiet(*tensors: Tensor) -> list[Tensor]:
        """Without gradients from instances that overflowed, as in the pass itself."""
        if still is None:
            return list(tensors)
        return [
            torch.where(still.reshape(-1, *(1,) * (t.ndim - 1)), t.detach(), t) for t in tensors
        ]

    def terminal() -> tuple[ConicProgram, State]:
        b, c, *parts = quiet(program.b, program.c, *outcome.state)
        return (program if still is None else program.with_vectors(b, c)), State(*parts)

    def look() -> Observation:
        programs, state = terminal()
        return observe(programs, state, *quiet(outcome.moved))

    def read() -> Readout:
        programs, state = terminal()
        return readout(programs, state.z, state.u, *quiet(actions[:, -1, 2].exp()))

    return Solution(program, outcome.state, actions, look, read)


def shelter(first: Solution, again: Callable[[Tensor], Solution]) -> Solution:
    """The solution, without gradients from instances that overflowed.

    Zero times infinity is NaN, so even where the loss does not count such an instance, the
    gradients of everything shared would be NaN.  Where there is one, the batch runs again with
    another instance in its place, `again` of the rows to take, and gives the gradients.
    """
    if not (first.state.z.requires_grad or first.actions.requires_grad) or first.state.z.is_meta:
        return first
    tensors = (*first.state, *first.observation, first.actions)
    # Squared: |b| and |c| are part of every step, and no part of its result.
    bad = ~_finite(first.program.b.square(), first.program.c.square(), *tensors)
    second = again(_stand_ins(bad)) if bad.any() and not bad.all() else None

    def read() -> Readout:
        found, other = first.read(), second
        lost = bad | ~_finite(*found)
        if not lost.equal(bad) and not lost.all():
            other = again(_stand_ins(lost))
        return found if other is None else Readout(*_keep(lost, found, other.read()))

    if second is None:
        return replace(first, read=read)
    kept = _keep(bad, tensors, (*second.state, *second.observation, second.actions))
    state, seen = State(*kept[:3]), Observation(*kept[3:-1])
    return replace(first, state=state, actions=kept[-1], look=lambda: seen, read=read)


@torch.no_grad()
def _finite(*tensors: Tensor) -> Tensor:
    """Per instance: is every number finite?"""
    return (
        torch.stack([t if t.ndim == 1 else t.flatten(1).sum(1) for t in tensors]).sum(0).isfinite()
    )


def _stand_ins(bad: Tensor) -> Tensor:
    """The rows of a batch, with the first good one in the place of each that is bad."""
    return torch.where(bad, (~bad).nonzero()[0], torch.arange(len(bad), device=bad.device))


def _keep(bad: Tensor, first: Iterable[Tensor], second: Iterable[Tensor]) -> list[Tensor]:
    """The values of the first where bad, those of the second with their gradients elsewhere."""
    return [
        torch.where(bad.reshape(-1, *(1,) * (a.ndim - 1)), a.detach(), b)
        for a, b in zip(first, second, strict=True)
    ]
