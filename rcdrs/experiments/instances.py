"""What the instances of all experiments share: random streams, splits, and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from rcdrs.cones import Cone
from rcdrs.experiments.sampling import find_sampling, noted
from rcdrs.files import read_arrays, reading, write_arrays
from rcdrs.solver.affine import AffineSet
from rcdrs.solver.problem import ConicProgram, check_numbers
from rcdrs.solver.readout import Errors, errors

SPLITS = ("train", "validation", "test")
S = TypeVar("S")
P = TypeVar("P", bound="Split")


def stream(name: str) -> np.random.Generator:
    """A random stream of its own for each purpose: adding one never shifts another."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


class Dataset(Generic[S]):
    """All instances of one case and seed: three independent splits, and one .npz file of them.

    `meta` says in plain values what they are, with case and seed at least.  `tensors` are those of
    the file; the names of a split's begin with its own, as in ``train_b``.
    """

    #: A case that it could be of.
    example: ClassVar[str]
    #: Tensors that are of no single split.
    shared: ClassVar[tuple[str, ...]] = ()

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.meta, self.tensors = meta, tensors
        self.name, self.seed = self.owner["case"], self.owner["seed"]
        names = [f"{split}_{part}" for split in SPLITS for part in signature(self.split).parameters]
        check_names("arrays", tensors, [*self.shared, *names])
        self.splits: dict[str, S] = {}
        for split in SPLITS:
            own = {
                k.removeprefix(f"{split}_"): t
                for k, t in tensors.items()
                if k.startswith(f"{split}_")
            }
            self.splits[split] = self.split(**own)
        self.train, self.validation, self.test = self.splits.values()

    def split(self, *args: Any, **tensors: Any) -> S:
        """A split of its tensors, by their names in the file: an experiment's own."""
        raise NotImplementedError

    def check(self) -> None:
        """An error where instances of a file are not what they have to be: an experiment's own."""

    @classmethod
    def draw(
        cls,
        meta: dict[str, Any],
        sizes: dict[str, int],
        draw: Callable[[str, int], dict[str, np.ndarray]],
        dtype: torch.dtype,
        **shared: np.ndarray,
    ) -> Self:
        """The arrays of each split by `draw(split, size)`, in float64, all rounded to `dtype`."""
        if sizes.keys() != set(SPLITS) or not all(count >= 1 for count in sizes.values()):
            raise ValueError(
                f"sizes is {sizes}, expected positive numbers for {', '.join(SPLITS)}."
            )
        kind = np.float32 if dtype == torch.float32 else np.float64
        arrays = dict(shared)
        for split in SPLITS:
            arrays |= {f"{split}_{key}": array for key, array in draw(split, sizes[split]).items()}
        return cls(meta, _from_numpy({key: array.astype(kind) for key, array in arrays.items()}))

    @property
    def owner(self) -> dict[str, Any]:
        """What these instances are, as whatever is made of them says: case, seed, and an edition
        of the sampling."""
        return owner_in(self.meta)

    @property
    def columns(self) -> tuple[str, str]:
        """Family and scale, as rows have them: those of ``socp-hard``, or ``dfl`` and ``-``."""
        family, _, scale = self.name.partition("-")
        return family, scale or "-"

    def to(self, device: torch.device) -> Self:
        """The same instances on another device."""
        if all(tensor.device == device for tensor in self.tensors.values()):
            return self
        return type(self)(self.meta, {key: t.to(device) for key, t in self.tensors.items()})

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file."""
        arrays = {key: tensor.numpy() for key, tensor in self.tensors.items()}
        arrays["meta"] = np.array(json.dumps(self.meta))
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a damaged or foreign file is an error that names it."""
        with _naming(path, cls.example):
            arrays = read_arrays(path)
            meta = json.loads(str(arrays.pop("meta")))
            tensors = _from_numpy(arrays)
            for name, tensor in tensors.items():
                check_numbers(name, tensor)
                if not tensor.numel():
                    raise ValueError(f"{name} is empty")
            if len(found := {tensor.dtype for tensor in tensors.values()}) > 1:
                raise TypeError(f"it mixes {' and '.join(sorted(map(str, found)))}")
            data = cls(meta, tensors)
            data.check()
            return data


