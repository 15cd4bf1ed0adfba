"""The largest keys of an operator, within a limit of bytes to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.applications.report.distribution import Distribution, Numbers
from state_processor.backends.analysis.entry_sizes import KeyedSizes, largest
from state_processor.backends.files.ordered_threads import in_order, parts_for, threads_for
from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.display.progress import progress

_MOST_BYTES: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class LargestKeys:
    """The largest keys of an operator by the sizes of all keyed states and timers."""

    rows: list[dict[str, Any]]  # ``key``, ``entries``, ``size_in_bytes``, largest first
    compared: int  # number of key groups whose keys were compared: the largest key groups
    share: float  # share of the bytes in these key groups
    elsewhere: int  # bytes of the largest key group whose keys were not compared: an upper bound for its keys

    @classmethod
    def find(
        cls, snapshot: Snapshot, operator: OperatorState, groups: Distribution, top: int, most_bytes: int = _MOST_BYTES
    ) -> LargestKeys:
        """Find the largest keys.

        ``groups``: bytes of its key groups. ``top``: number of keys. ``most_bytes``: maximum number of bytes to read, but at
        least one key group. If the snapshot is larger, only keys of the largest key groups are compared.
        """
        sizes = KeyedSizes(StoredOperator(snapshot, operator))
        stored = sum(split.size for split in sizes.splits())
        chosen = _largest_groups(groups, stored, most_bytes)
        everything = len(chosen) == len(groups.sizes) - groups.empty
        plan = partial(sizes.splits_of_keys, among=None if everything else list(_ranges(chosen)))
        splits, watched = parts_for(plan, snapshot.threads), partial(progress, doing="comparing keys")
        threads = threads_for(splits, snapshot.threads)
        tables = in_order(lambda split: (sizes.largest_keys(split, top),), splits, threads, watched)
        measured = [table for table in tables if table is not None]
        rows = largest(pa.concat_tables(measured, promote_options="permissive"), top).to_pylist() if measured else []
        unread = np.delete(groups.sizes, chosen)
        compared = len(groups.sizes) if everything else len(chosen)
        return cls(rows, compared, float(groups.sizes[chosen].sum() / groups.total), int(unread.max(initial=0)))


def _largest_groups(groups: Distribution, stored: int, most_bytes: int) -> Numbers:
    """Return the numbers of the largest key groups up to ``most_bytes`` stored bytes, in ascending order."""
    order = np.argsort(-groups.sizes, kind="stable")[: len(groups.sizes) - groups.empty]
    read = np.cumsum(groups.sizes[order]) * (stored / groups.total)
    return np.sort(order[: max(1, int(np.searchsorted(read, most_bytes, side="right")))])


def _ranges(numbers: Numbers) -> Iterator[KeyGroupRange]:
    """Yield the ranges of consecutive numbers."""
    for _, run in groupby(enumerate(numbers.tolist()), key=lambda place: place[1] - place[0]):
        numbers_of_run = [number for _, number in run]
        yield KeyGroupRange(numbers_of_run[0], numbers_of_run[-1])
