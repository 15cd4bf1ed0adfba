from __future__ import annotations

import gc
import json
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.properties import CheckpointProperties, savepoint_properties
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    kept_metadata,
    read_metadata,
    write_metadata,
)
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.backends.snapshot_corpus import metadata_files
from tests.backends.strategies import metadata

ID = bytes(range(16))
INLINE = h.ByteStreamStateHandle("n", b"ab")
INLINE_BYTES = b"\1\0\1n\0\0\0\2ab"
NO_STATES = bytes(8) + b"\0\0" + bytes(8)  # two operator states, two keyed states, two lists of channels


def header(version: int, operators: int = 1) -> bytes:
    return struct.pack(">iiqii", 0x4960672D, version, 5, 0, operators)


SMALL = CheckpointMetadata(
    7,
    5,
    (
        OperatorState(
            ID.hex(),
            3,
            128,
            (
                OperatorSubtaskState(
                    0,
                    h.OperatorStreamStateHandle((h.OperatorStateMeta("s", 2, h.Offsets.of([1])),), INLINE),
                    None,
                    h.KeyGroupsStateHandle(12, h.KeyGroupRange(0, 1), h.Offsets.of([1, 2]), INLINE, "id"),
                    None,
                    (h.InputChannelStateHandle(0, 0, 0, h.Offsets.of([4]), 3, INLINE),),
                    (h.MergedResultSubpartitionStateHandle(0, 4, INLINE, b"x"),),
                    reference_checkpoint_id=3,
                ),
                OperatorSubtaskState(1, finished=True),
            ),
            INLINE,
            "name",
            "uid",
        ),
        OperatorState(ID.hex(), 1, 128, fully_finished=True),
    ),
    (MasterState(1, "hook", b"state"),),
    savepoint_properties(),
)


def test_version_2_by_hand():
    raw = header(2) + ID + struct.pack(">iiii", 1, 128, 1, 1) + struct.pack(">iqi", 0, -1, 0) + bytes(8) + b"\0\0"
    parsed = read_metadata(raw)
    assert parsed == CheckpointMetadata(2, 5, (OperatorState(ID.hex(), 1, 128, (OperatorSubtaskState(0),)),))
    assert write_metadata(parsed) == raw


def test_version_3_by_hand():
    subtasks = struct.pack(">ii", 2, 0) + NO_STATES + struct.pack(">i", -2)
    raw = header(3) + ID + struct.pack(">ii", 2, 128) + INLINE_BYTES + subtasks
    parsed = read_metadata(raw)
    expected = OperatorState(ID.hex(), 2, 128, (OperatorSubtaskState(0), OperatorSubtaskState(1, finished=True)), INLINE)
    assert parsed == CheckpointMetadata(3, 5, (expected,))
    assert write_metadata(parsed) == raw


def test_finished_operator_by_hand():
    raw = header(3) + ID + struct.pack(">ii", 2, 128) + b"\0" + struct.pack(">i", -1)
    parsed = read_metadata(raw)
    assert parsed.operators == (OperatorState(ID.hex(), 2, 128, fully_finished=True),)
    assert write_metadata(parsed) == raw


def test_versions_5_to_7_by_hand():
    operator = b"\0\1N\0\1U" + ID + struct.pack(">ii", 1, 128) + b"\0" + struct.pack(">ii", 1, 0) + NO_STATES
    null = bytes.fromhex("aced000570")
    for version, subtask_end in ((5, b""), (6, b""), (7, b"\0"), (7, b"\1" + struct.pack(">q", 4))):
        raw = header(version) + operator + subtask_end + null
        parsed = read_metadata(raw)
        subtask = OperatorSubtaskState(0, reference_checkpoint_id=4 if len(subtask_end) > 1 else None)
        expected = OperatorState(ID.hex(), 1, 128, (subtask,), name="N", uid="U")
        assert parsed == CheckpointMetadata(version, 5, (expected,), (), CheckpointProperties())
        assert write_metadata(parsed) == raw


def test_absent_name_and_uid_are_none():
    operator = replace(SMALL.operators[0], name=None, uid=None)
    raw = write_metadata(replace(SMALL, operators=(operator,)))
    assert read_metadata(raw).operators == (operator,)


def test_missing_properties_are_written_as_null():
    raw = write_metadata(CheckpointMetadata(4, 5, ()))
    assert raw == header(4, 0) + bytes.fromhex("aced000570")


@given(metadata())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_round_trip(value):
    assert read_metadata(write_metadata(value)) == value


def test_sizes_add_up():
    subtask = SMALL.operators[0].subtasks[0]
    assert subtask.state_size == 2 + 2 + 3 + 4
    assert SMALL.operators[0].state_size == 11 + 2
    assert SMALL.operators[1].state_size == 0


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_every_prefix_is_an_error(version):
    operators = tuple(
        replace(
            o,
            subtasks=tuple(replace(s, input_channels=s.input_channels[:1], result_subpartitions=()) for s in o.subtasks),
        )
        for o in SMALL.operators
    )
    raw = write_metadata(replace(SMALL, version=version, operators=operators))
    for end in range(len(raw)):
        with pytest.raises(CorruptSnapshotError):
            read_metadata(raw[:end], "cut")


