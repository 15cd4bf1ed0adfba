"""Writing savepoints with Spark: results are read back; other rows are refused with a message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.state.hash_inference import HashRule, LearnedHash
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers import register_primitive_fields
from state_processor.write.tasks import key_hashing
from tests.spark_session import planned_again
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = sp.Types
NATIVE = str(Path(ORDERS_PATH).parents[1] / "orders-rocksdb-native" / "savepoint")


@pytest.fixture(autouse=True, scope="module")
def _planned_again(spark: SparkSession) -> Iterator[None]:
    with planned_again(spark):
        yield


def values(reader: sp.SavepointReader, state: str, uid: str = "orders") -> dict[Any, Any]:
    return {row.key: row.value for row in reader.read_keyed_state(uid, state, flatten=False).collect()}


def rows(reader: sp.SavepointReader, uid: str, state: str) -> list[str]:
    return sorted(map(str, reader.read_keyed_state(uid, state, flatten=False, nanos="string").toArrow().to_pylist()))


def files(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir()) if directory.exists() else []


def totals(spark: SparkSession, keys: int = 1000) -> DataFrame:
    return spark.range(keys).selectExpr("id AS user_id", "7 * id + 3 AS total")


def new(spark: SparkSession, df: DataFrame, **arguments: Any) -> sp.SavepointWriter:
    return sp.SavepointWriter.new(spark).with_keyed_state("orders", df, key="user_id", **arguments)


def test_it_shows_what_it_was_asked_for(spark: SparkSession) -> None:
    writer = new(spark, totals(spark), parallelism=2).with_list_state("source", "splits", spark.range(2))
    assert repr(writer) == "SavepointWriter(max_parallelism=128)\n  orders: write total; parallelism 2\n  source: write splits"
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    assert repr(writer) == "SavepointWriter(max_parallelism=128)"
    keys = spark.sql("SELECT 'amelia' AS key")
    writer.update_keyed_state("orders", "total", keys.selectExpr("key", "1L AS value")).delete_keys("orders", keys)
    writer.remove_state("orders", "session").change_operator_identifier("catalog", "prices").with_max_parallelism(200)
    lines = ["SavepointWriter(max_parallelism=200)", "orders: write total; remove session; delete keys", "catalog: become prices"]
    assert repr(writer) == "\n  ".join(lines)


def test_states_of_all_kinds_from_one_table(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        """SELECT concat('k', id) AS key, id AS count, array(concat('a', id), 'b') AS history, map('x', id) AS items,
           named_struct('name', concat('n', id), 'score', id / 2.0D) AS account, id * id AS sum, concat('s', id) AS session,
           timestamp'2024-01-01 00:00:00' AS _last_access FROM range(20)"""
    )
    states = {
        "count": sp.ValueState(T.LONG()),
        "history": sp.ListState(T.STRING()),
        "items": sp.MapState(T.STRING(), T.LONG()),
        "account": sp.ValueState(T.POJO("com.acme.Account", {"score": T.DOUBLE(), "name": T.STRING()})),
        "sum": sp.ReducingState(T.LONG()),
        "session": sp.ValueState(T.STRING(), ttl=True),
    }
    summary = sp.SavepointWriter.new(spark).with_keyed_state("orders", df, states=states, parallelism=3).write(tmp_path / "new")
    reader = sp.SavepointReader.read(spark, summary.path)
    kinds = {r.state_name: (r.state_kind, r.value_type, r.ttl) for r in reader.states().collect()}
    assert kinds["account"] == ("VALUE", "POJO<com.acme.Account>", False)
    assert kinds["sum"] == ("REDUCING", "LONG", False)
    assert kinds["session"] == ("VALUE", "TTL<STRING>", True)
    assert values(reader, "history") == {f"k{i}": [f"a{i}", "b"] for i in range(20)}
    assert values(reader, "items") == {f"k{i}": {"x": i} for i in range(20)}
    assert {k: (v.name, v.score) for k, v in values(reader, "account").items()} == {f"k{i}": (f"n{i}", i / 2) for i in range(20)}
    accessed = reader.read_keyed_state("orders", "session", metadata=True).select("_last_access").distinct().toArrow().to_pylist()
    assert accessed == [{"_last_access": datetime(2024, 1, 1, tzinfo=UTC)}]
    (operator,) = summary.operators
    assert (operator.uid, operator.parallelism, operator.entries, operator.carried) == ("orders", 3, 120, False)
    assert set(operator.states) == set(states)
    assert len(files(tmp_path / "new")) == 1 + 3


def test_nulls_and_empty_lists_are_no_entries(spark: SparkSession, tmp_path: Path) -> None:
    lists = "if(id < 5, array(), array(id)) AS history"
    df = spark.sql(f"SELECT id AS user_id, if(id < 3, NULL, id) AS total, {lists} FROM range(10)")
    states = {"total": T.LONG(), "history": sp.ListState(T.LONG())}
    reader = sp.SavepointReader.read(spark, new(spark, df, states=states).write(tmp_path / "new").path)
    assert values(reader, "total") == {i: i for i in range(3, 10)}
    assert values(reader, "history") == {i: [i] for i in range(5, 10)}


def test_more_subtasks_than_keys(spark: SparkSession, tmp_path: Path) -> None:
    summary = new(spark, totals(spark, 2), parallelism=7).write(tmp_path / "new")
    assert len(open_snapshot(summary.path).metadata.operators[0].subtasks) == 7
    assert values(sp.SavepointReader.read(spark, summary.path), "total") == {0: 3, 1: 10}


def test_operator_state_and_timers(spark: SparkSession, tmp_path: Path) -> None:
    domain = "if(id < 3, 'event_time', 'processing_time') AS domain"
    timers = spark.sql(f"SELECT id AS key, 1000 + id AS timestamp, {domain} FROM range(5)")
    writer = sp.SavepointWriter.new(spark)
    writer.with_list_state("sink", "pending", spark.createDataFrame([("a",), ("b",), ("c",)], "value string"), T.STRING(), 2)
    writer.with_union_state("sink", "offsets", spark.range(9).selectExpr("id AS value"), T.LONG())
    writer.with_broadcast_state("sink", "rules", spark.createDataFrame([("x", 1.5)], "key string, value double"))
    writer.with_timers("clock", timers)
    reader = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    assert sorted(r.value for r in reader.read_list_state("sink", "pending").collect()) == ["a", "b", "c"]
    assert sorted(r.value for r in reader.read_union_state("sink", "offsets").collect()) == list(range(9))
    assert [(r.key, r.value) for r in reader.read_broadcast_state("sink", "rules").collect()] == [("x", 1.5)]
    found = {(r.key, r.timestamp, r.domain, r.service) for r in reader.read_timers("clock").collect()}
    domains = ["event_time"] * 3 + ["processing_time"] * 2
    assert found == {(i, 1000 + i, domains[i], "user-timers") for i in range(5)}


def test_times_of_timers_under_each_name(spark: SparkSession, tmp_path: Path) -> None:
    read = spark.sql(f"SELECT id AS key, if(id = 0, {2**63 - 1}, 1000 + id) AS timestamp FROM range(3)")
    both = "if(key = 0, NULL, timestamp_millis(timestamp)) AS fires_at"
    given = {
        "ms": read.selectExpr("key", "timestamp AS timestamp_ms"),
        "all": read.selectExpr("*", "timestamp AS timestamp_ms", both),
        "instant": read.where("key > 0").selectExpr("key", both),
    }
    writer = sp.SavepointWriter.new(spark)
    for uid, rows in given.items():
        writer.with_timers(uid, rows)
    path = writer.write(tmp_path / "new").path
    found = {uid: [r for b in sp.arrow.read_timers(path, uid) for r in b.to_pylist()] for uid in given}
    times = {uid: {r["key"]: (r["timestamp"], r["fires_at"]) for r in rows} for uid, rows in found.items()}
    at = {i: (1000 + i, datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=1000 + i)) for i in (1, 2)}
    assert times == {"ms": at | {0: (2**63 - 1, None)}, "all": at | {0: (2**63 - 1, None)}, "instant": at}


@pytest.mark.one_engine(reason="Spark's columns say that they are derived from others; Arrow's do not")
def test_timers_that_are_read_moved_and_written(spark: SparkSession, tmp_path: Path) -> None:
    read = spark.sql("SELECT id AS key, 1000 + id AS timestamp FROM range(3)")
    first = sp.SavepointWriter.new(spark).with_timers("clock", read).write(tmp_path / "first").path
    timers = sp.SavepointReader.read(spark, first).read_timers("clock")
    later = timers.withColumn("timestamp", f.col("timestamp") + 5000)
    other = timers.withColumn("fires_at", f.col("fires_at") + f.expr("INTERVAL 5 SECONDS"))
    writer = sp.SavepointWriter.new(spark).with_timers("later", later).with_timers("alone", other.drop("timestamp"))
    path = writer.with_timers("same", timers.drop("timestamp")).write(tmp_path / "moved").path
    expected = {"later": [6000, 6001, 6002], "alone": [6000, 6001, 6002], "same": [1000, 1001, 1002]}
    found = {uid: [r["timestamp"] for b in sp.arrow.read_timers(path, uid) for r in b.to_pylist()] for uid in expected}
    assert {uid: sorted(times) for uid, times in found.items()} == expected
    with pytest.raises(sp.InvalidRowError, match="the columns have different times"):
        sp.SavepointWriter.new(spark).with_timers("clock", other)


@pytest.mark.parametrize(
    ("rows", "schema", "message"),
    [
        ([(1, 1), (2, 2), (1, 3)], "user_id bigint, total bigint", r"state 'total', key group \d+: key 1 occurs more than once"),
        ([(1, 1), (None, 2)], "user_id bigint, total bigint", "operator orders, state 'total'.*null; a key can't be"),
        ([(1, 1 << 40)], "user_id bigint, total bigint", "key 1, value 1099511627776: column value of row 0 does not fit"),
    ],
)
def test_rows_that_are_refused(spark: SparkSession, tmp_path: Path, rows: list[Any], schema: str, message: str) -> None:
    state = T.INT() if "does not fit" in message else T.LONG()
    writer = new(spark, spark.createDataFrame(rows, schema), states={"total": state})
    with pytest.raises(sp.InvalidRowError, match=message):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_columns_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(sp.InvalidRowError, match="there is no column 'user'; the rows have user_id, total"):
        sp.SavepointWriter.new(spark).with_keyed_state("orders", totals(spark), key="user")
    with pytest.raises(sp.InvalidRowError, match="there is no column 'sum'"):
        new(spark, totals(spark), states={"sum": T.LONG()})
    with pytest.raises(sp.InvalidRowError, match=r"orders: state 'total': column 'total' is of Spark type bigint; .*array"):
        new(spark, totals(spark), states={"total": sp.ListState(T.LONG())})
    with pytest.raises(sp.OptionError, match="state 'total' is written twice"):
        new(spark, totals(spark)).with_keyed_state("orders", totals(spark), key="user_id")
    with pytest.raises(sp.OptionError, match="has keys of type LONG, not STRING"):
        new(spark, totals(spark)).with_keyed_state("orders", totals(spark), "user_id", T.STRING(), {"total": T.LONG()})
    with pytest.raises(sp.OptionError, match="no operator to write"):
        sp.SavepointWriter.new(spark).write(tmp_path / "new")


def test_a_savepoint_is_not_overwritten_unasked(spark: SparkSession, tmp_path: Path) -> None:
    new(spark, totals(spark)).write(tmp_path / "new")
    before = files(tmp_path / "new")
    with pytest.raises(sp.OptionError, match="holds a savepoint already"):
        new(spark, totals(spark, 5)).write(tmp_path / "new")
    with pytest.raises(sp.InvalidRowError, match="more than once"):
        new(spark, totals(spark).unionAll(totals(spark))).write(tmp_path / "new", overwrite=True)
    assert files(tmp_path / "new") == before
    new(spark, totals(spark, 5)).write(tmp_path / "new", overwrite=True)
    after = files(tmp_path / "new")
    assert set(after) & set(before) == {"_metadata"}
    assert len(values(sp.SavepointReader.read(spark, tmp_path / "new"), "total")) == 5


def test_the_base_is_not_written_to(spark: SparkSession, tmp_path: Path) -> None:
    new(spark, totals(spark)).write(tmp_path / "base")
    with pytest.raises(sp.OptionError, match=r"is the source savepoint\. A source savepoint is never changed"):
        sp.SavepointWriter.from_existing(spark, tmp_path / "base").write(tmp_path / "base" / ".", overwrite=True)


@pytest.mark.parametrize("base", [ORDERS_PATH, NATIVE])
def test_changes_of_single_keys(spark: SparkSession, tmp_path: Path, base: str) -> None:
    before = sp.SavepointReader.read(spark, base)
    writer = sp.SavepointWriter.from_existing(spark, base)
    first = spark.createDataFrame([("amelia", 1), ("anders", None)], "key string, value long")
    second = spark.createDataFrame([("amelia", 2), ("zoe", 3)], "key string, total long")
    writer.update_keyed_state("orders", "total", first).update_keyed_state("orders", "total", second)
    writer.delete_keys("orders", spark.createDataFrame([("clara",), ("nobody",)], "key string"))
    after = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    totals_before = values(before, "total")
    del totals_before["anders"], totals_before["clara"]
    assert values(after, "total") == totals_before | {"amelia": 2, "zoe": 3}
    profiles = values(before, "profile")
    profiles.pop("clara", None)
    assert values(after, "profile") == profiles
    timers = [set(r.read_timers("orders").collect()) for r in (before, after)]
    assert {t.key for t in timers[0] - timers[1]} == {"clara"}
    assert timers[1] < timers[0]
    assert after.read_broadcast_state("catalog", "discounts").count() == 10


def test_what_is_unchanged_is_copied_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).change_operator_identifier("catalog", "stock")
    summary = writer.write(tmp_path / "new")
    old, copied = open_snapshot(ORDERS_PATH), open_snapshot(summary.path)
    assert [o.carried for o in summary.operators] == [True] * len(summary.operators)
    assert copied.metadata.version == old.metadata.version
    assert sp.OperatorIdentifier.for_uid("stock").uid_hash in {o.operator_id for o in copied.metadata.operators}
    contents = [
        sorted(
            bytes(s.open(handle.stream).read())
            for o in s.metadata.operators
            for t in o.subtasks
            for handle in (t.managed_keyed, t.managed_operator)
            if handle is not None
        )
        for s in (old, copied)
    ]
    assert contents[0] == contents[1]
    moved = tmp_path / "moved"
    (tmp_path / "new").rename(moved)
    assert len(values(sp.SavepointReader.read(spark, moved), "total")) == 50


def test_states_and_operators_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.remove_state("orders", "profile").remove_state("catalog", "offsets")
    reader = sp.SavepointReader.read(spark, writer.write(tmp_path / "one").path)
    names = {r.state_name for r in reader.states().collect()}
    assert "profile" not in names
    assert "offsets" not in names
    assert {"total", "pending", "discounts"} <= names
    assert reader.read_list_state("catalog", "pending").count() == 10
    other = sp.SavepointWriter.from_existing(spark, tmp_path / "one").remove_operator("catalog").write(tmp_path / "two")
    assert "catalog" not in {o.uid for o in other.operators}
    with pytest.raises(sp.NotFoundError, match=r"no state .*'totl'.*Did you mean 'total'"):
        writer.remove_state("orders", "totl")
    with pytest.raises(sp.NotFoundError, match=r"no operator 'order'.*Did you mean 'orders'"):
        writer.remove_operator("order")
    with pytest.raises(sp.OptionError, match="would both be"):
        sp.SavepointWriter.from_existing(spark, ORDERS_PATH).change_operator_identifier("catalog", "orders")


def test_states_are_replaced_and_added(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1, "x"), ("b", 2, "y")], "key string, total int, note string")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.with_keyed_state("orders", df, states={"total": T.INT(), "note": T.STRING()})
    writer.with_keyed_state("fresh", df, states={"note": T.STRING()})
    reader = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    assert values(reader, "total") == {"a": 1, "b": 2}
    assert values(reader, "note") == values(reader, "note", "fresh") == {"a": "x", "b": "y"}
    assert len(values(reader, "history")) == 45


@pytest.mark.parametrize(("source", "uid"), [(TYPES_PATH, "kinds"), (WINDOWS_PATH, "session-process"), (NATIVE, "orders")])
def test_key_groups_anew(spark: SparkSession, tmp_path: Path, source: str, uid: str) -> None:
    writer = sp.SavepointWriter.from_existing(spark, source).with_max_parallelism(1000).with_parallelism(uid, 3)
    summary = writer.write(tmp_path / "new")
    assert {o.max_parallelism for o in summary.operators} == {1000}
    before, after = sp.SavepointReader.read(spark, source), sp.SavepointReader.read(spark, summary.path)
    names = [r.state_name for r in before.states().where(f"operator_uid = '{uid}' AND state_kind NOT LIKE '%TIMER'").collect()]
    assert names
    for name in names:
        assert rows(before, uid, name) == rows(after, uid, name), name
    assert sorted(map(str, before.read_timers(uid).collect())) == sorted(map(str, after.read_timers(uid).collect()))
    with pytest.raises(sp.OptionError, match="parallelism"):
        writer.with_max_parallelism(2)


def test_data_source(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    sink = totals(spark, 100).write.format("flink-savepoint").option("uid", "orders").option("key", "user_id")
    sink.option("parallelism", "3").mode("append").save(str(tmp_path / "new"))
    assert values(sp.SavepointReader.read(spark, tmp_path / "new"), "total") == {i: 7 * i + 3 for i in range(100)}
    assert len(files(tmp_path / "new")) == 4
    changed = spark.createDataFrame([(5, 0), (6, None), (100, 1)], "key long, value long")
    patch = changed.write.format("flink-savepoint").option("uid", "orders").option("state", "total")
    patch.option("base", str(tmp_path / "new")).mode("append").save(str(tmp_path / "patched"))
    found = values(sp.SavepointReader.read(spark, tmp_path / "patched"), "total")
    expected = {i: 7 * i + 3 for i in range(100)} | {5: 0, 100: 1}
    del expected[6]
    assert found == expected
    with pytest.raises(Exception, match="holds a savepoint already"):
        sink.mode("append").save(str(tmp_path / "new"))
    sink.mode("overwrite").save(str(tmp_path / "patched"))
    assert len(values(sp.SavepointReader.read(spark, tmp_path / "patched"), "total")) == 100


def test_data_source_with_columns_of_another_case(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    rows = spark.sql("SELECT 'a' AS KEY, 1L AS Value")
    sink = rows.write.format("flink-savepoint").option("uid", "orders").option("state", "total")
    sink.mode("append").save(str(tmp_path / "new"))
    assert sp.arrow.read_state(tmp_path / "new", "orders", "total").read_all().to_pylist() == [{"key": "a", "value": 1}]
    sink.option("base", ORDERS_PATH).mode("append").save(str(tmp_path / "changed"))
    changed = sp.arrow.read_state(tmp_path / "changed", "orders", "total", keys=["a"])
    assert changed.read_all()["value"].to_pylist() == [1]


def test_data_source_with_types(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    df = spark.sql("SELECT cast(id AS int) AS key, named_struct('name', 'n', 'id', id) AS value FROM range(4)")
    sink = df.write.format("flink-savepoint").option("uid", "users").option("state", "account")
    sink.option("keyType", "INT").option("valueType", "POJO<com.acme.Account>").mode("append").save(str(tmp_path / "new"))
    (state,) = sp.SavepointReader.read(spark, tmp_path / "new").states().collect()
    assert (state.state_name, state.key_type, state.value_type) == ("account", "INT", "POJO<com.acme.Account>")


def test_data_source_leaves_nothing_on_failure(spark: SparkSession, tmp_path: Path) -> None:
    sp.register(spark)
    df = totals(spark, 10).selectExpr("if(user_id = 7, NULL, user_id) AS key", "total AS value")
    sink = df.write.format("flink-savepoint").option("uid", "orders").option("state", "total").mode("append")
    with pytest.raises(Exception, match="null; a key can't be"):
        sink.save(str(tmp_path / "new"))
    twice = totals(spark, 10).unionAll(totals(spark, 10)).selectExpr("user_id AS key", "total AS value")
    sink = twice.write.format("flink-savepoint").option("uid", "orders").option("state", "total").mode("append")
    with pytest.raises(Exception, match="more than once"):
        sink.save(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_state_in_a_new_schema(spark: SparkSession, tmp_path: Path) -> None:
    account = {"name": T.STRING(), "score": T.DOUBLE(), "visits": T.INT()}
    fields = "'name', concat('n', id), 'score', id / 2.0D, 'visits', 7"
    df = spark.sql(f"SELECT id AS key, named_struct({fields}) AS account FROM range(9)")
    states = {"account": sp.ValueState(T.POJO("com.acme.Account", account), ttl=True)}
    sp.SavepointWriter.new(spark).with_keyed_state("users", df, states=states).write(tmp_path / "old")
    new_type = T.POJO("com.acme.Account", {"name": T.STRING(), "visits": T.INT(), "level": T.INT(), "city": T.STRING()})
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old").evolve_state("users", "account", new_type)
    reader = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    rows = {k: v.asDict() for k, v in values(reader, "account", "users").items()}
    assert rows == {i: {"name": f"n{i}", "visits": 7, "level": 0, "city": None} for i in range(9)}
    accessed = [
        r.read_keyed_state("users", "account", metadata=True).select("_last_access").distinct().collect()
        for r in (sp.SavepointReader.read(spark, tmp_path / "old"), reader)
    ]
    assert accessed[0] == accessed[1]
    changed = T.POJO("com.acme.Account", {"name": T.STRING(), "visits": T.LONG()})
    with pytest.raises(sp.StateMigrationError, match="visits"):
        sp.SavepointWriter.from_existing(spark, tmp_path / "old").evolve_state("users", "account", changed)


@pytest.mark.usefixtures("own_registrations")
def test_fields_that_are_known_to_be_primitive_or_boxed(spark: SparkSession, tmp_path: Path) -> None:
    """A null in a primitive field is refused, in patches too; a new boxed number is null, a new primitive one 0."""
    register_primitive_fields("com.acme.Score", ["level", "rank"])
    score = {"level": T.INT(), "bonus": T.INT()}
    rows = [(i, (i, None if i % 2 else -i)) for i in range(9)]
    df = spark.createDataFrame(rows, "key int, score struct<level:int, bonus:int>")
    writer = sp.SavepointWriter.new(spark)
    writer.with_keyed_state("users", df, states={"score": T.POJO("com.acme.Score", score)}).write(tmp_path / "old")
    missing = spark.createDataFrame([(5, (None, 1))], "key int, value struct<level:int, bonus:int>")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old").update_keyed_state("users", "score", missing)
    with pytest.raises(sp.InvalidRowError, match=r"key 5.*level"):
        writer.write(tmp_path / "refused")
    new_type = T.POJO("com.acme.Score", score | {"rank": T.LONG(), "best": T.LONG()})
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old").evolve_state("users", "score", new_type)
    reader = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    found = {k: v.asDict() for k, v in values(reader, "score", "users").items()}
    assert found == {i: {"level": i, "bonus": None if i % 2 else -i, "rank": 0, "best": None} for i in range(9)}


def test_keys_whose_hash_code_is_user_code(spark: SparkSession, tmp_path: Path) -> None:
    key = T.POJO("com.acme.Id", {"shop": T.STRING(), "number": T.INT()})
    fields = "'shop', concat('s', id % 7), 'number', cast(id AS int)"
    df = spark.sql(f"SELECT named_struct({fields}) AS key, id AS total FROM range(200)")
    states = {"total": T.LONG()}
    with pytest.raises(sp.UnsupportedFormatError, match="hashCode"):
        sp.SavepointWriter.new(spark).with_keyed_state("orders", df, key_type=key, states=states).write(tmp_path / "old")
    rule = HashRule("Objects.hash", ("shop", "number"))
    writer = sp.SavepointWriter.new(spark).with_keyed_state("orders", df, key_type=key, states=states, key_hash=rule)
    writer.write(tmp_path / "old")
    changed = df.where("total < 5").selectExpr("key", "total + 1000 AS value")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old").update_keyed_state("orders", "total", changed)
    reader = sp.SavepointReader.read(spark, writer.with_max_parallelism(300).write(tmp_path / "new").path)
    found = {tuple(r.key.asDict().items()): r.value for r in reader.read_keyed_state("orders", "total").collect()}
    assert found == {(("number", i), ("shop", f"s{i % 7}")): i + 1000 if i < 5 else i for i in range(200)}


@pytest.mark.parametrize("asked", ["a patch", "other key groups", "the rule given"])
def test_a_hash_rule_that_breaks_late(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """The rules that fit the keys of the first state don't fit a key of the second state."""
    monkeypatch.setattr(key_hashing, "SAMPLED_KEYS", 50)
    key = T.POJO("com.acme.Id", {"shop": T.STRING(), "number": T.INT()})
    rule = HashRule("Objects.hash", ("shop", "number"))
    groups_of = LearnedHash(key, (rule,), 128)
    in_last_group = next(code for code in range(1000) if key_group(np.array([code], np.int32), 128)[0] == 127)

    def all_but_one(keys: pa.Array) -> Any:
        codes = groups_of(keys)
        codes[np.asarray(pc.equal(pc.struct_field(keys, "number"), 7))] = in_last_group
        return codes

    fields = "'shop', concat('s', id % 7), 'number', cast(id AS int)"
    df = spark.sql(f"SELECT named_struct({fields}) AS key, id AS total FROM range(400)")
    writer = sp.SavepointWriter.new(spark)
    states = {"total": T.LONG(), "count": T.LONG()}
    both = df.selectExpr("key", "nullif(total, 7) AS total", "total AS count")
    writer.with_keyed_state("orders", both, "key", key, states, key_hash=all_but_one)
    writer.write(tmp_path / "old")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old")
    if asked == "a patch":
        writer.update_keyed_state("orders", "total", df.limit(3))
    elif asked == "other key groups":
        writer.with_max_parallelism(300)
    else:
        writer.with_keyed_state("orders", df, states={"total": T.LONG()}, key_hash=rule)
    named = r"operator \w+: .*'number': 7.* is in key group 127, but .*Objects\.hash \(shop, number\) gives another one"
    with pytest.raises(sp.UnsupportedFormatError, match=named):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


