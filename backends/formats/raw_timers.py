"""Timers in raw keyed state: heap timers of jobs with RocksDB or ForSt.

Format: ``InternalTimerServiceSerializationProxy``, ``InternalTimersSnapshotReaderWriters``. Each key group has a block with all
timer services, their serializers and timers. Unlike other timers, these start with the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.field_selection import FieldSelection
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import Field, RowDecoder, RowLayout, RowPart
from state_processor.backends.formats.source import EntryLocator, KeyedStateSource, Section, UnframedRun, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import EVENT_PREFIX, PROCESSING_PREFIX, KeyedDescription
from state_processor.serializers.base import TypeSerializer, read_versioned_snapshot
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError

MAGIC: Final = b"\xf1\xcd\x85\x9f"
VERSION: Final = 2
RAW_TIMERS: Final = FormatVersions("timers in raw keyed state", {VERSION: "1.8"})
TIMESTAMP_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class RawBlock:
    """The bytes of a key group: from ``offset`` to ``end`` in the stream."""

    key_group: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class RawTimers:
    """Position and number of the timers of one state in one block."""

    name: str
    key: TypeSerializer
    namespace: TypeSerializer
    position: int
    count: int


def raw_blocks(stream: StateStream, handle: h.KeyGroupsStateHandle, context: str) -> list[RawBlock]:
    """Return the blocks of raw keyed state in the order of the key groups; key groups with the offset -1 are empty."""
    starts = [(k, offset) for k, offset in zip(handle.key_groups, handle.offsets, strict=True) if offset >= 0]
    bounds = sorted({offset for _, offset in starts} | {stream.size})
    following = dict(pairwise(bounds))
    blocks = []
    for key_group, offset in starts:
        if offset >= stream.size:
            at_end = DataInput(b"", f"{context}, {stream.describe()}")
            raise at_end.corrupt(f"key group {key_group} starts after the end of the file", offset)
        blocks.append(RawBlock(key_group, offset, following[offset]))
    return blocks


def holds_timers(stream: StateStream, blocks: list[RawBlock]) -> bool:
    """Return whether raw keyed state contains Flink's timers, and not an operator's own bytes."""
    return bool(blocks) and blocks[0].end - blocks[0].offset >= 4 and bytes(stream.read(blocks[0].offset, 4)) == MAGIC


def timers_header(stream: StateStream, blocks: list[RawBlock], context: str, flink_major: int) -> state_headers.KeyedHeader:
    """Return the timer states as a header. Every block lists all services, so the smallest block is read."""
    smallest = min(blocks, key=lambda b: b.end - b.offset)
    source = block_input(stream, smallest, context, flink_major)
    states = list(read_block(source, _step_over(source)))
    key = states[0].key if states else VoidNamespaceSerializer()  # not used without states
    return state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, key.snapshot(), tuple(map(_meta_info, states)))


def _meta_info(timers: RawTimers) -> state_headers.StateMetaInfo:
    timer = TimerSerializer(timers.key, timers.namespace)
    return state_headers.StateMetaInfo(timers.name, state_headers.PRIORITY_QUEUE, {}, {state_headers.VALUE: timer.snapshot()})


def block_input(stream: StateStream, block: RawBlock, context: str, flink_major: int) -> DataInput:
    """Return the input of a block. Offsets in errors count from its start."""
    location = f"{context}, {stream.describe()}, key group {block.key_group} at offset {block.offset}"
    return DataInput(stream.read(block.offset, block.end - block.offset), location, flink_major=flink_major)


def read_block(source: DataInput, step: Callable[[RawTimers], int]) -> list[RawTimers]:
    """Read the timers of a block by state.

    ``step``: function that returns the position after the timers of a state; timers don't have lengths.
    """
    start = source.position
    if source.read_bytes(4) != MAGIC:
        raise UnsupportedFormatError(f"{source.source}, offset {start}: timers without a version, from Flink 1.3 or older")
    version = source.read_int()
    RAW_TIMERS.check(version, source.source, start + 4, source.flink_major)
    timers_by_state = []
    for _ in range(source.read_count("timer services", 10)):
        service = source.read_utf()
        key = read_versioned_snapshot(source).restore_serializer()
        namespace = read_versioned_snapshot(source).restore_serializer()
        for prefix in (EVENT_PREFIX, PROCESSING_PREFIX):
            count = source.read_count("timers", TIMESTAMP_BYTES)
            timers = RawTimers(prefix + service, key, namespace, source.position, count)
            source.position = step(timers)
            timers_by_state.append(timers)
    return timers_by_state


def _step_over(source: DataInput) -> Callable[[RawTimers], int]:
    def step(timers: RawTimers) -> int:
        for _ in range(timers.count):
            timers.key.skip(source)
            timers.namespace.skip(source)
            source.skip(TIMESTAMP_BYTES, "timestamp")
        return source.position

    return step


class RawTimersSource(KeyedStateSource):
    """Timers in raw keyed state.

    ``stream`` and ``blocks``: the bytes, and the position of each key group. ``context``: operator and subtask, for messages.
    ``flink_major``: the major version of the Flink that wrote the timers.
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
        yield UnframedRun(state, self._context_of(state.name), _layout, self.sections(state.name, key_groups), keys)

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Section]:
        """Yield the positions of the timers of a state in each key group."""
        context = self._context_of(name)
        for block in self._blocks:
            if block.key_group in key_groups:
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

    def _context_of(self, name: str) -> str:
        return f"{self.context}, state {name!r}, {self._stream.describe()}"


def _layout(state: KeyedDescription, columns: FieldSelection) -> RowLayout:
    """Build the layout of a raw timer: unlike other timers, it starts with the key."""
    timestamp = Field(layouts.TIMESTAMP, NumberSerializer("LONG"))
    fields = (Field(layouts.KEY, state.key), Field(layouts.NAMESPACE, state.namespace), timestamp)
    return RowLayout((RowPart(None, fields, (0, 1)),), columns)
