"""Files of a run: sealed, checked on reading, and written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY_NETWORK, training

from rcdrs.artifact.release import note_of, read_origin, write_origin
from rcdrs.cli.main import main
from rcdrs.experiments.base import Run
from rcdrs.experiments.dispatch import stages as dispatch
from rcdrs.experiments.dispatch.scenarios import generate as draw_days
from rcdrs.experiments.engine import make_reference, read_core, train_run, tune, write_details
from rcdrs.experiments.synthetic import stages as synthetic
from rcdrs.experiments.synthetic.instances import InstanceSet, generate
from rcdrs.files import read_archive, read_checkpoint, replacing, write_arrays
from rcdrs.reporting.details import Details, _read
from rcdrs.reporting.results import read_rows

CPU = torch.device("cpu")
FEW = {"train": 2, "validation": 2, "test": 2}
GRID = {"alpha": [1.3], "beta": [1.0], "instances": 2}
ROW = "experiment,family,scale,K,seed,method,recipe,Gap\nsynthetic,qp,small,5,0,F-DRS,-,0.5\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One file of each kind that a run computes."""
    folder = tmp_path_factory.mktemp("run")
    generate("socp-small", 0, FEW).save(folder / "set.npz")
    tune("synthetic", folder / "set.npz", 2, GRID, folder / "core.json")
    settings = training("synthetic", "RCDRS-Env", recipe={"epochs": 1})
    files = (folder / "set.npz", folder / "core.json")
    train_run("synthetic", *files, Run("RCDRS-Env"), settings, 0, folder / "layer.pt", CPU)
    draw_days(0, FEW, "inequality", TINY_NETWORK).save(folder / "days.npz")
    tune("dispatch", folder / "days.npz", 2, GRID, folder / "days.json")
    day_files = (folder / "days.npz", folder / "days.json")
    make_reference("dispatch", *day_files, 5, folder / "reference.npz")
    (folder / "rows.csv").write_text(ROW)
    write_details({"F-DRS@-/Gap": np.ones(400, np.float32)}, folder / "rows.npz")
    write_origin(folder / "rows.csv", {"F-DRS@paper": "a b"}, "cpu", folder / "rows.npz")
    return folder


@pytest.fixture
def copy(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "copy"))


def read_reference(path):
    return dispatch.read_reference(path, dispatch.load(path.with_name("days.npz")))


READERS = {
    "set.npz": InstanceSet.load,
    "days.npz": dispatch.load,
    "reference.npz": read_reference,
    "core.json": lambda path: read_core(path, "socp-small", 0),
    "layer.pt": read_checkpoint,
    "layer.csv": lambda path: list(synthetic._curve(path.with_suffix(".pt"))),
    "rows.csv": lambda path: read_rows([path]),
    "rows.npz": _read,
    "rows.origin.json": lambda path: read_rows([path.with_name("rows.csv")]),
}
REMEDIES = r"(delete|make it with|train it again)"


@pytest.mark.parametrize("name", READERS)
def test_every_flipped_byte_is_found(copy, name):
    """In the middle, in the seal, and in the last bytes."""
    path, read = copy / name, READERS[name]
    read(path)
    whole = path.read_bytes()
    rng, size = random.Random(name), len(whole)
    places = {*rng.sample(range(size), min(40, size)), *range(size - min(size, 100), size)}
    for place in sorted(places):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=rf"{copy.name}/{name}.*{REMEDIES}"):
            read(path)


