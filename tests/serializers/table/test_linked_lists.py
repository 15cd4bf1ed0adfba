"""Tests of :mod:`state_processor.serializers.table.linked_lists`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.errors import CorruptSnapshotError, StateProcessorError
from state_processor.serializers.table.linked_lists import LinkedListSerializer
from tests.serializers.harness import check_codec, decode_with_kernel

INT, LONG = NumberSerializer("INT"), NumberSerializer("LONG")


@given(st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=20)))
def test_linked_lists(lists: list[list[int | None]]) -> None:
    check_codec(LinkedListSerializer(LONG), lists)
    check_codec(LinkedListSerializer(LONG, has_null_mask=False), [[v for v in e if v is not None] for e in lists])


def test_linked_list_bytes() -> None:
    assert LinkedListSerializer(INT).serialize([None, 5]) == bytes.fromhex("00000002 80 00000005")
    assert LinkedListSerializer(INT, has_null_mask=False).serialize([5]) == bytes.fromhex("00000001 00000005")


@pytest.mark.parametrize("data", ["ff ff ff ff", "7f ff ff ff 00", "00 00 00 02 00 00 00 00 05"])
def test_damaged_linked_lists(data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        LinkedListSerializer(INT).deserialize(payload)
    with pytest.raises(StateProcessorError):
        decode_with_kernel(LinkedListSerializer(INT), [payload])


def test_old_linked_list_goes_on_after_migration() -> None:
    old = LinkedListSerializer(LONG, has_null_mask=False, outer_version=1).snapshot()
    assert old.resolve_schema_compatibility(LinkedListSerializer(LONG)).verdict is Verdict.COMPATIBLE_AFTER_MIGRATION
    assert old.resolve_schema_compatibility(old).verdict is Verdict.COMPATIBLE_AS_IS
