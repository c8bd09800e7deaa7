"""The decision-focused benchmark: one mixed-cone structure whose costs hide behind features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import PSD, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.instances import (
    SPLITS,
    check_sizes,
    reading_set,
    stream,
    to_tensors,
    write_set,
)
from rcdrs.experiments.synthetic.instances import equality_matrix
from rcdrs.solver.problem import ConicProgram, check_numbers

#: The cone, dimension 49; the 4 x 4 PSD block is flattened in full.
CONE = Product([Nonneg(8), SecondOrder(5, 3), RotatedSecondOrder(5, 2), PSD(4)])
EQUALITIES, CONDITION = 18, 80.0
#: The name of its only case.
CASE = "dfl"
#: Features of an instance, and width of the hidden map from them.
FEATURES, WIDTH = 20, 64
#: Instances in each split, table app_global_protocol.
SIZES = {"train": 5000, "validation": 1500, "test": 1500}


@dataclass(frozen=True)
class Decisions:
    """A batch of decisions to take: features q, and what the decision maker does not know.

    `program` has the true cost, and (x, s, y) = (x*, s*, lambda*) solves it exactly.
    """

    q: Tensor
    program: ConicProgram
    x: Tensor
    s: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        check_features(self.q)
        if len(self.q) != self.program.batch:
            raise ValueError(
                f"q has batch size {len(self.q)} and the program has {self.program.batch}, "
                "expected the same."
            )
        shapes = {"x": self.program.c, "s": self.program.c, "y": self.program.b}
        for name, like in shapes.items():
            found = tuple(getattr(self, name).shape)
            if found != tuple(like.shape):
                raise ValueError(f"{name} has shape {found}, expected {tuple(like.shape)}.")

    @property
    def batch(self) -> int:
        return self.program.batch

    def __getitem__(self, index: slice | Tensor) -> Decisions:
        solution = (self.x[index], self.s[index], self.y[index])
        return Decisions(self.q[index], self.program[index], *solution)


def check_features(q: Tensor, size: int = FEATURES) -> Tensor:
    if q.ndim != 2 or q.shape[1] != size:
        raise ValueError(f"q has shape {tuple(q.shape)}, expected (batch, {size} features).")
    check_numbers("q", q)
    return q


@dataclass(frozen=True)
class DecisionSet:
    """All instances of one seed: one A, one map from features to costs, three splits."""

    seed: int
    A: Tensor
    train: Decisions
    validation: Decisions
    test: Decisions

    def to(self, device: torch.device) -> DecisionSet:
        """The same instances on another device."""
        if self.A.device == device:
            return self
        return _assemble(self.seed, {k: t.to(device) for k, t in self._tensors().items()})

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file."""
        write_set(path, self._tensors(), {"case": CASE, "seed": self.seed})

    @staticmethod
    def load(path: str | Path) -> DecisionSet:
        """Read what `save` wrote; a damaged or foreign file is an error that names it."""
        with reading_set(path, "python -m rcdrs instances dfl") as (tensors, meta):
            if meta["case"] != CASE:
                raise ValueError(f"it holds {meta}, expected decision-focused instances")
            return _assemble(meta["seed"], tensors)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"A": self.A}
        for name in SPLITS:
            part: Decisions = getattr(self, name)
            tensors |= {f"{name}_{key}": getattr(part, key) for key in "qxsy"}
            tensors |= {f"{name}_b": part.program.b, f"{name}_c": part.program.c}
        return tensors


class HiddenMap(NamedTuple):
    """The fixed random map ``q -> h = tanh(q W) -> (v, w) = (h W_v, h W_w)``.

    Each weight is normal with variance 1 / (number of inputs).
    """

    hidden: np.ndarray  # (FEATURES, WIDTH)
    point: np.ndarray  # (WIDTH, n)
    multiplier: np.ndarray  # (WIDTH, m)

    @staticmethod
    def draw(rng: np.random.Generator) -> HiddenMap:
        shapes = ((FEATURES, WIDTH), (WIDTH, CONE.dim), (WIDTH, EQUALITIES))
        return HiddenMap(*(rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes))

    def __call__(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = np.tanh(q @ self.hidden)
        return h @ self.point, h @ self.multiplier


def generate(
    seed: int, sizes: dict[str, int] | None = None, dtype: torch.dtype = torch.float32
) -> DecisionSet:
    r"""The instances of one seed; A and the map from features to costs are the seed's own.

    ``q ~ N(0, I)`` gives (v, w) by the `HiddenMap`.  Moreau's decomposition of v is the
    complementary pair, and w is the multiplier:

        x* = Proj_K(v),  s* = t (x* - v),  lambda* = t w,
        b = A x*,        c = A'lambda* + s*,   t > 0 such that |c| = 1
    """
    sizes = check_sizes(SIZES if sizes is None else sizes)
    A = equality_matrix(stream(f"dfl/{seed}/A"), EQUALITIES, CONE.dim, CONDITION)
    costs = HiddenMap.draw(stream(f"dfl/{seed}/map"))
    arrays = {"A": A}
    for name in SPLITS:
        q = stream(f"dfl/{seed}/{name}").standard_normal((sizes[name], FEATURES))
        v, y = costs(q)
        x = CONE.project(torch.from_numpy(v)).numpy()
        s = x - v
        size = np.linalg.norm(y @ A + s, axis=1, keepdims=True)
        s, y = s / size, y / size
        parts = {"q": q, "b": x @ A.T, "c": y @ A + s, "x": x, "s": s, "y": y}
        arrays |= {f"{name}_{key}": array for key, array in parts.items()}
    return _assemble(seed, to_tensors(arrays, dtype))


def _assemble(seed: int, tensors: dict[str, Tensor]) -> DecisionSet:
    A = tensors["A"]
    splits: list[Decisions] = []
    for name in SPLITS:
        q, b, c, x, s, y = (tensors[f"{name}_{key}"] for key in "qbcxsy")
        program = ConicProgram(A, b, c, CONE)
        if splits:  # one factorisation serves all three
            program = program.with_affine(splits[0].program.affine)
        splits.append(Decisions(q, program, x, s, y))
    return DecisionSet(seed, A, *splits)
