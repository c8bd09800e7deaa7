"""The report: one page from whatever is there."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import shutil
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import torch
from conftest import ROOT, awake, solver
from matplotlib.figure import Figure
from run_files import write_run
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from rcdrs.artifact.plan import Plan
from rcdrs.baselines.registry import find_method
from rcdrs.experiments.engine import Asked, make_instances, trace
from rcdrs.experiments.instances import owner_of
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.reporting.paper_values import paper_values
from rcdrs.reporting.render import HTML
from rcdrs.reporting.report.controller import traced
from rcdrs.reporting.report.day import draw_day, parts
from rcdrs.reporting.report.drawing import (
    BOTTOM,
    HEIGHT,
    Curve,
    lines,
    look,
    ranges,
    scale,
    tick_label,
)
from rcdrs.reporting.report.evidence import Evidence, Missing
from rcdrs.reporting.report.grids import paper_cell
from rcdrs.reporting.report.page import report, sections
from rcdrs.reporting.tables import TABLES, configured, values
from rcdrs.reporting.tables.methods import Methods

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
CLAIMS = """section,id,verdict,claim,where,paper,ours,detail,kind,tolerance,note,command
Results,wins,holds,RCDRS wins everywhere,Table 1,36/36,36/36,,coverage,none,,snakemake claims
Results,times,cannot be checked here,It takes 0.1 ms,Table 1,0.1,,another machine,unavailable,,,
Method,order,does not hold,A < B & C,Table 2,0.5,1.2,<worst>,order,,,snakemake claims
"""


@cache
def plan_of(*names):
    plan = Plan.read(ROOT, *(ROOT / f"workflow/config/{name}.yaml" for name in names))
    return replace(plan, config=plan.config.but(seeds=[0, 1], universes={}))


class Page(HTMLParser):
    """The elements of a page, in order: (tag, attributes)."""

    def __init__(self, text):
        super().__init__()
        self.text, self.elements = text, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def all(self, tag, css=None):
        return [a for t, a in self.elements if t == tag and css in (None, a.get("class"))]


def make(folder, plan, claims=CLAIMS):
    """The page of the run in `folder`."""
    (folder / "claims.csv").write_text(claims)
    with contextlib.chdir(folder):
        report(plan, Path("report.html"), Path("claims.csv"), Path("claims.csv"))
    return Page((folder / "report.html").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a whole run of the smoke configuration, from two seeds."""
    folder, plan = tmp_path_factory.mktemp("run"), plan_of("smoke")
    with contextlib.chdir(folder):
        write_run(plan, Path(plan.folder))
    return folder


@pytest.fixture(scope="module")
def page(run):
    return make(run, plan_of("smoke"))


@pytest.fixture
def part(run, tmp_path):
    """A copy of the run, to take parts out of it."""
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    return tmp_path


# The pieces


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (3e-5, 0.4), (1.6, 1.6), (1.59, 1.61), (0.0, 0.0)])
def test_ticks_are_few_and_on_the_axis(ends, log):
    axes = Figure().add_subplot()
    low, high = scale(axes.yaxis, ends, log)
    assert axes.get_ylim() == (low, high)
    assert all(low < end < high for end in ends if end > 0 or not log)
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(ticks) <= 7
    assert len({tick_label(tick) for tick in ticks}) == len(ticks)


def curve(*values, **columns):
    return Curve("a & b", pd.DataFrame({"y": values} | columns, [5, 10, 15]), look("RCDRS-Env"))


def drawn_curve(*values):
    """The group that a curve is drawn in, and the points of its path."""
    root = ElementTree.fromstring(lines("Title", [curve(*values)], "K", "Gap", "told"))
    (group,) = [g for g in root.iter("g") if (g.findtext("title") or "").startswith("a & b: ")]
    path = " ".join(path.get("d") for path in group.findall("path"))
    return group, [(pen, float(y)) for pen, y in re.findall(r"([ML]) \S+ ([\d.]+)", path)]


def test_what_has_no_logarithm_stands_on_the_lower_end():
    _, points = drawn_curve(0.0, 1e-3, 1.0)
    heights = [y for _, y in points]
    assert heights[0] == pytest.approx(HEIGHT - BOTTOM, abs=0.02)
    assert len(heights) == 3
    assert heights == sorted(heights, reverse=True)
    assert tick_label(1e-3) == "10⁻³"
    assert tick_label(0.05) == "0.05"


