"""What is known of classes beside the JDK's: descriptions that users give, and the numbers of registered classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.kryo.types import BOXES, JavaType


@dataclass(frozen=True, slots=True)
class KryoClass:
    """What is known of a user's class: its fields, an enum's constants, a reader and a writer, or nothing of an abstract one."""

    name: str
    fields: tuple[tuple[str, JavaType], ...] = ()
    constants: tuple[str, ...] | None = None
    read: Callable[[Any], Any] | None = None
    abstract: bool = False
    final: bool = False
    write: Callable[[Any, Any], None] | None = None

    @property
    def in_order(self) -> list[tuple[str, JavaType]]:
        """The fields as Kryo's ``FieldSerializer`` writes them."""
        return sorted(self.fields)


_CONNECTOR_CLASSES: Final = (
    KryoClass(
        "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",
        (("topic", JavaType("java.lang.String")), ("partition", JavaType("int")), ("cachedHash", JavaType("int"))),
        final=True,
    ),
)
"""Classes of Flink's connectors that Kryo wrote into state."""

_BUILT_IN: Final = {described.name: described for described in _CONNECTOR_CLASSES}
_USER_CLASSES: Final[dict[str, KryoClass]] = {}


def user_class(name: str) -> KryoClass | None:
    """The description of a class, or of the enum whose constant's own class this is."""
    found = _USER_CLASSES.get(name) or _BUILT_IN.get(name)
    if found is None and "$" in name:
        outer, _, number = name.rpartition("$")
        found = _USER_CLASSES.get(outer) if number.isdigit() else None
        if found is not None and found.constants is None:
            return None
    return found


def set_user_class(described: KryoClass) -> None:
    """Make a description known; the last one of a class counts."""
    _USER_CLASSES[described.name] = described


def user_classes() -> tuple[KryoClass, ...]:
    """All descriptions, to take them along to another process."""
    return tuple(_USER_CLASSES.values())


def unknown_class(name: str, where: str) -> UnsupportedFormatError:
    """The error for a class that nothing is known of."""
    return UnsupportedFormatError(
        f"{where}: a value of class {name} in Kryo's encoding, which tells neither fields nor lengths: describe the "
        f"class with register_kryo_class({name!r}, {{'field': 'java.lang.String', …}}), "
        f"an enum with register_kryo_class({name!r}, ['A', 'B', …])"
    )


# Class numbers

_KRYO_IDS: Final = {
    number: BOXES.get(name, name)
    for number, name in enumerate(
        ("int", "java.lang.String", "float", "boolean", "byte", "char", "short", "long", "double", "java.lang.Void")
    )
}
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
"""The same where ``flink-runtime`` (before 2.0 ``flink-java``) is not on the class path, as in unit tests of Flink."""


def class_ids(registered: Iterable[str], first_id: int = FIRST_USER_ID) -> dict[int, str]:
    """Class by number: Kryo's own, Flink's, and the registrations of a snapshot in their order.

    Registering a class a second time gives it no second number.
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
