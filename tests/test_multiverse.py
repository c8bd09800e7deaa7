"""Layers on other data, and the paper's claims in other readings of its protocol."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from run_files import write_run
from test_claims import ledger
from test_report import make
from universe_files import OTHERS, with_universes, write_over_paper

from rcdrs.artifact.key import Key
from rcdrs.artifact.plan import Plan
from rcdrs.cli.main import main
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.experiments.synthetic.shift import targets
from rcdrs.reporting import multiverse, shifts
from rcdrs.reporting.care import LIMIT, SCHEDULE, WIDE
from rcdrs.reporting.claims.ledger import LEDGER, InReading, Ledger
from rcdrs.reporting.claims.output import to_frame, to_markdown
from rcdrs.reporting.claims.readings import in_readings
from rcdrs.reporting.claims.sources import Ours
from rcdrs.reporting.coverage import READINGS
from rcdrs.reporting.details import Details
from rcdrs.reporting.multiverse import HOME, effects, protocols
from rcdrs.reporting.report.drawing import specification
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.page import sections
from rcdrs.reporting.results import MissingRow, Results, Shift, read_rows
from rcdrs.reporting.tables import configured, files, needs, preview, render, values

NEW = ["shifts", "depths", "multiverse", "ablation_scales"]
PLAN = with_universes("fair", *OTHERS)
CONFIG = PLAN.config
PDFLATEX = shutil.which("pdflatex")
FAMILIES = ("qp", "socp", "mixed")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a whole run, universes and all."""
    folder = tmp_path_factory.mktemp("multiverse")
    with contextlib.chdir(folder):
        write_run(PLAN, Path(PLAN.folder), instances=4)
    return folder


@pytest.fixture(scope="module")
def evidence(run):
    """The same from anywhere."""
    found = Evidence(PLAN)
    found.path = lambda key: path if (path := run / PLAN.folder / key.path()).exists() else None
    return found


def results_of(evidence, *names):
    """What some tables need, together."""
    keys = dict.fromkeys(key for name in names for key in needs(name, CONFIG))
    rows, shifted = (
        evidence.frame(key for key in keys if key.kind == kind) for kind in ("rows", "shifts")
    )
    return Results(rows, None, CONFIG.seeds, shifts=shifted)


# Other data


def lines(level, within="fair", depths=(5, 20), seed=0):
    """Of files of shifts: `level` gives the Gap of a method on a target, tuned somewhere."""
    found = []
    for family, K in ((family, K) for family in FAMILIES for K in depths):
        where = {"experiment": "shift", "family": family, "scale": "hard", "K": K, "seed": seed}
        names = shifts.data_targets(CONFIG) + [f"K {k}" for k in (5, 20) if k != K]
        learned = Plan(CONFIG, ROOT).within(within).config.synthetic.extended
        runs = [("Grid-DRS", "-"), *((method, "log_kkt") for method in learned)]
        tuned = [(*run, "home") for run in runs]
        tuned += [("Grid-DRS", "-", "there"), (SCHEDULE, "log_kkt", "there")]
        for target in names:
            for method, recipe, at in tuned:
                gap = level(method, target, at, family)
                line = {"method": method, "recipe": recipe, "target": target, "tuned": at}
                found.append(where | line | {"universe": within, "Gap": gap, "median": gap})
    return pd.DataFrame(found)


def shifted(level, **changes):
    frames = [lines(level), lines(level, "any_depth", (20,))]
    frame = pd.concat(frames).assign(**changes)
    return Results(None, None, CONFIG.seeds, shifts=frame)


def plain_level(method, target, tuned, family):
    """Of home: worse by a factor of 4 on another A; feedback is half of the constant."""
    level = {"Grid-DRS": 0.1, SCHEDULE: 0.08}.get(method, 0.05)
    return level * (4 if target == "another A" and tuned == "home" else 1)


def test_targets_are_those_of_the_stage():
    """The names are written by the stage; the tables ask for them."""
    data = generate("socp-hard", 0, {"train": 1, "validation": 1, "test": 1})
    settings = PLAN.within("fair").experiments["synthetic"].shift_settings()
    settings["instances"] |= {"train": 1, "validation": 1, "test": 1}
    names = [target.name for target in targets(data, 20, settings)]
    expected = shifts.data_targets(CONFIG)
    assert names == [*expected, *(f"K {K}" for K in settings["depths"] if K != 20)]
    assert len(expected) == 12


