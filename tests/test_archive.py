"""A release for others: one file with everything, and the crate that says how it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from conftest import needs_git

from rcdrs.artifact import archive
from rcdrs.artifact.archive import NotArchived, write_archive, write_crate
from rcdrs.artifact.config import PAPER
from rcdrs.artifact.digest import settings_digest
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import MANIFEST, METADATA, RELEASED, DamagedRelease, Released
from rcdrs.artifact.plan import Plan
from rcdrs.cli import results as commands
from rcdrs.cli.main import main
from rcdrs.files import sha256

ROOT = Path(__file__).parents[1]
ROW = Key("rows", "synthetic", "qp-small", 0, 5, "RCDRS-Env", "log_kkt")
OTHER = replace(ROW, method="Grid-DRS", recipe="paper")
LAYER = replace(ROW, kind="checkpoints")
TIMES = Key("times", "synthetic", "qp-small", 0)
DATE = datetime(2026, 5, 17, 12, tzinfo=UTC)
ORIGIN = {"host": "here", "machine": "x86_64 Linux", "python": "3.11.7", "torch": "2.13.0"}
ENDED = {"seconds": 12.5, "ended": "2026-05-16T10:00:00+00:00"}

pytestmark = needs_git


def git(checkout, *words):
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    dates = {f"GIT_{whose}_DATE": DATE.isoformat() for whose in ("AUTHOR", "COMMITTER")}
    command = ["git", "-C", checkout, *who, *words]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | dates)


def commit(checkout):
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "all")


@pytest.fixture
def checkout(tmp_path):
    """A repository with a configuration, tables, and a release of four files."""
    return make_checkout(tmp_path / "checkout")


def make_checkout(root):
    files = (PAPER, "Snakefile", "README.md", "pyproject.toml", "CITATION.cff", ".gitignore")
    for name in (*files, "paper_tables/protocol.csv", ".ci/run"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    plan, released = Plan.read(root), Released(root / RELEASED)
    for keys in ((ROW, OTHER), (LAYER,), (TIMES,)):
        path = released.path(keys[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        digests = {part: text for key in keys for part, text in plan.digests(key).items()}
        for each in (path, path.with_suffix(".npz")) if keys[0] is ROW else (path,):
            each.write_text(f"what is in {each.name}\n")
            entry = ORIGIN | ENDED | {"sha256": sha256(each), "digests": digests}
            released.entries[each.relative_to(released.folder).as_posix()] = entry
    released.write()
    git(root, "init", "-q")
    commit(root)
    return root


def report(plan, out):
    out.write_text(f"<!doctype html><title>{plan.config.run}</title>\n")


def names(packed):
    with tarfile.open(packed) as files:
        return [member.name.partition("/")[2] for member in files.getmembers()]


# The archive


def test_same_commit_gives_the_same_bytes(checkout, tmp_path):
    """Whenever it is made, and whatever else lies in the checkout."""
    first, second = (tmp_path / folder / "rcdrs.tar.gz" for folder in "ab")
    write_archive(checkout, first, report)
    for path in checkout.rglob("*.*"):
        os.utime(path, (1, 1))
    (checkout / "results/paper").mkdir()
    (checkout / "results/paper/x.csv").write_text("a run, which git ignores")
    write_archive(checkout, second, report)
    assert first.read_bytes() == second.read_bytes()
    told = f"{sha256(first)}  rcdrs.tar.gz\n"
    assert (tmp_path / "a/rcdrs.tar.gz.sha256").read_text() == told


def test_archive_has_what_is_committed_with_report_and_crate(checkout, tmp_path):
    out = tmp_path / "rcdrs.tar.gz"
    write_archive(checkout, out, report)
    done = subprocess.run(["git", "-C", checkout, "ls-files"], capture_output=True, text=True)
    assert names(out) == sorted([*done.stdout.split(), "report.html", METADATA])
    with tarfile.open(out) as files:
        members = files.getmembers()
        assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}
        assert {m.name for m in members if m.mode & 0o111} == {"rcdrs/.ci/run"}
        times = {m.name: m.mtime for m in members}
    # Snakemake makes a table again that is older than its numbers.
    assert times.pop("rcdrs/paper_tables/protocol.csv") < DATE.timestamp()
    assert set(times.values()) == {DATE.timestamp()}


def test_archive_in_the_checkout_does_not_stand_in_its_own_way(checkout):
    for _ in range(2):
        write_archive(checkout, checkout / "rcdrs.tar.gz", report)
    assert "rcdrs.tar.gz" not in names(checkout / "rcdrs.tar.gz")


@pytest.mark.parametrize("name", ["README.md", "new.py"])
def test_what_is_not_committed_is_named(checkout, tmp_path, name):
    with open(checkout / name, "a") as stream:
        stream.write("more\n")
    with pytest.raises(NotArchived, match=rf"not committed:\n(\?\?| M) {name}\nCommit them, or"):
        write_archive(checkout, tmp_path / "rcdrs.tar.gz", report)
    assert not (tmp_path / "rcdrs.tar.gz").exists()


def test_stale_release_is_refused_by_name(checkout, tmp_path):
    """Other epochs of the paper's recipe leave the rest as it is."""
    path = checkout / PAPER
    changed = re.sub(r"(log_kkt:\n(?:.*\n)*?.*epochs: )\d+", r"\g<1>7", path.read_text(), count=1)
    assert changed != path.read_text()
    path.write_text(changed)
    commit(checkout)
    part = rf"RCDRS-Env@log_kkt in {re.escape(LAYER.released())}"
    with pytest.raises(NotArchived, match=rf"released results of other code .*{part}") as refused:
        write_archive(checkout, tmp_path / "rcdrs.tar.gz", report)
    assert "Grid-DRS" not in str(refused.value)


