"""Types of Flink SQL from SQL text and from Spark's schemas, and that rows keep the names of their fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as st
import pytest

import state_processor as sp
from state_processor.backends.state.column_types import declared_names, with_names
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.support.errors import OptionError
from state_processor.types.flink_types import row_type, sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types


@pytest.mark.parametrize(
    ("given", "sql"),
    [
        (st.LongType(), "BIGINT"),
        (st.DecimalType(20, 4), "DECIMAL(20, 4)"),
        (st.TimestampType(), "TIMESTAMP_LTZ(6)"),
        (st.TimestampNTZType(), "TIMESTAMP(6)"),
        (st.VarcharType(5), "VARCHAR(5)"),
        (st.ArrayType(st.DateType(), False), "ARRAY<DATE NOT NULL>"),
        (st.MapType(st.StringType(), st.BinaryType()), "MAP<STRING NOT NULL, BYTES>"),
        (st.StructType([st.StructField("a b", st.ByteType(), False)]), "ROW<`a b` TINYINT NOT NULL>"),
        ("double precision not null", "DOUBLE NOT NULL"),
    ],
)
def test_types(given: Any, sql: str) -> None:
    assert str(sql_type(given)) == sql


@pytest.mark.parametrize(
    ("fields", "sql"),
    [
        ("id BIGINT NOT NULL, name STRING", "ROW<`id` BIGINT NOT NULL, `name` STRING>"),
        ("ROW<id BIGINT>", "ROW<`id` BIGINT>"),
        (" row (id BIGINT 'what it''s for') ", "ROW<`id` BIGINT '...'>"),
        ("rowid BIGINT, `a ``b` INT", "ROW<`rowid` BIGINT, `a ``b` INT>"),
        ({"id": "BIGINT", "at": st.DateType()}, "ROW<`id` BIGINT, `at` DATE>"),
        (["INT", "ARRAY<STRING>"], "ROW<`f0` INT, `f1` ARRAY<STRING>>"),
        (st.StructType([st.StructField("id", st.LongType())]), "ROW<`id` BIGINT>"),
        ([], "ROW<>"),
    ],
)
def test_rows(fields: Any, sql: str) -> None:
    assert str(row_type(fields)) == sql
    assert str(T.ROW_DATA(fields)) == sql


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (5, "5 is not a type of Flink SQL"),
        (st.LongType(), "BIGINT is not a row"),
        (st.CalendarIntervalType(), "is not a type of Flink SQL"),
        ("id", "'>' is not a type of Flink SQL"),
        ("id BIGINT extra", "expected '>'"),
        ("id DECIMAL(39, 0)", "precision 1 to 38"),
        ("at TIMESTAMP(10)", "more than nine"),
        ("<" * 5, "expected the name of a field"),
        ("a " + "ARRAY<" * 300 + "INT" + ">" * 300, "more than 100 types nested in one another"),
    ],
)
def test_no_types(fields: Any, message: str) -> None:
    with pytest.raises(sp.StateProcessorError, match=message):
        T.ROW_DATA(fields)


def test_other_types_of_sql() -> None:
    assert str(T.ARRAY_DATA("INT NOT NULL")) == "ARRAY<INT NOT NULL>"
    assert str(T.MAP_DATA(st.StringType(), "ROW<a INT>")) == "MAP<STRING, ROW<`a` INT>>"
    assert [str(T.SQL_DATA(t)) for t in ("STRING", "DECIMAL(5, 2)", "TIMESTAMP_LTZ(3)", "DATE", "BYTES")] == [
        *("STRING", "DECIMAL(5, 2)", "TIMESTAMP(3)", "DATE", "BYTES")
    ]


def test_restored_rows_are_told_their_names() -> None:
    """Key, timer, and rows in tuples, lists, maps and time-to-live; a state without rows does not have names."""
    key, row = T.ROW_DATA("user BIGINT"), T.ROW_DATA("name STRING, at TIMESTAMP(3)")
    space = VoidNamespaceSerializer()
    for value in (
        TtlSerializer.of(T.TUPLE([row, T.INT()])),
        T.LIST(row),
        T.MAP(key, T.MAP(T.STRING(), row)),
        TimerSerializer(key, space),
    ):
        written = StateDescription.of("s", "VALUE", key, space, None, value)
        restored = StateDescription.of("s", "VALUE", *(_restored(t) for t in (key, space)), None, _restored(value))
        assert "f0" in str(restored.value)
        named = with_names(restored, declared_names(written))
        assert (str(named.key), str(named.value)) == (str(key), str(value))
        assert "f0" in str(restored.value)
        with pytest.raises(OptionError, match=r"names .+ do not match the rows"):
            with_row_names(T.TUPLE([key, key]), row_names(T.ROW_DATA("other BIGINT")))
    assert row_names(T.LIST(T.STRING())) == row_names(None) == ()


@pytest.mark.spark
def test_fields_are_written_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever their order in the DataFrame; in keyed state as in operator state, and as keys of an upsert."""
    row, path, changed = T.ROW_DATA("name STRING, id BIGINT"), str(tmp_path / "new"), str(tmp_path / "changed")
    people = spark.createDataFrame([(1, "a"), (2, None)], "id bigint, name string").selectExpr("struct(id, name) AS key")
    writer = sp.SavepointWriter.new(spark, max_parallelism=128)
    writer.with_keyed_state("k", people.selectExpr("key", "array(key) AS l"), "key", row, {"l": sp.ListState(row)})
    writer.with_list_state("s", "rows", people.selectExpr("key AS value"), row)
    writer.write(path)
    reader = sp.SavepointReader.read(spark, path)
    assert {tuple(r.value) for r in reader.read_list_state("s", "rows").collect()} == {("a", 1), (None, 2)}
    assert [tuple(r.list_value) for r in reader.read_keyed_state("k", "l", keys=[{"f0": None, "f1": 2}]).collect()] == [(None, 2)]
    writer = sp.SavepointWriter.from_existing(spark, path)
    upsert = "SELECT struct(CAST(NULL AS STRING) AS f0, 2L AS f1) AS key, array(struct('new' AS f0, 5L AS f1)) AS value"
    writer.update_keyed_state("k", "l", spark.sql(upsert))
    writer.write(changed)
    found = sp.SavepointReader.read(spark, changed).read_keyed_state("k", "l").collect()
    assert {(tuple(r.key), tuple(r.list_value)) for r in found} == {(("a", 1), ("a", 1)), ((None, 2), ("new", 5))}


def _restored(serializer: Any) -> Any:
    return read_serializer_snapshot(serializer.snapshot().to_bytes()).restore_serializer()
