"""Types of states of PyFlink jobs as users give them: a type, a kind of state with its types, or the text of one of both."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import PythonType, Unpickled, is_python_state
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.evolution.portable_type import PortableType
from state_processor.serializers.table.python_state import python_coder
from state_processor.support.doors import code_or_text, spelled
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.types.state_specs import AggregatingState, ListState, MapState, ReducingState, StateSpec, ValueState
from state_processor.types.type_parser import parse_type

PythonTypeArgument = TypeSerializer | StateSpec | str
"""``Types.LONG()``, ``ListState(Types.LONG())``, or the text ``ListState<LONG>``."""

_SPEC: Final = re.compile(r"\s*(ValueState|ReducingState|AggregatingState|ListState|MapState)\s*<(.*)>\s*", re.DOTALL)


def python_type_of(type_: PythonType | PythonTypeArgument) -> PythonType:
    """Return a type as tasks get it."""
    match type_:
        case PythonType():
            return type_
        case str():
            return python_type_of(_parsed(type_))
        case TypeSerializer():
            return PythonType("", _portable(type_))
        case ListState():
            return PythonType("LIST", _portable(type_.type))
        case MapState():
            return PythonType("MAP", _portable(type_.value), _portable(type_.key))
        case ValueState() | ReducingState() | AggregatingState():
            return PythonType("VALUE", _portable(type_.type))
    code = "a type of Types, nor a state such as ListState(Types.…), nor the text of one"
    raise OptionError(f"{type_!r} is neither {code_or_text(code, 'a type such as LONG, nor a state such as ListState<LONG>')}")


@contextmanager
def asking_for_python_type(state: StateDescription) -> Iterator[None]:
    """Add to an error about the columns of a state of PyFlink without its type that it has to be given."""
    try:
        yield
    except InvalidRowError as problem:
        if not is_python_state(state.name) or not any(isinstance(s, BytesSerializer) for s in state.serializers.values()):
            raise
        giving = f"give the type in the job by {spelled('python_type')}"
        raise InvalidRowError(f"{problem}; it is a state of PyFlink: {giving}") from None


def unpickled_of(argument: bool | TypeSerializer | PortableType) -> Unpickled:
    """Return whether pickles are loaded as tasks get it."""
    if isinstance(argument, TypeSerializer):
        return PortableType.of(argument)
    if not isinstance(argument, (bool, PortableType)):
        raise TypeError(f"found a {type(argument).__name__}")
    return argument


def spec_of(type_: PythonType, ttl: bool | None = None) -> StateSpec:
    """Return the state to write for a type; a type alone means value state."""
    value = type_.value.restore()
    if type_.kind == "MAP" and type_.map_key is not None:
        return MapState(type_.map_key.restore(), value, ttl=ttl)
    return (ListState if type_.kind == "LIST" else ValueState)(value, ttl=ttl)


def _portable(type_: TypeSerializer) -> PortableType:
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"{type_!r} is not a type of Types")
    python_coder(type_)
    return PortableType.of(type_)


def _parsed(text: str) -> TypeSerializer | StateSpec:
    match = _SPEC.fullmatch(text)
    if match is None:
        return parse_type(text)
    name, inside = match.groups()
    if name == "MapState":
        types = parse_type(f"MAP<{inside}>")
        return MapState(types.key, types.value.inner)  # type: ignore[attr-defined]
    return (ListState if name == "ListState" else ValueState)(parse_type(inside))


def to_json(type_: PythonType) -> dict[str, Any]:
    """Return what JSON has of a type."""
    content: dict[str, Any] = {"kind": type_.kind, "value": _json(type_.value)}
    return content if type_.map_key is None else content | {"map_key": _json(type_.map_key)}


def of_json(content: Any) -> PythonType:
    """Return the type of :func:`to_json`, or of text."""
    if isinstance(content, str):
        return python_type_of(content)
    if not isinstance(content, Mapping) or content.get("kind") not in ("", "VALUE", "LIST", "MAP"):
        raise ValueError(f"{content!r} is not a type")
    map_key = content.get("map_key")
    return PythonType(content["kind"], _of_json(content.get("value")), None if map_key is None else _of_json(map_key))


def _json(type_: PortableType) -> dict[str, Any]:
    return {"snapshot": b64encode(type_.snapshot).decode(), "rows": type_.rows}


def _of_json(content: Any) -> PortableType:
    try:
        rows = tuple(None if names is None else tuple(names) for names in content.get("rows", ()))
        return PortableType(b64decode(content["snapshot"], validate=True), rows)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"{content!r} is not a serializer snapshot: {error!r}") from error
