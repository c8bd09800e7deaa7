r"""The pieces of one step on a tile, each with its derivative below it.

With the drive ``kappa = beta / (|c| + eps_c)`` and the gradient g of the objective, c itself where
that is linear, eq. (4) reads in the shadow state ``v = z + u``

    t  = 2 z - v - kappa g
    e  = x+ - z = t - z - V w,     w = V't - d        (or p - z + N w,  w = N't,  where N is thin)
    v+ = v + alpha e,              z+ = Proj_K(v+)

w is a product with V, or follows from the offsets ``o = V'z - d``, ``a = V'v - d`` and ``q = V'c``:

    w  = 2 o - a - kappa q,        a+ = a - alpha o,  o+ = V'z+ - d

so that one product serves the step and ``|A z+ - b| = |S o+|``.  Arrays are (rows, lanes), and
per-instance values (lanes,).  An inner loop writes one array only: with more, LLVM gives up
proving that they do not overlap, and makes no vector code.
"""

from __future__ import annotations

import math

from rcdrs.kernels import compiled

# How w is found, and what it is a coordinate of.
FOLLOWED, PLAIN, THIN = 0, 1, 2
# The rows of an observation.
CONSENSUS, EQUALITY, MOVEMENT, SIZE, OBJECTIVE = 0, 1, 2, 3, 4


@compiled
def aim(z, v, g, kappa, t):  # type: ignore[no-untyped-def]
    """``t = 2 z - v - kappa g``."""
    two = t.dtype.type(2)
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            t[i, j] = two * z[i, j] - v[i, j] - kappa[j] * g[i, j]


@compiled
def follow(o, a, q, kappa, w):  # type: ignore[no-untyped-def]
    """``w = 2 o - a - kappa q``."""
    two = w.dtype.type(2)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            w[i, j] = two * o[i, j] - a[i, j] - kappa[j] * q[i, j]


@compiled
def depart(form, p, t, z, v, g, kappa, e):  # type: ignore[no-untyped-def]
    """e without its product: ``t - z``, or ``p - z`` where the basis is thin."""
    for i in range(e.shape[0]):
        if form == THIN:
            for j in range(e.shape[1]):
                e[i, j] = p[i, j] - z[i, j]
        elif form == PLAIN:
            for j in range(e.shape[1]):
                e[i, j] = t[i, j] - z[i, j]
        else:
            for j in range(e.shape[1]):
                e[i, j] = z[i, j] - v[i, j] - kappa[j] * g[i, j]


