"""The interface of keyed state sources, which each backend format implements, and the runs of entries that they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.field_selection import FieldSelection
from state_processor.backends.formats.key_index import KeyIndex, SerializedKeys
from state_processor.backends.formats.row_layout import LayoutOf, RowLayout, around_key, framed_layout
from state_processor.backends.formats.row_spans import RowSpans
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import AS_WRITTEN, ColumnTypes, evolved
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.backends.state.state_headers import read_header
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError

Entries = npt.NDArray[np.int64]
Buffer = npt.NDArray[np.uint8]
Block = tuple[Buffer, int | None, Entries]
"""Bytes, their offset in the file (``None`` without a file), and the entries in the form of :mod:`framing`."""
Guide = Callable[[int], tuple[Buffer, Entries] | None]
"""Function that returns the known bytes and entries of a key group, if any."""


@dataclass(frozen=True, slots=True)
class Section:
    """The entries of one state in one key group, without lengths: from ``position`` to ``end`` of ``buffer``."""

    buffer: Buffer
    base: int
    position: int
    end: int
    count: int
    key_group: int


@dataclass(frozen=True, slots=True)
class FramedRun:
    """Entries with lengths around key and value, as in canonical files and RocksDB."""

    state: KeyedDescription  # the state as registered by the source of these entries
    context: str  # operator, subtask, state and file, for messages
    blocks: Iterator[Block]  # the entries; they can be iterated over once

    def layout(self, state: KeyedDescription, columns: FieldSelection) -> RowLayout:
        """Build the layout of an entry."""
        return framed_layout(state, columns)

    def of_keys(self, keys: SerializedKeys | None) -> Self:
        """Return the run with the entries of some keys only, or of all."""
        if keys is None:
            return self
        index = KeyIndex(keys, *around_key(self.layout(self.state, frozenset())))
        blocks = ((buffer, base, index.keep(buffer, entries)) for buffer, base, entries in self.blocks)
        return replace(self, blocks=blocks)

    def decode(self, state: KeyedDescription, columns: FieldSelection, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns, read with the serializers of ``state``."""
        return decode_framed(self.layout(state, columns), options, self.context, self.blocks)

    def count(self) -> int:
        """Count the entries, without reading values."""
        return entry_count(self.blocks)


