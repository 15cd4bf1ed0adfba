"""Rows of a keyed state as the plan of a read asks for them: flattened or nested, of some keys, without expired values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, NOTHING, Fields, Selection, inside
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.formats.source import KeyedStateSource, KeyRange, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.read_plan import ReadPlan
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.backends.state.header_cache import DESCRIBED, Same
from state_processor.serializers import paths
from state_processor.serializers.late import pc

if TYPE_CHECKING:
    from state_processor.backends.read.key_lookup import Keys

_MADE_OF: Final = {shapes.WINDOW: layouts.NAMESPACE, shapes.FIRES_AT: layouts.TIMESTAMP}
"""Columns of rows that are made of a column of entries with another name."""


def read_state(
    source: KeyedStateSource,
    state: KeyedDescription,
    plan: ReadPlan,
    key_groups: h.KeyGroupRange,
    keys: Keys | None = None,
    *,
    key_bytes: bool = False,
    between: KeyRange | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of one state of one source. Batches may be empty.

    Columns and fields that the plan does not select are skipped, and keep their rows.

    ``source`` and ``state``: the source, and the state with the types of the plan. ``plan``: the plan of the read. ``key_groups``
    and ``keys``: the key groups to read, and the keys in them; ``None`` for all. ``key_bytes``: true to add the serialized key of
    each row, which matches rows of several states. ``between``: a part of the key groups.
    """
    if plan.options.expired == "only" and not state.has_ttl:
        return iter(())
    columns = decoded_columns(state, plan)
    if key_bytes:
        columns = {**columns, KEY_BYTES_COLUMN: EVERYTHING}
    serialized_keys = None if keys is None else keys.serialized(state)
    values = replace(plan.values, ttl=True) if state.kind == MAP and state.has_ttl else plan.values
    request = ScanRequest(
        state.name, columns, values, key_groups, serialized_keys, plan.types, in_pieces=plan.options.flatten, between=between
    )
    batches = source.scan(request)
    if state.kind == LIST:
        batches = _shape_list(batches, state, plan)
    elif state.kind == MAP:
        batches = _shape_map(batches, state, plan)
    elif state.has_ttl and plan.values.ttl:
        batches = (_expire(shapes.split_ttl(b, layouts.VALUE), plan) for b in batches)
    return batches


def _expire(batch: pa.RecordBatch, plan: ReadPlan) -> pa.RecordBatch:
    newest = plan.options.newest_expired
    return batch if newest is None else batch.filter(_selected(batch.column(shapes.LAST_ACCESS), newest, plan))


def _selected(access: pa.Array, newest_expired: int, plan: ReadPlan) -> pa.Array:
    """Return which values are read, by their last access. Values without one never expire (Flink: ``TtlUtils.expired``)."""
    alive = pc.fill_null(pc.greater(access, pa.scalar(newest_expired, shapes.TIMESTAMP)), True)
    return pc.invert(alive) if plan.options.expired == "only" else alive


