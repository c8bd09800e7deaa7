"""The pieces of the controller on a tile, each with its derivative below it.

`controller` has the same formulas as torch modules, one a file, and says what they mean; here they
are loops over the lanes of a tile.  Arrays are (rows, lanes), per-instance values (lanes,); weights
have the shapes of their modules.
"""

from __future__ import annotations

import math

from rcdrs.controller.config import FEATURES
from rcdrs.kernels import compiled
from rcdrs.rollout.functions import add_outer, asinh, log1p, sigmoid, times, times_transposed
from rcdrs.rollout.splitting import CONSENSUS, EQUALITY, MOVEMENT, OBJECTIVE, SIZE

CON, EQ, DZ, OBJ, DOBJ, RHO, ALPHA, BETA, ELAPSED, LEFT = range(len(FEATURES))


@compiled
def features(kept, seen, before, previous, base, b_norm, c_norm, elapsed, phi):  # type: ignore[no-untyped-def]
    """The features of the indices `kept`; `before` is the last objective."""
    one = phi.dtype.type(1)
    lanes = range(phi.shape[1])
    for i in range(len(kept)):
        name = kept[i]
        if name == CON:
            for j in lanes:
                phi[i, j] = log1p(seen[CONSENSUS, j] / (one + seen[SIZE, j]))
        elif name == EQ:
            for j in lanes:
                phi[i, j] = log1p(seen[EQUALITY, j] / (one + b_norm[j]))
        elif name == DZ:
            for j in lanes:
                phi[i, j] = log1p(seen[MOVEMENT, j] / (one + seen[SIZE, j]))
        elif name == OBJ:
            for j in lanes:
                phi[i, j] = log1p(abs(seen[OBJECTIVE, j]) / (one + c_norm[j] * seen[SIZE, j]))
        elif name == DOBJ:
            for j in lanes:
                phi[i, j] = asinh((seen[OBJECTIVE, j] - before[j]) / (one + abs(before[j])))
        elif name in (ELAPSED, LEFT):
            share = elapsed if name == ELAPSED else one - elapsed
            for j in lanes:
                phi[i, j] = share
        else:
            shift = base[name - RHO] if name != ALPHA else base[0] - base[0]
            for j in lanes:
                phi[i, j] = previous[name - RHO, j] - shift


@compiled
def pull_features(  # type: ignore[no-untyped-def]
    kept, seen, before, b_norm, c_norm, g_phi, g_seen, g_before, g_previous, g_b_norm, g_c_norm
):
    """Set the gradients in the observations; add to those in the last action and the norms."""
    one, zero = g_phi.dtype.type(1), g_phi.dtype.type(0)
    lanes = range(g_phi.shape[1])
    for j in lanes:
        g_before[j] = zero
    for row in range(5):
        for j in lanes:
            g_seen[row, j] = zero
    for i in range(len(kept)):
        name = kept[i]
        # log(1 + p/q): (dp - p/q dq) / (p + q)
        if name in (CON, DZ):
            row = CONSENSUS if name == CON else MOVEMENT
            for j in lanes:
                q = one + seen[SIZE, j]
                g = g_phi[i, j] / (seen[row, j] + q)
                g_seen[row, j] = g
                g_seen[SIZE, j] -= g * seen[row, j] / q
        elif name == EQ:
            for j in lanes:
                q = one + b_norm[j]
                g = g_phi[i, j] / (seen[EQUALITY, j] + q)
                g_seen[EQUALITY, j] = g
                g_b_norm[j] -= g * seen[EQUALITY, j] / q
        elif name == OBJ:
            for j in lanes:
                p, q = abs(seen[OBJECTIVE, j]), one + c_norm[j] * seen[SIZE, j]
                g = g_phi[i, j] / (p + q)
                g_seen[OBJECTIVE, j] += g * sign(seen[OBJECTIVE, j])
                g_seen[SIZE, j] -= g * p / q * c_norm[j]
                g_c_norm[j] -= g * p / q * seen[SIZE, j]
        elif name == DOBJ:
            for j in lanes:
                scale = one + abs(before[j])
                change = (seen[OBJECTIVE, j] - before[j]) / scale
                g = g_phi[i, j] / (math.sqrt(one + change * change) * scale)
                g_seen[OBJECTIVE, j] += g
                g_before[j] -= g * (one + change * sign(before[j]))
        elif name != ELAPSED and name != LEFT:
            for j in lanes:
                g_previous[name - RHO, j] += g_phi[i, j]


