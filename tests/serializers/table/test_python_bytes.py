"""Bytes of a Python process, as keys of PyFlink's map state."""

from __future__ import annotations

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.io import DataOutput
from state_processor.serializers.table.python_state import ByteArrayWrapperSerializer
from tests.serializers.harness import check_codec

CLASS = "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot"


def test_a_count_and_the_bytes() -> None:
    serializer = ByteArrayWrapperSerializer()
    assert serializer.serialize(b"ab") == b"\0\0\0\2ab"
    check_codec(serializer, [b"", b"\0\0\0\2m9", bytes(300)])


def test_the_snapshot_is_a_class_name_and_a_version() -> None:
    written = DataOutput()
    written.write_utf(CLASS)
    written.write_int(3)
    raw = written.to_bytes() + ByteArrayWrapperSerializer().snapshot().to_bytes()[len(written.to_bytes()) :]
    snapshot = read_serializer_snapshot(raw)
    assert snapshot.class_name == CLASS
    assert snapshot.to_bytes() == raw
    assert isinstance(snapshot.restore_serializer(), ByteArrayWrapperSerializer)
