"""Serializer snapshots and releases of Flink: conversion from Flink 1.x to 2.x, and which releases read a snapshot.

:class:`TypeMigration` walks through a snapshot and returns two. Flink 2.x writes ``new`` for the same type. The serializer of
``reading`` reads values of Flink 1.x as values of ``new``. Changes and problems are recorded by path
(:mod:`~state_processor.serializers.traversal`).

The rules:

* In Flink 1.x, Kryo wrote parts declared as ``List<T>``, ``Collection<T>``, ``Iterable<T>``, ``Map<K,V>`` or ``Set<T>``. The
  ``TypeExtractor`` of Flink 2.x has serializers for them if the type arguments are plain classes. All of these serializers accept
  null, for lists and keys of maps too. Snapshots do not contain type arguments: name them, or let them be found in the values.
* All other Kryo parts stay with Kryo, but Kryo 5 writes other bytes than Kryo 2.
* Some snapshot classes were renamed; others were removed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
)
from state_processor.serializers.codec import Codec
from state_processor.serializers.core import arrays
from state_processor.serializers.core.collections import (
    ListSerializer,
    ListSerializerSnapshot,
    MapSerializer,
    MapSerializerSnapshot,
    SetSerializer,
)
from state_processor.serializers.core.legacy import LegacyConfigSnapshot
from state_processor.serializers.core.nullable import EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.core.unread import OptionalEntry, UnknownSnapshot, UnreadSnapshot
from state_processor.serializers.format_versions import FLINK, SNAPSHOT_VERSIONS, FormatVersions, Release, release_of
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import class_names
from state_processor.serializers.kryo.classes import user_class
from state_processor.serializers.kryo.jdk import TABLE
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoSerializerSnapshot
from state_processor.serializers.kryo.user_classes import LEFT_TO_KRYO, inferred_by_flink
from state_processor.serializers.registry import current_registrations
from state_processor.serializers.runtime.cep import NFA, OldSharedBufferNodeSerializer
from state_processor.serializers.runtime.scala import SCALA
from state_processor.serializers.runtime.stream_records import OLD_TWO_PHASE_COMMIT_SNAPSHOT, TWO_PHASE_COMMIT_SNAPSHOT
from state_processor.serializers.table.rowdata import RowDataSerializerSnapshot
from state_processor.serializers.traversal import fold, join_path, parts_of, with_changed_children
from state_processor.support.mappings import index_by_name

FLINK_2: Final = 2

_LIST: Final = "LIST"
_SET: Final = "SET"
_MAP: Final = "MAP"
COLLECTIONS: Final = {
    "java.util.List": _LIST,
    "java.util.Collection": _LIST,
    "java.lang.Iterable": _LIST,
    "java.util.Set": _SET,
    "java.util.Map": _MAP,
}
"""The declared classes that Flink 2.x has serializers for; subclasses such as ``ArrayList`` stay with Kryo."""

_SHAPES: Final[dict[str, type[TypeSerializer]]] = {_LIST: ListSerializer, _SET: SetSerializer, _MAP: MapSerializer}


# Classes that Flink 2.x no longer has

_RENAMED: Final = {
    OLD_TWO_PHASE_COMMIT_SNAPSHOT: TWO_PHASE_COMMIT_SNAPSHOT,
    LEGACY_EITHER_SNAPSHOT: EITHER_SNAPSHOT,
    arrays.GENERIC_ARRAY_CONFIG_SNAPSHOT: arrays.GENERIC_ARRAY_SNAPSHOT,
}
"""The current names of renamed classes; their values did not change."""

_REMOVED: Final = {
    SCALA: (
        "Flink 2.0 has removed the Scala API and its serializers",
        "read the state and write it with a type that the new job declares, by with_keyed_state or evolve_state, or remove it "
        "with remove_state",
    ),
    f"{NFA}NFA$MigratedNFASerializerSnapshot": (
        "it contains state of pattern matching from before Flink 1.5, and Flink 2.0 can no longer migrate it",
        "restore the job with Flink 1.5 to 1.20 and take another savepoint",
    ),
}
_REMOVED[f"{NFA}SharedBuffer$SharedBufferSerializerSnapshot"] = _REMOVED[f"{NFA}NFA$MigratedNFASerializerSnapshot"]
_REMOVED[OldSharedBufferNodeSerializer.snapshot_class] = (
    "it contains the buffer of pattern matching from before Flink 1.15, and Flink 2.0 can no longer migrate it",
    "restore the job with Flink 1.15 to 1.20 and take another savepoint",
)

LOST_KRYO_SERIALIZERS: Final = (
    "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$SpecificInstanceCollectionSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.PriorityQueueSerializer",
)
"""Prefixes of the names of Kryo serializers that Flink 1.x contains."""


def _why_removed(class_name: str) -> tuple[str, str] | None:
    """Return why Flink 2.x can't restore a snapshot of a class, and advice; ``None`` if it can."""
    return next((advice for prefix, advice in _REMOVED.items() if class_name.startswith(prefix)), None)