def test_every_prefix_of_version_2_is_an_error():
    subtask = replace(SMALL.operators[0].subtasks[0], input_channels=(), result_subpartitions=())
    operator = OperatorState(ID.hex(), 3, 128, (subtask,))
    raw = write_metadata(replace(SMALL, version=2, operators=(operator,)))
    for end in range(len(raw)):
        with pytest.raises(CorruptSnapshotError):
            read_metadata(raw[:end], "cut")


def read_or_refuse(raw: bytes) -> None:
    try:
        parsed = read_metadata(raw, "damaged")
    except StateProcessorError as e:
        assert "damaged" in str(e)  # noqa: PT017
    else:
        assert read_metadata(write_metadata(parsed)) == parsed


SMALL_BYTES = write_metadata(SMALL)


@given(st.integers(0, len(SMALL_BYTES) - 1), st.integers(1, 255))
@settings(max_examples=1000)
def test_a_flipped_byte_is_read_or_refused(position, flip):
    damaged = bytearray(SMALL_BYTES)
    damaged[position] ^= flip
    read_or_refuse(bytes(damaged))


@given(st.data())
@settings(max_examples=300)
def test_overwritten_bytes_are_read_or_refused(data):
    damaged = bytearray(SMALL_BYTES)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"\x7f\xff\xff\xff", b"\xff" * 8, bytes(8)]))
        damaged[start : start + len(patch)] = patch
    read_or_refuse(bytes(damaged))


@given(st.binary(max_size=200))
def test_noise_after_the_header_is_read_or_refused(noise):
    read_or_refuse(header(6) + noise)


def test_bytes_after_the_end():
    with pytest.raises(CorruptSnapshotError, match="2 bytes after the last operator"):
        read_metadata(header(3, 0) + b"ab")
    with pytest.raises(CorruptSnapshotError, match="Java stream"):
        read_metadata(SMALL_BYTES + b"\x70")


def test_nesting_has_an_end():
    stream = b"\3" + struct.pack(">ii", 0, 0)
    subtask = struct.pack(">i", 0) + bytes(8) + b"\7" + struct.pack(">ii", 0, 0) + stream * 100_000
    raw = header(3) + ID + struct.pack(">ii", 1, 128) + b"\0" + struct.pack(">i", 1) + subtask
    with pytest.raises(CorruptSnapshotError, match="nested too deeply"):
        read_metadata(raw)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        pytest.param(b"PK\3\4" + bytes(30), CorruptSnapshotError, "it is a zip archive", id="magic"),
        pytest.param(header(8, 0), UnsupportedFormatError, "version 8", id="new version"),
        pytest.param(header(1, 0), UnsupportedFormatError, "version 1", id="old version"),
        pytest.param(struct.pack(">iiqii", 0x4960672D, 3, -1, 0, 0), CorruptSnapshotError, "negative checkpoint id", id="id"),
        pytest.param(header(3, 2**31 - 1), CorruptSnapshotError, "2147483647 operators", id="operators"),
        pytest.param(header(3, -1), CorruptSnapshotError, "-1 operators", id="negative operators"),
        pytest.param(
            header(3) + ID + struct.pack(">ii", 129, 128) + bytes(40), CorruptSnapshotError, "parallelism 129", id="parallelism"
        ),
        pytest.param(
            header(3) + ID + struct.pack(">ii", 1, 128) + b"\0" + struct.pack(">ii", 1, 1) + NO_STATES,
            CorruptSnapshotError,
            "subtask 1 of an operator with parallelism 1",
            id="subtask index",
        ),
        pytest.param(
            header(2) + ID + struct.pack(">iiii", 1, 128, 1, 1) + struct.pack(">iqi", -1, -1, 0) + bytes(10),
            CorruptSnapshotError,
            "subtask -1",
            id="finished subtask in version 2",
        ),
        pytest.param(
            header(2) + ID + struct.pack(">iiii", 1, 128, 1, 1) + struct.pack(">iqi", 0, -1, 3) + bytes(10),
            CorruptSnapshotError,
            "3 states of Flink 1.1",
            id="legacy states",
        ),
        pytest.param(
            header(3) + ID + struct.pack(">ii", 1, 128) + b"\6\0\1f" + struct.pack(">qii", 1, 0, 0),
            CorruptSnapshotError,
            "coordinator state must be inline",
            id="coordinator",
        ),
        pytest.param(
            header(3) + ID + struct.pack(">ii", 1, 128) + INLINE_BYTES + struct.pack(">i", -1),
            CorruptSnapshotError,
            "finished operator with coordinator",
            id="finished with coordinator",
        ),
        pytest.param(
            header(3) + ID + struct.pack(">ii", 1, 128) + b"\0" + struct.pack(">iii", 1, 0, 1) + b"\0" + bytes(20),
            CorruptSnapshotError,
            "operator state announced by 1",
            id="operator state",
        ),
        pytest.param(
            struct.pack(">iiqi", 0x4960672D, 3, 5, 1) + bytes(30), CorruptSnapshotError, "master state expected", id="master"
        ),
        pytest.param(
            struct.pack(">iiqi", 0x4960672D, 3, 5, 1) + struct.pack(">Iii", 0xC96B1696, 11, 1) + b"\0\0" + bytes(8),
            CorruptSnapshotError,
            "master state of 11 bytes announced, it has 10",
            id="master length",
        ),
    ],
)
def test_damage(raw, error, message):
    with pytest.raises(error, match=message):
        read_metadata(raw)


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (OperatorState(ID.hex(), 1, 128, coordinator_state=INLINE), "coordinator state"),
        (OperatorState(ID.hex(), 1, 128, fully_finished=True), "a finished operator"),
        (OperatorState(ID.hex(), 1, 128, (OperatorSubtaskState(0, finished=True),)), "a finished subtask"),
        (
            OperatorState(
                ID.hex(), 1, 128, (OperatorSubtaskState(0, input_channels=SMALL.operators[0].subtasks[0].input_channels),)
            ),
            "channel state",
        ),
    ],
)
def test_what_version_2_cannot_express_is_refused(operator, what):
    with pytest.raises(UnsupportedFormatError, match=f"version 2 cannot express {what}"):
        write_metadata(CheckpointMetadata(2, 1, (operator,)))


