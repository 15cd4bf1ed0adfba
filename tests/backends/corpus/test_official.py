"""Snapshots of Flink's own migration tests, and ours: every state of every operator, read to its last byte.

The state of these jobs is defined in Flink's ``StatefulJobSnapshotMigrationITCase``,
``StatefulJobWBroadcastStateMigrationITCase`` and ``AbstractOperatorRestoreTestBase``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read import catalog
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, Survey, find_operator, operator_states, survey
from state_processor.backends.state import state_headers
from state_processor.serializers.io import DataInput
from tests.corpus import CORPUS, packed_cases
from tests.interop.selection import covering

OFFICIAL = CORPUS / "official"
ELSEWHERE = ("rocksdb-checkpoint", "rocksdb-savepoint-native")
"""Parts of names of snapshots that consist of RocksDB's files; the tests of RocksDB read them."""
WITH_SERIALIZER_OF_ITS_OWN = "20ba6b65f97481d5570070de90e4e791"
NUMBERS = {0: 0, 1: 1, 2: 2, 3: 3}
DRAGONS = ["Here be dragons!", "Here be more dragons!", "Here be the mostest dragons!", "Here be yet more dragons!"]
EVENT_TIME = -(2**63) + 10
"""Timers were set 10 ms behind a watermark that had not come yet."""


def snapshots(pattern: str = "*") -> list[Any]:
    found = sorted(f.parent for f in OFFICIAL.rglob("_metadata") if f.parent.match(pattern))
    here = [d for d in found if not any(name in d.name for name in ELSEWHERE)]
    return [pytest.param(d, id=f"corpus:{d.relative_to(OFFICIAL)}") for d in here]


def read(
    snapshot: Snapshot, operator: OperatorState, state: str, surveyed: Survey | None = None, **options: Any
) -> list[dict[str, Any]]:
    reader = open_state(StoredOperator(snapshot, operator, surveyed), state, options=ReadOptions.of(nanos="string", **options))
    return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]


def of_uid(snapshot: Snapshot, uid: str, state: str, **options: Any) -> list[dict[str, Any]]:
    return read(snapshot, find_operator(snapshot, uid), state, **options)


def registered(snapshot: Snapshot, operator: OperatorState) -> Iterator[str]:
    """Names in the headers of all files of an operator."""
    for subtask in operator.subtasks:
        if isinstance(subtask.managed_keyed, h.KeyGroupsStateHandle):
            stream = snapshot.open(subtask.managed_keyed.stream)
            yield from (s.name for s in state_headers.KeyedHeader.read(DataInput(stream.read())).states)
        if subtask.managed_operator is not None and subtask.managed_operator.states:
            stream = snapshot.open(subtask.managed_operator.stream)
            header = state_headers.OperatorHeader.read(DataInput(stream.read()))
            yield from (s.name for s in (*header.lists, *header.broadcasts))


CANONICAL = [c for c in packed_cases("*-canonical") if "snapshot_dir" in c.facts]
OWN = [pytest.param(Path(c.snapshot), id=c.id) for c in covering(CANONICAL, lambda c: c.traits)]


