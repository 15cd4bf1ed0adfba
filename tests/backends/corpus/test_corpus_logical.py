"""Real snapshots whose expected content describes a query, a pattern, a sink or a Python job, not its states.

What the states hold is worked into that content here, in all formats of each case.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, find_operator, operator_states
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.backends.state.python_states import PythonType
from state_processor.serializers.io import DataInput
from state_processor.types.declared_types import python_type_of
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import ListState
from tests import corpus

OPTIONS = ReadOptions.of(flatten=False, nanos="string")
TIMERS = "_timer_state/event_"

Row = dict[str, Any]
Entry = dict[str, Any]


def of_case(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", corpus.all_cases(f"*/{name}-*"), ids=lambda c: c.id)


def read(snapshot: Snapshot, operator: Any, state: str) -> list[Row]:
    reader = open_state(StoredOperator(snapshot, operator), state, options=OPTIONS)
    return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]


def rows_of(case: corpus.Case, state: str, uid: str | None = None) -> list[Row]:
    """The rows of a state. Exactly one of the planner's operators, which don't have uids, has the state."""
    snapshot = open_snapshot(case.snapshot)
    operators = snapshot.metadata.operators if uid is None else [find_operator(snapshot, uid)]
    (owner,) = [o for o in operators if state in operator_states(snapshot, o)]
    return read(snapshot, owner, state)


def entries(case: corpus.Case, operator: int = 0, state: int = 0) -> list[Entry]:
    return case.expected["operators"][operator]["states"][state]["entries"]


def by_key(rows: list[Row]) -> dict[str, Any]:
    found = {row["key"]["f0"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


# SQL. The planner's states name no columns: they are f0, f1, … in the order of the query's input.


def as_input(row: list[Any]) -> Row:
    """A row of the input, as columns show it."""
    k, n, amount, ts, flag, tags, attrs, nested = row
    return {
        "k": k,
        "n": n,
        "amount": Decimal(amount),
        "ts": ts,
        "flag": flag,
        "tags": tags,
        "attrs": attrs and [tuple(pair) for pair in attrs],
        "nested": nested and {"a": nested[0], "b": nested[1]},
    }


def ordered(record: Row) -> Row:
    """Maps in one order: theirs is an accident of hashing."""
    return {n: sorted(v) if v and isinstance(v, list) and isinstance(v[0], tuple) else v for n, v in record.items()}


@of_case("sql-deduplicate")
def test_deduplicate(case: corpus.Case) -> None:
    found = by_key(rows_of(case, "deduplicate-state"))
    names = ("k", "n", "amount", "ts", "tags", "attrs", "nested")
    rowtime = {entry["row"][0]: f"{entry['row'][3]}Z" for entry in case.expected["inputs"]["orders"]}
    expected = {}
    for entry in entries(case):
        row = as_input(entry["value"])
        expected[entry["key"]] = ordered({f"f{i}": row[n] for i, n in enumerate(names)} | {"f7": rowtime[entry["key"]]})
    assert {key: ordered(value) for key, value in found.items()} == expected


@of_case("sql-group-by-types")
def test_grouping_by_typed_columns(case: corpus.Case) -> None:
    found = {tuple(row["key"].values()): row["value"] for row in rows_of(case, "accState")}
    expected = {}
    for entry in entries(case):
        n, amount, ts, flag = entry["key"]
        expected[n, Decimal(amount), ts, flag] = {"f0": entry["value"]}
    assert found == expected


@of_case("sql-window")
def test_windows(case: corpus.Case) -> None:
    """The namespace is the end of the window; a timer stands a millisecond before it."""
    found = {(row["key"]["f0"], row["namespace"]): row["value"] for row in rows_of(case, "window-aggs")}
    expected = {}
    for entry in entries(case):
        value = entry["value"]
        expected[entry["key"], entry["namespace"]["end"]] = {"f0": value["cnt"], "f1": Decimal(value["total"])}
    assert found == expected
    timers = {(row["key"]["f0"], row["namespace"], row["timestamp"]) for row in rows_of(case, f"{TIMERS}window-timers")}
    assert timers == {(key, end, end - 1) for key, end in expected}
    assert {row["value"] for row in rows_of(case, "watermark")} == {case.facts["watermark"]}


@of_case("sql-group-agg")
def test_group_aggregate(case: corpus.Case) -> None:
    accumulators = by_key(rows_of(case, "accState"))
    collected, distinct = by_key(rows_of(case, "agg7$map")), by_key(rows_of(case, "distinctAcc_0"))
    nulls = by_key(rows_of(case, "distinctAcc_0_null_state"))
    inputs: dict[str, list[Any]] = defaultdict(list)
    for entry in case.expected["inputs"]["orders"]:
        inputs[entry["row"][0]].append(entry["row"][1])
    expected = {entry["key"]: entry["value"] for entry in entries(case)}
    assert accumulators.keys() == expected.keys()
    for key, accumulator in accumulators.items():
        wanted = expected[key]
        assert (accumulator["f0"], accumulator["f1"]) == (wanted["cnt"], Decimal(wanted["total"]))
        assert (accumulator["f2"], accumulator["f3"]) == (wanted["latest"], wanted["low"])
        assert (accumulator["f4"], accumulator["f5"], accumulator["f6"]) == (wanted["sum_n"], wanted["count_n"], wanted["kinds"])
        assert accumulator["f7"]["lastValue"] == key
        counts = {int(n): count for n, count in wanted["all_n"].items()}
        assert dict(collected.get(key, [])) == counts
        # With nothing retracted, the number of a distinct value is a bit for each filter.
        assert dict(distinct.get(key, [])) == dict.fromkeys(counts, 1)
        assert nulls.get(key, 0) == (1 if None in inputs[key] else 0)


@of_case("sql-join")
def test_join(case: corpus.Case) -> None:
    expected: dict[str, Any] = {}
    for entry in entries(case):
        expected.setdefault(entry["key"], {}).update(entry["value"])
    for side, to_record in (("left", left_record), ("right", lambda row: dict(zip(("f0", "f1"), row, strict=True)))):
        found = {
            key: corpus.bag([ordered(record) for record, count in records for _ in range(count)])
            for key, records in by_key(rows_of(case, f"{side}-records")).items()
        }
        wanted = {key: value[f"{side}_rows"] for key, value in expected.items() if value.get(f"{side}_rows")}
        assert found == {key: corpus.bag([to_record(row) for row in rows]) for key, rows in wanted.items()}


def left_record(row: list[Any]) -> Row:
    """A row of the left input; the planner leaves out columns that the query does not use."""
    used = as_input(row)
    return ordered({f"f{i}": used[n] for i, n in enumerate(("k", "amount", "ts", "tags", "attrs", "nested"))})


# Patterns


@of_case("cep")
def test_pattern(case: corpus.Case) -> None:
    nfa = {row["key"]: row["value"] for row in rows_of(case, "nfaStateName")}
    events = {row["key"]: dict_of(row["value"]) for row in rows_of(case, "sharedBuffer-events")}
    nodes = {row["key"]: dict_of(row["value"]) for row in rows_of(case, "sharedBuffer-entries-with-lockable-edges")}
    queues = {row["key"]: row["value"] for row in rows_of(case, "eventQueuesStateName")}
    for entry in entries(case):
        key, expected = entry["key"], entry["value"]
        waiting = [event for _, queued in sorted(queues.get(key, [])) for event in queued]
        assert waiting == [without_class(e) for e in expected["waiting_for_watermark"]]
        matches = [m for m in nfa.get(key, {"partial_matches": []})["partial_matches"] if m["previous_node"] is not None]
        found = [[events[key][e]["element"] for e in path(nodes[key], match["previous_node"])] for match in matches]
        assert found == [[without_class(e) for e in expected["partial_match"]] if expected["partial_match"] else []] * len(found)
        assert bool(found) == bool(expected["partial_match"])
    assert queues.keys() == {entry["key"] for entry in entries(case)}


def dict_of(pairs: list[tuple[Row, Any]]) -> dict[Any, Any]:
    return {frozen(key): value for key, value in pairs}


def frozen(value: Any) -> Any:
    return tuple(frozen(v) for v in value.values()) if isinstance(value, dict) else value


def without_class(event: Entry) -> Entry:
    return {n: v for n, v in event.items() if n != "@class"}


def path(nodes: dict[Any, Any], last: Row) -> list[Any]:
    """The events of a partial match, by the edges that lead from its last node to its first."""
    found: list[Any] = []
    node: Row | None = last
    while node is not None:
        found.insert(0, frozen(node["event_id"]))
        (edge,) = nodes[frozen(node)]["element"]
        node = edge["element"]["target"]
    return found


# File sinks. Their states are versioned bytes.


@pytest.mark.corpus(instead="tests/backends/connectors/test_source_splits.py::test_real_sequences_go_on_where_they_stopped")
@of_case("file-sink")
def test_file_sink(case: corpus.Case) -> None:
    """The files in progress, one for each subtask, hold all lines; nothing waits to be committed."""
    written = [file_in_progress(row["value"]) for row in rows_of(case, "writer_raw_states", "file-sink")]
    lines = [entry["value"] for entry in entries(case)]
    assert sum(position for _, position in written) == sum(len(line) + 1 for line in lines)
    assert len({path for path, _ in written}) == len(written) == case.facts["parallelism"]
    committables = [Versioned.read(DataInput(row["value"])) for row in rows_of(case, "streaming_committer_raw_states")]
    assert {(c.version, c.data[:4]) for c in committables} == {(2, bytes.fromhex("b91f252c"))}


def file_in_progress(data: bytes) -> tuple[str, int]:
    """Path and length of the file that a bucket writes (Flink: ``FileWriterBucketStateSerializer``, local file system)."""
    source = DataInput(data)
    state = Versioned.read(source)
    assert (state.version, source.remaining) == (3, 0)
    bucket = DataInput(state.data)
    assert bucket.read_int() == 0x1E764B79
    name = Versioned.read(bucket).data[4:].decode()
    assert bucket.read_utf().endswith(name)
    assert bucket.read_long() > 0
    assert bucket.read_boolean()
    part = DataInput(Versioned.read(bucket).data)
    assert bucket.at_end()
    assert (part.read_int(), part.read_boolean()) == (-1281095875, True)
    path = part.read_utf()
    local = Versioned.read(part).data
    magic, position, target, temporary = struct.unpack_from("<iqii", local)
    assert (magic, len(local)) == (0x1E744B57, 20 + target + temporary)
    assert path == f"file:{local[20 : 20 + target].decode()}"
    return path, position


# Jobs in Python

PYTHON_TYPES = {
    "STRING": Types.STRING(),
    "LONG": Types.LONG(),
    "ROW<name:STRING,count:INT>": Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()]),
    "BYTES holding a Python pickle": Types.PICKLED_BYTE_ARRAY(),
}


def python_type(state: Row) -> PythonType:
    """The type that a job declares, as its user gives it."""
    value = PYTHON_TYPES[state["value_type"]]
    if "map_key_type" in state:
        return python_type_of(Types.MAP(PYTHON_TYPES[state["map_key_type"]], value))
    return python_type_of(ListState(value) if state["kind"] == "LIST" else value)


def as_read(value: Any, state: Row) -> Any:
    """An expected value in the form of reading: pickles of the trusted corpus are loaded as JSON."""
    if state["kind"] == "MAP":
        inside = state | {"kind": "VALUE"}
        return sorted(([k, as_read(v, inside)] for k, v in value), key=corpus.sort_key)
    if "pickle" in state["value_type"]:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return dict(zip(("name", "count"), value["fields"], strict=True))
    return value


def python_states() -> Iterator[tuple[corpus.Case, Row, Row]]:
    for case in corpus.all_cases("*/pyflink-*"):
        for operator, state in corpus.states_of(case):
            yield case, operator, state


def python_id(value: Any) -> str:
    return value.id if isinstance(value, corpus.Case) else value.get("uid") or value["name"]


@pytest.mark.parametrize(("case", "operator", "state"), list(python_states()), ids=python_id)
def test_python_state(case: corpus.Case, operator: Row, state: Row) -> None:
    snapshot = open_snapshot(case.snapshot)
    owner = find_operator(snapshot, operator["uid"])
    if state["kind"] == "PROCESSING_TIMER":
        rows = rows_of(case, "_timer_state/processing_user-timers", operator["uid"])
        found = [{"key": row["key"], "timestamp": row["timestamp"]} for row in rows]
        assert corpus.bag(found) == corpus.bag(state["entries"])
        return
    types = OPTIONS.types._replace(python_type=python_type(state), unpickle="pickle" in state["value_type"])
    options = replace(OPTIONS, types=types)
    reader = open_state(StoredOperator(snapshot, owner), state["name"], options=options)
    rows = [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]
    if state["kind"] == "MAP":
        rows = [row | {"value": sorted(map(list, row["value"]), key=corpus.sort_key)} for row in rows]
    expected = [{n: as_read(v, state) if n == "value" else v for n, v in e.items()} for e in state["entries"]]
    assert corpus.bag(rows) == corpus.bag(expected)


@pytest.mark.parametrize("case", corpus.all_cases("*/pyflink-*"), ids=lambda c: c.id)
def test_python_states_side_by_side(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    for operator in case.expected["operators"]:
        states = {s["name"]: s for s in operator["states"] if s["kind"] in ("VALUE", "LIST", "MAP", "REDUCING")}
        types = tuple((name, python_type(state)) for name, state in states.items())
        owner = find_operator(snapshot, operator["uid"])
        options = replace(OPTIONS, types=OPTIONS.types._replace(python_types=types, unpickle=True))
        reader = open_state(StoredOperator(snapshot, owner), options=options)
        assert {*reader.schema.names} == {"key", *states}
        rows = [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]
        by_name = {name: {e["key"]: as_read(e["value"], state) for e in state["entries"]} for name, state in states.items()}
        for row in rows:
            for name, state in states.items():
                value = sorted(map(list, row[name]), key=corpus.sort_key) if state["kind"] == "MAP" else row[name]
                assert value == by_name[name].pop(row["key"])
        assert not any(by_name.values())


def test_types_of_python_jobs_are_covered() -> None:
    assert {s[n] for _, _, s in python_states() for n in ("value_type", "map_key_type") if n in s} <= {*PYTHON_TYPES}


# Keys


KEYED = [c for name in ("sql", "cep", "pyflink") for c in corpus.all_cases(f"*/{name}-*")]


@pytest.mark.parametrize("case", KEYED, ids=lambda c: c.id)
def test_keys_lie_in_their_key_groups(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    checked = 0
    for operator in snapshot.metadata.operators:
        for name, state in operator_states(snapshot, operator).items():
            if not isinstance(state, KeyedDescription):
                continue
            reader = open_state(StoredOperator(snapshot, operator), name, options=replace(OPTIONS, metadata=True))
            for row in (row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()):
                code = state.key.hash_code(state.key.from_column(row["key"]))
                assert key_group([code], operator.max_parallelism)[0] == row["_key_group"], (name, row["key"])
                checked += 1
    assert checked > 0
