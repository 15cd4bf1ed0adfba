"""States read with other types than they were written with: which part of a state a column's wanted type is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from state_processor.backends.states import BROADCAST, LIST, MAP, StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.collections import ListSerializer, MapSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.errors import OptionError, StateMigrationError
from state_processor.serializers.resolution import PortableType, resolve

WantedTypes = tuple[tuple[str, PortableType], ...]
"""Columns and the types that they are wanted in."""

_VALUE_ROLES: Final = {"value": "value"}
_ROLES: Final = {
    LIST: {"list_value": "value"},
    MAP: {"map_key": "map_key", "map_value": "value"},
}
"""The serializer that each column is read with, by kind of state; other kinds have a value."""


def evolved(state: StateDescription, types: WantedTypes) -> StateDescription:
    """The state with serializers that read it in the wanted types.

    Raises
    ------
    StateMigrationError
        If Flink would refuse one of them; the message names the state and what is incompatible.
    OptionError
        If a column is not one of the state's.
    """
    for column, role, wanted in by_role(state, [(column, portable.restore()) for column, portable in types]):
        change: dict[str, Any] = {role: _resolved(state, column, getattr(state, role), wanted)}
        state = replace(state, **change)
    return state


def by_role(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, str, TypeSerializer]]:
    """The columns that types are given for, and the attributes of the state that hold these types.

    Raises
    ------
    OptionError
        If a column is not one of the state's.
    """
    for column, wanted in _of_parts(state, types):
        roles = {} if state.is_timer else {"key": "key"} | _ROLES.get(state.kind, _VALUE_ROLES)
        if column not in roles:
            known = ", ".join(roles) or "none"
            raise OptionError(f"a type is given for the column {column!r}; state {state.name!r} ({state.kind}) has {known}")
        yield column, roles[column], wanted


def _of_parts(state: StateDescription, types: Iterable[tuple[str, TypeSerializer]]) -> Iterator[tuple[str, TypeSerializer]]:
    """The types of whole lists and maps as those of their elements, keys and values."""
    for column, wanted in types:
        if column == "value" and state.kind == LIST:
            yield "list_value", wanted.element if isinstance(wanted, ListSerializer) else wanted
        elif column == "value" and state.kind == MAP and isinstance(wanted, MapSerializer):
            yield from (("map_key", wanted.key), ("map_value", wanted.value.inner))
        else:
            yield column, wanted


def _resolved(state: StateDescription, column: str, written: TypeSerializer | None, wanted: TypeSerializer) -> TypeSerializer:
    where = f"state {state.name!r}, {column}"
    if written is None:
        raise OptionError(f"{where}: the snapshot does not tell its type, so that it can't be read as {wanted}")
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
