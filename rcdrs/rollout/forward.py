"""The pass over a tile: K steps with their controller.

It reads like the algorithm; the pieces it calls stand in `splitting`, `projection` and `control`.
Steps are counted from 0, and place k of an array holds what step k starts from, see `layout`.
"""

from __future__ import annotations

import math

from rcdrs.kernels import compiled
from rcdrs.rollout import control, splitting
from rcdrs.rollout.functions import times, times_transposed
from rcdrs.rollout.layout import GIVEN, GRU, LSTM, MLP, lanes_left, open_tape
from rcdrs.rollout.loops import add, exponential, lengths, load, load_rows, offset, store
from rcdrs.rollout.projection import project
from rcdrs.rollout.splitting import (
    CONSENSUS,
    EQUALITY,
    FOLLOWED,
    OBJECTIVE,
    PLAIN,
    THIN,
    add_scaled,
    lengthwise,
    subtract_scaled,
)
from rcdrs.solver.fused import EPSILON_C


@compiled
def forward(  # type: ignore[no-untyped-def]
    tiles, lanes, places, depth, kind, period, form, equality, save, starts, problem, policy,
    weights, b, c, Q, lower, upper, z0, u0, given, buffers, state, moved, bad, actions,
):  # fmt: skip
    """Solve the tiles from `tiles[0]` to `tiles[1]`; the batch is the first axis of b, c, Q, the
    bounds and the start, and the last one of what is returned.

    Where it is to `save` what the pass back needs, each tile has a buffer of its own.  Returns how
    many instances overflowed.
    """
    lost = 0
    for tile in range(tiles[0], tiles[1]):
        buffer = buffers[tile if save else 0]
        first, last = tile * lanes, min((tile + 1) * lanes, len(b))
        at, s = open_tape(buffer, starts[0], starts[1], places, lanes_left(lanes, last - first))
        load(b, first, at.b)
        load(c, first, at.c)
        load(Q, first, at.Q)
        load_rows(lower, first, at.lower)
        load_rows(upper, first, at.upper)
        begin(form, equality, problem, policy, z0, u0, first, at, s)
        for k in range(depth):
            here, there = k % places, (k + 1) % places
            if kind == GIVEN:
                load_rows(given, first, s.action[here][1:])
            else:
                act(kind, k, depth, places, look(k, period), policy, weights, at, s)
                store(s.action[here], first, last, actions[k])
            exponential(s.action[here][2], at.beta)
            step(form, problem, s.action[here][1], at, s, here, there)
            if k + 1 == depth:
                break
            watched = look(k + 1, period)
            if form == FOLLOWED or (equality and watched >= 0):
                offset(problem.V, s.z[there], at.d, s.o[there])
            if kind >= GRU and watched >= 0:
                seen = s.seen[watched % places]
                splitting.observe(s.z[here], s.z[there], s.e[here], at.c, at.Q, seen)
                if equality:
                    splitting.measure(problem.scale, s.o[there], seen[EQUALITY])
        here, there = (depth - 1) % places, depth % places
        lost += finish(
            s.z[here], s.z[there], s.v[there], s.e[here], first, last, at, state, moved, bad
        )
    return lost


@compiled
def look(k, period):  # type: ignore[no-untyped-def]
    """The number of the controller's look before step k, or -1 where it takes none: it looks at
    every `period`-th step, and its correction of the schedule holds until the next."""
    return (k + 1) // period - 1 if (k + 1) % period == 0 else -1


@compiled
def begin(form, equality, problem, policy, z0, u0, first, at, s):  # type: ignore[no-untyped-def]
    """What a tile needs once, and its first state: z0 and u0, or zero where these have no rows."""
    lengths(at.b, at.b_norm)
    lengths(at.c, at.c_norm)
    for j in range(len(at.inverse)):
        at.inverse[j] = 1 / (at.c_norm[j] + at.inverse.dtype.type(EPSILON_C))
    z, v = s.z[0], s.v[0]
    z[:] = 0
    v[:] = 0
    if len(z0):
        load(z0, first, z)
        load(u0, first, v)
        add(z, v)
    times(at.d, problem.target, at.b, 0, 1)
    if form == THIN:
        times(at.p, problem.V, at.d, 0, 1)
    if form == FOLLOWED:
        times_transposed(at.q, problem.V, at.c, 0, 1)
        offset(problem.V, v, at.d, at.a)
    for i in range(3):
        at.first[i] = policy.base[i]
    at.held[:] = 0
    s.hidden[0] = 0
    s.kept[0] = 0
    seen = s.seen[0]
    splitting.observe(z, z, z, at.c, at.Q, seen)
    seen[CONSENSUS] = 0
    if form == FOLLOWED or equality:
        offset(problem.V, z, at.d, s.o[0])
        splitting.measure(problem.scale, s.o[0], seen[EQUALITY])


