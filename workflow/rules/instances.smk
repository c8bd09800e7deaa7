# Instances of a case and seed, the fixed core selected on their validation split, and what rows
# compare with.


rule instances:
    output:
        instances=f"{RUN}/{PATHS['instances']}",
    log:
        f"{RUN}/logs/instances/{{within}}{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/instances/{{within}}{{case}}-{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: config["threads"]
    resources:
        mem_mb=growing(1500),
        runtime=growing(10),
    params:
        code=code("instances"),
        command=lambda wildcards: [
            "instances",
            wildcards.case,
            "--seed",
            wildcards.seed,
        ],
        settings=settings("instances"),
    message:
        "generate {wildcards.case}, seed {wildcards.seed}"
    shell:
        "python -m rcdrs {params.command:q} --settings {params.settings:q}"
        " --threads {threads} --out {output:q} > {log:q} 2>&1"


use rule instances as tune with:
    input:
        instances=rules.instances.output.instances,
    output:
        core=f"{RUN}/{PATHS['cores']}",
    log:
        f"{RUN}/logs/tune/{{within}}{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/tune/{{within}}{{case}}-{{seed}}-K{{K}}.tsv"
    params:
        code=code("cores"),
        command=lambda wildcards, input: [
            "tune",
            input.instances,
            "--depth",
            wildcards.K,
        ],
        settings=settings("cores"),
    message:
        "tune the core of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"


# As the cost of energy dispatch.
use rule instances as reference with:
    input:
        instances=rules.instances.output.instances,
        core=behind("references", "core"),
    output:
        reference=f"{RUN}/{PATHS['references']}",
    log:
        f"{RUN}/logs/reference/{{within}}{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/reference/{{within}}{{case}}-{{seed}}.tsv"
    params:
        code=code("references"),
        command=lambda wildcards, input: [
            "reference",
            input.instances,
            "--core",
            *input.core,
        ],
        settings=settings("references"),
    message:
        "find what the days of {wildcards.case}, seed {wildcards.seed}, cost"
