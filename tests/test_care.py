"""Equal care: the gain split, the hard cases, equal time, and tables that need universes."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from run_files import write_run
from test_report import make
from universe_files import with_universes, write_over_paper

from rcdrs.artifact.config import ConfigError, check
from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.experiments.settings import merge
from rcdrs.reporting import care, equal_time, headline
from rcdrs.reporting.care import BEST, CHOSEN, CLASSICAL, LIMIT, SCHEDULE, WIDE, Gain, gain, split
from rcdrs.reporting.details import Details
from rcdrs.reporting.equal_time import Point, Race, error_at, points
from rcdrs.reporting.render import LATEX
from rcdrs.reporting.report.answer import QUESTION, Finding, answer
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.page import sections
from rcdrs.reporting.results import MissingRow, Results
from rcdrs.reporting.tables import TABLES, configured, files, needs, preview, render, values

NEW = ["care", "care_dual", "care_hard", "equal_time"]
EXTENDED = ["dfl_extended", "dispatch_extended"]
PLAN = with_universes()
CONFIG = PLAN.config
PDFLATEX = shutil.which("pdflatex")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a whole run, universes and all."""
    folder = tmp_path_factory.mktemp("care")
    with contextlib.chdir(folder):
        write_run(PLAN, Path(PLAN.folder), instances=20)
    return folder


@pytest.fixture(scope="module")
def evidence(run):
    """The same from anywhere."""
    found = Evidence(PLAN)
    found.path = lambda key: path if (path := run / PLAN.folder / key.path()).exists() else None
    return found


def results_of(evidence, name):
    return evidence.of(name, CONFIG.seeds)


# Ratios


def test_gain_of_a_hand_computed_example():
    found = Gain((0.5, 2.0, 0.25, 0.99999))  # the last by rounding: no win
    assert found.geometric == pytest.approx(0.25 ** (1 / 4), rel=1e-4)
    assert found.mean == pytest.approx(3.75 / 4, rel=1e-4)
    assert (found.wins, found.limited) == (2, 0)


@pytest.mark.parametrize(("value", "bound"), [(0.0, 1 / LIMIT), (math.inf, LIMIT)])
def test_no_setting_is_left_out_and_none_decides_the_mean(value, bound):
    found = Gain((value, 0.5))
    assert found.geometric == pytest.approx(math.sqrt(0.5 * bound))
    assert found.limited == 1
    assert found.mean == (value + 0.5) / 2  # the paper's statistic stays what it is


#: Gap of each method in one setting, home and with equal care; all others are 10.
HOME = {"F-DRS": 4.0, "Grid-DRS": 2.0, "L-PDHG": 0.0, "Layerwise-DRS": 0.1, "RCDRS-NoEnv": 1.5}
FAIR = {("Grid-DRS", "paper"): 1.0, ("Anderson-DRS", "paper"): 0.5}
FAIR |= {("Layerwise-DRS", "log_kkt"): 0.4, ("RCDRS-Env", "log_kkt"): 0.3}
FAIR |= {("RCDRS-MLP", "log_kkt"): 0.2, ("L-PDHG", "log_kkt"): 0.0}


def example(**changes):
    """Rows of every setting with these numbers; `changes` are factors by depth, as ``K20=0.5``."""
    part, lines = CONFIG.synthetic, []
    fair = PLAN.within("fair").config.synthetic
    for family, K, seed in product(part.families, part.depths, CONFIG.seeds):
        factor = changes.get(f"K{K}", 1.0)
        runs = [(m, "paper", "", HOME.get(m, 10.0)) for m in part.methods]
        trained = [(m, "paper") for m in fair.methods] + [(m, "log_kkt") for m in fair.extended]
        runs += [(*run, "fair", factor * FAIR.get(run, 10.0)) for run in trained]
        where = {"experiment": "synthetic", "family": family, "scale": "hard", "K": K}
        lines += [
            where | {"seed": seed, "method": m, "recipe": recipe, "universe": within, "Gap": gap}
            for m, recipe, within, gap in runs
        ]
    return Results(pd.DataFrame(lines), None, CONFIG.seeds)