@pytest.mark.parametrize("directory", OWN + snapshots())
def test_every_state_is_listed_and_read(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    for operator in snapshot.metadata.operators:
        if operator.operator_id == WITH_SERIALIZER_OF_ITS_OWN:
            continue
        states = operator_states(snapshot, operator)
        assert set(registered(snapshot, operator)) <= set(states)
        surveyed = survey(snapshot, operator)
        for name, state in states.items():
            nested = read(snapshot, operator, name, surveyed, flatten=False, metadata=True)
            flat = read(snapshot, operator, name, surveyed)
            if state.kind in ("LIST", "MAP"):
                assert len(flat) == sum(len(row["value"]) for row in nested)
            else:
                assert len(flat) == len(nested)


@pytest.mark.corpus(instead="tests/serializers/core/test_basic.py::test_unknown_snapshots_are_named")
@pytest.mark.parametrize("directory", snapshots("type-serializer-snapshot-migration-*"))
def test_a_serializer_of_the_job_itself_is_named(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    operator = find_operator(snapshot, uid_hash=WITH_SERIALIZER_OF_ITS_OWN)
    state = operator_states(snapshot, operator)["testState"]
    assert str(state.value).endswith("MigrationITCase$TestSerializerSnapshot")
    (row,) = (r for r in catalog.states(snapshot).to_pylist() if r["operator_uid_hash"] == WITH_SERIALIZER_OF_ITS_OWN)
    assert "MigrationITCase$TestSerializerSnapshot (version 1) is unknown" in row["value_type"]
    if row["backend"] != "heap":
        found = read(snapshot, operator, "testState")
        assert found
        assert all(isinstance(r["value"], bytes) for r in found)


@pytest.mark.corpus(instead="tests/backends/corpus/test_corpus.py::test_every_state_is_as_the_job_left_it")
@pytest.mark.parametrize("directory", snapshots("new-stateful-udf-migration-*"))
def test_keyed_state_and_timers(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    for number in (1, 2):
        values = of_uid(snapshot, f"CheckpointingKeyedStateFlatMap{number}", "state-name")
        assert {r["key"]["f0"]: r["value"] for r in values} == NUMBERS
        timely = f"CheckpointingTimelyStatefulOperator{number}"
        values = of_uid(snapshot, timely, "state-name", metadata=True)
        assert {r["key"]["f0"]: r["value"] for r in values} == {r["key"]["f0"]: r["namespace"] for r in values} == NUMBERS
        assert all(r["_key_group"] == r["_subtask"] for r in values)  # four of each
        timers = {d: of_uid(snapshot, timely, f"_timer_state/{d}_timer") for d in ("event", "processing")}
        for domain, found in timers.items():
            assert {r["key"]["f0"]: r["namespace"] for r in found} == NUMBERS
            assert {(r["domain"], r["service"]) for r in found} == {(f"{domain}_time", "timer")}
        assert {r["timestamp"] for r in timers["event"]} == {EVENT_TIME}
        assert all(1.5e12 < r["timestamp"] < 2e12 for r in timers["processing"])


@pytest.mark.corpus(instead="tests/backends/corpus/test_corpus.py::test_every_state_is_as_the_job_left_it")
@pytest.mark.parametrize("directory", snapshots("new-stateful-*"))
def test_lists_of_sources(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    prefixes = ("", "Br") if "broadcast" in directory.name else ("",)
    uids = [f"{prefix}CheckpointingSource{n}" for prefix in prefixes for n in (1, 2)]
    for uid in uids:
        operator = find_operator(snapshot, uid)
        kind = operator_states(snapshot, operator)["source-state"].kind
        assert kind == ("OPERATOR_LIST" if uid.endswith("1") else "UNION_LIST")
        assert sorted(r["value"] for r in read(snapshot, operator, "source-state")) == DRAGONS


@pytest.mark.corpus(instead="tests/backends/corpus/test_corpus.py::test_every_state_is_as_the_job_left_it")
@pytest.mark.parametrize("directory", snapshots("new-stateful-broadcast-udf-migration-*"))
def test_broadcast_state(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    for uid, state, expected in (
        ("BrProcess1", "broadcast-state-1", NUMBERS),
        ("BrProcess1", "broadcast-state-2", {str(n): n for n in NUMBERS}),
        ("BrProcess2", "broadcast-state-3", {n: str(n) for n in NUMBERS}),
    ):
        assert {r["key"]: r["value"] for r in of_uid(snapshot, uid, state)} == expected


@pytest.mark.corpus(instead="tests/backends/corpus/test_corpus.py::test_every_state_is_as_the_job_left_it")
@pytest.mark.parametrize("directory", snapshots("complexKeyed-*"))
def test_keyed_lists(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    (operator,) = (o for o in snapshot.metadata.operators if "values" in operator_states(snapshot, o))
    found = read(snapshot, operator, "values", flatten=False)
    assert {r["key"]["f0"]: r["value"] for r in found} == {n: [n] for n in range(10)}


@pytest.mark.corpus(instead="tests/backends/corpus/test_corpus.py::test_every_state_is_as_the_job_left_it")
@pytest.mark.parametrize("directory", snapshots("nonKeyed-*"))
def test_lists_of_java_objects(directory: Path) -> None:
    snapshot = open_snapshot(directory)
    texts = [
        sorted(r["value"][7:].decode() for r in read(snapshot, o, "_default_"))
        for o in snapshot.metadata.operators
        if "_default_" in operator_states(snapshot, o)
    ]
    assert sorted(texts) == [[f"{n}{i}" for i in range(4)] for n in ("first", "second", "third")]
