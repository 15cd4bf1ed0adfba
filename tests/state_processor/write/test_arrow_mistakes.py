"""Messages about rows and arguments that users give without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.testing import assert_state
from tests.state_processor.samples import ORDERS_PATH

T = sp.Types

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "files": sp.files,
    "orphans": sp.orphans,
    "retain": lambda directory: sp.retain(directory, keep=1),
    "dispose": sp.dispose,
    "list_snapshots": sp.list_snapshots,
}


def add(rows: Any, type_: Any) -> None:
    states = {"value": sp.ValueState(type_)}
    sp.arrow.SavepointWriter.new().with_keyed_state("u", rows, key_type=T.STRING(), states=states)


@pytest.mark.parametrize(
    ("rows", "type_", "message"),
    [
        (
            pa.table({"key": ["a"], "value": ["x"]}),
            T.LONG(),
            "is of Arrow type string; the type LONG takes int64; cast it to int64$",
        ),
        (
            pa.table({"key": ["a"], "value": [[1]]}),
            T.MAP(T.STRING(), T.INT()),
            r"is of Arrow type list<.*takes map<string, int32>$",
        ),
        (
            [{"key": "a", "value": 1}, {"key": "b", "value": None}, {"key": "c", "value": "x"}],
            T.LONG(),
            "'value' of row 2 .* 'x' of type str: ",
        ),
        ([{"key": "a", "value": 1}, {"key": "b", "value": 1 << 70}], T.LONG(), rf"'value' of row 1 .* {1 << 70} of type int: "),
        ([{"key": "a", "value": T.LONG()}], T.LONG(), "'value' of row 0 can't become a value of Arrow"),
    ],
)
def test_columns_of_another_type(rows: Any, type_: Any, message: str) -> None:
    with pytest.raises((sp.InvalidRowError, sp.OptionError), match=message) as refused:
        add(rows, type_)
    assert "Spark" not in str(refused.value)


def test_keys_of_another_type() -> None:
    with pytest.raises(
        sp.OptionError, match="column 'key' is of Arrow type int64; the type STRING takes string; cast it to string"
    ):
        sp.arrow.read_state(ORDERS_PATH, "orders", "total", keys=pa.table({"key": [1]}))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize("path", [None, 3])
def test_a_directory_that_is_not_a_path(function: Callable[[Any], Any], path: Any) -> None:
    with pytest.raises(sp.OptionError, match=r"expected (a path or URL|the directory of a savepoint or checkpoint), found"):
        function(path)


@pytest.mark.parametrize("also", [None, "/elsewhere", 3])
def test_further_directories_that_are_not_a_list(also: Any) -> None:
    with pytest.raises(sp.OptionError, match=f"also: expected a list of directories, found {also!r}"):
        sp.files(ORDERS_PATH, also=also)


@pytest.mark.parametrize(
    ("uid", "state", "expected", "wanted"),
    [
        ("orders", "total", 3, "a dictionary of values by key, found an object of type int"),
        ("catalog", "pending", 3, "a list of elements, found an object of type int"),
        ("catalog", "pending", "restock", "a list of elements, found an object of type str"),
    ],
)
def test_expected_contents_of_another_type(uid: str, state: str, expected: Any, wanted: str) -> None:
    with pytest.raises(sp.OptionError, match=f"expected: state '{state}' is compared with {wanted}"):
        assert_state(ORDERS_PATH, uid, state, expected)


NUMBERS = pa.table({"key": ["amelia", "zoe"], "value": [1, 2]})
Use = Callable[[sp.arrow.SavepointWriter, Any], Any]
USES: dict[str, Use] = {
    "keyed state": lambda writer, rows: writer.with_keyed_state("new", rows),
    "another operator": lambda writer, rows: writer.with_keyed_state("newer", rows),
    "an update": lambda writer, rows: writer.update_keyed_state("orders", "total", rows),
    "a deletion": lambda writer, rows: writer.delete_keys("orders", rows, "total"),
    "broadcast state": lambda writer, rows: writer.with_broadcast_state("lists", "rules", rows),
    "another writer": lambda writer, rows: sp.arrow.SavepointWriter.new().with_keyed_state("new", rows),
}


@pytest.mark.parametrize("first", USES)
@pytest.mark.parametrize("second", USES)
def test_a_stream_is_given_once(first: str, second: str) -> None:
    connection = duckdb.connect()
    for reader in (NUMBERS.to_reader(), connection.sql("SELECT 'amelia' AS key, 1 AS value").to_arrow_reader()):
        writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
        with pytest.raises(sp.OptionError, match=r"a stream that was given before.*as a table"):
            USES[second](USES[first](writer, reader) and writer, reader)


def test_a_stream_of_one_call_has_rows_for_all_of_its_states(tmp_path: Path) -> None:
    rows = pa.table({"key": ["a"], "one": [1], "two": [2]}).to_reader()
    sp.arrow.SavepointWriter.new().with_keyed_state("op", rows).write(tmp_path / "new")
    assert_state(tmp_path / "new", "op", "one", {"a": 1})
    assert_state(tmp_path / "new", "op", "two", {"a": 2})


def test_queries_of_one_connection_of_duckdb(tmp_path: Path) -> None:
    """A connection has one open result, so that a query begins when its rows are encoded."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE numbers AS SELECT 'k' || i AS key, i AS value FROM range(3000) t(i)")
    numbers, doubled = connection.sql("FROM numbers"), connection.sql("SELECT key, 2 * value AS value FROM numbers")
    writer = sp.arrow.SavepointWriter.new()
    writer.with_keyed_state("one", numbers).with_keyed_state("two", doubled).with_keyed_state("three", numbers)
    summary = writer.write(tmp_path / "new")
    assert [operator.entries for operator in summary.operators] == [3000] * 3
    assert_state(tmp_path / "new", "two", "value", {f"k{i}": 2 * i for i in range(3000)})


