"""Splits of keyed state: ranges of key groups that tasks read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from state_processor.backends.metadata import handles as h
from state_processor.backends.read.key_lookup import Keys, WantedKeys
from state_processor.backends.read.keyed_handles import KeyedHandle

SPLIT_BYTES: Final = 96 << 20
_FEW_GROUPS: Final = 16


@dataclass(frozen=True, slots=True)
class KeyedSplit:
    """A range of key groups of one handle, and the keys to look up in it, if not all: what one task reads. It can be pickled."""

    handle: KeyedHandle
    key_groups: h.KeyGroupRange
    keys: Keys | None = None

    @property
    def size(self) -> int:
        """Bytes of the snapshot to read, if key groups are alike."""
        return self.handle.handle.state_size * len(self.key_groups) // max(1, len(self.handle.key_groups))


def plan_splits(
    handles: Sequence[KeyedHandle], wanted: WantedKeys | None = None, split_bytes: int = SPLIT_BYTES
) -> list[KeyedSplit]:
    """Cut handles into ranges of key groups of about ``split_bytes`` each.

    Parameters
    ----------
    handles
        The handles to read.
    wanted
        Only these keys; ``None`` for all. Few key groups are read one by one, many in the ranges of a full read.
    split_bytes
        Size of a split, in bytes of the snapshot.
    """
    splits = []
    for handle in handles:
        groups = None if wanted is None else wanted.key_groups
        if groups is not None:
            groups = [k for k in groups if k in handle.key_groups]
            if len(groups) <= _FEW_GROUPS:
                splits += [_split(handle, h.KeyGroupRange(k, k), wanted) for k in groups]
                continue
        parts = max(1, min(len(handle.key_groups), round(handle.handle.state_size / split_bytes)))
        bounds = np.linspace(handle.key_groups.start, handle.key_groups.end_inclusive + 1, parts + 1).astype(int).tolist()
        splits += [_split(handle, h.KeyGroupRange(a, b - 1), wanted) for a, b in pairwise(bounds)]
    return splits


def key_group_chunks(key_groups: h.KeyGroupRange, size: int, most_bytes: int) -> Iterator[h.KeyGroupRange]:
    """Cut key groups into ranges that fit in memory together, of one key group at least.

    Parameters
    ----------
    key_groups
        The key groups.
    size
        Bytes of all of them, if they are alike.
    most_bytes
        Bytes of a range.
    """
    step = max(1, most_bytes * len(key_groups) // max(1, size))
    for start in range(key_groups.start, key_groups.end_inclusive + 1, step):
        yield h.KeyGroupRange(start, min(start + step - 1, key_groups.end_inclusive))


def cut_at_bounds(key_groups: h.KeyGroupRange, ranges: Iterable[h.KeyGroupRange]) -> Iterator[h.KeyGroupRange]:
    """Cut key groups where one of some ranges begins or ends."""
    bounds = {bound for r in ranges for bound in (r.start, r.end_inclusive + 1)}
    end = key_groups.end_inclusive + 1
    inner = sorted(bound for bound in bounds if key_groups.start < bound < end)
    for first, behind in pairwise([key_groups.start, *inner, end]):
        yield h.KeyGroupRange(first, behind - 1)


def _split(handle: KeyedHandle, key_groups: h.KeyGroupRange, wanted: WantedKeys | None) -> KeyedSplit:
    return KeyedSplit(handle, key_groups, None if wanted is None else wanted.within(key_groups))
