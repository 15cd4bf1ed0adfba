"""Serialized keys of look-ups, and the kernels that find their entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_i64
from state_processor.serializers.kernel.signatures import int32, int64, read, uint8, written

UNKNOWN: Final = -1
"""Marks a variable number of bytes."""
_SLOTS_PER_KEY: Final = 4
_BITS_PER_KEY: Final = 16
_FILTER_SHIFT: Final = 40
"""The filter uses other bits of a hash than the table."""


@kernel
def _mixed(code):  # type: ignore[no-untyped-def]
    """Mix a number: each bit of the result depends on all bits. The high half of a product has this property."""
    code *= np.uint64(0x9E3779B97F4A7C15)
    code = (code ^ (code >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return code ^ (code >> np.uint64(32))


@kernel
def hash_code(data, begin, size):  # type: ignore[no-untyped-def]
    """Return a hash of bytes, computed from eight bytes at a time."""
    code = np.uint64(size)
    at = begin
    end = begin + size
    while at + 8 <= end:
        code = _mixed(code ^ np.uint64(load_i64(data, at)))
        at += 8
    if at < end:
        word = np.uint64(0)
        for i in range(at, end):
            word = (word << np.uint64(8)) | np.uint64(data[i])
        code = _mixed(code ^ word)
    return np.int64(code)


@entry_point(read(uint8), read(int64, 2), written(int32), written(uint8))
def _fill_slots(keys, spans, slots, bits):  # type: ignore[no-untyped-def]
    """Fill a hash table of keys: each slot has the number of a key plus one, or 0.

    ``bits`` is a filter that excludes most other keys; it is smaller than the table. Both sizes are powers of two.
    """
    for key in range(len(spans)):
        code = hash_code(keys, spans[key, 0], spans[key, 1] - spans[key, 0])
        bit = (code >> _FILTER_SHIFT) & (8 * len(bits) - 1)
        bits[bit >> 3] |= 1 << (bit & 7)
        slot = code & (len(slots) - 1)
        while slots[slot] != 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = key + 1


@kernel
def _may_be_key(data, begin, size, bits):  # type: ignore[no-untyped-def]
    """Return 0 if the filter excludes the bytes, otherwise 1."""
    bit = (hash_code(data, begin, size) >> _FILTER_SHIFT) & (8 * len(bits) - 1)
    return bits[bit >> 3] >> (bit & 7) & 1


@kernel
def _is_key(data, begin, size, keys, spans, slots):  # type: ignore[no-untyped-def]
    """Return whether the bytes are a wanted key."""
    slot = hash_code(data, begin, size) & (len(slots) - 1)
    while slots[slot] != 0:
        key = slots[slot] - 1
        at = spans[key, 0]
        if spans[key, 1] - at == size:
            same = True
            for i in range(size):
                if data[begin + i] != keys[at + i]:
                    same = False
                    break
            if same:
                return True
        slot = (slot + 1) & (len(slots) - 1)
    return False


@entry_point(
    *(read(uint8), written(int64, 2), int64, int64, int64),
    *(read(uint8), read(int64, 2), read(int32), read(uint8), read(int64)),
)
def _keep_entries(data, table, part, lead, tail, keys, spans, slots, bits, sizes):  # type: ignore[no-untyped-def]
    """Move the entries with a wanted key to the front of the table. Return their number.

    The first loop does not branch on the filter, because the processor could not predict this branch. The second loop checks the
    few remaining entries.

    Parameters
    ----------
    data, table
        The entries.
    part
        The part of an entry with the key, 0 or 1.
    lead, tail
        Number of bytes before and after the key in this part; a ``tail`` of -1 is any number.
    keys, spans
        The wanted keys, and their starts and ends.
    slots, bits
        Their hash table, and its filter.
    sizes
        The sizes of keys, ascending.
    """
    likely = 0
    for i in range(len(table)):
        begin = table[i, 2 * part] + lead
        room = table[i, 2 * part + 1] - begin
        may_be = 0
        for size in sizes:
            if size > room:
                break
            if tail < 0 or size == room - tail:
                may_be |= _may_be_key(data, begin, size, bits)
        for field in range(ENTRY_FIELDS):
            table[likely, field] = table[i, field]
        likely += may_be
    count = 0
    for i in range(likely):
        begin = table[i, 2 * part] + lead
        room = table[i, 2 * part + 1] - begin
        for size in sizes:
            if size > room:
                break
            if (tail < 0 or size == room - tail) and _is_key(data, begin, size, keys, spans, slots):
                for field in range(ENTRY_FIELDS):
                    table[count, field] = table[i, field]
                count += 1
                break
    return count


@entry_point(
    *(read(uint8), int64, int64, int64, int64, int64, written(int64, 2)),
    *(read(uint8), read(int64, 2), read(int32), read(uint8)),
)
def _keep_rows(data, position, row, before, size, key_group, table, keys, spans, slots, bits):  # type: ignore[no-untyped-def]
    """Fill in entries for rows of one size with a wanted key. Return their number.

    Parameters
    ----------
    data, position
        Start of the rows; their number is the number of rows of the table.
    row, before, size
        Sizes of a row, of the bytes before its key, and of the key.
    key_group
        Their key group.
    table
        Receives the entries: the row is the first part, the key the second.
    keys, spans, slots, bits
        See :func:`_keep_entries`.
    """
    likely = 0
    for _ in range(len(table)):
        table[likely, 0] = position
        likely += _may_be_key(data, position + before, size, bits)
        position += row
    count = 0
    for i in range(likely):
        begin = table[i, 0]
        key = begin + before
        if _is_key(data, key, size, keys, spans, slots):
            table[count, 0] = begin
            table[count, 1] = begin + row
            table[count, 2] = key
            table[count, 3] = key + size
            table[count, KEY_GROUP] = key_group
            count += 1
    return count


@dataclass(frozen=True, slots=True, eq=False)
class SerializedKeys:
    """Keys in serialized form."""

    data: npt.NDArray[np.uint8]  # their bytes
    spans: npt.NDArray[np.int64]  # a row for each key: start and end

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> SerializedKeys:
        """Return keys from bytes."""
        serialized = list(keys)
        ends = np.fromiter(accumulate(map(len, serialized), initial=0), np.int64, len(serialized) + 1)
        spans = np.empty((len(serialized), 2), dtype=np.int64)
        spans[:, 0], spans[:, 1] = ends[:-1], ends[1:]
        return cls(np.frombuffer(b"".join(serialized) or b"\0", dtype=np.uint8), spans)

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[bytes]:
        for begin, end in self.spans.tolist():
            yield self.data[begin:end].tobytes()


class FixedRow(NamedTuple):
    """A row of a fixed size, with a key of a fixed size at a fixed position."""

    size: int
    key_begin: int
    key_size: int


class KeyIndex:
    """An index of wanted keys.

    ``lead`` and ``tail``: number of bytes before and after the key in its part of an entry, if it is the same for all entries.
    """

    def __init__(self, keys: SerializedKeys, lead: int = 0, tail: int = UNKNOWN) -> None:
        self._data, self._spans = keys.data, np.ascontiguousarray(keys.spans)
        self._slots = np.zeros(_SLOTS_PER_KEY << len(keys).bit_length(), dtype=np.int32)
        self._bits = np.zeros(max(1, (_BITS_PER_KEY << len(keys).bit_length()) // 8), dtype=np.uint8)
        self._sizes = np.flatnonzero(np.bincount(self._spans[:, 1] - self._spans[:, 0]))
        self._lead, self._tail = lead, tail
        _fill_slots(self._data, self._spans, self._slots, self._bits)

    def keep(self, buffer: npt.NDArray[np.uint8], entries: npt.NDArray[np.int64], part: int = 0) -> npt.NDArray[np.int64]:
        """Move the entries with one of the keys in a part to the front, and return them."""
        size = _keep_entries(
            *(buffer, entries, part, self._lead, self._tail),
            *(self._data, self._spans, self._slots, self._bits, self._sizes),
        )
        return entries[:size]

    def keep_rows(
        self, buffer: npt.NDArray[np.uint8], position: int, count: int, row: FixedRow, key_group: int
    ) -> npt.NDArray[np.int64]:
        """Return the entries with one of the keys, from ``count`` adjacent rows of one size."""
        table = np.empty((count, ENTRY_FIELDS), dtype=np.int64)
        size = _keep_rows(
            *(buffer, position, row.size, row.key_begin, row.key_size, key_group, table),
            *(self._data, self._spans, self._slots, self._bits),
        )
        return table[:size]
