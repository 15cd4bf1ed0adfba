"""Serializers inside of serializers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from state_processor.serializers.base import TypeSerializer

S = TypeVar("S", bound=TypeSerializer)


def nested(kind: type[S] | tuple[type[S], ...], *parts: Any) -> list[S]:
    """All serializers of a class, or of several, in others, in lists, mappings and dataclasses of such; not those inside of one.

    The order is the same in two serializers of one snapshot. A serializer in several places comes several times.
    """
    return _nested(kind, parts, {})


def _nested(kind: type[S] | tuple[type[S], ...], part: Any, known: dict[int, list[S]]) -> list[S]:
    if isinstance(part, kind):
        return [part]
    if isinstance(part, TypeSerializer):
        inside: Iterable[Any] = vars(part).values()
    elif isinstance(part, list | tuple):
        inside = part
    elif isinstance(part, Mapping):
        inside = part.values()
    elif hasattr(type(part), "__dataclass_fields__"):
        inside = [getattr(part, name) for name in type(part).__dataclass_fields__]
    else:
        return []
    if id(part) not in known:
        known[id(part)] = []  # a type that contains itself ends here
        known[id(part)] = [found for each in inside for found in _nested(kind, each, known)]
    return known[id(part)]