def test_split_of_a_hand_computed_example():
    splits = split(CONFIG, example(), "Gap")
    assert len(splits) == 6
    ratios = {label: gain(splits, label).geometric for label in splits[0].found}
    # Over Grid-DRS at home: what is learned is no classical baseline, however low.
    assert splits[0].found[CLASSICAL].method == "Grid-DRS"
    expected = {WIDE: 0.5, "Anderson-DRS": 0.25, "Layerwise-DRS, log_kkt": 0.2}
    expected |= {"RCDRS-Env, log_kkt": 0.15, "RCDRS-MLP, log_kkt": 0.1, f"{BEST}, log_kkt": 0.1}
    expected |= {care.PRINTED: 0.75, "L-PDHG, log_kkt": 1 / LIMIT, f"{BEST}, paper": 5.0}
    assert {label: ratios[label] for label in expected} == pytest.approx(expected)
    over = gain(splits, f"{BEST}, log_kkt", WIDE)
    assert (over.geometric, over.wins) == (pytest.approx(0.2), 6)
    assert gain(splits, "L-PDHG, log_kkt").limited == 6
    assert {key.universe for key in over.keys} == {"fair"}


def test_shares_of_the_gain_add_up():
    told = " ".join(care.reading(split(CONFIG, example(), "Gap"), "Gap", "log_kkt"))
    assert "has 50.0 % of the Gap of the strongest classical baseline" in told
    shares = [
        int(share) for share in re.findall(r"(\d+) %(?:,| and|\.)", told.split("logarithms")[1])
    ]
    assert shares[:3] == [30, 40, 30]  # 1/2, then 0.4 of it, then half of that
    assert "50.0 % at K=5 (lower in 3 of 3) and 50.0 % at K=20" in told


def test_a_gain_that_is_none_has_no_shares():
    told = " ".join(care.reading(split(CONFIG, example(K5=100, K20=100), "Gap"), "Gap", "log_kkt"))
    assert "logarithms" not in told
    assert "is below it in 0" in told


def test_table_has_the_ratios_by_depth():
    cells = {(c.block, c.row, c.column): c for c in values("care", CONFIG, example(K20=0.5))}
    block = f"over {CLASSICAL}"
    assert cells[block, WIDE, "K=5"].mean == pytest.approx(50)
    assert cells[block, WIDE, "K=20"].mean == pytest.approx(25)
    assert cells[block, WIDE, "all K"].mean == pytest.approx(100 * math.sqrt(0.125))
    assert cells[block, WIDE, "Mean"].mean == pytest.approx(37.5)
    assert cells[block, WIDE, "all K wins"].show(LATEX) == r"\(6/6\)"
    assert cells[f"over {WIDE}", f"{BEST}, log_kkt", "K=20"].mean == pytest.approx(20)
    assert (f"over {WIDE}", WIDE, "K=5") not in cells


def test_caption_says_how_many_ratios_are_limited():
    tex = render("care", CONFIG, example())["care.tex"]
    # L-PDHG with log_kkt, over both references, in six settings.
    assert "(12 of all ratios are beyond that)" in tex


# The variant that was chosen on validation data


def with_chosen(method, name="chosen"):
    chosen = {"fair": {"synthetic": {name: {"log_kkt": method}}}}
    return check(merge(CONFIG.plain(), {"universes": chosen}))


def test_chosen_variant_leads_and_the_best_stays_beside_it():
    config = with_chosen("RCDRS-Env")
    splits = split(config, example(), "Gap")
    assert gain(splits, f"{CHOSEN}, log_kkt").geometric == pytest.approx(0.15)
    assert gain(splits, f"{BEST}, log_kkt").geometric == pytest.approx(0.1)
    assert f"{CHOSEN}, paper" not in splits[0].found
    told = " ".join(care.reading(splits, "Gap", "log_kkt"))
    assert "the feedback variant chosen on validation data with log_kkt has 15.0 %" in told
    assert "best feedback variant" in " ".join(care.reading(splits, "Gap", "paper"))
    tex = render("care", config, example())["care.tex"]
    assert r"(\textsc{RCDRS-Env} with \texttt{log\_kkt})" in tex
    assert "validation data" not in render("care", CONFIG, example())["care.tex"]
    rows = {cell.row for cell in values("care", config, example())}
    assert {f"{CHOSEN}, log_kkt", f"{BEST}, log_kkt"} <= rows


def test_chosen_variant_races_as_itself(evidence):
    results = results_of(evidence, "equal_time")
    for found in equal_time.races(with_chosen("RCDRS-Light", "timely"), results):
        assert found.ratios[CHOSEN] == found.ratios["RCDRS-Light"]
    for config in (CONFIG, with_chosen("RCDRS-Light")):  # which is about equal depth
        assert CHOSEN not in equal_time.races(config, results)[0].ratios


