"""The lock: every package that an installation brings, with the hashes of its files.

It is resolved once for all platforms and extras, by `uv`, and lies in files of `envs/` that are
installed side by side.  torch has two of its own, of which one is taken: a file of hashes holds for
one build, and the public build for Linux brings CUDA.  What is checked needs no network: that the
lock has what pyproject.toml asks for, in the versions of constraints.txt, and says of nothing where
it is from.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from rcdrs.files import replacing

PROJECT, CONSTRAINTS = "pyproject.toml", "envs/constraints.txt"
#: What the README's commands need; the other extras; torch from the public index, or for a CPU.
BASE, MORE, TORCH, CPU = (
    f"envs/lock{part}.txt" for part in ("", "-extras", "-torch", "-torch-cpu")
)
FILES = (BASE, MORE, TORCH, CPU)
#: As `sha256sum` writes it: torch's wheels for a CPU, which the public index does not have.
WHEELS = "envs/wheels.sha256"
#: The extra that brings all that the README's commands need.
NEEDED = "test"
#: torch, and what it needs in its build for CUDA alone.
OF_TORCH = re.compile(r"torch|triton|(nvidia|cuda)-.*")
REMEDY = "run `rcdrs lock`, and commit what it writes"


@dataclass(frozen=True)
class Locked:
    """A package of the lock, as it is written, and who asks for it."""

    requirement: Requirement
    hashes: tuple[str, ...]
    asked_by: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        return str(self.requirement.specifier).removeprefix("==")

    def __str__(self) -> str:
        lines = [str(self.requirement).replace("; ", " ; ")]
        lines += [f"    --hash=sha256:{digest}" for digest in self.hashes]
        return " \\\n".join(lines) + f"\n    # via {', '.join(self.asked_by)}\n"


def read(text: str, place: str = "the lock") -> list[Locked]:
    """The packages of a file of the lock, or of what uv writes; an error for any other line."""
    found = []
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for part in re.split(r"\n(?=\S)", plain.strip()) if plain.strip() else ():
        first, *rest = part.split("\n")
        hashes = re.findall(r"^ +--hash=sha256:([0-9a-f]{64})(?: \\)?$", part, re.MULTILINE)
        told = [line.strip().lstrip("# ") for line in rest if line.lstrip().startswith("#")]
        names = ", ".join(told).removeprefix("via").lstrip(", ").split(", ")
        asked_by = tuple(name for name in names if not name.startswith("-c "))
        try:
            requirement = Requirement(first.removesuffix("\\"))
            if requirement.url or not re.fullmatch(r"==[^*,]+", str(requirement.specifier)):
                raise InvalidRequirement("no version")
            if not hashes or len(hashes) + len(told) != len(rest):
                raise InvalidRequirement("no hashes")
        except InvalidRequirement:
            raise ValueError(
                f"{place} has {first!r}, expected a package as `name==version` with sha256 hashes "
                f"and who asks for it, and nothing of where it is from: {REMEDY}."
            ) from None
        found.append(Locked(requirement, tuple(hashes), asked_by))
    return found


def asked(root: Path) -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for by extra, those that an extra includes with it."""
    project = tomllib.loads((root / PROJECT).read_text("utf-8"))["project"]
    optional: dict[str, list[str]] = project.get("optional-dependencies", {})

    def of(lines: list[str]) -> Iterator[Requirement]:
        for requirement in map(Requirement, lines):
            if canonicalize_name(requirement.name) != project["name"]:
                yield requirement
            for extra in requirement.extras:
                if canonicalize_name(requirement.name) == project["name"]:
                    yield from of(optional[extra])

    return {extra: [*of(project["dependencies"]), *of(optional[extra])] for extra in optional}


def sort(packages: list[Locked], needed: set[str]) -> dict[str, list[Locked]]:
    """The packages by file; `needed` are those that the base asks for itself."""
    base, size = set(needed), -1
    while size != (size := len(base)):
        base |= {one.name for one in packages if base & set(one.asked_by)}
    files: dict[str, list[Locked]] = {BASE: [], MORE: [], TORCH: []}
    for one in packages:
        of_torch = OF_TORCH.fullmatch(one.name)
        files[TORCH if of_torch else BASE if one.name in base else MORE].append(one)
    return files