@dataclass(frozen=True)
class Split:
    """Programs with their exact solutions (x, s, y) = (x*, s*, lambda*)."""

    program: ConicProgram
    x: Tensor
    s: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name, like in (("x", self.program.c), ("s", self.program.c), ("y", self.program.b)):
            found = tuple(getattr(self, name).shape)
            if found != tuple(like.shape):
                raise ValueError(f"{name} has shape {found}, expected {tuple(like.shape)}.")

    @property
    def batch(self) -> int:
        return self.program.batch

    def check(self) -> None:
        """The solutions are ones, up to rounding: ``A x = b``, ``A'y + s = c``, ``<x, s> = 0``."""
        A, b, c, x, s, y = (
            t.double() for t in (self.program.A, self.program.b, self.program.c, *self.solution)
        )
        length = {name: t.norm(dim=-1) for name, t in (("b", b), ("c", c), ("x", x), ("s", s))}
        conditions = {
            "A x* = b": ((x @ A.mT - b).norm(dim=-1), length["x"] + length["b"]),
            "A'lambda* + s* = c": ((y @ A + s - c).norm(dim=-1), length["s"] + length["c"]),
            "<x*, s*> = 0": ((x * s).sum(-1).abs(), length["x"] * length["s"]),
        }
        rounding = 1000 * torch.finfo(self.program.b.dtype).eps
        for condition, (error, scale) in conditions.items():
            if bool((bad := error > rounding * scale).any()):
                first = int(bad.nonzero()[0])
                raise ValueError(
                    f"{condition} does not hold for {int(bad.sum())} instances, as {first}"
                )

    @property
    def solution(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.x, self.s, self.y

    def errors(self, z: Tensor) -> Errors:
        return errors(self.program, z, self.x)

    def __getitem__(self, index: slice | Tensor) -> Self:
        return type(self)(*(getattr(self, field.name)[index] for field in fields(self)))


class Programs(Dataset[P]):
    """Instances with one A and one cone, and one factorisation for all splits."""

    shared = ("A",)

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor], cone: Cone) -> None:
        check_names("arrays", tensors.keys() & {"A"}, self.shared)
        self.A, self.cone = tensors["A"], cone
        if self.A.ndim != 2:
            raise ValueError(f"A has shape {tuple(self.A.shape)}, expected (m, n)")
        super().__init__(meta, tensors)

    def check(self) -> None:
        for name, split in self.splits.items():
            try:
                split.check()
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

    @cached_property
    def affine(self) -> AffineSet:
        return AffineSet(self.A)

    def program(self, b: Tensor, c: Tensor) -> ConicProgram:
        return ConicProgram(self.A, b, c, self.cone).with_affine(self.affine)


def owner_of(path: str | Path) -> dict[str, Any]:
    """What a set is of: a case as ``socp-hard``, ``dfl``, ``dispatch-turned``, and a seed."""
    with _naming(path), np.load(path, allow_pickle=False) as stored:
        return owner_in(json.loads(str(stored["meta"])))


def owner_in(meta: Any) -> dict[str, Any]:
    """The same, as the meta data of a set have it."""
    case, seed = (meta.get(name) if isinstance(meta, dict) else None for name in ("case", "seed"))
    if not isinstance(case, str) or type(seed) is not int or seed < 0:
        raise ValueError(f"its meta data say case {case!r} and seed {seed!r}, expected both")
    sampling = meta.get("sampling", "first")
    find_sampling(sampling)
    return {"case": case, "seed": seed} | noted(sampling)


def shown(owner: dict[str, Any]) -> str:
    """``socp-hard, seed 0``, and the sampling where it is noted."""
    case, *rest = owner.items()
    return ", ".join([case[1], *(f"{name} {value}" for name, value in rest)])


def check_names(what: str, found: Iterable[str], expected: Iterable[str]) -> None:
    found, expected = set(found), set(expected)
    for problem, names in (("lacks", expected - found), ("has unknown", found - expected)):
        if names:
            raise ValueError(f"it {problem} {what} {', '.join(sorted(names))}")


def _naming(path: str | Path, case: str = "CASE") -> AbstractContextManager[None]:
    remedy = f"delete it and generate it again with `rcdrs instances {case}`"
    return reading(path, "instance set", remedy)


def _from_numpy(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in arrays.items()}
