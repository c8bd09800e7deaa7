# One page from everything: the tables beside the paper's, the claims, and what the tables do not
# show.  Trained controllers are traced first.
import json

from rcdrs.digest import code_digest
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.decisions import DAY, traced_day
from rcdrs.reporting.report.page import TEMPLATES


rule trace:
    input:
        instances=rules.instances.output.instances,
        checkpoints=lambda wildcards: plan.checkpoints(
            wildcards.case, wildcards.seed, wildcards.K
        ),
    output:
        rows=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.csv",
        origin=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/trace/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/trace/{{case}}-{{seed}}-K{{K}}.tsv"
    wildcard_constraints:
        case="(qp|socp|mixed)-(small|medium|hard)",
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=1500,
        runtime=5,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=code_digest("trace_runs", "rcdrs.reporting.report.trace"),
        device=config["device"],
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        runs=lambda wildcards: [
            run
            for run in plan.runs(wildcards.case, wildcards.seed, wildcards.K)
            if "=" in run
        ],
    message:
        "trace the controllers of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs trace {input.instances} --depth {wildcards.K} {params.runs}"
        " --device {params.device} --threads {threads} --stamp {params.stamp:q}"
        " --out {output.rows} > {log} 2>&1"


def day_runs(wildcards):
    runs = plan.runs(wildcards.case, wildcards.seed, wildcards.K)
    return [run for run in runs if run.partition("=")[0] in DAY]


rule trace_day:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        checkpoints=lambda wildcards: [
            run.partition("=")[2] for run in day_runs(wildcards) if "=" in run
        ],
    output:
        rows=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.csv",
        origin=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/trace_day/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/trace_day/{{case}}-{{seed}}-K{{K}}.tsv"
    wildcard_constraints:
        case="dispatch-[a-z]+",
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=1500,
        runtime=5,
    params:
        code=code_digest("trace_day", "rcdrs.reporting.report.day"),
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        runs=day_runs,
        settings=lambda wildcards: plan.controller(wildcards.case),
    message:
        "trace a day of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs trace-day {input.instances} --cores {input.cores}"
        " --depth {wildcards.K} {params.runs} --settings {params.settings:q}"
        " --threads {threads} --stamp {params.stamp:q} --out {output.rows} > {log} 2>&1"


rule report:
    input:
        rows=[
            plan.result(name)
            for table in TABLES
            for name in plan.rows_behind(table) + plan.times_behind(table)
        ],
        traces=[plan.result(name) for name in traced(plan) + traced_day(plan)],
        claims=f"{plan.tables_folder}/claims_paper.csv",
        extended=(
            f"{plan.tables_folder}/claims_log_kkt.csv"
            if config["synthetic"]["extended"]
            else []
        ),
        templates=[str(path) for path in sorted(TEMPLATES.iterdir())],
    output:
        page=f"{RUN}/report.html",
    log:
        f"{RUN}/logs/report.log",
    benchmark:
        f"{RUN}/benchmarks/report.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        code=code_digest("report", "rcdrs.reporting.report.page"),
        config=json.dumps(plan.config, sort_keys=True),
    message:
        "write the report {output.page}"
    shell:
        "python -m rcdrs report --config {params.config:q}"
        " --claims {input.claims} {input.extended} --out {output.page} > {log} 2>&1"
