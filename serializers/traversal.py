"""Visits of nested serializers, by :attr:`TypeSerializer.children`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.io import MAX_NESTING

S = TypeVar("S", bound=TypeSerializer)
P = TypeVar("P")


MOST_LEVELS: Final = MAX_NESTING - 10
"""Limit of nested types in builds. It is below the limit of reads, because states add levels."""


def walk(serializer: TypeSerializer) -> Iterator[TypeSerializer]:
    """Yield a serializer and all serializers inside it, outer ones first."""
    yield serializer
    for child in serializer.children:
        yield from walk(child)


def within_limits(serializer: S) -> S:
    """Return a built serializer, unless it is nested too deeply.

    Raises
    ------
    OptionError
        If it has more than :data:`MOST_LEVELS` levels.
    """
    if _height(serializer, {}) > MOST_LEVELS:
        raise OptionError(f"a type is nested more than {MOST_LEVELS} levels deep; use a type with fewer levels")
    return serializer


def _height(serializer: TypeSerializer, known: dict[int, int]) -> int:
    if id(serializer) not in known:
        known[id(serializer)] = 1 + max((_height(child, known) for child in serializer.children), default=0)
    return known[id(serializer)]


def nested(kind: type[S] | tuple[type[S], ...], *parts: Any) -> list[S]:
    """Return the outermost serializers of a class, or of several classes, in others.

    The order is the same in two serializers of one snapshot. A serializer that occurs several times is returned several times.

    Parameters
    ----------
    kind
        The class or classes.
    parts
        Serializers, ``None``, and tuples and dataclasses of them.
    """
    return [found for part in parts for serializer in _serializers(part) for found in _outermost(kind, serializer)]


def transform(part: P, function: Callable[[TypeSerializer], TypeSerializer]) -> P:
    """Return a serializer with some nested serializers replaced; the same object if nothing changes.

    Parameters
    ----------
    part
        A serializer or ``None``, or a dataclass of them.
    function
        Called with the serializer and then with the children of the result, in the order of :func:`walk`. It returns its
        argument to keep it.
    """
    if isinstance(part, TypeSerializer):
        return cast(P, _transformed(part, function))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    old = {field.name: getattr(part, field.name) for field in fields(part)}
    new = {name: transform(value, function) for name, value in old.items() if isinstance(value, TypeSerializer)}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    return replace(part, **changed) if changed else part


def _transformed(serializer: TypeSerializer, function: Callable[[TypeSerializer], TypeSerializer]) -> TypeSerializer:
    new = function(serializer)
    old = new.children
    children = [_transformed(child, function) for child in old]
    return new if all(map(operator.is_, children, old)) else new.with_children(children)


def _serializers(part: Any) -> Iterator[TypeSerializer]:
    if isinstance(part, TypeSerializer):
        yield part
    elif isinstance(part, tuple):
        for inner in part:
            yield from _serializers(inner)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _serializers(getattr(part, field.name))


def _outermost(kind: type[S] | tuple[type[S], ...], serializer: TypeSerializer) -> Iterator[S]:
    if isinstance(serializer, kind):
        yield serializer
        return
    for child in serializer.children:
        yield from _outermost(kind, child)
