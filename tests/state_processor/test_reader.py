from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, LongType, StringType, StructType

import state_processor as sp
from state_processor import OperatorIdentifier, SavepointReader, Types
from tests.state_processor.samples import (
    FIXTURES,
    ORDERS,
    ORDERS_PATH,
    TYPES_PATH,
    WINDOWS,
    WINDOWS_PATH,
    expected_state,
    expected_values,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def orders(spark: SparkSession) -> SavepointReader:
    return SavepointReader.read(spark, ORDERS_PATH)


def test_tables(orders: SavepointReader) -> None:
    assert orders.operators().count() == 5
    assert {r.state_name for r in orders.states().where("operator_uid = 'catalog'").collect()} == {
        "offsets",
        "pending",
        "discounts",
    }
    assert orders.handles().where("slot = 'managed keyed'").count() == 2


def test_keyed_state(orders: SavepointReader) -> None:
    rows = orders.read_keyed_state("orders", "total").collect()
    assert {r.key: r.value for r in rows} == expected_values(ORDERS, "orders", "total")


def test_by_hash(orders: SavepointReader) -> None:
    operator = OperatorIdentifier.for_uid_hash(OperatorIdentifier.for_uid("orders").uid_hash)
    rows = orders.read_keyed_state(operator, "history", flatten=False, keys=["anders"]).collect()
    assert [tuple(r) for r in rows] == [("anders", expected_values(ORDERS, "orders", "history")["anders"])]


def test_text_that_is_a_hash_is_one(orders: SavepointReader, spark: SparkSession) -> None:
    uid_hash = OperatorIdentifier.for_uid("orders").uid_hash
    assert orders.read_keyed_state(uid_hash, "total").count() == 50
    assert spark.read.format("flink-savepoint").option("uid", uid_hash.upper()).load(ORDERS_PATH).count() == 50
    with pytest.raises(sp.NotFoundError, match=f"no operator '{OperatorIdentifier.for_uid(uid_hash).uid_hash}'"):
        orders.read_keyed_state(OperatorIdentifier.for_uid(uid_hash), "total")


def test_an_operator_without_state_is_said_to_have_none(orders: SavepointReader) -> None:
    with pytest.raises(sp.NotFoundError, match="operator 'only-orders' has no state in this snapshot"):
        orders.read_keyed_state("only-orders")
    with pytest.raises(sp.NotFoundError, match="operator 'steps' has no state"):
        orders.read_timers("steps")


def test_whole_operator(orders: SavepointReader) -> None:
    frame = orders.read_keyed_state("orders", metadata=True)
    assert {*frame.columns} == {
        "key",
        "total",
        "profile",
        "history",
        "items",
        "session",
        "_key_group",
        "_subtask",
        "_last_access",
    }
    row = frame.where("key = 'amelia'").first()
    assert row is not None
    assert (row.total, row.history, row["items"]) == (3950, ["1 × teapot"], {"teapot": 1})
    assert row.profile.address.city == "Lisbon"


def test_expired(orders: SavepointReader) -> None:
    kept = orders.read_keyed_state("orders", "session", ttl="PT1H", as_of=0).count()
    assert kept == len(expected_values(ORDERS, "orders", "session"))
    assert orders.read_keyed_state("orders", "session", ttl="PT1H", as_of="2999-01-01T00:00:00Z").count() == 0


@pytest.mark.parametrize(
    "schema",
    [
        "key STRING, value DECIMAL(12,1)",
        StructType().add("key", StringType()).add("value", DecimalType(12, 1)),
        pa.schema([("key", pa.string()), ("value", pa.decimal128(12, 1))]),
        {"value": DecimalType(12, 1)},
        {"value": pa.decimal128(12, 1)},
    ],
    ids=["ddl", "spark", "arrow", "spark types", "arrow types"],
)
def test_schemas(orders: SavepointReader, schema: Any) -> None:
    rows = orders.read_keyed_state("orders", "total", schema=schema, keys=["amelia"]).collect()
    assert [tuple(r) for r in rows] == [("amelia", Decimal("3950.0"))]


@pytest.mark.parametrize("keys", ["amelia", b"amelia", 7, {"amelia": 1}])
def test_keys_that_are_no_list(orders: SavepointReader, keys: Any) -> None:
    for read in (orders.read_keyed_state, orders.read_window_state, orders.read_timers):
        with pytest.raises(sp.OptionError, match=r"keys=.*expected a list of keys"):
            read("orders", keys=keys)


def test_columns(orders: SavepointReader, spark: SparkSession) -> None:
    read = orders.read_keyed_state("orders", columns=["profile.address.zip", "key", "profile.tier"])
    assert read.schema.simpleString() == "struct<profile:struct<address:struct<zip:int>,tier:string>,key:string>"
    whole = orders.read_keyed_state("orders").selectExpr("key", "profile.address.zip", "profile.tier").collect()
    assert sorted(read.selectExpr("key", "profile.address.zip", "profile.tier").collect()) == sorted(whole)
    source = spark.read.format("flink-savepoint").option("uid", "orders").option("columns", "key,profile.tier").load(ORDERS_PATH)
    assert sorted(source.selectExpr("key", "profile.tier").collect()) == sorted((row.key, row.tier) for row in whole)
    with pytest.raises(sp.OptionError, match=r"columns: 'profile\.teir': .* did you mean 'profile\.tier'"):
        orders.read_keyed_state("orders", columns=["profile.teir"])


def test_keys_of_a_data_frame(orders: SavepointReader, spark: SparkSession) -> None:
    keys = spark.createDataFrame([("amelia",), ("nobody",), ("anders",)], "key string")
    assert sorted(orders.read_keyed_state("orders", "total", keys=keys).collect()) == [("amelia", 3950), ("anders", 14430)]
    assert {row.key for row in orders.read_keyed_state("orders", keys=keys.where("key = 'anders'")).collect()} == {"anders"}
    with pytest.raises(sp.OptionError, match="expected the column 'key', found 'name'; select it"):
        orders.read_keyed_state("orders", "total", keys=keys.withColumnRenamed("key", "name"))
    with pytest.raises(sp.OptionError, match="column 'key' is of Spark type bigint"):
        orders.read_timers("orders", keys=spark.range(1).withColumnRenamed("id", "key"))


def test_keys_of_another_type(orders: SavepointReader) -> None:
    with pytest.raises(sp.OptionError, match="state 'total' has keys of type STRING, found 1 of type int"):
        orders.read_keyed_state("orders", "total", keys=[1])
    assert orders.read_keyed_state("orders", "total", keys=[]).collect() == []


def test_schema_of_types(orders: SavepointReader, spark: SparkSession) -> None:
    frame = SavepointReader.read(spark, TYPES_PATH).read_keyed_state("types", "int", schema={"value": LongType()})
    assert [f.dataType.simpleString() for f in frame.schema] == ["int", "bigint"]
    assert frame.schema["value"].dataType == LongType()
    assert frame.where("key = 0").collect() == [(0, -(2**31))]


def test_windows(spark: SparkSession) -> None:
    reader = SavepointReader.read(spark, WINDOWS_PATH)
    rows = (
        reader.read_window_state("session-process", flatten=False)
        .selectExpr("key", "unix_millis(window.start) AS start", "value")
        .collect()
    )
    expected = expected_state(WINDOWS, "session-process", "window-contents")["entries"]
    assert {(r.key, r.start): [v.amount for v in r.value] for r in rows} == {
        (e["key"], e["namespace"]["start"]): [v["amount"] for v in e["value"]] for e in expected
    }
    timers = reader.read_timers("session-process").where("domain = 'event_time'")
    assert timers.columns == ["key", "window", "timestamp", "fires_at", "domain", "service"]
    found = {(r.key, r.timestamp) for r in timers.collect()}
    assert found == {(e["key"], e["timestamp"]) for e in expected_state(WINDOWS, "session-process", "window-timers")["entries"]}


def test_operator_state(orders: SavepointReader) -> None:
    pending = [r.value for r in orders.read_list_state("catalog", "pending").collect()]
    assert sorted(pending) == expected_state(ORDERS, "catalog", "pending")["entries"]
    offsets = [list(r.value) for r in orders.read_union_state("catalog", "offsets").collect()]
    assert sorted(offsets) == expected_state(ORDERS, "catalog", "offsets")["entries"]
    discounts = {r.key: r.value for r in orders.read_broadcast_state("catalog", "discounts").collect()}
    assert discounts == expected_values(ORDERS, "catalog", "discounts")


def test_a_moved_checkpoint(spark: SparkSession) -> None:
    """An incremental checkpoint lies elsewhere than it was written; its files are found."""
    (path,) = (FIXTURES / "2.3.0" / "orders-rocksdb-incremental").glob("savepoint/*/chk-*")
    reader = SavepointReader.read(spark, path)
    assert reader.path == str(path)
    assert {r.part for r in reader.handles().where("slot = 'managed keyed'").collect()} >= {"metadata", "shared"}
    assert (
        sorted(r.value for r in reader.read_list_state("catalog", "pending").collect())
        == (expected_state(ORDERS, "catalog", "pending")["entries"])
    )


@pytest.mark.parametrize(
    ("state", "new_type", "verdict"),
    [
        ("total", Types.LONG(), "compatible_as_is"),
        ("total", Types.INT(), "incompatible"),
        ("history", Types.LIST(Types.STRING()), "compatible_as_is"),
        ("history", Types.STRING(), "compatible_as_is"),
        ("history", Types.LONG(), "incompatible"),
        ("history", Types.SET(Types.STRING()), "incompatible"),
        ("items", Types.MAP(Types.STRING(), Types.LONG()), "compatible_as_is"),
        ("items", Types.MAP(Types.LONG(), Types.LONG()), "incompatible"),
        ("items", Types.LONG(), "incompatible"),
        ("session", Types.STRING(), "compatible_as_is"),
        ("profile", Types.POJO("io.stateprocessor.interop.Profile", {"name": Types.STRING()}), "compatible_after_migration"),
        ("profile", Types.POJO("io.stateprocessor.interop.Profile", {"name": Types.LONG()}), "incompatible"),
    ],
)
def test_compatibility(orders: SavepointReader, state: str, new_type: Any, verdict: str) -> None:
    assert orders.check_compatibility("orders", state, new_type).verdict.name.lower() == verdict


WRONG: dict[str, tuple[Callable[[SavepointReader], Any], type[Exception], str]] = {
    "operator": (lambda r: r.read_keyed_state("order", "total"), sp.NotFoundError, "Did you mean 'orders'"),
    "state": (lambda r: r.read_keyed_state("orders", "totl"), sp.NotFoundError, "Did you mean 'total'"),
    "kind": (lambda r: r.read_keyed_state("catalog", "pending"), sp.NotFoundError, "read it with read_list_state"),
    "kind of list": (lambda r: r.read_list_state("catalog", "offsets"), sp.NotFoundError, "read it with read_union_state"),
    "nanos": (lambda r: r.read_keyed_state("orders", "total", nanos="round"), sp.OptionError, "nanos='round'"),
    "column": (lambda r: r.read_keyed_state("orders", "total", schema="vale BIGINT"), sp.OptionError, "Did you mean 'value'"),
    "type": (lambda r: r.read_keyed_state("orders", "total", schema="value DATE"), sp.OptionError, "value is bigint, .* to date"),
    "schema": (lambda r: r.read_keyed_state("orders", "total", schema=1), sp.OptionError, "schema=1"),
    "ttl": (lambda r: r.read_keyed_state("orders", "total", ttl="1h", as_of=0), sp.OptionError, "Leave ttl out"),
    "compatibility": (lambda r: r.check_compatibility("orders", "totl", Types.LONG()), sp.NotFoundError, "Did you mean 'total'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_errors_before_anything_is_read(orders: SavepointReader, case: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        call(orders)


def test_no_snapshot(spark: SparkSession) -> None:
    with pytest.raises(sp.NotASnapshotError, match="Snapshots below it"):
        SavepointReader.read(spark, ORDERS)


def test_reader_in_a_notebook(spark: SparkSession) -> None:
    html = sp.SavepointReader.read(spark, ORDERS_PATH)._repr_html_()
    headers = [part.rpartition(">")[2] for part in html.split("</th>")[:-1]]
    assert headers == ["name", "uid", "uid hash", "parallelism", "max parallelism", "size"]
    assert "<td" in html
    assert "bc4197a480c92c793190a9f8c0afc54c" in html
