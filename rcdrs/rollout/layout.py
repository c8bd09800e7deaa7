"""What the two passes hand to each other: named arrays, cut from one buffer a tile.

A tile is `lanes` instances side by side; every array ends with that axis.  For the pass back each
array of `STEPS` has a place for every step, without it two, which take turns: then memory does not
grow with the depth.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rcdrs.kernels import compiled, inlined
from rcdrs.rollout.projection import BOX, saved_rows
from rcdrs.rollout.splitting import FOLLOWED, PLAIN, THIN

# What sets the action: numbers given for all steps, a learned schedule, or an encoder.
GIVEN, SCHEDULE, GRU, LSTM, MLP, DIRECT = range(6)
KINDS = {"schedule": SCHEDULE, "gru": GRU, "lstm": LSTM, "mlp": MLP, "direct": DIRECT}
#: Rows of gates, and of what else an encoder keeps, over its width.
GATES, KEPT = {GRU: 3, LSTM: 4, MLP: 1}, {GRU: 1, LSTM: 1, MLP: 0}

#: Made once a tile.  d = S^-1 U'b, p = V d, q = V'c, a = V'v - d; `inverse` is 1/(|c| + eps_c).
ONCE = (
    "b", "c", "Q", "lower", "upper", "d", "p", "q", "a", "t", "w", "g",
    "b_norm", "c_norm", "inverse", "beta", "kappa", "first", "raw", "held", "spread",
)  # fmt: skip
#: Made at each step; of z, v and o, place k is what step k starts from.  What the controller sees,
#: makes of it and remembers has a place for each of its looks, see `forward.look`.
STEPS = (
    "z", "v", "o", "seen", "hidden",
    "e", "saved", "phi", "gates", "kept", "inner", "action", "slope", "follows",
)  # fmt: skip
#: What the pass back works with: gradients in the arrays of these names.
BACK = (
    "z", "v", "e", "t", "moved", "through", "w", "o", "a", "c", "d", "p", "q", "b_norm", "c_norm",
    "inverse", "alpha", "kappa", "before", "later", "seen", "action", "raw", "phi", "gates",
    "inner", "hidden", "cell", "held", "b",
)  # fmt: skip


def _named(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


Once, Steps, Back = _named("Once", ONCE), _named("Steps", STEPS), _named("Back", BACK)


class Problem(NamedTuple):
    """What the instances share: ``A = U S V'`` as `target` = S^-1 U', `scale` = S and V, the basis
    N of its kernel where that is thin, and the cone."""

    V: Any
    N: Any
    target: Any
    scale: Any
    table: Any


class Policy(NamedTuple):
    """The constants of the controller: the features it keeps, and those of `ActionMap`."""

    kept: Any
    controlled: Any
    base: Any
    low: Any
    high: Any
    growth: Any
    radius: Any  # (K, 3)


class Weights(NamedTuple):
    """A schedule, an encoder and a head; what a controller lacks has no rows.  In the pass back
    the same names hold the gradients, with a leading axis for groups of tiles."""

    schedule: Any  # (K, 3)
    W: Any
    U: Any
    b_W: Any
    b_U: Any
    W_head: Any
    b_head: Any
    W_last: Any
    b_last: Any


class Shape(NamedTuple):
    """The sizes that all else follows from."""

    n: int
    m: int
    rank: int
    thin: int  # columns of N, or 0
    curved: bool  # is there a quadratic term?
    table: tuple[tuple[int, ...], ...]
    kind: int
    features: int
    equality: bool  # is |A z - b| among the features?
    hidden: int
    period: int  # steps between two looks of the controller
    depth: int

    @property
    def form(self) -> int:
        """A quadratic term moves q at every step: then w is a product."""
        return PLAIN if self.curved else THIN if self.thin else FOLLOWED

    def rows(self, lanes: int) -> tuple[list[int], list[int], list[int]]:
        """Of each array of `ONCE`, `STEPS` and `BACK`."""
        n, r, F, H = self.n, self.rank, self.features, self.hidden
        followed, thin = self.form == FOLLOWED, self.form == THIN
        w = self.thin if thin else r
        offset = r if followed or self.equality else 0
        box = n * any(kind == BOX for kind, *_ in self.table)
        gates, kept = GATES.get(self.kind, 0) * H, KEPT.get(self.kind, 0) * H
        once = dict.fromkeys(ONCE, 1) | dict(
            b=self.m, c=n, Q=n * self.curved, lower=box, upper=box, d=r, p=n * thin,
            q=r * followed, a=r * followed, t=n, w=w, g=n * self.curved, first=3, raw=3,
            held=3, spread=2 * n * (lanes == 1),
        )  # fmt: skip
        steps = dict(
            z=n, v=n, o=offset, seen=5, hidden=H * (self.kind != DIRECT), e=n,
            saved=saved_rows(self.table), phi=F, gates=gates, kept=kept, inner=H, action=3,
            slope=3, follows=3,
        )  # fmt: skip
        back = dict.fromkeys(BACK, 1) | dict(
            z=n, v=n, e=n, t=n, moved=n, through=n, w=w, o=offset, a=r * followed, c=n, d=r,
            p=n * thin, q=r * followed, seen=5, action=3, raw=3, phi=F, gates=gates, inner=H,
            hidden=H * (self.kind != DIRECT), cell=kept, held=3, b=self.m,
        )  # fmt: skip
        return [once[x] for x in ONCE], [steps[x] for x in STEPS], [back[x] for x in BACK]

    @cache  # noqa: B019, a tuple of numbers, of which a process has few
    def starts(self, places: int, lanes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each array begins in its buffer, in rows; the last is where the buffer ends."""
        once, steps, back = self.rows(lanes)
        ends = np.cumsum([0, *once])
        later = ends[-1] + places * np.cumsum([0, *steps])
        return ends, later, np.cumsum([0, *back])