def test_an_open_result_of_duckdb_is_named() -> None:
    connection = duckdb.connect()
    reader = connection.sql("SELECT i AS key, i AS value FROM range(100000) t(i)").to_arrow_reader(10)
    with pytest.raises(sp.OptionError, match=r"can't be read as a stream of Arrow: .*a connection for each"):
        sp.arrow.SavepointWriter.new().with_keyed_state("op", connection.sql("SELECT 1 AS key, 2 AS value"))
    assert reader.schema.names == ["key", "value"]


@pytest.mark.parametrize("format", ["canonical", "native"])
@pytest.mark.parametrize("ttl", [False, True])
def test_null_elements_of_lists_are_refused(tmp_path: Path, format: str, ttl: bool) -> None:
    lists = pa.table({"key": [1, 2], "names": [["a", "b"], ["c", None, "d"]]})
    states = {"names": sp.ListState(T.STRING(), ttl=ttl)}
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("op", lists, states=states)
    with pytest.raises(
        sp.InvalidRowError, match=r"operator op, state 'names', key 2.*names\[1\]|value\[1\] of row 1 .*can't be null"
    ):
        writer.write(tmp_path / "new", format=format, backend="rocksdb" if format == "native" else None)


def test_null_elements_of_changed_lists_are_refused(tmp_path: Path) -> None:
    for rows in (
        pa.table({"key": ["amelia"], "value": [["a", None]]}),
        [{"key": "amelia", "list_index": 0, "list_value": "a"}, {"key": "amelia", "list_index": 1, "list_value": None}],
        pa.table({"key": ["amelia"], "value": pa.array([[None]], pa.list_(pa.null()))}),
    ):
        writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).update_keyed_state("orders", "history", rows)
        with pytest.raises(sp.InvalidRowError, match=r"state 'history', key 'amelia'.*value\[[01]\] .*can't be null"):
            writer.write(tmp_path / "new")


@pytest.mark.parametrize("method", ["with_list_state", "with_union_state"])
def test_null_elements_of_operator_state_are_refused(tmp_path: Path, method: str) -> None:
    writer = getattr(sp.arrow.SavepointWriter.new(), method)("op", "names", pa.table({"value": ["a", None]}))
    with pytest.raises(sp.InvalidRowError, match=r"operator op, state 'names': column value of row 1 is null: .*can't be null"):
        writer.write(tmp_path / "new")


def test_a_null_in_a_map_is_an_entry_where_the_type_has_null(tmp_path: Path) -> None:
    entries = [{"key": 1, "map_key": "a", "map_value": None}, {"key": 1, "map_key": "b", "map_value": "x"}]
    rows = pa.table({"key": [1], "texts": pa.array([[("a", "y")]], pa.map_(pa.string(), pa.string()))})
    states = {"texts": sp.MapState(T.STRING(), T.STRING())}
    sp.arrow.SavepointWriter.new().with_keyed_state("op", rows, states=states).write(tmp_path / "old")
    writer = sp.arrow.SavepointWriter.from_existing(tmp_path / "old").update_keyed_state("op", "texts", entries)
    writer.write(tmp_path / "new")
    assert_state(tmp_path / "new", "op", "texts", {1: {"a": None, "b": "x"}})
    gone = [{"key": "amelia", "map_key": "mug", "map_value": pa.scalar(None, pa.int64()).as_py()}]
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).update_keyed_state("orders", "items", gone)
    with pytest.raises(sp.InvalidRowError, match="map_value of row 0 is null; the type can't store null"):
        writer.write(tmp_path / "refused")


@pytest.mark.parametrize("version", ["2.9", "1.21", "3.0", "1.12", "2", "", None])
def test_versions_of_flink_that_are_unknown_are_refused(version: Any) -> None:
    if version is not None:
        with pytest.raises(sp.OptionError, match=f"flink_version='{version}'"):
            sp.arrow.SavepointWriter.new(flink_version=version)
    for known in ("1.13", "1.20.5", "2.3", "2.x"):
        sp.arrow.SavepointWriter.new(flink_version=known)


