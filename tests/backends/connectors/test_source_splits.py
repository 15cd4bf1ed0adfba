"""Splits of sources from real savepoints, and from constructed state."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from state_processor.backends.connectors.connector import CoordinatorState, Versioned
from state_processor.backends.connectors.flink import FILE
from state_processor.backends.connectors.registry import sources
from state_processor.backends.connectors.source_splits import (
    WrittenSource,
    fitting,
    read_source_splits,
    source_state,
    written_source,
)
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import find_operator
from state_processor.serializers.io import DataInput
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    UnsupportedFormatError,
)
from tests import corpus
from tests.backends import state_files as files
from tests.backends.connectors.source_operators import rows_of, source, state_of
from tests.backends.connectors.test_connector import FILE_PENDING, FILE_SPLIT_BEGUN, KAFKA_BOUNDED, KAFKA_ENUMERATORS, KAFKA_SPLIT

SEQUENCES = [
    (case, operator, state)
    for case in corpus.all_cases()
    for operator, state in corpus.states_of(case)
    if "sequence_from" in state
]


@pytest.mark.parametrize(("case", "operator", "state"), SEQUENCES, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_real_sequences_go_on_where_they_stopped(case: corpus.Case, operator: dict[str, Any], state: dict[str, Any]) -> None:
    snapshot = open_snapshot(case.snapshot)
    source = find_operator(snapshot, operator["uid"])
    table = read_source_splits(snapshot, source)
    assert table.equals(read_source_splits(snapshot, source, "sequence"))
    rows = table.to_pylist()
    assert max(row["to_number"] for row in rows) == state["sequence_to"]
    stopped = {(row["subtask"], row["from_number"] - 1) for row in rows}
    emitted = {(int(subtask), last) for subtask, last in state["last_emitted_per_subtask"].items() if last >= 0}
    assert emitted <= stopped  # a subtask may have a second split that it has not started
    assert {row["assignment"] for row in rows} == {"ASSIGNED"}
    elements = [split.to_bytes() for _, split in source_state(snapshot, source).splits]
    written = written_source(rows, source_state(snapshot, source))
    assert sorted(written.elements) == sorted(elements)
    coordinator = source.coordinator_state
    assert coordinator is not None
    assert CoordinatorState.read(coordinator.data, "here").to_bytes() == written.coordinator == coordinator.data


SPLIT, BOUNDED = Versioned(0, KAFKA_SPLIT), Versioned(0, KAFKA_BOUNDED)


@pytest.mark.parametrize("version", KAFKA_ENUMERATORS)
def test_kafka_is_recognized_by_its_bytes(version: int) -> None:
    rows = rows_of(source([], [SPLIT], enumerator=Versioned(version, KAFKA_ENUMERATORS[version])))
    assert rows[0] == {
        "subtask": 1,
        "split_id": "orders-3",
        "topic": "orders",
        "partition": 3,
        "starting_offset": 1234,
        "stopping_offset": None,
        "assignment": "ASSIGNED",
        "version": 0,
        "raw": KAFKA_SPLIT,
    }
    others = [(row["subtask"], row["split_id"], row["starting_offset"], row["assignment"], row["raw"]) for row in rows[1:]]
    assert (
        others
        == {
            0: [],
            1: [],
            2: [(None, "orders-4", None, "UNASSIGNED", None)],
            3: [(None, "orders-4", -2, "TOMBSTONED", KAFKA_BOUNDED)],
        }[version]
    )


def test_files_are_recognized_by_their_bytes() -> None:
    begun = Versioned(1, bytes.fromhex(FILE_SPLIT_BEGUN))
    rows = rows_of(source([begun], enumerator=Versioned(1, bytes.fromhex(FILE_PENDING))))
    found = [(row["subtask"], row["split_id"], row["path"], row["reader_offset"], row["assignment"]) for row in rows]
    assert found == [
        (0, "0000000002", "file:/data/in.txt", 2048, "ASSIGNED"),
        (None, None, "file:/data/done.txt", None, "PROCESSED"),
        (None, "0000000001", "s3://bucket/data/part-é.csv", None, "UNASSIGNED"),
    ]


def test_no_splits_at_all_fit_several_connectors() -> None:
    empty = source([], enumerator=Versioned(1, bytes(4)))
    names = " and ".join(repr(connector.name) for connector in fitting(source_state(files.snapshot(empty), empty)))
    assert names.startswith("'sequence' and 'kafka'")
    with pytest.raises(OptionError, match=rf"fit the connectors {names}; name one by connector"):
        rows_of(empty)
    assert rows_of(empty, "kafka") == rows_of(empty, "sequence") == []


def test_splits_of_unknown_connectors_stay_bytes() -> None:
    unknown = source([Versioned(5, b"split")], enumerator=Versioned(6, b"enumerator"))
    assert rows_of(unknown) == rows_of(unknown, "raw")
    assert rows_of(unknown) == [
        {"subtask": 0, "split_id": None, "assignment": "ASSIGNED", "version": 5, "raw": b"split"},
        {"subtask": None, "split_id": None, "assignment": None, "version": 6, "raw": b"enumerator"},
    ]
    consumers = [f"{name}-consumer" for name, connector in sources().items() if connector.consumer is not None]
    names = ", ".join([*sources(), *consumers, "raw"])
    assert {"sequence", "kafka", "dynamic-kafka", "kafka-consumer"} <= {*sources(), *consumers}
    with pytest.raises(OptionError, match=f"expected one of {names}"):
        rows_of(unknown, "flume")


def test_bytes_of_another_connector_than_the_named_one() -> None:
    with pytest.raises(CorruptSnapshotError, match="subtask 0, split, version 0 of the splits of Kafka, offset"):
        rows_of(source([Versioned(0, KAFKA_SPLIT + b"\0")], enumerator=None), "kafka")
    operator = replace(files.operator(), coordinator_state=h.ByteStreamStateHandle("coordinator", b"\0\0\0\7"))
    with pytest.raises(UnsupportedFormatError, match="state of the coordinator, offset 0: version 7"):
        rows_of(operator)


def test_an_operator_without_splits() -> None:
    with pytest.raises(NotFoundError, match="does not have splits"):
        rows_of(files.operator(None))
    with pytest.raises(NotFoundError, match="every FlinkKafkaConsumer has this state"):
        rows_of(files.operator(None), "kafka-consumer")


def test_what_flink_1_11_wrote_behind_the_enumerators_state_is_kept() -> None:
    data = struct.pack(">iii", 0, 1, 4) + bytes(4) + b"assignments"
    state = CoordinatorState.read(data, "here")
    assert (state.enumerator, state.rest) == (Versioned(1, bytes(4)), b"assignments")
    assert state.to_bytes() == data
    with pytest.raises(CorruptSnapshotError, match="11 bytes are left over"):
        CoordinatorState.read(b"\0\0\0\1" + data[4:], "here")


def written_again(operator: OperatorState, **changes: Any) -> tuple[WrittenSource, list[dict[str, Any]]]:
    """What is written for a source's rows, and the rows, after a change to the first."""
    rows = rows_of(operator)
    rows[0] |= changes
    return written_source(rows, state_of(operator)), rows


