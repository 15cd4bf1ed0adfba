"""Files of the heap backend: entries without lengths. Flink: ``HeapRestoreOperation``.

Counts of entries of unread states are checked by the sizes of entries. In each key group, the states follow each other without
lengths: an id, a count, and the entries. A wrong count leads to a wrong end of the key group. For entries of a fixed size, the
end is computed; for other entries, the count is only compared with the remaining bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.files import snappy
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.key_group_file import KeyGroupBlock, KeyGroupFile, stretches
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import RowDecoder, RowLayout, size_of
from state_processor.backends.formats.source import Buffer, EntryLocator, Section, UnframedRun, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.serializers.codec import VARIABLE, total_min_size
from state_processor.serializers.core.unread import reason_end_unknown
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError, UnknownSerializerError, UnsupportedFormatError
from state_processor.support.locks import cached_property

HEAD: Final = 6
"""Bytes before the entries of a state: its id and the count."""

_NUMBER: Final = np.array([1 << 8, 1, 0, 0, 0, 0])
_COUNT: Final = np.array([0, 0, 1 << 24, 1 << 16, 1 << 8, 1])

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """Sizes of entries by state: the fixed size or ``VARIABLE``, and the minimum size."""

    fixed: Positions
    smallest: Positions


class Damage(NamedTuple):
    """The position of a wrong count in a key group."""

    block: int  # index of the key group
    position: int  # position in the buffer
    problem: str  # description of the damage


def find_damage(
    buffer: Buffer, positions: Positions, ends: Positions, unread: npt.NDArray[np.bool_], sizes: EntrySizes
) -> Damage | None:
    """Follow the counts of all key groups in a buffer at once.

    ``positions`` and ``ends``: start of the next state of each key group, and end of each key group. ``unread``: for each key
    group and state, whether the state follows; updated. ``sizes``: sizes of the entries. The walk through a key group stops at
    entries of variable size.

    Returns: the first damage.
    """
    positions = positions.copy()
    blocks = np.arange(len(positions))
    while len(blocks):
        complete: npt.NDArray[np.bool_] = ~np.any(unread[blocks], axis=1)
        sizes_left = ends[blocks] - positions[blocks]
        wrong = np.flatnonzero(np.where(complete, sizes_left != 0, sizes_left < HEAD))
        if len(wrong):
            at = blocks[wrong[0]]
            bytes_left = int(sizes_left[wrong[0]])
            problem = (
                f"{bytes_left} bytes are left over after the last state"
                if complete[wrong[0]]
                else (f"{unread[at].sum()} states have to follow, {max(bytes_left, 0)} bytes are left")
            )
            return Damage(int(at), int(positions[at]), problem)
        blocks, sizes_left = blocks[~complete], sizes_left[~complete]
        head = buffer[positions[blocks][:, None] + np.arange(HEAD)].astype(np.int64)
        numbers, counts = head @ _NUMBER, (head @ _COUNT).astype(np.int32).astype(np.int64)
        is_state = numbers < unread.shape[1]
        states = np.where(is_state, numbers, 0)
        possible = is_state & unread[blocks, states] & (counts >= 0) & (counts * sizes.smallest[states] <= sizes_left - HEAD)
        wrong = np.flatnonzero(~possible)
        if len(wrong):
            at, first = blocks[wrong[0]], wrong[0]
            problem = f"{counts[first]} entries of state number {numbers[first]} are impossible here"
            return Damage(int(at), int(positions[at]), problem)
        unread[blocks, states] = False
        passable = (counts == 0) | (sizes.fixed[states] != VARIABLE)
        positions[blocks] += HEAD + counts * np.where(passable, sizes.fixed[states], 0) * (counts > 0)
        blocks = blocks[passable]
    return None


_MOST_CACHED: Final = 64 << 20
"""Bytes that are cached for the next state, at most."""
_READ_BYTES: Final = 4 << 20
"""Bytes of key groups that are read at a time otherwise."""


@dataclass(slots=True)
class _Block:
    """A key group, and the positions of the entries of its states up to ``position``.

    ``start`` is the offset of ``buffer`` in the bytes that were read with the key group.
    """

    context: str
    buffer: Buffer
    base: int
    key_group: int
    start: int
    position: int = 0
    sections: dict[int, Section] = field(default_factory=dict)


class HeapSource(KeyGroupFile):
    """The format of the heap backend's checkpoints and native savepoints (Flink: ``HeapSnapshotStrategy``).

    Entries don't have lengths, so a state is found by skipping the entries of all earlier states.
    """

    def __init__(
        self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: state_headers.KeyedHeader, context: str
    ) -> None:
        super().__init__(stream, handle, header, context)
        self._blocks_of: h.KeyGroupRange | None = None
        self._stretches: list[tuple[Buffer, list[_Block]]] = []
        self._steppers: dict[int, tuple[RowLayout, RowDecoder, int]] = {}

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "heap"

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[UnframedRun]:
        yield UnframedRun(state, self.context_of(state.name), layouts.heap_layout, self.sections(state.name, key_groups), keys)

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Section]:
        """Yield the positions of the entries of a state in each key group; then check the counts of later states."""
        state_id = self.header.state_id(name)
        if state_id < 0:
            return
        for data, blocks in self._read(key_groups):
            for block in blocks:
                while state_id not in block.sections:
                    self._index_next(block)
                yield block.sections[state_id]
            if not self.header.compressed:  # chunks of compressed files have checksums
                self._check_counts(data, blocks)
            del data, blocks  # before more is read

    def count_through(self, key_groups: h.KeyGroupRange) -> str:
        """Skip the entries of all states.

        Returns: the reason if the entries of a state with an unknown serializer can't be skipped; otherwise empty.
        """
        problem = ""
        for _, blocks in self._read(key_groups):
            for block in blocks:
                try:
                    self._count_block(block)
                except UnsupportedFormatError as error:
                    problem = problem or str(error)
        return problem

    def _count_block(self, block: _Block) -> None:
        while len(block.sections) < len(self.header.states):
            self._index_next(block)
        state_id, last = next(reversed(block.sections.items()))
        end = self._step_over(state_id, block, last.position, last.count)
        if end != last.end:
            raise CorruptSnapshotError(f"{block.context}: {last.end - end} bytes are left over after the last state")

    def _check_counts(self, data: Buffer, blocks: Sequence[_Block]) -> None:
        """Check the counts of the states that are not indexed, if their entries have a fixed size."""
        states = len(self.header.states)
        starts = np.array([block.start for block in blocks], dtype=np.int64)
        positions = starts + np.array([block.position for block in blocks], dtype=np.int64)
        ends = starts + np.array([len(block.buffer) for block in blocks], dtype=np.int64)
        unread = np.ones((len(blocks), states), dtype=np.bool_)
        for index, block in enumerate(blocks):
            unread[index, list(block.sections)] = False
        damage = find_damage(data, positions, ends, unread, self._entry_sizes)
        if damage is not None:
            damaged = blocks[damage.block]
            offset = damaged.base + damage.position - damaged.start
            raise CorruptSnapshotError(f"{self.at(offset)}, key group {damaged.key_group}: {damage.problem}")

    @cached_property
    def _entry_sizes(self) -> EntrySizes:
        fixed, smallest = zip(*map(self._sizes_of, range(len(self.header.states))), strict=True)
        return EntrySizes(np.array(fixed, dtype=np.int64), np.array(smallest, dtype=np.int64))

    def _sizes_of(self, state_id: int) -> tuple[int, int]:
        """Return the fixed size of a state's entries, or ``VARIABLE``, and the minimum size of an entry."""
        try:
            fields = list(layouts.heap_layout(self._described(state_id), frozenset()).fields)
        except UnsupportedFormatError:
            return VARIABLE, 0
        return size_of(fields), total_min_size(f.serializer for f in fields)

    def _read(self, key_groups: h.KeyGroupRange) -> Iterator[tuple[Buffer, list[_Block]]]:
        """Yield the blocks of key groups and their bytes. They are cached for another state, unless they are large."""
        if self._blocks_of == key_groups:
            yield from self._stretches
            return
        self._stretches, self._blocks_of = [], None
        blocks = self.key_group_blocks(key_groups)
        if len(self.header.states) < 2 or sum(end - offset for offset, end, _ in blocks) > _MOST_CACHED:
            yield from map(self._opened, stretches(blocks, _READ_BYTES))
            return
        self._stretches, self._blocks_of = [*map(self._opened, stretches(blocks))], key_groups
        yield from self._stretches

    def _opened(self, stretch: list[KeyGroupBlock]) -> tuple[Buffer, list[_Block]]:
        begin = stretch[0][0]
        data = self.stream.read(begin, stretch[-1][1] - begin)
        blocks = []
        for offset, end, key_group in stretch:
            block = data[offset - begin : end - begin]
            blocks.append(self._open(block, offset, key_group, offset - begin))
        return view(data), blocks

    def _open(self, block: memoryview, offset: int, key_group: int, start: int) -> _Block:
        written = DataInput(block, self.at(offset)).read_int()
        if written != key_group:
            raise CorruptSnapshotError(f"{self.at(offset)}: expected key group {key_group}, found {written}")
        context, body = f"{self.at(offset + 4)}, key group {key_group}", block[4:]
        buffer = snappy.decompress(body, context) if self.header.compressed else view(body)
        return _Block(context, buffer, offset + 4, key_group, start + 4)

    def _index_next(self, block: _Block) -> None:
        """Find the entries of the next state of a block."""
        source = DataInput(block.buffer.data, block.context, block.position)
        state_id, count = source.read_unsigned_short(), source.read_int()
        if state_id in block.sections or state_id >= len(self.header.states) or count < 0:
            raise source.corrupt(f"{count} entries of state number {state_id} are impossible here", block.position)
        is_last = len(block.sections) == len(self.header.states) - 1
        start = source.position
        if is_last and not count and not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over after the last state")
        end = len(block.buffer) if is_last else self._step_over(state_id, block, start, count)
        block.position = end
        block.sections[state_id] = Section(block.buffer, block.base, start, end, count, block.key_group)

    def _step_over(self, state_id: int, block: _Block, start: int, count: int) -> int:
        """Return the end of the entries of a state that begin at ``start``."""
        if not count:
            return start
        if state_id not in self._steppers:
            layout = layouts.heap_layout(self._described(state_id), frozenset())
            size = size_of(layout.fields)
            self._steppers[state_id] = layout, layout.decoder(DecodeOptions()), size
        layout, decoder, size = self._steppers[state_id]
        end = start + count * size
        if size != VARIABLE and end <= len(block.buffer):
            return end
        context = self.context_of(self.header.states[state_id].name)
        site = EntryLocator(context, layout, block.buffer, block.base)
        for _ in decoder.rows(block.buffer, start, count, site):
            pass  # batches without columns: only the position after the rows counts
        return decoder.position

    def _described(self, state_id: int) -> KeyedDescription:
        """Return the description of a state to skip."""
        meta = self.header.states[state_id]
        try:
            state = describe_keyed(self.header, meta)
            reason = reason_end_unknown(state.value)
        except UnknownSerializerError as problem:
            reason = str(problem)
        if reason:
            raise UnsupportedFormatError(
                f"{self.context}, {self.stream.describe()}: the entries of state {meta.name!r} come first, without lengths, "
                f"so they can't be skipped. Take a savepoint in the canonical format, or: {reason}"
            )
        return state
