"""Trees of Java objects, between bytes and columns, and their plain contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class BigInteger(int):
    """A ``java.math.BigInteger``, distinct from numbers of fixed width."""


class KryoMap(tuple[tuple[Any, Any], ...]):
    """Entries of a map in the order of the bytes; keys need not be hashable in Python."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KryoObject:
    """An object of a described class: the class, and the fields by name."""

    class_name: str
    fields: dict[str, Any]


@dataclass(slots=True, eq=False)
class Node:
    """An object with everything in its bytes. References to the same object are one node; two nodes are never equal.

    Parameters
    ----------
    class_name
        The name of its class in the bytes.
    content
        It depends on the kind of class. Classes of the JDK's table: the content that their layouts read. Collections and arrays
        of objects: a list of nodes (``None`` for null). Maps: a :class:`KryoMap` of nodes. ``Optional``: a node or ``None``.
        Classes with described fields: a dict of nodes, and of bare values for primitive fields. Enums: a constant's name.
    header
        The data before the elements: the comparator of a sorted collection or map, the class of the elements of
        ``Arrays.asList`` in Kryo 2.
    """

    class_name: str
    content: Any
    header: Any = None