@compiled
def add_scaled(x, scale, y, out):  # type: ignore[no-untyped-def]
    """``out = x + scale y``, with a scale per instance."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i, j] + scale[j] * y[i, j]


@compiled
def observe(z, z_next, e, c, Q, seen):  # type: ignore[no-untyped-def]
    """Of the new state: ``|x - z|``, ``|z+ - z|``, ``|z+|`` and the objective."""
    half = seen.dtype.type(0.5)
    if z.shape[1] == 1:
        observe_one(z, z_next, e, c, Q, seen)
        return
    consensus, movement, size, objective = (
        seen[CONSENSUS], seen[MOVEMENT], seen[SIZE], seen[OBJECTIVE],
    )  # fmt: skip
    lanes = range(z.shape[1])
    for row in (CONSENSUS, MOVEMENT, SIZE, OBJECTIVE):
        for j in lanes:
            seen[row, j] = 0
    for i in range(z.shape[0]):
        for j in lanes:
            gap = e[i, j] - (z_next[i, j] - z[i, j])
            consensus[j] += gap * gap
        for j in lanes:
            movement[j] += (z_next[i, j] - z[i, j]) * (z_next[i, j] - z[i, j])
        for j in lanes:
            size[j] += z_next[i, j] * z_next[i, j]
        if len(Q):
            for j in lanes:
                objective[j] += (c[i, j] + half * Q[i, j] * z_next[i, j]) * z_next[i, j]
        else:
            for j in lanes:
                objective[j] += c[i, j] * z_next[i, j]
    for row in (CONSENSUS, MOVEMENT, SIZE):
        for j in lanes:
            seen[row, j] = math.sqrt(seen[row, j])


@compiled
def observe_one(z, z_next, e, c, Q, seen):  # type: ignore[no-untyped-def]
    """`observe` of a single lane, where sums stay in registers."""
    half = seen.dtype.type(0.5)
    consensus = movement = size = objective = seen.dtype.type(0)
    for i in range(len(z)):
        x, moved = z_next[i, 0], z_next[i, 0] - z[i, 0]
        gap = e[i, 0] - moved
        consensus += gap * gap
        movement += moved * moved
        size += x * x
        objective += (c[i, 0] + half * Q[i, 0] * x) * x if len(Q) else c[i, 0] * x
    seen[CONSENSUS, 0], seen[MOVEMENT, 0] = math.sqrt(consensus), math.sqrt(movement)
    seen[SIZE, 0], seen[OBJECTIVE, 0] = math.sqrt(size), objective


@compiled
def lengthwise(x):  # type: ignore[no-untyped-def]
    """A single lane turned into a row: its coordinates then are the lanes of the loops below."""
    return x.reshape((1, x.shape[0])) if x.shape[1] == 1 else x


@compiled
def measure(scale, offset, residual):  # type: ignore[no-untyped-def]
    """``|A z - b| = |S (V'z - d)|`` from the offset."""
    if offset.shape[1] == 1:
        total = residual.dtype.type(0)
        for i in range(offset.shape[0]):
            total += scale[i] * scale[i] * offset[i, 0] * offset[i, 0]
        residual[0] = math.sqrt(total)
        return
    for j in range(offset.shape[1]):
        residual[j] = 0
    for i in range(offset.shape[0]):
        square = scale[i] * scale[i]
        for j in range(offset.shape[1]):
            residual[j] += square * offset[i, j] * offset[i, j]
    for j in range(offset.shape[1]):
        residual[j] = math.sqrt(residual[j])


# The derivatives, in the order of the pass back.  g_x is the gradient of the loss in x.


@compiled
def pull_observe(z, z_next, e, g, seen, g_seen, g_z, g_e, g_moved):  # type: ignore[no-untyped-def]
    """Add to the gradients in z+ and e; set that in ``moved = z+ - z``, which z+ includes.

    g is the gradient of the objective at z+.
    """
    for row in (CONSENSUS, MOVEMENT, SIZE):
        over(g_seen[row], seen[row])
    k_gap, k_moved, k_size, k_objective = (
        g_seen[CONSENSUS], g_seen[MOVEMENT], g_seen[SIZE], g_seen[OBJECTIVE],
    )  # fmt: skip
    lanes = range(z.shape[1])
    for i in range(z.shape[0]):
        for j in lanes:
            g_e[i, j] += (e[i, j] - (z_next[i, j] - z[i, j])) * k_gap[j]
        for j in lanes:
            g_moved[i, j] = (z_next[i, j] - z[i, j]) * (k_moved[j] + k_gap[j]) - e[i, j] * k_gap[j]
        for j in lanes:
            g_z[i, j] += g_moved[i, j] + z_next[i, j] * k_size[j] + g[i, j] * k_objective[j]


@compiled
def over(g, norm):  # type: ignore[no-untyped-def]
    """``g / norm`` in place, 0 where the norm is 0: there it multiplies a vector that is zero."""
    least = g.dtype.type(1e-30)
    for j in range(len(g)):
        g[j] = g[j] / (least if norm[j] < least else norm[j])


@compiled
def pull_measure(scale, offset, residual, g_residual, g_offset):  # type: ignore[no-untyped-def]
    """Add to the gradient in the offset."""
    over(g_residual, residual)
    for i in range(offset.shape[0]):
        square = scale[i] * scale[i]
        for j in range(offset.shape[1]):
            g_offset[i, j] += square * offset[i, j] * g_residual[j]


@compiled
def pull_advance(through, e, alpha, g_v, g_e, g_alpha):  # type: ignore[no-untyped-def]
    """``v+ = v + alpha e``: add what came `through` the cone to g_v, then to g_e; set g_alpha."""
    lanes = range(e.shape[1])
    for j in lanes:
        g_alpha[j] = 0
    for i in range(e.shape[0]):
        for j in lanes:
            g_v[i, j] += through[i, j]
        for j in lanes:
            g_e[i, j] += alpha[j] * g_v[i, j]
        for j in lanes:
            g_alpha[j] += g_v[i, j] * e[i, j]


@compiled
def pull_aim(g_t, g_e, g_moved, g, moves, g_z, g_v, g_kappa):  # type: ignore[no-untyped-def]
    """``e = t - z - ..``, ``t = 2 z - v - kappa g``: the gradients in z, v and kappa."""
    two = g_t.dtype.type(2)
    lanes = range(g_t.shape[1])
    for j in lanes:
        g_kappa[j] = 0
    for i in range(g_t.shape[0]):
        for j in lanes:
            g_z[i, j] = two * g_t[i, j] - g_e[i, j]
        if moves:
            for j in lanes:
                g_z[i, j] -= g_moved[i, j]
        for j in lanes:
            g_v[i, j] -= g_t[i, j]
        for j in lanes:
            g_kappa[j] -= g_t[i, j] * g[i, j]


@compiled
def pull_follow(o, q, g_w, kappa, alpha, g_o, g_a, g_alpha, g_kappa):  # type: ignore[no-untyped-def]
    """``w = 2 o - a - kappa q`` and ``a+ = a - alpha o``: the gradients in o and a, and add to
    those in alpha and kappa."""
    two = o.dtype.type(2)
    lanes = range(o.shape[1])
    for i in range(o.shape[0]):
        for j in lanes:
            g_alpha[j] -= g_a[i, j] * o[i, j]
        for j in lanes:
            g_kappa[j] -= g_w[i, j] * q[i, j]
        for j in lanes:
            g_o[i, j] = two * g_w[i, j] - alpha[j] * g_a[i, j]
        for j in lanes:
            g_a[i, j] -= g_w[i, j]


@compiled
def subtract_scaled(x, scale, out):  # type: ignore[no-untyped-def]
    """``out -= scale x``, with a scale per instance."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] -= scale[j] * x[i, j]
