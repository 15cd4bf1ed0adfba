"""Raw state: timers beside RocksDB and ForSt, and what operators write themselves (Flink: ``StateSnapshotContext``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.keyed_files import EntryLocator, ScanRequest, Section, view
from state_processor.backends.formats.raw_timers import RawBlock, RawTimers, block_input, raw_blocks, read_block, timers_header
from state_processor.backends.formats.row_layout import Field, Part, RowDecoder, RowLayout
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import StateDescription, describe_keyed
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import CorruptSnapshotError
from state_processor.serializers.runtime.timers import TimerSerializer

BACKEND: Final = "raw"


class RawTimersSource:
    """Timers in raw keyed state.

    Parameters
    ----------
    stream, handle
        The bytes.
    context
        Operator and subtask, for messages.
    """

    def __init__(self, stream: StateStream, handle: h.KeyGroupsStateHandle, context: str) -> None:
        self._stream = stream
        self.context = context
        self._blocks = raw_blocks(stream, handle, context)
        self._steppers: dict[str, tuple[RowLayout, RowDecoder]] = {}
        self.header: mi.KeyedHeader = timers_header(stream, self._blocks, context)

    def describe(self, name: str) -> StateDescription | None:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id], BACKEND)

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        timer = state.value
        assert isinstance(timer, TimerSerializer)
        fields = (
            Field(layouts.KEY, timer.key),
            Field(layouts.NAMESPACE, timer.namespace),
            Field(layouts.TIMESTAMP, NumberSerializer("LONG")),
        )
        return RowLayout((Part(None, fields, (0, 1)),), columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`~state_processor.backends.formats.keyed_files.KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(state, request.columns)
        decoder = layout.decoder(request.options)
        context = f"{self.context}, state {request.name!r}, {self._stream.describe()}"
        for section in self.sections(request.name, request.key_groups):
            site = EntryLocator(context, layout, section.buffer, section.base)
            yield from decoder.rows(section.buffer, section.position, section.count, site, section.key_group)
        yield from decoder.finish()

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Section]:
        """Where a state's timers lie in each key group."""
        context = f"{self.context}, state {name!r}, {self._stream.describe()}"
        for block in self._blocks:
            if block.key_group not in key_groups:
                continue
            yield from (section for timers, section in self._timers(block, context) if timers == name)

    def _timers(self, block: RawBlock, context: str) -> Iterator[tuple[str, Section]]:
        source = block_input(self._stream, block, context)
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
                where = f"{self.context}, {self._stream.describe()}"
                raise CorruptSnapshotError(f"{where}: timer service {name!r} is listed by some key groups only")
            layout = self.layout(state, frozenset())
            self._steppers[name] = layout, layout.decoder(DecodeOptions())
        return self._steppers[name]
