"""Reads one keyed state, or all of an operator, as record batches in the shapes that users see."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.entry_parts import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.formats.keyed_files import KeyedStateSource, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.keyed_sources import KeyedHandle, keyed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_listing import naming_state, operator_label
from state_processor.backends.read.task_state import operator_for_tasks, snapshot_for_tasks, state_for_tasks
from state_processor.backends.state.column_types import UndescribedAsBytes, WantedTypes, evolved
from state_processor.backends.state.descriptions import LIST, MAP, TIMERS, StateDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import NotFoundError, OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.serializers.evolution.resolution import PortableType
from state_processor.serializers.kryo.types import JavaType
from state_processor.serializers.runtime.streaming import GlobalWindowSerializer, TimeWindowSerializer

WINDOW: Final = "window"
DOMAIN: Final = "domain"
SERVICE: Final = "service"
_DOMAINS: Final = {"EVENT_TIMER": "event_time", "PROCESSING_TIMER": "processing_time"}
_SPLIT_BYTES: Final = 96 << 20
_CHUNK_BYTES: Final = 8 << 20
_PLAIN_KEYS: Final[dict[str, type]] = {
    "STRING": str,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), Integral),
    **dict.fromkeys(("FLOAT", "DOUBLE"), Real),
    "BOOLEAN": bool,
}
"""What Python has for keys of plain types; their serializers would take more, such as any value for a boolean."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KeyedSplit:
    """A range of key groups of one handle: what one task reads. It can be pickled."""

    handle: KeyedHandle
    key_groups: h.KeyGroupRange

    @property
    def size(self) -> int:
        """Bytes of the snapshot to read, if key groups are alike."""
        return self.handle.handle.state_size * len(self.key_groups) // max(1, len(self.handle.key_groups))


def plan_splits(
    handles: Sequence[KeyedHandle], key_groups: frozenset[int] | None = None, split_bytes: int = _SPLIT_BYTES
) -> list[KeyedSplit]:
    """Cut handles into ranges of key groups of about ``split_bytes`` each.

    Parameters
    ----------
    handles
        The handles to read.
    key_groups
        Only these key groups; ``None`` for all.
    split_bytes
        Size of a split, in bytes of the snapshot.
    """
    splits = []
    for handle in handles:
        if key_groups is not None:
            wanted = sorted(k for k in key_groups if k in handle.key_groups)
            splits += [KeyedSplit(handle, h.KeyGroupRange(k, k)) for k in wanted]
            continue
        parts = max(1, min(len(handle.key_groups), round(handle.handle.state_size / split_bytes)))
        bounds = np.linspace(handle.key_groups.start, handle.key_groups.end_inclusive + 1, parts + 1).astype(int).tolist()
        splits += [KeyedSplit(handle, h.KeyGroupRange(a, b - 1)) for a, b in pairwise(bounds)]
    return splits


