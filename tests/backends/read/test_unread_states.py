"""Snapshots with unknown serializers: other states are listed and read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state_processor import arrow
from state_processor.backends.formats.changelog_log import Change, ChangeLog, changelog_header
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import describe_keyed
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.format_versions import ADAPTER_VERSION
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import UnknownSerializerError, UnsupportedFormatError
from tests.unknown_serializers import LONG, POJO, unknown, with_unknown_class

FIXTURES = Path(__file__).parents[2] / "fixtures"
FORMATS = ["hashmap-canonical", "rocksdb-canonical", "rocksdb-native", "hashmap-native", "rocksdb-incremental"]
FRAMED = [f for f in FORMATS if f != "hashmap-native"]
TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
MAP = "org.apache.flink.api.common.typeutils.base.MapSerializerSnapshot"
STATES = {"total", "session", "profile", "history", "items"}


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[str, str], Path]:
    """A copy of a fixture with a serializer snapshot of an unknown class."""
    return lambda form, class_name: with_unknown_class(f"orders-{form}", class_name, tmp_path / "copy")


def rows(path: Path, state: str) -> list[dict[str, Any]]:
    read = [r for batch in arrow.read_state(path, "orders", state) for r in batch.to_pylist()]
    return sorted(read, key=repr)


def whole(form: str, state: str) -> list[dict[str, Any]]:
    (metadata,) = (FIXTURES / "2.3.0" / f"orders-{form}" / "savepoint").rglob("_metadata")
    return rows(metadata.parent, state)


@pytest.mark.parametrize("form", FORMATS)
def test_a_class_of_a_value_is_named_in_its_row_only(form: str, damaged: Callable[[str, str], Path]) -> None:
    table = {r["state_name"]: r for r in arrow.states(damaged(form, POJO)).to_pylist()}
    (original,) = (FIXTURES / "2.3.0" / f"orders-{form}" / "savepoint").rglob("_metadata")
    before = {r["state_name"]: r for r in arrow.states(original.parent).to_pylist()}
    assert table.keys() == before.keys()
    assert {n for n in table if table[n] != before[n]} == {"profile"}
    assert (table["profile"]["state_kind"], table["profile"]["key_type"]) == ("VALUE", "STRING")
    assert table["profile"]["value_type"].startswith(f"{unknown(POJO)}, read as bytes: state 'profile': ")
    assert "register_snapshot()" in table["profile"]["value_type"]
    assert table["profile"]["spark_schema"] == "key string, value binary"


@pytest.mark.parametrize("form", FRAMED)
@pytest.mark.parametrize(("class_name", "bad"), [(POJO, "profile"), (TTL, "session")])
def test_other_states_are_read_and_values_are_bytes(
    form: str, class_name: str, bad: str, damaged: Callable[[str, str], Path]
) -> None:
    path = damaged(form, class_name)
    for state in STATES - {bad}:
        assert rows(path, state) == whole(form, state)
    found = rows(path, bad)
    assert {r["key"] for r in found} == {r["key"] for r in whole(form, bad)}
    assert all(isinstance(r["value"], bytes) for r in found)


@pytest.mark.parametrize("form", FRAMED)
def test_classes_inside_of_values(form: str, damaged: Callable[[str, str], Path]) -> None:
    """A map's values, a POJO's fields and what time-to-live wraps: several snapshots without end in one header."""
    path = damaged(form, LONG)
    listed = arrow.states(path).to_pylist()
    table = {r["state_name"]: r for r in listed if r["operator_uid"] == "orders"}
    assert table.keys() >= STATES
    assert (table["items"]["state_kind"], table["history"]["value_type"]) == ("MAP", "STRING")
    assert table["items"]["value_type"].startswith("not readable: state 'items': operator 'orders', subtask 0")
    assert rows(path, "history") == whole(form, "history")
    for state in ("items", "profile"):
        with pytest.raises(UnknownSerializerError, match=rf"state '{state}': .*com\.acme\..*LongSerializerSnapshot"):
            arrow.read_state(path, "orders", state)
    with pytest.raises(UnknownSerializerError, match="state '"):
        arrow.read_state(path, "orders")
    offsets = next(r for r in listed if r["state_name"] == "pending")
    assert offsets["value_type"] == "STRING"


def test_the_heap_has_no_lengths_to_step_over(damaged: Callable[[str, str], Path]) -> None:
    path = damaged("hashmap-native", POJO)
    with pytest.raises(UnsupportedFormatError, match=r"entries of state 'profile' come first, without lengths.*canonical"):
        rows(path, "total")
    with pytest.raises(UnknownSerializerError, match="state 'profile': "):
        rows(path, "profile")


def header_bytes(*states: state_headers.StateMetaInfo) -> bytes:
    target = DataOutput()
    state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, StringSerializer().snapshot(), states).write(target)
    return target.to_bytes()


def state(name: str, value: Any) -> state_headers.StateMetaInfo:
    roles = {state_headers.NAMESPACE: VoidNamespaceSerializer().snapshot(), state_headers.VALUE: value}
    return state_headers.StateMetaInfo(name, "KEY_VALUE", {state_headers.KEYED_STATE_TYPE: "VALUE"}, roles)


@pytest.mark.parametrize("payload", [b"", b"\0" * 40, bytes(range(256)), b"\x00\x05total" * 7, b"\0\0\0\x03"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_header_is_read_past_its_unknown_parts_and_written_as_it_was(payload: bytes, count: int) -> None:
    own = UnreadSnapshot("com.acme.MoneySerializerSnapshot", 7, payload, "")
    known = NumberSerializer("LONG").snapshot()
    data = header_bytes(state("a", known), *(state(f"bad{i}", own) for i in range(count)), state("z", known))
    header = state_headers.KeyedHeader.read(DataInput(data))
    assert [s.name for s in header.states] == ["a", *(f"bad{i}" for i in range(count)), "z"]
    assert [str(s.restore(state_headers.VALUE)) for s in header.states] == [
        "LONG",
        *["com.acme.MoneySerializerSnapshot"] * count,
        "LONG",
    ]
    target = DataOutput()
    header.write(target)
    assert target.to_bytes() == data


def test_an_end_that_is_not_certain_is_no_end() -> None:
    """Two snapshots without an end; the content of the first looks like the state with the second."""
    last = state("x", UnreadSnapshot("com.acme.MoneySerializerSnapshot", 7, b"", ""))
    inner = DataOutput()
    last.write(inner)
    first = UnreadSnapshot("com.acme.MoneySerializerSnapshot", 7, inner.to_bytes(), "")
    with pytest.raises(UnknownSerializerError, match=r"state 'bad': .*com\.acme\.MoneySerializerSnapshot"):
        state_headers.KeyedHeader.read(DataInput(header_bytes(state("bad", first), last)))


def test_a_changelog_that_does_not_say_its_keys_type() -> None:
    meta = state("total", NumberSerializer("LONG").snapshot())
    log = ChangeLog({"total": meta}, {"total": {3: [Change(1, memoryview(b"\x7f\x11\x12"), "")]}})
    header = changelog_header(log, [], "operator 'orders', subtask 0", 128)
    assert [s.name for s in header.states] == ["total"]
    with pytest.raises(UnknownSerializerError, match=r"state 'total': operator 'orders', subtask 0: a changelog that was never"):
        describe_keyed(header, header.states[0])


def framed(size: int) -> UnreadSnapshot:
    """A snapshot as classes from before Flink 1.7 write it: a Java object with its length, then what the class adds."""
    words = [b"\0\0\0\0", b"t\0\x0cfield_of_it", b"\0\x10VALUE_SERIALIZER\0\0\0\2", b"\0\5state\0\0\0\0\0\0\0\0"]
    data = b"".join(words) * (size // 50)
    payload = struct.pack(">ii", 1, len(data)) + data + struct.pack(">i", 1)
    return UnreadSnapshot("com.acme.CoderSerializer$LegacySnapshot", ADAPTER_VERSION, payload, "")


@pytest.mark.parametrize("count", [1, 4, 60])
def test_a_frame_with_a_length_is_stepped_over(count: int) -> None:
    data = header_bytes(*(state(f"own{i}", framed(28_000)) for i in range(count)))
    header = state_headers.KeyedHeader.read(DataInput(data))
    assert [s.name for s in header.states] == [f"own{i}" for i in range(count)]
    assert all(s.restore(state_headers.VALUE).as_remainder().deserialize(b"abc") == b"abc" for s in header.states)
    target = DataOutput()
    header.write(target)
    assert target.to_bytes() == data


def test_many_snapshots_without_a_length() -> None:
    own = UnreadSnapshot("com.acme.MoneySerializerSnapshot", 7, b"\0\5state" * 40, "")
    header = state_headers.KeyedHeader.read(DataInput(header_bytes(*(state(f"own{i}", own) for i in range(80)))))
    assert [s.name for s in header.states] == [f"own{i}" for i in range(80)]
    assert {s.serializers[state_headers.VALUE].to_bytes() for s in header.states} == {own.to_bytes()}
