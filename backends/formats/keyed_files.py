"""Reading keyed state from one handle: canonical and heap files.

Flink: ``FullSnapshotRestoreOperation``, ``HeapRestoreOperation``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files import snappy
from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats import framing
from state_processor.backends.formats.row_layout import RowDecoder, RowLayout
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import RecentReads, StateStream
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import WantedTypes, evolved
from state_processor.backends.state.descriptions import StateDescription, describe_keyed
from state_processor.serializers.core.opaque import reason_end_unknown
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import CorruptSnapshotError, UnknownSerializerError, UnsupportedFormatError
from state_processor.serializers.io import DataInput

_WINDOW: Final = 4 << 20
_TABLE_ROWS: Final = 1 << 16
_NO_STATE: Final = -2
_ONE_BYTE_PREFIX: Final = 128
"""Max parallelism up to which a key group takes one byte in front of a key, else two."""
_FRAMING_PROBLEMS: Final = {
    framing.MORE_INPUT: "the last entry is cut off",
    framing.BAD_LENGTH: "the length of a key or value leads out of the file",
    framing.BAD_STATE: "the number of a state that the header does not register",
    framing.BAD_KEY_GROUP: "an entry of another key group",
    framing.BAD_END: "the key group does not end where the next one begins",
}

Entries = npt.NDArray[np.int64]
Buffer = npt.NDArray[np.uint8]
Block = tuple[Buffer, int | None, Entries]
"""Bytes, where in the file they begin (``None`` without a file), and the entries in them as :mod:`framing` indexes them."""


def prefix_size(max_parallelism: int) -> int:
    """Bytes of the key group in front of a key (Flink: ``computeRequiredBytesInKeyGroupPrefix``)."""
    return 1 if max_parallelism <= _ONE_BYTE_PREFIX else 2


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to read of one state of one handle.

    Parameters
    ----------
    name
        The state.
    columns
        Of the layout's columns, those that are wanted.
    options
        How values are represented.
    key_groups
        The key groups to read.
    keys
        Serialized keys to keep; ``None`` keeps all. Formats without lengths ignore it: filter on the key's bytes.
    types
        The types that columns are wanted in, where not in those that were written.
    """

    name: str
    columns: frozenset[str]
    options: DecodeOptions
    key_groups: h.KeyGroupRange
    keys: tuple[bytes, ...] | None = None
    types: WantedTypes = ()


class KeyedStateSource(Protocol):
    """Keyed state of one handle, whatever its format."""

    header: mi.KeyedHeader

    def describe(self, name: str) -> StateDescription | None:
        """A state as this handle's header registers it; ``None`` where it does not."""

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """How an entry of a state is put together here."""

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Entries of a state as the layout's columns."""


@dataclass(slots=True)
class EntryLocator:
    """Finds words for the place of an error: file offset, and the key and value of the row where they can be read."""

    context: str
    layout: RowLayout
    buffer: Buffer
    base: int | None
    entries: Entries | None = None

    def __call__(self, position: int, entry: int, row_start: int) -> str:
        where = f"{self.context}, {self._place(position, entry)}"
        shown: dict[str, object] = {}
        everything = RowLayout(self.layout.parts, frozenset(f.name for p in self.layout.parts for f in p.fields if f.name))
        source = DataInput(self.buffer.data, "", row_start)
        try:
            for part in everything.parts:
                if part.slot is not None and self.entries is not None:
                    begin, end = self.entries[entry, 2 * part.slot : 2 * part.slot + 2].tolist()
                    source = DataInput(self.buffer.data, "", begin, end)
                everything.read(source, part, shown, DecodeOptions(nanos="string"))
        except Exception:  # the very damage that is reported: what was read so far is shown
            pass
        known = [f"{name} {_short(shown[name])}" for name in ("key", "value", "map_value") if name in shown]
        return ", ".join([where, *known])

    def _place(self, position: int, entry: int) -> str:
        if self.base is not None or self.entries is None:
            return f"offset {(self.base or 0) + position}"
        begin, end = self.entries[entry, :2].tolist()
        return f"entry {_short(bytes(self.buffer[begin:end]).hex())}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def view(data: memoryview | bytes) -> Buffer:
    """Bytes as a read-only array, without a copy."""
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array