def test_a_missing_value_breaks_the_curve():
    group, points = drawn_curve(1.0, math.nan, 2.0)
    assert not any(pen == "L" for pen, _ in points)
    assert len(list(group.iter("use"))) == 2  # marks of the others


def test_drawings_are_well_formed_and_described():
    line = curve(1.0, math.nan, 2.0, low=[0.5, 0.5, 0.5], high=[2.0, 3.0, 3.0])
    drawn = [lines("Title <1>", [line], "K", "Gap", "told", level=1.0) for _ in range(2)]
    rows = ranges("Title", {"a": ((0.1, 0.2, 0.3), look("RCDRS-Env")["color"])}, "Dist", "told")
    assert drawn[0] == drawn[1]
    for svg in (drawn[0], rows):
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert "told" in root.get("aria-label")
        assert [text for text in root.itertext() if text.startswith("Title")]
        # The page's style sheet says which colour is meant.
        assert "var(--env)" in svg
        assert not re.search("#[0-9a-f]{6}|http", svg)
    assert not set(re.findall(' id="(.*?)"', drawn[0])) & set(re.findall(' id="(.*?)"', rows))


def test_every_value_of_the_paper_is_beside_one_of_ours(tmp_path):
    config = Plan.read(ROOT).config.but(seeds=[0], results="recompute", universes={})
    plan = Plan(config, ROOT)
    with contextlib.chdir(tmp_path):
        write_run(plan, Path(plan.folder), instances=2)
        evidence, found = Evidence(plan), set()
        for name in evidence.tables:
            for cell in values(name, plan.config, evidence.of(name, [0])):
                assert "\\" not in cell.show(HTML)
                if printed := paper_cell(cell, plan.config):
                    found.add(tuple(str(part) for part in printed.values()))
    assert len(found) == len(paper_values())


def write_core(path, owner, depth):
    core = owner | {"depth": depth, "alpha": 1.6, "beta": 0.3}
    path.write_text(json.dumps(core))


def test_trace_holds_the_actions_and_the_curve(tmp_path):
    data = generate("socp-small", 0, {"train": 2, "validation": 2, "test": 5})
    data.save(tmp_path / "set.npz")
    given = "synthetic", tmp_path / "set.npz", tmp_path / "core.json"
    write_core(given[2], data.owner, 3)
    runs, trained = [], data.owner | {"recipe": "paper"}
    for method in ("RCDRS-Env", "L-PDHG"):
        layer = awake(find_method(method).build(data.A, data.case.cone, 3, (1.6, 0.3)))
        layer.save(tmp_path / f"{method}.pt", trained)
        (tmp_path / f"{method}.csv").write_text("epoch,loss,merit\n0,,2.0\n1,1.5,1.0\n")
        runs.append(Asked.parse(f"{method}@paper={tmp_path / method}.pt", "synthetic"))
    settings, cpu = solver("synthetic"), torch.device("cpu")
    found = trace(*given, runs, settings, cpu)
    env = found[found.method == "RCDRS-Env"]
    alpha = env[env.series == "alpha"].sort_values("step")
    assert list(alpha.step) == [0, 1, 2, 3]
    assert alpha.middle.iloc[0] == 1.6
    assert ((alpha.low <= alpha.middle) & (alpha.middle <= alpha.high)).all()
    assert alpha.low.iloc[-1] < alpha.high.iloc[-1]
    assert list(env[env.series == "merit"].middle) == [2.0, 1.0]
    assert list(env[env.series == "loss"].step) == [1]
    assert set(found[found.method == "L-PDHG"].series) == {"merit", "loss"}
    with pytest.raises(ValueError, match="nothing to trace"):
        trace(*given, [Asked.parse("F-DRS", "synthetic")], settings, cpu)


