"""The solver layers that users import; every experiment runs through the same classes."""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Real
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from rcdrs.cones import Cone
from rcdrs.cones.base import kind_of
from rcdrs.controller import BASE_ACTION, ControllerConfig
from rcdrs.controller.policy import Controller, split_action
from rcdrs.files import check_contents, load_state, read_checkpoint, reading, write_checkpoint
from rcdrs.kernels import own_precision
from rcdrs.rollout.run import applies, readable, unroll
from rcdrs.solution import Solution, begin, conclude, finish, shelter
from rcdrs.solver.affine import AffineSet
from rcdrs.solver.problem import (
    ConicProgram,
    affine_of,
    as_matrix,
    as_numbers,
    check_matrix,
    is_sparse,
)
from rcdrs.solver.step import State, check_depth, check_state


class SolverLayer(nn.Module):
    """A fixed-depth solver for programs that share A and the cone.

    Subclasses say how the trajectory is made (`run`); everything a user touches is here.
    """

    A: Tensor

    def __init__(self, A: Tensor, cone: Cone, depth: int) -> None:
        super().__init__()
        A = as_matrix(A)
        check_matrix(A, cone)
        self.cone = cone
        self.depth = check_depth(depth)
        self.register_buffer("A", A.detach().clone(), persistent=False)
        # Now, since there are no numbers to factor while a compiler traces the layer.
        self._affine: AffineSet | None = None
        if not A.is_meta:
            self._affine = affine_of(self.A, True) if is_sparse(A) else AffineSet.known(A, self.A)

    @abstractmethod
    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        """Unroll `depth` steps."""

    def run_compiled(
        self, program: ConicProgram, depth: int, start: State | None
    ) -> Solution | None:
        """The same in one compiled pass, where there is one for it."""
        return None

    def forward(
        self,
        b: Tensor,
        c: Tensor,
        *,
        A: Tensor | None = None,
        depth: int | None = None,
        start: State | None = None,
    ) -> Solution:
        """Solve a batch, or one instance.

        Numbers may be tensors, or plain data such as numpy arrays and lists.  The length of c does
        not matter to x: a step moves along ``c / (|c| + 1e-8)``.  Only where |c| is near 1e-8 or
        less does the objective count less, by the share ``|c| / (|c| + 1e-8)``, down to none at
        c = 0.  The residuals and the gap are relative to 1 plus the size of their terms, so that a
        c that is tiny makes the gap tiny at any x: scale c to read it.

        Arguments
            b: ``(batch, m)``, or ``(m,)`` shared by the batch.
            c: ``(batch, n)``, or ``(n,)`` shared by the batch.
            A: ``(m, n)`` or ``(batch, m, n)`` in place of the layer's own; gradients flow to it.
            depth: number of steps, the layer's own by default.
            start: the `state` of an earlier solution of the same shape, as a warm start.
        """
        b, c = as_numbers("b", b, self.A), as_numbers("c", c, self.A)
        A = None if A is None else as_numbers("A", A, self.A)
        given = ((b, 1), (c, 1), (A, 2))
        sizes = [t.shape[0] for t, own in given if t is not None and t.ndim > own]
        batch = sizes[0] if sizes else 1
        b = b.expand(batch, -1) if b.ndim == 1 else b
        c = c.expand(batch, -1) if c.ndim == 1 else c
        if A is None:
            program = ConicProgram.factored(self.affine, b, c, self.cone)
        else:
            program = ConicProgram(A, b, c, self.cone)
        return self.solve(program, depth, start, single=not sizes)

    def solve(
        self,
        program: ConicProgram,
        depth: int | None = None,
        start: State | None = None,
        single: bool = False,
    ) -> Solution:
        """Solve a `ConicProgram`, which brings its own A and keeps its factorisation.

        An instance whose numbers overflow keeps its values, infinite or NaN somewhere, and passes
        no gradient: not to its own b and c, and nothing but zero to what it shares with others.  A
        loss that counts it is not finite itself.
        """
        if program.A is self.A and "_affine" not in program.__dict__:
            program = program.with_affine(self.affine)
        if start is not None:
            start = check_state(program, start)
        depth = check_depth(self.depth if depth is None else depth)

        def again(rows: Tensor) -> Solution:
            begun = None if start is None else State(*(part[rows] for part in start))
            return self.run(program[rows], depth, begun)

        with own_precision(program.A.device):
            solution = self.run_compiled(program, depth, start)
            if solution is None:
                program.check_numbers()
                solution = shelter(self.run(program, depth, start), again)
        # Just made: nothing was read from it yet.
        solution.__dict__["single"] = single
        return solution

    def options(self) -> dict[str, Any]:
        """What besides A, cone and depth makes this layer: plain values."""
        return {}

    @classmethod
    def from_options(cls, A: Tensor, cone: Cone, depth: int, options: dict[str, Any]) -> Self:
        return cls(A, cone, depth, **options)

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of the layer; A and the cone themselves are the user's."""
        return {
            "layer": type(self).__name__,
            "shape of A": list(self.A.shape),
            "cone": repr(self.cone),
            "depth": self.depth,
            "options": self.options(),
        }

    def save(self, path: str | Path, trained: dict[str, Any] | None = None) -> None:
        """Write configuration and weights; `trained` may say, in plain values, what for."""
        write_checkpoint(path, {"trained": trained or {}} | self.describe(), self.state_dict())

    @classmethod
    def load(cls, path: str | Path, A: Tensor, cone: Cone, depth: int | None = None) -> Self:
        """The layer that `save` wrote, for an A of the same shape and the same cone.

        With `depth`, a checkpoint trained for another depth is an error.  Nothing in the file is
        executed.
        """
        config, weights = read_checkpoint(path)
        expected = {
            "layer": cls.__name__,
            "shape of A": list(A.shape),
            "cone": repr(cone),
            "depth": config.get("depth") if depth is None else depth,
        }
        check_contents(path, config, expected)
        with reading(path, "checkpoint", "train it again"):
            layer = cls.from_options(A, cone, config["depth"], config["options"])
        load_state(layer, path, weights)
        return layer

    @property
    def affine(self) -> AffineSet:
        """The factorisation of A, in the layer's dtype and on its device."""
        if torch.compiler.is_compiling() and self._affine is not None:
            return self._affine
        if self._affine is None or not self._affine.is_of(self.A):
            self._affine = affine_of(self.A)
        return self._affine

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        """Where torch moves the layer to another dtype or device, A is factored anew."""
        super()._apply(*arguments, **options)
        if not self.A.is_meta:
            _ = self.affine
        return self


