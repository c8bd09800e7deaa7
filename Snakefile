# The paper's tables from its experiments: instances -> cores -> checkpoints -> seed-level CSVs
# -> tables.  Rules are in workflow/rules, one file a stage; what runs, and with which settings,
# is in workflow/config.
import json
import os
import platform
import sys
from pathlib import Path

from rcdrs.artifact import server, slurm
from rcdrs.artifact.console import Console, tell
from rcdrs.artifact.hooks import (
    Start,
    beside,
    end_when_told,
    failure,
    growing,
    plan_of,
    refuse,
)
from rcdrs.artifact.key import PARTS, PATHS
from rcdrs.artifact.times import measure, overhead
from rcdrs.reporting.tables import MEASURED, configured, shown as shown_tables

# The checkout, also where workflow/Snakefile includes this file.
ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))


configfile: ROOT / "workflow/config/paper.yaml"


report: "workflow/captions/workflow.rst"


plan = plan_of(config, beside(ROOT), workflow.configfiles)
config = plan.config.plain()
RUN = plan.folder
TABLES = configured(plan.config)
# Those that are made where nobody names one.
SHOWN = shown_tables(plan)
# Of RCDRS: as the paper trains it, and as we do.
RECIPES = ["paper", *(["log_kkt"] if config["synthetic"]["extended"] else [])]
# A scheduler is asked for a GPU where the device is cuda; auto takes what a job finds.
GPUS = int(config["device"] == "cuda")

if workflow.is_main_process:
    console = Console(workflow, ROOT, RUN)
    Start(workflow, plan)

# The commands are those of this checkout, in the Python that runs it, and end when it does.  Their
# libraries use as many threads as the configuration says, also where a job has every core.
BIN, PARENT = Path(sys.executable).parent, f"{platform.node()}:{os.getpid()}"
THREADS = [f"{name}={config['threads']}" for name in server.THREADS]
shell.prefix(
    'export PATH={BIN:q}:"$PATH" PYTHONPATH={ROOT:q}:"$PYTHONPATH"'
    " RCDRS_PARENT={PARENT:q} {THREADS:q}; "
)
# A submission to a cluster runs no hooks.  Those that SLURM starts inside it share the first's.
if workflow.remote_exec and server.VARIABLE not in os.environ:
    server.start(config["threads"])


wildcard_constraints:
    **PARTS | {"experiment": "|".join(plan.experiments)},
    table="|".join(TABLES),
    target=r"[\w-]+",


include: "workflow/rules/common.smk"
include: "workflow/rules/instances.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/peers.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"


onstart:
    if not workflow.local_exec and workflow.executor_plugin.name == "slurm":
        slurm.check(workflow.dag)
    end_when_told(workflow)
    tell(console.schedule.told(workflow))
    if workflow.local_exec:
        server.start(config["threads"])


onsuccess:
    tell(console.made())
    tell(overhead(measure(RUN)))


onerror:
    logger.error(failure(workflow.scheduler.failed))