@compiled
def sign(x):  # type: ignore[no-untyped-def]
    return type(x)((x > 0) - (x < 0))


# Activations run over all numbers of an array in a row; biases are there before the products.


@compiled
def fill_rows(out, bias):  # type: ignore[no-untyped-def]
    """A number a row."""
    if out.shape[1] == 1:
        row = out.reshape(len(out))
        for i in range(len(out)):
            row[i] = bias[i]
        return
    for i in range(len(out)):
        for j in range(out.shape[1]):
            out[i, j] = bias[i]


@compiled
def add_bias(out, bias):  # type: ignore[no-untyped-def]
    if out.shape[1] == 1:
        row = out.reshape(len(out))
        for i in range(len(out)):
            row[i] += bias[i]
        return
    for i in range(len(out)):
        for j in range(out.shape[1]):
            out[i, j] += bias[i]


@compiled
def sigmoid_of(x):  # type: ignore[no-untyped-def]
    flat = x.reshape(x.size)
    for i in range(len(flat)):
        flat[i] = sigmoid(flat[i])


@compiled
def tanh_of(x):  # type: ignore[no-untyped-def]
    flat, one, two = x.reshape(x.size), x.dtype.type(1), x.dtype.type(2)
    for i in range(len(flat)):
        flat[i] = two * sigmoid(two * flat[i]) - one


@compiled
def encode_gru(W, U, b_W, b_U, phi, h, gates, inner, h_next):  # type: ignore[no-untyped-def]
    """``r, u = sigmoid(W phi + b_W + U h + b_U)``, ``n = tanh(W phi + b_W + r (U h + b_U))``,
    ``h+ = (1 - u) n + u h``; the gates r, u, n are three times as many rows as h."""
    H = len(h)
    ru, n = gates[: 2 * H], gates[2 * H :]
    fill_rows(gates, b_W)
    add_bias(ru, b_U[: 2 * H])
    fill_rows(inner, b_U[2 * H :])
    times(gates, W, phi, 1, 1)
    times(ru, U[: 2 * H], h, 1, 1)
    times(inner, U[2 * H :], h, 1, 1)
    sigmoid_of(ru)
    r, u = gates[:H].reshape(h.size), gates[H : 2 * H].reshape(h.size)
    n_, before, after = n.reshape(h.size), h.reshape(h.size), h_next.reshape(h.size)
    held = inner.reshape(h.size)
    for i in range(h.size):
        n_[i] += r[i] * held[i]
    tanh_of(n)
    for i in range(h.size):
        after[i] = n_[i] + u[i] * (before[i] - n_[i])


@compiled
def pull_gru(  # type: ignore[no-untyped-def]
    W, U, phi, h, gates, inner, g_h, g_W, g_U, g_b_W, g_b_U, g_gates, g_phi
):
    """g_h, the gradient in h+, becomes that in h."""
    H, one = len(h), h.dtype.type(1)
    lanes = range(h.shape[1])
    for i in range(H):
        u, n = H + i, 2 * H + i
        for j in lanes:
            g_gates[n, j] = g_h[i, j] * (one - gates[u, j]) * (one - gates[n, j] * gates[n, j])
        for j in lanes:
            slope = gates[u, j] * (one - gates[u, j])
            g_gates[u, j] = (h[i, j] - gates[n, j]) * g_h[i, j] * slope
        for j in lanes:
            slope = gates[i, j] * (one - gates[i, j])
            g_gates[i, j] = g_gates[n, j] * inner[i, j] * slope
        for j in lanes:
            g_h[i, j] *= gates[u, j]
    add_outer(g_W, g_gates, phi)
    add_sums(g_b_W, g_gates)
    times_transposed(g_phi, W, g_gates, 0, 1)
    for i in range(H):  # from here on the gates' gradients belong to U h + b_U
        for j in lanes:
            g_gates[2 * H + i, j] *= gates[i, j]
    add_outer(g_U, g_gates, h)
    add_sums(g_b_U, g_gates)
    times_transposed(g_h, U, g_gates, 1, 1)