def write(root: Path, upgrade: bool = False) -> None:
    """Resolve all again, and write the lock; packages keep their versions where they can, unless
    `upgrade`."""
    if find_spec("uv") is None:
        remedy = f"install it with `pip install -c {CONSTRAINTS} -e '.[lock]'`"
        raise ValueError(f"uv, which resolves the lock, is missing: {remedy}.")
    least = SpecifierSet(tomllib.loads((root / PROJECT).read_text())["project"]["requires-python"])
    with TemporaryDirectory() as folder:
        out = Path(folder, "lock.txt")
        kept = [root / name for name in (BASE, MORE, TORCH) if (root / name).exists()]
        # Versions alone, which uv then keeps: it would keep hashes unseen.
        locked = [one for path in kept for one in read(path.read_text(), path.name)]
        out.write_text("".join(f"{one.requirement}\n" for one in locked))
        command = [sys.executable, "-m", "uv", "pip", "compile", PROJECT, "--all-extras"]
        command += ["--constraints", CONSTRAINTS, "--universal", "--generate-hashes", "--no-header"]
        command += ["--python-version", min(each.version for each in least), "--no-config"]
        command += ["--no-emit-index-url", "--output-file", str(out), "--quiet"]
        command += ["--upgrade"] if upgrade else []
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"uv finds no lock for {PROJECT} and {CONSTRAINTS}:\n{done.stderr}")
        packages = read(out.read_text(), "what uv wrote")
    files = sort(packages, _names(asked(root)[NEEDED])) | {CPU: _wheels(root)}
    for name, part in files.items():
        with replacing(root / name) as temporary:
            temporary.write_text(f"# {TOLD[name]}\n# {HOW}\n" + "".join(map(str, part)))
    if wrong := check(root):
        raise ValueError("the lock that was written does not hold:\n" + "\n".join(wrong))


HOW = f"Made by `rcdrs lock` from {PROJECT} and {CONSTRAINTS}; envs/README.md says how to use it."
TOLD = {
    BASE: "All that the README's commands install but torch, which is in a file beside this one.",
    MORE: "In addition: what the other extras install.",
    TORCH: "torch from the public index, and what its build for Linux installs for CUDA.",
    CPU: "torch for a CPU, from the index or a folder that has such builds.",
}


def _wheels(root: Path) -> list[Locked]:
    """The packages whose wheels are listed by hand."""
    found: dict[str, list[str]] = {}
    for line in (root / WHEELS).read_text().splitlines():
        digest, file = line.split()
        name, version, *_ = parse_wheel_filename(file)
        found.setdefault(f"{name}=={version}", []).append(digest)
    return [Locked(Requirement(pin), tuple(sorted(d)), (WHEELS,)) for pin, d in found.items()]


def _names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def check(root: Path) -> list[str]:
    """What is wrong with the lock, if anything, and what to do."""
    if missing := [name for name in FILES if not (root / name).is_file()]:
        return [f"{missing[0]} is missing: {REMEDY}."]
    try:
        files = {name: read((root / name).read_text(), name) for name in FILES}
    except ValueError as error:
        return [str(error)]
    return [f"{wrong}: {REMEDY}." for wrong in _differences(root, files)]


def _differences(root: Path, files: dict[str, list[Locked]]) -> Iterator[str]:
    cpu = files.pop(CPU)
    packages = [one for part in files.values() for one in part]
    place = {one.name: name for name, part in files.items() for one in part}
    versions: dict[str, set[str]] = {}
    for one in packages:
        versions.setdefault(one.name, set()).add(one.version)

    name: str
    wanted = asked(root)
    for extra, requirements in wanted.items():
        for requirement in requirements:
            name = canonicalize_name(requirement.name)
            if name not in versions:
                yield f"the lock has no {name}, expected {requirement} of [{extra}] in {PROJECT}"
            for version in sorted(versions.get(name, ())):
                if not requirement.specifier.contains(version, prereleases=True):
                    yield f"{place[name]} has {name} {version}, expected {requirement} of {PROJECT}"

    for pin in _pins(root):
        name, expected = canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")
        for version in sorted(versions.get(name, {expected}) - {expected}):
            yield f"{place[name]} has {name} {version}, expected {expected} of {CONSTRAINTS}"

    names = set().union(*map(_names, wanted.values()))
    for one in packages:
        known = [by for by in one.asked_by if by in versions]
        if not known and one.name not in names:
            said = ", ".join(one.asked_by) or "nothing"
            yield f"{place[one.name]} has {one.name}, asked for by {said}, which does not any more"

    for name, part in sort(packages, _names(wanted[NEEDED])).items():
        for one in part:
            if place[one.name] != name:
                yield f"{place[one.name]} has {one.name}, expected it in {name}"

    for one in _wheels(root):
        public = one.version.partition("+")[0]
        if public not in (known_versions := versions.get(one.name, set())):
            expected = " or ".join(sorted(known_versions)) or "none"
            yield f"{WHEELS} has {one.name} {public}, expected {expected} as locked (replace those)"
    if cpu != _wheels(root):
        yield f"{CPU} has other wheels than {WHEELS}"


def _pins(root: Path) -> list[Requirement]:
    lines = (root / CONSTRAINTS).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]
