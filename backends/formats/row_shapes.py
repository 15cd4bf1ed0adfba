"""Conversion of decoded columns to the shapes for users: flattened or nested, with or without metadata.

Everything here works on whole Arrow columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.framing import Window
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN, VALUE, RowDecoder, RowLayout
from state_processor.backends.formats.source import Block, Buffer, EntryLocator, view
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.doors import spelled
from state_processor.support.errors import NotCompilableError, UndecodableValueError
from state_processor.support.late import pc
from state_processor.support.locks import cached_property
from state_processor.support.mappings import names_of, positions_of, without_keys

FIRST_INDEX: Final = b"first_index"
"""Metadata of a batch with a piece of a list: the index of its first element."""
_LENGTH: Final = 4
"""Bytes of the length between the key and the value of an entry."""


@dataclass(frozen=True, slots=True)
class LargeEntry:
    """An entry with an unread value.

    ``key``, ``value`` and ``end``: offsets of the start of the key, the start of the value and the end of the value.
    """

    read: Callable[[int, int], memoryview]  # function that returns a number of bytes from an offset
    origin: int  # value that is added to offsets in messages
    key: int
    value: int
    end: int
    key_group: int

    def whole(self) -> Block:
        """Return the entry."""
        return self.block(view(self.read(self.key, self.end - self.key)), self.value)

    def block(self, buffer: Buffer, begin: int) -> Block:
        """Return the bytes of an entry: the bytes before the value, and the bytes of the value from ``begin``."""
        head = self.value - self.key
        entries = np.array([[0, head - _LENGTH, head, len(buffer), self.key_group]], dtype=np.int64)
        return buffer, self.origin + begin - head, entries


class ListPieces:
    """Decoder of the entries of a state. A large list becomes several rows with a part of its elements each.

    ``element``: the serializer of the elements of lists; ``None`` to decode each entry as a whole. ``layout``, ``options`` and
    ``context``: as for :func:`~state_processor.backends.formats.source.decode_framed`. ``size``: bytes of a list to
    decode at a time.
    """

    def __init__(
        self, element: TypeSerializer | None, layout: RowLayout, options: DecodeOptions, context: str, size: int
    ) -> None:
        self._element = element
        self._layout = layout
        self._options = options
        self._context = context
        self._size = size

    def decode(self, parts: Iterator[Window | LargeEntry]) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns. The batch of a piece has the index of its first element in :data:`FIRST_INDEX`."""
        decoder = self._layout.decoder(self._options)
        for part in parts:
            if not isinstance(part, LargeEntry):
                locate = partial(EntryLocator, self._context, self._layout, part.buffer, part.place)
                yield from decoder.fed(part, locate)
            elif self._kernels is None:
                yield from self._rows(decoder, part.whole())
            else:
                yield from decoder.finish()
                yield from self._decode_large(part, *self._kernels)
            del part  # before the next one is read
        yield from decoder.finish()

    def _rows(self, decoder: RowDecoder, block: Block) -> Iterator[pa.RecordBatch]:
        buffer, base, entries = block
        return decoder.entries(buffer, entries, EntryLocator(self._context, self._layout, buffer, base, entries))

    def _decode_large(self, entry: LargeEntry, stepper: ColumnDecoder, decoder: ColumnDecoder) -> Iterator[pa.RecordBatch]:
        head = view(entry.read(entry.key, entry.value - entry.key))
        begin, first, size = entry.value, 0, self._size
        while begin < entry.end:
            piece = view(entry.read(begin, min(size, entry.end - begin)))
            if begin + len(piece) < entry.end:
                whole = stepper.end_of_whole_rows(piece)
                if not whole:  # an element is larger, or damaged; decoding the rest detects damage
                    size *= 2
                    continue
                piece = piece[: whole - 1]  # without the comma
            for batch in self._rows(decoder, entry.block(np.concatenate((head, piece)), begin)):
                yield batch.replace_schema_metadata({FIRST_INDEX: str(first)})
                first += len(batch.column(VALUE).values)
            begin, size = begin + len(piece) + 1, self._size

    @cached_property
    def _kernels(self) -> tuple[ColumnDecoder, ColumnDecoder] | None:
        """Return a kernel that skips elements with their commas, and a kernel for single rows; ``None`` if Python decodes."""
        if self._element is None:
            return None
        builder = DecodeBuilder(pa.schema([]), DecodeOptions())
        try:
            self._element.emit_decode(builder, builder.column(None))
            row = self._layout.compile(self._options)
        except NotCompilableError:
            return None
        builder.expect(ord(","))
        builder.op(Op.ROW_END)
        return ColumnDecoder(builder.build()), ColumnDecoder(row, batch_rows=1, memory_limit=self._options.batch_memory)


