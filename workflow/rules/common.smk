# Functions for the inputs of rules: `snakemake --lint` wants them apart from the rules.
from functools import cache

import yaml
from rcdrs.reporting.report.decisions import DAY


def claimed(behind):
    """The results behind any table, each once."""
    names = dict.fromkeys(name for table in TABLES for name in behind(table))
    return {name: plan.result(name) for name in names}


def claimed_details(wildcards):
    """What is stored of single instances: computed with the rows, and maybe released."""
    files = [
        Path(file).with_suffix(".npz")
        for name, file in claimed(plan.rows_behind).items()
        if not name.startswith("ablation/")
    ]
    return [file for file in files if file.is_relative_to(RUN) or file.exists()]


def traced_runs(wildcards):
    """The learned layers of a synthetic case; of a dispatch case, those whose day is drawn."""
    runs = plan.runs(wildcards.case, wildcards.seed, wildcards.K)
    if wildcards.case.startswith("dispatch"):
        return [run for run in runs if run.partition("=")[0] in DAY]
    return [run for run in runs if "=" in run]


@cache
def claim_tests():
    """The tests that decide claims; read where they are used, as that takes half a second."""
    ledger = Path(workflow.basedir, "workflow/claims.yaml").read_text(encoding="utf-8")
    return sorted(
        {
            test
            for section in yaml.safe_load(ledger)["sections"]
            for claim in section["claims"]
            for test in claim["check"].get("tests", [])
        }
    )
