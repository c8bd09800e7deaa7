# The paper's tables from its experiments: instances -> cores -> checkpoints -> seed-level CSVs
# -> tables.  Rules are in workflow/rules, one file a stage; what runs, and with which settings,
# is in workflow/config.
import os
import platform
import sys
from pathlib import Path
from shlex import quote

from rcdrs.artifact import server, slurm
from rcdrs.artifact.times import JOB_TIMES, measure, overhead
from rcdrs.artifact.plan import Plan
from rcdrs.reporting.tables import TABLES
from rcdrs.artifact.hooks import check_room, failure, forecast, more, recover, refuse, source


configfile: Path(workflow.basedir) / "workflow/config/paper.yaml"


plan = Plan.of(config, workflow.basedir)
plan.check_name()
config = plan.config
RUN = plan.folder
# A scheduler is asked for a GPU where the device is cuda; auto takes what a job finds.
GPUS = int(config["device"] == "cuda")

if workflow.is_main_process:
    check_room()
    recover()
    if line := source(plan):
        print(line, file=sys.stderr)

# The verbs are those of this checkout, in the Python that runs it, and end when it does.  Their
# libraries use as many threads as the configuration says, also where a job has every core.
shell.prefix(
    f"export PATH={quote(str(Path(sys.executable).parent))}:$PATH"
    f" PYTHONPATH={quote(str(workflow.basedir))}:$PYTHONPATH"
    f" RCDRS_PARENT={platform.node()}:{os.getpid()}"
    + "".join(f" {name}={config['threads']}" for name in server.THREADS)
    + "; "
)
# A submission to a cluster runs no hooks.  Those that SLURM starts inside it share the first's.
if workflow.remote_exec and server.VARIABLE not in os.environ:
    server.start(config["threads"])


wildcard_constraints:
    experiment="|".join(plan.experiments),
    case="[a-z]+-(small|medium|hard)|dfl|dispatch-[a-z]+",
    seed=r"\d+",
    K=r"\d+",
    method="[A-Za-z-]+",
    recipe="|".join(config["recipes"]),
    variant="[a-z_]+",
    table="|".join(TABLES),
    target=r"[\w-]+",


include: "workflow/rules/common.smk"
include: "workflow/rules/instances.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"


onstart:
    if not workflow.local_exec and workflow.executor_plugin.name == "slurm":
        slurm.check(workflow.dag)
    cores = workflow.cores if workflow.local_exec else workflow.nodes
    times = Path(workflow.basedir, JOB_TIMES)
    print(forecast(workflow.dag, cores, RUN, times), file=sys.stderr)
    if workflow.local_exec:
        server.start(config["threads"])


onsuccess:
    if line := overhead(measure(RUN)):
        print(line, file=sys.stderr)


onerror:
    print(failure(workflow.scheduler.failed), file=sys.stderr)
