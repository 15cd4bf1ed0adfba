from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    DataSourceRegistration,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    Not,
)
from pyspark.sql.types import LongType, StructField, StructType

import state_processor as sp
from state_processor import StateProcessorError, Types, ValueState, arrow, register
from state_processor.backends.metadata import snapshot_metadata as metadata
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read import stored_operator
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, find_operator
from state_processor.options.data_sources import SourceOptions
from state_processor.read.scans import known_states, open_operator
from state_processor.spark.datasource import (
    FlinkSavepointDataSource,
    FlinkSavepointMetadataDataSource,
    KeyFilteringStateReader,
    SavepointStateReader,
    StatePartition,
)
from state_processor.spark.planned_read import grouped
from tests.state_processor.samples import (
    ORDERS,
    ORDERS_PATH,
    TYPES,
    TYPES_PATH,
    expected_values,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, path: str = ORDERS_PATH, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("flink-savepoint").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(path)


def source(**options: str) -> FlinkSavepointDataSource:
    return FlinkSavepointDataSource(options={k.lower(): v for k, v in options.items()} | {"path": ORDERS_PATH})


def plan(
    data_source: FlinkSavepointDataSource, filters: Sequence[Filter] = ()
) -> tuple[SavepointStateReader, list[InputPartition]]:
    """What Spark does on the driver."""
    reader = data_source.reader(schema=data_source.schema())
    assert isinstance(reader, SavepointStateReader)
    if filters:
        assert list(reader.pushFilters(list(filters))) == list(filters)
    return pickle.loads(pickle.dumps(reader)), reader.partitions()


def keys_read(reader: SavepointStateReader, partitions: Sequence[InputPartition]) -> set[Any]:
    """What the tasks give."""
    sent = [pickle.loads(pickle.dumps(p)) for p in partitions or [InputPartition(None)]]
    return {row["key"] for p in sent for batch in reader.read(p) for row in batch.to_pylist()}


# In Spark


@pytest.mark.spark
def test_found_without_being_registered(spark: SparkSession) -> None:
    fresh = spark.newSession()
    assert fresh.read.format("flink-savepoint-metadata").load(ORDERS_PATH).count() == 5
    assert load(fresh, uid="orders", state="total").count() == 50


@pytest.mark.spark
def test_registered_again_and_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    register(spark)
    monkeypatch.setattr(DataSourceRegistration, "register", lambda *_: pytest.fail("Spark warns when it is told again"))
    register(spark)
    assert load(spark, uid="orders", state="total").count() == 50


@pytest.mark.spark
def test_every_type(spark: SparkSession) -> None:
    """All states of the fixture pass Spark's check of schemas, and their columns come out as they went in."""
    frame = load(spark, TYPES_PATH, uid="types", nanos="string", rowKind="true")
    rows = {r.key: r.asDict(recursive=True) for r in frame.collect()}
    for name in ("long", "string", "char", "big-dec", "instant", "list", "int-array", "enum", "nullable", "sql-date"):
        found = {key: row[name] for key, row in rows.items() if row[name] is not None}
        plain = {k: str(v) if name == "sql-date" else v for k, v in found.items()}
        expected = {k: v for k, v in expected_values(TYPES, "types", name).items() if v is not None}
        assert plain == expected, name
    assert dict(frame.dtypes) | {"key": "int"} == dict(frame.dtypes)
    assert dict(frame.dtypes)["row"] == "struct<row_kind:string,f0:string,f1:bigint,f2:struct<row_kind:string,f0:int,f1:string>>"


@pytest.mark.spark
def test_sql(spark: SparkSession) -> None:
    options = f"path '{ORDERS_PATH}', UID 'orders', state 'items'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW items USING `flink-savepoint` OPTIONS ({options})")
    counted = spark.sql("SELECT map_key, count(*) AS n FROM items GROUP BY map_key").collect()
    entries = [k for _, v in expected_values(ORDERS, "orders", "items").items() for k, _ in v]
    assert {r.map_key: r.n for r in counted} == {k: entries.count(k) for k in entries}


@pytest.mark.spark
def test_keys_are_not_null_in_the_schema(spark: SparkSession) -> None:
    """Spark keeps this in plans of both kinds of reads, and a union with a nullable column is nullable."""
    for frame in (
        load(spark, uid="orders", state="total"),
        sp.SavepointReader.read(spark, ORDERS_PATH).read_keyed_state("orders", "total"),
    ):
        assert [field.nullable for field in frame.schema] == [False, True]
        assert frame.where("key IS NULL").count() == 0
        assert frame.alias("a").join(frame.alias("b"), "key").count() == frame.count() == 50
        both = frame.unionByName(spark.sql("SELECT CAST(NULL AS STRING) AS key, 1L AS value"))
        assert both.schema["key"].nullable
        assert both.where("key IS NULL").count() == 1
    assert load(spark, schema="key string, value bigint", uid="orders", state="total").schema["key"].nullable