@pytest.mark.parametrize("name", READERS)
def test_every_cut_is_found(copy, name):
    path = copy / name
    whole = path.read_bytes()
    for kept in (0, 1, 21, len(whole) // 2, len(whole) - 72, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=rf"{name}.*{REMEDIES}"):
            READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_more_at_the_end_is_found(copy, name):
    with open(copy / name, "ab") as stream:
        stream.write(b"\0")
    with pytest.raises(ValueError, match=rf"{name}.*{REMEDIES}"):
        READERS[name](copy / name)


def test_archive_without_a_seal_is_read(tmp_path):
    """Of an older run, or released: there the manifest has its hash."""
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    torch.save({"config": json.dumps({"a": 1}), "weights": {}}, tmp_path / "a.pt")
    assert np.load(read_archive(tmp_path / "a.npz"))["x"].tolist() == [0, 1, 2]
    assert read_checkpoint(tmp_path / "a.pt") == ({"a": 1}, {})


def test_sealed_archives_are_read_by_others(copy):
    with np.load(copy / "set.npz") as stored:
        assert "A" in stored
    assert "weights" in torch.load(copy / "layer.pt", weights_only=True)


def test_equal_contents_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        write_arrays(tmp_path / name, {"x": np.arange(5)}, compressed=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_details_of_another_run_are_found(copy):
    """Sealed for themselves, but not those that the note is of."""
    write_details({"F-DRS@-/Gap": np.zeros(4, np.float32)}, copy / "rows.npz")
    message = (
        r"rows\.npz was changed after it was computed: delete .*rows\.csv and run the workflow"
    )
    for read in (lambda: read_rows([copy / "rows.csv"]), lambda: read_origin(copy / "rows.csv")):
        with pytest.raises(ValueError, match=message):
            read()
    (copy / "rows.npz").unlink()
    with pytest.raises(ValueError, match=r"rows\.npz is gone after it was computed"):
        read_rows([copy / "rows.csv"])


def test_note_of_an_older_run_is_read(copy):
    note_of(copy / "rows.csv").write_text('{"digests": {"F-DRS@paper": "a b"}, "host": "h"}')
    assert read_origin(copy / "rows.csv")["host"] == "h"
    assert len(read_rows([copy / "rows.csv"])) == 1
    assert Details([copy / "rows.npz"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reference": np.array([1.0, np.nan])}, "reference holds costs that are no finite"),
        ({"optimum": np.array([1.0, np.inf])}, "optimum holds costs that are no finite"),
        ({"optimum": np.ones(1)}, r"optimum is float64 of shape \(1,\), expected the costs of 2"),
        ({"optimum": np.ones((2, 1))}, "expected the costs of 2 test days"),
        ({"optimum": np.array(["a", "b"])}, "optimum is <U1"),
        ({"other": np.ones(2)}, r"it holds \['optimum', 'other', 'reference'\]"),
        ({"meta": np.array('{"case": "dispatch-turned", "seed": 0}')}, "it is of .*-turned"),
        ({"meta": np.array('{"case": "dispatch-inequality", "seed": 1}')}, "'seed': 1}, expected"),
        ({"meta": np.array("{")}, "JSONDecodeError"),
    ],
)
def test_reference_that_does_not_fit_is_named(copy, change, told):
    path = copy / "reference.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    write_arrays(path, arrays | {"optimum": np.array([np.nan, 1.0])})
    read_reference(path)  # a day may have no optimum
    write_arrays(path, arrays | change)
    with pytest.raises(ValueError, match=rf"reference\.npz .*{told}.*`rcdrs reference`"):
        read_reference(path)


# Writing


def test_file_is_as_wide_as_the_umask_allows(tmp_path):
    for mask, mode in ((0o077, 0o600), (0o022, 0o644), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            with replacing(tmp_path / "a.txt") as temporary:
                assert temporary.stat().st_mode & 0o777 == mode  # never wider for a moment
                temporary.write_text("a")
        finally:
            os.umask(before)
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode


def test_full_disk_is_named_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def write():
        with replacing(path) as temporary:
            temporary.write_text("hal")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"cannot be written, the disk is full: .*a\.txt") as told:
        write()
    assert told.value.errno == errno.ENOSPC
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_device_without_space_is_named(tmp_path):
    """What the kernel itself says of one."""
    with (
        pytest.raises(OSError, match=r"the disk is full.*a\.txt"),
        replacing(tmp_path / "a.txt"),
        open("/dev/full", "w") as stream,
    ):
        stream.write("a" * 100000)
    assert list(tmp_path.iterdir()) == []


def test_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a")
    for name, told in {
        "folder": "there is a folder in its place",
        "file/a.txt": "a part of its path is a file, not a folder",
        "file/b/a.txt": "a part of its path is a file, not a folder",
    }.items():
        message = rf"cannot be written, {told}: .*{name}"
        with pytest.raises(OSError, match=message), replacing(tmp_path / name):
            pytest.fail("the work was done in vain")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_folder_that_is_not_writable_is_named(tmp_path, monkeypatch):
    """Who may do anything finds every folder writable: asked as someone else."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    message = r"cannot be written, its folder is not writable: .*a\.txt"
    with pytest.raises(PermissionError, match=message), replacing(tmp_path / "a.txt"):
        pytest.fail("the work was done in vain")


def test_other_errors_of_the_work_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt"), replacing(tmp_path / "a.txt"):
        (tmp_path / "none.txt").read_text()
    assert list(tmp_path.iterdir()) == []


def test_command_finds_out_before_the_work(made, tmp_path, capsys):
    (tmp_path / "a.csv").mkdir()
    given = (made / "set.npz", "--core", made / "core.json", "F-DRS")
    words = ("evaluate", *given, "--out", tmp_path / "a.csv")
    assert main([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert "rcdrs evaluate: [Errno 21] cannot be written, there is a folder in its place" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"]
