"""Arrow arrays that are made without pandas equal the arrays of ``pyarrow.array``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.write import arrays
from state_processor.backends.write.arrays import flags, numbers, of_values, one_list, repeated


@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_numbers(kind: str) -> None:
    table = np.arange(12, dtype=kind).reshape(4, 3)
    for values in (table[:, 2], table[1], table[0][:0]):
        made = numbers(values)
        made.validate(full=True)
        assert made.equals(pa.array(values))


@pytest.mark.parametrize("count", [0, 7, 8, 9])
def test_flags(count: int) -> None:
    values = np.arange(count) % 3 == 0
    assert flags(values).equals(pa.array(values, pa.bool_()))


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


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=12)


_LONGS = st.integers(-(2**63), 2**63 - 1)
_SCALARS = (_LONGS, st.floats(allow_nan=False), st.booleans(), st.text(), st.binary())
_STRUCTS = st.dictionaries(st.sampled_from(["a", "b", "ü"]), st.none() | _LONGS)
_PLAIN = st.one_of(
    *map(optional, (*_SCALARS, optional(st.text()), optional(_STRUCTS), _STRUCTS, st.fixed_dictionaries({"x": _STRUCTS})))
)


@given(_PLAIN)
def test_plain_values_are_those_of_pyarrow(values: list[Any]) -> None:
    made = arrays._plain(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    assert made.type == pa.array(values).type


@pytest.mark.parametrize("values", [[1, 2.5], [True, 1], [np.int64(3)], [(1, 2)], [[1], [2.5]], [{"a": [None, 3, 4.5]}]])
def test_other_values_are_left_to_pyarrow(values: list[Any]) -> None:
    assert arrays._plain(values) is None


@pytest.mark.parametrize("value", [2**64, "\ud800", {1: 2}, object()])
def test_values_that_are_not_arrays_have_the_errors_of_pyarrow(value: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        pa.array([value])
    with pytest.raises(expected.type) as found:
        of_values([value])
    assert str(found.value) == str(expected.value)
