"""Splits of keyed state: ranges of key groups that tasks read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_handles import KeyedHandle

SPLIT_BYTES: Final = 96 << 20


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
    handles: Sequence[KeyedHandle], key_groups: frozenset[int] | None = None, split_bytes: int = SPLIT_BYTES
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
