"""The claims ledger: its vocabulary, its verdicts, and the file itself."""

from __future__ import annotations

import argparse
import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from test_reporting import PAPER as CONFIG
from test_reporting import SMOKE, changed, seed_rows

from rcdrs.cli.results import claims
from rcdrs.experiments.base import experiments
from rcdrs.reporting.claims import significance
from rcdrs.reporting.claims.evidence import read_tests
from rcdrs.reporting.claims.ledger import (
    INCONSISTENT,
    KINDS,
    LEDGER,
    MISSING,
    UNCHECKED,
    VERDICTS,
    Ledger,
)
from rcdrs.reporting.claims.output import MEANING, to_frame, to_markdown
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE, Ours, Paper
from rcdrs.reporting.details import Details
from rcdrs.reporting.formatting import FAMILIES
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables import TABLES

DOCUMENT = yaml.safe_load(LEDGER.read_text())
K20 = "tab:synthetic_main_k20"
NAMES = ["experiment", "family", "scale", "K", "seed", "method", "recipe"]
PAPER = Paper()


def as_rows(seeds=(0, 1, 2), spread=1e-4):
    """The paper's own cells as if they were the seed-level rows and times of a run."""
    families = {label: family for family, label in FAMILIES.items()}
    variants = {row.label: row.variant for row in CONFIG.ablation.rows}
    rows, times = {}, []
    for number, (address, cell) in enumerate(PAPER.cells.items()):
        experiment = DOCUMENT["tables"][address.table]["experiment"]
        method = variants.get(address.method, address.method)
        if experiment == "synthetic":
            family, scale = families[address.benchmark], "hard"
        elif experiment == "ablation":
            family, scale = families[address.benchmark], CONFIG.ablation.scale
        else:
            family, _, scale = experiments()[experiment](CONFIG).cases[0].partition("-")
            scale = scale or "-"
        for seed in seeds:
            key = (experiment, family, scale, address.K, seed, method)
            value = cell["mean"] * (1 + spread * np.sin(number + seed))
            if address.metric == "time_ms":
                line = dict(zip(NAMES, key, strict=False))
                times.append(line | {"time_ms": value, "device": "cpu"})
            else:
                metric = DOCUMENT["tables"][address.table].get("metrics", {}).get(address.metric)
                rows.setdefault((*key, "paper"), {})[metric or address.metric] = value
    frame = pd.DataFrame([dict(zip(NAMES, key, strict=True)) | v for key, v in rows.items()])
    return frame, pd.DataFrame(times)


ROWS, TIMES = as_rows()


def ledger(tmp_path, *entries, table=K20, **section):
    """A ledger of these claims alone: each a check, or an entry with one."""
    listed = [
        {"id": f"claim-{n}", "says": "something"} | (e if "check" in e else {"check": e})
        for n, e in enumerate(entries)
    ]
    made = {"title": "A section", "where": "somewhere", "table": table, "claims": listed} | section
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT | {"sections": [made]}))
    return Ledger.read(path)


def judge(read, rows=ROWS, times=TIMES, config=CONFIG, **settings):
    results = Results(rows, times, config.seeds)
    return read.judge(Ours(config, results, Details(), read.tables, **settings))


def verdicts(tmp_path, *checks, rows=ROWS, times=TIMES, config=CONFIG, table=K20, **settings):
    found = judge(ledger(tmp_path, *checks, table=table), rows, times, config, **settings)
    return [judged.verdict for judged in found]


def with_values(metric, method, values, family="socp", experiment="synthetic", K=20):
    """The rows with another number for each seed."""
    rows = ROWS.copy()
    fits = (rows.experiment == experiment) & (rows.family == family) & (rows.K == K)
    fits &= rows.method == method
    for seed, value in enumerate(values):
        rows.loc[fits & (rows.seed == seed), metric] = value
    return rows


# The real ledger


def test_every_reference_of_the_ledger_exists():
    read = Ledger.read()
    assert len(read.claims) > 150
    assert {claim.kind for claim in read.claims} == set(KINDS)