class _KeyGroupsSource:
    """What canonical and heap files share: a header, then a block per key group at the offsets of the handle."""

    def __init__(self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: mi.KeyedHeader, context: str) -> None:
        self.stream = stream
        self.handle = handle
        self.header = header
        self.context = context
        offsets = np.unique(handle.offsets.to_numpy())
        self._bounds = np.append(offsets[offsets > 0], stream.size)

    def describe(self, name: str) -> StateDescription | None:
        """See :class:`KeyedStateSource`."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id])

    def _blocks(self, key_groups: h.KeyGroupRange) -> list[tuple[int, int, int]]:
        """Offset, end and key group of each block that is not empty, in file order."""
        wanted = self.handle.key_groups.intersect(key_groups)
        blocks = []
        for key_group in wanted:
            offset = self.handle.offset_of(key_group)
            if offset <= 0:
                continue
            if offset >= self.stream.size:
                raise CorruptSnapshotError(f"{self._where(offset)}: key group {key_group} starts behind the end of the file")
            end = int(self._bounds[np.searchsorted(self._bounds, offset, side="right")])
            blocks.append((offset, end, key_group))
        return sorted(blocks)

    def _where(self, offset: int) -> str:
        return f"{self.context}, {self.stream.describe()}, offset {offset}"


class CanonicalSource(_KeyGroupsSource):
    """The canonical format, which all backends write and read (Flink: ``FullSnapshotAsyncWriter``)."""

    def __init__(
        self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: mi.KeyedHeader, context: str, max_parallelism: int
    ) -> None:
        super().__init__(stream, handle, header, context)
        self._prefix = prefix_size(max_parallelism)
        self._recent = RecentReads(stream)

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`KeyedStateSource`."""
        return layouts.framed_layout(state, columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(evolved(state, request.types), request.columns)
        context = f"{self.context}, state {request.name!r}, {self.stream.describe()}"
        blocks = self.blocks(request.name, request.key_groups)
        keys = None if state.is_timer else request.keys  # a timer starts with its time
        yield from decode_framed(layout, request.options, context, _with_keys(blocks, keys))

    def blocks(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        """Framed entries of a state."""
        yield from self._entries(self.header.state_id(name), key_groups)

    def is_well_formed(self, key_groups: h.KeyGroupRange) -> bool:
        """Whether the framing leads from the begin of each block exactly to its end."""
        try:
            for offset, end, key_group in self._blocks(key_groups):
                for _ in self._walk(_NO_STATE, [(offset, end, key_group)], self.stream):
                    pass
        except CorruptSnapshotError:
            return False
        return True

    def _entries(self, state_id: int, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        blocks = self._blocks(key_groups)
        if self.header.compressed:
            for offset, end, key_group in blocks:
                plain = snappy.decompress(self._recent.read(offset, end - offset), self._where(offset))
                for buffer, base, entries in self._walk(state_id, [(0, len(plain), key_group)], _Plain(plain), offset):
                    yield buffer, offset + base, entries
        else:
            for stretch in _stretches(blocks):
                yield from self._walk(state_id, stretch, self._recent)

    def _walk(
        self, state_id: int, blocks: Sequence[tuple[int, int, int]], source: StateStream | RecentReads | _Plain, origin: int = 0
    ) -> Iterator[tuple[Buffer, int, Entries]]:
        """Index adjacent blocks window by window; ``origin`` is added to offsets in messages."""
        bounds = np.array(blocks, dtype=np.int64)
        end, states = blocks[-1][1], len(self.header.states)
        walk = framing.new_walk()
        walk[framing.POSITION] = blocks[0][0]
        size = _WINDOW
        while True:
            base = int(walk[framing.POSITION])
            buffer = view(source.read(base, min(size, end - base)))
            status = framing.TABLE_FULL
            while status == framing.TABLE_FULL:
                table = np.empty((_TABLE_ROWS, framing.ENTRY_FIELDS), dtype=np.int64)
                framing.index_canonical(buffer, base, end, bounds, states, state_id, self._prefix, walk, table)
                status = int(walk[framing.STATUS])
                if walk[framing.FOUND]:
                    yield buffer, base, table[: walk[framing.FOUND]]
            if status == framing.DONE:
                return
            if status != framing.MORE_INPUT or base + len(buffer) >= end:
                key_group = int(bounds[walk[framing.BLOCK], 2])
                where = self._where(origin + int(walk[framing.POSITION]))
                raise CorruptSnapshotError(f"{where}, key group {key_group}: {_FRAMING_PROBLEMS[status]}")
            size = max(_WINDOW, int(walk[framing.NEEDED]))


class _Plain:
    """Bytes in memory, read like a stream."""

    def __init__(self, data: Buffer) -> None:
        self._data = data.data

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        return self._data[offset : offset + length]


def _stretches(blocks: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """Runs of blocks without a gap: they are read together, and nothing between runs is."""
    run: list[tuple[int, int, int]] = []
    for block in blocks:
        if run and run[-1][1] != block[0]:
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def decode_framed(layout: RowLayout, options: DecodeOptions, context: str, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
    """Entries with lengths around key and value as the layout's columns.

    ``context`` names operator, state and file for messages; blocks without an offset name the entry instead.
    """
    decoder = layout.decoder(options)
    for buffer, base, entries in blocks:
        yield from decoder.entries(buffer, entries, EntryLocator(context, layout, buffer, base, entries))
    yield from decoder.finish()


def _with_keys(blocks: Iterator[Block], keys: tuple[bytes, ...] | None) -> Iterator[Block]:
    """Of each block the entries with one of the keys."""
    if keys is None:
        yield from blocks
        return
    joined, bounds = view(b"".join(keys) or b"\0"), np.cumsum([0, *map(len, keys)])
    for buffer, base, entries in blocks:
        yield buffer, base, entries[: framing.keep_keys(buffer, entries, len(entries), joined, bounds)]


@dataclass(frozen=True, slots=True)
class Section:
    """The entries of one state in one key group of a heap file: from ``position`` to ``end`` of ``buffer``."""

    buffer: Buffer
    base: int
    position: int
    end: int
    count: int
    key_group: int


class HeapSource(_KeyGroupsSource):
    """The format of the heap backend's checkpoints and native savepoints (Flink: ``HeapSnapshotStrategy``).

    Entries have no lengths, so other states are found by stepping through all before them.
    """

    def __init__(self, stream: StateStream, handle: h.KeyGroupsStateHandle, header: mi.KeyedHeader, context: str) -> None:
        super().__init__(stream, handle, header, context)
        self._sections_of: h.KeyGroupRange | None = None
        self._sections: dict[int, list[Section]] = {}
        self._steppers: dict[int, tuple[RowLayout, RowDecoder]] = {}

    def layout(self, state: StateDescription, columns: frozenset[str]) -> RowLayout:
        """See :class:`KeyedStateSource`."""
        return layouts.heap_layout(state, columns)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """See :class:`KeyedStateSource`."""
        state = self.describe(request.name)
        if state is None:
            return
        layout = self.layout(evolved(state, request.types), request.columns)
        decoder = layout.decoder(request.options)
        context = f"{self.context}, state {request.name!r}, {self.stream.describe()}"
        for section in self.sections(request.name, request.key_groups):
            site = EntryLocator(context, layout, section.buffer, section.base)
            yield from decoder.rows(section.buffer, section.position, section.count, site, section.key_group)
            if section.count and decoder.position != section.end:
                raise CorruptSnapshotError(
                    f"{context}, key group {section.key_group}: its last entry ends at offset {section.base + decoder.position}, "
                    f"the key group at {section.base + section.end}"
                )
        yield from decoder.finish()

    def sections(self, name: str, key_groups: h.KeyGroupRange) -> list[Section]:
        """Where a state's entries lie in each key group."""
        return self._index(key_groups).get(self.header.state_id(name), [])

    def _index(self, key_groups: h.KeyGroupRange) -> dict[int, list[Section]]:
        """Where each state's entries lie in each key group; kept for the next state of the same key groups."""
        if self._sections_of != key_groups:
            self._sections, self._sections_of = {}, None
            for stretch in _stretches(self._blocks(key_groups)):
                begin = stretch[0][0]
                data = self.stream.read(begin, stretch[-1][1] - begin)
                for offset, end, key_group in stretch:
                    self._index_block(data[offset - begin : end - begin], offset, key_group)
            self._sections_of = key_groups
        return self._sections

    def _index_block(self, block: memoryview, offset: int, key_group: int) -> None:
        written = DataInput(block, self._where(offset)).read_int()
        if written != key_group:
            raise CorruptSnapshotError(f"{self._where(offset)}: key group {key_group} expected, found {written}")
        where, body = f"{self._where(offset + 4)}, key group {key_group}", block[4:]
        buffer = snappy.decompress(body, where) if self.header.compressed else view(body)
        source = DataInput(buffer.data, where)
        count = 0
        left = set(range(len(self.header.states)))
        while left:
            begin = source.position
            state_id, count = source.read_unsigned_short(), source.read_int()
            if state_id not in left or count < 0:
                raise source.corrupt(f"{count} entries of state number {state_id} are impossible here", begin)
            left.remove(state_id)
            section = Section(buffer, offset + 4, source.position, len(buffer), count, key_group)
            if count and left:
                source.position = self._step_over(state_id, section)
                section = replace(section, end=source.position)
            self._sections.setdefault(state_id, []).append(section)
        if not count and not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over behind the last state")

    def _step_over(self, state_id: int, section: Section) -> int:
        if state_id not in self._steppers:
            layout = self.layout(self._described(state_id), frozenset())
            self._steppers[state_id] = layout, layout.decoder(DecodeOptions())
        layout, decoder = self._steppers[state_id]
        context = f"{self.context}, state {self.header.states[state_id].name!r}, {self.stream.describe()}"
        site = EntryLocator(context, layout, section.buffer, section.base)
        for _ in decoder.rows(section.buffer, section.position, section.count, site):
            pass  # batches without columns: only the position after the rows counts
        return decoder.position

    def _described(self, state_id: int) -> StateDescription:
        """A state that has to be stepped over."""
        meta = self.header.states[state_id]
        try:
            state = describe_keyed(self.header, meta)
            reason = reason_end_unknown(state.value) if state.value is not None else ""
        except UnknownSerializerError as problem:
            reason = str(problem)
        if reason:
            raise UnsupportedFormatError(
                f"{self.context}, {self.stream.describe()}: the entries of state {meta.name!r} come first, have no lengths here, "
                f"and can't be stepped over. Take a savepoint in the canonical format, or: {reason}"
            )
        return state


def open_key_groups(
    stream: StateStream, handle: h.KeyGroupsStateHandle, header: mi.KeyedHeader, context: str, max_parallelism: int
) -> KeyedStateSource:
    """The source of a handle whose body is canonical or heap.

    Codes 3 and 12 do not tell: a heap body has the key group's number at every offset and no offset 0.
    """
    canonical = CanonicalSource(stream, handle, header, context, max_parallelism)
    if handle.is_savepoint or not _looks_like_heap(stream, handle, canonical):
        return canonical
    return HeapSource(stream, handle, header, context)


def _looks_like_heap(stream: StateStream, handle: h.KeyGroupsStateHandle, canonical: CanonicalSource) -> bool:
    offsets = handle.offsets.to_numpy()
    if not len(offsets) or offsets.min() <= 0 or offsets[0] + 6 > stream.size:
        return False
    first = handle.key_groups.start
    start = stream.read(int(offsets[0]), 6)
    if int.from_bytes(start[:4], "big") != first:
        return False
    # The number of a small key group may as well be state id 0 and the upper half of a large key's length.
    key_size = int.from_bytes(start[2:], "big")
    may_be_key = 0 < key_size < stream.size - offsets[0]
    return not (may_be_key and canonical.is_well_formed(h.KeyGroupRange(first, first)))
