"""Tombstones: keys whose entries of the source savepoint are left out, because rows replace or delete them.

Rows mark keys by entries without content, which go to the subtask and key group of the key as all blobs do.
There the entries of the source savepoint meet them. No serialized key is a prefix of another, so that an entry belongs to a
marked key if its bytes begin with the key's; no serializer is needed to compare. A marker that goes on with the key of a map's
entry covers that entry alone. The content of a marker is a boolean: whether it is the whole key of the one entry that it covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.entry_framing import entry_spans, fingerprint, insert, with_room
from state_processor.backends.state.descriptions import MAP, KeyedDescription, StateDescription, ValueDescription
from state_processor.backends.state.descriptions import VALUE as VALUE_KIND
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, VALUE, KeyedStateEncoder
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.io import DataOutput
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.signatures import boolean, int64, read, uint8, uint64, written
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer

_TIMESTAMP_SIZE: Final = 8
_MARK: Final = NumberSerializer("BOOLEAN")
_FIRST_SLOTS: Final = 1 << 10

Bytes = npt.NDArray[np.uint8]


class _AnyNamespace(VoidNamespaceSerializer):
    """A namespace without bytes: such a marker covers the key in every namespace."""

    length = 0
    smallest = 0

    def write(self, value: Any, target: DataOutput) -> None:
        pass


class TombstoneEncoder:
    """Writes the keys of rows as markers: with the namespace where there is a column of it, else for all namespaces.

    Of rows with ``map_key`` it is the entries of a map that are marked, which always have a namespace.

    Parameters are those of :class:`~state_processor.backends.write.entry_encoder.KeyedStateEncoder`.
    """

    def __init__(self, state: KeyedDescription, state_id: int, schema: pa.Schema, **options: Any) -> None:
        space = next((n for n in NAMESPACES if n in schema.names and not state.in_void_namespace), None)
        self._columns = [KEY] if space is None else [KEY, space]
        self._is_whole = MAP_KEY in schema.names or (state.kind != MAP and (space is not None or state.in_void_namespace))
        marker: KeyedDescription
        if MAP_KEY in schema.names:
            self._columns.append(MAP_KEY)
            self._value = MAP_VALUE
            marker = state.with_serializers(value=_MARK)
        else:
            self._value = VALUE
            namespace = state.namespace if self._is_whole or space is not None else _AnyNamespace()
            marker = ValueDescription(state.name, VALUE_KIND, _MARK, state.key, namespace)
        fields = [schema.field(c) for c in self._columns]
        self._encoder = KeyedStateEncoder(marker, state_id, pa.schema([*fields, pa.field(self._value, pa.bool_())]), **options)

    def encode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Encode the blobs of the rows' keys.

        Raises
        ------
        InvalidRowError
            If a key is null or not of the state's type.
        """
        columns = [batch.column(c) for c in self._columns]
        whole = pa.array(np.full(batch.num_rows, self._is_whole))
        yield from self._encoder.encode(pa.RecordBatch.from_arrays([*columns, whole], names=[*self._columns, self._value]))


class Tombstones:
    """The marked keys of one key group and state at a time.

    Parameters
    ----------
    states
        The states by their ids.
    max_parallelism
        Of the operator.
    """

    def __init__(self, states: Sequence[StateDescription], max_parallelism: int) -> None:
        self._prefix = prefix_size(max_parallelism)
        self._skips = [self._prefix + (_TIMESTAMP_SIZE if s.is_timer else 0) for s in states]
        self._place: tuple[int, int] | None = None
        self._seen = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64)
        self._lengths: set[int] = set()
        self._used = 0

    def add(self, key_group: int, state_id: int, markers: Bytes) -> None:
        """Mark keys; those of another key group or state are forgotten."""
        if self._place != (key_group, state_id):
            self._place = (key_group, state_id)
            self._lengths.clear()
            if self._used:
                self._seen, self._used = np.zeros((_FIRST_SLOTS, 2), dtype=np.uint64), 0
        keys = np.ascontiguousarray(entry_spans(markers)[:, :2])
        keys[:, 0] += self._prefix
        self._seen = with_room(self._seen, self._used + len(keys))
        self._used += int(_mark(markers, keys, self._seen))
        self._lengths.update(np.unique(keys[:, 1] - keys[:, 0]).tolist())

    def without(self, key_group: int, state_id: int, entries: Bytes) -> Bytes:
        """Return framed entries except those of marked keys."""
        return self._sifted(key_group, state_id, entries, marked=False)

    def only(self, key_group: int, state_id: int, entries: Bytes) -> Bytes:
        """Return framed entries of marked keys."""
        return self._sifted(key_group, state_id, entries, marked=True)

    def _sifted(self, key_group: int, state_id: int, entries: Bytes, *, marked: bool) -> Bytes:
        if self._place != (key_group, state_id):
            return entries[:0] if marked else entries
        kept = np.empty(len(entries), dtype=np.uint8)
        lengths = np.array(sorted(self._lengths), dtype=np.int64)
        return kept[: _sift(entries, self._skips[state_id], lengths, self._seen, marked, kept)]


@entry_point(read(uint8), read(int64, 2), written(uint64, 2))
def _mark(data, keys, seen):  # type: ignore[no-untyped-def]
    """Put keys into the set; returns how many are new."""
    added = 0
    for i in range(len(keys)):
        one, two = fingerprint(data, keys[i, 0], keys[i, 1])
        if insert(seen, one, two):
            added += 1
    return added


@kernel
def _contains(seen, one, two):  # type: ignore[no-untyped-def]
    mask = len(seen) - 1
    slot = np.int64(two & np.uint64(mask))
    while seen[slot, 0] != 0:
        if seen[slot, 0] == one and seen[slot, 1] == two:
            return True
        slot = (slot + 1) & mask
    return False


@entry_point(read(uint8), int64, read(int64), read(uint64, 2), boolean, written(uint8))
def _sift(data, skip, lengths, seen, marked, kept):  # type: ignore[no-untyped-def]
    """Copy the entries whose key does, or does not, begin with a marked key, ``skip`` bytes from its start; return their size."""
    size = 0
    pos = 0
    while pos < len(data):
        key = pos + 4
        end = key + load_be_i32(data, pos)
        after = end + 4 + load_be_i32(data, end)
        found = False
        for i in range(len(lengths)):
            if key + skip + lengths[i] > end:
                break
            one, two = fingerprint(data, key + skip, key + skip + lengths[i])
            if _contains(seen, one, two):
                found = True
                break
        if found == marked:
            for i in range(pos, after):
                kept[size] = data[i]
                size += 1
        pos = after
    return size
