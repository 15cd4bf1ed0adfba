"""A snapshot that is replaced between two queries: Spark keeps the plan of the first with the DataFrame or view.

The second query has the rows of the new snapshot, or fails and says so; it never has the rows of the old one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

import state_processor as sp
from state_processor.backends.metadata import snapshot_metadata
from state_processor.backends.metadata.snapshot import open_snapshot

pytestmark = pytest.mark.spark

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
ENDED: Final = "has another snapshot than when this read was planned"
T: Final = sp.Types
PLANS_EACH_QUERY: Final = version("pyspark").startswith("4.0.")
"""Whether Spark plans reads of the data source for each query. Later versions keep the plan of the first one."""
OLD: Final = {"a": "A", "b": "B"}
NEW: Final = {"a": "A", "b": "B", "c": "C"}


def written(path: Path, values: dict[str, str], constants: list[str]) -> Path:
    states = {"v": sp.ValueState(T.ENUM("com.acme.Letter", constants))}
    rows = [{"key": key, "v": value} for key, value in values.items()]
    writer = sp.arrow.SavepointWriter.new(flink_version="2.0").with_keyed_state("op", rows, states=states)
    writer.with_list_state("op", "list", [{"value": value} for value in values.values()]).write(path)
    return path


@pytest.fixture(params=["true", "false"], ids=["pushdown", "no pushdown"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    sp.register(session)
    session.conf.set(PUSHDOWN, request.param)
    return session


def _format(session: SparkSession, path: Path) -> DataFrame:
    return session.read.format("flink-savepoint").options(uid="op", state="v").load(str(path))


def _method(session: SparkSession, path: Path) -> DataFrame:
    return sp.SavepointReader.read(session, path).read_keyed_state("op", "v")


def _temporary_view(session: SparkSession, path: Path) -> DataFrame:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced USING `flink-savepoint` OPTIONS (path '{path}', uid 'op', state 'v')")
    return session.table("replaced")


def _views_of_snapshot(session: SparkSession, path: Path) -> DataFrame:
    sp.create_views(session, path)
    return session.table("op_v")


def _list(session: SparkSession, path: Path) -> DataFrame:
    return sp.SavepointReader.read(session, path).read_list_state("op", "list").selectExpr("value AS key", "value")


ENTRIES: Final[dict[str, Callable[[SparkSession, Path], DataFrame]]] = {
    entry.__name__.strip("_").replace("_", " "): entry for entry in (_format, _method, _temporary_view, _views_of_snapshot, _list)
}


def rows(frame: DataFrame) -> dict[str, str]:
    return {row.key: row.value for row in frame.select("key", "value").collect()}


@pytest.mark.parametrize("files", ["gone", "in place"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_query_after_the_snapshot_was_replaced(session: SparkSession, entry: str, files: str, tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    new = written(tmp_path / "new", NEW, ["C", "B", "A"])
    frame = ENTRIES[entry](session, path)
    before = rows(frame)
    assert set(before.values()) == set(OLD.values())
    if files == "gone":
        shutil.rmtree(path)
    shutil.copytree(new, path, dirs_exist_ok=True)
    if PLANS_EACH_QUERY and entry in ("format", "temporary view"):
        assert rows(frame) == NEW
    else:
        with pytest.raises(sp.MissingFileError, match=ENDED):
            frame.count()
    assert set(rows(ENTRIES[entry](session, path)).values()) == set(NEW.values())


def test_a_table_reads_the_new_snapshot(session: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    session.sql("DROP TABLE IF EXISTS replaced_table")
    session.sql(f"CREATE TABLE replaced_table USING `flink-savepoint` OPTIONS (path '{path}', uid 'op', state 'v')")
    assert rows(session.table("replaced_table")) == OLD
    shutil.rmtree(path)
    written(path, NEW, ["C", "B", "A"])
    assert rows(session.table("replaced_table")) == NEW
    shutil.rmtree(path)
    numbers = [{"key": "a", "v": 1}]
    sp.arrow.SavepointWriter.new().with_keyed_state("op", numbers, states={"v": T.LONG()}).write(path)
    with pytest.raises(sp.OptionError, match="value is bigint, which can't be converted to string"):
        session.table("replaced_table").count()
    session.sql("DROP TABLE replaced_table")


def test_tables_about_a_snapshot_are_of_the_new_one(session: SparkSession, tmp_path: Path) -> None:
    """Their reads open the snapshot when they run."""
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    frame = session.read.format("flink-savepoint-metadata").option("table", "states").load(str(path))
    assert {row.state_name: row.value_type for row in frame.collect()}["v"] == "ENUM<com.acme.Letter>"
    shutil.rmtree(path)
    sp.arrow.SavepointWriter.new().with_keyed_state("op", [{"key": "a", "v": 1}], states={"v": T.LONG()}).write(path)
    assert [(row.state_name, row.value_type) for row in frame.collect()] == [("v", "LONG")]


def test_a_difference_whose_snapshot_was_replaced(session: SparkSession, tmp_path: Path) -> None:
    old, new = written(tmp_path / "old", OLD, ["A", "B"]), written(tmp_path / "new", NEW, ["A", "B", "C"])
    frame = sp.diff(session, old, new, "op", "v")
    assert [row.key for row in frame.collect()] == ["c"]
    shutil.copytree(written(tmp_path / "other", NEW, ["C", "B", "A"]), new, dirs_exist_ok=True)
    with pytest.raises(sp.MissingFileError, match=ENDED):
        frame.count()


def test_the_same_snapshot_copied_back_is_read(session: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    frame = _format(session, path)
    assert rows(frame) == OLD
    shutil.move(path, tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", path)
    assert rows(frame) == OLD


def test_a_snapshot_that_was_removed_is_read_as_long_as_its_files_are_there(session: SparkSession, tmp_path: Path) -> None:
    """As of a checkpoint that the job has replaced: files that later checkpoints share stay."""
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    frame = _format(session, path)
    assert rows(frame) == OLD
    (path / "_metadata").unlink()
    if PLANS_EACH_QUERY:
        with pytest.raises(sp.NotASnapshotError):
            frame.collect()
    else:
        assert rows(frame) == OLD


def test_large_metadata_is_compared_by_its_beginning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", OLD, ["A", "B"])
    monkeypatch.setattr(snapshot_metadata, "_BEGINNING", 64)
    opened = open_snapshot(path)
    opened.check_plan()
    content = (path / "_metadata").read_bytes()
    (path / "_metadata").write_bytes(content + b"\0")  # another size
    with pytest.raises(sp.MissingFileError, match=ENDED):
        opened.check_plan()
