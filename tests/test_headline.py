"""The table and the picture of the README."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pandas as pd
import pytest
from run_files import write_run

from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.reporting.coverage import compare
from rcdrs.reporting.headline import draw, markdown
from rcdrs.reporting.results import Results, read_rows
from rcdrs.reporting.tables import needs

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Configuration and seed-level files of a run that was made up."""
    folder = tmp_path_factory.mktemp("run")
    plan = Plan.read(ROOT, ROOT / "workflow/config/smoke.yaml")
    write_run(plan, folder)
    keys = [*needs("coverage", plan.config), *needs("coverage_log_kkt", plan.config)]
    return plan.config, [folder / key.path() for key in dict.fromkeys(keys)]


@pytest.fixture(scope="module")
def results(run):
    return Results(pd.concat(map(pd.read_csv, run[1])), None, run[0].seeds)


def test_table_has_the_papers_values_beside_ours(run, results):
    lines = markdown(run[0], results).splitlines()
    ours = ("ours, its recipe", "over every method", "ours, `log_kkt`", "over every method")
    assert lines[0] == f"| | paper | {' | '.join(ours)} |"
    assert all(line.count("|") == 7 for line in lines)
    wins = next(line for line in lines if line.startswith("| Best RCDRS gap wins"))
    assert wins.split("|")[2].strip() == "36/36"
    for place, reading in ((3, "classical"), (4, "every")):
        won = sum(c.won_by(c.rcdrs) for c in _gaps(run, results, reading))
        assert wins.split("|")[place].strip() == f"{won}/6"


def test_picture_shows_every_setting_in_both_recipes(run, results):
    panels = draw(run[0], results).axes
    shown = sorted(y for axes in panels for line in axes.lines[:1] for y in line.get_ydata())
    assert len(panels) == 3
    assert shown == sorted(c.ratio for c in _gaps(run, results))
    assert [len(axes.lines) for axes in panels] == [3, 3, 3]  # two recipes, one scale, and 1


def _gaps(run, results, reading="classical"):
    return compare(run[0], results, "Gap", "paper", reading)


def test_verb_writes_the_same_bytes_twice(run, tmp_path):
    config, files = run
    command = ["headline", "--config", config.model_dump_json(), "--rows", *map(str, files)]
    for name in ("a", "b"):
        assert main([*command, "--out", str(tmp_path / f"{name}.md")]) == 0
    for suffix in (".md", ".png"):
        first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second


def test_readme_shows_the_rendered_table():
    readme, rendered = (ROOT / "README.md").read_text(), ROOT / "paper_tables/headline.md"
    shown = re.search(r"<!-- headline -->\n(.*?)<!-- end -->", readme, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == rendered.read_text().strip()
    assert (ROOT / "paper_tables/headline.png").exists()


def test_readme_tells_what_is_without_the_infeasible_method():
    """Computed from released results; the README's sentence is their summary."""
    plan = Plan.read(ROOT)
    keys = [*needs("coverage", plan.config), *needs("coverage_log_kkt", plan.config)]
    results = Results(read_rows(map(Path, plan.results(keys))), None, plan.config.seeds)
    told = {}
    for recipe in ("log_kkt", "paper"):
        ratios = []
        for found in compare(plan.config, results, "Gap", recipe, "every"):
            others = {name: gap for name, gap in found.compared.items() if name != "L-PDHG"}
            ratios.append(replace(found, compared=others).ratio)
        told[recipe] = sum(ratio < 1 for ratio in ratios), mean(ratios)
    text = " ".join((ROOT / "README.md").read_text().split())
    ours, paper = told["log_kkt"], told["paper"]
    assert (
        f"`log_kkt` wins {ours[0]} of 36 at a mean ratio of {ours[1]:.0%}".replace("%", " %")
        in text
    )
    assert f"the paper's recipe {paper[0]} of 36 at {paper[1]:.0%}".replace("%", " %") in text
