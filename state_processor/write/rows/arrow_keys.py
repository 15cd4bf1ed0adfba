"""Comparison of keys in columns of Arrow as Java compares them; see :mod:`state_processor.spark.dataframe_rows` for Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.read.schema_text import spark_ddl
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc

Numbers = npt.NDArray[np.int64]


def key_numbers(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    """Return a number for each row, in the order of first occurrence: rows with the same values have the same number.

    ``-0.0`` and ``0.0`` are different keys; nulls are the same.
    """
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns if len(numbers) else ():  # Arrow lacks empty dictionaries of some types
        codes = _codes(column)
        numbers = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = _in_order(numbers)
    return numbers


def shared_key_numbers(
    left_columns: Sequence[pa.ChunkedArray],
    right_columns: Sequence[pa.ChunkedArray],
    matching_nulls: frozenset[int] = frozenset(),
) -> tuple[Numbers, Numbers]:
    """Return the numbers of the rows of two tables; -1 for rows with a null, because a null equals nothing.

    ``left_columns`` and ``right_columns``: the columns of both tables. ``matching_nulls``: the positions of columns where null
    equals null.
    """
    together = []
    for left, right in zip(left_columns, right_columns, strict=True):
        type_ = _common(left.type, right.type)
        together.append(pa.chunked_array([*left.cast(type_).chunks, *right.cast(type_).chunks], type_))
    numbers = key_numbers(together)
    for i, column in enumerate(together):
        if i not in matching_nulls:
            numbers[np.asarray(column.is_null())] = -1
    count = len(left_columns[0])
    return numbers[:count], numbers[count:]


def check_comparable(earlier: pa.DataType, column: str, later: pa.DataType) -> None:
    """Refuse columns of keys that can't be compared.

    ``earlier``: the type in rows that were given before. ``column`` and ``later``: the column of rows that may replace them, and
    its type.
    """
    if pa.types.is_null(earlier) or pa.types.is_null(later):
        return  # without values; null keys are refused, with their row, when rows are encoded
    lists = list(map(_field_names, (earlier, later)))
    if lists[0] != lists[1]:
        raise InvalidRowError(
            f"column {column!r}: the fields are ({', '.join(lists[1])}), in rows that were given before "
            f"({', '.join(lists[0])}); give both in the same order"
        )
    if _family(earlier) != _family(later):
        raise InvalidRowError(
            f"column {column!r} is {spark_ddl(later)}, in rows that were given before {spark_ddl(earlier)}: "
            "keys of different types can't be compared; give both in one type"
        )


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return small numbers that are equal where values are the same."""
    type_ = column.type
    if pa.types.is_null(type_):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_floating(type_):
        numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)  # NaN has many forms in memory, and one in Java
        column = pa.chunked_array([pa.array(bits, mask=np.asarray(column.is_null()))])
    elif pa.types.is_struct(type_) and type_.num_fields:
        struct = column.combine_chunks()
        return key_numbers(
            [*map(pa.chunked_array, ([field] for field in struct.flatten())), pa.chunked_array([struct.is_null()])]
        )
    elif pa.types.is_nested(type_):
        column = pa.chunked_array(
            [pa.array([None if v is None else repr(v) for v in _whole_numbers(column).to_pylist()], pa.string())]
        )
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    return np.concatenate([np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks] or [np.zeros(0, np.int64)])


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return nested values with dates and times as numbers: Python has fewer years."""
    return column.cast(_of_numbers(column.type))


def _of_numbers(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_of_numbers(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_of_numbers(type_.key_type), _of_numbers(type_.item_type))
    return pa.list_(_of_numbers(type_.value_type)) if pa.types.is_list(type_) else type_


def _in_order(numbers: Numbers) -> Numbers:
    """Return numbers from 0 on, in the order of first occurrence."""
    _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    ranks = np.empty(len(firsts), dtype=np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    return ranks[inverse]


def _common(left_type: pa.DataType, right_type: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of two types of one family."""
    if left_type == right_type or pa.types.is_null(right_type):
        return left_type
    if pa.types.is_null(left_type):
        return right_type
    if pa.types.is_struct(left_type):
        return pa.struct([(a.name, _common(a.type, b.type)) for a, b in zip(left_type, right_type, strict=True)])
    if pa.types.is_list(left_type):
        return pa.list_(_common(left_type.value_type, right_type.value_type))
    if pa.types.is_map(left_type):
        return pa.map_(_common(left_type.key_type, right_type.key_type), _common(left_type.item_type, right_type.item_type))
    if pa.types.is_integer(left_type):
        return pa.int64()
    if pa.types.is_floating(left_type):
        return pa.float64()
    return left_type if left_type.bit_width >= right_type.bit_width else right_type


def _field_names(type_: pa.DataType) -> list[str]:
    if pa.types.is_struct(type_):
        return [name for f in type_ for name in (f.name, *_field_names(f.type))]
    if pa.types.is_map(type_):
        return ["key", *_field_names(type_.key_type), "value", *_field_names(type_.item_type)]
    return _field_names(type_.value_type) if pa.types.is_list(type_) else []


def _family(type_: pa.DataType) -> Any:
    """Return a value that is the same for types whose values can be compared."""
    if pa.types.is_struct(type_):
        return tuple(_family(f.type) for f in type_)
    if pa.types.is_list(type_):
        return "array", _family(type_.value_type)
    if pa.types.is_map(type_):
        return "map", _family(type_.key_type), _family(type_.item_type)
    families = {"whole": pa.types.is_integer, "fraction": pa.types.is_floating, "decimal": pa.types.is_decimal}
    return next((name for name, test in families.items() if test(type_)), str(type_))
