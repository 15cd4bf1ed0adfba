"""Arrow arrays that are made without pandas equal the arrays of ``pyarrow.array``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.write.arrays import numbers, one_list, repeated


@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_numbers(kind: str) -> None:
    table = np.arange(12, dtype=kind).reshape(4, 3)
    for values in (table[:, 2], table[1], table[0][:0]):
        made = numbers(values)
        made.validate(full=True)
        assert made.equals(pa.array(values))


@pytest.mark.parametrize(("value", "count"), [(b"", 2), ("naïve".encode(), 3), (b"x", 0)])
def test_repeated_values(value: bytes, count: int) -> None:
    text = repeated(value, count, pa.string())
    text.validate(full=True)
    assert text.equals(pa.array([value.decode()] * count, pa.string()))
    assert repeated(value, count, pa.binary()).equals(pa.array([value] * count, pa.binary()))


def test_repeated_values_beyond_the_offsets() -> None:
    with pytest.raises(pa.ArrowCapacityError, match="at most 2147483647 bytes, found 1073741824 values of 2 bytes"):
        repeated(b"ab", 1 << 30, pa.string())


@pytest.mark.parametrize("values", [[], [3, 1]])
def test_one_list(values: list[int]) -> None:
    type_ = pa.list_(pa.int64())
    made = one_list(np.array(values, np.int64), type_)
    made.validate(full=True)
    assert made.equals(pa.array([values], type_))
