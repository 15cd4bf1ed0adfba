"""Serializers of Flink SQL's binary rows, arrays and maps (Flink: ``org.apache.flink.table.runtime.typeutils``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    LeafSerializer,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_nested_snapshots,
    worst_of_nested,
    write_nested_snapshots,
)
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.rows import ROW_KINDS
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.hashing import hash_words
from state_processor.serializers.java.object_input import JavaObject, read_java_object
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.runtime.wrapping import TtlSerializer, WrappingSerializer
from state_processor.serializers.table.binary_format import ArraySlot, BinaryValue, ContainerSlot, MapSlot, RowSlot, provide_slot
from state_processor.serializers.table.binary_slots import BytesSlot, SerializedSlot, Slot
from state_processor.serializers.table.logical_type_objects import (
    data_type_object,
    logical_type,
    serializer_object,
    type_object,
    type_of_data_type,
)
from state_processor.serializers.table.logical_types import (
    MAP_VIEW,
    ArrayType,
    DateType,
    LinkedListType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    StructuredType,
    TimestampType,
    TimeType,
    without_name_and_alias,
)
from state_processor.serializers.table.operator_records import LinkedListSerializer
from state_processor.serializers.table.single_values import TABLE, NullSerializer, RawValueDataSerializer, TimestampDataSerializer
from state_processor.serializers.table.type_descriptors import codecs_of
from state_processor.serializers.traversal import field_names
from state_processor.support.errors import OptionError
from state_processor.support.mappings import positions_of

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

ROW_SNAPSHOT: Final = f"{TABLE}RowDataSerializer$RowDataSerializerSnapshot"
ARRAY_SNAPSHOT: Final = f"{TABLE}ArrayDataSerializer$ArrayDataSerializerSnapshot"
EXTERNAL_SNAPSHOT: Final = f"{TABLE}ExternalSerializer$ExternalSerializerSnapshot"
MAP_SNAPSHOT: Final = f"{TABLE}MapDataSerializer$MapDataSerializerSnapshot"


class BinaryDataSerializer(LeafSerializer):
    """An int size, then a row, array or map in Flink's binary form. Python holds a :class:`BinaryValue`.

    Parameters
    ----------
    slot
        The layout of the bytes.
    written
        The snapshot that the serializer was restored from; the serializer keeps it.
    """

    def __init__(self, slot: ContainerSlot, written: TypeSerializerSnapshot | None = None) -> None:
        self.slot = slot
        self.min_size = 4 + slot.min_size
        self._written = written

    def __str__(self) -> str:
        return self.slot.type.summary

    def read(self, source: DataInput) -> BinaryValue:
        start = source.position
        size = source.read_int()
        if size < self.slot.min_size:
            raise source.corrupt(f"{size} bytes are too few for {self}, which needs {self.slot.min_size}", start)
        return self.slot.wrap(source.read_bytes(size, str(self)))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_count("bytes"), str(self))

    def write(self, value: Any, target: DataOutput) -> None:
        data = self.slot.encode(value)
        target.write_int(len(data))
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.slot.arrow_type(options)

    def to_column(self, value: BinaryValue, options: DecodeOptions) -> Any:
        return self.slot.to_column(value, options)

    def from_column(self, value: Any) -> BinaryValue:
        return self.slot.wrap(self.slot.encode(value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        self.slot.emit_framed(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        self.slot.emit_encode_framed(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._written if self._written is not None else self.new_snapshot()

    @abstractmethod
    def new_snapshot(self) -> TypeSerializerSnapshot:
        """Return the snapshot that Flink writes for a serializer of this type.

        Raises
        ------
        UnsupportedFormatError
            If it is of a user class, because Java objects of this class would be needed.
        """

    def hash_code(self, value: Any) -> int:
        return hash_words(self.slot.encode(value))


class RowDataSerializer(BinaryDataSerializer):
    """``RowData`` as a binary row (Flink: ``RowDataSerializer``; before 1.11 ``BaseRowSerializer``).

    Snapshots hold the names of the fields since Flink 2.4. Older ones give ``f0``, ``f1``, … unless the type has other names.
    """

    never_null = True
    slot: RowSlot

    def __init__(self, type_: RowType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(RowSlot(type_), written)

    def new_snapshot(self) -> TypeSerializerSnapshot:
        types = self.slot.type.types
        nested = [internal_serializer(t).snapshot() for t in types]
        return RowDataSerializerSnapshot(ROW_SNAPSHOT, list(map(type_object, types)), nested)

    def named_as(self, type_: LogicalType) -> RowDataSerializer:
        """Return the same serializer with the field names of a row type, if its fields have the same types.

        Names in the snapshot stay if the given names are generated (``f0``, ``f1``, …). They are replaced if they are generated
        themselves (``f0``, ``$f2``, ``EXPR$0``).

        Raises
        ------
        OptionError
            If the snapshot holds another name for a field.
        """
        own_type = self.slot.type
        if not isinstance(type_, RowType) or type_.types != own_type.types:
            return self
        stored = self._written.names if isinstance(self._written, RowDataSerializerSnapshot) else None
        if stored is not None:
            type_ = type_.renamed(_reconciled(RowType.of(*own_type.types).renamed(stored).names, type_.names))
        return self.retyped(type_)

    def retyped(self, type_: RowType) -> RowDataSerializer:
        """Return the same serializer for a type that differs from its own in names only."""
        return RowDataSerializer(type_, self._written)

    def key_from_column(self, value: Any) -> BinaryValue:
        return value if isinstance(value, BinaryValue) else self.row(value, reserve_nulls=True)

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        self.slot.emit_encode_key(builder, column)

    def row(self, fields: Any, kind: str = ROW_KINDS[0], *, reserve_nulls: bool = False) -> BinaryValue:
        """Return a row of these fields; see :meth:`RowSlot.build`."""
        return self.slot.wrap(self.slot.build(fields, kind, reserve_nulls=reserve_nulls))


def _reconciled(stored: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Combine the names of fields in a snapshot with names that a user or a plan gives."""
    reconciled = []
    for position, (old, new) in enumerate(zip(stored, names, strict=True)):
        if new != old and not _is_generated(old, position) and not _is_generated(new, position):
            raise OptionError(
                f"field {position} of a row is named {new!r}, and the snapshot names it {old!r}: it has {', '.join(stored)}; "
                "give these names, or none"
            )
        reconciled.append(old if _is_generated(new, position) else new)
    return tuple(reconciled)