@pytest.mark.parametrize("name", ["chosen", "timely"])
@pytest.mark.parametrize("method", ["RCDRS-NoEnv", "Layerwise-DRS"])
def test_chosen_variant_is_one_that_is_trained(method, name):
    expected = f"{name}.log_kkt is '{method}', expected one of RCDRS-Env, RCDRS-MLP, RCDRS-Light"
    with pytest.raises(ConfigError, match=re.escape(expected)):
        with_chosen(method, name)


@pytest.mark.parametrize(("count", "css"), [(0, "fails"), (2, "fails"), (3, "noise"), (4, "holds")])
def test_finding_is_marked_by_how_often_it_is_so(count, css):
    assert Finding("claim", count, 4, "measured", "care").mark[0] == css


# Equal time


def curve(*pairs):
    key = Key("rows", "synthetic", "socp-hard", 0, 5, "Grid-DRS", universe="fair")
    return [Point(5, time, {"median": error}, key, key) for time, error in pairs]


def test_error_between_two_depths_is_log_linear_and_held_beyond():
    wide = curve((1.0, 1e-1), (3.0, 1e-3), (4.0, 1e-4))
    assert error_at(1.0, wide, "median") == pytest.approx(1e-1)
    assert error_at(2.0, wide, "median") == pytest.approx(1e-2)
    assert error_at(3.5, wide, "median") == pytest.approx(10**-3.5)
    assert error_at(0.5, wide, "median") == pytest.approx(1e-1)
    assert error_at(9.0, wide, "median") == pytest.approx(1e-4)


def race(K, best, schedule, scale="hard"):
    return Race("socp", scale, K, {BEST: {"median": best}, SCHEDULE: {"median": schedule}}, {})


def test_sentence_says_who_wins_where():
    found = [race(5, 2.0, 0.5), race(10, 1.0, 0.5), race(20, 0.5, 0.5)]
    (told,) = equal_time.reading(found)
    assert told == (
        "SOCP, 3 settings at equal time: the best feedback variant is no worse than Wide-DRS in 2 "
        "(hard at K=10 and 20), and over all has 100 % of its median Dist (geometric mean); the "
        "schedule is no worse than Wide-DRS in all, and over all has 50 % of its median Dist "
        "(geometric mean)."
    )
    (told,) = equal_time.reading([race(5, 2.0, 4.0)])
    assert "best feedback variant is no worse than Wide-DRS in none, and over all has 200 %" in told


def test_every_solver_has_the_depths_of_its_universes():
    lines = {line.label: line for line in equal_time.lines_of(CONFIG)}
    depths = {label: sorted(K for _, K in line.depths) for label, line in lines.items()}
    assert depths == {
        "Grid-DRS": [5, 20, 40],
        WIDE: [5, 12, 20, 40, 60],
        SCHEDULE: [5, 20, 40, 60],
        **{f"RCDRS-{name}": [5, 20] for name in ("Env", "MLP", "Light")},
    }
    assert {line.seed for line in lines.values()} == {0}


def test_points_are_quantiles_of_instances_against_times(run, evidence):
    results = results_of(evidence, "equal_time")
    line = next(line for line in equal_time.lines_of(CONFIG) if line.label == WIDE)
    found = {point.K: point for point in points(results, line, "socp-hard")}
    folder = run / PLAN.folder / "universes"
    for K, within in ((5, "fair"), (12, "between"), (60, "deep")):
        stored = np.load(folder / within / f"synthetic/socp-hard-0-K{K}/Grid-DRS@paper.npz")
        levels = np.quantile(stored["Grid-DRS@-/Dist"], [0.5, 0.95])
        assert list(found[K].levels.values()) == pytest.approx(list(levels))
        times = pd.read_csv(folder / within / "timing/socp-hard-0.csv")
        (time,) = times[(times.K == K) & (times.method == "Grid-DRS")].time_ms
        assert found[K].time == time
    ratios = equal_time.races(CONFIG, results)[0].ratios
    fed = [ratios[f"RCDRS-{name}"]["median"] for name in ("Env", "MLP", "Light")]
    assert ratios[BEST]["median"] == min(fed)


def test_instances_that_are_not_there_are_told(evidence):
    found = results_of(evidence, "equal_time")
    found.details = Details()
    with pytest.raises(MissingRow, match=r"no instances for .*: their Dist is missing"):
        equal_time.races(CONFIG, found)


