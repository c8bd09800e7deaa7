"""The pass back over a tile: from the gradients in its terminal state to all others.

It takes the steps of `forward` in reverse; what each function pulls back is in its name.
"""

from __future__ import annotations

import math

from rcdrs.kernels import compiled
from rcdrs.rollout import control, splitting
from rcdrs.rollout.forward import direct, look
from rcdrs.rollout.functions import times, times_transposed
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
from rcdrs.rollout.loops import (
    add,
    add_rows,
    copy,
    exponential,
    load_rows,
    store,
    subtract,
    unload,
)
from rcdrs.rollout.projection import pull_project
from rcdrs.rollout.splitting import (
    EQUALITY,
    FOLLOWED,
    OBJECTIVE,
    PLAIN,
    SIZE,
    THIN,
    add_scaled,
    subtract_scaled,
)
from rcdrs.solver.fused import EPSILON_C


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
