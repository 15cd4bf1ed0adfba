"""Avro's types that contain other types: arrays, maps, unions and records.

In Python a record is a dict and a map is a list of pairs. A value of a union with several branches, not counting null, is an
:class:`AvroBranch`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from state_processor.serializers.avro.scalars import AvroNull, AvroString, AvroType
from state_processor.serializers.codec import Codec, total_min_size
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.opcodes import BLOCKS, Op
from state_processor.serializers.text_grammar import parse_json
from state_processor.serializers.traversal import ELEMENT, VALUE, transform
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class AvroBranch(NamedTuple):
    """A value of a union: the number of its branch, and the value."""

    branch: int
    value: Any


class AvroArray(AvroType):
    """``array``: blocks of a count and that many items, ended by an empty one; Flink writes one block."""

    child_names = (ELEMENT,)

    name = "array"
    min_size = 1

    def __init__(self, items: Codec) -> None:
        self.items = items

    @property
    def children(self) -> Sequence[Codec]:
        return (self.items,)

    def with_children(self, children: Sequence[Codec]) -> Codec:
        (items,) = children
        return type(self)(items)

    def _read_items(self, source: DataInput) -> Iterator[Any]:
        while count := source.read_unsigned_varint():
            if count > source.remaining:
                raise source.corrupt(f"{count} items announced, {source.remaining} bytes left")
            for _ in range(count):
                yield self._read_item(source)

    def _read_item(self, source: DataInput) -> Any:
        return self.items.read(source)

    def read(self, source: DataInput) -> list[Any]:
        return list(self._read_items(source))

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        if value:
            target.write_unsigned_varint(len(value))
            for item in value:
                self._write_item(item, target)
        target.write_byte(0)

    def _write_item(self, item: Any, target: DataOutput) -> None:
        self.items.write(item, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(self.items.arrow_type(options))

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> Any:
        return [self.items.to_column(v, options) for v in value]

    def from_column(self, value: Any) -> list[Any]:
        return list(map(self.items.from_column, value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.blocks(column):
            self.items.emit_decode(builder, column.child(0))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.elements(column, BLOCKS), builder.field("element"):
            self.items.emit_encode(builder, column.child(0))

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units(map(self.items.hash_code, value), start=1)


class AvroMap(AvroArray):
    """``map``: encoded as an array whose items are a string and a value."""

    child_names = (VALUE,)

    name = "map"
    _key = AvroString()

    def _read_item(self, source: DataInput) -> tuple[str, Any]:
        return self._key.read(source), self.items.read(source)

    def _write_item(self, item: tuple[str, Any], target: DataOutput) -> None:
        self._key.write(item[0], target)
        self.items.write(item[1], target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.map_(pa.string(), self.items.arrow_type(options))

    def to_column(self, value: Sequence[tuple[str, Any]], options: DecodeOptions) -> Any:
        return [(k, self.items.to_column(v, options)) for k, v in value]

    def from_column(self, value: Any) -> list[Any]:
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(k, self.items.from_column(v)) for k, v in pairs]

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.blocks(column):
            self._key.emit_decode(builder, column.child(0))
            self.items.emit_decode(builder, column.child(1))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.elements(column, BLOCKS):
            self._key.emit_encode(builder, column.child(0))
            with builder.field("value"):
                self.items.emit_encode(builder, column.child(1))

    def hash_code(self, value: Any) -> int:
        raise UnsupportedFormatError("the hashCode of an Avro map depends on the class that held it: it can't be a part of a key")


class AvroUnion(AvroType):
    """``union``: the number of a branch and its value.

    A union of null and one other branch has the column of that branch, nullable. A larger union is a struct with a field for each
    branch except null; at most one field has a value.
    """

    min_size = 4

    def __init__(self, branches: Sequence[Codec]) -> None:
        self.branches = tuple(branches)
        self.null = next((i for i, b in enumerate(branches) if isinstance(b, AvroNull)), -1)
        self.value_branches = [i for i in range(len(branches)) if i != self.null]
        names = [_short(str(b)) for b in branches]
        self.names = [str(b) if names.count(n) > 1 else n for n, b in zip(names, branches, strict=True)]

    @property
    def child_names(self) -> Sequence[str]:
        """See :attr:`Codec.child_names`; the branch of an optional value has an empty name, like a nullable value."""
        return self.names if len(self.value_branches) > 1 else ("",) * len(self.branches)

    @property
    def children(self) -> Sequence[Codec]:
        return self.branches

    def with_children(self, children: Sequence[Codec]) -> Codec:
        return AvroUnion(children)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The branches' names."""
        return f"[{','.join(map(str, self.branches))}]"

    @property
    def is_struct(self) -> bool:
        """Whether values must name their branch."""
        return len(self.value_branches) > 1

    def read(self, source: DataInput) -> Any:
        start = source.position
        branch = source.read_int()
        if not 0 <= branch < len(self.branches):
            raise source.corrupt(f"branch {branch} of a union of {len(self.branches)}", start)
        value = self.branches[branch].read(source)
        return AvroBranch(branch, value) if self.is_struct and branch != self.null else value

    def branch_of(self, value: Any) -> tuple[int, Any]:
        """Return the branch of a value, and the value in that branch's form."""
        if isinstance(value, AvroBranch):
            return value
        if value is None and self.null >= 0:
            return self.null, None
        if len(self.value_branches) == 1 and value is not None:
            return self.value_branches[0], value
        raise ValueError(f"{value!r} does not name its branch of {self}: pass AvroBranch(number, value)")

    def write(self, value: Any, target: DataOutput) -> None:
        branch, content = self.branch_of(value)
        target.write_int(branch)
        self.branches[branch].write(content, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if not self.value_branches:
            return pa.null()
        if not self.is_struct:
            return self.branches[self.value_branches[0]].arrow_type(options)
        return pa.struct([(self.names[i], self.branches[i].arrow_type(options)) for i in self.value_branches])

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        if value is None:
            return None
        branch, content = self.branch_of(value)
        column_value = self.branches[branch].to_column(content, options)
        if not self.is_struct:
            return column_value
        return {self.names[i]: column_value if i == branch else None for i in self.value_branches}

    def from_column(self, value: Any) -> Any:
        if value is None or isinstance(value, AvroBranch):
            return value
        if not self.is_struct:
            return self.branches[self.value_branches[0]].from_column(value)
        filled = [i for i in self.value_branches if value.get(self.names[i]) is not None]
        if len(filled) != 1:
            raise ValueError(
                f"exactly one of {', '.join(self.names[i] for i in self.value_branches)} can have a value, not {len(filled)}"
            )
        return AvroBranch(filled[0], self.branches[filled[0]].from_column(value[self.names[filled[0]]]))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        targets, end = builder.labels(len(self.branches)), builder.label()
        builder.op(Op.CHOOSE, column, branches=builder.aux([(target,) for target in targets]), count=len(targets))
        for number, (branch, target) in enumerate(zip(self.branches, targets, strict=True)):
            builder.place(target)
            if number == self.null:
                builder.fill_nulls(column)
            elif not self.is_struct:
                branch.emit_decode(builder, column)
            else:
                builder.op(Op.VALID, column)
                place = self.value_branches.index(number)
                with builder.field(self.names[number]):
                    branch.emit_decode(builder, column.child(place))
                builder.fill_nulls(*[column.child(i) for i in range(len(self.value_branches)) if i != place])
            builder.jump(end)
        builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if self.is_struct:
            self._emit_encode_choice(builder, column)
        elif not self.value_branches:
            self._emit_encode_branch(builder, self.null, column)
        elif self.null < 0:
            self._emit_encode_branch(builder, self.value_branches[0], column)
        else:
            end = builder.label()
            with builder.unless(Op.SKIP_NULL, column):
                self._emit_encode_branch(builder, self.value_branches[0], column)
                builder.jump(end)
            self._emit_encode_branch(builder, self.null, column)
            builder.place(end)

    def _emit_encode_branch(self, builder: EncodeBuilder, number: int, column: Column) -> None:
        builder.bytes(number.to_bytes(4, "big"))
        self.branches[number].emit_encode(builder, column)

    def _emit_encode_choice(self, builder: EncodeBuilder, column: Column) -> None:
        """Append instructions for the branch whose field in the struct is not null, or for null if the struct is null."""
        children = [column.named(self.names[i]) for i in self.value_branches]
        targets, end = builder.labels(len(children)), builder.label()
        of_null = builder.label() if self.null >= 0 else None
        branches = builder.aux(list(zip(children, targets, strict=True)))
        builder.op(Op.UNION, column, branches=branches, count=len(children), null=of_null)
        for number, child, target in zip(self.value_branches, children, targets, strict=True):
            builder.place(target)
            with builder.field(self.names[number]):
                self._emit_encode_branch(builder, number, child)
            builder.jump(end)
        if of_null is not None:
            builder.place(of_null)
            self._emit_encode_branch(builder, self.null, column)
        builder.place(end)

    def hash_code(self, value: Any) -> int:
        branch, content = self.branch_of(value)
        return 0 if branch == self.null else self.branches[branch].hash_code(content)


class AvroRecord(AvroType):
    """``record``: its fields one after the other.

    ``name``: the full name. ``fields``: the types of the fields, by name. ``unordered``: fields that ``hashCode`` ignores: the
    schema orders them by ``ignore``.
    """

    never_null = True

    def __init__(self, name: str, fields: Mapping[str, Codec], unordered: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.fields = dict(fields)
        self.unordered = unordered
        self.min_size = total_min_size(self.fields.values())

    @property
    def child_names(self) -> Sequence[str]:
        return tuple(self.fields)

    @property
    def children(self) -> Sequence[Codec]:
        return tuple(self.fields.values())

    def with_children(self, children: Sequence[Codec]) -> Codec:
        enclosing: dict[str, AvroRecord] = {}

        def rebound(part: Codec) -> Codec:
            return AvroReference(self.name, enclosing) if isinstance(part, AvroReference) and part.record is self else part

        fields = {name: transform(child, rebound) for name, child in zip(self.fields, children, strict=True)}
        new = enclosing[self.name] = AvroRecord(self.name, fields, self.unordered)
        return new

    def read(self, source: DataInput) -> dict[str, Any]:
        return {name: f.read(source) for name, f in self.fields.items()}

    def skip(self, source: DataInput) -> None:
        for field in self.fields.values():
            field.skip(source)

    def write(self, value: Mapping[str, Any], target: DataOutput) -> None:
        for name, field in self.fields.items():
            field.write(value[name], target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._struct_of_children(options)

    def to_column(self, value: Mapping[str, Any], options: DecodeOptions) -> Any:
        return {name: f.to_column(value[name], options) for name, f in self.fields.items()}

    def from_column(self, value: Any) -> dict[str, Any]:
        return {name: f.from_column(value[name]) for name, f in self.fields.items()}

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.VALID, column)
        for number, (name, field) in enumerate(self.fields.items()):
            with builder.field(name):
                field.emit_decode(builder, column.child(number))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        for name, field in self.fields.items():
            with builder.field(name):
                field.emit_encode(builder, column.named(name))

    def hash_code(self, value: Mapping[str, Any]) -> int:
        return hashing.of_units((f.hash_code(value[n]) for n, f in self.fields.items() if n not in self.unordered), start=1)


class AvroReference(AvroType):
    """A record inside itself. Column types can't be recursive, so a column shows the record as JSON, with bytes in hex.

    The record contains the reference and is made after it. A reference therefore holds the record's name and looks the record up.
    Its list of children is empty, so that visits of the record end here.

    ``name``: the record's full name. ``enclosing``: a mapping that contains the record by name once the record is made.
    """

    def __init__(self, name: str, enclosing: Mapping[str, AvroRecord]) -> None:
        self.name = name
        self._enclosing = enclosing

    @property
    def record(self) -> AvroRecord:
        """The referenced record."""
        return self._enclosing[self.name]

    def read(self, source: DataInput) -> Any:
        start = source.position
        try:
            return self.record.read(source)
        except RecursionError:
            raise UndecodableValueError(f"{source.source}, offset {start}: records of {self} nest too deep") from None

    def write(self, value: Any, target: DataOutput) -> None:
        self.record.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def to_column(self, value: Any, options: DecodeOptions) -> str:
        column_value = self.record.to_column(value, options)
        return json.dumps(column_value, ensure_ascii=False, default=lambda v: v.hex() if isinstance(v, bytes) else str(v))

    def from_column(self, value: Any) -> Any:
        return self.record.from_column(parse_json(value) if isinstance(value, str) else value)

    def hash_code(self, value: Any) -> int:
        return self.record.hash_code(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroReference) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def _short(name: str) -> str:
    return name.rpartition(".")[2]
