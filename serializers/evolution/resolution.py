"""Resolution of schemas: values of one serializer read as values of another, by Flink's rules for schema evolution.

:func:`resolve` takes both serializers and returns a third. It reads the bytes of the written one and has the columns of the
wanted one: removed fields of POJOs are skipped, new fields have Java's default values, Avro records use the reader's schema.
The kernel runs it like any other serializer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.avro.records import AvroResolution, AvroSerializer
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.codec import Codec, ReadOnlyCodec
from state_processor.serializers.core.basic import CharSerializer, NumberSerializer
from state_processor.serializers.core.pojo import PojoCodec, PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.runtime.wrapping import TtlSerializer, WrappingSerializer
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import with_changed_children, zip_types
from state_processor.support.errors import StateMigrationError
from state_processor.support.mappings import index_by_name, names_of, without_keys

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder


def resolve(written: TypeSerializer, target: TypeSerializer) -> Codec:
    """Return the codec that reads bytes of ``written`` as values of ``target``.

    Time-to-live is ignored: the result has it if ``written`` has it, because the bytes do.

    ``written``: the serializer that a snapshot restored. ``target``: the serializer that a new job would declare. Snapshots do
    not distinguish primitive fields from boxed fields. New primitive fields get the value of the primitive (0, false), all other
    new fields null. With :func:`~state_processor.serializers.register_primitive_fields` boxed fields are null too.
    """
    written_value, wanted_value = without_ttl(written), without_ttl(target)
    verdict = written_value.snapshot().resolve_schema_compatibility(wanted_value)
    if verdict.is_incompatible:
        raise StateMigrationError(f"{written_value} can't be read as {wanted_value}: {verdict.reason}")
    resolved = _resolve(written_value, wanted_value)
    return with_changed_children(written, (written.nested[0], resolved)) if isinstance(written, TtlSerializer) else resolved


def without_ttl(serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of the value without its time of last access, if it has one; else the serializer itself."""
    while isinstance(serializer, WrappingSerializer):
        serializer = serializer.content
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _resolve(written: Codec, target: Codec) -> Codec:
    """Return the reading codec of a pair that Flink allows."""
    return zip_types(written, target, _resolve_pair)


def _resolve_pair(written: Codec, target: Codec) -> Codec | None:
    """Return the reading codec of a pair; ``None`` if it follows from the pairs inside."""
    if isinstance(written, WrappingSerializer):
        return _resolve(written.content, target)
    if isinstance(target, WrappingSerializer):
        return _resolve(written, target.content)
    if isinstance(written, PojoSerializer) and isinstance(target, PojoSerializer):
        return _resolve_pojo(written, target)
    if isinstance(written, AvroSerializer) and isinstance(target, AvroSerializer):
        return _resolve_avro(written, target)
    if isinstance(written, RowDataSerializer) and isinstance(target, RowDataSerializer):
        return written.named_as(target.slot.type)
    if isinstance(written, RowSerializer) and isinstance(target, RowSerializer) and target.names not in (None, written.names):
        return _resolve(written.with_names(target.names), target)
    return None


# POJOs


def _resolve_pojo(written: PojoSerializer, target: PojoSerializer) -> Codec:
    evolved = _evolved(written, target)
    subclasses = {**target.by_name, **target.by_tag}

    def resolved(olds: Mapping[str, TypeSerializer | None]) -> dict[str, Codec | None]:
        codecs: dict[str, Codec | None] = dict(olds)
        for name, old in olds.items():
            if isinstance(old, PojoSerializer):
                new = subclasses.get(name)
                codecs[name] = _evolved(old, new if isinstance(new, PojoSerializer) else _inheriting(old, written, target))
        return codecs

    registered, unregistered = resolved(written.by_tag), resolved(written.by_name)
    # A subclass that was not written yet occurs in no bytes, but has its columns.
    unregistered |= without_keys(subclasses, registered | unregistered)
    return EvolvedPojoCodec(target.class_name, evolved.wire, evolved.fields, registered, unregistered)


def _evolved(written: PojoSerializer, target: PojoSerializer) -> EvolvedPojoCodec:
    """Return the reading codec of one class without its subclasses."""
    written_fields = {f.name: f for f in written.fields if f.declaring_class is not None}
    fields = []
    common: dict[str, PojoField[Codec]] = {}
    for field in target.fields:
        old = written_fields.get(field.name)
        new = PojoField(field.name, _default_of(field, target) if old is None else _resolve(old.serializer, field.serializer))
        fields.append(new)
        if old is not None:
            common[field.name] = new
    wire = [common.get(f.name) or PojoField(f.name, f.serializer, _GONE) for f in written.fields]
    return EvolvedPojoCodec(target.class_name, wire, fields)


def _inheriting(subclass: PojoSerializer, written: PojoSerializer, target: PojoSerializer) -> PojoSerializer:
    """Return a subclass that the new type lacks: it keeps its own fields; its inherited fields are the new ones."""
    inherited = set(names_of(written.fields))
    subclass_fields = [f for f in subclass.fields if f.name not in inherited]
    fields = sorted([*target.fields, *subclass_fields], key=lambda f: f.name)
    return PojoSerializer(subclass.class_name, fields)


_GONE: Final = "(gone)"


