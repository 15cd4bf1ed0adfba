"""What a value is between its bytes and its column: a tree of Java objects, or their plain content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class BigInteger(int):
    """A ``java.math.BigInteger``, told from the numbers that have a width."""


class KryoMap(tuple[tuple[Any, Any], ...]):
    """Entries of a map in the order of the bytes: a key need not be hashable in Python."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KryoObject:
    """An object of a registered class: the class, and the fields by name."""

    class_name: str
    fields: dict[str, Any]


@dataclass(slots=True, eq=False)
class Node:
    """An object with all that its bytes tell. An object that stands in several places is one node; two nodes are never equal.

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
