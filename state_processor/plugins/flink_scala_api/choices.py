"""Sealed traits and enumerations of Scala 3 (flink-scala-api: ``CoproductSerializer``, ``Scala3EnumSerializer``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_scala_api.case_classes import CaseClassSerializer, ConstantSerializer
from state_processor.plugins.flink_scala_api.parts import SERIALIZERS, simple_name
from state_processor.serializers import (
    CompositeTypeSerializerSnapshot,
    DataInput,
    DataOutput,
    DecodeOptions,
    SimpleArraySerializer,
    StringSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
)
from state_processor.serializers.extension import (
    CLASS_FIELD,
    DISCARD,
    ClassLimit,
    Op,
    emit_choice,
    match_fields,
    optional_field,
    pc,
    write_versioned_snapshot,
)

if TYPE_CHECKING:
    from state_processor.serializers.extension import Column, DecodeBuilder, EncodeBuilder

COPRODUCT_SNAPSHOT: Final = f"{SERIALIZERS}CoproductSerializer$CoproductSerializerSnapshot"
ENUM_SNAPSHOT: Final = f"{SERIALIZERS}Scala3EnumSerializerSnapshot"

_NULL: Final = 0x80
_NAMES: Final = SimpleArraySerializer(StringSerializer(), "")


class ChosenValue(NamedTuple):
    """A value of a sealed trait: the class of its subtype, and its content."""

    class_name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Branch:
    """A subtype: its name in values, its column (``""`` if the class tells all), its serializer."""

    name: str
    column: str
    serializer: TypeSerializer

    @property
    def constant(self) -> Any:
        """The only value of a subtype without column."""
        return self.serializer.value if isinstance(self.serializer, ConstantSerializer) else ()


class CoproductSerializer(TypeSerializer):
    """A value of a sealed trait or of an enumeration of Scala 3: a byte with the number of the subtype, and the value.

    A column is a struct: ``_class`` with the class of the value, and for each subtype with fields a column with the simple name
    of its class. The columns of other subtypes are null.

    ``names``: the Java classes of the subtypes; of an enumeration the names of its values. ``subtypes``: their serializers.
    ``version``: the version of the snapshot. Serializers of version 2 can't write null.
    """

    def __init__(
        self,
        names: Sequence[str],
        subtypes: Sequence[TypeSerializer],
        snapshot_class: str = COPRODUCT_SNAPSHOT,
        version: int = 3,
    ) -> None:
        self.names = tuple(names)
        self.subtypes = tuple(subtypes)
        self.version = version
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"ONE_OF<{','.join(_column_names(self.names))}>"

    @property
    def branches(self) -> list[Branch]:
        """The subtypes in the order of their numbers."""
        named = zip(self.names, _column_names(self.names), self.subtypes, strict=True)
        return [Branch(name, column if _has_content(s) else "", s) for name, column, s in named]

    @property
    def child_names(self) -> Sequence[str]:
        return _column_names(self.names)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return self.subtypes

    @property
    def column_parts(self) -> Sequence[tuple[str, TypeSerializer]]:
        return [(b.column, b.serializer) for b in self.branches if b.column]

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return CoproductSerializer(self.names, children, self._snapshot_class, self.version)

    @property
    def _nullable(self) -> bool:
        return self.version > 2

    # One value

    def read(self, source: DataInput) -> ChosenValue | None:
        number = self._number(source)
        if number is None:
            return None
        with source.nested("values"):
            return ChosenValue(self.names[number], self.subtypes[number].read(source))

    def skip(self, source: DataInput) -> None:
        number = self._number(source)
        if number is not None:
            with source.nested("values"):
                self.subtypes[number].skip(source)

    def _number(self, source: DataInput) -> int | None:
        start = source.position
        number = source.read_unsigned_byte()
        if number == _NULL:
            return None
        if number >= len(self.subtypes):
            raise source.corrupt(f"{self} has {len(self.subtypes)} subtypes, none with number {number}", start)
        return number

    def write(self, value: ChosenValue | None, target: DataOutput) -> None:
        if value is None:
            if not self._nullable:
                raise InvalidRowError(f"null; {self} can't store null")
            target.write_byte(_NULL)
            return
        number = self.names.index(value.class_name)
        target.write_byte(number)
        self.subtypes[number].write(value.value, target)

    # Columns

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        fields = [pa.field(CLASS_FIELD, pa.string())]
        for branch in self.branches:
            if branch.column:
                type_ = branch.serializer.arrow_type(options)
                optional = options.describe == "for_writing"
                fields.append(
                    optional_field(branch.column, type_, [branch.column]) if optional else pa.field(branch.column, type_)
                )
        return pa.struct(fields)

    def to_column(self, value: ChosenValue | None, options: DecodeOptions) -> dict[str, Any] | None:
        if value is None:
            return None
        columns_of_value: dict[str, Any] = {CLASS_FIELD: value.class_name}
        for branch in self.branches:
            if branch.column:
                of_class = branch.name == value.class_name
                columns_of_value[branch.column] = branch.serializer.to_column(value.value, options) if of_class else None
        return columns_of_value

    def from_column(self, value: Any) -> ChosenValue | None:
        if value is None or isinstance(value, ChosenValue):
            return value
        if not isinstance(value, Mapping):
            raise InvalidRowError(f"expected a struct with {CLASS_FIELD}, found {value!r}")
        columns = [b.column for b in self.branches if b.column]
        match_fields(list(value), [CLASS_FIELD, *columns], f"a value of {self}", {c: [c] for c in columns})
        name = value.get(CLASS_FIELD)
        if name not in self.names:
            raise InvalidRowError(f"{CLASS_FIELD} is {name!r}: {self._class_limit(self.branches).rule}")
        for branch in self.branches:
            if branch.column and (value.get(branch.column) is None) is (branch.name == name):
                raise InvalidRowError(_OnlyOf(branch.column, branch.name).rule)
        branch = self.branches[self.names.index(name)]
        content = branch.serializer.from_column(value[branch.column]) if branch.column else branch.constant
        return ChosenValue(name, content)

    @staticmethod
    def _class_limit(written: Sequence[Branch]) -> ClassLimit:
        names = tuple(b.name for b in written)
        return ClassLimit(names, f"expected {' or '.join(names)}")

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        branches = self.branches
        of_class = column.child(0)
        columns = _columns(branches, column)

        def chosen(number: int) -> None:
            branch = branches[number]
            builder.op(Op.VALID, column)
            builder.text(of_class, branch.name)
            with builder.field(branch.column or branch.name):
                branch.serializer.emit_decode(builder, columns.get(branch.column, DISCARD))
            builder.fill_nulls(*(c for name, c in columns.items() if name != branch.column))

        choices: list[Callable[[], None] | None] = [partial(chosen, number) for number in range(len(branches))]
        choices += [None] * (_NULL - len(choices))
        emit_choice(builder, column, [*choices, lambda: builder.fill_nulls(column)])

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        of_class = column.find(CLASS_FIELD)
        written = [(n, b) for n, b in enumerate(self.branches) if not b.column or column.find(b.column) is not None]
        null, end = builder.label(), builder.label()
        if self._nullable:
            builder.op(Op.SKIP_NULL, column, null=null)
        else:
            builder.op(Op.REQUIRE, column)
        if of_class is None:
            raise InvalidRowError(f"a value of {self} lacks the field {CLASS_FIELD}")
        builder.limit(of_class, (self._class_limit([b for _, b in written]),))
        builder.limit(column, tuple(_OnlyOf(b.column, b.name) for _, b in written if b.column))
        targets = builder.labels(len(written))
        names = [b.name.encode() for _, b in written]
        rows = [(0, builder.constant(name), len(name), target) for name, target in zip(names, targets, strict=True)]
        builder.op(Op.SUBCLASS, of_class, classes=builder.aux(rows), count=len(rows))
        builder.op(Op.REQUIRE, of_class)
        for (number, branch), target in zip(written, targets, strict=True):
            builder.place(target)
            builder.bytes(bytes([number]))
            if branch.column:
                with builder.field(branch.column):
                    branch.serializer.emit_encode(builder, column.named(branch.column))
            else:
                builder.bytes(branch.serializer.serialize(branch.constant))
            builder.jump(end)
        builder.place(null)
        if self._nullable:
            builder.bytes(bytes([_NULL]))
        builder.place(end)

    def snapshot(self) -> TypeSerializerSnapshot:
        nested = self.child_snapshots
        if self._snapshot_class == ENUM_SNAPSHOT:
            return EnumSnapshot(self._snapshot_class, nested, self.names)
        return CoproductSnapshot(self._snapshot_class, nested, self.names, self.version)

    def hash_code(self, value: ChosenValue) -> int:
        return self.subtypes[self.names.index(value.class_name)].hash_code(value.value)


def _has_content(serializer: TypeSerializer) -> bool:
    """Return whether a value of a subtype is more than its class."""
    if isinstance(serializer, CaseClassSerializer):
        return bool(serializer.fields)
    return not isinstance(serializer, ConstantSerializer)


def _column_names(names: Sequence[str]) -> list[str]:
    """Return the simple names of classes; the full name of a class whose simple name another one has."""
    columns_of_names: list[str] = [CLASS_FIELD]
    for name in names:
        simple = simple_name(name)
        columns_of_names.append(simple if simple not in columns_of_names else name)
    return columns_of_names[1:]


def _columns(branches: Sequence[Branch], column: Column) -> dict[str, Column]:
    """Return the columns of the branches that have one."""
    names = [b.column for b in branches if b.column]
    return {name: column.child(1 + position) for position, name in enumerate(names)}


@dataclass(frozen=True)
class _OnlyOf:
    """The check that the column of a subtype has a value in values of this subtype, and in no others."""

    column: str
    class_name: str

    @property
    def rule(self) -> str:
        """The rule, for messages."""
        return f"{self.column} needs a value if {CLASS_FIELD} is {self.class_name}, and has to be null otherwise"

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the structs that break the rule."""
        there = pc.is_valid(pc.struct_field(array, [array.type.get_field_index(self.column)]))
        of_class = pc.struct_field(array, [array.type.get_field_index(CLASS_FIELD)])
        wrong = pc.xor(there, pc.equal(of_class, self.class_name)).fill_null(False)
        return np.asarray(wrong.to_numpy(zero_copy_only=False), dtype=np.bool_)


class CoproductSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`CoproductSerializer`.

    Version 2 is not a composite snapshot: a number of subtypes, their classes, and their snapshots.
    """

    current_outer_version = 3

    def __init__(
        self, class_name: str, nested: Sequence[TypeSerializerSnapshot], names: Sequence[str], version: int | None = None
    ) -> None:
        super().__init__(class_name, nested, version)
        self.names = tuple(names)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> CompositeTypeSerializerSnapshot:
        if version > 2:
            snapshot = super().read(class_name, version, source)
            assert isinstance(snapshot, CoproductSnapshot)
            snapshot._check(source)
            return snapshot
        names = source.read_list("subtypes", DataInput.read_utf, 8)
        return cls(class_name, [read_versioned_snapshot(source) for _ in names], names, version)

    def write(self, target: DataOutput) -> None:
        if self.version > 2:
            super().write(target)
            return
        target.write_int(len(self.names))
        for name in self.names:
            target.write_utf(name)
        for snapshot in self.nested:
            write_versioned_snapshot(snapshot, target)

    def read_outer(self, source: DataInput) -> None:
        self.names = _read_names(source)

    def write_outer(self, target: DataOutput) -> None:
        _NAMES.write(self.names, target)

    def _check(self, source: DataInput) -> None:
        if len(self.names) != len(self.nested):
            raise source.corrupt(f"{self.class_name} has {len(self.names)} subtypes and {len(self.nested)} serializers")

    @property
    def nested_names(self) -> Sequence[str]:
        return _column_names(self.names)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return CoproductSerializer(self.names, nested, self.class_name, self.version)


class EnumSnapshot(CoproductSnapshot):
    """Snapshot of an enumeration of Scala 3; composite in all versions."""

    current_outer_version = 1


def _read_names(source: DataInput) -> tuple[str, ...]:
    start = source.position
    names = _NAMES.read(source)
    if not all(names):
        raise source.corrupt("a subtype without name", start)
    return tuple(names)


SNAPSHOTS: Final = {COPRODUCT_SNAPSHOT: CoproductSnapshot, ENUM_SNAPSHOT: EnumSnapshot}