class EvolvedPojoCodec(ReadOnlyCodec, PojoCodec[Codec]):
    """A POJO whose bytes and values have different fields; only :func:`resolve` makes it.

    ``class_name``, ``registered`` and ``unregistered``: as for :class:`PojoCodec`. ``wire``: the fields of the bytes. Fields that
    the values lack are marked as gone.
    """

    def __init__(
        self,
        class_name: str,
        wire: Sequence[PojoField[Codec]],
        fields: Sequence[PojoField[Codec]],
        registered: Mapping[str, Codec | None] | None = None,
        unregistered: Mapping[str, Codec | None] | None = None,
    ) -> None:
        super().__init__(class_name, fields, registered, unregistered)
        self.wire = tuple(wire)
        self._gone = tuple(f for f in self.wire if f.declaring_class == _GONE)
        wire_names = {f.name for f in self.wire if f.declaring_class != _GONE}
        self._new = tuple(f for f in self.fields if f.name not in wire_names)

    @property
    def child_names(self) -> Sequence[str]:
        return (*super().child_names, *names_of(self._gone))

    @property
    def children(self) -> Sequence[Codec]:
        return (*super().children, *(f.serializer for f in self._gone))

    def with_children(self, children: Sequence[Any]) -> EvolvedPojoCodec:
        count = len(super().children)
        fields, registered, unregistered = self._parts_of(children[:count])
        by_name = index_by_name(fields)
        gone = iter(children[count:])
        wire = [replace(f, serializer=next(gone)) if f.declaring_class == _GONE else by_name[f.name] for f in self.wire]
        return EvolvedPojoCodec(self.class_name, wire, fields, registered, unregistered)

    def _read_fields(self, source: DataInput) -> dict[str, Any]:
        values = {f.name: f.serializer.read(source) for f in self._new}
        for field in self.wire:
            if field.declaring_class == _GONE:
                field.flagged.skip(source)
            else:
                values[field.name] = field.flagged.read(source)
        return {f.name: values[f.name] for f in self.fields}

    def _skip_fields(self, source: DataInput) -> None:
        for field in self.wire:
            field.flagged.skip(source)

    def _emit_fields(self, builder: DecodeBuilder, column_of: Callable[[str], Column]) -> None:
        for field in self.wire:
            with builder.field(field.name):
                field.flagged.emit_decode(builder, DISCARD if field.declaring_class == _GONE else column_of(field.name))
        for field in self._new:
            field.serializer.emit_decode(builder, column_of(field.name))


def _default_of(field: PojoField[TypeSerializer], pojo: PojoSerializer) -> Codec:
    """Return the codec of a field that is missing in all bytes. It has Java's default value.

    Flink reads old bytes by the old fields and sets all of them. A new field keeps the value from the class's constructor.
    """
    return DefaultCodec(field.serializer, boxed=field.is_primitive(pojo.class_name) is False)


class DefaultCodec(ReadOnlyCodec):
    """Java's default value of a type, from zero bytes: 0, false, the character 0, or null.

    ``type_``: the serializer of the type. ``boxed``: whether a number is registered as an object, so that its default is null.
    """

    child_names = ("",)

    length = min_size = 0

    def __init__(self, type_: TypeSerializer, boxed: bool = False) -> None:
        self.type = type_
        self._boxed = boxed
        self.value: Any = None
        if boxed:
            return
        if type(type_) is NumberSerializer:
            self.value = type_.deserialize(bytes(type_.length))
        elif isinstance(type_, CharSerializer):
            self.value = "\0"

    @property
    def children(self) -> Sequence[Codec]:
        return (self.type,)

    def with_children(self, children: Sequence[Any]) -> Codec:
        (type_,) = children
        return DefaultCodec(type_, self._boxed)

    def __str__(self) -> str:
        return str(self.type)

    def read(self, source: DataInput) -> Any:
        return self.value

    def write(self, value: Any, target: DataOutput) -> None:
        """Write nothing."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.type.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self.type.to_column(value, options)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if self.value is None:
            builder.fill_nulls(column)
        elif isinstance(self.value, str):
            builder.text(column, self.value)
        else:
            builder.op(Op.REGISTER, column, register=builder.register())  # nothing writes to it: it holds 0


# Avro


def _resolve_avro(written: AvroSerializer, target: AvroSerializer) -> Codec:
    same = written.snapshot().resolve_schema_compatibility(target).verdict is Verdict.COMPATIBLE_AS_IS
    return written if same else EvolvedAvroCodec(written, target)


class EvolvedAvroCodec(ReadOnlyCodec):
    """Avro data of a writer's schema as values of a reader's schema; only :func:`resolve` makes it.

    Values are decoded in Python, one by one.

    ``written`` and ``target``: the serializers of both schemas.
    """

    def __init__(self, written: AvroSerializer, target: AvroSerializer) -> None:
        self.written = written
        self.target = target
        self.length = written.length
        self.min_size = written.min_size
        self._resolution = AvroResolution(written.schema, target.schema)

    def __str__(self) -> str:
        return str(self.target)

    def read(self, source: DataInput) -> Any:
        return self._resolution.convert(self.written.read(source))

    def skip(self, source: DataInput) -> None:
        self.written.skip(source)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.target.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return self.target.to_column(value, options)
