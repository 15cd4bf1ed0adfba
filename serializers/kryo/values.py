"""Values between bytes and columns: trees of Java objects, and their plain contents."""

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
    """An object with everything its bytes contain. References to the same object are one node; two nodes are never equal.

    Parameters
    ----------
    class_name
        Its class as the bytes name it.
    content
        By kind of class: for classes of the JDK's table what their layouts read; a list of nodes for collections and arrays of
        objects (``None`` for null); a :class:`KryoMap` of nodes for maps; a node or ``None`` for ``Optional``; a dict of nodes,
        and of bare values where fields are primitive, for classes with described fields; a constant's name for enums.
    header
        What precedes the elements: the comparator of a sorted collection or map, the class of the elements of
        ``Arrays.asList`` in Kryo 2.
    """

    class_name: str
    content: Any
    header: Any = None