class DRSLayer(SolverLayer):
    r"""Fixed-core relaxed DRS: the same (alpha, beta) at every step.

    Example
        >>> layer = DRSLayer(A, SecondOrder(8, 20), depth=20, alpha=1.6, beta=3.0)
        >>> x = layer(b, c).x
    """

    trace: Tensor
    given: Tensor

    def __init__(
        self,
        A: Tensor,
        cone: Cone,
        depth: int,
        alpha: float = BASE_ACTION[1],
        beta: float = BASE_ACTION[2],
    ) -> None:
        super().__init__(A, cone, depth)
        alpha, beta = check_core(alpha, beta)
        # rho does not enter the transition: log rho = 0 fills its place in the trace.
        self.action = (0.0, alpha, math.log(beta))
        # The same as tensors: of every step, and for the compiled pass.
        trace = torch.tensor(self.action, dtype=self.A.dtype, device=self.A.device)
        self.register_buffer("trace", trace, persistent=False)
        self.register_buffer("given", self.trace[1:].unsqueeze(1).clone(), persistent=False)

    def options(self) -> dict[str, Any]:
        return {"alpha": self.action[1], "beta": math.exp(self.action[2])}

    def run_compiled(
        self, program: ConicProgram, depth: int, start: State | None
    ) -> Solution | None:
        if not applies(program, learns(program, start)):
            return None
        actions = self.trace.expand(program.batch, depth, 3)
        return conclude(program, unroll(program, depth, start, given=self.given), actions)

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        transition, columns, seen = begin(program, start)
        action = program.c.new_tensor(self.action).expand(program.batch, 3)
        alpha, beta = split_action(action)
        for _ in range(depth):
            columns, seen = transition(columns, alpha, beta)
        return finish(transition, columns, seen, [action] * depth)


