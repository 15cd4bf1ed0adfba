"""Inference of the Java types in collections that Kryo wrote: snapshots do not hold them, the values of a state do."""

from __future__ import annotations

from typing import Final

from state_processor.backends.formats.serialized_entries import PassThroughCodec, serialized_entries, with_serialized_values
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.column_types import kryo_parts_of
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.codec import Codec
from state_processor.serializers.evolution.migrated_values import ElementClasses, holds_others, observing
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.columns import shape
from state_processor.serializers.kryo.layouts import is_collection, is_map
from state_processor.serializers.kryo.nested_kryo import with_replacements
from state_processor.serializers.kryo.serializer import KryoSerializer

_WHOLE: Final = {"list_value": "value.element", "map_key": "value.key", "map_value": "value.value"}
"""Columns of flattened lists and maps, and the paths of the same in whole ones."""


def inferred_java_types(stored: StoredOperator, name: str | None) -> dict[str, JavaType]:
    """Return the Java types of collections in a keyed state, by path as :func:`kryo_parts_of` names them.

    All entries are read, in this process. A collection without elements, or whose elements are of several classes or hold
    others themselves, is left out.

    ``name``: the state; ``None`` for all keyed states side by side, whose paths begin with the names of the states.
    """
    if name is not None:
        return _of_state(stored, name)
    java_types: dict[str, JavaType] = {}
    for state, (description, *_) in stored.states().items():
        if isinstance(description, KeyedDescription) and not description.is_timer and description.in_void_namespace:
            java_types |= {_beside_others(state, path): type_ for path, type_ in _of_state(stored, state).items()}
    return java_types


def _of_state(stored: StoredOperator, name: str) -> dict[str, JavaType]:
    seen_parts: dict[str, ElementClasses] = {}
    for handle in managed_handles(stored.operator):
        source = handle.open(stored.snapshot)
        state = source.describe(name)
        if state is not None and not state.is_timer:
            for _ in serialized_entries(source, _observing(state, seen_parts), handle.key_groups):
                pass  # the observers note the classes
    types = ((path, _java_type(seen)) for path, seen in seen_parts.items())
    return {path: type_ for path, type_ in types if type_ is not None}


def _beside_others(state: str, path: str) -> str:
    """Return the path of a part of a state if the state is one of several columns."""
    column, dot, rest = path.partition(".")
    whole = _WHOLE.get(column, column) + dot + rest
    return state + whole.removeprefix("value") if whole.startswith("value") else whole


def _observing(state: KeyedDescription, seen_parts: dict[str, ElementClasses]) -> KeyedDescription:
    """Return the state with bytes instead of values; reading it notes the classes in collections."""
    observers: dict[int, Codec] = {}
    for path, part in kryo_parts_of(state):
        if shape(part.declared)[0] == "json" and (is_collection(part.type_class) or is_map(part.type_class)):
            seen = seen_parts.setdefault(
                path, ElementClasses(part.type_class, tuple(set() for _ in range(1 + is_map(part.type_class))))
            )
            observers[id(part)] = observing(part, seen)

    return with_serialized_values(state, lambda serializer: PassThroughCodec(with_replacements(serializer, observers)))


def _java_type(seen: ElementClasses) -> JavaType | None:
    arguments = [next(iter(classes)) for classes in seen.classes if len(classes) == 1]
    if len(arguments) < len(seen.classes) or any(map(holds_others, arguments)) or not all(map(_is_known, arguments)):
        return None
    return JavaType(seen.declared, tuple(map(JavaType, arguments)))


def _is_known(class_name: str) -> bool:
    return KryoSerializer(class_name).self_delimiting
