"""From rows to framed entries, grouped by key group: the first pass of writing keyed state.

Pass 1, anywhere: :class:`KeyedStateEncoder` turns record batches of rows into batches of blobs (:data:`ORDERED_BLOBS`). A blob
has the framed entries of one state and key group as the bytes that go into the file, and the subtask that owns the key group.
Pass 2 takes the blobs of one subtask, sorted by key group, state and phase; see
:class:`~state_processor.backends.write.tombstones.EntryMerge`.

What rows hold:

============================ ==============================================================================
state                        columns
============================ ==============================================================================
VALUE, REDUCING, AGGREGATING ``key``, ``value``
LIST                         ``key``, ``value``: a list
MAP                          ``key``, ``value``: a map; or ``key``, ``map_key``, ``map_value``: a row per entry
timers                       ``key``, ``timestamp`` (milliseconds)
any, not in void namespace   ``namespace``, or ``window``
any, with TTL                optionally ``_last_access``: a timestamp, or a list of one for each element
============================ ==============================================================================

A null value, list or map, and an empty list or map, is not an entry, as in Flink. A null as the value of a map's entry is
written if the type has bytes for null, and refused otherwise. A null as an element of a list is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import group_entries
from state_processor.backends.formats.row_shapes import LAST_ACCESS, LIST_INDEX, with_columns
from state_processor.backends.state.descriptions import (
    LIST,
    MAP,
    KeyedDescription,
    ListDescription,
    MapDescription,
    TimerDescription,
)
from state_processor.backends.state.key_groups import check_parallelism, key_group, prefix_size
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import JoinedListCodec, MapStateValue
from state_processor.serializers.core.templates import SignFlippedLongSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.columns import Column
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kernel.encode.encoder import ColumnEncoder, Encoded, describe_row
from state_processor.serializers.kernel.encode.program import EncodeBuilder, EncodeOptions, EncodeProgram
from state_processor.serializers.kernel.opcodes import LOOSE, Op
from state_processor.serializers.registry import Registrations, current_registrations
from state_processor.serializers.runtime.wrapping import TtlMapStateValue
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc

# Blobs

TOMBSTONES: Final = 0
"""Phase of keys whose entries in the source savepoint are left out."""

PASSED_THROUGH: Final = 1
"""Phase of entries of the source savepoint."""

NEW: Final = 2
"""Phase of entries that are written from rows."""

DEALT: Final = 1
"""In place of the key group: elements of operator state in the first file that the files of all subtasks take their shares of."""

ORDERED_BLOBS: Final = pa.schema(
    [
        *(pa.field(name, pa.int32(), nullable=False) for name in ("subtask", "key_group", "state", "phase")),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("blob", pa.binary(), nullable=False),
    ]
)
"""Blobs with the columns that they are sorted by, the number of their entries, and their bytes.

