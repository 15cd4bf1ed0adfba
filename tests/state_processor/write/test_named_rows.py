"""Rows keep the names that users declare from the DataFrame to the bytes, in every place of every kind of state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.applications.sql.session import matching_rows
from state_processor.read.scans import StateRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = sp.Types
FIELDS = (T.STRING(), T.LONG())
XY = T.ROW_NAMED(["x", "y"], FIELDS)
F1_F0 = T.ROW_NAMED(["f1", "f0"], FIELDS)
PLAIN = T.ROW(FIELDS)

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, sql: str) -> DataFrame:
    return spark.sql("SELECT " + sql)


def values(reader: sp.SavepointReader, state: str, column: str = "value", **reading: Any) -> list[Any]:
    return [row[column] for row in reader.read_keyed_state("k", state, **reading).collect()]


def plain(row: Any) -> Any:
    """Rows of Spark's as tuples, at any depth."""
    if isinstance(row, dict):
        return {plain(k): plain(v) for k, v in row.items()}
    return tuple(map(plain, row)) if isinstance(row, tuple) else [plain(r) for r in row] if isinstance(row, list) else row


def test_every_place_of_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """Structs have their fields in another order than the type, and one has the names that positions have, permuted."""
    rows = frame(
        spark,
        """struct(7L AS y, 'k' AS x) AS key, struct(1L AS y, 'a' AS x) AS v, array(struct(2L AS y, 'b' AS x)) AS l,
        map(struct(3L AS y, 'c' AS x), struct(4L AS y, 'd' AS x)) AS m, struct(5L AS f0, 'e' AS f1) AS swapped,
        struct(struct(6L AS y, 'f' AS x) AS inner) AS deep, struct(7L AS y, 'g' AS x) AS inferred,
        map('h', array(struct(8L AS y, 'i' AS x))) AS nested, struct(9L AS y, 'j' AS x) AS timed""",
    )
    states = {
        "v": XY,
        "l": sp.ListState(XY),
        "m": sp.MapState(XY, XY),
        "swapped": F1_F0,
        "deep": T.TUPLE([XY]),
        "nested": sp.MapState(T.STRING(), T.LIST(XY)),
        "timed": sp.ValueState(XY, ttl=True),
    }
    writer = sp.SavepointWriter.new(spark)
    renamed = rows.withColumn("deep", rows.deep.cast("struct<f0:struct<y:bigint,x:string>>")).drop("inferred")
    writer.with_keyed_state("k", renamed, key_type=XY, states=states)
    writer.with_list_state("o", "list", rows.selectExpr("v AS value"), XY)
    writer.with_union_state("o", "union", rows.selectExpr("l AS value"), T.LIST(XY))
    broadcast = rows.selectExpr("key", "swapped AS value")
    writer.with_broadcast_state("o", "broadcast", broadcast, XY, F1_F0)
    writer.with_timers("t", rows.selectExpr("key", "1L AS timestamp"), key_type=XY)
    writer.with_keyed_state("inferred", rows.selectExpr("key", "inferred"))
    writer.write(tmp_path / "new")
    reader = sp.SavepointReader.read(spark, tmp_path / "new")
    found = {name: [plain(v) for v in values(reader, name, flatten=False)] for name in states}
    assert found == {
        "v": [("a", 1)],
        "l": [[("b", 2)]],
        "m": [{("c", 3): ("d", 4)}],
        "swapped": [("e", 5)],
        "deep": [(("f", 6),)],
        "nested": [{"h": [("i", 8)]}],
        "timed": [("j", 9)],
    }
    assert [plain(k) for k in values(reader, "v", "key")] == [("k", 7)]
    assert [plain(r.value) for r in reader.read_list_state("o", "list").collect()] == [("a", 1)]
    assert [plain(r.value) for r in reader.read_union_state("o", "union").collect()] == [[("b", 2)]]
    assert [plain(tuple(r)) for r in reader.read_broadcast_state("o", "broadcast").collect()] == [(("k", 7), ("e", 5))]
    assert [plain(r.key) for r in reader.read_timers("t").collect()] == [("k", 7)]
    inferred = reader.read_keyed_state("inferred", "inferred").collect()  # the type of a struct without one: fields as they come
    assert [plain(tuple(r)) for r in inferred] == [((7, "k"), (7, "g"))]
    named = reader.read_keyed_state("k", "v", schema={"key": XY, "value": XY}).collect()
    assert [(r.key.asDict(), r.value.asDict()) for r in named] == [({"x": "k", "y": 7}, {"x": "a", "y": 1})]
    assert [r.value.asDict() for r in reader.read_keyed_state("k", "swapped", schema={"value": F1_F0}).collect()] == [
        {"f1": "e", "f0": 5}
    ]
    _changed(spark, str(tmp_path / "new"), tmp_path / "changed")


