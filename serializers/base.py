"""Flink's serializer abstraction: serializers, their snapshots, and verdicts on restoring state with another serializer.

A serializer is a type of values: a :class:`~state_processor.serializers.codec.Codec` with a snapshot. A snapshot describes how a
serializer was configured when a state was written; it restores the serializer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Final, cast

from state_processor.serializers.codec import Codec, default_names
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import SnapshotReader, check_outer_version, find_snapshot_class, provide_snapshots
from state_processor.support.errors import (
    CorruptSnapshotError,
    StateProcessorError,
    UnknownSerializerError,
    UnsupportedFormatError,
    is_foreign,
    message_of,
    qualified_name,
)


class Verdict(IntEnum):
    """Flink's four results, from harmless to fatal. The greatest of several is the worst."""

    COMPATIBLE_AS_IS = 0
    COMPATIBLE_WITH_RECONFIGURED_SERIALIZER = 1
    COMPATIBLE_AFTER_MIGRATION = 2
    INCOMPATIBLE = 3


@dataclass(frozen=True, slots=True)
class SchemaCompatibility:
    """A verdict and, if it is incompatible, the reason."""

    verdict: Verdict
    reason: str = ""

    def _repr_html_(self) -> str:
        from html import escape

        mark = "✗" if self.is_incompatible else "✓"
        reason = f"<br>{escape(self.reason)}" if self.reason else ""
        return f"<p>{mark} <b>{self.verdict.name.replace('_', ' ').lower()}</b>{reason}</p>"

    @classmethod
    def compatible_as_is(cls) -> SchemaCompatibility:
        """Return the verdict that the new serializer can read bytes of the old one."""
        return cls(Verdict.COMPATIBLE_AS_IS)

    @classmethod
    def compatible_with_reconfigured_serializer(cls) -> SchemaCompatibility:
        """Return the verdict that the new serializer needs details of the old one, such as the order of registrations."""
        return cls(Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER)

    @classmethod
    def compatible_after_migration(cls) -> SchemaCompatibility:
        """Return the verdict that all state must be read with the old serializer and written with the new one."""
        return cls(Verdict.COMPATIBLE_AFTER_MIGRATION)

    @classmethod
    def incompatible(cls, reason: str) -> SchemaCompatibility:
        """Return the verdict that Flink refuses to restore."""
        return cls(Verdict.INCOMPATIBLE, reason)

    @classmethod
    def worst(cls, *results: SchemaCompatibility) -> SchemaCompatibility:
        """Return the verdict on a whole from the verdicts on its parts."""
        return max(results, key=lambda r: r.verdict, default=cls.compatible_as_is())

    @property
    def is_incompatible(self) -> bool:
        """Whether Flink refuses to restore."""
        return self.verdict is Verdict.INCOMPATIBLE

    def __str__(self) -> str:
        name = self.verdict.name.lower()
        return f"{name}: {self.reason}" if self.reason else name


class TypeSerializer(Codec):
    """A type of values: its codec, and the snapshot that Flink writes for it and that decides on compatibility.

    Flink: ``org.apache.flink.api.common.typeutils.TypeSerializer``.
    """

    @property
    def children(self) -> Sequence[Codec]:
        """Nested serializers in the order of the snapshot; empty for a type that contains no others.

        By default the serializers that a composite snapshot restores. A serializer that is made with others overrides this and
        :meth:`with_children`, so that information that snapshots omit is not lost.
        """
        composite = self._composite_snapshot()
        return () if composite is None else tuple(composite.nested_serializers)

    @property
    def child_names(self) -> Sequence[str]:
        composite = self._composite_snapshot()
        return super().child_names if composite is None else composite.nested_names

    def with_children(self, children: Sequence[Any]) -> TypeSerializer:
        """Return the same serializer with other children, as many as :attr:`children` has."""
        composite = self._composite_snapshot()
        return self if composite is None else composite.create_serializer(children)

    def _composite_snapshot(self) -> CompositeTypeSerializerSnapshot | None:
        try:
            snapshot = self.snapshot()
        except StateProcessorError:
            return None
        except AttributeError as error:
            if error.name == "snapshot" and isinstance(error.obj, Codec):
                return None  # a part is not a type
            raise
        return snapshot if isinstance(snapshot, CompositeTypeSerializerSnapshot) else None

    @property
    def child_snapshots(self) -> list[TypeSerializerSnapshot]:
        """The snapshots of the children, for a serializer that overrides :attr:`children`."""
        return [cast(TypeSerializer, child).snapshot() for child in self.children]

    def as_remainder(self) -> TypeSerializer:
        return self

    @property
    def undescribed(self) -> tuple[str, str] | None:
        """A class of the job that decides what values mean, and what the snapshot lacks; ``None`` if it lacks nothing."""
        return None

    @abstractmethod
    def snapshot(self) -> TypeSerializerSnapshot:
        """Return the snapshot that Flink writes for this serializer."""


