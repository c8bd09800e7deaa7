"""The synthetic benchmarks in the configuration: families, scales and depths."""

from __future__ import annotations

from typing import Literal, get_args

from rcdrs.experiments import base
from rcdrs.experiments.settings import Controlled, ExperimentSection, Family, Many, Scale, Some

Method = Literal["F-DRS", "Grid-DRS", "S-ADMM", "AA-DRS", "Anderson-DRS", "L-PDHG", Controlled]


class Section(ExperimentSection):
    #: Names in `instances.CASES`; an unknown one stops its first job.
    families: Many[Family]
    scales: Many[Scale]
    methods: Many[Method]
    extended: Some[Controlled]


class Experiment(base.Experiment):
    """Every method on every family and scale."""

    name = "synthetic"
    Section = Section
    learned = ("L-PDHG", *get_args(Controlled))

    @property
    def cases(self) -> list[str]:
        return [f"{f}-{s}" for f in self.section.families for s in self.section.scales]