def test_damaged_release_is_refused(checkout, tmp_path):
    (checkout / RELEASED / LAYER.released()).write_text("other")
    commit(checkout)
    with pytest.raises(DamagedRelease, match=r"qp-small-0-K5.pt differs from its manifest"):
        write_crate(checkout, tmp_path / "crate", report)


def test_archive_that_is_too_large_is_not_kept(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 1000)
    with pytest.raises(NotArchived, match=r"limit; of results/released: synthetic 0 MB, chec"):
        write_archive(checkout, tmp_path / "rcdrs.tar.gz", report)
    assert {path.name for path in tmp_path.iterdir()} == {"checkout"}


@pytest.mark.parametrize("name", ["rcdrs.zip", ".tar.gz", "rcdrs"])
def test_name_of_an_archive_says_what_it_is(checkout, tmp_path, name):
    with pytest.raises(NotArchived, match=r"expected a name that ends in .tar.gz"):
        write_archive(checkout, tmp_path / name, report)


def test_command_makes_both(checkout, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "ROOT", checkout)
    monkeypatch.setattr(commands, "_report_of", report)
    out, folder = tmp_path / "rcdrs.tar.gz", tmp_path / "crate"
    assert main(["release", "--archive", str(out), "--crate", str(folder)]) == 0
    told = capsys.readouterr().out
    assert f"wrote {out}: 0.0 MB, and {out}.sha256\n" in told
    assert f"wrote {folder}: {len(names(out))} files\n" in told
    assert main(["release", "--crate", str(folder)]) == 2
    assert "is there and not empty: name a new folder" in capsys.readouterr().err
    assert main(["release", "--crate", str(folder), "--configfile", str(checkout / PAPER)]) == 2
    assert "--configfile says what to release" in capsys.readouterr().err


def test_unpacked_archive_says_what_it_cannot_do_and_where_it_is_from(checkout, tmp_path):
    """There is no git: neither to make another, nor to restore a file."""
    write_crate(checkout, tmp_path / "crate", report)
    with pytest.raises(NotArchived, match="is not a git checkout: clone the repository"):
        write_archive(tmp_path / "crate", tmp_path / "rcdrs.tar.gz", report)
    released = Released.read(tmp_path / "crate" / RELEASED)
    (released.folder / ROW.released()).unlink()
    plan = Plan.read(tmp_path / "crate")
    told = f"restore {RELEASED}/{ROW.released()} from the archive that this was unpacked from"
    with pytest.raises(DamagedRelease, match=told):
        plan.result(ROW)


# The crate


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    """The folder of one, beside the checkout that it is of."""
    folder = tmp_path_factory.mktemp("made")
    write_crate(make_checkout(folder / "checkout"), folder / "crate", report)
    return folder / "crate"


@pytest.fixture(scope="module")
def entities(crate):
    content = json.loads((crate / METADATA).read_text())
    return {entity["@id"]: entity for entity in content["@graph"]}


def listed(value):
    return value if isinstance(value, list) else [value]


def references(entity):
    for value in entity.values():
        yield from (each["@id"] for each in listed(value) if isinstance(each, dict))


def test_every_reference_is_to_an_entity_or_to_the_web(entities):
    named = {name for entity in entities.values() for name in references(entity)}
    assert {n for n in named - entities.keys() if not n.startswith("https://")} == set()


def test_every_file_that_a_crate_names_is_there(entities, crate):
    files = [name for name, each in entities.items() if "File" in listed(each["@type"])]
    for name in files:
        assert sha256(crate / name) == entities[name]["sha256"]
    assert {f"{RELEASED}/{ROW.released()}", f"{RELEASED}/{MANIFEST}", "report.html"} <= set(files)


def test_every_released_file_is_the_result_of_one_job(entities, crate):
    entries = Released.read(crate / RELEASED).entries
    jobs = [each for name, each in entities.items() if name.startswith("#job/")]
    made = [result["@id"] for job in jobs for result in listed(job["result"])]
    assert sorted(made) == sorted(f"{RELEASED}/{name}" for name in entries)
    assert {job["@id"] for job in jobs} < {each["@id"] for each in entities["./"]["mentions"]}