def test_traced_day_adds_up(tmp_path):
    given = "dispatch", tmp_path / "set.npz", tmp_path / "core.json"
    sizes = {"train": 2, "validation": 2, "test": 2}
    make_instances("dispatch", "dispatch-inequality", 0, sizes, given[1])
    write_core(given[2], owner_of(given[1]), 4)
    runs = [Asked.parse(method, "dispatch") for method in ("F-DRS", "Grid-DRS")]
    found = trace(*given, runs, solver("dispatch"), torch.device("cpu"))
    assert list(found.schedule.unique()) == ["F-DRS, K = 4", "Grid-DRS, K = 4", "Optimum"]
    for _, schedule in found.groupby("schedule"):
        side = schedule.groupby(["side", "hour"]).value.sum()
        load = schedule[schedule.part == "Load and charge"].set_index("hour").value
        # What is supplied beyond load and charge is excess.
        assert (side["supply"] >= load - 1e-4).all()
        assert set(schedule[schedule.side == "metric"].part) == {"Shed", "Curt", "Reserve", "Eq"}
    check_drawing(found)


def check_drawing(rows):
    """Power and reserve of every schedule, on one pair of axes each; alone on the same."""
    figure, alone = draw_day(rows), draw_day(rows, only="Optimum")
    names = [axes.get_title(loc="left").partition("\n")[0] for axes in figure.axes]
    assert names == [*rows.schedule.unique(), "", "", ""]
    assert len(alone.axes) == 2
    for axes, number in zip(alone.axes, (2, 5), strict=True):
        assert axes.get_ylim() == figure.axes[number].get_ylim()
    some = {"Generator 1", "Renewable power", "Curtailment", "Load", "Headroom"}
    assert some <= set(parts(rows)) == {t.get_text() for t in figure.legends[0].get_texts()}


# The page


def test_page_needs_nothing_else(page):
    assert not re.search(r"https?://|@import|url\(", page.text)
    assert not any("src" in attributes for _, attributes in page.elements)
    assert all(link["href"] == "data:," for link in page.all("link"))
    assert len(page.text) < 5e6


def test_page_has_every_part(page):
    assert "Not computed yet" not in page.text
    figures = {figure["id"] for figure in page.all("figure")}
    expected = {
        "heat-paper-classical",
        "heat-log_kkt-every",
        "depth",
        "tails-figure",
        "actions-paper",
    }
    expected |= {"actions-log_kkt", "curves-paper", "curves-log_kkt", "dfl-depth"}
    assert figures >= expected | {"dispatch-depth", "dispatch-day"}
    # Of the paper's tables, those whose depths the configuration has.
    tables = configured(plan_of("smoke").config).items()
    expected = {name for name, table in tables if not table.extra and "k5_k10" not in name} | {
        "ledger-paper",
        "states",
    }
    assert {table.get("id") for table in page.all("table")} >= {f"table-{n}" for n in expected}


def test_figures_have_a_title_and_a_text(page):
    assert all(figure["aria-label"] for figure in page.all("figure"))
    drawings = page.all("svg", "chart")
    assert len(drawings) > 20
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 40 for svg in drawings)
    captions = len(page.all("figcaption"))
    assert captions == len(page.all("figure"))


def test_headings_are_in_order_and_links_lead_somewhere(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(names)) == len(names)
    links = [link["href"] for link in page.all("a")]
    assert len(links) > 5
    links += [use["href"] for use in page.all("use")]
    assert all(link.removeprefix("#") in names for link in links)


def table_of(page, name):
    """Its markup, with deviations beside their means."""
    table = page.text.partition(f'id="table-{name}"')[2].partition("</table>")[0]
    return re.sub(r'<span class="spread">([^<]*)</span>', r"\1", table)


def test_tables_show_our_value_and_the_papers(run, page):
    with contextlib.chdir(run):
        evidence = Evidence(plan_of("smoke"))
        results = evidence.of("synthetic_k20", evidence.config.seeds)
        cells = values("synthetic_k20", evidence.config, results)
    table = table_of(page, "synthetic_k20")
    for cell in cells:
        assert cell.show(HTML) in table
    # RCDRS-Env on SOCP in the paper, printed as our own numbers are.
    assert "2.38e-4 ± 1.91e-6" in table
    regrets = table_of(page, "dfl_k20")
    assert "0.0406 ± 0.0018" in regrets  # of RCDRS-NoEnv-J, whether ours is bold or not
    assert f"&times;{cells[30].mean / 0.000238:.3g}<" in table