def test_instances_of_universes_are_kept_apart(run):
    paths = [path for path in (run / PLAN.folder).rglob("*.npz") if "socp-hard-0-K5" in str(path)]
    details = Details(paths)
    home = Key("rows", "synthetic", "socp-hard", 0, 5, "Grid-DRS")
    ours, wide = details.one("Dist", home), details.one("Dist", replace(home, universe="fair"))
    assert len(ours) == len(wide) == 20
    assert (ours != wide).all()
    assert details.one("Dist", replace(home, universe="deep")) is None


# Tables and the universes that they need


def test_without_universes_everything_is_as_before():
    plain = CONFIG.but(universes={})
    home = [table for table in TABLES.values() if not table.universes]
    assert list(configured(plain)) == [table.name for table in home]
    for name in NEW:
        for ask in (needs, render):
            with pytest.raises(ValueError, match=f"table {name} is about .*, but universes of the"):
                ask(name, plain)
    for name in EXTENDED:
        assert not any(key.universe for key in needs(name, plain))


def test_a_part_of_the_universes_gives_a_part_of_the_tables():
    assert set(NEW) & set(configured(with_universes("fair").config)) == set(NEW[:-1])
    assert set(NEW) <= set(configured(CONFIG))


def test_tables_need_rows_times_and_details_of_universes(run):
    keys = needs("equal_time", CONFIG)
    assert {key.universe for key in keys if key.kind == "times"} == {"", *equal_time.UNIVERSES}
    assert {key.universe for key in keys if key.kind == "rows"} == {"", *equal_time.UNIVERSES}
    assert {key.seed for key in keys} == {0}
    with contextlib.chdir(run):
        details = files(PLAN, "details", "equal_time")
        assert len(details) == sum(key.kind == "rows" for key in keys)
        assert all(path.exists() for path in details)
    assert {key.seed for key in needs("care", CONFIG)} == set(CONFIG.seeds)
    assert {key.seed for key in needs("care_hard", CONFIG)} == set(CONFIG.synthetic.hard_seeds)
    assert all(PLAN.digests(key) for name in NEW for key in needs(name, CONFIG))


@pytest.mark.parametrize("name", NEW + EXTENDED)
def test_tables_render(evidence, name):
    for content in render(name, CONFIG, results_of(evidence, name)).values():
        assert not re.search(r"\b(nan|None|Undefined)\b|\\VAR|\\BLOCK", content)


def test_hard_cases_have_their_seeds_and_a_best_in_each_column(evidence):
    cells = values("care_hard", CONFIG, results_of(evidence, "care_hard"))
    assert {len(cell.keys) for cell in cells} == {3}
    rows = list(dict.fromkeys(cell.row for cell in cells))
    assert rows[:2] == [WIDE, "Anderson-DRS"]
    assert len(rows) == 2 + 2 * 5
    best = [cell for cell in cells if cell.bold]
    assert {(c.block, c.column) for c in best} == {(c.block, c.column) for c in cells}
    assert (
        "averaged over 3 seeds"
        in render("care_hard", CONFIG, results_of(evidence, "care_hard"))["care_hard.tex"]
    )


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("dfl_extended", [WIDE, "RCDRS-Env-J, log_kkt, wide core"]),
        ("dispatch_extended", [WIDE, "Anderson-DRS", "RCDRS-Env, log_kkt, wide core"]),
    ],
)
def test_extended_tables_end_with_the_rows_of_equal_care(evidence, name, rows):
    cells = values(name, CONFIG, results_of(evidence, name))
    shown = list(dict.fromkeys(cell.row for cell in cells))
    assert shown[-len(rows) :] == rows
    ours = [cell for cell in cells if cell.row in rows]
    assert {key.universe for cell in ours for key in cell.keys} == {"fair"}
    assert "grid without an edge" in render(name, CONFIG, results_of(evidence, name))[f"{name}.tex"]


@pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex (Debian: texlive-latex-extra)")
def test_tables_compile_and_fit(evidence, tmp_path):
    paths = []
    for name in NEW + EXTENDED:
        paths.append(tmp_path / f"{name}.tex")
        paths[-1].write_text(render(name, CONFIG, results_of(evidence, name))[paths[-1].name])
    (tmp_path / "preview.tex").write_text(preview(paths))
    command = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "preview.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search("Overfull|too large", done.stdout)


