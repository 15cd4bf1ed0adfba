"""Search in the stored bytes of a snapshot: for a pattern in all files, and for keys in tables of RocksDB and ForSt.

Compressed bytes are also searched after decompression. Files contain more than a read returns: replaced and deleted entries of
RocksDB, the deletions, and changes of a changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.location import Location
from state_processor.backends.files.snappy import decompress
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.sst.block_kernels import OFFSET, SIZE
from state_processor.backends.formats.sst.erased_table import ErasedKeys
from state_processor.backends.formats.sst.family_scan import plain_content
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.formats.sst.plain_blocks import block_entries
from state_processor.backends.formats.sst.runs import first_key, last_key
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE, OperatorState
from state_processor.backends.metadata.streams import streams_in_files, streams_of
from state_processor.backends.read.key_lookup import WantedKeys, keys_of
from state_processor.backends.read.stored_operator import leaf_keyed_handles, operator_label, subtask_label
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription, first_variants
from state_processor.backends.state.key_groups import prefix_size
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written
from state_processor.support.errors import OptionError, StateProcessorError

Bytes = npt.NDArray[np.uint8]

_SNAPPY: Final = bytes.fromhex("ff060000734e61507059")
"""The identifier at the beginning of each stream in snappy's framing format."""
_CHUNKS: Final = frozenset({0x00, 0x01, 0xFE, 0xFF})
_HEAD: Final = 4


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a snapshot."""

    # the operator of the bytes; ``None`` for ``_metadata``: this file contains inline state of all operators
    operator: OperatorState | None
    file: str  # description of the file, or of the part of the file
    parts: Callable[[], Iterable[Bytes]]  # returns the stored bytes, and the decompressed bytes, in parts


def contents(
    snapshot: Snapshot, operators: Sequence[OperatorState] | None = None, skipped: Collection[h.StreamStateHandle] = ()
) -> Iterator[Content]:
    """Yield the contents of ``_metadata`` and of all files of a snapshot.

    A file that several handles share is read once. Tables of RocksDB and ForSt are yielded twice: stored, and decompressed.

    ``operators``: limits the contents to the files and the inline state of these operators, without ``_metadata``. ``skipped``:
    files that are left out.
    """
    if operators is None:
        path = str(Location.parse(snapshot.directory).joined(METADATA_FILE))
        yield Content(None, path, lambda: _plain(_file_bytes(snapshot, path)))
    seen: set[object] = set(skipped)
    for operator in snapshot.metadata.operators if operators is None else operators:
        label = operator_label(operator)
        owners = [(label, operator.coordinator_state), *((subtask_label(operator, s), s) for s in operator.subtasks)]
        for context, owner in owners:
            for handle in streams_in_files(owner):
                if handle not in seen:
                    seen.add(handle)
                    stream = snapshot.open(handle, context)
                    yield Content(operator, stream.describe(), lambda stream=stream: _plain(_bytes(stream.read())))  # type: ignore[misc]
        if operators is not None:
            inline = streams_of([owner for _, owner in owners], h.ByteStreamStateHandle)
            parts = [np.frombuffer(bytes(stream.data), dtype=np.uint8) for stream in inline]
            yield Content(operator, f"inline state of {label}", lambda parts=parts: chain.from_iterable(map(_plain, parts)))  # type: ignore[misc]
        for subtask in operator.subtasks:
            for keyed in leaf_keyed_handles(subtask.managed_keyed):
                if isinstance(keyed, h.IncrementalRemoteKeyedStateHandle) and keyed not in seen:
                    seen.add(keyed)
                    yield from _tables(snapshot, operator, keyed, subtask_label(operator, subtask), skipped)


def _tables(
    snapshot: Snapshot,
    operator: OperatorState,
    handle: h.IncrementalRemoteKeyedStateHandle,
    context: str,
    skipped: Collection[h.StreamStateHandle],
) -> Iterator[Content]:
    names = {file.local_name for file in handle.files if file.stream in skipped}
    for table in open_store(snapshot, handle, context).tables(skipped=names):
        yield Content(operator, f"{table.stream.describe()}, decompressed", lambda table=table: plain_content(table))  # type: ignore[misc]


def _file_bytes(snapshot: Snapshot, path: str) -> Bytes:
    file = snapshot.storage.open(path)
    return _bytes(file.read(0, file.size))


def _bytes(data: memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _plain(data: Bytes) -> Iterator[Bytes]:
    """Yield the stored bytes, then the content of each snappy stream in these bytes."""
    yield data
    end = 0
    for begin in positions(data, _SNAPPY).tolist():
        if begin < end:
            continue  # in the chunks of the previous stream
        end = _end_of_chunks(data, begin)
        try:
            yield decompress(data[begin:end].data, "")
        except StateProcessorError:  # the beginning of a stream within other bytes
            end = begin + 1


def _end_of_chunks(data: Bytes, at: int) -> int:
    while at + _HEAD <= len(data) and int(data[at]) in _CHUNKS:
        size = int(data[at + 1]) | int(data[at + 2]) << 8 | int(data[at + 3]) << 16
        if at + _HEAD + size > len(data):
            break
        at += _HEAD + size
    return at


def all_parts(contents: Iterable[Content]) -> Iterator[Bytes]:
    """Yield the bytes of contents."""
    return chain.from_iterable(content.parts() for content in contents)


# Search for a pattern. A kernel compares few bytes of the pattern at all positions of a piece at once, and the whole pattern only
# in pieces where these bytes occur. It compares the bytes of the pattern that occur together least often in a sample of the
# buffer: single bytes of an address are frequent among addresses.

_PIECE: Final = 2048
_SAMPLE: Final = 4 << 10
_LONGEST: Final = 64
"""The length of the beginning of a pattern that the compared bytes are taken from."""
_PROBES: Final = 3
_ROOM: Final = 1024
_COUNT, _NEXT = 0, 1
Positions = npt.NDArray[np.int64]


@entry_point(read(uint8), read(uint8), read(int64), int64, written(int64), written(int64))
def _search(data, pattern, probes, begin, matches, result):  # type: ignore[no-untyped-def]
    """Find the positions of a pattern from ``begin`` on, until ``matches`` is full.

    Parameters
    ----------
    data, pattern
        The bytes.
    probes
        Three positions in the pattern, whose bytes are compared first.
    begin
        The first position of the search.
    matches
        Receives the positions.
    result
        The number of positions, and the position to continue from; -1 at the end.
    """
    size = len(pattern)
    last = len(data) - size
    first, second, third = probes[0], probes[1], probes[2]
    a, b, c = pattern[first], pattern[second], pattern[third]
    count = 0
    while begin <= last:
        end = min(begin + _PIECE, last + 1)
        x, y, z = data[begin + first : end + first], data[begin + second : end + second], data[begin + third : end + third]
        seen = np.uint8(0)
        for i in range(end - begin):  # with the CPU's vectors: of views, whose indexes are not negative
            seen |= np.uint8(x[i] == a) & np.uint8(y[i] == b) & np.uint8(z[i] == c)
        if seen:
            for at in range(begin, end):
                if data[at + first] == a and data[at + second] == b and data[at + third] == c:
                    same = True
                    for i in range(size):
                        if data[at + i] != pattern[i]:
                            same = False
                            break
                    if same:
                        if count == len(matches):
                            result[_COUNT], result[_NEXT] = count, at
                            return
                        matches[count] = at
                        count += 1
        begin = end
    result[_COUNT], result[_NEXT] = count, -1


def _probes(data: npt.NDArray[np.uint8], pattern: npt.NDArray[np.uint8]) -> Positions:
    """Return three positions in a pattern whose bytes occur together least often in the middle of a buffer."""
    head = pattern[:_LONGEST]
    size = min(len(data) - len(head) + 1, _SAMPLE)
    begin = (len(data) - len(head) + 1 - size) // 2
    same = np.stack([data[begin + i : begin + i + size] == byte for i, byte in enumerate(head)])
    candidates, chosen = np.ones(size, dtype=bool), []
    for _ in range(_PROBES):
        counts = np.count_nonzero(same & candidates, axis=1)
        chosen.append(int(counts.argmin()))
        candidates &= same[chosen[-1]]
    return np.array(chosen, dtype=np.int64)


def positions(data: npt.NDArray[np.uint8], pattern: bytes) -> Positions:
    """Return the ascending positions of a pattern of at least one byte in a buffer. Occurrences may overlap."""
    if len(data) < len(pattern):
        return np.empty(0, dtype=np.int64)
    sought = np.frombuffer(pattern, dtype=np.uint8)
    probes = _probes(data, sought)
    parts, begin = [], 0
    result, room = np.zeros(2, dtype=np.int64), _ROOM
    while begin >= 0:
        matches = np.empty(room, dtype=np.int64)
        _search(data, sought, probes, begin, matches, result)
        count, begin = result.tolist()
        parts.append(matches[:count])
        room *= 8
    return np.concatenate(parts)


# Tables of RocksDB and ForSt. A search for a key reads the blocks of a table that may have it, and finds replaced and deleted
# entries, too.


@dataclass(frozen=True)
class StoredTable:
    """A table of an operator."""

    store: Store
    family: str  # the column family: the name of the state
    file: TableFile  # the record of the table in the manifest
    stream: h.StreamStateHandle  # the handle of the file

    @property
    def record(self) -> tuple[str, TableFile]:
        """What the same table has in another savepoint as well."""
        return self.family, self.file

    def may_be_from(self, origin: StoredTable) -> bool:
        """Return whether this may be another table without some entries."""
        new, old = self.file, origin.file
        is_within = first_key(old) <= first_key(new) and last_key(new) <= last_key(old)
        return is_within and (self.family, new.level, new.sequences) == (origin.family, old.level, old.sequences)

    def has(self, keys: ErasedKeys) -> bool:
        """Return whether an entry, a range deletion or the index has one of the keys."""
        return keys.without(self.store.table(self.file)) is not None


def stored_tables(snapshot: Snapshot, operator: OperatorState) -> Iterator[StoredTable]:
    """Yield the tables of an operator."""
    seen = set()
    for subtask in operator.subtasks:
        for handle in leaf_keyed_handles(subtask.managed_keyed):
            if isinstance(handle, h.IncrementalRemoteKeyedStateHandle) and handle not in seen:
                seen.add(handle)
                store = open_store(snapshot, handle, subtask_label(operator, subtask))
                streams = handle.streams_by_name
                for family in store.manifest.families.values():
                    for file in family.files:
                        yield StoredTable(store, family.name, file, streams[file.name])


@dataclass(frozen=True)
class TableOrigin:
    """A table of a new savepoint that was made from a table of the source.

    ``table`` and ``old``: the table, and the table of the source. Both are equal if the bytes of the file are the same.
    """

    operator: OperatorState
    table: StoredTable
    old: StoredTable

    @property
    def is_kept(self) -> bool:
        """Whether the bytes are the same."""
        return self.table.record == self.old.record

    def new_parts(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the decompressed blocks that are not at the same place from the beginning or the end, the index and metadata.

        The keys of these blocks are yielded as a whole as well.
        """
        table, old = (table.store.table(table.file) for table in (self.table, self.old))
        blocks, before = table.blocks(), old.blocks()
        first = _equal(blocks.rows[:, [OFFSET, SIZE]], before.rows[:, [OFFSET, SIZE]])
        last = min(_equal(blocks.rows[::-1, [SIZE]], before.rows[::-1, [SIZE]]), len(blocks) - first)
        for offset, size in blocks.rows[first : len(blocks) - last, [OFFSET, SIZE]].tolist():
            content = table.plain_block((offset, size))
            keys = b"\0".join(key for key, _ in block_entries(content, table.context))
            yield from (np.frombuffer(part, dtype=np.uint8) for part in (content, keys))
        yield blocks.keys
        yield from table.plain_metadata()


