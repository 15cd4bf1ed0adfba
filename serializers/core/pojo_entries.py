"""Values and fields of POJOs, what users register about them, and the fields and subclasses in snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.collections import NullFlagged
from state_processor.serializers.core.optional_map import (
    OptionalEntry,
    iterate_optional_map,
    read_framed_snapshot,
    snapshot_frame,
)
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.user_registrations import current_registrations, register
from state_processor.support.errors import StateProcessorError


class PojoValue(dict[str, Any]):
    """A POJO: its fields by name, in the order of its serializer, and the Java class of the value."""

    __slots__ = ("class_name",)

    def __init__(self, class_name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.class_name = class_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PojoValue) and other.class_name == self.class_name and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PojoValue({self.class_name!r}, {dict(self)!r})"


Part_co = TypeVar("Part_co", bound=Codec, covariant=True)


@dataclass(frozen=True)
class PojoField(Generic[Part_co]):
    """Field: its name, the serializer or codec of its values, and the class that declares it.

    ``declaring_class`` is ``None`` if the class no longer had such a field when the snapshot was written.
    """

    name: str
    serializer: Part_co
    declaring_class: str | None = None

    @property
    def flagged(self) -> NullFlagged[Codec]:
        """The codec of the field's bytes, which begin with a null flag."""
        return NullFlagged(self.serializer)

    def is_primitive(self, class_name: str) -> bool | None:
        """Return whether it is of a primitive type, in values of a class; ``None`` if this was not registered."""
        registered = current_registrations().primitive_fields
        registered_fields = (registered.get(owner) for owner in (class_name, self.declaring_class) if owner is not None)
        return next((self.name in fields for fields in registered_fields if fields is not None), None)


def register_pojo_class(class_name: str, fields: Mapping[str, TypeSerializer], parent: str) -> None:
    """Describe a subclass of a POJO that snapshots omit.

    Flink adds an unregistered subclass to a snapshot only after it has serialized such a value. The heap backend serializes
    values while it takes the snapshot, after it has written the header.

    Parameters
    ----------
    class_name
        The Java class name in the values.
    fields
        Name and serializer of each field that ``parent`` lacks. A field that ``parent`` also has is refused when a state of that
        class is read or written.
    parent
        The class that the state was declared with. Columns of its values then have a field ``_class``; structs to write may omit
        ``_class`` and the fields of subclasses.

    Raises
    ------
    OptionError
        If ``parent`` was described as a subclass of ``class_name``.
    """
    register(lambda registered: registered.with_pojo_subclass(parent, class_name, fields))


def register_primitive_fields(class_name: str, fields: Iterable[str]) -> None:
    """Register the fields of a POJO that are of primitive types; snapshots do not distinguish ``int`` from ``Integer``.

    A null in such a field is refused on writing, because Flink would fail to restore it. All other numbers of the class count as
    boxed: if they are new fields of an evolved state, they are null, as in Flink, and not 0.

    Parameters
    ----------
    class_name
        The Java class: the class of the values, or the class that declares the fields.
    fields
        The names of all its primitive fields.
    """
    names = frozenset(fields)
    register(lambda registered: registered.with_primitive_fields(class_name, names))


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
        new_subclass = new.get(subclass.class_name)
        if new_subclass is not None and subclass.snapshot is not None:
            yield _nested_verdict(f"registered subclass {subclass.class_name}", subclass.snapshot, new_subclass)


def _nested_verdict(subject: str, written: TypeSerializerSnapshot, new: TypeSerializerSnapshot) -> SchemaCompatibility:
    verdict = written.resolve_schema_compatibility(new)
    if verdict.is_incompatible:
        names = f"{_type_name(written)} was written, {_type_name(new)} is required"
        inside = f" ({verdict.reason})" if written.class_name == new.class_name else ""
        return SchemaCompatibility.incompatible(f"{subject}: {names}{inside}")
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
