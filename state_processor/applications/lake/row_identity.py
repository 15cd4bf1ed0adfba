"""Removal of the rows that changes replace or delete. Rows are compared by their identifying columns, as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from state_processor.display.text_tables import json_text
from state_processor.support.late import pc

_NULL: Final = b"-"
_END: Final = b":"


def is_plain(type_: pa.DataType) -> bool:
    """Return whether a column has one value without parts, whose equality is the same everywhere."""
    return bool(pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_boolean(type_) or pa.types.is_date(type_))


def identity(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Return the bytes that identify each row: the values of some columns, each behind its length."""
    leaves = [leaf for name in names for leaf in _leaves(rows.column(name))]
    if not leaves:
        return pa.nulls(rows.num_rows, pa.binary()).fill_null(b"")
    return pc.binary_join_element_wise(*map(_framed, leaves), b"")


def without(rows: pa.RecordBatch, names: Sequence[str], gone: pa.Array | pa.ChunkedArray) -> pa.RecordBatch:
    """Return a batch without the rows whose :func:`identity` is in ``gone``."""
    return rows.filter(pc.invert(pc.is_in(identity(rows, names), value_set=gone)))


def _leaves(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array | pa.ChunkedArray]:
    """Return the columns that a column consists of. A struct also has a column of its validity."""
    if not pa.types.is_struct(column.type):
        yield column
        return
    yield pc.is_valid(column)
    for i in range(column.type.num_fields):
        yield from _leaves(pc.struct_field(column, [i]))


def _framed(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    data = _bytes(column)
    length = pc.cast(pc.cast(pc.binary_length(data), pa.string()), pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(length, data, _END), _NULL)


def _bytes(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_nested(column.type):
        texts = [None if value is None else json_text({"": value}) for value in column.to_pylist()]
        return pa.array(texts, pa.string()).cast(pa.binary())
    if pa.types.is_floating(column.type):  # as bits: 0.0 is not -0.0, and NaN is NaN
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([chunk.view(bits) for chunk in chunks], bits)
    return pc.cast(pc.cast(column, pa.string()), pa.binary())
