"""Splits as connectors write them: bytes of real Flink where it is at hand, else spelled out after the connector's source."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.connectors import flink as connectors_flink
from state_processor.backends.connectors import kafka as connectors_kafka
from state_processor.backends.connectors.connector import Connector, EnumeratorState, Versioned
from state_processor.backends.connectors.flink import FILE, SEQUENCE
from state_processor.backends.connectors.kafka import KAFKA
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


# Written by Flink 2.3.0
SEQUENCE_SPLIT = "000137000000000000001e0000000000000063"
SEQUENCE_REMAINING = "00000002000137000000000000001e0000000000000063000138fffffffffffffffb7fffffffffffffff"
FILE_SPLIT = (
    "000a3030303030303030303101010373330001076275636b6574ffffffff01112f646174612f706172742de9012e637376000000000000000000"
    "0000000000000003e80000018bcfe5687b00000000000010000000000000"
)
FILE_SPLIT_BEGUN = (
    "000a3030303030303030303201010566696c650000ffffffff010d2f646174612f696e2e747874000000000000000003e80000000000000c180000018bcf"
    "e569c80000000000001000000000020006686f73742d310006686f73742d320100000000000008000000000000000007"
)
FILE_SPLIT_PLAIN = (
    "000a3030303030303030303301000000ffffffff010c2f706c61696e2f7061746800000000000000000000000000000000000a000000000000000000000000"
    "0000000a0000000000"
)
FILE_PENDING = (
    "efbeadde01000000020000000200000058000000"
    + FILE_SPLIT
    + "6e000000"
    + FILE_SPLIT_BEGUN
    + "1100000066696c653a2f646174612f696e2e7478741300000066696c653a2f646174612f646f6e652e747874"
)

# Spelled out after KafkaPartitionSplitSerializer and KafkaSourceEnumStateSerializer
KAFKA_SPLIT = utf("orders") + struct.pack(">iqq", 3, 1234, -(1 << 63))
KAFKA_BOUNDED = utf("orders") + struct.pack(">iqq", 4, -2, 99)
KAFKA_ENUMERATORS = {
    0: struct.pack(">iiiii", 1, 0, 5, 1, len(KAFKA_SPLIT)) + KAFKA_SPLIT,
    1: struct.pack(">i", 1) + utf("orders") + struct.pack(">i", 3),
    2: struct.pack(">i", 2) + utf("orders") + struct.pack(">ii", 3, 0) + utf("orders") + struct.pack(">ii", 4, 1) + b"\0",
    3: struct.pack(">iii", 2, 0, len(KAFKA_SPLIT))
    + KAFKA_SPLIT
    + struct.pack(">ii", 0, len(KAFKA_BOUNDED))
    + KAFKA_BOUNDED
    + struct.pack(">i", 2)
    + b"\1",
}

SPLITS: list[tuple[Connector, int, bytes, dict[str, Any]]] = [
    (SEQUENCE, 1, bytes.fromhex(SEQUENCE_SPLIT), {"split_id": "7", "from_number": 30, "to_number": 99}),
    (
        FILE,
        1,
        bytes.fromhex(FILE_SPLIT),
        {
            "split_id": "0000000001",
            "path": "s3://bucket/data/part-é.csv",
            "offset": 0,
            "length": 1000,
            "modification_time": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "file_size": 4096,
            "hosts": [],
            "reader_offset": None,
            "records_after_offset": None,
        },
    ),
    (
        FILE,
        1,
        bytes.fromhex(FILE_SPLIT_BEGUN),
        {
            "split_id": "0000000002",
            "path": "file:/data/in.txt",
            "offset": 1000,
            "length": 3096,
            "modification_time": datetime(2023, 11, 14, 22, 13, 20, 456000, tzinfo=UTC),
            "file_size": 4096,
            "hosts": ["host-1", "host-2"],
            "reader_offset": 2048,
            "records_after_offset": 7,
        },
    ),
    (
        KAFKA,
        0,
        KAFKA_SPLIT,
        {"split_id": "orders-3", "topic": "orders", "partition": 3, "starting_offset": 1234, "stopping_offset": None},
    ),
    (
        KAFKA,
        0,
        KAFKA_BOUNDED,
        {"split_id": "orders-4", "topic": "orders", "partition": 4, "starting_offset": -2, "stopping_offset": 99},
    ),
]


# With a modification time of 0 the beginning of a split is a whole one of the older format.
PLAIN: tuple[Connector, int, bytes, dict[str, Any]] = (
    FILE,
    1,
    bytes.fromhex(FILE_SPLIT_PLAIN),
    {
        "split_id": "0000000003",
        "path": "/plain/path",
        "offset": 0,
        "length": 10,
        "modification_time": datetime(1970, 1, 1, tzinfo=UTC),
        "file_size": 10,
        "hosts": [],
        "reader_offset": None,
        "records_after_offset": None,
    },
)


def name(value: Any) -> str:
    return value.name if isinstance(value, Connector) else ""


@pytest.mark.parametrize(("connector", "version", "data", "values"), [*SPLITS, PLAIN], ids=name)
def test_a_split_is_read_to_its_last_byte_and_written_again(
    connector: Connector, version: int, data: bytes, values: dict[str, Any]
) -> None:
    assert connector.splits.read(Versioned(version, data), "here") == values
    assert connector.splits.write(values, version) == Versioned(version, data)
    assert {field.name for field in connector.fields} == values.keys() - {"split_id"}


@pytest.mark.parametrize(("connector", "version", "data", "values"), SPLITS, ids=name)
def test_damaged_splits_are_refused(connector: Connector, version: int, data: bytes, values: dict[str, Any]) -> None:
    with pytest.raises(CorruptSnapshotError, match="here"):
        connector.splits.read(Versioned(version, data + b"\0"), "here")
    for end in range(len(data)):
        with pytest.raises(CorruptSnapshotError, match="here"):
            connector.splits.read(Versioned(version, data[:end]), "here")
    with pytest.raises(UnsupportedFormatError, match=r"here: version 99 .* not known"):
        connector.splits.read(Versioned(99, data), "here")


def test_a_split_of_files_from_before_flink_1_15_has_neither_time_nor_size() -> None:
    tail = len(bytes.fromhex("0000000000"))  # no hosts, not begun
    now = bytes.fromhex(FILE_SPLIT)
    old = now[: -tail - 16] + now[-tail:]
    values = FILE.splits.read(Versioned(1, old), "here")
    assert (values["modification_time"], values["file_size"], values["length"]) == (None, None, 1000)
    assert values["path"] == "s3://bucket/data/part-é.csv"


@pytest.mark.parametrize(
    "path", ["hdfs://user@name-node:8020/a b/c?d#e", "relative/é", "/", "oss://b", "", "wasb://c@acc.net/x:y"]
)
def test_paths_keep_their_parts(path: str) -> None:
    values = SPLITS[1][3] | {"path": path}
    written = FILE.splits.write(values)
    assert FILE.splits.read(written, "here")["path"] == path
    assert FILE.splits.write(FILE.splits.read(written, "here")) == written


def test_sequences_that_no_reader_has() -> None:
    data = bytes.fromhex(SEQUENCE_REMAINING)
    state = SEQUENCE.enumerator.read(Versioned(1, data), "here")
    assert [s.values["from_number"] for s in state.splits] == [30, -5]
    assert {s.assignment for s in state.splits} == {"UNASSIGNED"}
    assert SEQUENCE.enumerator.write(state).data == data


def test_files_that_no_reader_has_and_paths_found_before() -> None:
    data = bytes.fromhex(FILE_PENDING)
    state = FILE.enumerator.read(Versioned(1, data), "here")
    found = [(s.assignment, s.values["split_id"], s.values["path"]) for s in state.splits]
    assert found == [
        ("UNASSIGNED", "0000000001", "s3://bucket/data/part-é.csv"),
        ("UNASSIGNED", "0000000002", "file:/data/in.txt"),
        ("PROCESSED", None, "file:/data/done.txt"),
    ]
    assert FILE.enumerator.write(state).data == data
    with pytest.raises(CorruptSnapshotError, match="0xdeadbeef"):
        FILE.enumerator.read(Versioned(1, b"\1" + data[1:]), "here")


def test_what_the_enumerator_of_kafka_keeps_by_version() -> None:
    known = {version: KAFKA.enumerator.read(Versioned(version, data), "here") for version, data in KAFKA_ENUMERATORS.items()}
    shown = {
        version: [(s.values["split_id"], s.values["starting_offset"], s.assignment, s.subtask) for s in state.splits]
        for version, state in known.items()
    }
    assert shown == {
        0: [("orders-3", 1234, "ASSIGNED", 5)],
        1: [("orders-3", None, "ASSIGNED", None)],
        2: [("orders-3", None, "ASSIGNED", None), ("orders-4", None, "UNASSIGNED", None)],
        3: [("orders-3", 1234, "ASSIGNED", None), ("orders-4", -2, "TOMBSTONED", None)],
    }
    assert (known[2].details, known[3].details) == ({"initial_discovery_finished": False}, {"initial_discovery_finished": True})
    for version, state in known.items():
        assert KAFKA.enumerator.write(state, version).data == KAFKA_ENUMERATORS[version]


@pytest.mark.parametrize("version", KAFKA_ENUMERATORS)
def test_damaged_state_of_kafkas_enumerator_is_refused(version: int) -> None:
    data = KAFKA_ENUMERATORS[version]
    for damaged in (data + b"\0", data[:-1], b"\x7f" + data[1:]):
        with pytest.raises(CorruptSnapshotError, match="here"):
            KAFKA.enumerator.read(Versioned(version, damaged), "here")
    if version >= 2:
        status = data[:-2] + b"\x09" + data[-1:]
        with pytest.raises(CorruptSnapshotError, match="assignmentStatus 9; expected one of 0, 1, 2"):
            KAFKA.enumerator.read(Versioned(version, status), "here")


@pytest.mark.parametrize(
    ("stored", "starting"),
    [(41, 42), (-1, 0), (-915623761775, -2), (-915623761774, -1), (-915623761773, -3), (-915623761776, None)],
)
def test_the_older_consumer_keeps_the_last_offset_read(stored: int, starting: int | None) -> None:
    element = {"f0": {"topic": "orders", "partition": 2, "cachedHash": 7}, "f1": stored}
    values = connectors_kafka.consumer_values(element)
    assert (values["split_id"], values["topic"], values["partition"]) == ("orders-2", "orders", 2)
    assert (values["starting_offset"], values["stopping_offset"]) == (starting, None)


_LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.text(max_size=20), _LONGS, _LONGS)
def test_any_sequence_survives(split_id: str, first: int, last: int) -> None:
    values = {"split_id": split_id, "from_number": first, "to_number": last}
    assert SEQUENCE.splits.read(SEQUENCE.splits.write(values), "here") == values


@given(st.binary(max_size=80), st.integers(0, 3))
def test_no_bytes_break_a_reader(data: bytes, version: int) -> None:
    for connector in (SEQUENCE, KAFKA, FILE):
        for formats in (connector.splits, connector.enumerator):
            try:
                found = formats.read(Versioned(version, data), "here")
            except (CorruptSnapshotError, UnsupportedFormatError):
                continue
            assert isinstance(found, (dict, EnumeratorState))


def test_pending_splits_announced_beyond_the_end_are_refused() -> None:
    header = struct.pack("<IIII", 0xDEADBEEF, 1, 1 << 31, 0)
    with pytest.raises(CorruptSnapshotError, match="announced"):
        connectors_flink.FILE.enumerator.read(Versioned(1, header), "here")
