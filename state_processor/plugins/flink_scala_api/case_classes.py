"""Case classes, case objects and ``Unit`` (flink-scala-api: ``CaseClassSerializer``, ``ScalaCaseObjectSerializer``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_scala_api.parts import (
    NULL_MARKER,
    SERIALIZERS,
    PartsSnapshot,
    parts_snapshot,
    prefixed_hash,
    simple_name,
)
from state_processor.serializers import (
    CompositeTypeSerializerSnapshot,
    DataInput,
    DataOutput,
    DecodeOptions,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    simple_snapshots,
)
from state_processor.serializers.extension import (
    DISCARD,
    VARIABLE,
    Codec,
    FieldsSerializer,
    LeafSerializer,
    Op,
    description,
    field_names,
    fields_text,
    fields_without_names,
    register_description,
    registering,
)

if TYPE_CHECKING:
    from state_processor.serializers.extension import Column, DecodeBuilder, EncodeBuilder

CASE_CLASS_SNAPSHOT: Final = f"{SERIALIZERS}ScalaCaseClassSerializerSnapshot"
CASE_OBJECT_SNAPSHOT: Final = f"{SERIALIZERS}ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot"
ENUM_VALUE_SNAPSHOT: Final = f"{SERIALIZERS}Scala3EnumValueSerializerSnapshot"
UNIT_SNAPSHOT: Final = f"{SERIALIZERS}UnitSerializer$UnitSerializerSnapshot"

_FORMER_NULL: Final = -1
_NO_BYTE: Final = 256


@dataclass(frozen=True, slots=True)
class CaseClass:
    """What a snapshot of a case class does not tell."""

    names: tuple[str, ...] | None = None  # the names of its fields
    counted: bool | None = None  # whether the number of fields is written before them; ``None`` for the default


def register_case_class(class_name: str, fields: Sequence[str] | None = None, *, field_count: bool | None = None) -> None:
    """Describe a case class of flink-scala-api: what its serializer snapshots do not tell.

    Parameters
    ----------
    class_name
        The Java name of the class, with ``$`` before nested classes.
    fields
        The names of its fields. Columns are called ``_1``, ``_2``, … without them.
    field_count
        Whether the number of fields precedes the fields in the bytes of a value. flink-scala-api does this since 1.1.5, unless
        the job's environment has ``DISABLE_CASE_CLASS_ARITY_USAGE``.
    """
    names = None if fields is None else tuple(fields)
    register_description("case class", class_name, CaseClass(names, field_count))


def declared_length(serializer: Codec) -> int:
    """Return what ``getLength`` of flink-scala-api returns, which nulls are padded to."""
    return serializer.padded_length if isinstance(serializer, CaseClassSerializer) else serializer.length


class CaseClassSerializer(FieldsSerializer):
    """A case class, including Scala's tuples: an int with the number of fields, and the fields.

    A value with fewer fields than the class was written before the class got more fields. The columns of the missing fields are
    null; the job uses the default values of its class. Rows to write have all fields.

    ``case_class``: the Java name of the class. ``immutable``: whether the class lacks a ``var``, from the snapshot.
    ``snapshot_version``: the outer version of the snapshot. Serializers of version 2 can't write null. ``names``: the names of
    the fields, if they are known.
    """

    def __init__(
        self,
        case_class: str,
        fields: Sequence[TypeSerializer],
        immutable: bool = True,
        snapshot_version: int = 3,
        names: Sequence[str] | None = None,
        counted: bool = True,
    ) -> None:
        self.case_class = case_class
        self.fields = tuple(fields)
        self.immutable = immutable
        self.snapshot_version = snapshot_version
        self.names = field_names(len(fields), "_", 1) if names is None else tuple(names)
        self.counted = counted
        self.min_size = 4 if counted else sum(f.min_size for f in fields)

    def __str__(self) -> str:
        return f"CASE_CLASS<{self.case_class}({fields_text(self.fields)})>"

    @property
    def undescribed(self) -> tuple[str, str] | None:
        return fields_without_names(self.case_class)

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return CaseClassSerializer(self.case_class, children, self.immutable, self.snapshot_version, self.names, self.counted)

    @property
    def padded_length(self) -> int:
        """Bytes of every value and of null, if all fields have a fixed length."""
        lengths = list(map(declared_length, self.fields))
        return 4 + sum(lengths) if all(n > 0 for n in lengths) else VARIABLE

    @property
    def _nullable(self) -> bool:
        return self.counted and self.snapshot_version > 2

    @property
    def _null(self) -> bytes:
        """The bytes of null."""
        return b"\x80\0\0\0" + bytes(max(self.padded_length - 4, 0))

    # One value

    def read(self, source: DataInput) -> tuple[Any, ...] | None:
        count = self._count(source)
        return None if count < 0 else tuple(f.read(source) for f in self.fields[:count])

    def skip(self, source: DataInput) -> None:
        for field in self.fields[: max(self._count(source), 0)]:
            field.skip(source)

    def _count(self, source: DataInput) -> int:
        """Read the number of fields that follow; -1 for null."""
        if not self.counted:
            return len(self.fields)
        start = source.position
        count = source.read_int()
        if count == NULL_MARKER:
            source.skip(len(self._null) - 4, "padding of a null")
        elif count != _FORMER_NULL and not 0 <= count <= len(self.fields):
            raise source.corrupt(
                f"{count} fields of the case class {self.case_class} announced, it has {len(self.fields)}; if the job writes "
                f"no number of fields, call {registering(f'register_case_class({self.case_class!r}, field_count=False)')}",
                start,
            )
        return max(count, -1)

    def write(self, value: Sequence[Any] | None, target: DataOutput) -> None:
        if value is None:
            if not self._nullable:
                raise InvalidRowError(f"null; {self} can't store null")
            target.write_bytes(self._null)
            return
        if len(value) > len(self.fields) or (len(value) < len(self.fields) and not self.counted):
            raise ValueError(f"expected {len(self.fields)} fields of {self}, found {len(value)}")
        if self.counted:
            target.write_int(len(value))
        for field, part in zip(self.fields, value, strict=False):
            field.write(part, target)

    # Columns

    def to_column(self, value: Sequence[Any] | None, options: DecodeOptions) -> dict[str, Any] | None:
        if value is None:
            return None
        columns_of_value: dict[str, Any] = dict.fromkeys(self.names)
        columns_of_value |= {n: f.to_column(part, options) for n, f, part in zip(self.names, self.fields, value, strict=False)}
        return columns_of_value

    def from_column(self, value: Any) -> tuple[Any, ...] | None:
        return None if value is None else self._parts_of(value, f"a value of {self}")

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if not self.counted:
            self._decode_fields(builder, column)
            return
        present, null, former_null, end = builder.labels(4)
        mark = builder.register()
        by_first_byte = {0: present, 0x80: null, 0xFF: former_null}
        with builder.field("number of fields; see register_case_class"):
            builder.op(Op.MARK, register=mark)
            targets = [(by_first_byte.get(byte),) for byte in range(256)]
            builder.op(Op.CHOOSE_BYTE, column, branches=builder.aux(targets), count=len(targets))
            for label, byte, padding in ((null, 0, len(self._null) - 4), (former_null, 0xFF, 0)):
                builder.place(label)
                for _ in range(3):
                    builder.expect(byte)
                builder.skip(padding)
                builder.fill_nulls(column)
                builder.jump(end)
        builder.place(present)
        builder.op(Op.MOVE, register=mark)
        self._emit_counted(builder, column)
        builder.place(end)

    def _emit_counted(self, builder: DecodeBuilder, column: Column) -> None:
        """Append the instructions for a number of fields, that many fields, and nulls for the others."""
        counter, end = builder.register(), builder.label()
        begins = builder.labels(len(self.fields) + 1)
        columns = list(map(column.child, range(len(self.fields))))
        with builder.field("number of fields; see register_case_class"):
            with builder.unless(Op.LIST, DISCARD, register=counter, child=DISCARD, min_size=0):
                builder.op(Op.VALID, column)
                builder.jump(begins[0])
            builder.op(Op.VALID, column)
            builder.fill_nulls(*columns)
            builder.jump(end)
            builder.place(begins[-1])
            builder.expect(_NO_BYTE)
        for number, (name, field) in enumerate(zip(self.names, self.fields, strict=True)):
            builder.place(begins[number])
            with builder.field(name):
                field.emit_decode(builder, columns[number])
            builder.op(Op.LIST_NEXT, DISCARD, register=counter, child=DISCARD, next=begins[number + 1])
            builder.fill_nulls(*columns[number + 1 :])
            builder.jump(end)
        builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        null, end = builder.label(), builder.label()
        if self._nullable:
            builder.op(Op.SKIP_NULL, column, null=null)
        else:
            builder.op(Op.REQUIRE, column)
        if self.counted:
            builder.bytes(len(self.fields).to_bytes(4, "big"))
        self._encode_fields(builder, column)
        if self._nullable:
            builder.jump(end)
            builder.place(null)
            builder.bytes(self._null)
        builder.place(end)

    def snapshot(self) -> TypeSerializerSnapshot:
        return CaseClassSerializerSnapshot(
            CASE_CLASS_SNAPSHOT, [f.snapshot() for f in self.fields], self.case_class, self.immutable, self.snapshot_version
        )

    def hash_code(self, value: Sequence[Any]) -> int:
        """Return the hash that Scala 2.13 and Scala 3 generate; a class may define another one."""
        return prefixed_hash(simple_name(self.case_class), self.fields, value)


class CaseClassSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`CaseClassSerializer`."""

    current_outer_version = 3

    def __init__(
        self,
        class_name: str,
        nested: Sequence[TypeSerializerSnapshot],
        case_class: str,
        immutable: bool,
        outer_version: int | None = None,
    ) -> None:
        super().__init__(class_name, nested, outer_version=outer_version)
        self.case_class = case_class
        self.immutable = immutable

    def read_outer(self, source: DataInput) -> None:
        self.case_class = source.read_utf()
        self.immutable = source.read_boolean() if self.outer_version > 2 else False

    def write_outer(self, target: DataOutput) -> None:
        target.write_utf(self.case_class)
        if self.outer_version > 2:
            target.write_boolean(self.immutable)

    @property
    def nested_names(self) -> Sequence[str]:
        return self._described.names or field_names(len(self.nested), "_", 1)

    @property
    def _described(self) -> CaseClass:
        """What users have told about the class."""
        registered: CaseClass = description("case class", self.case_class) or CaseClass()
        if registered.names is not None and len(registered.names) != len(self.nested):
            raise InvalidRowError(
                f"{self.case_class} was registered with the fields ({', '.join(registered.names)}); its serializer snapshot has "
                f"{len(self.nested)} fields"
            )
        return registered

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        described = self._described
        counted = bool(nested) or self.outer_version > 2 if described.counted is None else described.counted
        return CaseClassSerializer(self.case_class, nested, self.immutable, self.outer_version, described.names, counted)

    def resolve_outer(self, new: CaseClassSerializerSnapshot) -> SchemaCompatibility:
        if new.case_class == self.case_class:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"case class {self.case_class} was written, case class {new.case_class} is required"
        )