def test_an_empty_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("op", NUMBERS)
    calls: list[Callable[[], Any]] = [
        lambda: writer.write(""),
        lambda: sp.open(""),
        lambda: sp.arrow.SavepointWriter.from_existing(""),
        lambda: sp.list_snapshots(""),
        lambda: sp.arrow.operators(""),
    ]
    for call in calls:
        with pytest.raises(sp.OptionError, match=r"found (an empty text|'')|empty"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_operators_exchange_uids(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
    with pytest.raises(sp.OptionError, match=r"would both be catalog.*change_operator_identifiers"):
        writer.change_operator_identifier("orders", "catalog")
    writer.change_operator_identifiers({"orders": "catalog", "catalog": "orders"}).write(tmp_path / "new")
    assert {row["state_name"] for row in sp.arrow.states(tmp_path / "new").to_pylist() if row["operator_uid"] == "catalog"} >= {
        "total"
    }


def test_an_operator_is_named_once(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
    twice = {"orders": "a", sp.OperatorIdentifier.for_uid("orders").uid_hash: "b"}
    with pytest.raises(sp.OptionError, match=r"orders and bc4197a480c92c793190a9f8c0afc54c are the same operator; name it once"):
        writer.change_operator_identifiers(twice)
    with pytest.raises(sp.OptionError, match="are the same operator"):
        writer.migrate("2.3", types={uid: {} for uid in twice})
    with pytest.raises(sp.OptionError, match="operator catalog and operator orders would both be x"):
        writer.change_operator_identifiers({"orders": "x", "catalog": "x"})
    assert repr(writer) == repr(sp.arrow.SavepointWriter.from_existing(ORDERS_PATH))


def test_changes_of_a_state_that_is_written_anew() -> None:
    rows = [{"key": "amelia", "value": 1}]
    message = r"operator orders.*an earlier call writes all of the state 'total' anew.*in a second one"
    for change in (
        lambda writer: writer.update_keyed_state("orders", "total", rows),
        lambda writer: writer.with_ttl("orders", "total"),
        lambda writer: writer.touch("orders", "total"),
        lambda writer: writer.delete_keys("orders", [{"key": "amelia"}], "total"),
        lambda writer: writer.evolve_state("orders", "total", T.LONG()),
    ):
        with pytest.raises(sp.OptionError, match=message):
            change(sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).with_ttl("orders", "total"))
    with pytest.raises(sp.NotFoundError, match="an earlier call removes the state 'total'"):
        sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).remove_state("orders", "total").with_ttl("orders", "total")


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_infinite_dates_and_times(type_: str, value: str, tmp_path: Path) -> None:
    flink = {"DATE": sp.Types.LOCAL_DATE(), "TIMESTAMP": sp.Types.LOCAL_DATE_TIME(), "TIMESTAMPTZ": sp.Types.INSTANT()}[type_]
    rows = duckdb.sql(f"FROM (VALUES ('a', '2030-01-01'::{type_}), ('b', '{value}'::{type_})) AS t(key, value)")
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("op", rows, key_type=sp.Types.STRING(), states={"value": flink})
    with pytest.raises(sp.InvalidRowError, match="column 'value' of row 1 is infinite"):
        writer.write(tmp_path / "savepoint")


@pytest.mark.parametrize("key", ["timestamp", "domain", "service"])
def test_a_key_that_is_another_part_of_a_timer(key: str) -> None:
    rows = [{key: "event_time", "timestamp_ms": 1}]
    with pytest.raises(sp.InvalidRowError, match=f"operator o: timers: column '{key}' has the {key} of each timer; rename the"):
        sp.arrow.SavepointWriter.new().with_timers("o", rows, key=key)


@pytest.mark.parametrize("counts", [(1, 2), (1, 1), (0, 1)])
def test_each_entry_of_a_map_that_changes_later_has_a_time(tmp_path: Path, counts: tuple[int, int]) -> None:
    entries = pa.map_(pa.string(), pa.int64())
    base = pa.table({"key": ["k"], "seen": pa.array([[("a", 1)]], entries)})
    states = {"seen": sp.MapState(T.STRING(), T.LONG(), ttl=True)}
    sp.arrow.SavepointWriter.new().with_keyed_state("o", base, states=states).write(tmp_path / "base")
    times = pa.array([[1] * count or None for count in counts], pa.list_(pa.timestamp("us", "UTC")))
    maps = pa.array([[("a", 1), ("b", 2)], [("a", 3)]], entries)
    whole = pa.table({"key": ["k", "l"], "value": maps, "_last_access": times})
    writer = sp.arrow.SavepointWriter.from_existing(tmp_path / "base").update_keyed_state("o", "seen", whole)
    message = rf"operator o: state 'seen': key 'k': column _last_access has {counts[0]} times, the value 2 elements"
    with pytest.raises(sp.InvalidRowError, match=message):
        writer.update_keyed_state("o", "seen", [{"key": "k", "map_key": "a", "map_value": 9}])
