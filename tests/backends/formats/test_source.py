"""Headers of keyed state, which many subtasks have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from state_processor.backends.formats.source import read_keyed_header
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.state import state_headers
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.io import DataOutput
from state_processor.serializers.registry import register_snapshot
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError
from tests import corpus

MONEY = "com.acme.MoneySerializerSnapshot"


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return open_snapshot(corpus.FIXTURES / "2.3.0" / "orders-rocksdb-canonical" / "savepoint")


def header_bytes(value: object) -> bytes:
    target = DataOutput()
    roles = {state_headers.NAMESPACE: VoidNamespaceSerializer().snapshot(), state_headers.VALUE: value}
    state = state_headers.StateMetaInfo("total", "KEY_VALUE", {state_headers.KEYED_STATE_TYPE: "VALUE"}, roles)  # type: ignore[arg-type]
    state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, StringSerializer().snapshot(), (state,)).write(target)
    return target.to_bytes()


def test_the_same_bytes_are_parsed_once(snapshot: Snapshot) -> None:
    data = header_bytes(NumberSerializer("LONG").snapshot())
    first = read_keyed_header(snapshot, data, "subtask 0")
    assert read_keyed_header(snapshot, memoryview(bytearray(data)), "subtask 1") is first
    of_flink_1 = replace(snapshot, metadata=replace(snapshot.metadata, version=4))
    assert read_keyed_header(of_flink_1, data, "subtask 0") is not first
    other = read_keyed_header(snapshot, header_bytes(NumberSerializer("INT").snapshot()), "subtask 0")
    assert [str(header.states[0].restore(state_headers.VALUE)) for header in (first, other)] == ["LONG", "INT"]


@pytest.mark.usefixtures("own_registrations")
def test_what_is_registered_meanwhile_counts(snapshot: Snapshot) -> None:
    data = header_bytes(UnreadSnapshot(MONEY, 3, b"", ""))
    before = read_keyed_header(snapshot, data, "subtask 0").states[0].serializers[state_headers.VALUE]
    assert isinstance(before, UnreadSnapshot)
    register_snapshot(MONEY, type(NumberSerializer("LONG").snapshot()))
    after = read_keyed_header(snapshot, data, "subtask 0").states[0].serializers[state_headers.VALUE]
    assert not isinstance(after, UnreadSnapshot)


def test_messages_name_the_file_that_they_are_about(snapshot: Snapshot) -> None:
    unread = header_bytes(UnreadSnapshot(MONEY, 3, b"", ""))
    for where in ("subtask 0", "subtask 1"):
        found = read_keyed_header(snapshot, unread, where).states[0].serializers[state_headers.VALUE]
        assert isinstance(found, UnreadSnapshot)
        assert where in found.reason
        with pytest.raises(CorruptSnapshotError, match=where):
            read_keyed_header(snapshot, header_bytes(NumberSerializer("LONG").snapshot()) + b"\0", where)
