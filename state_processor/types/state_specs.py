"""Kinds and types of states to write, under the names of Flink's state descriptors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from state_processor.backends.state import descriptions as kinds
from state_processor.backends.state.descriptions import (
    EVENT_PREFIX,
    PROCESSING_PREFIX,
    KeyedDescription,
    ListDescription,
    MapDescription,
    StateDescription,
    TimerDescription,
)
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import OptionError, UnsupportedFormatError
from state_processor.types.durations import duration_ms

EVENT_TIME: Final = "event_time"
PROCESSING_TIME: Final = "processing_time"
TIMER_NAMES: Final = {
    EVENT_TIME: (EVENT_PREFIX, kinds.EVENT_TIMER),
    PROCESSING_TIME: (PROCESSING_PREFIX, kinds.PROCESSING_TIMER),
}
"""Prefix of the name and kind of a timer queue, by its domain."""
USER_TIMERS: Final = "user-timers"
"""The timer service of ``KeyedProcessFunction``."""

Ttl = bool | timedelta | str | None


@dataclass(frozen=True, slots=True)
class _ValueLike:
    """State of one value per key.

    Parameters
    ----------
    type
        Of the value (``Types.…``).
    ttl
        Whether the job's state descriptor has time-to-live: then values carry the time of their last access, from the column
        ``_last_access`` or else the time of writing. Savepoints do not contain the duration itself, so that any value will do.
    namespace
        Of window state: ``Types.TIME_WINDOW()`` or ``Types.GLOBAL_WINDOW()``; rows then have a column ``window``.
    """

    type: TypeSerializer
    ttl: Ttl = None
    namespace: TypeSerializer | None = None

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_type(type(self).__name__, self.type)
        check_ttl(self.ttl)

    def describe(self, name: str, key: TypeSerializer) -> KeyedDescription:
        """Describe the state of an operator with such keys."""
        return KeyedDescription.of(name, self.kind, key, _namespace(self.namespace), value=_with_ttl(self.type, self.ttl))


@dataclass(frozen=True, slots=True)
class ValueState(_ValueLike):
    """One value per key (Flink: ``ValueStateDescriptor``); see :class:`_ValueLike` for the parameters."""

    kind = kinds.VALUE


@dataclass(frozen=True, slots=True)
class ReducingState(_ValueLike):
    """One value per key, into which others are reduced (Flink: ``ReducingStateDescriptor``)."""

    kind = "REDUCING"


@dataclass(frozen=True, slots=True)
class AggregatingState(_ValueLike):
    """One accumulator per key, whose type is given (Flink: ``AggregatingStateDescriptor``)."""

    kind = "AGGREGATING"


@dataclass(frozen=True, slots=True)
class ListState(_ValueLike):
    """A list per key, given by the type of its elements (Flink: ``ListStateDescriptor``)."""

    kind = kinds.LIST


@dataclass(frozen=True, slots=True)
class MapState:
    """A map per key (Flink: ``MapStateDescriptor``).

    Parameters
    ----------
    key, value
        Types of the map's keys and values.
    ttl, namespace
        As for :class:`ValueState`.
    """

    key: TypeSerializer
    value: TypeSerializer
    ttl: Ttl = None
    namespace: TypeSerializer | None = None

    kind: ClassVar[str] = kinds.MAP

    def __post_init__(self) -> None:
        check_type("key of MapState", self.key)
        check_type("value of MapState", self.value)
        check_ttl(self.ttl)

    def describe(self, name: str, key: TypeSerializer) -> KeyedDescription:
        """Describe the state of an operator with such keys."""
        return MapDescription(name, self.kind, _with_ttl(self.value, self.ttl), key, _namespace(self.namespace), self.key)


StateSpec = ValueState | ReducingState | AggregatingState | ListState | MapState


def spec_of(name: str, kind: str, whole: TypeSerializer, namespace: TypeSerializer | None, *, has_ttl: bool) -> StateSpec:
    """Return a state that a snapshot has, as methods of writers take it.

    ``whole``: the type of its value, or of the whole list or map of a key. ``namespace``: the type of its namespace, unless it
    has none. ``has_ttl``: whether it has time-to-live.
    """
    ttl = has_ttl or None
    if isinstance(namespace, VoidNamespaceSerializer):
        namespace = None
    if kind == kinds.MAP and isinstance(whole, MapSerializer):
        return MapState(whole.key, whole.value.inner, ttl, namespace)
    if kind == kinds.LIST and isinstance(whole, ListSerializer):
        return ListState(whole.element, ttl, namespace)
    spec_class = next((spec for spec in (ValueState, ReducingState, AggregatingState) if spec.kind == kind), None)
    if spec_class is None:
        raise UnsupportedFormatError(
            f"state {name!r} of kind {kind} can't be written from rows; copy_operator copies it as it is"
        )
    return spec_class(whole, ttl, namespace)


def as_spec(name: str, spec: StateSpec | TypeSerializer) -> StateSpec:
    """Return a state unchanged, or value state of a type."""
    if isinstance(spec, TypeSerializer):
        return ValueState(spec)
    if not isinstance(spec, StateSpec):
        raise OptionError(
            f"state {name!r}: expected a state such as ValueState(Types.LONG()) or a type, found {argument_text(spec)}"
        )
    return spec


def with_type(state: KeyedDescription, new: TypeSerializer) -> KeyedDescription:
    """Return a state with values of another type: for lists and maps the type of the whole or, for lists, of an element.

    Time-to-live stays unchanged.
    """
    check_type("new type", new)
    changed = {}
    if isinstance(state, MapDescription):
        if not isinstance(new, MapSerializer):
            raise OptionError(f"state {state.name!r} is a MAP: its new type is a Types.MAP, not {new}")
        changed["map_key"], new = new.key, new.value.inner
    elif isinstance(state, ListDescription) and isinstance(new, ListSerializer):
        new = new.element
    changed["value"] = TtlSerializer.of(new) if state.has_ttl and not isinstance(new, TtlSerializer) else new
    return state.with_serializers(**changed)


def whole_type(state: StateDescription) -> TypeSerializer:
    """Return the type of a state's column, without time-to-live, where a row has the whole list or map of a key."""
    return (
        state.with_serializers(value=state.value.value) if isinstance(state.value, TtlSerializer) else state
    ).registered_serializer


