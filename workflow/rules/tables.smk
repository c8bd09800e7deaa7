# Tables from seed-level CSVs, each a target of its own: table_synthetic_k20, table_coverage, ...
from rcdrs.artifact.digest import code_digest


rule render:
    input:
        rows=lambda wildcards: [
            plan.result(name) for name in plan.rows_behind(wildcards.table)
        ],
        times=lambda wildcards: [
            plan.result(name) for name in plan.times_behind(wildcards.table)
        ],
        templates=collect(
            f"{workflow.basedir}/workflow/templates/{{name}}",
            name=[
                path.name
                for path in Path(workflow.basedir, "workflow/templates").iterdir()
            ],
        ),
    output:
        tex=f"{plan.tables_folder}/{{table}}.tex",
        csv=f"{plan.tables_folder}/{{table}}.csv",
    log:
        f"{RUN}/logs/render/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/render/{{table}}.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: plan.code("table"),
        config=plan.tables_config(),
    message:
        "render the table {wildcards.table}"
    shell:
        "python -m rcdrs table {wildcards.table} --config {params.config:q}"
        " --rows {input.rows} --times {input.times} --out {output.tex} > {log} 2>&1"


# What the README shows: a table in Markdown and a picture, from the rows of the coverage summary.
rule headline:
    input:
        rows=lambda wildcards: [
            plan.result(name) for name in plan.rows_behind("coverage")
        ],
    output:
        table=f"{plan.tables_folder}/headline.md",
        picture=f"{plan.tables_folder}/headline.png",
    log:
        f"{RUN}/logs/headline.log",
    benchmark:
        f"{RUN}/benchmarks/headline.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    params:
        code=lambda wildcards: [
            code_digest(part, "rcdrs.reporting.headline")
            for part in ("markdown", "draw")
        ],
        config=plan.tables_config(),
    message:
        "write the headline table and picture"
    shell:
        "python -m rcdrs headline --config {params.config:q} --rows {input.rows}"
        " --out {output.table} > {log} 2>&1"


rule preview:
    input:
        tables=collect(f"{plan.tables_folder}/{{table}}.tex", table=TABLES),
    output:
        pdf=f"{plan.tables_folder}/preview.pdf",
    log:
        f"{RUN}/logs/preview.log",
    benchmark:
        f"{RUN}/benchmarks/preview.tsv"
    conda:
        "../../envs/rcdrs.yaml"
    threads: 1
    resources:
        mem_mb=more(1500),
        runtime=more(5),
    message:
        "compile every table into {output.pdf}"
    shell:
        "python -m rcdrs preview {input.tables} --out {output.pdf} > {log} 2>&1"


for name in TABLES:

    rule:
        name:
            f"table_{name}"
        input:
            f"{plan.tables_folder}/{name}.tex",
        localrule: True


rule paper_tables:
    default_target: True
    input:
        [f"{plan.tables_folder}/{name}.tex" for name in TABLES],
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
