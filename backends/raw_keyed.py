"""Raw state: timers beside RocksDB and ForSt, and what operators write themselves (Flink: ``StateSnapshotContext``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from state_processor.backends import handles as h
from state_processor.backends import layouts
from state_processor.backends import meta_info as mi
from state_processor.backends.keyed import RowSite, ScanRequest, view
from state_processor.backends.raw_timers import RawBlock, RawTimers, block_input, raw_blocks, read_block, timers_header
from state_processor.backends.rows import Field, Part, RowDecoder, RowLayout
from state_processor.backends.states import StateDescription, describe_keyed
from state_processor.backends.stream import StateStream
from state_processor.serializers.basic import NumberSerializer
from state_processor.serializers.errors import CorruptSnapshotError
from state_processor.serializers.options import DecodeOptions
from state_processor.serializers.streaming import TimerSerializer

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
        self._context = context
        self._blocks = raw_blocks(stream, handle, context)
        self._steppers: dict[str, tuple[RowLayout, RowDecoder]] = {}
        self.header: mi.KeyedHeader = timers_header(stream, self._blocks, context)

    def describe(self, name: str) -> StateDescription | None:
        """See :class:`~state_processor.backends.keyed.KeyedStateSource`."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id], BACKEND)

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`~state_processor.backends.keyed.KeyedStateSource`."""
        timer = state.value
        assert isinstance(timer, TimerSerializer)
        fields = (
            Field(layouts.KEY, timer.key),
            Field(layouts.NAMESPACE, timer.namespace),
            Field(layouts.TIMESTAMP, NumberSerializer("LONG")),
        )
        return RowLayout((Part(None, fields, (0, 1)),), columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`~state_processor.backends.keyed.KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(state, request.columns)
        decoder = layout.decoder(request.options)
        context = f"{self._context}, state {request.name!r}, {self._stream.describe()}"
        for block in self._blocks:
            if block.key_group not in request.key_groups:
                continue
            source = block_input(self._stream, block, context)
            buffer = view(source.data)
            site = RowSite(context, layout, buffer, block.offset)
            for timers in self._timers(block, context):
                if timers.name == request.name:
                    yield from decoder.rows(buffer, timers.position, timers.count, site, block.key_group)
        yield from decoder.finish()

    def _timers(self, block: RawBlock, context: str) -> list[RawTimers]:
        source = block_input(self._stream, block, context)
        buffer = view(source.data)

        def step(timers: RawTimers) -> int:
            if not timers.count:
                return timers.position
            layout, decoder = self._stepper(timers.name)
            for _ in decoder.rows(buffer, timers.position, timers.count, RowSite(context, layout, buffer, block.offset)):
                pass  # batches without columns: only the position after the rows counts
            return decoder.position

        return read_block(source, step)

    def _stepper(self, name: str) -> tuple[RowLayout, RowDecoder]:
        if name not in self._steppers:
            state = self.describe(name)
            if state is None:
                where = f"{self._context}, {self._stream.describe()}"
                raise CorruptSnapshotError(f"{where}: timer service {name!r} is listed by some key groups only")
            layout = self.layout(state, frozenset())
            self._steppers[name] = layout, layout.decoder(DecodeOptions())
        return self._steppers[name]