LIST_INDEX: Final = "list_index"
LIST_VALUE: Final = "list_value"
WINDOW: Final = "window"
FIRES_AT: Final = "fires_at"
LAST_ACCESS: Final = "_last_access"
SUBTASK: Final = "_subtask"
MOST_ELEMENTS: Final = 1 << 16
"""Maximum number of rows in a batch of elements of lists or maps."""
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
METADATA: Final = (pa.field(KEY_GROUP_COLUMN, pa.int32()), pa.field(SUBTASK, pa.int32()), pa.field(LAST_ACCESS, TIMESTAMP))
"""The additional columns of reading with metadata."""
KEYED_METADATA: Final = tuple(f.with_nullable(f.name == LAST_ACCESS) for f in METADATA)
"""The same of keyed state, all of whose entries have a key group."""

_FIRST_MILLIS: Final = -62135596800000  # 0001-01-01
_LAST_MILLIS: Final = 253402300799999  # 9999-12-31


def columns_by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of a batch by their names."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array | None]) -> pa.RecordBatch:
    """Return the batch with columns replaced, added at the end, or dropped if the new column is ``None``."""
    merged = columns_by_name(batch) | columns
    columns_left = {name: array for name, array in merged.items() if array is not None}
    return pa.RecordBatch.from_arrays(list(columns_left.values()), names=list(columns_left))


def take(batch: pa.RecordBatch, indices: pa.Array, *, without: tuple[str, ...] = ()) -> dict[str, pa.Array]:
    """Return the columns of selected rows, by name."""
    return {name: column.take(indices) for name, column in without_keys(columns_by_name(batch), without).items()}


