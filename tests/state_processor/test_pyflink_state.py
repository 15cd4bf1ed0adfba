"""States of a PyFlink job read as the job declares them, and written so that it restores them: through Spark and Arrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import ListState, MapState, ReducingState, Types, ValueState
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator
from state_processor.backends.state import state_headers
from state_processor.cli import main
from state_processor.write.plan.source_operator import SourceOperator
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIRECTORY = unpacked() / "2.3.0" / "pyflink-hashmap-canonical"
PATH = str(DIRECTORY / "savepoint")
ROW = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
STATES: dict[str, Any] = {
    "value-string": ValueState(Types.STRING()),
    "value-pickled": ValueState(Types.PICKLED_BYTE_ARRAY()),
    "value-long": ValueState(Types.LONG()),
    "value-row": ValueState(ROW),
    "list-long": ListState(Types.LONG()),
    "list-string": ListState(Types.STRING()),
    "map-string-long": MapState(Types.STRING(), Types.LONG()),
    "map-pickled": MapState(Types.STRING(), Types.PICKLED_BYTE_ARRAY()),
    "reducing-long": ReducingState(Types.LONG()),
}
RULES = Types.MAP(Types.STRING(), Types.LONG())


def content(table: pa.Table) -> dict[str, Any]:
    """Rows by key, with maps in the order of their keys."""

    def ordered(value: Any) -> Any:
        pairs = isinstance(value, list) and value and isinstance(value[0], tuple)
        return sorted(value) if pairs else value

    return {row["key"]: {name: ordered(value) for name, value in row.items()} for row in table.to_pylist()}


def read(path: str | Path, uid: str, state: str | None = None, **options: Any) -> pa.Table:
    return pa.Table.from_batches(sp.arrow.read_state(path, uid, state, **options))


def bytes_of(path: str | Path, uid: str, state: str) -> dict[str, Any]:
    """Byte arrays of a state as Java has them."""
    return content(read(path, uid, state, flatten=False))


def timers(path: str | Path) -> set[tuple[str, int]]:
    return {(t["key"], t["timestamp"]) for b in sp.arrow.read_timers(path, "py-keyed") for t in b.to_pylist()}


def expected(state: str) -> dict[str, Any]:
    operators = json.loads((DIRECTORY / "expected.json").read_text("utf-8"))["operators"]
    (found,) = [s for o in operators for s in o["states"] if s["name"] == state]
    return {entry["key"]: entry["value"] for entry in found["entries"]}


def metas(path: str | Path, uid: str) -> dict[str, state_headers.StateMetaInfo]:
    """How states are registered."""
    snapshot = open_snapshot(path)
    source = SourceOperator(snapshot, find_operator(snapshot, uid))
    keyed = {} if source.header is None else {meta.name: meta for meta in source.header.states}
    return keyed | dict(source.operator_metas)


@pytest.fixture(scope="module")
def reader(spark: SparkSession) -> sp.SavepointReader:
    return sp.SavepointReader.read(spark, PATH)


@pytest.fixture(scope="module")
def rows(reader: sp.SavepointReader) -> DataFrame:
    return reader.read_keyed_state("py-keyed", python_types=STATES)


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The savepoint in files of the heap backend, without lengths around values."""
    target = tmp_path_factory.mktemp("heap") / "savepoint"
    assert main(["convert", PATH, str(target), "--format", "native", "--backend", "hashmap"]) == 0
    return target


@pytest.mark.parametrize("state", STATES)
def test_states_in_files_of_the_heap(heap: Path, state: str) -> None:
    options = {"python_type": STATES[state], "flatten": False}
    assert content(read(heap, "py-keyed", state, **options)) == content(read(PATH, "py-keyed", state, **options))


def test_states(reader: sp.SavepointReader) -> None:
    found = {(r.operator_uid, r.state_name): r for r in reader.states().collect()}
    assert {name for uid, name in found if uid == "py-keyed"} >= {*STATES}
    assert found["py-keyed", "value-long"].python
    assert found["py-keyed", "value-long"].key_type == "STRING"
    assert found["py-broadcast", "rules"].python
    assert not found["py-keyed", "_timer_state/event_user-timers"].python


