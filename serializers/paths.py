"""Paths of the parts of a type, such as ``value.address.tags.element``.

A path is names joined with dots. It begins with a column (``value``, ``map_key``), or with the part of a state and a colon
(``key:``), or it is empty. Each further name is the name of a child (:attr:`~.base.TypeSerializer.child_names`):

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

from typing import Final

ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"
LEFT: Final = "left"
RIGHT: Final = "right"


def join(path: str, name: str) -> str:
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


def default_names(count: int) -> tuple[str, ...]:
    """Return the names of children that their type does not name.

    ``count``: the number of children.
    """
    return ("",) if count == 1 else tuple(map(str, range(count)))
