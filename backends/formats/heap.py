"""Files of the heap backend: entries without lengths. Flink: ``HeapRestoreOperation``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from state_processor.backends.files import snappy
from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.entry_runs import Buffer, EntryLocator, Section, UnframedRun, view
from state_processor.backends.formats.key_group_file import KeyGroupFile, stretches
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import RowDecoder, RowLayout, size_of
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.serializers.base import VARIABLE
from state_processor.serializers.core.opaque import reason_end_unknown
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import CorruptSnapshotError, UnknownSerializerError, UnsupportedFormatError
from state_processor.serializers.io import DataInput


@dataclass(slots=True)
class _Block:
    """A key group, and where the entries of its states are, as far as ``position``."""

    where: str
    buffer: Buffer
    base: int
    key_group: int
    position: int = 0
    sections: dict[int, Section] = field(default_factory=dict)


class HeapSource(KeyGroupFile):
    """The format of the heap backend's checkpoints and native savepoints (Flink: ``HeapSnapshotStrategy``).

    Entries have no lengths, so other states are found by stepping through all before them.
    """

    def __init__(self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: mi.KeyedHeader, context: str) -> None:
        super().__init__(stream, handle, header, context)
        self._blocks_of: h.KeyGroupRange | None = None
        self._blocks: list[_Block] = []
        self._steppers: dict[int, tuple[RowLayout, RowDecoder, int]] = {}

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "heap"

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[UnframedRun]:
        yield UnframedRun(state, self.where(state.name), layouts.heap_layout, self.sections(state.name, key_groups), keys)

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Section]:
        """Yield where the entries of a state are in each key group; the states behind it are not looked at."""
        state_id = self.header.state_id(name)
        for block in self._opened(key_groups) if state_id >= 0 else ():
            while state_id not in block.sections:
                self._index_next(block)
            yield block.sections[state_id]

    def _opened(self, key_groups: h.KeyGroupRange) -> list[_Block]:
        """Read the blocks of key groups; kept for the next state of the same key groups."""
        if self._blocks_of != key_groups:
            self._blocks, self._blocks_of = [], None
            for stretch in stretches(self.key_group_blocks(key_groups)):
                begin = stretch[0][0]
                data = self.stream.read(begin, stretch[-1][1] - begin)
                self._blocks += [self._open(data[offset - begin : end - begin], offset, k) for offset, end, k in stretch]
            self._blocks_of = key_groups
        return self._blocks

    def _open(self, block: memoryview, offset: int, key_group: int) -> _Block:
        written = DataInput(block, self.at(offset)).read_int()
        if written != key_group:
            raise CorruptSnapshotError(f"{self.at(offset)}: key group {key_group} expected, found {written}")
        where, body = f"{self.at(offset + 4)}, key group {key_group}", block[4:]
        buffer = snappy.decompress(body, where) if self.header.compressed else view(body)
        return _Block(where, buffer, offset + 4, key_group)

    def _index_next(self, block: _Block) -> None:
        """Find the entries of the next state of a block."""
        source = DataInput(block.buffer.data, block.where, block.position)
        state_id, count = source.read_unsigned_short(), source.read_int()
        if state_id in block.sections or state_id >= len(self.header.states) or count < 0:
            raise source.corrupt(f"{count} entries of state number {state_id} are impossible here", block.position)
        is_last = len(block.sections) == len(self.header.states) - 1
        section = Section(block.buffer, block.base, source.position, len(block.buffer), count, block.key_group)
        if not count:
            if is_last and not source.at_end():
                raise source.corrupt(f"{source.remaining} bytes are left over behind the last state")
        elif not is_last:
            section = replace(section, end=self._step_over(state_id, section))
        block.position = section.end if count else section.position
        block.sections[state_id] = section

    def _step_over(self, state_id: int, section: Section) -> int:
        if state_id not in self._steppers:
            layout = layouts.heap_layout(self._described(state_id), frozenset())
            size = size_of(field for part in layout.parts for field in part.fields)
            self._steppers[state_id] = layout, layout.decoder(DecodeOptions()), size
        layout, decoder, size = self._steppers[state_id]
        end = section.position + section.count * size
        if size != VARIABLE and end <= section.end:
            return end
        where = self.where(self.header.states[state_id].name)
        site = EntryLocator(where, layout, section.buffer, section.base)
        for _ in decoder.rows(section.buffer, section.position, section.count, site):
            pass  # batches without columns: only the position after the rows counts
        return decoder.position

    def _described(self, state_id: int) -> KeyedDescription:
        """Describe a state that has to be stepped over."""
        meta = self.header.states[state_id]
        try:
            state = describe_keyed(self.header, meta)
            reason = reason_end_unknown(state.value)
        except UnknownSerializerError as problem:
            reason = str(problem)
        if reason:
            raise UnsupportedFormatError(
                f"{self.context}, {self.stream.describe()}: the entries of state {meta.name!r} come first, have no lengths here, "
                f"and can't be stepped over. Take a savepoint in the canonical format, or: {reason}"
            )
        return state
