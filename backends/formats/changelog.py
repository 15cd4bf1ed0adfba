"""Keyed state of the changelog backend: a materialized part of another backend, and later changes (Flink: ``changelog``).

Key groups without changes are read directly from the materialized part. In other key groups, the entries of the state are split
into serialized pieces, the changes are applied to the pieces, and the result is framed like in a canonical file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import changelog_log as log
from state_processor.backends.formats import framing
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.changelog_replay import Pieces, Scope, Value, apply_change
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.source import Block, EntryRun, FramedRun, KeyedStateSource, ScanRequest, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import streams_in_files
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import MAP, KeyedDescription


class ChangelogSource(KeyedStateSource):
    """Keyed state of one handle of the changelog backend.

    ``handle``: the handle; it defines the key groups. ``materialized``: the sources of the materialized parts. ``changes``: the
    changes after the materialization. ``header``: the states of both parts. ``context``: operator and subtask, for messages.
    """

    def __init__(
        self,
        handle: h.ChangelogStateBackendHandle,
        materialized: Sequence[KeyedStateSource],
        changes: log.ChangeLog,
        header: state_headers.KeyedHeader,
        context: str,
        snapshot: Snapshot,
    ) -> None:
        super().__init__(header, context)
        self.handle = handle
        self.materialized = materialized
        self.log = changes
        self._snapshot = snapshot

    @classmethod
    def open(
        cls,
        snapshot: Snapshot,
        handle: h.ChangelogStateBackendHandle,
        materialized: Sequence[KeyedStateSource],
        context: str,
        max_parallelism: int,
    ) -> ChangelogSource:
        """Open a handle from its open materialized parts, and read the log."""
        changes = log.read_log(snapshot, handle, context)
        header = log.changelog_header(changes, [part.header for part in materialized], context, max_parallelism)
        return cls(handle, materialized, changes, header, context, snapshot)

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "changelog"

    def above(self, materialized: Sequence[KeyedStateSource]) -> ChangelogSource:
        """Return the same changes above other sources of the materialized parts."""
        return ChangelogSource(self.handle, materialized, self.log, self.header, self.context, self._snapshot)

    def has_materialized_files_of(self, other: ChangelogSource) -> bool:
        """Return whether the materialized parts of both sources are the same files, at the same places."""
        if self.handle.materialized != other.handle.materialized:
            return False
        return self._materialized_places() == other._materialized_places()

    def _materialized_places(self) -> list[Hashable]:
        return [self._snapshot.place(stream, self.context) for stream in streams_in_files(self.handle.materialized)]

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        groups = self.handle.key_groups.intersect(key_groups)
        changed = sorted(k for k in self.log.of(state.name) if k in groups)
        for unchanged in _between(groups, changed):
            for source in self.materialized:
                yield from source.runs(state.name, unchanged, keys)
        context = f"{self.context}, state {state.name!r}, changelog"
        keys_of_values = None if state.is_timer else keys
        yield FramedRun(state, context, (self._replayed(state, key_group, keys_of_values) for key_group in changed)).of_keys(keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as the columns of framed entries; rows of the heap have whole maps."""
        state = self.describe(request.name)
        if state is not None:
            layout = layouts.framed_layout(evolved(state, request.types), request.columns)
            names = layout.schema(request.options).names
            for batch in super().scan(request):
                for part in _as_framed(batch, state):
                    yield part.select(list(names))

    def _replayed(self, state: KeyedDescription, key_group: int, keys: SerializedKeys | None) -> Block:
        """Return the framed entries of a key group after all changes; only for ``keys`` if given."""
        pieces = Pieces(state)
        serialized_keys = None if keys is None else frozenset(keys)
        entries: dict[Scope, Value] = {}
        for source in self.materialized:
            for run in source.runs(state.name, h.KeyGroupRange(key_group, key_group), keys):
                entries.update(pieces.of_run(run))
        for change in self.log.of(state.name)[key_group]:
            if serialized_keys is None or pieces.key_of(change) in serialized_keys:
                apply_change(change, pieces, entries)
        framed = [
            e
            for scope, v in entries.items()
            if serialized_keys is None or scope[0] in serialized_keys
            for e in pieces.framed(scope, v)
        ]
        sizes = np.fromiter((len(part) for entry in framed for part in entry), np.int64, 2 * len(framed))
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        table = np.empty((len(framed), framing.ENTRY_FIELDS), dtype=np.int64)
        table[:, 0], table[:, 1], table[:, 2], table[:, 3] = bounds[:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]
        table[:, framing.KEY_GROUP] = key_group
        return view(b"".join(part for entry in framed for part in entry) or b"\0"), None, table


def _between(groups: h.KeyGroupRange, changed: Sequence[int]) -> Iterator[h.KeyGroupRange]:
    """Yield the ranges of key groups that are not in ``changed``."""
    start = groups.start
    for key_group in (*changed, groups.end_inclusive + 1):
        if start < key_group:
            yield h.KeyGroupRange(start, key_group - 1)
        start = key_group + 1


def _as_framed(batch: pa.RecordBatch, state: KeyedDescription) -> Iterable[pa.RecordBatch]:
    """Convert rows of the heap with whole maps to rows of framed formats."""
    if state.kind == MAP and layouts.VALUE in batch.schema.names:
        return shapes.explode_map(batch, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE)
    return (batch,)
