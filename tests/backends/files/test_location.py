"""Paths as users give them, and errors of storage that name the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.backends.files import location
from state_processor.backends.files.location import Location, in_short
from state_processor.backends.files.storage import Storage
from state_processor.support.errors import StateProcessorError


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


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("abfss://c@account.dfs.core.windows.net/s", {}, r"no file system for abfss:// .*; install it: pip install adlfs$"),
        ("s4://bucket/s", {}, r"no file system for s4:// .*; did you mean s3://\?$"),
        ("nosuch://host/s", {}, "; known are local paths, .*schemes of installed fsspec packages$"),
        ("dbfs:/s", {}, "'instance' and 'token'.*; on Databricks pass /dbfs/"),
        ("hdfs://nowhere/s", {}, "cannot be reached: .*; set JAVA_HOME to a JDK, HADOOP_HOME to a Hadoop client"),
        ("s3:/bucket/s", {}, "; check the bucket: s3://BUCKET/PATH$"),
        (
            "s3://bucket/s",
            {"region": "eu", "acces_key": "k"},
            r"does not have a setting 'acces_key'; did you mean 'access_key'\?$",
        ),
        ("s3://bucket/s", {"region": "eu", "access_key": "k"}, "; set both in storage_options, or neither$"),
        ("s3://bucket/s", {"endpoint_override": "localhost:1", "anonymous": "true"}, "; check endpoint_override and region in "),
        ("gs://bucket/s", {"projet": "p"}, r"does not have a setting 'projet'; did you mean 'project_id'\?$"),
    ],
)
def test_storage_that_can_not_be_reached_comes_with_what_to_do(url, options, message, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StateProcessorError, match=message) as failure:
        Storage(options).is_file(url)
    assert len(str(failure.value)) < 400
    assert "\n" not in str(failure.value)


def test_long_errors_of_clients_are_shortened():
    assert in_short("Unable to load libjvm\ndlopen(/usr/lib/libjvm.so) failed\n") == "Unable to load libjvm"
    assert len(in_short("x" * 1000)) < 200
