"""Anderson-DRS: fixed-core DRS with safeguarded Anderson acceleration of type II."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rcdrs.baselines.aa_drs import choose
from rcdrs.baselines.core import CoreLayer, action_of
from rcdrs.cones import Cone
from rcdrs.solution import Solution, begin, finish
from rcdrs.solver.fused import Columns, Observation, Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import State

#: Differences kept, and plain steps before the first proposal.
MEMORY, PLAIN = 10, 3
#: Relative Tikhonov term of the least squares: above the rounding of products in float32.
RIDGE = 1e-4
#: Tolerated growth of the residual, and the largest coefficients.
TOLERATED, LARGEST = 1.2, 100.0


class AndersonLayer(CoreLayer):
    """The fixed core, accelerated."""

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        transition, state, seen = begin(program, start)
        drive = self.constants(program)
        state, seen = accelerate(transition, state, seen, depth, lambda seen, k: drive)
        return finish(transition, state, seen, [action_of(*drive)] * depth)


def accelerate(
    transition: Transition,
    state: Columns,
    seen: Observation,
    depth: int,
    drive: Callable[[Observation, int], tuple[Tensor, Tensor]],
) -> tuple[Columns, Observation]:
    r"""From the fourth step on, a step starts at ``F_k - dF gamma`` instead of ``F_k = T v_k``.

        gamma = argmin |g_k - dG gamma|,  g = T v - v,

    with dF and dG the last ten differences of F and of g.  The coefficients are those of the
    shadow state v; z and the offsets are combined with them as well, so that a proposal costs no
    projection and no product with A.  Its z may leave the cone, which the next step mends.

    The safeguard is that of SCS, one step later and at no step's cost: where the residual |g| of a
    proposal exceeds 1.2 times that before it, the instance goes on from the plain F and forgets
    its differences.  The last step is plain, so that the terminal readout keeps its cone-dual
    feasibility; depth K evaluates T exactly K times.

    `drive` gives alpha and beta of step k from what is seen of the last plain state.
    """
    parts = [len(part) for part in state]
    memory, proposed = Memory(), torch.zeros_like(seen.size, dtype=torch.bool)
    now: tuple[Tensor, ...] = ()  # all of the state, its residual and |residual|, what is seen
    for k in range(depth):
        reached, observed = transition(state, *drive(seen, k))
        residual = reached.v - state.v
        new = torch.cat(reached), residual, norm(residual), *observed
        if k == 0:
            now = new
        else:
            # A plain step is never refused: it would only be made again.  A NaN is.
            refused = proposed & ~(new[2] <= TOLERATED * now[2])
            old, now = now, tuple(choose(refused, now, new))
            if k + 1 < depth:
                memory.add(now[0] - old[0], now[1] - old[1], refused)
        state, seen = Columns(*now[0].split(parts)), Observation(*now[3:])
        if PLAIN <= k + 1 < depth:
            proposal, proposed = memory.propose(*now[:2])
            state = Columns(*proposal.split(parts))
    return state, seen


class Memory:
    """The last differences of the states reached and of their residuals, batch-last."""

    def __init__(self) -> None:
        self.states: list[Tensor] = []  # (3 n + 2 rank, batch) each: all that a step hands on
        self.residuals: list[Tensor] = []  # (n, batch) each
        self.gram: Tensor | None = None  # (k, k, batch): the products of the latter

    def add(self, state: Tensor, residual: Tensor, forget: Tensor) -> None:
        """One more difference of each; zero where an instance is to `forget` all of them."""
        self.states = [*self.states, state][-MEMORY:]
        self.residuals = [*self.residuals, residual][-MEMORY:]
        row = self._products(residual)
        gram = row.unsqueeze(0)
        if self.gram is not None:
            lost = len(self.gram) + 1 - len(row)
            gram = torch.cat([self.gram[lost:, lost:], row[:-1].unsqueeze(1)], 1)
            gram = torch.cat([gram, row.unsqueeze(0)], 0)
        # Without its diagonal a difference has no coefficient, whatever its later products are.
        self.gram = torch.where(forget, 0, gram)

    def propose(self, state: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """``state - dF gamma``, and where that is another state."""
        assert self.gram is not None
        gamma = coefficients(self.gram, self._products(residual)).to(state)
        size = norm(gamma)
        sound = (size > 0) & (size <= LARGEST)
        # In rows of their own: with a stride along the batch this takes three times as long.
        first, *others = torch.where(sound, gamma, 0).contiguous()
        proposal = torch.addcmul(state, first, self.states[0], value=-1)
        for weight, difference in zip(others, self.states[1:], strict=True):
            proposal.addcmul_(weight, difference, value=-1)
        return proposal, sound

    def _products(self, residual: Tensor) -> Tensor:
        return torch.stack([(other * residual).sum(0) for other in self.residuals])


def coefficients(gram: Tensor, products: Tensor) -> Tensor:
    """``argmin |g - dG gamma|`` with dG scaled to unit columns and a ridge, (k, batch); float64.

    From the normal equations, ``dG'dG`` and ``dG'g``; zero where their numbers overflow.
    """
    gram, products = gram.permute(2, 0, 1).double(), products.mT.double()
    finite = gram.isfinite().all(-1).all(-1) & products.isfinite().all(-1)
    gram = torch.where(finite[:, None, None], gram, 0)
    products = torch.where(finite[:, None], products, 0)
    square = gram.diagonal(dim1=1, dim2=2)
    scale = torch.where(square > 0, torch.where(square > 0, square, 1).rsqrt(), 0)
    ridge = RIDGE * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    scaled = scale.unsqueeze(2) * gram * scale.unsqueeze(1) + ridge
    return (scale * torch.linalg.solve(scaled, scale * products)).mT


def norm(columns: Tensor) -> Tensor:
    """Only to compare: without a gradient."""
    return columns.detach().square().sum(0).sqrt()


def build(A: Tensor, cone: Cone, depth: int, core: tuple[float, float]) -> AndersonLayer:
    return AndersonLayer(A, cone, depth, *core)
