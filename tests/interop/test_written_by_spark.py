"""Real Flink restores what SavepointWriter wrote from DataFrames, and finds every entry."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator, operator_states
from state_processor.backends.state.descriptions import StateDescription
from tests.interop import flink, flink_jars
from tests.interop.selection import in_turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIXTURES = flink_jars.ROOT / "tests" / "fixtures"
ADDRESS = "io.stateprocessor.interop.Address"
KINDS = {"VALUE": sp.ValueState, "REDUCING": sp.ReducingState, "AGGREGATING": sp.AggregatingState, "LIST": sp.ListState}

VERSIONS = ("1.20.5", "2.3.0")
BACKENDS = ("hashmap", "rocksdb")

pytestmark = pytest.mark.interop


def fixture(version: str, name: str) -> tuple[str, dict[str, Any]]:
    directory = FIXTURES / version / name
    expected = json.loads((directory / "expected.json").read_text("utf-8"))
    return str(directory / expected["snapshot_dir"]), expected


def spec(state: StateDescription) -> Any:
    """What a user would write for a state."""
    value = state.value.value if state.has_ttl else state.value
    namespace = None if state.in_void_namespace else state.namespace
    options = {"ttl": state.has_ttl, "namespace": namespace}
    if state.kind == "MAP":
        return sp.MapState(state.map_key, value, **options)
    return KINDS[state.kind](value, **options)


def bootstrap(spark: SparkSession, source: str, expected: dict[str, Any], target: Path, parallelism: int) -> None:
    """A new savepoint from the DataFrames of all states of another."""
    snapshot, reader = open_snapshot(source), sp.SavepointReader.read(spark, source)
    writer = sp.SavepointWriter.new(spark, expected["max_parallelism"], expected["flink_version"])
    for operator in expected["operators"]:
        uid = operator["uid"]
        states = operator_states(snapshot, find_operator(snapshot, uid)).values()
        for state in states:
            if state.is_timer:
                continue
            if state.kind == "BROADCAST":
                df = reader.read_broadcast_state(uid, state.name)
                writer.with_broadcast_state(uid, state.name, df, state.key, state.value, parallelism)
            elif state.kind == "UNION_LIST":
                writer.with_union_state(uid, state.name, reader.read_union_state(uid, state.name), state.value, parallelism)
            elif state.kind == "OPERATOR_LIST":
                writer.with_list_state(uid, state.name, reader.read_list_state(uid, state.name), state.value, parallelism)
            else:
                df = rows(reader, uid, state.name).withColumnRenamed("value", state.name)
                writer.with_keyed_state(uid, df, "key", state.key, {state.name: spec(state)}, parallelism)
        timers = [state for state in states if state.is_timer]
        if timers:
            namespace = None if timers[0].in_void_namespace else timers[0].namespace
            writer.with_timers(uid, reader.read_timers(uid), key_type=timers[0].key, namespace=namespace)
    writer.write(target)


def rows(reader: sp.SavepointReader, uid: str, state: str) -> DataFrame:
    return reader.read_keyed_state(uid, state, flatten=False, nanos="string", row_kind=True)


def patch(spark: SparkSession, source: str, expected: dict[str, Any], target: Path) -> dict[str, Any]:
    """Changes to the orders of a shop, and the expected content in Flink."""
    reader = sp.SavepointReader.read(spark, source)
    writer = sp.SavepointWriter.from_existing(spark, source)
    total = spark.createDataFrame([("amelia", 1), ("newcomer", 2), ("anders", None)], "key string, value bigint")
    writer.update_keyed_state("orders", "total", total)
    items = spark.createDataFrame([("anders", "teapot", 99)], "key string, map_key string, map_value bigint")
    writer.update_keyed_state("orders", "items", items)
    elements = [("bela", 1, "second"), ("bela", 0, "first")]
    history = spark.createDataFrame(elements, "key string, list_index int, list_value string")
    writer.update_keyed_state("orders", "history", history)
    profiles = reader.read_keyed_state("orders", "profile").where("key = 'anders'")
    moved = profiles.selectExpr("key", "named_struct({}) as value".format(_with_name(profiles, "Andreas")))
    writer.update_keyed_state("orders", "profile", moved)
    writer.delete_keys("orders", spark.createDataFrame([("clara",)], "key string"))
    writer.delete_keys("orders", spark.createDataFrame([("chidi",)], "key string"), state="history")
    writer.remove_state("orders", "session")
    writer.with_list_state("catalog", "pending", spark.createDataFrame([("restock all",)], "value string"), sp.Types.STRING())
    writer.change_operator_identifier("catalog", "catalogue")
    writer.write(target)
    return patched(expected)


def _with_name(profiles: DataFrame, name: str) -> str:
    fields = profiles.schema["value"].dataType.names
    return ", ".join(f"'{f}', " + (f"'{name}'" if f == "name" else f"value.{f}") for f in fields)


def patched(expected: dict[str, Any]) -> dict[str, Any]:
    wanted = copy.deepcopy(expected)
    orders, catalog = wanted["operators"]
    orders["states"] = [s for s in orders["states"] if s["name"] != "session"]
    states = {s["name"]: s for s in orders["states"]}
    for state in states.values():
        state["entries"] = [e for e in state["entries"] if e["key"] != "clara"]
    values = {name: {e["key"]: e["value"] for e in states[name]["entries"]} for name in ("total", "items", "history", "profile")}
    values["total"] |= {"amelia": 1, "newcomer": 2}
    del values["total"]["anders"]
    values["items"]["anders"] = [[k, 99 if k == "teapot" else v] for k, v in values["items"]["anders"]]
    values["history"]["bela"] = ["first", "second"]
    del values["history"]["chidi"]
    values["profile"]["anders"]["name"] = "Andreas"
    for name, found in values.items():
        states[name]["entries"] = [{"key": k, "value": v} for k, v in found.items()]
    catalog["uid"] = "catalogue"
    next(s for s in catalog["states"] if s["name"] == "pending")["entries"] = ["restock all"]
    return wanted


def evolve(spark: SparkSession, directory: Path) -> dict[str, Any]:
    """Addresses of a class that had two fields, and then got a third."""
    types = {"city": sp.Types.STRING(), "zip": sp.Types.INT()}
    df = spark.createDataFrame([(k, (f"city {k}", k)) for k in range(50)], "key int, address struct<city string, zip int>")
    writer = sp.SavepointWriter.new(spark)
    writer.with_keyed_state("people", df, states={"address": sp.Types.POJO(ADDRESS, types)}).write(directory / "two-fields")
    writer = sp.SavepointWriter.from_existing(spark, directory / "two-fields")
    new_type = sp.Types.POJO(ADDRESS, types | {"street": sp.Types.STRING()})
    writer.evolve_state("people", "address", new_type).write(directory / "evolved")
    entries = [{"key": k, "value": {"@class": ADDRESS, "city": f"city {k}", "street": None, "zip": k}} for k in range(50)]
    return one_state("people", "INT", {"name": "address", "value_type": f"POJO<{ADDRESS}>", "entries": entries})


def sink(spark: SparkSession, directory: Path) -> dict[str, Any]:
    """A count per word; some counts are changed afterwards."""
    sp.register(spark)
    words = spark.range(500).selectExpr("concat('word', id) AS word", "id AS count")
    options = {"uid": "words", "key": "word", "state": "count"}
    words.write.format("flink-savepoint").options(**options, parallelism=3).mode("append").save(str(directory / "words"))
    changed = words.where("count < 9").selectExpr("word", "if(count < 3, NULL, count + 1000) AS count")
    options["base"] = str(directory / "words")
    changed.write.format("flink-savepoint").options(**options).mode("append").save(str(directory / "sink"))
    entries = [{"key": f"word{i}", "value": i + 1000 if i < 9 else i} for i in range(3, 500)]
    return one_state("words", "STRING", {"name": "count", "value_type": "LONG", "entries": entries})


def one_state(uid: str, key_type: str, state: dict[str, Any]) -> dict[str, Any]:
    value_state = {"kind": "VALUE", "key_type": key_type, "ttl": False, **state}
    return {"operators": [{"uid": uid, "key_type": key_type, "states": [value_state]}]}


Expected = tuple[str, Path, dict[str, Any], int]
"""A savepoint to restore: description, path, content, and max parallelism."""


def bootstrapped(name: str, spark: SparkSession, version: str, directory: Path) -> Expected:
    source, expected = fixture(version, name)
    target = directory / f"new-{name}"
    bootstrap(spark, source, expected, target, 3)
    return f"bootstrapped {name}", target, expected, expected["max_parallelism"]


def of_a_shop(name: str, spark: SparkSession, version: str, directory: Path) -> Expected:
    source, expected = fixture(version, name)
    target = directory / f"patched-{name}"
    return f"patched {name}", target, patch(spark, source, expected, target), expected["max_parallelism"]


def rescaled(name: str, spark: SparkSession, version: str, directory: Path) -> Expected:
    source, expected = fixture(version, name)
    target = directory / f"rescaled-{name}"
    writer = sp.SavepointWriter.from_existing(spark, source).with_max_parallelism(300)
    for operator in expected["operators"]:
        writer.with_parallelism(operator["uid"], 5)
    writer.write(target)
    return f"300 key groups of {name}", target, expected, 300


def evolved(spark: SparkSession, _: str, directory: Path) -> Expected:
    return "addresses in a new schema", directory / "evolved", evolve(spark, directory), 128


def patched_by_sink(spark: SparkSession, _: str, directory: Path) -> Expected:
    return "a patch by the data source", directory / "sink", sink(spark, directory), 128


def copied(spark: SparkSession, version: str, directory: Path) -> Expected:
    source, expected = fixture(version, "orders-hashmap-canonical")
    sp.SavepointWriter.from_existing(spark, source).write(directory / "copy")
    return "a copy", directory / "copy", expected, expected["max_parallelism"]


WRITES: list[Callable[[SparkSession, str, Path], Expected]] = [
    partial(bootstrapped, "orders-hashmap-canonical"),
    partial(bootstrapped, "types-hashmap-canonical"),
    partial(bootstrapped, "windows-hashmap-canonical"),
    partial(of_a_shop, "orders-rocksdb-canonical"),
    partial(of_a_shop, "orders-hashmap-native"),
    partial(of_a_shop, "orders-rocksdb-native"),
    partial(of_a_shop, "orders-rocksdb-incremental"),
    partial(rescaled, "types-hashmap-canonical"),
    partial(rescaled, "windows-rocksdb-canonical"),
    evolved,
    patched_by_sink,
    copied,
]


@pytest.mark.parametrize("version", VERSIONS)
def test_flink_finds_every_entry(spark: SparkSession, version: str, tmp_path: Path) -> None:
    """Each version restores each other savepoint, and so some of each way to write. Backends take turns.

    Without Spark, the same bytes are written for both versions: other tests restore what that writer makes of all states in each.
    """
    written = [
        (*write(spark, version, tmp_path), backend)
        for number, write in in_turn(list(enumerate(WRITES)), VERSIONS.index(version))
        for backend in in_turn(BACKENDS, number // 2)
    ]
    requests = [
        flink.request(expected["operators"], target, backend=backend, max_parallelism=max_parallelism)
        for _, target, expected, max_parallelism, backend in written
    ]
    for (what, _, expected, _, backend), answer in zip(written, flink.restore(version, requests), strict=True):
        assert "error" not in answer, f"{what}, {backend}: {answer['error'][:2000]}"
        assert flink.entries(answer["operators"]) == flink.entries(expected["operators"]), (what, backend)
