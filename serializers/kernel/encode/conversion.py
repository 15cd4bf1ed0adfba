"""Conversion of users' columns to the columns of a program: nested fields by name, numbers checked, texts decoded.

:func:`bind` decides once, from the types; :func:`lower` converts batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.decode_options import WIDEST, ColumnType, optional_groups, plain
from state_processor.serializers.kernel.columns import Column, ColumnTree, ColumnValues, is_timed, timed
from state_processor.serializers.kernel.encode.conversion_table import (
    REFUSED,
    conversion,
    convert,
    family_of,
    first_failure,
    is_castable,
    spark_name,
)
from state_processor.serializers.kernel.encode.distinct_keys import check_distinct_values
from state_processor.serializers.kernel.encode.program import EncodeProgram, PreparedColumn
from state_processor.serializers.traversal import field_names
from state_processor.support.arrow_types import holds
from state_processor.support.doors import Door, current_door
from state_processor.support.errors import UNWRITABLE, InvalidRowError, StateProcessorError, culprit_of, describe, why_unwritable
from state_processor.support.late import pc
from state_processor.support.mappings import positions_of

OPTIONAL_FIELDS: Final = frozenset({"_class", "row_kind"})
"""Fields that a struct may lack. Its value is of the class itself then, or an insertion."""

_OF_TYPES: Final = (("f", 0), ("_", 1))
_OF_STRUCTS: Final = (*_OF_TYPES, ("col", 1))


def match_fields(
    names: Sequence[str], expected: Sequence[str], context: str, groups: Mapping[str, Collection[str]] = MappingProxyType({})
) -> dict[str, int]:
    """Return the position in a struct of each field that a type expects; optional fields may be missing.

    ``names`` and ``expected``: names of the fields of the struct, and of the type. ``context``: the column or value, for
    messages. ``groups``: more optional fields, each with its groups. A group is the fields of a subclass: a struct has all of
    them or none.
    """
    optional = [n for n in expected if n in OPTIONAL_FIELDS or n in groups]
    required = [n for n in expected if n not in optional]
    rest = [n for n in names if n not in optional]
    at = positions_of(names)
    if len(required) + len(set(optional)) < len(expected):
        words = f"one of them is called {optional[0]}, as what rows have beside fields: rename it"
        raise _mismatch(names, expected, context, words)
    if len(at) < len(names) or len(set(expected)) < len(expected):
        raise _mismatch(names, required, context, "names have to be distinct")
    optional_positions = {name: at[name] for name in optional if name in at}
    if _is_numbered(required, _OF_TYPES):
        if len(rest) != len(required) or not _is_numbered(rest, _OF_STRUCTS):
            words = "the type has no names, so that fields go by position: name them as the type shows them, in this order"
            raise _mismatch(names, required, context, f"{words}, or declare the type with names")
        return optional_positions | {name: at[given_name] for name, given_name in zip(required, rest, strict=True)}
    if set(rest) != set(required):
        may_have = f"; ({', '.join(optional)}) are optional" if groups else ""
        raise _mismatch(names, required, context, f"fields go by name: each has to be there, and no other{may_have}")
    for name in filter(groups.__contains__, names):
        lacking = {group: _missing_fields(group, groups, at) for group in groups[name]}
        if all(lacking.values()):
            other_groups = " and ".join(f"{group} has {', '.join(missing)} as well" for group, missing in lacking.items())
            raise InvalidRowError(f"{context} has the field {name}; {other_groups}: add the rest, or drop {name}")
    return optional_positions | {name: at[name] for name in required}


def fields_in_order(value: Any, expected: Sequence[str], context: str) -> Sequence[Any]:
    """Return the fields of a mapping, a list or a tuple in the order of a type's fields; optional ones may be missing.

    Text and sets do not count as lists of fields, although they can be iterated over.
    """
    if not isinstance(value, Mapping):
        first = 1 if OPTIONAL_FIELDS.intersection(expected[:1]) else 0
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != len(expected) - first:
            got, names = f"{value!r} of type {type(value).__name__}", ", ".join(expected[first:])
            raise InvalidRowError(f"{context} is {got}; expected the fields ({names}), by name or as a list")
        return [*[None] * first, *value]
    positions = match_fields(list(value), expected, context)
    values = list(value.values())
    return [values[positions[name]] if name in positions else None for name in expected]


def _missing_fields(group: str, groups: Mapping[str, Collection[str]], names: Collection[str]) -> list[str]:
    return [name for name, groups_of_field in groups.items() if group in groups_of_field and name not in names]


def _is_numbered(names: Sequence[str], forms: Sequence[tuple[str, int]]) -> bool:
    return any(tuple(names) == field_names(len(names), prefix, first) for prefix, first in forms)


def _mismatch(names: Sequence[str], type_names: Sequence[str], context: str, rule: str) -> InvalidRowError:
    lists = f"is a struct of ({', '.join(names)}); the type has the fields ({', '.join(type_names)})"
    return InvalidRowError(f"{context} {lists}; {rule}")


Place = tuple[int, ...]
"""The row of a value, and its index in each list around it."""
Places = Callable[[int], Place]
"""The place of each slot of a column."""
Mask = npt.NDArray[np.bool_]

_INDEX: Final = "\0"
"""Stands in a path for the index of an element."""

_SCALE_OF_KEYS: Final = (
    "column {path!r} is of {given}, which gives all numbers the scale {scale}; in Java, numbers of other scales are other keys "
    "(1.1 and 1.10). Give text with the scale of the job's keys"
)
_SCALE_BY_CAST: Final = ": CAST({path} AS string) has {scale} decimal places, CAST(CAST({path} AS decimal(38,2)) AS string) has 2"


def bind(serializer: Codec, column_type: pa.DataType, path: str, *, as_key: bool = False) -> pa.DataType:
    """Return the type that a user's column is converted to for a serializer.

    It is ``serializer.arrow_type``, except for dates and times as text.

    ``serializer``: how values are written. ``column_type`` and ``path``: the column's type, and its name for messages.
    ``as_key``: whether values identify stored entries, such as keys to look up, to update or to delete.
    """
    target = serializer.arrow_type(WIDEST)
    try:
        return _bind(column_type, target, path, as_key)
    except _OtherTypeError as other:
        inside = other.path != path
        fitting = None
        words = (
            f"column {other.path!r} is of {_shown_type(other.column_type)}; "
            f"the type {serializer} takes {_type_name(other.target)}{' there' if inside else ''}"
        )
        with suppress(InvalidRowError):  # of another struct inside, whose fields do not match either
            fitting = _fitting(column_type, target)
        if fitting is not None:
            words += f"; cast it to {_type_name(fitting)}" if _is_arrow() else f"; cast it: CAST({path} AS {spark_name(fitting)})"
        raise InvalidRowError(words) from None


def _is_arrow() -> bool:
    """Return whether the user gave columns of Arrow, as to a function of ``sp.arrow``."""
    return current_door() is Door.FUNCTIONS


def _type_name(type_: pa.DataType) -> str:
    """Return the name of a column's type in the library that the user gave the column to."""
    if not _is_arrow():
        return spark_name(type_)
    return str(type_.arrow if isinstance(type_, ColumnType) else type_)