def test_other_data_of_a_hand_computed_example():
    cells = {(c.block, c.row, c.column): c for c in values("shifts", CONFIG, shifted(plain_level))}
    assert cells["K=20", "home", f"{WIDE}, there"].mean == pytest.approx(0.1)
    assert cells["K=20", "home", "RCDRS-Env"].mean == pytest.approx(50)
    assert cells["K=5", "another A", "RCDRS-Env"].mean == pytest.approx(200)
    assert cells["K=5", "another A", f"{WIDE}, home"].mean == pytest.approx(400)
    assert cells["K=5", "another A", f"{SCHEDULE}, there"].mean == pytest.approx(80)
    columns = list(dict.fromkeys(column for _, _, column in cells))
    assert columns[:4] == [f"{WIDE}, there", f"{WIDE}, home", f"{SCHEDULE}, home", columns[3]]
    assert columns[-1] == "L-PDHG"
    assert {key.kind for cell in cells.values() for key in cell.keys} == {"shifts"}


def test_zeros_are_bounded_and_told():
    def level(method, target, tuned, family):
        zero = method == "L-PDHG" and target == "home" and family == "qp"
        return 0.0 if zero else plain_level(method, target, tuned, family)

    found = shifted(level)
    solver = next(s for s in shifts.solvers(CONFIG, 20) if s.label == "L-PDHG")
    gain = shifts.gain(CONFIG, found, solver, "home")
    assert gain.geometric == pytest.approx((0.25 / LIMIT) ** (1 / 3))
    assert "(2 of all ratios are beyond that)" in render("shifts", CONFIG, found)["shifts.tex"]
    never = shifted(lambda *names: 0.0)  # a constant that is perfect: as good, not better
    assert shifts.gain(CONFIG, never, solver, "home").ratios == (1.0, 1.0, 1.0)
    assert shifts.level(shifts.on_target(CONFIG, never, solver, "home")) == 0


def test_sentences_say_what_transfers():
    first, second = shifts.reading(CONFIG, shifted(plain_level), 20)
    assert "Of 11 other kinds of data at K=20" in first
    assert f"{WIDE} on 0, {SCHEDULE} on 10, RCDRS-Env on 10" in first
    assert "(50.0 % of Wide-DRS)" in second
    assert "200.0 % on another A" in second
    assert "below a schedule trained there on 10 of 11" in second


def test_other_depths_of_a_hand_computed_example():
    def level(method, target, tuned, family):
        return plain_level(method, target, tuned, family) * (3 if target.startswith("K ") else 1)

    found = shifted(level)
    cells = {(c.block, c.row, c.column): c for c in values("depths", CONFIG, found)}
    assert cells["SOCP", "RCDRS-Env, K=5", "K=5"].mean == pytest.approx(0.05)
    assert cells["SOCP", "RCDRS-Env, K=5", "K=20"].mean == pytest.approx(0.15)
    assert cells["SOCP", "RCDRS-Env, any depth", "K=20"].mean == pytest.approx(0.05)
    assert cells["SOCP", WIDE, "K=5"].mean == pytest.approx(0.1)
    key = cells["SOCP", "RCDRS-Env, any depth", "K=5"].keys[0]
    assert (key.universe, key.K, key.target) == ("any_depth", 20, "K 5")
    (told,) = shifts.depth_reading(CONFIG, found)
    assert f"{SCHEDULE} has 300 % with layers of other depths" in told
    assert "RCDRS-Env has 300 % with layers of other depths and 173 % with one of any" in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "the moon"}, "unknown target 'the moon' in universes/fair/shifts/qp-hard-0-K5"),
        ({"tuned": "elsewhere"}, "unknown tuned 'elsewhere'"),
        ({"universe": "elsewhere"}, r"no row for universes/fair/shifts/.*Grid-DRS@paper on 'home'"),
        ({"K": 7}, r"no row for universes/fair/shifts/qp-hard-0-K20.csv"),
        ({"seed": 1}, r"no row for universes/fair/shifts/qp-hard-0-K20.csv"),
    ],
)
def test_what_a_file_lacks_or_has_beyond_is_named(changes, message):
    frame = pd.concat([lines(plain_level), lines(plain_level, "any_depth", (20,))])
    frame = frame.assign(**changes).drop_duplicates(
        subset=[c for c in frame if c not in ("Gap", "median")]
    )
    with pytest.raises(ValueError, match=message):
        values("shifts", CONFIG, Results(None, None, CONFIG.seeds, shifts=frame))