def test_job_says_by_what_of_what_where_and_how_long(entities, crate):
    job = entities[f"#job/{ROW.released()}"]
    assert entities[job["instrument"]["@id"]]["name"] == "rcdrs evaluate"
    assert job["endTime"] == ENDED["ended"]
    assert entities[job["resourceUsage"]["@id"]]["value"] == ENDED["seconds"]
    where = {entities[each["@id"]]["name"]: entities[each["@id"]] for each in job["environment"]}
    assert {name: each["value"] for name, each in where.items()} == ORIGIN
    inputs = {each["@id"] for each in job["object"]}
    plan = Plan.read(crate)
    for key in (ROW, OTHER):
        code, settings = plan.digests(key)[key.run].split()
        assert {f"#code/{code}", f"#settings/{settings}"} <= inputs
    assert f"{RELEASED}/{LAYER.released()}" in inputs  # the layer that was evaluated


def test_settings_are_those_of_their_digest(entities):
    found = {n: each for n, each in entities.items() if n.startswith("#settings/")}
    assert found
    for name, each in found.items():
        assert settings_digest(json.loads(each["value"])) == name.removeprefix("#settings/")


#: Recommendations that cannot be followed, by what is recommended, with the reason.
KNOWN = {
    "The `publisher` property": "whoever keeps the archive publishes it",
    "The organization SHOULD have a URL": "authors and the paper give none",
    "The SoftwareApplication id SHOULD be an absolute URI": "the code lies in the crate",
}
SCHEMA = """
CreateAction ControlAction OrganizeAction PropertyValue Dataset CreativeWork SoftwareApplication
HowTo HowToStep Person Organization ScholarlyArticle SoftwareSourceCode ComputerLanguage name
description identifier datePublished license author citation mainEntity about hasPart mentions url
version programmingLanguage encodingFormat contentSize exampleOfWork workExample additionalType
instrument object result agent endTime step value propertyID unitCode affiliation
"""
BIOSCHEMAS = "https://bioschemas.org/ComputationalWorkflow"
#: What the two contexts on the web say of these terms.
CRATE = {name: f"http://schema.org/{name}" for name in SCHEMA.split()} | {
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "ComputationalWorkflow": BIOSCHEMAS,
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    **{name: f"{BIOSCHEMAS}#{name}" for name in ("input", "output")},
}
TERMS = "https://w3id.org/ro/terms/workflow-run"
RUN = {name: f"{TERMS}#{name}" for name in ("sha256", "environment", "resourceUsage")}
CONTEXTS = {"https://w3id.org/ro/crate/1.1/context": CRATE, f"{TERMS}/context": RUN}


class Answer:
    """Of the web, which tests do not ask."""

    status_code, ok = 200, True
    headers = {"Content-Type": "application/ld+json"}  # noqa: RUF012

    def __init__(self, url):
        self.text = json.dumps({"@context": CONTEXTS[url]})

    def json(self):
        return json.loads(self.text)

    def raise_for_status(self):
        pass


def test_crate_is_a_valid_provenance_run_crate(crate, monkeypatch):
    """By the validator, which `pip install -c envs/constraints.txt roc-validator` brings: nothing
    is missing that is required, nor of what is recommended, but for what cannot be had."""
    pytest.importorskip("rocrate_validator", reason="pip install roc-validator brings what checks")
    from rocrate_validator import services
    from rocrate_validator.models import Severity, ValidationSettings
    from rocrate_validator.utils.http import HttpRequester

    monkeypatch.setattr(HttpRequester, "get", lambda self, url, **_: Answer(url), raising=False)
    result = services.validate(
        ValidationSettings(
            rocrate_uri=crate,
            profile_identifier="provenance-run-crate-0.5",
            requirement_severity=Severity.RECOMMENDED,
        )
    )
    found = {(issue.severity, issue.message) for issue in result.get_issues()}
    assert not [message for severity, message in found if severity == Severity.REQUIRED]
    odd = [message for _, message in found if not message.startswith(tuple(KNOWN))]
    assert not odd, "\n".join(odd)


# What describes the software elsewhere


def test_citation_and_codemeta_agree_with_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    codemeta = json.loads((ROOT / "codemeta.json").read_text())
    assert codemeta["name"] == project["name"]
    assert codemeta["description"] == project["description"]
    assert codemeta["version"] == citation["version"] == project["version"]
    assert codemeta["license"] == f"https://spdx.org/licenses/{project['license']}"
    assert citation["license"] == project["license"]
    wanted = [re.split("[<>=]", line)[0] for line in project["dependencies"]]
    assert codemeta["softwareRequirements"] == wanted
    assert [each["name"] for each in codemeta["author"]] == [
        each["name"] for each in citation["authors"]
    ]
    paper = citation["preferred-citation"]["title"].replace("--", "-")
    assert codemeta["referencePublication"]["name"] == paper
