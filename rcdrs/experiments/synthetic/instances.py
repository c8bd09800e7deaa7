"""The synthetic conic benchmarks: nine cases, and instances with an exact solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.instances import Programs, Split, stream
from rcdrs.experiments.sampling import Magnitudes, Sampling, find_sampling, noted


@dataclass(frozen=True)
class Case:
    """One line of table 6."""

    family: str
    scale: str
    cone: Cone = field(compare=False)
    m: int
    condition: float

    @property
    def name(self) -> str:
        return f"{self.family}-{self.scale}"

    @property
    def n(self) -> int:
        return self.cone.dim


def _mixed(nonneg: int, soc: int, soc_dim: int, rotated: int, order: int) -> Cone:
    blocks = Nonneg(nonneg), SecondOrder(soc_dim, soc), RotatedSecondOrder(3, rotated), PSD(order)
    return Product(blocks)


CASES = {
    case.name: case
    for case in (
        Case("qp", "small", RotatedSecondOrder(3, 32), 44, 20),
        Case("qp", "medium", RotatedSecondOrder(3, 64), 88, 80),
        Case("qp", "hard", RotatedSecondOrder(3, 96), 136, 300),
        Case("socp", "small", SecondOrder(8, 8), 32, 20),
        Case("socp", "medium", SecondOrder(8, 16), 64, 80),
        Case("socp", "hard", SecondOrder(8, 20), 128, 200),
        Case("mixed", "small", _mixed(24, 4, 6, 12, 6), 48, 40),
        Case("mixed", "medium", _mixed(48, 8, 8, 24, 8), 96, 100),
        Case("mixed", "hard", _mixed(72, 12, 8, 36, 10), 160, 250),
    )
}


def find_case(name: str) -> Case:
    if name not in CASES:
        raise ValueError(f"unknown case {name!r}, expected one of {', '.join(CASES)}.")
    return CASES[name]


class InstanceSet(Programs[Split]):
    """All instances of one (case, seed)."""

    example = "socp-hard"

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.case = find_case(meta["case"])
        super().__init__(meta, tensors, self.case.cone)

    def split(self, b: Tensor, c: Tensor, x: Tensor, s: Tensor, y: Tensor) -> Split:
        return Split(self.program(b, c), x, s, y)


def generate(
    case: str,
    seed: int,
    sizes: dict[str, int],
    dtype: torch.dtype = torch.float32,
    sampling: str = "second",
) -> InstanceSet:
    """Instances of one case: KKT-consistent, from streams that depend on what they are for.

    Arguments
        sizes: instances in the splits train, validation and test.
        sampling: an edition of `rcdrs.experiments.sampling`.
    """
    meta = {"case": case, "seed": seed} | noted(sampling)
    return draw(meta, sizes, find_sampling(sampling), dtype)


def draw(
    meta: dict[str, Any], sizes: dict[str, int], sampling: Sampling, dtype: torch.dtype
) -> InstanceSet:
    r"""The same by any sampling, whether it has a name or not.

    ``A = U diag(sigma) V'`` with U, V from QR factors of Gaussian matrices and sigma spaced
    geometrically from 1 to 1/kappa.  Each instance samples (x*, s*, lambda*) and sets
    ``b = A x*``, ``c = A'lambda* + s*``, so that the triple solves it exactly.
    """
    case = find_case(meta["case"])

    def source(purpose: str) -> np.random.Generator:
        return stream(f"synthetic/{case.name}/{meta['seed']}/{purpose}")

    def solved(split: str, size: int) -> dict[str, np.ndarray]:
        x, s, y = sample(source(split), size, case, sampling.magnitudes[case.family])
        return {"b": x @ A.T, "c": y @ A + s, "x": x, "s": s, "y": y}

    condition = sampling.condition * case.condition
    A = equality_matrix(source("A"), case.m, case.cone, condition, sampling.symmetric)
    return InstanceSet.draw(meta, sizes, solved, dtype, A=A)


def equality_matrix(
    rng: np.random.Generator, m: int, cone: Cone, condition: float, symmetric: bool
) -> np.ndarray:
    """An (m, n) matrix with singular values spaced geometrically between 1 and 1/condition.

    If `symmetric`, its rows are symmetric matrices on PSD blocks.
    """
    U, _ = np.linalg.qr(rng.standard_normal((m, m)))
    rows = rng.standard_normal((cone.dim, m)).T
    V, _ = np.linalg.qr((symmetric_part(cone, rows) if symmetric else rows).T)
    return (U * np.geomspace(1, 1 / condition, m)) @ V.T


def symmetric_part(cone: Cone, rows: np.ndarray) -> np.ndarray:
    """Rows (..., n) with the symmetric part ``(X + X') / 2`` of every PSD block X."""
    match cone:
        case Product(cones=parts):
            ends = np.cumsum([part.dim for part in parts])[:-1]
            blocks = zip(parts, np.split(rows, ends, axis=-1), strict=True)
            return np.concatenate([symmetric_part(part, block) for part, block in blocks], axis=-1)
        case PSD(order=p):
            X = rows.reshape(*rows.shape[:-1], -1, p, p)
            return ((X + X.swapaxes(-1, -2)) / 2).reshape(rows.shape)
    return rows


def sample(
    rng: np.random.Generator, count: int, case: Case, magnitudes: Magnitudes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""`count` triples (x*, s*, lambda*) by Moreau's decomposition of a Gaussian point.

        x* = x Proj_K(v),  s* = s (Proj_K(v) - v),  lambda* = y w

    with ``v ~ N(0, I)``, ``w ~ N(0, I)`` and the magnitudes (x, s, y).  The two parts of v lie in K
    and K* and are orthogonal: a complementary pair in general position, for every cone alike and
    without a constant of its own.
    """
    v = rng.standard_normal((count, case.n))
    x = case.cone.project(torch.from_numpy(v)).numpy()
    y = rng.standard_normal((count, case.m))
    return magnitudes.x * x, magnitudes.s * (x - v), magnitudes.y * y