# Migration of types


class AdaptedSnapshot(TypeSerializerSnapshot):
    """Stand-in for a snapshot in a tree; values of the replaced snapshot are read as values of a new serializer.

    ``codec``: the codec that reads the bytes of the replaced snapshot.
    """

    def __init__(self, written: TypeSerializerSnapshot, codec: Codec) -> None:
        super().__init__(written.class_name, written.version)
        self._written = written
        self._codec = codec

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> AdaptedSnapshot:
        raise source.corrupt(f"{cls.__name__} is never a part of a file")

    def write(self, target: DataOutput) -> None:
        self._written.write(target)

    def restore_serializer(self) -> TypeSerializer:
        return cast(TypeSerializer, self._codec)  # read by the serializer of the type around it, and by entries


@dataclass(frozen=True, slots=True)
class Note:
    """Remark on a part of a type; ``advice`` suggests an action."""

    path: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.path.removesuffix(':')}: {self.text}" if self.path else self.text


@dataclass(frozen=True, slots=True)
class Migrated:
    """Type in Flink 2.x: its snapshot, and the snapshot that reads values of Flink 1.x as values of this type."""

    reading: TypeSerializerSnapshot
    new: TypeSerializerSnapshot

    @classmethod
    def unchanged(cls, snapshot: TypeSerializerSnapshot) -> Migrated:
        """Return a type that does not change."""
        return cls(snapshot, snapshot)

    @property
    def is_changed(self) -> bool:
        """Whether the snapshot changes."""
        return self.new is not self.reading


Adapt = Callable[[str, KryoSerializer, TypeSerializer | None], Codec]
"""Makes the codec of a Kryo value from the path, the old serializer and the new one (``None`` if it is not known yet)."""