def _shown_type(type_: pa.DataType) -> str:
    return f"{'Arrow' if _is_arrow() else 'Spark'} type {_type_name(type_)}"


class _OtherTypeError(Exception):
    """A type of a part of a column that the serializer does not accept."""

    def __init__(self, column_type: pa.DataType, target: pa.DataType, path: str) -> None:
        self.column_type, self.target, self.path = column_type, target, path


def _fitting(column_type: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Return the column's type with the types to cast to; ``None`` if no cast helps."""
    if pa.types.is_nested(column_type) or pa.types.is_nested(target):
        if pa.types.is_list(column_type) and pa.types.is_list(target):
            element = _fitting(column_type.value_type, target.value_type)
            return None if element is None else pa.list_(element)
        if pa.types.is_map(column_type) and pa.types.is_map(target):
            parts = _fitting(column_type.key_type, target.key_type), _fitting(column_type.item_type, target.item_type)
            return None if None in parts else pa.map_(*parts)
        if pa.types.is_struct(column_type) and pa.types.is_struct(target):
            types = {place: target.field(name).type for name, place in _positions(column_type, target, "").items()}
            fields = [(f.name, _fitting(f.type, types[place])) for place, f in enumerate(column_type)]
            return None if any(fitting is None for _, fitting in fields) else pa.struct(fields)
        return None
    if conversion(column_type, target) != REFUSED:
        return column_type
    return target if is_castable(column_type, target) else None


def _bind(column_type: pa.DataType, target: pa.DataType, path: str, as_key: bool) -> pa.DataType:
    if pa.types.is_dictionary(column_type):
        return _bind(column_type.value_type, target, path, as_key)
    if pa.types.is_null(column_type) or pa.types.is_null(target):
        return plain(target)
    if is_timed(column_type) and not is_timed(target):
        return timed(_bind(column_type.field("value").type, target, path, as_key))
    if pa.types.is_struct(target):
        return _bind_struct(column_type, target, path, as_key)
    if pa.types.is_map(target):
        if not pa.types.is_map(column_type):
            raise _OtherTypeError(column_type, target, path)
        key = _bind(column_type.key_type, target.key_type, f"{path}.key", as_key)
        return pa.map_(key, _bind(column_type.item_type, target.item_type, f"{path}.value", as_key))
    if pa.types.is_list(target):
        if not (pa.types.is_list(column_type) or pa.types.is_large_list(column_type) or pa.types.is_fixed_size_list(column_type)):
            raise _OtherTypeError(column_type, target, path)
        return pa.list_(_bind(column_type.value_type, target.value_type, f"{path}.element", as_key))
    if pa.types.is_nested(column_type) or conversion(column_type, target) == REFUSED:
        raise _OtherTypeError(column_type, target, path)
    if as_key and family_of(target) == "number" and pa.types.is_decimal(column_type):
        words = _SCALE_OF_KEYS if _is_arrow() else _SCALE_OF_KEYS + _SCALE_BY_CAST
        raise InvalidRowError(words.format(path=path, given=_shown_type(column_type), scale=column_type.scale))
    if family_of(target) in ("whole", "number") or (family_of(column_type) == "text" and pa.types.is_temporal(target)):
        return pa.string()
    return target


def _bind_struct(column_type: pa.DataType, target: pa.DataType, path: str, as_key: bool) -> pa.DataType:
    if not pa.types.is_struct(column_type):
        raise _OtherTypeError(column_type, target, path)
    positions = _positions(column_type, target, path)
    fields = [(f, column_type.field(positions[f.name])) for f in target if f.name in positions]
    return pa.struct(
        [(f.name, _bind(column_field.type, f.type, f"{path}.{column_field.name}", as_key)) for f, column_field in fields]
    )


def _positions(column_type: pa.StructType, target: pa.StructType, path: str) -> dict[str, int]:
    return match_fields(column_type.names, target.names, f"column {path}", optional_groups(target))


def lower(program: EncodeProgram, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert the columns of a batch to the types that a program reads."""
    arrays = []
    for column in program.columns.roots:
        array = batch.column(batch.schema.get_field_index(column.name))
        arrays.append(_lower(program, column, array, column.name, np.ones(len(array), dtype=np.bool_), _itself))
    return pa.RecordBatch.from_arrays(arrays, schema=program.columns.schema)


def conform(serializer: Codec, array: pa.Array, path: str, *, as_key: bool = False) -> pa.Array:
    """Convert one column to the type that :func:`bind` returns for a serializer."""
    tree = ColumnTree(pa.schema([(path, bind(serializer, array.type, path, as_key=as_key))]))
    return _lower(None, tree.roots[0], array, path, np.ones(len(array), dtype=np.bool_), _itself)


def _itself(slot: int) -> Place:
    return (slot,)


def _lower(
    program: EncodeProgram | None, column: Column, array: pa.Array, path: str, reachable: Mask, places: Places
) -> pa.Array:
    """Convert a column, or one inside of it. Without a program nothing is written in Python, and no limit is checked."""
    lowered = _brought(program, column, array, path, reachable, places)
    for limit in program.limits.get(column.index, ()) if program is not None else ():
        broken = limit.broken(lowered) & reachable
        if broken.any():
            slot = int(np.argmax(broken))
            raise _unfit(path, places(slot), shown_value(lowered[slot]), limit.rule)
    return lowered


def _brought(
    program: EncodeProgram | None, column: Column, array: pa.Array, path: str, reachable: Mask, places: Places
) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    written_in_python = program.prepared.get(column.index) if program is not None else None
    if written_in_python is not None:
        return _prepared(written_in_python, array, path, reachable, places)
    target = column.type
    if pa.types.is_null(array.type) and not pa.types.is_null(target):
        return pa.nulls(len(array), target)
    if pa.types.is_null(target):
        return pa.nulls(len(array))
    if pa.types.is_struct(target):
        inside = reachable & _present(array)
        positions = _positions(array.type, target, path)
        children = []
        for child in column.children:
            at = positions[child.name]
            name = array.type.field(at).name
            children.append(_lower(program, child, array.field(at), f"{path}.{name}", inside, places))
        if is_timed(target) and array.null_count:  # null is a value here, with a time: the children hold both
            children = [pc.if_else(pa.array(_present(array)), child, pa.scalar(None, child.type)) for child in children]
        return _struct(target, array, children)
    if pa.types.is_map(target) or pa.types.is_list(target):
        return _lower_elements(program, column, array, path, reachable, places)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        _check_text(array, path, places)
    if array.type == target:
        return array
    return _cast(array, target, path, reachable, places)


def _struct(target: pa.DataType, array: pa.Array, children: list[pa.Array]) -> pa.Array:
    validity = None
    if array.null_count:
        validity = pa.py_buffer(np.packbits(_present(array), bitorder="little"))
    return pa.Array.from_buffers(target, len(array), [validity], children=children)


def _lower_elements(
    program: EncodeProgram | None, column: Column, array: pa.Array, path: str, reachable: Mask, places: Places
) -> pa.Array:
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    holds_elements = reachable & _present(array)
    is_element = np.repeat(holds_elements, np.diff(offsets))
    starts = np.append(0, np.cumsum(np.diff(offsets) * holds_elements)).astype(np.int32)

    is_map = pa.types.is_map(array.type)

    def place_of(slot: int) -> Place:
        parent = int(np.searchsorted(starts, slot, side="right")) - 1
        return places(parent) if is_map else (*places(parent), slot - int(starts[parent]))

    elements = array.values.slice(first, last - first)
    if not is_element.all():  # null may have elements: they are not written; null in their place would be a key of null
        elements = elements.filter(pa.array(is_element))
    inside = np.ones(len(elements), dtype=np.bool_)
    parts = [(".key", elements.field(0)), (".value", elements.field(1))] if is_map else [(_INDEX, elements)]
    children = []
    for child, (name, values) in zip(column.children, parts, strict=True):
        children.append(_lower(program, child, values, path + name, inside, place_of))
    if is_map and children[0].null_count:
        slot = int(np.argmin(_present(children[0])))
        raise _unfit(f"{path}.key", place_of(slot), None, "a key of a map can't be null")
    distinct = program.distinct.get(column.index) if program is not None else None
    if distinct is not None:
        element_path = path.replace(_INDEX, ".element")
        check_distinct_values(distinct, children[0], np.diff(starts), inside, element_path, lambda slot: place_of(slot)[0])
    validity = None
    if array.null_count:
        validity = pa.py_buffer(np.packbits(_present(array), bitorder="little"))
    if pa.types.is_map(column.type):
        entries = column.type.field(0).type
        children = [pa.Array.from_buffers(entries, len(elements), [None], children=children)]
    return pa.Array.from_buffers(column.type, len(array), [validity, pa.py_buffer(starts)], children=children)


def _present(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _check_text(array: pa.Array, path: str, places: Places) -> None:
    """Refuse text that is not UTF-8: Spark's ``CAST`` makes text of any bytes, and the kernel needs UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        slot = first_failure(array, lambda part: part.validate(full=True))
        raise _unfit(path, places(slot), array.slice(slot, 1).cast(pa.large_binary())[0].as_py(), str(problem)) from None


def _cast(array: pa.Array, target: pa.DataType, path: str, reachable: Mask, places: Places) -> pa.Array:
    if not reachable.all():
        array = pc.if_else(pa.array(reachable), array, pa.scalar(None, array.type))
    converted, slot, problem = convert(array, target)
    if problem:
        raise _unfit(path, places(slot), shown_value(array[slot]), problem)
    return converted


def _prepared(prepared: PreparedColumn, array: pa.Array, path: str, reachable: Mask, places: Places) -> pa.Array:
    if holds(array.type, pa.types.is_struct) or (prepared.convert is not None and array.type != prepared.type):
        tree = ColumnTree(pa.schema([(path, prepared.type)]))
        array = _lower(None, tree.roots[0], array, path, reachable, places)
    if prepared.convert is not None:
        reachable_values = array if reachable.all() else pc.if_else(pa.array(reachable), array, pa.scalar(None, array.type))
        converted = prepared.convert(reachable_values)
        if converted is not None:
            return converted
    return _one_by_one(prepared.serializer, array, path, reachable, places)


def _one_by_one(serializer: ColumnValues, array: pa.Array, path: str, reachable: Mask, places: Places) -> pa.Array:
    written: list[bytes | None] = []
    for slot, scalar in enumerate(array):
        if not scalar.is_valid or not reachable[slot]:
            written.append(None)
            continue
        value: Any = "…"
        try:
            value = scalar.as_py()
            written.append(serializer.serialize(serializer.from_column(value)))
        except UNWRITABLE as problem:  # of text that is not UTF-8, too
            raise _unfit(path, places(slot), value, _words(problem, serializer, value)) from problem
    return pa.array(written, pa.binary())


def _words(problem: Exception, serializer: ColumnValues, value: Any) -> str:
    culprit = None if isinstance(problem, StateProcessorError) else culprit_of(problem)
    if culprit is None:
        return why_unwritable(problem, serializer, value)
    return f"no value of {serializer} ({culprit}: {describe(problem)})"


def shown_value(scalar: pa.Scalar) -> Any:
    """Return a value for a message. Python has no nanoseconds: pyarrow needs pandas for them, and the text does not."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return "text that is not UTF-8"
    except (ValueError, OverflowError):
        with suppress(pa.ArrowException):
            return scalar.cast(pa.string()).as_py()
        return f"a value of type {scalar.type}"


def _unfit(path: str, place: Place, value: Any, problem: str) -> InvalidRowError:
    text = repr(value)
    excerpt = text if len(text) <= 120 else text[:117] + "..."
    row, *indices = place
    parts = path.split(_INDEX)
    inside = "".join(f"[{index}]{part}" for index, part in zip(indices, parts[1:], strict=True))
    error = InvalidRowError(f"column {parts[0]}{inside} of row {row} does not fit: {excerpt}: {problem}")
    error.row = row
    return error