def test_status_and_explain_know_of_universes(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(run)
    given = ["--configfile", str(write_over_paper(CONFIG, tmp_path / "ours.yaml"))]
    assert main(["explain", "care_hard", WIDE, "Gap", *given]) == 0
    told = capsys.readouterr().out
    assert "universes/fair/synthetic/socp-hard-2-K20/Grid-DRS@paper.csv" in told
    assert main(["explain", "equal_time", BEST, "median ratio", *given]) == 0
    assert main(["status", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = next(line for line in lines if line.startswith("care_hard "))
    # Stale where the paper's configuration has more in these universes than ours changes.
    assert sum(map(int, re.findall(r"\d+", found))) == len(needs("care_hard", CONFIG))
    assert "missing" not in found


# The page


@pytest.fixture(scope="module")
def page(run):
    return make(run, PLAN)


def test_page_has_the_sections_with_their_figures(page):
    assert "Not computed yet" not in page.text
    assert {"gains", "error-time"} <= {figure["id"] for figure in page.all("figure")}
    assert {f"table-{name}" for name in NEW} <= {t.get("id") for t in page.all("table")}
    care_part = page.text.partition('<section id="care"')[2].partition("</section>")[0]
    assert care_part.count('class="chart"') == 2
    assert "of the strongest classical baseline (geometric mean of 6 settings)" in care_part
    time_part = page.text.partition('<section id="equal_time"')[2].partition("</section>")[0]
    assert time_part.count('class="chart"') == 6
    assert "SOCP, 2 settings at equal time: the best feedback variant" in time_part


def test_page_begins_with_the_question_the_answer_and_its_evidence(page):
    first = page.text.partition("<header>")[2].partition("</header>")[0]
    assert QUESTION in first
    assert first.count('<p class="lead">') == 3
    for words in ("Trained as the paper says", "A constant needs no", "Given the same time"):
        assert words in first
    assert first.count("<figure") == 1
    named = re.findall('<a href="#(.*?)"', first)
    assert set(named) == {"synthetic", "care", "equal_time", "claims"}
    assert set(named) <= {section["id"] for section in page.all("section")}


def test_rows_of_universes_stand_beside_no_value_of_the_paper(page):
    hard = page.text.partition('id="table-care_hard"')[2].partition("</table>")[0]
    assert WIDE in hard
    assert 'class="paper"' not in hard


def test_other_figures_are_those_without_universes(run, page):
    plain = Plan(CONFIG.but(universes={}), ROOT)
    with contextlib.chdir(run):
        ledgers = {"paper": None, "log_kkt": None}
        drawn = {section.name: section for section in sections(Evidence(plain), ledgers)}
    assert not {"care", "equal_time"} & set(drawn)
    figures = [part for part in drawn["synthetic"].parts if getattr(part, "kind", "") == "figure"]
    assert len(figures) == 2
    for figure in figures:
        assert all(str(panel) in page.text for panel in figure.panels)


def test_without_results_the_sections_say_how_to_get_them(tmp_path):
    with contextlib.chdir(tmp_path):
        (tmp_path / "claims.csv").touch()
        found = sections(Evidence(PLAN), {"paper": None, "log_kkt": None})
    parts = {section.name: section.parts for section in found}
    for name in ("care", "equal_time"):
        assert {part.kind for part in parts[name]} == {"missing"}
        assert f"table_{name}" in parts[name][0].command


# What the README shows of it


def test_readmes_answer_and_picture_are_of_equal_care_where_it_is(run, evidence, monkeypatch):
    """The sentences and findings of the report's first screen, and its figure in both recipes."""
    monkeypatch.chdir(run)
    command = ["headline", "--config", CONFIG.model_dump_json(), "--out", "shown/headline.md"]
    assert main(command) == 0
    page = answer(evidence, None)
    told, _, *table = Path("shown/answer.md").read_text().splitlines()
    assert told == " ".join(page.sentences)
    assert [line.split(" | ")[0][2:] for line in table[2:]] == [f.claim for f in page.findings]
    results = results_of(evidence, "care")
    splits = split(CONFIG, results, "Gap")
    for axes, recipe in zip(headline.draw(CONFIG, results).axes, care.RECIPES, strict=True):
        drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
        found = [setting for setting in splits if setting.K in CONFIG.synthetic.depths[-1:]]
        assert drawn["schedule"][-1] == gain(found, f"{SCHEDULE}, {recipe}").geometric
        assert drawn["grid without an edge"][-1] == gain(found, WIDE).geometric