class ConstantSerializer(LeafSerializer):
    """An object that is the only value of its type, in no bytes: a case object, or a value of an enumeration of Scala 3.

    A column contains its name.

    ``names``: the names in the snapshot: the object's class, or the companion of the enumeration and the name of the value.
    """

    length = min_size = 0

    def __init__(self, names: Sequence[str], snapshot_class: str = CASE_OBJECT_SNAPSHOT) -> None:
        self.names = tuple(names)
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"CASE_OBJECT<{'.'.join(self.names)}>"

    @property
    def value(self) -> str:
        """The name of the object."""
        return simple_name(self.names[0]) if self._snapshot_class == CASE_OBJECT_SNAPSHOT else self.names[-1]

    def read(self, source: DataInput) -> str:
        return self.value

    def write(self, value: str, target: DataOutput) -> None:
        if value != self.value:
            raise ValueError(f"{self} has no value but {self.value!r}, found {value!r}")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.text(column, self.value)

    def snapshot(self) -> TypeSerializerSnapshot:
        return _SNAPSHOTS[self._snapshot_class](self._snapshot_class, self.names)

    def hash_code(self, value: str) -> int:
        return prefixed_hash(self.value, (), ())


class UnitSerializer(SimpleSerializer):
    """``Unit``, in no bytes; Flink's own serializer writes a byte."""

    snapshot_class = UNIT_SNAPSHOT
    length = min_size = 0

    def __str__(self) -> str:
        return "UNIT"

    def read(self, source: DataInput) -> None:
        return None

    def write(self, value: None, target: DataOutput) -> None:
        if value is not None:
            raise ValueError(f"the only value of Unit is null, found {value!r}")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        """Append nothing: a column of this type has only nulls."""

    def hash_code(self, value: None) -> int:
        return 0


def _constant(snapshot: PartsSnapshot) -> TypeSerializer:
    return ConstantSerializer(snapshot.names, snapshot.class_name)


_SNAPSHOTS: Final = {
    CASE_OBJECT_SNAPSHOT: parts_snapshot(_constant, 1, names=1),
    ENUM_VALUE_SNAPSHOT: parts_snapshot(_constant, 1, names=2),
}
SNAPSHOTS: Final[Mapping[str, type[TypeSerializerSnapshot]]] = {
    CASE_CLASS_SNAPSHOT: CaseClassSerializerSnapshot,
    **_SNAPSHOTS,
    **simple_snapshots(UnitSerializer()),
}
