"""Tests of :mod:`state_processor.applications.flink_sql.query_migration`: the numbers that calls have for a distinct value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.applications.flink_sql.query_migration import MigratedState, migrated_entries
from state_processor.applications.flink_sql.state_changes import StateSuccession, ViewChange
from state_processor.backends.state.descriptions import VALUE, KeyedDescription
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.rows.arrow_rows import ArrowRows

LONGS = pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("type_", "change", "numbers", "expected"),
    [
        (pa.int64(), ViewChange(2, (1, None, 0), as_bits=True), [1, 2, 3], [4, 1, 5]),
        (pa.int64(), ViewChange(2, (1,), as_bits=True), [1, 2, 3], [1, 1]),
        (pa.int64(), ViewChange(64, (63,), as_bits=True), [-1, 1], [1]),
        (pa.int64(), ViewChange(1, (0,), as_bits=False), [3, 0], [3]),
        (LONGS, ViewChange(3, (2, 0), as_bits=False), [[1, 2, 3], [0, 5, 0], [0, 0, 7]], [[3, 1], [7, 0]]),
        (LONGS, ViewChange(2, (1,), as_bits=False), [[1, 2], [4, 0]], [2]),
        (LONGS, ViewChange(3, (2, 0), as_bits=False), [], []),
    ],
)
def test_numbers_of_distinct_values_go_on_by_call(type_: pa.DataType, change: ViewChange, numbers: list, expected: list) -> None:
    long = NumberSerializer("LONG")
    state = KeyedDescription.of("distinctAcc_0_null_state", VALUE, long, long, value=long)
    batch = pa.record_batch({"key": pa.array(range(len(numbers)), pa.int64()), "value": pa.array(numbers, type_)})
    changed = MigratedState(OperatorIdentifier.for_uid("one"), state, state, StateSuccession(counted=change))
    found = migrated_entries(changed, ArrowRows.of(batch)).to_arrow()
    assert found["value"].to_pylist() == expected
