"""Entries of a keyed state as framed bytes, whatever format they come from, and fingerprints to compare them by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba.core.types import int64, uint8, uint64

from state_processor.backends.formats.entry_framing import entry_table, fingerprint
from state_processor.backends.formats.entry_runs import Buffer, Entries, EntryRun, FramedRun, view
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.serializers.kernel.compiler import entry_point, read, written

_FINGERPRINTS: Final = 4


@entry_point(read(uint8), read(int64, 2), written(uint64, 2))
def _print(data, table, prints):  # type: ignore[no-untyped-def]
    for entry in range(len(table)):
        prints[entry, 0], prints[entry, 1] = fingerprint(data, table[entry, 0], table[entry, 1])
        prints[entry, 2], prints[entry, 3] = fingerprint(data, table[entry, 2], table[entry, 3])


@dataclass(frozen=True, slots=True)
class FramedEntries:
    """Entries of one state of one handle."""

    source: KeyedStateSource
    state: KeyedDescription
    subtask: int
    buffer: Buffer
    entries: Entries

    @classmethod
    def read(
        cls, source: KeyedStateSource, name: str, subtask: int, key_groups: h.KeyGroupRange, max_parallelism: int
    ) -> Iterator[FramedEntries]:
        """Yield the entries of a state in some key groups, in parts; none if the source does not have the state."""
        state = source.describe(name)
        if state is None:
            return
        copying = KeyedPassThrough(1, max_parallelism, max_parallelism)
        for batch in copying.blobs(source, name, 0, key_groups):
            yield cls._of_blobs(source, state, subtask, batch, prefix_size(max_parallelism))

    @classmethod
    def _of_blobs(
        cls, source: KeyedStateSource, state: KeyedDescription, subtask: int, batch: pa.RecordBatch, prefix: int
    ) -> FramedEntries:
        blobs = batch.column("blob")
        offsets = np.frombuffer(blobs.buffers()[1], dtype=np.int32)[blobs.offset : blobs.offset + len(blobs) + 1]
        buffer = view(blobs.buffers()[2] or b"")[offsets[0] : offsets[-1]]
        groups = np.repeat(batch.column("key_group").to_numpy(), batch.column("count").to_numpy())
        return cls(source, state, subtask, buffer, entry_table(buffer, prefix, groups))

    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """Return a line per entry: 128 bits of the key (with namespace and map key), then 128 of the value."""
        prints = np.empty((len(self.entries), _FINGERPRINTS), dtype=np.uint64)
        _print(self.buffer, self.entries, prints)
        return prints

    def run(self) -> FramedRun:
        """Return the entries as a run, which decodes them."""
        where = f"{self.source.context}, state {self.state.name!r}"
        return FramedRun(self.state, where, iter([(self.buffer, None, self.entries)]))

    def selected(self, rows: npt.NDArray[np.bool_]) -> SelectedEntries:
        """Return some of the entries as a source of keyed state."""
        return SelectedEntries(self, np.ascontiguousarray(self.entries[rows]))


class SelectedEntries(KeyedStateSource):
    """Some entries of one state, in memory."""

    def __init__(self, entries: FramedEntries, selected: Entries) -> None:
        super().__init__(entries.source.header, entries.source.context)
        self._entries = entries
        self._selected = selected

    @property
    def backend(self) -> str:
        """Name of the backend that the entries come from."""
        return self._entries.source.backend

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        yield FramedRun(
            state, f"{self.context}, state {state.name!r}", iter([(self._entries.buffer, None, self._selected)])
        ).of_keys(keys)
