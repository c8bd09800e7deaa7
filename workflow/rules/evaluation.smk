# Seed-level CSVs, the only source of the tables, and the times, measured with nothing beside them.


def checkpoints(wildcards):
    runs = plan.runs(wildcards.case, wildcards.seed, wildcards.K)
    return [run.partition("=")[2] for run in runs if "=" in run]


rule evaluate:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        checkpoints=checkpoints,
    output:
        rows=f"{RUN}/synthetic/{{case}}-{{seed}}-K{{K}}.csv",
        details=f"{RUN}/synthetic/{{case}}-{{seed}}-K{{K}}.npz",
        origin=f"{RUN}/synthetic/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/evaluate/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/evaluate/{{case}}-{{seed}}-K{{K}}.tsv"
    threads: config["threads"]
    resources:
        mem_mb=1500,
        runtime=5,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=plan.code("evaluate"),
        device=config["device"],
        stamp=plan.stamp("synthetic/"),
        runs=lambda wildcards: plan.runs(wildcards.case, wildcards.seed, wildcards.K),
        settings=plan.controller(),
    message:
        "evaluate {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs evaluate {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " {params.runs} --settings {params.settings:q} --device {params.device}"
        " --threads {threads} --stamp {params.stamp:q} --out {output.rows}"
        " --details {output.details} > {log} 2>&1"


rule evaluate_ablation:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        checkpoint=rules.train_ablation.output.checkpoint,
    output:
        rows=f"{RUN}/ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.csv",
        origin=f"{RUN}/ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/evaluate_ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/evaluate_ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.tsv"
    threads: config["threads"]
    resources:
        mem_mb=1500,
        runtime=5,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=plan.code("evaluate"),
        device=config["device"],
        stamp=lambda wildcards: plan.stamp(f"ablation/{wildcards.variant}"),
        method=config["ablation"]["method"],
        settings=lambda wildcards: plan.controller(wildcards.variant),
    message:
        "evaluate the variant {wildcards.variant} on {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs evaluate {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " {params.method}@paper={input.checkpoint} --settings {params.settings:q}"
        " --experiment ablation --label {wildcards.variant} --device {params.device}"
        " --threads {threads} --stamp {params.stamp:q} --out {output.rows} > {log} 2>&1"


rule time:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
    output:
        rows=f"{RUN}/timing/{{case}}-{{seed}}.csv",
        origin=f"{RUN}/timing/{{case}}-{{seed}}.origin.json",
    log:
        f"{RUN}/logs/time/{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/time/{{case}}-{{seed}}.tsv"
    # Every core, so that nothing runs beside it.
    threads: workflow.cores
    resources:
        mem_mb=1500,
        runtime=10,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=plan.code("time"),
        device=config["device"],
        threads=config["threads"],
        stamp=plan.stamp("timing/"),
        depths=config["synthetic"]["depths"],
        methods=config["synthetic"]["methods"],
        settings=plan.controller(),
        warm_up=config["timing"]["warm_up"],
        repeats=config["timing"]["repeats"],
    message:
        "time the methods on {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs time {input.instances} --cores {input.cores} --depth {params.depths}"
        " --method {params.methods} --settings {params.settings:q} --warm-up {params.warm_up}"
        " --repeats {params.repeats} --device {params.device} --threads {params.threads}"
        " --stamp {params.stamp:q} --out {output.rows} > {log} 2>&1"
