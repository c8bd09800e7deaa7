# Tables from seed-level CSVs, each a target of its own: table_synthetic_k20, table_coverage, ...
from rcdrs.reporting.headline import behind as behind_headline

TOLD = behind_headline(plan.config)


rule render:
    input:
        rows=lambda wildcards: files(plan, "rows", wildcards.table),
        times=lambda wildcards: files(plan, "times", wildcards.table),
        shifts=lambda wildcards: files(plan, "shifts", wildcards.table),
        details=details,
        templates=templates,
    output:
        out=f"{plan.tables_folder}/{{table}}.tex",
        csv=shown(f"{plan.tables_folder}/{{table}}.csv", "Tables", table="{table}"),
    log:
        f"{RUN}/logs/render/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/render/{{table}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=growing(5),
    params:
        code=code_of("tables", "render"),
        command=lambda wildcards: ["table", wildcards.table],
        config=plan.tables_config(),
        # Snakemake does not compare parameters that depend on inputs: a table is the same wherever
        # and under whatever name it was computed.
        run=lambda wildcards, input: plan.config.model_dump_json(),
    message:
        "render the table {wildcards.table}"
    # The command finds the files itself: as arguments they can be too many.
    shell:
        "python -m rcdrs {params.command:q} --config {params.run:q} --out {output.out:q}"
        " > {log:q} 2>&1"


# What the README shows: the answer and a table in Markdown, and a picture.
use rule render as headline with:
    input:
        rows=lambda wildcards: files(plan, "rows", *TOLD),
        times=lambda wildcards: files(plan, "times", *TOLD),
        shifts=lambda wildcards: files(plan, "shifts", *TOLD),
        details=lambda wildcards: files(plan, "details", *TOLD),
    output:
        out=f"{plan.tables_folder}/headline.md",
        answer=f"{plan.tables_folder}/answer.md",
        picture=shown(
            f"{plan.tables_folder}/headline.png", "Pictures", picture="headline"
        ),
    log:
        f"{RUN}/logs/headline.log",
    benchmark:
        f"{RUN}/benchmarks/headline.tsv"
    params:
        code=code_of("headline", "answer", "markdown", "draw"),
        command="headline",
    message:
        "write the answer, the headline table and the picture"


rule preview:
    input:
        tables=collect(f"{plan.tables_folder}/{{table}}.tex", table=SHOWN),
    output:
        pdf=f"{plan.tables_folder}/preview.pdf",
    log:
        f"{RUN}/logs/preview.log",
    benchmark:
        f"{RUN}/benchmarks/preview.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=growing(5),
    params:
        command="preview",
    message:
        "compile every table into {output.pdf}"
    shell:
        "python -m rcdrs {params.command:q} {input:q} --out {output:q} > {log:q} 2>&1"


for name in [*TABLES, *MEASURED]:

    rule:
        name:
            f"table_{name}"
        input:
            f"{plan.tables_folder}/{name}.tex",
        localrule: True


rule paper_tables:
    default_target: True
    input:
        [f"{plan.tables_folder}/{name}.tex" for name in SHOWN],
        rules.headline.output,
    localrule: True


# Whatever is asked for and is neither a target above nor a file in a folder.
rule no_such_target:
    input:
        lambda wildcards: refuse(
            wildcards.target, [rule.name for rule in workflow.rules]
        ),
    output:
        "{target}",
