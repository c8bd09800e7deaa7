# The claims ledger: every claim of the paper judged from the results behind the tables, once for
# each recipe of RCDRS.
from importlib.util import find_spec


rule test_claims:
    output:
        report=f"{RUN}/claims/tests.xml",
    log:
        f"{RUN}/logs/test_claims.log",
    benchmark:
        f"{RUN}/benchmarks/test_claims.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=growing(30),
    params:
        code=claim_sources,
        folder=lambda wildcards, output: str(ROOT),
        tests=lambda wildcards: claim_tests(),
    message:
        "run the tests behind claims"
    # A failing test is a finding for the ledger, not the end of the workflow: the report says so.
    shell:
        '(cd {params.folder:q} && python -m pytest -n 0 --junitxml "$OLDPWD"/{output.report:q}'
        " {params.tests:q}) > {log:q} 2>&1 || [ -s {output.report:q} ]"


use rule render as judge_claims with:
    input:
        rows=lambda wildcards: all_results("rows"),
        times=lambda wildcards: all_results("times"),
        details=lambda wildcards: all_results("details"),
        ledger=plan.root / "workflow/claims.yaml",
        # Without pytest, what tests decide is told as not computed.
        tests=[rules.test_claims.output.report] if find_spec("pytest") else [],
    output:
        out=f"{plan.tables_folder}/claims_{{recipe}}.md",
        csv=shown(
            f"{plan.tables_folder}/claims_{{recipe}}.csv", "Claims", recipe="{recipe}"
        ),
        noise=f"{plan.tables_folder}/claims_{{recipe}}_noise.csv",
    log:
        f"{RUN}/logs/judge_claims/{{recipe}}.log",
    benchmark:
        f"{RUN}/benchmarks/judge_claims/{{recipe}}.tsv"
    params:
        code=code_of("claims", "judge"),
        command=lambda wildcards, input: [
            *("claims", "--recipe", wildcards.recipe, "--tests", *input.tests)
        ],
    message:
        "judge the paper's claims, recipe {wildcards.recipe}"


rule claims:
    input:
        collect(f"{plan.tables_folder}/claims_{{recipe}}.md", recipe=RECIPES),
    localrule: True