@dataclass(frozen=True, slots=True)
class UnframedRun:
    """Entries without lengths, as in heap files and in raw state.

    ``state`` and ``context``: as for :class:`FramedRun`.
    """

    state: KeyedDescription
    context: str
    layout: LayoutOf  # builds the layout of an entry
    sections: Iterator[Section]  # the entries; they can be iterated over once
    keys: SerializedKeys | None = None  # the keys to decode; ``None`` decodes all

    def decode(self, state: KeyedDescription, columns: FieldSelection, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns, read with the serializers of ``state``."""
        if self.keys is not None:
            yield from BoundedRun(self.state, self.context, self.layout, self._blocks(self.keys)).decode(state, columns, options)
            return
        layout = self.layout(state, columns)
        decoder = layout.decoder(options)
        for section in self.sections:
            locator = EntryLocator(self.context, layout, section.buffer, section.base)
            yield from decoder.rows(section.buffer, section.position, section.count, locator, section.key_group)
            if section.count and decoder.position != section.end:
                raise self._early_end(section, decoder.position)
        yield from decoder.finish()

    def bounded(self, guide: Guide | None = None) -> Iterator[Block]:
        """Yield the entries like framed ones: the identity and the value of each. A whole timer is an identity.

        A block is valid until the next block.

        ``guide``: function that returns mostly equal entries of a key group, from a run with the same types and layout. Ends of
        equal entries are taken from them.
        """
        whole = self.state.is_timer
        spans = RowSpans(self.layout(self.state, frozenset()))
        for section in self.sections:
            row, count = spans.fixed, section.count
            if row is not None and section.position + count * row.size == section.end:
                entries = spans.of_fixed(row, section.position, count, section.key_group, whole)
            elif guide is not None and not whole and (guide_rows := guide(section.key_group)) is not None:
                entries = self._along(spans, section, guide_rows)
            else:
                entries = spans.in_parts(self._rows(spans, section), whole)
            yield section.buffer, section.base, entries

    def _blocks(self, keys: SerializedKeys) -> Iterator[Block]:
        """Yield the entries of some keys as one part each; skip other entries."""
        spans = RowSpans(self.layout(self.state, frozenset()))
        index = KeyIndex(keys, tail=0)
        for section in self.sections:
            row, count = spans.fixed, section.count
            if row is not None and section.position + count * row.size == section.end:
                entries = index.keep_rows(section.buffer, section.position, count, row, section.key_group)
            else:
                entries = index.keep(section.buffer, self._rows(spans, section), part=1)
            yield section.buffer, section.base, entries

    def _rows(self, spans: RowSpans, section: Section) -> Entries:
        """Skip the rows of a section."""
        locator = EntryLocator(self.context, spans.layout, section.buffer, section.base)
        entries = spans.of(section.buffer, section.position, section.count, locator, section.key_group)
        if section.count and entries[-1, 1] != section.end:
            raise self._early_end(section, int(entries[-1, 1]))
        return entries

    def _along(self, spans: RowSpans, section: Section, guide: tuple[Buffer, Entries]) -> Entries:
        """Find the rows of a section along the rows of a guide."""
        locator = EntryLocator(self.context, spans.layout, section.buffer, section.base)
        bounds = section.position, section.end
        entries = spans.along(section.buffer, bounds, section.count, locator, section.key_group, guide)
        if section.count and entries[-1, 3] != section.end:
            raise self._early_end(section, int(entries[-1, 3]))
        return entries

    def _early_end(self, section: Section, end: int) -> CorruptSnapshotError:
        return CorruptSnapshotError(
            f"{self.context}, key group {section.key_group}: its last entry ends at offset "
            f"{section.base + end}, the key group at {section.base + section.end}"
        )

    def count(self) -> int:
        """Count the entries, without reading values."""
        return sum(section.count for section in self.sections)


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """Entries without lengths whose bounds are known.

    ``state``, ``context`` and ``layout``: as for :class:`UnframedRun`.
    """

    state: KeyedDescription
    context: str
    layout: LayoutOf
    blocks: Iterator[Block]  # the entries, each as one part; they can be iterated over once

    @classmethod
    def of_parts(cls, state: KeyedDescription, context: str, layout: LayoutOf, buffer: Buffer, entries: Entries) -> Self:
        """Return entries of two adjacent parts."""
        rows = entries.copy()
        rows[:, 1] = entries[:, 3]
        return cls(state, context, layout, iter([(buffer, None, rows)]))

    def decode(self, state: KeyedDescription, columns: FieldSelection, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns, read with the serializers of ``state``."""
        return decode_framed(self.layout(state, columns).framed(), options, self.context, self.blocks)

    def count(self) -> int:
        """Count the entries, without reading values."""
        return entry_count(self.blocks)


EntryRun = FramedRun | UnframedRun | BoundedRun


def entry_count(blocks: Iterable[Block]) -> int:
    """Return the number of entries in blocks."""
    return sum(len(entries) for _, _, entries in blocks)


def decode_framed(layout: RowLayout, options: DecodeOptions, context: str, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
    """Decode entries with lengths around key and value to the layout's columns.

    ``context`` names operator, state and file for messages; blocks without an offset name the entry instead.
    """
    decoder = layout.decoder(options)
    for buffer, base, entries in blocks:
        yield from decoder.entries(buffer, entries, EntryLocator(context, layout, buffer, base, entries))
        del buffer, entries  # before the next block is read
    yield from decoder.finish()


@dataclass(slots=True)
class EntryLocator:
    """Description of the place of an error: file offset, and key and value of the entry if they can be read."""

    context: str
    layout: RowLayout
    buffer: Buffer
    base: int | None
    entries: Entries | None = None

    def __call__(self, position: int, entry: int, row_start: int) -> str:
        place = f"{self.context}, {self._place(position, entry)}"
        parts_of_row: dict[str, object] = {}
        everything = RowLayout(self.layout.parts, frozenset(field.name for field in self.layout.fields if field.name))
        source = DataInput(self.buffer.data, "", row_start)
        try:
            for part in everything.parts:
                if part.slot is not None and self.entries is not None:
                    begin, end = self.entries[entry, 2 * part.slot : 2 * part.slot + 2].tolist()
                    source = DataInput(self.buffer.data, "", begin, end)
                everything.read(source, part, parts_of_row, DecodeOptions(nanos="string"))
        except Exception:  # this damage is being reported: show the values that were read so far
            pass
        texts = [f"{name} {_short(parts_of_row[name])}" for name in ("key", "value", "map_value") if name in parts_of_row]
        return ", ".join([place, *texts])

    def _place(self, position: int, entry: int) -> str:
        if self.base is not None or self.entries is None:
            return f"offset {(self.base or 0) + position}"
        begin, end = self.entries[entry, :2].tolist()
        return f"entry {_short(bytes(self.buffer[begin:end]).hex())}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def view(data: memoryview | bytes) -> Buffer:
    """Return bytes as a read-only array, without a copy."""
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array


class KeyRange(NamedTuple):
    """Keys of a store from ``lower`` to before ``upper``, with their key groups in front, and the bytes of their entries."""

    lower: bytes
    upper: bytes
    size: int


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A request to read one state of one handle."""

    name: str
    columns: FieldSelection  # the columns to decode; a mapping of names to fields decodes these fields only
    options: DecodeOptions  # representation of values
    key_groups: h.KeyGroupRange
    keys: SerializedKeys | None = None  # the keys to read; ``None`` reads all
    types: ColumnTypes = AS_WRITTEN  # types of columns that differ from the written types
    # whether a large list may be split into several rows with a part of its elements each; see
    # :data:`~state_processor.backends.formats.row_shapes.FIRST_INDEX`
    in_pieces: bool = False
    between: KeyRange | None = None  # a part of the key groups, of a store; ``None`` reads all of them. It excludes ``keys``.


class KeyedStateSource(ABC):
    """Keyed state of one handle, in any format.

    A new format implements :attr:`backend` and :meth:`_runs`; its opener is registered in
    :mod:`~state_processor.backends.formats.opening`.

    ``context``: operator and subtask, for messages.
    """

    stays_open: ClassVar[bool] = False
    """Whether one open source serves look-ups of several threads; other sources keep what the last read has found."""

    def __init__(self, header: state_headers.KeyedHeader, context: str) -> None:
        self.header = header
        self.context = context

    @property
    @abstractmethod
    def backend(self) -> str:
        """Name of the backend or format in tables about a snapshot."""

    @abstractmethod
    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        """Yield the entries of a state; with ``keys``, only the entries of these keys."""

    def key_ranges(self, name: str, most_bytes: int) -> list[KeyRange]:
        """Return ranges of the keys of a state, each with at most about ``most_bytes``; none if the format can't seek to keys."""
        return []

    def describe(self, name: str) -> KeyedDescription | None:
        """Return the description of a state from the header; ``None`` if the header does not have it."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id])

    def runs(self, name: str, key_groups: h.KeyGroupRange, keys: SerializedKeys | None = None) -> Iterator[EntryRun]:
        """Yield the entries of a state in these key groups as runs with one layout each; nothing for an unknown state."""
        state = self.describe(name)
        if state is not None:
            yield from self._runs(state, key_groups, keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as columns."""
        for run in self.runs(request.name, request.key_groups, request.keys):
            yield from run.decode(evolved(run.state, request.types), request.columns, request.options)

    def count(self, name: str, key_groups: h.KeyGroupRange, between: KeyRange | None = None) -> int:
        """Count the entries of a state, of all keys or of those ``between``, without reading values if possible."""
        return sum(run.count() for run in self.runs(name, key_groups))


def read_keyed_header(snapshot: Snapshot, data: bytes | memoryview, context: str) -> state_headers.KeyedHeader:
    """Read the header of keyed state from all of ``data``."""
    return read_header(_read_whole, data, context, snapshot.flink_major)


def _read_whole(source: DataInput) -> state_headers.KeyedHeader:
    header = state_headers.KeyedHeader.read(source)
    if not source.at_end():
        raise source.corrupt(f"the header of {len(header.states)} states ends here, but {source.remaining} bytes are left")
    return header