@compiled
def encode_lstm(W, U, b_W, b_U, phi, h, cell, gates, cell_next, h_next):  # type: ignore[no-untyped-def]
    """``i, f, o = sigmoid(..)``, ``g = tanh(..)`` of ``W phi + b_W + U h + b_U``, in rows i, f, g,
    o; ``cell+ = f cell + i g``, ``h+ = o tanh(cell+)``."""
    H, one, two = len(h), h.dtype.type(1), h.dtype.type(2)
    fill_rows(gates, b_W)
    add_bias(gates, b_U)
    times(gates, W, phi, 1, 1)
    times(gates, U, h, 1, 1)
    sigmoid_of(gates[: 2 * H])
    tanh_of(gates[2 * H : 3 * H])
    sigmoid_of(gates[3 * H :])
    i, f = gates[:H].reshape(h.size), gates[H : 2 * H].reshape(h.size)
    g, o = gates[2 * H : 3 * H].reshape(h.size), gates[3 * H :].reshape(h.size)
    c, c_next, out = cell.reshape(h.size), cell_next.reshape(h.size), h_next.reshape(h.size)
    for j in range(h.size):
        c_next[j] = f[j] * c[j] + i[j] * g[j]
    for j in range(h.size):
        out[j] = o[j] * (two * sigmoid(two * c_next[j]) - one)


@compiled
def pull_lstm(  # type: ignore[no-untyped-def]
    W, U, phi, h, cell, gates, cell_next, g_h, g_cell, g_W, g_U, g_b_W, g_b_U, g_gates, g_phi
):
    """g_h and g_cell, the gradients in h+ and cell+, become those in h and cell."""
    H, one, two = len(h), h.dtype.type(1), h.dtype.type(2)
    lanes = range(h.shape[1])
    for i in range(H):
        f, g, o = H + i, 2 * H + i, 3 * H + i
        for j in lanes:
            t = two * sigmoid(two * cell_next[i, j]) - one
            g_gates[o, j] = g_h[i, j] * t * gates[o, j] * (one - gates[o, j])
        for j in lanes:
            t = two * sigmoid(two * cell_next[i, j]) - one
            g_cell[i, j] += g_h[i, j] * gates[o, j] * (one - t * t)
        for j in lanes:
            g_gates[i, j] = g_cell[i, j] * gates[g, j] * gates[i, j] * (one - gates[i, j])
        for j in lanes:
            g_gates[f, j] = g_cell[i, j] * cell[i, j] * gates[f, j] * (one - gates[f, j])
        for j in lanes:
            g_gates[g, j] = g_cell[i, j] * gates[i, j] * (one - gates[g, j] * gates[g, j])
        for j in lanes:
            g_cell[i, j] *= gates[f, j]
    add_outer(g_W, g_gates, phi)
    add_outer(g_U, g_gates, h)
    add_sums(g_b_W, g_gates)
    add_sums(g_b_U, g_gates)
    times_transposed(g_phi, W, g_gates, 0, 1)
    times_transposed(g_h, U, g_gates, 0, 1)


@compiled
def encode_mlp(W, U, b_W, b_U, phi, first, h):  # type: ignore[no-untyped-def]
    """``first = tanh(W phi + b_W)``, ``h = tanh(U first + b_U)``."""
    fill_rows(first, b_W)
    times(first, W, phi, 1, 1)
    tanh_of(first)
    fill_rows(h, b_U)
    times(h, U, first, 1, 1)
    tanh_of(h)


@compiled
def pull_mlp(  # type: ignore[no-untyped-def]
    W, U, phi, first, h, g_h, g_W, g_U, g_b_W, g_b_U, g_first, g_phi
):
    one = h.dtype.type(1)
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            g_h[i, j] *= one - h[i, j] * h[i, j]
    add_outer(g_U, g_h, first)
    add_sums(g_b_U, g_h)
    times_transposed(g_first, U, g_h, 0, 1)
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            g_first[i, j] *= one - first[i, j] * first[i, j]
    add_outer(g_W, g_first, phi)
    add_sums(g_b_W, g_first)
    times_transposed(g_phi, W, g_first, 0, 1)
    g_h[:] = 0  # no memory


