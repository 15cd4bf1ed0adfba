"""Keyed state of RocksDB and ForSt: native savepoints and incremental checkpoints.

A state is a column family. Its entries are entries of a canonical file without framing. The key consists of key group, key,
namespace, and the map key for map state (Flink: ``CompositeKeySerializationUtils``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.entry_runs import Block, FramedRun
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.source import KeyedStateSource, KeyRange, ScanRequest
from state_processor.backends.formats.sst.beginnings import behind
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.serializers.errors import CorruptSnapshotError, MissingFileError
from state_processor.serializers.locks import cached_property

_FIRST_WITH_FORST: Final = 2
_FORST_LOGS: Final = re.compile(rb"db_log_dir=\S{0,4096}_attempt_\d+/db")
_FORST_FILE: Final = re.compile(r"_attempt_\d+/db/[^/]+$")
"""Working directory of ForSt (Flink: ``ForStStateBackend``, ``op_ID_attempt_N``). ForSt's options have the directory of logs in
it, and checkpoints refer to files in it."""
_MOST_SEEKS: Final = 1_000
"""Maximum number of seeks (keys times key groups). Above it, reading all entries is faster."""


class RocksDbSource(KeyedStateSource):
    """Keyed state in the files of an embedded store. The first read of entries opens the files.

    Parameters
    ----------
    snapshot, handle
        The files.
    header
        The states, from the handle's metadata.
    context
        Operator and subtask, for messages.
    max_parallelism
        Max parallelism of the operator. It determines the size of the key group prefix.
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
        streams = (file.stream for file in self._handle.files)
        return any(isinstance(stream, h.FileStateHandle) and _FORST_FILE.search(stream.path) for stream in streams)

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
