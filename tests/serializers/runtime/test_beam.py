"""Snapshots of Apache Beam's serializers: coders as Java objects."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam
import pyarrow as pa
import pytest

from state_processor.serializers import read_serializer_snapshot, register_coder, registrations
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.templates import FieldsCodec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.format_versions import ADAPTER_VERSION
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError, OptionError, UnknownSerializerError
from tests.serializers import java_streams as j

BEAM = "org.apache.beam."
TYPES = f"{BEAM}runners.flink.translation.types."
KEYS = f"{BEAM}runners.flink.translation.wrappers.streaming.FlinkKeyUtils$ByteBufferCoder"
LEGACY, UNVERSIONED = f"{TYPES}CoderTypeSerializer$LegacySnapshot", f"{TYPES}UnversionedTypeSerializerSnapshot"
LONGS, PAIRS = f"{BEAM}sdk.coders.BigEndianLongCoder", f"{BEAM}sdk.coders.KvCoder"


def coder(name: str, **parts: bytes) -> bytes:
    return j.instance(name, parts)


def serializer(inner: bytes) -> bytes:
    options = j.instance(
        f"{BEAM}sdk.util.construction.SerializablePipelineOptions", {"serializedPipelineOptions": j.string("{}")}
    )
    return j.stream(j.instance(f"{TYPES}CoderTypeSerializer", {"fasterCopy": False, "coder": inner, "pipelineOptions": options}))


def legacy(inner: bytes, class_name: str = LEGACY) -> bytes:
    data = serializer(inner)
    return j.utf(class_name) + struct.pack(">Iii", ADAPTER_VERSION, 1, len(data)) + data + struct.pack(">i", 1)


def unversioned(inner: bytes) -> bytes:
    data = serializer(inner)
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (data[:100], data[100:])]
    packed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    return j.utf(UNVERSIONED) + struct.pack(">ii", 1, len(packed)) + packed


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    with registrations():
        yield


@pytest.mark.parametrize("framed", [legacy, unversioned])
def test_snapshots_keep_their_bytes(framed: object) -> None:
    data = framed(coder(LONGS))  # type: ignore[operator]
    assert read_serializer_snapshot(data).to_bytes() == data


@pytest.mark.parametrize("framed", [legacy, unversioned])
def test_values_of_an_unknown_coder_are_bytes(framed: object) -> None:
    restored = read_serializer_snapshot(framed(coder(LONGS))).restore_serializer()  # type: ignore[operator]
    assert str(restored) == f"CODER<{LONGS}>"
    assert not restored.self_delimiting
    assert restored.as_remainder().deserialize(b"abc") == b"abc"
    assert "register_coder" in restored.reason
    with pytest.raises(UnknownSerializerError, match=r"BigEndianLongCoder is code of the job; call .*register_coder"):
        restored.read(DataInput(b"abc"))


@pytest.mark.parametrize("framed", [legacy, unversioned])
def test_values_of_a_registered_coder(framed: object) -> None:
    register_coder(LONGS, NumberSerializer("LONG"))
    snapshot = read_serializer_snapshot(framed(coder(LONGS)))  # type: ignore[operator]
    restored = snapshot.restore_serializer()
    assert restored.deserialize(struct.pack(">q", 7)) == 7
    assert restored.arrow_type(DecodeOptions()) == pa.int64()
    assert restored.snapshot() == snapshot


def test_coders_in_coders() -> None:
    pair = coder(PAIRS, keyCoder=coder(KEYS), valueCoder=coder(LONGS))
    register_coder(PAIRS, lambda key, value: FieldsCodec(lambda *parts: parts, {"key": key, "value": value}))
    assert not read_serializer_snapshot(legacy(pair)).restore_serializer().self_delimiting
    register_coder(LONGS, NumberSerializer("LONG"))
    restored = read_serializer_snapshot(legacy(pair)).restore_serializer()
    assert restored.deserialize(b"\2ab" + struct.pack(">q", 7)) == (b"ab", 7)


def test_keys() -> None:
    """Bytes and hash code of ``ByteBuffer.wrap(new byte[] {1, -2, 3})``."""
    keys = read_serializer_snapshot(legacy(coder(KEYS))).restore_serializer()
    assert keys.deserialize(b"\3\1\xfe\3") == b"\1\xfe\3"
    assert keys.serialize(b"\1\xfe\3") == b"\3\1\xfe\3"
    assert keys.hash_code(b"\1\xfe\3") == ((31 + 3) * 31 - 2) * 31 + 1


def test_damaged_snapshots() -> None:
    data = legacy(coder(LONGS))
    with pytest.raises(CorruptSnapshotError, match=r"version 1 of .*LegacySnapshot expected"):
        read_serializer_snapshot(data[:-1] + b"\2")
    for end in range(0, len(data), 7):
        with pytest.raises(CorruptSnapshotError):
            read_serializer_snapshot(data[:end])
    other = j.utf(UNVERSIONED) + struct.pack(">ii", 1, 20) + b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 0)
    assert str(read_serializer_snapshot(other).restore_serializer()) == f"CODER<{UNVERSIONED}>"


def test_what_is_not_a_coder_is_refused() -> None:
    with pytest.raises(OptionError, match="expected a serializer or a function, found str"):
        register_coder(LONGS, "LONG")  # type: ignore[arg-type]
