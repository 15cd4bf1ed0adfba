"""Keyed state of the changelog backend: a materialized part of another backend, and the changes since (Flink: ``changelog``).

Key groups without changes are read as the backend below wrote them. In the others, all entries of the state are taken
apart into their serialized pieces, the changes are applied to these, and what remains is put together as a canonical file
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import changelog_log as log
from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats import framing
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.keyed_files import (
    Block,
    CanonicalSource,
    HeapSource,
    KeyedStateSource,
    ScanRequest,
    decode_framed,
    view,
)
from state_processor.backends.formats.rocksdb import RocksDbSource
from state_processor.backends.formats.row_layout import RowLayout, suffix_size
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import LIST, MAP, StateDescription, describe_keyed
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput

BACKEND: Final = "changelog"
_COMMA: Final = 0x2C
_NULL: Final = b"\x01"
_NOT_NULL: Final = b"\x00"

Scope = tuple[bytes, bytes]
"""Serialized key and namespace."""
Value = Any
"""Serialized: a value's bytes, a list's elements, or a map's values (flagged for null) by key."""


class ChangelogSource:
    """Keyed state of one handle of the changelog backend.

    Parameters
    ----------
    handle
        Which key groups there are.
    materialized
        The sources of the materialized parts.
    changes
        The changes since.
    header
        The states of both.
    context
        Operator and subtask, for messages.
    """

    def __init__(
        self,
        handle: h.ChangelogStateBackendHandle,
        materialized: Sequence[KeyedStateSource],
        changes: log.ChangeLog,
        header: mi.KeyedHeader,
        context: str,
    ) -> None:
        self.header = header
        self._handle = handle
        self._materialized = materialized
        self._log = changes
        self._context = context

    def describe(self, name: str) -> StateDescription | None:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id], BACKEND)

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        return layouts.framed_layout(state, columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(evolved(state, request.types), request.columns)
        groups = self._handle.key_groups.intersect(request.key_groups)
        changed = sorted(k for k in self._log.of(request.name) if k in groups)
        names = layout.schema(request.options).names
        for untouched in _between(groups, changed):
            for source in self._materialized:
                part = ScanRequest(request.name, request.columns, request.options, untouched, request.keys, request.types)
                yield from (_as_framed(b, state, names) for b in source.scan(part))
        context = f"{self._context}, state {request.name!r}, changelog"
        blocks = (self._replayed(state, key_group, request.keys) for key_group in changed)
        yield from decode_framed(layout, request.options, context, blocks)

    def untouched(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[tuple[KeyedStateSource, h.KeyGroupRange]]:
        """Materialized parts of a state, and the key groups in which nothing has changed since."""
        groups = self._handle.key_groups.intersect(key_groups)
        for between in _between(groups, sorted(k for k in self._log.of(name) if k in groups)):
            for source in self._materialized:
                yield source, between

    def changed(self, state: StateDescription, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        """A state's entries in the other key groups, after all changes, framed."""
        groups = self._handle.key_groups.intersect(key_groups)
        for key_group in sorted(k for k in self._log.of(state.name) if k in groups):
            yield self._replayed(state, key_group, None)

    def _replayed(self, state: StateDescription, key_group: int, keys: Sequence[bytes] | None) -> Block:
        """The entries of a key group after all changes, framed."""
        pieces = Pieces(state)
        entries: dict[Scope, Value] = {}
        for source in self._materialized:
            entries.update(_materialized_entries(source, state, pieces, key_group, self._context))
        for change in self._log.of(state.name)[key_group]:
            _apply(change, pieces, entries)
        wanted = None if keys is None or state.is_timer else set(keys)
        framed = [e for scope, v in entries.items() if wanted is None or scope[0] in wanted for e in pieces.framed(scope, v)]
        sizes = np.fromiter((len(part) for entry in framed for part in entry), np.int64, 2 * len(framed))
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        table = np.empty((len(framed), framing.ENTRY_FIELDS), dtype=np.int64)
        table[:, 0], table[:, 1], table[:, 2], table[:, 3] = bounds[:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]
        table[:, framing.KEY_GROUP] = key_group
        return view(b"".join(part for entry in framed for part in entry) or b"\0"), None, table


@dataclass(frozen=True, slots=True)
class Merged:
    """What a user's function made of several values: not in the log, so it can't be known."""

    where: str


class Pieces:
    """How a state's entries are taken apart into serialized pieces, and put together."""

    def __init__(self, state: StateDescription) -> None:
        assert state.key is not None
        assert state.value is not None
        self.state = state
        self._key = state.key
        self._namespace = state.namespace
        self._value = state.value
        self._suffixed = self._namespace is not None and self._key.length < 0 and self._namespace.length < 0

    def key(self, source: DataInput) -> bytes:
        """A serialized key."""
        return _piece(source, self._key)

    def namespace(self, source: DataInput) -> bytes:
        """A serialized namespace."""
        assert self._namespace is not None
        return _piece(source, self._namespace)

    def value(self, source: DataInput) -> bytes:
        """A serialized value, a list's element, a map's value, or a timer."""
        return _piece(source, self._value)

    def map_key(self, source: DataInput) -> bytes:
        """A serialized key of a map."""
        if self.state.map_key is None:
            raise UnsupportedFormatError(f"state {self.state.name!r}: the type of the map's keys is not stored")
        return _piece(source, self.state.map_key)

    def whole(self, source: DataInput) -> Value:
        """A value as the heap and the log have it: lists and maps with a count."""
        if self.state.kind == LIST:
            return [self.value(source) for _ in range(source.read_count("list elements", self._value.smallest))]
        if self.state.kind == MAP:
            count = source.read_count("map entries", 1)
            return dict(self._map_entry(source) for _ in range(count))
        return self.value(source)

    def _map_entry(self, source: DataInput) -> tuple[bytes, bytes]:
        key = self.map_key(source)
        return key, _NULL if source.read_boolean() else _NOT_NULL + self.value(source)

    def framed_scope(self, source: DataInput) -> Scope:
        """Key and namespace in front of what else is in a framed key."""
        return self._suffixed_piece(source, self.key), self._suffixed_piece(source, self.namespace)

    def _suffixed_piece(self, source: DataInput, read: Callable[[DataInput], bytes]) -> bytes:
        piece = read(source)
        if self._suffixed:
            source.skip(suffix_size(len(piece)), "length suffix")
        return piece

    def joined(self, source: DataInput) -> list[bytes]:
        """The elements of a framed list, which are joined with commas."""
        elements: list[bytes] = []
        while not source.at_end():
            if elements and source.read_unsigned_byte() != _COMMA:
                raise source.corrupt("a comma between elements is expected", source.position - 1)
            elements.append(self.value(source))
        return elements

    def framed(self, scope: Scope, value: Value) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of each entry as a canonical file has them, without the key group."""
        if isinstance(value, Merged):
            raise UnsupportedFormatError(
                f"{value.where}, state {self.state.name!r}: the changelog says that windows were merged, not with what result: "
                "that is known to the user's reduce or aggregate function alone. Take a savepoint"
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


def _piece(source: DataInput, serializer: TypeSerializer) -> bytes:
    start = source.position
    serializer.skip(source)
    return bytes(source.data[start : source.position])


def _suffix(length: int) -> bytes:
    return length.to_bytes(suffix_size(length), "little")


def _between(groups: h.KeyGroupRange, changed: Sequence[int]) -> Iterator[h.KeyGroupRange]:
    """The ranges of key groups that are not in ``changed``."""
    start = groups.start
    for key_group in (*changed, groups.end_inclusive + 1):
        if start < key_group:
            yield h.KeyGroupRange(start, key_group - 1)
        start = key_group + 1


def _as_framed(batch: pa.RecordBatch, state: StateDescription, names: Sequence[str]) -> pa.RecordBatch:
    """Rows of the heap, which has whole maps, as those of framed formats."""
    if state.kind == MAP and layouts.VALUE in batch.schema.names:
        batch = shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE)
    return batch.select(list(names))


def _materialized_entries(
    source: KeyedStateSource, state: StateDescription, pieces: Pieces, key_group: int, context: str
) -> dict[Scope, Value]:
    """The entries of a key group as serialized pieces."""
    if source.header.state_id(state.name) < 0:
        return {}
    entries: dict[Scope, Value] = {}
    only = h.KeyGroupRange(key_group, key_group)
    where = f"{context}, state {state.name!r}, materialized part"
    if isinstance(source, HeapSource):
        for section in source.sections(state.name, only):
            rows = DataInput(section.buffer.data, where, section.position)
            for _ in range(section.count):
                if state.is_timer:
                    entries[pieces.value(rows), b""] = None
                else:
                    namespace, key = pieces.namespace(rows), pieces.key(rows)
                    entries[key, namespace] = pieces.whole(rows)
        return entries
    assert isinstance(source, (CanonicalSource, RocksDbSource))
    for buffer, _, table in source.blocks(state.name, only):
        data = buffer.data
        for begin, middle, value_begin, end, _ in table.tolist():
            if state.is_timer:
                entries[bytes(data[begin:middle]), b""] = None
                continue
            in_key = DataInput(data, where, begin, middle)
            scope = pieces.framed_scope(in_key)
            if state.kind == MAP:
                entries.setdefault(scope, {})[bytes(data[in_key.position : middle])] = bytes(data[value_begin:end])
            elif state.kind == LIST:
                entries[scope] = pieces.joined(DataInput(data, where, value_begin, end))
            else:
                entries[scope] = bytes(data[value_begin:end])
    return entries


def _apply(change: log.Change, pieces: Pieces, entries: dict[Scope, Value]) -> None:
    source = DataInput(change.payload, change.where)
    apply = _APPLIERS.get((_shape(pieces.state), change.operation))
    if apply is None:
        known = change.operation < len(log.OPERATIONS)
        name = log.OPERATIONS[change.operation] if known else str(change.operation)
        state = pieces.state
        raise UnsupportedFormatError(f"{change.where}: change {name} of {state.kind} state {state.name!r} is not known")
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
    """Move the values of several namespaces to one: the target's first, then the others' in their order."""
    key, _ = scope
    target = (key, pieces.namespace(source))
    scopes = [(key, pieces.namespace(source)) for _ in range(source.read_count("namespaces", 1))]
    merged = [entries.pop(s) for s in scopes if s in entries and s != target]
    if not merged:
        return
    values = [entries[target], *merged] if target in entries else merged
    if pieces.state.kind == LIST:
        entries[target] = [element for value in values for element in value]
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


def _shape(state: StateDescription) -> str:
    if state.is_timer:
        return _TIMERS
    return state.kind if state.kind in (LIST, MAP) else _VALUES
