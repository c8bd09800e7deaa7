# One training job for each learned run of a case, seed and depth: a method with a recipe, or a
# variant of the ablations.


rule train:
    input:
        instances=rules.instances.output.instances,
        core=rules.tune.output.core,
        # The layer that a decision-focused model begins with.
        start=behind("checkpoints", "start"),
    output:
        out=f"{RUN}/{PATHS['checkpoints']}",
        curve=f"{RUN}/{PATHS['checkpoints'].removesuffix('.pt')}.csv",
    log:
        f"{RUN}/logs/train/{{within}}{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/train/{{within}}{{recipe}}/{{method}}/{{case}}-{{seed}}-K{{K}}.tsv"
    conda:
        ENVIRONMENT
    threads: config["threads"]
    resources:
        mem_mb=growing(1500),
        runtime=growing(10),
        gpu=GPUS,
    params:
        command="train",
        code=code("checkpoints"),
        device=config["device"],
        threads=config["threads"],
        given=lambda wildcards: [
            *("--experiment", key("checkpoints", wildcards).experiment),
            *("--method", wildcards.method, "--recipe", wildcards.recipe),
            *(
                "--seed",
                wildcards.seed,
                "--start",
                *behind("checkpoints", "start")(wildcards),
            ),
        ],
        settings=settings("checkpoints"),
    message:
        "train {wildcards.method} ({wildcards.recipe}) on {wildcards.case},"
        " K={wildcards.K}, seed {wildcards.seed}"
    # Of all that runs on a device: the rules of evaluation are run by the same line.
    shell:
        "python -m rcdrs {params.command:q} {input.instances:q} {params.given:q} --core {input.core:q}"
        " --settings {params.settings:q} --device {params.device:q}"
        " --threads {params.threads:q} --out {output.out:q} > {log:q} 2>&1"
