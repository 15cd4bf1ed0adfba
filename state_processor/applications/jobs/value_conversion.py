"""Conversion of the values of a column to another type, where a writer does not convert them itself, and what it has to be told.

Other fields, renamed fields and constants, values in a tuple of one field, whole numbers as text. :func:`field_changes` has the
fields and constants that are gone or new in the other type, and possible new names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from state_processor.applications.jobs.signature import KEY, MAP_KEY, VALUE, StateSignature
from state_processor.errors import InvalidRowError, OptionError
from state_processor.serializers import DecodeOptions, PojoSerializer, TupleSerializer, TypeSerializer
from state_processor.support import index_by_name, pc
from state_processor.types import (
    ROW_KIND_FIELD,
    EnumSerializer,
    ListSerializer,
    MapSerializer,
    RowSerializer,
    SetSerializer,
    WrappingSerializer,
)

OPTIONS: Final = DecodeOptions(nanos="string", row_kind=True)
"""How rows are read: so that nothing of them is lost."""
ONLY_FIELD: Final = "f0"
"""The field of a tuple or row of one field."""
_WHOLE: Final = frozenset({"BYTE", "SHORT", "INT", "LONG"})
_TEXT: Final = "STRING"


@dataclass(frozen=True, slots=True)
class Edits:
    """What a conversion of fields and constants can't know."""

    # the new name of a field or of an enum constant, by its path: ``value.customer``, ``value.status.SENT``
    renames: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # the value of a new field, by its path
    dropped: frozenset[str] = frozenset()  # the paths of fields to leave out


NO_EDITS: Final = Edits()


class Trial(NamedTuple):
    """The trial of a conversion with the values of a snapshot."""

    problem: str = ""  # why the conversion is impossible; empty if it is possible
    rows: int | None = None  # the number of rows that were tried; ``None`` if all were
    is_value: bool = False  # whether a value does not fit, and not the type

    @property
    def note(self) -> str:
        """What to know about a conversion that was tried with a part of the rows."""
        return "" if self.rows is None else f"; not checked whole: the first {self.rows} rows were tried"


def converted(
    values: pa.Array, path: str, old: TypeSerializer | None, new: TypeSerializer | None, target: pa.DataType, edits: Edits
) -> pa.Array:
    """Return values in the shape of another type. The writer converts numbers, texts and times, or refuses them.

    ``values``: the values, as reading gives them. ``path``: their place, for ``edits`` and messages. ``old`` and ``new``: both
    types; ``None`` inside types whose parts have no names here. ``target``: the type of the new column. ``edits``: renamed, new
    and dropped fields.
    """
    is_struct = pa.types.is_struct
    if is_struct(values.type) and is_struct(target):
        return _struct(values, path, old, new, target, edits)
    if is_struct(target) and target.names == [ONLY_FIELD]:
        inner = converted(values, f"{path}.{ONLY_FIELD}", old, part_of(new, ONLY_FIELD), target.field(0).type, edits)
        return pa.StructArray.from_arrays([inner], names=[ONLY_FIELD], mask=values.is_null())
    if is_struct(values.type) and values.type.names == [ONLY_FIELD]:
        return converted(pc.struct_field(values, ONLY_FIELD), path, part_of(old, ONLY_FIELD), new, target, edits)
    if pa.types.is_list(values.type) and pa.types.is_list(target):
        items = converted(values.flatten(), path, part_of(old, ""), part_of(new, ""), target.value_type, edits)
        return pa.ListArray.from_arrays(_offsets(values), items)
    if pa.types.is_map(values.type) and pa.types.is_map(target):
        return _map(values, path, old, new, target, edits)
    return _leaf(values, path, old, new, edits)


def _struct(
    values: pa.Array, path: str, old: TypeSerializer | None, new: TypeSerializer | None, target: pa.StructType, edits: Edits
) -> pa.Array:
    sources = {edits.renames.get(f"{path}.{name}", name): name for name in values.type.names}
    gone = [name for now, name in sources.items() if now not in target.names and f"{path}.{name}" not in edits.dropped]
    if gone:
        raise OptionError(f"{path}.{gone[0]} is not in the new type: name its new field, or drop it")
    fields = []
    for new_field in target:
        place, inner = f"{path}.{new_field.name}", part_of(new, new_field.name)
        if new_field.name in sources:
            name = sources[new_field.name]
            column = pc.struct_field(values, name)
            fields.append(converted(column, f"{path}.{name}", part_of(old, name), inner, new_field.type, edits))
        else:
            fields.append(_default(place, new, new_field, edits, len(values)))
    return pa.StructArray.from_arrays(fields, names=target.names, mask=values.is_null())


