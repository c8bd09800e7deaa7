# One page from everything: the tables beside the paper's, the claims, and what the tables do not
# show.
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.decisions import traced_day
from rcdrs.reporting.report.page import TEMPLATES


use rule render as report with:
    input:
        rows=lambda wildcards: all_results("rows"),
        times=lambda wildcards: all_results("times"),
        details=lambda wildcards: all_results("details"),
        shifts=lambda wildcards: all_results("shifts"),
        peers=plan.results(plan.peers) if "peers" in SHOWN else [],
        traces=lambda wildcards: plan.results(traced(plan) + traced_day(plan)),
        claims=[f"{plan.tables_folder}/claims_{recipe}.csv" for recipe in RECIPES],
        templates=[beside(path) for path in sorted(TEMPLATES.iterdir())],
    output:
        out=shown(f"{RUN}/report.html", "Report", page="question, answer, evidence"),
    log:
        f"{RUN}/logs/report.log",
    benchmark:
        f"{RUN}/benchmarks/report.tsv"
    params:
        code=code_of("report.page", "report"),
        command=lambda wildcards, input: ["report", "--claims", *input.claims],
        config=plan.config.model_dump_json(),
    message:
        "write the report {output.out}"


# The schedules of one test day, stacked over its hours.
use rule preview as dispatch_day with:
    input:
        trace=lambda wildcards: plan.results(traced_day(plan)),
    output:
        picture=shown(
            f"{plan.tables_folder}/dispatch_day.png",
            "Pictures",
            picture="a day of dispatch",
        ),
    log:
        f"{RUN}/logs/dispatch_day.log",
    benchmark:
        f"{RUN}/benchmarks/dispatch_day.tsv"
    params:
        code=code_of("report.day", "draw_day"),
        command="draw",
    message:
        "draw a day of energy dispatch"
