"""Lookup of user classes, and the numbers of registered classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from state_processor.serializers.doors import registering
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.java.types import BOXES, JavaType, KryoClass
from state_processor.serializers.user_registrations import current_registrations

_KAFKA_TOPIC_PARTITION: Final = KryoClass(
    "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",
    (("topic", JavaType("java.lang.String")), ("partition", JavaType("int")), ("cachedHash", JavaType("int"))),
    final=True,
)
_KINESIS_SEQUENCE_NUMBER: Final = KryoClass(
    "org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber",
    (("cachedHash", JavaType("int")), ("sequenceNumber", JavaType("java.lang.String")), ("subSequenceNumber", JavaType("long"))),
    final=True,
)
_CONNECTOR_CLASSES: Final = {described.name: described for described in (_KAFKA_TOPIC_PARTITION, _KINESIS_SEQUENCE_NUMBER)}
"""Classes of Flink's connectors that Kryo wrote into state."""


def user_class(name: str) -> KryoClass | None:
    """Return the description of a class; for the class of an enum constant, the description of the enum."""
    described = current_registrations().kryo_classes
    found = described.get(name) or _CONNECTOR_CLASSES.get(name)
    if found is None and "$" in name:
        outer, _, number = name.rpartition("$")
        found = described.get(outer) if number.isdigit() else None
        if found is not None and found.constants is None:
            return None
    return found


def unknown_class(name: str, where: str) -> UnsupportedFormatError:
    """Return the error for a class that is not described."""
    describing = registering(f"register_kryo_class({name!r}, {{'field': 'java.lang.String', …}})")
    return UnsupportedFormatError(
        f"{where}: a value of class {name} in Kryo's encoding, without field names or lengths: describe the class "
        f"with {describing}; for an enum, pass ['A', 'B', …]"
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
