"""What the readers of all layouts have in common, and the reader of one keyed state.

Entries of keyed state become rows in the shapes that users see, without expired values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, NOTHING, Fields, Selection, applied, inside
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.formats.source import KeyedStateSource, KeyRange, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_splits import (
    SPLIT_BYTES,
    KeyedHandle,
    KeyedSplit,
    keyed_handles,
    keys_to_read,
    managed_handles,
    plan_splits,
    wanted_keys,
)
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.schemas import with_comments
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import (
    LIST,
    MAP,
    KeyedDescription,
    ListDescription,
    MapDescription,
    StateDescription,
    TimerDescription,
)
from state_processor.backends.state.python_states import blaming_declared_type
from state_processor.backends.state.state_headers import DESCRIBED, Same
from state_processor.serializers import traversal as paths
from state_processor.serializers.decode_options import can_have_nanos, plain_schema
from state_processor.serializers.runtime.namespaces import GlobalWindowSerializer, TimeWindowSerializer
from state_processor.support.errors import third_party_errors
from state_processor.support.late import pc
from state_processor.support.locks import cached_property
from state_processor.support.mappings import without_keys

if TYPE_CHECKING:
    from state_processor.backends.read.key_lookup import Keys


def plan_read(stored: StoredOperator, states: Iterable[StateDescription], options: ReadOptions) -> ReadOptions:
    """Return the options of a read with what some states add.

    Names of the fields of rows come from the user and from the plan of the query, and the time zone from the snapshot.
    """
    snapshot = stored.snapshot
    if snapshot.query_plan is None and not options.types.fields:
        return options.of_states(time_zone=snapshot.time_zone)
    from state_processor.backends.read.field_names import state_names  # most reads omit names

    return options.of_states(state_names(snapshot, stored.operator, states, dict(options.types.fields)), snapshot.time_zone)


class PlannedReader(ABC):
    """A reader of state of an operator. After unpickling it can read splits, but not plan them.

    ``stored``: the operator that has the state. ``options``: the read, with the names and the time zone of the states.
    """

    def __init__(self, stored: StoredOperator, options: ReadOptions) -> None:
        self._stored = stored
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_options": self._options.for_tasks(), "schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the batches of a read."""
        return plain_schema(self.described_schema)

    @property
    def described_schema(self) -> pa.Schema:
        """The schema, with the declarations of the types of columns (:mod:`~state_processor.serializers.decode_options`)."""
        return applied(self._options.selection, self._whole_schema())

    @property
    def can_have_nanos(self) -> bool:
        """Whether values can have nanoseconds that the columns do not hold."""
        return any(can_have_nanos(field.type) for field in self.described_schema)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        return self._options.finished(self._rows(split))

    @abstractmethod
    def _rows(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split, as the layout and its columns give them."""

    @abstractmethod
    def _whole_schema(self) -> pa.Schema:
        """Return the described schema of all columns."""

    def select(self, selection: Selection) -> Self:
        """Return a reader of some columns, and of some fields in them. Unknown names are ignored."""
        reader = type(self).__new__(type(self))  # copy.copy() would make the reader of a task
        vars(reader).update(without_keys(vars(self), ("schema",)))
        reader._options = replace(self._options, selection=selection)
        return reader


DOMAIN: Final = "domain"
SERVICE: Final = "service"
_DOMAINS: Final = {"EVENT_TIMER": "event_time", "PROCESSING_TIMER": "processing_time"}


class KeyedStateReader(PlannedReader):
    """Reads one keyed state of an operator.

    ``stored``: the operator that has the state. ``states``: the state as each handle's header registers it; they differ where
    subtasks met different subclasses of a POJO. ``options``: the read.
    """

    def __init__(self, stored: StoredOperator, states: Sequence[KeyedDescription], options: ReadOptions) -> None:
        super().__init__(stored, options)
        states = [evolved(s, options.types) for s in states]
        self._name = states[0].name
        self._constants = _timer_columns(states[0])
        self._variants = tuple(states if len(states) == 1 else dict.fromkeys(states))
        keys = options.keys
        self._keys = None if keys is None else keys_to_read(states[0], keys)  # errors are raised now, not in a task

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_variants": (), "_keys": None}  # each split has the keys in it

    def known_types(self) -> pa.Schema:
        """Return the described schema of all columns. The namespace of timers without a namespace has the null type."""
        return shapes.wider_schema(list(map(self._schema_of, self._variants)))

    def _whole_schema(self) -> pa.Schema:
        return with_text_namespace(self.known_types())

    def splits(
        self, split_bytes: int = SPLIT_BYTES, keys: Keys | None = None, *, whole_key_groups: bool = False
    ) -> list[KeyedSplit]:
        """Plan splits, one for each task, for ``keys`` or else for the keys of the read.

        With ``whole_key_groups``, the entries of a key group are in one split.
        """
        keys = self._keys if keys is None else keys
        with naming_state(self._name, self._stored.operator):
            keys_to_read = None if keys is None else wanted_keys(self._variants[0], keys, self._stored.operator.max_parallelism)
            operator, is_timer = self._stored.operator, self._variants[0].is_timer
            handles = keyed_handles(operator, self._stored.snapshot) if is_timer else managed_handles(operator)
            nests_maps = self._variants[0].kind == MAP and not self._options.flatten  # a row has all entries of a key
            key_ranges = None if whole_key_groups or nests_maps else partial(self._key_ranges, most_bytes=split_bytes)
            return plan_splits(list(handles), keys_to_read, split_bytes, key_ranges)

    def _key_ranges(self, handle: KeyedHandle, most_bytes: int) -> list[KeyRange]:
        return handle.open(self._stored.snapshot).key_ranges(self._name, most_bytes)

    def read_opened(self, split: KeyedSplit, opened: Callable[[KeyedHandle], KeyedStateSource]) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split; ``opened`` returns the source of a handle, which may be open already."""
        return self._options.finished(self._rows(split, opened))

    def _rows(
        self, split: KeyedSplit, opened: Callable[[KeyedHandle], KeyedStateSource] | None = None
    ) -> Iterator[pa.RecordBatch]:
        with naming_state(self._name, self._stored.operator):
            source = split.handle.open(self._stored.snapshot) if opened is None else opened(split.handle)
            yield from self._source_rows(source, split.key_groups, split.keys, split.handle.subtask, split.between)

    def read_source(
        self, source: KeyedStateSource, key_groups: h.KeyGroupRange, keys: Keys | None, subtask: int
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of an open source, of all keys or of some."""
        return self._options.finished(self._source_rows(source, key_groups, keys, subtask))

    def _source_rows(
        self,
        source: KeyedStateSource,
        key_groups: h.KeyGroupRange,
        keys: Keys | None,
        subtask: int,
        between: KeyRange | None = None,
    ) -> Iterator[pa.RecordBatch]:
        state = source.describe(self._name)
        if state is None:
            return
        types = self._options.types
        context = f"state {self._name!r} of {self._stored.label}"
        blamed = third_party_errors(context, parts=state.serializers.values())
        with blaming_declared_type(self._name, types.type_in_python(self._name)), blamed:
            batches = read_state(source, evolved(state, types), self._options, key_groups, keys, between=between)
            yield from map(self._finished, batches, repeat(subtask))

    def count(self, split: KeyedSplit) -> int | None:
        """Count the rows of one split without decoding them; ``None`` if a row is not an entry."""
        with naming_state(self._name, self._stored.operator):
            source = split.handle.open(self._stored.snapshot)
            state = source.describe(self._name)
            if state is None:
                return 0
            if split.keys is not None or not self._options.has_row_per_entry(state, source.backend):
                return None
            return source.count(self._name, split.key_groups, split.between)

    def _schema_of(self, state: KeyedDescription) -> pa.Schema:
        """Return the schema of what :func:`read_state` and :meth:`_finished` give for one variant."""
        o = self._options.described
        fields = {layouts.KEY: state.key.arrow_type(o)}
        if not state.in_void_namespace:
            fields[namespace_column(state)] = state.namespace.arrow_type(o)
        if state.is_timer:
            if state.in_void_namespace:
                fields[layouts.NAMESPACE] = pa.null()
            fields |= {
                layouts.TIMESTAMP: pa.int64(),
                shapes.FIRES_AT: shapes.TIMESTAMP,
                DOMAIN: pa.string(),
                SERVICE: pa.string(),
            }
        else:
            fields |= self._value_fields(state)
        if self._options.metadata:
            nested = state.kind in (LIST, MAP) and not self._options.flatten and state.has_ttl
            fields |= {f.name: f.type for f in shapes.KEYED_METADATA}
            if nested:
                fields[shapes.LAST_ACCESS] = pa.list_(shapes.TIMESTAMP)
        required = _required(state)
        return with_comments(pa.schema([pa.field(n, t, nullable=n not in required) for n, t in fields.items()]), state)

    def _value_fields(self, state: KeyedDescription) -> dict[str, pa.DataType]:
        plain = replace(self._options.described, ttl=False)
        value = state.value.arrow_type(plain)
        match state:
            case ListDescription() if self._options.flatten:
                return {shapes.LIST_INDEX: pa.int32(), shapes.LIST_VALUE: value}
            case ListDescription():
                return {layouts.VALUE: pa.list_(value)}
            case MapDescription() if self._options.flatten:
                return {layouts.MAP_KEY: state.stored_map_key.arrow_type(plain), layouts.MAP_VALUE: value}
            case MapDescription():
                return {layouts.VALUE: pa.map_(state.stored_map_key.arrow_type(plain), value)}
        return {layouts.VALUE: value}

    def _finished(self, batch: pa.RecordBatch, subtask: int) -> pa.RecordBatch:
        """Rename columns, add constant columns, and bring columns to the schema's types and order."""
        arrays = []
        for field in self.schema:
            column = batch.column(field.name) if field.name in batch.schema.names else self._added(field.name, batch, subtask)
            arrays.append(shapes.conform(column, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _added(self, name: str, batch: pa.RecordBatch, subtask: int) -> pa.Array:
        """Return a column that entries do not have."""
        rows = batch.num_rows
        match name:
            case shapes.SUBTASK:
                return shapes.constant(subtask, rows)
            case shapes.WINDOW:
                return batch.column(layouts.NAMESPACE)
            case layouts.NAMESPACE:  # of timers, which always have this column or a window
                return pa.nulls(rows, pa.string())
            case shapes.FIRES_AT:
                return shapes.instants(batch.column(layouts.TIMESTAMP))
            case shapes.LAST_ACCESS:
                return pa.nulls(rows, shapes.TIMESTAMP)
        return pa.repeat(pa.scalar(self._constants[name], pa.string()), rows)


_NEVER_NULL: Final = frozenset(
    {layouts.TIMESTAMP, DOMAIN, SERVICE, shapes.LIST_INDEX, *(f.name for f in shapes.KEYED_METADATA if not f.nullable)}
)
"""The columns that are null in rows of no state."""


def _required(state: KeyedDescription) -> frozenset[str]:
    """Return the columns that are never null.

    Flink refuses null as a key (``KeyGroupRangeAssignment.assignToKeyGroup``) and as a namespace (``StateTable``).
    """
    columns = _NEVER_NULL | ({layouts.KEY} if state.key.never_null else set())
    return columns | ({namespace_column(state)} if state.namespace.never_null else set())


def _timer_columns(state: KeyedDescription) -> dict[str, str]:
    """Return the columns that are the same in all timers of a queue."""
    return {DOMAIN: _DOMAINS[state.kind], SERVICE: state.service} if isinstance(state, TimerDescription) else {}


def with_text_namespace(schema: pa.Schema) -> pa.Schema:
    """Return the schema with a string for a namespace that is null throughout."""
    at = schema.get_field_index(layouts.NAMESPACE)
    if at < 0 or not pa.types.is_null(schema.field(at).type):
        return schema
    return schema.set(at, pa.field(layouts.NAMESPACE, pa.string()))


def namespace_column(state: KeyedDescription) -> str:
    """Return ``window`` for windows, ``namespace`` for others."""
    windows = (TimeWindowSerializer, GlobalWindowSerializer)
    return shapes.WINDOW if isinstance(state.namespace, windows) else layouts.NAMESPACE


_MADE_OF: Final = {shapes.WINDOW: layouts.NAMESPACE, shapes.FIRES_AT: layouts.TIMESTAMP}
"""Columns of rows that are made of a column of entries with another name."""


def read_state(
    source: KeyedStateSource,
    state: KeyedDescription,
    options: ReadOptions,
    key_groups: h.KeyGroupRange,
    keys: Keys | None = None,
    *,
    key_bytes: bool = False,
    between: KeyRange | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of one state of one source. Batches may be empty.

    Columns and fields that the plan does not select are skipped, and keep their rows.

    ``source`` and ``state``: the source, and the state with the types of the read. ``options``: the read. ``key_groups``
    and ``keys``: the key groups to read, and the keys in them; ``None`` for all. ``key_bytes``: true to add the serialized key of
    each row, which matches rows of several states. ``between``: a part of the key groups.
    """
    if options.expired == "only" and not state.has_ttl:
        return iter(())
    columns = decoded_columns(state, options)
    if key_bytes:
        columns = {**columns, KEY_BYTES_COLUMN: EVERYTHING}
    serialized_keys = None if keys is None else keys.serialized(state)
    values = replace(options.values, ttl=True) if state.kind == MAP and state.has_ttl else options.values
    request = ScanRequest(
        state.name, columns, values, key_groups, serialized_keys, options.types, in_pieces=options.flatten, between=between
    )
    batches = source.scan(request)
    if state.kind == LIST:
        batches = _shape_list(batches, state, options)
    elif state.kind == MAP:
        batches = _shape_map(batches, state, options)
    elif state.has_ttl and options.values.ttl:
        batches = (_expire(shapes.split_ttl(b, layouts.VALUE), options) for b in batches)
    return batches


def _expire(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    newest = options.newest_expired
    return batch if newest is None else batch.filter(_selected(batch.column(shapes.LAST_ACCESS), newest, options))


def _selected(access: pa.Array, newest_expired: int, options: ReadOptions) -> pa.Array:
    """Return which values are read, by their last access. Values without one never expire (Flink: ``TtlUtils.expired``)."""
    alive = pc.fill_null(pc.greater(access, pa.scalar(newest_expired, shapes.TIMESTAMP)), True)
    return pc.invert(alive) if options.expired == "only" else alive


def _shape_list(batches: Iterator[pa.RecordBatch], state: KeyedDescription, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    with_ttl = state.has_ttl and options.values.ttl
    for batch in batches:
        if not options.flatten:
            yield _expire_nested(batch, options) if with_ttl else batch
            continue
        for part in shapes.explode_list(batch, layouts.VALUE):
            yield _expire(shapes.split_ttl(part, shapes.LIST_VALUE), options) if with_ttl else part


def _shape_map(batches: Iterator[pa.RecordBatch], state: KeyedDescription, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Shape maps as asked for. Entries with TTL always come with their times: one without is null, and Flink drops it."""
    if state.has_ttl:
        batches = map(_without_dropped, batches)
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
    """Return the entries of a map with TTL, except entries without a value. The heap's own format does not have such entries."""
    if layouts.MAP_VALUE not in batch.schema.names:
        return batch
    values = batch.column(layouts.MAP_VALUE)
    return batch.filter(pc.is_valid(values)) if values.null_count else batch


def _nest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = next(batches, None)
    if first is None:
        return
    batches = chain((first,), batches)
    if layouts.VALUE in first.schema.names:
        yield from batches
    else:
        yield from shapes.collect_map(batches, KEY_BYTES_COLUMN, layouts.MAP_KEY, layouts.MAP_VALUE, layouts.VALUE)


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
    newest = options.newest_expired
    if newest is not None:
        alive = _selected(access, newest, options)
        offsets = np.concatenate(([0], np.cumsum(alive.to_numpy(zero_copy_only=False))))[offsets]
        access, values = access.filter(alive), values.filter(alive)
        keys = keys.filter(alive) if keys is not None else None
    bounds = pa.array(offsets, pa.int32())
    nested = pa.ListArray.from_arrays(bounds, values) if keys is None else pa.MapArray.from_arrays(bounds, keys, values)
    batch = shapes.with_columns(batch, {layouts.VALUE: nested, shapes.LAST_ACCESS: pa.ListArray.from_arrays(bounds, access)})
    return batch.filter(pa.array(np.diff(offsets) > 0)) if newest is not None else batch


def decoded_columns(state: KeyedDescription, options: ReadOptions) -> Mapping[str, Fields]:
    """Return the columns of entries to decode for the rows of a state, with the fields in them."""
    return _decoded_columns(Same(state, options.selection), options.flatten, options.metadata, options.values.ttl)


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