def read_back(written: WrittenSource, connector: str) -> list[dict[str, Any]]:
    assert written.coordinator is not None
    splits = [Versioned.read(DataInput(e)) for e in written.elements]
    return rows_of(source(splits, enumerator=CoordinatorState.read(written.coordinator, "here").enumerator), connector)


SOURCES = {
    **{
        f"kafka-{version}": source([], [], [], [], [], [SPLIT], enumerator=Versioned(version, data))
        for version, data in KAFKA_ENUMERATORS.items()
    },
    "file": source([Versioned(1, bytes.fromhex(FILE_SPLIT_BEGUN))], enumerator=Versioned(1, bytes.fromhex(FILE_PENDING))),
}


@pytest.mark.parametrize("name", ["kafka-0", "kafka-1", "kafka-2", "kafka-3"])
def test_rows_that_nobody_changed_give_the_bytes_that_were_there(name: str) -> None:
    operator = SOURCES[name]
    written, _ = written_again(operator)
    assert operator.coordinator_state is not None
    assert written.coordinator == operator.coordinator_state.data
    assert written.elements == [SPLIT.to_bytes()]


def test_a_split_that_enumerator_and_reader_have_is_the_readers_alone() -> None:
    operator = SOURCES["file"]
    written, rows = written_again(operator)
    assert written.elements == [Versioned(1, bytes.fromhex(FILE_SPLIT_BEGUN)).to_bytes()]
    assert written.coordinator is not None
    enumerator = CoordinatorState.read(written.coordinator, "here").enumerator
    state = FILE.enumerator.read(enumerator, "here")
    assert [s.values["split_id"] for s in state.splits] == ["0000000001", None, None]
    assert [s.values["path"] for s in state.splits[1:]] == ["file:/data/in.txt", "file:/data/done.txt"]
    assert len(rows) == 3


