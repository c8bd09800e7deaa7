"""What the passes are made of: matrix products by BLAS, and elementary functions as vector code.

Matrices are row-major; the last axis runs over the lanes of a tile, one instance each.  In float32
the elementary functions are short series, good to the last bits, which the compiler turns into
vector code: a call of the library for each number would cost more than all the rest of a small
controller.  In float64 they are the library's.  A NaN stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from rcdrs.kernels import OPTIONS, compiled, inlined

#: log 2 in two parts, the first of 9 bits: its multiples by an exponent are exact in float32.
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
LOG2_E, ROOT_HALF = np.float32(1 / math.log(2)), np.float32(math.sqrt(0.5))
#: Beyond these 2^k leaves float32.
EXP_LOW, EXP_HIGH = np.float32(-87), np.float32(88)


#: Products of at most so many multiplications go to BLAS at once: up to there OpenBLAS has kernels
#: without packing, a fifth faster, and does not start threads of its own.
AT_ONCE = 1_000_000
#: A matrix of rows no longer than this times a single vector is a loop: BLAS takes longer to begin.
SHORT = 16


@inlined
def piece(rows, lanes, inner):  # type: ignore[no-untyped-def]
    """How many rows of a product to take at a time; all, where so few would fit that it costs."""
    fit = AT_ONCE // (lanes * inner + 1)
    return rows if fit >= rows or fit < 4 else fit


@compiled
def times(out, a, x, keep, sign):  # type: ignore[no-untyped-def]
    """``out = keep out + sign a x``."""
    rows, inner = a.shape
    if x.shape[1] == 1 and inner <= SHORT:
        for i in range(rows):
            total = out.dtype.type(0)
            for k in range(inner):
                total += a[i, k] * x[k, 0]
            out[i, 0] = sign * total + (keep * out[i, 0] if keep else 0)
        return
    size = piece(rows, x.shape[1], inner)
    for i in range(0, rows, size):
        part = a[i : i + size]
        _gemm(110, 110, out[i : i + size], x, x.shape[1], part, inner, inner, keep, sign)


@compiled
def times_transposed(out, a, x, keep, sign):  # type: ignore[no-untyped-def]
    """``out = keep out + sign a'x``."""
    inner, rows = a.shape
    size = piece(rows, x.shape[1], inner)
    for i in range(0, rows, size):
        part = a[:, i : i + size]
        _gemm(110, 116, out[i : i + size], x, x.shape[1], part, rows, inner, keep, sign)


@compiled
def add_outer(out, g, x):  # type: ignore[no-untyped-def]
    """``out += g x'``: the gradient of ``<g, out x>`` in a matrix, summed over the lanes; none
    where out is empty."""
    if len(out):
        _gemm(116, 110, out, x, x.shape[1], g, g.shape[1], g.shape[1], 1, 1)


def _gemm_intrinsic(  # type: ignore[no-untyped-def]
    typing, left, right, out, x, x_row, a, a_row, inner, keep, sign
):
    """BLAS's gemm through numba's entry, which takes Fortran's column order: factors swapped.

    `left` and `right` are its letters n (as it is) and t (transposed).
    """
    real = out.dtype
    arguments = (left, right, out, x, x_row, a, a_row, inner, keep, sign)
    sig = types.void(*arguments)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def number(i: int, kind: Any) -> Any:
            return context.cast(builder, args[i], sig.args[i], kind)

        def part(i: int) -> Any:
            return context.make_array(sig.args[i])(context, builder, args[i])

        def pointer(i: int) -> Any:
            return builder.bitcast(part(i).data, cgutils.voidptr_t)

        def scalar(i: int) -> Any:
            slot = cgutils.alloca_once_value(builder, number(i, real))
            return builder.bitcast(slot, cgutils.voidptr_t)

        char, size, p = ir.IntType(8), ir.IntType(64), cgutils.voidptr_t
        kinds = [char, char, char, size, size, size, p, p, size, p, size, p, p, size]
        gemm = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(32), kinds), "numba_xxgemm"
        )
        rows, lanes = cgutils.unpack_tuple(builder, part(2).shape, 2)
        letters = [ir.Constant(char, ord("s" if real == types.float32 else "d"))]
        letters += [builder.trunc(number(i, types.int64), char) for i in (0, 1)]
        builder.call(
            gemm,
            [
                *letters, lanes, rows, number(7, types.intp), scalar(9),
                pointer(3), number(4, types.intp), pointer(5), number(6, types.intp),
                scalar(8), pointer(2), lanes,
            ],
        )  # fmt: skip
        return context.get_dummy_value()

    return sig, codegen


