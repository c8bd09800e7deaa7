"""The decision-focused benchmark: one mixed-cone structure whose costs hide behind features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import PSD, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.instances import Programs, Split, stream
from rcdrs.experiments.sampling import find_sampling, noted
from rcdrs.experiments.synthetic.instances import equality_matrix
from rcdrs.solver.problem import check_numbers

#: The cone, dimension 49; the 4 x 4 PSD block is flattened in full.
CONE = Product([Nonneg(8), SecondOrder(5, 3), RotatedSecondOrder(5, 2), PSD(4)])
EQUALITIES, CONDITION = 18, 80.0
#: The name of its only case.
CASE = "dfl"
#: Features of an instance, and width of the hidden map from them.
FEATURES, WIDTH = 20, 64


@dataclass(frozen=True)
class Decisions(Split):
    """A batch of decisions to take: features q, and what the decision maker does not know.

    `program` has the true cost.
    """

    q: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        check_features(self.q)
        if len(self.q) != self.batch:
            raise ValueError(
                f"q has batch size {len(self.q)} and the program has {self.batch}, "
                "expected the same."
            )


def check_features(q: Tensor, size: int = FEATURES) -> Tensor:
    if q.ndim != 2 or q.shape[1] != size:
        raise ValueError(f"q has shape {tuple(q.shape)}, expected (batch, {size} features).")
    check_numbers("q", q)
    return q


def check_case(case: str) -> None:
    if case != CASE:
        raise ValueError(f"unknown case {case!r}, expected {CASE}.")


class DecisionSet(Programs[Decisions]):
    """All instances of one seed: one map from features to costs."""

    example = CASE

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        check_case(meta["case"])
        super().__init__(meta, tensors, CONE)

    def split(self, q: Tensor, b: Tensor, c: Tensor, x: Tensor, s: Tensor, y: Tensor) -> Decisions:
        return Decisions(self.program(b, c), x, s, y, q)


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
    seed: int,
    sizes: dict[str, int],
    dtype: torch.dtype = torch.float32,
    sampling: str = "second",
) -> DecisionSet:
    r"""The instances of one seed; A and the map from features to costs are the seed's own.

    ``q ~ N(0, I)`` gives (v, w) by the `HiddenMap`.  Moreau's decomposition of v is the
    complementary pair, and w is the multiplier:

        x* = Proj_K(v),  s* = t (x* - v),  lambda* = t w,
        b = A x*,        c = A'lambda* + s*,   t > 0 such that |c| = 1

    Of the `sampling` it takes the rows of A; it needs no magnitudes.
    """
    symmetric = find_sampling(sampling).symmetric
    A = equality_matrix(stream(f"dfl/{seed}/A"), EQUALITIES, CONE, CONDITION, symmetric)
    costs = HiddenMap.draw(stream(f"dfl/{seed}/map"))

    def draw(split: str, size: int) -> dict[str, np.ndarray]:
        q = stream(f"dfl/{seed}/{split}").standard_normal((size, FEATURES))
        v, y = costs(q)
        x = CONE.project(torch.from_numpy(v)).numpy()
        s = x - v
        length = np.linalg.norm(y @ A + s, axis=1, keepdims=True)
        s, y = s / length, y / length
        return {"q": q, "x": x, "s": s, "y": y, "b": x @ A.T, "c": y @ A + s}

    meta = {"case": CASE, "seed": seed} | noted(sampling)
    return DecisionSet.draw(meta, sizes, draw, dtype, A=A)
