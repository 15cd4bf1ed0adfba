"""State of sinks: real file sinks, and bytes that are spelled out after the serializers of the connectors."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.connectors.flink import FILE_SINK
from state_processor.backends.connectors.kafka import KAFKA as KAFKA_SOURCE
from state_processor.backends.connectors.kafka import KAFKA_SINK
from state_processor.backends.connectors.sink_state import (
    COLLECTORS,
    COMMITTER_STATE,
    Collector,
    SinkState,
    decoded_sink,
    read_sink_state,
    sink_connector,
    sink_state,
)
from state_processor.backends.connectors.sink_writer import written_sink
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import find_operator
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
)
from tests import corpus
from tests.backends import state_files as files
from tests.backends.connectors.source_operators import list_state

VERSIONS = ("1.18.1", "1.20.5", "2.3.0")
Row = dict[str, Any]


def real(version: str, uid: str) -> SinkState:
    """A sink of a savepoint that Flink wrote: ``rolling`` has files to be committed, ``open`` has files in progress."""
    snapshot = open_snapshot(str(corpus.FIXTURES / "sinks" / version))
    return sink_state(snapshot, find_operator(snapshot, uid), uid, None)


def rows_of(state: SinkState, connector: str | None = None) -> list[Row]:
    return read_sink_state(state, connector).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_files_to_be_committed(version: str) -> None:
    rows = [row for row in rows_of(real(version, "rolling")) if row["file_status"] == "PENDING"]
    assert Counter((row["role"], row["subtask"], row["bucket_id"], row["length"]) for row in rows) == Counter(
        ("COMMITTABLE", subtask, bucket, 8) for subtask in (0, 1) for bucket in ("letter=a", "letter=b")
    )
    assert {(row["commit_status"], row["retries"]) for row in rows} == {("RECEIVED", 0)}
    assert len({row["checkpoint_id"] for row in rows}) == 1
    for row in rows:
        folder, _, name = row["path"].rpartition("/")
        assert folder.endswith(f"/rolling/{row['bucket_id']}")
        assert row["temporary_path"].startswith(f"{folder.removeprefix('file:')}/.{name}.inprogress.")


@pytest.mark.parametrize("version", VERSIONS)
def test_files_in_progress(version: str) -> None:
    rows = [row for row in rows_of(real(version, "open")) if row["role"] == "WRITER"]
    assert Counter((row["role"], row["subtask"], row["bucket_id"], row["file_status"], row["length"]) for row in rows) == Counter(
        ("WRITER", subtask, bucket, "IN_PROGRESS", 8) for subtask in (0, 1) for bucket in ("letter=a", "letter=b")
    )
    assert all(row["bucket_path"].endswith(f"/open/{row['bucket_id']}") for row in rows)
    assert all(row["creation_time"].year > 2000 for row in rows)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("uid", ["rolling", "open"])
def test_what_flink_wrote_is_written_to_the_byte(version: str, uid: str) -> None:
    state = real(version, uid)
    written = written_sink(rows_of(state), state)
    assert (written.writer, written.committer) == (None, None)
    assert state.writer is not None
    assert state.committer is not None
    for _, element in state.writers:
        assert FILE_SINK.writer.write(FILE_SINK.writer.read(element, "here"), element.version) == element
    for (_, element), (_, collector) in zip(state.committer.elements, state.collectors(), strict=True):
        assert COLLECTORS.write(collector, element.version) == element


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_that_is_left_out_is_no_longer_expected(version: str) -> None:
    state = real(version, "rolling")
    rows = rows_of(state)
    gone = next(row for row in rows if row["file_status"] == "PENDING" and row["subtask"] == 1)
    written = written_sink([row for row in reversed(rows) if row != gone], state)
    assert written.writer is None
    assert written.committer is not None
    left = with_elements(state, committer=written.committer)
    assert decoded_sink(left, FILE_SINK) == [row for row in decoded_sink(state, FILE_SINK) if row["raw"] != gone["raw"]]
    for _, collector in left.collectors():
        for part in (part for checkpoint in collector.checkpoints for part in checkpoint.subtasks):
            assert part.expected == len(part.requests)


def with_elements(
    state: SinkState, *, writer: Sequence[bytes] | None = None, committer: Sequence[bytes] | None = None
) -> SinkState:
    """A sink with other elements, in the subtasks of the old ones."""
    assert state.writer is not None

    def elements(old: Any, new: Sequence[bytes] | None) -> Any:
        if new is None:
            return old
        found = [Versioned(*struct.unpack(">i", element[:4]), element[8:]) for element in new]
        return replace(old, elements=tuple(zip((subtask for subtask, _ in old.elements), found, strict=True)))

    return replace(state, writer=elements(state.writer, writer), committer=elements(state.committer, committer))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bucket_that_is_left_out_is_gone(version: str) -> None:
    state = real(version, "open")
    gone = (0, "letter=b", "WRITER")
    rows = [row for row in rows_of(state) if (row["subtask"], row["bucket_id"], row["role"]) != gone]
    written = written_sink(rows, state)
    assert written.committer is None
    kept = [element.to_bytes() for subtask, element in state.writers if (subtask, b"letter=b" in element.data) != (0, True)]
    assert written.writer == kept
    moved = written_sink([row | ({"bucket_path": "file:/elsewhere"} if row["bucket_path"] else {}) for row in rows], state)
    assert moved.writer is not None
    assert all(b"file:/elsewhere" in element for element in moved.writer)


def test_files_are_not_changed() -> None:
    state = real("2.3.0", "rolling")
    rows = rows_of(state)
    with pytest.raises(InvalidRowError, match="files can be left out, not changed"):
        written_sink([row | {"path": "s3://elsewhere/part"} for row in rows], state)
    state = real("1.18.1", "open")
    with pytest.raises(InvalidRowError, match="'length' is 1, but 8 in the bytes of the file; files can be left out"):
        written_sink([row | {"length": 1} for row in rows_of(state)], state)


# Spelled out after FileWriterBucketStateSerializer, versions 1 and 2


def recoverable(magic: int, path: str, temporary: str, length: int) -> bytes:
    """What LocalRecoverableSerializer and HadoopRecoverableSerializer write, low bytes first."""
    texts = path.encode(), temporary.encode()
    return struct.pack("<Iqii", magic, length, *map(len, texts)) + b"".join(texts)


def versioned(version: int, data: bytes) -> bytes:
    return struct.pack(">ii", version, len(data)) + data


def old_bucket(current: bytes | None, pending: Mapping[int, Sequence[bytes]], version: int) -> bytes:
    data = struct.pack(">I", 0x1E764B79) + versioned(1, struct.pack("<i", 1) + b"x")
    data += files.utf("hdfs:/out/x") + struct.pack(">q", (1 << 63) - 1 if current is None else 1_700_000_000_000)
    data += b"\0" if current is None else b"\1" + current
    data += struct.pack(">ii", version, len(pending))
    for checkpoint, found in pending.items():
        data += struct.pack(">qi", checkpoint, len(found)) + b"".join(struct.pack(">i", len(file)) + file for file in found)
    return data


HADOOP = recoverable(0xD7436C5E, "/out/x/part-0", "/out/x/.part-0.inprogress", 40)
LOCAL = recoverable(0x1E744B57, "/out/x/part-1", "/out/x/.part-1.inprogress", 50)
OLD_FILE = struct.pack(">I", 0x2C853C89) + versioned(1, LOCAL)
NEW_FILE = (
    struct.pack(">I", 0x2C853C89) + b"\1" + files.utf("s3://b/part-2") + struct.pack(">q", 70) + versioned(1, b"\x32 other")
)


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (
            1,
            old_bucket(versioned(1, HADOOP), {3: [LOCAL], 4: []}, 1),
            [("IN_PROGRESS", "/out/x/part-0", 40, None), ("PENDING", "/out/x/part-1", 50, 3)],
        ),
        (2, old_bucket(None, {3: [OLD_FILE], 7: [OLD_FILE]}, 1), [("PENDING", "/out/x/part-1", 50, c) for c in (3, 7)]),
        (2, old_bucket(None, {9: [NEW_FILE]}, 2), [("PENDING", "s3://b/part-2", 70, 9)]),
        (2, old_bucket(None, {}, 2), [(None, None, None, None)]),
    ],
)
def test_buckets_of_streaming_file_sink(version: int, data: bytes, expected: list[Any]) -> None:
    handle = list_state("bucket-states", BytesSerializer(), [versioned(version, data)])
    operator = files.operator(handle)
    state = sink_state(files.snapshot(operator), operator, None, None)
    rows = rows_of(state)
    assert [(row["file_status"], row["path"], row["length"], row["checkpoint_id"]) for row in rows] == expected
    assert {(row["bucket_id"], row["bucket_path"]) for row in rows} == {("x", "hdfs:/out/x")}
    assert written_sink(rows, state).writer is None
    again = FILE_SINK.writer.write(rows, version)
    assert [FILE_SINK.writer.read(again, "here")] == [FILE_SINK.writer.read(Versioned(version, data), "here")]
    left = written_sink(rows[1:], state).writer
    assert left is not None
    assert [file["path"] for element in left for file in FILE_SINK.writer.read(Versioned(version, element[8:]), "here")] == [
        path for _, path, _, _ in expected[1:]
    ]


# Spelled out after KafkaWriterStateSerializer and KafkaCommittableSerializer

PREFIX = Versioned(1, files.utf("orders"))


def kafka_writer(prefix: str, owned: int, total: int, ownership: int, transactions: Mapping[str, int]) -> Versioned:
    data = files.utf(prefix) + struct.pack(">iiii", owned, total, ownership, len(transactions))
    return Versioned(2, data + b"".join(files.utf(t) + struct.pack(">q", checkpoint) for t, checkpoint in transactions.items()))


def kafka_committable(transaction: str, producer: int = 77, epoch: int = 3) -> Versioned:
    return Versioned(1, struct.pack(">hq", epoch, producer) + files.utf(transaction))


def list_of(version: int, elements: Sequence[bytes]) -> bytes:
    return struct.pack(">ii", version, len(elements)) + b"".join(struct.pack(">i", len(e)) + e for e in elements)


def collector(checkpoints: Mapping[int, Sequence[Versioned]]) -> Versioned:
    """Committables as Flink 1.15 to 1.19 write them."""
    found = []
    for checkpoint, committables in checkpoints.items():
        requests = [versioned(c.version, c.data) + struct.pack(">ii", 0, 0) for c in committables]
        subtask = list_of(0, requests) + struct.pack(">iii", len(requests), 0, 0)
        found.append(struct.pack(">q", checkpoint) + list_of(0, [subtask]))
    return Versioned(2, struct.pack(">I", 0xB91F252C) + list_of(0, found))


def old_collector(committables: Sequence[Versioned]) -> Versioned:
    return Versioned(1, struct.pack(">I", 0xB91F252C) + list_of(1, [c.data for c in committables]))


def sink(writers: Sequence[Versioned], committers: Sequence[Versioned], uid: str = "sink") -> SinkState:
    """A sink with two operators, like in Flink 1.15 and later: an element in each subtask."""
    bytes_of = BytesSerializer()
    writer = files.operator(*(list_state("writer_raw_states", bytes_of, [w.to_bytes()]) for w in writers))
    committer = files.operator(*(list_state(COMMITTER_STATE, bytes_of, [c.to_bytes()]) for c in committers))
    writer = replace(writer, operator_id=operator_id(uid))
    committer = replace(committer, operator_id=operator_id(f"Sink Committer: {uid}"))
    return sink_state(snapshot_of(writer, committer), writer, uid, None)


def snapshot_of(*operators: OperatorState) -> Any:
    snapshot = files.snapshot(operators[0])
    return replace(snapshot, metadata=replace(snapshot.metadata, operators=operators))


KAFKA = [
    kafka_writer("orders", 0, 2, 1, {"orders-0-7": 7, "orders-0-8": 8}),
    kafka_writer("orders", 1, 2, 1, {"orders-1-8": 8}),
]
COMMITTABLES = [
    collector({7: [kafka_committable("orders-0-7")], 8: [kafka_committable("orders-0-8", 78)]}),
    collector({8: [kafka_committable("orders-1-8", 79)]}),
]


def test_transactions_of_kafka() -> None:
    state = sink(KAFKA, COMMITTABLES)
    shown = [{n: v for n, v in row.items() if v is not None and n not in ("raw", "version")} for row in rows_of(state)]
    of_writer = {"role": "WRITER", "transactional_id_prefix": "orders", "total_owned_subtasks": 2}
    of_writer["ownership"] = "EXPLICIT_BY_WRITER_STATE"
    of_committable = {"role": "COMMITTABLE", "epoch": 3, "commit_status": "RECEIVED", "retries": 0}
    transactions = [{"transactional_id": f"orders-0-{c}", "checkpoint_id": c} for c in (7, 8)]
    assert shown == [
        of_writer | {"subtask": 0, "owned_subtask": 0, "transactions": transactions},
        of_writer | {"subtask": 1, "owned_subtask": 1, "transactions": [{"transactional_id": "orders-1-8", "checkpoint_id": 8}]},
        of_committable | {"subtask": 0, "transactional_id": "orders-0-7", "producer_id": 77, "checkpoint_id": 7},
        of_committable | {"subtask": 0, "transactional_id": "orders-0-8", "producer_id": 78, "checkpoint_id": 8},
        of_committable | {"subtask": 1, "transactional_id": "orders-1-8", "producer_id": 79, "checkpoint_id": 8},
    ]
    assert written_sink(rows_of(state), state).writer is None


def test_a_transaction_that_is_left_out_is_aborted_by_its_writer() -> None:
    state = sink(KAFKA, COMMITTABLES)
    written = written_sink([row for row in rows_of(state) if row["transactional_id"] != "orders-0-7"], state)
    assert written.writer == [kafka_writer("orders", 0, 2, 1, {"orders-0-8": 8}).to_bytes(), KAFKA[1].to_bytes()]
    assert written.committer == [
        collector({7: [], 8: [kafka_committable("orders-0-8", 78)]}).to_bytes(),
        COMMITTABLES[1].to_bytes(),
    ]


def test_a_prefix_is_changed() -> None:
    state = sink(KAFKA, COMMITTABLES)
    rows = [row | ({"transactional_id_prefix": "new"} if row["role"] == "WRITER" else {}) for row in rows_of(state)]
    written = written_sink(rows, state)
    assert written.committer is None
    assert written.writer == [
        kafka_writer("new", 0, 2, 1, {"orders-0-7": 7, "orders-0-8": 8}).to_bytes(),
        kafka_writer("new", 1, 2, 1, {"orders-1-8": 8}).to_bytes(),
    ]
    tried = [row | ({"retries": 2, "commit_status": "RETRY"} if row["role"] == "COMMITTABLE" else {}) for row in rows_of(state)]
    assert written_sink(tried, state).committer != [element.to_bytes() for element in COMMITTABLES]


def test_version_1_of_kafka_has_prefixes_only() -> None:
    state = sink([PREFIX, PREFIX], [collector({}), collector({5: [kafka_committable("orders-0-5")]})])
    rows = rows_of(state)
    assert [(r["transactional_id_prefix"], r["transactions"], r["transactional_id"]) for r in rows] == [
        ("orders", None, None),
        ("orders", None, None),
        (None, None, "orders-0-5"),
    ]
    renamed = written_sink([row | {"transactional_id_prefix": "new"} for row in rows[:2]], state)
    assert renamed.writer == [Versioned(1, files.utf("new")).to_bytes()] * 2
    assert renamed.committer == [collector({}).to_bytes(), collector({5: []}).to_bytes()]


def test_one_operator_of_flink_1_14_writes_and_commits() -> None:
    writer = list_state("writer_raw_states", BytesSerializer(), [PREFIX.to_bytes()])
    written = [kafka_committable("orders-0-1"), kafka_committable("orders-0-2")]
    state = sink_state(
        *(lambda operator: (files.snapshot(operator), operator))(files.operator(writer)),
        "sink",
        None,
    )
    committer = files.operator(list_state(COMMITTER_STATE, BytesSerializer(), [old_collector(written).to_bytes()]))
    both = replace(state, committer=sink_state(files.snapshot(committer), committer, None, None).committer)
    rows = rows_of(both)
    assert [(r["role"], r["transactional_id"], r["checkpoint_id"]) for r in rows] == [
        ("WRITER", None, None),
        ("COMMITTABLE", "orders-0-1", None),
        ("COMMITTABLE", "orders-0-2", None),
    ]
    assert written_sink(rows, both).committer is None
    assert written_sink(rows[:2], both).committer == [old_collector(written[:1]).to_bytes()]


def test_committers_with_a_uid_of_their_own_are_named() -> None:
    writer = files.operator(list_state("writer_raw_states", BytesSerializer(), [PREFIX.to_bytes()]))
    left = collector({1: [kafka_committable("orders-0-1")]})
    committer = replace(
        files.operator(list_state(COMMITTER_STATE, BytesSerializer(), [left.to_bytes()])), operator_id=operator_id("mine")
    )
    snapshot = snapshot_of(writer, committer)
    assert len(rows_of(sink_state(snapshot, writer, None, None))) == 1
    assert len(rows_of(sink_state(snapshot, writer, None, operator_id("mine")))) == 2
    with pytest.raises(NotFoundError, match="no operator"):
        sink_state(snapshot, writer, None, operator_id("another"))


def test_sinks_that_are_not_known_stay_bytes() -> None:
    state = sink([Versioned(5, b"state")], [collector({1: [Versioned(9, b"one"), Versioned(9, b"two")]})])
    rows = rows_of(state)
    assert rows == rows_of(state, "raw")
    assert [(row["version"], row["raw"]) for row in rows] == [(5, b"state"), (9, b"one"), (9, b"two")]
    assert written_sink(rows[:2], state).committer == [collector({1: [Versioned(9, b"one")]}).to_bytes()]
    with pytest.raises(UnsupportedFormatError, match="version 5 of the writer state of KafkaSink is not known"):
        rows_of(state, "kafka")
    with pytest.raises(OptionError, match=r"connector='flume': expected one of kafka, file, .*raw"):
        rows_of(state, "flume")
    empty = sink([], [collector({})])
    assert sink_connector(empty, None) is None
    assert rows_of(empty) == []


def test_what_is_not_a_sink() -> None:
    operator = files.operator(list_state("numbers", NumberSerializer("LONG"), [1]))
    with pytest.raises(NotFoundError, match="is not a sink with state; expected one of the states 'writer_raw_states'"):
        sink_state(files.snapshot(operator), operator, None, None)
    operator = files.operator(list_state("writer_raw_states", NumberSerializer("LONG"), [1]))
    with pytest.raises(CorruptSnapshotError, match=r"state 'writer_raw_states'.*holds int, no bytes"):
        sink_state(files.snapshot(operator), operator, None, None)


def test_rows_that_do_not_fit() -> None:
    state = sink(KAFKA, COMMITTABLES)
    rows = rows_of(state)
    writers, committables = rows[:2], rows[2:]
    wrong: list[tuple[list[Row], str]] = [
        ([row | {"role": "READER"} for row in rows], "row 0: 'role' is 'READER'; expected 'WRITER' or 'COMMITTABLE'"),
        ([row | {"subtask": "one"} for row in rows], "row 0: 'subtask' is 'one' of type str; expected int$"),
        ([row | {"subtask": None} for row in rows], "row 0: the state of a sink needs 'subtask'"),
        ([row | {"transactional_id_prefix": None} for row in writers], "row 0: a writer needs 'transactional_id_prefix'"),
        ([row | {"prefix": "new"} for row in rows], "row 0: column 'prefix' would be ignored; expected are role, subtask, trans"),
        ([row | {"raw": None} for row in committables], "row 0: a committable needs 'raw'"),
        ([row | {"ownership": "MINE"} for row in writers], "state of a sink can't be written .*'MINE'; expected one of"),
        ([row | {"commit_status": "LOST"} for row in committables], "'commit_status' is 'LOST'; expected one of 'RECEIVED'"),
        ([*rows, committables[0]], "a committable of checkpoint 7, subtask 0, is not one of the source savepoint"),
        ([row | {"checkpoint_id": 9} for row in committables], "can be changed or left out, but not added or moved"),
    ]
    for changed, message in wrong:
        with pytest.raises(InvalidRowError, match=message):
            written_sink(changed, state)


@pytest.mark.parametrize("data", [b"", struct.pack(">I", 0xB91F252C) + struct.pack(">ii", 7, 1), b"\0\0\0\1"])
def test_damaged_committables(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        COLLECTORS.read(Versioned(2, data), "here")


FORMATS = (FILE_SINK.writer, FILE_SINK.committables, KAFKA_SINK.writer, KAFKA_SINK.committables, COLLECTORS)


def elements() -> list[Versioned]:
    """Elements of each format; elements of file sinks are real."""
    return [element for uid in ("rolling", "open") for _, element in real("2.3.0", uid).writers[:1]] + [
        Versioned(1, old_bucket(versioned(1, HADOOP), {3: [LOCAL], 4: []}, 1)),
        *KAFKA,
        *COMMITTABLES,
        old_collector([kafka_committable("orders-0-1")]),
    ]


@given(st.deferred(lambda: st.sampled_from(elements())), st.data())
def test_no_bytes_break_a_reader(written: Versioned, data: st.DataObject) -> None:
    damaged = bytearray(written.data)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for known in FORMATS:
        for version, given_ in ((written.version, bytes(damaged)), (written.version, bytes(damaged[:cut])), (9, b"")):
            with suppress(StateProcessorError):
                read: Any = known.read(Versioned(version, given_), "here")
                assert known.read(Versioned(version, given_), "here") == read


def test_unknown_formats_inside_committables() -> None:
    data = struct.pack(">I", 0xB91F252C) + list_of(2, [struct.pack(">q", 1)])
    with pytest.raises(UnsupportedFormatError, match="version 2 of the committables of a checkpoint is not known"):
        COLLECTORS.read(Versioned(2, data), "here")
    assert COLLECTORS.read(collector({}), "here") == Collector(())


SPECIMENS = corpus.CORPUS / "connectors" / "kafka.txt"


@pytest.mark.corpus(instead="tests/backends/connectors/test_sink_state.py::test_transactions_of_kafka")
def test_specimens_of_the_connector() -> None:
    if not SPECIMENS.is_file():
        pytest.skip("the external corpus is not here")
    lines = [line.split() for line in SPECIMENS.read_text("utf-8").splitlines()]
    found = [(kind, Versioned(int(version), bytes.fromhex(data))) for kind, version, data in lines]
    writers = [KAFKA_SINK.writer.read(written, "here")[0] for kind, written in found if kind == "writer"]
    assert [(w["transactional_id_prefix"], w["owned_subtask"], w["total_owned_subtasks"], w["ownership"]) for w in writers] == [
        ("präfix", 1, 4, "EXPLICIT_BY_WRITER_STATE"),
        ("p", 0, 1, "IMPLICIT_BY_SUBTASK_ID"),
    ]
    assert [[(t["transactional_id"], t["checkpoint_id"]) for t in w["transactions"]] for w in writers] == [
        [("präfix-1-7", 7), ("präfix-1-8", 8)],
        [],
    ]
    for kind, written in found:
        if kind == "writer":
            assert KAFKA_SINK.writer.write(KAFKA_SINK.writer.read(written, "here"), written.version) == written
        if kind == "committable":
            values = KAFKA_SINK.committables.read(written, "here")
            assert (values["transactional_id"], values["producer_id"], values["epoch"]) == ("präfix-1-7", 123456789, 3)
            assert KAFKA_SINK.committables.write(values) == written


@pytest.mark.corpus(instead="tests/backends/connectors/test_source_splits.py::test_kafka_is_recognized_by_its_bytes")
def test_specimens_of_the_source() -> None:
    if not SPECIMENS.is_file():
        pytest.skip("the external corpus is not here")
    lines = [line.split() for line in SPECIMENS.read_text("utf-8").splitlines()]
    found = [(kind, Versioned(int(version), bytes.fromhex(data))) for kind, version, data in lines]
    splits = [KAFKA_SOURCE.splits.read(written, "here") for kind, written in found if kind == "split"]
    shown = [(s["topic"], s["partition"], s["starting_offset"], s["stopping_offset"]) for s in splits]
    assert shown == [("tøpic", 3, 42, None), ("b", 0, -2, 100)]
    ((_, enumerator),) = [pair for pair in found if pair[0] == "enum"]
    state = KAFKA_SOURCE.enumerator.read(enumerator, "here")
    assert [(s.values["topic"], s.assignment) for s in state.splits] == [("tøpic", "ASSIGNED"), ("b", "UNASSIGNED")]
    assert KAFKA_SOURCE.enumerator.write(state, enumerator.version) == enumerator
    for values, written in zip(splits, (written for kind, written in found if kind == "split"), strict=True):
        assert KAFKA_SOURCE.splits.write(values, written.version) == written


@pytest.mark.corpus(instead="tests/backends/connectors/test_sink_state.py::test_files_in_progress")
@pytest.mark.parametrize("case", corpus.corpus_cases("*/file-sink-*") or [None], ids=lambda case: case.id if case else "none")
def test_file_sinks_of_the_corpus(case: corpus.Case | None) -> None:
    if case is None:
        pytest.skip("the external corpus is not here")
    snapshot = open_snapshot(case.snapshot)
    state = sink_state(snapshot, find_operator(snapshot, "file-sink"), "file-sink", None)
    rows = rows_of(state)
    assert sum(row["length"] for row in rows if row["file_status"] == "IN_PROGRESS") == sum(
        len(entry["value"]) + 1 for entry in case.expected["operators"][0]["states"][0]["entries"]
    )
    assert {row["file_status"] for row in rows} <= {"IN_PROGRESS", "CLEAN_UP"}
    written = written_sink(rows, state)
    assert (written.writer, written.committer) == (None, None)
