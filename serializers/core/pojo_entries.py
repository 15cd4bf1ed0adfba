"""Fields and subclasses in the snapshot of a POJO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from state_processor.serializers.base import TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.optional_map import (
    OptionalEntry,
    iterate_optional_map,
    read_framed_snapshot,
    snapshot_frame,
)
from state_processor.serializers.errors import StateProcessorError
from state_processor.serializers.io import DataInput, DataOutput


@dataclass(frozen=True)
class PojoFieldSnapshot:
    """A field in a snapshot; it lacks a declaring class if the key's frame is missing."""

    name: str
    declaring_class: str | None
    snapshot: TypeSerializerSnapshot | None
    declared_name: str | None = None

    def is_in(self, fields: Sequence[PojoFieldSnapshot]) -> bool:
        """Check if one of several fields with a snapshot is the same field of the same class."""
        return any((f.declaring_class, f.name) == (self.declaring_class, self.name) and f.snapshot is not None for f in fields)

    def to_entry(self) -> OptionalEntry:
        """Return the entry of the optional map."""
        key = None
        if self.declaring_class is not None:
            target = DataOutput()
            target.write_utf(self.declaring_class)
            target.write_utf(self.name if self.declared_name is None else self.declared_name)
            key = target.to_bytes()
        return OptionalEntry(self.name, key, snapshot_frame(self.snapshot))


@dataclass(frozen=True)
class SubclassSnapshot:
    """A subclass in a snapshot: whether its class was present, and its serializer snapshot."""

    class_name: str
    present: bool
    snapshot: TypeSerializerSnapshot | None

    @property
    def is_absent(self) -> bool:
        """Whether Flink could not load the class or the serializer when it wrote the snapshot."""
        return not self.present or self.snapshot is None

    def to_entry(self) -> OptionalEntry:
        """Return the entry of the optional map."""
        return OptionalEntry(self.class_name, b"" if self.present else None, snapshot_frame(self.snapshot))


def field_verdicts(
    pojo_class: str, written_fields: Sequence[PojoFieldSnapshot], new_fields: Sequence[PojoFieldSnapshot]
) -> Iterator[SchemaCompatibility]:
    """Yield the verdicts on the fields of a class."""
    written = {f.name: f.snapshot for f in written_fields if f.declaring_class is not None and f.snapshot is not None}
    new = {f.name: f.snapshot for f in new_fields if f.snapshot is not None}
    if len(written) < len(written_fields) or written.keys() != new.keys():
        yield SchemaCompatibility.compatible_after_migration()
    for name in written.keys() & new.keys():
        yield _nested_verdict(f"field {name!r} of {pojo_class}", written[name], new[name])


def subclass_verdicts(
    registered: Sequence[SubclassSnapshot], unregistered: Sequence[SubclassSnapshot], new_registered: Sequence[SubclassSnapshot]
) -> Iterator[SchemaCompatibility]:
    """Yield the verdicts on the subclasses of a class: on their order, and on subclasses that both snapshots have registered."""
    new = {s.class_name: s.snapshot for s in new_registered}
    if [s.class_name for s in registered] != [s.class_name for s in new_registered[: len(registered)]] or unregistered:
        yield SchemaCompatibility.compatible_with_reconfigured_serializer()
    for subclass in registered:
        other = new.get(subclass.class_name)
        if other is not None and subclass.snapshot is not None:
            yield _nested_verdict(f"registered subclass {subclass.class_name}", subclass.snapshot, other)


def _nested_verdict(what: str, written: TypeSerializerSnapshot, wanted: TypeSerializerSnapshot) -> SchemaCompatibility:
    verdict = written.resolve_schema_compatibility(wanted)
    if verdict.is_incompatible:
        names = f"{_type_name(written)} was written, {_type_name(wanted)} is required"
        inside = f" ({verdict.reason})" if written.class_name == wanted.class_name else ""
        return SchemaCompatibility.incompatible(f"{what}: {names}{inside}")
    return verdict


def _type_name(snapshot: TypeSerializerSnapshot) -> str:
    try:
        return str(snapshot.restore_serializer())
    except StateProcessorError:
        return snapshot.class_name


def read_fields(source: DataInput) -> list[PojoFieldSnapshot]:
    """Read the fields of a snapshot."""
    fields = []
    for name, key, value in iterate_optional_map(source):
        declaring_class = declared_name = None
        if key is not None:
            declaring_class, declared_name = key.read_utf(), key.read_utf()
        fields.append(
            PojoFieldSnapshot(
                name,
                declaring_class,
                None if value is None else read_framed_snapshot(value),
                None if declared_name == name else declared_name,
            )
        )
    return fields


def read_subclasses(source: DataInput) -> list[SubclassSnapshot]:
    """Read the registered or the unregistered subclasses of a snapshot."""
    return [
        SubclassSnapshot(name, key is not None, None if value is None else read_framed_snapshot(value))
        for name, key, value in iterate_optional_map(source)
    ]
