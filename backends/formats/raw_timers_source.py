"""The source of timers in raw keyed state: heap timers of jobs with RocksDB or ForSt."""

from __future__ import annotations

from collections.abc import Iterator

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.entry_runs import EntryLocator, Section, UnframedRun, view
from state_processor.backends.formats.field_selection import FieldSelection
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.raw_timers import (
    RawBlock,
    RawTimers,
    block_input,
    holds_timers,
    raw_blocks,
    read_block,
    timers_header,
)
from state_processor.backends.formats.row_layout import Field, Part, RowDecoder, RowLayout
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import CorruptSnapshotError


class RawTimersSource(KeyedStateSource):
    """Timers in raw keyed state.

    Parameters
    ----------
    stream, blocks
        The bytes, and the position of each key group.
    context
        Operator and subtask, for messages.
    flink_major
        The major version of the Flink that wrote the timers.
    """

    def __init__(self, stream: StateStream, blocks: list[RawBlock], context: str, flink_major: int) -> None:
        super().__init__(timers_header(stream, blocks, context, flink_major), context)
        self._stream = stream
        self._blocks = blocks
        self._flink_major = flink_major
        self._steppers: dict[str, tuple[RowLayout, RowDecoder]] = {}

    @classmethod
    def open(cls, snapshot: Snapshot, handle: h.KeyGroupsStateHandle, context: str) -> RawTimersSource | None:
        """Open the timers of a handle; ``None`` if it contains bytes of the operator."""
        stream = snapshot.open(handle.stream, context)
        blocks = raw_blocks(stream, handle, context)
        if not holds_timers(stream, blocks):
            return None
        return cls(stream, blocks, context, snapshot.flink_major)

    @property
    def backend(self) -> str:
        """Name of the backend in tables about a snapshot."""
        return "raw"

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[UnframedRun]:
        yield UnframedRun(state, self._where(state.name), _layout, self.sections(state.name, key_groups), keys)

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Section]:
        """Yield the positions of the timers of a state in each key group."""
        context = self._where(name)
        for block in self._blocks:
            if block.key_group not in key_groups:
                continue
            yield from (section for timers, section in self._timers(block, context) if timers == name)

    def _timers(self, block: RawBlock, context: str) -> Iterator[tuple[str, Section]]:
        source = block_input(self._stream, block, context, self._flink_major)
        buffer = view(source.data)
        ends: list[int] = []

        def step(timers: RawTimers) -> int:
            end = timers.position
            if timers.count:
                layout, decoder = self._stepper(timers.name)
                for _ in decoder.rows(buffer, timers.position, timers.count, EntryLocator(context, layout, buffer, block.offset)):
                    pass  # batches without columns: only the position after the rows counts
                end = decoder.position
            ends.append(end)
            return end

        for timers, end in zip(read_block(source, step), ends, strict=True):
            yield timers.name, Section(buffer, block.offset, timers.position, end, timers.count, block.key_group)

    def _stepper(self, name: str) -> tuple[RowLayout, RowDecoder]:
        if name not in self._steppers:
            state = self.describe(name)
            if state is None:
                context = f"{self.context}, {self._stream.describe()}"
                raise CorruptSnapshotError(f"{context}: only some key groups list timer service {name!r}")
            layout = _layout(state, frozenset())
            self._steppers[name] = layout, layout.decoder(DecodeOptions())
        return self._steppers[name]

    def _where(self, name: str) -> str:
        return f"{self.context}, state {name!r}, {self._stream.describe()}"


def _layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of a raw timer: unlike other timers, it starts with the key."""
    fields = (
        Field(layouts.KEY, state.key),
        Field(layouts.NAMESPACE, state.namespace),
        Field(layouts.TIMESTAMP, NumberSerializer("LONG")),
    )
    return RowLayout((Part(None, fields, (0, 1)),), columns)
