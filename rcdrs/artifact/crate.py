"""A release as a Provenance Run Crate: what computed each released result, readable by machines.

RO-Crate is JSON-LD: entities that point to each other by ``@id``.  Here the workflow was run once,
and every job whose result is released is an action: a rule's command, with settings and code by
their digests, on a machine, for so many seconds, gave these files.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any

import yaml

from rcdrs.artifact.config import PAPER
from rcdrs.artifact.manifest import (
    MANIFEST,
    METADATA,
    RELEASED,
    RULES,
    Released,
    hash_of,
    places,
)
from rcdrs.artifact.plan import Plan
from rcdrs.experiments.settings import Plain

CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",
]
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
BIOSCHEMAS = "https://bioschemas.org/profiles"
SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
FORMATS = {
    **{".csv": "text/csv", ".html": "text/html", ".md": "text/markdown", ".tex": "text/x-tex"},
    **{".json": "application/json", ".yaml": "application/yaml", ".png": "image/png"},
    **{".npz": "application/zip", ".pt": "application/zip"},
}
#: What the manifest says of where a result was computed.
ENVIRONMENT = ("host", "machine", "cpu", "device", "python", "torch", "numpy")
FOLDERS = {
    "rcdrs": "The package: the layer, the experiments, the commands.",
    "tests": "What is held of code and results.",
    "workflow": "Rules, configuration, templates, notebooks, and what the paper leaves open.",
    "paper_tables": "Tables and claims, made from the released results.",
    "results": "Seed-level results and trained layers, with a manifest.",
    "envs": "Pinned versions.",
}


@dataclass(frozen=True)
class Commit:
    """The code that a crate is of, and when the last of its results was released."""

    name: str
    date: datetime
    released: datetime


@dataclass
class Graph:
    """Entities by their ``@id``, in the order in which they were first named."""

    entities: dict[str, Plain] = field(default_factory=dict)

    def add(self, name: str, kind: str | list[str], /, **properties: Any) -> Plain:
        """A reference to the entity; what is known of one that is there already stays."""
        told = {key: value for key, value in properties.items() if value not in (None, "", [])}
        known = self.entities.get(name, {})
        self.entities[name] = {"@id": name, "@type": kind} | told | known
        return {"@id": name}

    def append(self, name: str, /, **references: Plain) -> None:
        """To lists of the entity."""
        for key, reference in references.items():
            found = self.entities[name].setdefault(key, [])
            if reference not in found:
                found.append(reference)

    def compact(self) -> list[Plain]:
        """The entities, with lists of one as what is in them."""
        return [
            {key: value[0] if _alone(value) else value for key, value in entity.items()}
            for entity in self.entities.values()
        ]


def _alone(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def metadata(plan: Plan, files: Iterable[str], commit: Commit) -> str:
    """The text of `METADATA` for files below ``plan.root``, all results among which are current."""
    crate = _Crate(plan, sorted(files), commit)
    crate.describe()
    content = {"@context": CONTEXT, "@graph": crate.graph.compact()}
    return json.dumps(content, indent=1) + "\n"


class _Crate:
    def __init__(self, plan: Plan, files: list[str], commit: Commit) -> None:
        self.plan, self.files, self.commit = plan, files, commit
        self.graph = Graph()
        project = tomllib.loads((plan.root / "pyproject.toml").read_text("utf-8"))["project"]
        self.version = f"{project['version']} ({commit.name})"
        self.project = project
        self.citation = yaml.safe_load((plan.root / "CITATION.cff").read_text("utf-8"))

    def describe(self) -> None:
        add = self.graph.add
        add(
            METADATA,
            "CreativeWork",
            conformsTo=[{"@id": SPECIFICATION}, {"@id": list(PROFILES)[-1]}],
            about={"@id": "./"},
        )
        self.authors = [self._author(each) for each in self.citation["authors"]]
        license_url = f"https://spdx.org/licenses/{self.project['license']}"
        add(
            "./",
            "Dataset",
            name=self.citation["title"],
            description=self.project["description"],
            identifier=f"{self.project['name']} {self.version}",
            datePublished=self.commit.date.isoformat(),
            license=add(license_url, "CreativeWork", name=self.project["license"], url=license_url),
            author=self.authors,
            citation=self._paper(self.citation["preferred-citation"]),
            conformsTo=[
                add(url, "CreativeWork", name=name, version=url.rpartition("/")[2])
                for url, name in PROFILES.items()
            ],
            mainEntity={"@id": "Snakefile"},
        )
        self._workflow()
        for name in self.files:
            self._file(name)
        self._jobs(Released.read(self.plan.root / RELEASED))

    def _author(self, person: Plain) -> Plain:
        """An entity without a name of a person is a group."""
        address = person.get("website") or self.citation.get("repository-code")
        if "name" in person:
            return self.graph.add("#authors", "Organization", name=person["name"], url=address)
        name = f"{person['given-names']} {person['family-names']}"
        place = person.get("affiliation")
        where = place and self.graph.add(f"#{place.replace(' ', '-')}", "Organization", name=place)
        return self.graph.add(f"#{name.replace(' ', '-')}", "Person", name=name, affiliation=where)

    def _paper(self, paper: Plain) -> Plain:
        people = [self._author(each) for each in paper["authors"]]
        return self.graph.add("#paper", "ScholarlyArticle", name=paper["title"], author=people)

    def _file(self, name: str) -> None:
        """Results, tables and what lies beside them one by one; of other folders the folder."""
        top, _, inner = name.partition("/")
        if inner:
            folder = f"{top}/"
            self.graph.add(folder, "Dataset", name=top, description=FOLDERS.get(top))
            self.graph.append("./", hasPart={"@id": folder})
            if top not in ("results", "paper_tables") and name != PAPER:
                return
        else:
            folder = "./"
        path = self.plan.root / name
        self.graph.add(
            name,
            "File",
            name=name,
            encodingFormat=FORMATS.get(path.suffix, "text/plain"),
            contentSize=str(path.stat().st_size),
            sha256=hash_of(path),
            about={"@id": "./"} if name == "README.md" else None,
        )
        self.graph.append(folder, hasPart={"@id": name})

    def _workflow(self) -> None:
        """What is run, and the run; jobs are added to both."""
        add = self.graph.add
        configuration = self._parameter("configuration", "File", PAPER)
        tables = self._parameter("tables", "Dataset", "paper_tables/")
        for name in ("code", "settings"):
            self._parameter(name, "Text")
        url = "https://snakemake.readthedocs.io"
        snakemake = {"name": "Snakemake", "url": url}
        engine = add(url, "SoftwareApplication", **snakemake, version=version("snakemake"))
        add(
            "Snakefile",
            ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            name="The paper's tables from its experiments",
            conformsTo={"@id": f"{BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"},
            programmingLanguage=add(SNAKEMAKE, "ComputerLanguage", **snakemake),
            version=self.version,
            url={"@id": "README.md"},
            license=self.graph.entities["./"]["license"],
            author=self.authors,
            encodingFormat="text/plain",
            input=[configuration],
            output=[tables],
        )
        self.graph.append("./", hasPart={"@id": "Snakefile"})
        run = add(
            "#run",
            "CreateAction",
            name="The run of the workflow",
            description=(
                "All that is released, in one or several calls of Snakemake.  It ended before "
                "the last of its results was released, which is the time given."
            ),
            instrument={"@id": "Snakefile"},
            object=[{"@id": PAPER}],
            result=[{"@id": "paper_tables/"}],
            agent=self.authors,
            endTime=self.commit.released.isoformat(),
        )
        add(
            "#orchestration",
            "OrganizeAction",
            name="Snakemake, which starts the jobs",
            instrument=engine,
            result=run,
            agent=self.authors,
            endTime=self.commit.released.isoformat(),
        )
        self.graph.append("./", mentions=run)

    def _parameter(self, name: str, kind: str, example: str = "") -> Plain:
        profile = {"@id": f"{BIOSCHEMAS}/FormalParameter/1.0-RELEASE"}
        of = {"@id": example} if example else None
        known = {"name": name, "additionalType": kind, "conformsTo": profile, "workExample": of}
        return self.graph.add(f"#{name}", "FormalParameter", **known)

    def _jobs(self, released: Released) -> None:
        self.graph.entities[PAPER]["exampleOfWork"] = {"@id": "#configuration"}
        self.graph.entities["paper_tables/"]["exampleOfWork"] = {"@id": "#tables"}
        self.graph.append("results/", hasPart={"@id": f"{RELEASED}/{MANIFEST}"})
        for name in sorted(released.entries):
            if not name.endswith(".npz"):  # goes with the rows of its name
                self._job(released, name)

    def _job(self, released: Released, name: str) -> None:
        entry, rule = released.entries[name], RULES[places(name)["kind"]]
        self._tool(rule)
        details = f"{name.removesuffix('.csv')}.npz"
        results = [each for each in (name, details) if each in released.entries]
        files = [{"@id": f"{RELEASED}/{each}"} for each in results]
        for file in files:
            self.graph.entities[file["@id"]]["exampleOfWork"] = {"@id": f"#{rule}-results"}
        seconds = entry.get("seconds")
        action = self.graph.add(
            f"#job/{name}",
            "CreateAction",
            name=f"{rule} {name}",
            description=f"Of {', '.join(entry['digests'])}.",
            instrument={"@id": f"#{rule}"},
            object=[*self._inputs(released, name), *self._layers(released, name)],
            result=files,
            agent=self.authors,
            endTime=entry.get("ended"),
            environment=[
                self._value(f"environment/{each}/{entry[each]}", each, entry[each])
                for each in ENVIRONMENT
                if entry.get(each)
            ],
            resourceUsage=seconds
            and self._value(
                f"seconds/{seconds}",
                "wall time of the job",
                seconds,
                propertyID="https://schema.org/duration",
                unitCode="https://qudt.org/vocab/unit/SEC",
            ),
        )
        control = self.graph.add(
            f"#control/{name}",
            "ControlAction",
            name=f"start {rule} {name}",
            instrument={"@id": f"#step/{rule}"},
            object=action,
        )
        self.graph.append("#orchestration", object=control)
        self.graph.append("./", mentions=action)
        for file in files:
            self.graph.append("#run", result=file)

    def _tool(self, rule: str) -> None:
        """The command of a rule, and the step of the workflow that it is."""
        tool = self.graph.add(
            f"#{rule}",
            "SoftwareSourceCode",
            name=f"rcdrs {rule}",
            version=self.version,
            url={"@id": "README.md"},
            input=[{"@id": "#code"}, {"@id": "#settings"}],
            output=[self._parameter(f"{rule}-results", "File")],
        )
        step = self.graph.add(f"#step/{rule}", "HowToStep", name=rule, workExample=tool)
        self.graph.append("Snakefile", hasPart=tool, step=step)

    def _inputs(self, released: Released, name: str) -> list[Plain]:
        """Code and settings behind each part, told by the digests in the manifest."""
        found: dict[str, Plain] = {}
        for key in released.keys_of(name, self.plan.key):
            for part, one in self.plan.parts(key).items():
                if part not in released.entries[name]["digests"]:
                    continue
                code, settings = released.entries[name]["digests"][part].split()
                value = json.dumps(self.plan.all_settings(one))
                for digest, kind, text in ((code, "code", code), (settings, "settings", value)):
                    label = f"{kind} {digest}"
                    found[label] = self._value(
                        f"{kind}/{digest}", label, text, exampleOfWork={"@id": f"#{kind}"}
                    )
        return [found[label] for label in sorted(found)]

    def _layers(self, released: Released, name: str) -> list[Plain]:
        """The trained layers behind a result, where they are released as well."""
        behind = [
            layer.released()
            for key in released.keys_of(name, self.plan.key)
            if key.kind != "checkpoints"
            for layer in self.plan.behind(key).get("checkpoints", [])
        ]
        return [{"@id": f"{RELEASED}/{layer}"} for layer in behind if layer in released.entries]

    def _value(self, place: str, name: str, value: Any, **more: Any) -> Plain:
        place = place.replace(" ", "_")
        return self.graph.add(f"#{place}", "PropertyValue", name=name, value=value, **more)
