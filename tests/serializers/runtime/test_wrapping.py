"""Serializers around others; time-to-live: bytes, columns, snapshots, and turning it on and off."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.runtime.wrapping import (
    TTL_SNAPSHOTS,
    JavaSerializer,
    SingleThreadAccessCheckingSnapshot,
    TtlAwareSerializerSnapshot,
    TtlSerializer,
    TtlValue,
    is_ttl_snapshot,
)
from tests.serializers.harness import (
    PLAIN,
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()


def test_java_objects_end_where_their_stream_ends() -> None:
    data = bytes.fromhex("aced0005 74 0003 616263")
    pair = TupleSerializer([JavaSerializer(), INT])
    [(java, number)] = check_payloads(pair, [data + bytes.fromhex("00000007")])
    assert (java.raw, java.content, number) == (data, "abc", 7)
    assert pair.to_column((java, number), PLAIN) == {"f0": data, "f1": 7}


@pytest.mark.parametrize("specimen", specimens("flink-runtime", "java-serializer-*"), ids=str)
def test_specimen_of_a_java_object(specimen: Specimen) -> None:
    value = check_specimen(specimen)
    assert (value.class_name, value.content.get("value")) == ("java.lang.Integer", 26)


def test_thread_checking_wrapper() -> None:
    name = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer$"
    snapshot = SingleThreadAccessCheckingSnapshot(f"{name}SingleThreadAccessCheckingTypeSerializerSnapshot", [INT.snapshot()])
    check_snapshot(snapshot)
    serializer = snapshot.restore_serializer()
    assert str(serializer) == "INT"
    assert serializer.hash_code(5) == 5
    assert check_payloads(serializer, [bytes(4)]) == [0]


WITH_TTL = DecodeOptions(ttl=True)
TEXT = DecodeOptions(nanos="string", ttl=True)
longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)


@pytest.mark.parametrize("options", [PLAIN, WITH_TTL, TEXT], ids=["plain", "ttl", "text"])
@given(values=st.lists(st.builds(TtlValue, times, st.none() | texts), max_size=6))
def test_ttl(options: DecodeOptions, values: list[TtlValue]) -> None:
    check_codec(TtlSerializer.of(STRING), values, options)


def test_ttl_columns() -> None:
    serializer = TtlSerializer.of(INT)
    data = bytes.fromhex("00000000000003e8 00000007")
    assert decode_with_kernel(serializer, [data]) == [7]
    assert serializer.arrow_type(WITH_TTL) == pa.struct([("_last_access", pa.timestamp("us", tz="UTC")), ("value", pa.int32())])
    assert decode_with_kernel(serializer, [data], WITH_TTL) == [
        {"_last_access": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "value": 7}
    ]


def test_ttl_length() -> None:
    assert TtlSerializer.of(INT).length == 12
    assert TtlSerializer.of(STRING).length == -1


def test_ttl_snapshot_of_asynchronous_states_keeps_its_name() -> None:
    plain = TtlSerializer.of(INT).snapshot().to_bytes()
    length, name = len(TTL_SNAPSHOTS[0]), TTL_SNAPSHOTS[1]
    data = len(name).to_bytes(2, "big") + name.encode() + plain[2 + length :]
    snapshot = read_serializer_snapshot(data)
    assert is_ttl_snapshot(snapshot)
    check_snapshot(snapshot)
    assert not is_ttl_snapshot(INT.snapshot())


TTL_INT, TTL_LONG = TtlSerializer.of(INT), TtlSerializer.of(LONG)


@pytest.mark.parametrize(
    ("written", "wanted", "verdict"),
    [
        (INT, INT, Verdict.COMPATIBLE_AS_IS),
        (TTL_INT, TTL_INT, Verdict.COMPATIBLE_AS_IS),
        (INT, TTL_INT, Verdict.COMPATIBLE_AFTER_MIGRATION),
        (TTL_INT, INT, Verdict.COMPATIBLE_AFTER_MIGRATION),
        (INT, TTL_LONG, Verdict.INCOMPATIBLE),
        (TTL_INT, TTL_LONG, Verdict.INCOMPATIBLE),
    ],
    ids=str,
)
def test_ttl_on_and_off(written: TypeSerializer, wanted: TypeSerializer, verdict: Verdict) -> None:
    old, new = (TtlAwareSerializerSnapshot.of(s.snapshot()) for s in (written, wanted))
    assert old.resolve_schema_compatibility(new).verdict is verdict
    check_snapshot(old)


def test_ttl_without_awareness_is_incompatible() -> None:
    assert INT.snapshot().resolve_schema_compatibility(TTL_INT).is_incompatible
