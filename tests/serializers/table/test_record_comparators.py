"""Comparators of rows as Java objects: Flink takes those in the snapshots of its own sorted maps for the same."""

from __future__ import annotations

import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import survey
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.table.logical_types import AtomicType, BytesType, RowType, TextType
from state_processor.serializers.table.operator_records import sorted_map
from state_processor.serializers.table.record_comparators import OrderedField, comparator_object, is_ordered
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.errors import UnsupportedFormatError
from tests.archives import unpacked


@pytest.mark.parametrize(("ascending", "compatible"), [(True, True), (False, False)])
def test_an_order_is_compared_with_the_order_that_flink_wrote(ascending: bool, compatible: bool) -> None:
    snapshot = open_snapshot(str(unpacked("sql") / "2.3.0" / "top-of-updates" / "savepoint"))
    found = [survey(snapshot, operator)[0].get("sorted-map") for operator in snapshot.metadata.operators]
    (written,) = (states[0].value.snapshot() for states in found if states)
    order = [OrderedField(AtomicType("BIGINT"), ascending, nulls_last=False)]
    made = sorted_map(RowDataSerializer(RowType.of(AtomicType("BIGINT"))), NumberSerializer("LONG"), order).snapshot()
    assert (written.resolve_schema_compatibility(made) == SchemaCompatibility.compatible_as_is()) == compatible


def test_other_types_are_not_ordered() -> None:
    assert is_ordered(TextType())
    assert not is_ordered(BytesType())
    with pytest.raises(UnsupportedFormatError, match="the order of BYTES is not known; expected numbers, text, or times"):
        comparator_object([OrderedField(BytesType(), ascending=True, nulls_last=False)])
