"""The splits of a source through both surfaces."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

import state_processor as sp
from tests import corpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEQUENCES = [
    (case, operator["uid"], state)
    for case in corpus.all_cases("*/operator-state-*-canonical")
    for operator, state in corpus.states_of(case)
    if "sequence_from" in state
]
NEWEST = SEQUENCES[-1:]


@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_as_arrow(case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    table = sp.arrow.read_source_splits(case.snapshot, uid)
    assert table.column_names == ["subtask", "split_id", "from_number", "to_number", "assignment", "version", "raw"]
    assert max(table["to_number"].to_pylist()) == state["sequence_to"]
    with pytest.raises(sp.OptionError, match="connector='flume'"):
        sp.arrow.read_source_splits(case.snapshot, uid, "flume")
    with pytest.raises(sp.NotFoundError, match="no operator 'nobody'"):
        sp.arrow.read_source_splits(case.snapshot, "nobody")
    with pytest.raises(sp.NotFoundError, match="does not have splits; expected a state"):
        sp.arrow.read_source_splits(case.snapshot, "lists")


@pytest.mark.spark
@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_as_data_frame(spark: SparkSession, case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    frame = sp.SavepointReader.read(spark, case.snapshot).read_source_splits(uid)
    assert [(field.name, type(field.dataType)) for field in frame.schema] == [
        ("subtask", IntegerType),
        ("split_id", StringType),
        ("from_number", LongType),
        ("to_number", LongType),
        ("assignment", StringType),
        ("version", IntegerType),
        ("raw", BinaryType),
    ]
    rows = [row.asDict() for row in frame.collect()]
    expected = sp.arrow.read_source_splits(case.snapshot, uid).to_pylist()
    assert sorted(rows, key=repr) == sorted([row | {"raw": bytearray(row["raw"])} for row in expected], key=repr)
    assert max(row["to_number"] for row in rows) == state["sequence_to"]


@pytest.mark.spark
@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_undecoded(spark: SparkSession, case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    reader = sp.SavepointReader.read(spark, case.snapshot)
    raw = {bytes(row.raw) for row in reader.read_source_splits(uid, connector="raw").where("subtask is not null").collect()}
    assert raw == {row["raw"] for row in sp.arrow.read_source_splits(case.snapshot, uid).to_pylist()}
    assert state["kind"] == "OPERATOR_LIST"


@pytest.mark.spark
@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_written_back(spark: SparkSession, tmp_path: Path, case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    before = sp.arrow.read_source_splits(case.snapshot, uid).to_pylist()
    frame = sp.SavepointReader.read(spark, case.snapshot).read_source_splits(uid)
    later = frame.withColumn("from_number", f.col("from_number") + 1000)
    writer = sp.SavepointWriter.from_existing(spark, case.snapshot).with_source_splits(uid, later)
    writer.write(tmp_path / "later")
    after = sp.arrow.read_source_splits(tmp_path / "later", uid).to_pylist()
    place = {row["split_id"]: (row["from_number"] - 1000, row["to_number"]) for row in after}
    assert place == {row["split_id"]: (row["from_number"], row["to_number"]) for row in before}
    assert max(row["to_number"] for row in after) == state["sequence_to"]


@pytest.mark.spark
def test_bootstrapped(spark: SparkSession, tmp_path: Path) -> None:
    offsets = spark.createDataFrame([("orders", 0, 100), ("orders", 1, -2)], "topic string, partition int, starting_offset long")
    writer = sp.SavepointWriter.new(spark, max_parallelism=16)
    writer.with_source_splits("kafka", offsets, connector="kafka").write(tmp_path / "new")
    rows = sp.arrow.read_source_splits(tmp_path / "new", "kafka").to_pylist()
    assert [(r["topic"], r["partition"], r["starting_offset"], r["stopping_offset"], r["assignment"]) for r in rows] == [
        ("orders", 0, 100, None, "ASSIGNED"),
        ("orders", 1, -2, None, "ASSIGNED"),
    ]
    with pytest.raises(sp.InvalidRowError, match="needs 'starting_offset'"):
        writer.with_source_splits("other", offsets.drop("starting_offset"), connector="kafka")


@pytest.mark.spark
def test_times_of_files_survive(spark: SparkSession, tmp_path: Path) -> None:
    schema = "split_id string, path string, offset long, length long, modification_time timestamp, file_size long"
    time = datetime(2024, 2, 29, 12, 30, 0, 250000, tzinfo=UTC)
    files = spark.createDataFrame([("1", "s3://bucket/a.csv", 0, 100, time, 100)], schema)
    sp.SavepointWriter.new(spark).with_source_splits("files", files, connector="file").write(tmp_path / "new")
    (row,) = sp.arrow.read_source_splits(tmp_path / "new", "files").to_pylist()
    assert (row["path"], row["modification_time"], row["hosts"], row["reader_offset"]) == ("s3://bucket/a.csv", time, [], None)
    again = sp.SavepointReader.read(spark, tmp_path / "new").read_source_splits("files")
    sp.SavepointWriter.from_existing(spark, tmp_path / "new").with_source_splits("files", again).write(tmp_path / "again")
    assert sp.arrow.read_source_splits(tmp_path / "again", "files").to_pylist() == [row]
