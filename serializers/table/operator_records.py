"""Collections and small records that operators of Flink SQL store in addition to rows, and the order of sorted maps.

Comparators of rows are Java objects (Flink: ``ComparableRecordComparator``). Flink compares the columns of two comparators, not
their code. It runs the code of the snapshot while it restores the map into a heap. The code is Java text; Flink compiles it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_nested_snapshots,
    read_versioned_snapshot,
    register_simple,
    worst_of_nested,
    write_nested_snapshots,
    write_versioned_snapshot,
)
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListCodec, MapSerializer, NullFlagged
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.templates import (
    FieldsCodec,
    NestedDelegatingSerializer,
    SignFlippedLongSerializer,
    register_nested,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.object_input import JavaInstance, JavaObject, read_java_object
from state_processor.serializers.java.object_output import JavaArray, JavaClassDescription, JavaText, write_java_object
from state_processor.serializers.kernel.opcodes import COUNTED, Op
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.runtime.wrapping import WrappingSerializer
from state_processor.serializers.table.logical_type_objects import CLASSES, type_instance
from state_processor.serializers.table.logical_types import (
    PACKAGE,
    AtomicType,
    DateType,
    DecimalType,
    LogicalType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.single_values import DATA_VIEW, TABLE
from state_processor.serializers.table.type_descriptors import codecs_of
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.mappings import index_by_name

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

LINKED_LIST_SNAPSHOT: Final = f"{TABLE}LinkedListSerializer$LinkedListSerializerSnapshot"
_NULL_MASK_SINCE: Final = 2
_NULL_MASK_OPTIONAL_SINCE: Final = 3


class LinkedListSerializer(ListCodec, TypeSerializer):
    """``LinkedList``: a count, a bit mask of null elements, the other elements (Flink: ``LinkedListSerializer``).

    ``has_null_mask``: whether the mask is present; Flink 1.13 and earlier wrote no mask. ``outer_version``: version of the
    snapshot, if an older Flink wrote it.
    """

    element: TypeSerializer

    def __init__(
        self, element: TypeSerializer, *, has_null_mask: bool = True, outer_version: int = _NULL_MASK_OPTIONAL_SINCE
    ) -> None:
        super().__init__(element)
        self.has_null_mask = has_null_mask
        self._outer_version = outer_version

    def _nulls(self, source: DataInput) -> list[bool]:
        if not self.has_null_mask:
            return [False] * source.read_count("list elements", self.element.min_size)
        start, count = source.position, source.read_int()
        if count < 0:
            raise source.corrupt(f"{count} list elements announced", start)
        mask = source.read_bytes((count + 7) // 8, "bit mask of a list")
        return [bool(mask[i >> 3] & 0x80 >> (i & 7)) for i in range(count)]

    def read(self, source: DataInput) -> list[Any]:
        return [None if null else self.element.read(source) for null in self._nulls(source)]

    def skip(self, source: DataInput) -> None:
        for null in self._nulls(source):
            if not null:
                self.element.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        target.write_int(len(value))
        if self.has_null_mask:
            mask = bytearray((len(value) + 7) // 8)
            for i, element in enumerate(value):
                mask[i >> 3] |= (element is None) * (0x80 >> (i & 7))
            target.write_bytes(mask)
        for element in value:
            if element is not None:
                self.element.write(element, target)

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> list[Any]:
        return [None if v is None else self.element.to_column(v, options) for v in value]

    def from_column(self, value: Sequence[Any]) -> list[Any]:
        return [None if v is None else self.element.from_column(v) for v in value]

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        child = column.child(0)
        if not self.has_null_mask:
            with builder.counted(column, min_size=self.element.min_size):
                self.element.emit_decode(builder, child)
            return
        registers = builder.registers(3)
        with (
            builder.loop(Op.MASKED, Op.MASKED_NEXT, column, registers=registers, child=child),
            builder.unless(Op.MASKED_NULL, child, registers=registers, nulls=child),
        ):
            self.element.emit_decode(builder, child)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        child = column.child(0)
        with builder.elements(column, COUNTED, nulls_of=child if self.has_null_mask else None), builder.field("element"):
            if self.has_null_mask:
                with builder.unless(Op.SKIP_NULL, child):
                    self.element.emit_encode(builder, child)
            else:
                builder.op(Op.REQUIRE, child)
                self.element.emit_encode(builder, child)

    def snapshot(self) -> TypeSerializerSnapshot:
        snapshot = LinkedListSerializerSnapshot(
            LINKED_LIST_SNAPSHOT, [self.element.snapshot()], outer_version=self._outer_version
        )
        snapshot.has_null_mask = self.has_null_mask
        return snapshot

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units((0 if v is None else self.element.hash_code(v) for v in value), start=1)


class LinkedListSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`LinkedListSerializer`."""

    current_outer_version = _NULL_MASK_OPTIONAL_SINCE
    has_null_mask = True

    def read_outer(self, source: DataInput) -> None:
        self.has_null_mask = self.outer_version >= _NULL_MASK_SINCE
        if self.outer_version >= _NULL_MASK_OPTIONAL_SINCE:
            self.has_null_mask = source.read_boolean()

    def write_outer(self, target: DataOutput) -> None:
        if self.outer_version >= _NULL_MASK_OPTIONAL_SINCE:
            target.write_boolean(self.has_null_mask)

    def resolve_outer(self, new: Any) -> SchemaCompatibility:
        if self.has_null_mask != new.has_null_mask:
            return SchemaCompatibility.compatible_after_migration()
        return SchemaCompatibility.compatible_as_is()

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return LinkedListSerializer(nested[0], has_null_mask=self.has_null_mask, outer_version=self.outer_version)


