"""Types inside nested types of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.support.arrow_types import holds, inner_types, with_inner_types

ROW = pa.struct([pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"}), ("b", pa.list_(pa.string()))])


def test_inner_types() -> None:
    assert inner_types(ROW) == [pa.int64(), pa.list_(pa.string())]
    assert inner_types(pa.map_(pa.string(), pa.int8())) == [
        pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.int8())])
    ]
    assert inner_types(pa.int8()) == []


def test_kinds_inside_of_types() -> None:
    assert holds(ROW, pa.types.is_string)
    assert holds(pa.string(), pa.types.is_string)
    assert not holds(ROW, pa.types.is_map)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROW, pa.struct([pa.field("a", pa.int8(), nullable=False, metadata={"k": "v"}), ("b", pa.int8())])),
        (pa.map_(pa.string(), ROW), pa.map_(pa.int8(), pa.int8())),
        (pa.list_(ROW), pa.list_(pa.int8())),
        (pa.large_list(ROW), pa.large_list(pa.int8())),
        (pa.string(), pa.string()),
    ],
)
def test_changed_inner_types(before: pa.DataType, after: pa.DataType) -> None:
    assert with_inner_types(before, lambda _: pa.int8()).equals(after, check_metadata=True)
