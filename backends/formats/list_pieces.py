"""Large lists of framed entries, decoded in pieces: a list is never completely in memory, neither as bytes nor as elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.entry_layouts import VALUE
from state_processor.backends.formats.entry_runs import Block, Buffer, EntryLocator, view
from state_processor.backends.formats.row_layout import RowDecoder, RowLayout
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import NotCompilableError
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.locks import cached_property

FIRST_INDEX: Final = b"first_index"
"""Metadata of a batch with a piece of a list: the index of its first element."""
_LENGTH: Final = 4
"""Bytes of the length between the key and the value of an entry."""


@dataclass(frozen=True, slots=True)
class LargeEntry:
    """An entry with an unread value.

    Parameters
    ----------
    read
        Function that returns a number of bytes from an offset.
    origin
        Value that is added to offsets in messages.
    key, value, end
        Offsets of the start of the key, the start of the value and the end of the value.
    key_group
        The key group.
    """

    read: Callable[[int, int], memoryview]
    origin: int
    key: int
    value: int
    end: int
    key_group: int

    def whole(self) -> Block:
        """Return the entry."""
        return self.block(view(self.read(self.key, self.end - self.key)), self.value)

    def block(self, buffer: Buffer, begin: int) -> Block:
        """Return the bytes of an entry: the bytes before the value, and the bytes of the value from ``begin``."""
        head = self.value - self.key
        entries = np.array([[0, head - _LENGTH, head, len(buffer), self.key_group]], dtype=np.int64)
        return buffer, self.origin + begin - head, entries


class ListPieces:
    """Decoder of the entries of a list state. A large list becomes several rows with a part of its elements each.

    Parameters
    ----------
    element
        The serializer of elements.
    layout, options, where
        As for :func:`~state_processor.backends.formats.entry_runs.decode_framed`.
    size
        Bytes of a list to decode at a time.
    """

    def __init__(self, element: TypeSerializer, layout: RowLayout, options: DecodeOptions, context: str, size: int) -> None:
        self._element = element
        self._layout = layout
        self._options = options
        self._where = context
        self._size = size

    def decode(self, parts: Iterator[Block | LargeEntry]) -> Iterator[pa.RecordBatch]:
        """Yield the entries as columns. The batch of a piece has the index of its first element in :data:`FIRST_INDEX`."""
        decoder = self._layout.decoder(self._options)
        for part in parts:
            if not isinstance(part, LargeEntry):
                yield from self._rows(decoder, part)
            elif self._kernels is None:
                yield from self._rows(decoder, part.whole())
            else:
                yield from decoder.finish()
                yield from self._decode_large(part, *self._kernels)
        yield from decoder.finish()

    def _rows(self, decoder: RowDecoder, block: Block) -> Iterator[pa.RecordBatch]:
        buffer, base, entries = block
        return decoder.entries(buffer, entries, EntryLocator(self._where, self._layout, buffer, base, entries))

    def _decode_large(self, entry: LargeEntry, stepper: ColumnDecoder, decoder: ColumnDecoder) -> Iterator[pa.RecordBatch]:
        head = view(entry.read(entry.key, entry.value - entry.key))
        begin, first, size = entry.value, 0, self._size
        while begin < entry.end:
            piece = view(entry.read(begin, min(size, entry.end - begin)))
            if begin + len(piece) < entry.end:
                whole = stepper.end_of_whole_rows(piece)
                if not whole:  # an element is larger, or damaged; decoding the rest detects damage
                    size *= 2
                    continue
                piece = piece[: whole - 1]  # without the comma
            for batch in self._rows(decoder, entry.block(np.concatenate((head, piece)), begin)):
                yield batch.replace_schema_metadata({FIRST_INDEX: str(first)})
                first += len(batch.column(VALUE).values)
            begin, size = begin + len(piece) + 1, self._size

    @cached_property
    def _kernels(self) -> tuple[ColumnDecoder, ColumnDecoder] | None:
        """Return a kernel that skips elements with their commas, and a kernel for single rows; ``None`` if Python decodes."""
        builder = DecodeBuilder(pa.schema([]), DecodeOptions())
        try:
            self._element.emit_decode(builder, builder.column(None))
            row = self._layout.compile(self._options)
        except NotCompilableError:
            return None
        builder.expect(ord(","))
        builder.op(Op.ROW_END)
        return ColumnDecoder(builder.build()), ColumnDecoder(row, batch_rows=1, memory_limit=self._options.batch_memory)
