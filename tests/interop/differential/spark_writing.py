"""Writes cases from DataFrames, with :class:`state_processor.SavepointWriter`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import state_processor as sp
from tests.interop.differential.cases import LISTED, TIMERS
from tests.interop.differential.forms import parse
from tests.interop.differential.scalars import for_flink
from tests.interop.differential.writing import NAMESPACES, array, key_hash, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPECS = {
    "VALUE": sp.ValueState,
    "LIST": sp.ListState,
    "REDUCING": sp.ReducingState,
    "AGGREGATING": sp.AggregatingState,
}


def session() -> SparkSession:
    """The session of the tests, or else a small one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    builder = SparkSession.builder.master("local[2]").appName("differential tests").config(map=quiet)
    return builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2").getOrCreate()


def write(cases: Sequence[dict[str, Any]], target: Path, version: str) -> None:
    """Write a savepoint with the cases as operators, for a version of Flink."""
    spark = session()
    writer = sp.SavepointWriter.new(spark, max_parallelism=cases[0]["max_parallelism"], flink_version=version)
    with for_flink(version):
        for case in cases:
            for state in case["states"]:
                if state["kind"] in (*LISTED, "BROADCAST"):
                    _with_operator_state(spark, writer, case, state)
                else:
                    _with_keyed(spark, writer, case, state)
    writer.write(str(target))


def _with_keyed(spark: SparkSession, writer: sp.SavepointWriter, case: dict[str, Any], state: dict[str, Any]) -> None:
    key = parse(case["key_type"])
    table = pa.Table.from_batches([rows(key, state)])
    hashing = key_hash(key, case["max_parallelism"])
    rule = None if hashing is None else hashing.rules[0]
    void = state["namespace_type"] == "VOID_NAMESPACE"
    namespace = None if void else NAMESPACES[state["namespace_type"]]
    if state["kind"] in TIMERS:
        domain = "event_time" if state["kind"] == "EVENT_TIMER" else "processing_time"
        for name, value in (("domain", domain), ("service", state["name"])):
            table = table.append_column(name, pa.array([value] * table.num_rows, pa.string()))
        df = spark.createDataFrame(table)
        writer.with_timers(case["uid"], df, key_type=key.serializer(), namespace=namespace)
        return
    value = parse(state["value_type"]).serializer()
    options: dict[str, Any] = {"ttl": state["ttl"], "namespace": namespace}
    if state["kind"] == "MAP":
        spec: Any = sp.MapState(parse(state["map_key_type"]).serializer(), value, **options)
    else:
        spec = _SPECS[state["kind"]](value, **options)
    writer.with_keyed_state(
        case["uid"],
        spark.createDataFrame(table),
        key_type=key.serializer(),
        states={"value": spec},
        parallelism=case["parallelism"],
        key_hash=rule,
        columns={"value": state["name"]},
    )


def _with_operator_state(spark: SparkSession, writer: sp.SavepointWriter, case: dict[str, Any], state: dict[str, Any]) -> None:
    value, entries, name = parse(state["value_type"]), state["entries"], state["name"]
    if state["kind"] == "BROADCAST":
        key = parse(state["map_key_type"])
        columns = {"key": array(key, [e["key"] for e in entries]), "value": array(value, [e["value"] for e in entries])}
        df = spark.createDataFrame(pa.table(columns))
        writer.with_broadcast_state(case["uid"], name, df, key.serializer(), value.serializer(), case["parallelism"])
        return
    df = spark.createDataFrame(pa.table({"value": array(value, entries)}))
    with_state = writer.with_list_state if state["kind"] == "OPERATOR_LIST" else writer.with_union_state
    with_state(case["uid"], name, df, value.serializer(), case["parallelism"])
