"""Columns that users bring, made into those that a program takes: nested fields by name, numbers checked, texts decoded.

:func:`bind` decides once, from the types; :func:`lower` does it, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import UNWRITABLE, InvalidRowError, StateProcessorError
from state_processor.serializers.kernel.columns import Column, ColumnTree
from state_processor.serializers.kernel.encode_program import EncodeProgram, PreparedColumn
from state_processor.serializers.kernel.encode_types import is_timed, timed
from state_processor.serializers.options import DecodeOptions
from state_processor.serializers.struct_fields import match_fields

Rows = Callable[[int], int]
"""The row that a slot of a column belongs to."""
Mask = npt.NDArray[np.bool_]
Prepared = Mapping[int, PreparedColumn]

_WIDEST: Final = DecodeOptions(row_kind=True)


def bind(serializer: TypeSerializer, given: pa.DataType, path: str) -> pa.DataType:
    """The type that a user's column is brought into for a serializer.

    It is ``serializer.arrow_type`` but for dates and times that come as text.

    Raises
    ------
    InvalidRowError
        If such a column can't hold values of the serializer.
    """
    return _bind(given, serializer.arrow_type(_WIDEST), path)


def _bind(given: pa.DataType, wanted: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_dictionary(given):
        return _bind(given.value_type, wanted, path)
    if pa.types.is_null(given) or pa.types.is_null(wanted):
        return wanted
    if is_timed(given) and not is_timed(wanted):
        return timed(_bind(given.field("value").type, wanted, path))
    if pa.types.is_struct(wanted):
        return _bind_struct(given, wanted, path)
    if pa.types.is_map(wanted):
        if not pa.types.is_map(given):
            raise _mismatch(given, wanted, path)
        key = _bind(given.key_type, wanted.key_type, f"{path}.key")
        return pa.map_(key, _bind(given.item_type, wanted.item_type, f"{path}.value"))
    if pa.types.is_list(wanted):
        if not (pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given)):
            raise _mismatch(given, wanted, path)
        return pa.list_(_bind(given.value_type, wanted.value_type, f"{path}.element"))
    if _is_text(given) and pa.types.is_temporal(wanted):
        return pa.string()
    if not _fits(given, wanted):
        raise _mismatch(given, wanted, path)
    return wanted


def _bind_struct(given: pa.DataType, wanted: pa.DataType, path: str) -> pa.DataType:
    if not pa.types.is_struct(given):
        raise _mismatch(given, wanted, path)
    positions = _positions(given, wanted, path)
    fields = [(f, given.field(positions[f.name])) for f in wanted if f.name in positions]
    return pa.struct([(f.name, _bind(own.type, f.type, f"{path}.{own.name}")) for f, own in fields])


def _positions(given: pa.StructType, wanted: pa.StructType, path: str) -> dict[str, int]:
    return match_fields([f.name for f in given], [f.name for f in wanted], f"column {path}")


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_))


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one scalar type may become those of the other; each single value is checked later."""
    if pa.types.is_boolean(wanted) or pa.types.is_boolean(given):
        return bool(given == wanted)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_integer(given) or pa.types.is_floating(given))
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_decimal(given))
    if pa.types.is_string(wanted):
        return _is_text(given) or bool(pa.types.is_integer(given) or pa.types.is_decimal(given))
    if pa.types.is_binary(wanted):
        return _is_bytes(given)
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(given)) and (given.tz is None) == (wanted.tz is None)
    if pa.types.is_date(wanted):
        return bool(pa.types.is_date(given))
    return bool(given == wanted)


def _mismatch(given: pa.DataType, wanted: pa.DataType, path: str) -> InvalidRowError:
    return InvalidRowError(f"column {path} is of type {given}; the state needs {wanted}")


