"""Visits of trees, of serializers and of serializer snapshots, by their named children; paths of the parts.

The path of a part, such as ``value.address.tags.element``, is names joined with dots. It begins with a column (``value``,
``map_key``), or with the part of a state and a colon (``key:``), or it is empty. Each further name is the name of a child
(:attr:`~.base.TypeSerializer.child_names`):

======================================= =======================================================
type                                    names
======================================= =======================================================
POJO, Avro record                       the fields
row, tuple                              the names of the columns, ``f0``, ``f1``, … by default
case class                              ``_1``, ``_2``, …
list, set, array                        ``element``
map                                     ``key`` and ``value``
``Either``                              ``left`` and ``right``
nullable value, value with time-to-live none: the path of the inner type is the path of the type
others                                  ``0``, ``1``, …; an only child has no name
======================================= =======================================================

Names may contain dots, so a path is compared with known paths (:func:`is_inside`) and not split.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Protocol, TypeVar, cast

from state_processor.serializers.codec import Codec
from state_processor.serializers.io import MAX_NESTING
from state_processor.support.errors import OptionError

ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"
LEFT: Final = "left"
RIGHT: Final = "right"


def join_path(path: str, name: str) -> str:
    """Return the path of a child. A child without name has the path of its parent."""
    return f"{path}{'.' if name and path and not path.endswith(':') else ''}{name}"


def is_inside(path: str, outer: str) -> bool:
    """Check if a path is another one, or the path of a part inside it."""
    return path == outer or path.startswith(f"{outer}.")


def moved(path: str, outer: str, new: str) -> str:
    """Return the path of a part inside ``outer`` as the path of the same part inside ``new``."""
    return new + path[len(outer) :]


def field_names(count: int, prefix: str = "f", first: int = 0) -> tuple[str, ...]:
    """Return the names of fields without names: ``f0``, ``f1``, … in tuples and rows.

    ``count``: the number of fields. ``prefix`` and ``first``: the letter and the first number: ``_`` and 1 in case classes of
    Scala.
    """
    return tuple(f"{prefix}{i}" for i in range(first, first + count))


# Visits


class Tree(Protocol):
    """A serializer or a serializer snapshot."""

    @property
    def children(self) -> Sequence[Any]:
        """The parts that it contains."""
        ...

    @property
    def named_children(self) -> Iterable[tuple[str, Any]]:
        """The children with their names in paths."""
        ...

    def with_children(self, children: Sequence[Any]) -> Any:
        """Return the same tree with other children."""
        ...


S = TypeVar("S", bound=Codec)
T = TypeVar("T", bound=Tree)
P = TypeVar("P")
R = TypeVar("R")

MOST_LEVELS: Final = MAX_NESTING - 10
"""Limit of nested types in builds. It is below the limit of reads, because states add levels."""


def walk(tree: T) -> Iterator[T]:
    """Yield a tree and all trees inside it, outer ones first."""
    yield tree
    for child in tree.children:
        yield from walk(child)


def parts_of(kind: type[P] | tuple[type[P], ...], tree: Tree) -> list[P]:
    """Return a tree and the trees inside it that are of a class, outer ones first."""
    return [part for part in walk(tree) if isinstance(part, kind)]


def fold(tree: T, function: Callable[[str, T, Callable[[T], list[R]]], R], path: str = "") -> R:
    """Return the result of a function for a tree, computed from the results for its children.

    ``function``: called with the path of a part, the part, and a function that returns the results for the children of a part at
    this path. The children are visited only if the function calls it. ``path``: the path of the whole tree.
    """

    def folded(path: str, part: T) -> R:
        return function(path, part, lambda of: [folded(join_path(path, name), child) for name, child in of.named_children])

    return folded(path, tree)


def with_changed_children(tree: T, children: Sequence[Any]) -> T:
    """Return a tree with other children; the same object if they are the children that it has."""
    return tree if all(map(operator.is_, children, tree.children)) else cast(T, tree.with_children(children))


def zip_types(first: T, second: T, function: Callable[[T, T], T | None]) -> T:
    """Return a tree that is made of the parts at the same places in two trees.

    ``function``: called with a pair of parts, outer ones first. Returns the part for this place, or ``None`` for the first one
    with the results for the pairs of children. If the numbers of children differ, the first part stays.
    """
    result = function(first, second)
    if result is not None:
        return result
    pairs = list(zip(first.named_children, second.named_children, strict=False))
    if len(pairs) != len(tuple(first.named_children)) or len(pairs) != len(tuple(second.named_children)):
        return first
    return with_changed_children(first, [zip_types(a, b, function) for (_, a), (_, b) in pairs])


def within_limits(serializer: S) -> S:
    """Return a built serializer, unless it is nested too deeply."""
    if _height(serializer, {}) > MOST_LEVELS:
        raise OptionError(f"a type is nested more than {MOST_LEVELS} levels deep; use a type with fewer levels")
    return serializer


def _height(serializer: Codec, heights: dict[int, int]) -> int:
    """Return the number of levels, in one visit of parts that occur in several places."""
    if id(serializer) not in heights:
        heights[id(serializer)] = 1 + max((_height(child, heights) for child in serializer.children), default=0)
    return heights[id(serializer)]


def outermost_of(kind: type[S] | tuple[type[S], ...], *parts: Any) -> list[S]:
    """Return the outermost serializers of a class, or of several classes, in others.

    The order is the same in two serializers of one snapshot. A serializer that occurs several times is returned several times.

    ``parts``: serializers, ``None``, and tuples and dataclasses of them.
    """
    return list(_outermost(kind, parts))


def _outermost(kind: type[S] | tuple[type[S], ...], part: Any) -> Iterator[S]:
    if isinstance(part, Codec):
        if isinstance(part, kind):
            yield part
        else:
            yield from _outermost(kind, tuple(part.children))
    elif isinstance(part, tuple):
        for inner in part:
            yield from _outermost(kind, inner)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _outermost(kind, getattr(part, field.name))


def transform(part: P, function: Callable[[Codec], Codec]) -> P:
    """Return a serializer with some nested serializers replaced; the same object if nothing changes.

    ``part``: a serializer or ``None``, or a dataclass of them. ``function``: called with the serializer and then with the
    children of the result, in the order of :func:`walk`. It returns its argument to keep it.
    """
    if isinstance(part, Codec):
        outer = function(part)
        return cast(P, with_changed_children(outer, [transform(child, function) for child in outer.children]))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed = {}
    for field in fields(part):
        old = getattr(part, field.name)
        if isinstance(old, Codec) and (new := transform(old, function)) is not old:
            changed[field.name] = new
    return replace(part, **changed) if changed else part
