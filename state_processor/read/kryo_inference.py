"""Java types of parts that Kryo wrote: declared by the user, or inferred from values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.state_listing import find_operator, operator_states
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription
from state_processor.serializers.java.types import JavaType
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.types.declared_types import DeclaredTypes

_WHOLE: Final = {"list_value": "value.element", "map_key": "value.key", "map_value": "value.value"}
"""Columns of flattened lists and maps, and the paths of the same in whole ones."""


def kryo_types(
    snapshot: Callable[[], Snapshot],
    identifier: OperatorIdentifier,
    state: str | None,
    declared: DeclaredTypes | None,
    infer: bool,
) -> dict[str, JavaType]:
    """Return the Java types of parts by path.

    Parameters
    ----------
    snapshot
        Opens the snapshot; called only to infer types.
    identifier, state
        The state; without a name all keyed states side by side.
    declared
        Types that the user declares; they have precedence over inferred ones.
    infer
        True to infer types from the values. This reads all values.

    Raises
    ------
    OptionError
        If a declared type is not a type.
    """
    from state_processor.types.declared_types import java_types_by_path

    named = java_types_by_path(declared)
    return (inferred_kryo_types(snapshot(), identifier, state) if infer else {}) | named


def inferred_kryo_types(snapshot: Snapshot, identifier: OperatorIdentifier, name: str | None) -> dict[str, JavaType]:
    """Return the Java types in the values of a state, or of all keyed states side by side, by path."""
    from state_processor.backends.read.java_type_inference import inferred_java_types  # most reads infer nothing

    operator = find_operator(snapshot, identifier.uid, identifier.uid_hash)
    if name is not None:
        return inferred_java_types(snapshot, operator, name)
    found: dict[str, JavaType] = {}
    for state in operator_states(snapshot, operator).values():
        if _is_beside_others(state):
            types = inferred_java_types(snapshot, operator, state.name)
            found |= {_of_operator(state.name, path): type_ for path, type_ in types.items()}
    return found


def _is_beside_others(state: StateDescription) -> bool:
    return isinstance(state, KeyedDescription) and not state.is_timer and state.in_void_namespace


def _of_operator(state: str, path: str) -> str:
    """Return the path of a part of a state if the state is one of several columns."""
    column, dot, rest = path.partition(".")
    whole = _WHOLE.get(column, column) + dot + rest
    return state + whole.removeprefix("value") if whole.startswith("value") else whole