def test_claims_are_marked_and_escaped(page):
    # In the tally and in the ledger, of each recipe.
    claims = page.text.partition('<section id="claims"')[2].partition("</section>")[0]
    assert claims.count('class="verdict holds"') == 4
    assert "A &lt; B &amp; C" in page.text
    assert "&lt;worst&gt;" in page.text
    first = page.text.partition("<header>")[2].partition("</header>")[0]
    assert "1 of 3</span>" in first
    assert "<strong>The claims of the paper hold with its recipe.</strong>" in first


# What is missing


def test_without_results_the_page_says_how_to_get_them(tmp_path):
    plan = plan_of("smoke")
    with contextlib.chdir(tmp_path):
        report(plan, Path("out/report.html"))
    page = Page((tmp_path / "out/report.html").read_text())
    assert not page.all("svg", "chart")
    configured = "--configfile workflow/config/smoke.yaml"
    for target in ("table_synthetic_k20", "table_settings", "claims", "report"):
        assert f"snakemake --cores 2 {target} {configured}" in page.text
    # What depends on the configuration alone is there.
    assert {"table-protocol", "table-hyperparameters"} <= {t.get("id") for t in page.all("table")}


def test_part_of_the_seeds_is_shown_as_such(part):
    plan = plan_of("smoke")
    for path in part.glob(f"{plan.folder}/*/*-1-K20"):
        shutil.rmtree(path)
    page = make(part, plan)
    assert "So far seeds 0 of 2." in page.text
    assert "table-synthetic_k20" in {table.get("id") for table in page.all("table")}
    for path in part.glob(f"{plan.folder}/synthetic/*-K20"):
        shutil.rmtree(path)
    page = make(part, plan)
    assert "table-synthetic_k20" not in {table.get("id") for table in page.all("table")}
    assert "settings are not computed yet" in page.text


def test_results_of_other_code_are_marked(part):
    plan = plan_of("smoke")
    note = next(part.glob(f"{plan.folder}/synthetic/*/*.origin.json"))
    told = json.loads(note.read_text())
    note.write_text(json.dumps(told | {"digests": dict.fromkeys(told["digests"], "old same")}))
    assert "1 result is stale" in make(part, plan).text


def test_damaged_files_are_named(part):
    plan = plan_of("smoke")
    path = next(part.glob(f"{plan.folder}/synthetic/*/*.csv"))
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=path.name):
        make(part, plan)


def test_a_ledger_without_verdicts_is_an_error(part):
    with pytest.raises(ValueError, match="no column verdict"):
        make(part, plan_of("smoke"), claims=CLAIMS.replace("verdict", "result"))


def test_only_the_deepest_controllers_of_the_largest_scale_are_traced():
    keys = traced(plan_of("smoke"))
    assert len(set(keys)) == len(keys) == 6
    assert keys[0].path() == "traces/qp-hard-0-K20.csv"


def test_a_table_of_no_section_has_one_of_its_own(tmp_path, monkeypatch):
    toy = Methods("toy", "dfl", ("Regret",), template="methods")
    monkeypatch.chdir(tmp_path)
    ledgers = {"paper": None, "log_kkt": None}
    before = [section.name for section in sections(Evidence(plan_of("smoke")), ledgers)]
    monkeypatch.setitem(TABLES, "toy", toy)
    found = {section.name: section for section in sections(Evidence(plan_of("smoke")), ledgers)}
    assert [name for name in found if name not in before] == ["others"]
    assert [part.title for part in found["others"].parts] == ["Toy"]


def test_sections_of_real_data_come_with_their_results(tmp_path, monkeypatch):
    """They need packages of their own, so that nobody is asked for them."""
    monkeypatch.chdir(tmp_path)
    config = Plan.read(ROOT).config.but(seeds=[0], results="recompute", universes={})
    ledgers = {"paper": None, "log_kkt": None}
    plan = Plan(config, ROOT)
    names = {section.name for section in sections(Evidence(plan), ledgers)}
    assert names.isdisjoint({"portfolio", "grid", "peers"})
    write_run(plan, Path(plan.folder), instances=2, extra=True)
    plan = Plan(config, ROOT)  # what it knew of files has changed
    found = {section.name: section.parts for section in sections(Evidence(plan), ledgers)}
    assert {"portfolio", "grid"} < set(found)
    for name, count in {"portfolio": 5, "grid": 4}.items():
        figure, *tables = found[name]
        assert len(figure.panels) == count
        assert not [part for part in found[name] if isinstance(part, Missing)]
        assert len(tables) == 2