def test_every_claim_says_what_and_where_and_how_exactly():
    for claim in Ledger.read().claims:
        assert claim.says[-1] in ".:", claim.id
        assert claim.where, claim.id
        assert claim.tolerance or claim.kind == "unavailable", claim.id


def test_every_place_that_is_named_is_one_of_the_papers_tables_or_sections():
    known = {address.table for address in PAPER.cells}
    assert known == set(DOCUMENT["tables"]) - {"coverage"}
    of_a_table = {table for claim in Ledger.read().claims for table in claim.check.tables()}
    assert of_a_table == set(DOCUMENT["tables"])  # no table goes without a claim


def test_every_bold_cell_and_every_cell_of_quality_is_claimed():
    """The ledger is complete in the numbers of the tables: nothing printed is left out."""
    counted = set()
    for claim in Ledger.read().claims:
        if claim.kind == "cells":
            columns, methods = claim.check.columns(), claim.check.methods()
            counted |= {column.of(method) for column in columns for method in methods}
    assert {a for a in PAPER.cells if a.metric != "time_ms"} == counted


def test_papers_own_numbers_fulfil_all_but_its_inconsistencies():
    found = to_frame(judge(Ledger.read()))
    read = found[~found.kind.isin(["test", "coverage"])]
    # Noise of one in ten thousand is still noise to printed ties and to a perfect pass rate.
    assert set(read.verdict) <= {HOLDS, NOISE, INCONSISTENT, UNCHECKED}
    assert set(found[found.verdict == INCONSISTENT].id) == {
        "method-envelope-constants",
        "k20-mixed-both",
        "ablation-rho-idle",
        "ablation-one-configuration",
        "ablation-dominance-term",
        "ablation-scale-full",
        "ablation-scale-core",
        "k5-bold-socp",
        "coverage-one-denominator",
        "dispatch-feasible",
        "dispatch-k10-both",
    }


@pytest.mark.parametrize("config", [SMOKE, changed(SMOKE, seeds=[0])], ids=["two seeds", "one"])
def test_smoke_run_is_judged_without_a_crash(config):
    rows, times = seed_rows(config)
    found = to_frame(judge(Ledger.read(), rows, times, config)).set_index("id")
    assert found.verdict["k20-socp-both"] in (HOLDS, NOISE, FAILS)
    assert found.verdict["coverage-best-wins"] == MISSING
    assert "6 settings" in found.detail["coverage-best-wins"]
    assert found.verdict["ablation-joint"] == MISSING  # it runs at another depth
    assert found.verdict["dfl-bold"] == MISSING
    assert found.verdict["theory-averaged"] == MISSING
    assert found.verdict["abstract-improves"] in (MISSING, FAILS)


def test_results_of_one_seed_of_three_are_not_computed():
    found = judge(Ledger.read(), ROWS[ROWS.seed == 0], TIMES[TIMES.seed == 0])
    assert {j.verdict for j in found} <= {HOLDS, MISSING, INCONSISTENT, UNCHECKED}
    detail = next(j.detail for j in found if j.claim.id == "k20-socp-both")
    assert "no row for" in detail
    assert "-1-K20/" in detail


def test_no_results_at_all_leave_the_paper():
    nothing = pd.DataFrame()
    found = judge(Ledger.read(), nothing, nothing)
    assert {j.verdict for j in found} == {HOLDS, MISSING, INCONSISTENT, UNCHECKED}


def test_commands_are_of_programs_that_exist():
    for judged in judge(Ledger.read()):
        words = shlex.split(judged.command)
        assert words[0] in ("snakemake", "pytest", "see"), judged.claim.id


def test_targets_of_commands_exist():
    targets = {t for table in DOCUMENT["tables"].values() for t in table["targets"].values()}
    assert targets <= set(TABLES)


# The kinds, one by one