class LeafSerializer(TypeSerializer):
    """A serializer that contains no others."""

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return ()

    def with_children(self, children: Sequence[Any]) -> TypeSerializer:
        return self


class DescribedSerializer(LeafSerializer):
    """A serializer that keeps the snapshot that it was restored from."""

    def __init__(self, described: TypeSerializerSnapshot) -> None:
        self.described = described

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.described


class SimpleSerializer(LeafSerializer):
    """A serializer without configuration, described by its class name alone.

    Parameters
    ----------
    snapshot_class
        The Java class of the snapshot, if it differs from the class that the Python class names.
    """

    snapshot_class: str = ""

    def __init__(self, snapshot_class: str = "") -> None:
        if snapshot_class:
            self.snapshot_class = snapshot_class

    def snapshot(self) -> TypeSerializerSnapshot:
        return SimpleTypeSerializerSnapshot(self.snapshot_class, serializer=self)


class TypeSerializerSnapshot(ABC):
    """Configuration of a serializer at the time of writing (Flink: ``TypeSerializerSnapshot``).

    Subclasses define the bytes after class name and version. A snapshot keeps the class name and the version from reading, so
    that writing it gives the same bytes.
    """

    current_version: ClassVar[int] = 3
    versions: ClassVar[Collection[int]] = ()
    """The versions that a user class reads; others are refused. Empty: :meth:`read` gets every version."""
    class_name: str
    version: int

    def __init__(self, class_name: str, version: int | None = None) -> None:
        self.class_name = class_name
        self.version = self.current_version if version is None else version

    @classmethod
    @abstractmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        """Read the payload at ``source`` (Flink: ``readSnapshot``)."""

    @abstractmethod
    def write(self, target: DataOutput) -> None:
        """Write the payload with unchanged content (Flink: ``writeSnapshot``)."""

    @property
    def named_children(self) -> Sequence[tuple[str, TypeSerializerSnapshot]]:
        """Nested snapshots with their names in paths; empty for the snapshot of a serializer that contains no others."""
        return ()

    @property
    def children(self) -> Sequence[TypeSerializerSnapshot]:
        """Nested snapshots, in the order of :attr:`named_children`."""
        return [child for _, child in self.named_children]

    def with_children(self, children: Sequence[TypeSerializerSnapshot]) -> TypeSerializerSnapshot:
        """Return the same snapshot with other nested ones, as many as :attr:`named_children` has."""
        return self

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer:
        """Return the serializer that wrote with this configuration (Flink: ``restoreSerializer``)."""

    def resolve_schema_compatibility(self, new: TypeSerializer | TypeSerializerSnapshot) -> SchemaCompatibility:
        """Return the verdict on reading and writing state of this snapshot with ``new``, by Flink's rules.

        Parameters
        ----------
        new
            The serializer of the restored job, or its snapshot.
        """
        new_snapshot = new.snapshot() if isinstance(new, TypeSerializer) else new
        if not self.continues_as(new_snapshot):
            return SchemaCompatibility.incompatible(f"{self.class_name} was written, {new_snapshot.class_name} is required")
        return self._resolve(new_snapshot)

    def continues_as(self, new: TypeSerializerSnapshot) -> bool:
        """Check if ``new`` has the same class, or a class that Flink has renamed it to."""
        return new.class_name == self.class_name

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        """Return the verdict on a new snapshot of the same class; compatible as is, if it needs no configuration."""
        return SchemaCompatibility.compatible_as_is()

    def to_bytes(self) -> bytes:
        """Return the snapshot as Flink frames it: class name, version, payload (``writeVersionedSnapshot``)."""
        target = DataOutput()
        write_versioned_snapshot(self, target)
        return target.to_bytes()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.class_name, self.version))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.class_name} v{self.version}>"


class SimpleTypeSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of a serializer without configuration (Flink: ``SimpleTypeSerializerSnapshot``).

    Subclasses set :attr:`serializer`. Version 2 (Flink 1.7) repeats the serializer's class name, version 3 is without payload.
    """

    versions = (2, 3)
    serializer: ClassVar[TypeSerializer | None] = None

    def __init__(
        self, class_name: str, version: int | None = None, serializer: TypeSerializer | None = None, payload: str = ""
    ) -> None:
        super().__init__(class_name, version)
        self._serializer = serializer or type(self).serializer
        self._payload = payload

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> SimpleTypeSerializerSnapshot:
        return cls(class_name, version, payload=source.read_utf() if version == 2 else "")

    def write(self, target: DataOutput) -> None:
        if self.version == 2:
            target.write_utf(self._payload)

    def restore_serializer(self) -> TypeSerializer:
        if self._serializer is None:
            raise UnsupportedFormatError(f"{self.class_name} lacks a serializer: set the class attribute 'serializer'")
        return self._serializer


def simple_snapshots(*serializers: SimpleSerializer) -> dict[str, type[SimpleTypeSerializerSnapshot]]:
    """Return the snapshot classes of serializers without configuration, by the names of these classes in Java."""
    return {serializer.snapshot_class: _simple_snapshot(serializer) for serializer in serializers}


def _simple_snapshot(serializer: SimpleSerializer) -> type[SimpleTypeSerializerSnapshot]:
    return type("SimpleTypeSerializerSnapshot", (SimpleTypeSerializerSnapshot,), {"serializer": serializer})


def register_simple(serializer: SimpleSerializer, *other_names: str) -> None:
    """Register the snapshot class of a serializer without configuration, under all names that Flink has given it."""
    provide_snapshots((serializer.snapshot_class, *other_names), _simple_snapshot(serializer))


COMPOSITE_MAGIC: Final = 911108
NESTED_MAGIC: Final = 1333245
NESTED_SNAPSHOTS: Final = FormatVersions("the block of nested serializer snapshots", {1: "1.7"})


class CompositeTypeSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of a serializer with nested serializers (Flink: ``CompositeTypeSerializerSnapshot``).

    Subclasses set :attr:`current_outer_version`, build the serializer from its parts in :meth:`create_serializer`, and
    override the three ``*_outer`` methods if the configuration contains more than the nested serializers.
    """

    versions = (1, 2, 3)
    current_outer_version: ClassVar[int] = 1
    outer_versions: ClassVar[Collection[int]] = ()
    """The outer versions that a user class reads; others are refused. Empty: :meth:`read_outer` gets every version."""

    def __init__(
        self,
        class_name: str,
        nested: Sequence[TypeSerializerSnapshot],
        version: int | None = None,
        outer_version: int | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.nested = tuple(nested)
        self.outer_version = self.current_outer_version if outer_version is None else outer_version

    @property
    def nested_names(self) -> Sequence[str]:
        """Names of the nested types in :mod:`~state_processor.serializers.traversal`; an empty name adds nothing to a path."""
        return default_names(len(self.nested))

    @property
    def nested_serializers(self) -> list[TypeSerializer]:
        """The serializers that the nested snapshots restore."""
        return [nested.restore_serializer() for nested in self.nested]

    @property
    def named_children(self) -> Sequence[tuple[str, TypeSerializerSnapshot]]:
        return tuple(zip(self.nested_names, self.nested, strict=True))

    def with_children(self, children: Sequence[TypeSerializerSnapshot]) -> CompositeTypeSerializerSnapshot:
        new = copy(self)
        new.nested = tuple(children)
        return new

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        """Return the serializer with these nested ones (Flink: ``createOuterSerializerWithNestedSerializers``)."""
        raise NotImplementedError

    def read_outer(self, source: DataInput) -> None:
        """Read the part before the nested snapshots, in :attr:`outer_version` (Flink: ``readOuterSnapshot``)."""

    def write_outer(self, target: DataOutput) -> None:
        """Write the part that :meth:`read_outer` reads."""

    def resolve_outer(self, new: Any) -> SchemaCompatibility:
        """Return the verdict on the part of :meth:`read_outer` (Flink: ``resolveOuterSchemaCompatibility``)."""
        return SchemaCompatibility.compatible_as_is()

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> CompositeTypeSerializerSnapshot:
        start = source.position
        snapshot = cls.__new__(cls)
        TypeSerializerSnapshot.__init__(snapshot, class_name, version)
        # Predecessors of this class (1.7) lacked a magic number; their own version was the outer version.
        if version >= 3:
            magic = source.read_int()
            if magic != COMPOSITE_MAGIC:
                raise source.corrupt(f"magic number {COMPOSITE_MAGIC} of {class_name} expected, found {magic}")
            snapshot.outer_version = source.read_int()
        else:
            snapshot.outer_version = version
        check_outer_version(class_name, cls, snapshot.outer_version, source, start)
        snapshot.read_outer(source)
        snapshot.nested = read_nested_snapshots(source)
        return snapshot

    def write(self, target: DataOutput) -> None:
        if self.version >= 3:
            target.write_int(COMPOSITE_MAGIC)
            target.write_int(self.outer_version)
        self.write_outer(target)
        write_nested_snapshots(self.nested, target)

    def restore_serializer(self) -> TypeSerializer:
        nested = self.nested_serializers
        try:
            return self.create_serializer(nested)
        except StateProcessorError:
            raise  # some of them are a ValueError
        except (TypeError, ValueError, LookupError) as problem:
            raise CorruptSnapshotError(
                f"{self.class_name}: can't make a serializer of {len(nested)} nested ones: {problem}"
            ) from None

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, CompositeTypeSerializerSnapshot)
        outer = self.resolve_outer(new)
        if outer.is_incompatible:
            return outer
        return SchemaCompatibility.worst(outer, worst_of_nested(self.nested, new.nested))