def test_a_target_that_is_missing_is_named():
    frame = pd.concat([lines(plain_level), lines(plain_level, "any_depth", (20,))])
    frame = frame[frame.target != "x over 3"]
    with pytest.raises(MissingRow, match=r"K20\.csv, Grid-DRS@paper on 'x over 3', tuned 'there'"):
        values("shifts", CONFIG, Results(None, None, CONFIG.seeds, shifts=frame))


def test_a_depth_that_a_universe_lacks_is_named():
    config = CONFIG.but(universes=CONFIG.universes | {"any_depth": OTHERS["any_depth"]})
    shallow = {"synthetic": OTHERS["any_depth"]["synthetic"] | {"depths": [5]}}
    config.universes["any_depth"] = OTHERS["any_depth"] | shallow
    with pytest.raises(ValueError, match=r"table depths is about 20, but synthetic\.depths"):
        needs("depths", config)


def test_files_of_shifts_are_needed_and_read(run, evidence):
    keys = needs("shifts", CONFIG)
    assert {key.path() for key in keys} == {
        f"universes/fair/shifts/{family}-hard-0-K{K}.csv" for family in FAMILIES for K in (5, 20)
    }
    deeper = set(needs("depths", CONFIG)) - set(keys)
    assert {key.path() for key in deeper} == {
        f"universes/any_depth/shifts/{family}-hard-0-K20.csv" for family in FAMILIES
    }
    with contextlib.chdir(run):
        paths = files(PLAN, "shifts", "shifts", "depths")
        assert len(paths) == 9
        assert not files(PLAN, "rows", "shifts", "depths")
        found = Results(None, None, [0], shifts=read_rows(paths))
    assert all(isinstance(key, Shift) for key in found.rows)
    assert {key.file for key in found.rows} == set(keys) | deeper


# Readings of the protocol


SAMPLED = ["first sampling", "one magnitude"]
CHANGED = ["base reference", "small batch", *SAMPLED]


def test_readings_that_change_nothing_are_left_out():
    found = protocols(CONFIG, "synthetic")
    # Baselines are tuned as they are.
    assert [one.label for one in found] == [HOME, *CHANGED]
    assert {tuple(one.config.seeds) for one in found} == {(0,)}
    scales = [one.config.ablation.scale for one in protocols(CONFIG, "ablation")]
    assert scales == ["small", "hard"]  # the configuration's is small
    assert [one.label for one in protocols(CONFIG.but(universes={}), "synthetic")] == [HOME]


@pytest.mark.parametrize(
    ("method", "recipe", "changed"),
    [
        ("Grid-DRS", "paper", set(SAMPLED)),
        ("RCDRS-Env", "log_kkt", set(SAMPLED)),
        ("RCDRS-Env", "paper", set(CHANGED)),
    ],
)
def test_a_result_that_a_universe_does_not_change_is_that_of_home(method, recipe, changed):
    key = Key("rows", "synthetic", "socp-hard", 0, 20, method, recipe)
    found = {one.label: one.located(key) for one in protocols(CONFIG, "synthetic")}
    assert {label for label, there in found.items() if there.universe} == changed
    assert all(replace(there, universe="") == key for there in found.values())


def test_another_scale_is_another_result_whatever_its_settings():
    hard = protocols(CONFIG, "ablation")[1]
    key = Key("rows", "ablation", "socp-hard", 0, 5, "full")
    assert hard.located(key).universe == "ablation_hard"
    assert PLAN.digests(key) == PLAN.digests(hard.located(key))