LOWER = {"kind": "order", "benchmarks": ["SOCP"], "metrics": ["ObjErr"], "better": ["RCDRS-NoEnv"]}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1e-4, 1.01e-4, 0.99e-4), HOLDS),
        ((1e-4, 2e-4, 9e-4), NOISE),  # lower than Layerwise-DRS in two seeds
        ((1e-3, 1.01e-3, 0.99e-3), FAILS),
        ((5.66e-4, 5.66e-4, 5.66e-4), FAILS),  # a tie with Layerwise-DRS
    ],
)
def test_order(tmp_path, values, verdict):
    rows = with_values("ObjErr", "RCDRS-NoEnv", values)
    assert verdicts(tmp_path, LOWER, rows=rows) == [verdict]


def test_order_by_a_factor_and_of_the_best(tmp_path):
    twice, thrice = LOWER | {"by": 2.0}, LOWER | {"by": 3.0}  # the paper's factor is 2.4
    assert verdicts(tmp_path, twice, thrice) == [HOLDS, INCONSISTENT]
    both = LOWER | {"better": ["RCDRS-Env", "RCDRS-NoEnv"]}
    rows = with_values("ObjErr", "RCDRS-NoEnv", (1, 1, 1))
    assert verdicts(tmp_path, both, both | {"best_of": True}, rows=rows) == [FAILS, HOLDS]


def test_order_where_larger_is_better(tmp_path):
    check = {"kind": "order", "K": 10, "metrics": ["Pass"], "better": ["RCDRS-Env"], "than": "rest"}
    table = "tab:app_dispatch_k5_k10"
    assert verdicts(tmp_path, check, table=table) == [HOLDS]
    found = judge(ledger(tmp_path, check, table=table))[0]
    assert found.paper.startswith("worst of 5: 0.9485 (RCDRS-NoEnv / RCDRS-Env")
    assert verdicts(tmp_path, check | {"better": ["RCDRS-NoEnv"]}, table=table) == [INCONSISTENT]


def test_order_of_all_columns_together(tmp_path):
    table = "tab:main_ablation_summary"
    check = {"kind": "order", "combined": True, "better": ["Full"], "than": ["No time"]}
    assert verdicts(tmp_path, check, table=table) == [HOLDS]
    rows = ROWS.copy()
    rows.loc[rows.method == "no_time", ["ObjErr", "r_p"]] *= 0.5
    assert verdicts(tmp_path, check, table=table, rows=rows) == [FAILS]


def test_paper_tells_what_is_within_its_own_deviations(tmp_path):
    found = judge(ledger(tmp_path, LOWER | {"than": ["RCDRS-Env", "F-DRS"]}))[0]
    assert "1 of 2 within the paper's own deviations" in found.paper


CLOSE = {"kind": "close", "benchmarks": ["SOCP"], "metrics": ["r_gap"], "within": 0.05}
CLOSE |= {"rows": ["RCDRS-Env", "RCDRS-NoEnv"]}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.45e-3,) * 3, HOLDS),
        ((1.7e-3, 1.3e-3, 1.9e-3), NOISE),
        ((2e-3, 2.1e-3, 2.2e-3), FAILS),
    ],
)
def test_close(tmp_path, values, verdict):
    rows = with_values("r_gap", "RCDRS-NoEnv", values)
    assert verdicts(tmp_path, CLOSE, rows=rows) == [verdict]


def value(method="RCDRS-Env", metric="ObjErr", **bounds):
    return {
        "kind": "value",
        "of": {"benchmark": "SOCP", "method": method, "metric": metric},
    } | bounds


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((3e-4,) * 3, HOLDS), ((3e-4, 3e-4, 7e-4), NOISE), ((7e-4,) * 3, FAILS)],
)
def test_value_near_the_papers(tmp_path, values, verdict):
    rows = with_values("ObjErr", "RCDRS-Env", values)
    below = {"method": "Layerwise-DRS", "metric": "ObjErr", "benchmark": "SOCP"}
    checks = [value(factor=2.0), value(below=5e-4), value(below=below)]
    checks.append(value(to={"method": "Layerwise-DRS"}, below=1.0))
    assert verdicts(tmp_path, *checks, rows=rows) == [verdict] * 4


