from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.state import state_headers
from state_processor.backends.state.state_headers import OperatorHeader, read_header
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.backends.state_files import (
    INT,
    LONG,
    STRING,
    broadcast,
    keyed,
    keyed_header,
    meta,
    operator_header,
    operator_list,
    proxy,
    timers,
    utf,
)

BASE = "org.apache.flink.api.common.typeutils.base."
STATE = "org.apache.flink.runtime.state."
LONG_SNAPSHOT = b"\0\0\0\2" + utf(f"{BASE}LongSerializer$LongSerializerSnapshot") + b"\0\0\0\3"
VOID_SNAPSHOT = b"\0\0\0\2" + utf(f"{STATE}VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot") + b"\0\0\0\3"
KEYED = keyed_header(STRING, [keyed("count", LONG), timers("_timer_state/event_t", STRING)])
OPERATOR = operator_header([operator_list("split", INT), operator_list("all", LONG, "UNION")], [broadcast("rules", STRING, INT)])


def test_keyed_header_by_hand() -> None:
    raw = (
        b"\0\0\0\6\0"  # version, not compressed
        + LONG_SNAPSHOT
        + b"\0\1"
        + utf("count")
        + b"\0\0\0\0"  # KEY_VALUE
        + b"\0\0\0\1"
        + utf("KEYED_STATE_TYPE")
        + utf("VALUE")
        + b"\0\0\0\2"
        + utf("VALUE_SERIALIZER")
        + LONG_SNAPSHOT
        + utf("NAMESPACE_SERIALIZER")
        + VOID_SNAPSHOT
    )
    header = state_headers.KeyedHeader.read(DataInput(raw))
    assert (header.version, header.compressed) == (6, False)
    assert str(header.key.restore_serializer()) == "LONG"
    (state,) = header.states
    assert (state.name, state.backend_type, state.options) == ("count", "KEY_VALUE", {"KEYED_STATE_TYPE": "VALUE"})
    assert list(state.serializers) == ["VALUE_SERIALIZER", "NAMESPACE_SERIALIZER"]
    assert str(state.restore(state_headers.NAMESPACE)) == "VOID_NAMESPACE"
    assert written(header) == raw


def test_state_ids_are_positions() -> None:
    header = state_headers.KeyedHeader.read(DataInput(KEYED))
    assert [header.state_id(n) for n in ("count", "_timer_state/event_t", "absent")] == [0, 1, -1]
    assert [s.backend_type for s in header.states] == ["KEY_VALUE", "PRIORITY_QUEUE"]


@pytest.mark.parametrize("ordinal", range(5))
def test_backend_types_are_stored_by_ordinal(ordinal: int) -> None:
    name = ["KEY_VALUE", "OPERATOR", "BROADCAST", "PRIORITY_QUEUE", "KEY_VALUE_V2"][ordinal]
    raw = meta("s", name)
    assert raw[3:7] == struct.pack(">i", ordinal)
    assert state_headers.StateMetaInfo.read(DataInput(raw)).backend_type == name


def test_operator_headers_of_both_versions() -> None:
    for raw, version, compressed in (
        (OPERATOR, 5, False),
        (operator_header([operator_list("split", INT)], compressed=False), 6, False),
        (operator_header([operator_list("split", INT)], compressed=True), 6, True),
    ):
        header = state_headers.OperatorHeader.read(DataInput(raw + b"elements"))
        assert (header.version, header.compressed, header.size) == (version, compressed, len(raw))
        assert written(header) == raw


def test_operator_header_finds_lists_and_broadcasts() -> None:
    header = state_headers.OperatorHeader.read(DataInput(OPERATOR))
    assert [s.name for s in header.lists] == ["split", "all"]
    assert [s.name for s in header.broadcasts] == ["rules"]
    rules = header.state("rules")
    assert rules is not None
    assert str(rules.restore(state_headers.KEY)) == "STRING"
    assert header.state("absent") is None


@pytest.mark.parametrize("raw", [KEYED, keyed_header(LONG, []), keyed_header(INT, [keyed("a", STRING)], compressed=True)])
def test_keyed_headers_are_written_as_they_were_read(raw: bytes) -> None:
    assert written(state_headers.KeyedHeader.read(DataInput(raw))) == raw


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_headers_of_flink_1_6_say_what_to_do(version: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"(?s)of keyed state .*Flink before 1\.7.*new savepoint"):
        state_headers.KeyedHeader.read(DataInput(struct.pack(">i", version) + KEYED[4:]))