def made_up(level, config=CONFIG, **changes):
    """Rows of every reading, as `level` (universe, family, K, method, recipe) has it."""
    keys = [k for name in NEW[2:] for k in needs(name, config)]
    metrics = ("ObjErr", "Gap", "Dist", "r_p", "r_d", "r_gap")
    rows = [
        {"experiment": k.experiment, "family": k.family, "scale": k.scale, "K": k.K}
        | {"seed": k.seed, "method": k.method, "recipe": k.recipe, "universe": k.universe}
        | dict.fromkeys(metrics, level(k))
        for k in dict.fromkeys(keys)
    ]
    return Results(pd.DataFrame(rows), None, config.seeds)


def rcdrs_loses_small_batch(key):
    ours = key.method.startswith("RCDRS")
    return (2.0 if key.universe == "small_batch" else 0.5) if ours else 1.0


def test_effects_of_a_hand_computed_example():
    found = {
        (e.protocol, e.recipe, e.reading): e
        for e in effects(CONFIG, made_up(rcdrs_loses_small_batch))
    }
    # log_kkt against what learns nothing: no reading of the paper's recipe changes anything.
    assert {key[0] for key in found if key[1:] == ("log_kkt", "classical")} == {
        HOME,
        *SAMPLED,
    }
    assert len({key[0] for key in found if key[1:] == ("log_kkt", "every")}) == 5
    sizes = {key: e.gain().geometric for key, e in found.items()}
    assert sizes["small batch", "paper", "classical"] == pytest.approx(2)
    assert sizes[HOME, "paper", "every"] == pytest.approx(0.5)
    assert sizes["small batch", "log_kkt", "every"] == pytest.approx(0.5)
    told = multiverse.reading(list(found.values()))
    assert "with paper RCDRS is ahead in 8 of 10 readings, from 50.0 %" in told[0]
    assert "and with log_kkt RCDRS is ahead in 8 of 8 readings" in told[0]
    assert told[1].endswith(
        "0 to 2 of 2 on QP-lift, 0 to 2 of 2 on SOCP and 0 to 2 of 2 on Mixed cone."
    )


def test_table_has_a_row_for_each_reading():
    found = values("multiverse", CONFIG, made_up(rcdrs_loses_small_batch))
    cells = {(c.block, c.row, c.column): c for c in found}
    assert cells["paper, classical method", "small batch", "SOCP K=5"].mean == pytest.approx(200)
    assert cells["paper, compared method", HOME, "all"].mean == pytest.approx(50)
    keys = cells["paper, classical method", "small batch", "SOCP K=5"].keys
    assert {(key.case, key.K) for key in keys} == {("socp-hard", 5)}
    assert {key.universe for key in keys} == {"", "small_batch"}


# The ledger


def in_all(level, entries, tmp_path, recipe="paper", config=CONFIG, **section):
    read = ledger(tmp_path, *entries, **section)
    ours = Ours(config, made_up(level, config), Details(), read.tables, recipe)
    return in_readings(read, ours)


BETTER = {"kind": "order", "better": ["RCDRS-Env"], "than": ["Grid-DRS"]}


def test_a_claim_is_judged_in_every_reading_that_changes_it(tmp_path):
    entries = [BETTER, {"kind": "order", "better": ["Grid-DRS"], "than": ["F-DRS"]}]
    found = in_all(rcdrs_loses_small_batch, entries, tmp_path)
    assert found["claim-0"] == (
        InReading(HOME, True),
        InReading("base reference", True),
        InReading("small batch", False),
        *(InReading(label, True) for label in SAMPLED),
    )
    # Neither learns: of these only another sampling is another result; a tie is no lead.
    assert found["claim-1"] == tuple(InReading(label, False) for label in (HOME, *SAMPLED))


def test_of_the_other_recipe_fewer_readings_count(tmp_path):
    found = in_all(rcdrs_loses_small_batch, [BETTER], tmp_path, "log_kkt")
    assert [one.label for one in found["claim-0"]] == [HOME, *SAMPLED]