def test_value_of_the_paper_out_of_bounds_is_inconsistent(tmp_path):
    assert verdicts(tmp_path, value(above=1.0)) == [INCONSISTENT]
    entry = {"check": value(above=1.0), "only": "paper"}
    assert judge(ledger(tmp_path, entry))[0].ours == ""


def test_value_of_several_methods_names_who_does_not_fulfil_it(tmp_path):
    rows = with_values("ObjErr", "RCDRS-NoEnv", (1, 1, 1))
    check = value(method=["RCDRS-Env", "RCDRS-NoEnv"], below=0.1)
    found = judge(ledger(tmp_path, check), rows)[0]
    assert (found.verdict, found.detail) == (FAILS, "not: RCDRS-NoEnv")
    assert found.ours == "0.000238 to 1 (2 methods), wanted < 0.1"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((3e-4,) * 3, HOLDS),
        ((1e-4, 8e-4, 9e-4), NOISE),
        ((7e-4,) * 3, FAILS),
    ],
)
def test_cells(tmp_path, values, verdict):
    rows = with_values("ObjErr", "RCDRS-Env", values)
    check = {"kind": "cells", "benchmarks": ["SOCP"], "factor": 2.0}
    assert verdicts(tmp_path, check, rows=rows) == [verdict]
    found = judge(ledger(tmp_path, check), rows)[0]
    assert found.paper == "32 cells"
    assert ("RCDRS-Env, ObjErr" in found.detail) == (verdict == FAILS)


def test_cells_in_absolute_terms(tmp_path):
    table = "tab:energy_main_k15"
    check = {"kind": "cells", "metrics": ["Pass"], "rows": ["F-DRS", "S-ADMM"], "within": 0.02}
    assert verdicts(tmp_path, check, table=table) == [HOLDS]
    rows = with_values("Pass", "F-DRS", (0.9, 0.9, 0.9), "dispatch", "dispatch", 15)
    assert verdicts(tmp_path, check, table=table, rows=rows) == [FAILS]


def test_bold(tmp_path):
    check = {"kind": "bold", "benchmarks": ["Mixed cone"]}
    assert verdicts(tmp_path, check) == [HOLDS]
    noisy = with_values("r_d", "RCDRS-NoEnv", (7e-3, 9e-3, 7e-3), "mixed")
    assert verdicts(tmp_path, check, rows=noisy) == [NOISE]
    rows = with_values("r_d", "S-ADMM", (1e-3, 1e-3, 1e-3), "mixed")
    assert verdicts(tmp_path, check, rows=rows) == [FAILS]
    found = judge(ledger(tmp_path, check), rows)[0]
    assert "here S-ADMM, in the paper RCDRS-Env" in found.detail


def test_share(tmp_path):
    table = "tab:main_ablation_summary"
    check = {"kind": "share", "metrics": ["ObjErr"], "benchmarks": ["SOCP"], "above": 0.5}
    check |= {"start": "Fixed core", "part": "beta-only", "whole": "alpha+beta"}
    assert verdicts(tmp_path, check, check | {"above": 1.1}, table=table) == [HOLDS, INCONSISTENT]
    for values, verdict in (((0.06, 0.01, 0.01), NOISE), ((0.08, 0.08, 0.08), FAILS)):
        rows = with_values("ObjErr", "beta_only", values, "socp", "ablation", 10)
        assert verdicts(tmp_path, check, table=table, rows=rows) == [verdict]