def _is_generated(name: str, position: int) -> bool:
    """Check if Flink's planner made up the name of a field."""
    return name == f"f{position}" or name.startswith(("$", "EXPR$")) or "$o" in name


_NAMES_SINCE: Final = 4
_PARSED: Final[list[JavaObject]] = []
_MOST_PARSED: Final = 256
_LARGEST_PARSED: Final = 65536


def _type(source: DataInput) -> JavaObject:
    """Read a type. Snapshots store the same types many times, and parsing a Java object takes long."""
    for parsed in _PARSED:
        end = source.position + len(parsed.raw)
        if end <= source.end and source.data[source.position : end] == parsed.raw:
            source.position = end
            return parsed
    parsed = read_java_object(source)
    if len(_PARSED) < _MOST_PARSED and len(parsed.raw) <= _LARGEST_PARSED:
        _PARSED.append(parsed)
    return parsed


class RowDataSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`RowDataSerializer`: the types of the fields, as Java objects, and snapshots of their serializers.

    In version 4 (Flink 2.4) the names of the fields follow, or a flag that names are missing. New snapshots have version 3, which
    Flink 2.4 can read too.
    """

    current_version = 3

    def __init__(
        self,
        class_name: str,
        types: Sequence[JavaObject],
        nested: Sequence[TypeSerializerSnapshot],
        version: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.types = tuple(types)
        self.nested = tuple(nested)
        self.names = None if names is None else tuple(names)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> RowDataSerializerSnapshot:
        types = source.read_list("field types", _type)
        nested = read_nested_snapshots(source)
        named = version >= _NAMES_SINCE and source.read_boolean()
        return cls(class_name, types, nested, version, [source.read_utf() for _ in types] if named else None)

    def write(self, target: DataOutput) -> None:
        target.write_int(len(self.types))
        target.write_bytes(b"".join(type_.raw for type_ in self.types))
        write_nested_snapshots(self.nested, target)
        if self.version >= _NAMES_SINCE:
            target.write_boolean(self.names is not None)
            for name in self.names or ():
                target.write_utf(name)

    @property
    def named_children(self) -> Sequence[tuple[str, TypeSerializerSnapshot]]:
        return tuple(zip(field_names(len(self.nested)), self.nested, strict=True))

    def with_children(self, children: Sequence[TypeSerializerSnapshot]) -> RowDataSerializerSnapshot:
        return RowDataSerializerSnapshot(self.class_name, self.types, children, self.version, self.names)

    @property
    def logical_types(self) -> tuple[LogicalType, ...]:
        """The types of the fields."""
        return tuple(logical_type(t.content) for t in self.types)

    def restore_serializer(self) -> TypeSerializer:
        type_ = RowType.of(*self.logical_types)
        return RowDataSerializer(type_ if self.names is None else type_.renamed(self.names), self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, RowDataSerializerSnapshot)
        old_types, new_types = self.logical_types, new.logical_types
        if len(old_types) != len(new_types):
            counts = f"a row of {len(old_types)} fields was written, one of {len(new_types)} is required"
            return SchemaCompatibility.incompatible(counts)
        for i, (old, new_type) in enumerate(zip(old_types, new_types, strict=True)):
            if old != new_type:
                return SchemaCompatibility.incompatible(f"field {i} was written as {old}, {new_type} is required")
        return worst_of_nested(self.nested, new.nested)


class ArrayDataSerializer(BinaryDataSerializer):
    """``ArrayData`` as a binary array (Flink: ``ArrayDataSerializer``; before 1.11 ``BaseArraySerializer``)."""

    def __init__(self, type_: ArrayType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(ArraySlot(type_), written)

    def new_snapshot(self) -> TypeSerializerSnapshot:
        assert isinstance(self.slot.type, ArrayType)
        element = self.slot.type.element
        return ArrayDataSerializerSnapshot(ARRAY_SNAPSHOT, [type_object(element), serializer_object(element)])


class MapDataSerializer(BinaryDataSerializer):
    """``MapData`` as a binary map (Flink: ``MapDataSerializer``; before 1.11 ``BaseMapSerializer``). Multisets are maps, too."""

    def __init__(self, type_: MapType | MultisetType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(MapSlot(type_.as_map if isinstance(type_, MultisetType) else type_), written)

    def new_snapshot(self) -> TypeSerializerSnapshot:
        assert isinstance(self.slot.type, MapType)
        sides = (self.slot.type.key, self.slot.type.value)
        return MapDataSerializerSnapshot(MAP_SNAPSHOT, [*map(type_object, sides), *map(serializer_object, sides)])


class JavaObjectsSnapshot(TypeSerializerSnapshot):
    """A snapshot that contains only Java objects: a number of types, then the same number of serializers.

    The serializers are carried along; the types alone describe the bytes.
    """

    current_version = 3
    type_count: ClassVar[int] = 1

    def __init__(self, class_name: str, objects: Sequence[JavaObject], version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.objects = tuple(objects)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> JavaObjectsSnapshot:
        return cls(class_name, [_type(source) for _ in range(2 * cls.type_count)], version)

    def write(self, target: DataOutput) -> None:
        target.write_bytes(b"".join(written.raw for written in self.objects))

    @property
    def logical_types(self) -> tuple[LogicalType, ...]:
        """The types: the type of the elements, or the types of keys and values."""
        return tuple(logical_type(o.content) for o in self.objects[: self.type_count])

    def restore_serializer(self) -> TypeSerializer:
        return self.create_serializer(*self.logical_types)

    def create_serializer(self, *types: Any) -> TypeSerializer:
        """Return the serializer for these types."""
        raise NotImplementedError

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, JavaObjectsSnapshot)
        for old, new_type in zip(self.logical_types, new.logical_types, strict=True):
            if old != new_type:
                return SchemaCompatibility.incompatible(f"{old} was written, {new_type} is required")
        for old_object, new_object in zip(self.objects, new.objects, strict=True):
            if old_object.class_name != new_object.class_name:
                names = f"{old_object.class_name} was written, {new_object.class_name} is required"
                return SchemaCompatibility.incompatible(names)
        return SchemaCompatibility.compatible_as_is()


class ArrayDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`ArrayDataSerializer`."""

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return ArrayDataSerializer(ArrayType(*types), self)


class MapDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`MapDataSerializer`."""

    type_count = 2

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return MapDataSerializer(MapType(*types), self)


class ExternalSerializer(WrappingSerializer):
    """Values of a ``DataType``, written in internal form (Flink: ``ExternalSerializer``)."""

    is_declared = True


class ExternalSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`ExternalSerializer`.

    The data type adds the names of fields, whether a timestamp has a zone, and whether an int is a day or a time of day.
    """

    data_type: JavaObject
    internal_input: bool

    def read_outer(self, source: DataInput) -> None:
        self.data_type = read_java_object(source)
        self.internal_input = source.read_boolean()

    def write_outer(self, target: DataOutput) -> None:
        target.write_bytes(self.data_type.raw)
        target.write_boolean(self.internal_input)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        inner, type_ = nested[0], type_of_data_type(self.data_type.content)
        if isinstance(inner, RowDataSerializer):
            inner = inner.named_as(type_)
        elif isinstance(inner, TimestampDataSerializer) and isinstance(type_, TimestampType):
            inner = inner.shown_as(type_)
        elif isinstance(type_, DateType | TimeType) and isinstance(inner, NumberSerializer):
            inner = internal_serializer(type_)
        return ExternalSerializer(inner, lambda _: self)


def external_serializer(type_: LogicalType) -> TypeSerializer:
    """Return the serializer of values in Flink's internal form, with their data type (Flink: ``ExternalSerializer.of``)."""
    inner = internal_serializer(type_)
    snapshot = ExternalSerializerSnapshot(EXTERNAL_SNAPSHOT, [inner.snapshot()])
    snapshot.data_type, snapshot.internal_input = data_type_object(type_), False
    return ExternalSerializer(inner, lambda _: snapshot)


