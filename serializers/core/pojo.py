"""Plain Java objects and records (Flink: ``PojoSerializer``), with subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import pyarrow as pa

from state_processor.serializers.base import SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.pojo_fields import (
    CLASS_FIELD,
    Part_co,
    PojoColumns,
    PojoField,
    PojoFieldSnapshot,
    PojoValue,
    SubclassSnapshot,
    field_verdicts,
    read_fields,
    read_subclasses,
    subclass_verdicts,
)
from state_processor.serializers.core.unread import write_optional_map
from state_processor.serializers.decode_options import WIDEST, DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput, encode_modified_utf8
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import current_registrations, provide_snapshots
from state_processor.serializers.traversal import join_path
from state_processor.support.doors import reading_as_bytes, registering
from state_processor.support.errors import InvalidRowError, OptionError, UndescribedClassError, UnsupportedFormatError
from state_processor.support.mappings import names_of, without_keys, without_none

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

POJO_SNAPSHOT: Final = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
_NULL: Final = 1
_EXACT: Final = 2
_BY_NAME: Final = 4
_BY_TAG: Final = 8
_NOT_NULL: Final = b"\0"


class PojoCodec(Codec, Generic[Part_co]):
    """A POJO, a Java record or null: a byte of flags, then each field with a null flag (Flink: ``PojoSerializer``).

    Fields are read in the order of the snapshot. A value of a subclass starts with the tag of the subclass, if that is
    registered, or its name. The subclass's own encoding follows, flags included.

    A column of a POJO without subclasses is a struct of its fields. With subclasses, it is a struct of ``_class`` and the fields
    of all classes. If a field name has several types, the simple class name becomes its suffix. Structs to write may lack
    ``_class`` and fields of subclasses.

    Subclasses described with ``register_pojo_class`` are added when they are looked up. A serializer that a user makes therefore
    equals the one that a snapshot restores, in whatever order they are made.

    Parameters
    ----------
    class_name
        The Java class.
    fields
        Its fields in wire order.
    registered
        Serializers of registered subclasses, in the order of their tags, by class name. ``None`` if the snapshot does not
        describe the class.
    unregistered
        The same for subclasses that Flink met while it wrote values.
    """

    def __init__(
        self,
        class_name: str,
        fields: Sequence[PojoField[Part_co]],
        registered: Mapping[str, Part_co | None] | None = None,
        unregistered: Mapping[str, Part_co | None] | None = None,
    ) -> None:
        self.class_name = class_name
        self.fields = tuple(fields)
        self.registered = dict(registered or {})
        self.unregistered = dict(unregistered or {})
        self._flagged = tuple((f.name, f.flagged) for f in self.fields)
        self._described()  # refuses fields that the class already has

    def __str__(self) -> str:
        return f"POJO<{self.class_name}>"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts == self._parts  # type: ignore[attr-defined]

    __hash__ = Codec.__hash__

    @property
    def _parts(self) -> dict[str, Any]:
        return vars(self) | {"registered": self.by_tag, "unregistered": self.by_name}

    @property
    def child_names(self) -> Sequence[str]:
        """See :attr:`Codec.child_names`; subclasses are not named: their fields are next to those of the class."""
        return (*names_of(self.fields), *[""] * len(self._subclasses))

    @property
    def children(self) -> Sequence[Codec]:
        return (*(f.serializer for f in self.fields), *self._subclasses)

    @property
    def _subclasses(self) -> list[Part_co]:
        return without_none((*self.by_tag.values(), *self.by_name.values()))

    def _parts_of(
        self, children: Sequence[Any]
    ) -> tuple[list[PojoField[Part_co]], dict[str, Part_co | None], dict[str, Part_co | None]]:
        """Return the fields, the registered subclasses and the other subclasses with other children."""
        remaining = iter(children)
        fields = [replace(f, serializer=next(remaining)) for f in self.fields]
        return fields, _next_of(self.by_tag, remaining), _next_of(self.by_name, remaining)

    # Subclasses

    @property
    def by_tag(self) -> dict[str, Part_co | None]:
        """Serializers of registered subclasses in the order of their tags, including subclasses that users described."""
        described = self._described()
        return {name: s or described.get(name) for name, s in self.registered.items()}

    @property
    def by_name(self) -> dict[str, Part_co | None]:
        """Serializers of other subclasses, including subclasses that users described."""
        described = without_keys(self._described(), self.registered)
        return self.unregistered | {n: s for n, s in described.items() if self.unregistered.get(n) is None}

    def _described(self) -> dict[str, Any]:
        described = current_registrations().pojo_subclasses.get(self.class_name, {})
        return {name: _subclass_of(self.class_name, self.fields, name, added) for name, added in described.items()}

    # One value

    def read(self, source: DataInput) -> PojoValue | None:
        start = source.position
        flags = source.read_unsigned_byte()
        if flags == _NULL:
            return None
        if flags == _EXACT:
            return PojoValue(self.class_name, self._read_fields(source))
        value = self._subclass(flags, source, start).read(source)
        if value is None:
            raise source.corrupt(f"a null inside a subclass of {self.class_name}", start)
        return value

    def skip(self, source: DataInput) -> None:
        start = source.position
        flags = source.read_unsigned_byte()
        if flags == _NULL:
            return
        if flags == _EXACT:
            self._skip_fields(source)
            return
        self._subclass(flags, source, start).skip(source)

    def _read_fields(self, source: DataInput) -> dict[str, Any]:
        return {name: f.read(source) for name, f in self._flagged}

    def _skip_fields(self, source: DataInput) -> None:
        for _, field in self._flagged:
            field.skip(source)

    def _emit_fields(self, builder: DecodeBuilder, column_of: Callable[[str], Column]) -> None:
        """Append the instructions for the fields; ``column_of`` finds a field's column."""
        for field in self.fields:
            with builder.field(field.name):
                field.flagged.emit_decode(builder, column_of(field.name))

    def _subclass(self, flags: int, source: DataInput, start: int) -> PojoCodec[Any]:
        """Return the serializer of the subclass that the bytes name."""
        if flags == _BY_TAG:
            tag = source.read_unsigned_byte()
            if tag >= len(self.registered):
                raise source.corrupt(
                    f"{self.class_name} has {len(self.registered)} registered subclasses, no number {tag}", start
                )
            name, subclass = list(self.by_tag.items())[tag]
        elif flags == _BY_NAME:
            name = source.read_utf()
            subclass = self.by_name.get(name)
        else:
            raise source.corrupt(f"expected flags of a POJO ({self.class_name}), found {flags}", start)
        if not isinstance(subclass, PojoCodec):
            problem = f"describes it as {subclass}" if subclass else "does not describe it"
            error = UndescribedClassError(
                f"{source.source}, offset {start}: a value of class {name}, a subclass of {self.class_name}, can't be decoded: "
                f"the serializer snapshot {problem}. Flink adds subclasses to a snapshot only when they are registered, or were "
                f"met before it was taken. Describe the class with {registering('register_pojo_class()')}, or register it in the "
                f"job and take another savepoint, or {reading_as_bytes()}"
            )
            error.class_name, error.start = name, start
            raise error
        return subclass

    def write(self, value: Mapping[str, Any] | None, target: DataOutput) -> None:
        """Write a value. A mapping that is not a :class:`PojoValue` is a value of the class itself."""
        if value is None:
            target.write_byte(_NULL)
            return
        class_name = value.class_name if isinstance(value, PojoValue) else self.class_name
        if class_name == self.class_name:
            target.write_byte(_EXACT)
            for of_class, (name, field) in zip(self.fields, self._flagged, strict=True):
                if value[name] is None and of_class.is_primitive(class_name):
                    raise ValueError(f"field {name} of {class_name} is primitive and can't be null")
                field.write(value[name], target)
            return
        if class_name in self.registered:
            target.write_byte(_BY_TAG)
            target.write_byte(list(self.registered).index(class_name))
            subclass = self.by_tag[class_name]
        else:
            target.write_byte(_BY_NAME)
            target.write_utf(class_name)
            subclass = self.by_name.get(class_name)
        if not isinstance(subclass, PojoCodec):
            raise UnsupportedFormatError(f"{self} lacks a description of the subclass {class_name}")
        subclass.write(value, target)

    # Columns

    @property
    def _variants(self) -> list[tuple[int, int, PojoCodec[Any]]]:
        """Every subclass that can be decoded: its kind of marker, its tag (-1: by name), its serializer."""
        variants: list[tuple[int, int, PojoCodec[Any]]] = []
        for tag, subclass in enumerate(self.by_tag.values()):
            if isinstance(subclass, PojoCodec):
                variants.append((_BY_TAG, tag, subclass))
        variants += [(_BY_NAME, -1, s) for s in self.by_name.values() if isinstance(s, PojoCodec)]
        return variants

    @property
    def _classes(self) -> list[PojoCodec[Any]]:
        """The class itself and every subclass that can be decoded."""
        return [self, *(s for _, _, s in self._variants)]

    @property
    def has_subclasses(self) -> bool:
        """Whether columns have a field with the class of each value."""
        return bool(self.registered or self.by_name)

    def _columns(self, options: DecodeOptions) -> PojoColumns:
        return PojoColumns([(pojo.class_name, pojo.fields) for pojo in self._classes], options)

    @property
    def class_columns(self) -> Sequence[tuple[str, Sequence[PojoField[Any]], Mapping[str, str]]]:
        """The class and its subclasses: name, fields, and the column of each field."""
        places = self._columns(DecodeOptions()).places if self.has_subclasses else {}
        described = []
        for number, pojo in enumerate(self._classes):
            columns = {f.name: places.get((number, f.name), f.name) for f in pojo.fields}
            described.append((pojo.class_name, pojo.fields, columns))
        return described

    @property
    def column_parts(self) -> Sequence[tuple[str, Codec]]:
        """Each field's column and serializer. A field that subclasses inherit occurs once for each class."""
        parts: list[tuple[str, Codec]] = []
        for _, fields, columns in self.class_columns:
            parts += [(columns[f.name], f.serializer) for f in fields]
        return parts

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if self.has_subclasses:
            return self._columns(options).struct()
        return pa.struct([(f.name, f.serializer.arrow_type(options)) for f in self.fields])

    def to_column(self, value: PojoValue | None, options: DecodeOptions) -> dict[str, Any] | None:
        if value is None:
            return None
        if not self.has_subclasses:
            return {name: f.to_column(value[name], options) for name, f in self._flagged}
        columns = self._columns(options)
        columns_of_value: dict[str, Any] = dict.fromkeys(columns.types)
        columns_of_value[CLASS_FIELD] = value.class_name
        for number, pojo in enumerate(self._classes):
            if pojo.class_name == value.class_name:
                for field in pojo.fields:
                    columns_of_value[columns.places[number, field.name]] = field.flagged.to_column(value[field.name], options)
                break
        return columns_of_value

    def from_column(self, value: Mapping[str, Any] | None) -> PojoValue | None:
        if value is None:
            return None
        class_name, places = self.class_name, {}
        if isinstance(value, PojoValue):
            class_name = value.class_name
        elif self.has_subclasses:
            columns = self._columns(WIDEST)
            class_name, places = columns.class_of(value), columns.places
        for number, pojo in enumerate(self._classes):
            if pojo.class_name == class_name:
                fields = {}
                for field in pojo.fields:
                    column = places.get((number, field.name), field.name)
                    fields[field.name] = field.flagged.from_column(value[column])
                return PojoValue(class_name, fields)
        raise InvalidRowError(f"{self} lacks a description of the subclass {class_name}")

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        variants = self._variants
        targets, subclasses = [], []
        for kind, tag, pojo in variants:
            name = encode_modified_utf8(pojo.class_name)
            mark, size = (tag, 0) if kind == _BY_TAG else (builder.constant(name), len(name))
            targets.append(builder.label())
            subclasses.append((kind, mark, size, targets[-1]))
        with builder.unless(Op.POJO, column, subclasses=builder.aux(subclasses), nulls=column, count=len(variants)):
            if not self.has_subclasses:
                builder.op(Op.VALID, column)
                self._emit_fields(builder, column.named)
                return
            columns = self._columns(builder.options)
            end = builder.label()
            self._emit_variant(0, self, builder, column, columns)
            builder.jump(end)
            for number, ((_, _, pojo), target) in enumerate(zip(variants, targets, strict=True)):
                builder.place(target)
                builder.expect(_EXACT)
                self._emit_variant(number + 1, pojo, builder, column, columns)
                builder.jump(end)
            builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        has_subclasses = self.has_subclasses
        with builder.unless(Op.POJO, column, flags_follow=int(has_subclasses)):
            if not has_subclasses:
                self._encode_fields(builder, column.named)
                return
            self._encode_variants(builder, column)

    def _encode_fields(self, builder: EncodeBuilder, column_of: Callable[[str], Column]) -> None:
        """Append the instructions that write the fields; ``column_of`` finds a field's column."""
        for field in self.fields:
            with builder.field(field.name):
                if field.is_primitive(self.class_name):
                    builder.bytes(_NOT_NULL)
                    field.serializer.emit_encode(builder, column_of(field.name))
                else:
                    field.flagged.emit_encode(builder, column_of(field.name))

    def _encode_variants(self, builder: EncodeBuilder, column: Column) -> None:
        columns = self._columns(WIDEST)
        input_columns = columns.columns_in(names_of(column.children))
        builder.limit(column, input_columns.field_limits)
        marks = [bytes([_EXACT])]
        for kind, tag, pojo in self._variants:
            output = DataOutput()
            output.write_byte(kind)
            if kind == _BY_TAG:
                output.write_byte(tag)
            else:
                output.write_utf(pojo.class_name)
            output.write_byte(_EXACT)
            marks.append(output.to_bytes())
        of_class = column.find(CLASS_FIELD)
        written = []
        for number, (mark, pojo) in enumerate(zip(marks, self._classes, strict=True)):
            if number == 0 if of_class is None else pojo.class_name in input_columns.classes:
                written.append((number, mark, pojo, builder.label()))
        end = builder.label()
        if of_class is not None:
            builder.limit(of_class, (input_columns.class_limit,))
            rows = []
            for _, _, pojo, target in written:
                name = pojo.class_name.encode()
                rows.append((0, builder.constant(name), len(name), target))
            builder.op(Op.SUBCLASS, of_class, classes=builder.aux(rows), count=len(rows))
        for number, mark, pojo, target in written:
            builder.place(target)
            builder.bytes(mark)

            def place(field: str, number: int = number) -> Column:
                return column.named(columns.places[number, field])

            pojo._encode_fields(builder, place)
            builder.jump(end)
        builder.place(end)

    @staticmethod
    def _emit_variant(
        number: int,
        pojo: PojoCodec[Any],
        builder: DecodeBuilder,
        column: Column,
        columns: PojoColumns,
    ) -> None:
        """Append the instructions for one class's values: its fields, and nulls for the fields of other classes."""
        builder.op(Op.VALID, column)
        builder.text(column.named(CLASS_FIELD), pojo.class_name)
        own_columns = {CLASS_FIELD, *(columns.places[number, field.name] for field in pojo.fields)}
        pojo._emit_fields(builder, lambda name: column.named(columns.places[number, name]))
        builder.fill_nulls(*(column.named(name) for name in columns.types if name not in own_columns))