def timer_queue(service: str, domain: str, key: TypeSerializer, namespace: TypeSerializer | None) -> KeyedDescription:
    """Describe the queue of a timer service."""
    if domain not in TIMER_NAMES:
        raise OptionError(f"timers: domain {domain!r}, expected {' or '.join(TIMER_NAMES)}")
    prefix, kind = TIMER_NAMES[domain]
    return TimerDescription.of(prefix + service, kind, key, _namespace(namespace))


def _namespace(namespace: TypeSerializer | None) -> TypeSerializer:
    return VoidNamespaceSerializer() if namespace is None else namespace


def _with_ttl(value: TypeSerializer, ttl: Ttl) -> TypeSerializer:
    return TtlSerializer.of(value) if ttl else value


# Checks of arguments

_TYPES: Final = "Types."


def check_type(place: str, type_: Any) -> None:
    """Check that an argument is a type.

    ``place``: the part with the type, for the message.
    """
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"{place}: expected a type such as Types.LONG(), found {argument_text(type_)}")


def argument_text(value: Any) -> str:
    """Return how a message shows an argument that is not a type."""
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return f"{name} without parentheses; write {name}()" if name.startswith(_TYPES) else f"the class {name}"
    if isinstance(value, str) and re.fullmatch("[A-Z_]+", value):
        return f"the text {value!r}; write {_TYPES}{value}()"
    return f"{value!r} of type {type(value).__name__}"


def check_ttl(ttl: bool | timedelta | str | None) -> None:
    """Check that a time-to-live is a flag or a positive duration."""
    if ttl is None or isinstance(ttl, bool):
        return
    if duration_ms(ttl) <= 0:
        raise OptionError(f"ttl={ttl!r}: expected a positive duration, or True: savepoints do not contain the duration")
