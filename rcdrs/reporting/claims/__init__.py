"""The claims ledger: workflow/claims.yaml judged from the results of a run.

    Ledger.read().judge(Ours(config, rows, timing, Details(files), ledger.tables))

`checks` has the vocabulary; `sources` where numbers come from; `ledger` the verdicts; `output` the
files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from rcdrs.files import replacing
from rcdrs.reporting.claims.evidence import read_tests
from rcdrs.reporting.claims.ledger import LEDGER, Judged, Ledger
from rcdrs.reporting.claims.output import noise_lines, to_frame, to_markdown
from rcdrs.reporting.claims.sources import NotComputed, Ours
from rcdrs.reporting.results import Config, MissingRow, Results, read_rows
from rcdrs.reporting.statistics import Details, of_settings, of_table
from rcdrs.reporting.tables import TABLES, needs

__all__ = ["LEDGER", "Judged", "Ledger", "NotComputed", "Ours", "claims", "significance"]


def claims(options: argparse.Namespace) -> None:
    """The verb: config, rows, times, details, tests, recipe and out, a Markdown file.

    Beside ``out`` go the same as CSV, and one CSV with every comparison behind "wins and noise".
    """
    rows, times = read_rows(options.rows), read_rows(options.times)
    details = Details(options.details)
    tests = read_tests(options.tests) if options.tests else {}
    ledger = Ledger.read()
    run = Ours(options.config, rows, times, details, ledger.tables, options.recipe, tests)
    judged = ledger.judge(run)
    noise = significance(options.config, rows, times, details, options.recipe)
    page = to_markdown(judged, options.recipe, noise_lines(noise))
    _write(options.out, page)
    _write(options.out.with_suffix(".csv"), to_frame(judged).to_csv(index=False))
    compared = [frame.assign(comparison=title) for title, frame in noise.items()]
    lines = pd.concat(compared, ignore_index=True).convert_dtypes() if compared else pd.DataFrame()
    # Rounded: the last digits of a bootstrap depend on the CPU.
    noise_csv = lines.to_csv(index=False, float_format="%.6g")
    _write(options.out.with_name(f"{options.out.stem}_noise.csv"), noise_csv)
    for name, count in to_frame(judged)["verdict"].value_counts().items():
        print(f"{name}: {count}")
    print(f"wrote {options.out}")


def significance(
    config: Config, rows: pd.DataFrame, timing: pd.DataFrame, details: Details, recipe: str
) -> dict[str, pd.DataFrame]:
    """By title: the settings, RCDRS against the strongest; and the best of every table's columns
    against the second.  What is not computed is left out."""
    results = Results(rows, timing, config["seeds"])
    found = {}
    for metric in ("Gap", "Dist"):
        try:
            title = f"{metric} of the settings, better RCDRS against the strongest"
            found[title] = of_settings(config, results, details, metric, recipe)
        except MissingRow:
            continue
    for name in TABLES:
        try:
            measured = bool(needs(name, config).rows)
        except (ValueError, KeyError):  # the configuration lacks what the table is about
            continue
        try:
            frame = of_table(name, config, rows, timing, details) if measured else pd.DataFrame()
        except MissingRow:
            continue
        if not frame.empty:
            found[f"bold cells of {name} against the second"] = frame
    return found


def _write(path: Path, content: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(content)
