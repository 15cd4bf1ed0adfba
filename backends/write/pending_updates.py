"""Updates of values that Kryo writes: pending values become bytes when new entries meet the entries that they replace.

See :mod:`state_processor.serializers.kryo.pending_values`. The first pass writes pending values
(:func:`with_pending_parts`). In the second pass, :class:`PendingValueResolver` keeps the replaced entries of the source
savepoint, for one key group and state at a time, and rewrites the new entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from state_processor.backends.state.descriptions import LIST, MAP, StateDescription
from state_processor.backends.write.entry_encoder import VALUE, GroupState
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import JoinedListCodec, MapStateValue
from state_processor.serializers.io import DataOutput
from state_processor.serializers.kryo.pending_values import Columns, PendingEntries, StoredParts, with_pending_values
from state_processor.support.errors import InvalidRowError
from state_processor.support.mappings import map_values

Bytes = npt.NDArray[np.uint8]
_State = TypeVar("_State", bound=StateDescription)
Describe = Callable[[memoryview, int, int], str]
"""Describes key and namespace of an entry: from framed entries, its position, and the state's id."""


def with_pending_parts(state: _State) -> _State:
    """Return the state with pending values for all parts that Kryo writes."""
    return state if state.is_timer else state.with_serializers(value=with_pending_values(state.value))


class PendingValueResolver:
    """Replaces the pending values in new entries of updated states by bytes.

    ``states``: all states by their ids. ``updated``: the names of the states whose new entries have pending values. ``describe``:
    names an entry in messages. ``context``: the operator, for messages.
    """

    def __init__(self, states: Sequence[StateDescription], updated: frozenset[str], describe: Describe, context: str) -> None:
        self._states = states
        self._entries: dict[int, PendingEntries] = {}
        for state_id, state in enumerate(states):
            if state.name in updated and not state.is_timer and not (entries := _entries(state)).is_empty:
                self._entries[state_id] = entries
        self._describe = describe
        self._context = context
        self._place: GroupState | None = None
        self._replaced: dict[bytes, bytes] = {}

    def has(self, state_id: int) -> bool:
        """Return whether the new entries of a state have pending values."""
        return state_id in self._entries

    def keep(self, place: GroupState, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep replaced entries of the source savepoint; forget the entries of other key groups and states."""
        self._enter(place)
        self._replaced.update(entries)

    def resolved(self, place: GroupState, entries: Bytes) -> Bytes:
        """Return new entries with bytes instead of pending values."""
        self._enter(place)
        state_id = place[1]
        pending, target = self._entries[state_id], DataOutput()
        for position, key, value in _framed(entries.data):
            before = self._replaced.get(bytes(key))
            try:
                new = pending.resolved(value, StoredParts() if before is None else pending.parts(before))
            except InvalidRowError as problem:
                context = f"{self._context}, state {self._states[state_id].name!r}"
                entry = self._describe(entries.data, position, state_id)
                raise InvalidRowError(f"{context}, {entry}: {problem}") from None
            for part in (bytes(key), new):
                target.write_int(len(part))
                target.write_bytes(part)
        return np.frombuffer(target.to_bytes(), dtype=np.uint8)

    def _enter(self, place: GroupState) -> None:
        if self._place != place:
            self._place = place
            self._replaced = {}


@dataclass(frozen=True)
class StoredElements:
    """Elements of a list of operator state that the rows may have as they were read; it can be pickled."""

    type: TypeSerializer
    # the stored elements by their columns. Different elements may have the same columns.
    stored: Mapping[Columns, frozenset[bytes]]

    @classmethod
    def of(cls, type_: TypeSerializer, elements: Iterable[bytes]) -> StoredElements | None:
        """Return stored elements; ``None`` if Kryo writes no part of them."""
        entries = PendingEntries(type_, "value")
        if entries.is_empty:
            return None
        stored: dict[Columns, set[bytes]] = {}
        for element in elements:
            columns = entries.columns_of_stored(element)
            if columns is not None:
                stored.setdefault(columns, set()).add(element)
        return cls(type_, map_values(frozenset, stored))

    def resolved(self, elements: Iterable[bytes]) -> Iterator[bytes]:
        """Yield new elements with bytes instead of pending values: the stored element, where one has the same columns."""
        entries = PendingEntries(self.type, "value")
        for row, element in enumerate(elements):
            alike = self.stored.get(entries.columns_of_new(element) or (), frozenset())
            if len(alike) > 1:
                raise InvalidRowError(
                    f"row {row} matches {len(alike)} elements of the state whose bytes differ in what columns do not show, such "
                    "as classes of collections; name the type of the elements to write it anew"
                )
            yield next(iter(alike), b"") or entries.resolved(element, StoredParts(place="all elements of the state"))


def resolved_broadcast(
    type_: TypeSerializer, stored: Mapping[bytes, bytes], keys: Sequence[bytes], values: Sequence[bytes]
) -> bytes:
    """Return keys and values of broadcast state, with bytes instead of pending values.

    ``keys`` and ``values``: the new entries.
    """
    entries = PendingEntries(type_, VALUE)
    pieces: list[bytes] = []
    for key, value in zip(keys, values, strict=True):
        before = stored.get(key)
        pieces += (key, entries.resolved(value, StoredParts() if before is None else entries.parts(before)))
    return b"".join(pieces)


def _entries(state: StateDescription) -> PendingEntries:
    """Return the resolver of the values of entries in the layout of canonical savepoints."""
    if state.kind == LIST:
        return PendingEntries(JoinedListCodec(state.value), "value")
    if state.kind == MAP:
        return PendingEntries(MapStateValue(state.value), "map_value")
    return PendingEntries(state.value, "value")


def pairs(entries: Bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of framed entries."""
    return ((bytes(key), bytes(value)) for _, key, value in _framed(entries.data))


def _framed(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield each entry of a blob: its position, its key, and its value."""
    position = 0
    while position < len(data):
        key = position + 4
        end = key + int.from_bytes(data[position:key], "big")
        value = end + 4
        after = value + int.from_bytes(data[end:value], "big")
        yield position, data[key:end], data[value:after]
        position = after
