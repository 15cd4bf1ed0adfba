"""Tables about the content of a snapshot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
)
from state_processor.backends.read import catalog, stored_operator
from state_processor.backends.read.schemas import schema_text, spark_ddl
from state_processor.backends.state.descriptions import StateDescription, describe_operator_state
from state_processor.backends.state.state_headers import StateMetaInfo
from state_processor.serializers.core.basic import NumberSerializer
from tests import corpus
from tests.backends.state_files import operator_header, operator_list

CASES = [c for c in corpus.cases(corpus.FIXTURES) if c.expected.get("operators")]


def snapshot_of(*operators: OperatorState, masters: tuple[MasterState, ...] = ()) -> Snapshot:
    storage = Storage()
    return Snapshot("/nowhere", CheckpointMetadata(6, 7, operators, masters), storage, Relocation(storage, "/nowhere"))


def stream(size: int) -> h.FileStateHandle:
    return h.FileStateHandle(size, f"/files/{size}")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_tables_of_a_real_snapshot(case: corpus.Case) -> None:
    """Every state that the job has is listed with its kind, and all sizes add up."""
    snapshot = open_snapshot(case.snapshot)
    operators, handles = (t(snapshot).to_pylist() for t in (catalog.operators, catalog.handles))
    states = {(s["operator_uid_hash"], s["state_name"]): s for s in catalog.states(snapshot).to_pylist()}
    for operator, state in corpus.states_of(case):
        uid_hash = operator.get("uid_hash") or next(
            o.operator_id for o in snapshot.metadata.operators if is_uid(o, operator["uid"])
        )
        name = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}.get(state["kind"], "")
        found = states[uid_hash, name + state["name"]]
        assert found["state_kind"] == state["kind"]
        assert found["ttl"] == state.get("ttl", False)
        assert found["spark_schema"].startswith("value " if state["kind"].endswith("_LIST") else "key ")
    for operator in operators:
        pieces = [p["size_in_bytes"] for p in handles if p["operator_uid_hash"] == operator["operator_uid_hash"]]
        assert sum(pieces) == operator["operator_total_size_in_bytes"]


def is_uid(operator: OperatorState, uid: str) -> bool:
    from state_processor.backends.metadata.operator_id import operator_id

    return operator.operator_id == operator_id(uid)


def test_sizes_of_operator_states() -> None:
    (path,) = Path(corpus.FIXTURES, "2.3.0", "orders-hashmap-canonical").glob("savepoint")
    sizes = {s["state_name"]: s["size_in_bytes"] for s in catalog.states(open_snapshot(path)).to_pylist()}
    # Two bytes per character and one for the length of each of ten strings; twenty times that of a count, for the broadcast
    # state of both subtasks. The sizes of several keyed states in a file are unknown without reading it.
    assert sizes["pending"] == sum(len(f"restock {name}") + 1 for name in ITEMS)
    assert sizes["offsets"] == 10 * (1 + len("stock-0") + 8)
    assert sizes["discounts"] == 2 * (4 + sum(1 + len(name) + 8 for name in ITEMS))
    assert sizes["total"] is None


ITEMS = ("teapot", "mug", "black tea", "biscuits", "tray", "kettle", "green tea", "honey", "strainer", "napkins")


def test_size_of_the_only_keyed_state() -> None:
    (path,) = Path(corpus.FIXTURES, "2.3.0", "orders-hashmap-canonical").glob("savepoint")
    snapshot = open_snapshot(path)
    (catalog_operator,) = (o for o in snapshot.metadata.operators if o.uid == "catalog")
    assert catalog.states(replace(snapshot, metadata=replace(snapshot.metadata, operators=(catalog_operator,)))).num_rows == 3


def test_pieces_of_every_kind() -> None:
    keys = h.KeyGroupRange(0, 3)
    offsets = h.Offsets.of([0, 0, 0, 0])
    groups = h.KeyGroupsStateHandle(h.KEY_GROUPS_V2, keys, offsets, stream(10), "id-1")
    shared = (h.LocalFile("000012.sst", stream(30)), h.LocalFile("000013.sst", h.SegmentFileStateHandle(64, 40, 1, "/seg", "l")))
    private = (h.LocalFile("MANIFEST", h.ByteStreamStateHandle("m", b"xxxxx")),)
    incremental = h.IncrementalRemoteKeyedStateHandle(h.INCREMENTAL, 7, "b-1", keys, stream(20), shared, private)
    in_memory = h.InMemoryChangelogStateHandle(keys, 0, 1, (h.StateChange(0, b"abc"),), "id-2")
    in_files = h.ChangelogFileStateHandle(h.CHANGELOG_FILE, keys, ((5, stream(50)),), 50, 50, "id-3")
    changelog = h.ChangelogStateBackendHandle(h.CHANGELOG, keys, 0, (groups,), (in_memory, in_files), 1, None, "id-4")
    named = (h.OperatorStateMeta("one", 0, h.Offsets.of([0])), h.OperatorStateMeta("two", 2, h.Offsets.of([4])))
    operator = OperatorState(
        "0" * 32,
        2,
        4,
        (
            OperatorSubtaskState(
                0,
                managed_operator=h.OperatorStreamStateHandle(named, stream(8)),
                managed_keyed=incremental,
                input_channels=(h.InputChannelStateHandle(0, 0, 0, h.Offsets.of([0]), 6, stream(600)),),
            ),
            OperatorSubtaskState(1, managed_keyed=changelog, raw_keyed=groups),
        ),
        coordinator_state=h.ByteStreamStateHandle("c", b"1234567"),
        name="Window",
        uid="window",
    )
    snapshot = snapshot_of(operator, masters=(MasterState(1, "hook", b"12"),))
    rows = catalog.handles(snapshot).to_pylist()
    shown = [(r["slot"], r["handle_type"], r["part"], r["size_in_bytes"], r["inline"], r["path"], r["offset"]) for r in rows]
    incremental_type, changelog_type = "IncrementalRemoteKeyedStateHandle", "ChangelogStateHandleStreamImpl"
    assert shown == [
        ("master state", "MasterState", None, 2, True, None, None),
        ("coordinator", "ByteStreamStateHandle", None, 7, True, None, None),
        ("managed keyed", incremental_type, "metadata", 20, False, "/files/20", None),
        ("managed keyed", incremental_type, "shared", 30, False, "/files/30", None),
        ("managed keyed", incremental_type, "shared", 40, False, "/seg", 64),
        ("managed keyed", incremental_type, "private", 5, True, None, None),
        ("managed operator", "OperatorStreamStateHandle", None, 8, False, "/files/8", None),
        ("input channel", "InputChannelStateHandle", None, 6, False, "/files/600", None),
        ("managed keyed", "KeyGroupsStateHandle", "materialized", 10, False, "/files/10", None),
        ("managed keyed", "InMemoryChangelogStateHandle", "change", 3, True, None, None),
        ("managed keyed", changelog_type, "change", 50, False, "/files/50", 5),
        ("raw keyed", "KeyGroupsStateHandle", None, 10, False, "/files/10", None),
    ]
    assert [r["state_names"] for r in rows if r["slot"] == "managed operator"] == [["one", "two"]]
    assert [r["local_name"] for r in rows if r["part"] == "shared"] == ["000012.sst", "000013.sst"]
    assert {(r["checkpoint_id"], r["backend_id"]) for r in rows if r["handle_type"] == incremental_type} == {(7, "b-1")}
    assert [r["handle_id"] for r in rows[-4:]] == ["id-1", "id-2", "id-3", "id-1"]
    assert {(r["operator_uid"], r["operator_name"]) for r in rows[1:]} == {("window", "Window")}
    (row,) = catalog.operators(snapshot).to_pylist()
    assert row["operator_coordinator_state_size_in_bytes"] == 7
    assert row["operator_total_size_in_bytes"] == sum(r["size_in_bytes"] for r in rows[1:])
    assert (row["checkpoint_id"], row["operator_subtask_state_count"]) == (7, 2)


def test_raw_state_has_no_name() -> None:
    own_bytes = h.ByteStreamStateHandle("raw", b"its own way")
    groups = h.KeyGroupsStateHandle(h.KEY_GROUPS, h.KeyGroupRange(0, 0), h.Offsets.of([0]), own_bytes)
    operator = OperatorState("0" * 32, 1, 1, (OperatorSubtaskState(0, raw_keyed=groups),))
    (row,) = catalog.states(snapshot_of(operator)).to_pylist()
    assert (row["state_name"], row["state_kind"], row["size_in_bytes"]) == (None, "RAW_KEYED", 11)


def test_nothing() -> None:
    for table in (catalog.operators, catalog.states, catalog.handles):
        assert table(snapshot_of()).num_rows == 0


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "tinyint"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.date32(), "date"),
        (pa.binary(), "binary"),
        (pa.list_(pa.map_(pa.string(), pa.int64())), "array<map<string,bigint>>"),
        (pa.struct([("a b", pa.int32()), ("c`", pa.float64())]), "struct<`a b`:int,`c```:double>"),
    ],
)
def test_types_in_the_words_of_spark(data_type: Any, text: str) -> None:
    assert spark_ddl(data_type) == text
    assert schema_text(pa.schema([("my-state", data_type)])) == f"`my-state` {text}"


def test_a_type_that_spark_lacks() -> None:
    with pytest.raises(TypeError, match="time64"):
        spark_ddl(pa.time64("us"))


def test_operators_with_the_same_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator has its own rows, with more operators than are read together; a header is analysed once."""
    described: list[str] = []

    def counted(meta: StateMetaInfo) -> StateDescription:
        described.append(meta.name)
        return describe_operator_state(meta)

    monkeypatch.setattr(stored_operator, "describe_operator_state", counted)
    headers = [operator_header([operator_list(f"numbers-{n}", NumberSerializer("LONG"))]) for n in range(2)]
    count = 2100

    def operator(number: int) -> OperatorState:
        data = headers[number % 1000 == 7]
        content = h.OperatorStateMeta(f"numbers-{int(number % 1000 == 7)}", h.SPLIT_DISTRIBUTE, h.Offsets())
        handle = h.OperatorStreamStateHandle((content,), h.ByteStreamStateHandle("inline", data))
        return OperatorState(f"{number:032x}", 1, 128, (OperatorSubtaskState(0, managed_operator=handle),))

    found = catalog.states(snapshot_of(*map(operator, range(count)))).to_pylist()
    assert [row["operator_uid_hash"] for row in found] == [f"{n:032x}" for n in range(count)]
    assert [n for n, row in enumerate(found) if row["state_name"] == "numbers-1"] == [7, 1007, 2007]
    assert {row["value_type"] for row in found} == {"LONG"}
    assert sorted(described) == ["numbers-0", "numbers-1"]


def test_regional_checkpoints_name_the_checkpoint_that_they_refer_to() -> None:
    file = h.KeyGroupsStateHandle(h.KEY_GROUPS, h.KeyGroupRange(0, 0), h.Offsets.of([0]), stream(10))
    subtasks = (
        OperatorSubtaskState(0, managed_keyed=file),
        OperatorSubtaskState(1, managed_keyed=file, reference_checkpoint_id=4),
    )
    found = snapshot_of(OperatorState("00" * 16, 2, 128, subtasks))
    assert catalog.operators(found)["reference_checkpoint_id"].to_pylist() == [4]
    assert catalog.handles(found)["reference_checkpoint_id"].to_pylist() == [None, 4]
    assert catalog.operators(snapshot_of(OperatorState("00" * 16, 1, 128)))["reference_checkpoint_id"].to_pylist() == [None]