@pytest.mark.spark
def test_schema_of_the_user(spark: SparkSession) -> None:
    frame = load(spark, schema="value DECIMAL(12,2), key STRING", uid="orders", state="total", keys='["amelia"]')
    assert [tuple(r) for r in frame.collect()] == [(Decimal("3950.00"), "amelia")]
    with pytest.raises(StateProcessorError, match=r"does not fit decimal\(3,2\)"):
        load(spark, schema="value DECIMAL(3,2)", uid="orders", state="total").collect()
    with pytest.raises(StateProcessorError, match="there is no column 'vale'"):
        load(spark, schema="vale BIGINT", uid="orders", state="total").collect()


@pytest.mark.spark
def test_part_of_the_columns(spark: SparkSession) -> None:
    frame = load(spark, schema="key STRING, profile STRUCT<tier: STRING, address: STRUCT<zip: BIGINT>>", uid="orders")
    tiers = {r.key: r.profile and r.profile.tier for r in frame.collect()}
    profiles = expected_values(ORDERS, "orders", "profile")
    assert tiers == {k: profiles[k]["tier"] if k in profiles else None for k in expected_values(ORDERS, "orders", "total")}


@pytest.mark.spark
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters(spark: SparkSession, pushdown: str) -> None:
    total = expected_values(ORDERS, "orders", "total")
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    frame = load(session, uid="orders", state="total")
    assert frame.count() == 50
    for condition, keys in {
        "key = 'amelia'": {"amelia"},
        "key IN ('amelia', 'josé', 'nobody')": {"amelia", "josé"},
        "key = 'nobody'": set(),
        "key = 'amelia' AND key = 'anders'": set(),
        "key <=> 'amelia'": {"amelia"},
        "key IS NULL": set(),
        "key = 'amelia' OR value > 18000": {"amelia"} | {k for k, v in total.items() if v > 18000},
        "key IN ('amelia', 'quentin') AND value > 18000": {"quentin"},
        "value > 18000": {k for k, v in total.items() if v > 18000},
    }.items():
        assert {r.key: r.value for r in frame.where(condition).collect()} == {k: total[k] for k in keys}, condition


@pytest.mark.spark
def test_tables_about_the_snapshot(spark: SparkSession) -> None:
    def table(name: str) -> DataFrame:
        return spark.read.format("flink-savepoint-metadata").option("table", name).load(ORDERS_PATH)

    operators = {r.operator_uid: r.operator_total_size_in_bytes for r in table("operators").collect()}
    assert operators.keys() == {"orders", "catalog", "steps", "only-orders", "only-catalog"}
    states = {(r.operator_uid, r.state_name): r.spark_schema for r in table("states").collect()}
    assert states["orders", "items"] == "key string, map_key string, map_value bigint"
    for (uid, name), schema in states.items():
        columns, described = load(spark, uid=uid, state=name).schema, StructType.fromDDL(schema)
        assert [(f.name, f.dataType) for f in columns] == [(f.name, f.dataType) for f in described]
    sizes = table("handles").groupBy("operator_uid").sum("size_in_bytes").collect()
    assert {r[0]: r[1] for r in sizes} == {uid: size for uid, size in operators.items() if size}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uid": "order"}, "Did you mean 'orders'"),
        ({"uid": "orders", "state": "totl"}, "Did you mean 'total'"),
        ({"uid": "orders", "stat": "total"}, "did you mean 'state'"),
        ({"uid": "orders", "state": "total", "limit": "5"}, "no option 'limit'"),
        ({"uid": "orders", "state": "total", "keys": '"amelia"'}, "option keys=.*expected a list of keys"),
        ({"state": "total"}, "no operator: name it"),
        ({"uid": "orders", "path": "/does/not/exist"}, "/does/not/exist does not exist"),
    ],
)
def test_errors(spark: SparkSession, options: dict[str, str], message: str) -> None:
    register(spark)
    with pytest.raises(StateProcessorError, match=message):
        spark.read.format("flink-savepoint").options(**({"path": ORDERS_PATH} | options)).load()


