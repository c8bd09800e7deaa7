# Seed-level rows, the only source of the tables; the times, measured with nothing beside them; and
# what the report shows of solvers.
from rcdrs.artifact.schedule import ALL


use rule train as evaluate with:
    input:
        instances=rules.instances.output.instances,
        core=rules.tune.output.core,
        checkpoints=behind("rows", "checkpoints"),
        reference=behind("rows", "reference"),
    output:
        out=f"{RUN}/{PATHS['rows']}",
        details=f"{RUN}/{PATHS['rows'].removesuffix('.csv')}.npz",
        origin=f"{RUN}/{PATHS['rows'].removesuffix('.csv')}.origin.json",
    log:
        f"{RUN}/logs/evaluate/{PATHS['rows'].removesuffix('.csv')}.log",
    benchmark:
        f"{RUN}/benchmarks/evaluate/{PATHS['rows'].removesuffix('.csv')}.tsv"
    resources:
        mem_mb=growing(1500),
        runtime=growing(2),
        gpu=GPUS,
    params:
        command="evaluate",
        code=code("rows"),
        given=lambda wildcards: [
            *plan.asked(key("rows", wildcards)),
            *("--experiment", wildcards.experiment),
            *("--reference", *behind("rows", "reference")(wildcards)),
            *("--stamp", plan.stamp(key("rows", wildcards))),
        ],
        settings=settings("rows"),
    message:
        "evaluate {wildcards.method} ({wildcards.recipe}) on {wildcards.case},"
        " K={wildcards.K}, seed {wildcards.seed}"


use rule train as time with:
    input:
        instances=rules.instances.output.instances,
        core=behind("times", "core"),
    output:
        out=f"{RUN}/{PATHS['times']}",
        origin=f"{RUN}/{PATHS['times'].removesuffix('.csv')}.origin.json",
    log:
        f"{RUN}/logs/time/{{within}}{{case}}-{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/time/{{within}}{{case}}-{{seed}}.tsv"
    # Every core that Snakemake is given, so that nothing runs beside it.
    threads: ALL
    params:
        command="time",
        code=code("times"),
        given=lambda wildcards: [
            *("--method", *plan.timed(key("times", wildcards))),
            *("--stamp", plan.stamp(key("times", wildcards))),
        ],
        settings=settings("times"),
    message:
        "time the methods on {wildcards.case}, seed {wildcards.seed}"


use rule train as trace with:
    input:
        instances=rules.instances.output.instances,
        core=rules.tune.output.core,
        checkpoints=behind("traces", "checkpoints"),
    output:
        out=f"{RUN}/{PATHS['traces']}",
        origin=f"{RUN}/{PATHS['traces'].removesuffix('.csv')}.origin.json",
    log:
        f"{RUN}/logs/trace/{{within}}{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/trace/{{within}}{{case}}-{{seed}}-K{{K}}.tsv"
    params:
        command="trace",
        code=code("traces"),
        given=lambda wildcards: [
            *plan.asked(key("traces", wildcards)),
            *("--stamp", plan.stamp(key("traces", wildcards))),
        ],
        settings=settings("traces"),
    message:
        "trace the solvers of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}"


use rule train as shift with:
    input:
        instances=rules.instances.output.instances,
        core=rules.tune.output.core,
        checkpoints=behind("shifts", "checkpoints"),
    output:
        out=f"{RUN}/{PATHS['shifts']}",
        origin=f"{RUN}/{PATHS['shifts'].removesuffix('.csv')}.origin.json",
    log:
        f"{RUN}/logs/shift/{{within}}{{case}}-{{seed}}-K{{K}}.log",
    benchmark:
        f"{RUN}/benchmarks/shift/{{within}}{{case}}-{{seed}}-K{{K}}.tsv"
    params:
        command="shift",
        code=code("shifts"),
        given=lambda wildcards: [
            *plan.asked(key("shifts", wildcards)),
            *("--stamp", plan.stamp(key("shifts", wildcards))),
        ],
        settings=settings("shifts"),
    message:
        "try the layers of {wildcards.case}, K={wildcards.K}, seed {wildcards.seed}, on other data"
