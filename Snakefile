# The paper's tables by name.  Until the workflow lands, the target says so.


rule paper_tables:
    localrule: True
    message:
        "The tables are coming: this version has the solver core, the layers and their training."
    shell:
        "rcdrs --help"
