"""Names of the fields of rows (``Row``, ``RowData``) by the part of a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from state_processor.backends.state.descriptions import StateDescription

if TYPE_CHECKING:
    from state_processor.serializers.table.row_names import RowNames

DeclaredNames: TypeAlias = "Mapping[str, RowNames]"
"""Names of rows by the part of a state: ``key``, ``namespace``, ``map_key`` or ``value``."""

_State = TypeVar("_State", bound=StateDescription)


def declared_names(state: StateDescription) -> DeclaredNames:
    """Return the names of rows in the types of a state; parts without rows are omitted."""
    from state_processor.serializers.table.row_names import row_names

    found = {role: row_names(serializer) for role, serializer in state.serializers.items()}
    return {part: names for part, names in found.items() if names}


def with_names(state: _State, names: DeclaredNames) -> _State:
    """Return the state with these names of rows."""
    if not names:
        return state
    from state_processor.serializers.table.row_names import with_row_names  # most reads have the written names

    return state.with_serializers(**{part: with_row_names(getattr(state, part), own) for part, own in names.items()})
