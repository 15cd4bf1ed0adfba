"""Kernels that match entries of two snapshots by their bytes.

Entries have the fields of :mod:`~state_processor.backends.formats.framing`: the bounds of the identity of an entry, and of its
value. Two entries are equal if identity and value have equal bytes. An entry is changed if only its value differs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.key_index import hash_code
from state_processor.backends.formats.row_spans import same_bytes
from state_processor.backends.formats.source import Buffer, Entries
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.memory import load_i64, store_i64
from state_processor.serializers.kernel.signatures import int32, int64, read, uint8, written

# Fields of a walk
OLD: Final = 0
NEW: Final = 1
LEFT: Final = 2
"""Field with the number of unmatched entries in the current block of the old side; the next field is for the new side."""
_CREDIT: Final = 4
_GROUP: Final = 5
_WALK_FIELDS: Final = 6

_AHEAD: Final = 24
"""Number of entries that a walk looks ahead for a common entry."""
_CREDIT_OF_GROUP: Final = 16 * _AHEAD
_MOST_CREDIT: Final = 1 << 16


@kernel
def _same_key(old, olds, i, new, news, j):  # type: ignore[no-untyped-def]
    """Return whether two entries have the same key, namespace and map key."""
    same_group = olds[i, KEY_GROUP] == news[j, KEY_GROUP]
    return same_group and same_bytes(old, olds[i, 0], olds[i, 1], new, news[j, 0], news[j, 1])


@entry_point(
    *(read(uint8), read(int64, 2), read(uint8), read(int64, 2)),
    *(written(int64), written(int64), written(int64)),
)
def walk_along(old, olds, new, news, walk, old_left, new_left):  # type: ignore[no-untyped-def]
    """Walk along the entries of both sides to the end of one side, and collect the entries without an equal at the same position.

    If the sides differ, the walk looks a few entries ahead for a common entry. The number of matches bounds the effort: if the
    order differs, all entries stay unmatched.

    Parameters
    ----------
    old, olds, new, news
        The entries.
    walk
        The position on both sides; updated.
    old_left, new_left
        Output: numbers of the unmatched entries.
    """
    i = walk[OLD]
    j = walk[NEW]
    credit = walk[_CREDIT]
    group = walk[_GROUP]
    olds_left = walk[LEFT]
    news_left = walk[LEFT + 1]
    while i < len(olds) and j < len(news):
        if _same_key(old, olds, i, new, news, j):
            if not same_bytes(old, olds[i, 2], olds[i, 3], new, news[j, 2], news[j, 3]):
                old_left[olds_left] = i
                new_left[news_left] = j
                olds_left += 1
                news_left += 1
            i += 1
            j += 1
            credit += 1
            continue
        if olds[i, KEY_GROUP] != news[j, KEY_GROUP]:
            if olds[i, KEY_GROUP] < news[j, KEY_GROUP]:
                old_left[olds_left] = i
                olds_left += 1
                i += 1
            else:
                new_left[news_left] = j
                news_left += 1
                j += 1
            continue
        if group != olds[i, KEY_GROUP]:
            group = olds[i, KEY_GROUP]
            credit = min(max(credit, _CREDIT_OF_GROUP), _MOST_CREDIT)
        olds_missing = 0
        news_missing = 0
        ahead = 1
        while ahead <= min(_AHEAD, credit):
            if i + ahead < len(olds) and _same_key(old, olds, i + ahead, new, news, j):
                olds_missing = ahead
                break
            if j + ahead < len(news) and _same_key(old, olds, i, new, news, j + ahead):
                news_missing = ahead
                break
            ahead += 1
        credit -= min(ahead, credit)
        if olds_missing == 0 and news_missing == 0:
            olds_missing = 1
            news_missing = 1
        for _ in range(olds_missing):
            old_left[olds_left] = i
            olds_left += 1
            i += 1
        for _ in range(news_missing):
            new_left[news_left] = j
            news_left += 1
            j += 1
    walk[OLD] = i
    walk[NEW] = j
    walk[LEFT] = olds_left
    walk[LEFT + 1] = news_left
    walk[_CREDIT] = credit
    walk[_GROUP] = group


@entry_point(
    *(read(uint8), read(int64, 2), read(uint8), read(int64, 2)),
    *(written(int32), written(uint8), written(uint8)),
)
def look_up_equals(old, olds, new, news, slots, old_left, new_left):  # type: ignore[no-untyped-def]
    """Mark the entries without an equal on the other side, at any position in the key group.

    Parameters
    ----------
    old, olds, new, news
        The entries, in the order of their key groups.
    slots
        Room for twice the entries of the largest key group of the old side: a power of two.
    old_left, new_left
        Ones; they become zeros for entries with an equal.
    """
    i = 0
    j = 0
    while i < len(olds) and j < len(news):
        group = olds[i, KEY_GROUP]
        if news[j, KEY_GROUP] < group:
            j += 1
            continue
        if news[j, KEY_GROUP] > group:
            i += 1
            continue
        end = i
        while end < len(olds) and olds[end, KEY_GROUP] == group:
            end += 1
        mask = 1
        while mask < 2 * (end - i):
            mask *= 2
        slots[:mask] = 0
        mask -= 1
        for k in range(i, end):
            slot = hash_code(old, olds[k, 0], olds[k, 1] - olds[k, 0]) & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = k - i + 1
        while j < len(news) and news[j, KEY_GROUP] == group:
            slot = hash_code(new, news[j, 0], news[j, 1] - news[j, 0]) & mask
            while slots[slot] != 0:
                k = i + slots[slot] - 1
                if same_bytes(old, olds[k, 0], olds[k, 1], new, news[j, 0], news[j, 1]):
                    if old_left[k] and same_bytes(old, olds[k, 2], olds[k, 3], new, news[j, 2], news[j, 3]):
                        old_left[k] = 0
                        new_left[j] = 0
                    break
                slot = (slot + 1) & mask
            j += 1
        i = end


@entry_point(read(uint8), read(int64, 2), written(int64, 2), written(uint8))
def _copy_entries(data, entries, copies, out):  # type: ignore[no-untyped-def]
    """Copy entries into ``out``: the key of each entry, then its value."""
    at = 0
    for entry in range(len(entries)):
        for part in (0, 2):
            begin = entries[entry, part]
            size = entries[entry, part + 1] - begin
            copies[entry, part] = at
            i = 0
            while i + 8 <= size:
                store_i64(out, at + i, load_i64(data, begin + i))
                i += 8
            while i < size:
                out[at + i] = data[begin + i]
                i += 1
            at += size
            copies[entry, part + 1] = at
        copies[entry, KEY_GROUP] = entries[entry, KEY_GROUP]


def copied(data: Buffer, entries: Entries) -> tuple[Buffer, Entries]:
    """Return a copy of entries: the key of each entry, then its value."""
    size = int(entries[:, 1].sum() - entries[:, 0].sum() + entries[:, 3].sum() - entries[:, 2].sum())
    out, copies = np.empty(size, dtype=np.uint8), np.empty_like(entries)
    _copy_entries(data, entries, copies, out)
    return out, copies


def new_walk() -> npt.NDArray[np.int64]:
    """Return a new walk."""
    walk = np.zeros(_WALK_FIELDS, dtype=np.int64)
    walk[_GROUP] = -1
    return walk