def test_a_state_through_spark(reader: sp.SavepointReader, spark: SparkSession) -> None:
    longs = reader.read_keyed_state("py-keyed", "value-long", python_type=Types.LONG())
    assert longs.schema.simpleString() == "struct<key:string,value:bigint>"
    assert {r.key: r.value for r in longs.collect()} == expected("value-long")
    elements = spark.read.format("flink-savepoint").option("uid", "py-keyed").option("state", "list-string")
    flat = elements.option("pythonType", "ListState<STRING>").load(PATH).orderBy("list_index").collect()
    lists: dict[str, list[str]] = {}
    for row in flat:
        lists.setdefault(row.key, []).append(row.list_value)
    assert lists == expected("list-string")
    types = '{"value-row": "ROW<name:STRING,count:INT>", "map-string-long": "MAP<STRING,LONG>"}'
    beside = spark.read.format("flink-savepoint").option("uid", "py-keyed").option("pythonTypes", types).load(PATH)
    row = beside.where("key = 'key-3'").select("`value-row`.count", "`map-string-long`").first()
    assert row is not None
    assert (row[0], sorted(map(list, row[1].items()))) == (
        expected("value-row")["key-3"]["fields"][1],
        sorted(expected("map-string-long")["key-3"]),
    )


def test_all_states_through_spark(rows: DataFrame) -> None:
    found = content(rows.toArrow())
    assert {key: row["reducing-long"] for key, row in found.items()} == expected("reducing-long")
    assert {key: row["list-long"] for key, row in found.items()} == expected("list-long")
    assert {key: row["value-string"] for key, row in found.items()} == expected("value-string")


def test_columns_and_keys() -> None:
    chosen = read(PATH, "py-keyed", "value-row", python_type=ROW, columns=["value.count"], keys=["key-3"])
    assert chosen.to_pylist() == [{"value": {"count": expected("value-row")["key-3"]["fields"][1]}}]
    counted = read(PATH, "py-keyed", "list-long", python_type=ListState(Types.LONG()), columns=["list_index"])
    assert counted.num_rows == sum(map(len, expected("list-long").values()))
    (group,) = read(PATH, "py-keyed", "value-long", python_type="LONG", keys=["key-3"], metadata=True).to_pylist()
    assert group["value"] == expected("value-long")["key-3"]


def test_timers_broadcast_state_and_lookup(reader: sp.SavepointReader) -> None:
    assert {r.key for r in reader.read_timers("py-keyed").collect()} == {*expected("value-long")}
    rules = reader.read_broadcast_state("py-broadcast", "rules", python_type=RULES)
    assert {r.key: r.value for r in rules.collect()} == expected("rules")
    found = reader.lookup("py-keyed", "key-3", python_types={"value-long": "LONG"})
    assert found.states["value-long"].to_pylist() == [{"key": "key-3", "value": expected("value-long")["key-3"]}]
    assert found.timers is not None
    assert {*found.timers["key"].to_pylist()} == {"key-3"}
    one = sp.arrow.lookup(PATH, "py-keyed", "key-3", "value-string", python_type=Types.STRING())
    assert one.states["value-string"]["value"].to_pylist() == [expected("value-string")["key-3"]]