@pytest.mark.spark
def test_options_in_sql(spark: SparkSession) -> None:
    """Spark adds its own options to options of tables and views."""
    spark.sql(f"CREATE TEMPORARY VIEW totals USING `flink-savepoint` OPTIONS (path '{ORDERS_PATH}', uid 'orders', state 'total')")
    assert spark.table("totals").count() == len(expected_values(ORDERS, "orders", "total"))
    spark.catalog.dropTempView("totals")
    with pytest.raises(StateProcessorError, match="reading flink-savepoint: there is no option 'limit'"):
        spark.sql(f"CREATE TEMPORARY VIEW v USING `flink-savepoint` OPTIONS (path '{ORDERS_PATH}', uid 'orders', limit 5)")
    with pytest.raises(StateProcessorError, match="reading flink-savepoint-metadata: there is no option 'columns'"):
        spark.read.format("flink-savepoint-metadata").option("columns", "a").load(ORDERS_PATH)
    with pytest.raises(StateProcessorError, match="writing flink-savepoint: there is no option 'foo'"):
        spark.range(1).write.format("flink-savepoint").mode("append").option("uid", "x").option("foo", 1).save("/nowhere")


# The parts that Spark calls


def test_the_reader_is_small_before_and_after_planning() -> None:
    reader, partitions = plan(source(uid="orders", state="profile"))
    assert len(pickle.dumps(reader)) < 3_000
    assert all(len(pickle.dumps(p)) < 20_000 for p in partitions)
    assert len(keys_read(reader, partitions)) == len(expected_values(ORDERS, "orders", "profile"))