def _equal(old_rows: npt.NDArray[np.int64], new_rows: npt.NDArray[np.int64]) -> int:
    """Return how many rows two tables begin with that are equal."""
    common = min(len(old_rows), len(new_rows))
    unequal = np.flatnonzero((old_rows[:common] != new_rows[:common]).any(axis=1))
    return int(unequal[0]) if len(unequal) else common


def table_origins(before: Snapshot, after: Snapshot) -> Iterator[TableOrigin]:
    """Yield the tables of a new savepoint that were made from tables of its source: copied, or without some entries.

    ``before`` and ``after``: the source, and the new savepoint that was written from it.
    """
    sources = before.metadata.operators_by_id
    for operator in after.metadata.operators:
        source = sources.get(operator.operator_id)
        olds = [] if source is None else list(stored_tables(before, source))
        by_record = {table.record: table for table in olds}
        for table in stored_tables(after, operator):
            old = by_record.get(table.record) or next((old for old in olds if table.may_be_from(old)), None)
            if old is not None:
                yield TableOrigin(operator, table, old)


def erased_keys(
    states: Mapping[str, Sequence[StateDescription]], operator: OperatorState, spellings: Sequence[Sequence[Any]]
) -> dict[str, ErasedKeys]:
    """Return the keys to look up in tables, by the state of the table. The result is empty if no key has the type of the keys.

    ``states``: the states of the operator by name. ``spellings``: the possible values of each key. They are tried in this order.
    """
    keyed = [state for state in first_variants(states).values() if isinstance(state, KeyedDescription)]
    if not keyed:
        return {}
    keys: list[bytes] = []
    for values in spellings:
        keys += _of_key(keyed[0], operator.max_parallelism, values)
    prefix = prefix_size(operator.max_parallelism)
    return {state.name: ErasedKeys(keys, prefix, are_timers=state.is_timer) for state in keyed} if keys else {}


def _of_key(state: KeyedDescription, max_parallelism: int, values: Sequence[Any]) -> list[bytes]:
    for value in values:
        try:
            keys = keys_of(state, (value,))
            groups = WantedKeys(state, keys, max_parallelism).key_groups
        except OptionError:  # the operator's keys have another type
            continue
        prefix = prefix_size(max_parallelism)
        (key,) = keys.serialized(state)
        return [group.to_bytes(prefix, "big") + key for group in (range(max_parallelism) if groups is None else groups)]
    return []
