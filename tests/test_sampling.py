"""Editions of the sampling: what each draws, and that nothing of one passes for another's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from conftest import ROOT, solver, training

from rcdrs.artifact.plan import Plan
from rcdrs.cones import PSD, Nonneg, Product, SecondOrder
from rcdrs.experiments.base import Run
from rcdrs.experiments.dfl import data as decisions
from rcdrs.experiments.engine import Asked, evaluate, make_instances, read_core, train_run, tune
from rcdrs.experiments.instances import owner_of, stream
from rcdrs.experiments.sampling import SAMPLINGS, find_sampling, noted, taken_apart
from rcdrs.experiments.synthetic.instances import (
    CASES,
    InstanceSet,
    equality_matrix,
    generate,
    symmetric_part,
)
from rcdrs.files import read_checkpoint

FEW = {"train": 3, "validation": 2, "test": 2}
CPU = torch.device("cpu")
GRID = {"alpha": [1.3], "beta": [1.0], "instances": 2}
#: Of seed 1, as the code drew them that knew no editions.
FIRST = {
    "mixed-small": 51.92530594232144,
    "socp-small": -16.232924155926124,
    "qp-small": 25.87644709604648,
    "dfl": -5.953586861533776,
}


def drawn(case, sampling, seed=1):
    if case == "dfl":
        return decisions.generate(seed, FEW, torch.float64, sampling)
    return generate(case, seed, FEW, torch.float64, sampling)


def content(data):
    """A number of every number of a set in its place: up to rounding, which is a CPU's own."""
    numbers = torch.cat([data.tensors[name].flatten() for name in sorted(data.tensors)])
    return float(numbers @ torch.arange(numbers.numel(), dtype=numbers.dtype).cos())


def psd_blocks(cone, rows):
    """The part of rows (..., n) in each PSD block, as matrices."""
    parts = cone.cones if isinstance(cone, Product) else [cone]
    start = 0
    for part in parts:
        if isinstance(part, PSD):
            block = rows[..., start : start + part.dim]
            yield block.reshape(*rows.shape[:-1], -1, part.order, part.order)
        start += part.dim


@pytest.mark.parametrize("case", FIRST)
def test_first_edition_is_what_was_drawn_before_there_were_editions(case):
    assert content(drawn(case, "first")) == pytest.approx(FIRST[case], rel=1e-9)


@pytest.mark.parametrize("case", ["socp-small", "qp-small"])
def test_second_edition_is_the_first_where_no_block_is_a_matrix(case):
    assert content(drawn(case, "second")) == pytest.approx(FIRST[case], rel=1e-9)
    assert content(drawn(case, "one")) != pytest.approx(FIRST[case], rel=1e-3)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("case", ["mixed-small", "mixed-hard", "dfl"])
def test_rows_are_symmetric_where_the_edition_says_so(case, sampling):
    data = drawn(case, sampling)
    (blocks,) = psd_blocks(data.cone, data.A)
    skew = (blocks - blocks.mT).abs().max()
    # QR mixes rows that are symmetric to the last bit.
    assert skew < 1e-14 if find_sampling(sampling).symmetric else skew > 0.01


@pytest.mark.parametrize("symmetric", [False, True])
def test_singular_values_are_as_asked_for(symmetric):
    for case in CASES.values():
        A = equality_matrix(stream("test"), case.m, case.cone, case.condition, symmetric)
        values = np.linalg.svd(A, compute_uv=False)
        expected = case.condition ** -np.linspace(0, 1, case.m)
        np.testing.assert_allclose(values, expected, rtol=1e-11)  # rounding


def test_symmetric_part_leaves_other_blocks_alone():
    cone = Product([Nonneg(2), PSD(2, 2), SecondOrder(3), PSD(3)])
    rows = np.random.default_rng(0).standard_normal((4, cone.dim))
    found = symmetric_part(cone, rows)
    for before, after in zip(psd_blocks(cone, rows), psd_blocks(cone, found), strict=True):
        assert np.array_equal(after, (before + before.swapaxes(-1, -2)) / 2)
    assert np.array_equal(found[:, [0, 1, 10, 11, 12]], rows[:, [0, 1, 10, 11, 12]])
    assert np.array_equal(symmetric_part(cone, found), found)


def test_magnitudes_scale_the_same_draws():
    """Of x*, s* and lambda*, each by its own factor."""
    first, second = (drawn("mixed-small", name) for name in ("first", "second"))
    for part in ("x", "s", "y"):
        sizes = [getattr(SAMPLINGS[name].magnitudes["mixed"], part) for name in ("first", "second")]
        expected = getattr(first.test, part) * sizes[1] / sizes[0]
        torch.testing.assert_close(getattr(second.test, part), expected, rtol=1e-12, atol=0)