provide_snapshots((LINKED_LIST_SNAPSHOT,), LinkedListSerializerSnapshot)


MULTISET: Final = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."
SORTED_LONG_SNAPSHOT: Final = "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot"
_LONG: Final = NumberSerializer("LONG")


class DataViewSerializer(NestedDelegatingSerializer):
    """A data view of an accumulator, encoded as the list or map inside."""

    content: TypeSerializer

    def __init__(self, content: TypeSerializer) -> None:
        super().__init__(content, content)

    def __str__(self) -> str:
        return str(self.content)

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)


class ListViewSerializer(DataViewSerializer):
    """``ListView`` of an accumulator: a list."""

    snapshot_class = f"{DATA_VIEW}ListViewSerializerSnapshot"


class MapViewSerializer(DataViewSerializer):
    """``MapView`` of an accumulator: a map."""

    snapshot_class = f"{DATA_VIEW}MapViewSerializerSnapshot"


class NullAwareMapSerializer(NestedDelegatingSerializer):
    """A map with null keys allowed: a count, then null flag and key, null flag and value (Flink: ``NullAwareMapSerializer``).

    Spark's maps can't have null keys, so a column is an array of structs with ``key`` and ``value``.
    """

    snapshot_class = f"{DATA_VIEW}NullAwareMapSerializerSnapshot"
    nested_count = 2

    def __init__(self, key: TypeSerializer, value: TypeSerializer) -> None:
        self.key, self.value = NullFlagged(key), NullFlagged(value)
        super().__init__(ListCodec(FieldsCodec(_pair, {"key": self.key, "value": self.value})), key, value)

    def __str__(self) -> str:
        return f"MAP<{self.key},{self.value}>"

    def from_column(self, value: Any) -> Any:
        pairs = value.items() if isinstance(value, Mapping) else value
        return super().from_column([p if isinstance(p, Mapping) else dict(zip(("key", "value"), p, strict=True)) for p in pairs])

    def hash_code(self, value: Sequence[tuple[Any, Any]]) -> int:
        return hashing.wrap(sum(self.key.hash_code(k) ^ self.value.hash_code(v) for k, v in value))


def _pair(*parts: Any) -> tuple[Any, ...]:
    return parts


class SortedMapSerializer(MapSerializer):
    """``SortedMap``: encoded as a map, in the order of the snapshot's comparator (Flink: ``SortedMapSerializer``)."""

    def __init__(self, key: TypeSerializer, value: TypeSerializer, written: SortedMapSerializerSnapshot) -> None:
        super().__init__(key, value)
        self._written = written

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._written


class SortedMapSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`SortedMapSerializer`: the comparator as a Java object, snapshots of key and value."""

    def __init__(
        self, class_name: str, comparator: JavaObject, nested: Sequence[TypeSerializerSnapshot], version: int | None = None
    ) -> None:
        super().__init__(class_name, version)
        self.comparator = comparator
        self.nested = tuple(nested)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> SortedMapSerializerSnapshot:
        comparator, nested = read_java_object(source), read_nested_snapshots(source)
        if len(nested) != 2:
            raise source.corrupt(f"snapshots of key and value of a sorted map expected, found {len(nested)}")
        return cls(class_name, comparator, nested, version)

    def write(self, target: DataOutput) -> None:
        target.write_bytes(self.comparator.raw)
        write_nested_snapshots(self.nested, target)

    def restore_serializer(self) -> TypeSerializer:
        key, value = self.nested
        return SortedMapSerializer(key.restore_serializer(), value.restore_serializer(), self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, SortedMapSerializerSnapshot)
        if _order(self.comparator.content) != _order(new.comparator.content):
            return SchemaCompatibility.incompatible(f"the order of the comparator {self.comparator.class_name} has changed")
        return worst_of_nested(self.nested, new.nested)


def sorted_map(key: TypeSerializer, value: TypeSerializer, order: Sequence[OrderedField]) -> SortedMapSerializer:
    """Return the serializer of a map whose keys are rows in an order of all their fields."""
    nested = [key.snapshot(), value.snapshot()]
    written = SortedMapSerializerSnapshot(f"{TABLE}SortedMapSerializerSnapshot", comparator_object(order), nested)
    return SortedMapSerializer(key, value, written)


_GENERATED_FIELD: Final = "generatedRecordComparator"
"""Generated from the comparator's other fields, with another class name in every job."""


def _order(content: Any) -> Any:
    """Return the values that a comparator compares, in a comparable form."""
    if isinstance(content, JavaInstance):
        fields = {name: _order(value) for name, value in content.fields.items() if name != _GENERATED_FIELD}
        return content.class_name, fields, list(map(_order, content.annotations))
    return list(map(_order, content)) if isinstance(content, list) else content


class WindowKey(NamedTuple):
    """The window and the key of buffered records."""

    window: int
    key: Any


class WindowKeySerializer(NestedDelegatingSerializer):
    """:class:`WindowKey`: the window as a long, the key (Flink: ``WindowKeySerializer``)."""

    snapshot_class = f"{TABLE}WindowKeySerializer$WindowKeySerializerSnapshot"

    def __init__(self, key: TypeSerializer) -> None:
        super().__init__(FieldsCodec(WindowKey, {"window": _LONG, "key": key}), key)
        self.key = key
        self.length = VARIABLE

    def __str__(self) -> str:
        return f"WINDOW_KEY<{self.key}>"

    def hash_code(self, value: WindowKey) -> int:
        return hashing.of_units((hashing.of_long(value.window), self.key.hash_code(value.key)))


