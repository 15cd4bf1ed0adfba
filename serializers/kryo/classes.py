"""Trees of Java objects, between bytes and columns; lookup of user classes, and the numbers of registered classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Final

from state_processor.serializers.java.types import BOXES, KryoClass
from state_processor.serializers.registry import current_registrations, plugin_of
from state_processor.serializers.traversal import outermost_of
from state_processor.support.doors import registering
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.late import imported_class


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
    """An object with everything in its bytes. References to the same object are one node; two nodes are never equal."""

    class_name: str
    # it depends on the kind of class. Classes of the JDK's table: the content that their layouts read. Collections and arrays of
    # objects: a list of nodes (``None`` for null). Maps: a :class:`KryoMap` of nodes. ``Optional``: a node or ``None``. Classes
    # with described fields: a dict of nodes, and of bare values for primitive fields. Enums: a constant's name.
    content: Any
    # the data before the elements: the comparator of a sorted collection or map, the class of the elements of ``Arrays.asList``
    # in Kryo 2
    header: Any = None


_LOG: Final = getLogger("state_processor")
_LOGGED: Final[set[str]] = set()
"""Classes that this process has logged."""


def undescribed_classes(*parts: Any) -> tuple[str, ...]:
    """Return the names of the classes in serializers that are neither built in nor described.

    ``parts``: as for :func:`~state_processor.serializers.traversal.outermost_of`.
    """
    kryo = imported_class("kryo.serializer", "KryoSerializer")
    if not kryo:
        return ()
    serializers: list[Any] = outermost_of(kryo, *parts)
    return tuple(dict.fromkeys(s.type_class for s in serializers if not s.self_delimiting))


def calls(classes: Iterable[str]) -> str:
    """Return the calls that describe classes; the user has to complete the fields."""
    return registering("; ".join(dict.fromkeys(map(_describing, classes))))


def _describing(name: str) -> str:
    if hasattr(plugin := plugin_of(name), "describe"):
        return f"{plugin.__name__}.describe(release)"
    return f"register_kryo_class({name!r}, {{'field': 'java.lang.String', …}})"


def log_undescribed(classes: Iterable[str]) -> None:
    """Log that values of classes are bytes, once per process and class.

    ``classes``: their names.
    """
    new = dict.fromkeys(name for name in classes if name not in _LOGGED)
    if new:
        _LOGGED.update(new)
        _LOG.warning(
            "Kryo wrote values of %s without names of fields: they are read as bytes or not at all; describe the classes: %s",
            " and ".join(new),
            calls(new),
        )


def user_class(name: str) -> KryoClass | None:
    """Return the description of a class; for the class of an enum constant, the description of the enum."""
    plugin_of(name)
    described = current_registrations().kryo_classes
    outer, _, number = name.rpartition("$")
    enum = described.get(outer) if number.isdigit() else None
    return described.get(name) or (enum if enum and enum.constants is not None else None)


def unknown_class(name: str, context: str) -> UnsupportedFormatError:
    """Return the error for a class that is not described."""
    of_enum = "" if hasattr(plugin_of(name), "describe") else "; for an enum, pass ['A', 'B', …]"
    return UnsupportedFormatError(
        f"{context}: a value of class {name} in Kryo's encoding, without field names or lengths: describe the class "
        f"with {registering(_describing(name))}{of_enum}"
    )


# Class numbers

_OWN_CLASSES: Final = ("int", "java.lang.String", "float", "boolean", "byte", "char", "short", "long", "double", "java.lang.Void")
_KRYO_IDS: Final = {number: BOXES.get(name, name) for number, name in enumerate(_OWN_CLASSES)}
_CHILL: Final = (
    "java.util.Arrays$ArrayList",
    "java.util.BitSet",
    "java.util.PriorityQueue",
    "java.util.regex.Pattern",
    "java.sql.Date",
    "java.sql.Time",
    "java.sql.Timestamp",
    "java.net.URI",
    "java.net.InetSocketAddress",
    "java.util.UUID",
    "java.util.Locale",
    "java.text.SimpleDateFormat",
)
_FIRST_CHILL_ID: Final = 73
FIRST_USER_ID: Final = _FIRST_CHILL_ID + len(_CHILL)
"""The number of the first registration of a job (Flink: ``FlinkChillPackageRegistrar.getNextRegistrationId``)."""
BARE_FIRST_USER_ID: Final = 10
"""The same number without ``flink-runtime`` (before 2.0 ``flink-java``) on the class path, as in unit tests of Flink."""


def class_ids(registered: Iterable[str], first_id: int = FIRST_USER_ID) -> dict[int, str]:
    """Return classes by number: Kryo's own, Flink's, and the registrations of a snapshot in their order.

    A second registration of a class does not take a second number.
    """
    ids = dict(_KRYO_IDS)
    if first_id == FIRST_USER_ID:
        ids.update(enumerate(_CHILL, _FIRST_CHILL_ID))
    seen = set(ids.values())
    following = first_id
    for name in registered:
        name = BOXES.get(name, name)
        if name not in seen:
            seen.add(name)
            ids[following] = name
            following += 1
    return ids
