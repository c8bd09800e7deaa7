"""From a program and its controller to the compiled pass, and whether it applies."""

from __future__ import annotations

import sys
import threading
import warnings
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from numba.core.caching import NullCache
from torch import Tensor, nn

from rcdrs.cones import Box, Cone, Nonneg
from rcdrs.controller.config import FEATURES
from rcdrs.controller.encoders import ENCODERS
from rcdrs.controller.policy import Controller
from rcdrs.kernels import transformed
from rcdrs.rollout.forward import forward
from rcdrs.rollout.layout import DIRECT, GIVEN, GRU, KINDS, MLP, SCHEDULE
from rcdrs.rollout.operator import Inputs, Kept
from rcdrs.rollout.projection import factors, parts
from rcdrs.rollout.transforms import roll
from rcdrs.solver.affine import AffineSet, kept
from rcdrs.solver.problem import ConicProgram, is_sparse
from rcdrs.solver.step import State

EQUALITY = FEATURES.index("eq")


class Outcome(NamedTuple):
    """What a pass returns, with the batch first."""

    state: State
    moved: Tensor  # |z^K - z^{K-1}|, (batch,)
    #: Did an instance overflow?  Then it passes no gradient.
    bad: Tensor  # (batch,)
    actions: Tensor  # (batch, K, 3); none where alpha and beta were given

    def stillness(self) -> Tensor | None:
        """`bad`, or None where that is known to change nothing."""
        if not self.state.z.requires_grad or not (transformed() or bool(self.bad.any())):
            return None
        return self.bad


def applies(program: ConicProgram, learns: bool) -> bool:
    """On a CPU, to one A of full rank for all instances that needs no gradient, and to the cones of
    this package; other programs run step by step.  `learns`: are there to be gradients?"""
    A, Q = program.A, program.Q
    return (
        A.is_cpu
        and A.ndim == 2
        and not is_sparse(A)
        and not A.requires_grad
        and not (Q is not None and Q.requires_grad)
        and program.batch > 0
        and program.affine.rank == len(A)
        and _table(program.cone) is not None
        and (torch.compiler.is_compiling() or works(A.dtype, learns))
    )


def readable(controller: Controller) -> bool:
    """Is the controller made of the modules that the pass knows, with no hooks on them?"""
    if torch.compiler.is_compiling():
        return True
    encoder = controller._modules.get("encoder")
    if type(controller) is not Controller:
        return False
    if encoder is not None and type(encoder) is not ENCODERS[controller.config.encoder]:
        return False
    return not any(m._forward_hooks or m._forward_pre_hooks for m in _below(controller))


def _below(module: nn.Module) -> list[nn.Module]:
    """The module and all in it; several times faster than `modules`."""
    found = [module]
    for part in module._modules.values():
        if part is not None:
            found += _below(part)
    return found


def unroll(
    program: ConicProgram,
    depth: int,
    start: State | None,
    controller: Controller | None = None,
    given: Tensor | None = None,
) -> Outcome:
    """`depth` steps with the actions of a controller, or with ``given`` = (alpha, log beta),
    (2, batch) or (2, 1)."""
    c, none = program.c, _nothing(program.c.dtype)[-1][0]
    kind = GIVEN if controller is None else KINDS[controller.config.encoder]
    used = _used(controller)
    hidden, period = 0, 1
    if controller is not None and kind >= GRU:
        hidden, period = controller.config.hidden, controller.config.period
    inputs = Inputs(
        program.b,
        c,
        none if start is None else start.z,
        none if start is None else start.u,
        none if given is None else given,
        _weights(controller, kind, c),
        _problem(program.affine),
        _policy(controller, depth, c),
        _extras(program),
        _table(program.cone) or [],
        [kind, len(used), hidden, period, depth, EQUALITY in used],
    )
    learns = torch.is_grad_enabled() and any(
        t.requires_grad for t in (*inputs[:5], *inputs.weights)
    )
    state, moved, bad, actions, _ = roll(inputs, learns)
    return Outcome(State(*state.mT.unbind()), moved, bad, actions.permute(2, 0, 1))


# What many calls share is made once, and kept beside what it is made of.  A compiler that traces a
# call makes it part of its graph instead.

_TABLES: WeakKeyDictionary[Cone, list[int] | None] = WeakKeyDictionary()
_PROBLEMS: WeakKeyDictionary[AffineSet, Kept] = WeakKeyDictionary()
_POLICIES: WeakKeyDictionary[Controller, dict[Any, Kept]] = WeakKeyDictionary()


def _table(cone: Cone) -> list[int] | None:
    """The table of its parts, row after row."""
    if torch.compiler.is_compiling():
        return _flat(parts(cone))
    if cone not in _TABLES:
        _TABLES[cone] = _flat(parts(cone))
    return _TABLES[cone]


def _flat(table: list[tuple[int, ...]] | None) -> list[int] | None:
    return None if table is None else [number for row in table for number in row]


def _problem(affine: AffineSet) -> list[Tensor]:
    if torch.compiler.is_compiling():
        return _factors(affine)
    if affine not in _PROBLEMS:
        with kept():
            _PROBLEMS[affine] = Kept(_factors(affine))
    return _PROBLEMS[affine]


def _factors(affine: AffineSet) -> list[Tensor]:
    V = affine.V
    N = V.new_empty(len(V), 0) if affine.null is None else affine.null
    return [V, N, (affine.U * affine.S_inverse).mT.contiguous(), affine.S]


def _policy(controller: Controller | None, depth: int, c: Tensor) -> list[Tensor]:
    if controller is None:
        return _nothing(c.dtype)[0]
    if torch.compiler.is_compiling():
        return _limits(controller, depth, c)
    known = _POLICIES.setdefault(controller, {})
    if (depth, c.dtype) not in known:
        with kept():
            known[depth, c.dtype] = Kept(_limits(controller, depth, c))
    return known[depth, c.dtype]