def _default(place: str, owner: TypeSerializer | None, new: pa.Field, edits: Edits, size: int) -> pa.Array:
    """Return the values of a new field: the given value or, in a POJO, Java's default. New rows are inserts."""
    if place in edits.defaults:
        try:
            return pa.repeat(pa.scalar(edits.defaults[place]).cast(new.type), size)
        except pa.ArrowException as error:
            raise OptionError(f"{place}: expected a value of type {new.type}, found {edits.defaults[place]!r}") from error
    if isinstance(owner, RowSerializer) and new.name == ROW_KIND_FIELD:
        return pa.nulls(size, new.type)
    if not isinstance(owner, PojoSerializer):
        raise OptionError(f"{place} is new, and its type has no default: give its value")
    boxed = index_by_name(owner.fields)[new.name].is_primitive(owner.class_name) is False
    if boxed or not (pa.types.is_integer(new.type) or pa.types.is_floating(new.type) or pa.types.is_boolean(new.type)):
        return pa.nulls(size, new.type)
    return pa.repeat(pa.scalar(0).cast(new.type), size)


def _map(
    values: pa.Array, path: str, old: TypeSerializer | None, new: TypeSerializer | None, target: pa.MapType, edits: Edits
) -> pa.Array:
    entries = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    flat = entries.flatten()
    types = {"key": target.key_type, "value": target.item_type}
    columns = []
    for name, type_ in types.items():
        parts = (part_of(old, name), part_of(new, name))
        columns.append(converted(pc.struct_field(flat, name), f"{path}.{name}", *parts, type_, edits))
    return pa.MapArray.from_arrays(_offsets(entries), *columns)


def _offsets(lists: pa.Array) -> pa.Array:
    """Return the places of lists in their flattened elements; null for a list that is null."""
    sizes = np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int32)
    missing = np.append(np.asarray(lists.is_null()), False)
    return pa.array(np.insert(np.cumsum(sizes, dtype=np.int32), 0, 0), pa.int32(), mask=missing)


def _leaf(values: pa.Array, path: str, old: TypeSerializer | None, new: TypeSerializer | None, edits: Edits) -> pa.Array:
    if str(old) in _WHOLE and str(new) == _TEXT:
        return values.cast(pa.string())
    if str(old) == _TEXT and str(new) in _WHOLE:
        try:
            return values.cast(pa.int64())
        except pa.ArrowException as error:
            raise InvalidRowError(f"{path}: expected a whole number as text: {error}") from error
    if pa.types.is_string(values.type):
        prefix = f"{path}."
        for place, name in edits.renames.items():
            if place.startswith(prefix):
                values = pc.if_else(pc.equal(values, place.removeprefix(prefix)), name, values)
    return values


def part_of(serializer: TypeSerializer | None, name: str) -> TypeSerializer | None:
    """Return the type of a field, of the elements of a list, or of the ``key`` and ``value`` of a map, if it is known."""
    match serializer:
        case WrappingSerializer():
            return part_of(serializer.content, name)
        case PojoSerializer():
            return next((f.serializer for f in serializer.fields if f.name == name), None)
        case TupleSerializer() | RowSerializer() if re.fullmatch(r"f\d+", name) and int(name[1:]) < len(serializer.fields):
            return serializer.fields[int(name[1:])]
        case ListSerializer() | SetSerializer():
            element = serializer.children[0]
            return element if isinstance(element, TypeSerializer) else None
        case MapSerializer():
            key, value = serializer.children
            return key if name == "key" else value
    return None


_ZERO: Final = {"string": "", "bool": False}
_PLACE: Final = re.compile(rf"f\d+|left|right|{ROW_KIND_FIELD}")
"""The names of the fields of tuples, of rows without names, and of ``Either``."""
_MOST: Final = 3
"""The number of fields of a structure that may have new names."""


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """The changes of fields and constants."""

    gone: tuple[str, ...]  # the paths of fields that the new type lacks
    defaults: Mapping[str, Any]  # values for new fields of types without defaults, by path
    renames: Sequence[Mapping[str, str]]  # each a possible reading of the change: new names by path
    moves: bool = False  # whether fields that only have numbers may have changed places


