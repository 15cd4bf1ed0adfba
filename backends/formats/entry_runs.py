"""Runs of entries, as sources of keyed state give them: with lengths around key and value, or without any.

Both kinds of a run are decoded into columns; entries with lengths can be copied besides, without a serializer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats import framing
from state_processor.backends.formats.entry_layouts import LayoutOf, framed_layout
from state_processor.backends.formats.row_layout import RowLayout
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import CorruptSnapshotError
from state_processor.serializers.io import DataInput

Entries = npt.NDArray[np.int64]
Buffer = npt.NDArray[np.uint8]
Block = tuple[Buffer, int | None, Entries]
"""Bytes, where in the file they begin (``None`` without a file), and the entries in them as :mod:`framing` indexes them."""


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
    """Entries with lengths around key and value, as in canonical files and RocksDB.

    Parameters
    ----------
    state
        The state as the source of these entries registers it.
    where
        Operator, subtask, state and file, for messages.
    blocks
        The entries; they can be iterated over once.
    """

    state: KeyedDescription
    where: str
    blocks: Iterator[Block]

    def layout(self, state: KeyedDescription, columns: frozenset[str]) -> RowLayout:
        """Build the layout of an entry."""
        return framed_layout(state, columns)

    def decode(self, state: KeyedDescription, columns: frozenset[str], options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns, read with the serializers of ``state``."""
        return decode_framed(self.layout(state, columns), options, self.where, self.blocks)

    def count(self) -> int:
        """Count the entries, of which no value is read."""
        return sum(len(entries) for _, _, entries in self.blocks)


@dataclass(frozen=True, slots=True)
class UnframedRun:
    """Entries without lengths, as in heap files and in raw state.

    Parameters
    ----------
    state, where
        As for :class:`FramedRun`.
    layout
        Builds the layout of an entry.
    sections
        The entries; they can be iterated over once.
    """

    state: KeyedDescription
    where: str
    layout: LayoutOf
    sections: Iterator[Section]

    def decode(self, state: KeyedDescription, columns: frozenset[str], options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns, read with the serializers of ``state``.

        Raises
        ------
        CorruptSnapshotError
            If the entries of a key group do not end where it ends.
        """
        layout = self.layout(state, columns)
        decoder = layout.decoder(options)
        for section in self.sections:
            locator = EntryLocator(self.where, layout, section.buffer, section.base)
            yield from decoder.rows(section.buffer, section.position, section.count, locator, section.key_group)
            if section.count and decoder.position != section.end:
                raise CorruptSnapshotError(
                    f"{self.where}, key group {section.key_group}: its last entry ends at offset "
                    f"{section.base + decoder.position}, the key group at {section.base + section.end}"
                )
        yield from decoder.finish()

    def count(self) -> int:
        """Count the entries, of which no value is read."""
        return sum(section.count for section in self.sections)


EntryRun = FramedRun | UnframedRun


def decode_framed(layout: RowLayout, options: DecodeOptions, context: str, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
    """Decode entries with lengths around key and value to the layout's columns.

    ``context`` names operator, state and file for messages; blocks without an offset name the entry instead.
    """
    decoder = layout.decoder(options)
    for buffer, base, entries in blocks:
        yield from decoder.entries(buffer, entries, EntryLocator(context, layout, buffer, base, entries))
    yield from decoder.finish()


def with_keys(blocks: Iterator[Block], keys: Sequence[bytes] | None) -> Iterator[Block]:
    """Yield blocks with the entries that have one of the serialized keys; all entries if ``keys`` is ``None``."""
    if keys is None:
        yield from blocks
        return
    wanted = KeyIndex(keys)
    for buffer, base, entries in blocks:
        yield buffer, base, wanted.keep(buffer, entries)


class KeyIndex:
    """Serialized keys that are looked for in entries."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        distinct = tuple(dict.fromkeys(keys))
        sizes = [len(key) for key in distinct]
        self._keys, self._bounds = view(b"".join(distinct) or b"\0"), np.cumsum([0, *sizes])
        self._slots = np.zeros(4 << len(distinct).bit_length(), dtype=np.int32)
        self._lengths = np.isin(np.arange(max(sizes, default=0) + 1), sizes)
        framing.index_keys(self._keys, self._bounds, self._slots)

    def keep(self, buffer: Buffer, entries: Entries) -> Entries:
        """Return the entries that start with one of the keys, which are moved to the front."""
        kept = framing.keep_keys(buffer, entries, len(entries), self._keys, self._bounds, self._slots, self._lengths)
        return entries[:kept]


@dataclass(slots=True)
class EntryLocator:
    """Description of the place of an error: file offset, and the key and value of the entry where they can be read."""

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
    """Return bytes as a read-only array, without a copy."""
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array