class PojoSerializer(PojoCodec[TypeSerializer], TypeSerializer):
    """The type of a POJO: its codec, and the snapshot (Flink: ``PojoSerializer``)."""

    never_null = True

    @classmethod
    def of(
        cls,
        class_name: str,
        fields: Mapping[str, TypeSerializer],
        subclasses: Mapping[str, Mapping[str, TypeSerializer]] | None = None,
    ) -> PojoSerializer:
        """Return the serializer that Flink makes for a class: fields sorted by name, all declared by the class itself.

        Parameters
        ----------
        class_name, fields
            The class.
        subclasses
            Its registered subclasses in the order of registration, each with its additional fields.

        Raises
        ------
        OptionError
            If a subclass is the class itself, or has one of its fields.
        """
        fields_of_class = [PojoField(name, fields[name], class_name) for name in sorted(fields)]
        registered = {name: _subclass_of(class_name, fields_of_class, name, added) for name, added in (subclasses or {}).items()}
        return cls(class_name, fields_of_class, registered)

    def with_children(self, children: Sequence[Any]) -> PojoSerializer:
        return PojoSerializer(self.class_name, *self._parts_of(children))

    def snapshot(self) -> TypeSerializerSnapshot:
        return PojoSerializerSnapshot(
            POJO_SNAPSHOT,
            self.class_name,
            [PojoFieldSnapshot(f.name, f.declaring_class, f.serializer.snapshot()) for f in self.fields],
            _snapshots_of(self.by_tag),
            _snapshots_of(self.by_name),
        )


