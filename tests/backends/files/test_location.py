"""Paths as users give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.backends.files import location
from state_processor.backends.files.location import Location


def test_home_and_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.chdir(tmp_path)
    assert str(Location.given("~/flink/chk-1")) == "/home/ada/flink/chk-1"
    assert str(Location.given("flink/../chk-1")) == f"{tmp_path}/chk-1"
    assert str(Location.given("file:///data/~x")) == "/data/~x"
    assert str(Location.given("s3a://bucket/~/x")) == "s3://bucket/~/x"


def test_a_path_of_databricks_is_where_it_is_mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(location, "_DBFS_MOUNT", str(tmp_path))
    assert str(Location.given("dbfs:/savepoints/s")) == f"{tmp_path}/savepoints/s"
    assert str(Location.given("dbfs:///savepoints/s")) == f"{tmp_path}/savepoints/s"
    monkeypatch.setattr(location, "_DBFS_MOUNT", str(tmp_path / "nowhere"))
    assert str(Location.given("dbfs:/savepoints/s")) == "dbfs:///savepoints/s"
