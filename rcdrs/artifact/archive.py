"""A release in one file: code, released results, tables, report, and the crate that describes them.

The same commit gives the same bytes.  A release that does not hold for its code, or code that is
not committed, gives none: an archive says of itself which code made its results.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from rcdrs.artifact.crate import Commit, metadata
from rcdrs.artifact.git import export, git
from rcdrs.artifact.manifest import MANIFEST, METADATA, RELEASED
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.times import count
from rcdrs.files import check_place, replacing, sha256

SUFFIX = ".tar.gz"
REPORT = "report.html"
#: Bytes; archives and those who review them have limits.
LARGEST = 60 * 10**6

#: Writes the report of a checkout to a file.
Report = Callable[[Plan, Path], None]


class NotArchived(ValueError):
    """A release that does not say the truth of itself."""


def write_archive(root: Path, out: Path, report: Report) -> int:
    """Everything in one file, with its sha256 beside it; how many bytes it has."""
    if not out.name.endswith(SUFFIX) or out.name == SUFFIX:
        raise NotArchived(f"--archive is {out}, expected a name that ends in {SUFFIX}.")
    check_place(out)
    with _gathered(root, report, out) as (folder, commit), replacing(out) as temporary:
        _pack(folder, out.name.removesuffix(SUFFIX), commit.date, temporary)
        if (size := temporary.stat().st_size) > LARGEST:
            raise NotArchived(
                f"the archive would have {size / 1e6:.0f} MB, and {LARGEST / 1e6:.0f} MB are the "
                f"limit; of {RELEASED}: {_largest(folder / RELEASED)}."
            )
    with replacing(out.with_name(f"{out.name}.sha256")) as temporary:
        temporary.write_text(f"{sha256(out)}  {out.name}\n")
    return size


def write_crate(root: Path, out: Path, report: Report) -> int:
    """The same as a folder; how many files it has."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise NotArchived(f"{out} is there and not empty: name a new folder for the crate.")
    with _gathered(root, report, out) as (folder, _):
        shutil.copytree(folder, out, dirs_exist_ok=True)
    return len(_files(out))


@contextlib.contextmanager
def _gathered(root: Path, report: Report, out: Path) -> Iterator[tuple[Path, Commit]]:
    """A temporary folder with all that belongs to a release, and nothing that is not committed."""
    _check_committed(root, out)
    _check_current(Plan.read(root))
    commit = Commit(
        git(root, "rev-parse", "HEAD"),
        _date(git(root, "log", "-1", "--format=%cI")),
        _date(git(root, "log", "-1", "--format=%cI", "--", f"{RELEASED}/{MANIFEST}")),
    )
    with TemporaryDirectory(prefix="rcdrs-archive-") as name:
        folder = export(root, commit.name, Path(name))
        plan = Plan.read(folder)
        # Where it is unpacked there are released results alone, so the report is of these.
        with contextlib.chdir(folder):
            report(plan, folder / REPORT)
        (folder / METADATA).write_text(metadata(plan, _files(folder), commit), "utf-8")
        yield folder, commit


def _check_committed(root: Path, out: Path) -> None:
    """But for what is being made."""
    if not (root / ".git").exists():
        raise NotArchived(f"{root} is not a git checkout: clone the repository, and call it there.")
    own = {out.resolve(), out.with_name(f"{out.name}.sha256").resolve()}
    lines = git(root, "status", "--porcelain", "--untracked-files=all", "-z").split("\0")
    changed = [line for line in lines if line and (root / line[3:]).resolve() not in own]
    if changed:
        shown = "\n".join(changed[:10]) + ("\n..." if len(changed) > 10 else "")
        raise NotArchived(
            f"what is archived is a commit, and in {root} these are not committed:\n{shown}\n"
            "Commit them, or put them aside with `git stash -u`."
        )


def _check_current(plan: Plan) -> None:
    released, now = plan.released, plan.released_digests()
    if not released.entries:
        raise NotArchived(f"{released.folder} has no results: release them with `rcdrs release`.")
    if odd := released.warning():
        raise NotArchived(odd)
    stale = [
        f"{part} in {name}"
        for name, entry in released.entries.items()
        for part, digest in entry["digests"].items()
        if now[name].get(part) != digest
    ]
    if stale:
        shown = ", ".join(stale[:3]) + (", ..." if len(stale) > 3 else "")
        raise NotArchived(
            f"{count(len(stale), 'released result')} of other code or settings than those of this "
            f"checkout ({shown}): compute and release them again, or show with `rcdrs verify` "
            "that they hold."
        )
    for name in released.entries:
        released.verify(name)


def _pack(folder: Path, name: str, date: datetime, out: Path) -> None:
    """In a fixed order, by nobody, at the time of the commit.

    Tables are older than all that they are made from, so that Snakemake makes them again.
    """
    with (
        open(out, "wb") as stream,
        gzip.GzipFile("", "wb", 9, stream, mtime=date.timestamp()) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as files,
    ):
        for path in _files(folder):
            about = files.gettarinfo(folder / path, f"{name}/{path}")
            about.uid = about.gid = 0
            about.uname = about.gname = ""
            about.mode = 0o755 if about.mode & 0o100 else 0o644
            made = path.startswith("paper_tables/")
            about.mtime = int((date - timedelta(minutes=made)).timestamp())
            with open(folder / path, "rb") as content:
                files.addfile(about, content)


def _files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _largest(folder: Path) -> str:
    sizes = {
        part.name: sum((part / name).stat().st_size for name in _files(part))
        for part in folder.iterdir()
        if part.is_dir()
    }
    ordered = sorted(sizes, key=sizes.__getitem__, reverse=True)
    return ", ".join(f"{name} {sizes[name] / 1e6:.0f} MB" for name in ordered[:3])


def _date(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
