"""Handles of keyed state, and their splits: ranges of key groups that tasks read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.formats.opening import open_raw_timers, open_source
from state_processor.backends.formats.source import KeyedStateSource, KeyRange
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.stored_operator import operator_label, subtask_label
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.state.state_headers import KEY_VALUE_V2
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError

if TYPE_CHECKING:
    import pyarrow as pa

    from state_processor.backends.read.key_lookup import Keys, WantedKeys
    from state_processor.backends.state.descriptions import KeyedDescription


@dataclass(frozen=True, slots=True)
class KeyedHandle:
    """A keyed handle of an operator and where it comes from. It can be pickled.

    ``context`` names operator and subtask in messages. ``raw`` marks timers in raw keyed state.
    """

    handle: h.KeyedStateHandle
    subtask: int
    max_parallelism: int
    context: str
    raw: bool = False

    @property
    def key_groups(self) -> h.KeyGroupRange:
        """The key groups that the handle covers."""
        return self.handle.key_groups

    def size_of(self, key_groups: h.KeyGroupRange) -> int:
        """Estimate the bytes of some key groups."""
        return self.handle.state_size * len(self.key_groups.intersect(key_groups)) // max(1, len(self.key_groups))

    def open(self, snapshot: Snapshot) -> KeyedStateSource:
        """Open the source of this handle."""
        if not self.raw:
            return open_source(snapshot, self.handle, self.context, self.max_parallelism)
        timers = open_raw_timers(snapshot, self.handle, self.context)
        if timers is None:
            raise UnsupportedFormatError(f"{self.context}: raw keyed state holds bytes of the operator, not timers")
        return timers


def managed_handles(operator: OperatorState) -> Iterator[KeyedHandle]:
    """Yield the handles of an operator's managed keyed state; timers in raw keyed state are left out."""
    check_key_groups(operator)
    for subtask in operator.subtasks:
        if subtask.managed_keyed is not None:
            yield _handle(operator, subtask, subtask.managed_keyed)


def is_asynchronous(snapshot: Snapshot, operator: OperatorState) -> bool:
    """Return whether the first file of an operator registers its states for the asynchronous API. Only files of ForSt show it."""
    handle = next(managed_handles(operator), None)
    return handle is not None and any(meta.backend_type == KEY_VALUE_V2 for meta in handle.open(snapshot).header.states)


def keyed_handles(operator: OperatorState, snapshot: Snapshot) -> Iterator[KeyedHandle]:
    """Yield the handles of an operator's keyed state, by subtask. Of raw keyed state these are the handles that have timers."""
    check_key_groups(operator)
    for subtask in operator.subtasks:
        if subtask.managed_keyed is not None:
            yield _handle(operator, subtask, subtask.managed_keyed)
        if subtask.raw_keyed is not None and open_raw_timers(snapshot, subtask.raw_keyed, subtask_label(operator, subtask)):
            yield _handle(operator, subtask, subtask.raw_keyed, raw=True)


def check_key_groups(operator: OperatorState) -> None:
    """Refuse an operator whose subtasks have the same key group: its keys would be read twice."""
    for slot in ("managed_keyed", "raw_keyed"):
        ranges = []
        for subtask in operator.subtasks:
            handle = getattr(subtask, slot)
            if handle is not None and handle.key_groups:
                ranges.append((handle.key_groups.start, handle.key_groups.end_inclusive, subtask.index))
        for (_, end, index), (start, _, following) in pairwise(sorted(ranges)):
            if start <= end:
                raise CorruptSnapshotError(
                    f"{operator_label(operator)}: subtasks {index} and {following} both have key group {start}: _metadata is "
                    "damaged; restore another snapshot"
                )


def _handle(
    operator: OperatorState, subtask: OperatorSubtaskState, handle: h.KeyedStateHandle, *, raw: bool = False
) -> KeyedHandle:
    return KeyedHandle(handle, subtask.index, operator.max_parallelism, subtask_label(operator, subtask), raw)


SPLIT_BYTES: Final = 96 << 20
_FEW_GROUPS: Final = 16
_MANY_PARTS: Final = 16
"""A store of more parts is cut at keys, not at key groups: one key group may have most of its entries."""
_SKIPPED: Final = 1 << 20
"""Bytes of key groups without wanted keys that are read with their neighbors: a split of its own takes longer."""

KeyRanges = Callable[[KeyedHandle], Sequence[KeyRange]]


@dataclass(frozen=True, slots=True)
class KeyedSplit:
    """A range of key groups of one handle: what one task reads. It can be pickled."""

    handle: KeyedHandle
    key_groups: h.KeyGroupRange
    keys: Keys | None = None  # the keys to look up, if not all
    between: KeyRange | None = None  # the part of the key groups to read, if not all

    @property
    def size(self) -> int:
        """Bytes of the snapshot to read, if key groups are alike."""
        if self.between is not None:
            return self.between.size
        return self.handle.handle.state_size * len(self.key_groups) // max(1, len(self.handle.key_groups))

    @property
    def is_store(self) -> bool:
        """Whether the files are a store of RocksDB or ForSt. They are compressed: their rows take several times the bytes."""
        return isinstance(self.handle.handle, h.IncrementalRemoteKeyedStateHandle)