class SortedLongSerializer(SignFlippedLongSerializer):
    """A long whose bytes sort like its values (since 2.3)."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_class = SORTED_LONG_SNAPSHOT


# The sequenced multiset of sinks that keep changes in order (since 2.2)


class SequencedRow(NamedTuple):
    """A row of a sequenced multiset, and its neighbours by sequence number."""

    row: Any
    sequence: int
    previous: int | None
    next: int | None
    next_for_record: int | None
    timestamp: int


class NodeSerializer(NestedDelegatingSerializer):
    """:class:`SequencedRow`: its six fields one after the other.

    ``pointers``: the serializers of the other fields, if known from a snapshot; their types are fixed.
    """

    snapshot_class = f"{MULTISET}NodeSerializer$NodeSerializerSnapshot"
    outer_version = 0
    nested_count = 6

    def __init__(self, row: TypeSerializer, *pointers: TypeSerializer) -> None:
        optional = NullableSerializer(_LONG, padding=8)
        nested = (row, *(pointers or (_LONG, optional, optional, optional, _LONG)))
        super().__init__(FieldsCodec(SequencedRow, dict(zip(SequencedRow._fields, nested, strict=True))), *nested)

    def __str__(self) -> str:
        return f"NODE<{self.nested[0]}>"


class RowSequence(NamedTuple):
    """Sequence numbers of the first and the last occurrence of a row (Flink: ``RowSqnInfo``)."""

    first: int
    last: int


class MultisetInfo(NamedTuple):
    """Highest sequence number and size of a sequenced multiset (Flink: ``MetaSqnInfo``)."""

    highest: int
    size: int


class TwoLongsSerializer(NestedDelegatingSerializer):
    """A named tuple of two longs; the snapshot holds their serializers."""

    outer_version = 0
    nested_count = 2
    value_class: type[RowSequence | MultisetInfo]

    def __init__(self, *nested: TypeSerializer) -> None:
        fields = dict(zip(self.value_class._fields, (_LONG, _LONG), strict=True))
        super().__init__(FieldsCodec(self.value_class, fields), *(nested or fields.values()))

    def __str__(self) -> str:
        return str(self.content)


class RowSequenceSerializer(TwoLongsSerializer):
    """Snapshot of :class:`RowSequence`."""

    snapshot_class = f"{MULTISET}RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot"
    value_class = RowSequence


class MultisetInfoSerializer(TwoLongsSerializer):
    """Snapshot of :class:`MultisetInfo`."""

    snapshot_class = f"{MULTISET}MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot"
    value_class = MultisetInfo


class RowDataKeySerializerSnapshot(TypeSerializerSnapshot):
    """Rows that generated code compares and hashes, with unchanged bytes (Flink: ``RowDataKeySerializer``)."""

    current_version = 0

    def __init__(
        self, class_name: str, code: tuple[bytes, bytes], inner: TypeSerializerSnapshot, version: int | None = None
    ) -> None:
        super().__init__(class_name, version)
        self.code = code
        self.inner = inner

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> RowDataKeySerializerSnapshot:
        equaliser = source.read_bytes(source.read_int(), "generated equaliser")
        hash_function = source.read_bytes(source.read_int(), "generated hash function")
        return cls(class_name, (equaliser, hash_function), read_versioned_snapshot(source), version)

    def write(self, target: DataOutput) -> None:
        for code in self.code:
            target.write_int(len(code))
            target.write_bytes(code)
        write_versioned_snapshot(self.inner, target)

    def restore_serializer(self) -> TypeSerializer:
        return WrappingSerializer(self.inner.restore_serializer(), lambda _: self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, RowDataKeySerializerSnapshot)
        return self.inner.resolve_schema_compatibility(new.inner)


provide_snapshots((f"{TABLE}SortedMapSerializerSnapshot",), SortedMapSerializerSnapshot)
provide_snapshots((f"{MULTISET}RowDataKeySerializerSnapshot",), RowDataKeySerializerSnapshot)
for _serializer in (
    ListViewSerializer,
    MapViewSerializer,
    NullAwareMapSerializer,
    WindowKeySerializer,
    NodeSerializer,
    RowSequenceSerializer,
    MultisetInfoSerializer,
):
    register_nested(_serializer)
register_simple(SortedLongSerializer())


# Comparators of rows

_RUNTIME: Final = "org.apache.flink.table.runtime."
_COMPARATOR: Final = f"{_RUNTIME}operators.rank.ComparableRecordComparator"
_GENERATED: Final = f"{_RUNTIME}generated.GeneratedRecordComparator"
_TEXT: Final = "Ljava/lang/String;"
_CLASS_NAME: Final = "RowOrder"
_DESCRIPTIONS: Final = (
    JavaClassDescription(
        _COMPARATOR,
        4386377835781068140,
        (
            ("[I", "compareKeyPositions"),
            (f"[L{PACKAGE.replace('.', '/')}LogicalType;", "compareKeyTypes"),
            ("[Z", "compareOrders"),
            (f"L{_GENERATED.replace('.', '/')};", _GENERATED_FIELD),
            ("[Z", "nullsIsLast"),
        ),
    ),
    JavaClassDescription(
        f"{_RUNTIME}generated.GeneratedClass",
        7897406074992879593,
        ((_TEXT, "className"), (_TEXT, "code"), ("[Ljava/lang/Object;", "references"), (_TEXT, "splitCode")),
    ),
    JavaClassDescription(_GENERATED, 2, parent=f"{_RUNTIME}generated.GeneratedClass"),
)
_KNOWN: Final = {**CLASSES, **index_by_name(_DESCRIPTIONS)}


@dataclass(frozen=True, slots=True)
class OrderedField:
    """A field that orders rows; ``nulls_last`` holds in both directions."""

    type: LogicalType
    ascending: bool
    nulls_last: bool


def comparator_object(fields: Sequence[OrderedField]) -> JavaObject:
    """Return a comparator of rows with these fields."""
    code = JavaText(_code(fields))
    generated = JavaInstance(
        _GENERATED,
        {
            "className": JavaText(_CLASS_NAME),
            "code": code,
            "references": JavaArray("[Ljava.lang.Object;", []),
            "splitCode": code,
        },
    )
    content = JavaInstance(
        _COMPARATOR,
        {
            "compareKeyPositions": JavaArray("[I", range(len(fields))),
            "compareKeyTypes": JavaArray(f"[L{PACKAGE}LogicalType;", [type_instance(f.type) for f in fields]),
            "compareOrders": JavaArray("[Z", [f.ascending for f in fields]),
            _GENERATED_FIELD: generated,
            "nullsIsLast": JavaArray("[Z", [f.nulls_last for f in fields]),
        },
    )
    return read_java_object(DataInput(write_java_object(content, _KNOWN)))


def is_ordered(type_: LogicalType) -> bool:
    """Return whether values of a type have an order that is known here."""
    return _access(type_, "row", 0) is not None


def _code(fields: Sequence[OrderedField]) -> str:
    row = "org.apache.flink.table.data.RowData"
    steps = "\n".join(_step(i, field) for i, field in enumerate(fields))
    return (
        f"public class {_CLASS_NAME} implements {_RUNTIME}generated.RecordComparator {{\n"
        f"  public {_CLASS_NAME}(Object[] references) {{}}\n"
        f"  @Override\n  public int compare({row} a, {row} b) {{\n{steps}\n    return 0;\n  }}\n}}\n"
    )


def _step(at: int, field: OrderedField) -> str:
    """Return the comparison of one field."""
    left_access, right_access = _access(field.type, "a", at), _access(field.type, "b", at)
    if left_access is None or right_access is None:
        raise UnsupportedFormatError(f"the order of {field.type} is not known; expected numbers, text, or times")
    java, is_object = left_access[0], left_access[2]
    compared = "x.compareTo(y)" if is_object else "(x > y ? 1 : x < y ? -1 : 0)"
    sign, null = "" if field.ascending else "-", 1 if field.nulls_last else -1
    return (
        f"    if (a.isNullAt({at}) != b.isNullAt({at})) {{ return a.isNullAt({at}) ? {null} : {-null}; }}\n"
        f"    if (!a.isNullAt({at})) {{\n"
        f"      {java} x = {left_access[1]};\n      {java} y = {right_access[1]};\n"
        f"      int c = {compared};\n      if (c != 0) {{ return {sign}c; }}\n    }}"
    )


def _access(type_: LogicalType, row: str, at: int) -> tuple[str, str, bool] | None:
    """Return the Java type of a field, the expression that reads it, and whether it is an object."""
    match type_:
        case AtomicType(name="BOOLEAN"):
            return "int", f"({row}.getBoolean({at}) ? 1 : 0)", False
        case AtomicType() if number := codecs_of(type_).number:
            return number.lower(), f"{row}.get{number.capitalize()}({at})", False
        case DateType() | TimeType():
            return "int", f"{row}.getInt({at})", False
        case TextType():
            return "org.apache.flink.table.data.StringData", f"{row}.getString({at})", True
        case DecimalType(precision=precision, scale=scale):
            return "org.apache.flink.table.data.DecimalData", f"{row}.getDecimal({at}, {precision}, {scale})", True
        case TimestampType(precision=precision):
            return "org.apache.flink.table.data.TimestampData", f"{row}.getTimestamp({at}, {precision})", True
    return None
