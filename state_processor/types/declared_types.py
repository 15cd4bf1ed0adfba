"""Types that users declare for parts that Kryo wrote, which snapshots do not record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from state_processor.backends.state.column_types import kryo_parts_of
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.columns import shape
from state_processor.serializers.kryo.user_classes import java_type_of
from state_processor.support.doors import spelled
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.types.type_parser import parse_type

DeclaredTypes = Mapping[str, TypeSerializer | str]
"""Types by the path of the part: ``{"value.counters": Types.MAP(Types.STRING(), Types.LONG())}``, or the text ``MAP<…>``."""


_COLUMNS: Final = frozenset({"key", "value", "list_value", "map_key", "map_value"})


def split_declared_types(state: StateDescription, types: DeclaredTypes) -> tuple[dict[str, TypeSerializer], DeclaredTypes]:
    """Return the declared types of whole columns, for the names of rows, and the declared types of parts that Kryo wrote."""
    by_kryo = {path for path, _ in kryo_parts_of(state)}
    columns = {c: type_of(c, declared) for c, declared in types.items() if c in _COLUMNS and c not in by_kryo}
    return columns, {path: declared for path, declared in types.items() if path not in columns}


@contextmanager
def asking_for_types(state: StateDescription) -> Iterator[None]:
    """Add to an error about columns that do not fit a part that Kryo wrote how to declare its type."""
    try:
        yield
    except InvalidRowError as problem:
        for path, part in kryo_parts_of(state):
            field = f".{path.partition('.')[2]}' " if "." in path else f"column {path!r} "
            if shape(part.declared)[0] == "json" and field in str(problem):
                raise InvalidRowError(f"{problem}; Kryo wrote it: declare its type by {spelled('types', {path: '…'})}") from None
        raise


def type_of(path: str, declared: TypeSerializer | str) -> TypeSerializer:
    """Return a declared type, which may be text."""
    try:
        type_ = parse_type(declared) if isinstance(declared, str) else declared
    except OptionError as problem:
        raise OptionError(f"types: {path!r}: {problem}") from None
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"types: {path!r} is given {declared!r}; expected a type of Types, or the text of one")
    return type_


def java_types_by_path(types: DeclaredTypes | None) -> dict[str, JavaType]:
    """Return the declared types as Java types, by path."""
    if types is not None and not isinstance(types, Mapping):
        raise OptionError(f"types={types!r}: expected a mapping of paths to types, such as {{'value.counters': Types.LIST(…)}}")
    by_path = {}
    for path, declared in (types or {}).items():
        type_ = type_of(path, declared)
        try:
            by_path[path] = java_type_of(type_)
        except OptionError as problem:
            raise OptionError(f"types: {path!r}: {problem}") from None
    return by_path