def worst_of_nested(old: Sequence[TypeSerializerSnapshot], new: Sequence[TypeSerializerSnapshot]) -> SchemaCompatibility:
    """Return the verdict on nested serializers, whose number must be equal (Flink: ``CompositeTypeSerializerUtil``)."""
    if len(old) != len(new):
        return SchemaCompatibility.incompatible(f"{len(old)} nested serializers were written, {len(new)} are required")
    return SchemaCompatibility.worst(*(o.resolve_schema_compatibility(n) for o, n in zip(old, new, strict=True)))


def read_nested_snapshots(source: DataInput) -> tuple[TypeSerializerSnapshot, ...]:
    """Read the block of nested snapshots (Flink: ``NestedSerializersSnapshotDelegate``)."""
    start = source.position
    magic, version = source.read_int(), source.read_int()
    if magic != NESTED_MAGIC:
        raise source.corrupt(f"nested snapshots (magic {NESTED_MAGIC}) expected, found {magic}", start)
    NESTED_SNAPSHOTS.check(version, source.source, start, source.flink_major, UnknownSerializerError)
    return tuple(source.read_list("nested snapshots", read_versioned_snapshot, 6))


def write_nested_snapshots(nested: Sequence[TypeSerializerSnapshot], target: DataOutput) -> None:
    """Write the block that :func:`read_nested_snapshots` reads."""
    target.write_int(NESTED_MAGIC)
    target.write_int(1)
    target.write_int(len(nested))
    for snapshot in nested:
        write_versioned_snapshot(snapshot, target)


def read_versioned_snapshot(source: DataInput) -> TypeSerializerSnapshot:
    """Read class name, version and payload of a snapshot (Flink: ``TypeSerializerSnapshot.readVersionedSnapshot``)."""
    start = source.position
    class_name, version = source.read_utf(), source.read_int()
    with source.nested("serializer snapshots"):
        reader = find_snapshot_class(class_name, version, source, start)
        if not is_foreign(reader if isinstance(reader, type) else type(reader)):
            snapshot: TypeSerializerSnapshot = reader.read(class_name, version, source)
            return snapshot
        return _read_foreign(reader, class_name, version, source)


def _read_foreign(reader: SnapshotReader, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
    """Read a snapshot with a user class; an error of that class makes the snapshot an unknown one."""
    start = source.position
    context = f"{source.source}, offset {start}: serializer snapshot {class_name}"
    culprit = qualified_name(reader if isinstance(reader, type) else type(reader)) + ".read"
    try:
        snapshot = reader.read(class_name, version, source)
    except StateProcessorError:
        raise
    except Exception as error:
        raise UnknownSerializerError(message_of(context, culprit, error)) from error
    if not isinstance(snapshot, TypeSerializerSnapshot):
        type_error = TypeError(f"{type(snapshot).__name__} was returned, TypeSerializerSnapshot is expected")
        raise UnknownSerializerError(message_of(context, culprit, type_error)) from type_error
    return snapshot


def write_versioned_snapshot(snapshot: TypeSerializerSnapshot, target: DataOutput) -> None:
    """Write class name, version and payload of a snapshot."""
    target.write_utf(snapshot.class_name)
    target.write_int(snapshot.version)
    snapshot.write(target)
