"""Entries of a keyed state in the shape that read options ask for: flattened or nested, of some keys, without expired values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, Selection
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN
from state_processor.backends.formats.source import KeyedStateSource, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.decoded_columns import decoded_columns
from state_processor.backends.read.key_lookup import Keys
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription


def read_state(
    source: KeyedStateSource,
    state: KeyedDescription,
    options: ReadOptions,
    key_groups: h.KeyGroupRange,
    keys: Keys | None = None,
    selection: Selection | None = None,
    *,
    key_bytes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Return entries of one state of one source, of all keys or of some, in the shape that ``options`` ask for.

    A selection leaves out columns, and fields in them, which are not decoded then; never rows. With ``key_bytes`` each row also
    has its serialized key, by which rows of several states can be matched.
    """
    if options.expired == "only" and not state.has_ttl:
        return iter(())
    columns = decoded_columns(state, options, selection)
    if key_bytes:
        columns[KEY_BYTES_COLUMN] = EVERYTHING
    wanted = None if keys is None else keys.serialized(state)
    decode = replace(options.decode, ttl=True) if state.kind == MAP and state.has_ttl else options.decode
    request = ScanRequest(state.name, columns, decode, key_groups, wanted, options.column_types, in_pieces=options.flatten)
    batches = source.scan(request)
    if state.kind == LIST:
        batches = _shape_list(batches, state, options)
    elif state.kind == MAP:
        batches = _shape_map(batches, state, options)
    elif state.has_ttl and options.decode.ttl:
        batches = (_expire(shapes.split_ttl(b, layouts.VALUE), options) for b in batches)
    return (b for b in batches if b.num_rows)


def _expire(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    oldest = options.oldest_micros
    if oldest is None:
        return batch
    return batch.filter(_wanted(batch.column(shapes.LAST_ACCESS), oldest, options))


def _wanted(access: pa.Array, oldest: int, options: ReadOptions) -> pa.Array:
    """Return which values are read, by their last access; those without one never expire (Flink: ``TtlUtils.expired``)."""
    alive = pc.fill_null(pc.greater(access, pa.scalar(oldest, shapes.TIMESTAMP)), True)
    return pc.invert(alive) if options.expired == "only" else alive


def _shape_list(batches: Iterator[pa.RecordBatch], state: KeyedDescription, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    with_ttl = state.has_ttl and options.decode.ttl
    for batch in batches:
        if not options.flatten:
            yield _expire_nested(batch, options) if with_ttl else batch
            continue
        for part in shapes.explode_list(batch, layouts.VALUE):
            yield _expire(shapes.split_ttl(part, shapes.LIST_VALUE), options) if with_ttl else part


def _shape_map(batches: Iterator[pa.RecordBatch], state: KeyedDescription, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Shape maps as asked for. Entries with TTL always come with their times: one without is null, and Flink drops it."""
    if state.has_ttl:
        batches = (_without_dropped(b) for b in batches)
    if not options.flatten:
        batches = _nest(batches)
        yield from (_expire_nested(b, options) if state.has_ttl else b for b in batches)
        return
    for batch in batches:
        is_whole = layouts.VALUE in batch.schema.names  # in the heap
        parts = shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE) if is_whole else (batch,)
        for part in parts:
            yield _expire(shapes.split_ttl(part, layouts.MAP_VALUE), options) if state.has_ttl else part


def _without_dropped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the entries of a map with TTL except those without a value and its time, which the heap's own format can't have."""
    if layouts.MAP_VALUE not in batch.schema.names:
        return batch
    values = batch.column(layouts.MAP_VALUE)
    return batch.filter(pc.is_valid(values)) if values.null_count else batch


def _nest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = next(batches, None)
    if first is None:
        return
    rest = (b for part in ((first,), batches) for b in part)
    if layouts.VALUE in first.schema.names:
        yield from rest
    else:
        yield from shapes.collect_map(rest, KEY_BYTES_COLUMN, layouts.MAP_KEY, layouts.MAP_VALUE, layouts.VALUE)


def _expire_nested(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    """Move the times of last access in lists and maps to a separate list column, and leave expired elements out."""
    column = batch.column(layouts.VALUE)
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    is_map = pa.types.is_map(column.type)
    elements = (column.items if is_map else column.values).slice(first, last - first)
    keys = column.keys.slice(first, last - first) if is_map else None
    offsets = offsets - first
    access, values = pc.struct_field(elements, 0), pc.struct_field(elements, 1)
    if options.oldest_micros is not None:
        alive = _wanted(access, options.oldest_micros, options)
        offsets = np.concatenate(([0], np.cumsum(alive.to_numpy(zero_copy_only=False))))[offsets]
        access, values = access.filter(alive), values.filter(alive)
        keys = keys.filter(alive) if keys is not None else None
    bounds = pa.array(offsets, pa.int32())
    nested = pa.ListArray.from_arrays(bounds, values) if keys is None else pa.MapArray.from_arrays(bounds, keys, values)
    batch = shapes.with_columns(batch, {layouts.VALUE: nested, shapes.LAST_ACCESS: pa.ListArray.from_arrays(bounds, access)})
    return batch.filter(pa.array(np.diff(offsets) > 0)) if options.oldest_micros is not None else batch
