# One training job for each method, recipe, case, seed and depth; and for each ablation variant.


rule train:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
    output:
        checkpoint=f"{RUN}/checkpoints/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.pt",
        curve=f"{RUN}/checkpoints/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.csv",
    log:
        f"{RUN}/logs/train/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/train/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.tsv"
    threads: config["threads"]
    resources:
        mem_mb=3000,
        runtime=30,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=plan.code("train"),
        device=config["device"],
        settings=lambda wildcards: plan.training(wildcards.recipe),
    message:
        "train {wildcards.method} ({wildcards.recipe}) on {wildcards.case},"
        " K={wildcards.K}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs train {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " --method {wildcards.method} --recipe {wildcards.recipe} --seed {wildcards.seed}"
        " --settings {params.settings:q} --device {params.device} --threads {threads}"
        " --out {output.checkpoint} > {log} 2>&1"


rule train_ablation:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
    output:
        checkpoint=f"{RUN}/checkpoints/ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.pt",
        curve=f"{RUN}/checkpoints/ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.csv",
    log:
        f"{RUN}/logs/train_ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/train_ablation/{{variant}}/{{case}}-{{seed}}-K{{K}}.tsv"
    threads: config["threads"]
    resources:
        mem_mb=3000,
        runtime=30,
        gpu=1 if config["device"] != "cpu" else 0,
    params:
        code=plan.code("train"),
        device=config["device"],
        settings=lambda wildcards: plan.training("paper", wildcards.variant),
        method=config["ablation"]["method"],
    message:
        "train the variant {wildcards.variant} on {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs train {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " --method {params.method} --recipe paper --seed {wildcards.seed}"
        " --settings {params.settings:q} --device {params.device} --threads {threads}"
        " --out {output.checkpoint} > {log} 2>&1"
