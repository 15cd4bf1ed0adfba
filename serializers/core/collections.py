"""Lists, maps and sets, and forms of lists and map entries outside the heap (Flink: ``ListSerializer``, ``MapSerializer``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.nullable import Inner, NullMarking
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.kernel.columns import is_timed
from state_processor.serializers.kernel.encode.distinct_keys import distinct_values
from state_processor.serializers.kernel.opcodes import COUNTED, JOINED, Op
from state_processor.serializers.registry import BASE, provide_snapshots
from state_processor.serializers.traversal import ELEMENT, KEY, VALUE

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

LIST_SNAPSHOT: Final = f"{BASE}ListSerializerSnapshot"
ARRAY_LIST_SNAPSHOT: Final = "org.apache.flink.runtime.state.ArrayListSerializerSnapshot"
MAP_SNAPSHOT: Final = f"{BASE}MapSerializerSnapshot"
SET_SNAPSHOT: Final = f"{BASE}SetSerializerSnapshot"


class ListCodec(Codec):
    """A count and the elements; a column is a list."""

    child_names = (ELEMENT,)

    min_size = 4

    def __init__(self, element: Codec) -> None:
        self.element = element

    def __str__(self) -> str:
        return f"LIST<{self.element}>"

    @property
    def children(self) -> Sequence[Codec]:
        return (self.element,)

    def with_children(self, children: Sequence[Any]) -> Self:
        (element,) = children
        return self._copy_with(element=element)

    def read(self, source: DataInput) -> list[Any]:
        return source.read_list("list elements", self.element.read, self.element.min_size)

    def skip(self, source: DataInput) -> None:
        for _ in range(source.read_count("list elements", self.element.min_size)):
            self.element.skip(source)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        target.write_int(len(value))
        for element in value:
            self.element.write(element, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(self.element.arrow_type(options))

    def to_column(self, value: Sequence[Any], options: DecodeOptions) -> list[Any]:
        return [self.element.to_column(v, options) for v in value]

    def from_column(self, value: Any) -> list[Any]:
        return list(map(self.element.from_column, value))

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.counted(column, min_size=self.element.min_size):
            self.element.emit_decode(builder, column.child(0))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.elements(column, COUNTED), builder.field("element"):
            self.element.emit_encode(builder, column.child(0))


class ListSerializer(ListCodec, TypeSerializer):
    """``java.util.List``: a count and the elements (Flink: ``ListSerializer``, ``ArrayListSerializer``)."""

    element: TypeSerializer  # the serializer of an element. Null elements exist only if it supports null.

    def __init__(self, element: TypeSerializer, snapshot_class: str = LIST_SNAPSHOT) -> None:
        super().__init__(element)
        self._snapshot_class = snapshot_class

    def snapshot(self) -> TypeSerializerSnapshot:
        return ListSerializerSnapshot(self._snapshot_class, [self.element.snapshot()])

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.of_units(map(self.element.hash_code, value), start=1)


class ListSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`ListSerializer`."""

    nested_names = ListSerializer.child_names

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return ListSerializer(nested[0], self.class_name)


class MapCodec(Codec):
    """A count, then key and value of each entry; a column is a map.

    Python holds it as a list of pairs in the order of the bytes, so that keys need not be hashable.
    """

    child_names = (KEY, VALUE)

    min_size = 4

    def __init__(self, key: Codec, value: Codec) -> None:
        self.key = key
        self.value = value

    def __str__(self) -> str:
        return f"MAP<{self.key},{self.value}>"

    @property
    def children(self) -> Sequence[Codec]:
        return (self.key, self.value)

    def with_children(self, children: Sequence[Any]) -> Self:
        key, value = children
        return self._copy_with(key=key, value=value)

    @property
    def _min_entry_size(self) -> int:
        return self.key.min_size + self.value.min_size

    def read(self, source: DataInput) -> list[tuple[Any, Any]]:
        count = source.read_count("map entries", self._min_entry_size)
        return [(self.key.read(source), self.value.read(source)) for _ in range(count)]

    def skip(self, source: DataInput) -> None:
        for _ in range(source.read_count("map entries", self._min_entry_size)):
            self.key.skip(source)
            self.value.skip(source)

    def write(self, value: Sequence[tuple[Any, Any]], target: DataOutput) -> None:
        target.write_int(len(value))
        for k, v in value:
            self.key.write(k, target)
            self.value.write(v, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.map_(self.key.arrow_type(options), self.value.arrow_type(options))

    def to_column(self, value: Sequence[tuple[Any, Any]], options: DecodeOptions) -> list[tuple[Any, Any]]:
        return [(self.key.to_column(k, options), self.value.to_column(v, options)) for k, v in value]

    def from_column(self, value: Any) -> list[tuple[Any, Any]]:
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(self.key.from_column(k), self.value.from_column(v)) for k, v in pairs]

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.counted(column, min_size=self._min_entry_size):
            self.key.emit_decode(builder, column.child(0))
            self.value.emit_decode(builder, column.child(1))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.distinct(column, distinct_values(self.key))
        with builder.elements(column, COUNTED):
            with builder.field("key"):
                self.key.emit_encode(builder, column.child(0))
            with builder.field("value"):
                self.value.emit_encode(builder, column.child(1))


