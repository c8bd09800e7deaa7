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
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(10),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("train", wildcards.case),
        device=config["device"],
        settings=lambda wildcards: plan.training(wildcards.case, wildcards.recipe),
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
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(10),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("train", wildcards.case),
        device=config["device"],
        settings=lambda wildcards: plan.ablated(wildcards.variant),
        method=config["ablation"]["method"],
    message:
        "train the variant {wildcards.variant} on {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs train {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " --method {params.method} --recipe paper --seed {wildcards.seed}"
        " --settings {params.settings:q} --device {params.device} --threads {threads}"
        " --out {output.checkpoint} > {log} 2>&1"


# Decision-focused learning: the predictor in front of a layer, whose controller `train` made.
rule learn:
    input:
        instances=rules.instances.output.instances,
        cores=rules.tune.output.cores,
        pretrained=lambda wildcards: plan.pretrained(
            wildcards.recipe,
            wildcards.method,
            f"{wildcards.case}-{wildcards.seed}-K{wildcards.K}",
        ),
    output:
        model=f"{RUN}/models/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.pt",
        curve=f"{RUN}/models/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.csv",
    log:
        f"{RUN}/logs/learn/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/learn/{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(10),
        gpu=GPUS,
    params:
        code=lambda wildcards: plan.code("learn", wildcards.case),
        device=config["device"],
        settings=plan.predictor(),
    message:
        "learn to predict for {wildcards.method} ({wildcards.recipe}), K={wildcards.K},"
        " seed {wildcards.seed}"
    shell:
        "python -m rcdrs learn {input.instances} --cores {input.cores} --depth {wildcards.K}"
        " --method {wildcards.method} --recipe {wildcards.recipe} --seed {wildcards.seed}"
        " --pretrained {input.pretrained} --settings {params.settings:q}"
        " --device {params.device} --threads {threads} --out {output.model} > {log} 2>&1"
