"""Releases of Flink that read serializer snapshots: a release needs each class, its version, and the layout of its values.

The table of versions (:mod:`~state_processor.serializers.format_versions`) has the first release of each version. Classes that
Flink has dropped are in :mod:`~state_processor.serializers.evolution.migration`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializerSnapshot
from state_processor.serializers.core.collections import ListSerializerSnapshot, MapSerializerSnapshot
from state_processor.serializers.core.legacy import LegacyConfigSnapshot
from state_processor.serializers.core.optional_map import UnknownSnapshot
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.evolution.migration import FLINK_2, RENAMED, Note, removed
from state_processor.serializers.format_versions import FLINK, FormatVersions, Release, release_of
from state_processor.serializers.kryo.classes import user_class
from state_processor.serializers.kryo.jdk import TABLE
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoSerializerSnapshot
from state_processor.serializers.paths import join
from state_processor.serializers.snapshot_versions import SNAPSHOT_VERSIONS

MIGRATE: Final = "migrate converts it"
RELEASES: Final[tuple[Release, ...]] = (*((1, minor) for minor in range(13, 21)), *((2, minor) for minor in range(4)))
"""The releases whose classes were compared."""
_STAYS: Final = "leave the state out with remove_state, or write it anew with a type of that release"
_FOLDING: Final = Note("", "Flink 2.x has no folding state", "leave it out with remove_state")
_NULLABLE: Final = "org.apache.flink.api.java.typeutils.runtime.NullableSerializer$NullableSerializerSnapshot"
_LAST_LEGACY: Final = (1, 16)
_JAVA_CLASS: Final = b"r"
"""The mark of a class in a stream of Java objects (``ObjectStreamConstants.TC_CLASSDESC``)."""

_TABLE: Final = "org.apache.flink.table."
_JAVA_IDS: Final[Mapping[str, Mapping[Release, int | None]]] = {
    f"{_TABLE}runtime.typeutils.MapDataSerializer": {(1, 11): 2533002123505507000, (1, 19): 4073842523628732956},
    f"{_TABLE}runtime.typeutils.ExternalSerializer": {(1, 12): -8875738717163909354, (2, 0): -6677936880154791954},
    f"{_TABLE}runtime.generated.GeneratedRecordEqualiser": {(1, 9): 1, (1, 14): 2},
    f"{_TABLE}runtime.generated.GeneratedRecordComparator": {(1, 9): 1, (1, 14): 2},
    f"{_TABLE}runtime.generated.GeneratedHashFunction": {(1, 9): 1, (1, 14): 2},
    f"{_TABLE}types.DataType": {(1, 9): 8776225708497159288, (1, 15): -4138822262654336147},
    f"{_TABLE}types.logical.SymbolType": {(1, 9): 1, (1, 15): 2},
    f"{_TABLE}types.logical.TypeInformationRawType": {(1, 9): 1, (2, 0): None},
    f"{_TABLE}types.logical.VariantType": {(2, 1): -7525210688776332292},
    f"{_TABLE}types.logical.DescriptorType": {(2, 1): 1},
    f"{_TABLE}types.logical.BitmapType": {(2, 3): 1},
}
"""``serialVersionUID`` of classes in Java streams of snapshots, by the first release that has it; ``None``: the class is gone.