class RCDRSLayer(SolverLayer):
    r"""Residual-controlled DRS: a small recurrent controller sets (alpha, beta) at each step.

    Arguments
        A, cone, depth: the equality matrix, the cone, and the number of steps.
        core: the base action ``(alpha, beta)``; an untrained layer behaves as this fixed core.
        controller: what the controller is made of; RCDRS-Env by default.

    Example
        >>> layer = RCDRSLayer(A, SecondOrder(8, 20), depth=20, core=(1.6, 3.0))
        >>> solution = layer(b, c)
        >>> solution.x, solution.dual_residual
    """

    controller: Controller

    def __init__(
        self,
        A: Tensor,
        cone: Cone,
        depth: int,
        core: tuple[float, float] = BASE_ACTION[1:],
        controller: ControllerConfig | None = None,
    ) -> None:
        super().__init__(A, cone, depth)
        if not isinstance(core, (tuple, list)) or len(core) != 2:
            raise TypeError(f"core is {core!r}, expected a pair (alpha, beta).")
        if not isinstance(controller, ControllerConfig | None):
            raise TypeError(f"controller is {kind_of(controller)}, expected a ControllerConfig.")
        self.recentre(core, controller or ControllerConfig())

    def recentre(
        self, core: tuple[float, float], controller: ControllerConfig | None = None
    ) -> None:
        """Take a new controller, untrained, around a core; of the present kind by default."""
        self.core = check_core(*core)
        config = controller or self.controller.config
        self.controller = Controller(config, (BASE_ACTION[0], *self.core), self.depth).to(
            self.A.device, self.A.dtype
        )

    def run_compiled(
        self, program: ConicProgram, depth: int, start: State | None
    ) -> Solution | None:
        if not readable(self.controller):
            return None
        if not applies(program, learns(program, start, self.controller)):
            return None
        outcome = unroll(program, depth, start, self.controller)
        return conclude(program, outcome, outcome.actions)

    def run(self, program: ConicProgram, depth: int, start: State | None) -> Solution:
        transition, columns, seen = begin(program, start)
        memory = None
        previous = self.controller.map.base.expand(program.batch, 3)
        actions: list[Tensor] = []
        for k in range(depth):
            previous, drive, memory = self.controller(transition, seen, previous, memory, k, depth)
            columns, seen = transition(columns, *drive)
            actions.append(previous)
        return finish(transition, columns, seen, actions)

    def options(self) -> dict[str, Any]:
        return {"core": list(self.core), "controller": self.controller.config.to_dict()}

    @classmethod
    def from_options(cls, A: Tensor, cone: Cone, depth: int, options: dict[str, Any]) -> Self:
        alpha, beta = options["core"]
        return cls(A, cone, depth, (alpha, beta), ControllerConfig.from_dict(options["controller"]))


def check_core(alpha: float, beta: float) -> tuple[float, float]:
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} is {kind_of(value)}, expected a number.")
    if not 0 < alpha < 2:
        raise ValueError(f"alpha = {alpha:g}, expected alpha in (0, 2).")
    if not 0 < beta < math.inf:
        raise ValueError(f"beta = {beta:g}, expected beta positive and finite.")
    return float(alpha), float(beta)


def learns(program: ConicProgram, start: State | None, module: nn.Module | None = None) -> bool:
    """Is there anything that a gradient could be asked for?"""
    if not torch.is_grad_enabled():
        return False
    tensors = (program.b, program.c, *(start or ()), *(module.parameters() if module else ()))
    return any(tensor.requires_grad for tensor in tensors)
