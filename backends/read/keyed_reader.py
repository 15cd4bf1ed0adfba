"""The reader of one keyed state: record batches in the shapes that users see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.source import KeyedStateSource, KeyRange
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_rows import read_state
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
from state_processor.backends.read.read_plan import PlannedReader, ReadPlan
from state_processor.backends.read.schema_text import with_comments
from state_processor.backends.read.state_listing import naming_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import (
    LIST,
    MAP,
    KeyedDescription,
    ListDescription,
    MapDescription,
    TimerDescription,
)
from state_processor.backends.state.python_states import blaming_declared_type
from state_processor.serializers.foreign_errors import third_party_errors
from state_processor.serializers.runtime.namespaces import GlobalWindowSerializer, TimeWindowSerializer

if TYPE_CHECKING:
    from state_processor.backends.read.key_lookup import Keys

DOMAIN: Final = "domain"
SERVICE: Final = "service"
_DOMAINS: Final = {"EVENT_TIMER": "event_time", "PROCESSING_TIMER": "processing_time"}


class KeyedStateReader(PlannedReader):
    """Reads one keyed state of an operator.

    ``stored``: the operator that has the state. ``states``: the state as each handle's header registers it; they differ where
    subtasks met different subclasses of a POJO. ``plan``: the plan of the read.
    """

    def __init__(self, stored: StoredOperator, states: Sequence[KeyedDescription], plan: ReadPlan) -> None:
        super().__init__(stored, plan)
        states = [evolved(s, plan.types) for s in states]
        self._name = states[0].name
        self._constants = _timer_columns(states[0])
        self._variants = tuple(dict.fromkeys(states))
        keys = plan.options.keys
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
        """Plan splits, one for each task, for ``keys`` or else for the keys of the plan.

        With ``whole_key_groups``, the entries of a key group are in one split.
        """
        keys = self._keys if keys is None else keys
        with naming_state(self._name, self._stored.operator):
            keys_to_read = None if keys is None else wanted_keys(self._variants[0], keys, self._stored.operator.max_parallelism)
            operator, is_timer = self._stored.operator, self._variants[0].is_timer
            handles = keyed_handles(operator, self._stored.snapshot) if is_timer else managed_handles(operator)
            nests_maps = self._variants[0].kind == MAP and not self._plan.options.flatten  # a row has all entries of a key
            key_ranges = None if whole_key_groups or nests_maps else partial(self._key_ranges, most_bytes=split_bytes)
            return plan_splits(list(handles), keys_to_read, split_bytes, key_ranges)

    def _key_ranges(self, handle: KeyedHandle, most_bytes: int) -> list[KeyRange]:
        return handle.open(self._stored.snapshot).key_ranges(self._name, most_bytes)

    def read_opened(self, split: KeyedSplit, opened: Callable[[KeyedHandle], KeyedStateSource]) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split; ``opened`` returns the source of a handle, which may be open already."""
        return self._plan.finished(self._rows(split, opened))

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
        return self._plan.finished(self._source_rows(source, key_groups, keys, subtask))

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
        types = self._plan.types
        context = f"state {self._name!r} of {self._stored.label}"
        blamed = third_party_errors(context, parts=state.serializers.values())
        with blaming_declared_type(self._name, types.python_type(self._name)), blamed:
            batches = read_state(source, evolved(state, types), self._plan, key_groups, keys, between=between)
            yield from map(self._finished, batches, repeat(subtask))

    def count(self, split: KeyedSplit) -> int | None:
        """Count the rows of one split without decoding them; ``None`` if a row is not an entry."""
        with naming_state(self._name, self._stored.operator):
            source = split.handle.open(self._stored.snapshot)
            state = source.describe(self._name)
            if state is None:
                return 0
            if split.keys is not None or not self._plan.has_row_per_entry(state, source.backend):
                return None
            return source.count(self._name, split.key_groups, split.between)

    def _schema_of(self, state: KeyedDescription) -> pa.Schema:
        """Return the schema of what :func:`read_state` and :meth:`_finished` give for one variant."""
        o = self._plan.described
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
        if self._plan.options.metadata:
            nested = state.kind in (LIST, MAP) and not self._plan.options.flatten and state.has_ttl
            fields |= {f.name: f.type for f in shapes.KEYED_METADATA}
            if nested:
                fields[shapes.LAST_ACCESS] = pa.list_(shapes.TIMESTAMP)
        required = _required(state)
        return with_comments(pa.schema([pa.field(n, t, nullable=n not in required) for n, t in fields.items()]), state)

    def _value_fields(self, state: KeyedDescription) -> dict[str, pa.DataType]:
        plain = replace(self._plan.described, ttl=False)
        value = state.value.arrow_type(plain)
        match state:
            case ListDescription() if self._plan.options.flatten:
                return {shapes.LIST_INDEX: pa.int32(), shapes.LIST_VALUE: value}
            case ListDescription():
                return {layouts.VALUE: pa.list_(value)}
            case MapDescription() if self._plan.options.flatten:
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


def _required(state: KeyedDescription) -> set[str]:
    """Return the columns that are never null.

    Flink refuses null as a key (``KeyGroupRangeAssignment.assignToKeyGroup``) and as a namespace (``StateTable``).
    """
    columns = {layouts.TIMESTAMP, DOMAIN, SERVICE, shapes.LIST_INDEX, *(f.name for f in shapes.KEYED_METADATA if not f.nullable)}
    columns |= {layouts.KEY} if state.key.never_null else set()
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
