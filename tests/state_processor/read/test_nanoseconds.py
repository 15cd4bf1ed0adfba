"""Reads of types that declare nanoseconds are refused before a task meets one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.staging import Staging
from state_processor.read.scans import refuse_nanoseconds
from state_processor.serializers.decode_options import ColumnType
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop.rewriting import write_keyed

T = sp.Types
TIMES = {"nine": T.ROW_DATA("t TIMESTAMP(9)"), "six": T.ROW_DATA("t TIMESTAMP(6)"), "instant": T.INSTANT()}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Values of whole microseconds at the key 1, of nanoseconds at the key 2 where the type has them."""
    target = tmp_path_factory.mktemp("nanos") / "savepoint"
    whole, finer = "2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000000001"
    rows: dict[str, list[Any]] = {"nine": [{"t": whole}, {"t": finer}], "six": [{"t": whole}], "instant": [whole + "Z"]}
    states = []
    for name, serializer in TIMES.items():
        values = pa.array(rows[name], pa.struct([("t", pa.string())]) if name != "instant" else pa.string())
        batch = pa.RecordBatch.from_pydict({"key": pa.array(range(1, 1 + len(values)), pa.int64()), "value": values})
        states.append((sp.ValueState(serializer).describe(name, T.LONG()), [batch]))
    staging = Staging(str(target), "times")
    staging.prepare()
    handles = write_keyed(staging, operator_id("times"), states, 1, 128)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    commit_savepoint(staging, [new_operator("times", 1, 128, subtasks)])
    return str(target)


def test_declared_ones_are_refused_when_a_read_is_planned(path: str, spark: SparkSession) -> None:
    reader = sp.SavepointReader.read(spark, path)
    expected = r"state 'nine': the type of column 'value.f0' has nanoseconds.*nanos='check'"
    with pytest.raises(sp.UndecodableValueError, match=expected):
        reader.read_keyed_state("times", "nine", nanos="error")
    with pytest.raises(sp.UndecodableValueError, match=r"operator 'times': the type of column 'nine.f0' has nanoseconds"):
        reader.read_keyed_state("times", nanos="error")
    sp.register(spark)
    with pytest.raises(sp.UndecodableValueError, match=r"state 'nine'.*'value\.f0'"):
        spark.read.format("flink-savepoint").option("uid", "times").option("state", "nine").option("nanos", "error").load(path)


def test_each_choice_reads_them(path: str) -> None:
    def read(state: str, **options: Any) -> list[Any]:
        rows = [row for batch in sp.arrow.read_state(path, "times", state, **options) for row in batch.to_pylist()]
        return [row["value"] for row in sorted(rows, key=lambda row: row["key"])]

    assert [v["f0"] for v in read("nine", nanos="string")] == ["2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000000001"]
    assert [v["f0"] for v in read("nine", nanos="truncate")] == [datetime(2024, 1, 1, microsecond=m) for m in (1, 0)]
    assert [v["f0"] for v in read("nine", nanos="check", keys=[1])] == [datetime(2024, 1, 1, microsecond=1)]
    way_out = r"read with nanos='truncate' or nanos='string', or other columns with columns"
    with pytest.raises(sp.UndecodableValueError, match=rf"state 'nine'.*column 'value\.f0': a time has nanoseconds.*{way_out}"):
        read("nine")
    assert [v["f0"] for v in read("six")] == [datetime(2024, 1, 1, microsecond=1)]
    assert [v.microsecond for v in read("instant")] == [1]


def test_every_part_of_a_column_is_named() -> None:
    nanos = ColumnType(pa.timestamp("us"), declares_nanos=True)
    schema = pa.schema([("key", nanos), ("value", pa.map_(pa.string(), pa.list_(pa.struct([("a", nanos), ("b", pa.int32())]))))])
    with pytest.raises(sp.UndecodableValueError, match=r"here: the type of column 'key' and of 'value\.value\.element\.a' has"):
        refuse_nanoseconds(schema, "here")
    refuse_nanoseconds(pa.schema([("key", pa.timestamp("us", tz="UTC"))]), "here")
