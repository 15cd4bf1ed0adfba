"""The state of a sink through both surfaces, on file sinks of real savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

import state_processor as sp
from tests.corpus import FIXTURES
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINKS = str(FIXTURES / "sinks" / "2.3.0")


def test_as_arrow() -> None:
    table = sp.arrow.read_sink_state(SINKS, "rolling")
    assert table.column_names[:6] == ["role", "subtask", "bucket_id", "bucket_path", "creation_time", "file_status"]
    assert table.column_names[-5:] == ["checkpoint_id", "commit_status", "retries", "version", "raw"]
    pending = [row for row in table.to_pylist() if row["file_status"] == "PENDING"]
    assert len(pending) == 4
    uid_hash = sp.OperatorIdentifier.for_uid("rolling").uid_hash
    assert table.equals(sp.arrow.read_sink_state(SINKS, uid_hash, committer="Sink Committer: rolling"))
    with pytest.raises(sp.OptionError, match="connector='flume'"):
        sp.arrow.read_sink_state(SINKS, "rolling", "flume")
    with pytest.raises(sp.NotFoundError, match="is not a sink with state"):
        sp.arrow.read_sink_state(ORDERS_PATH, "orders")


@pytest.mark.spark
def test_written_back(spark: SparkSession, tmp_path: Path) -> None:
    reader = sp.SavepointReader.read(spark, SINKS)
    rolling, opened = reader.read_sink_state("rolling"), reader.read_sink_state("open")
    expected = {(row["role"], row["path"], row["raw"]) for row in sp.arrow.read_sink_state(SINKS, "rolling").to_pylist()}
    assert {(row.role, row.path, bytes(row.raw)) for row in rolling.collect()} == expected
    writer = sp.SavepointWriter.from_existing(spark, SINKS)
    writer.with_sink_state("rolling", rolling.where("role = 'WRITER' OR bucket_id = 'letter=a'"))
    writer.with_sink_state("open", opened.where("file_status = 'IN_PROGRESS' AND subtask = 1"))
    writer.write(tmp_path / "new")
    left = sp.arrow.read_sink_state(tmp_path / "new", "rolling").to_pylist()
    assert [row["bucket_id"] for row in left if row["file_status"] == "PENDING"] == ["letter=a"] * 2
    left = sp.arrow.read_sink_state(tmp_path / "new", "open").to_pylist()
    before = sp.arrow.read_sink_state(SINKS, "open").to_pylist()
    kept = {row["raw"] for row in before if row["role"] == "WRITER" and row["subtask"] == 1}
    assert {row["raw"] for row in left} == kept
    writer = sp.SavepointWriter.from_existing(spark, SINKS)
    with pytest.raises(sp.InvalidRowError, match=r"operator open: .*files can be left out, not changed"):
        writer.with_sink_state("open", opened.where("role = 'WRITER'").withColumn("length", f.lit(1)))
    with pytest.raises(sp.NotFoundError, match="no operator 'nobody'"):
        writer.with_sink_state("nobody", opened)
