# The paper's tables from its experiments: instances -> cores -> checkpoints -> seed-level CSVs
# -> tables.  Rules are in workflow/rules, one file a stage; what runs, and with which settings,
# is in workflow/config.
import os
import sys
from pathlib import Path

from rcdrs.plan import Plan
from rcdrs.reporting.tables import TABLES


configfile: Path(workflow.basedir) / "workflow/config/paper.yaml"


plan = Plan.of(config, workflow.basedir)
RUN = plan.folder

# The verbs belong to the Python that runs this workflow, and end when it does.
shell.prefix(f"export PATH={Path(sys.executable).parent}:$PATH; ")
os.environ["RCDRS_PARENT"] = f"{os.uname().nodename}:{os.getpid()}"


wildcard_constraints:
    case="(qp|socp|mixed)-(small|medium|hard)",
    seed=r"\d+",
    K=r"\d+",
    method="[A-Za-z-]+",
    recipe="|".join(config["recipes"]),
    variant="[a-z_]+",
    table="[a-z0-9_]+",


include: "workflow/rules/instances.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/tables.smk"
