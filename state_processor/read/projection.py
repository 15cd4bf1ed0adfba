"""Projection of the columns of a snapshot to the columns of a user's ``schema=``.

Columns are chosen by name. Types may be widened (``int`` to ``bigint``, ``float`` to ``double``, whole numbers to decimals), and
numbers in text, such as ``BigDecimal``, may be read as numbers. A value that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext
from difflib import get_close_matches
from functools import partial
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.field_selection import (
    EVERYTHING,
    Fields,
    Selection,
    inside,
)
from state_processor.backends.read.schemas import spark_ddl
from state_processor.serializers import traversal as paths
from state_processor.support.errors import OptionError, UndecodableValueError
from state_processor.support.late import pc

Convert = Callable[[pa.Array], pa.Array]

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WIDER: Final = {
    **{t: (*_INTEGERS[i + 1 :], pa.float64()) for i, t in enumerate(_INTEGERS[:3])},
    pa.int64(): (),
    pa.float32(): (pa.float64(),),
}
_SHOWN: Final = 80
_DIGITS: Final = 38
"""The largest precision of a decimal in Spark and Arrow."""


class Projection:
    """A conversion of batches from one schema to another.

    ``target``: columns, order and types to deliver.
    """

    def __init__(self, source: pa.Schema, target: pa.Schema) -> None:
        self.schema = target
        self._columns = [_position(source, f.name) for f in target]
        self._converters = [_converter(source.field(i), f, f.name) for i, f in zip(self._columns, target, strict=True)]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in the schema to deliver."""
        arrays = [convert(batch.column(i)) for i, convert in zip(self._columns, self._converters, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def selection(available: pa.Schema, target: pa.Schema) -> Selection:
    """Return the columns of a schema, and the fields of structs in them, that another schema has."""
    selected: dict[str, Fields] = {}
    for field in target:
        source = available.field(_position(available, field.name))
        selected[source.name] = EVERYTHING if source.name in selected else _fields(source.type, field.type)
    return selected


def _fields(source: pa.DataType, target: pa.DataType) -> Fields:
    """Return the fields of a type that another has; everything if these are all, or none."""
    if pa.types.is_list(source) and pa.types.is_list(target):
        return inside(paths.ELEMENT, _fields(source.value_type, target.value_type))
    if pa.types.is_map(source) and pa.types.is_map(target):
        return inside(paths.VALUE, _fields(source.item_type, target.item_type))
    if not (pa.types.is_struct(source) and pa.types.is_struct(target) and target.num_fields):
        return EVERYTHING
    selected = selection(pa.schema(list(source)), pa.schema(list(target)))
    whole = len(selected) == source.num_fields and all(fields == EVERYTHING for fields in selected.values())
    return EVERYTHING if whole else Fields(selected)


def overridden(schema: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    """Return a schema with the types of some columns replaced."""
    positions = {_position(schema, name): data_type for name, data_type in types.items()}
    return pa.schema([f.with_type(positions[i]) if i in positions else f for i, f in enumerate(schema)])


def _position(schema: pa.Schema, name: str) -> int:
    names: list[str] = schema.names
    if name in names:
        return names.index(name)
    matching = [i for i, column in enumerate(names) if column.lower() == name.lower()]
    if len(matching) == 1:
        return matching[0]
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"schema: there is no column {name!r} in this read.{hint} It has: {', '.join(names)}.")


def _converter(source: pa.Field, target: pa.Field, column: str) -> Convert:
    convert = _value_converter(source.type, target.type, column)
    return convert if target.nullable else partial(_without_nulls, convert, column)


def _without_nulls(convert: Convert, column: str, array: pa.Array) -> pa.Array:
    if array.null_count:
        raise UndecodableValueError(f"column {column} has nulls, but is NOT NULL; pass a schema in which it may be null")
    return convert(array)


def _value_converter(source: pa.DataType, target: pa.DataType, column: str) -> Convert:
    if source.equals(target) and _same_nullability(source, target):
        return _unchanged
    for is_kind, build in _NESTED:
        if is_kind(source) and is_kind(target):
            return build(source, target, column)
    if _is_number(target) and (source == pa.string() or pa.types.is_decimal(source) or _decimal_of_integer(source, target)):
        return _number(target, column)
    if source.equals(target) or target in _WIDER.get(source, ()):
        return _cast(target)
    raise OptionError(f"schema: {column} is {_name(source)}, which can't be converted to {_name(target)}")


def _same_nullability(left_type: pa.DataType, right_type: pa.DataType) -> bool:
    for i in range(left_type.num_fields):
        left, right = left_type.field(i), right_type.field(i)
        if left.nullable != right.nullable or not _same_nullability(left.type, right.type):
            return False
    return True


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _decimal_of_integer(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_integer(source) and pa.types.is_decimal(target))


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(data_type) or pa.types.is_integer(data_type))


def _name(data_type: pa.DataType) -> str:
    try:
        return spark_ddl(data_type)
    except TypeError:
        return str(data_type)


def _cast(target: pa.DataType) -> Convert:
    return lambda array: array.cast(target)


def _number(target: pa.DataType, column: str) -> Convert:
    """Convert numbers, or numbers in text, to numbers that may be too narrow for some."""
    scale = target.scale if pa.types.is_decimal(target) else 0

    def convert(array: pa.Array) -> pa.Array:
        text = array.cast(pa.string())
        longest = pc.max(pc.binary_length(text)).as_py() or 0
        plain = pc.all(pc.match_substring_regex(text, r"^-?[0-9]+(\.[0-9]+)?$")).as_py() is not False
        if plain and longest + scale <= _DIGITS:  # beyond, Arrow overflows without an error
            try:
                return text.cast(target)
            except pa.ArrowInvalid:
                pass  # trailing zeros beyond its scale, or a value that the error names
        return pa.array([_exact(t, target, column) for t in text.to_pylist()], target)

    return convert


def _exact(text: str | None, target: pa.DataType, column: str) -> Decimal | int | None:
    """Return the number of a text, unchanged in value."""
    if text is None:
        return None
    decimal = pa.types.is_decimal(target)
    scale = target.scale if decimal else 0
    limit = 10**target.precision if decimal else 1 << (target.bit_width - 1)
    try:
        number = Decimal(text)
        if number.is_finite() and (not number or abs(number.adjusted()) <= _DIGITS):
            with localcontext(prec=len(text) + 4 * _DIGITS):
                scaled = number.scaleb(scale)
                if scaled == scaled.to_integral_value() and (-limit < scaled < limit or (not decimal and scaled == -limit)):
                    return number.quantize(Decimal(1).scaleb(-scale)) if decimal else int(number)
    except InvalidOperation:
        pass
    excerpt = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    raise UndecodableValueError(f"column {column}: {excerpt} does not fit {_name(target)}, its type in schema; use another type")


def _struct(source: pa.StructType, target: pa.StructType, column: str) -> Convert:
    fields = pa.schema(list(source))
    positions = [_position(fields, f.name) for f in target]
    converters = [_converter(source.field(i), f, f"{column}.{f.name}") for i, f in zip(positions, target, strict=True)]

    def convert(array: pa.Array) -> pa.Array:
        present = array.is_valid()
        children = []
        for i, field_, change in zip(positions, target, converters, strict=True):
            child = pc.struct_field(array, i)
            if not field_.nullable and array.null_count:  # a field that must not be null is null where its struct is
                changed = change(child.filter(present))
                child = changed.take(_spread(present))
            else:
                child = change(child)
            children.append(child)
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())

    return convert


def _spread(present: pa.Array) -> pa.Array:
    """Return for each row its position among the rows that are present, null for the others."""
    positions = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return pc.if_else(present, positions, None)


def _list(source: pa.ListType, target: pa.ListType, column: str) -> Convert:
    change = _converter(source.value_field, target.value_field, f"{column}[]")

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, last = _offsets(array)
        return pa.ListArray.from_arrays(offsets, change(array.values.slice(first, last - first)), target, mask=_mask(array))

    return convert


def _map(source: pa.MapType, target: pa.MapType, column: str) -> Convert:
    change_key = _converter(source.key_field, target.key_field, f"{column} (key)")
    change_value = _converter(source.item_field, target.item_field, f"{column} (value)")

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, last = _offsets(array)
        keys = change_key(array.keys.slice(first, last - first))
        items = change_value(array.items.slice(first, last - first))
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=_mask(array))

    return convert


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return offsets that start at 0, and the range of their children: a slice shares the children of the whole."""
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, pa.scalar(first, pa.int32())), first, last


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


_NESTED: Final = ((pa.types.is_struct, _struct), (pa.types.is_list, _list), (pa.types.is_map, _map))
