"""The table and the picture of the README."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from run_files import write_run

from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.reporting import peers
from rcdrs.reporting.coverage import compare
from rcdrs.reporting.headline import draw, markdown
from rcdrs.reporting.report.answer import BEYOND, LEARNED, results_of, tell
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables import needs

ROOT = Path(__file__).parents[1]


def readme():
    """Its text on one line, as sentences may break anywhere."""
    return " ".join((ROOT / "README.md").read_text().split())


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


@pytest.mark.parametrize("name", ["answer", "headline"])
def test_readme_shows_what_is_rendered(name):
    readme, rendered = (ROOT / "README.md").read_text(), ROOT / f"paper_tables/{name}.md"
    shown = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", readme, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == rendered.read_text().strip()
    assert (ROOT / "paper_tables/headline.png").exists()


def test_readme_tells_where_the_gain_comes_from():
    """From the tables of equal care and of equal time."""
    told = readme()
    care = pd.read_csv(ROOT / "paper_tables/care.csv").query("block == 'over strongest classical'")
    share = care[care["column"] == "all K"].set_index("row")["mean"].map("{:.1f} %".format)
    lead = share["Chosen feedback, log_kkt"]
    assert lead == share["RCDRS-Anderson, log_kkt"]
    for sentence in (
        f"a grid without an edge already has {share['Wide-DRS']}",
        f"a schedule has {share['Layerwise-DRS, paper']} and feedback "
        f"{share['Chosen feedback, paper']}",
        f"With `log_kkt` a schedule has {share['Layerwise-DRS, log_kkt']}, the paper's controller "
        f"{share['RCDRS-Env, log_kkt']}",
        f"the variant chosen on validation data, {lead}",
    ):
        assert sentence in told
    timed = pd.read_csv(ROOT / "paper_tables/equal_time.csv").query("row == 'RCDRS-Glance'")
    won = timed[timed["column"] == "median no worse"].set_index("block")["mean"].astype(int)
    assert (
        f"in {won['QP-lift'] + won['Mixed cone']} of 24), and not on SOCP ({won['SOCP']} of 12)"
        in told
    )


def test_readme_tells_of_peers_what_was_measured():
    told = readme()
    found = peers.cases(Evidence(Plan.read(ROOT)).measured)
    times = {
        (case.label, what, size): float(lead.words)
        for case in found
        for what, size in peers.RACES
        if (lead := peers.lead(case, what, size, 1e-3)) is not None
    }
    hard = {
        use: [times[f"{name} hard", *use] for name in ("SOCP", "QP-lift", "Mixed cone")]
        for use in peers.RACES
    }
    one, many, both = (f"{min(v):.0f} to {max(v):.0f} times" for v in hard.values())
    assert f"is {one} faster than the fastest solver for one instance" in told
    assert f"{many} for 400 at once, and {both} forward and backward for 32" in told
    small = [
        [f"{times[name, 'forward', batch]:g}" for name in ("Decision-focused", "Portfolios")]
        for batch in (1, 400)
    ]
    assert (
        "({} and {} times), and behind by {} and {} times for 400".format(*small[0], *small[1])
        in told
    )
    flow = next(case for case in found if case.label == "Optimal power flow")
    rough = [peers.lead(flow, "forward", batch, 1e-2) for batch in (1, 400)]
    assert not any(peers.lead(flow, "forward", batch, 1e-3) for batch in (1, 400))
    one, many = (lead.words for lead in rough if lead is not None)
    assert f"ours reach 1e-2 alone, and are {one} and {many} times faster there" in told


def rendered(*names):
    """Means of tables by (block, row, column)."""
    tables = (pd.read_csv(ROOT / f"paper_tables/{name}.csv") for name in names)
    return pd.concat(tables).set_index(["block", "row", "column"])["mean"]


def test_readme_tells_of_real_data_what_the_tables_have():
    told, grid = readme(), rendered("grid", "grid_other")
    ours, core, recall = "RCDRS-Env, log_kkt", "Grid-DRS", "Recall-DRS"
    methods = (ours, "Layerwise-DRS, log_kkt", core, recall)

    def gaps(column):
        return [f"{100 * grid['K=20', name, column]:.1f} %" for name in methods]

    here, away = gaps("CostGap"), gaps("CostGap_away")
    exact = grid["K=20", "Exact", "Cost"]
    sums = [f"{100 * (1 - grid['K=20', name, 'Cost'] / exact):.1f}" for name in methods]
    kept = [
        [f"{100 * grid['K=20', name, column]:.0f} %" for column in ("Pass", "Pass_away")]
        for name in (ours, core, "Exact")
    ]
    five = [
        f"({100 * grid['K=5', name, column]:.1f} %)"
        for name, column in ((recall, "CostGap"), (core, "CostGap_warm"))
    ]
    for sentence in (
        f"planned costs {here[0]} more than the exact plan",
        f"a schedule {here[1]}, the fixed core {here[2]}, and",
        f"(Recall-DRS) {here[3]}; in summer",
        f"has seen, {away[0]}, {away[1]}, {away[2]} and {away[3]}.",
        f"In sum all cost {min(sums)} to {max(sums)} % less than the exact plans",
        f"in {kept[0][0]} of RCDRS-Env's hours (summer {kept[0][1]})",
        f"{kept[1][0]} ({kept[1][1]}) of the core's and {kept[2][0]} ({kept[2][1]}) of the exact",
        f"about where the core is with twenty {five[0]}",
        f"does not do that {five[1]}",
    ):
        assert sentence in told
    stocks = rendered("portfolio")
    lacks, core = (
        [stocks["calm", row, column] for column in ("Regret", "Expected")]
        for row in ("RCDRS-Env-F, log_kkt", "Grid-DRS")
    )
    assert f"lacks {lacks[0]:.2f} basis points a week of an optimum of {lacks[1]:.1f}" in told
    assert f"the fixed core {core[0]:.2f} of {core[1]:.1f}" in told
    worth = [stocks["calm", row, "Utility"] for row in ("Simple-Exact", "RCDRS-Env-F, log_kkt")]
    assert f"({worth[0]:.1f} a week; behind the layer {worth[1]:.1f})" in told
    crash = [stocks["crash", row, "Regret"] for row in ("RCDRS-Env-F, log_kkt", "Grid-DRS")]
    assert f"({crash[0]:.2f} against {crash[1]:.2f} in the crash of 2008)" in told


def test_report_says_of_what_is_beyond_the_paper_where_a_layer_serves():
    """From results that are released; where nobody has computed them, nothing is said."""
    evidence = Evidence(Plan.read(ROOT))
    _, found = tell(evidence.config, partial(results_of, evidence), BEYOND)
    flow, stocks, solvers = found
    assert [finding.section for finding in found] == list(BEYOND)
    mean = rendered("grid")
    ours, core = (mean.xs((row, "CostGap"), level=[1, 2]) for row in (LEARNED, "Grid-DRS"))
    assert (flow.count, flow.total) == ((ours < core).sum(), len(core))
    assert f"plans cost {100 * ours['K=20']:.1f} % more" in flow.measured
    mean = rendered("portfolio")
    ours, core = (
        mean.xs((row, "Regret"), level=[1, 2]) for row in ("RCDRS-Env-F, log_kkt", "Grid-DRS")
    )
    assert (stocks.count, stocks.total) == ((ours < core).sum(), len(core))
    assert solvers.total == len(peers.cases(evidence.measured))
    assert tell(evidence.config, lambda table: None, BEYOND) == ([], [])


def test_readme_tells_the_settings_as_they_are():
    """Its sentences on how far ahead RCDRS is, from the rendered tables."""
    told = readme()
    paper, ours = (
        pd.read_csv(ROOT / f"paper_tables/{name}.csv").query("metric == 'Gap'")
        for name in ("settings", "settings_log_kkt")
    )
    lead = 100 - paper.groupby("family")["ratio_classical_percent"].agg(["max", "min"])
    for family, sentence in (
        ("qp", "by {} to {} % on QP"),
        ("mixed", "on mixed cones by {} to {} %"),
    ):
        assert sentence.format(*lead.loc[family].round().astype(int)) in told
    assert (paper["ratio_classical_percent"] < 100).all()
    (lost,) = ours[ours["ratio_classical_percent"] >= 100].itertuples()
    assert (lost.family, lost.scale, lost.K) == ("qp", "medium", 5)
    assert f"QP medium at K = 5 (ratio {lost.ratio_classical_percent / 100:.2f})" in told
    behind = {
        (row.family, row.scale, row.K, row.every)
        for table in (paper, ours)
        for row in table[table["ratio_every_percent"] >= 99.95].itertuples()
    }
    assert behind == {("qp", scale, 5, "Layerwise-DRS") for scale in ("medium", "hard")}
