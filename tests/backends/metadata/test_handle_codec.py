"""Every handle code against bytes written out by hand, field by field, from the description of the format."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.metadata import handle_layouts as layouts
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.handle_layouts import HandleInput
from state_processor.serializers.io import DataOutput
from state_processor.support.errors import CorruptSnapshotError
from tests.backends.strategies import INPUTS, KEYED, MERGED_INPUTS, MERGED_OUTPUTS, OPERATOR, OUTPUTS, STREAMS


def byte(*values: int) -> bytes:
    return bytes(values)


def i(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def q(*values: int) -> bytes:
    return struct.pack(f">{len(values)}q", *values)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


RELATIVE = h.RelativeFileStateHandle("f-1", 300)
RELATIVE_BYTES = byte(6) + utf("f-1") + q(300)
INLINE = h.ByteStreamStateHandle("n", b"\1\2\3")
INLINE_BYTES = byte(1) + utf("n") + i(3) + b"\1\2\3"
FILE = h.FileStateHandle(7, "file:/x/y")
FILE_BYTES = byte(2) + q(7) + utf("file:/x/y")
RANGE = h.KeyGroupRange(64, 66)
OFFSETS = h.Offsets.of([11, 0, 33])
KEY_GROUPS_BODY = i(64, 3) + q(11, 0, 33) + RELATIVE_BYTES
FILES = (h.LocalFile("000001.sst", FILE), h.LocalFile("CURRENT", INLINE))
FILES_BYTES = i(2) + utf("000001.sst") + FILE_BYTES + utf("CURRENT") + INLINE_BYTES

STREAM_BYTES = {
    "null": (None, byte(0)),
    "inline": (INLINE, INLINE_BYTES),
    "file": (FILE, FILE_BYTES),
    "key groups": (h.KeyGroupsStateHandle(3, RANGE, OFFSETS, RELATIVE), byte(3) + KEY_GROUPS_BODY),
    "relative": (RELATIVE, RELATIVE_BYTES),
    "segment": (
        h.SegmentFileStateHandle(1000, 20, 1, "file:/m", "logical"),
        byte(15) + q(1000, 20) + i(1) + utf("file:/m") + utf("logical"),
    ),
    "empty segment": (h.EmptySegmentFileStateHandle(), byte(16)),
}
CHANGE = h.InMemoryChangelogStateHandle(RANGE, 4, 9, (h.StateChange(-1, b"meta"), h.StateChange(65, b"")), "id")
CHANGE_BYTES = byte(9) + i(64, 3) + q(4, 9) + i(2) + i(-1, 4) + b"meta" + i(65, 0) + utf("id")
KEYED_BYTES = {
    "null": (None, byte(0)),
    "3": (h.KeyGroupsStateHandle(3, RANGE, OFFSETS, RELATIVE), byte(3) + KEY_GROUPS_BODY),
    "7": (h.KeyGroupsStateHandle(7, RANGE, OFFSETS, RELATIVE), byte(7) + KEY_GROUPS_BODY),
    "12": (h.KeyGroupsStateHandle(12, RANGE, OFFSETS, RELATIVE, "hid"), byte(12) + KEY_GROUPS_BODY + utf("hid")),
    "5": (
        h.IncrementalRemoteKeyedStateHandle(5, 8, "uuid", RANGE, RELATIVE, FILES, ()),
        byte(5) + q(8) + utf("uuid") + i(64, 3) + RELATIVE_BYTES + FILES_BYTES + i(0),
    ),
    "11": (
        h.IncrementalRemoteKeyedStateHandle(11, 8, "uuid", RANGE, INLINE, (), FILES, 77, "hid"),
        byte(11) + q(8) + utf("uuid") + i(64, 3) + q(77) + INLINE_BYTES + i(0) + FILES_BYTES + utf("hid"),
    ),
    "8": (
        h.ChangelogStateBackendHandle(
            8, RANGE, 5, (h.KeyGroupsStateHandle(7, RANGE, OFFSETS, RELATIVE),), (CHANGE,), 2, None, "c"
        ),
        byte(8) + i(64, 3) + q(5) + i(1) + byte(7) + KEY_GROUPS_BODY + i(1) + CHANGE_BYTES + q(2) + utf("c"),
    ),
    "14": (
        h.ChangelogStateBackendHandle(14, RANGE, 5, (), (CHANGE, CHANGE), 2, 3, "c"),
        byte(14) + i(64, 3) + q(5) + i(0) + i(2) + CHANGE_BYTES + CHANGE_BYTES + q(2, 3) + utf("c"),
    ),
    "9": (CHANGE, CHANGE_BYTES),
    "10": (
        h.ChangelogFileStateHandle(10, RANGE, ((17, FILE), (0, INLINE)), 40, 20, "id"),
        byte(10) + i(64, 3) + i(2) + q(17) + FILE_BYTES + q(0) + INLINE_BYTES + q(40, 20) + utf("id"),
    ),
    "13": (
        h.ChangelogFileStateHandle(13, RANGE, ((17, FILE),), 40, 20, "id", "filesystem"),
        byte(13) + i(64, 3) + i(1) + q(17) + FILE_BYTES + q(40, 20) + utf("id") + utf("filesystem"),
    ),
}
STATES = (h.OperatorStateMeta("list", 0, h.Offsets.of([1, 2])), h.OperatorStateMeta("empty", 1, h.Offsets()))
STATES_BYTES = i(2) + utf("list") + byte(0) + i(2) + q(1, 2) + utf("empty") + byte(1) + i(0)
OPERATOR_BYTES = {
    "null": (None, byte(0)),
    "4": (h.OperatorStreamStateHandle(STATES, FILE), byte(4) + STATES_BYTES + FILE_BYTES),
    "17": (
        h.FileMergingOperatorStreamStateHandle(STATES, "owned", "shared", True, h.EmptySegmentFileStateHandle()),
        byte(17) + STATES_BYTES + utf("owned") + utf("shared") + byte(1) + byte(16),
    ),
}
CHANNEL_BODY = i(1, 2, 3) + i(2) + q(4, 5) + q(600) + FILE_BYTES
MERGED_BODY = i(1) + q(600) + FILE_BYTES + i(2) + b"ab"
INPUT_BYTES = {
    "plain": (h.InputChannelStateHandle(1, 2, 3, h.Offsets.of([4, 5]), 600, FILE), byte(1) + CHANNEL_BODY),
    "merged": (h.MergedInputChannelStateHandle(1, 600, FILE, b"ab"), byte(3) + MERGED_BODY),
}
OUTPUT_BYTES = {
    "plain": (h.ResultSubpartitionStateHandle(1, 2, 3, h.Offsets.of([4, 5]), 600, FILE), byte(2) + CHANNEL_BODY),
    "merged": (h.MergedResultSubpartitionStateHandle(1, 600, FILE, b"ab"), byte(4) + MERGED_BODY),
}


def cases(kind, table, write):
    return [pytest.param(kind.read, write, handle, raw, id=f"{kind.name}-{name}") for name, (handle, raw) in table.items()]


def write_typed(out, handle):
    layouts.write_channel(out, handle, typed=True)


ALL = [
    *cases(layouts.STREAM, STREAM_BYTES, layouts.write_handle),
    *cases(layouts.KEYED, KEYED_BYTES, layouts.write_handle),
    *cases(layouts.OPERATOR, OPERATOR_BYTES, layouts.write_handle),
    *cases(layouts.INPUT, INPUT_BYTES, write_typed),
    *cases(layouts.OUTPUT, OUTPUT_BYTES, write_typed),
]


def written(write, handle) -> bytes:
    out = DataOutput()
    write(out, handle)
    return out.to_bytes()


@pytest.mark.parametrize(("read", "write", "handle", "raw"), ALL)
def test_bytes_by_hand(read, write, handle, raw):
    inp = HandleInput(raw, "test")
    assert read(inp) == handle
    assert inp.at_end()
    assert written(write, handle) == raw


@pytest.mark.parametrize(("read", "write", "handle", "raw"), ALL)
def test_every_prefix_is_an_error(read, write, handle, raw):
    for end in range(len(raw)):
        with pytest.raises(CorruptSnapshotError, match=r"test, offset \d+: "):
            read(HandleInput(raw[:end], "test"))


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (layouts.INPUT.read_untyped, h.InputChannelStateHandle),
        (layouts.OUTPUT.read_untyped, h.ResultSubpartitionStateHandle),
    ],
)
def test_channels_before_version_6_have_no_type(read, body):
    handle = body(1, 2, 3, h.Offsets.of([4, 5]), 600, FILE)
    assert read(HandleInput(CHANNEL_BODY, "test")) == handle
    assert written(lambda out, value: layouts.write_channel(out, value, typed=False), handle) == CHANNEL_BODY


@pytest.mark.parametrize(
    ("read", "strategy", "write"),
    [
        pytest.param(layouts.STREAM.read, STREAMS, layouts.write_handle, id="stream"),
        pytest.param(layouts.KEYED.read, KEYED, layouts.write_handle, id="keyed"),
        pytest.param(layouts.OPERATOR.read, OPERATOR, layouts.write_handle, id="operator"),
        pytest.param(layouts.INPUT.read, INPUTS | MERGED_INPUTS, write_typed, id="input"),
        pytest.param(layouts.OUTPUT.read, OUTPUTS | MERGED_OUTPUTS, write_typed, id="output"),
    ],
)
@given(data=st.data())
def test_round_trip(data, read, strategy, write):
    handle = data.draw(strategy)
    raw = written(write, handle)
    inp = HandleInput(raw, "test")
    assert read(inp) == handle
    assert inp.at_end()


@pytest.mark.parametrize(
    ("read", "raw", "message"),
    [
        pytest.param(layouts.STREAM.read, byte(99), "offset 0: 99 is not a code of a stream handle", id="stream code"),
        pytest.param(layouts.STREAM.read, byte(17), "17 is not a code of a stream handle", id="operator code as stream"),
        pytest.param(layouts.KEYED.read, byte(4), "4 is not a code of a keyed state handle", id="keyed code"),
        pytest.param(layouts.OPERATOR.read, byte(7), "7 is not a code of a operator state handle", id="operator code"),
        pytest.param(layouts.INPUT.read, byte(2), "2 is not a code of a input channel handle", id="output as input"),
        pytest.param(layouts.OUTPUT.read, byte(3), "3 is not a code of a result subpartition handle", id="input as output"),
        pytest.param(layouts.KEYED.read, byte(7) + i(0, 2**31 - 1), "2147483647 key groups from 0", id="too many key groups"),
        pytest.param(layouts.KEYED.read, byte(7) + i(0, -1), "-1 key groups", id="negative key groups"),
        pytest.param(layouts.KEYED.read, byte(7) + i(-1, 1), "key groups from -1", id="negative start"),
        pytest.param(layouts.KEYED.read, byte(7) + i(32000, 1000), "at most 32768", id="past the last key group"),
        pytest.param(
            layouts.KEYED.read, byte(7) + i(0, 1) + q(0) + byte(0), "expected a stream handle, found null", id="no stream"
        ),
        pytest.param(layouts.OPERATOR.read, byte(4) + i(2**31 - 1), "2147483647 operator states", id="too many states"),
        pytest.param(
            layouts.OPERATOR.read, byte(4) + i(1) + utf("s") + byte(3) + i(0) + INLINE_BYTES, "3 is not a mode", id="mode"
        ),
        pytest.param(
            layouts.OPERATOR.read, byte(4) + i(1) + utf("s") + byte(0) + i(2**28) + INLINE_BYTES, "offsets", id="too many offsets"
        ),
        pytest.param(layouts.STREAM.read, byte(1) + utf("n") + i(-5), "inline state of -5 bytes", id="negative length"),
        pytest.param(layouts.STREAM.read, byte(2) + q(-1) + utf("f"), "negative length -1", id="negative file length"),
        pytest.param(layouts.STREAM.read, byte(2) + q(1) + b"\0\4\xed\xb0\x80x", "surrogates", id="lone surrogate"),
        pytest.param(layouts.STREAM.read, byte(15) + q(0, 0) + i(2) + utf("p") + utf("l"), "2 is not a scope", id="scope"),
        pytest.param(layouts.STREAM.read, byte(1) + b"\0\1\xff" + i(0), "not modified UTF-8", id="string"),
        pytest.param(
            layouts.KEYED.read,
            byte(14) + i(0, 1) + q(0) + i(0) + i(1) + byte(7) + KEY_GROUPS_BODY,
            "7 is not a code of a changelog handle",
            id="key groups as change",
        ),
    ],
)
def test_damage(read, raw, message):
    with pytest.raises(CorruptSnapshotError, match=message):
        read(HandleInput(raw, "test"))


def test_null_among_materialized_handles_is_dropped_as_flink_does():
    raw = byte(14) + i(64, 3) + q(5) + i(2) + byte(0) + CHANGE_BYTES + i(0) + q(2, 3) + utf("c")
    handle = layouts.KEYED.read(HandleInput(raw, "test"))
    assert isinstance(handle, h.ChangelogStateBackendHandle)
    assert handle.materialized == (CHANGE,)


def test_a_number_that_is_cut_off_is_named() -> None:
    with pytest.raises(CorruptSnapshotError, match="int of 4 bytes announced, 3 left"):
        HandleInput(bytes(3), "test").read_int()
