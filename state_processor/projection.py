"""From the columns that a snapshot describes to those that a user's ``schema=`` asks for.

Columns are chosen by name. Types may be widened (``int`` to ``bigint``, ``float`` to ``double``, whole numbers to decimals), and
numbers that come as text, as ``BigDecimal`` does, may be asked for as numbers. A value that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.schema_text import type_text
from state_processor.serializers.errors import OptionError, UndecodableValueError

Convert = Callable[[pa.Array], pa.Array]

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WIDER: Final = {
    **{t: (*_INTEGERS[i + 1 :], pa.float64()) for i, t in enumerate(_INTEGERS[:3])},
    pa.int64(): (),
    pa.float32(): (pa.float64(),),
    pa.string(): (),
}
_SHOWN: Final = 80
_DIGITS: Final = 100
"""More than a decimal of Arrow has: numbers beyond need not be written out to see that they do not fit."""


class Projection:
    """Brings batches of one schema into another.

    Parameters
    ----------
    given
        The schema of the batches.
    wanted
        Columns, order and types to deliver.

    Raises
    ------
    OptionError
        If a column is not there, or its type can't be had.
    """

    def __init__(self, given: pa.Schema, wanted: pa.Schema) -> None:
        self.schema = wanted
        self._columns = [_position(given, f.name) for f in wanted]
        self._converters = [
            _converter(given.field(i), f, f.name) for i, f in zip(self._columns, wanted, strict=True)
        ]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in the wanted schema.

        Raises
        ------
        UndecodableValueError
            If a value does not fit.
        """
        arrays = [convert(batch.column(i)) for i, convert in zip(self._columns, self._converters, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def overridden(given: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    """The given schema with the types of some columns replaced.

    Raises
    ------
    OptionError
        If one of the columns is not there.
    """
    positions = {_position(given, name): data_type for name, data_type in types.items()}
    return pa.schema([f.with_type(positions[i]) if i in positions else f for i, f in enumerate(given)])


def _position(given: pa.Schema, name: str) -> int:
    names = given.names
    if name in names:
        return names.index(name)
    matching = [i for i, other in enumerate(names) if other.lower() == name.lower()]
    if len(matching) == 1:
        return matching[0]
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"schema asks for the column {name!r}, which this read does not have.{hint} It has: {', '.join(names)}.")


def _converter(given: pa.Field, wanted: pa.Field, where: str) -> Convert:
    convert = _value_converter(given.type, wanted.type, where)
    if wanted.nullable:
        return convert

    def without_nulls(array: pa.Array) -> pa.Array:
        if array.null_count:
            raise UndecodableValueError(f"column {where} has nulls, but schema says NOT NULL; ask for a nullable column")
        return convert(array)

    return without_nulls


def _value_converter(given: pa.DataType, wanted: pa.DataType, where: str) -> Convert:
    if given.equals(wanted) and _same_nullability(given, wanted):
        return _unchanged
    for is_kind, build in _NESTED:
        if is_kind(given) and is_kind(wanted):
            return build(given, wanted, where)
    if given in (pa.string(), pa.large_string()) and (_is_number(wanted) or wanted == pa.string()):
        return _cast_from_text(wanted, where) if _is_number(wanted) else _cast(wanted, where)
    if pa.types.is_integer(given) and pa.types.is_decimal(wanted):
        from_text = _cast_from_text(wanted, where)  # Arrow wants room for the largest integer there is
        return lambda array: from_text(array.cast(pa.string()))
    if given.equals(wanted) or wanted in _WIDER.get(given, ()) or (pa.types.is_decimal(given) and pa.types.is_decimal(wanted)):
        return _cast(wanted, where)
    raise OptionError(f"schema asks for {where} as {_name(wanted)}, but it is {_name(given)}, which is not converted to that")


def _same_nullability(one: pa.DataType, other: pa.DataType) -> bool:
    return all(
        one.field(i).nullable == other.field(i).nullable and _same_nullability(one.field(i).type, other.field(i).type)
        for i in range(one.num_fields)
    )


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(data_type) or pa.types.is_integer(data_type))


def _name(data_type: pa.DataType) -> str:
    try:
        return type_text(data_type)
    except TypeError:
        return str(data_type)


def _cast(wanted: pa.DataType, where: str) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        try:
            return array.cast(wanted)
        except pa.ArrowInvalid:
            raise _misfit(array, array, wanted, where) from None

    return convert


def _cast_from_text(wanted: pa.DataType, where: str) -> Convert:
    """From a decimal number in text. What Arrow does not read at once may be a number with exponent, or with zeros at its end."""

    def convert(array: pa.Array) -> pa.Array:
        try:
            return array.cast(wanted)
        except pa.ArrowInvalid:
            plain = pa.array([_plain(text) for text in array.to_pylist()], pa.string())
        try:
            return plain.cast(wanted)
        except pa.ArrowInvalid:
            raise _misfit(plain, array, wanted, where) from None

    return convert


def _plain(text: str | None) -> str | None:
    """A decimal number without exponent and without zeros at its end; other text as it is."""
    if text is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite() or abs(number.adjusted()) > _DIGITS:
        return text
    plain = format(number, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _misfit(array: pa.Array, original: pa.Array, wanted: pa.DataType, where: str) -> UndecodableValueError:
    """An error that names the first value that does not fit."""
    for position in range(len(array)):
        try:
            array.slice(position, 1).cast(wanted)
        except pa.ArrowInvalid:
            text = str(original[position].as_py())
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
            return UndecodableValueError(
                f"column {where}: {shown} does not fit {_name(wanted)}, which schema asks for; ask for a wider type"
            )
    return UndecodableValueError(f"column {where} can't be converted to {_name(wanted)}, which schema asks for")


def _struct(given: pa.StructType, wanted: pa.StructType, where: str) -> Convert:
    fields = pa.schema(list(given))
    positions = [_position(fields, f.name) for f in wanted]
    converters = [
        _converter(given.field(i), f, f"{where}.{f.name}") for i, f in zip(positions, wanted, strict=True)
    ]

    def convert(array: pa.Array) -> pa.Array:
        present = array.is_valid()
        children = []
        for i, field_, change in zip(positions, wanted, converters, strict=True):
            child = pc.struct_field(array, i)
            if not field_.nullable and array.null_count:  # a field that must not be null is null where its struct is
                changed = change(child.filter(present))
                child = changed.take(_spread(present))
            else:
                child = change(child)
            children.append(child)
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())

    return convert


def _spread(present: pa.Array) -> pa.Array:
    """For each row the position among the rows that are present; null where it is not."""
    positions = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return pc.if_else(present, positions, None)


def _list(given: pa.ListType, wanted: pa.ListType, where: str) -> Convert:
    change = _converter(given.value_field, wanted.value_field, f"{where}[]")

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, last = _offsets(array)
        return pa.ListArray.from_arrays(offsets, change(array.values.slice(first, last - first)), wanted, mask=_mask(array))

    return convert


def _map(given: pa.MapType, wanted: pa.MapType, where: str) -> Convert:
    change_key = _converter(given.key_field, wanted.key_field, f"{where} (key)")
    change_value = _converter(given.item_field, wanted.item_field, f"{where} (value)")

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, last = _offsets(array)
        keys = change_key(array.keys.slice(first, last - first))
        items = change_value(array.items.slice(first, last - first))
        return pa.MapArray.from_arrays(offsets, keys, items, wanted, mask=_mask(array))

    return convert


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that start at 0, and the range of the children that they refer to: a slice shares the children of the whole."""
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, pa.scalar(first, pa.int32())), first, last


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


_NESTED: Final = ((pa.types.is_struct, _struct), (pa.types.is_list, _list), (pa.types.is_map, _map))