def test_merged_channels_need_version_6():
    with pytest.raises(UnsupportedFormatError, match="version 5 cannot express merged channel state"):
        write_metadata(replace(SMALL, version=5))


@pytest.mark.parametrize("file", metadata_files())
def test_real_files_are_rewritten_byte_for_byte(file):
    raw = file.read_bytes()
    parsed = read_metadata(raw, str(file))
    assert write_metadata(parsed) == raw
    assert len(parsed.operators) > 0


def expected_of(file):
    """Known facts about a snapshot, in addition to its metadata."""
    directory = next(d for d in file.parents if (d / "expected.json").exists())
    return json.loads((directory / "expected.json").read_text())


@pytest.mark.parametrize("file", metadata_files(generated=True))
def test_real_metadata_says_what_the_job_was(file):
    expected = expected_of(file)
    parsed = read_metadata(file.read_bytes(), str(file))
    is_of_the_job = file.parent.name == "savepoint" or expected["snapshot_dir"].endswith(file.parent.name)
    if is_of_the_job and "checkpoint_id" in expected:  # PyFlink does not tell it to the program that asks for a savepoint
        assert parsed.checkpoint_id == expected["checkpoint_id"]
    by_id = {operator.operator_id: operator for operator in parsed.operators}
    if expected.get("vertices"):
        assert set(by_id) == {operator for vertex in expected["vertices"] for operator in vertex["operator_ids"]}
    assert max(operator.parallelism for operator in parsed.operators) == expected["parallelism"]
    for operator in expected["operators"]:
        wanted = operator_id(operator["uid"]) if operator["uid"] else operator.get("uid_hash")
        if wanted is None:
            continue  # the operators of a SQL job are the planner's
        assert wanted in by_id
        if parsed.version >= 5:
            assert by_id[wanted].uid == operator["uid"]
    if parsed.properties is not None:
        kind = {"canonical": ("savepoint", "CANONICAL"), "native": ("savepoint", "NATIVE"), "checkpoint": ("checkpoint", None)}
        assert (parsed.properties.kind, parsed.properties.format) == kind[expected["format"]]


def test_the_same_bytes_are_parsed_once() -> None:
    data = write_metadata(SMALL)
    first = kept_metadata(memoryview(data), "first")
    assert first == SMALL
    assert kept_metadata(memoryview(bytearray(data)), "second") is first
    assert kept_metadata(memoryview(write_metadata(replace(SMALL, checkpoint_id=SMALL.checkpoint_id + 1))), "third") != first
    for file in ("first", "second"):
        with pytest.raises(CorruptSnapshotError, match=file):
            kept_metadata(memoryview(data[:-1]), file)


def test_content_is_a_view_of_the_file_and_is_pickled_alone() -> None:
    """A `_metadata` may have gigabytes of inline state and offsets: parsing copies none of it."""
    inline, offsets = h.ByteStreamStateHandle("file", bytes(range(256)) * 40), h.Offsets.of(range(1000))
    handle = h.KeyGroupsStateHandle(h.KEY_GROUPS, h.KeyGroupRange(0, 999), offsets, inline)
    operator = OperatorState("00" * 16, 1, 1000, (OperatorSubtaskState(0, managed_keyed=handle),))
    data = write_metadata(CheckpointMetadata(3, 1, (operator,)))
    file = np.frombuffer(data, dtype=np.uint8).copy()
    read = read_metadata(file.data).operators[0].subtasks[0].managed_keyed
    assert isinstance(read, h.KeyGroupsStateHandle)
    assert isinstance(read.stream, h.ByteStreamStateHandle)
    for content in (read.stream.data, read.offsets.raw):
        assert np.shares_memory(np.frombuffer(content, dtype=np.uint8), file)
    assert (read, hash(read)) == (handle, hash(handle))
    assert len(pickle.dumps(read)) < len(inline.data) + len(offsets.raw) + 1000
    assert pickle.loads(pickle.dumps(read)) == handle