``subtask`` is the subtask of the operator that a blob belongs to. Between the passes it is the number of the file: the files of
all operators that are written together are numbered consecutively. ``state`` is the id of the state in the header of the file.
"""

BLOB_ORDER: Final = [(name, "ascending") for name in ("subtask", "key_group", "state", "phase")]

_LARGEST_BATCH: Final = 1 << 30


GroupState = tuple[int, int]
"""A key group and the id of a state."""


class Blob(NamedTuple):
    """Blob in pass 2."""

    key_group: int
    state: int
    phase: int
    entries: int
    data: npt.NDArray[np.uint8]
    of_phase: tuple[int, int] = (0, 0)
    """Number and bytes of the entries in all blobs of this key group, state and phase, as far as they are known."""

    @property
    def place(self) -> GroupState:
        """The key group and the state."""
        return self.key_group, self.state


@dataclass(frozen=True)
class BlobAddress:
    """Destination of the entries of one state.

    ``parallelism`` and ``max_parallelism``: of the operator.
    """

    state_id: int  # the position of the state in the header of the files to write
    parallelism: int
    max_parallelism: int
    phase: int = NEW  # :data:`TOMBSTONES`, :data:`PASSED_THROUGH` or :data:`NEW`

    def blobs(
        self, data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], groups: npt.NDArray[np.int32]
    ) -> Iterator[pa.RecordBatch]:
        """Yield adjacent ranges of bytes, each of one key group, as :data:`ORDERED_BLOBS`.

        ``data``: the bytes of the entries. ``spans``: a line for each range: begin, end, number of entries. Ranges without
        entries are skipped.
        """
        is_filled = spans[:, 2] > 0
        spans, groups = spans[is_filled], groups[is_filled]
        first = 0
        while first < len(spans):
            base = int(spans[first, 0])
            last = max(first + 1, int(np.searchsorted(spans[:, 1], base + _LARGEST_BATCH, side="right")))
            part, in_groups = spans[first:last], groups[first:last]
            offsets = np.append(part[:, 0], part[-1, 1]) - base
            if offsets[-1] >= 1 << 31:
                raise InvalidRowError(
                    f"the entries of key group {int(in_groups[0])} in one batch exceed 2 GiB; use smaller batches"
                )
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[base : int(part[-1, 1])])]
            subtasks = in_groups.astype(np.int64) * self.parallelism // self.max_parallelism
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(subtasks.astype(np.int32)),
                    pa.array(in_groups.astype(np.int32)),
                    pa.array(np.full(len(part), self.state_id, dtype=np.int32)),
                    pa.array(np.full(len(part), self.phase, dtype=np.int32)),
                    pa.array(part[:, 2]),
                    pa.Array.from_buffers(pa.binary(), len(part), buffers),
                ],
                schema=ORDERED_BLOBS,
            )
            first = last


def with_phase(blobs: pa.RecordBatch, phase: int) -> pa.RecordBatch:
    """Return the same blobs in another phase."""
    return _with_column(blobs, "phase", np.full(blobs.num_rows, phase, dtype=np.int32))


def with_file_numbers(blobs: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return the same blobs with numbers of files instead of subtasks; ``first`` is the number of the operator's first file."""
    if not first:
        return blobs
    subtasks: npt.NDArray[Any] = np.from_dlpack(blobs.column("subtask"))
    return _with_column(blobs, "subtask", subtasks + np.int32(first))


def _with_column(blobs: pa.RecordBatch, name: str, values: npt.NDArray[np.int32]) -> pa.RecordBatch:
    place = ORDERED_BLOBS.get_field_index(name)
    return blobs.set_column(place, ORDERED_BLOBS.field(place), pa.array(values))


# Rows

KEY: Final = "key"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"
MAP_VALUE: Final = "map_value"
TIMESTAMP: Final = "timestamp"
NAMESPACES: Final = ("namespace", "window")

_TIMESTAMP: Final = SignFlippedLongSerializer()
_TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
_PIECE: Final = 1 << 16

KeyHash = Callable[[pa.Array], npt.NDArray[np.int32]]
"""``hashCode`` of keys, for types whose own rule is not known; see :mod:`state_processor.backends.state.hash_inference`."""


