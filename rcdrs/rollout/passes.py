"""The two passes over a tile: K steps with their controller, and back.

They read like the algorithm; the pieces they call stand in `splitting`, `projection` and `control`.
Steps are counted from 0, and place k of an array holds what step k starts from, see `layout`.
"""

from __future__ import annotations

import math

from rcdrs.kernels import compiled
from rcdrs.rollout import control, splitting
from rcdrs.rollout.functions import exp, times, times_transposed
from rcdrs.rollout.layout import (
    DIRECT,
    GIVEN,
    GRU,
    LSTM,
    MLP,
    SCHEDULE,
    lanes_left,
    open_back,
    open_tape,
)
from rcdrs.rollout.projection import project, pull_project
from rcdrs.rollout.splitting import (
    CONSENSUS,
    EQUALITY,
    FOLLOWED,
    OBJECTIVE,
    PLAIN,
    SIZE,
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


@compiled
def backward(  # type: ignore[no-untyped-def]
    groups, lanes, tiles, depth, kind, period, form, equality, starts, problem, policy, weights,
    scratch, buffers, g_state, g_moved, g_actions, needs,
    g_b, g_c, g_z0, g_u0, g_given, g_weights,
):  # fmt: skip
    """The gradients of the tiles of the groups from `groups[0]` to `groups[1]`.

    Group i has the tiles i, i + count, ..., and its own gradients of the weights: the sums are the
    same whatever the number of threads.  `needs` says whether b, c and the start have a gradient.
    """
    b_needs, c_needs, start_needs = needs
    places = depth + 1
    for group in range(groups[0], groups[1]):
        for tile in range(group, tiles, groups[2]):
            first, last = tile * lanes, min((tile + 1) * lanes, len(g_moved))
            width = lanes_left(lanes, last - first)
            at, s = open_tape(buffers[tile], starts[0], starts[1], places, width)
            d = open_back(scratch, starts[2], width)
            for total in (
                d.c, d.d, d.p, d.q, d.o, d.a, d.seen, d.action, d.hidden, d.cell, d.held
            ):  # fmt: skip
                total[:] = 0
            for total in (d.b_norm, d.c_norm, d.inverse, d.later):
                total[:] = 0
            pull_finish(s.z[depth - 1], s.z[depth], first, last, g_state, g_moved, d)
            for k in range(depth - 1, -1, -1):
                alpha = s.action[k][1]
                exponential(s.action[k][2], at.beta)
                watched = look(k, period) if kind >= GRU else -1
                moves = k + 1 == depth or (kind >= GRU and look(k + 1, period) >= 0)
                pull_step(form, problem, alpha, moves, k, needs, at, s, d)
                if k + 1 == depth:
                    add_rows(g_state[0], first, last, d.z)  # x = z + e
                for j in range(width):
                    d.action[1, j] += d.alpha[j]
                    d.action[2, j] += d.kappa[j] * at.inverse[j] * at.beta[j]
                if kind != GIVEN:
                    add_rows(g_actions[k], first, last, d.action)
                    pull_act(kind, k, watched, policy, weights, g_weights, group, at, s, d)
                if form != FOLLOWED:
                    d.o[:] = 0
                if watched >= 0 and equality:
                    residual = s.seen[watched][EQUALITY]
                    splitting.pull_measure(problem.scale, s.o[k], residual, d.seen[EQUALITY], d.o)
                if (form == FOLLOWED or (equality and watched >= 0)) and (k or start_needs):
                    times(d.z, problem.V, d.o, 1, 1)
                if b_needs and len(d.o):
                    subtract(d.o, d.d)
                if watched >= 0:
                    pull_seen(k, watched, c_needs, at, s, d)
                elif k:
                    d.e[:] = 0
            if kind == GIVEN:  # the same at every step, so that the gradients have added up
                store(d.action[1:], first, last, g_given)
            pull_begin(form, problem, needs, first, last, at, s, d, g_b, g_c, g_z0, g_u0)


@compiled
def pull_finish(z_before, z_end, first, last, g_state, g_moved, d):  # type: ignore[no-untyped-def]
    """The gradients in z, v and e of the last step, and in how far it moved."""
    load_rows(g_state[0], first, d.e)
    load_rows(g_state[1], first, d.z)
    load_rows(g_state[2], first, d.v)
    lanes = range(d.z.shape[1])
    square, scale = d.alpha, d.kappa
    square[:] = 0
    for j in lanes:
        scale[j] = g_moved[first + j] if first + j < last else 0
    for i in range(len(d.z)):
        for j in lanes:
            d.moved[i, j] = z_end[i, j] - z_before[i, j]
        for j in lanes:
            square[j] += d.moved[i, j] * d.moved[i, j]
    for j in lanes:
        square[j] = math.sqrt(square[j])
    splitting.over(scale, square)
    for i in range(len(d.z)):
        for j in range(last - first, d.z.shape[1]):  # beyond the batch
            d.e[i, j] = d.z[i, j] = d.v[i, j] = 0
        for j in lanes:
            d.moved[i, j] *= scale[j]
        for j in lanes:
            d.z[i, j] += d.moved[i, j] - d.v[i, j]


@compiled
def pull_step(form, problem, alpha, moves, k, needs, at, s, d):  # type: ignore[no-untyped-def]
    """From the gradients in z+, v+ and e to those in z and v, alpha and kappa."""
    pull_project(problem.table, at.lower, at.upper, s.v[k + 1], s.saved[k], d.z, d.through)
    splitting.pull_advance(d.through, s.e[k], alpha, d.v, d.e, d.alpha)
    g = direct(s.z[k], at)
    g_t = d.e
    if form == THIN:
        g_t = d.t
        times_transposed(d.w, problem.N, d.e, 0, 1)
        times(d.t, problem.N, d.w, 0, 1)
    else:
        times_transposed(d.w, problem.V, d.e, 0, -1)
        if form == PLAIN:
            g_t = d.t
            copy(d.e, d.t)
            times(d.t, problem.V, d.w, 1, 1)
    splitting.pull_aim(g_t, d.e, d.moved, g, moves, d.z, d.v, d.kappa)
    if form == FOLLOWED:
        splitting.pull_follow(
            s.o[k], at.q, d.w, at.kappa, alpha, d.o, d.a, d.alpha, d.kappa
        )  # fmt: skip
    if needs[0] and form == THIN:
        add(d.e, d.p)
    if needs[0] and form == PLAIN:
        subtract(d.w, d.d)
    if len(at.Q):
        pull_direct(g, g_t, at, d, needs[1])
    elif needs[1]:
        subtract_scaled(g_t, at.kappa, d.c)
        if form == FOLLOWED:
            subtract_scaled(d.w, at.kappa, d.q)
        for j in range(len(d.inverse)):
            d.inverse[j] += d.kappa[j] * at.beta[j]


@compiled
def pull_direct(g, g_t, at, d, c_needs):  # type: ignore[no-untyped-def]
    """With a quadratic term: what kappa and its gradient pass on to z and c."""
    lanes = range(g.shape[1])
    scale = d.before  # of g, through its length: free until the features are pulled
    for j in lanes:
        length = 1 / at.inverse[j] - at.inverse.dtype.type(EPSILON_C)
        scale[j] = -d.kappa[j] * at.beta[j] * at.inverse[j] * at.inverse[j]
        scale[j] = scale[j] / max(length, at.inverse.dtype.type(1e-30))
    for i in range(len(g)):
        for j in lanes:
            d.through[i, j] = scale[j] * g[i, j] - at.kappa[j] * g_t[i, j]
        for j in lanes:
            d.z[i, j] += at.Q[i, j] * d.through[i, j]
        if c_needs:
            for j in lanes:
                d.c[i, j] += d.through[i, j]


@compiled
def pull_act(kind, k, watched, policy, weights, g_weights, group, at, s, d):  # type: ignore[no-untyped-def]
    """From the gradient in the action to those in the weights, in what was seen, and in the last
    action, which takes its place.  That of a correction adds up until its look is reached."""
    for i in range(3):
        for j in range(d.raw.shape[1]):
            d.raw[i, j] = d.action[i, j] * s.slope[k, i, j]
        for j in range(d.raw.shape[1]):
            d.action[i, j] *= s.follows[k, i, j]
    if g_weights.schedule.shape[1]:
        row = min(k, len(weights.schedule) - 1)
        control.add_sums(g_weights.schedule[group][row], d.raw)
    if kind == SCHEDULE:
        return
    add(d.raw, d.held)
    if watched < 0:
        return
    h, h_next = s.hidden[watched], s.hidden[watched + 1]
    phi, gates = s.phi[watched], s.gates[watched]
    seen_by_head, g_seen = (phi, d.phi) if kind == DIRECT else (h_next, d.hidden)
    if kind == DIRECT:
        d.phi[:] = 0
    control.pull_decide(
        weights.W_head, weights.W_last, seen_by_head, s.inner[watched], d.held,
        g_weights.W_head[group], g_weights.b_head[group],
        g_weights.W_last[group], g_weights.b_last[group], d.inner, g_seen,
    )  # fmt: skip
    d.held[:] = 0
    W, U = weights.W, weights.U
    totals = (g_weights.W[group], g_weights.U[group], g_weights.b_W[group], g_weights.b_U[group])
    if kind == GRU:
        control.pull_gru(W, U, phi, h, gates, s.kept[watched], d.hidden, *totals, d.gates, d.phi)
    elif kind == LSTM:
        control.pull_lstm(
            W, U, phi, h, s.kept[watched], gates, s.kept[watched + 1], d.hidden, d.cell, *totals,
            d.gates, d.phi,
        )  # fmt: skip
    elif kind == MLP:
        control.pull_mlp(W, U, phi, gates, h_next, d.hidden, *totals, d.gates, d.phi)
    before = s.seen[watched - 1 if watched else 0][OBJECTIVE]
    control.pull_features(
        policy.kept, s.seen[watched], before, at.b_norm, at.c_norm, d.phi,
        d.seen, d.before, d.action, d.b_norm, d.c_norm,
    )  # fmt: skip


@compiled
def pull_seen(k, watched, c_needs, at, s, d):  # type: ignore[no-untyped-def]
    """From the gradients in what was seen before step k to those in its z and in the e before."""
    g, z, lanes = at.c, s.z[k], range(len(d.later))
    if len(at.Q):
        g = at.g
        for i in range(len(g)):
            for j in lanes:
                g[i, j] = at.c[i, j] + at.Q[i, j] * z[i, j]
    for j in lanes:
        d.seen[OBJECTIVE, j] += d.later[j] + (d.before[j] if watched == 0 else 0)
        d.later[j] = d.before[j]
    if k:
        d.e[:] = 0
        splitting.pull_observe(
            s.z[k - 1], z, s.e[k - 1], g, s.seen[watched], d.seen, d.z, d.e, d.moved
        )
    else:
        splitting.over(d.seen[SIZE], s.seen[0][SIZE])
        for i in range(len(z)):
            for j in lanes:
                d.z[i, j] += z[i, j] * d.seen[SIZE, j] + g[i, j] * d.seen[OBJECTIVE, j]
    if c_needs:
        for i in range(len(z)):
            for j in lanes:
                d.c[i, j] += z[i, j] * d.seen[OBJECTIVE, j]


@compiled
def pull_begin(form, problem, needs, first, last, at, s, d, g_b, g_c, g_z0, g_u0):  # type: ignore[no-untyped-def]
    """The gradients in b, c and the start."""
    b_needs, c_needs, start_needs = needs
    if b_needs:
        if form == FOLLOWED:
            subtract(d.a, d.d)
        if form == THIN:
            times_transposed(d.d, problem.V, d.p, 1, 1)
        splitting.over(d.b_norm, at.b_norm)
        for i in range(len(d.b)):
            for j in range(len(d.b_norm)):
                d.b[i, j] = at.b[i, j] * d.b_norm[j]
        times_transposed(d.b, problem.target, d.d, 1, 1)
        unload(d.b, first, last, g_b)
    if c_needs:
        if form == FOLLOWED:
            times(d.c, problem.V, d.q, 1, 1)
        for j in range(len(d.c_norm)):
            d.c_norm[j] -= d.inverse[j] * at.inverse[j] * at.inverse[j]
        splitting.over(d.c_norm, at.c_norm)
        add_scaled(d.c, d.c_norm, at.c, d.c)
        unload(d.c, first, last, g_c)
    if start_needs:
        if form == FOLLOWED:
            times(d.v, problem.V, d.a, 1, 1)
        add(d.v, d.z)
        unload(d.z, first, last, g_z0)
        unload(d.v, first, last, g_u0)


# Between the batch and its tiles.


@compiled
def offset(V, x, d, out):  # type: ignore[no-untyped-def]
    """``V'x - d``."""
    copy(d, out)
    times_transposed(out, V, x, -1, 1)


# Loops, since numba copies one side of an assignment between arrays.


@compiled
def copy(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


@compiled
def add(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] += x[i, j]


@compiled
def subtract(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] -= x[i, j]


@compiled
def exponential(x, out):  # type: ignore[no-untyped-def]
    for j in range(len(x)):
        out[j] = exp(x[j])


@compiled
def lengths(x, out):  # type: ignore[no-untyped-def]
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j] * x[i, j]
    for j in range(len(out)):
        out[j] = math.sqrt(out[j])


@compiled
def load(batch, first, out):  # type: ignore[no-untyped-def]
    """The instances from `first` on, (instances, rows), as lanes; the last one fills the rest."""
    if len(batch) == 0:
        return
    for start in range(0, out.shape[1], 16):  # so many rows of the batch are read side by side
        stop = min(start + 16, out.shape[1])
        for i in range(out.shape[0]):
            for j in range(start, stop):
                out[i, j] = batch[min(first + j, len(batch) - 1), i]


@compiled
def unload(lanes, first, last, batch):  # type: ignore[no-untyped-def]
    for i in range(lanes.shape[0]):
        for j in range(last - first):
            batch[first + j, i] = lanes[i, j]


@compiled
def load_rows(rows, first, out):  # type: ignore[no-untyped-def]
    """As `load`, of an array whose last axis is the batch."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = rows[i, min(first + j, rows.shape[1] - 1)]


@compiled
def add_rows(rows, first, last, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for j in range(last - first):
            out[i, j] += rows[i, first + j]


@compiled
def store(lanes, first, last, rows):  # type: ignore[no-untyped-def]
    for i in range(lanes.shape[0]):
        for j in range(last - first):
            rows[i, first + j] = lanes[i, j]