def test_pickles_are_loaded_on_request_alone(reader: sp.SavepointReader, spark: SparkSession) -> None:
    pickled = Types.PICKLED_BYTE_ARRAY()
    loaded = reader.read_keyed_state("py-keyed", "value-pickled", python_type=pickled, unpickle=True)
    assert {r.key: json.loads(r.value) for r in loaded.collect()} == expected("value-pickled")
    as_row = Types.ROW_NAMED(["i", "list", "none"], [Types.LONG(), Types.LIST(Types.LONG()), Types.STRING()])
    typed = read(PATH, "py-keyed", "value-pickled", python_type=pickled, unpickle=as_row)
    assert {r["key"]: r["value"] for r in typed.to_pylist()} == expected("value-pickled")
    kept = reader.read_keyed_state("py-keyed", "value-pickled", python_type=pickled)
    assert kept.schema["value"].dataType.simpleString() == "binary"
    with pytest.raises(Exception, match="no option 'unpickle'"):
        spark.read.format("flink-savepoint").option("uid", "py-keyed").option("unpickle", "true").load(PATH)
    with pytest.raises(sp.OptionError, match="name the states with pickles"):
        reader.read_keyed_state("py-keyed", "value-pickled", unpickle=True)


@pytest.mark.parametrize(
    ("state", "type_", "error", "message"),
    [
        ("value-long", Types.INT(), sp.CorruptSnapshotError, "was read as INT.*pass the type that the job declares"),
        ("list-long", Types.LONG(), sp.CorruptSnapshotError, r"read as LONG.*ListState\(…\) for a list state"),
        ("value-string", ListState(Types.LONG()), sp.CorruptSnapshotError, "read as ListState<LONG>"),
        ("map-string-long", Types.LONG(), sp.OptionError, "is a map, but LONG is not"),
        ("value-long", MapState(Types.STRING(), Types.LONG()), sp.OptionError, "is not a map state"),
        ("list-long", Types.LIST(Types.LONG()), sp.OptionError, r"pass ListState.* or ValueState"),
        ("_timer_state/event_user-timers", Types.LONG(), sp.OptionError, "does not apply to .*, a read of timers"),
        ("value-lon", Types.LONG(), sp.NotFoundError, "Did you mean 'value-long'"),
        (None, Types.LONG(), sp.OptionError, "python_type does not apply to .* Name one state"),
    ],
)
def test_types_that_are_not_the_jobs(heap: Path, state: str | None, type_: Any, error: type[Exception], message: str) -> None:
    for path in (PATH, heap):
        with pytest.raises(error, match=message):
            read(path, "py-keyed", state, python_type=type_)
    with pytest.raises(sp.NotFoundError, match="no state 'total'"):
        read(PATH, "py-keyed", python_types={"total": Types.LONG()})