def _subclass_of(
    parent: str, inherited: Sequence[PojoField[Any]], class_name: str, added: Mapping[str, TypeSerializer]
) -> PojoSerializer:
    """Return the serializer of a subclass, from the fields of the class and the fields that the subclass adds."""
    if class_name == parent:
        raise OptionError(f"{class_name} is described as a subclass of itself: leave it out of the subclasses")
    repeated = [f.name for f in inherited if f.name in added]
    if repeated:
        raise OptionError(
            f"{class_name} is described with the field {repeated[0]!r}, but it inherits this field from {parent}: name only the "
            f"fields that {parent} lacks (it has {', '.join(names_of(inherited))})"
        )
    fields = [*inherited, *(PojoField(name, serializer, class_name) for name, serializer in added.items())]
    return PojoSerializer(class_name, sorted(fields, key=lambda f: f.name))


def _next_of(subclasses: Mapping[str, Any], remaining: Iterator[Any]) -> dict[str, Any]:
    """Return subclasses with the next serializers for theirs; subclasses without a serializer stay."""
    return {name: serializer and next(remaining) for name, serializer in subclasses.items()}


def _snapshots_of(serializers: Mapping[str, TypeSerializer | None]) -> list[SubclassSnapshot]:
    return [SubclassSnapshot(name, True, s.snapshot() if s else None) for name, s in serializers.items()]


class PojoSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`PojoSerializer`: class, fields and subclasses, each with its snapshot."""

    current_version: ClassVar[int] = 2

    def __init__(
        self,
        class_name: str,
        pojo_class: str,
        fields: Sequence[PojoFieldSnapshot],
        registered: Sequence[SubclassSnapshot] = (),
        unregistered: Sequence[SubclassSnapshot] = (),
        version: int | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.pojo_class = pojo_class
        self.fields = tuple(fields)
        self.registered = tuple(registered)
        self.unregistered = tuple(unregistered)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> PojoSerializerSnapshot:
        pojo_class = source.read_utf()
        return cls(class_name, pojo_class, read_fields(source), read_subclasses(source), read_subclasses(source), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.pojo_class)
        write_optional_map(list(map(PojoFieldSnapshot.to_entry, self.fields)), target)
        for subclasses in (self.registered, self.unregistered):
            write_optional_map(list(map(SubclassSnapshot.to_entry, subclasses)), target)

    @property
    def named_children(self) -> Sequence[tuple[str, TypeSerializerSnapshot]]:
        """The snapshots of the fields, then of the fields that subclasses add, named by the simple name of the subclass."""
        children = [(f.name, f.snapshot) for f in self.fields if f.snapshot is not None]
        for subclass in (*self.registered, *self.unregistered):
            children += _added(subclass, self.fields)
        return tuple(children)

    def with_children(self, children: Sequence[TypeSerializerSnapshot]) -> PojoSerializerSnapshot:
        """Return the snapshot with other children. Subclasses get the changes of the fields that they inherit."""
        remaining = iter(children)
        fields = tuple(f if f.snapshot is None else replace(f, snapshot=next(remaining)) for f in self.fields)
        changed = [new for old, new in zip(self.fields, fields, strict=True) if new.snapshot is not old.snapshot]
        new = copy(self)
        new.fields = fields
        new.registered = tuple(_with_added(s, remaining, self.fields, changed) for s in self.registered)
        new.unregistered = tuple(_with_added(s, remaining, self.fields, changed) for s in self.unregistered)
        return new

    def restore_serializer(self) -> TypeSerializer:
        fields = [PojoField(f.name, self._restore_field(f), f.declaring_class) for f in self.fields]
        return PojoSerializer(self.pojo_class, fields, _restored(self.registered), _restored(self.unregistered))

    def _restore_field(self, field: PojoFieldSnapshot) -> TypeSerializer:
        if field.snapshot is None:
            raise UnsupportedFormatError(
                f"the snapshot of {self.pojo_class} lacks a serializer for field {field.name!r}: Flink could not load its class "
                "when it wrote the snapshot, so values of this class can't be decoded"
            )
        return field.snapshot.restore_serializer()

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, PojoSerializerSnapshot)
        if new.pojo_class != self.pojo_class:
            return SchemaCompatibility.incompatible(f"class {self.pojo_class} was written, class {new.pojo_class} is required")
        absent = [s.class_name for s in (*self.registered, *self.unregistered) if s.is_absent]
        if absent:
            return SchemaCompatibility.incompatible(f"{self.pojo_class}: the written snapshot lacks the subclass {absent[0]}")
        return SchemaCompatibility.worst(
            *field_verdicts(self.pojo_class, self.fields, new.fields),
            *subclass_verdicts(self.registered, self.unregistered, new.registered),
        )


def _added(subclass: SubclassSnapshot, inherited: Sequence[PojoFieldSnapshot]) -> Iterator[tuple[str, TypeSerializerSnapshot]]:
    """Yield the snapshots that a subclass adds to the fields of its parent, with their names in paths."""
    simple = subclass.class_name.replace("$", ".").rpartition(".")[2]
    if isinstance(subclass.snapshot, PojoSerializerSnapshot):
        for field in subclass.snapshot.fields:
            if field.snapshot is not None and not field.is_in(inherited):
                yield join_path(simple, field.name), field.snapshot
    elif subclass.snapshot is not None:
        yield simple, subclass.snapshot


def _with_added(
    subclass: SubclassSnapshot,
    added: Iterator[TypeSerializerSnapshot],
    inherited: Sequence[PojoFieldSnapshot],
    changed: Sequence[PojoFieldSnapshot],
) -> SubclassSnapshot:
    """Return a subclass with other snapshots.

    ``added``: the new snapshots in the order of :func:`_added`; as many as are needed are taken. ``inherited`` and ``changed``:
    the fields of the parent, and those with a new snapshot.
    """
    if subclass.snapshot is None:
        return subclass
    if not isinstance(subclass.snapshot, PojoSerializerSnapshot):
        return replace(subclass, snapshot=next(added))

    def new(field: PojoFieldSnapshot) -> PojoFieldSnapshot:
        if field.is_in(inherited):
            return next((replace(field, snapshot=c.snapshot) for c in changed if field.is_in([c])), field)
        return field if field.snapshot is None else replace(field, snapshot=next(added))

    snapshot = copy(subclass.snapshot)
    snapshot.fields = tuple(map(new, subclass.snapshot.fields))
    return replace(subclass, snapshot=snapshot)


def _restored(subclasses: Iterable[SubclassSnapshot]) -> dict[str, TypeSerializer | None]:
    return {subclass.class_name: _restore_subclass(subclass) for subclass in subclasses}


def _restore_subclass(subclass: SubclassSnapshot) -> TypeSerializer | None:
    """Return the serializer of a subclass, or ``None``: a missing one matters only if such a value occurs."""
    if subclass.snapshot is None:
        return None
    try:
        return subclass.snapshot.restore_serializer()
    except UnsupportedFormatError:
        return None


provide_snapshots((POJO_SNAPSHOT,), PojoSerializerSnapshot)
