"""Specimens of the serializers of namespaces, TTL, timers and the records of operators."""

from __future__ import annotations

import pytest

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.runtime.namespaces import Timer, TimeWindow
from state_processor.serializers.runtime.stream_records import (
    BufferEntry,
    StreamElement,
    TaggedUnion,
    Transaction,
    TwoPhaseCommitState,
)
from state_processor.serializers.runtime.wrapping import TtlValue
from tests.serializers.harness import Specimen, check_snapshot, check_specimen, specimens

VALUES = {
    "buffer-entry": BufferEntry(False, "hello"),
    "global-window": None,
    "stream-element": StreamElement(0, 123456, "key"),
    "time-window": TimeWindow(12345, 67890),
    "timer": Timer(12345, "key", 678),
    "ttl-aware-serializer-string-value": "hello Gordon",
    "ttl-aware-serializer-ttl-value": TtlValue(13, "hello Gordon"),
    "ttl-serializer": TtlValue(13, "hello Gordon"),
    "union-serializer-one": TaggedUnion(1, "flink"),
    "union-serializer-two": TaggedUnion(2, 23456),
    "void-namespace": None,
    "two-phase-commit": TwoPhaseCommitState(Transaction(12, 1523467890), [Transaction(123, 1567234890)], "flink"),
}
CASES = [
    pytest.param(specimen, value, id=specimen.name)
    for name, value in VALUES.items()
    for module in ("flink-runtime", "flink-streaming-java")
    for specimen in specimens(module, f"{name}*")
]


@pytest.mark.parametrize(("specimen", "value"), CASES)
def test_specimen(specimen: Specimen, value: object) -> None:
    assert check_specimen(specimen) == value
    check_snapshot(read_serializer_snapshot(specimen.snapshot))
