"""The bounds of rows without lengths, and of their keys, found without decoding values."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.framing import ENTRY_FIELDS, KEY_GROUP
from state_processor.backends.formats.key_index import FixedRow
from state_processor.backends.formats.row_layout import RowLayout, placing_errors, row_input, size_of
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.compiler import entry_point, inlined_kernel
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder, Locate
from state_processor.serializers.kernel.decode.program import DecodeBuilder, DecodeProgram
from state_processor.serializers.kernel.memory import load_i64
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.kernel.signatures import boolean, int64, read, uint8, written
from state_processor.support.errors import NotCompilableError
from state_processor.support.locks import cached_property

GUIDE: Final = 0
"""The next row of the guide."""
ROW: Final = 1
POSITION: Final = 2

_AHEAD: Final = 24


@inlined_kernel
def same_bytes(first, begin, end, second, other_begin, other_end):  # type: ignore[no-untyped-def]
    """Return whether two ranges of bytes are equal."""
    size = end - begin
    if size != other_end - other_begin:
        return False
    if size < 8:
        different = 0
        for i in range(size):
            different |= first[begin + i] ^ second[other_begin + i]
        return different == 0
    i = 0
    while i + 8 <= size:
        if load_i64(first, begin + i) != load_i64(second, other_begin + i):
            return False
        i += 8
    return load_i64(first, end - 8) == load_i64(second, other_end - 8)


@entry_point(read(uint8), read(int64, 2), read(uint8), int64, int64, written(int64), written(int64, 2))
def follow(guide, rows, buffer, end, skipped, place, entries):  # type: ignore[no-untyped-def]
    """Fill in entries of two parts for rows with the same bytes as the guide's rows, up to the first different row.

    Parameters
    ----------
    guide, rows
        Entries of two adjacent parts; each entry is a row.
    buffer, end
        Rows of the same layout, and their end.
    skipped
        Number of rows before ``place`` that differ from the guide's. The row to begin with is searched among this number of rows
        and a few more.
    place
        The next row of the guide, the next entry to fill in, and the start of its row; updated.
    entries
        Receives the entries.
    """
    first = place[GUIDE]
    row = place[ROW]
    position = place[POSITION]
    match = -1
    for ahead in range(skipped + _AHEAD):
        # First changed rows, and additional rows of the guide; then rows that the guide does not have.
        k = first + (skipped + ahead if ahead < _AHEAD else ahead - _AHEAD)
        if k >= len(rows):
            continue
        size = rows[k, 3] - rows[k, 0]
        if position + size <= end and same_bytes(guide, rows[k, 0], rows[k, 3], buffer, position, position + size):
            match = k
            break
    if match < 0:
        return
    while row < len(entries) and match < len(rows):
        begin = rows[match, 0]
        size = rows[match, 3] - begin
        if position + size > end or not same_bytes(guide, begin, begin + size, buffer, position, position + size):
            break
        entries[row, 0] = position
        entries[row, 1] = position + rows[match, 1] - begin
        entries[row, 2] = position + rows[match, 2] - begin
        entries[row, 3] = position + size
        entries[row, KEY_GROUP] = rows[match, KEY_GROUP]
        position += size
        row += 1
        match += 1
    place[GUIDE] = match
    place[ROW] = row
    place[POSITION] = position


ROW_BEGIN: Final = 0
ROW_END: Final = 1
KEY_BEGIN: Final = 2
KEY_END: Final = 3

_FEW: Final = 64
_LONG: Final = 1024
"""Minimum number of consecutive rows that justifies a call of the decoder. After fewer rows, it skips twice as many rows as
before."""


@entry_point(written(int64, 2), int64, int64, int64, int64)
def _fill(entries, position, row, identity, key_group):  # type: ignore[no-untyped-def]
    """Fill in entries of two parts for rows of one size; ``identity`` is the size of the first part."""
    for i in range(len(entries)):
        entries[i, 0] = position
        entries[i, 1] = position + identity
        entries[i, 2] = position + identity
        entries[i, 3] = position + row
        entries[i, KEY_GROUP] = key_group
        position += row


@entry_point(written(int64, 2), boolean)
def _end_identity(entries, whole):  # type: ignore[no-untyped-def]
    """Turn rows and their keys into entries of two parts. The first part ends with the key, or is the whole row."""
    for i in range(len(entries)):
        end = entries[i, ROW_END]
        identity = end if whole else entries[i, KEY_END]
        entries[i, 1] = identity
        entries[i, 2] = identity
        entries[i, 3] = end


class RowSpans:
    """Finder of rows and of their keys.

    The kernel skips rows; Python skips rows if a serializer needs it. Rows of a fixed size, :attr:`fixed`, need neither.

    ``layout``: the layout of rows. It has one part that captures the key.
    """

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout
        (part,) = layout.parts
        first, last = part.captured or (0, 0)
        self._fields = part.fields[:first], part.fields[first:last], part.fields[last:]
        self._before, self._key, behind = map(size_of, self._fields)
        is_fixed = VARIABLE not in (self._before, self._key, behind)
        self.fixed = FixedRow(self._before + self._key + behind, self._before, self._key) if is_fixed else None
        self._room = np.empty((0, ENTRY_FIELDS), dtype=np.int64)

    def of(
        self, buffer: npt.NDArray[np.uint8], position: int, count: int, locate: Locate, key_group: int
    ) -> npt.NDArray[np.int64]:
        """Return an entry for each of ``count`` rows from ``position``: the row is the first part, the key the second.

        Entries are valid until the next call.
        """
        entries = self._room_for(count)
        if count:
            self._find(buffer, position, locate, key_group, entries)
        return entries

    def along(
        self,
        buffer: npt.NDArray[np.uint8],
        bounds: tuple[int, int],
        count: int,
        locate: Locate,
        key_group: int,
        guide: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    ) -> npt.NDArray[np.int64]:
        """Return entries like :meth:`in_parts` of ``count`` rows that are mostly equal to the rows of a guide, in its order.

        ``buffer`` and ``bounds``: the rows, from the first of the bounds. ``guide``: bytes and entries of two parts, of rows with
        the same layout and key group. Rows with equal bytes are not skipped.
        """
        position, end = bounds
        entries = self._room_for(count)
        place = np.array([0, 0, position], dtype=np.int64)
        skipped, step = 0, 1
        while True:
            before = int(place[ROW])
            follow(*guide, buffer, end, skipped, place, entries)
            rows = int(place[ROW])
            if rows == count:
                return entries
            if rows > before:
                skipped = 0
            if rows - before >= _LONG:
                step = 1
            stepped = entries[rows : rows + step]
            self._find(buffer, int(place[POSITION]), locate, key_group, stepped)
            place[ROW] += len(stepped)
            place[POSITION] = stepped[-1, ROW_END]
            self.in_parts(stepped, whole=False)
            skipped += len(stepped)
            step *= 2

    def _find(
        self, buffer: npt.NDArray[np.uint8], position: int, locate: Locate, key_group: int, entries: npt.NDArray[np.int64]
    ) -> None:
        count = len(entries)
        decoder = self._decoder if count > _FEW else self._decoder_of_few
        if decoder is not None:
            self._step(decoder, buffer, position, count, locate, entries)
        else:
            self._step_in_python(buffer, position, locate, entries)
        entries[:, KEY_GROUP] = key_group
        entries[0, ROW_BEGIN] = position
        entries[1:, ROW_BEGIN] = entries[:-1, ROW_END]
        if self._before != VARIABLE:
            entries[:, KEY_BEGIN] = entries[:, ROW_BEGIN] + self._before
        if self._key != VARIABLE:
            entries[:, KEY_END] = entries[:, KEY_BEGIN] + self._key

    def of_fixed(self, row: FixedRow, position: int, count: int, key_group: int, whole: bool) -> npt.NDArray[np.int64]:
        """Return entries like :meth:`in_parts` of ``count`` rows of a fixed size."""
        entries = self._room_for(count)
        _fill(entries, position, row.size, row.size if whole else row.key_begin + row.key_size, key_group)
        return entries

    @staticmethod
    def in_parts(entries: npt.NDArray[np.int64], whole: bool) -> npt.NDArray[np.int64]:
        """Turn the result of :meth:`of` into entries of two parts: the bytes up to the end of the key, and the rest."""
        _end_identity(entries, whole)
        return entries

    def _room_for(self, count: int) -> npt.NDArray[np.int64]:
        if count > len(self._room):
            self._room = np.empty((count, ENTRY_FIELDS), dtype=np.int64)
        return self._room[:count]

    @cached_property
    def _decoder(self) -> ColumnDecoder | None:
        return ColumnDecoder(self._program) if self._program is not None else None

    @cached_property
    def _decoder_of_few(self) -> ColumnDecoder | None:
        """Return a decoder with small buffers: for a few rows, creating buffers of the usual size would dominate."""
        return ColumnDecoder(self._program, batch_rows=_FEW) if self._program is not None else None

    @cached_property
    def _program(self) -> DecodeProgram | None:
        """Return the kernel's program that finds the variable parts of rows; ``None`` if it does not exist."""
        sought = [ROW_END] + [KEY_BEGIN] * (self._before == VARIABLE) + [KEY_END] * (self._key == VARIABLE)
        builder = DecodeBuilder(pa.schema([(str(bound), pa.int64()) for bound in sorted(sought)]), DecodeOptions())
        try:
            for bound, fields in zip((KEY_BEGIN, KEY_END, ROW_END), self._fields, strict=True):
                for field in fields:
                    with builder.field(field.name or str(field.serializer)):
                        field.serializer.emit_decode(builder, builder.column(None))
                if bound in sought:
                    register = builder.register()
                    builder.op(Op.MARK, register=register)
                    builder.op(Op.REGISTER, builder.column(str(bound)), register=register)
        except NotCompilableError:
            return None
        builder.op(Op.ROW_END)
        return builder.build()

    def _step(
        self,
        decoder: ColumnDecoder,
        buffer: npt.NDArray[np.uint8],
        position: int,
        count: int,
        locate: Locate,
        entries: npt.NDArray[np.int64],
    ) -> None:
        filled = 0
        for batches in (decoder.rows(buffer, position, count, locate), decoder.finish()):
            for batch in batches:
                for i, name in enumerate(batch.schema.names):
                    entries[filled : filled + batch.num_rows, int(name)] = batch.column(i).to_numpy()
                filled += batch.num_rows

    def _step_in_python(
        self, buffer: npt.NDArray[np.uint8], position: int, locate: Locate, entries: npt.NDArray[np.int64]
    ) -> None:
        source = row_input(buffer.data, position)
        for entry in entries:
            with placing_errors(source, partial(_place, locate, source.position)):
                for bound, fields in zip((KEY_BEGIN, KEY_END, ROW_END), self._fields, strict=True):
                    for field in fields:
                        field.serializer.skip(source)
                    entry[bound] = source.position


def _place(locate: Locate, row_begin: int, position: int) -> str:
    return locate(position, -1, row_begin)
