"""The pages for committees and maintainers: every command and link in them is one that works."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import paper

from rcdrs.artifact.key import parse
from rcdrs.cli.main import _parser
from rcdrs.reporting.tables import configured

ROOT = Path(__file__).parents[1]
PAGES = ("ARTIFACT.md", "CONTRIBUTING.md", "config/README.md")
TEXTS = {name: (ROOT / name).read_text() for name in PAGES}
README = (ROOT / "README.md").read_text()
#: What is made by a command: not there in a clone.
MADE = ("build/", "results/paper/", "results/<name>/")


def code(page):
    """Lines of indented blocks, and what stands between backquotes, maybe over two lines."""
    blocks = re.findall(r"^    (\S.*)$", TEXTS[page], re.MULTILINE)
    inline = re.findall(r"`([^`]+)`", re.sub(r"^    .*$", "", TEXTS[page], flags=re.MULTILINE))
    return [re.sub(r"\s+", " ", each.split("  #")[0].strip()) for each in (*blocks, *inline)]


def commands(program):
    found = [(page, each) for page in PAGES for each in code(page)]
    return sorted({pair for pair in found if pair[1].split()[0] == program and " " in pair[1]})


def targets():
    """Of the workflow, by name."""
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    names = re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)(?: with)?:", rules, re.MULTILINE)
    return {*names, *(f"table_{name}" for name in configured(paper()))}


@pytest.mark.parametrize(("page", "command"), commands("rcdrs"))
def test_command_of_rcdrs_is_one_that_is_understood(page, command):
    """With its options; what it does is tested elsewhere."""
    words = shlex.split(command)[1:]
    if "--help" in words:
        with pytest.raises(SystemExit, match=r"^0$"):
            _parser().parse_args(words)
    else:
        assert _parser().parse_args(words).command == words[0], page


@pytest.mark.parametrize(("page", "command"), commands("snakemake"))
def test_command_of_snakemake_asks_for_what_there_is(page, command):
    words = shlex.split(command)[1:]
    given = {"--cores": 1, "--configfile": 1, "--config": len(words)}
    asked = []
    while words:
        if (word := words.pop(0)) in given:
            taken = [words.pop(0) for _ in range(min(given[word], len(words)))]
            if word == "--configfile" and taken != ["mine.yaml"]:
                assert (ROOT / taken[0]).exists(), page
            if word == "--config":
                assert {each.partition("=")[0] for each in taken} <= {*paper().plain(), "run"}
        else:
            asked.append(word)
    assert asked, page
    for name in asked:
        assert name in targets() or parse(name.removeprefix("results/paper/"))["kind"] == "rows"


@pytest.mark.parametrize(("page", "command"), commands("pytest"))
def test_tests_that_are_named_are_there(page, command):
    assert all((ROOT / word).exists() for word in command.split()[1:]), page


def test_installation_is_that_of_the_readme():
    found = {command for _, command in commands("pip")}
    assert len(found) == 2  # with and without the tests after it
    assert all(f"    {command}\n" in README for command in found)


def anchor(heading):
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", TEXTS[page])
    assert links
    for link in links:
        name, _, place = link.partition("#")
        path = (ROOT / page).parent / name
        assert path.exists(), link
        if place:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert place in map(anchor, headings), link


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page):
    names = [each for each in code(page) if re.fullmatch(r"[\w.<>-]+/[\w./<>-]*", each)]
    for name in names:
        assert name.startswith(MADE) or (ROOT / name).exists(), name


def test_review_runs_the_commands_of_the_page_and_of_the_readme():
    """Each once, in their order; what is said of them is left out."""
    review = runpy.run_path(str(ROOT / ".ci/review"))["commands"](TEXTS["ARTIFACT.md"])
    assert [command.split()[0] for command in review] == ["pip", *5 * ["snakemake"], "rcdrs"]
    assert not [command for command in review if "#" in command]
    block = README.partition("## Reviewer")[2].split("\n\n")[1]
    assert [line.split("  #")[0].strip() for line in block.splitlines()] == review[:5]


def test_review_tells_what_it_does():
    command = [sys.executable, ROOT / ".ci/review", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "in a fresh copy of this checkout" in done.stdout
