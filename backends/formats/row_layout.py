"""Layouts of entries. The kernel decodes them; plain Python is its reference.

A row layout is a list of parts. In framed formats (canonical files, RocksDB), a part is a byte range that has to be consumed
completely. The heap format has one part without a known end.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.field_selection import FieldSelection, fields_in
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.state.descriptions import KeyedDescription, ListDescription, MapDescription, TimerDescription
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.serializers.codec import VARIABLE, Codec
from state_processor.serializers.core.collections import MapStateValue
from state_processor.serializers.core.templates import SignFlippedLongSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder, Feed, Locate, LocateAmong
from state_processor.serializers.kernel.decode.program import CONTEXT, DecodeBuilder, DecodeProgram
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.kernel.outcomes import log_fallback
from state_processor.serializers.registry import Registrations, current_registrations
from state_processor.support.errors import (
    CorruptSnapshotError,
    ForeignCodeError,
    NotCompilableError,
    StateProcessorError,
    UndecodableValueError,
    culprit_of,
    message_of,
)
from state_processor.support.mappings import only_keys

KEY_COLUMN: Final = "key"
KEY_GROUP_COLUMN: Final = "_key_group"
KEY_BYTES_COLUMN: Final = "_key_bytes"
_REFERENCE_BATCH_ROWS: Final = 4096
_ROW: Final = "row"
_PLACED: Final = re.compile(rf"{_ROW}, offset (\d+): (.*)", re.DOTALL)
_DAMAGE: Final = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, struct.error)
"""Errors that plain Python may raise for damaged bytes, in addition to this library's errors."""
_Where = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Field:
    """A value inside an entry.

    ``name`` is its column, or ``None`` to skip it. With ``suffixed``, its length in base 256 follows: Flink's
    ``CompositeKeySerializationUtils`` writes it between key and namespace of variable length.
    """

    name: str | None
    serializer: Codec
    suffixed: bool = False


def size_of(fields: Iterable[Field]) -> int:
    """Return the total size of adjacent fields, or ``VARIABLE``."""
    sizes = [VARIABLE if field.suffixed else field.serializer.size for field in fields]
    return VARIABLE if VARIABLE in sizes else sum(sizes)


@dataclass(frozen=True, slots=True)
class RowPart:
    """Adjacent fields.

    ``slot`` is the part of a framed entry with these fields; ``None`` without framing. The bytes of the fields from
    ``captured[0]`` to before ``captured[1]`` go into :data:`KEY_BYTES_COLUMN`.
    """

    slot: int | None
    fields: tuple[Field, ...]
    captured: tuple[int, int] | None = None

    @property
    def key_place(self) -> int:
        """The place of the key among the fields."""
        return [field.name for field in self.fields].index(KEY)