def field_changes(old: StateSignature, new: StateSignature, parts: Sequence[str] = (KEY, MAP_KEY, VALUE)) -> FieldChanges:
    """Return the changes of fields between parts of two states."""
    gone: list[str] = []
    moves = False
    defaults: dict[str, Any] = {}
    readings: list[Mapping[str, str]] = [{}]
    for part in parts:
        before, after = old.serializer(part), new.serializer(part)
        if before is None or after is None or (part == KEY and len(parts) > 1 and old.is_keyed):
            continue
        for place, written, declared in _pairs(part, before, after):
            lost, added = _names(written, declared), _names(declared, written)
            gone += [f"{place}.{name}" for name in lost if not isinstance(written, EnumSerializer)]
            if not isinstance(declared, PojoSerializer | EnumSerializer):
                defaults |= {f"{place}.{name}": _zero(declared, name) for name in added if name != ROW_KIND_FIELD}
            if moved := _moved(written, declared):
                lost, added, moves = moved, moved, True
            renames = _renames(place, written, declared, lost, added)
            readings = [{**reading, **names} for reading, names in product(readings, renames)]
    used = [reading for reading in readings if reading]
    return FieldChanges(tuple(gone), defaults, used, moves)


def _moved(old: TypeSerializer, new: TypeSerializer) -> list[str]:
    """Return the fields with other types, if their types changed places and the names of fields are numbers or sides."""
    names = _fields(old)
    if names != _fields(new) or not all(map(_PLACE.fullmatch, names)):
        return []
    moved = [name for name in names if _type(old, name) != _type(new, name)]
    before = sorted(str(_type(old, name)) for name in moved)
    after = sorted(str(_type(new, name)) for name in moved)
    return moved if before == after else []


def _pairs(place: str, old: TypeSerializer, new: TypeSerializer) -> Iterator[tuple[str, TypeSerializer, TypeSerializer]]:
    """Yield structures and enums at the same place of two types."""
    if isinstance(old, EnumSerializer) and isinstance(new, EnumSerializer):
        yield place, old, new
        return
    names = _fields(old), _fields(new)
    if all(names):
        yield place, old, new
    shared = [name for name in names[0] if name in names[1]] if all(names) else ["", "key", "value"]
    for name in shared:
        before, after = part_of(old, name), part_of(new, name)
        if before is not None and after is not None:
            yield from _pairs(f"{place}.{name}" if name else place, before, after)


def _fields(serializer: TypeSerializer) -> list[str]:
    type_ = serializer.arrow_type(OPTIONS)
    return list(type_.names) if pa.types.is_struct(type_) else []


def _names(serializer: TypeSerializer, counterpart: TypeSerializer) -> list[str]:
    """Return the fields, or constants, that another type lacks."""
    if isinstance(serializer, EnumSerializer) and isinstance(counterpart, EnumSerializer):
        return [name for name in serializer.names if name not in counterpart.names]
    return [name for name in _fields(serializer) if name not in _fields(counterpart)]


def _renames(
    place: str, old: TypeSerializer, new: TypeSerializer, lost: Sequence[str], added: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    """Yield the pairs of new names and removed names: fields of the same type, constants of any name."""
    by_type = {_type(new, name): name for name in added} if not isinstance(new, EnumSerializer) else {}
    types = [_type(old, name) for name in lost] if by_type else []
    if types and len(by_type) == len(added) and by_type.keys() == set(types) and len(by_type) == len(types):
        yield {f"{place}.{name}": by_type[type_] for name, type_ in zip(lost, types, strict=True)}
        return
    if not lost or len(lost) > min(_MOST, len(added)):
        yield {}
        return
    is_enum = isinstance(old, EnumSerializer)
    has_fit = False
    for chosen in permutations(added[: 2 * _MOST], len(lost)):
        pairs = [*zip(lost, chosen, strict=True)]
        if is_enum or all(_type(old, a) == _type(new, b) for a, b in pairs):
            has_fit = True
            yield {f"{place}.{a}": b for a, b in pairs}
    if not has_fit:
        yield {}


def _type(serializer: TypeSerializer, name: str) -> tuple[str, pa.DataType]:
    return str(part_of(serializer, name)), serializer.arrow_type(OPTIONS).field(name).type


def _zero(serializer: TypeSerializer, name: str) -> Any:
    type_ = serializer.arrow_type(OPTIONS).field(name).type
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return 0 if is_number else _ZERO.get(str(type_))