def explode_list(batch: pa.RecordBatch, column: str) -> Iterator[pa.RecordBatch]:
    """Flatten a list column to one row per element, with its index and value instead of the list.

    A list may have any number of elements, so rows come in batches of at most :data:`MOST_ELEMENTS`. The batch of a piece of a
    list contains the index of the first element.
    """
    first = int((batch.schema.metadata or {}).get(FIRST_INDEX, 0))
    lists = batch.column(column)
    offsets = lists.offsets.to_numpy()
    for begin, end, rows in _pieces(offsets):
        index = np.arange(begin, end, dtype=np.int64) - offsets[rows] + first
        elements = {LIST_INDEX: pa.array(index.astype(np.int32)), LIST_VALUE: lists.values.slice(begin, end - begin)}
        columns = take(batch, pa.array(rows), without=(column,)) | elements
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def explode_map(batch: pa.RecordBatch, column: str, key: str, value: str) -> Iterator[pa.RecordBatch]:
    """Flatten a map column to one row per entry, with its key and value instead of the map; see :func:`explode_list`."""
    maps = batch.column(column)
    for begin, end, rows in _pieces(maps.offsets.to_numpy()):
        entries = {key: maps.keys.slice(begin, end - begin), value: maps.items.slice(begin, end - begin)}
        columns = take(batch, pa.array(rows), without=(column,)) | entries
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _pieces(offsets: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Yield ranges of elements, at most :data:`MOST_ELEMENTS` each, and for each element the row of its list or map."""
    last = int(offsets[-1])
    for begin in range(int(offsets[0]), last, MOST_ELEMENTS):
        end = min(begin + MOST_ELEMENTS, last)
        first = int(np.searchsorted(offsets, begin, side="right")) - 1
        behind = int(np.searchsorted(offsets, end, side="left"))
        bounds = np.clip(offsets[first : behind + 1], begin, end)
        yield begin, end, np.repeat(np.arange(first, behind, dtype=np.int64), bounds[1:] - bounds[:-1])


def collect_map(batches: Iterator[pa.RecordBatch], group: str, key: str, value: str, into: str) -> Iterator[pa.RecordBatch]:
    """Collect rows with equal ``group`` values into one row with a map; the inverse of :func:`explode_map`.

    Only the last run of a batch is delayed, because the next batch may continue it.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        starts = _run_starts(batch.column(group))
        joined = held and held[0].column(group)[0] == batch.column(group)[0]
        first = int(starts[1]) if joined and len(starts) > 1 else (batch.num_rows if joined else 0)
        if joined:
            held.append(batch.slice(0, first))
        if first == batch.num_rows:
            continue
        if held:
            yield _as_maps(concatenate(held), group, key, value, into)
        last = int(starts[-1])
        if last > first:
            yield _as_maps(batch.slice(first, last - first), group, key, value, into)
        held = [batch.slice(last)]
    if held:
        yield _as_maps(concatenate(held), group, key, value, into)


def concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch with the rows of several batches; a single one is not copied (pyarrow 18 lacks ``concat_batches``)."""
    if len(batches) == 1:
        return batches[0]
    columns_of_batches = [batch.columns for batch in batches]
    columns = list(map(pa.concat_arrays, zip(*columns_of_batches, strict=True)))
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of a schema, whose types may be wider; columns that the rows lack are null."""
    columns = columns_by_name(batch)
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        arrays.append(pa.nulls(batch.num_rows, field.type) if column is None else conform(column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _run_starts(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    if len(column) < 2:
        return np.zeros(len(column), dtype=np.int64)
    changes = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))


def _as_maps(batch: pa.RecordBatch, group: str, key: str, value: str, into: str) -> pa.RecordBatch:
    starts = _run_starts(batch.column(group))
    offsets = pa.array(np.append(starts, batch.num_rows), pa.int32())
    columns = take(batch, pa.array(starts), without=(key, value))
    keys, values = batch.column(key), batch.column(value)
    if keys.null_count:
        raise UndecodableValueError(
            f"a map in {into!r} has a null key; Spark's maps do not support this. Read "
            f"this state alone, and without {spelled('flatten', False)}"
        )
    columns[into] = pa.MapArray.from_arrays(offsets, keys, values)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def split_ttl(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Split a column of ``struct<_last_access, value>`` into the time of the last access and the value."""
    wrapped = batch.column(column)
    return with_columns(batch, {column: pc.struct_field(wrapped, 1), LAST_ACCESS: pc.struct_field(wrapped, 0)})


def constant(value: int, rows: int) -> pa.Array:
    """Return an int column with the same number in each row."""
    return pa.array(np.full(rows, value, dtype=np.int32))


def instants(milliseconds: pa.Array) -> pa.Array:
    """Convert epoch milliseconds to timestamps; null for years outside of 1 to 9999, such as ``Long.MAX_VALUE``."""
    numbers = milliseconds.to_numpy()
    outside = (numbers < _FIRST_MILLIS) | (numbers > _LAST_MILLIS)
    return pa.array(np.where(outside, 0, numbers) * 1000, pa.int64(), mask=outside).cast(TIMESTAMP)


def conform(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Convert a column to a wider type. Fields are matched by name; missing fields are null.

    Subtasks may describe one state differently, for example if they found different subclasses of a POJO.
    """
    if array.type.equals(target_type):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target_type)
    if array.offset:
        array = array.take(pa.array(np.arange(len(array))))
    if pa.types.is_struct(target_type) and pa.types.is_struct(array.type):
        places = positions_of(names_of(array.type))
        children = []
        for field in target_type:
            child = pc.struct_field(array, places[field.name]) if field.name in places else pa.nulls(len(array), field.type)
            children.append(conform(child, field.type))
        return pa.StructArray.from_arrays(children, fields=list(target_type), mask=array.is_null())
    if pa.types.is_list(target_type) and pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(
            array.offsets, conform(array.values, target_type.value_type), target_type, mask=array.is_null()
        )
    if pa.types.is_map(target_type) and pa.types.is_map(array.type):
        keys, items = conform(array.keys, target_type.key_type), conform(array.items, target_type.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, target_type, mask=array.is_null())
    try:
        return array.cast(target_type)
    except pa.ArrowException as e:
        raise UndecodableValueError(f"values of type {array.type} do not fit the column's type {target_type}: {e}") from e


def wider(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type for values of both types. Structs get the fields of both, in order."""
    if first.equals(second) or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        second_types = {f.name: f.type for f in second}
        fields = [pa.field(f.name, wider(f.type, second_types.pop(f.name)) if f.name in second_types else f.type) for f in first]
        return pa.struct([*fields, *second_types.items()])
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(wider(first.value_type, second.value_type))
    if pa.types.is_map(first) and pa.types.is_map(second):
        return pa.map_(wider(first.key_type, second.key_type), wider(first.item_type, second.item_type))
    return first


def wider_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema for the rows of all schemas: the columns of each, in order."""
    if len(schemas) == 1:
        return schemas[0]
    columns: dict[str, list[pa.Field]] = {}
    for schema in schemas:
        for field in schema:
            columns.setdefault(field.name, []).append(field)
    return pa.schema(list(map(wider_field, columns.values())))


def wider_field(fields: Sequence[pa.Field]) -> pa.Field:
    """Return the field for the values of all fields, with the first metadata of them. It may be null if one of them may."""
    metadata = next((f.metadata for f in fields if f.metadata), None)
    return pa.field(fields[0].name, reduce(wider, [f.type for f in fields]), any(f.nullable for f in fields), metadata=metadata)
