"""The passes as operators of torch: `rcdrs::rollout` and its derivative.

Registered operators, with rules for fake tensors here and for autograd and vmap in `transforms`,
are what `torch.compile`, `torch.export` and `torch.func` can see through.  Tiles run in as many
threads as torch has, with the same bytes for any number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rcdrs.rollout.backward import backward
from rcdrs.rollout.forward import forward
from rcdrs.rollout.layout import Policy, Problem, Shape, Weights, lanes_for
from rcdrs.solver.problem import check_numbers

Many = Sequence[Tensor]

LIBRARY = torch.library.Library("rcdrs", "DEF")
#: The batch is the first axis of b, c, the start and Q, and the last one of the bounds, `given` and
#: all that is returned.  `problem`, `policy` and `weights` are the tuples of `layout`; `cone` is
#: the table of its parts, row after row; `sizes` are kind, features, hidden, period, depth and
#: whether |A z - b| is among the features.
GIVEN_ = (
    "Tensor b, Tensor c, Tensor z0, Tensor u0, Tensor given, Tensor[] weights, Tensor[] problem, "
    "Tensor[] policy, Tensor[] extras, int[] cone, int[] sizes"
)
LIBRARY.define(
    f"rollout({GIVEN_}, bool save) -> "
    "(Tensor state, Tensor moved, Tensor bad, Tensor actions, Tensor tape)"
)
LIBRARY.define(
    "rollout_backward(Tensor g_state, Tensor g_moved, Tensor g_actions, "
    f"Tensor bad, Tensor tape, bool[] needs, {GIVEN_}) -> Tensor[]"
)
#: Gradients of the weights are summed in so many groups of tiles, each in the order of its tiles.
GROUPS = 32
REAL = {torch.float32: np.float32, torch.float64: np.float64}


#: How many tensors weights, problem, policy and extras are.
COUNTS = (9, 4, 7, 3)


class Inputs(NamedTuple):
    """The arguments of `rcdrs::rollout`, but the last."""

    b: Tensor
    c: Tensor
    z0: Tensor
    u0: Tensor
    given: Tensor  # (2, batch) or (2, 1): alpha and log beta, where nothing else sets them
    weights: Many
    problem: Many
    policy: Many
    extras: Many  # Q, lower, upper; without rows where there are none
    cone: Sequence[int]
    sizes: Sequence[int]

    def tensors(self) -> tuple[Any, ...]:
        """All of them in one row, as `of` takes them."""
        lists = (self.weights, self.problem, self.policy, self.extras)
        return (*self[:5], *(t for part in lists for t in part))

    @classmethod
    def of(cls, tensors: Sequence[Any], cone: Any, sizes: Any) -> Inputs:
        rest: list[Any] = list(tensors)
        parts: list[Any] = [rest.pop(0) for _ in range(5)]
        for count in COUNTS:
            parts.append(rest[:count])
            rest = rest[count:]
        return cls(*[*parts, cone, sizes])

    @property
    def shape(self) -> Shape:
        # All from what instances share: a compiler may not know the size of the rest.
        (n, rank), thin, m = (
            self.problem[0].shape,
            self.problem[1].shape[1],
            self.problem[2].shape[1],
        )
        curved = self.extras[0].shape[0] > 0
        return _shape(n, m, rank, thin, curved, tuple(self.cone), tuple(map(int, self.sizes)))


@cache
def _shape(
    n: int, m: int, rank: int, thin: int, curved: bool, cone: tuple[int], sizes: tuple[int, ...]
) -> Shape:
    table = tuple(tuple(cone[i : i + 6]) for i in range(0, len(cone), 6))
    kind, features, hidden, period, depth, equality = sizes
    controller = (kind, features, bool(equality), hidden, period)
    return Shape(n, m, rank, thin, curved, table, *controller, depth)


def _buffers(batch: int, shape: Shape, save: bool) -> tuple[int, int, int]:
    """Lanes, tiles and numbers a tile of the tape."""
    lanes = lanes_for(batch)
    _, steps, _ = shape.starts(shape.depth + 1 if save else 2, lanes)
    return lanes, -(-batch // lanes), int(steps[-1]) * lanes


def _outputs(inputs: Inputs, shape: Shape, save: bool) -> tuple[Tensor, ...]:
    """Room for what `rcdrs::rollout` returns: x, z and u as one; the way of the last step; whether
    an instance overflowed; actions and tape."""
    c, depth = inputs.c, shape.depth
    batch, n = c.shape
    _, tiles, numbers = _buffers(batch, shape, save)
    bad = torch.empty(batch, dtype=torch.bool, device=c.device)
    actions = c.new_empty(depth if shape.kind else 0, 3, batch)
    tape = c.new_empty(tiles * numbers if save else 0)
    return c.new_empty(3, n, batch), c.new_empty(batch), bad, actions, tape


class Kept(list[Tensor]):
    """Tensors that many calls share, and their arrays."""

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        return _numpy(list(self))


def _numpy(tensors: Many) -> list[np.ndarray]:
    if type(tensors) is Kept:
        return tensors.arrays
    return [t.contiguous().numpy(force=True) for t in tensors]


def compute(*arguments: Any) -> tuple[Tensor, ...]:
    *given, save = arguments
    inputs = Inputs(*given)
    shape = inputs.shape
    *rest, _ = _outputs(inputs, shape, save=False)
    lanes, tiles, numbers = _buffers(len(inputs.b), shape, save)
    # By numpy, which asks for huge pages: else a third of the time would be page faults.
    tape = np.empty(tiles * numbers if save else 0, REAL[inputs.c.dtype])
    out = (*rest, torch.from_numpy(tape))
    places = shape.depth + 1 if save else 2
    starts = shape.starts(places, lanes)
    problem, policy, weights, extras = _constants(inputs, shape)
    b, c, z0, u0, actions = _numpy(inputs[:5])
    results = [t.numpy() for t in rest]

    def run(first: int, last: int) -> int:
        buffers = tape.reshape(-1, numbers) if save else np.empty((1, numbers), c.dtype)
        lost: int = forward(
            (first, last), lanes, places, shape.depth, shape.kind, shape.period, shape.form,
            shape.equality, save, starts, problem, policy, weights, b, c, *extras, z0, u0, actions,
            buffers, *results,
        )  # fmt: skip
        return lost

    if in_threads(run, tiles):  # here also a compiled graph arrives with its numbers
        check_numbers("b", inputs.b)
        check_numbers("c", inputs.c)
    return out


@cache
def _table(table: tuple[tuple[int, ...], ...]) -> np.ndarray:
    return np.array(table, np.int64)


def _constants(inputs: Inputs, shape: Shape) -> tuple[Any, ...]:
    V, N, target, scale = _numpy(inputs.problem)
    problem = Problem(V, N, target, scale, _table(shape.table))
    weights = Weights(*_numpy(inputs.weights))
    return problem, Policy(*_numpy(inputs.policy)), weights, _numpy(inputs.extras)


def compute_backward(*arguments: Any) -> list[Tensor]:
    *grads, bad, tape, needs = arguments[:6]
    inputs = Inputs(*arguments[6:])
    lost = bool(bad.any())
    if lost:
        # Zero times infinity is NaN, which would spoil the gradients of all that is shared.  An
        # instance that overflowed passes none: another one takes its place.
        grads = [g.masked_fill(bad, 0) for g in grads]
        if bool(bad.all()):
            return _zero_gradients(inputs, needs)
        inputs = _stand_in(inputs, bad)
    if lost or not len(tape):
        tape = compute(*inputs, True)[-1]
    shape = inputs.shape
    lanes, tiles, _ = _buffers(len(inputs.b), shape, True)
    groups = min(GROUPS, tiles)
    out = [t.zero_() for t in _gradients(inputs, needs, groups)]
    problem, policy, weights, _ = _constants(inputs, shape)
    starts = shape.starts(shape.depth + 1, lanes)
    results = _numpy(out)
    arrays = _numpy(grads)
    tapes = tape.numpy().reshape(tiles, -1)

    def run(first: int, last: int) -> int:
        scratch = np.empty(int(starts[2][-1]) * lanes, arrays[0].dtype)
        backward(
            (first, last, groups), lanes, tiles, shape.depth, shape.kind, shape.period, shape.form,
            shape.equality, starts, problem, policy, weights, scratch, tapes, *arrays,
            (needs[0], needs[1], needs[2]), *results[:5], Weights(*results[5:]),
        )  # fmt: skip
        return 0

    in_threads(run, groups)
    out[5:] = [g.sum(0) for g in out[5:]]
    if lost:
        out[:4] = [g.masked_fill(bad.unsqueeze(-1), 0) if len(g) else g for g in out[:4]]
        out[4] = out[4].masked_fill(bad, 0) if out[4].shape[1] > 1 else out[4]
    return out


def _gradients(inputs: Inputs, needs: Sequence[bool], groups: int) -> list[Tensor]:
    """Room for the gradients in b, c, the start, `given` and the weights; those that nobody needs
    have no rows."""
    b, c, z0, u0, _ = inputs[:5]
    vectors = [(b, needs[0]), (c, needs[1]), (z0, needs[2]), (u0, needs[2])]
    room = [t.new_empty(t.shape if need else (0, t.shape[-1])) for t, need in vectors]
    room.append(c.new_empty(2, len(c)))
    for weight in inputs.weights:
        size = weight.shape if needs[3] else (0,) * weight.ndim
        room.append(weight.new_empty(groups, *size))
    return room


def _zero_gradients(inputs: Inputs, needs: Sequence[bool]) -> list[Tensor]:
    out = [t.zero_() for t in _gradients(inputs, needs, 1)]
    return out[:5] + [g[0] for g in out[5:]]


def _stand_in(inputs: Inputs, bad: Tensor) -> Inputs:
    """The same with the first good instance in the place of each that is bad."""
    rows = torch.where(bad, (~bad).nonzero()[0], torch.arange(len(bad)))

    def first(t: Tensor) -> Tensor:
        return t[rows] if len(t) == len(bad) else t

    def last(t: Tensor) -> Tensor:
        return t[:, rows] if t.shape[1] == len(bad) else t

    Q, lower, upper = inputs.extras
    return inputs._replace(
        b=first(inputs.b), c=first(inputs.c), z0=first(inputs.z0), u0=first(inputs.u0),
        given=last(inputs.given), extras=[first(Q), last(lower), last(upper)],
    )  # fmt: skip


def in_threads(run: Callable[[int, int], int], count: int) -> int:
    """The sum of `run` over parts of ``range(count)``, one a thread of torch's; the kernels hold
    no lock."""
    threads = min(torch.get_num_threads(), count)
    if threads == 1:
        return run(0, count)
    with ThreadPoolExecutor(threads - 1) as pool:
        ends = [count * i // threads for i in range(threads + 1)]
        others = [pool.submit(run, *ends[i : i + 2]) for i in range(1, threads)]
        return run(*ends[:2]) + sum(other.result() for other in others)


LIBRARY.impl("rollout", compute, "CPU")
LIBRARY.impl("rollout_backward", compute_backward, "CPU")


@torch.library.register_fake("rcdrs::rollout", lib=LIBRARY)
def _(*arguments: Any) -> tuple[Tensor, ...]:
    *given, save = arguments
    inputs = Inputs(*given)
    return _outputs(inputs, inputs.shape, save)


@torch.library.register_fake("rcdrs::rollout_backward", lib=LIBRARY)
def _(*arguments: Any) -> list[Tensor]:
    inputs = Inputs(*arguments[6:])
    out = _gradients(inputs, arguments[5], 1)
    return out[:5] + [g[0] for g in out[5:]]