class KeyedStateEncoder:
    """Writes rows of one keyed state, or timer queue, as blobs.

    ``state``: the state with its serializers. ``address``: where the entries go. ``schema``: the columns of the rows; columns
    that this module's table does not name are ignored. ``key_hash``: ``hashCode`` of keys, where the serializer does not know it.
    ``last_access``: milliseconds since 1970 that values with TTL get where no column has the time. ``context``: the operator, for
    error messages.
    """

    def __init__(
        self,
        state: KeyedDescription,
        address: BlobAddress,
        schema: pa.Schema,
        *,
        key_hash: KeyHash | None = None,
        last_access: int = 0,
        context: str = "",
    ) -> None:
        check_parallelism(address.parallelism, address.max_parallelism)
        self._state = state
        self._address = address
        self._max_parallelism = address.max_parallelism
        self._context = ", ".join(filter(None, [context, f"state {state.name!r}"]))
        key = state.key
        self._hash: KeyHash = key_hash or (lambda keys: hash_codes(key, keys))
        self._zips = state.has_ttl and _is_listed(schema)
        try:
            program = compile_entries(state, schema, address.max_parallelism, EncodeOptions(last_access))
        except InvalidRowError as problem:
            raise InvalidRowError(f"{self._context}: {problem}") from None
        self._encoder = ColumnEncoder(program, self._context)

    def encode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Encode rows to blobs, as batches of :data:`ORDERED_BLOBS`."""
        if not batch.num_rows:
            return
        if not self._state.has_ttl and LAST_ACCESS in batch.schema.names:
            _check_no_access(batch, self._context)
        try:
            hashes = self._hash(batch.column(batch.schema.get_field_index(KEY)))
        except InvalidRowError as problem:
            words = [] if problem.row is None else describe_row(batch, problem.row)
            raise InvalidRowError(f"{', '.join([self._context, *words])}: {problem}") from None
        yield from self.encode_in_groups(batch, key_group(hashes, self._max_parallelism))

    def encode_in_groups(self, batch: pa.RecordBatch, groups: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Encode rows whose key groups are known."""
        if MAP_KEY in batch.schema.names:
            check_present(batch, MAP_KEY, self._context)
        if LIST_INDEX in batch.schema.names:
            _check_places(batch, self._context)
        if self._zips:
            batch = _zip_access(batch, self._context)
        groups = np.ascontiguousarray(groups, dtype=np.int32)
        data, spans = self._grouped(self._encoder.encode(batch, groups), groups)
        key_groups = np.arange(self._max_parallelism, dtype=np.int32)
        yield from self._address.blobs(data, spans, key_groups)

    def _grouped(self, encoded: Encoded, groups: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the bytes of all entries by key group, and the span of each group; the bytes of one row are not copied."""
        spans = np.zeros((self._max_parallelism, 3), dtype=np.int64)
        if len(groups) == 1:
            spans[groups[0]] = 0, len(encoded.data), len(encoded)
            return encoded.data, spans
        data = np.empty(len(encoded.data), dtype=np.uint8)
        group_entries(encoded.data, encoded.entries, groups, spans, data)
        return data, spans


def compile_entries(
    state: KeyedDescription,
    schema: pa.Schema,
    max_parallelism: int,
    options: EncodeOptions,
    names: Mapping[str, str] | None = None,
) -> EncodeProgram:
    """Return the program that writes the framed entries of a row. Rows of the same columns have the same program.

    ``state`` and ``schema``: as for :class:`KeyedStateEncoder`. ``max_parallelism``: of the operator. ``options``: what columns
    do not say. ``names``: what columns are called in messages, where not as here.
    """
    if state.has_ttl and _is_listed(schema):
        schema = _zip_access(_no_rows(schema), "").schema
    fields = _fields(state, schema)
    titles = names or {}
    bound = [(n, bind(serializer, schema.field(n).type, titles.get(n, n))) for n, serializer in fields.items()]
    if state.has_ttl and schema.get_field_index(LAST_ACCESS) >= 0:
        _check_time(schema.field(LAST_ACCESS).type)
        bound.append((LAST_ACCESS, _TIME_TYPE))
    return _compiled(Same(state), tuple(bound), max_parallelism, options, current_registrations())


@lru_cache(maxsize=DESCRIBED)
def _compiled(
    described: Same, bound: tuple[tuple[str, pa.DataType], ...], max_parallelism: int, options: EncodeOptions, _: Registrations
) -> EncodeProgram:
    """Compile a program for columns of the types that serializers accept."""
    (state,) = described.objects
    schema = pa.schema(bound)
    fields = _fields(state, schema)
    builder = EncodeBuilder(schema, options, LAST_ACCESS if LAST_ACCESS in schema.names else None)
    key = _EntryKey.of(state, fields, max_parallelism)
    if state.is_timer:
        _emit_entry(builder, key, None)
    elif state.kind == MAP and VALUE in fields:
        _emit_map(builder, key, fields[VALUE])
    else:
        _emit_value(builder, key, fields, is_list=state.kind == LIST)
    builder.op(Op.ROW_END)
    return builder.build()


def _is_listed(schema: pa.Schema) -> bool:
    """Return whether each element of a list, or entry of a map, comes with a time."""
    index = schema.get_field_index(LAST_ACCESS)
    return bool(index >= 0 and pa.types.is_list(schema.field(index).type))


def _check_time(arrow_type: pa.DataType) -> None:
    if not (pa.types.is_null(arrow_type) or (pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None)):
        raise InvalidRowError(f"column {LAST_ACCESS} is of type {arrow_type}; a time of access is a timestamp with time zone")


def _check_no_access(batch: pa.RecordBatch, context: str) -> None:
    """Refuse times of last access of a state without time-to-live: reading gives it nulls."""
    times = batch.column(batch.schema.get_field_index(LAST_ACCESS))
    elements = pc.list_flatten(times) if pa.types.is_list(times.type) else times
    if elements.null_count < len(elements):
        rows = pc.list_parent_indices(times).to_numpy() if pa.types.is_list(times.type) else np.arange(len(times))
        row = int(rows[np.flatnonzero(elements.is_valid().to_numpy(zero_copy_only=False))[0]])
        words = ", ".join([context, *describe_row(batch, row)])
        raise InvalidRowError(
            f"{words}: column {LAST_ACCESS} has a time, but the state has no time-to-live to keep it; drop the column, or give "
            "a new state a ttl"
        )


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _zip_access(batch: pa.RecordBatch, context: str) -> pa.RecordBatch:
    """Return the batch with the time of each element inside the list or map, instead of in a list of times."""
    access = batch.column(batch.schema.get_field_index(LAST_ACCESS))
    values = batch.column(batch.schema.get_field_index(VALUE))
    lengths = [pc.list_value_length(access).fill_null(0), pc.list_value_length(_as_list(values)).fill_null(0)]
    if not lengths[0].equals(lengths[1]):
        row = int(np.flatnonzero(lengths[0].to_numpy() != lengths[1].to_numpy())[0])
        words = ", ".join([context, *describe_row(batch, row)])
        raise InvalidRowError(f"{words}: column {LAST_ACCESS} has {lengths[0][row]} times, the value {lengths[1][row]} elements")
    _check_time(access.type.value_type)
    times = pc.list_flatten(access).cast(_TIME_TYPE)
    is_map = pa.types.is_map(values.type)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths[1].to_numpy()))).astype(np.int32))
    elements = pc.list_flatten(_as_list(values))
    flat = pc.struct_field(elements, 1) if is_map else elements
    present = np.asarray(pc.or_(pc.is_valid(times), pc.is_valid(flat)).to_numpy(zero_copy_only=False))
    fields = [pa.field(LAST_ACCESS, _TIME_TYPE), pa.field(VALUE, flat.type)]
    pairs = pa.StructArray.from_arrays([times, flat], fields=fields, mask=pa.array(~present))
    if is_map:
        zipped = pa.MapArray.from_arrays(offsets, pc.struct_field(elements, 0), pairs)
    else:
        zipped = pa.ListArray.from_arrays(offsets, pairs)
    return with_columns(batch, {VALUE: zipped, LAST_ACCESS: None})


def check_present(batch: pa.RecordBatch, name: str, context: str) -> None:
    """Refuse nulls in a column of keys; the message quotes the given row."""
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        words = ", ".join([context, *describe_row(batch, row)])
        raise InvalidRowError(f"{words}: column {name} of row {row} is null; a key can't be")


def _check_places(batch: pa.RecordBatch, context: str) -> None:
    """Refuse lists that were put together from elements whose places are not 0, 1, 2 and so on."""
    places = batch.column(batch.schema.get_field_index(LIST_INDEX))
    lengths = pc.list_value_length(places).fill_null(0).to_numpy()
    ends = np.cumsum(lengths)
    row = _first_misplaced(pc.list_flatten(places), ends - lengths, ends)
    if row is not None:
        places_of_row = places[row].as_py()
        listed = ", ".join("null" if i is None else str(i) for i in places_of_row[:20]) + (
            ", …" if len(places_of_row) > 20 else ""
        )
        words = ", ".join([context, *describe_row(batch, row)[:1]])
        raise InvalidRowError(
            f"{words}: {LIST_INDEX} of its elements has to be each number from 0 to {len(places_of_row) - 1} once, found {listed}"
        )


def _first_misplaced(indexes: pa.Array, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> int | None:
    """Return the first row whose elements do not have the places 0, 1, 2 and so on; a large list is looked at in pieces."""
    for begin in range(0, len(indexes), _PIECE):
        piece = indexes.slice(begin, _PIECE).cast(pa.int64()).fill_null(-1).to_numpy()
        end = begin + len(piece)
        first, last = np.searchsorted(ends, [begin, end - 1], side="right")
        rows = slice(first, last + 1)
        counts = np.minimum(ends[rows], end) - np.maximum(starts[rows], begin)
        wrong = np.flatnonzero(piece != np.arange(begin, end) - np.repeat(starts[rows], counts))
        if len(wrong):
            return int(np.searchsorted(ends, begin + wrong[0], side="right"))
    return None


def _as_list(values: pa.Array) -> pa.Array:
    """Return a map column as the list of its entries."""
    if not pa.types.is_map(values.type):
        return values
    return values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))


def _fields(state: KeyedDescription, schema: pa.Schema) -> dict[str, Codec]:
    """Return the columns to write, each with the serializer of its values."""
    names = set(schema.names)
    fields: dict[str, Codec] = {KEY: state.key}
    if not state.in_void_namespace:
        namespaces = [n for n in NAMESPACES if n in names]
        if len(namespaces) != 1:
            raise InvalidRowError(f"it is in {state.namespace}: one column 'namespace' or 'window' is needed")
        fields[namespaces[0]] = state.namespace
    match state:
        case TimerDescription():
            fields[TIMESTAMP] = _TIMESTAMP
        case ListDescription():
            fields[VALUE] = state.joined
        case MapDescription() if MAP_KEY in names:
            fields |= {MAP_KEY: state.stored_map_key, MAP_VALUE: _map_value(state)}
        case MapDescription():
            fields[VALUE] = _MapColumn(state.stored_map_key, _map_value(state))
        case _:
            fields[VALUE] = state.value
    missing = [n for n in fields if n not in names]
    if missing:
        raise InvalidRowError(f"column {missing[0]!r} is missing; there are {', '.join(schema.names)}")
    return fields


def _map_value(state: KeyedDescription) -> MapStateValue[Any]:
    return TtlMapStateValue(state.value) if state.has_ttl else MapStateValue(state.value)


class _MapColumn(JoinedListCodec):
    """The column of a whole map, whose entries are written one by one."""

    def __init__(self, key: Codec, value: Codec) -> None:
        super().__init__(value)
        self.key = key

    def __str__(self) -> str:
        return f"MAP<{self.key},{self.element}>"

    def arrow_type(self, options: object) -> pa.DataType:
        return pa.map_(self.key.arrow_type(options), self.element.arrow_type(options))  # type: ignore[arg-type]


_Part = tuple[str, Codec, Column]
"""A column of the content of an entry, or of the key of a map's entry."""


class _EntryKey(NamedTuple):
    """The key of all entries of a row: key group, key and namespace; for timers the time before the key.

    ``parts`` are columns with their codecs; the void namespace does not have a column. ``suffixed`` parts are followed by their
    sizes.
    """

    prefix: int
    parts: Sequence[tuple[str, Codec]]
    suffixed: bool

    @classmethod
    def of(cls, state: KeyedDescription, fields: Mapping[str, Codec], max_parallelism: int) -> _EntryKey:
        """Return the key of the entries of a state."""
        namespace = next((n for n in NAMESPACES if n in fields), "")
        parts: list[tuple[str, Codec]] = [(KEY, fields[KEY]), (namespace, state.namespace)]
        if state.is_timer:
            return cls(prefix_size(max_parallelism), [(TIMESTAMP, _TIMESTAMP), *parts], False)
        return cls(prefix_size(max_parallelism), parts, state.key.length < 0 and state.namespace.length < 0)

    def emit(self, builder: EncodeBuilder) -> None:
        """Emit the instructions that write the key."""
        builder.op(Op.PREFIX, width=self.prefix)
        for name, serializer in self.parts:
            start = builder.register()
            if self.suffixed:
                builder.op(Op.MARK, register=start)
            if name:
                with builder.field(name):
                    (serializer.emit_encode_key if name == KEY else serializer.emit_encode)(builder, builder.column(name))
            else:
                builder.bytes(serializer.serialize(None))
            if self.suffixed:
                builder.op(Op.SUFFIX, register=start)


def _emit_entry(builder: EncodeBuilder, key: _EntryKey, value: _Part | None, map_key: _Part | None = None) -> None:
    with builder.frame():
        key.emit(builder)
        _emit_part(builder, map_key)
    with builder.frame():
        _emit_part(builder, value)
    builder.op(Op.ENTRY_END)


def _emit_part(builder: EncodeBuilder, part: _Part | None) -> None:
    if part is not None:
        name, serializer, column = part
        with builder.field(name):
            serializer.emit_encode(builder, column)


def _emit_value(builder: EncodeBuilder, key: _EntryKey, fields: Mapping[str, Codec], *, is_list: bool) -> None:
    if MAP_KEY in fields:
        map_key = (MAP_KEY, fields[MAP_KEY], builder.column(MAP_KEY))
        _emit_entry(builder, key, (MAP_VALUE, fields[MAP_VALUE], builder.column(MAP_VALUE)), map_key)
        return
    column = builder.column(VALUE)
    with builder.unless(Op.SKIP_EMPTY if is_list else Op.SKIP_NULL, column):
        _emit_entry(builder, key, (VALUE, fields[VALUE], column))


def _emit_map(builder: EncodeBuilder, key: _EntryKey, map_column: Codec) -> None:
    assert isinstance(map_column, _MapColumn)
    column = builder.column(VALUE)
    map_key = (f"{VALUE}.key", map_column.key, column.child(0))
    value = (f"{VALUE}.value", map_column.element, column.child(1))
    with builder.unless(Op.SKIP_EMPTY, column), builder.elements(column, LOOSE):
        _emit_entry(builder, key, value, map_key)