def test_coverage_is_judged_once_for_each_reading_of_the_strongest(tmp_path):
    hard = {"kind": "coverage", "item": "hard_socp_gap_ratio", "side": "at most", "within": 30.0}
    whole = hard | {"item": "mean_gap_ratio"}
    wins = {"kind": "coverage", "item": "best_rcdrs_gap_wins", "side": "at least"}
    found = in_all(rcdrs_loses_small_batch, [hard, whole, wins], tmp_path)
    assert set(found) == {"claim-0"}  # the others are about all settings
    told = {one.label: one.holds for one in found["claim-0"]}
    assert len(told) == 2 * 5
    assert told == {
        f"{protocol}, {label}": protocol != "small batch"
        for protocol in (HOME, *CHANGED)
        for label in READINGS.values()
    }
    found = in_all(rcdrs_loses_small_batch, [hard], tmp_path, "log_kkt")
    labels = [one.label for one in found["claim-0"]]
    assert "small batch, compared method" in labels  # L-PDHG is of the paper's recipe
    assert "small batch, classical method" not in labels


def test_ablations_are_judged_at_every_scale(tmp_path):
    def level(key):
        return 0.1 if key.method == "full" and key.universe == "" else 1.0

    check = {"kind": "order", "better": ["GRU full"], "than": ["MLP-current"]}
    config = CONFIG.but(ablation=CONFIG.ablation.but(depth=10))  # as in the paper
    table = "tab:main_ablation_summary"
    found = in_all(level, [check | {"benchmarks": ["SOCP"]}], tmp_path, config=config, table=table)
    assert found["claim-0"] == (InReading(HOME, True), InReading("ablation hard", False))


def test_what_other_readings_cannot_say_is_left_out(tmp_path):
    entries = [
        {"check": BETTER, "only": "paper"},
        BETTER | {"metrics": ["time_ms"]},
        {"kind": "unavailable", "because": "so"},
        {"kind": "test", "tests": ["tests/test_losses.py::test_programs_hold_no_solution"]},
        {"kind": "constants", "sum": [1], "equals": [1]},
        {"kind": "order", "table": "tab:dfl_main_k20", "better": ["RCDRS-Env-J"], "than": ["PTO"]},
        {"kind": "all", "claims": ["claim-2"]},
    ]
    assert in_all(rcdrs_loses_small_batch, entries, tmp_path) == {}


def test_without_universes_no_claim_has_readings(tmp_path):
    plain = CONFIG.but(universes={})
    read = ledger(tmp_path, BETTER)
    ours = Ours(plain, made_up(rcdrs_loses_small_batch), Details(), read.tables)
    assert in_readings(read, ours) == {}
    (judged,) = read.judge(ours)
    assert "readings" not in to_markdown([judged], "paper")
    assert to_frame([judged])["readings"].tolist() == [""]


def test_rows_that_are_missing_leave_a_reading_out(tmp_path):
    found = made_up(rcdrs_loses_small_batch)
    found.rows = {key: row for key, row in found.rows.items() if key.universe != "small_batch"}
    read = ledger(tmp_path, BETTER)
    verdicts = in_readings(read, Ours(CONFIG, found, Details(), read.tables))["claim-0"]
    assert [one.label for one in verdicts] == [HOME, "base reference", *SAMPLED]


def test_the_count_stands_in_both_files(tmp_path):
    read = ledger(tmp_path, BETTER, {"kind": "unavailable", "because": "so"})
    ours = Ours(CONFIG, made_up(rcdrs_loses_small_batch), Details(), read.tables)
    found = in_readings(read, ours)
    judged = [replace(j, readings=found.get(j.claim.id, ())) for j in read.judge(ours)]
    page = to_markdown(judged, "paper")
    assert "| verdict | claim | paper | ours | readings |" in page
    assert "| holds in 4 of 5 readings |" in page
    assert "holds in 4 of 5 readings; not: small batch" in page
    assert to_frame(judged)["readings"].tolist() == [
        "holds in 4 of 5 readings; not: small batch",
        "",
    ]


def test_readings_of_the_real_ledger(evidence):
    read = Ledger.read(LEDGER)
    ours = Ours(CONFIG, results_of(evidence, *configured(CONFIG)), Details(), read.tables)
    found = in_readings(read, ours)
    assert {"k20-better-variant", "k5-bold-mixed", "coverage-hard-qp"} <= set(found)
    assert not {
        "coverage-mean",
        "dfl-cells",
        "k20-times",
        "k20-overhead-socp",
        "abstract-improves",
    } & set(found)
    assert all(verdicts[0].label.startswith(HOME) for verdicts in found.values())


