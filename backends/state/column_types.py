"""States read with other types than they were written with: which part of a state a column's wanted type is of.

Two kinds of types are given: those that the whole of a column is restored in by Flink's rules, and Java types of parts that Kryo
wrote, which only add what its bytes do not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeVar

from state_processor.backends.state.descriptions import BROADCAST, LIST, MAP, StateDescription
from state_processor.backends.state.part_names import DeclaredNames, with_names
from state_processor.backends.state.python_states import PythonType, Unpickled, shown_name, with_python_type
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.calendars import java_zone
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.sql_times import in_time_zone
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError, StateMigrationError
from state_processor.serializers.evolution.resolution import PortableType, resolve
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import declared_as, kryo_parts
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.undescribed import with_undescribed_classes
from state_processor.serializers.traversal import transform

TypeByPath = tuple[str, PortableType | JavaType]
"""A column and the type that it is read in, or the path of a part that Kryo wrote and its Java type."""

Undescribed = Literal["error", "bytes"]
"""Values whose class is an undescribed subclass of a POJO: an error, or a column of their bytes."""


class ColumnTypes(NamedTuple):
    """Types that a state is read in, where they are not those that it was written in.

    ``python`` has the types of states of PyFlink jobs by name, an empty one for any state, and ``unpickled`` whether pickles in
    them are loaded. ``names`` has the names of rows, by state. ``time_zone`` is the zone of the job's JVM.
    """

    types: tuple[TypeByPath, ...] = ()
    undescribed: Undescribed = "error"
    python: tuple[tuple[str, PythonType], ...] = ()
    unpickled: Unpickled = False
    names: tuple[tuple[str, DeclaredNames], ...] = ()
    time_zone: str = "UTC"

    def python_type(self, state: str) -> PythonType | None:
        """Return the type that is given for a state of a PyFlink job."""
        return next((type_ for name, type_ in self.python if shown_name(name) in ("", shown_name(state))), None)


AS_WRITTEN: Final = ColumnTypes()
_State = TypeVar("_State", bound=StateDescription)


_ELEMENTS: Final = {
    LIST: {"value.element": "list_value"},
    MAP: {"value.key": "map_key", "value.value": "map_value"},
}
"""Paths in whole lists and maps, and the columns that flattened ones have instead."""


def evolved(state: _State, given: ColumnTypes) -> _State:
    """Return the state with serializers that read it in other types, and rows of other names.

    Raises
    ------
    StateMigrationError
        If Flink would refuse one of them; the message names the state and what is incompatible.
    OptionError
        If a column is not one of the state's.
    """
    python = given.python_type(state.name)
    if python is not None:
        state = with_python_type(state, python, given.unpickled)
    state = with_names(state, dict(given.names).get(state.name, {}))
    columns = [(column, wanted.restore()) for column, wanted in given.types if isinstance(wanted, PortableType)]
    for column, role, wanted_type in by_role(state, columns):
        state = state.with_serializers(**{role: _resolved(state, column, wanted_type)})
    state = declared(state, {path: wanted for path, wanted in given.types if isinstance(wanted, JavaType)})
    state = in_time_zone(state, java_zone(given.time_zone))
    return undescribed_as_bytes(state) if given.undescribed == "bytes" else state


def undescribed_as_bytes(state: _State) -> _State:
    """Return the state with bytes for values of classes that nothing describes, where entries have lengths."""
    if state.kind == LIST or state.is_timer:
        return state
    return state.with_serializers(value=with_undescribed_classes(state.value))


def declared(state: _State, types: Mapping[str, JavaType]) -> _State:
    """Return the state with Java types for parts that Kryo wrote.

    Parameters
    ----------
    state
        The state.
    types
        The types by path: a column as :func:`kryo_parts_of` names it, and the fields in it.

    Raises
    ------
    OptionError
        If there is no such part, or its class is another.
    """
    if not types:
        return state
    parts = list(kryo_parts_of(state))
    of_parts: dict[int, TypeSerializer] = {}
    for named, given in types.items():
        path = _flattened(state, named)
        found = [part for known, part in parts if known == path]
        if not found:
            known = ", ".join(dict.fromkeys(path for path, _ in parts))
            advice = f"there are: {known}" if known else f"leave {spelled('types')} out"
            raise OptionError(
                f"{spelled('types')}: there is no part {path!r} that Kryo wrote in state {state.name!r} ({state.kind}); {advice}"
            )
        of_parts |= {id(part): part.declared_as(declared_as(part, given, f"{path} of state {state.name!r}")) for part in found}
    return transform(state, lambda part: of_parts.get(id(part), part))


def _flattened(state: StateDescription, path: str) -> str:
    """Return a path in a column of whole lists or maps as the one in the column of their elements, keys or values."""
    for whole, column in _ELEMENTS.get(state.kind, {}).items():
        if path == whole or path.startswith(f"{whole}."):
            return column + path[len(whole) :]
    return path


def kryo_parts_of(state: StateDescription) -> Iterator[tuple[str, KryoSerializer]]:
    """Give the parts of a state that Kryo writes, by path: a column (``value``, ``list_value``, ``map_value``) and its fields."""
    serializers = state.serializers
    for column, role in state.COLUMNS.items():
        if role in serializers:
            yield from kryo_parts(serializers[role], column)


def by_role(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, str, TypeSerializer]]:
    """Yield the columns that types are given for, and the attributes of the state that hold these types.

    Raises
    ------
    OptionError
        If a column is not one of the state's.
    """
    for column, wanted in _of_parts(state, types):
        roles = {} if state.is_timer else state.COLUMNS
        if column not in roles:
            known = ", ".join(roles) or "none"
            raise OptionError(f"a type is given for the column {column!r}; state {state.name!r} ({state.kind}) has {known}")
        yield column, roles[column], wanted


def _of_parts(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, TypeSerializer]]:
    """Yield the types of whole lists and maps as those of their elements, keys and values."""
    for column, wanted in types:
        if column == "value" and state.kind == LIST:
            yield "list_value", wanted.element if isinstance(wanted, ListSerializer) else wanted
        elif column == "value" and state.kind == MAP and isinstance(wanted, MapSerializer):
            yield from (("map_key", wanted.key), ("map_value", wanted.value.inner))
        else:
            yield column, wanted


def _resolved(state: StateDescription, column: str, wanted: TypeSerializer) -> TypeSerializer:
    where = f"state {state.name!r}, {column}"
    written = state.serializers.get(state.COLUMNS[column])
    if written is None:  # nothing to go by but what the user says
        return wanted
    try:
        resolved = resolve(written, wanted)
    except StateMigrationError as e:
        hint = "a column that is only to be converted takes a type of Spark or Arrow instead"
        raise StateMigrationError(f"{where}: {e}; {hint}") from e
    if column == "key" and state.kind != BROADCAST:
        verdict = written.snapshot().resolve_schema_compatibility(wanted).verdict
        if verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
            raise StateMigrationError(f"{where}: {written} would have to be migrated to {wanted}, which Flink does for no key")
    return resolved