def test_only_single_entries_of_a_map_change(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("SELECT id AS key, map('a', id, 'b', id) AS items FROM range(5)")
    states = {"items": sp.MapState(T.STRING(), T.LONG())}
    sp.SavepointWriter.new(spark).with_keyed_state("orders", df, states=states).write(tmp_path / "old")
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "old")
    entries = spark.createDataFrame([(1, "a", 100), (1, "c", 101), (9, "a", 102)], "key long, map_key string, map_value long")
    writer.update_keyed_state("orders", "items", entries)
    whole = spark.sql("SELECT 2L AS key, map('z', 26L) AS value UNION ALL SELECT 3L, NULL")
    writer.update_keyed_state("orders", "items", whole)
    found = values(sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path), "items")
    assert found == {0: {"a": 0, "b": 0}, 1: {"a": 100, "b": 1, "c": 101}, 2: {"z": 26}, 4: {"a": 4, "b": 4}, 9: {"a": 102}}


def test_a_key_of_one_window(spark: SparkSession, tmp_path: Path) -> None:
    before = sp.SavepointReader.read(spark, WINDOWS_PATH)
    windows = before.read_window_state("session-process", flatten=False)
    gone = windows.orderBy("key", "window.start").limit(1).select("key", "window")
    writer = sp.SavepointWriter.from_existing(spark, WINDOWS_PATH)
    writer.delete_keys("session-process", gone, state="window-contents")
    after = sp.SavepointReader.read(spark, writer.write(tmp_path / "new").path)
    found = [set(map(str, r.read_window_state("session-process", flatten=False).collect())) for r in (before, after)]
    assert len(found[0]) == len(found[1]) + 1
    assert found[1] < found[0]
