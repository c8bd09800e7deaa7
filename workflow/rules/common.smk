# Functions for the inputs and parameters of rules: `snakemake --lint` wants them apart from the
# rules.  What a result is made from, and with which settings, is the plan's to say.
import re
from functools import cache

import yaml
from rcdrs.artifact.config import PAPER, ConfigError
from rcdrs.artifact.digest import code_digest, settings_digest
from rcdrs.reporting.tables import files

# Of conda, for all rules; Snakemake formats the path, and a folder may have braces in its name.
ENVIRONMENT = re.sub("([{}])", r"\1\1", f"{ROOT}/envs/rcdrs.yaml")


def key(kind, wildcards):
    """Of the result that a job is for; a universe is a folder in the names of files."""
    places = dict(wildcards)
    universe = places.pop("within").removeprefix("universes/").removesuffix("/")
    try:
        plan.within(universe)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    return plan.key(kind, universe=universe, **places)


def behind(kind, name):
    """The files of a run that a result is computed from, under one name."""
    return lambda wildcards: [
        f"{RUN}/{part}" for part in plan.behind(key(kind, wildcards)).get(name, [])
    ]


def code(kind):
    return lambda wildcards: plan.code(key(kind, wildcards))


def settings(kind):
    return lambda wildcards: json.dumps(
        plan.settings(key(kind, wildcards)), sort_keys=True
    )


def code_of(module, *functions):
    """The digest of functions of a module of `rcdrs.reporting`."""
    places = [(f"rcdrs.reporting.{module}", function) for function in functions]
    return lambda wildcards: code_digest(*places)


def shown(path, category, **labels):
    """An output that `snakemake --report` shows, with what is said of its category."""
    caption = f"../captions/{category.lower()}.rst"
    return report(path, caption=caption, category=category, labels=labels)


@cache
def all_results(kind):
    return files(plan, kind, *SHOWN)


def details(wildcards):
    """The metrics of single instances, where a table shows something of them."""
    table = wildcards.table
    return files(plan, "details", table) if TABLES[table].detailed else []


def templates(wildcards):
    """The template of a table, and what that includes."""
    return [
        plan.root / "workflow/templates" / name
        for name in TABLES[wildcards.table].templates()
    ]


@cache
def claim_tests():
    """The tests that decide claims; read where they are used, as that takes half a second."""
    ledger = (plan.root / "workflow/claims.yaml").read_text(encoding="utf-8")
    return sorted(
        {
            test
            for section in yaml.safe_load(ledger)["sections"]
            for claim in section["claims"]
            for test in claim["check"].get("tests", [])
        }
    )


def claim_sources(wildcards):
    """The digest of all that these tests depend on."""
    tests = {test.partition("::")[0] for test in claim_tests()}
    names = sorted({PAPER, "tests/conftest.py", *tests})
    paths = [plan.root / name for name in names]
    paths += sorted((plan.root / "rcdrs").rglob("*.py"))
    return settings_digest([path.read_text(encoding="utf-8") for path in paths])
