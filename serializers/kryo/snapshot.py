"""The snapshot of ``KryoSerializer``: which classes are registered, and with what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.optional_map import OptionalEntry, read_optional_map, write_optional_map
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import register_snapshot

KRYO_SNAPSHOT: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
_SERIALIZERS: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$"
_AVRO_ARRAY: Final = "org.apache.avro.generic.GenericData$Array"
_BY_CLASS: Final = 1
_BY_INSTANCE: Final = 2
_STANDARD: Final = {f"com.esotericsoftware.kryo.serializers.{name}Serializer" for name in ("Field", "Collection", "Map")}

_flink_major: Final[ContextVar[int | None]] = ContextVar("flink_major", default=None)


@contextmanager
def written_by_flink(major: int | None) -> Iterator[None]:
    """Serializer snapshots that are read inside belong to a state that this major version of Flink wrote.

    ``_metadata`` of version 5 and later is Flink 2's. Without this the version of Kryo is deduced from each value, which works
    where a value fills its bytes.
    """
    token = _flink_major.set(major)
    try:
        yield
    finally:
        _flink_major.reset(token)


def flink_major() -> int | None:
    """What :func:`written_by_flink` says here."""
    return _flink_major.get()


class KryoSerializerSnapshot(TypeSerializerSnapshot):
    """Of :class:`KryoSerializer`: the class of the type, registrations and default serializers in their order, all by name.

    Parameters
    ----------
    type_class
        The class of the type.
    registrations, default_serializers, default_serializer_classes
        Frames as Flink wrote them; a missing value frame means that Flink could not load the class.
    """

    current_version = 2

    def __init__(
        self,
        class_name: str,
        version: int | None,
        type_class: str,
        registrations: tuple[OptionalEntry, ...],
        default_serializers: tuple[OptionalEntry, ...] = (),
        default_serializer_classes: tuple[OptionalEntry, ...] = (),
        flink: int | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.type_class = type_class
        self.registrations = registrations
        self.default_serializers = default_serializers
        self.default_serializer_classes = default_serializer_classes
        self.flink = flink

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> KryoSerializerSnapshot:
        if version != cls.current_version:
            raise UnsupportedFormatError(
                f"{source.source}, offset {source.position}: version {version} of {class_name} is not known, "
                f"only {cls.current_version}"
            )
        type_class = source.read_utf()
        maps = [read_optional_map(source) for _ in range(3)]
        return cls(class_name, version, type_class, maps[0], maps[1], maps[2], flink_major())

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)
        for entries in (self.registrations, self.default_serializers, self.default_serializer_classes):
            write_optional_map(entries, target)

    def restore_serializer(self) -> TypeSerializer:
        from state_processor.serializers.kryo.serializer import KryoSerializer

        return KryoSerializer(self.type_class, [r.name for r in self.registrations], flink=self.flink, snapshot=self)

    def custom_serializers(self) -> dict[str, str]:
        """The Kryo serializer of each class that the job gave one."""
        found = {}
        for entry in self.default_serializer_classes:
            if entry.value is not None:
                found[entry.name] = DataInput(entry.value).read_utf()
        found.update((e.name, "of the job's own") for e in self.default_serializers)
        for entry in self.registrations:
            if entry.value is not None and entry.name != _AVRO_ARRAY:
                value = DataInput(entry.value)
                value.read_utf()
                kind = value.read_int()
                if kind == _BY_CLASS:
                    found[entry.name] = value.read_utf()
                elif kind == _BY_INSTANCE:
                    found[entry.name] = "of the job's own"
        return {name: serializer for name, serializer in found.items() if serializer not in _STANDARD}

    @classmethod
    def of(cls, type_class: str, registered: Iterable[str] = ()) -> KryoSerializerSnapshot:
        """What Flink writes for a type with classes registered without a serializer, where Avro is not on its class path."""
        names = list(dict.fromkeys((type_class, *registered)))
        entries = [_registration(name, name) for name in names if name != _AVRO_ARRAY]
        entries.append(
            _registration(_AVRO_ARRAY, f"{_SERIALIZERS}DummyAvroRegisteredClass", f"{_SERIALIZERS}DummyAvroKryoSerializerClass")
        )
        return cls(KRYO_SNAPSHOT, None, type_class, tuple(entries))

    def resolve_schema_compatibility(self, new: TypeSerializer | TypeSerializerSnapshot) -> SchemaCompatibility:
        wanted = new.snapshot() if isinstance(new, TypeSerializer) else new
        if not isinstance(wanted, KryoSerializerSnapshot):
            return SchemaCompatibility.incompatible(f"KRYO<{self.type_class}> was written, {wanted.class_name} is wanted")
        if wanted.type_class != self.type_class:
            return SchemaCompatibility.incompatible(f"KRYO<{self.type_class}> was written, KRYO<{wanted.type_class}> is wanted")
        parts = [
            _merge(what, old, new_entries)
            for what, old, new_entries in (
                ("default serializer", self.default_serializers, wanted.default_serializers),
                ("default serializer class", self.default_serializer_classes, wanted.default_serializer_classes),
                ("registration", self.registrations, wanted.registrations),
            )
        ]
        return SchemaCompatibility.worst(*parts)


def _merge(what: str, old: tuple[OptionalEntry, ...], new: tuple[OptionalEntry, ...]) -> SchemaCompatibility:
    """Flink's ``LinkedOptionalMap.mergeRightIntoLeft``: old entries keep their places, new ones follow."""
    there = {e.name: e for e in new}
    for entry in old:
        merged = there.get(entry.name, entry)
        if merged.key is None or merged.value is None:
            return SchemaCompatibility.incompatible(
                f"the {what} of {entry.name} can't be loaded any more, and the job has no other"
            )
    ordered = [e.name for e in old] == [e.name for e in new][: len(old)]
    return SchemaCompatibility.compatible_as_is() if ordered else SchemaCompatibility.compatible_with_reconfigured_serializer()


def _registration(name: str, registered: str, serializer: str = "") -> OptionalEntry:
    key, value = DataOutput(), DataOutput()
    key.write_utf(name)
    value.write_utf(registered)
    value.write_int(1 if serializer else 0)
    if serializer:
        value.write_utf(serializer)
    return OptionalEntry(name, key.to_bytes(), value.to_bytes())


register_snapshot(KRYO_SNAPSHOT, KryoSerializerSnapshot)