# Tables, page and commands


def test_without_these_universes_there_are_no_such_tables():
    assert not set(NEW) & set(configured(with_universes().config))
    assert set(NEW) <= set(configured(CONFIG))
    assert set(NEW) & set(configured(with_universes("ablation_small", "ablation_hard").config)) == {
        "ablation_scales"
    }
    for name in NEW:
        with pytest.raises(ValueError, match=f"table {name} is about .*, but universes of the"):
            needs(name, CONFIG.but(universes={}))


@pytest.mark.parametrize("name", NEW)
def test_tables_render(evidence, name):
    for content in render(name, CONFIG, results_of(evidence, name)).values():
        assert not re.search(r"\b(nan|None|Undefined)\b|\\VAR|\\BLOCK", content)


@pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex (Debian: texlive-latex-extra)")
def test_tables_compile_and_fit(evidence, tmp_path):
    paths = []
    for name in NEW:
        paths.append(tmp_path / f"{name}.tex")
        paths[-1].write_text(render(name, CONFIG, results_of(evidence, name))[paths[-1].name])
    (tmp_path / "preview.tex").write_text(preview(paths))
    command = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "preview.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search("Overfull|too large", done.stdout)


def test_specification_curve_is_sorted_and_names_the_choices():
    found = [(2.0, ("a", "x")), (0.0, ("b", "x")), (0.5, ("a", "y")), (math.inf, ("b", "y"))]
    drawn = specification("T", found, ["a", "b", "x", "y"], "ratio")
    assert re.findall(r"<title>(\S+): ([^<]*)</title>", drawn) == [
        ("0", "b, x"),
        ("0.5", "a, y"),
        ("2", "a, x"),
        ("inf", "b, y"),
    ]


@pytest.fixture(scope="module")
def page(run):
    return make(run, PLAN)


def test_page_has_the_sections_with_their_figures(page):
    assert "Not computed yet" not in page.text
    drawn = {figure["id"] for figure in page.all("figure")}
    assert {"other-data", "other-depths", "specifications"} <= drawn
    assert {f"table-{name}" for name in NEW} <= {t.get("id") for t in page.all("table")}
    parts = {
        name: page.text.partition(f'<section id="{name}"')[2].partition("</section>")[0]
        for name in ("shifts", "multiverse", "ablations")
    }
    assert parts["shifts"].count('class="chart"') == 2 + 3
    assert "Of 11 other kinds of data at K=20" in parts["shifts"]
    assert "Of the median Dist of the layer trained for a depth" in parts["shifts"]
    assert parts["multiverse"].count('class="chart"') == 3
    assert (
        "By the geometric mean over all settings, with paper RCDRS is ahead" in parts["multiverse"]
    )
    assert 'id="table-ablation_scales"' in parts["ablations"]


def test_without_results_the_sections_say_how_to_get_them(tmp_path):
    with contextlib.chdir(tmp_path):
        found = sections(Evidence(PLAN), {"paper": None, "log_kkt": None})
    parts = {section.name: section.parts for section in found}
    for name in ("shifts", "multiverse"):
        assert {part.kind for part in parts[name]} == {"missing"}
        assert f"table_{name}" in parts[name][0].command


def test_commands_know_of_other_data_and_readings(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(run)
    given = ["--configfile", str(write_over_paper(CONFIG, tmp_path / "ours.yaml"))]
    assert main(["explain", "shifts", "x times 3", "RCDRS-Env", *given]) == 0
    told = capsys.readouterr().out
    assert "universes/fair/shifts/socp-hard-0-K20.csv" in told
    assert "x times 3" in told
    assert '"RCDRS-Env@log_kkt": "' in told
    out = ["--config", CONFIG.model_dump_json(), "--out"]
    assert main(["table", "shifts", *out, str(tmp_path / "shifts.tex")]) == 0
    assert main(["claims", *out, str(tmp_path / "claims.md")]) == 0
    assert "of 5 readings" in (tmp_path / "claims.md").read_text()
    assert (
        "holds in" in pd.read_csv(tmp_path / "claims.csv", dtype=str)["readings"].dropna().iloc[0]
    )
