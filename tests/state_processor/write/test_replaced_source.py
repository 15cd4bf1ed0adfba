"""A source savepoint that is replaced while a new one is prepared or written: nothing is written.

Its replacement has the same operators, states and types; only the constants of an enum are in another order. Bytes that were made
for the one mean other values in the other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import state_processor as sp
from tests.state_processor.samples import FIXTURES
from tests.state_processor.written_checkpoints import UID, take, take_regional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T: Final = sp.Types
ROWS: Final = [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]
SCHEMA: Final = pa.schema([("key", pa.string()), ("value", pa.string())])
ENDED: Final = "was replaced or removed since it was opened"
CONSTANTS: Final = (["A", "B"], ["B", "A"])
FORMATS: Final[dict[str, dict[str, Any]]] = {
    "canonical": {},
    "copied tables": {"format": "native", "backend": "rocksdb"},
    "shared tables": {"format": "native", "backend": "rocksdb", "share_files": True},
}


def savepoint(path: Path, constants: list[str], **format_: Any) -> Path:
    """Write a savepoint with keyed state of an enum, and operator state."""
    states = {"color": sp.ValueState(T.ENUM("com.acme.Color", constants))}
    rows = [{"key": row["key"], "color": row["value"]} for row in ROWS]
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("paint", rows, states=states)
    writer.with_list_state("sink", "pending", [{"value": "x"}]).write(path, **format_)
    return path


@pytest.fixture(params=FORMATS)
def format_(request: pytest.FixtureRequest) -> dict[str, Any]:
    return FORMATS[request.param]


class Sources:
    """A source savepoint, and another that takes its place."""

    def __init__(self, directory: Path, **format_: Any) -> None:
        format_ = {name: value for name, value in format_.items() if name != "share_files"}
        self.base, self._next = (savepoint(directory / f"base{i}", c, **format_) for i, c in enumerate(CONSTANTS))

    def replace(self) -> None:
        """Put the other savepoint in the place of the source savepoint."""
        shutil.rmtree(self.base)
        shutil.copytree(self._next, self.base)


def values(path: Path) -> dict[str, str]:
    table = sp.arrow.read_state(path, "paint", "color").read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def refused(act: Callable[[], Any], target: Path) -> None:
    with pytest.raises(sp.WriteError, match=ENDED):
        act()
    assert not (target / "_metadata").exists()


CHANGES: Final[dict[str, Callable[[sp.arrow.SavepointWriter], Any]]] = {
    "nothing": lambda writer: writer,
    "update": lambda writer: writer.update_keyed_state("paint", "color", ROWS[:1]),
    "delete": lambda writer: writer.delete_keys("paint", [{"key": "a"}]),
    "rename": lambda writer: writer.change_operator_identifier("paint", "paint-2"),
    "remove": lambda writer: writer.remove_operator("sink"),
    "rescale": lambda writer: writer.with_max_parallelism(64),
    "time-to-live": lambda writer: writer.with_ttl("paint", "color"),
    "migrate": lambda writer: writer.migrate("2.3"),
    "list": lambda writer: writer.with_list_state("sink", "pending", [{"value": "y"}]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_that_writes_later(change: str, format_: dict[str, Any], tmp_path: Path) -> None:
    sources = Sources(tmp_path, **format_)
    writer = sp.arrow.SavepointWriter.from_existing(sources.base)
    CHANGES[change](writer)
    sources.replace()
    refused(lambda: writer.write(tmp_path / "new", **format_), tmp_path / "new")


def replacing(sources: Sources, rows: pa.Table) -> pa.RecordBatchReader:
    """Rows whose first batch replaces the source savepoint."""

    def batches() -> Iterator[pa.RecordBatch]:
        sources.replace()
        yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def test_during_the_write(format_: dict[str, Any], tmp_path: Path) -> None:
    sources = Sources(tmp_path, **format_)
    writer = sp.arrow.SavepointWriter.from_existing(sources.base)
    writer.with_keyed_state("other", replacing(sources, pa.Table.from_pylist(ROWS, SCHEMA)))
    with pytest.raises((sp.WriteError, sp.MissingFileError)):
        writer.write(tmp_path / "new", **format_)
    assert not (tmp_path / "new" / "_metadata").exists()


def test_during_the_write_with_all_files_in_place(tmp_path: Path) -> None:
    """Files of the first source savepoint remain beside those of the second one."""
    sources = Sources(tmp_path)
    writer = sp.arrow.SavepointWriter.from_existing(sources.base)

    def batches() -> Iterator[pa.RecordBatch]:
        shutil.copytree(sources._next, sources.base, dirs_exist_ok=True)
        yield pa.RecordBatch.from_pylist(ROWS, SCHEMA)

    writer.update_keyed_state("paint", "color", pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    refused(lambda: writer.write(tmp_path / "new"), tmp_path / "new")


AGAIN: Final[dict[str, Callable[[sp.arrow.SavepointWriter], Any]]] = {
    "evolve": lambda writer: writer.evolve_state("paint", "color", T.ENUM("com.acme.Color", ["A", "B", "C"])),
    "time-to-live": CHANGES["time-to-live"],
}


@pytest.mark.parametrize("change", AGAIN)
def test_a_change_that_reads_the_source_again(change: str, tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    writer = sp.arrow.SavepointWriter.from_existing(sources.base)
    sources.replace()
    with pytest.raises(sp.WriteError, match=ENDED):
        AGAIN[change](writer)


def test_a_source_that_was_removed(tmp_path: Path) -> None:
    base = savepoint(tmp_path / "base", CONSTANTS[0])
    writer = sp.arrow.SavepointWriter.from_existing(base).update_keyed_state("paint", "color", ROWS[:1])
    shutil.rmtree(base)
    refused(lambda: writer.write(tmp_path / "new"), tmp_path / "new")


def test_the_same_source_copied_back(format_: dict[str, Any], tmp_path: Path) -> None:
    """Its content decides, not the time of its files."""
    base = Sources(tmp_path, **format_).base
    writer = sp.arrow.SavepointWriter.from_existing(base).update_keyed_state("paint", "color", [{"key": "a", "value": "B"}])
    shutil.copytree(base, tmp_path / "backup")
    shutil.rmtree(base)
    shutil.copytree(tmp_path / "backup", base)
    os.utime(base / "_metadata", (1, 1))
    writer.write(tmp_path / "new", **format_)
    assert values(tmp_path / "new") == {"a": "B", "b": "B"}


def test_an_erasure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from state_processor.applications.erasing import erasure

    sources = Sources(tmp_path)
    prepare = erasure.Erasure.prepare

    def prepared(self: erasure.Erasure) -> None:
        prepare(self)
        sources.replace()

    monkeypatch.setattr(erasure.Erasure, "prepare", prepared)
    refused(lambda: sp.erase(sources.base, tmp_path / "new", remove="keys", key="a"), tmp_path / "new")


def test_a_query_migration_reads_the_source_that_was_opened(tmp_path: Path) -> None:
    """Its rows are read with other options, from a source savepoint that is opened again."""
    base = Path(shutil.copytree(FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint", tmp_path / "base"))
    build = sp.arrow.SavepointWriter.from_existing(base)._build
    assert build.open_source(build.access).digest == build.snapshot.digest  # type: ignore[union-attr]
    shutil.copy(FIXTURES / "1.20.5" / "orders-hashmap-canonical" / "savepoint" / "_metadata", base / "_metadata")
    with pytest.raises(sp.WriteError, match=ENDED):
        build.open_source(build.access)


def replaced_by_rows(spark: SparkSession, sources: Sources) -> DataFrame:
    """Rows of Spark whose evaluation replaces the source savepoint."""
    base, following = str(sources.base), str(sources._next)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            shutil.rmtree(base, ignore_errors=True)
            shutil.copytree(following, base, dirs_exist_ok=True)
            yield pa.RecordBatch.from_pylist(ROWS, SCHEMA)

    return spark.range(1, numPartitions=1).mapInArrow(rows, "key string, value string")


@pytest.mark.spark
def test_the_sink_encodes_and_commits_with_the_same_source(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    sources, target = Sources(tmp_path), tmp_path / "new"
    sink = replaced_by_rows(spark, sources).write.format("flink-savepoint").mode("append")
    sink = sink.options(uid="paint", state="color", base=str(sources.base))
    refused(lambda: sink.save(str(target)), target)


@pytest.mark.spark
@pytest.mark.one_engine("the rows are evaluated by Spark, and replace the source savepoint")
def test_a_writer_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    sources, target = Sources(tmp_path), tmp_path / "new"
    writer = sp.SavepointWriter.from_existing(spark, sources.base)
    writer.with_keyed_state("other", replaced_by_rows(spark, sources))
    with pytest.raises((sp.WriteError, sp.MissingFileError)):
        writer.write(target)
    assert not (target / "_metadata").exists()


@pytest.mark.spark
@pytest.mark.one_engine("the change reads rows of Spark")
def test_a_writer_of_spark_that_reads_the_source_again(spark: SparkSession, tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    writer = sp.SavepointWriter.from_existing(spark, sources.base)
    sources.replace()
    with pytest.raises(sp.WriteError, match=ENDED):
        writer.with_ttl("paint", "color")


def test_uids_are_read_once(tmp_path: Path) -> None:
    """A file with uids that is removed after the writer was opened: changes that open the source savepoint again know them."""
    uids = tmp_path / "uids.txt"
    uids.write_text("orders\ncatalog\n")
    source = FIXTURES / "1.20.5" / "orders-hashmap-canonical" / "savepoint"
    writer = sp.arrow.SavepointWriter.from_existing(source, uids=str(uids))
    uids.unlink()
    writer.with_ttl("orders", "total").write(tmp_path / "new")
    assert "orders" in sp.arrow.operators(tmp_path / "new", uids=["orders"])["operator_uid"].to_pylist()


@pytest.mark.spark
def test_the_sink_reads_uids_once(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    uids = tmp_path / "uids.txt"
    uids.write_text("orders\ncatalog\n")
    path = str(uids)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            Path(path).unlink(missing_ok=True)
            yield pa.RecordBatch.from_pylist([{"key": "amelia", "value": 1}])

    frame = spark.range(1, numPartitions=1).mapInArrow(rows, "key string, value long")
    source = FIXTURES / "1.20.5" / "orders-hashmap-canonical" / "savepoint"
    sink = frame.write.format("flink-savepoint").mode("append")
    sink.options(uid="orders", state="total", base=str(source), uids=path).save(str(tmp_path / "new"))
    totals = sp.arrow.read_state(tmp_path / "new", "orders", "total", uids=["orders"], keys=["amelia"]).read_all()
    assert totals["value"].to_pylist() == [1]


def test_the_summary_names_a_source_that_mixes_several_times(tmp_path: Path) -> None:
    """A regional checkpoint: the new savepoint has values of both times."""
    for number in (1, 2):
        take(tmp_path, number, {"amelia": number})
    mixed = take_regional(tmp_path, 2, earlier=1)
    expected = f"checkpoint 2 in {mixed} mixes several times: 1 of 2 subtasks of operator 'orders' have the state of checkpoint 1"
    updated = sp.arrow.SavepointWriter.from_existing(mixed).update_keyed_state(UID, "total", [{"key": "amelia", "value": 5}])
    summary = updated.write(tmp_path / "updated")
    (note,) = summary.mixed_times
    assert note.startswith(expected)
    assert f"C{expected[1:]}" in str(summary)
    copied = sp.arrow.SavepointWriter.new().copy_operator(mixed, UID).write(tmp_path / "copied")
    assert copied.mixed_times == summary.mixed_times
    removed = sp.arrow.SavepointWriter.from_existing(mixed).remove_operator(UID).write(tmp_path / "removed")
    assert removed.mixed_times == ()