@pytest.mark.parametrize("options", [{"state": "total"}, {"state": "total", "keys": '["amelia"]'}, {}])
def test_headers_are_read_once(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The planning process reuses the result of the schema process, unless the snapshot changed."""
    read = []
    merged = stored_operator._merged

    def counted(subtasks: Any) -> Any:
        read.append(subtasks)
        return merged(subtasks)

    monkeypatch.setattr(stored_operator, "_merged", counted)
    first = source(uid="orders", **options)
    schema = first.schema()
    sent = pickle.loads(pickle.dumps(first))
    expected = [p.splits for p in sent.reader(schema).partitions()]  # type: ignore[attr-defined]
    assert len(read) == 1
    fresh = source(uid="orders", **options)
    assert [p.splits for p in fresh.reader(schema).partitions()] == expected  # type: ignore[attr-defined]
    assert len(read) == 2
    sent._states = replace(sent._states, digest="of another snapshot")
    assert [p.splits for p in sent.reader(schema).partitions()] == expected
    assert len(read) == 3


def test_headers_of_a_snapshot_that_was_replaced_are_read_again(tmp_path: Path) -> None:
    """The constants of an enum have another order: the states that the schema was made from would swap them."""
    path = tmp_path / "savepoint"

    def write(constants: list[str]) -> None:
        states = {"v": ValueState(Types.ENUM("com.acme.Letter", constants))}
        arrow.SavepointWriter.new().with_keyed_state("op", [{"key": "a", "v": "A"}], states=states).write(path)

    write(["A", "B"])
    first = FlinkSavepointDataSource({"path": str(path), "uid": "op", "state": "v"})
    schema = first.schema()
    shutil.rmtree(path)
    write(["B", "A"])
    reader = pickle.loads(pickle.dumps(first)).reader(schema)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["key"], row["value"]) for row in rows] == [("a", "A")]


def test_what_subtasks_register_alike_is_sent_once() -> None:
    options = SourceOptions.of(ORDERS_PATH, {"uid": "orders", "state": "total"})
    known = known_states(options, open_operator(options))
    assert known is not None
    (description, *_) = pickle.loads(pickle.dumps(known)).states["total"]
    others = [pickle.loads(pickle.dumps(description)) for _ in range(1000)]
    many = replace(known, states={"total": others})
    assert len(pickle.dumps(many)) < len(pickle.dumps(known)) + 5_000
    assert pickle.loads(pickle.dumps(many)).states["total"][999].name == "total"


@pytest.mark.parametrize("kind", ["KEYED", "TIMER", "OPERATOR_LIST"])
def test_tasks_do_not_get_the_table_of_contents(kind: str) -> None:
    """A pickled reader with ten thousand handles is not larger than a reader with two handles."""
    uid, state = {"KEYED": ("orders", None), "TIMER": ("orders", None), "OPERATOR_LIST": ("catalog", "pending")}[kind]
    snapshot = open_snapshot(ORDERS_PATH)
    operator = find_operator(snapshot, uid=uid)
    small = open_state(StoredOperator(snapshot, operator), state, kind if kind != "KEYED" else None)
    size = len(pickle.dumps(small))
    many = [metadata.OperatorState("0" * 31 + "1", 1, 128, operator.subtasks * 5000), operator]
    large_snapshot = Snapshot(
        snapshot.directory,
        metadata.CheckpointMetadata(4, 1, tuple(many)),
        snapshot.storage,
        snapshot.relocation,
        digest=snapshot.digest,
        beginning=snapshot.beginning,
    )
    large = open_state(StoredOperator(large_snapshot, operator), state, kind if kind != "KEYED" else None)
    assert len(pickle.dumps(large)) == size < 10_000


def test_a_task_without_a_partition_gives_nothing() -> None:
    reader, partitions = plan(source(uid="orders", state="total", keys="[]"))
    assert partitions == []
    assert list(reader.read(InputPartition(None))) == []


def test_filters_are_taken_only_with_the_promise() -> None:
    def made(**options: str) -> type:
        data_source = source(uid="orders", state="total", **options)
        return type(data_source.reader(schema=data_source.schema()))

    assert made() is SavepointStateReader
    assert made(pushdown="serves-one-query") is KeyFilteringStateReader


KEY = ("key",)


@pytest.mark.parametrize(
    ("filters", "groups", "keys"),
    [
        ([IsNotNull(KEY), EqualTo(KEY, "amelia")], 1, {"amelia"}),
        ([EqualNullSafe(KEY, "amelia")], 1, {"amelia"}),
        ([In(KEY, ["amelia", "josé", None])], 2, {"amelia", "josé"}),
        ([In(KEY, ["amelia", "josé"]), EqualTo(KEY, "josé")], 1, {"josé"}),
        ([EqualTo(KEY, "amelia"), EqualTo(KEY, "josé")], 0, set()),
        ([EqualNullSafe(KEY, None)], 128, None),
        ([Not(EqualTo(KEY, "amelia"))], 128, None),
        ([GreaterThan(KEY, "z")], 128, None),
        ([EqualTo(("value",), 3950)], 128, None),
    ],
)
def test_key_groups_that_filters_leave(filters: list[Filter], groups: int, keys: set[str] | None) -> None:
    reader, partitions = plan(source(uid="orders", state="total", pushdown="serves-one-query"), filters)
    splits = [s for p in partitions if isinstance(p, StatePartition) for s in p.splits]
    assert sum(len(s.key_groups) for s in splits) == groups
    assert keys_read(reader, partitions) == (expected_values(ORDERS, "orders", "total").keys() if keys is None else keys)


def test_keys_of_the_user_come_before_filters() -> None:
    data_source = source(uid="orders", state="total", pushdown="serves-one-query", keys='["amelia"]')
    reader, partitions = plan(data_source, [In(KEY, ["josé"])])
    assert keys_read(reader, partitions) == {"amelia"}


def test_filters_do_not_act_on_broadcast_state() -> None:
    with pytest.raises(StateProcessorError, match="pushdown does not apply to state 'discounts'"):
        source(uid="catalog", state="discounts", pushdown="serves-one-query").schema()


def test_filters_on_keys_that_spark_compares_otherwise() -> None:
    """A key column in another type than the state's, whose values filters speak of."""
    data_source = source(uid="orders", state="total", pushdown="serves-one-query")
    reader = data_source.reader(schema=StructType([StructField("value", LongType())]))  # fromDDL needs a session
    reader.pushFilters([EqualTo(KEY, "amelia")])
    assert isinstance(reader, SavepointStateReader)
    (partition,) = reader.partitions()
    assert isinstance(partition, StatePartition)
    assert sum(len(s.key_groups) for s in partition.splits) == 128


def test_small_splits_are_read_together() -> None:
    @dataclass
    class Split:
        size: int

    def sizes(count: int, size: int, split_bytes: int | None = None) -> list[int]:
        return [len(g) for g in grouped([Split(size)] * count, split_bytes)]

    mega = 1 << 20
    assert grouped([]) == []
    assert sizes(3, 100) == [3]
    assert sizes(4, 96 * mega) == [1, 1, 1, 1]
    assert sizes(8, mega) == [3, 3, 2]
    assert sizes(8, mega, 1) == [1] * 8
    tiny = sizes(200_000, 100)
    assert sum(tiny) == 200_000
    assert len(tiny) < 1000
    assert [s.size for g in grouped([Split(n) for n in range(50)]) for s in g] == list(range(50))


def test_metadata_knows_its_columns_without_reading() -> None:
    data_source = FlinkSavepointMetadataDataSource(options={"path": "/not/looked/at", "table": "handles"})
    assert "key_group_start" in data_source.schema().fieldNames()


def test_split_sizes() -> None:
    snapshot = open_snapshot(ORDERS_PATH)
    operator = find_operator(snapshot, uid="orders")
    total = sum(s.managed_keyed.state_size for s in operator.subtasks if s.managed_keyed)
    splits = open_state(StoredOperator(snapshot, operator), "total").splits(2000)
    assert len(splits) > 8
    assert total - len(splits) <= sum(s.size for s in splits) <= total
    timers = open_state(StoredOperator(snapshot, operator), kind="TIMER").splits()
    assert [s.size for s in timers] == [s.managed_keyed.state_size for s in operator.subtasks if s.managed_keyed] * 2
