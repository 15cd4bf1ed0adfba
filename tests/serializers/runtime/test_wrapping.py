"""Serializers around others."""

from __future__ import annotations

import pytest

from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.runtime.wrapping import JavaSerializer, SingleThreadAccessCheckingSnapshot
from tests.serializers.harness import PLAIN, Specimen, check_payloads, check_snapshot, check_specimen, specimens

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