#: Lanes of a tile, a multiple of which vectors of every processor take; one instance has one.
FEWEST, MOST = 16, 64


def lanes_for(batch: int) -> int:
    """The lanes of the tiles of a batch; the last tile may have fewer, see `lanes_left`."""
    return 1 if batch == 1 else MOST


@inlined
def lanes_left(lanes, left):  # type: ignore[no-untyped-def]
    """The lanes of a tile that `left` instances are left for."""
    return min(lanes, -(-left // FEWEST) * FEWEST)


@compiled
def open_tape(buffer, once, steps, places, lanes):  # type: ignore[no-untyped-def]
    """The arrays of a tile; `once` and `steps` say where they begin, see `Shape.starts`."""

    def row(i):  # type: ignore[no-untyped-def]
        part = buffer[once[i] * lanes : once[i + 1] * lanes]
        return part.reshape((once[i + 1] - once[i], lanes))

    def step(i):  # type: ignore[no-untyped-def]
        part = buffer[steps[i] * lanes : steps[i + 1] * lanes]
        return part.reshape((places, (steps[i + 1] - steps[i]) // places, lanes))

    return Once(
        row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7), row(8), row(9), row(10),
        row(11), row(12)[0], row(13)[0], row(14)[0], row(15)[0], row(16)[0], row(17), row(18),
        row(19), row(20).reshape((2, row(20).size // 2)),
    ), Steps(
        step(0), step(1), step(2), step(3), step(4), step(5), step(6), step(7), step(8), step(9),
        step(10), step(11), step(12), step(13),
    )  # fmt: skip


@compiled
def open_back(buffer, starts, lanes):  # type: ignore[no-untyped-def]
    """The arrays that the pass back works with."""

    def row(i):  # type: ignore[no-untyped-def]
        part = buffer[starts[i] * lanes : starts[i + 1] * lanes]
        return part.reshape((starts[i + 1] - starts[i], lanes))

    return Back(
        row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7), row(8), row(9), row(10),
        row(11), row(12), row(13)[0], row(14)[0], row(15)[0], row(16)[0], row(17)[0], row(18)[0],
        row(19)[0], row(20), row(21), row(22), row(23), row(24), row(25), row(26), row(27),
        row(28), row(29),
    )  # fmt: skip