def _shape_list(batches: Iterator[pa.RecordBatch], state: KeyedDescription, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    with_ttl = state.has_ttl and plan.values.ttl
    for batch in batches:
        if not plan.options.flatten:
            yield _expire_nested(batch, plan) if with_ttl else batch
            continue
        for part in shapes.explode_list(batch, layouts.VALUE):
            yield _expire(shapes.split_ttl(part, shapes.LIST_VALUE), plan) if with_ttl else part


def _shape_map(batches: Iterator[pa.RecordBatch], state: KeyedDescription, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Shape maps as asked for. Entries with TTL always come with their times: one without is null, and Flink drops it."""
    if state.has_ttl:
        batches = map(_without_dropped, batches)
    if not plan.options.flatten:
        batches = _nest(batches)
        yield from (_expire_nested(b, plan) if state.has_ttl else b for b in batches)
        return
    for batch in batches:
        is_whole = layouts.VALUE in batch.schema.names  # in the heap
        parts = shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE) if is_whole else (batch,)
        for part in parts:
            yield _expire(shapes.split_ttl(part, layouts.MAP_VALUE), plan) if state.has_ttl else part


def _without_dropped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the entries of a map with TTL, except entries without a value. The heap's own format does not have such entries."""
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


def _expire_nested(batch: pa.RecordBatch, plan: ReadPlan) -> pa.RecordBatch:
    """Move the times of last access in lists and maps to a separate list column, and leave expired elements out."""
    column = batch.column(layouts.VALUE)
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    is_map = pa.types.is_map(column.type)
    elements = (column.items if is_map else column.values).slice(first, last - first)
    keys = column.keys.slice(first, last - first) if is_map else None
    offsets = offsets - first
    access, values = pc.struct_field(elements, 0), pc.struct_field(elements, 1)
    newest = plan.options.newest_expired
    if newest is not None:
        alive = _selected(access, newest, plan)
        offsets = np.concatenate(([0], np.cumsum(alive.to_numpy(zero_copy_only=False))))[offsets]
        access, values = access.filter(alive), values.filter(alive)
        keys = keys.filter(alive) if keys is not None else None
    bounds = pa.array(offsets, pa.int32())
    nested = pa.ListArray.from_arrays(bounds, values) if keys is None else pa.MapArray.from_arrays(bounds, keys, values)
    batch = shapes.with_columns(batch, {layouts.VALUE: nested, shapes.LAST_ACCESS: pa.ListArray.from_arrays(bounds, access)})
    return batch.filter(pa.array(np.diff(offsets) > 0)) if newest is not None else batch


def decoded_columns(state: KeyedDescription, plan: ReadPlan) -> Mapping[str, Fields]:
    """Return the columns of entries to decode for the rows of a state, with the fields in them."""
    return _decoded_columns(Same(state, plan.selection), plan.options.flatten, plan.options.metadata, plan.values.ttl)


@lru_cache(maxsize=DESCRIBED)
def _decoded_columns(selected: Same, flatten: bool, metadata: bool, times: bool) -> Mapping[str, Fields]:
    state: KeyedDescription = selected.objects[0]
    selection: Selection = _Everything() if selected.objects[1] is None else selected.objects[1]
    columns = {}
    names = [
        layouts.KEY,
        *([] if state.in_void_namespace else [layouts.NAMESPACE, shapes.WINDOW]),
        layouts.TIMESTAMP,
        shapes.FIRES_AT,
    ]
    for name in names:
        if name in selection:
            columns[_MADE_OF.get(name, name)] = EVERYTHING if name in _MADE_OF else selection[name]
    if layouts.KEY not in columns or (metadata and KEY_GROUP_COLUMN in selection):  # rows count, even without columns
        columns[KEY_GROUP_COLUMN] = EVERYTHING
    if not state.is_timer:
        columns |= _of_values(state, selection, flat=flatten, has_times=state.has_ttl and times)
    return columns


def _of_values(state: KeyedDescription, selection: Selection, *, flat: bool, has_times: bool) -> dict[str, Fields]:
    """Return the columns of values: the selected columns, and the columns that decide which rows the state has."""
    whole = selection.get(layouts.VALUE, NOTHING)
    if state.kind == MAP:
        value = selection.get(layouts.MAP_VALUE, NOTHING) if flat else whole.of(paths.VALUE)
        value = value.timed() if state.has_ttl else value
        columns = {layouts.VALUE: inside(paths.VALUE, value)}  # in the heap
        if not flat:
            return columns | {layouts.MAP_KEY: EVERYTHING, layouts.MAP_VALUE: value, KEY_BYTES_COLUMN: EVERYTHING}
        if layouts.MAP_KEY in selection:
            columns[layouts.MAP_KEY] = selection[layouts.MAP_KEY]
        if layouts.MAP_VALUE in selection or state.has_ttl:
            columns[layouts.MAP_VALUE] = value
        return columns
    if state.kind == LIST:
        element = selection.get(shapes.LIST_VALUE, NOTHING) if flat else whole.of(paths.ELEMENT)
        if not (flat or has_times or layouts.VALUE in selection):
            return {}
        return {layouts.VALUE: inside(paths.ELEMENT, element.timed() if has_times else element)}
    if not (has_times or layouts.VALUE in selection):
        return {}
    return {layouts.VALUE: whole.timed() if has_times else whole}


class _Everything(dict[str, Fields]):
    """A selection of all columns."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Fields:
        return EVERYTHING

    def get(self, name: str, default: object = None) -> Fields:  # type: ignore[override]
        """Return all of a column."""
        return EVERYTHING