class MapSerializer(MapCodec, TypeSerializer):
    """``java.util.Map``: a count, then key, null flag and value of each entry (Flink: ``MapSerializer``)."""

    key: TypeSerializer
    value: NullFlagged[TypeSerializer]

    def __init__(self, key: TypeSerializer, value: TypeSerializer, snapshot_class: str = MAP_SNAPSHOT) -> None:
        super().__init__(key, NullFlagged(value))
        self._snapshot_class = snapshot_class

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.key, self.value.inner)

    def with_children(self, children: Sequence[Any]) -> Self:
        key, value = children
        return self._copy_with(key=key, value=NullFlagged(value))

    def snapshot(self) -> TypeSerializerSnapshot:
        return MapSerializerSnapshot(self._snapshot_class, [self.key.snapshot(), self.value.inner.snapshot()])

    def hash_code(self, value: Sequence[tuple[Any, Any]]) -> int:
        return hashing.wrap(sum(self.key.hash_code(k) ^ (0 if v is None else self.value.inner.hash_code(v)) for k, v in value))


class MapSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`MapSerializer`."""

    nested_names = MapSerializer.child_names

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return MapSerializer(nested[0], nested[1], self.class_name)


class SetSerializer(ListCodec, TypeSerializer):
    """``java.util.Set``: a count, then null flag and element (Flink: ``SetSerializer``, since 2.0)."""

    element: NullFlagged[TypeSerializer]

    def __init__(self, element: TypeSerializer, snapshot_class: str = SET_SNAPSHOT) -> None:
        super().__init__(NullFlagged(element))
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"SET<{self.element}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element.inner,)

    def with_children(self, children: Sequence[Any]) -> Self:
        (element,) = children
        return self._copy_with(element=NullFlagged(element))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.distinct(column, distinct_values(self.element, of_set=True))
        super().emit_encode(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return SetSerializerSnapshot(self._snapshot_class, [self.element.inner.snapshot()])

    def hash_code(self, value: Sequence[Any]) -> int:
        return hashing.wrap(sum(map(self.element.hash_code, value)))


class SetSerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`SetSerializer`."""

    nested_names = SetSerializer.child_names

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return SetSerializer(nested[0], self.class_name)


class NullFlagged(NullMarking[Inner]):
    """A null flag of one byte, then the value: inside maps, POJOs and arrays.

    ``inner``: the codec of a value that is not null. ``null_when``: meaning of the flag: with ``True`` 1 is null, with ``False``
    1 is present.
    """

    def __init__(self, inner: Inner, *, null_when: bool = True) -> None:
        super().__init__(inner)
        self.null_when = null_when

    def is_null(self, source: DataInput) -> bool:
        return source.read_boolean() is self.null_when

    def write(self, value: Any, target: DataOutput) -> None:
        target.write_boolean((value is None) is self.null_when)
        if value is not None:
            self.inner.write(value, target)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=self.null_when):
            self.inner.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        with builder.null_flag(column, null_when=self.null_when):
            self.inner.emit_encode(builder, column)


class MapStateValue(NullFlagged[Inner]):
    """The value of a map state's entry outside the heap: a null flag and the value, up to the end of the part.

    For a null, RocksDB writes the flag alone. Savepoints of the heap add the bytes that the serializer writes for null
    (Flink: ``RocksDBMapState``, ``HeapKeyValueStateIterator``). Both forms are read; the form of RocksDB is written. If the
    serializer can't write null, null is refused, because a job on the heap could not take a savepoint with it.
    """

    def is_null(self, source: DataInput) -> bool:
        null = source.read_boolean()
        if null:
            source.skip(source.remaining)
        return null

    def write(self, value: Any, target: DataOutput) -> None:
        if value is None and not self.inner.writes_null:
            raise ValueError(f"null; {self.inner} can't store null")
        super().write(value, target)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if not self.inner.writes_null:
            builder.op(Op.REQUIRE, column)
        super().emit_encode(builder, column)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        end = builder.label()
        with builder.null_flag(column, null_when=True):
            self.inner.emit_decode(builder, column)
            builder.jump(end)
        builder.op(Op.REST, left=0)
        builder.place(end)


class _NotNull:
    """Limit of the elements of list states."""

    rule = "an element of a list state can't be null, as in Flink's ListState.add; drop it"

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the nulls."""
        return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


NOT_NULL: Final = _NotNull()
"""The limit of the elements of list states."""


class JoinedListCodec(ListCodec):
    """A list state's value in RocksDB and canonical savepoints: elements with a comma between them, up to the end.

    Flink: ``ListDelimitedSerializer``. Elements are decoded one after the other; the bytes are never split at commas. Flink takes
    a null element for the end of the list, and ``ListState.add`` refuses null: so does writing.
    """

    min_size = 0

    skip = Codec.skip

    def read(self, source: DataInput) -> list[Any]:
        values: list[Any] = []
        if source.at_end():
            return values
        while True:
            values.append(self.element.read(source))
            if source.at_end():
                return values
            if source.read_unsigned_byte() != ord(","):
                raise source.corrupt("a comma between list elements expected", source.position - 1)

    def write(self, value: Sequence[Any], target: DataOutput) -> None:
        for i, element in enumerate(value):
            if element is None:
                raise ValueError(f"element {i} is null; {NOT_NULL.rule}")
            if i:
                target.write_byte(ord(","))
            self.element.write(element, target)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.joined(column):
            self.element.emit_decode(builder, column.child(0))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        element = column.child(0)
        builder.limit(element, (NOT_NULL,))
        if is_timed(element.type):
            builder.limit(element.named("value"), (NOT_NULL,))
        with builder.elements(column, JOINED), builder.field("element"):
            self.element.emit_encode(builder, element)


provide_snapshots((LIST_SNAPSHOT, ARRAY_LIST_SNAPSHOT), ListSerializerSnapshot)
provide_snapshots((MAP_SNAPSHOT,), MapSerializerSnapshot)
provide_snapshots((SET_SNAPSHOT,), SetSerializerSnapshot)
