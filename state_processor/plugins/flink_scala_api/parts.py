"""Snapshots that hold names of classes and nested snapshots, and no composite snapshot of Flink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final

from state_processor.serializers import (
    DataInput,
    DataOutput,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
)
from state_processor.serializers.extension import (
    Codec,
    NullMarking,
    Op,
    default_names,
    product_hash,
    scala_hash,
    string_hash,
    write_versioned_snapshot,
)

if TYPE_CHECKING:
    from state_processor.serializers.extension import Column, DecodeBuilder, EncodeBuilder

NULL_MARKER: Final = -(1 << 31)
"""What stands for null where a value begins with an int that is never negative."""
SERIALIZERS: Final = "org.apache.flinkx.api.serializer."
MAPPERS: Final = "org.apache.flinkx.api.mapper."


def simple_name(class_name: str) -> str:
    """Return the name of a class without packages, outer classes, and the ``$`` behind the name of an object."""
    return class_name.rstrip("$").replace("$", ".").rpartition(".")[2]


def prefixed_hash(name: str, fields: Sequence[TypeSerializer], value: Sequence[Any]) -> int:
    """Return ``hashCode`` of a product as Scala 2.13 and Scala 3 compute it: over the name of the class, too.

    ``name``: the simple name of its class (``productPrefix``). ``value``: the fields.
    """
    prefix = string_hash(name)
    if not fields:
        return prefix
    return product_hash([prefix, *(scala_hash(f, v) for f, v in zip(fields, value, strict=True))], len(fields))


Create = Callable[["PartsSnapshot"], TypeSerializer]


class PartsSnapshot(TypeSerializerSnapshot):
    """A snapshot of names and nested snapshots, one after the other. :func:`parts_snapshot` makes a subclass for each kind.

    Compatible are the same names with compatible nested serializers. flink-scala-api before 2.4 accepts any snapshot of the same
    class; its jobs then fail at the first value, or read wrong values.

    ``class_name``: the Java class of the snapshot. ``names``: names of classes and constants.
    """

    name_count: ClassVar[int] = 0
    nested_count: ClassVar[int] = 0
    decisive: ClassVar[Sequence[int]] = ()
    """The names that may not change."""
    nested_names: ClassVar[Sequence[str]] = ()
    create: ClassVar[Create]

    def __init__(
        self,
        class_name: str,
        names: Sequence[str] = (),
        nested: Sequence[TypeSerializerSnapshot] = (),
        version: int | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.names = tuple(names)
        self.nested = tuple(nested)

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> PartsSnapshot:
        names = [source.read_utf() for _ in range(cls.name_count)]
        with source.nested("serializer snapshots"):
            nested = [read_versioned_snapshot(source) for _ in range(cls.nested_count)]
        return cls(class_name, names, nested, version)

    def write(self, target: DataOutput) -> None:
        for name in self.names:
            target.write_utf(name)
        for snapshot in self.nested:
            write_versioned_snapshot(snapshot, target)

    @property
    def named_children(self) -> Sequence[tuple[str, TypeSerializerSnapshot]]:
        names = self.nested_names or default_names(len(self.nested))
        return tuple(zip(names, self.nested, strict=True))

    def with_children(self, children: Sequence[TypeSerializerSnapshot]) -> PartsSnapshot:
        new = copy(self)
        new.nested = tuple(children)
        return new

    def restore_serializer(self) -> TypeSerializer:
        return type(self).create(self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, PartsSnapshot)
        for number in self.decisive:
            if self.names[number] != new.names[number]:
                return SchemaCompatibility.incompatible(f"{self.names[number]} was written, {new.names[number]} is required")
        pairs = zip(self.nested, new.nested, strict=True)
        return SchemaCompatibility.worst(*(old.resolve_schema_compatibility(new_part) for old, new_part in pairs))


def parts_snapshot(
    create: Create,
    version: int,
    *,
    names: int = 0,
    nested: Sequence[str] = (),
    decisive: Sequence[int] | None = None,
) -> type[PartsSnapshot]:
    """Return a class of snapshots with names and nested snapshots.

    ``create``: makes the serializer of a snapshot. ``version``: the version of new snapshots. ``names``: how many names come
    first. ``nested``: the names of the nested types in paths, one for each. ``decisive``: the names that may not change; by
    default all.
    """
    return type(
        "PartsSnapshot",
        (PartsSnapshot,),
        {
            "current_version": version,
            "name_count": names,
            "nested_count": len(nested),
            "nested_names": tuple(nested),
            "decisive": tuple(range(names)) if decisive is None else tuple(decisive),
            "create": staticmethod(create),
        },
    )


_FIRST_BYTE: int = 0x80
_NULL: Final = NULL_MARKER.to_bytes(4, "big", signed=True)


class NullMarked(NullMarking[Codec]):
    """A value that begins with an int, or the least int for null.

    ``inner``: the codec of a value that is not null: of a collection, which begins with its size.
    """

    min_size = 4

    def is_null(self, source: DataInput) -> bool:
        start = source.position
        if source.read_int() == NULL_MARKER:
            return True
        source.position = start
        return False

    def write(self, value: Any, target: DataOutput) -> None:
        if value is None:
            target.write_bytes(_NULL)
        else:
            self.inner.write(value, target)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        present, null, end = builder.label(), builder.label(), builder.label()
        mark = builder.register()
        builder.op(Op.MARK, register=mark)
        targets = [(null if byte == _FIRST_BYTE else present,) for byte in range(256)]
        builder.op(Op.CHOOSE_BYTE, column, branches=builder.aux(targets), count=len(targets))
        builder.place(null)
        for _ in range(3):
            builder.expect(0)
        builder.fill_nulls(column)
        builder.jump(end)
        builder.place(present)
        builder.op(Op.MOVE, register=mark)
        self.inner.emit_decode(builder, column)
        builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        null, end = builder.label(), builder.label()
        builder.op(Op.SKIP_NULL, column, null=null)
        self.inner.emit_encode(builder, column)
        builder.jump(end)
        builder.place(null)
        builder.bytes(_NULL)
        builder.place(end)