@compiled
def decide(W, b, W_last, b_last, h, inner, raw):  # type: ignore[no-untyped-def]
    """The head: ``inner = relu(W h + b)``, and add ``W_last inner + b_last`` to raw."""
    zero, flat = h.dtype.type(0), inner.reshape(inner.size)
    fill_rows(inner, b)
    times(inner, W, h, 1, 1)
    for i in range(len(flat)):
        flat[i] = zero if flat[i] < zero else flat[i]
    add_bias(raw, b_last)
    times(raw, W_last, inner, 1, 1)


@compiled
def pull_decide(  # type: ignore[no-untyped-def]
    W, W_last, h, inner, g_raw, g_W, g_b, g_W_last, g_b_last, g_inner, g_h
):
    """Add to the gradients in h and the weights."""
    zero = h.dtype.type(0)
    add_outer(g_W_last, g_raw, inner)
    add_sums(g_b_last, g_raw)
    times_transposed(g_inner, W_last, g_raw, 0, 1)
    for i in range(inner.shape[0]):
        for j in range(inner.shape[1]):
            g_inner[i, j] = g_inner[i, j] if inner[i, j] > zero else zero
    add_outer(g_W, g_inner, h)
    add_sums(g_b, g_inner)
    times_transposed(g_h, W, g_inner, 1, 1)


@compiled
def add_sums(out, g):  # type: ignore[no-untyped-def]
    """``out += g 1``: the gradient in a bias, summed over the lanes; none where out is empty."""
    for i in range(len(out)):
        total = out[i]
        for j in range(g.shape[1]):
            total += g[i, j]
        out[i] = total


@compiled
def admit(raw, previous, controlled, base, low, high, growth, radius, action, slope, follows):  # type: ignore[no-untyped-def]
    """`ActionMap`: the admissible action, its slope in raw, and whether it follows the last one;
    without an envelope the radius is infinite."""
    zero, one, two = raw.dtype.type(0), raw.dtype.type(1), raw.dtype.type(2)
    lanes = range(raw.shape[1])
    for i in range(raw.shape[0]):
        if not controlled[i]:
            for j in lanes:
                action[i, j] = base[i]
            slope[i] = zero
            follows[i] = zero
            continue
        if radius[i] < math.inf:
            for j in lanes:
                slope[i, j] = two * sigmoid(two * raw[i, j]) - one
            for j in lanes:
                action[i, j] = base[i] + radius[i] * slope[i, j]
            for j in lanes:
                slope[i, j] = radius[i] * (one - slope[i, j] * slope[i, j])
        else:
            span = high[i] - low[i]
            for j in lanes:
                slope[i, j] = sigmoid(raw[i, j])
            for j in lanes:
                action[i, j] = low[i] + span * slope[i, j]
            for j in lanes:
                slope[i, j] = span * slope[i, j] * (one - slope[i, j])
        # Where the growth filter holds the action back, it moves with the last one.
        for j in lanes:
            lower, upper = previous[i, j] - growth[i], previous[i, j] + growth[i]
            held = (action[i, j] < lower and lower > low[i]) or (
                action[i, j] > upper and upper < high[i]
            )
            follows[i, j] = one if held else zero
        for j in lanes:
            lower, upper = previous[i, j] - growth[i], previous[i, j] + growth[i]
            least = lower if lower > low[i] else low[i]
            most = upper if upper < high[i] else high[i]
            slope[i, j] = zero if action[i, j] < least or action[i, j] > most else slope[i, j]
        for j in lanes:
            lower, upper = previous[i, j] - growth[i], previous[i, j] + growth[i]
            least = lower if lower > low[i] else low[i]
            most = upper if upper < high[i] else high[i]
            x = least if action[i, j] < least else action[i, j]
            action[i, j] = most if x > most else x
