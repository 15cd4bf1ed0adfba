"""Rules over serializer snapshots: they convert the types of a Flink 1.x job to the types of Flink 2.x.

:class:`TypeMigration` walks through a snapshot and returns two. Flink 2.x writes ``new`` for the same type. The serializer of
``reading`` reads values of Flink 1.x as values of ``new``. Changes and problems are recorded by path
(:mod:`~state_processor.serializers.paths`).

The rules:

* In Flink 1.x, Kryo wrote parts declared as ``List<T>``, ``Collection<T>``, ``Iterable<T>``, ``Map<K,V>`` or ``Set<T>``. The
  ``TypeExtractor`` of Flink 2.x has serializers for them if the type arguments are plain classes. All of these serializers accept
  null, for lists and keys of maps too. Snapshots do not contain type arguments: name them, or let them be found in the values.
* All other Kryo parts stay with Kryo, but Kryo 5 writes other bytes than Kryo 2.
* Some snapshot classes were renamed; others were removed (:data:`RENAMED`, :func:`removed`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
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
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.legacy import LegacyConfigSnapshot
from state_processor.serializers.core.nullable import EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT
from state_processor.serializers.core.optional_map import OptionalEntry
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.evolution.type_extractor import LEFT_TO_KRYO, inferred_by_flink
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoSerializerSnapshot
from state_processor.serializers.paths import join
from state_processor.serializers.runtime.cep import NFA, OldSharedBufferNodeSerializer
from state_processor.serializers.runtime.scala import SCALA
from state_processor.serializers.runtime.stream_records import OLD_TWO_PHASE_COMMIT_SNAPSHOT, TWO_PHASE_COMMIT_SNAPSHOT
from state_processor.serializers.table.rowdata import RowDataSerializerSnapshot
from state_processor.serializers.traversal import fold, walk, with_changed_children
from state_processor.serializers.user_registrations import current_registrations

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

RENAMED: Final = {
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


def removed(class_name: str) -> tuple[str, str] | None:
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
        nested = [child for _, child in snapshot.named_children]
        return self._renamed(snapshot, path, [self.migrate(n, inner) for n, inner in zip(nested, paths, strict=True)])

    def _migrate(
        self, path: str, snapshot: TypeSerializerSnapshot, inner: Callable[[TypeSerializerSnapshot], list[Migrated]]
    ) -> Migrated:
        reason = removed(snapshot.class_name)
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
        renamed = RENAMED.get(snapshot.class_name)
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
            if any(isinstance(s, KryoSerializerSnapshot) for s in walk(nested)):
                self.problems.append(
                    Note(
                        join(path, name),
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
    standard = {e.name: e for e in KryoSerializerSnapshot.of(snapshot.type_class).registrations}
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