def plan_splits(
    handles: Sequence[KeyedHandle],
    keys: WantedKeys | None = None,
    split_bytes: int = SPLIT_BYTES,
    key_ranges: KeyRanges | None = None,
) -> list[KeyedSplit]:
    """Cut handles into ranges of key groups of about ``split_bytes`` each, and large stores into ranges of keys.

    ``handles``: the handles to read. ``keys``: only these keys; ``None`` for all. Few key groups are read one by one, many in the
    ranges of a full read. ``split_bytes``: size of a split, in bytes of the snapshot. ``key_ranges``: function that returns the
    ranges of keys of a store that it reads; ``None`` if key groups can't be cut.
    """
    splits = []
    large = [handle for handle in handles if key_ranges is not None and keys is None and _is_cut(handle, split_bytes)]
    ranges = dict(zip(map(id, large), at_once(key_ranges, large), strict=True)) if key_ranges is not None else {}
    for handle in handles:
        if id(handle) in ranges:
            splits += [KeyedSplit(handle, _groups_of(handle, key_range), None, key_range) for key_range in ranges[id(handle)]]
            continue
        groups = None if keys is None else keys.key_groups
        if groups is not None:
            groups = [k for k in groups if k in handle.key_groups]
            if len(groups) <= _FEW_GROUPS:
                splits += [_split(handle, h.KeyGroupRange(k, k), keys) for k in groups]
                continue
        parts = max(1, min(len(handle.key_groups), round(handle.handle.state_size / split_bytes)))
        bounds = np.linspace(handle.key_groups.start, handle.key_groups.end_inclusive + 1, parts + 1).astype(int).tolist()
        whole = [h.KeyGroupRange(a, b - 1) for a, b in pairwise(bounds)]
        needed = whole if groups is None else _around(handle, whole, groups)
        splits += [_split(handle, part, keys) for part in needed]
    return splits


def _is_cut(handle: KeyedHandle, split_bytes: int) -> bool:
    """Return whether key groups are not enough for splits of a size: a store has more parts than them, or many parts."""
    parts = round(handle.handle.state_size / split_bytes)
    is_store = isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    return is_store and (parts > len(handle.key_groups) or parts > _MANY_PARTS)


def _groups_of(handle: KeyedHandle, keys: KeyRange) -> h.KeyGroupRange:
    """Return the key groups that a range of keys is in."""
    size = prefix_size(handle.max_parallelism)
    last = int.from_bytes(keys.upper[:size], "big") - (len(keys.upper) == size)
    return h.KeyGroupRange(int.from_bytes(keys.lower[:size], "big"), last)


def _around(handle: KeyedHandle, ranges: Iterable[h.KeyGroupRange], groups: Sequence[int]) -> Iterator[h.KeyGroupRange]:
    """Yield the parts of ranges that have some key groups, in order. Small gaps between them are not left out."""
    most_gap = _SKIPPED * len(handle.key_groups) // max(1, handle.handle.state_size)
    for part in ranges:
        inside = [group for group in groups if group in part]
        starts = [i for i, group in enumerate(inside) if i == 0 or group - inside[i - 1] - 1 > most_gap]
        for first, behind in pairwise([*starts, len(inside)]):
            yield h.KeyGroupRange(inside[first], inside[behind - 1])


def key_group_chunks(key_groups: h.KeyGroupRange, size: int, most_bytes: int) -> Iterator[h.KeyGroupRange]:
    """Cut key groups into ranges that fit in memory together, of one key group at least.

    ``size``: bytes of all of them, if they are alike.
    """
    step = max(1, most_bytes * len(key_groups) // max(1, size))
    for start in range(key_groups.start, key_groups.end_inclusive + 1, step):
        yield h.KeyGroupRange(start, min(start + step - 1, key_groups.end_inclusive))


def cut_at_bounds(key_groups: h.KeyGroupRange, ranges: Iterable[h.KeyGroupRange]) -> Iterator[h.KeyGroupRange]:
    """Cut key groups where one of some ranges begins or ends."""
    bounds = chain.from_iterable((part.start, part.end_inclusive + 1) for part in ranges)
    end = key_groups.end_inclusive + 1
    inner = sorted({bound for bound in bounds if key_groups.start < bound < end})
    for first, behind in pairwise([key_groups.start, *inner, end]):
        yield h.KeyGroupRange(first, behind - 1)


def handles_with(handles: Iterable[KeyedHandle], key_groups: h.KeyGroupRange) -> tuple[KeyedHandle, ...]:
    """Return the handles that have some of the key groups."""
    return tuple(handle for handle in handles if len(handle.key_groups.intersect(key_groups)))


def _split(handle: KeyedHandle, key_groups: h.KeyGroupRange, keys: WantedKeys | None) -> KeyedSplit:
    return KeyedSplit(handle, key_groups, None if keys is None else keys.within(key_groups))


def keys_to_read(state: KeyedDescription, keys: Sequence[Any] | pa.Table) -> Keys:
    """Return the keys that a user selects; see :func:`~state_processor.backends.read.key_lookup.keys_of`."""
    from state_processor.backends.read.key_lookup import keys_of  # it encodes keys; most reads select none

    return keys_of(state, keys)


def wanted_keys(state: KeyedDescription, keys: Keys, max_parallelism: int) -> WantedKeys:
    """Return the selected keys by key group."""
    from state_processor.backends.read.key_lookup import WantedKeys

    return WantedKeys(state, keys, max_parallelism)
