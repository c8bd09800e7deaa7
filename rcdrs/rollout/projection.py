"""The projection of a tile onto a product of cones, by a table of its parts.

Each cone's kernels stand in its own file; here they find their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rcdrs.cones import (
    PSD,
    Box,
    Cone,
    Nonneg,
    Product,
    RotatedSecondOrder,
    SecondOrder,
    box,
    nonneg,
    psd,
    rotated,
    second_order,
)
from rcdrs.kernels import compiled

NONNEG, SECOND_ORDER, ROTATED, SEMIDEFINITE, BOX = range(5)


def parts(cone: Cone) -> list[tuple[int, ...]] | None:
    """The table, a row a factor: kind, first and last row of z, block size or order, count, and
    first row of what is saved for the derivative.  None where a factor has no kernel here."""
    table: list[tuple[int, ...]] = []
    row = saved = 0
    for factor in factors(cone):
        kind, size, count, rows = NONNEG, 1, factor.dim, 0
        # By exact type: a subclass may project otherwise.
        if type(factor) is Box:
            kind = BOX
        elif type(factor) is SecondOrder:
            kind, size, count, rows = SECOND_ORDER, factor.block, factor.count, 2 * factor.count
        elif type(factor) is RotatedSecondOrder:
            kind, size, count, rows = ROTATED, factor.block, factor.count, 3 * factor.count
        elif type(factor) is PSD and factor.order <= psd.LARGEST:
            size, count = factor.order, factor.count
            kind, rows = SEMIDEFINITE, count * size + factor.dim
        elif type(factor) is not Nonneg:
            return None
        table.append((kind, row, row + factor.dim, size, count, saved))
        row, saved = row + factor.dim, saved + rows
    return table


def factors(cone: Cone) -> Iterator[Cone]:
    """The cones that a product is made of, in order."""
    if type(cone) is not Product:
        yield cone
        return
    for factor in cone.cones:
        yield from factors(factor)


def saved_rows(table: Sequence[tuple[int, ...]]) -> int:
    """How many rows `project` saves."""
    kind, first, last, size, count, at = table[-1]
    rows = {SECOND_ORDER: 2 * count, ROTATED: 3 * count, SEMIDEFINITE: count * size + last - first}
    return at + rows.get(kind, 0)


@compiled
def project(table, lower, upper, v, saved, out):  # type: ignore[no-untyped-def]
    """``out = Proj_K(v)``; what `pull_project` reuses goes to `saved`."""
    for part in range(len(table)):
        kind, first, last, size, count, at = table[part]
        x, y = v[first:last], out[first:last]
        if kind == NONNEG:
            nonneg.project_rows(x, y)
        elif kind == BOX:
            box.project_rows(x, lower[first:last], upper[first:last], y)
        elif kind == SECOND_ORDER:
            k, norm = saved[at : at + count], saved[at + count : at + 2 * count]
            second_order.project_rows(x, y, k, norm)
        elif kind == ROTATED:
            k, norm = saved[at : at + count], saved[at + count : at + 2 * count]
            rotated.project_rows(x, y, k, norm, saved[at + 2 * count : at + 3 * count])
        else:
            middle = at + count * size
            values, vectors = saved[at:middle], saved[middle : middle + last - first]
            psd.project_lanes(x, y, values, vectors, size)


@compiled
def pull_project(table, lower, upper, v, saved, g, out):  # type: ignore[no-untyped-def]
    """``out = J g``, J the derivative of the projection at v."""
    for part in range(len(table)):
        kind, first, last, size, count, at = table[part]
        x, y, g_x = v[first:last], out[first:last], g[first:last]
        if kind == NONNEG:
            nonneg.vjp_rows(x, g_x, y)
        elif kind == BOX:
            box.vjp_rows(x, lower[first:last], upper[first:last], g_x, y)
        elif kind == SECOND_ORDER:
            k, norm = saved[at : at + count], saved[at + count : at + 2 * count]
            second_order.vjp_rows(x, k, norm, g_x, y)
        elif kind == ROTATED:
            k, norm = saved[at : at + count], saved[at + count : at + 2 * count]
            rotated.vjp_rows(x, k, norm, saved[at + 2 * count : at + 3 * count], g_x, y)
        else:
            middle = at + count * size
            values, vectors = saved[at:middle], saved[middle : middle + last - first]
            psd.vjp_lanes(values, vectors, g_x, y, size)