def test_scaled_changes_the_magnitudes_that_are_named():
    found = find_sampling("second").scaled(x=3.0)
    for family, before in SAMPLINGS["second"].magnitudes.items():
        assert found.magnitudes[family] == before._replace(x=3 * before.x)
    assert (found.symmetric, found.condition) == (True, 1.0)


def test_every_edition_knows_every_family():
    for sampling in SAMPLINGS.values():
        assert sampling.magnitudes.keys() == {case.family for case in CASES.values()}


# What is noted


def test_first_edition_is_not_noted():
    """Files and digests of before there were editions stay as they are."""
    assert noted("first") == {}
    assert noted("second") == {"sampling": "second"}
    assert taken_apart(FEW) == (FEW, "first")
    assert taken_apart(FEW | {"sampling": "one"}) == (FEW, "one")


@pytest.mark.parametrize("experiment", ["synthetic", "ablation", "dfl", "dispatch"])
def test_settings_of_instances_name_the_edition(experiment):
    """But for the first, which had no name."""
    plan = Plan.read(ROOT)
    for universe, edition in (("", "second"), ("first_sampling", None), ("one_magnitude", "one")):
        found = plan.within(universe).experiments[experiment].instances()
        assert found.get("sampling") == (edition if experiment != "dispatch" else None)


@pytest.mark.parametrize("call", [find_sampling, lambda name: drawn("dfl", name)])
def test_unknown_sampling_is_named_with_the_known_ones(call):
    with pytest.raises(ValueError, match="unknown sampling 'third', expected one of first, second"):
        call("third")


def test_set_of_an_unknown_sampling_is_named(tmp_path):
    arrays = {name: tensor.numpy() for name, tensor in drawn("socp-small", "one").tensors.items()}
    meta = {"case": "socp-small", "seed": 1, "sampling": "third"}
    np.savez(tmp_path / "set.npz", meta=np.array(json.dumps(meta)), **arrays)
    for read in (InstanceSet.load, owner_of):
        with pytest.raises(ValueError, match=r"set\.npz is not a readable .*sampling 'third'"):
            read(tmp_path / "set.npz")


# Files of another edition


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Instances, core and a layer of two editions."""
    folder = tmp_path_factory.mktemp("editions")
    for name in ("first", "one"):
        files = folder / f"{name}.npz", folder / f"{name}.json"
        make_instances("synthetic", "socp-small", 2, FEW | {"sampling": name}, files[0])
        tune("synthetic", files[0], 2, GRID, files[1])
        settings = training("synthetic", "RCDRS-Env", recipe={"epochs": 1})
        train_run("synthetic", *files, Run("RCDRS-Env"), settings, 0, folder / f"{name}.pt", CPU)
    return folder


def test_files_say_the_edition_but_for_the_first(work):
    for name in ("first", "one"):
        owner = {"case": "socp-small", "seed": 2} | noted(name)
        assert owner_of(work / f"{name}.npz") == owner
        assert InstanceSet.load(work / f"{name}.npz").owner == owner
        assert read_core(work / f"{name}.json", owner).depth == 2
        for stored in (
            json.loads((work / f"{name}.json").read_text()),
            read_checkpoint(work / f"{name}.pt")[0]["trained"],
        ):
            assert {key: stored[key] for key in stored if key in owner} == owner
            assert ("sampling" in stored) is (name != "first")


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        ("first", "one", "socp-small, seed 2, sampling one, expected socp-small, seed 2: make"),
        ("one", "first", "socp-small, seed 2, expected socp-small, seed 2, sampling one: make"),
    ],
)
def test_core_of_another_edition_is_refused(work, ours, theirs, told):
    with pytest.raises(ValueError, match=rf"{theirs}\.json holds the core of {told}"):
        read_core(work / f"{theirs}.json", owner_of(work / f"{ours}.npz"))


@pytest.mark.parametrize(("ours", "theirs"), [("first", "one"), ("one", "first")])
def test_layer_of_another_edition_is_refused(work, ours, theirs):
    files, settings = (work / f"{ours}.npz", work / f"{ours}.json"), solver("synthetic")
    for name, fits in ((ours, True), (theirs, False)):
        asked = [Asked.parse(f"RCDRS-Env@paper={work / name}.pt", "synthetic")]
        if fits:
            assert len(evaluate("synthetic", *files, asked, settings, CPU)[0]) == 1
        else:
            with pytest.raises(ValueError, match=rf"{name}\.pt.*sampling|sampling.*{name}\.pt"):
                evaluate("synthetic", *files, asked, settings, CPU)
