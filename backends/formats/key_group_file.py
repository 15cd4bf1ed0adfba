"""Files of keyed state with a block per key group, and canonical files (Flink: ``FullSnapshotRestoreOperation``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.files import snappy
from state_processor.backends.formats import framing
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import framed_layout
from state_processor.backends.formats.row_shapes import LargeEntry, ListPieces
from state_processor.backends.formats.source import Block, Buffer, FramedRun, KeyedStateSource, KeyRange, ScanRequest, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.streams import RecentReads, StateStream
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import KeyedDescription, ListDescription
from state_processor.backends.state.key_groups import prefix_size
from state_processor.support.errors import CorruptSnapshotError

KeyGroupBlock = tuple[int, int, int]
"""Offset, end and key group of the entries of a key group."""


class KeyGroupFile(KeyedStateSource):
    """A file with a header, then a block per key group at the offsets of its handle.

    ``stream`` and ``handle``: the file, and the start of each key group. ``header`` and ``context``: see
    :class:`~state_processor.backends.formats.source.KeyedStateSource`.
    """

    def __init__(
        self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: state_headers.KeyedHeader, context: str
    ) -> None:
        super().__init__(header, context)
        self.stream = stream
        self.handle = handle
        self._offsets = handle.offsets.to_numpy()
        self._bounds = np.append(np.sort(self._offsets[self._offsets > 0]), stream.size)

    def context_of(self, name: str) -> str:
        """Return the description of a state and its file for messages."""
        return f"{self.context}, state {name!r}, {self.stream.describe()}"

    def key_group_blocks(self, key_groups: h.KeyGroupRange) -> list[KeyGroupBlock]:
        """Return the non-empty blocks in file order."""
        key_groups_of_file = self.handle.key_groups.intersect(key_groups)
        first = key_groups_of_file.start - self.handle.key_groups.start
        offsets = self._offsets[first : first + len(key_groups_of_file)].tolist()
        blocks = []
        for key_group, offset in zip(key_groups_of_file, offsets, strict=True):
            if offset <= 0:
                continue
            if offset >= self.stream.size:
                raise CorruptSnapshotError(f"{self.at(offset)}: key group {key_group} starts after the end of the file")
            end = int(self._bounds[np.searchsorted(self._bounds, offset, side="right")])
            blocks.append((offset, end, key_group))
        return sorted(blocks)

    def at(self, offset: int) -> str:
        """Return the description of a position in the file for messages."""
        return f"{self.context}, {self.stream.describe()}, offset {offset}"


def stretches(blocks: Sequence[KeyGroupBlock], most_bytes: int | None = None) -> Iterator[list[KeyGroupBlock]]:
    """Group adjacent blocks, of up to a number of bytes. Each group is read at once."""
    stretch: list[KeyGroupBlock] = []
    for block in blocks:
        is_full = most_bytes is not None and stretch and block[1] - stretch[0][0] > most_bytes
        if is_full or (stretch and stretch[-1][1] != block[0]):
            yield stretch
            stretch = []
        stretch.append(block)
    if stretch:
        yield stretch


_WINDOW: Final = 1 << 20
"""Bytes to read, index and decode at first: much of a file may be skipped."""
_LARGEST_WINDOW: Final = 4 << 20
"""Bytes to read at a time behind them, and of remote storage: each read is a request."""
_LARGE: Final = 4 << 20
"""Minimum size of a value that is read separately."""
_TABLE_ROWS: Final = 1 << 10
"""Entries that are found before they are decoded; they fit into the processor's first cache."""
_NO_STATE: Final = -2
_FRAMING_PROBLEMS: Final = {
    framing.MORE_INPUT: "the last entry is cut off",
    framing.BAD_LENGTH: "the length of a key or value exceeds the file",
    framing.BAD_STATE: "a state id that the header does not register",
    framing.BAD_KEY_GROUP: "an entry of another key group",
    framing.REPEATED_STATE: "a repeated state id in a key group",
    framing.BAD_END: "the end of the key group is not the start of the next one",
}


