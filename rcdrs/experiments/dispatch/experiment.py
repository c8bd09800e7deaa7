"""Energy dispatch in the configuration: one case for each formulation of the reserve."""

from __future__ import annotations

from typing import Literal

from rcdrs.experiments import base, settings
from rcdrs.experiments.base import Run
from rcdrs.experiments.settings import Count, ExperimentSection, Many, Plain, Schedule, Some

Method = Literal[
    "F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS", "RCDRS-Env", "RCDRS-NoEnv"
]
DAY = ("Grid-DRS@paper", "RCDRS-Env@paper")
#: The formulation in which every day has a solution.
SOLVABLE = "dispatch-inequality"


class Schedules(settings.Section):
    """Its recipes have losses of their own."""

    paper: Schedule
    log_kkt: Schedule


class Section(ExperimentSection):
    #: The first is behind the paper's tables.
    formulations: Many[Literal["printed", "turned", "inequality"]]
    #: Steps of the run that CostGap compares with.
    reference: Count
    methods: Many[Method]
    extended: Some[Literal["RCDRS-Env", "RCDRS-NoEnv"]]
    training: Schedules


class Experiment(base.Experiment):
    """A day on a small network, planned with forecasts."""

    name = "dispatch"
    Section = Section
    families = ("dispatch",)
    learned = ("RCDRS-Env", "RCDRS-NoEnv")
    reference = True

    @property
    def cases(self) -> list[str]:
        return [f"dispatch-{formulation}" for formulation in self.section.formulations]

    def runs(self, case: str) -> list[Run]:
        """log_kkt is for the formulation that always has a solution."""
        found = super().runs(case)
        return found if case == SOLVABLE else [run for run in found if run.recipe == "paper"]

    def traced(self, case: str) -> list[Run]:
        """Those whose schedules of a day are drawn, beside the optimum."""
        return [run for run in self.runs(case) if str(run) in DAY]

    @classmethod
    def recipe_form(cls, run: Run) -> base.Form:
        return Schedule if run.recipe == "paper" else super().recipe_form(run)

    def recipe(self, run: Run) -> Plain:
        """The loss of log_kkt has no gap: that of the readout is a cone's, not a box's."""
        recipe = self._written(self.section.training, run)
        if run.recipe == "log_kkt":
            recipe["loss"] = self.config.recipes.log_kkt.loss.plain() | {"gap": 0.0}
        return recipe

    def reference_settings(self) -> Plain:
        """The long run takes the core of the greatest depth."""
        return {"depth": max(self.depths), "steps": self.section.reference}
