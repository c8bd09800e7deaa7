"""The synthetic conic benchmarks: nine cases, and instances with an exact solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import PSD, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.instances import (
    SPLITS,
    check_sizes,
    reading_set,
    stream,
    to_tensors,
    write_set,
)
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.readout import Errors, errors

#: Instances in each split, table app_global_protocol.
SIZES = {"train": 2000, "validation": 400, "test": 400}


@dataclass(frozen=True)
class Scales:
    """Magnitudes of x*, s* and lambda*, which the paper leaves open: see `sample`."""

    x: float
    s: float
    y: float


#: Fitted to the classical rows of the paper's tables alone, see `calibration`; the paper has none
#: for the QP lift, whose rotated blocks are second-order cones turned: it takes those of the SOCP.
SCALES = {
    "qp": Scales(x=2.4, s=0.075, y=0.044),
    "socp": Scales(x=2.4, s=0.075, y=0.044),
    "mixed": Scales(x=0.78, s=0.28, y=3.5),
}


@dataclass(frozen=True)
class Case:
    """One line of table app_benchmark_case_summary."""

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
    return Product(
        [
            Nonneg(nonneg),
            SecondOrder(soc_dim, soc),
            RotatedSecondOrder(3, rotated),
            PSD(order),
        ]
    )


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


@dataclass(frozen=True)
class Split:
    """A batch of instances with their exact solutions (x*, s*, lambda*)."""

    program: ConicProgram
    x: Tensor
    s: Tensor
    y: Tensor

    def errors(self, z: Tensor) -> Errors:
        return errors(self.program, z, self.x)

    def tensors(self) -> list[tuple[str, Tensor]]:
        """What a file keeps of it."""
        program = self.program
        return [("b", program.b), ("c", program.c), ("x", self.x), ("s", self.s), ("y", self.y)]

    def __getitem__(self, index: slice) -> Split:
        return Split(self.program[index], self.x[index], self.s[index], self.y[index])


@dataclass(frozen=True)
class InstanceSet:
    """All instances of one (case, seed): one A, three independent splits."""

    case: Case
    seed: int
    A: Tensor
    splits: dict[str, Split]

    def __getattr__(self, name: str) -> Split:
        try:
            return self.__dict__["splits"][name]
        except KeyError:
            raise AttributeError(name) from None

    def to(self, device: torch.device) -> InstanceSet:
        """The same instances on another device."""
        if self.A.device == device:
            return self
        moved = {key: tensor.to(device) for key, tensor in self._tensors().items()}
        return _assemble(self.case, self.seed, moved)

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file."""
        write_set(path, self._tensors(), {"case": self.case.name, "seed": self.seed})

    @staticmethod
    def load(path: str | Path) -> InstanceSet:
        """Read what `save` wrote; a damaged file is an error that names it."""
        with reading_set(path, "python -m rcdrs instances") as (tensors, meta):
            return _assemble(find_case(meta["case"]), meta["seed"], tensors)

    def _tensors(self) -> dict[str, Tensor]:
        parts = {f"{name}_{key}": t for name, s in self.splits.items() for key, t in s.tensors()}
        return {"A": self.A, **parts}


def generate(
    case: Case | str,
    seed: int,
    sizes: dict[str, int] | None = None,
    scales: Scales | None = None,
    dtype: torch.dtype = torch.float32,
) -> InstanceSet:
    r"""Instances of one case: KKT-consistent, from streams that depend on what they are for.

    ``A = U diag(sigma) V'`` with U, V from QR factors of Gaussian matrices and sigma spaced
    geometrically from 1 to 1/kappa.  Each instance samples (x*, s*, lambda*) and sets
    ``b = A x*``, ``c = A'lambda* + s*``, so that the triple solves it exactly.
    """
    case = find_case(case) if isinstance(case, str) else case
    scales = scales or SCALES[case.family]
    sizes = check_sizes(SIZES if sizes is None else sizes)

    def source(purpose: str) -> np.random.Generator:
        return stream(f"synthetic/{case.name}/{seed}/{purpose}")

    A = equality_matrix(source("A"), case.m, case.n, case.condition)
    arrays = {"A": A}
    for name in SPLITS:
        x, s, y = sample(source(name), sizes[name], case, scales)
        arrays |= {f"{name}_x": x, f"{name}_s": s, f"{name}_y": y}
        arrays |= {f"{name}_b": x @ A.T, f"{name}_c": y @ A + s}
    return _assemble(case, seed, to_tensors(arrays, dtype))


def equality_matrix(rng: np.random.Generator, m: int, n: int, condition: float) -> np.ndarray:
    """An (m, n) matrix with singular values spaced geometrically between 1 and 1/condition."""
    U, _ = np.linalg.qr(rng.standard_normal((m, m)))
    V, _ = np.linalg.qr(rng.standard_normal((n, m)))
    return (U * np.geomspace(1, 1 / condition, m)) @ V.T


def sample(
    rng: np.random.Generator, count: int, case: Case, scales: Scales
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""`count` triples (x*, s*, lambda*) by Moreau's decomposition of a Gaussian point.

        x* = scales.x Proj_K(v),  s* = scales.s (Proj_K(v) - v),  lambda* = scales.y w

    with ``v ~ N(0, I)`` and ``w ~ N(0, I)``.  The two parts of v lie in K and K* and are
    orthogonal: a complementary pair in general position, for every cone alike and without a
    constant of its own.  The paper leaves the sampling open.  Random signs and magnitudes of the
    eigenvalues fit its mixed rows slightly better (rms 0.73 against 0.78, `calibration.rms`), but
    need code for each cone; no sampling tried reproduces those rows.
    """
    v = rng.standard_normal((count, case.n))
    x = case.cone.project(torch.from_numpy(v)).numpy()
    y = rng.standard_normal((count, case.m))
    return scales.x * x, scales.s * (x - v), scales.y * y


def _assemble(case: Case, seed: int, tensors: dict[str, Tensor]) -> InstanceSet:
    A = tensors["A"]
    splits: dict[str, Split] = {}
    for name in SPLITS:
        b, c, x, s, y = (tensors[f"{name}_{key}"] for key in "bcxsy")
        program = ConicProgram(A, b, c, case.cone)
        if splits:  # one factorisation serves all three
            program = program.with_affine(splits[SPLITS[0]].program.affine)
        splits[name] = Split(program, x, s, y)
    return InstanceSet(case, seed, A, splits)
