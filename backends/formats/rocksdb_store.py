"""The files of an embedded store (RocksDB, ForSt) in a snapshot: column families with tables that are read in place.

The manifest lists the tables. It is compared with the files of the handle: a manifest that is cut off can be read, but has fewer
tables.

A state is a column family. Its entries are entries of a canonical file without framing. The key consists of key group, key,
namespace, and the map key for map state (Flink: ``CompositeKeySerializationUtils``).
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.files.location import incomplete
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.source import Block, FramedRun, KeyedStateSource, KeyRange, ScanRequest, entry_count
from state_processor.backends.formats.sst.block_kernels import SIZE
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest
from state_processor.backends.formats.sst.runs import first_key, last_key
from state_processor.backends.formats.sst.table import COMPARATOR, Table, unsupported_order
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import StateStream, stream_identity
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.support.errors import CorruptSnapshotError, MissingFileError, UnsupportedFormatError
from state_processor.support.locks import cached_property, process_lock
from state_processor.support.mappings import index_by_name

_OPEN_STORES: Final = 4
_OPEN_TABLES: Final = 256
_KEPT_BYTES: Final = 64 << 20
"""Bytes that the open tables of a store keep, at most, unless one table has more."""
_FETCHES: Final = 8

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_LOG_NAME: Final = re.compile(r"\d+\.log")
_TABLE_NAME: Final = re.compile(r"\d+\.sst")


class Store:
    """A store. Tables are opened when their entries are asked for.

    ``snapshot``: the snapshot, with access to its files. ``handle``: the files. ``context``: operator and subtask, for messages.
    """

    def __init__(self, snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, context: str) -> None:
        self._snapshot = snapshot
        self._handle = handle
        self._context = context
        self._streams = _streams(handle, context)
        self.manifest = self._read_manifest()
        self._families = index_by_name(self.manifest.families.values())
        self._tables: OrderedDict[int, Table] = OrderedDict()
        self._lock = process_lock()

    @property
    def description(self) -> str:
        """Name of the store in messages."""
        return f"store {self._handle.backend_id} of checkpoint {self._handle.checkpoint_id}"

    def family(self, name: str) -> Family:
        """Return a column family."""
        if name not in self._families:
            raise CorruptSnapshotError(
                f"{self.label}: state {name!r} is registered, but its column family is missing in the store"
            )
        return self._families[name]

    def blocks(self, family: str, lower: bytes, upper: bytes, prefix: int) -> Iterator[Block]:
        """Yield the entries of a column family from ``lower`` to before ``upper``, a few megabytes at a time.

        ``family``: the column family: the name of the state. ``lower`` and ``upper``: bounds of the keys. ``prefix``: bytes of
        the key group before each key.
        """
        context = f"{self.label}, state {family!r}"
        files = self.family(family).files
        try:
            with self.fetching() as threads:
                for buffer, entries in FamilyScan(files, self.table, prefix, context, threads).blocks(lower, upper):
                    yield buffer, None, entries
                    del buffer, entries  # before more is decompressed
        except CorruptSnapshotError:  # the files may be copied again
            self._tables.clear()
            raise

    def key_ranges(self, family: str, lower: bytes, upper: bytes, most_bytes: int) -> list[KeyRange]:
        """Return adjacent ranges of the keys of a column family, with about ``most_bytes`` of entries each.

        Ranges begin where tables begin. Only the index of a table with more than ``most_bytes`` is read.

        ``lower`` and ``upper``: bounds of the keys. ``most_bytes``: bytes of a range in its files, compressed.
        """
        parts: list[tuple[bytes, int]] = []
        for file in self.family(family).files:
            parts += self._parts(file, lower, upper, most_bytes)
        ranges: list[KeyRange] = []
        begin, size = lower, 0
        for key, part_size in sorted(parts):
            if size and size + part_size > most_bytes and key > begin:
                ranges.append(KeyRange(begin, key, size))
                begin, size = key, 0
            size += part_size
        return [*ranges, KeyRange(begin, upper, size)] if parts else []

    def _parts(self, file: TableFile, lower: bytes, upper: bytes, most_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Yield the first key and the bytes of each part of a table between two keys."""
        if last_key(file) < lower or first_key(file) >= upper:
            return
        first = max(lower, first_key(file))
        if file.size <= most_bytes:
            yield first, file.size
            return
        blocks = self.table(file).blocks(lower, upper)
        ends = np.cumsum(blocks.rows[:, SIZE])
        total = int(ends[-1]) if len(ends) else 0
        begin = 0
        for end in np.unique(np.searchsorted(ends, np.arange(most_bytes // 2, total, most_bytes // 2))).tolist():
            yield first, int(ends[end]) - begin
            first, begin = blocks.separator(end) + b"\0", int(ends[end])
        yield first, total - begin

    @contextmanager
    def fetching(self) -> Iterator[ThreadPoolExecutor | None]:
        """Provide threads that read ahead from remote storage; ``None`` for local files."""
        threads = ThreadPoolExecutor(_FETCHES) if self._is_remote else None
        try:
            yield threads
        finally:
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)

    def tables(self, skipped: Collection[str] = ()) -> Iterator[Table]:
        """Yield the tables of all column families, without files of some names."""
        return (self.table(file) for file in self.manifest.files if file.name not in skipped)

    def stream(self, file: TableFile) -> StateStream:
        """Return the stream of a table."""
        return self._opened(file.name)

    def open_table(self, file: TableFile, stream: StateStream | None = None, *, needs_index: bool = False) -> Table:
        """Open a table; by default from the stream of its file."""
        stream = stream or self.stream(file)
        return Table(stream, file, f"{self.label}, {file.name} ({stream.describe()})", needs_index=needs_index)

    def identity(self, file: TableFile) -> Hashable:
        """Return the identity of the file of a table; see :func:`stream_identity`."""
        return stream_identity(self._streams[file.name], self._snapshot.directory)

    def place(self, file: TableFile) -> Hashable:
        """Return where the file of a table is now; see :meth:`Snapshot.place`."""
        return self._snapshot.place(self._streams[file.name], f"{self._context}, {file.name}")

    def table(self, file: TableFile) -> Table:
        """Return a table. The last tables stay open."""
        with self._lock:
            table = self._tables.pop(file.number, None)
        if table is None:
            table = self.open_table(file, needs_index=True)
        with self._lock:
            self._tables[file.number] = table
            # not a running total: a table reads its index after it is opened
            kept_bytes = sum(table.kept_bytes for table in self._tables.values())
            while len(self._tables) > 1 and (len(self._tables) > _OPEN_TABLES or kept_bytes > _KEPT_BYTES):
                kept_bytes -= self._tables.popitem(last=False)[1].kept_bytes
        return table

    @cached_property
    def _is_remote(self) -> bool:
        """True if reading tables sends requests to remote storage."""
        tables = (stream for name, stream in self._streams.items() if _TABLE_NAME.fullmatch(name))
        return any(self._snapshot.open(stream, self._context).is_remote for stream in islice(tables, 1))

    @property
    def is_current(self) -> bool:
        """False if a path has another file than the one that is open."""
        with self._lock:
            tables = [*self._tables.values()]
        return self._manifest_stream.is_current and all(table.stream.is_current for table in tables)

    def _opened(self, name: str) -> StateStream:
        handle = self._streams[name]
        stream = self._snapshot.open(handle, f"{self._context}, {name}")
        if not isinstance(handle, h.SegmentFileStateHandle) and (actual := stream.file_size) not in (None, stream.size):
            raise MissingFileError(incomplete(f"{self._context}, {name}: {stream.describe()}", actual or 0, stream.size))
        return stream

    def _read_manifest(self) -> Manifest:
        if "CURRENT" not in self._streams:
            raise CorruptSnapshotError(f"{self.label}: the file CURRENT is missing in the snapshot")
        name = bytes(self._opened("CURRENT").read()).decode("ascii", "replace").strip()
        if name not in self._streams:
            raise CorruptSnapshotError(f"{self.label}: CURRENT names {name!r}; this file is missing in the snapshot")
        stream = self._manifest_stream = self._opened(name)
        manifest = read_manifest(stream.read(), f"{self.label}, {stream.describe()}")
        sizes = {name: stream.state_size for name, stream in self._streams.items() if _TABLE_NAME.fullmatch(name)}
        listed = {file.name: file.size for file in manifest.files}
        if sizes != listed:
            name = min(name for name in sizes.keys() | listed.keys() if sizes.get(name) != listed.get(name))
            raise CorruptSnapshotError(
                f"{self.label}: {name} has {listed.get(name, 'no')} bytes in the manifest and "
                f"{sizes.get(name, 'no')} in the snapshot; the manifest is cut off or belongs to another store"
            )
        foreign = [family for family in manifest.families.values() if family.comparator != COMPARATOR]
        if foreign:
            problem = f"state {foreign[0].name!r}: its {unsupported_order(foreign[0].comparator)}"
            raise UnsupportedFormatError(f"{self.label}, {problem}; write a canonical savepoint")
        return manifest

    @property
    def label(self) -> str:
        """Operator, subtask and store, for messages."""
        return f"{self._context}, {self.description}"


def _streams(handle: h.IncrementalRemoteKeyedStateHandle, context: str) -> dict[str, h.StreamStateHandle]:
    """Return the files of a store by their names in the store."""
    for file in handle.files:
        if not _FILE_NAME.fullmatch(file.local_name) or file.local_name.startswith("."):
            raise CorruptSnapshotError(f"{context}: {file.local_name!r} is not the name of a RocksDB file")
        if _LOG_NAME.fullmatch(file.local_name) and file.stream.state_size:
            raise UnsupportedFormatError(
                f"{context}: {file.local_name} is a write-ahead log; Flink does not use write-ahead logs"
            )
        if file.local_name.endswith(".blob"):
            raise UnsupportedFormatError(f"{context}: {file.local_name} is a blob file; Flink does not use blob files")
    return handle.streams_by_name


_Given = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""Where the caller looks for files: an open store has the places that were permitted when it was opened."""
_StoreKey = tuple[str, str, str, _Given, h.IncrementalRemoteKeyedStateHandle]
_stores: OrderedDict[_StoreKey, Store] = OrderedDict()
_stores_lock = process_lock()


def open_store(snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, context: str) -> Store:
    """Open the store of a handle. The last stores stay open, because tasks of one process read neighbouring key groups.

    A store is opened again if a local file was copied again or replaced since, even under the same ``_metadata``.

    ``snapshot``: the snapshot, with access to its files. ``context``: operator and subtask, for messages.
    """
    key = (snapshot.directory, snapshot.digest, snapshot.storage.settings, snapshot.relocation.settings, handle)
    with _stores_lock:
        store = _stores.pop(key, None)
    if store is None or not store.is_current:
        store = Store(snapshot, handle, context)
    with _stores_lock:
        _stores[key] = store
        while len(_stores) > _OPEN_STORES:
            _stores.popitem(last=False)
        return store


def _reset_in_fork() -> None:
    _stores.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_fork)


_FIRST_WITH_FORST: Final = 2
_FORST_LOGS: Final = re.compile(rb"db_log_dir=\S{0,4096}_attempt_\d+/db")
_FORST_FILE: Final = re.compile(r"_attempt_\d+/db/[^/]+$")
"""Working directory of ForSt (Flink: ``ForStStateBackend``, ``op_ID_attempt_N``). ForSt's options have the directory of logs in
it, and checkpoints refer to files in it."""
_MOST_SEEKS: Final = 1_000
"""Maximum number of seeks (keys times key groups). Above it, reading all entries is faster."""


class RocksDbSource(KeyedStateSource):
    """Keyed state in the files of an embedded store. The first read of entries opens the files.

    ``header``: the states, from the handle's metadata. ``context``: operator and subtask, for messages. ``max_parallelism``: max
    parallelism of the operator. It determines the size of the key group prefix.
    """

    stays_open = True

    def __init__(
        self,
        snapshot: Snapshot,
        handle: h.IncrementalRemoteKeyedStateHandle,
        header: state_headers.KeyedHeader,
        context: str,
        max_parallelism: int,
    ) -> None:
        super().__init__(header, context)
        self._snapshot = snapshot
        self._handle = handle
        self.prefix = prefix_size(max_parallelism)

    @cached_property
    def backend(self) -> str:
        """Name of the backend. ForSt and RocksDB have the same files; only asynchronous states in headers identify ForSt."""
        asynchronous = any(s.backend_type == state_headers.KEY_VALUE_V2 for s in self.header.states)
        return "forst" if asynchronous or self._shares_forst_files() or self._has_forst_options() else "rocksdb"

    def _shares_forst_files(self) -> bool:
        """Check if a file is in ForSt's working directory; it may be remote."""
        files = (stream for stream in self._handle.streams if isinstance(stream, h.FileStateHandle))
        return any(_FORST_FILE.search(file.path) for file in files)

    def _has_forst_options(self) -> bool:
        """Check if the options contain a log directory below a directory with ForSt's naming."""
        if self._snapshot.flink_major < _FIRST_WITH_FORST:
            return False
        for file in self._handle.files:
            if file.local_name.startswith("OPTIONS-"):
                try:
                    return _FORST_LOGS.search(self._snapshot.open(file.stream, self.context).read()) is not None
                except MissingFileError:
                    return False  # reading the state reports the problem
        return False

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[FramedRun]:
        context = self._of_state(state)
        groups = self._handle.key_groups.intersect(key_groups)
        if keys is not None and not state.is_timer and len(keys) * len(groups) <= _MOST_SEEKS:
            yield FramedRun(state, context, self._sought(state.name, groups, keys))
        else:  # a timer starts with its time
            yield FramedRun(state, context, self.blocks(state.name, groups)).of_keys(keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as columns."""
        state = self.describe(request.name)
        if state is None or request.between is None:
            return super().scan(request)
        lower, upper, _ = request.between
        run = FramedRun(state, self._of_state(state), self.store.blocks(state.name, lower, upper, self.prefix))
        return run.decode(evolved(state, request.types), request.columns, request.options)

    def count(self, name: str, key_groups: h.KeyGroupRange, between: KeyRange | None = None) -> int:
        """Count the entries of a state, without reading values."""
        if between is None:
            return super().count(name, key_groups)
        return entry_count(self.store.blocks(name, between.lower, between.upper, self.prefix))

    def key_ranges(self, name: str, most_bytes: int) -> list[KeyRange]:
        """Return ranges of keys of a state, with about ``most_bytes`` of entries each; nothing for a state without entries."""
        bounds = self.key_bounds(self._handle.key_groups)
        return [] if bounds is None or self.describe(name) is None else self.store.key_ranges(name, *bounds, most_bytes)

    def blocks(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        """Yield framed entries of a state in the key groups of the handle.

        After rescaling, files also contain entries of other key groups.
        """
        if (bounds := self.key_bounds(key_groups)) is not None:
            yield from self.store.blocks(name, *bounds, self.prefix)

    def key_bounds(self, key_groups: h.KeyGroupRange) -> tuple[bytes, bytes] | None:
        """Return the bounds of the keys in some key groups; ``None`` if the handle does not have these key groups."""
        groups = self._handle.key_groups.intersect(key_groups)
        return (self._group(groups.start), self._group(groups.end_inclusive + 1)) if len(groups) else None

    def _sought(self, name: str, key_groups: h.KeyGroupRange, keys: SerializedKeys) -> Iterator[Block]:
        """Yield the entries that begin with a key."""
        for key_group in key_groups:
            for key in sorted(set(keys)):
                lower = self._group(key_group) + key
                yield from self.store.blocks(name, lower, behind(lower), self.prefix)

    @cached_property
    def store(self) -> Store:
        """The files."""
        return open_store(self._snapshot, self._handle, self.context)

    def _of_state(self, state: KeyedDescription) -> str:
        return f"{self.context}, state {state.name!r}, {self.store.description}"

    def _group(self, key_group: int) -> bytes:
        try:
            return key_group.to_bytes(self.prefix, "big")
        except OverflowError:
            raise CorruptSnapshotError(
                f"{self.context}: key group {key_group} does not fit into the prefix of {self.prefix} bytes for the "
                "operator's max parallelism"
            ) from None
