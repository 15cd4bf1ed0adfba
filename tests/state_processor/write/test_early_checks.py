"""Refusals at the call of a writer method, before rows are read; the writer does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

T = sp.Types
Sql = Callable[[str], "DataFrame"]
Call = Callable[["sp.SavepointWriter", Sql], Any]

ROW = "SELECT 'amelia' AS key, 1L AS value"
TIMER = "SELECT 'amelia' AS key, 1000L AS timestamp"
WINDOW = "named_struct('start', timestamp'2024-01-01 00:00:00', 'end', timestamp'2024-01-01 00:01:00')"


def keyed(rows: str, **arguments: Any) -> Call:
    return lambda writer, sql: writer.with_keyed_state("new", sql(rows), **arguments)


def updated(state: str, rows: str, **arguments: Any) -> Call:
    return lambda writer, sql: writer.update_keyed_state("orders", state, sql(rows), **arguments)


def deleted(rows: str, *arguments: Any, **named: Any) -> Call:
    return lambda writer, sql: writer.delete_keys("orders", sql(rows), *arguments, **named)


def timers(rows: str, **arguments: Any) -> Call:
    return lambda writer, sql: writer.with_timers("new", sql(rows), **arguments)


TOTAL = {"total": sp.ValueState(T.LONG())}
SHAPES = {"total": T.POJO("a.Shape", {"name": T.STRING()}, subclasses={"a.Square": {"side": T.LONG(), "round": T.BOOLEAN()}})}
WINDOWED = {"value": sp.ValueState(T.LONG(), namespace=T.TIME_WINDOW())}

REFUSED: dict[str, tuple[Call, str]] = {
    "missing key": (keyed(ROW, key="user"), r"operator new: there is no column 'user'; the rows have key, value"),
    "missing state": (keyed(ROW, states=TOTAL), r"operator new: there is no column 'total'; the rows have key, value"),
    "key with a hashCode of its own": (
        keyed("SELECT named_struct('id', 1) AS key, 1L AS total", key_type=T.POJO("com.acme.Key", {"id": T.INT()})),
        r"operator new: keys of type POJO<com.acme.Key>: the hashCode of POJO<com.acme.Key> is code of its class.*key_hash=",
    ),
    "a struct of one field as key": (
        keyed("SELECT struct('a' AS id) AS key, 1L AS total"),
        r"operator new: column 'key' is a struct of the field 'id' alone, .*ROW<id:STRING>: select the field .*by key_type",
    ),
    "case of two columns": (
        keyed("SELECT 'a' AS key, 1L AS total, 2L AS Total"),
        r"operator new: the columns 'total' and 'Total' differ in case only.*spark.sql.caseSensitive",
    ),
    "two columns of a name": (keyed("SELECT 'a' AS key, 1L AS total, 2L AS total"), r"operator new: .*several columns 'total'"),
    "type of a value": (
        keyed("SELECT 'a' AS key, 'x' AS total", states=TOTAL),
        r"operator new: state 'total': column 'total' is of Spark type string; the type LONG takes bigint",
    ),
    "fields of no class": (
        keyed("SELECT 'a' AS key, named_struct('name', 's', 'sied', 1L) AS total", states=SHAPES),
        r"operator new: state 'total': column total is a struct of \(name, sied\);.*\(_class, round, side\) are optional",
    ),
    "a part of the fields of a subclass": (
        keyed("SELECT 'a' AS key, named_struct('_class', 'a.Square', 'name', 's', 'side', 1L) AS total", states=SHAPES),
        r"operator new: state 'total': column total has the field side; a.Square has round as well",
    ),
    "type of a field of a subclass": (
        keyed("SELECT 'a' AS key, named_struct('name', 's', 'side', 'x', 'round', true) AS total", states=SHAPES),
        r"operator new: state 'total': column 'total.side' is of Spark type string",
    ),
    "type of a key": (keyed("SELECT 'a' AS key, 1L AS total", key_type=T.LONG()), r"operator new: state 'total': column 'key'"),
    "type of a list": (
        keyed("SELECT 'a' AS key, array('x') AS total", states={"total": sp.ListState(T.LONG())}),
        r"operator new: state 'total': column 'total.*' is of Spark type string",
    ),
    "type of an access": (
        keyed("SELECT 'a' AS key, 1L AS total, 5L AS _last_access", states={"total": sp.ValueState(T.LONG(), ttl=True)}),
        r"operator new: state 'total': column _last_access is of type int64",
    ),
    "no window": (keyed(ROW, states=WINDOWED), r"operator new: state 'value': .*one column 'namespace' or 'window'"),
    "type of a window": (
        keyed("SELECT 'a' AS key, 1L AS value, 5L AS window", states=WINDOWED),
        r"operator new: state 'value': column 'window' is of Spark type bigint",
    ),
    "two windows": (
        keyed(f"SELECT 'a' AS key, 1L AS value, {WINDOW} AS window, {WINDOW} AS namespace", states=WINDOWED),
        r"operator new: state 'value': .*one column 'namespace' or 'window'",
    ),
    "a state in the window's column": (
        keyed(
            f"SELECT 'a' AS key, {WINDOW} AS window",
            states={"window": sp.ValueState(T.ROW_NAMED(["start", "end"], [T.INSTANT()] * 2), namespace=T.TIME_WINDOW())},
        ),
        r"operator new: state 'window': column 'window' is reserved for metadata",
    ),
    "a window that is no state": (keyed("SELECT 'a' AS key, 1L AS total, 5L AS window"), r"column 'window' is reserved"),
    "metadata that is no state": (
        keyed("SELECT 'a' AS key, 1L AS total, 5 AS _subtask"),
        r"operator new: column '_subtask' is reserved for metadata",
    ),
    "no state": (keyed("SELECT 'a' AS key"), r"operator new: there is no state to write"),
    "no type": (keyed("SELECT 'a' AS key, interval 1 day AS x"), r"operator new: state 'x': column 'x' is of type duration"),
    "no spec": (keyed("SELECT 'a' AS key, 1L AS x", states={"x": "LONG"}), r"operator new: state 'x'"),
    "names of nothing": (keyed(ROW, columns={"valu": "total"}), r"operator new: columns='valu'.*there are value"),
    "a state twice": (
        keyed("SELECT 'a' AS key, 1L AS x, 2L AS y", columns={"x": "z", "y": "z"}),
        r"operator new: state 'z' is written twice",
    ),
    "a state without name": (keyed(ROW, columns={"value": ""}), r"operator new: a state is named ''"),
    "a state with a long name": (
        keyed(ROW, columns={"value": "é" * 40_000}),
        r"operator new: the state 'é+'… has a name of 80,000 bytes; Flink takes at most 65,535\. Choose a shorter name",
    ),
    "too many subtasks": (keyed(ROW, parallelism=200), r"operator new: parallelism 200: .* the max parallelism, 128"),
    "no subtask": (keyed(ROW, parallelism=0), r"operator new: parallelism 0: expected a number from 1"),
    "an empty uid": (lambda w, sql: w.with_keyed_state("", sql(ROW)), "uid is empty"),
    "a typo": (updated("total", "SELECT 'a' AS key, 1L AS valeu"), r"operator orders: state 'total': .*'value'.*mean 'valeu'"),
    "value and the state's name": (
        updated("total", "SELECT 'a' AS key, 1L AS value, 2L AS total"),
        r"operator orders: state 'total': the columns 'value' and 'total' all have the content of the state",
    ),
    "a whole map and its entries": (
        updated("items", "SELECT 'a' AS key, map('x', 1L) AS value, 'x' AS map_key, 1L AS map_value"),
        r"operator orders: state 'items': the columns 'value' and 'map_key' and 'map_value' all have",
    ),
    "half an entry": (updated("items", "SELECT 'a' AS key, 'x' AS map_key"), r"state 'items': there is no column 'map_value'"),
    "half an element": (updated("history", "SELECT 'a' AS key, 'x' AS list_value"), r"'history'.*no column 'list_index'"),
    "places that are text": (
        updated("history", "SELECT 'a' AS key, 'x' AS list_value, '0' AS list_index"),
        r"operator orders: state 'history': column 'list_index' is of type string",
    ),
    "type of an element": (
        updated("history", "SELECT 'a' AS key, 1.5D AS list_value, 0 AS list_index"),
        r"operator orders: state 'history': column 'value.*' is of Spark type double",
    ),
    "a column too many": (
        updated("total", "SELECT 'a' AS key, 1L AS value, 2L AS valeu"),
        r"operator orders: state 'total': column 'valeu' would be ignored; expected are key, value.* Did you mean 'value'",
    ),
    "a window of no window": (
        updated("total", f"SELECT 'a' AS key, 1L AS value, {WINDOW} AS window"),
        r"operator orders: state 'total': column 'window' would be ignored",
    ),
    "type of an update": (updated("total", "SELECT 'a' AS key, 'x' AS value"), r"orders: state 'total': column 'value' is"),
    "type of a map's key": (
        updated("items", "SELECT 'a' AS key, 1.5D AS map_key, 1L AS map_value"),
        r"operator orders: state 'items': column 'map_key' is of Spark type double",
    ),
    "the domain of an update": (
        updated("_timer_state/event_user-timers", TIMER + ", 'processing_time' AS domain"),
        r"operator orders: state '_timer_state/event_user-timers': column 'domain' would be ignored",
    ),
    "no state of that name": (updated("totl", ROW), r"Did you mean 'total'"),
    "a key to delete": (deleted("SELECT 1.5D AS key", "total"), r"orders: state 'total': column 'key' is of Spark type double"),
    "a key to delete everywhere": (deleted("SELECT 1.5D AS key"), r"orders: state 'total': column 'key' is of Spark type double"),
    "no key to delete": (deleted("SELECT 'a' AS kye, 1 AS x"), r"orders: there is no column 'key'.* Did you mean 'kye'"),
    "windows of all states": (
        deleted(f"SELECT 'a' AS key, {WINDOW} AS window"),
        r"operator orders: column 'window' would be ignored.*name the state whose windows",
    ),
    "a misspelt column": (deleted("SELECT 'a' AS key, 1 AS widow", "total"), r"operator orders: column 'widow' would be ignored"),
    "entries of a map": (deleted("SELECT 'a' AS key, 'x' AS map_key", "items"), r"orders: column 'map_key'.*map_entries"),
    "an entry's key": (
        lambda w, sql: w.delete_map_entries("orders", "items", sql("SELECT 'a' AS key, 1.5D AS map_key")),
        r"operator orders: state 'items': column 'map_key' is of Spark type double",
    ),
    "an element": (
        lambda w, sql: w.with_list_state("new", "l", sql("SELECT 'a' AS value"), T.LONG()),
        r"operator new: state 'l': column 'value' is of Spark type string",
    ),
    "a column beside elements": (
        lambda w, sql: w.with_list_state("new", "l", sql("SELECT 'a' AS value, 1 AS other")),
        r"operator new: state 'l': column 'other' would be ignored",
    ),
    "no elements": (
        lambda w, sql: w.with_union_state("new", "l", sql("SELECT 'a' AS x, 1 AS other")),
        r"operator new: state 'l': there is no column 'value'",
    ),
    "a list without name": (lambda w, sql: w.with_list_state("new", "", sql("SELECT 'a' AS value")), r"a state is named ''"),
    "a broadcast value": (
        lambda w, sql: w.with_broadcast_state("new", "b", sql(ROW), value_type=T.LIST(T.LONG())),
        r"operator new: state 'b': column 'value' is of Spark type",
    ),
    "a broadcast key": (
        lambda w, sql: w.with_broadcast_state("new", "b", sql(ROW), key_type=T.LONG()),
        r"operator new: state 'b': column 'key' is of Spark type",
    ),
    "a column beside a broadcast": (
        lambda w, sql: w.with_broadcast_state("new", "b", sql(ROW + ", 2 AS x")),
        r"operator new: state 'b': column 'x' would be ignored",
    ),
    "splits": (
        lambda w, sql: w.with_source_splits("new", sql("SELECT 1L AS from_number"), "sequence"),
        r"operator new: state 'SourceReaderState': ",
    ),
    "time of a timer": (
        timers("SELECT 'a' AS key, timestamp'2024-01-01 00:00:00' AS timestamp"),
        r"operator new: state '_timer_state/event_user-timers': column 'timestamp' is of Spark type timestamp; .*takes bigint",
    ),
    "no time of a timer": (timers("SELECT 'a' AS key"), r"operator new: there is no column 'timestamp'"),
    "two times of a timer": (
        timers(TIMER + ", 999L AS timestamp_ms"),
        r"operator new: timers: for the key 'amelia' the columns have .*: timestamp 1000 ms, timestamp_ms 999 ms; select",
    ),
    "another point in time of a timer": (
        timers("SELECT 'a' AS key, 1000L AS timestamp_ms, timestamp_millis(999) AS fires_at"),
        r"operator new: timers: .*: timestamp_ms 1000 ms, fires_at 999 ms; select the one that is meant",
    ),
    "microseconds of a timer": (
        timers("SELECT 'a' AS key, timestamp_micros(1001) AS fires_at"),
        r"operator new: timers: .*fires_at is 1001 µs since 1970, expected whole milliseconds",
    ),
    "local time of a timer": (
        timers("SELECT 'a' AS key, timestamp_ntz'2024-01-01 00:00:00' AS fires_at"),
        r"operator new: timers: column 'fires_at' is of type timestamp\[us\], expected a timestamp with time zone",
    ),
    "a misspelt domain": (timers(TIMER + ", 'event_time' AS domian"), r"operator new: column 'domian' would.*mean 'domain'"),
    "a domain": (timers(TIMER + ", 'event' AS domain"), r"operator new: timers: domain 'event', expected"),
    "no domain": (timers(TIMER + ", CAST(NULL AS string) AS domain"), r"operator new: .*domain None"),
    "a service": (timers(TIMER + ", 1 AS service"), r"operator new: .*column 'service' is of type int32"),
    "a window without type": (timers(TIMER + f", {WINDOW} AS window"), r"operator new: column 'window'.*namespace=Types"),
    "a namespace without type": (timers(TIMER + ", 'n' AS namespace"), r"operator new: .*'namespace' has values, but no type"),
    "a taken uid": (
        lambda w, sql: w.change_operator_identifier("catalog", "orders"),
        r"operator orders and operator catalog would both be orders",
    ),
    "a new operator of a taken uid": (
        lambda w, sql: w.change_operator_identifier("catalog", "prices").with_list_state("prices", "l", sql(ROW).select("key")),
        r"operator catalog and operator prices would both be prices",
    ),
    "rows that are none": (
        lambda w, sql: w.update_keyed_state("orders", "total", [("a", 1)]),
        "operator orders: expected rows as a DataFrame of Spark, pandas or Polars, or a table of Arrow, found a list",
    ),
    "states by no column": (
        lambda w, sql: w.with_keyed_state("new", sql(ROW), states=["v"]),
        r"operator new: states=\['v'\]: expected a mapping by column, found a list",
    ),
    "a key's type in text": (
        lambda w, sql: w.with_keyed_state("new", sql(ROW), key_type="STRING"),
        "operator new: key_type='STRING': expected a type such as",
    ),
    "a fraction of a max parallelism": (
        lambda w, sql: w.with_max_parallelism(64.0),
        "max parallelism 64.0: expected a whole number, found a float",
    ),
    "a truth as max parallelism": (lambda w, sql: w.with_max_parallelism(True), "max parallelism True: expected a whole number"),
    "a parallelism in text": (lambda w, sql: w.with_parallelism("orders", "3"), "parallelism '3': expected a whole number"),
    "a version that is a number": (lambda w, sql: w.migrate(2.1), "flink_version=2.1: expected a version like '1.20'"),
    "a truth in text": (lambda w, sql: w.write("/nowhere", overwrite="no"), "overwrite='no': expected true or false"),
    "sharing in text": (lambda w, sql: w.write("/nowhere", share_files="no"), "share_files='no': expected true or false"),
    "an API in text": (lambda w, sql: w.with_async_state("orders", "no"), "enabled='no': expected true or false"),
    "an API of an operator that is not there": (
        lambda w, sql: w.with_async_state("ordres").write("/nowhere"),
        "operator ordres has no keyed state, which with_async_state needs",
    ),
    "an empty new uid": (lambda w, sql: w.change_operator_identifier("catalog", ""), "uid is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_at_once(spark: SparkSession, case: str) -> None:
    call, told = REFUSED[case]
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    before = repr(writer)
    with pytest.raises(sp.StateProcessorError, match=told):
        call(writer, spark.sql)
    if case not in ("a new operator of a taken uid", "an API of an operator that is not there"):
        assert repr(writer) == before
        assert "new" not in {draft.identifier.uid for draft in writer._build.drafts}


def test_a_call_that_was_refused_can_be_made_again(spark: SparkSession) -> None:
    writer = sp.SavepointWriter.new(spark)
    states = {"a": T.LONG(), "b": T.INT()}
    with pytest.raises(sp.InvalidRowError, match="state 'b': column 'b'"):
        writer.with_keyed_state("orders", spark.sql("SELECT 1L AS key, 2L AS a, 'x' AS b"), states=states)
    with pytest.raises(sp.OptionError, match="there is no operator"):
        writer.write("/nowhere")
    writer.with_keyed_state("orders", spark.sql("SELECT 'k' AS key, 2L AS a, 3 AS b"), states=states)
    assert repr(writer).endswith("orders: write a, b")


def test_uids_change_places(spark: SparkSession) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH).change_operator_identifier("catalog", "between")
    writer.change_operator_identifier("orders", "catalog").change_operator_identifier("catalog", "orders")
    assert repr(writer).splitlines()[1:] == ["  orders: become catalog", "  catalog: become orders"]


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.usefixtures("case_sensitive")
def test_names_that_differ_in_case(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'a' AS key, 1L AS total, 2L AS Total")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("orders", rows)
    assert repr(writer).endswith("orders: write total, Total")


OTHER_CASES: dict[str, Call] = {
    "a new state": keyed("SELECT 'a' AS KEY, 1L AS Total", states=TOTAL),
    "a changed state": lambda w, sql: w.update_keyed_state("orders", "total", sql("SELECT 'amelia' AS Key, 1L AS Value")),
    "a column with the name of the state": lambda w, sql: w.update_keyed_state(
        "orders", "total", sql("SELECT 'amelia' AS user, 1L AS TOTAL"), key="USER"
    ),
    "elements of lists": lambda w, sql: w.update_keyed_state(
        "orders", "history", sql("SELECT 'amelia' AS Key, 0 AS List_Index, 'x' AS List_Value")
    ),
    "keys to delete": lambda w, sql: w.delete_keys("orders", sql("SELECT 'amelia' AS Key, 1 AS _Key_Group"), "total"),
    "entries to delete": lambda w, sql: w.delete_map_entries("orders", "items", sql("SELECT 'amelia' AS Key, 'x' AS Map_Key")),
    "timers": timers("SELECT 'a' AS KEY, 1L AS Timestamp, 'event_time' AS Domain"),
    "broadcast state": lambda w, sql: w.with_broadcast_state("new", "rules", sql("SELECT 'a' AS Key, 1L AS Value")),
}


@pytest.mark.parametrize("case", OTHER_CASES)
def test_case_of_columns_counts_as_in_the_session(spark: SparkSession, case: str, request: pytest.FixtureRequest) -> None:
    OTHER_CASES[case](sp.SavepointWriter.from_existing(spark, ORDERS_PATH), spark.sql)
    request.getfixturevalue("case_sensitive")
    with pytest.raises(sp.InvalidRowError, match=r"there is no column .*Did you mean '(Key|KEY|Total|user)'"):
        OTHER_CASES[case](sp.SavepointWriter.from_existing(spark, ORDERS_PATH), spark.sql)


def test_columns_without_states_keep_their_names(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'a' AS KEY, 1L AS Value, 2L AS Window")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("orders", rows)
    assert repr(writer).endswith("orders: write Value, Window")


def test_what_reading_gives_is_taken(spark: SparkSession) -> None:
    """Rows of each shape, with metadata, go back where they came from."""
    orders, writer = sp.SavepointReader.read(spark, ORDERS_PATH), sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    for state in ("total", "session", "profile", "history", "items"):
        for flatten in (True, False):
            rows = orders.read_keyed_state("orders", state, metadata=True, flatten=flatten)
            writer.update_keyed_state("orders", state, rows)
        writer.delete_keys("orders", rows, state)
    writer.delete_keys("orders", orders.read_keyed_state("orders", metadata=True))
    new = sp.SavepointWriter.new(spark)
    new.with_timers("orders", orders.read_timers("orders", metadata=True))
    windows = sp.SavepointReader.read(spark, WINDOWS_PATH)
    new.with_timers("windows", windows.read_timers("session-process"), namespace=T.TIME_WINDOW())
    other = sp.SavepointWriter.from_existing(spark, WINDOWS_PATH)
    rows = windows.read_window_state("session-process", metadata=True)
    other.update_keyed_state("session-process", "window-contents", rows)
    other.delete_keys("session-process", rows.select("key", "window"), "window-contents")
    assert "write total" in repr(writer)


def sink(df: DataFrame, target: str, **options: Any) -> None:
    df.write.format("flink-savepoint").options(uid="orders", **options).mode("append").save(target)


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        ("SELECT 'a' AS key, 1L AS value, 2L AS total", {"state": "total"}, "the columns 'value' and 'total' both have"),
        ("SELECT 'a' AS key, 1L AS total, 2L AS other", {"state": "total"}, "operator orders: column 'other' would be ignored"),
        ("SELECT 'a' AS key, 1L AS total, 2L AS window", {}, "operator orders: column 'window' would be ignored"),
        ("SELECT 'a' AS key, 'x' AS value", {"state": "total", "valueType": "INT"}, "orders: state 'total': column 'value' is"),
        ("SELECT 'a' AS key, 1 AS valeu", {"state": "total"}, "operator orders: there is no column 'value'.*mean 'valeu'"),
        ("SELECT 'a' AS key, 1L AS value", {"state": "total", "base": ORDERS_PATH, "valueType": "INT"}, "of type LONG, not INT"),
        ("SELECT 'a' AS key, 'x' AS value", {"state": "total", "base": ORDERS_PATH}, "orders: state 'total': column 'value' is"),
        ("SELECT 'a' AS key, 1L AS value, 1 AS x", {"state": "total", "base": ORDERS_PATH}, "column 'x' would be ignored"),
    ],
)
def test_what_the_data_source_refuses(spark: SparkSession, rows: str, options: dict[str, str], told: str) -> None:
    sp.register(spark)
    with pytest.raises(Exception, match=told):
        sink(spark.sql(rows), "/nowhere/at/all", **options)
