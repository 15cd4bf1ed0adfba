"""Case classes, Option, Either, Try, collections and enumerations of Scala (Flink: ``org.apache.flink.api.scala.typeutils``).

Flink 2 has no Scala API; the Table API keeps some of these classes under another package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.core.basic import NumberSerializer, VoidSerializer
from state_processor.serializers.core.collections import ListCodec, NullFlagged
from state_processor.serializers.core.nullable import EitherValue
from state_processor.serializers.core.rows import fields_text
from state_processor.serializers.core.templates import (
    ChoiceSerializer,
    DelegatingSerializer,
    FieldsCodec,
    NestedSerializer,
    register_nested,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.traversal import ELEMENT, field_names
from state_processor.support.errors import NotCompilableError, UndecodableValueError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

SCALA: Final = "org.apache.flink.api.scala.typeutils."
TABLE_SCALA: Final = "org.apache.flink.table.api.typeutils."

_NONE_HASH: Final = hashing.of_string("None")
_PRODUCT_SEED: Final = 0xCAFEBABE


def product_hash(fields: Sequence[int], arity: int | None = None) -> int:
    """Return the ``hashCode`` of a case class from the ``##`` of its fields, as Scala 2.11 and 2.12 compute it.

    ``fields``: the numbers to mix. ``arity``: the number of fields, if it is not the number of numbers.
    """
    code = _PRODUCT_SEED
    for field in fields:
        k = (field & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF
        k = _rotate(k, 15) * 0x1B873593 & 0xFFFFFFFF
        code = _rotate(code ^ k, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    code ^= len(fields) if arity is None else arity
    code = (code ^ code >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    code = (code ^ code >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return hashing.wrap(code ^ code >> 16)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


def _number_hash(value: float) -> int | None:
    """Return the ``##`` of a whole number; it does not depend on the number's type. ``None`` for other numbers."""
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        return None
    whole = int(value)
    if whole == 1 << 63:
        whole -= 1  # Java's conversion saturates, and a comparison as floating point does not detect this
    return (
        hashing.wrap(whole)
        if -(1 << 31) <= whole < 1 << 31
        else hashing.of_long(whole)
        if -(1 << 63) <= whole < 1 << 63
        else None
    )


def _long_hash(value: int) -> int:
    return value if -(1 << 31) <= value < 1 << 31 else hashing.of_long(value)


def _float_hash(value: float) -> int:
    whole = _number_hash(value)
    return hashing.of_float(value) if whole is None else whole


def _double_hash(value: float) -> int:
    whole = _number_hash(value)
    if whole is not None:
        return whole
    return hashing.of_float(value) if _fits_float(value) else hashing.of_double(value)


def _fits_float(value: float) -> bool:
    try:
        return bool(struct.unpack(">f", struct.pack(">f", value))[0] == value)
    except OverflowError:
        return False


_HASHES: Final[Mapping[str, Callable[[Any], int]]] = {"LONG": _long_hash, "FLOAT": _float_hash, "DOUBLE": _double_hash}


def scala_hash(serializer: TypeSerializer, value: Any) -> int:
    """Return ``##``: ``hashCode``, except that equal numbers of all types have the same hash, and null has 0."""
    if value is None and not isinstance(serializer, OptionSerializer):
        return 0
    by_number = _HASHES.get(str(serializer)) if isinstance(serializer, NumberSerializer) else None
    return by_number(value) if by_number else serializer.hash_code(value)


class TextOuterSnapshot(CompositeTypeSerializerSnapshot):
    """A snapshot with a name before its nested snapshots; another name is incompatible."""

    current_outer_version = 2
    subject: str

    def __init__(
        self, class_name: str, nested: Sequence[TypeSerializerSnapshot], text: str, outer_version: int | None = None
    ) -> None:
        super().__init__(class_name, nested, outer_version=outer_version)
        self.text = text

    def read_outer(self, source: DataInput) -> None:
        self.text = source.read_utf()

    def write_outer(self, target: DataOutput) -> None:
        target.write_utf(self.text)

    def resolve_outer(self, new: TextOuterSnapshot) -> SchemaCompatibility:
        if new.text == self.text:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"{self.subject} {self.text} was written, {self.subject} {new.text} is required")