def test_other_versions_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"version 7 of keyed state is not known, only 6 \(Flink 1.7\)"):
        state_headers.KeyedHeader.read(DataInput(struct.pack(">i", 7) + KEYED[4:]))
    with pytest.raises(UnsupportedFormatError, match=r"(?s)version 4 of operator state .*before 1\.7"):
        state_headers.OperatorHeader.read(DataInput(struct.pack(">i", 4) + OPERATOR[4:]))
    with pytest.raises(UnsupportedFormatError, match=r"(?s)version 7 of operator .* 6 \(Flink 1.18\).*A Flink after 2\.3"):
        state_headers.OperatorHeader.read(DataInput(struct.pack(">i", 7) + OPERATOR[4:]))


def test_unknown_backend_type_and_proxy_version() -> None:
    with pytest.raises(CorruptSnapshotError, match="'s' has backend type 5"):
        state_headers.StateMetaInfo.read(DataInput(utf("s") + struct.pack(">iii", 5, 0, 0)))
    with pytest.raises(UnsupportedFormatError, match="version 1 of the frame of serializer snapshots"):
        state_headers.read_snapshot_proxy(DataInput(b"\0\0\0\1" + proxy(LONG)[4:]))


def test_a_missing_role_is_damage() -> None:
    state = state_headers.StateMetaInfo.read(DataInput(meta("s", KEY_SERIALIZER=LONG)))
    with pytest.raises(CorruptSnapshotError, match="'s' does not have a VALUE_SERIALIZER, only KEY_SERIALIZER"):
        state.restore(state_headers.VALUE)


@pytest.mark.parametrize("count", [2, 1000, 0x7FFF, -1])
def test_counts_of_states_are_not_believed(count: int) -> None:
    at = len(struct.pack(">i?", 6, False) + proxy(STRING))
    raw = KEYED[:at] + struct.pack(">h", count) + KEYED[at + 2 : at + 20]
    with pytest.raises(CorruptSnapshotError):
        state_headers.KeyedHeader.read(DataInput(raw))


@pytest.mark.parametrize("count", [2**31 - 1, -1])
def test_counts_of_options_and_serializers_are_not_believed(count: int) -> None:
    for raw in (utf("s") + struct.pack(">ii", 0, count), utf("s") + struct.pack(">iii", 0, 0, count)):
        with pytest.raises(CorruptSnapshotError, match="announced"):
            state_headers.StateMetaInfo.read(DataInput(raw + bytes(20)))


@pytest.mark.parametrize(("raw", "kind"), [(KEYED, state_headers.KeyedHeader), (OPERATOR, state_headers.OperatorHeader)])
def test_truncation_anywhere_is_an_error(raw: bytes, kind: type) -> None:
    for end in range(len(raw)):
        with pytest.raises(CorruptSnapshotError):
            kind.read(DataInput(raw[:end]))  # type: ignore[attr-defined]


@given(st.sampled_from([(KEYED, state_headers.KeyedHeader), (OPERATOR, state_headers.OperatorHeader)]), st.data())
def test_damage_is_never_anything_but_our_error(case, data) -> None:
    raw, kind = case
    damaged = bytearray(raw)
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        header = kind.read(DataInput(bytes(damaged)))
    except StateProcessorError:
        return
    assert written(header)


def written(header: state_headers.KeyedHeader | state_headers.OperatorHeader) -> bytes:
    target = DataOutput()
    header.write(target)
    return target.to_bytes()


def test_the_same_bytes_are_parsed_once() -> None:
    data = operator_header([operator_list("numbers", NumberSerializer("LONG"))])
    first = read_header(OperatorHeader.read, data, "subtask 0", 2)
    assert read_header(OperatorHeader.read, memoryview(bytearray(data)), "subtask 1", 2) is first
    assert read_header(OperatorHeader.read, data, "subtask 0", 1) is not first
    of_texts = operator_header([operator_list("numbers", StringSerializer())])
    other = read_header(OperatorHeader.read, of_texts, "subtask 0", 2)
    assert [str(header.lists[0].restore("VALUE_SERIALIZER")) for header in (first, other)] == ["LONG", "STRING"]


def test_messages_name_the_file_that_they_are_about() -> None:
    data = operator_header([], [broadcast("rules", StringSerializer(), NumberSerializer("LONG"))])
    unread = data.replace(b"LongSerializerSnapshot", b"LungSerializerSnapshot")
    assert unread != data
    for where in ("subtask 0", "subtask 1"):
        (state,) = read_header(OperatorHeader.read, unread, where, 2).broadcasts
        found = [s for s in state.serializers.values() if isinstance(s, UnreadSnapshot)]
        assert [where in s.reason for s in found] == [True]
        with pytest.raises(StateProcessorError, match=where):
            read_header(OperatorHeader.read, data[:-3], where, 2)