_gemm: Any = intrinsic(_gemm_intrinsic)


def _reinterpret(source: Any, target: Any) -> Any:
    @intrinsic
    def reinterpret(typing, x):  # type: ignore[no-untyped-def]
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), codegen

    return reinterpret


_bits_of = _reinterpret(types.float32, types.int32)
_float_of = _reinterpret(types.int32, types.float32)


def exp(x: float) -> float:
    """``2^k exp(r)`` with ``|r| <= log(2)/2``, and seven terms of the series of exp(r)."""
    return math.exp(x)


def log(x: float) -> float:
    """For x > 0: ``k log 2 + 2 atanh(s)``, ``s = (m - 1)/(m + 1)``, x = 2^k m, m near 1."""
    return math.log(x)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def log1p(x: float) -> float:
    """``log(1 + x)`` for x >= 0, with what ``1 + x`` rounds away."""
    return math.log1p(x)


def asinh(x: float) -> float:
    return math.asinh(x)


def _of_each_precision(name: Callable[..., Any], library: Any) -> Any:
    """Below, the float32 form of a function; in float64 it is the library's."""

    def register(series: Any) -> Any:
        def choose(x):  # type: ignore[no-untyped-def]  # numba compares the two signatures
            return series if x == types.float32 else library

        overload(name, jit_options=cast(Any, OPTIONS))(choose)
        return series

    return register


@_of_each_precision(exp, lambda x: math.exp(x))
def _exp(x):  # type: ignore[no-untyped-def]
    x = EXP_LOW if x < EXP_LOW else x
    x = EXP_HIGH if x > EXP_HIGH else x
    k = math.floor(x * LOG2_E + np.float32(0.5))
    k = np.float32(k)
    r = x - k * LN2_HIGH - k * LN2_LOW
    term = np.float32(1 / 720) + r * np.float32(1 / 5040)
    term = np.float32(1 / 120) + r * term
    term = np.float32(1 / 24) + r * term
    term = np.float32(1 / 6) + r * term
    term = np.float32(1 / 2) + r * term
    term = np.float32(1) + r * term
    term = np.float32(1) + r * term
    return term * _float_of(np.int32((np.int32(k) + np.int32(127)) << np.int32(23)))


@_of_each_precision(log, lambda x: math.log(x))
def _log(x):  # type: ignore[no-untyped-def]
    bits = _bits_of(x)
    k = np.int32(np.int32(bits >> np.int32(23)) - np.int32(127))
    m = _float_of(np.int32(np.int32(bits & np.int32(0x007FFFFF)) | np.int32(0x3F800000)))
    large = m * ROOT_HALF > np.float32(1)  # m in [1, 2): from sqrt(2) on the half is nearer to 1
    m = np.float32(0.5) * m if large else m
    e = np.float32(k) + (np.float32(1) if large else np.float32(0))
    s = (m - np.float32(1)) / (m + np.float32(1))
    square = s * s
    term = np.float32(1 / 7) + square * np.float32(1 / 9)
    term = np.float32(1 / 5) + square * term
    term = np.float32(1 / 3) + square * term
    value = e * LN2_HIGH + (np.float32(2) * (s + s * square * term) + e * LN2_LOW)
    return value if x < np.float32(np.inf) else x  # infinity and NaN stay


@_of_each_precision(sigmoid, lambda x: 1 / (1 + math.exp(-x)))
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return np.float32(1) / (np.float32(1) + exp(-x))


@_of_each_precision(log1p, lambda x: math.log1p(x))
def _log1p(x):  # type: ignore[no-untyped-def]
    one = np.float32(1) + x
    return log(one) + (x - (one - np.float32(1))) / one


@_of_each_precision(asinh, lambda x: math.asinh(x))
def _asinh(x):  # type: ignore[no-untyped-def]
    size = abs(x)
    root = math.sqrt(np.float32(1) + x * x)
    value = log1p(size + size * (size / (np.float32(1) + root)))
    return -value if x < np.float32(0) else value
