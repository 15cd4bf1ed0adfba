"""Entries of a keyed state of any format as framed bytes, and fingerprints that compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.analysis.matching import copied
from state_processor.backends.formats.entry_framing import entry_table, fingerprint
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import LayoutOf
from state_processor.backends.formats.source import BoundedRun, Buffer, Entries, EntryRun, FramedRun, KeyedStateSource, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, uint64, written

_FINGERPRINTS: Final = 4


@entry_point(read(uint8), read(int64, 2), written(uint64, 2))
def _print(data, table, prints):  # type: ignore[no-untyped-def]
    for entry in range(len(table)):
        prints[entry, 0], prints[entry, 1] = fingerprint(data, table[entry, 0], table[entry, 1])
        prints[entry, 2], prints[entry, 3] = fingerprint(data, table[entry, 2], table[entry, 3])


@dataclass(frozen=True, slots=True)
class StateEntries:
    """The entries of one state of one handle in some key groups.

    ``source`` and ``state``: the keyed state of the handle, and the state in its header. ``subtask``, ``key_groups`` and
    ``max_parallelism``: the subtask of the handle, the key groups, and the max parallelism of the operator.
    """

    source: KeyedStateSource
    state: KeyedDescription
    subtask: int
    key_groups: h.KeyGroupRange
    max_parallelism: int
    size: int = 0  # estimated bytes of the part of the handle with these key groups, other states included

    def runs(self) -> list[EntryRun]:
        """Return the entries as runs; all entries of a run have the same layout."""
        return list(self.source.runs(self.state.name, self.key_groups))

    def framed(self, runs: Iterable[EntryRun] | None = None) -> Iterator[EntryBytes]:
        """Yield the entries, or the entries of some runs, as framed bytes, in parts."""
        copying = KeyedPassThrough(1, self.max_parallelism, self.max_parallelism)
        for run in self.runs() if runs is None else runs:
            for batch in copying.blobs_of(run, 0, self.source.context):
                yield EntryBytes.of_blobs(self, batch)

    @property
    def types(self) -> tuple[bytes, ...]:
        """The serializer snapshots. Entries with equal bytes have equal values if their serializer snapshots are equal."""
        return tuple(serializer.snapshot().to_bytes() for serializer in self.state.serializers.values())


@dataclass(frozen=True, slots=True)
class EntryBytes:
    """Entries of one state of one handle as bytes in memory: the identity and the value of each."""

    origin: StateEntries  # source of the entries
    buffer: Buffer
    entries: Entries
    # the layout of entries without lengths, such as entries of heap files; ``None`` for framed entries
    layout: LayoutOf | None = None

    @classmethod
    def of_blobs(cls, origin: StateEntries, batch: pa.RecordBatch) -> EntryBytes:
        """Return the entries of blobs."""
        blobs = batch.column("blob")
        offsets = np.frombuffer(blobs.buffers()[1], dtype=np.int32)[blobs.offset : blobs.offset + len(blobs) + 1]
        buffer = view(blobs.buffers()[2] or b"")[offsets[0] : offsets[-1]]
        groups = np.repeat(batch.column("key_group").to_numpy(), batch.column("count").to_numpy())
        return cls(origin, buffer, entry_table(buffer, prefix_size(origin.max_parallelism), groups))

    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """Return a row per entry: 128 bits of the key (with namespace and map key), then 128 bits of the value."""
        prints = np.empty((len(self.entries), _FINGERPRINTS), dtype=np.uint64)
        _print(self.buffer, self.entries, prints)
        return prints

    def selected(self, rows: npt.NDArray[np.int64]) -> EntryBytes:
        """Return some entries."""
        return replace(self, entries=np.ascontiguousarray(self.entries[rows]))

    def joined_with(self, parts_of_same_layout: Sequence[EntryBytes]) -> EntryBytes:
        """Return the entries and other entries with the same types and layout."""
        parts = [copied(part.buffer, part.entries) for part in (self, *parts_of_same_layout)]
        starts = np.cumsum([0, *(len(buffer) for buffer, _ in parts)])
        for (_, entries), start in zip(parts, starts[:-1], strict=True):
            entries[:, :KEY_GROUP] += start
        buffers, tables = zip(*parts, strict=True)
        return replace(self, buffer=np.concatenate(buffers), entries=np.concatenate(tables))


class EntriesInMemory(KeyedStateSource):
    """Entries of one state as a source of keyed state."""

    def __init__(self, entries: EntryBytes) -> None:
        super().__init__(entries.origin.source.header, entries.origin.source.context)
        self._found = entries

    @property
    def backend(self) -> str:
        """Name of the source backend of the entries."""
        return self._found.origin.source.backend

    def _runs(
        self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None
    ) -> Iterator[FramedRun | BoundedRun]:
        context, entries = f"{self.context}, state {state.name!r}", self._found
        if entries.layout is None:
            yield FramedRun(state, context, iter([(entries.buffer, None, entries.entries)])).of_keys(keys)
        else:
            yield BoundedRun.of_parts(state, context, entries.layout, entries.buffer, entries.entries)
