"""State whose values Kryo writes, from DataFrames and back, for both major versions of Flink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from state_processor.serializers import register_kryo_class
from state_processor.support.errors import InvalidRowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
TEXTS = T.KRYO("java.util.List<java.lang.String>")
COUNTS = T.KRYO("java.util.Map<java.lang.String, java.lang.Long>")
BASKET = T.KRYO("com.acme.Basket")


@pytest.fixture(autouse=True)
def _classes(own_registrations: None) -> None:
    register_kryo_class("com.acme.Basket", {"owner": "java.lang.String", "cents": "long", "day": "java.time.LocalDate"})


@pytest.mark.spark
@pytest.mark.parametrize("version", ["1.20", "2.3"])
def test_columns_become_objects(spark: SparkSession, tmp_path: Path, version: str) -> None:
    rows = spark.sql(
        """SELECT 'k' AS key, named_struct('owner', 'Bela', 'cents', 5L, 'day', date'2024-02-29') AS basket,
           array('a', NULL) AS texts, map('one', 1L) AS counts, '{"a": ["b", 0.5]}' AS untyped, array(array('x')) AS lists"""
    )
    states = {
        "basket": sp.ValueState(BASKET),
        "texts": sp.ValueState(TEXTS, ttl=True),
        "counts": sp.ValueState(T.POJO("com.acme.Counts", {"counts": COUNTS})),
        "untyped": sp.ValueState(T.KRYO("java.util.Map")),
        "lists": sp.ListState(TEXTS),
    }
    writer = sp.SavepointWriter.new(spark, 128, version)
    writer.with_keyed_state(
        "op",
        rows.selectExpr("*", "named_struct('counts', counts) AS c").drop("counts").withColumnRenamed("c", "counts"),
        "key",
        T.STRING(),
        states,
    )
    writer.with_list_state("op", "listed", spark.sql("SELECT array('l') AS value"), TEXTS)
    writer.with_broadcast_state("op", "rules", spark.sql("SELECT 1 AS key, map('r', 2L) AS value"), T.INT(), COUNTS)
    writer.write(tmp_path / "savepoint")

    reader = sp.SavepointReader.read(spark, tmp_path / "savepoint")

    def value(state: str) -> object:
        (row,) = reader.read_keyed_state("op", state, flatten=False).toArrow().to_pylist()
        return row["value"]

    assert json.dumps(value("basket"), default=str) == '{"owner": "Bela", "cents": 5, "day": "2024-02-29"}'
    assert value("texts") == '["a", null]'
    assert value("counts") == {"counts": '{"one": 1}'}
    assert value("untyped") == '{"a": ["b", 0.5]}'
    assert value("lists") == ['["x"]']
    assert [row.value for row in reader.read_list_state("op", "listed").collect()] == ['["l"]']
    assert [tuple(row) for row in reader.read_broadcast_state("op", "rules").collect()] == [(1, '{"r": 2}')]

    changed = reader.read_keyed_state("op", "basket").selectExpr("'new' AS key", "value")
    again = sp.SavepointWriter.from_existing(spark, tmp_path / "savepoint").update_keyed_state("op", "basket", changed)
    again.write(tmp_path / "again")
    baskets = sp.SavepointReader.read(spark, tmp_path / "again").read_keyed_state("op", "basket").collect()
    assert sorted((row.key, row.value.cents) for row in baskets) == [("k", 5), ("new", 5)]


@pytest.mark.spark
def test_updates_of_a_store_read_the_entries_that_they_replace(spark: SparkSession, tmp_path: Path) -> None:
    """Values that Kryo wrote stay unchanged: the snapshot does not contain the class of their numbers."""
    native = {"format": "native", "backend": "rocksdb"}
    rows = spark.sql(
        """SELECT concat('key ', id) AS key, named_struct('n', id, 'counts', map('one', id)) AS pojo,
           map('a', named_struct('n', id, 'counts', map('two', id))) AS pojos FROM range(500)"""
    )
    type_ = T.POJO("com.acme.Counts", {"n": T.LONG(), "counts": COUNTS})
    states = {"pojo": sp.ValueState(type_), "pojos": sp.MapState(T.STRING(), type_, ttl=True)}
    sp.SavepointWriter.new(spark).with_keyed_state("op", rows, "key", T.STRING(), states).write(tmp_path / "base", **native)
    reader = sp.SavepointReader.read(spark, tmp_path / "base")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
    pojo = reader.read_keyed_state("op", "pojo").where("value.n < 3")
    writer.update_keyed_state("op", "pojo", pojo.selectExpr("key", "named_struct('n', -1L, 'counts', value.counts) AS value"))
    pojos = reader.read_keyed_state("op", "pojos").where("map_value.n < 2")
    changed = "named_struct('n', -2L, 'counts', map_value.counts) AS map_value"
    writer.update_keyed_state("op", "pojos", pojos.selectExpr("key", "map_key", changed))
    summary = writer.write(tmp_path / "patched", **native)
    assert summary.entries == 5

    def values(path: Path, state: str, column: str) -> dict[str, str]:
        found = sp.SavepointReader.read(spark, path).read_keyed_state("op", state).collect()
        return {row.key: f"{row[column].n} {row[column].counts}" for row in found}

    assert values(tmp_path / "patched", "pojo", "value") == {
        f"key {i}": f'{-1 if i < 3 else i} {{"one": {i}}}' for i in range(500)
    }
    assert values(tmp_path / "patched", "pojos", "map_value") == {
        f"key {i}": f'{-2 if i < 2 else i} {{"two": {i}}}' for i in range(500)
    }


@pytest.mark.spark
def test_numbers_of_unknown_class_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("""SELECT 'k' AS key, '{"a": 1}' AS untyped""")
    writer = sp.SavepointWriter.new(spark, 128, "2.3")
    writer.with_keyed_state("op", rows, "key", T.STRING(), {"untyped": sp.ValueState(T.KRYO("java.util.Map"))})
    with pytest.raises(InvalidRowError, match=r"state 'untyped', key 'k'.* may be an Integer or a Long: give type arguments"):
        writer.write(tmp_path / "savepoint")