def _changed(spark: SparkSession, base: str, path: Path) -> None:
    """Upserts and deletions: with names where the user gives them, else in the columns that reading gives."""
    types = {"key": XY, "value": XY}
    new = frame(spark, "struct(8L AS y, 'l' AS x) AS key, struct(10L AS y, 'new' AS x) AS value")
    as_read = frame(spark, "struct('m' AS f0, 9L AS f1) AS key, struct('plain' AS f0, 11L AS f1) AS value")
    writer = sp.SavepointWriter.from_existing(spark, base)
    writer.update_keyed_state("k", "timed", new, types=types)
    entries = frame(spark, "struct(7L AS y, 'k' AS x) AS key, struct(3L AS y, 'c' AS x) AS map_key")
    writer.delete_map_entries("k", "m", entries, types={"key": XY, "map_key": XY})
    writer.delete_keys("k", frame(spark, "struct(7L AS y, 'k' AS x) AS key"), "v", key_type=XY)
    writer.update_keyed_state("k", "v", as_read)
    writer.with_keyed_state("k", new.withColumnRenamed("value", "added"), key_type=XY, states={"added": XY})
    writer.write(path)
    reader = sp.SavepointReader.read(spark, path)
    assert [plain(tuple(r)) for r in reader.read_keyed_state("k", "v").collect()] == [(("m", 9), ("plain", 11))]
    assert {plain(tuple(r)) for r in reader.read_keyed_state("k", "timed").collect()} == {
        (("k", 7), ("j", 9)),
        (("l", 8), ("new", 10)),
    }
    assert reader.read_keyed_state("k", "m").collect() == []
    assert [plain(tuple(r)) for r in reader.read_keyed_state("k", "added").collect()] == [(("l", 8), ("new", 10))]


def test_what_is_in_doubt_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.new(spark)
    writer.with_keyed_state("k", frame(spark, "1L AS key, struct('a' AS x, 1L AS y) AS v"), states={"v": XY})
    writer.write(tmp_path / "base")
    swapped = frame(spark, "1L AS key, struct(1L AS f1, 'a' AS f0) AS value")
    named = frame(spark, "1L AS key, struct('a' AS x, 1L AS y) AS value")
    for rows, names in ((swapped, "f1, f0"), (named, "x, y")):
        writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
        with pytest.raises(sp.InvalidRowError) as refused:
            writer.update_keyed_state("k", "v", rows).write(tmp_path / "never")
        message = str(refused.value)
        assert "operator k" in message
        assert "state 'v'" in message
        assert f"column value is a struct of ({names}); the type has the fields (f0, f1)" in message
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
    with pytest.raises(sp.OptionError, match=r"column 'value' is of type ROW<STRING,LONG>, not ROW<x:STRING,y:INT>"):
        writer.update_keyed_state("k", "v", named, types={"value": T.ROW_NAMED(["x", "y"], [T.STRING(), T.INT()])})
    writer.update_keyed_state("k", "v", named, types={"value": XY})
    with pytest.raises(sp.OptionError, match="has keys of type LONG, not ROW"):
        writer.with_keyed_state("k", named, key_type=XY, states={"value": XY})


def test_earlier_rows_have_their_fields_in_the_same_order(spark: SparkSession, tmp_path: Path) -> None:
    """Spark compares structs by position; then the deletion would not find the earlier rows."""
    key = "struct('k' AS x, 7L AS y) AS key"
    writer = sp.SavepointWriter.new(spark).with_keyed_state("k", frame(spark, f"{key}, 1L AS v"), key_type=XY)
    writer.write(tmp_path / "base")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
    writer.update_keyed_state("k", "v", frame(spark, f"{key}, 2L AS value"), types={"key": XY})
    with pytest.raises(sp.InvalidRowError, match=r"fields are \(y, x\), in rows that were given before \(x, y\)"):
        writer.update_keyed_state("k", "v", frame(spark, "struct(7L AS y, 'k' AS x) AS key, 3L AS value"), types={"key": XY})


def test_the_data_source_names_rows(spark: SparkSession, tmp_path: Path) -> None:
    """In new states and in updates, by ``keyType`` and ``valueType``."""
    named = "ROW<x STRING,y LONG>"
    options = {"uid": "k", "state": "v", "keyType": named, "valueType": named}
    rows = frame(spark, "struct(7L AS y, 'k' AS x) AS key, struct(1L AS y, 'a' AS x) AS value")
    rows.write.format("flink-savepoint").mode("append").options(**options).save(str(tmp_path / "new"))
    again = frame(spark, "struct(7L AS y, 'k' AS x) AS key, struct(2L AS y, 'b' AS x) AS value")
    options["base"] = str(tmp_path / "new")
    again.write.format("flink-savepoint").mode("append").options(**options).save(str(tmp_path / "changed"))
    found = sp.SavepointReader.read(spark, tmp_path / "changed").read_keyed_state("k", "v").collect()
    assert [plain(tuple(r)) for r in found] == [(("k", 7), ("b", 2))]


def test_names_of_states_have_dots_and_quotes(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark takes names of columns for paths to fields where it hands rows to workers."""
    rows = frame(spark, "'k' AS key, 1L AS `a.b`, map('m', 2L) AS `c``.``d`")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("k", rows, "key", T.STRING())
    writer.write(tmp_path / "s")
    found = sp.SavepointReader.read(spark, tmp_path / "s").read_keyed_state("k").collect()
    assert [row.asDict() for row in found] == [{"key": "k", "a.b": 1, "c`.`d": {"m": 2}}]
    scan = StateRequest(sp.OperatorIdentifier.for_uid("k"), None, None, None, {}).open_path(tmp_path / "s")
    for where, count in (('"a.b" = 1', 1), ("\"c`.`d\"['m'] = 3", 0)):
        assert matching_rows(scan, where).read_all().num_rows == count
