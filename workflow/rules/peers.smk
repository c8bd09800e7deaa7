# Other solvers and layers beside ours, on one core: `snakemake --cores 2 peers`.  They come with
# packages of their own, so nothing else asks for these results.


use rule train as peer with:
    input:
        instances=rules.instances.output.instances,
        core=behind("peers", "core"),
    output:
        out=f"{RUN}/{PATHS['peers']}",
        origin=f"{RUN}/{PATHS['peers'].removesuffix('.csv')}.origin.json",
    log:
        f"{RUN}/logs/peer/{{within}}{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/peer/{{within}}{{case}}-{{seed}}.tsv"
    # Every core that Snakemake is given, so that nothing runs beside it.
    threads: ALL
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
        gpu=0,
    params:
        command="peers",
        code=code("peers"),
        device="cpu",
        given=lambda wildcards: ["--stamp", plan.stamp(key("peers", wildcards))],
        settings=settings("peers"),
    message:
        "measure peers on {wildcards.case}, seed {wildcards.seed}"


use rule render as render_peers with:
    input:
        peers=lambda wildcards: plan.results(plan.peers),
        templates=[
            beside(plan.root / "workflow/templates" / name)
            for name in MEASURED["peers"].templates()
        ],
    output:
        out=f"{plan.tables_folder}/peers.tex",
        csv=shown(f"{plan.tables_folder}/peers.csv", "Tables", table="peers"),
    log:
        f"{RUN}/logs/render/peers.log",
    benchmark:
        f"{RUN}/benchmarks/render/peers.tsv"
    params:
        code=code_of("tables", "render"),
        command=["table", "peers"],
    message:
        "render the table peers"


rule peers:
    input:
        rules.render_peers.output,
    localrule: True
