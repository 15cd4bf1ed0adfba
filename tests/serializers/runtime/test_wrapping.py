"""Serializers around others."""

from __future__ import annotations

from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.wrapping import SingleThreadAccessCheckingSnapshot
from tests.serializers.harness import check_payloads, check_snapshot

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()


def test_thread_checking_wrapper() -> None:
    name = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer$"
    snapshot = SingleThreadAccessCheckingSnapshot(f"{name}SingleThreadAccessCheckingTypeSerializerSnapshot", [INT.snapshot()])
    check_snapshot(snapshot)
    serializer = snapshot.restore_serializer()
    assert str(serializer) == "INT"
    assert serializer.hash_code(5) == 5
    assert check_payloads(serializer, [bytes(4)]) == [0]
