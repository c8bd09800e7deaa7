"""The house: packages import one way, and the root holds what users import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rcdrs"
#: Each imports only from those before it; the first two share a place.
LAYERS = (
    ("files", "kernels"),
    ("cones",),
    ("solver",),
    ("controller",),
    ("rollout",),
    ("solution",),
    ("layer",),
    ("training",),
    ("baselines",),
    ("modelling",),
    ("experiments",),
    ("peers",),
    ("artifact",),
    ("reporting",),
    ("cli",),
    ("__init__", "__main__"),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def imports(path):
    """The modules of this package that a file imports, wherever in it, as tuples of their parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        found = []
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        yield from (tuple(name.split(".")[1:]) for name in found if name.startswith("rcdrs."))


def test_every_part_has_its_place():
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__pycache__"} == set(HEIGHT)


def test_imports_point_one_way():
    upward = []
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        upward += [
            f"{path.relative_to(ROOT)} imports {'.'.join(target)}"
            for target in imports(path)
            if target[0] != own and HEIGHT[target[0]] >= HEIGHT[own]
        ]
    assert not upward, "\n".join(upward)


def test_no_module_imports_itself_in_a_circle():
    graph = {}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts
        graph[own] = {
            candidate
            for target in imports(path)
            for candidate in (target, target[:-1])
            if candidate != own and (PACKAGE.joinpath(*candidate).with_suffix(".py")).exists()
        }
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join(".".join(m) for m in [*path, module])
        if module not in done:
            path.append(module)
            for target in sorted(graph[module]):
                visit(target)
            done.add(path.pop())

    for module in sorted(graph):
        visit(module)


def test_root_is_small():
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_experiments_do_not_know_each_other_but_for_the_benchmarks():
    """An experiment is one folder; the others may build on the synthetic benchmarks alone."""
    folders = {path.name for path in (PACKAGE / "experiments").iterdir() if path.is_dir()}
    for path in (PACKAGE / "experiments").rglob("*.py"):
        own = path.relative_to(PACKAGE / "experiments").parts[0]
        known = {t[1] for t in imports(path) if t[0] == "experiments"} & folders
        assert known <= {own, "synthetic"}, path


#: What `pip install .` does not bring.
PAPER = ("snakemake", "pandas", "matplotlib", "jinja2", "scipy", "pydantic", "yaml", "clarabel")


def without_the_paper(code):
    start = f"import sys; sys.modules |= dict.fromkeys({PAPER!r})\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_layer_works_without_the_paper():
    done = without_the_paper("""
import torch, rcdrs
from rcdrs.cones import Nonneg, Product, SecondOrder
A = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
layer = rcdrs.RCDRSLayer(A, Product([Nonneg(4), SecondOrder(4, 2)]), depth=3)
solution = layer(torch.ones(2, 4), torch.ones(2, 12))
(solution.x.sum() + solution.gap.sum()).backward()
""")
    assert done.returncode == 0, done.stderr


def test_what_needs_the_paper_says_so():
    done = without_the_paper("from rcdrs.cli.main import main; sys.exit(main(['status']))")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "is missing: install the paper's packages with pip install 'rcdrs[paper]'.\n"
    )
    done = without_the_paper("import rcdrs; rcdrs.pretrained")
    assert "ImportError: rcdrs.pretrained needs" in done.stderr