_CONTAINERS: Final[dict[type, Callable[[Any], TypeSerializer]]] = {
    ArrayType: ArrayDataSerializer,
    MapType: MapDataSerializer,
    RowType: RowDataSerializer,
}
"""Serializers of types with nested types. Other types have theirs in their descriptor."""


def internal_serializer(type_: LogicalType) -> TypeSerializer:
    """Return the serializer of Flink SQL for values of a type (Flink: ``InternalSerializers.create``)."""
    held = without_name_and_alias(type_)
    if replace(held, nullable=True) == MAP_VIEW:
        return RawValueDataSerializer(NullSerializer())
    make = _CONTAINERS.get(type(held)) or codecs_of(held).serializer
    return make(held)


def _list_slot(type_: LinkedListType) -> Slot:
    if type_.has_null_mask is None:
        return BytesSlot(type_)
    elements = internal_serializer(type_.element)
    return SerializedSlot(type_, LinkedListSerializer(elements, has_null_mask=type_.has_null_mask))


provide_slot(LinkedListType, _list_slot)

provide_snapshots((ROW_SNAPSHOT, f"{TABLE}BaseRowSerializer$BaseRowSerializerSnapshot"), RowDataSerializerSnapshot)
provide_snapshots((ARRAY_SNAPSHOT, f"{TABLE}BaseArraySerializer$BaseArraySerializerSnapshot"), ArrayDataSerializerSnapshot)
provide_snapshots((MAP_SNAPSHOT, f"{TABLE}BaseMapSerializer$BaseMapSerializerSnapshot"), MapDataSerializerSnapshot)
provide_snapshots((EXTERNAL_SNAPSHOT,), ExternalSerializerSnapshot)