def _limits(controller: Controller, depth: int, c: Tensor) -> list[Tensor]:
    map_ = controller.map
    values = (map_.base, map_.low, map_.high, map_.growth, map_.radii(depth))
    used = torch.tensor(_used(controller), dtype=torch.int64)
    return [used, map_.controlled.clone(), *(t.to(c, copy=True) for t in values)]


def _used(controller: Controller | None) -> list[int]:
    """The features that are used, by their number."""
    if controller is None or KINDS[controller.config.encoder] < GRU:
        return []
    return [FEATURES.index(name) for name in controller.config.features]


def _nothing(dtype: torch.dtype) -> tuple[list[Tensor], ...]:
    """What stands for no controller, and for no quadratic term and no box: its policy, its
    weights, and the extras."""
    return _absent(dtype) if torch.compiler.is_compiling() else _kept_absent(dtype)


def _absent(dtype: torch.dtype) -> tuple[list[Tensor], ...]:
    matrix, vector = torch.empty(0, 0, dtype=dtype), torch.empty(0, dtype=dtype)
    none = torch.empty(0, dtype=torch.int64)
    policy = [none, none.bool(), *[torch.zeros(3, dtype=dtype)] * 4, matrix]
    weights = [matrix, matrix, matrix, vector, vector, matrix, vector, matrix, vector]
    return policy, weights, [matrix, matrix, matrix]


@cache
@kept()
def _kept_absent(dtype: torch.dtype) -> tuple[list[Tensor], ...]:
    return tuple(Kept(part) for part in _absent(dtype))


def _extras(program: ConicProgram) -> list[Tensor]:
    """Q, and the bounds of boxes, (n, batch) or (n, 1); without rows where there are none."""
    c, absent = program.c, _nothing(program.c.dtype)[2]
    cones = list(factors(program.cone))
    boxed = any(isinstance(cone, Box) for cone in cones)
    if program.Q is None and not boxed:
        return absent
    Q = absent[0] if program.Q is None else program.Q.reshape(-1, c.shape[1])
    if not boxed:
        return [Q, *absent[1:]]
    bounds = []
    for name in ("lower", "upper"):
        rows = [
            cone.like(c.mT, getattr(cone, name))
            if isinstance(cone, Box)
            else c.new_zeros(cone.dim, 1)
            for cone in cones
        ]
        width = max(row.shape[1] for row in rows)
        bounds.append(torch.cat([row.expand(-1, width) for row in rows]) if rows[1:] else rows[0])
    return [Q, *bounds]


def _weights(controller: Controller | None, kind: int, c: Tensor) -> list[Tensor]:
    """As `Weights`: a schedule, an encoder and a head; what there is none of has no rows."""
    absent = _nothing(c.dtype)[1]
    if controller is None:
        return absent
    planned = kind == SCHEDULE or controller.config.scheduled
    schedule = _named(controller, "schedule") if planned else absent[:1]
    if kind == SCHEDULE:
        return [*schedule, *absent[1:]]
    encoder, head = controller._modules["encoder"], _parts(controller._modules["head"])
    own = absent[1:5]
    if kind == MLP:
        net = _parts(_parts(encoder)["net"])
        (W, b_W), (U, b_U) = (_named(net[i], "weight", "bias") for i in ("0", "2"))
        own = [W, U, b_W, b_U]
    elif kind != DIRECT:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        own = _named(_parts(encoder)["cell"], *names)
    first, last = (_named(head[name], "weight", "bias") for name in ("first", "last"))
    return [*schedule, *own, *first, *last]


def _parts(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = module._modules
    return found


def _named(module: Any, *names: str) -> list[Tensor]:
    """Its weights; taken by hand, since a module looks them up several times as slowly."""
    known = module._parameters
    return [known[n] if known.get(n) is not None else getattr(module, n) for n in names]


#: Seconds after which somebody who waits for the compiler is told so.
PATIENCE = 2.0


@cache
def works(dtype: torch.dtype, learns: bool) -> bool:
    """Compile the passes, or load what an earlier process compiled: once a process.

    Where that fails, a warning says why, and everything runs step by step, with the same results.
    """
    told = threading.Timer(
        PATIENCE,
        print,
        ["rcdrs: compiling its solver for this machine, once; about a minute"],
        {"file": sys.stderr, "flush": True},
    )
    told.daemon = True
    told.start()
    try:
        _smallest(dtype, learns)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        warnings.warn(
            f"the compiled solver is not available, layers run step by step and more slowly: "
            f"{type(error).__name__}: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    finally:
        told.cancel()
    if not is_kept():
        warnings.warn(
            "the compiled solver cannot be kept, so that every process compiles it again: name a "
            "folder that can be written to in NUMBA_CACHE_DIR",
            RuntimeWarning,
            stacklevel=2,
        )
    return True


def is_kept() -> bool:
    """Is there a folder for what is compiled?"""
    return not isinstance(forward._cache, NullCache)


def _smallest(dtype: torch.dtype, learns: bool) -> None:
    """A program of two variables through the passes, whose types are those of every other."""
    A = torch.ones(1, 2, dtype=dtype)
    b = torch.ones(2, 1, dtype=dtype, requires_grad=learns)
    program = ConicProgram(A, b, torch.ones(2, 2, dtype=dtype), Nonneg(2))
    with torch.enable_grad():
        outcome = unroll(program, 1, None, given=A.new_ones(2, 1))
        if learns:
            torch.autograd.grad(outcome.state.z.sum(), b)