@pytest.mark.parametrize("version", KAFKA_ENUMERATORS)
def test_changed_offsets_of_kafka(version: int) -> None:
    operator = SOURCES[f"kafka-{version}"]
    written, rows = written_again(operator, starting_offset=5000, stopping_offset=6000)
    assert Versioned.read(DataInput(written.elements[0])).version == 0
    found = read_back(written, "kafka")
    assert [(r["split_id"], r["starting_offset"], r["stopping_offset"], r["assignment"]) for r in found] == [
        (r["split_id"], r["starting_offset"], r["stopping_offset"], r["assignment"]) for r in rows
    ]
    assert (found[0]["starting_offset"], found[0]["stopping_offset"]) == (5000, 6000)


def test_partitions_of_kafka_that_come_and_go() -> None:
    operator = SOURCES["kafka-2"]
    rows = [{"topic": "new", "partition": 0, "starting_offset": -2}]
    written = written_source(rows, state_of(operator))
    found = read_back(written, "kafka")
    assert [(r["split_id"], r["subtask"], r["starting_offset"], r["assignment"]) for r in found] == [("new-0", 0, -2, "ASSIGNED")]
    assert written.coordinator is not None
    enumerator = CoordinatorState.read(written.coordinator, "here").enumerator
    assert enumerator == Versioned(2, struct.pack(">i", 1) + files.utf("new") + struct.pack(">ii", 0, 0) + b"\0")


def test_a_source_from_nothing() -> None:
    rows = [{"split_id": "a", "from_number": 1, "to_number": 5}]
    later = [{"split_id": "b", "from_number": 6, "to_number": 9, "subtask": None}]
    written = written_source([*(r | {"subtask": 1} for r in rows), *later], connector="sequence")
    found = read_back(written, "sequence")
    assert [(r["split_id"], r["subtask"], r["from_number"], r["assignment"]) for r in found] == [
        ("a", 0, 1, "ASSIGNED"),
        ("b", None, 6, "UNASSIGNED"),
    ]
    kafka = written_source([{"topic": "orders", "partition": 1, "starting_offset": 7}], connector="kafka")
    assert kafka.coordinator is not None
    assert CoordinatorState.read(kafka.coordinator, "here").enumerator.version == 2
    with pytest.raises(OptionError, match="name the connector"):
        written_source(rows)
    with pytest.raises(OptionError, match="connector='raw'"):
        written_source(rows, connector="raw")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"topic": "t", "partition": 1}], "row 0: a split of the connector 'kafka' needs 'starting_offset'"),
        ([{"partition": 1, "starting_offset": 1}], "needs 'topic'"),
        (
            [{"topic": "t", "partition": 1, "starting_offset": 1, "stoping_offset": 5}],
            "row 0: column 'stoping_offset' would be ignored; expected are split_id, topic",
        ),
        ([{"topic": "t", "partition": "one", "starting_offset": 1}], "row 0: 'partition' is 'one' of type str; expected int$"),
        (
            [{"topic": "t", "partition": 1, "starting_offset": 1 << 70}],
            f"row 0: 'starting_offset' is {1 << 70} of type int; expected bigint from {-1 << 63} to {(1 << 63) - 1}$",
        ),
        ([{"topic": "t", "partition": 1, "starting_offset": 1}] * 2, "row 1: split 't-1' occurs more than once"),
    ],
)
def test_rows_that_are_no_splits(rows: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(InvalidRowError, match=problem):
        written_source(rows, connector="kafka")


def test_offsets_that_no_kafka_has_are_refused() -> None:
    with pytest.raises(CorruptSnapshotError, match="offsets -9 and None"):
        written_source([{"topic": "t", "partition": 1, "starting_offset": -9}], connector="kafka")


def test_the_older_format_of_a_file_split_is_kept() -> None:
    operator = source([Versioned(1, old_file_split())], enumerator=None)
    written = written_source(rows_of(operator, "file"), state_of(operator), "file")
    assert written == WrittenSource([Versioned(1, old_file_split()).to_bytes()], None)


def old_file_split() -> bytes:
    now = FILE.splits.read(Versioned(1, bytes.fromhex(FILE_SPLIT_BEGUN)), "here")
    now_bytes, tail = bytes.fromhex(FILE_SPLIT_BEGUN), struct.pack(">i", 2) + files.utf("host-1")
    at = now_bytes.index(tail)
    assert now["file_size"] == 4096
    return now_bytes[: at - 16] + now_bytes[at:]
