# Instances of a case and seed, and the fixed core selected on their validation split.


rule instances:
    output:
        instances=f"{RUN}/instances/{{case}}-{{seed}}.npz",
    log:
        f"{RUN}/logs/instances/{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/instances/{{case}}-{{seed}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: plan.code("instances", wildcards.case),
        sizes=lambda wildcards: plan.sizes(wildcards.case),
    message:
        "generate {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs instances {wildcards.case} --seed {wildcards.seed}"
        " --sizes {params.sizes:q} --threads {threads} --out {output.instances} > {log} 2>&1"


rule tune:
    input:
        instances=rules.instances.output.instances,
    output:
        cores=f"{RUN}/cores/{{case}}-{{seed}}.json",
    log:
        f"{RUN}/logs/tune/{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/tune/{{case}}-{{seed}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: config["threads"]
    resources:
        mem_mb=more(1500),
        runtime=more(10),
    params:
        code=lambda wildcards: plan.code("tune", wildcards.case),
        depths=lambda wildcards: plan.experiment(wildcards.case).depths(wildcards.case),
        grid=lambda wildcards: plan.grid(wildcards.case),
    message:
        "tune the core of {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs tune {input.instances} --depth {params.depths} --grid {params.grid:q}"
        " --threads {threads} --out {output.cores} > {log} 2>&1"
