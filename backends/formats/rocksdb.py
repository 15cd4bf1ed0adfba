"""Keyed state of RocksDB and ForSt: native savepoints and incremental checkpoints.

A state is a column family. Its entries are those of a canonical file without the framing: the key group, the key, the
namespace and for maps the map's key make up the key (Flink: ``CompositeKeySerializationUtils``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.keyed_files import Block, ScanRequest, decode_framed, prefix_size
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.row_layout import RowLayout
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import StateDescription, backend_name, describe_keyed

_MOST_SEEKS: Final = 10_000
"""Looked-up keys times key groups up to which each is sought; beyond, reading all entries is faster."""


class RocksDbSource:
    """Keyed state in the files of an embedded store. They are opened when entries are asked for.

    Parameters
    ----------
    snapshot, handle
        The files.
    header
        The states, from the handle's metadata.
    context
        Operator and subtask, for messages.
    max_parallelism
        The operator's; it decides how long the key group in front of each key is.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        handle: h.IncrementalRemoteKeyedStateHandle,
        header: mi.KeyedHeader,
        context: str,
        max_parallelism: int,
    ) -> None:
        self.header = header
        self._snapshot = snapshot
        self._handle = handle
        self._context = context
        self._prefix = prefix_size(max_parallelism)

    def describe(self, name: str) -> StateDescription | None:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state_id = self.header.state_id(name)
        if state_id < 0:
            return None
        return describe_keyed(self.header, self.header.states[state_id], backend_name(self._handle, self.header))

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        return layouts.framed_layout(state, columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(evolved(state, request.types), request.columns)
        context = f"{self._context}, state {request.name!r}, {self._store.description}"
        keys = None if state.is_timer else request.keys  # a timer starts with its time
        yield from decode_framed(layout, request.options, context, self.blocks(request.name, request.key_groups, keys))

    def blocks(self, name: str, key_groups: h.KeyGroupRange, keys: Sequence[bytes] | None = None) -> Iterator[Block]:
        """Framed entries of a state: those of the key groups that the handle is responsible for.

        After rescaling, files hold entries of other key groups too. ``keys`` limits the entries, as far as that is faster.
        """
        groups = self._handle.key_groups.intersect(key_groups)
        if not len(groups):
            return
        if keys is not None and len(keys) * len(groups) <= _MOST_SEEKS:
            for key_group in groups:
                for key in sorted(set(keys)):
                    lower = self._group(key_group) + key
                    yield from self._store.blocks(name, lower, _successor(lower), self._prefix)
            return
        lower, upper = self._group(groups.start), self._group(groups.end_inclusive + 1)
        yield from self._store.blocks(name, lower, upper, self._prefix)

    @cached_property
    def _store(self) -> Store:
        return open_store(self._snapshot, self._handle, self._context)

    def _group(self, key_group: int) -> bytes:
        return key_group.to_bytes(self._prefix, "big")


def _successor(key: bytes) -> bytes:
    """The least key behind all that start with this one; a key group is never 0xFF, so there is one."""
    stem = key.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])
