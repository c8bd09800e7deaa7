"""Data of installed packages: the file that is meant, or an error that says what is there."""

from __future__ import annotations

import hashlib
import sys

import pytest

from rcdrs.experiments.packaged import Packaged

CONTENT = b"day,price\n1990-01-02,1.0\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """`prices` 1.2 is installed, and has one file."""
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices/data.csv").write_bytes(CONTENT)
    (tmp_path / "prices-1.2.dist-info").mkdir()
    (tmp_path / "prices-1.2.dist-info/METADATA").write_text("Name: prices\nVersion: 1.2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path / "prices/data.csv"


@pytest.mark.parametrize("version", ["1.2", "1.1"])
def test_file_is_read_where_it_is_the_one_that_is_meant(package, version):
    """Another version serves if its file is the same."""
    assert Packaged("prices", version, "prices/data.csv", DIGEST).read() == CONTENT


def test_changed_file_is_refused_by_its_hash(package):
    package.write_bytes(CONTENT + b"1990-01-03,1.1\n")
    with pytest.raises(ValueError, match=rf"prices 1.2 has sha256 \w+, expected {DIGEST}") as found:
        Packaged("prices", "1.2", "prices/data.csv", DIGEST).read()
    assert "pip install" in str(found.value)


def test_missing_file_is_refused_by_name(package):
    with pytest.raises(ValueError, match=r"prices 1.2 has no file prices/other.csv, .* 1.3"):
        Packaged("prices", "1.3", "prices/other.csv", DIGEST).read()


def test_missing_package_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no-such-package is not installed, whose file a\.csv"):
        Packaged("no-such-package", "1.0", "a.csv", DIGEST).read()