All other classes of types and serializers of Flink SQL have had one id from 1.13 to 2.3.
"""

_SAME_IN_KRYO_2_AND_5: Final = frozenset(
    (
        *(f"java.lang.{name}" for name in ("Boolean", "Byte", "Integer", "Long", "String")),
        *(f"java.math.{name}" for name in ("BigInteger", "BigDecimal")),
        *("java.net.URI", "java.sql.Date", "java.sql.Time", "java.util.Currency", "java.util.Date"),
        *(f"java.util.concurrent.atomic.Atomic{name}" for name in ("Boolean", "Integer", "Long")),
    )
)
"""Classes of the JDK whose values have the same bytes in both versions of Kryo."""


def state_obstacles(
    snapshots: Mapping[str, TypeSerializerSnapshot], kind: str | None, release: Release, *, kryo: bool = True
) -> Iterator[Note]:
    """Yield the reasons why a release does not restore a state, or reads other values than were written.

    ``snapshots``: the snapshots of the serializers, by their part of the state: ``key``, ``namespace``, ``map_key``, ``value``.
    ``kind``: the kind of keyed state. ``release`` and ``kryo``: see :func:`obstacles`.
    """
    if release[0] >= FLINK_2 and kind == "FOLDING":
        yield _FOLDING
    for part, snapshot in snapshots.items():
        yield from dict.fromkeys(obstacles(snapshot, release, "" if part == "value" else f"{part}:", kryo=kryo))


def obstacles(snapshot: TypeSerializerSnapshot, release: Release, path: str = "", *, kryo: bool = True) -> Iterator[Note]:
    """Yield the reasons why a release does not read a snapshot, or reads other values than were written.

    ``release``: major and minor version.
    ``path``: the path of the part inside the state. ``kryo``: whether values are checked that another version of Kryo wrote.
    """
    reason = _dropped(snapshot, release) or _too_new(snapshot, release)
    if kryo:
        reason = reason or _other_kryo(snapshot, release)
    if reason is not None:
        yield Note(path, *reason)
        return
    children = snapshot.named_children
    if not children:
        yield from (Note(path, text, _STAYS) for text in _java_problems(snapshot, release))
    for name, child in children:
        inner = join(path, name)
        if isinstance(snapshot, PojoSerializerSnapshot) and release[0] < FLINK_2 and _is_inferred_collection(child):
            yield Note(inner, "Flink 2 infers its type, and Flink 1 leaves such a field to Kryo", _STAYS)
        else:
            yield from obstacles(child, release, inner, kryo=kryo)


def is_checked(snapshot: TypeSerializerSnapshot) -> bool:
    """Return whether all classes of a snapshot are classes of Flink, or of a library that is tested with all its releases."""
    if isinstance(snapshot, UnknownSnapshot | UnreadSnapshot):  # perhaps of a known class, with an unknown one inside
        return False
    return snapshot.class_name in SNAPSHOT_VERSIONS and all(is_checked(child) for _, child in snapshot.named_children)


def _dropped(snapshot: TypeSerializerSnapshot, release: Release) -> tuple[str, str] | None:
    name = snapshot.class_name
    if release[0] >= FLINK_2:
        reason = removed(name)
        if reason is not None:
            return f"{name}: {reason[0]}", reason[1]
        if name in RENAMED:
            return f"{name} is called {RENAMED[name]} since Flink 2.0", MIGRATE
    if isinstance(snapshot, LegacyConfigSnapshot) and release > _LAST_LEGACY:
        return f"{name} is a Java object from before Flink 1.7, which Flink 1.17 and later do not read", MIGRATE
    return None


def _too_new(snapshot: TypeSerializerSnapshot, release: Release) -> tuple[str, str] | None:
    versions = SNAPSHOT_VERSIONS.get(snapshot.class_name)
    if versions is None:
        return None
    outer = snapshot.outer_version if isinstance(snapshot, CompositeTypeSerializerSnapshot) else None
    for versions_of_part, version in ((versions.own, snapshot.version), (versions.outer, outer)):
        first = _first(versions_of_part, version)
        if first is not None and release < release_of(first):
            return f"version {version} of {snapshot.class_name} is of Flink {first} and later", _STAYS
    return None


def _first(versions: FormatVersions | None, version: int | None) -> str | None:
    if versions is None or version is None or versions.writer != FLINK:
        return None
    return versions.since.get(version) or None


def _other_kryo(snapshot: TypeSerializerSnapshot, release: Release) -> tuple[str, str] | None:
    if not isinstance(snapshot, KryoSerializerSnapshot) or snapshot.flink in (None, release[0]):
        return None
    serializer = snapshot.restore_serializer()
    if isinstance(serializer, KryoSerializer) and is_same_in_kryo_2_and_5(serializer):
        return None
    if release[0] >= FLINK_2:
        return f"Kryo 2 wrote {snapshot.type_class}, and Flink 2 reads it with Kryo 5", MIGRATE
    return f"Kryo 5 wrote {snapshot.type_class}, and Flink 1 reads it with Kryo 2", _STAYS


def is_same_in_kryo_2_and_5(serializer: KryoSerializer) -> bool:
    """Return whether both versions of Kryo write the same bytes."""
    return serializer.type_class in _SAME_IN_KRYO_2_AND_5 and is_described_by_kryo(serializer)


def is_described_by_kryo(serializer: KryoSerializer) -> bool:
    """Return whether Kryo's format for the class follows from the class alone."""
    name = serializer.type_class
    return name in TABLE and user_class(name) is None and not serializer.has_custom_serializer


def _is_inferred_collection(snapshot: TypeSerializerSnapshot) -> bool:
    inner = [child for _, child in snapshot.named_children]
    return snapshot.class_name == _NULLABLE and isinstance(inner[0], ListSerializerSnapshot | MapSerializerSnapshot)


def _java_problems(snapshot: TypeSerializerSnapshot, release: Release) -> Iterator[str]:
    data, flink = b"", ".".join(map(str, release))
    for name, ids in _JAVA_IDS.items():
        if not snapshot.class_name.startswith(_TABLE):
            return
        data = data or snapshot.to_bytes()
        mark = _JAVA_CLASS + len(name).to_bytes(2, "big") + name.encode()
        at = data.find(mark)
        if at < 0:
            continue
        serial_version = int.from_bytes(data[at + len(mark) : at + len(mark) + 8], "big", signed=True)
        expected = next((id_ for first, id_ in sorted(ids.items(), reverse=True) if first <= release), None)
        if expected is None:
            yield f"Flink {flink} does not have {name}"
        elif serial_version != expected:
            yield f"it has a Java object of {name} with the serialVersionUID {serial_version}; Flink {flink} has {expected}"