@compiled
def act(kind, k, depth, places, watched, policy, weights, at, s):  # type: ignore[no-untyped-def]
    """The action of step k, from the schedule, from what is seen, or from both."""
    here = k % places
    previous = s.action[(k - 1) % places] if k else at.first
    at.raw[:] = 0
    if len(weights.schedule):
        row = weights.schedule[min(k, len(weights.schedule) - 1)]
        for i in range(3):
            at.raw[i] = row[i]
    if kind >= GRU and watched >= 0:
        now, after = watched % places, (watched + 1) % places
        before = (watched - 1 if watched else 0) % places
        elapsed = at.raw.dtype.type(k / depth)
        control.features(
            policy.kept, s.seen[now], s.seen[before][OBJECTIVE], previous, policy.base,
            at.b_norm, at.c_norm, elapsed, s.phi[now],
        )  # fmt: skip
        h, h_next, gates = s.hidden[now], s.hidden[after], s.gates[now]
        seen_by_head = h_next
        encoder = (weights.W, weights.U, weights.b_W, weights.b_U, s.phi[now])
        if kind == GRU:
            control.encode_gru(*encoder, h, gates, s.kept[now], h_next)
        elif kind == LSTM:
            control.encode_lstm(*encoder, h, s.kept[now], gates, s.kept[after], h_next)
        elif kind == MLP:
            control.encode_mlp(*encoder, gates, h_next)
        else:
            seen_by_head = s.phi[now]
        at.held[:] = 0
        control.decide(
            weights.W_head, weights.b_head, weights.W_last, weights.b_last,
            seen_by_head, s.inner[now], at.held,
        )  # fmt: skip
    add(at.held, at.raw)
    control.admit(
        at.raw, previous, policy.controlled, policy.base, policy.low, policy.high, policy.growth,
        policy.radius[k], s.action[here], s.slope[here], s.follows[here],
    )  # fmt: skip


@compiled
def step(form, problem, alpha, at, s, here, there):  # type: ignore[no-untyped-def]
    """One step of eq. (4), as at the top of `splitting`."""
    g = direct(s.z[here], at)
    z, v, e = lengthwise(s.z[here]), lengthwise(s.v[here]), lengthwise(s.e[here])
    g, p, t = lengthwise(g), lengthwise(at.p), lengthwise(at.t)
    kappa, alpha_ = spread(at.kappa, at.spread[0]), spread(alpha, at.spread[1])
    if form == FOLLOWED:
        splitting.follow(s.o[here], at.a, at.q, at.kappa, at.w)
        subtract_scaled(s.o[here], alpha, at.a)
    else:
        splitting.aim(z, v, g, kappa, t)
    splitting.depart(form, p, t, z, v, g, kappa, e)
    if form == THIN:
        times_transposed(at.w, problem.N, at.t, 0, 1)
        times(s.e[here], problem.N, at.w, 1, 1)
    else:
        if form == PLAIN:
            offset(problem.V, at.t, at.d, at.w)
        times(s.e[here], problem.V, at.w, 1, -1)
    add_scaled(v, alpha_, e, lengthwise(s.v[there]))
    project(problem.table, at.lower, at.upper, s.v[there], s.saved[here], s.z[there])


@compiled
def spread(value, out):  # type: ignore[no-untyped-def]
    """A value per instance as one per lane, see `lengthwise`."""
    if len(value) > 1:
        return value
    out[:] = value[0]
    return out


@compiled
def direct(z, at):  # type: ignore[no-untyped-def]
    """The gradient of the objective at z, and the drive ``kappa = beta / (|gradient| + eps_c)``."""
    g = at.c
    if len(at.Q):
        g = at.g
        for i in range(len(g)):
            for j in range(g.shape[1]):
                g[i, j] = at.c[i, j] + at.Q[i, j] * z[i, j]
        lengths(g, at.inverse)
        for j in range(len(at.inverse)):
            at.inverse[j] = 1 / (at.inverse[j] + at.inverse.dtype.type(EPSILON_C))
    for j in range(len(at.kappa)):
        at.kappa[j] = at.beta[j] * at.inverse[j]
    return g


@compiled
def finish(z_before, z_end, v_end, e, first, last, at, state, moved, bad):  # type: ignore[no-untyped-def]
    """Write the terminal state, and whether an instance has a number that is not finite."""
    square, total = at.kappa, at.beta
    square[:] = 0
    total[:] = 0
    for i in range(len(z_end)):
        for j in range(last - first):
            state[0, i, first + j] = z_before[i, j] + e[i, j]
        for j in range(last - first):
            state[1, i, first + j] = z_end[i, j]
        for j in range(last - first):
            state[2, i, first + j] = v_end[i, j] - z_end[i, j]
        for j in range(len(square)):
            square[j] += (z_end[i, j] - z_before[i, j]) * (z_end[i, j] - z_before[i, j])
        for j in range(len(total)):
            total[j] += abs(v_end[i, j]) + abs(e[i, j])
    lost = 0
    for j in range(last - first):
        moved[first + j] = math.sqrt(square[j])
        bad[first + j] = not math.isfinite(square[j] + total[j] + at.b_norm[j] + at.c_norm[j])
        lost += bad[first + j]
    return lost