class RowDecoder(Protocol):
    """A decoder of entries to record batches; see :class:`ColumnDecoder`."""

    position: int

    def entries(self, buffer: npt.NDArray[np.uint8], entries: npt.NDArray[np.int64], locate: Locate) -> Iterator[pa.RecordBatch]:
        """Yield one row per entry of a framed block."""

    def fed(self, feed: Feed, locate: LocateAmong) -> Iterator[pa.RecordBatch]:
        """Yield one row per entry that a feed finds."""

    def rows(
        self, buffer: npt.NDArray[np.uint8], position: int, count: int, locate: Locate, context: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Return adjacent rows."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """All parts of one kind of entry, in the order of their bytes, and the columns to decode."""

    parts: tuple[RowPart, ...]
    columns: FieldSelection

    @property
    def fields(self) -> Iterator[Field]:
        """The fields of all parts."""
        return chain.from_iterable(part.fields for part in self.parts)

    def schema(self, options: DecodeOptions) -> pa.Schema:
        """Return the decoded columns in the order of the bytes, then the key group and the key's bytes."""
        whole = self._whole_schema(options)
        return pa.schema([f.with_type(fields_in(self.columns, f.name).applied(f.type)) for f in whole])

    def _whole_schema(self, options: DecodeOptions) -> pa.Schema:
        """Return the columns with all their fields."""
        decoded = (field for field in self.fields if field.name is not None and field.name in self.columns)
        fields = [pa.field(field.name, field.serializer.arrow_type(options)) for field in decoded]
        extra = {KEY_GROUP_COLUMN: pa.int32(), KEY_BYTES_COLUMN: pa.binary()}
        return pa.schema([*fields, *only_keys(extra, self.columns).items()])

    def decoder(self, options: DecodeOptions) -> RowDecoder:
        """Return the kernel, or its reference if values of a serializer can only be decoded in Python."""
        program = _program(Same(self), options, current_registrations())
        if isinstance(program, DecodeProgram):
            return ColumnDecoder(program, memory_limit=options.batch_memory)
        log_fallback("decoded", program.reason, program.path)
        return ReferenceDecoder(self, options)

    def framed(self) -> RowLayout:
        """Return the layout of rows without lengths, but with known bounds: each row is the first part of an entry."""
        (part,) = self.parts
        return RowLayout((replace(part, slot=0),), self.columns)

    def compile(self, options: DecodeOptions) -> DecodeProgram:
        """Compile the kernel program of a row."""
        return self._compile(self._builder(options))

    def _builder(self, options: DecodeOptions) -> DecodeBuilder:
        return DecodeBuilder(self.schema(options), options, self._whole_schema(options))

    def _compile(self, builder: DecodeBuilder) -> DecodeProgram:
        framed = False
        for part in self.parts:
            if part.slot is not None:
                framed = True
                builder.op(Op.SEEK, part=part.slot)
            self._compile_fields(builder, part)
            if part.slot is not None:
                builder.op(Op.END)
        key_group = builder.column(KEY_GROUP_COLUMN)
        if framed:
            builder.op(Op.ENTRY, key_group, field=KEY_GROUP)
        else:
            builder.op(Op.REGISTER, key_group, register=CONTEXT)
        builder.op(Op.ROW_END)
        return builder.build()

    def _compile_fields(self, builder: DecodeBuilder, part: RowPart) -> None:
        first, last = part.captured if part.captured and KEY_BYTES_COLUMN in self.columns else (-1, -1)
        captured = builder.register()
        for i, field in enumerate(part.fields):
            if i == first:
                builder.op(Op.MARK, register=captured)
            start = builder.register()
            if field.suffixed:
                builder.op(Op.MARK, register=start)
            with builder.field(field.name or str(field.serializer)):
                field.serializer.emit_decode(builder, builder.column(field.name))
            if field.suffixed:
                builder.op(Op.SUFFIX, register=start)
            if i + 1 == last:
                builder.op(Op.CAPTURE, builder.column(KEY_BYTES_COLUMN), register=captured)

    def read(self, source: DataInput, part: RowPart, row: dict[str, Any], options: DecodeOptions) -> None:
        """Read the fields of one part in plain Python, into ``row``."""
        first, last = part.captured or (-1, -1)
        begin = source.position
        for i, field in enumerate(part.fields):
            if i == first:
                begin = source.position
            start = source.position
            if field.name in self.columns:
                value = field.serializer.read(source)
                with _naming_column(str(field.name)):
                    row[str(field.name)] = None if value is None else field.serializer.to_column(value, options)
            else:
                field.serializer.skip(source)
            if field.suffixed:
                source.skip(suffix_size(source.position - start), "length suffix")
            if i + 1 == last:
                row[KEY_BYTES_COLUMN] = bytes(source.data[begin : source.position])


@contextmanager
def _naming_column(name: str) -> Iterator[None]:
    """Add a column to errors of values that it can't hold."""
    try:
        yield
    except UndecodableValueError as problem:
        raise UndecodableValueError(f"column {name!r}: {problem}") from None


@dataclass(frozen=True, slots=True)
class _Reference:
    """The reason why a layout is decoded in Python, and the path of the field."""

    reason: NotCompilableError
    path: str


@lru_cache(maxsize=DESCRIBED)
def _program(layout: Same, options: DecodeOptions, registrations: Registrations) -> DecodeProgram | _Reference:
    """Compile the program of a layout; look-ups of keys repeat it. User classes depend on ``registrations``."""
    (row_layout,) = layout.objects
    builder = row_layout._builder(options)
    try:
        return row_layout._compile(builder)  # type: ignore[no-any-return]
    except NotCompilableError as reason:
        return _Reference(reason, builder.path)


def suffix_size(length: int) -> int:
    """Return the number of bytes of a length in little-endian base 256; at least one."""
    return max(1, (length.bit_length() + 7) // 8)


@contextmanager
def placing_errors(source: DataInput, place_of: _Where) -> Iterator[None]:
    """Add the place from ``place_of`` to errors of reading a row of ``source`` in Python."""
    try:
        yield
    except StateProcessorError as e:
        placed = _PLACED.fullmatch(str(e))
        position, problem = (int(placed[1]), placed[2]) if placed else (source.position, str(e))
        raise type(e)(f"{place_of(position)}: {problem}") from None
    except _DAMAGE as e:
        culprit = culprit_of(e)
        if culprit is not None:
            raise ForeignCodeError(message_of(place_of(source.position), culprit, e)) from e
        raise CorruptSnapshotError(f"{place_of(source.position)}: {type(e).__name__}: {e}") from e


def row_input(data: memoryview, begin: int, end: int | None = None) -> DataInput:
    """Return the input of a row, for :func:`placing_errors`."""
    return DataInput(data, _ROW, begin, end)


def _place(locate: Locate, entry: int, row_start: int) -> _Where:
    return lambda position: locate(position, entry, row_start)


class ReferenceDecoder:
    """Decodes a row layout value by value in Python: the kernel's reference, and its replacement for rare serializers."""

    def __init__(self, layout: RowLayout, options: DecodeOptions, batch_rows: int = _REFERENCE_BATCH_ROWS) -> None:
        self._layout = layout
        self._options = options
        self._schema = layout.schema(options)
        self._batch_rows = batch_rows
        self._rows: list[tuple[dict[str, Any], _Where]] = []
        self.position = 0

    def entries(self, buffer: npt.NDArray[np.uint8], entries: npt.NDArray[np.int64], locate: Locate) -> Iterator[pa.RecordBatch]:
        """See :meth:`ColumnDecoder.entries`."""
        data = buffer.data
        for i, entry in enumerate(entries.tolist()):
            row: dict[str, Any] = {KEY_GROUP_COLUMN: entry[KEY_GROUP]}
            place_of = _place(locate, i, entry[0])
            for part in self._layout.parts:
                assert part.slot is not None
                begin, end = entry[2 * part.slot], entry[2 * part.slot + 1]
                source = row_input(data, begin, end)
                self._read(source, part, row, place_of)
                if not source.at_end():
                    raise CorruptSnapshotError(f"{place_of(source.position)}: {outcomes.decoding_problem(outcomes.TRAILING)}")
            yield from self._add(row, place_of)

    def fed(self, feed: Feed, locate: LocateAmong) -> Iterator[pa.RecordBatch]:
        """See :meth:`ColumnDecoder.fed`."""
        for entries in feed.tables():
            yield from self.entries(feed.buffer, entries, locate(entries))

    def rows(
        self, buffer: npt.NDArray[np.uint8], position: int, count: int, locate: Locate, context: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`ColumnDecoder.rows`."""
        source = row_input(buffer.data, position)
        for _ in range(count):
            row: dict[str, Any] = {KEY_GROUP_COLUMN: context}
            place_of = _place(locate, -1, source.position)
            for part in self._layout.parts:
                self._read(source, part, row, place_of)
            yield from self._add(row, place_of)
        self.position = source.position

    def finish(self) -> Iterator[pa.RecordBatch]:
        """See :meth:`ColumnDecoder.finish`."""
        if self._rows:
            yield self._batch()

    def _read(self, source: DataInput, part: RowPart, row: dict[str, Any], place_of: _Where) -> None:
        """Read one part. The place is computed only for errors, because describing a row requires reading it again."""
        with placing_errors(source, place_of):
            self._layout.read(source, part, row, self._options)

    def _add(self, row: dict[str, Any], place_of: _Where) -> Iterator[pa.RecordBatch]:
        self._rows.append((row, place_of))
        if len(self._rows) >= self._batch_rows:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, []
        try:
            return pa.RecordBatch.from_pylist([row for row, _ in rows], schema=self._schema)
        except _DAMAGE:
            self._find_unfit(rows)
            raise

    def _find_unfit(self, rows: list[tuple[dict[str, Any], _Where]]) -> None:
        """Raise the error of the first value that does not fit into its column."""
        for row, place_of in rows:
            for f in self._schema:
                try:
                    pa.array([row.get(f.name)], f.type)
                except _DAMAGE as e:
                    raise UndecodableValueError(f"{place_of(0)}: expected {f.type} in the column {f.name!r}: {e}") from e


KEY: Final = "key"
NAMESPACE: Final = "namespace"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"
MAP_VALUE: Final = "map_value"
TIMESTAMP: Final = "timestamp"

LayoutOf = Callable[[KeyedDescription, FieldSelection], RowLayout]
"""Builds the layout of a state's entries in one format, with the columns to decode."""

_FIRES_AT: Final = SignFlippedLongSerializer()

KEY_SLOT: Final = 0
VALUE_SLOT: Final = 1


def _kept(layout_of: LayoutOf) -> LayoutOf:
    """Keep layouts, and so their programs, for all files with the same states."""
    kept = lru_cache(maxsize=DESCRIBED)(lambda state_and_columns: layout_of(*state_and_columns.objects))
    return lambda state, columns: kept(Same(state, columns))


@_kept
def framed_layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of an entry with framed key and value, after the key group prefix: canonical files and RocksDB.

    Values without a requested column are skipped.

    Flink: ``CompositeKeySerializationUtils``, ``ListDelimitedSerializer``, ``RocksDBMapState``.
    """
    if isinstance(state, TimerDescription):
        return RowLayout((RowPart(KEY_SLOT, _timer_fields(state), (1, 2)), RowPart(VALUE_SLOT, ())), columns)
    suffixed = state.key.length < 0 and state.namespace.length < 0
    key_fields = [Field(KEY, state.key, suffixed), Field(NAMESPACE, state.namespace, suffixed)]
    match state:
        case ListDescription():
            value_field = Field(VALUE, state.joined)
        case MapDescription():
            key_fields.append(Field(MAP_KEY, state.stored_map_key))
            value_field = Field(MAP_VALUE, MapStateValue(state.value.as_remainder()))
        case _:
            value_field = Field(VALUE, state.value.as_remainder())
    value_parts = [RowPart(VALUE_SLOT, (value_field,))] if value_field.name in columns else []
    return RowLayout((RowPart(KEY_SLOT, tuple(key_fields), (0, 2)), *value_parts), columns)


@_kept
def heap_layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of an entry without lengths: namespace, key, value (Flink: ``CopyOnWriteStateMapSnapshot``)."""
    if isinstance(state, TimerDescription):
        return RowLayout((RowPart(None, _timer_fields(state), (1, 2)),), columns)
    fields = (Field(NAMESPACE, state.namespace), Field(KEY, state.key), Field(VALUE, state.registered_serializer))
    return RowLayout((RowPart(None, fields, (1, 2)),), columns)


def around_key(layout: RowLayout) -> tuple[int, int]:
    """Return the number of bytes before and after the key in the first part of an entry, or ``VARIABLE``."""
    fields, at = layout.parts[0].fields, layout.parts[0].key_place
    return size_of(fields[:at]), size_of(fields[at + 1 :])


def _timer_fields(state: TimerDescription) -> tuple[Field, ...]:
    return (Field(TIMESTAMP, _FIRES_AT), Field(KEY, state.key), Field(NAMESPACE, state.namespace))