def coverage_rows(gap):
    """All 36 settings, RCDRS with this Gap and Dist (by setting and seed), the rest with 1."""
    rows, times = seed_rows(CONFIG)
    rows = rows[rows.experiment == "synthetic"].copy()
    for metric in ("Gap", "Dist"):
        rows[metric] = 1.0
        ours = rows.method == "RCDRS-Env"
        rows.loc[ours, metric] = [gap(n, s) for n, s in enumerate(rows[ours].seed)]
        rows.loc[rows.method == "RCDRS-NoEnv", metric] = 2.0
    return rows, times


def item(name, **rest):
    return {"kind": "coverage", "item": name} | rest


def test_coverage(tmp_path):
    checks = [
        item("best_rcdrs_gap_wins", side="at least"),
        item("mean_gap_ratio", side="at most", within=3.3),
        item("rcdrs_env_gap_wins", against="RCDRS-NoEnv"),
    ]
    rows, times = coverage_rows(lambda n, seed: 0.3)
    assert verdicts(tmp_path, *checks, rows=rows, times=times) == [HOLDS] * 3
    rows, times = coverage_rows(lambda n, seed: 1.5 if seed == 0 and n < 2 else 0.2)
    found = judge(ledger(tmp_path, *checks), rows, times)
    assert found[0].verdict == NOISE  # one seed loses a setting or two
    assert "seed by seed 3" in found[0].detail
    rows, times = coverage_rows(lambda n, seed: 1.5)
    assert verdicts(tmp_path, *checks, rows=rows, times=times) == [FAILS, FAILS, HOLDS]


def test_coverage_in_each_reading(tmp_path):
    """A learned baseline turns the one that compares with every method; the other stands beside."""
    rows, times = coverage_rows(lambda n, seed: 0.3)
    rows.loc[rows.method == "L-PDHG", "Gap"] = 0.1
    check = item("best_rcdrs_gap_wins", side="at least")
    found = judge(ledger(tmp_path, check, check | {"reading": "every"}), rows, times)
    assert [judged.verdict for judged in found] == [HOLDS, FAILS]
    assert found[0].ours == "36; over the strongest compared method 0"
    assert found[1].ours == "0; over the strongest classical method 36"
    assert found[0].paper == found[1].paper == "36"


def test_coverage_of_one_item_below_another(tmp_path):
    deeper = item("mixed_hard_gap_ratio_k20", below="mixed_hard_gap_ratio_k5")
    rows, times = coverage_rows(lambda n, seed: 0.5)
    deep = (rows.K == 20) & (rows.method == "RCDRS-Env")
    assert verdicts(tmp_path, deeper, rows=rows, times=times) == [FAILS]
    rows.loc[deep, "Gap"] = 0.1
    assert verdicts(tmp_path, deeper, rows=rows, times=times) == [HOLDS]


def test_constants(tmp_path):
    checks = [
        {"kind": "constants", "sum": [1, [2, 3.5], "controller.envelope.p"], "below": [10]},
        {"kind": "constants", "sum": ["controller.envelope.p"], "above": [1.2]},
        {"kind": "constants", "sum": [[24, 29], 50], "equals": [746]},
    ]
    assert verdicts(tmp_path, *checks) == [HOLDS, INCONSISTENT, HOLDS]
    with pytest.raises(ValueError, match=r"setting controller.envelop.p: key 'envelop'.*envelope"):
        verdicts(tmp_path, {"kind": "constants", "sum": ["controller.envelop.p"], "below": [1]})


REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_theory" name="test_fixed_block_is_averaged[1]"/>
<testcase classname="tests.test_theory" name="test_fixed_block_is_averaged[2]"/>
<testcase classname="tests.test_theory" name="test_fixed_block_is_nonexpansive[1]"/>
<testcase classname="tests.test_theory" name="test_fixed_block_is_nonexpansive[2]">
<failure/></testcase>
<testcase classname="tests.test_theory" name="test_perturbed_descent"><skipped/></testcase>
</testsuite></testsuites>"""


def test_tests(tmp_path):
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    names = ("fixed_block_is_averaged", "fixed_block_is_nonexpansive", "perturbed_descent")
    checks = [{"kind": "test", "tests": [f"tests/test_theory.py::test_{n}"]} for n in names]
    found = verdicts(tmp_path, *checks, tests=read_tests(report))
    assert found == [HOLDS, FAILS, MISSING]
    against = [check | {"refutes": True} for check in checks]
    found = judge(ledger(tmp_path, *against), tests=read_tests(report))
    assert [judged.verdict for judged in found] == [INCONSISTENT, UNCHECKED, MISSING]
    assert found[0].paper == "1 of 1 tests against it"
    report.write_text("<testsuites>")
    with pytest.raises(ValueError, match=r"tests\.xml is not a report of tests"):
        read_tests(report)


def test_all_is_as_good_as_its_worst(tmp_path):
    good, bad = {"id": "good", "check": LOWER}, {"id": "bad", "check": value(above=1.0)}
    both = {"id": "both", "check": {"kind": "all", "claims": ["good", "bad"]}}
    one = {"id": "one", "check": {"kind": "all", "claims": ["good"]}}
    found = judge(ledger(tmp_path, both, one, good, bad))
    assert [j.verdict for j in found] == [INCONSISTENT, HOLDS, HOLDS, INCONSISTENT]
    assert found[0].detail == "good: holds; bad: inconsistent in the paper"
    assert found[0].ours == "1 of 2 hold"


def test_what_cannot_be_checked_is_shown_all_the_same(tmp_path):
    show = {"benchmark": "SOCP", "method": "F-DRS", "metric": "time_ms"}
    check = {"kind": "unavailable", "because": "another device", "show": show}
    found = judge(ledger(tmp_path, check))[0]
    assert (found.verdict, found.paper[:5], found.detail) == (UNCHECKED, "0.042", "another device")
    assert found.ours.startswith("0.042")
    assert judge(ledger(tmp_path, check), times=pd.DataFrame())[0].ours == ""


def test_every_verdict_has_a_meaning():
    assert set(MEANING) == set(VERDICTS)


# The recipe


def test_other_recipe_is_that_of_rcdrs_alone(tmp_path):
    learned = ROWS[ROWS.method.str.startswith("RCDRS") & (ROWS.experiment == "synthetic")]
    other = learned.assign(recipe="log_kkt", ObjErr=1.0)
    rows = pd.concat([ROWS, other], ignore_index=True)
    assert verdicts(tmp_path, LOWER, rows=rows) == [HOLDS]
    assert verdicts(tmp_path, LOWER, rows=rows, recipe="log_kkt") == [FAILS]
    command = judge(ledger(tmp_path, LOWER), rows, recipe="log_kkt")[0].command
    assert command == "snakemake --cores 2 table_synthetic_log_kkt"


# Errors

UNKNOWN = {
    "kind": ({"kind": "ordr"}, "unknown kind 'ordr', did you mean order"),
    "key": (LOWER | {"metric": ["ObjErr"]}, "unknown key of order 'metric', did you mean metrics"),
    "missing key": ({"kind": "order", "metrics": ["ObjErr"]}, "better"),
    "table": (
        LOWER | {"table": "tab:synthetic_main_k15"},
        "unknown table .*tab:synthetic_main_k20",
    ),
    "benchmark": (LOWER | {"benchmarks": ["SOPC"]}, "unknown benchmark .*'SOPC', .*SOCP"),
    "depth": (LOWER | {"K": 10}, "unknown K of tab:synthetic_main_k20 '10', did you mean 20"),
    "method": (LOWER | {"better": ["RCDRS-NoEnf"]}, "'RCDRS-NoEnf', did you mean RCDRS-NoEnv"),
    "metric": (LOWER | {"metrics": ["ObjEr"]}, "'ObjEr', did you mean ObjErr"),
    "baseline": (LOWER | {"than": ["Grid"]}, "'Grid', did you mean Grid-DRS"),
    "cell": (value(metric="Objerr", below=1.0), "'Objerr', did you mean ObjErr"),
    "bound": (value(), "needs above, below or factor"),
    "no benchmark": (
        {"kind": "value", "of": {"method": "F-DRS", "metric": "r_p"}, "below": 1.0},
        r"needs benchmark, tab:synthetic_main_k20 has \['SOCP', 'Mixed cone'\]",
    ),
    "item": (item("mean_gap_rate", side="at most"), "'mean_gap_rate', did you mean mean_gap_ratio"),
    "side": (item("mean_gap_ratio", side="below"), "unknown side 'below'"),
    "variant": (item("rcdrs_env_gap_wins", against="NoEnv"), "unknown variant 'NoEnv'"),
    "test": (
        {"kind": "test", "tests": ["tests/test_theory.py::test_fixed_block_is_average"]},
        "did you mean test_fixed_block_is_averaged",
    ),
    "test file": ({"kind": "test", "tests": ["tests/test_teory.py::a"]}, "test_theory.py"),
    "claim": ({"kind": "all", "claims": ["claim-9"]}, "'claim-9', did you mean claim-1"),
}


@pytest.mark.parametrize(("check", "message"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_what_does_not_exist_is_named_with_the_claim_and_the_nearest(tmp_path, check, message):
    with pytest.raises(ValueError, match=rf"claim-0.*{message}"):
        ledger(tmp_path, check, LOWER)


def test_two_claims_of_one_name_are_an_error(tmp_path):
    entry = {"id": "twin", "check": LOWER}
    with pytest.raises(ValueError, match="two claims are called twin"):
        ledger(tmp_path, entry, entry)


def test_damaged_row_is_an_error_and_not_a_missing_one(tmp_path):
    rows = with_values("ObjErr", "RCDRS-NoEnv", (1e-4, np.nan, 1e-4))
    with pytest.raises(ValueError, match=r"ObjErr is nan in the row .*-1-K20/RCDRS-NoEnv"):
        judge(ledger(tmp_path, LOWER), rows)


# Files


def options(folder, rows, times, config=CONFIG, **changes):
    rows.to_csv(folder / "rows.csv", index=False)
    times.to_csv(folder / "times.csv", index=False)
    files = {"rows": [folder / "rows.csv"], "times": [folder / "times.csv"], "details": []}
    rest = {"config": config.plain(), "tests": [], "recipe": "paper", "out": folder / "claims.md"}
    return argparse.Namespace(**files, **(rest | changes))


def test_verb_writes_page_and_tables(tmp_path, capsys):
    claims(options(tmp_path, *seed_rows(SMOKE), SMOKE))
    page = (tmp_path / "claims.md").read_text()
    table = pd.read_csv(tmp_path / "claims.csv")
    noise = pd.read_csv(tmp_path / "claims_noise.csv")
    assert list(table.columns[:4]) == ["section", "id", "verdict", "claim"]
    assert len(table) == len(Ledger.read().claims)
    for column in ("id", "verdict", "section"):
        assert all(text in page for text in table[column])
    assert set(noise.comparison) >= {"bold cells of synthetic_k20 against the second"}
    assert "Wins and noise" in page
    assert "not computed: " in capsys.readouterr().out


def test_verb_names_a_damaged_file(tmp_path):
    made = options(tmp_path, ROWS, TIMES)
    (tmp_path / "rows.csv").write_text('"')
    with pytest.raises(ValueError, match=r"rows\.csv is not a readable CSV"):
        claims(made)


def test_page_is_the_same_every_time_and_breaks_no_table():
    judged = judge(Ledger.read())
    page = to_markdown(judged, "paper")
    assert page == to_markdown(judge(Ledger.read()), "paper")
    lines = [line for line in page.splitlines() if line.startswith("| **")]
    assert len(lines) == len(judged)
    assert all(line.count("|") == 5 for line in lines)


def test_nothing_computed_has_no_comparisons():
    nothing = pd.DataFrame()
    results = Results(nothing, nothing, CONFIG.seeds)
    assert significance(CONFIG, results, Details(), "paper") == {}
