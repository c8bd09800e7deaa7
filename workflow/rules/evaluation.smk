# Seed-level CSVs, the only source of the tables, and the times, measured with nothing beside them.


# Energy dispatch: what the test days cost by a long run, and at best.
rule reference:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
    output:
        costs=f"{RUN}/references/{{case}}-{{seed}}.npz",
    log:
        f"{RUN}/logs/reference/{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/reference/{{case}}-{{seed}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(10),
    params:
        code=lambda wildcards: plan.code("reference", wildcards.case),
        depth=max(config["dispatch"]["depths"]),
        steps=config["dispatch"]["reference"],
    message:
        "find what the days of {wildcards.case}, seed {wildcards.seed}, cost"
    shell:
        "python -m rcdrs reference {input.instances} --cores {input.cores}"
        " --depth {params.depth} --steps {params.steps} --threads {threads}"
        " --out {output.costs} > {log} 2>&1"


rule evaluate:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        reference=branch(
            lambda wildcards: wildcards.experiment == "dispatch",
            then=rules.reference.output.costs,
        ),
        checkpoints=lambda wildcards: plan.checkpoints(
            wildcards.case, wildcards.seed, wildcards.K
        ),
    output:
        rows=f"{RUN}/{{experiment}}/{{case}}-{{seed}}-K{{K}}.csv",
        details=f"{RUN}/{{experiment}}/{{case}}-{{seed}}-K{{K}}.npz",
        origin=f"{RUN}/{{experiment}}/{{case}}-{{seed}}-K{{K}}.origin.json",
    log:
        f"{RUN}/logs/evaluate/{{experiment}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/evaluate/{{experiment}}/{{case}}-{{seed}}-K{{K}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(5),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("evaluate", wildcards.case),
        device=config["device"],
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        runs=lambda wildcards: plan.runs(wildcards.case, wildcards.seed, wildcards.K),
        settings=lambda wildcards: plan.controller(wildcards.case),
        reference=lambda wildcards, input: (
            f"--reference {input.reference}" if input.reference else ""
        ),
    message:
        "evaluate {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs evaluate {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " {params.runs} --settings {params.settings:q} {params.reference} --device {params.device}"
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
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(5),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("evaluate", wildcards.case),
        device=config["device"],
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        method=config["ablation"]["method"],
        settings=lambda wildcards: plan.ablated_controller(wildcards.variant),
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
    conda:
        "../../envs/rcdrs.yaml"
    # Every core, so that nothing runs beside it.
    threads: workflow.cores
    resources:
        mem_mb=more(1500),
        runtime=more(10),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("time", wildcards.case),
        device=config["device"],
        threads=config["threads"],
        stamp=lambda wildcards, output: plan.stamp(Path(output.rows).relative_to(RUN)),
        depths=lambda wildcards: plan.experiment(wildcards.case).section["depths"],
        methods=lambda wildcards: plan.experiment(wildcards.case).section["methods"],
        settings=lambda wildcards: plan.controller(wildcards.case),
        warm_up=config["timing"]["warm_up"],
        repeats=config["timing"]["repeats"],
    message:
        "time the methods on {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs time {input.instances} --cores {input.cores} --depth {params.depths}"
        " --method {params.methods} --settings {params.settings:q} --warm-up {params.warm_up}"
        " --repeats {params.repeats} --device {params.device} --threads {params.threads}"
        " --stamp {params.stamp:q} --out {output.rows} > {log} 2>&1"
