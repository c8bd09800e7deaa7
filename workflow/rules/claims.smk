# The claims ledger: every claim of the paper judged from the results behind the tables, once for
# each recipe of RCDRS.
from importlib.util import find_spec

from rcdrs.artifact.digest import code_digest, settings_digest


rule test_claims:
    input:
        tests=lambda wildcards: sorted(
            {f"{workflow.basedir}/{test.partition('::')[0]}" for test in claim_tests()}
        ),
    output:
        report=f"{RUN}/claims/tests.xml",
    log:
        f"{RUN}/logs/test_claims.log",
    benchmark:
        f"{RUN}/benchmarks/test_claims.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=more(3000),
        runtime=more(30),
    params:
        code=lambda wildcards: settings_digest(
            [
                path.read_text()
                for path in sorted(Path(workflow.basedir, "rcdrs").rglob("*.py"))
            ]
        ),
        tests=lambda wildcards: claim_tests(),
        folder=lambda wildcards: workflow.basedir,
        report=lambda wildcards, output: Path(output.report).absolute(),
    message:
        "run the tests behind claims"
    # A failing test is a finding for the ledger, not the end of the workflow: the report says so.
    shell:
        "(cd {params.folder:q} && python -m pytest -n 0 --junitxml {params.report:q}"
        " {params.tests}) > {log} 2>&1 || [ -s {output.report} ]"


rule judge_claims:
    input:
        rows=lambda wildcards: list(claimed(plan.rows_behind).values()),
        times=lambda wildcards: list(claimed(plan.times_behind).values()),
        details=claimed_details,
        ledger=f"{workflow.basedir}/workflow/claims.yaml",
        # Without pytest, what tests decide is told as not computed.
        tests=rules.test_claims.output.report if find_spec("pytest") else [],
    output:
        page=f"{plan.tables_folder}/claims_{{recipe}}.md",
        csv=f"{plan.tables_folder}/claims_{{recipe}}.csv",
        noise=f"{plan.tables_folder}/claims_{{recipe}}_noise.csv",
    log:
        f"{RUN}/logs/judge_claims/{{recipe}}.log",
    benchmark:
        f"{RUN}/benchmarks/judge_claims/{{recipe}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: code_digest("claims", "rcdrs.reporting.claims"),
        config=plan.tables_config(),
        tests=lambda wildcards, input: (
            f"--tests {input.tests}" if input.get("tests") else ""
        ),
    message:
        "judge the paper's claims, recipe {wildcards.recipe}"
    shell:
        "python -m rcdrs claims --config {params.config:q} --recipe {wildcards.recipe}"
        " --rows {input.rows} --times {input.times} --details {input.details}"
        " {params.tests} --out {output.page} > {log} 2>&1"


rule claims:
    input:
        collect(
            f"{plan.tables_folder}/claims_{{recipe}}.md",
            recipe=["paper"]
            + (["log_kkt"] if config["synthetic"]["extended"] else []),
        ),
    localrule: True
