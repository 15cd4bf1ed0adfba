"""Keyed state of the changelog backend: a materialized part of another backend, and later changes (Flink: ``changelog``).

Key groups without changes are read directly from the materialized part. In other key groups, the entries of the state are split
into serialized pieces, the changes are applied to the pieces, and the result is framed like in a canonical file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import changelog_log as log
from state_processor.backends.formats import framing
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import suffix_size
from state_processor.backends.formats.source import (
    Block,
    EntryRun,
    FramedRun,
    KeyedStateSource,
    ScanRequest,
    Section,
    UnframedRun,
    view,
)
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import streams_in_files
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription, MapDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.io import DataInput
from state_processor.support.errors import UnsupportedFormatError


class ChangelogSource(KeyedStateSource):
    """Keyed state of one handle of the changelog backend.

    ``handle``: the handle; it defines the key groups. ``materialized``: the sources of the materialized parts. ``changes``: the
    changes after the materialization. ``header``: the states of both parts. ``context``: operator and subtask, for messages.
    """

    def __init__(
        self,
        handle: h.ChangelogStateBackendHandle,
        materialized: Sequence[KeyedStateSource],
        changes: log.ChangeLog,
        header: state_headers.KeyedHeader,
        context: str,
        snapshot: Snapshot,
    ) -> None:
        super().__init__(header, context)
        self.handle = handle
        self.materialized = materialized
        self.log = changes
        self._snapshot = snapshot

    @classmethod
    def open(
        cls,
        snapshot: Snapshot,
        handle: h.ChangelogStateBackendHandle,
        materialized: Sequence[KeyedStateSource],
        context: str,
        max_parallelism: int,
    ) -> ChangelogSource:
        """Open a handle from its open materialized parts, and read the log."""
        changes = log.read_log(snapshot, handle, context)
        header = log.changelog_header(changes, [part.header for part in materialized], context, max_parallelism)
        return cls(handle, materialized, changes, header, context, snapshot)

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "changelog"

    def above(self, materialized: Sequence[KeyedStateSource]) -> ChangelogSource:
        """Return the same changes above other sources of the materialized parts."""
        return ChangelogSource(self.handle, materialized, self.log, self.header, self.context, self._snapshot)

    def has_materialized_files_of(self, other: ChangelogSource) -> bool:
        """Return whether the materialized parts of both sources are the same files, at the same places."""
        if self.handle.materialized != other.handle.materialized:
            return False
        return self._materialized_places() == other._materialized_places()

    def _materialized_places(self) -> list[Hashable]:
        return [self._snapshot.place(stream, self.context) for stream in streams_in_files(self.handle.materialized)]

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        groups = self.handle.key_groups.intersect(key_groups)
        changed = sorted(k for k in self.log.of(state.name) if k in groups)
        for unchanged in _between(groups, changed):
            for source in self.materialized:
                yield from source.runs(state.name, unchanged, keys)
        context = f"{self.context}, state {state.name!r}, changelog"
        keys_of_values = None if state.is_timer else keys
        yield FramedRun(state, context, (self._replayed(state, key_group, keys_of_values) for key_group in changed)).of_keys(keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as the columns of framed entries; rows of the heap have whole maps."""
        state = self.describe(request.name)
        if state is not None:
            layout = layouts.framed_layout(evolved(state, request.types), request.columns)
            names = layout.schema(request.options).names
            for batch in super().scan(request):
                for part in _as_framed(batch, state):
                    yield part.select(list(names))

    def _replayed(self, state: KeyedDescription, key_group: int, keys: SerializedKeys | None) -> Block:
        """Return the framed entries of a key group after all changes; only for ``keys`` if given."""
        pieces = Pieces(state)
        serialized_keys = None if keys is None else frozenset(keys)
        entries: dict[Scope, Value] = {}
        for source in self.materialized:
            for run in source.runs(state.name, h.KeyGroupRange(key_group, key_group), keys):
                entries.update(pieces.of_run(run))
        for change in self.log.of(state.name)[key_group]:
            if serialized_keys is None or pieces.key_of(change) in serialized_keys:
                apply_change(change, pieces, entries)
        parts: list[bytes] = []
        for scope, value in entries.items():
            if serialized_keys is None or scope[0] in serialized_keys:
                parts += chain.from_iterable(pieces.framed(scope, value))
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        table = np.empty((len(parts) // 2, framing.ENTRY_FIELDS), dtype=np.int64)
        table[:, 0], table[:, 1], table[:, 2], table[:, 3] = bounds[:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]
        table[:, framing.KEY_GROUP] = key_group
        return view(b"".join(parts) or b"\0"), None, table


def _between(groups: h.KeyGroupRange, changed: Sequence[int]) -> Iterator[h.KeyGroupRange]:
    """Yield the ranges of key groups that are not in ``changed``."""
    start = groups.start
    for key_group in (*changed, groups.end_inclusive + 1):
        if start < key_group:
            yield h.KeyGroupRange(start, key_group - 1)
        start = key_group + 1


def _as_framed(batch: pa.RecordBatch, state: KeyedDescription) -> Iterable[pa.RecordBatch]:
    """Convert rows of the heap with whole maps to rows of framed formats."""
    if state.kind == MAP and layouts.VALUE in batch.schema.names:
        return shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE)
    return (batch,)


# Replay: entries are split into serialized pieces, and changes are applied to the pieces.

_COMMA: Final = 0x2C
_NULL: Final = b"\x01"
_NOT_NULL: Final = b"\x00"

Scope = tuple[bytes, bytes]
"""Serialized key and namespace."""
Value = Any
"""Serialized value: the bytes of a value, the elements of a list, or the values of a map (flagged for null) by key."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The unknown result of a user function that merged values; the log does not contain it."""

    context: str


class Pieces:
    """Reads the serialized pieces of a state's entries, and builds entries from pieces."""

    def __init__(self, state: KeyedDescription) -> None:
        self.state = state
        self._key = state.key
        self._namespace = state.namespace
        self._value = state.value
        self._suffixed = self._key.length < 0 and self._namespace.length < 0

    def key(self, source: DataInput) -> bytes:
        """Read a serialized key."""
        return _piece(source, self._key)

    def key_of(self, change: log.Change) -> bytes:
        """Return the serialized key of a change. Changes of timers do not start with a key."""
        return self.key(DataInput(change.payload, change.context))

    def namespace(self, source: DataInput) -> bytes:
        """Read a serialized namespace."""
        return _piece(source, self._namespace)

    def value(self, source: DataInput) -> bytes:
        """Read a serialized value, a list's element, a map's value, or a timer."""
        return _piece(source, self._value)

    def map_key(self, source: DataInput) -> bytes:
        """Read a serialized key of a map."""
        assert isinstance(self.state, MapDescription)
        return _piece(source, self.state.stored_map_key)

    def whole(self, source: DataInput) -> Value:
        """Read a value in the form of heap files and the log: lists and maps with a count."""
        if self.state.kind == LIST:
            return source.read_list("list elements", self.value, self._value.min_size)
        if self.state.kind == MAP:
            return dict(source.read_list("map entries", self._map_entry))
        return self.value(source)

    def _map_entry(self, source: DataInput) -> tuple[bytes, bytes]:
        key = self.map_key(source)
        return key, _NULL if source.read_boolean() else _NOT_NULL + self.value(source)

    def framed_scope(self, source: DataInput) -> Scope:
        """Return the key and namespace at the start of a framed key."""
        return self._suffixed_piece(source, self.key), self._suffixed_piece(source, self.namespace)

    def _suffixed_piece(self, source: DataInput, read: Callable[[DataInput], bytes]) -> bytes:
        piece = read(source)
        if self._suffixed:
            source.skip(suffix_size(len(piece)), "length suffix")
        return piece

    def joined(self, source: DataInput) -> list[bytes]:
        """Read the elements of a framed list; commas separate them."""
        elements: list[bytes] = []
        while not source.at_end():
            if elements and source.read_unsigned_byte() != _COMMA:
                raise source.corrupt("expected a comma between elements", source.position - 1)
            elements.append(self.value(source))
        return elements

    def framed(self, scope: Scope, value: Value) -> Iterator[tuple[bytes, bytes]]:
        """Return the key and value of each entry in the form of a canonical file, without the key group."""
        if isinstance(value, Merged):
            raise UnsupportedFormatError(
                f"{value.context}, state {self.state.name!r}: the changelog records a merge of windows without its result. "
                "The user's reduce or aggregate function computes the result. Take a savepoint"
            )
        key, namespace = scope
        if self.state.is_timer:
            yield key, b""
            return
        composite = b"".join(p + _suffix(len(p)) if self._suffixed else p for p in (key, namespace))
        if self.state.kind == LIST:
            yield composite, b",".join(value)
        elif self.state.kind == MAP:
            for map_key, flagged in value.items():
                yield composite + map_key, flagged
        else:
            yield composite, value

    def of_run(self, run: EntryRun) -> dict[Scope, Value]:
        """Split the entries of a run into pieces."""
        entries: dict[Scope, Value] = {}
        match run:
            case FramedRun():
                for block in run.blocks:
                    self._take_framed(block, run.context, entries)
            case UnframedRun():
                for section in run.sections:
                    self._take_unframed(section, run.context, entries)
        return entries

    def _take_framed(self, block: Block, context: str, entries: dict[Scope, Value]) -> None:
        buffer, _, table = block
        data = buffer.data
        for begin, middle, value_begin, end, _ in table.tolist():
            if self.state.is_timer:
                entries[bytes(data[begin:middle]), b""] = None
                continue
            in_key = DataInput(data, context, begin, middle)
            scope = self.framed_scope(in_key)
            if self.state.kind == MAP:
                entries.setdefault(scope, {})[bytes(data[in_key.position : middle])] = bytes(data[value_begin:end])
            elif self.state.kind == LIST:
                entries[scope] = self.joined(DataInput(data, context, value_begin, end))
            else:
                entries[scope] = bytes(data[value_begin:end])

    def _take_unframed(self, section: Section, context: str, entries: dict[Scope, Value]) -> None:
        rows = DataInput(section.buffer.data, context, section.position)
        for _ in range(section.count):
            if self.state.is_timer:
                entries[self.value(rows), b""] = None
            else:
                namespace, key = self.namespace(rows), self.key(rows)
                entries[key, namespace] = self.whole(rows)


def _piece(source: DataInput, serializer: TypeSerializer) -> bytes:
    start = source.position
    serializer.skip(source)
    return bytes(source.data[start : source.position])


def _suffix(length: int) -> bytes:
    return length.to_bytes(suffix_size(length), "little")


def apply_change(change: log.Change, pieces: Pieces, entries: dict[Scope, Value]) -> None:
    """Apply a change to the entries of its key group."""
    source = DataInput(change.payload, change.context)
    apply = _APPLIERS.get((_shape(pieces.state), change.operation))
    if apply is None:
        is_operation = change.operation < len(log.OPERATIONS)
        name = log.OPERATIONS[change.operation] if is_operation else str(change.operation)
        state = pieces.state
        raise UnsupportedFormatError(f"{change.context}: unknown change {name} of {state.kind} state {state.name!r}")
    scope = (b"", b"") if pieces.state.is_timer else (pieces.key(source), pieces.namespace(source))
    apply(source, pieces, entries, scope)
    if not source.at_end():
        raise source.corrupt(f"a change of state {pieces.state.name!r} has {source.remaining} bytes too many")


Applier = Callable[[DataInput, Pieces, dict[Scope, Value], Scope], None]


def _set(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    entries[scope] = pieces.whole(source)
    if pieces.state.kind in (LIST, MAP) and not entries[scope]:
        del entries[scope]


def _clear(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    entries.pop(scope, None)


def _add_list(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    added = pieces.whole(source)
    if added:
        entries.setdefault(scope, []).extend(added)


def _add_element(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    entries.setdefault(scope, []).append(pieces.value(source))


def _put_all(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    added = pieces.whole(source)
    if added:
        entries.setdefault(scope, {}).update(added)


def _put(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    key = pieces.map_key(source)
    entries.setdefault(scope, {})[key] = _NOT_NULL + pieces.value(source)


def _remove(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    key = pieces.map_key(source)
    rest = entries.get(scope, {})
    rest.pop(key, None)
    if not rest:
        entries.pop(scope, None)


def _add_timers(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    for _ in range(source.read_count("timers", 8)):
        entries[pieces.value(source), b""] = None


def _remove_timer(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    entries.pop((pieces.value(source), b""), None)


def _merge(source: DataInput, pieces: Pieces, entries: dict[Scope, Value], scope: Scope) -> None:
    """Move the values of several namespaces to one: values of the target first, then values of the others in order."""
    key, _ = scope
    target = (key, pieces.namespace(source))
    scopes = [(key, pieces.namespace(source)) for _ in range(source.read_count("namespaces", 1))]
    merged = [entries.pop(s) for s in scopes if s in entries and s != target]
    if not merged:
        return
    values = [entries[target], *merged] if target in entries else merged
    if pieces.state.kind == LIST:
        entries[target] = list(chain.from_iterable(values))
    else:
        entries[target] = values[0] if len(values) == 1 else Merged(source.source)


_TIMERS: Final = "timers"
_VALUES: Final = "values"
_APPLIERS: Final[dict[tuple[str, int], Applier]] = {
    (_VALUES, log.SET): _set,
    (_VALUES, log.SET_INTERNAL): _set,
    (_VALUES, log.CLEAR): _clear,
    (_VALUES, log.MERGE_NAMESPACES): _merge,
    (LIST, log.SET): _set,
    (LIST, log.SET_INTERNAL): _set,
    (LIST, log.ADD): _add_list,
    (LIST, log.ADD_ELEMENT): _add_element,
    (LIST, log.CLEAR): _clear,
    (LIST, log.MERGE_NAMESPACES): _merge,
    (MAP, log.SET): _set,
    (MAP, log.SET_INTERNAL): _set,
    (MAP, log.ADD): _put_all,
    (MAP, log.ADD_ELEMENT): _put,
    (MAP, log.ADD_OR_UPDATE_ELEMENT): _put,
    (MAP, log.REMOVE_ELEMENT): _remove,
    (MAP, log.CLEAR): _clear,
    (_TIMERS, log.ADD_ELEMENT): _add_timers,
    (_TIMERS, log.REMOVE_ELEMENT): _remove_timer,
}


def _shape(state: KeyedDescription) -> str:
    if state.is_timer:
        return _TIMERS
    return state.kind if state.kind in (LIST, MAP) else _VALUES
