"""Files of keyed state with a block per key group: the common part of canonical and heap files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.state import state_headers
from state_processor.serializers.errors import CorruptSnapshotError

KeyGroupBlock = tuple[int, int, int]
"""Offset, end and key group of the entries of a key group."""


class KeyGroupFile(KeyedStateSource):
    """A file with a header, then a block per key group at the offsets of its handle.

    Parameters
    ----------
    stream, handle
        The file, and the start of each key group.
    header, context
        See :class:`~state_processor.backends.formats.source.KeyedStateSource`.
    """

    def __init__(
        self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: state_headers.KeyedHeader, context: str
    ) -> None:
        super().__init__(header, context)
        self.stream = stream
        self.handle = handle
        offsets = np.array(sorted(set(handle.offsets)), np.int64)  # np.unique imports numpy.ma
        self._bounds = np.append(offsets[offsets > 0], stream.size)

    def where(self, name: str) -> str:
        """Return the description of a state and its file for messages."""
        return f"{self.context}, state {name!r}, {self.stream.describe()}"

    def key_group_blocks(self, key_groups: h.KeyGroupRange) -> list[KeyGroupBlock]:
        """Return the non-empty blocks in file order."""
        key_groups_of_file = self.handle.key_groups.intersect(key_groups)
        blocks = []
        for key_group in key_groups_of_file:
            offset = self.handle.offset_of(key_group)
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


def stretches(blocks: Sequence[KeyGroupBlock]) -> Iterator[list[KeyGroupBlock]]:
    """Group adjacent blocks. Each group is read at once."""
    stretch: list[KeyGroupBlock] = []
    for block in blocks:
        if stretch and stretch[-1][1] != block[0]:
            yield stretch
            stretch = []
        stretch.append(block)
    if stretch:
        yield stretch