class KeyedStateReader:
    """Reads one keyed state of an operator.

    Parameters
    ----------
    snapshot, operator
        Where the state is.
    states
        The state as each handle's header registers it; they differ where subtasks met different subclasses of a POJO.
    options
        Shape and content.
    """

    def __init__(
        self, snapshot: Snapshot, operator: OperatorState, states: Sequence[StateDescription], options: ReadOptions
    ) -> None:
        self._snapshot = snapshot
        self._operator = operator
        states = [evolved(s, options.types) for s in states]
        self._state = states[0]
        self._options = options
        self._variants = tuple(dict.fromkeys(states))
        serialized_keys(self._state, options.keys or ())  # keys of another type are an error now, not in a task

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {
            "_snapshot": snapshot_for_tasks(self._snapshot),
            "_operator": operator_for_tasks(self._operator),
            "_state": state_for_tasks(self._state),
            "_variants": (),
            "schema": self.schema,
        }

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that :meth:`read` gives."""
        return with_text_namespace(self.known_types)

    @property
    def known_types(self) -> pa.Schema:
        """The schema, with the null type for the namespace of timers that have none."""
        return shapes.wider_schema([self._schema_of(s) for s in self._variants])

    def splits(self, split_bytes: int = _SPLIT_BYTES) -> list[KeyedSplit]:
        """What to read, in parts that tasks can take."""
        groups = None
        if self._options.keys is not None:
            groups = key_groups_of(self._state, self._options.keys, self._operator.max_parallelism)
        handles = keyed_handles(self._operator, self._snapshot if self._state.is_timer else None)
        return plan_splits(list(handles), groups, split_bytes)

    def read(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        with naming_state(self._state.name, self._operator):
            source = split.handle.open(self._snapshot)
            state = source.describe(self._state.name)
            if state is None:
                return
            state = evolved(state, self._options.types)
            options = with_keys_of(state, self._options, split.key_groups, self._operator.max_parallelism)
            for batch in read_state(source, state, options, split.key_groups):
                yield self._finished(batch, split.handle.subtask)

    def _schema_of(self, state: StateDescription) -> pa.Schema:
        """What :func:`read_state` and :meth:`_finished` give for one variant."""
        o = self._options.decode
        assert state.key is not None
        fields = {layouts.KEY: state.key.arrow_type(o)}
        if state.namespace is not None and not state.in_void_namespace:
            fields[namespace_column(state)] = state.namespace.arrow_type(o)
        if state.is_timer:
            if state.in_void_namespace:
                fields[layouts.NAMESPACE] = pa.null()
            fields |= {layouts.TIMESTAMP: pa.int64(), DOMAIN: pa.string(), SERVICE: pa.string()}
        else:
            fields |= self._value_fields(state)
        if self._options.metadata:
            nested = state.kind in (LIST, MAP) and not self._options.flatten and state.has_ttl
            fields |= {f.name: f.type for f in shapes.METADATA}
            if nested:
                fields[shapes.LAST_ACCESS] = pa.list_(shapes.TIMESTAMP)
        return pa.schema(list(fields.items()))

    def _value_fields(self, state: StateDescription) -> dict[str, pa.DataType]:
        plain = replace(self._options.decode, ttl=False)
        assert state.value is not None
        value = state.value.arrow_type(plain)
        if state.kind == LIST:
            if self._options.flatten:
                return {shapes.LIST_INDEX: pa.int32(), shapes.LIST_VALUE: value}
            return {layouts.VALUE: pa.list_(value)}
        if state.kind == MAP:
            assert state.map_key is not None
            map_key = state.map_key.arrow_type(plain)
            if self._options.flatten:
                return {layouts.MAP_KEY: map_key, layouts.MAP_VALUE: value}
            return {layouts.VALUE: pa.map_(map_key, value)}
        return {layouts.VALUE: value}

    def _finished(self, batch: pa.RecordBatch, subtask: int) -> pa.RecordBatch:
        """Rename, add what is the same in all rows, and bring columns to the schema's types and order."""
        rows = batch.num_rows
        extra = {
            DOMAIN: lambda: pa.array([_DOMAINS[self._state.kind]] * rows, pa.string()),
            SERVICE: lambda: pa.array([self._state.service] * rows, pa.string()),
            shapes.SUBTASK: lambda: shapes.constant(subtask, rows),
            WINDOW: lambda: batch.column(layouts.NAMESPACE),
            layouts.NAMESPACE: lambda: pa.nulls(rows, pa.string()),  # of timers, which always have this column or a window
            shapes.LAST_ACCESS: lambda: pa.nulls(rows, shapes.TIMESTAMP),
        }
        arrays = []
        for field in self.schema:
            column = batch.column(field.name) if field.name in batch.schema.names else extra[field.name]()
            arrays.append(shapes.conform(column, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def with_text_namespace(schema: pa.Schema) -> pa.Schema:
    """The schema with a string for a namespace that is null throughout."""
    at = schema.get_field_index(layouts.NAMESPACE)
    if at < 0 or not pa.types.is_null(schema.field(at).type):
        return schema
    return schema.set(at, pa.field(layouts.NAMESPACE, pa.string()))


def namespace_column(state: StateDescription) -> str:
    """``window`` for windows, ``namespace`` for others."""
    windows = (TimeWindowSerializer, GlobalWindowSerializer)
    return WINDOW if isinstance(state.namespace, windows) else layouts.NAMESPACE


def read_state(
    source: KeyedStateSource,
    state: StateDescription,
    options: ReadOptions,
    key_groups: h.KeyGroupRange,
    *,
    key_bytes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Entries of one state of one source in the shape that ``options`` ask for.

    With ``key_bytes`` each row also has its serialized key, by which rows of several states can be matched.
    """
    nested = state.kind in (LIST, MAP) and not options.flatten
    columns = {layouts.KEY, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE, layouts.TIMESTAMP}
    if not state.in_void_namespace:
        columns.add(layouts.NAMESPACE)
    if options.metadata:
        columns.add(KEY_GROUP_COLUMN)
    if key_bytes or options.keys is not None or (nested and state.kind == MAP):
        columns.add(KEY_BYTES_COLUMN)
    keys = serialized_keys(state, options.keys) if options.keys is not None else None
    decode = replace(options.decode, ttl=True) if state.kind == MAP and state.has_ttl else options.decode
    request = ScanRequest(state.name, frozenset(columns), decode, key_groups, keys, options.types)
    batches = _filter_keys(source.scan(request), keys)
    if state.kind == LIST:
        batches = (_shape_list(b, state, options) for b in batches)
    elif state.kind == MAP:
        batches = _shape_map(batches, state, options)
    elif state.has_ttl and options.decode.ttl:
        batches = (_expire(shapes.split_ttl(b, layouts.VALUE), options) for b in batches)
    return (b for b in batches if b.num_rows)


def _filter_keys(batches: Iterator[pa.RecordBatch], keys: tuple[bytes, ...] | None) -> Iterator[pa.RecordBatch]:
    """Rows of the wanted keys. Framed formats have done so already, and their bytes go on behind the key."""
    if keys is None:
        yield from batches
        return
    for batch in batches:
        column = batch.column(KEY_BYTES_COLUMN)
        mask = np.zeros(batch.num_rows, dtype=bool)
        for key in keys:
            mask |= pc.starts_with(column, pattern=key).to_numpy(zero_copy_only=False)
        yield batch.filter(pa.array(mask))


def _expire(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    oldest = options.oldest_micros
    if oldest is None:
        return batch
    return batch.filter(_alive(batch.column(shapes.LAST_ACCESS), oldest))


def _alive(access: pa.Array, oldest: int) -> pa.Array:
    """Which times of last access are late enough. What has none never expires (Flink: ``TtlUtils.expired``)."""
    return pc.fill_null(pc.greater(access, pa.scalar(oldest, shapes.TIMESTAMP)), True)


def _shape_list(batch: pa.RecordBatch, state: StateDescription, options: ReadOptions) -> pa.RecordBatch:
    with_ttl = state.has_ttl and options.decode.ttl
    if options.flatten:
        batch = shapes.explode_list(batch, layouts.VALUE)
        return _expire(shapes.split_ttl(batch, shapes.LIST_VALUE), options) if with_ttl else batch
    return _expire_nested(batch, options) if with_ttl else batch


def _shape_map(batches: Iterator[pa.RecordBatch], state: StateDescription, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Maps as asked for. Entries with TTL always come with their times: what has none is null itself, and Flink drops it."""
    if state.has_ttl:
        batches = (_without_dropped(b) for b in batches)
    if not options.flatten:
        batches = _nest(batches)
        yield from (_expire_nested(b, options) if state.has_ttl else b for b in batches)
        return
    for batch in batches:
        if layouts.VALUE in batch.schema.names:  # the heap has whole maps
            batch = shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE)
        yield _expire(shapes.split_ttl(batch, layouts.MAP_VALUE), options) if state.has_ttl else batch


def _without_dropped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Entries of a map with TTL but for those without a value and its time, which the heap's own format can't have."""
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
    """Lists and maps of values with TTL: the times of last access in a list of their own, expired elements left out."""
    column = batch.column(layouts.VALUE)
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    is_map = pa.types.is_map(column.type)
    elements = (column.items if is_map else column.values).slice(first, last - first)
    keys = column.keys.slice(first, last - first) if is_map else None
    offsets = offsets - first
    access, values = pc.struct_field(elements, 0), pc.struct_field(elements, 1)
    if options.oldest_micros is not None:
        alive = _alive(access, options.oldest_micros)
        offsets = np.concatenate(([0], np.cumsum(alive.to_numpy(zero_copy_only=False))))[offsets]
        access, values = access.filter(alive), values.filter(alive)
        keys = keys.filter(alive) if keys is not None else None
    bounds = pa.array(offsets, pa.int32())
    nested = pa.ListArray.from_arrays(bounds, values) if keys is None else pa.MapArray.from_arrays(bounds, keys, values)
    batch = shapes.with_columns(batch, {layouts.VALUE: nested, shapes.LAST_ACCESS: pa.ListArray.from_arrays(bounds, access)})
    return batch.filter(pa.array(np.diff(offsets) > 0)) if options.oldest_micros is not None else batch


def serialized_keys(state: StateDescription, keys: Sequence[Any]) -> tuple[bytes, ...]:
    """Keys as the state's key serializer writes them.

    Raises
    ------
    OptionError
        If one is not of the state's key type.
    """
    return tuple(_of_key(state, k, lambda key, accepted: key.serialize(accepted)) for k in keys)


def key_groups_of(state: StateDescription, keys: Sequence[Any], max_parallelism: int) -> frozenset[int] | None:
    """The key groups that hold these keys; ``None`` where the keys' ``hashCode`` is user code, and all have to be read."""
    groups = _groups(state, keys, max_parallelism)
    return None if groups is None else frozenset(groups)


def with_keys_of(state: StateDescription, options: ReadOptions, key_groups: h.KeyGroupRange, max_parallelism: int) -> ReadOptions:
    """The options with those keys only that lie in these key groups, where that is known."""
    groups = _groups(state, options.keys, max_parallelism) if options.keys is not None else None
    if options.keys is None or groups is None:
        return options
    return replace(options, keys=tuple(k for k, g in zip(options.keys, groups, strict=True) if g in key_groups))


def _groups(state: StateDescription, keys: Sequence[Any], max_parallelism: int) -> list[int] | None:
    try:
        hashes = [_of_key(state, k, lambda key, accepted: key.hash_code(accepted)) for k in keys]
    except UnsupportedFormatError:
        return None
    groups: list[int] = key_group(np.array(hashes, dtype=np.int64), max_parallelism).tolist() if hashes else []
    return groups


def _of_key(state: StateDescription, key: Any, use: Callable[[TypeSerializer, Any], _T]) -> _T:
    assert state.key is not None
    where = f"keys: state {state.name!r} has keys of type {state.key}, found {key!r} of type {type(key).__name__}"
    accepted = _PLAIN_KEYS.get(str(state.key), object)
    if key is None or not isinstance(key, accepted) or (isinstance(key, (bool, np.bool_)) and accepted in (Integral, Real)):
        raise OptionError(where)
    try:
        return use(state.key, state.key.accept_key(key))
    except StateProcessorError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, struct.error) as e:
        raise OptionError(f"{where}: {e}") from e


class OperatorReader:
    """Reads all keyed states of an operator side by side: one row per key, one column per state.

    States in a namespace and timers have no place there; read them by name.
    """

    def __init__(
        self, snapshot: Snapshot, operator: OperatorState, variants: dict[str, list[StateDescription]], options: ReadOptions
    ) -> None:
        self._snapshot = snapshot
        self._operator = operator
        self._options = replace(options, flatten=False, metadata=False)
        self._metadata = options.metadata
        beside = {n: v for n, v in variants.items() if v[0].is_keyed and v[0].kind not in TIMERS and v[0].in_void_namespace}
        if not beside:
            raise NotFoundError(f"{operator_label(operator)} has no keyed state outside windows; name the state to read")
        self._columns = _column_names(beside)
        self._types = self._types_of_states(options)
        self._readers = {
            n: KeyedStateReader(snapshot, operator, v, replace(self._options, types=self._types[n])) for n, v in beside.items()
        }

    def _types_of_states(self, options: ReadOptions) -> dict[str, WantedTypes]:
        """The wanted types of each state: a column here is the value there."""
        types: dict[str, list[tuple[str, PortableType | JavaType | UndescribedAsBytes]]] = {n: [] for n in self._columns}
        known = {layouts.KEY: [*types], **{column: [n] for n, column in self._columns.items()}}
        for path, given in options.types:
            if isinstance(given, UndescribedAsBytes):
                for found in types.values():
                    found.append((path, given))
                continue
            column = next((c for c in known if path == c or path.startswith(f"{c}.")), None)
            if column is None:
                raise OptionError(f"a type is given for the column {path!r}, which is not there: {', '.join(sorted(known))}")
            for name in known[column]:
                own = path if column == layouts.KEY else layouts.VALUE + path[len(column) :]
                types[name].append((own, given))
        return {name: tuple(given) for name, given in types.items()}

    def __getstate__(self) -> dict[str, Any]:
        slim = {"_snapshot": snapshot_for_tasks(self._snapshot), "_operator": operator_for_tasks(self._operator)}
        return vars(self) | slim | {"schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """``key``, a column per state, and the metadata columns where they are asked for."""
        keys = (r.schema.field(layouts.KEY).type for r in self._readers.values())
        fields = [pa.field(layouts.KEY, reduce(shapes.wider, keys))]
        fields += [pa.field(self._columns[n], r.schema.field(layouts.VALUE).type) for n, r in self._readers.items()]
        if self._metadata:
            fields += shapes.METADATA
        return pa.schema(fields)

    def splits(self, split_bytes: int = _SPLIT_BYTES) -> list[KeyedSplit]:
        """What to read, in parts that tasks can take."""
        return next(iter(self._readers.values())).splits(split_bytes)

    def read(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split, a few key groups at a time: a key lies in one key group in every state."""
        source = split.handle.open(self._snapshot)
        for chunk in _chunks(split):
            yield from self._join(source, split.handle.subtask, chunk)

    def _join(self, source: KeyedStateSource, subtask: int, key_groups: h.KeyGroupRange) -> Iterator[pa.RecordBatch]:
        tables: dict[str, pa.Table] = {}
        for name in self._readers:
            state = source.describe(name)
            if state is None:
                continue
            options = replace(self._options, metadata=self._metadata, types=self._types[name])
            state = evolved(state, options.types)
            options = with_keys_of(state, options, key_groups, self._operator.max_parallelism)
            with naming_state(name, self._operator):
                batches = list(read_state(source, state, options, key_groups, key_bytes=True))
            if batches:
                tables[name] = pa.Table.from_batches(batches).combine_chunks()
        if not tables:
            return
        all_keys = pa.chunked_array([t.column(KEY_BYTES_COLUMN).combine_chunks() for t in tables.values()]).combine_chunks()
        unique = pc.unique(all_keys)
        first = pa.array(_first_positions(all_keys, unique))
        arrays = {layouts.KEY: _taken(tables, layouts.KEY, first, self.schema.field(layouts.KEY).type)}
        for name, column in self._columns.items():
            wanted = self.schema.field(column).type
            if name in tables:
                at = pc.index_in(unique, value_set=tables[name].column(KEY_BYTES_COLUMN).combine_chunks())
                arrays[column] = shapes.conform(tables[name].column(layouts.VALUE).combine_chunks().take(at), wanted)
            else:
                arrays[column] = pa.nulls(len(unique), wanted)
        if self._metadata:
            arrays[KEY_GROUP_COLUMN] = _taken(tables, KEY_GROUP_COLUMN, first, pa.int32())
            arrays[shapes.SUBTASK] = shapes.constant(subtask, len(unique))
            arrays[shapes.LAST_ACCESS] = pa.nulls(len(unique), shapes.TIMESTAMP)
        yield pa.RecordBatch.from_arrays([arrays[f.name] for f in self.schema], schema=self.schema)


def _column_names(states: Iterable[str]) -> dict[str, str]:
    """A column for each state: its name, unless that is taken."""
    names = list(states)
    taken = {layouts.KEY, KEY_GROUP_COLUMN, shapes.SUBTASK, shapes.LAST_ACCESS}
    columns: dict[str, str] = {}
    for name in names:
        column = name
        while column in taken or (column != name and column in names):
            column += "_state"
        columns[name] = column
    return columns


def _first_positions(values: pa.Array, unique: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = pc.index_in(values, value_set=unique).to_numpy()
    first = np.empty(len(unique), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _taken(tables: dict[str, pa.Table], column: str, rows: pa.Array, wanted: pa.DataType) -> pa.Array:
    chunks = [shapes.conform(t.column(column).combine_chunks(), wanted) for t in tables.values()]
    return pa.concat_arrays(chunks).take(rows)


def _chunks(split: KeyedSplit) -> Iterator[h.KeyGroupRange]:
    """Ranges of key groups small enough to hold all states of in memory; a single key group at least."""
    groups = split.key_groups
    per_group = split.handle.handle.state_size / max(1, len(split.handle.key_groups))
    step = max(1, int(_CHUNK_BYTES / max(per_group, 1.0)))
    for start in range(groups.start, groups.end_inclusive + 1, step):
        yield h.KeyGroupRange(start, min(start + step - 1, groups.end_inclusive))
