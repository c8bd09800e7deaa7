# One page from everything: the tables beside the paper's, the claims, and what the tables do not
# show.  What trained layers do is traced first.
import json

from rcdrs.artifact.digest import code_digest
from rcdrs.artifact.plan import TRACES
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.decisions import traced_day
from rcdrs.reporting.report.page import TEMPLATES


rule trace:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        checkpoints=lambda wildcards: [
            run.partition("=")[2] for run in traced_runs(wildcards) if "=" in run
        ],
    output:
        rows=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.csv",
        origin=f"{RUN}/traces/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/trace/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/trace/{{case}}-{{seed}}-K{{K}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(5),
        gpu=GPUS,
    params:
        code=lambda wildcards: [code_digest(*traced) for traced in TRACES],
        device=config["device"],
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        runs=traced_runs,
        settings=lambda wildcards: plan.controller(wildcards.case),
    message:
        "trace the layers of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs trace {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " {params.runs} --settings {params.settings:q} --device {params.device}"
        " --threads {threads} --stamp {params.stamp:q} --out {output.rows} > {log} 2>&1"


rule report:
    input:
        rows=lambda wildcards: list(claimed(plan.rows_behind).values()),
        times=lambda wildcards: list(claimed(plan.times_behind).values()),
        details=claimed_details,
        traces=lambda wildcards: [
            plan.result(name) for name in traced(plan) + traced_day(plan)
        ],
        claims=[
            f"{plan.tables_folder}/claims_{recipe}.csv"
            for recipe in ("paper", "log_kkt")
            if recipe == "paper" or config["synthetic"]["extended"]
        ],
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
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: code_digest("report", "rcdrs.reporting.report.page"),
        config=json.dumps(config, sort_keys=True),
    message:
        "write the report {output.page}"
    shell:
        "python -m rcdrs report --config {params.config:q} --claims {input.claims}"
        " --out {output.page} > {log} 2>&1"


# The schedules of one test day, stacked over its hours.
rule dispatch_day:
    input:
        instances=f"{RUN}/instances/dispatch-inequality-{config['seeds'][0]}.npz",
        cores=f"{RUN}/cores/dispatch-inequality-{config['seeds'][0]}.json",
        checkpoint=lambda wildcards: plan.result(
            f"checkpoints/paper/RCDRS-Env/dispatch-inequality-{config['seeds'][0]}"
            f"-K{max(config['dispatch']['depths'])}.pt"
        ),
    output:
        picture=f"{plan.tables_folder}/dispatch_day.png",
    log:
        f"{RUN}/logs/dispatch_day.log",
    benchmark:
        f"{RUN}/benchmarks/dispatch_day.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: code_digest(
            "draw_day", "rcdrs.experiments.dispatch.stages"
        ),
        depth=max(config["dispatch"]["depths"]),
        settings=plan.controller("dispatch-inequality"),
    message:
        "draw a day of energy dispatch"
    shell:
        "python -m rcdrs draw {input.instances} --cores {input.cores} --depth {params.depth}"
        " Grid-DRS RCDRS-Env@paper={input.checkpoint} --settings {params.settings:q}"
        " --threads {threads} --out {output.picture} > {log} 2>&1"
