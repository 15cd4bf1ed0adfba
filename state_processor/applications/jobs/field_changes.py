"""Fields of structures and constants of enums that are gone or new in the types of another job, and possible new names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import pyarrow as pa

from state_processor.applications.jobs.signature import KEY, MAP_KEY, VALUE, StateSignature
from state_processor.applications.jobs.value_conversion import OPTIONS, part_of
from state_processor.serializers import PojoSerializer, TypeSerializer
from state_processor.types import ROW_KIND_FIELD, EnumSerializer

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
            readings = [{**reading, **names} for reading in readings for names in _renames(place, written, declared, lost, added)]
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