def test_states_written_for_a_job(spark: SparkSession, rows: DataFrame, reader: sp.SavepointReader, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.new(spark, flink_version="2.3")
    writer.with_keyed_state("py-keyed", rows, states=STATES, python=True)
    writer.with_timers("py-keyed", reader.read_timers("py-keyed"))
    rules = reader.read_broadcast_state("py-broadcast", "rules", python_type=RULES)
    writer.with_broadcast_state("py-broadcast", "rules", rules, Types.STRING(), Types.LONG(), python=True)
    writer.write(tmp_path / "new")
    for state, spec in STATES.items():
        if not isinstance(spec, ListState):  # an element per byte array, where the job may have several
            assert bytes_of(tmp_path / "new", "py-keyed", state) == bytes_of(PATH, "py-keyed", state)
        options = {"python_type": spec, "flatten": False}
        assert content(read(tmp_path / "new", "py-keyed", state, **options)) == content(read(PATH, "py-keyed", state, **options))
    assert timers(tmp_path / "new") == timers(PATH)
    assert content(read(tmp_path / "new", "py-broadcast", "rules")) == content(read(PATH, "py-broadcast", "rules"))
    for uid in ("py-keyed", "py-broadcast"):
        written, original = metas(tmp_path / "new", uid), metas(PATH, uid)
        for name in written:
            assert written[name] == original[name]


def test_states_updated_for_a_job(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.from_existing(spark, PATH)
    longs = spark.createDataFrame([("key-3", 7), ("new", 8)], "key string, value bigint")
    writer.update_keyed_state("py-keyed", "value-long", longs, python_type=Types.LONG())
    lists = spark.createDataFrame([("key-3", [1, 2])], "key string, value array<bigint>")
    writer.update_keyed_state("py-keyed", "list-long", lists, python_type=ListState(Types.LONG()))
    entry = spark.createDataFrame([("key-3", "m3", 99)], "key string, map_key string, map_value bigint")
    writer.update_keyed_state("py-keyed", "map-string-long", entry, python_type=MapState(Types.STRING(), Types.LONG()))
    gone = spark.createDataFrame([("key-4", "m4")], "key string, map_key string")
    writer.delete_map_entries("py-keyed", "map-string-long", gone, python_type=RULES)
    writer.delete_keys("py-keyed", spark.createDataFrame([("key-5",)], "key string"), "value-string")
    writer.remove_state("py-keyed", "value-row")
    writer.with_broadcast_state("py-broadcast", "rules", spark.createDataFrame([("rule-9", 9)], "key string, value bigint"))
    writer.write(tmp_path / "new")

    def found(state: str, **options: Any) -> dict[str, Any]:
        table = read(tmp_path / "new", "py-keyed", state, python_type=STATES[state], flatten=False, **options)
        return {key: row["value"] for key, row in content(table).items()}

    assert found("value-long") == expected("value-long") | {"key-3": 7, "new": 8}
    assert found("list-long") == expected("list-long") | {"key-3": [1, 2]}
    maps = {key: dict(value) for key, value in found("map-string-long").items()}
    old = {key: dict(value) for key, value in expected("map-string-long").items()}
    del old["key-4"]["m4"]
    old["key-3"]["m3"] = 99
    assert maps == old
    assert found("value-string") == {k: v for k, v in expected("value-string").items() if k != "key-5"}
    assert "python-state-value-row" not in metas(tmp_path / "new", "py-keyed")
    assert read(tmp_path / "new", "py-broadcast", "rules", python_type=RULES).to_pylist() == [{"key": "rule-9", "value": 9}]
    changed = sp.diff(spark, PATH, str(tmp_path / "new"), "py-keyed", "value-long", python_types={"value-long": "LONG"})
    assert {(r.change, r.key, r.before, r.after) for r in changed.collect()} == {
        ("update", "key-3", expected("value-long")["key-3"], 7),
        ("insert", "new", None, 8),
    }
    with pytest.raises(sp.InvalidRowError, match="it is a state of PyFlink: give the type in the job"):
        writer.update_keyed_state("py-keyed", "value-string", spark.createDataFrame([("a", "b")], "key string, value string"))
    with pytest.raises(sp.OptionError, match="with another python_type"):
        writer.update_keyed_state("py-keyed", "value-long", longs, python_type=Types.INT())


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    place = [PATH, "--uid", "py-keyed"]
    assert main(["get", *place, "key-3", "--state", "value-long", "--python-type", "LONG", "--json"]) == 0
    shown = ["show", *place, "--key", "key-3", "--columns", "list-long", "--python-types", "list-long=ListState<LONG>", "--json"]
    assert main(shown) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[0] == {"state_name": "value-long", "key": "key-3", "value": expected("value-long")["key-3"]}
    assert found[1] == {"list-long": expected("list-long")["key-3"]}


def test_a_state_written_by_the_data_source(spark: SparkSession, tmp_path: Path) -> None:
    longs = spark.createDataFrame([("key-3", 7)], "key string, value bigint")
    sink = longs.write.format("flink-savepoint").mode("append").option("uid", "py-keyed").option("pythonType", "LONG")
    sink.option("base", PATH).option("state", "value-long").save(str(tmp_path / "updated"))
    updated = read(tmp_path / "updated", "py-keyed", "value-long", python_type="LONG")
    assert {r["key"]: r["value"] for r in updated.to_pylist()} == expected("value-long") | {"key-3": 7}
    sink.option("state", "total").save(str(tmp_path / "added"))
    added = read(tmp_path / "added", "py-keyed", "total", python_type="LONG")
    assert added.to_pylist() == [{"key": "key-3", "value": 7}]
