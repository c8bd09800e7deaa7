"""Settings, the paper's numbers and the small problems that several test files share."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from rcdrs.artifact.config import PAPER, Config, load
from rcdrs.artifact.manifest import METADATA
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.runtime import end_with_parent
from rcdrs.cones import PSD, Box, Cone, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.experiments.base import Run, experiments
from rcdrs.experiments.dispatch.network import Battery, Generator, Line, Network, Site
from rcdrs.experiments.settings import Plain, merge
from rcdrs.solver.problem import ConicProgram
from rcdrs.training.loop import Recipe
from rcdrs.training.losses import LogKKTLoss, TerminalLoss

end_with_parent()  # these tests may be a job of a workflow, which judges claims by them
torch.set_num_threads(1)
settings.register_profile("rcdrs", deadline=None, derandomize=True, max_examples=15)
settings.load_profile("rcdrs")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the solver once, in float32 and float64 side by side, before workers need it."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    make = "import torch; from rcdrs.rollout.run import works; works(torch.{}, True)"
    dtypes = ("float32", "float64")
    jobs = [subprocess.Popen([sys.executable, "-c", make.format(dtype)]) for dtype in dtypes]
    for job in jobs:
        job.wait()


INF = math.inf
needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
ROOT = Path(__file__).parents[1]
#: Three buses in a row and one in a loop, four periods: all kinds of devices, and fast.
TINY_NETWORK = Network(
    loads=(0.2, 0.3, 0.25),
    lines=(Line(0, 1, 4.0, 0.5), Line(1, 2, 3.0, 0.4), Line(2, 0, 2.0, 0.3)),
    generators=(Generator(0, 0.9, 0.1, 1.0),),
    batteries=(Battery(1, 0.2, 0.25, 0.1, 0.8, initial=0.4, discharge_efficiency=0.9),),
    sites=(Site(2, 0.5, "solar"), Site(0, 0.3, "wind")),
    horizon=4,
)


@cache
def paper() -> Config:
    """The configuration of the paper, where its numbers stand."""
    return load(ROOT / PAPER)


def training(experiment: str, method: str, recipe: str = "paper", /, **changes: Any) -> Plain:
    """What `train_run` is told of a run, with changes to its parts: plain values."""
    return merge(experiments()[experiment](paper()).training(Run(method, recipe)), changes)


def solver(experiment: str, method: str = "", /, **changes: Any) -> Plain:
    """What `evaluate` is told of a run."""
    return merge(experiments()[experiment](paper()).solver(Run(method)), changes)


def terminal_loss(**changes: float) -> TerminalLoss:
    return TerminalLoss(**(paper().recipes.paper.loss.plain() | changes))


def log_kkt_loss(**changes: float) -> LogKKTLoss:
    return LogKKTLoss(**(paper().recipes.log_kkt.loss.plain() | changes))


def recipe(name: str = "paper", **changes: Any) -> Recipe:
    """A recipe of the synthetic benchmarks, to train with."""
    written = getattr(paper().recipes, name).plain()
    written = {key: written[key] for key in written if key not in ("loss", "reference")}
    loss = terminal_loss() if name == "paper" else log_kkt_loss()
    return replace(Recipe(loss, **written), **changes)


def grid(experiment: str = "synthetic", **changes: Any) -> dict[str, Any]:
    """The candidates of the fixed core, as `select_core` takes them."""
    found = getattr(paper(), experiment).grid
    written = {"alphas": found.alpha, "betas": found.beta, "scored": found.instances}
    return written | changes


class Solved(NamedTuple):
    """Programs with their primal-dual solutions (x*, s*, lambda*)."""

    program: ConicProgram
    x: Tensor
    s: Tensor
    y: Tensor


def random_tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers that depend on the seed alone."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def half_line_and_line() -> Box:
    """The box ``[0, inf) x R``, which is a cone; its dual is ``[0, inf) x {0}``."""
    return Box(torch.tensor([0.0, -INF]), torch.tensor([INF, INF]))


def every_cone() -> Product:
    """One product with every kind of cone in it, dimension 28."""
    return Product(
        [Nonneg(3), SecondOrder(4, 2), RotatedSecondOrder(3, 2), PSD(3), half_line_and_line()]
    )


def small_cone() -> Product:
    """The same in dimension 14, for tests that perturb one number at a time."""
    return Product([Nonneg(2), SecondOrder(3), RotatedSecondOrder(3), PSD(2), half_line_and_line()])


def solved_program(
    seed: int = 0, batch: int = 4, m: int = 10, cone: Cone | None = None, shared: bool = True
) -> Solved:
    """KKT-consistent programs in float64: ``b = A x*``, ``c = A'lambda* + s*``.

    Moreau's decomposition of a Gaussian point gives the complementary pair (x*, s*).
    """
    cone = every_cone() if cone is None else cone
    A = random_tensor(*(() if shared else (batch,)), m, cone.dim, seed=4 * seed)
    v = random_tensor(batch, cone.dim, seed=4 * seed + 1)
    y = random_tensor(batch, m, seed=4 * seed + 2)
    x = cone.project(v)
    s = x - v
    return Solved(ConicProgram(A, times(A, x), times(A.mT, y) + s, cone), x, s, y)


def times(A: Tensor, x: Tensor) -> Tensor:
    """``A x`` per instance, for A shared or not."""
    return (A @ x.unsqueeze(-1)).squeeze(-1)


def awake(layer, size=0.1):
    """The layer with noise on every parameter: an untrained controller only repeats its core."""
    with torch.no_grad():
        for seed, weights in enumerate(layer.parameters()):
            weights += size * random_tensor(*weights.shape, seed=seed, dtype=weights.dtype)
    return layer


def pytest_collection_modifyitems(items):
    """The longest file first, or one worker would wait for the other at the end."""
    items.sort(key=lambda item: item.path.name != "test_workflow.py")


@pytest.fixture(autouse=True)
def process_settings():
    """A command sets threads and denormals for its process: undone for the next test in it."""
    yield
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)


def copy_of_checkout(folder: Path) -> Path:
    """A copy of this checkout, in which all released results are current."""
    # Without what says of this checkout that it was unpacked from an archive.
    skipped = shutil.ignore_patterns(".*", "__pycache__", "results", "*.egg-info", METADATA)
    shutil.copytree(ROOT, folder, ignore=skipped)
    shutil.copytree(ROOT / "results/released", folder / "results/released")
    plan = Plan.read(folder)
    for name, digests in plan.released_digests().items():
        plan.released.entries[name]["digests"] |= digests
    plan.released.write()
    return folder
