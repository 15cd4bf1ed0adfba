"""The columns of a state: given types and given names, and the part of the state that each applies to.

:func:`evolved` applies all of them to a state. There are three kinds of given types. A type of a whole column: Flink's rules of
state migration apply. A Java type of a part that Kryo wrote: it adds information that Kryo's bytes lack. A type of PyFlink:
snapshots do not record it (:mod:`~state_processor.backends.state.python_states`). Names are for fields of rows (``Row``,
``RowData``), which headers do not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from state_processor.backends.state.descriptions import BROADCAST, LIST, MAP, StateDescription
from state_processor.backends.state.python_states import PythonType, Unpickled, shown_name, with_python_type
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.traversal import ELEMENT, KEY, VALUE, is_inside, join_path, moved, transform
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError, StateMigrationError
from state_processor.support.mappings import map_values

if TYPE_CHECKING:
    from state_processor.serializers.kryo.serializer import KryoSerializer
    from state_processor.serializers.table.row_names import RowNames

# A read without types of its own imports neither the rules of evolution nor Kryo

TypeByPath = tuple[str, PortableType | JavaType]
"""A column and its type, or the path of a part that Kryo wrote and its Java type."""

DeclaredNames: TypeAlias = "Mapping[str, RowNames]"
"""Names of rows by the part of a state: ``key``, ``namespace``, ``map_key`` or ``value``."""

Undescribed = Literal["error", "bytes"]
"""Treatment of values of an undescribed subclass of a POJO: an error, or a column of their bytes."""


class ColumnTypes(NamedTuple):
    """Types that replace the written types of a state."""

    types: tuple[TypeByPath, ...] = ()
    python_type: PythonType | None = None  # of any state of a PyFlink job
    python_types: tuple[tuple[str, PythonType], ...] = ()  # of states of PyFlink jobs, by name
    unpickle: Unpickled = False  # whether their pickles are loaded
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()  # names of the fields of rows that the user gives
    undescribed: Undescribed = "error"
    names: tuple[tuple[str, DeclaredNames], ...] = ()  # names of rows by state: those of the user and of the query's plan
    time_zone: str = "UTC"  # of the job's JVM

    def type_in_python(self, state: str) -> PythonType | None:
        """Return the given type of a state of a PyFlink job."""
        if self.python_type is not None:
            return self.python_type
        for name, type_ in self.python_types:
            if shown_name(name) in ("", shown_name(state)):
                return type_
        return None


AS_WRITTEN: Final = ColumnTypes()
_State = TypeVar("_State", bound=StateDescription)


_ELEMENTS: Final = {
    LIST: {join_path("value", ELEMENT): "list_value"},
    MAP: {join_path("value", KEY): "map_key", join_path("value", VALUE): "map_value"},
}
"""Paths in whole lists and maps, and the corresponding columns of flattened lists and maps."""


def evolved(state: _State, column_types: ColumnTypes) -> _State:
    """Return the state with serializers that read it as the given types and with the given names of rows."""
    changed: _State = state if column_types == AS_WRITTEN else _evolved(Same(state, column_types))
    return changed


@lru_cache(maxsize=DESCRIBED)
def _evolved(pair: Same) -> Any:
    from state_processor.serializers.core.temporal import in_time_zone
    from state_processor.serializers.core.time_values import java_zone

    state, column_types = pair.objects
    python = column_types.type_in_python(state.name)
    if python is not None:
        state = with_python_type(state, python, column_types.unpickle)
    state = with_names(state, dict(column_types.names).get(state.name, {}))
    columns = [(column, type_.restore()) for column, type_ in column_types.types if isinstance(type_, PortableType)]
    for column, role, wanted_type in by_role(state, columns):
        state = state.with_serializers(**{role: _resolved(state, column, wanted_type)})
    state = declared(state, {path: type_ for path, type_ in column_types.types if isinstance(type_, JavaType)})
    state = in_time_zone(state, java_zone(column_types.time_zone))
    return undescribed_as_bytes(state) if column_types.undescribed == "bytes" else state


def undescribed_as_bytes(state: _State) -> _State:
    """Return the state with bytes for values of undescribed classes, if entries contain lengths."""
    from state_processor.serializers.runtime.wrapping import with_undescribed_classes

    if state.kind == LIST or state.is_timer:
        return state
    return state.with_serializers(value=with_undescribed_classes(state.value))


def declared(state: _State, types: Mapping[str, JavaType]) -> _State:
    """Return the state with the given Java types for parts that Kryo wrote.

    ``types``: the types by path (:mod:`~state_processor.serializers.traversal`), which begins with a column.
    """
    if not types:
        return state
    from state_processor.serializers.kryo.nested_kryo import declared_as

    flat = {_flattened(state, path): type_ for path, type_ in types.items()}
    parts = list(kryo_parts_of(state))
    of_parts: dict[int, TypeSerializer] = {}
    for path, type_ in flat.items():
        parts_of_path = [part for part_path, part in parts if part_path == path]
        if not parts_of_path:
            paths = ", ".join(dict.fromkeys(path for path, _ in parts))
            advice = f"known parts: {paths}" if paths else f"leave {spelled('types')} out"
            raise OptionError(
                f"{spelled('types')}: state {state.name!r} ({state.kind}) does not have a part {path!r} that Kryo wrote; {advice}"
            )
        for part in parts_of_path:
            java_type = declared_as(part, type_, f"{path} of state {state.name!r}")
            of_parts[id(part)] = part.declared_as(java_type)
    return transform(state, lambda part: of_parts.get(id(part), part))


def _flattened(state: StateDescription, path: str) -> str:
    """Convert a path in a column of whole lists or maps to a path in the column of elements, keys or values."""
    for whole, column in _ELEMENTS.get(state.kind, {}).items():
        if is_inside(path, whole):
            return moved(path, whole, column)
    return path


def kryo_parts_of(state: StateDescription) -> Iterator[tuple[str, KryoSerializer]]:
    """Return the parts of a state that Kryo writes, by path: ``value``, ``list_value`` or ``map_value``, then fields."""
    from state_processor.serializers.kryo.nested_kryo import kryo_parts

    serializers = state.serializers
    for column, role in state.COLUMNS.items():
        if role in serializers:
            yield from kryo_parts(serializers[role], column)


def by_role(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, str, TypeSerializer]]:
    """Yield the columns with a given type, and the attributes of the state for them."""
    for column, serializer in _of_parts(state, types):
        roles = {} if state.is_timer else state.COLUMNS
        if column not in roles:
            role_names = ", ".join(roles) or "none"
            raise OptionError(f"a type is given for the column {column!r}; state {state.name!r} ({state.kind}) has {role_names}")
        yield column, roles[column], serializer


def _of_parts(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, TypeSerializer]]:
    """Convert types of whole lists and maps to types of elements, keys and values."""
    for column, serializer in types:
        if column == "value" and state.kind == LIST:
            yield "list_value", serializer.element if isinstance(serializer, ListSerializer) else serializer
        elif column == "value" and state.kind == MAP and isinstance(serializer, MapSerializer):
            yield from (("map_key", serializer.key), ("map_value", serializer.value.inner))
        else:
            yield column, serializer


def _resolved(state: StateDescription, column: str, declared_type: TypeSerializer) -> Codec:
    from state_processor.serializers.evolution.resolution import resolve

    context = f"state {state.name!r}, {column}"
    written = state.serializers.get(state.COLUMNS[column])
    if written is None:  # the snapshot does not store a type: use the given one
        return declared_type
    try:
        resolved = resolve(written, declared_type)
    except StateMigrationError as e:
        hint = "to convert only the column, pass a type of Spark or Arrow"
        raise StateMigrationError(f"{context}: {e}; {hint}") from e
    if column == "key" and state.kind != BROADCAST:
        verdict = written.snapshot().resolve_schema_compatibility(declared_type).verdict
        if verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
            raise StateMigrationError(f"{context}: {written} needs a migration to {declared_type}; Flink does not migrate keys")
    return resolved


def declared_names(state: StateDescription) -> DeclaredNames:
    """Return the names of rows in the types of a state; parts without rows are omitted."""
    from state_processor.serializers.table.row_names import row_names

    names_by_role = map_values(row_names, state.serializers)
    return {part: names for part, names in names_by_role.items() if names}


def with_names(state: _State, names: DeclaredNames) -> _State:
    """Return the state with these names of rows."""
    if not names:
        return state
    from state_processor.serializers.table.row_names import with_row_names  # most reads have the written names

    return state.with_serializers(
        **{part: with_row_names(getattr(state, part), row_names_of_part) for part, row_names_of_part in names.items()}
    )


def named_by(state: _State, types: Mapping[str, TypeSerializer]) -> _State:
    """Return the state with the names in the declared types of its columns."""
    declared_columns = by_role(state, types.items())
    return with_names(
        state,
        {part: names_in(serializer, getattr(state, part), f"column {name!r}") for name, part, serializer in declared_columns},
    )


def names_in(declared_type: TypeSerializer, written: TypeSerializer, context: str) -> RowNames:
    """Return the names in a declared type; the written type may have other names."""
    from state_processor.serializers.table.row_names import row_names

    if isinstance(written, TtlSerializer) and not isinstance(declared_type, TtlSerializer):
        declared_type = TtlSerializer.of(declared_type)
    if written.snapshot().resolve_schema_compatibility(declared_type).verdict is not Verdict.COMPATIBLE_AS_IS:
        raise OptionError(
            f"{context} is of type {written}, not {declared_type}; a type given here can only name the fields of rows"
        )
    return row_names(declared_type)
