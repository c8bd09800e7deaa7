"""The claims ledger: workflow/claims.yaml judged from the results of a run.

    Ledger.read().judge(Ours(config, results, Details(files), ledger.tables))

`checks` has the vocabulary; `sources` where numbers come from; `ledger` the verdicts; `readings`
those in other readings of the protocol; `output` the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd

from rcdrs.artifact.config import Config
from rcdrs.reporting.claims.evidence import read_tests
from rcdrs.reporting.claims.ledger import Ledger
from rcdrs.reporting.claims.output import noise_lines, to_frame, to_markdown
from rcdrs.reporting.claims.readings import in_readings
from rcdrs.reporting.claims.sources import Ours
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.details import Details
from rcdrs.reporting.results import MissingRow, Results
from rcdrs.reporting.statistics import of_settings, of_table
from rcdrs.reporting.tables import available, configured, values


def judge(
    config: Config, results: Results, details: Details, recipe: str, tests: Iterable[Path]
) -> tuple[dict[str, str], pd.Series]:
    """Every claim of the ledger: files by the end of their names, and how many have each verdict.

    `tests` are reports of `pytest --junitxml`.  The files are a page in Markdown, the same as CSV,
    and a CSV with every comparison behind "wins and noise".
    """
    ledger = Ledger.read()
    outcomes = {test: outcome for path in tests for test, outcome in read_tests(path).items()}
    ours = Ours(config, results, details, ledger.tables, recipe, outcomes)
    others = in_readings(ledger, ours)
    judged = [replace(j, readings=others.get(j.claim.id, ())) for j in ledger.judge(ours)]
    noise = significance(config, results, details, recipe)
    compared = [frame.assign(comparison=title) for title, frame in noise.items()]
    lines = pd.concat(compared, ignore_index=True).convert_dtypes() if compared else pd.DataFrame()
    verdicts = to_frame(judged)
    files = {
        ".md": to_markdown(judged, recipe, noise_lines(noise)),
        ".csv": verdicts.to_csv(index=False),
        # Rounded: the last digits of a bootstrap depend on the CPU.
        "_noise.csv": lines.to_csv(index=False, float_format="%.6g"),
    }
    return files, verdicts["verdict"].value_counts()


def significance(
    config: Config, results: Results, details: Details, recipe: str
) -> dict[str, pd.DataFrame]:
    """By title: the settings, RCDRS against the strongest in every reading; and the best of every
    table's columns against the second.  What is not computed is left out."""
    found = {}
    for (reading, label), metric in product(READINGS.items(), ("Gap", "Dist")):
        try:
            title = f"{metric} of the settings, better RCDRS against the strongest {label}"
            found[title] = of_settings(config, results, details, metric, recipe, reading)
        except MissingRow:
            continue
    for name in configured(config):
        try:
            cells = values(name, config, results) if available(name, config) else []
        except MissingRow:
            continue
        frame = of_table(name, cells, results, details)
        if not frame.empty:
            found[f"bold cells of {name} against the second"] = frame
    return found
