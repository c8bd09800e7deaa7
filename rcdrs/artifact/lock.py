"""The lock: every package that an installation brings, with the hashes of its files.

It is resolved once for all platforms and extras, by `uv`, and lies in three files of `envs/` that
are installed side by side.  What is checked needs no network: that the lock has what pyproject.toml
asks for, in the versions of constraints.txt, and says of nothing where it is from.
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
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from rcdrs.files import replacing

PROJECT, CONSTRAINTS = "pyproject.toml", "envs/constraints.txt"
#: What the README's commands need; the other extras; what torch's public build for Linux needs.
BASE, MORE, CUDA = (f"envs/lock{part}.txt" for part in ("", "-extras", "-cuda"))
#: As `sha256sum` writes it: wheels of other indexes, which may stand in for the public ones.
WHEELS = "envs/wheels.sha256"
#: The extra that brings all that the README's commands need.
NEEDED = "test"
#: No package for CPUs is called so.
ACCELERATED = re.compile(r"(nvidia|cuda)-.*|triton")
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
    files: dict[str, list[Locked]] = {BASE: [], MORE: [], CUDA: []}
    for one in packages:
        accelerated = ACCELERATED.fullmatch(one.name)
        files[CUDA if accelerated else BASE if one.name in base else MORE].append(one)
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
        kept = [root / name for name in (BASE, MORE, CUDA) if (root / name).exists()]
        out.write_text("".join(path.read_text() for path in kept))
        command = [sys.executable, "-m", "uv", "pip", "compile", PROJECT, "--all-extras"]
        command += ["--constraints", CONSTRAINTS, "--universal", "--generate-hashes", "--no-header"]
        command += ["--python-version", min(each.version for each in least), "--no-config"]
        command += ["--no-emit-index-url", "--output-file", str(out), "--quiet"]
        command += ["--upgrade"] if upgrade else []
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"uv finds no lock for {PROJECT} and {CONSTRAINTS}:\n{done.stderr}")
        packages = [_with_wheels(root, one) for one in read(out.read_text(), "what uv wrote")]
    needed = {canonicalize_name(requirement.name) for requirement in asked(root)[NEEDED]}
    for name, part in sort(packages, needed).items():
        with replacing(root / name) as temporary:
            temporary.write_text(f"# {TOLD[name]}\n# {HOW}\n" + "".join(map(str, part)))
    if wrong := check(root):
        raise ValueError("the lock that was written does not hold:\n" + "\n".join(wrong))


HOW = f"Made by `rcdrs lock` from {PROJECT} and {CONSTRAINTS}; envs/README.md says how to use it."
TOLD = {
    BASE: "All that the README's commands install, with torch for a CPU or a Mac.",
    MORE: "In addition: what the other extras install.",
    CUDA: "In addition: what the public build of torch for Linux installs.",
}


def _wheels(root: Path) -> dict[str, dict[str, list[str]]]:
    """Hashes of the wheels of other indexes, by package and version."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in (root / WHEELS).read_text().splitlines():
        digest, file = line.split()
        name, version, *_ = parse_wheel_filename(file)
        found.setdefault(name, {}).setdefault(version.public, []).append(digest)
    return found


def _with_wheels(root: Path, one: Locked) -> Locked:
    also = _wheels(root).get(one.name, {}).get(one.version, [])
    return Locked(one.requirement, tuple(sorted({*one.hashes, *also})), one.asked_by)


def check(root: Path) -> list[str]:
    """What is wrong with the lock, if anything, and what to do."""
    if missing := [name for name in (BASE, MORE, CUDA) if not (root / name).is_file()]:
        return [f"{missing[0]} is missing: {REMEDY}."]
    try:
        files = {name: read((root / name).read_text(), name) for name in (BASE, MORE, CUDA)}
    except ValueError as error:
        return [str(error)]
    return [f"{wrong}: {REMEDY}." for wrong in _differences(root, files)]


def _differences(root: Path, files: dict[str, list[Locked]]) -> Iterator[str]:
    packages = [one for part in files.values() for one in part]
    place = {one.name: name for name, part in files.items() for one in part}
    versions: dict[str, set[str]] = {}
    for one in packages:
        versions.setdefault(one.name, set()).add(one.version)

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

    names = {canonicalize_name(each.name) for part in wanted.values() for each in part}
    for one in packages:
        known = [by for by in one.asked_by if by in versions]
        if not known and one.name not in names:
            said = ", ".join(one.asked_by) or "nothing"
            yield f"{place[one.name]} has {one.name}, asked for by {said}, which does not any more"

    needed = {canonicalize_name(requirement.name) for requirement in wanted[NEEDED]}
    for name, part in sort(packages, needed).items():
        for one in part:
            if place[one.name] != name:
                yield f"{place[one.name]} has {one.name}, expected it in {name}"

    for package, known_versions in _wheels(root).items():
        for version, digests in known_versions.items():
            locked: dict[str, Any] = {
                one.version: set(one.hashes) for one in packages if one.name == package
            }
            if version not in locked:
                have = " and ".join(locked) or "none"
                yield f"{WHEELS} has {package} {version}, expected {have} as locked (replace those)"
            elif lost := set(digests) - locked[version]:
                yield f"{place[package]} lacks the hash {min(lost)} of {package} in {WHEELS}"


def _pins(root: Path) -> list[Requirement]:
    lines = (root / CONSTRAINTS).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]