class CanonicalSource(KeyGroupFile):
    """The canonical format; every backend writes and restores it (Flink: ``FullSnapshotAsyncWriter``)."""

    def __init__(
        self,
        stream: StateStream,
        handle: h.KeyGroupsStateHandle,
        header: state_headers.KeyedHeader,
        context: str,
        max_parallelism: int,
    ) -> None:
        super().__init__(stream, handle, header, context)
        self._prefix = prefix_size(max_parallelism)
        self._recent = RecentReads(stream)
        self._window = _LARGEST_WINDOW if stream.is_remote else _WINDOW

    @property
    def backend(self) -> str:
        """Name of the format: a canonical file does not name the backend that wrote it."""
        return "canonical"

    def blocks(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        """Yield the framed entries of a state."""
        for part in self._entries(self.header.state_id(name), key_groups):
            if isinstance(part, LargeEntry):
                yield part.whole()
            else:
                for entries in part.tables():
                    yield part.buffer, part.place, entries

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[FramedRun]:
        yield FramedRun(state, self.context_of(state.name), self.blocks(state.name, key_groups)).of_keys(keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as columns; see :class:`ListPieces` for large lists."""
        written = self.describe(request.name)
        if written is None or request.keys is not None:
            return super().scan(request)
        state = evolved(written, request.types)
        layout = framed_layout(state, request.columns)
        element = written.value if request.in_pieces and isinstance(state, ListDescription) else None
        pieces = ListPieces(element, layout, request.options, self.context_of(state.name), self._window)
        return pieces.decode(self._entries(self.header.state_id(request.name), request.key_groups))

    def count(self, name: str, key_groups: h.KeyGroupRange, between: KeyRange | None = None) -> int:
        """Count the entries of a state, without reading values."""
        parts = self._entries(self.header.state_id(name), key_groups)
        return sum(part.count() for part in parts if isinstance(part, framing.Window))

    def is_well_formed(self, key_groups: h.KeyGroupRange) -> bool:
        """Check if the entries of each block end exactly at its end."""
        try:
            for offset, end, key_group in self.key_group_blocks(key_groups):
                for window in self._walk(_NO_STATE, [(offset, end, key_group)], self.stream):
                    assert isinstance(window, framing.Window)  # only values of the state can be large
                    window.count()
        except CorruptSnapshotError:
            return False
        return True

    def _entries(self, state_id: int, key_groups: h.KeyGroupRange) -> Iterator[framing.Window | LargeEntry]:
        blocks = self.key_group_blocks(key_groups)
        if self.header.compressed:
            for offset, end, key_group in blocks:
                plain = snappy.decompress(self._recent.read(offset, end - offset), self.at(offset))
                yield from self._walk(state_id, [(0, len(plain), key_group)], _Plain(plain), offset)
        else:
            for stretch in stretches(blocks):
                is_small = stretch[-1][1] - stretch[0][0] <= _LARGEST_WINDOW
                yield from self._walk(state_id, stretch, self._recent if is_small else self.stream)

    def _walk(
        self, state_id: int, blocks: Sequence[KeyGroupBlock], source: StateStream | RecentReads | _Plain, origin: int = 0
    ) -> Iterator[framing.Window | LargeEntry]:
        """Index adjacent blocks window by window; ``origin`` is added to offsets in messages."""
        bounds = np.array(blocks, dtype=np.int64)
        begin, end = blocks[0][0], blocks[-1][1]
        walk = framing.new_walk(begin, end, len(self.header.states), state_id, self._prefix, _LARGE)
        table = np.empty((_TABLE_ROWS, framing.ENTRY_FIELDS), dtype=np.int64)
        size = self._window
        while True:
            base = int(walk[framing.POSITION])
            buffer = view(source.read(base, min(size, end - base)))
            window = framing.Window(buffer, origin + base, bounds, walk, table)
            yield window
            status = int(walk[framing.STATUS])
            if status == framing.DONE:
                return
            if status == framing.LARGE:
                key, _, value, behind, key_group = window.table[walk[framing.NEEDED]].tolist()
                yield LargeEntry(source.read, origin, base + key, base + value, base + behind, key_group)
                size = self._window
                continue
            if status != framing.MORE_INPUT or base + len(buffer) >= end:
                key_group = int(bounds[walk[framing.BLOCK], 2])
                place = self.at(origin + int(walk[framing.POSITION]))
                raise CorruptSnapshotError(f"{place}, key group {key_group}: {_FRAMING_PROBLEMS[status]}")
            is_skipping = walk[framing.POSITION] > base + len(buffer)
            size = max(self._window if is_skipping else min(2 * size, _LARGEST_WINDOW), int(walk[framing.NEEDED]))
            del buffer, window  # before the next one is read


class _Plain:
    """Bytes in memory, read like a stream."""

    def __init__(self, data: Buffer) -> None:
        self._data = data.data

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        return self._data[offset : offset + length]