@dataclass
class TypeMigration:
    """Migration of the snapshots of one state.

    ``changes`` and ``problems``: remarks, by path.
    """

    # the new types of Kryo parts, by path. A collection needs one, because snapshots do not contain element types. Other parts
    # need one if the new job declares them differently. ``LIST``, ``SET`` and ``MAP`` stand for the type that Flink infers for
    # such a field, where everything may be null. ``NULLABLE``, dates and times are used exactly as given. ``KRYO`` leaves the
    # part with Kryo.
    types: Mapping[str, TypeSerializer]
    adapt: Adapt  # makes the serializers that read Kryo values
    changes: list[Note] = field(default_factory=list)
    problems: list[Note] = field(default_factory=list)
    # collections that ``types`` does not contain: their declared class, by path
    undecided: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # the paths of the ``types`` that were used

    def migrate(self, snapshot: TypeSerializerSnapshot, path: str = "") -> Migrated:
        """Return the new snapshot of a type, and the snapshot that reads old values."""
        return fold(snapshot, self._migrate, path)

    def migrate_nested(self, snapshot: TypeSerializerSnapshot, path: str, paths: Sequence[str]) -> Migrated:
        """Return the migrated type of a snapshot whose nested types have the paths ``paths``."""
        pairs = zip(snapshot.children, paths, strict=True)
        return self._renamed(snapshot, path, [self.migrate(nested, inner) for nested, inner in pairs])

    def _migrate(
        self, path: str, snapshot: TypeSerializerSnapshot, inner: Callable[[TypeSerializerSnapshot], list[Migrated]]
    ) -> Migrated:
        reason = _why_removed(snapshot.class_name)
        if reason is not None:
            self.problems.append(Note(path, f"{snapshot.class_name}: {reason[0]}", reason[1]))
            return Migrated.unchanged(snapshot)
        match snapshot:
            case KryoSerializerSnapshot():
                return self._kryo(snapshot, path)
            case LegacyConfigSnapshot():
                return self._legacy(snapshot, path)
            case RowDataSerializerSnapshot():
                self._row_data(snapshot, path)
                return Migrated.unchanged(snapshot)
            case PojoSerializerSnapshot():
                described = _with_described_subclasses(snapshot)
                migrated = self._renamed(described, path, inner(described))
                return migrated if migrated.is_changed else Migrated.unchanged(snapshot)
        return self._renamed(snapshot, path, inner(snapshot))

    def _renamed(self, snapshot: TypeSerializerSnapshot, path: str, nested: Sequence[Migrated]) -> Migrated:
        """Return the migrated type of a snapshot from the ones of its nested types, under the current name of its class."""
        renamed = _RENAMED.get(snapshot.class_name)
        reading = with_changed_children(snapshot, [m.reading for m in nested])
        new = with_changed_children(snapshot, [m.new for m in nested])
        if renamed is None:
            return Migrated(reading, new)
        self.changes.append(Note(path, f"{snapshot.class_name} is called {renamed} now"))
        new = copy.copy(new)
        new.class_name = renamed
        if isinstance(new, CompositeTypeSerializerSnapshot) and new.version < new.current_version:
            new.version, new.outer_version = new.current_version, new.current_outer_version
        return Migrated(reading, new)

    # Kryo

    def _kryo(self, snapshot: KryoSerializerSnapshot, path: str) -> Migrated:
        if snapshot.flink is not None and snapshot.flink >= FLINK_2:
            return Migrated.unchanged(snapshot)
        old = snapshot.restore_serializer()
        assert isinstance(old, KryoSerializer)
        chosen = self.types.get(path)
        if chosen is not None:
            self.used.add(path)
        elif snapshot.type_class in COLLECTIONS:
            self.undecided[path] = snapshot.type_class
            return Migrated(AdaptedSnapshot(snapshot, self.adapt(path, old, None)), snapshot)
        if chosen is None or (isinstance(chosen, KryoSerializer) and chosen.type_class == snapshot.type_class):
            new: TypeSerializerSnapshot = with_kryo_5(snapshot)
            self.changes.append(Note(path, f"KRYO<{snapshot.type_class}>: from Kryo 2 to Kryo 5"))
        else:
            new = _of_flink_2(chosen if isinstance(chosen, LEFT_TO_KRYO) else inferred_by_flink(chosen, FLINK_2))
            self.changes.append(Note(path, f"KRYO<{snapshot.type_class}> becomes {new.restore_serializer()}"))
        reading = self.adapt(path, old, new.restore_serializer())
        return Migrated(AdaptedSnapshot(snapshot, reading), new)

    # Other types

    def _legacy(self, snapshot: LegacyConfigSnapshot, path: str) -> Migrated:
        """Migrate a snapshot that contains a Java object to a current one; values stay. Flink 1.17 and later can't read it."""
        present = snapshot.restore_serializer().snapshot()
        self.changes.append(Note(path, f"{snapshot.class_name}, from before Flink 1.7, becomes {present.class_name}"))
        inner = self.migrate(present, path)
        return inner if inner.is_changed else Migrated(snapshot, present)

    def _row_data(self, snapshot: RowDataSerializerSnapshot, path: str) -> None:
        for name, nested in snapshot.named_children:
            if parts_of(KryoSerializerSnapshot, nested):
                self.problems.append(
                    Note(
                        join_path(path, name),
                        "a column of type RAW contains Kryo values inside the rows of SQL",
                        "leave the state out with remove_state, or give the column another type in the old job first",
                    )
                )


