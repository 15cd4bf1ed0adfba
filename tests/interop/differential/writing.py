"""Writes cases with our writer, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.hash_inference import HashRule, LearnedHash
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.backends.write.staging import Staging
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.types.flink_types import Types
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.interop.differential.cases import LISTED, TIMERS
from tests.interop.differential.forms import Mapped, list_of, parse
from tests.interop.differential.scalars import Form, for_flink
from tests.interop.rewriting import write_keyed

LOSSLESS = DecodeOptions(nanos="string", row_kind=True)
NAMESPACES: dict[str, TypeSerializer] = {
    "VOID_NAMESPACE": VoidNamespaceSerializer(),
    "TIME_WINDOW": Types.TIME_WINDOW(),
    "GLOBAL_WINDOW": Types.GLOBAL_WINDOW(),
}
_PREFIXES = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}
_UTC = pa.timestamp("us", tz="UTC")


def write(cases: Sequence[dict[str, Any]], target: Path, version: str, format: KeyedFormat = CANONICAL_FORMAT) -> None:
    """Write a savepoint with the cases as operators, for a version of Flink."""
    staging = Staging(str(target), "differential")
    staging.prepare()
    with for_flink(version):
        operators = [_operator(staging, case, format, int(version[0])) for case in cases]
    commit_savepoint(staging, operators, version=metadata_version(version), format=format.savepoint_format)


def _operator(staging: Staging, case: dict[str, Any], format: KeyedFormat, flink_major: int) -> OperatorState:
    uid, parallelism = case["uid"], case["parallelism"]
    others = [state for state in case["states"] if state["kind"] in (*LISTED, "BROADCAST")]
    keyed = [state for state in case["states"] if state not in others]
    keyed_handles = _keyed(staging, case, keyed, format, flink_major) if keyed else {}
    operator_handles = _operator_state(staging, uid, others, parallelism) if others else {}
    subtasks = {i: SubtaskHandles(keyed_handles.get(i), operator_handles.get(i)) for i in range(parallelism)}
    return new_operator(uid, parallelism, case["max_parallelism"], subtasks)


def array(form: Form, values: Sequence[Any], nullable: bool = False) -> pa.Array:
    """A column of values."""
    held = [None if value is None else form.column(value) for value in values]
    assert nullable or None not in held
    return pa.array(held, form.serializer().arrow_type(LOSSLESS))


def _keyed(
    staging: Staging, case: dict[str, Any], states: Sequence[dict[str, Any]], format: KeyedFormat, flink_major: int
) -> dict[int, Any]:
    key = parse(case["key_type"])
    written = [(_description(key, state), [rows(key, state)]) for state in states]
    size = case["max_parallelism"]
    hashing = key_hash(key, size)
    uid_hash = operator_id(case["uid"])
    return write_keyed(staging, uid_hash, written, case["parallelism"], size, 0, hashing, format, flink_major)


def key_hash(key: Form, max_parallelism: int) -> LearnedHash | None:
    """How keys of a class of the user's compute their ``hashCode``."""
    serializer = key.serializer()
    if not isinstance(serializer, PojoSerializer):
        return None
    order = ("tenant", "id") if serializer.class_name == "fixtures.UserKey" else key.members.names  # type: ignore[attr-defined]
    return LearnedHash(serializer, (HashRule("Objects.hash", tuple(order)),), max_parallelism)


def _description(key: Form, state: dict[str, Any]) -> StateDescription:
    serializer, namespace = key.serializer(), NAMESPACES[state["namespace_type"]]
    name, kind = state["name"], state["kind"]
    if kind in TIMERS:
        return StateDescription.of(_PREFIXES[kind] + name, kind, serializer, namespace)
    value = parse(state["value_type"]).serializer()
    map_key = parse(state["map_key_type"]).serializer() if "map_key_type" in state else None
    return StateDescription.of(name, kind, serializer, namespace, map_key, TtlSerializer.of(value) if state["ttl"] else value)


def rows(key: Form, state: dict[str, Any]) -> pa.RecordBatch:
    entries = state["entries"]
    columns = {"key": array(key, [entry["key"] for entry in entries])}
    if state["namespace_type"] != "VOID_NAMESPACE":
        windows = [entry["namespace"] for entry in entries]
        if state["namespace_type"] == "TIME_WINDOW":
            micros = pa.struct([("start", pa.int64()), ("end", pa.int64())])
            held = pa.array([{name: millis * 1000 for name, millis in window.items()} for window in windows], micros)
            columns["window"] = held.cast(NAMESPACES["TIME_WINDOW"].arrow_type(DecodeOptions()))
        else:
            columns["window"] = pa.nulls(len(entries), NAMESPACES["GLOBAL_WINDOW"].arrow_type(DecodeOptions()))
    if state["kind"] in TIMERS:
        columns["timestamp"] = pa.array([entry["timestamp"] for entry in entries], pa.int64())
        return pa.RecordBatch.from_pydict(columns)
    value = parse(state["value_type"])
    form: Form = value
    if state["kind"] == "LIST":
        form = list_of(value)
    elif state["kind"] == "MAP":
        form = Mapped(parse(state["map_key_type"]), value)
    columns["value"] = array(form, [entry["value"] for entry in entries])
    if state["ttl"]:
        type_ = pa.list_(pa.int64()) if state["kind"] in ("LIST", "MAP") else pa.int64()
        times = [[t * 1000 for t in each] if isinstance(each, list) else each * 1000 for each in state["last_access"]]
        columns["_last_access"] = pa.array(times, type_).cast(pa.list_(_UTC) if isinstance(type_, pa.ListType) else _UTC)
    return pa.RecordBatch.from_pydict(columns)


def _operator_state(staging: Staging, uid: str, states: Sequence[dict[str, Any]], parallelism: int) -> dict[int, Any]:
    keys = [parse(state["map_key_type"]).serializer() if "map_key_type" in state else None for state in states]
    values = [parse(state["value_type"]) for state in states]
    described = [
        StateDescription.of(state["name"], state["kind"], key=key, value=value.serializer())
        for state, key, value in zip(states, keys, values, strict=True)
    ]
    handles = {}
    for subtask in range(parallelism):
        writer = OperatorColumnsWriter(staging.open(staging.file_name(operator_id(uid), "operator", subtask)), described)
        for state, value in zip(states, values, strict=True):
            entries = state["entries"]
            if state["kind"] == "BROADCAST":
                found = [entry["value"] for entry in entries]
                writer.add_broadcast(
                    state["name"], array(parse(state["map_key_type"]), [e["key"] for e in entries]), array(value, found)
                )
            else:
                writer.add_list(state["name"], array(value, entries[subtask::parallelism]))
        handles[subtask] = writer.close()
    return handles