CASE_CLASS_SNAPSHOT: Final = f"{SCALA}ScalaCaseClassSerializerSnapshot"
TUPLE2_SNAPSHOT: Final = f"{SCALA}Tuple2CaseClassSerializerSnapshot"


def _tuple(*parts: Any) -> tuple[Any, ...]:
    return parts


def fields_without_names(case_class: str) -> tuple[str, str] | None:
    """Return :attr:`~.TypeSerializer.undescribed` of a case class; a tuple of Scala has no names to describe."""
    if case_class.startswith("scala.Tuple"):
        return None
    return case_class, f"the snapshot has the fields of {case_class} without their names"


class CaseClassSerializer(DelegatingSerializer):
    """A case class, including Scala's tuples: the fields one after the other (Flink: ``ScalaCaseClassSerializer``).

    Snapshots do not name the fields: columns are called ``_1``, ``_2``, ….

    ``case_class``: the Java name of the class. ``snapshot_class``: the snapshot class: Flink has one for case classes, and one
    for pairs.
    """

    never_null = True

    def __init__(self, case_class: str, fields: Sequence[TypeSerializer], snapshot_class: str = CASE_CLASS_SNAPSHOT) -> None:
        super().__init__(FieldsCodec(_tuple, dict(zip(field_names(len(fields), "_", 1), fields, strict=True))))
        self.case_class = case_class
        self.fields = tuple(fields)
        self._snapshot_class = snapshot_class
        if not all(f.length > 0 for f in self.fields):
            self.length = VARIABLE

    def __str__(self) -> str:
        return f"CASE_CLASS<{self.case_class}({fields_text(self.fields)})>"

    @property
    def undescribed(self) -> tuple[str, str] | None:
        return fields_without_names(self.case_class)

    @property
    def child_names(self) -> Sequence[str]:
        return self.content.child_names

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return self.fields

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return CaseClassSerializer(self.case_class, children, self._snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return CaseClassSerializerSnapshot(self._snapshot_class, self.child_snapshots, self.case_class)

    def hash_code(self, value: Sequence[Any]) -> int:
        """Return the hash that Scala 2.11 and 2.12 generate; a class may define another one."""
        if not self.fields:
            return hashing.of_string(self.case_class.replace("$", ".").rsplit(".", 1)[-1])
        return product_hash([scala_hash(f, v) for f, v in zip(self.fields, value, strict=True)])


class CaseClassSerializerSnapshot(TextOuterSnapshot):
    """Snapshot of :class:`CaseClassSerializer`."""

    subject = "case class"

    @property
    def nested_names(self) -> Sequence[str]:
        return field_names(len(self.nested), "_", 1)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return CaseClassSerializer(self.text, nested, self.class_name)


class Some(NamedTuple):
    """A value that is present; an absent value is ``None``."""

    value: Any


class OptionSerializer(NestedSerializer):
    """``Option``: a byte, 1 if a value is present, and the value. A column contains the values, or null."""

    snapshot_class = f"{SCALA}ScalaOptionSerializerSnapshot"
    outer_version = 2

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(element)
        self.element = element

    def __str__(self) -> str:
        return f"OPTION<{self.element}>"

    def read(self, source: DataInput) -> Some | None:
        return Some(self.element.read(source)) if source.read_boolean() else None

    def skip(self, source: DataInput) -> None:
        if source.read_boolean():
            self.element.skip(source)

    def write(self, value: tuple[Any] | None, target: DataOutput) -> None:
        target.write_boolean(value is not None)
        if value is not None:
            self.element.write(value[0], target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.element.arrow_type(options)

    def to_column(self, value: Some | None, options: DecodeOptions) -> Any:
        return None if value is None else self.element.to_column(value.value, options)

    def from_column(self, value: Any) -> Some | None:
        if value is None:
            return None
        return Some(self.element.from_column(value.value if isinstance(value, Some) else value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=False):
            self.element.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=False):
            self.element.emit_encode(builder, column)

    def hash_code(self, value: Some | None) -> int:
        return _NONE_HASH if value is None else product_hash([scala_hash(self.element, value.value)])


class ScalaEitherSerializer(ChoiceSerializer):
    """``Either``: a byte, 1 for left, and the value of that side."""

    snapshot_class = f"{SCALA}ScalaEitherSerializerSnapshot"
    names = ("left", "right")
    markers = (1, 0)
    value_class = EitherValue

    def __str__(self) -> str:
        return f"EITHER<{self.nested[0]},{self.nested[1]}>"

    def hash_code(self, value: EitherValue) -> int:
        return product_hash([scala_hash(self._chosen(value.is_left), value.value)])


class TryValue(NamedTuple):
    """``Try``: whether it is a success, and the value or the exception."""

    is_success: bool
    value: Any


class TrySerializer(ChoiceSerializer):
    """``Try``: a byte, 1 for success, and the value, or the exception under Kryo."""

    snapshot_class = f"{SCALA}ScalaTrySerializerSnapshot"
    outer_version = 2
    names = ("success", "failure")
    markers = (1, 0)
    value_class = TryValue

    def __str__(self) -> str:
        return f"TRY<{self.nested[0]}>"


TRAVERSABLE_SNAPSHOT: Final = f"{SCALA}TraversableSerializerSnapshot"


class TraversableSerializer(DelegatingSerializer):
    """A collection: a count, then for each element a byte (1: present, 0: null) and the element.

    ``builder_code``: Scala code that makes such a collection; it distinguishes lists from sets.
    """

    child_names = (ELEMENT,)

    def __init__(self, element: TypeSerializer, builder_code: str, snapshot_class: str = TRAVERSABLE_SNAPSHOT) -> None:
        super().__init__(ListCodec(NullFlagged(element, null_when=False)))
        self.element = element
        self.builder_code = builder_code
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"TRAVERSABLE<{self.element}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (element,) = children
        return TraversableSerializer(element, self.builder_code, self._snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return TraversableSerializerSnapshot(self._snapshot_class, [self.element.snapshot()], self.builder_code)


class TraversableSerializerSnapshot(TextOuterSnapshot):
    """Snapshot of :class:`TraversableSerializer`."""

    subject = "a collection built by"

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return TraversableSerializer(nested[0], self.text, self.class_name)


ENUMERATION_SNAPSHOT: Final = f"{SCALA}ScalaEnumSerializerSnapshot"


class EnumerationSerializer(TypeSerializer):
    """A value of an ``Enumeration``: its id (Flink: ``EnumValueSerializer``). Python holds its name.

    ``enumeration``: the Java name of the enumeration's class. ``values``: name and id of each value.
    """

    never_null = True
    length = min_size = 4

    def __init__(self, enumeration: str, values: Sequence[tuple[str, int]], snapshot_class: str = ENUMERATION_SNAPSHOT) -> None:
        self.enumeration = enumeration
        self.values = tuple(values)
        self._snapshot_class = snapshot_class
        self._names = {i: name for name, i in self.values}
        self._ids = dict(self.values)

    def __str__(self) -> str:
        return f"ENUMERATION<{self.enumeration}>"

    def read(self, source: DataInput) -> str:
        start = source.position
        number = source.read_int()
        if number not in self._names:
            raise source.corrupt(f"{self.enumeration} lacks a value with id {number}", start)
        return self._names[number]

    def write(self, value: str, target: DataOutput) -> None:
        if value not in self._ids:
            raise ValueError(f"{self.enumeration} lacks a value {value!r}; it has: {', '.join(self._ids)}")
        target.write_int(self._ids[value])

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if not self._is_dense:
            raise NotCompilableError(f"{self}: ids with gaps")
        builder.enum(column, self._constants())

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if not self._is_dense:
            builder.prepare(self, column)
            return
        builder.enum(column, self._constants())

    @property
    def _is_dense(self) -> bool:
        return sorted(self._names) == list(range(len(self._names)))

    def _constants(self) -> list[bytes]:
        """Return the names in the order of the ids."""
        return [self._names[number].encode() for number in range(len(self._names))]

    def snapshot(self) -> TypeSerializerSnapshot:
        return EnumerationSerializerSnapshot(self._snapshot_class, self.enumeration, self.values)

    def hash_code(self, value: str) -> int:
        return self._ids[value]


class EnumerationSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`EnumerationSerializer`: written values must keep their ids."""

    def __init__(self, class_name: str, enumeration: str, values: Sequence[tuple[str, int]], version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.enumeration = enumeration
        self.values = tuple(values)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> EnumerationSerializerSnapshot:
        enumeration = source.read_utf()
        count = source.read_count("values of an enumeration", 6)
        return cls(class_name, enumeration, [(source.read_utf(), source.read_int()) for _ in range(count)], version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.enumeration)
        target.write_int(len(self.values))
        for name, number in self.values:
            target.write_utf(name)
            target.write_int(number)

    def restore_serializer(self) -> TypeSerializer:
        return EnumerationSerializer(self.enumeration, self.values, self.class_name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, EnumerationSerializerSnapshot)
        if new.enumeration != self.enumeration:
            return SchemaCompatibility.incompatible(f"{self.enumeration} was written, {new.enumeration} is required")
        new_names = {number: name for name, number in new.values}
        for name, number in self.values:
            if new_names.get(number) != name:
                now = f"now belongs to {new_names[number]!r}" if number in new_names else "no longer exists"
                return SchemaCompatibility.incompatible(f"{self.enumeration}: id {number} was {name!r} and {now}")
        return SchemaCompatibility.compatible_as_is()


class UnitSerializer(VoidSerializer):
    """``Unit``: one byte, no value."""

    snapshot_class = f"{SCALA}UnitSerializer$UnitSerializerSnapshot"

    def __str__(self) -> str:
        return "UNIT"

    def hash_code(self, value: None) -> int:
        return 0


class NothingSerializer(SimpleSerializer):
    """``Nothing``: a type without values, as in an ``Option`` that is always ``None``."""

    snapshot_class = f"{SCALA}NothingSerializerSnapshot"
    min_size = 0
    _no_byte = 256

    def __str__(self) -> str:
        return "NOTHING"

    def read(self, source: DataInput) -> Any:
        raise source.corrupt("a value of type Nothing; such a value can't exist")

    def write(self, value: Any, target: DataOutput) -> None:
        raise UndecodableValueError(f"{value!r} can't be of type Nothing; values of this type can't exist")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.expect(self._no_byte)
        builder.fill_nulls(column)


for _home in (SCALA, TABLE_SCALA):
    register_simple(UnitSerializer(f"{_home}UnitSerializer$UnitSerializerSnapshot"))
    register_simple(NothingSerializer(f"{_home}NothingSerializerSnapshot"))
    for _snapshot in (CASE_CLASS_SNAPSHOT, TUPLE2_SNAPSHOT):
        provide_snapshots((_snapshot.replace(SCALA, _home),), CaseClassSerializerSnapshot)
    provide_snapshots((TRAVERSABLE_SNAPSHOT.replace(SCALA, _home),), TraversableSerializerSnapshot)
    provide_snapshots((ENUMERATION_SNAPSHOT.replace(SCALA, _home),), EnumerationSerializerSnapshot)
for _serializer in (OptionSerializer, ScalaEitherSerializer, TrySerializer):
    register_nested(_serializer, _serializer.snapshot_class.replace(SCALA, TABLE_SCALA))