# In a browser


@pytest.fixture(scope="module")
def browser(run, page, tmp_path_factory):
    """The page, opened."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_window_size(1400, 900)
        driver.get((run / "report.html").as_uri())
        yield driver
    finally:
        driver.quit()


def test_opens_without_a_complaint_or_a_request(browser):
    assert browser.get_log("browser") == []
    assert browser.title == "RCDRS: report of the run smoke"
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    asked = [request["request"]["url"] for request in sent if "file:" in request["documentURL"]]
    assert set(asked) <= {browser.current_url, "data:,"}  # itself, and its empty icon


def test_figures_are_drawn(browser):
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg.chart')]"
        ".filter(s => !s.closest('details:not([open])'))"
        ".map(s => [s.getBoundingClientRect().width, s.querySelectorAll('path').length])"
    )
    assert len(sizes) > 15
    assert all(width > 200 and paths > 4 for width, paths in sizes)


def column(browser, table, number):
    """What the cells of a column are sorted by, block by block."""
    return browser.execute_script(
        "return [...document.getElementById(arguments[0]).tBodies].map(body =>"
        " [...body.rows].filter(row => row.className !== 'block')"
        " .map(row => Number(row.cells[arguments[1]].dataset.sort)))",
        table,
        number,
    )


def test_tables_sort_by_a_click(browser):
    before = column(browser, "table-synthetic_k20", 1)
    heading = browser.find_elements("css selector", "#table-synthetic_k20 thead th")[0]
    for order in ("ascending", "descending"):
        heading.find_element("tag name", "button").click()
        assert heading.get_attribute("aria-sort") == order
        expected = [sorted(block, reverse=order == "descending") for block in before]
        assert column(browser, "table-synthetic_k20", 1) == expected
    # The heading of a block stays on top of it.
    first = "return document.querySelector('#table-synthetic_k20 tbody').rows[0].className"
    assert browser.execute_script(first) == "block"


@pytest.mark.parametrize("width", [360, 390, 800, 1400])
def test_page_is_no_wider_than_the_screen(browser, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for part in browser.find_elements("css selector", "main details:not([open])"):
        browser.execute_script("arguments[0].open = true", part)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


def test_dark_colours_are_readable(browser):
    """Text against its ground, by the formula of the accessibility guidelines."""
    for scheme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        names = ["--text", "--muted", "--link", "--good", "--fair", "--bad", "--odd"]
        names += ["--env", "--noenv", "--layerwise", "--anderson", "--admm", "--pdhg", "--wide"]
        names += ["--mlp", "--light"]
        ground, *inks = browser.execute_script(
            "const style = getComputedStyle(document.documentElement);"
            "return arguments[0].map(name => style.getPropertyValue(name).trim())",
            ["--ground", *names],
        )
        for name, ink in zip(names, inks, strict=True):
            assert contrast(ink, ground) >= 4.5, (scheme, name, ink)
        written = browser.execute_script(
            "return [...document.querySelectorAll('svg.chart text')]"
            ".map(text => getComputedStyle(text).fill.match(/\\d+/g))"
        )
        for ink in {tuple(map(int, rgb)) for rgb in written}:
            assert contrast("#{:02x}{:02x}{:02x}".format(*ink), ground) >= 4.5, (scheme, ink)


def contrast(ink, ground):
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_prints_every_table(browser, tmp_path):
    """How a claim is checked is on paper where the reader had opened it."""
    counts = "return ['.fold', '.more'].map(k => document.querySelectorAll(k + '{}').length)"
    folds, _ = browser.execute_script(counts.format(""))
    _, opened = browser.execute_script(counts.format("[open]"))
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(counts.format("[open]")) == [folds, opened]
    assert folds > 0
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    path = Path(tmp_path / "report.pdf")
    path.write_bytes(base64.b64decode(printed["data"]))
    assert path.read_bytes().startswith(b"%PDF")
    assert path.stat().st_size > 1e5