def resolve_by_name(written: TypeSerializer, required: TypeSerializer) -> SchemaCompatibility | None:
    """Return the verdict on the value of a state whose rows may evolve by name; ``None`` if it is not a row.

    ``written``: the serializer of the state's value, of a list's elements or of a map's values. ``required``: the serializer that
    the new job declares, with the names of its fields.
    """
    old = written.value if isinstance(written, TtlSerializer) else written
    new = required.value if isinstance(required, TtlSerializer) else required
    if not isinstance(old, RowDataSerializer) or not isinstance(new, RowDataSerializer):
        return None
    snapshot = old.snapshot()
    assert isinstance(snapshot, RowDataSerializerSnapshot)
    verdict = _resolve(snapshot, new.slot.type)
    gets_ttl = isinstance(required, TtlSerializer) and not isinstance(written, TtlSerializer)
    if gets_ttl and not verdict.is_incompatible:
        return SchemaCompatibility.compatible_after_migration()
    return verdict


def _resolve(old: RowDataSerializerSnapshot, new: RowType) -> SchemaCompatibility:
    new_snapshots = RowDataSerializer(new).new_snapshot()
    assert isinstance(new_snapshots, RowDataSerializerSnapshot)
    nameless = isinstance(new, StructuredType)
    agree = nameless or old.names is None or old.names == new.names
    if old.logical_types == new.types and agree:
        return worst_of_nested(old.nested, new_snapshots.nested)
    if nameless:
        return SchemaCompatibility.incompatible(f"{new} is of a user class; Flink does not match its fields by name")
    matched = _by_position(old, new) if old.names is None else _by_name(old.names, old, new)
    if isinstance(matched, str):
        return SchemaCompatibility.incompatible(matched)
    verdicts = []
    for position, place in enumerate(matched):
        verdicts.append(_nested(old.nested[position], new_snapshots.nested[place], new.types[place]))
    worst = SchemaCompatibility.worst(*verdicts)
    return worst if worst.is_incompatible else SchemaCompatibility.compatible_after_migration()


def _nested(old: TypeSerializerSnapshot, new: TypeSerializerSnapshot, type_: LogicalType) -> SchemaCompatibility:
    if isinstance(old, RowDataSerializerSnapshot) and _is_row(type_):
        assert isinstance(type_, RowType)
        return _resolve(old, type_)
    return old.resolve_schema_compatibility(new)


def _by_name(names: Sequence[str], old: RowDataSerializerSnapshot, new: RowType) -> list[int] | str:
    """Return the position of each written field in the new row, or why Flink refuses it."""
    places = positions_of(new.names)
    for name, type_ in zip(new.names, new.types, strict=True):
        if name not in names and not type_.nullable:
            return f"field {name!r} is new and must not be null ({type_}); new fields have to be nullable"
    for name, type_ in zip(names, old.logical_types, strict=True):
        if name not in places:
            return f"field {name!r} was written, but the new row lacks it: {new}"
        if problem := _retyped(f"field {name!r}", type_, new.types[places[name]]):
            return problem
    return [places[name] for name in names]


def _by_position(old: RowDataSerializerSnapshot, new: RowType) -> list[int] | str:
    """Match fields of a row that was written without names: the new row may only have additional fields at its end."""
    count = len(old.types)
    if len(new.types) < count:
        return f"a row of {count} fields without names was written, one of {len(new.types)} is required"
    for position, type_ in enumerate(old.logical_types):
        if problem := _retyped(f"field {position}, written without a name,", type_, new.types[position]):
            return problem
    for name, type_ in zip(new.names[count:], new.types[count:], strict=True):
        if not type_.nullable:
            return f"field {name!r} is new and must not be null ({type_}); new fields have to be nullable"
    return list(range(count))


def _retyped(field: str, old: LogicalType, new: LogicalType) -> str:
    if old == new or (_is_row(old) and _is_row(new)):
        return ""
    return f"{field} was written as {old}, {new} is required"


def _is_row(type_: LogicalType) -> bool:
    return isinstance(type_, RowType) and not isinstance(type_, StructuredType)