def lower(program: EncodeProgram, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a batch that a program reads, in the types that it reads them in.

    Raises
    ------
    InvalidRowError
        If a value does not fit its type; the message names row and column.
    """
    arrays = []
    for column in program.columns.roots:
        array = batch.column(batch.schema.get_field_index(column.name))
        arrays.append(_lower(program.prepared, column, array, column.name, np.ones(len(array), dtype=np.bool_), int))
    return pa.RecordBatch.from_arrays(arrays, schema=program.columns.schema)


def conform(serializer: TypeSerializer, array: pa.Array, path: str) -> pa.Array:
    """One column in the type that :func:`bind` gives for a serializer.

    Raises
    ------
    InvalidRowError
        If a value does not fit.
    """
    tree = ColumnTree(pa.schema([(path, bind(serializer, array.type, path))]))
    return _lower({}, tree.roots[0], array, path, np.ones(len(array), dtype=np.bool_), int)


def _lower(prepared: Prepared, column: Column, array: pa.Array, path: str, reachable: Mask, rows: Rows) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    written_in_python = prepared.get(column.index)
    if written_in_python is not None:
        if _holds_struct(array.type):
            tree = ColumnTree(pa.schema([(path, written_in_python.type)]))
            array = _lower({}, tree.roots[0], array, path, reachable, rows)
        return _prepared(written_in_python.serializer, array, path, reachable, rows)
    wanted = column.type
    if pa.types.is_null(array.type) and not pa.types.is_null(wanted):
        return pa.nulls(len(array), wanted)
    if pa.types.is_null(wanted):
        return pa.nulls(len(array))
    if pa.types.is_struct(wanted):
        inside = reachable & _present(array)
        positions = _positions(array.type, wanted, path)
        fields = [(child, positions[child.name]) for child in column.children]
        children = [
            _lower(prepared, child, array.field(at), f"{path}.{array.type.field(at).name}", inside, rows) for child, at in fields
        ]
        if is_timed(wanted) and array.null_count:  # null is a value here, with a time: both stand in the children
            children = [pc.if_else(pa.array(_present(array)), child, pa.scalar(None, child.type)) for child in children]
        return _struct(wanted, array, children)
    if pa.types.is_map(wanted) or pa.types.is_list(wanted):
        return _lower_elements(prepared, column, array, path, reachable, rows)
    if array.type == wanted:
        return array
    return _cast(array, wanted, path, reachable, rows)


def _holds_struct(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) or any(_holds_struct(type_.field(i).type) for i in range(type_.num_fields))


def _struct(wanted: pa.DataType, array: pa.Array, children: list[pa.Array]) -> pa.Array:
    validity = None
    if array.null_count:
        validity = pa.py_buffer(np.packbits(_present(array), bitorder="little"))
    return pa.Array.from_buffers(wanted, len(array), [validity], children=children)


def _lower_elements(prepared: Prepared, column: Column, array: pa.Array, path: str, reachable: Mask, rows: Rows) -> pa.Array:
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    inside = np.repeat(reachable & _present(array), np.diff(offsets))
    starts = offsets - first

    def row_of(slot: int) -> int:
        return rows(int(np.searchsorted(starts, slot, side="right")) - 1)

    parts = [("key", array.keys), ("value", array.items)] if pa.types.is_map(array.type) else [("element", array.values)]
    children = [
        _lower(prepared, child, values.slice(first, last - first), f"{path}.{name}", inside, row_of)
        for child, (name, values) in zip(column.children, parts, strict=True)
    ]
    validity = None
    if array.null_count:
        validity = pa.py_buffer(np.packbits(_present(array), bitorder="little"))
    if pa.types.is_map(column.type):
        entries = column.type.field(0).type
        children = [pa.Array.from_buffers(entries, last - first, [None], children=children)]
    return pa.Array.from_buffers(column.type, len(array), [validity, pa.py_buffer(starts)], children=children)


def _present(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _cast(array: pa.Array, wanted: pa.DataType, path: str, reachable: Mask, rows: Rows) -> pa.Array:
    if not reachable.all():
        array = pc.if_else(pa.array(reachable), array, pa.scalar(None, array.type))
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as problem:
        slot = _first_failure(array, wanted)
        raise _unfit(path, rows(slot), array[slot].as_py(), str(problem)) from None


def _first_failure(array: pa.Array, wanted: pa.DataType) -> int:
    """The first slot that can't be cast, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(wanted)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _prepared(serializer: TypeSerializer, array: pa.Array, path: str, reachable: Mask, rows: Rows) -> pa.Array:
    written: list[bytes | None] = []
    for slot, value in enumerate(array.to_pylist()):
        if value is None or not reachable[slot]:
            written.append(None)
            continue
        try:
            written.append(serializer.serialize(serializer.accept(value)))
        except UNWRITABLE as problem:
            raise _unfit(path, rows(slot), value, _words(problem, serializer)) from None
    return pa.array(written, pa.binary())


def _words(problem: Exception, serializer: TypeSerializer) -> str:
    return str(problem) if isinstance(problem, StateProcessorError) else f"no value of {serializer} ({problem})"


def _unfit(path: str, row: int, value: Any, problem: str) -> InvalidRowError:
    text = repr(value)
    shown = text if len(text) <= 120 else text[:117] + "..."
    error = InvalidRowError(f"column {path} of row {row} does not fit: {shown}: {problem}")
    error.row = row
    return error
