"""Opening keyed state: the source that reads a state handle. Register new backends here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.source import KeyedStateSource, read_keyed_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.state import state_headers
from state_processor.support.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.backends.formats.heap import HeapSource
    from state_processor.backends.formats.raw_timers import RawTimersSource


def open_source(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str, max_parallelism: int) -> KeyedStateSource:
    """Open managed keyed state, and read only its header.

    ``snapshot``: the snapshot, with access to its files. ``context``: operator and subtask, for messages. ``max_parallelism``:
    max parallelism of the operator.
    """
    opener = _OPENERS.get(type(handle))
    if opener is None:
        raise UnsupportedFormatError(f"{context}: {type(handle).__name__} is not a top-level handle in Flink's snapshots")
    return opener(snapshot, handle, context, max_parallelism)


def open_raw_timers(snapshot: Snapshot, handle: h.KeyedStateHandle | None, context: str) -> RawTimersSource | None:
    """Open the timers in raw keyed state; ``None`` if it contains bytes of the operator, or is empty."""
    if not isinstance(handle, h.KeyGroupsStateHandle):
        return None
    from state_processor.backends.formats.raw_timers import RawTimersSource  # few snapshots have raw keyed state

    return RawTimersSource.open(snapshot, handle, context)


def _open_key_groups(snapshot: Snapshot, handle: h.KeyGroupsStateHandle, context: str, max_parallelism: int) -> KeyedStateSource:
    stream, offsets = snapshot.open(handle.stream, context), handle.offsets.to_numpy()
    blocks = offsets[offsets > 0]
    data = stream.read(0, int(blocks.min()) if len(blocks) else stream.size)
    header = read_keyed_header(snapshot, data, f"{context}, {stream.describe()}")
    return open_key_groups(stream, handle, header, context, max_parallelism)


def _open_store(
    snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, context: str, max_parallelism: int
) -> KeyedStateSource:
    from state_processor.backends.formats.rocksdb_store import RocksDbSource  # a process that reads no store skips it

    stream = snapshot.open(handle.meta, context)
    header = read_keyed_header(snapshot, stream.read(), f"{context}, {stream.describe()}")
    return RocksDbSource(snapshot, handle, header, context, max_parallelism)


def _open_changelog(
    snapshot: Snapshot, handle: h.ChangelogStateBackendHandle, context: str, max_parallelism: int
) -> KeyedStateSource:
    from state_processor.backends.formats.changelog import ChangelogSource  # a process that reads no changelog skips it

    parts = [open_source(snapshot, part, context, max_parallelism) for part in handle.materialized]
    return ChangelogSource.open(snapshot, handle, parts, context, max_parallelism)


_OPENERS: Final[dict[type, Callable[[Snapshot, Any, str, int], KeyedStateSource]]] = {
    h.KeyGroupsStateHandle: _open_key_groups,
    h.IncrementalRemoteKeyedStateHandle: _open_store,
    h.ChangelogStateBackendHandle: _open_changelog,
}


def open_key_groups(
    stream: StateStream, handle: h.KeyGroupsStateHandle, header: state_headers.KeyedHeader, context: str, max_parallelism: int
) -> CanonicalSource | HeapSource:
    """Open a file with a block per key group: canonical or heap.

    The codes 3 and 12 are used for both. A heap file does not use offset 0, and each of its blocks begins with the key group.
    """
    canonical = CanonicalSource(stream, handle, header, context, max_parallelism)
    if handle.is_savepoint or not _is_heap(stream, handle, canonical):
        return canonical
    from state_processor.backends.formats.heap import HeapSource

    return HeapSource(stream, handle, header, context)


def _is_heap(stream: StateStream, handle: h.KeyGroupsStateHandle, canonical: CanonicalSource) -> bool:
    offsets = handle.offsets.to_numpy()
    if not len(offsets) or offsets.min() <= 0 or offsets[0] > stream.size - 6:
        return False
    first = handle.key_groups.start
    start = stream.read(int(offsets[0]), 6)
    if int.from_bytes(start[:4], "big") != first:
        return False
    # A small key group has the same bytes as state id 0 and the upper half of a large key's length.
    key_size = int.from_bytes(start[2:], "big")
    may_be_key = 0 < key_size < stream.size - offsets[0]
    if not may_be_key:
        return True
    if len(offsets) > 1 and not _begins_with(stream, int(offsets[1]), first + 1):
        return False
    return not canonical.is_well_formed(h.KeyGroupRange(first, first))


def _begins_with(stream: StateStream, offset: int, number: int) -> bool:
    return offset <= stream.size - 4 and int.from_bytes(stream.read(offset, 4), "big") == number