def _with_described_subclasses(snapshot: PojoSerializerSnapshot) -> PojoSerializerSnapshot:
    """Return the snapshot of a POJO with the subclasses that only the user has described."""
    if snapshot.pojo_class not in current_registrations().pojo_subclasses:
        return snapshot
    described = snapshot.restore_serializer().snapshot()
    assert isinstance(described, PojoSerializerSnapshot)
    return described


def with_kryo_5(snapshot: KryoSerializerSnapshot) -> KryoSerializerSnapshot:
    """Return the snapshot of a Kryo type in Flink 2.x: the same registrations, without removed serializers.

    Flink 1.x registers a serializer for Avro's arrays if Avro is present. Flink 2.x without Avro uses a stand-in for it, and a
    job with Avro replaces the stand-in by its own serializer. The snapshot contains the stand-in.
    """
    new = copy.copy(snapshot)
    new.flink = FLINK_2
    standard = index_by_name(KryoSerializerSnapshot.of(snapshot.type_class).registrations)
    new.registrations = tuple(standard.get(e.name, e) if _is_lost(e) else e for e in snapshot.registrations)
    new.default_serializer_classes = tuple(e for e in snapshot.default_serializer_classes if not _is_lost(e))
    return new


def _is_lost(entry: OptionalEntry) -> bool:
    """Check if a class is registered with a Kryo serializer that Flink 2.x no longer has."""
    return entry.value is not None and any(name.encode() in entry.value for name in LOST_KRYO_SERIALIZERS)


def _of_flink_2(type_: TypeSerializer) -> TypeSerializerSnapshot:
    """Return a type's snapshot in Flink 2.x, with Kryo 5 for Kryo parts."""
    return read_versioned_snapshot(DataInput(type_.snapshot().to_bytes(), str(type_), flink_major=FLINK_2))


def collection_of(declared: str, arguments: Sequence[TypeSerializer]) -> TypeSerializer:
    """Return the type of a collection that was declared with a class of :data:`COLLECTIONS`."""
    return _SHAPES[COLLECTIONS[declared]](*arguments)


# Releases that read a snapshot: a release needs each class, its version, and the layout of its values

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
        *class_names("java.lang.", "Boolean", "Byte", "Integer", "Long", "String"),
        *class_names("java.math.", "BigInteger", "BigDecimal"),
        *("java.net.URI", "java.sql.Date", "java.sql.Time", "java.util.Currency", "java.util.Date"),
        *class_names("java.util.concurrent.atomic.Atomic", "Boolean", "Integer", "Long"),
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
        inner = join_path(path, name)
        if isinstance(snapshot, PojoSerializerSnapshot) and release[0] < FLINK_2 and _is_inferred_collection(child):
            yield Note(inner, "Flink 2 infers its type, and Flink 1 leaves such a field to Kryo", _STAYS)
        else:
            yield from obstacles(child, release, inner, kryo=kryo)


def is_checked(snapshot: TypeSerializerSnapshot) -> bool:
    """Return whether all classes of a snapshot are classes of Flink, or of a library that is tested with all its releases."""
    if isinstance(snapshot, UnknownSnapshot | UnreadSnapshot):  # perhaps of a known class, with an unknown one inside
        return False
    return snapshot.class_name in SNAPSHOT_VERSIONS and all(map(is_checked, snapshot.children))


def _dropped(snapshot: TypeSerializerSnapshot, release: Release) -> tuple[str, str] | None:
    name = snapshot.class_name
    if release[0] >= FLINK_2:
        reason = _why_removed(name)
        if reason is not None:
            return f"{name}: {reason[0]}", reason[1]
        if name in _RENAMED:
            return f"{name} is called {_RENAMED[name]} since Flink 2.0", MIGRATE
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
    if snapshot.class_name != _NULLABLE:
        return False
    _, inner = snapshot.named_children[0]
    return isinstance(inner, ListSerializerSnapshot | MapSerializerSnapshot)


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
